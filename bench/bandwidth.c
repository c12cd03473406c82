/* bandwidth.c - measures the read bandwidth of the machine. */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/measure.h"

enum { SWEEPS = 6, MOST_THREADS = 256 };

typedef uint64_t block __attribute__((vector_size(64)));

/* Eight independent sums, so that the loop waits only for memory. */
#define SWEEP_BODY                                                                                                     \
    block a = {0}, b = {0}, c = {0}, d = {0};                                                                          \
    for (size_t i = 0; i + 4 <= count; i += 4) {                                                                       \
        a ^= from[i];                                                                                                  \
        b ^= from[i + 1];                                                                                              \
        c ^= from[i + 2];                                                                                              \
        d ^= from[i + 3];                                                                                              \
    }                                                                                                                  \
    a ^= b ^ c ^ d;                                                                                                    \
    return a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7];

static uint64_t sweep_plain(const block *from, size_t count) { SWEEP_BODY }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t sweep_avx2(const block *from, size_t count) { SWEEP_BODY }
__attribute__((target("avx512f"))) static uint64_t sweep_avx512(const block *from, size_t count) { SWEEP_BODY }
#endif

typedef uint64_t sweep_fn(const block *from, size_t count);

static sweep_fn *choose_sweep(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return sweep_avx512;
    if (__builtin_cpu_supports("avx2"))
        return sweep_avx2;
#endif
    return sweep_plain;
}

struct reader {
    sweep_fn *sweep;
    const block *from;
    size_t count;
    pthread_barrier_t *barrier;
    clockid_t clock;
    uint64_t sum;
    double start[SWEEPS],
        end[SWEEPS]; /* each thread measures its own time, because the thread that waits for all threads may run late */
};

static void *read_part(void *argument) {
    struct reader *reader = argument;

    for (int i = 0; i < SWEEPS; i++) {
        pthread_barrier_wait(reader->barrier);
        reader->start[i] = kvc_measure_seconds(reader->clock);
        reader->sum += reader->sweep(reader->from, reader->count);
        reader->end[i] = kvc_measure_seconds(reader->clock);
    }
    return NULL;
}

/* Times the sweeps of all threads. The first sweep is not counted, because it touches the pages for the first time. */
static double time_sweeps(struct reader *readers, unsigned threads, size_t bytes, pthread_barrier_t *barrier) {
    pthread_t thread[MOST_THREADS];
    double best = 0;
    unsigned started = 0;

    if (pthread_barrier_init(barrier, NULL, threads) != 0)
        return 0;
    while (started < threads && pthread_create(&thread[started], NULL, read_part, &readers[started]) == 0)
        started++;
    if (started < threads) { /* with a thread missing, the others would wait at the barrier for ever */
        for (unsigned i = 0; i < started; i++) {
            pthread_cancel(thread[i]);
            pthread_join(thread[i], NULL);
        }
        return 0;
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(barrier);
    for (int i = 1; i < SWEEPS; i++) {
        double start = readers[0].start[i], end = readers[0].end[i];

        for (unsigned t = 1; t < threads; t++) {
            start = readers[t].start[i] < start ? readers[t].start[i] : start;
            end = readers[t].end[i] > end ? readers[t].end[i] : end;
        }
        if ((double)bytes / (end - start) > best)
            best = (double)bytes / (end - start);
    }
    return best;
}

/* Returns the number of cores that this process may use. */
static unsigned available_cores(void) {
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
    return 1;
}

double kvc_measure_bandwidth_by(unsigned threads, clockid_t clock) {
    struct reader readers[MOST_THREADS];
    pthread_barrier_t barrier;
    size_t bytes = (size_t)512 << 20, part;
    unsigned char *memory;
    double best;

    if (threads == 0)
        threads = available_cores();
    if (threads > MOST_THREADS)
        threads = MOST_THREADS;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 0;
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    memset(memory, 1, bytes);
    part = bytes / sizeof(block) / threads / 4 * 4;
    for (unsigned i = 0; i < threads; i++)
        readers[i] = (struct reader){.sweep = choose_sweep(),
                                     .from = (const block *)(const void *)memory + i * part,
                                     .count = part,
                                     .barrier = &barrier,
                                     .clock = clock};
    best = time_sweeps(readers, threads, part * threads * sizeof(block), &barrier);
    munmap(memory, bytes);
    return best;
}

double kvc_measure_bandwidth(unsigned threads) { return kvc_measure_bandwidth_by(threads, CLOCK_MONOTONIC); }
