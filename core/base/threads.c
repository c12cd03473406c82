/* threads.c - a pool of pthreads that runs numbered tasks.
 *
 * One word, `state`, contains everything that the threads must agree on: the current job's number in the upper half and
 * the next task in the lower half. A thread takes a task by compare-and-swap on the whole word, so a late thread cannot
 * take a task of a finished job. While the caller prepares the next job, the lower half is KVC_CLOSED. Idle workers
 * spin for some microseconds, then sleep. A caller that waits for tasks on other threads does the same. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/assert.h"
#include "core/base/float.h"
#include "core/base/integers.h"
#include "core/base/threads.h"

#define KVC_CLOSED 0xffffffffu
#define KVC_TASKS_MOST 0x7fffffffu /* limit per job; a larger job is split into slices */
#define KVC_THREADS_MOST 1024
#define KVC_SPINS 4000

struct kvc_worker {
    struct kvc_threads *pool;
    pthread_t thread;
    unsigned number;
};

struct kvc_threads {
    _Atomic uint64_t state;
    _Atomic uint32_t tasks;
    _Atomic uint32_t slice; /* current slice of a large job */
    _Atomic uint32_t remaining;
    _Atomic(kvc_task_fn *) run;
    _Atomic(void *) argument;
    _Atomic uint32_t sleepers;
    _Atomic bool caller_sleeps, stop;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    unsigned count;             /* number of threads, including the caller */
    struct kvc_worker *workers; /* [count - 1] */
};

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Runs tasks of the current job until none is left. */
static void work_on(struct kvc_threads *pool, unsigned thread) {
    for (;;) {
        uint64_t state = atomic_load(&pool->state);
        uint32_t next = (uint32_t)state, tasks = atomic_load(&pool->tasks);
        kvc_task_fn *run = atomic_load(&pool->run);
        void *argument = atomic_load(&pool->argument);
        size_t number = (size_t)atomic_load(&pool->slice) * KVC_TASKS_MOST + next;
        if (next == KVC_CLOSED || next >= tasks)
            return;
        if (!atomic_compare_exchange_weak(&pool->state, &state, state + 1))
            continue;
        run(argument, number, thread);
        if (atomic_fetch_sub(&pool->remaining, 1) == 1 && atomic_load(&pool->caller_sleeps)) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->lock);
        }
    }
}

static void *worker_main(void *argument) {
    struct kvc_worker *worker = argument;
    struct kvc_threads *pool = worker->pool;
    uint32_t seen = 0; /* number of the last job that this worker has seen */
    kvc_float_open();
    for (;;) {
        uint64_t state = atomic_load(&pool->state);
        for (int i = 0; (uint32_t)(state >> 32) == seen && i < KVC_SPINS && !atomic_load(&pool->stop); i++) {
            pause_briefly();
            state = atomic_load(&pool->state);
        }
        if ((uint32_t)(state >> 32) == seen) {
            pthread_mutex_lock(&pool->lock);
            atomic_fetch_add(&pool->sleepers, 1);
            while ((uint32_t)((state = atomic_load(&pool->state)) >> 32) == seen && !atomic_load(&pool->stop))
                pthread_cond_wait(&pool->work, &pool->lock);
            atomic_fetch_sub(&pool->sleepers, 1);
            pthread_mutex_unlock(&pool->lock);
        }
        if (atomic_load(&pool->stop))
            return NULL;
        seen = (uint32_t)(state >> 32);
        work_on(pool, worker->number);
    }
}

/* Starts a worker that blocks signals, so that the program's own threads, which may wait for signals, receive them. The
 * signals of a thread's own faults are not blocked, so that a handler can report a file that was truncated while it is
 * mapped. */
