/* test_threads.c - the thread pool runs every task once with any number of threads, and closes cleanly; also with work
 * stealing. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/cpu/stealing.h"
#include "core/base/float.h"
#include "core/engine/engine.h"
#include "core/base/threads.h"

struct job {
    _Atomic unsigned *runs;
    _Atomic unsigned bad;
    unsigned threads;
    float tiny; /* a denormal; tiny * 2 is 0 if the thread flushes denormals */
};

static void one_task(void *argument, size_t task, unsigned thread) {
    struct job *job = argument;
    volatile float tiny = job->tiny, two = 2.0f;
    atomic_fetch_add(&job->runs[task], 1);
    if (thread >= job->threads || tiny * two == 0.0f)
        atomic_fetch_add(&job->bad, 1);
}

static void every_task_once(void **state) {
    static const size_t counts[] = {0, 1, 2, 3, 7, 64, 1000};
    (void)state;
    for (int threads = 1; threads <= 5; threads += 2) {
        struct kvc_threads *pool;
        uint64_t environment = kvc_float_open();
        assert_int_equal(kvc_threads_open(threads, &pool, NULL), KVC_OK);
        assert_int_equal(kvc_threads_count(pool), threads);
        for (unsigned round = 0; round < 120; round++) {
            size_t tasks = counts[round % (sizeof counts / sizeof counts[0])];
            struct job job = {calloc(tasks + 1, sizeof *job.runs), 0, (unsigned)threads, 1e-40f};
            assert_non_null(job.runs);
            kvc_threads_run(pool, tasks, one_task, &job);
            for (size_t i = 0; i < tasks; i++)
                assert_int_equal(job.runs[i], 1);
            assert_int_equal(job.runs[tasks], 0);
            assert_int_equal(job.bad, 0);
            free(job.runs);
            if (round % 40 == 39) { /* long enough that the workers fall asleep */
                struct timespec nap = {0, 5000000};
                nanosleep(&nap, NULL);
            }
        }
        kvc_threads_close(pool);
        kvc_float_close(environment);
    }
}

static void slow_task(void *argument, size_t task, unsigned thread) {
    struct timespec nap = {0, 2000000};
    (void)thread;
    if (task % 3 == 0)
        nanosleep(&nap, NULL); /* the caller runs out of tasks and must wait */
    atomic_fetch_add((_Atomic unsigned *)argument, 1);
}

static void waits_for_the_last(void **state) {
    struct kvc_threads *pool;
    (void)state;
    assert_int_equal(kvc_threads_open(4, &pool, NULL), KVC_OK);
    for (int round = 0; round < 20; round++) {
        _Atomic unsigned done = 0;
        kvc_threads_run(pool, 9, slow_task, &done);
        assert_int_equal(done, 9);
    }
    kvc_threads_close(pool);
}

static void ignore_signal(int number) { (void)number; }

/* A signal to the process waits for a thread of the program, even if all of these block it. */
static void workers_take_no_signals(void **state) {
    struct sigaction action = {.sa_handler = ignore_signal}, old;
    const struct timespec soon = {0, 50000000};
    struct kvc_threads *pool;
    sigset_t one, before;
    (void)state;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigaction(SIGUSR1, &action, &old);
    assert_int_equal(kvc_threads_open(3, &pool, NULL), KVC_OK);
    pthread_sigmask(SIG_BLOCK, &one, &before);
    kill(getpid(), SIGUSR1);
    nanosleep(&soon, NULL);
    assert_int_equal(sigtimedwait(&one, NULL, &soon), SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sigaction(SIGUSR1, &old, NULL);
    kvc_threads_close(pool);
}

static void without_a_pool(void **state) {
    _Atomic unsigned done = 0;
    (void)state;
    assert_int_equal(kvc_threads_count(NULL), 1);
    kvc_threads_run(NULL, 5, slow_task, &done);
    assert_int_equal(done, 5);
    kvc_threads_close(NULL);
}

static void counts(void **state) {
    struct kvc_threads *pool;
    struct kvc_error error;
    (void)state;
    assert_int_equal(kvc_threads_open(0, &pool, NULL), KVC_OK);
    assert_true(kvc_threads_count(pool) >= 1);
    kvc_threads_close(pool);
    assert_int_equal(kvc_threads_open(-1, &pool, &error), KVC_USAGE);
    assert_null(pool);
    assert_non_null(strstr(error.text, "-1"));
    assert_int_equal(kvc_threads_open(1000000, &pool, &error), KVC_USAGE);
}

static void opens_and_closes(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++) {
        struct kvc_threads *pool;
        assert_int_equal(kvc_threads_open(4, &pool, NULL), KVC_OK);
        kvc_threads_close(pool);
    }
}

struct stealing_job {
    struct kvc_cpu *cpu;
    size_t tasks;
    _Atomic unsigned *runs;
    _Atomic unsigned own, stolen;
};

static void one_turn(void *argument, size_t task, unsigned thread) {
    struct stealing_job *job = argument;
    if (task >= job->tasks)
        return;
    atomic_fetch_add(&job->runs[task], 1);
    atomic_fetch_add(task % kvc_threads_count(job->cpu->threads) == thread ? &job->own : &job->stolen, 1);
}

static void every_turn_once(void **state) {
    static const size_t counts[] = {1, 2, 3, 7, 64, 1000};
    (void)state;
    for (int threads = 1; threads <= 5; threads += 2) {
        struct kvc_stealing turns[5];
        struct kvc_cpu cpu = {.stealing = turns};
        assert_int_equal(kvc_threads_open(threads, &cpu.threads, NULL), KVC_OK);
        for (unsigned round = 0; round < 120; round++) {
            const size_t tasks = counts[round % (sizeof counts / sizeof counts[0])];
            struct stealing_job job = {&cpu, tasks, calloc(tasks, sizeof *job.runs), 0, 0};
            assert_non_null(job.runs);
            stealing_run(&cpu, cpu.threads, tasks, one_turn, &job);
            for (size_t i = 0; i < tasks; i++)
                assert_int_equal(job.runs[i], 1);
            assert_int_equal(job.own + job.stolen, tasks);
            free(job.runs);
        }
        kvc_threads_close(cpu.threads);
    }
}

/* A thread takes its own tasks first, in the specified order, then those of the threads after it. */
static void stealing_in_order(void **state) {
    static const size_t expected[] = {1, 4, 7, 2, 5, 0, 3, 6};
    struct kvc_stealing turns[3];
    struct kvc_cpu cpu = {.stealing = turns};
    (void)state;
    assert_int_equal(kvc_threads_open(3, &cpu.threads, NULL), KVC_OK);
    stealing_begin(&cpu);
    for (size_t i = 0; i < 8; i++) {
        if (i < 3)
            assert_int_equal(stealing_next(&cpu, 1), expected[i]);
        else
            assert_true(stealing_next(&cpu, 1) >= 8);
        assert_int_equal(stealing_take(&cpu, 8, 1), expected[i]);
    }
    kvc_threads_close(cpu.threads);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_task_once),         cmocka_unit_test(waits_for_the_last),
                                       cmocka_unit_test(without_a_pool),          cmocka_unit_test(counts),
                                       cmocka_unit_test(workers_take_no_signals), cmocka_unit_test(opens_and_closes),
                                       cmocka_unit_test(every_turn_once),         cmocka_unit_test(stealing_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
