/* threads.h - a pool of pthreads that runs numbered tasks; used by the CPU backend. */
#ifndef KVC_CORE_BASE_THREADS_H
#define KVC_CORE_BASE_THREADS_H

#include "kvcull.h"

struct kvc_threads;
/* task in 0..tasks-1, thread in 0..kvc_threads_count-1. Which thread runs a task must not change a result. */
typedef void kvc_task_fn(void *argument, size_t task, unsigned thread);

/* count 0: one per core this process may use. Workers start with the exact floating-point environment. */
enum kvc_status kvc_threads_open(int count, struct kvc_threads **threads, struct kvc_error *error);
void kvc_threads_close(struct kvc_threads *threads);
unsigned kvc_threads_count(const struct kvc_threads *threads);
/* Runs all tasks and returns when they are done; the caller works too. threads NULL: runs them here. */
void kvc_threads_run(struct kvc_threads *threads, size_t tasks, kvc_task_fn *run, void *argument);

#endif
