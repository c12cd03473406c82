/* stealing.h - tasks of a job that a thread knows beforehand: thread t of T takes t, t + T, ..., then steals tasks of
 * others. What it needs next can be prefetched while it works, and jobs with the same tasks find their data in its
 * core's cache. */
#ifndef KVC_BACKENDS_CPU_STEALING_H
#define KVC_BACKENDS_CPU_STEALING_H

#include <stdatomic.h>

#include "backends/cpu/cpu.h"

struct kvc_stealing {
    _Alignas(
        64) _Atomic size_t taken; /* of a thread's own tasks; counted beyond them by threads that found none left */
};

/* Before a job, by its caller. */
static inline void stealing_begin(struct kvc_cpu *cpu) {
    for (unsigned t = 0; t < kvc_threads_count(cpu->threads); t++)
        atomic_store(&cpu->stealing[t].taken, 0);
}

/* A task of 0 .. tasks - 1 that nobody has taken. No more calls than tasks. */
static inline size_t stealing_take(struct kvc_cpu *cpu, size_t tasks, unsigned thread) {
    const unsigned count = kvc_threads_count(cpu->threads);
    for (unsigned t = thread;; t = t + 1 < count ? t + 1 : 0) {
        const size_t task = t + count * atomic_fetch_add(&cpu->stealing[t].taken, 1);
        if (task < tasks)
            return task;
    }
}

/* The task that the thread will most likely take next; not below `tasks`: none. */
static inline size_t stealing_next(struct kvc_cpu *cpu, unsigned thread) {
    return thread + kvc_threads_count(cpu->threads) * atomic_load(&cpu->stealing[thread].taken);
}

struct kvc_stealing_job {
    struct kvc_cpu *cpu;
    size_t tasks;
    kvc_task_fn *run;
    void *argument;
};

static inline void stealing_task(void *argument, size_t ticket, unsigned thread) {
    const struct kvc_stealing_job *job = argument;
    (void)ticket;
    job->run(job->argument, stealing_take(job->cpu, job->tasks, thread), thread);
}

/* kvc_threads_run, with tasks taken in that order. threads: cpu->threads, or NULL. */
static inline void stealing_run(struct kvc_cpu *cpu, struct kvc_threads *threads, size_t tasks, kvc_task_fn *run,
                                void *argument) {
    struct kvc_stealing_job job = {cpu, tasks, run, argument};
    stealing_begin(cpu);
    kvc_threads_run(threads, tasks, stealing_task, &job);
}

#endif
