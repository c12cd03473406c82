/* threads.h - a pool of pthreads that runs numbered tasks; used by the CPU backend. */
#ifndef KVC_CORE_BASE_THREADS_H
#define KVC_CORE_BASE_THREADS_H

#include "kvcull.h"

struct kvc_threads;
/* task is in 0..tasks-1, thread in 0..kvc_threads_count-1. Results must not depend on the thread that runs a task. */
typedef void kvc_task_fn(void *argument, size_t task, unsigned thread);

/* Starts a pool. If `count` is 0, the pool has one thread per core that this process may use. Workers start with the
 * exact floating-point environment. */
enum kvc_status kvc_threads_open(int count, struct kvc_threads **threads, struct kvc_error *error);
void kvc_threads_close(struct kvc_threads *threads);
unsigned kvc_threads_count(const struct kvc_threads *threads);
/* Runs all tasks and returns when they are done. The caller's thread runs tasks, too. If `threads` is NULL, the caller
 * runs all of them. */
void kvc_threads_run(struct kvc_threads *threads, size_t tasks, kvc_task_fn *run, void *argument);

#endif
