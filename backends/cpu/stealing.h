/* stealing.h - work stealing in a predictable order. Thread t of T takes the tasks t, t + T, ... of a job, then steals
 * tasks of other threads. A thread can therefore prefetch the data of its next task, and jobs with the same tasks find
 * their data in the cache of the same core. */
#ifndef KVC_BACKENDS_CPU_STEALING_H
#define KVC_BACKENDS_CPU_STEALING_H

#include <stdatomic.h>

#include "backends/cpu/cpu.h"

struct kvc_stealing {
    /* how often a task was taken from this thread's own tasks, including attempts when none was left */
    _Alignas(64) _Atomic size_t taken;
};

/* Resets the counters. Must be called before each job. */
static inline void stealing_begin(struct kvc_cpu *cpu) {
    for (unsigned t = 0; t < kvc_threads_count(cpu->threads); t++)
        atomic_store(&cpu->stealing[t].taken, 0);
}

/* Returns a task of 0 .. tasks - 1 that no thread has taken. Must be called at most `tasks` times per job. */
static inline size_t stealing_take(struct kvc_cpu *cpu, size_t tasks, unsigned thread) {
    const unsigned count = kvc_threads_count(cpu->threads);
    for (unsigned t = thread;; t = t + 1 < count ? t + 1 : 0) {
        const size_t task = t + count * atomic_fetch_add(&cpu->stealing[t].taken, 1);
        if (task < tasks)
            return task;
    }
}

/* Returns the task that the thread will most likely take next. If there is none, the result is at least the job's
 * number of tasks. */
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

/* Runs kvc_threads_run with tasks taken in this order. `threads` is cpu->threads or NULL. */
static inline void stealing_run(struct kvc_cpu *cpu, struct kvc_threads *threads, size_t tasks, kvc_task_fn *run,
                                void *argument) {
    struct kvc_stealing_job job = {cpu, tasks, run, argument};
    stealing_begin(cpu);
    kvc_threads_run(threads, tasks, stealing_task, &job);
}

#endif