static int start_worker(struct kvc_worker *worker) {
    static const int own[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int failed = pthread_create(&worker->thread, NULL, worker_main, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static unsigned cores_available(void) {
#if defined(CPU_COUNT)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

enum kvc_status kvc_threads_open(int count, struct kvc_threads **threads, struct kvc_error *error) {
    struct kvc_threads *pool;
    *threads = NULL;
    if (count < 0 || count > KVC_THREADS_MOST)
        return kvc_fail(error, KVC_USAGE, "threads: %d is out of range; give 1 to %d, or 0 for one per core", count,
                        KVC_THREADS_MOST);
    if (count == 0) {
        count = (int)kvc_min_u32(cores_available(), KVC_THREADS_MOST);
    }
    pool = calloc(1, sizeof *pool);
    if (!pool)
        return kvc_fail(error, KVC_RESOURCE, "threads: no memory for a pool of %d", count);
    pool->workers = calloc((size_t)count, sizeof *pool->workers);
    if (!pool->workers) {
        free(pool);
        return kvc_fail(error, KVC_RESOURCE, "threads: no memory for a pool of %d", count);
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    atomic_store(&pool->state, KVC_CLOSED);
    pool->count = 1;
    for (int i = 1; i < count; i++) {
        struct kvc_worker *worker = &pool->workers[i - 1];
        worker->pool = pool;
        worker->number = (unsigned)i;
        const int failed = start_worker(worker);
        if (failed) {
            kvc_threads_close(pool);
            return kvc_fail(error, KVC_RESOURCE, "threads: cannot start thread %d of %d (%s); use fewer threads", i + 1,
                            count, strerror(failed));
        }
        pool->count++;
    }
    *threads = pool;
    return KVC_OK;
}

void kvc_threads_close(struct kvc_threads *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 1; i < pool->count; i++)
        pthread_join(pool->workers[i - 1].thread, NULL);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

unsigned kvc_threads_count(const struct kvc_threads *pool) { return pool ? pool->count : 1; }

/* Runs one slice of a job, at most KVC_TASKS_MOST tasks. */
static void run_slice(struct kvc_threads *pool, uint32_t slice, uint32_t tasks, kvc_task_fn *run, void *argument) {
    uint64_t job = (atomic_load(&pool->state) >> 32) + 1;
    KVC_ASSERT(atomic_load(&pool->remaining) == 0);
    atomic_store(&pool->state, job << 32 | KVC_CLOSED);
    atomic_store(&pool->tasks, tasks);
    atomic_store(&pool->slice, slice);
    atomic_store(&pool->run, run);
    atomic_store(&pool->argument, argument);
    atomic_store(&pool->remaining, tasks);
    atomic_exchange(&pool->state, (job + 1) << 32); /* see caller_sleeps below */
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->work);
        pthread_mutex_unlock(&pool->lock);
    }
    work_on(pool, 0);
    for (int i = 0; atomic_load(&pool->remaining) > 0 && i < KVC_SPINS; i++)
        pause_briefly();
    if (atomic_load(&pool->remaining) > 0) {
        pthread_mutex_lock(&pool->lock);
        /* This store must be visible before `remaining` is read, because the worker accesses the two in the opposite
         * order. An exchange guarantees this even under emulators (qemu 7.2 on x86) that let a load overtake a
         * sequentially consistent store. */
        atomic_exchange(&pool->caller_sleeps, true);
        while (atomic_load(&pool->remaining) > 0)
            pthread_cond_wait(&pool->done, &pool->lock);
        atomic_store(&pool->caller_sleeps, false);
        pthread_mutex_unlock(&pool->lock);
    }
}

void kvc_threads_run(struct kvc_threads *pool, size_t tasks, kvc_task_fn *run, void *argument) {
    if (!pool || pool->count == 1 || tasks <= 1) {
        for (size_t i = 0; i < tasks; i++)
            run(argument, i, 0);
        return;
    }
    for (uint32_t slice = 0; tasks > 0; slice++) {
        const uint32_t now = (uint32_t)kvc_min_u64(tasks, KVC_TASKS_MOST);
        run_slice(pool, slice, now, run, argument);
        KVC_ASSERT(atomic_load(&pool->remaining) == 0);
        tasks -= now;
    }
}
