/* machine.c - measures the read bandwidth of the machine and the resident memory of the process. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/bench/bench.h"

enum { SWEEPS = 6, MOST_THREADS = 256 };

typedef uint64_t block __attribute__((vector_size(64)));

/* Eight independent sums, so that the loop waits for memory only. */
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

static sweep_fn *machine_choose(void) {
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
    uint64_t sum;
    double start[SWEEPS],
        end[SWEEPS]; /* each thread measures its own time, because the thread that waits for all threads may run late */
};

static void *read_part(void *argument) {
    struct reader *reader = argument;

    for (int i = 0; i < SWEEPS; i++) {
        pthread_barrier_wait(reader->barrier);
        reader->start[i] = cli_seconds();
        reader->sum += reader->sweep(reader->from, reader->count);
        reader->end[i] = cli_seconds();
    }
    return NULL;
}

/* Times the sweeps of all threads. The first sweep also touches the pages and does not count. */
static double time_sweeps(struct reader *readers, unsigned threads, size_t bytes, pthread_barrier_t *barrier) {
    pthread_t thread[MOST_THREADS];
    double best = 0;
    unsigned started = 0;

    if (pthread_barrier_init(barrier, NULL, threads) != 0)
        return 0;
    while (started < threads && pthread_create(&thread[started], NULL, read_part, &readers[started]) == 0)
        started++;
    if (started < threads) { /* the barrier would wait forever: end the started threads */
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

double bench_bandwidth(unsigned threads) {
    struct reader readers[MOST_THREADS];
    pthread_barrier_t barrier;
    size_t bytes = (size_t)512 << 20, part;
    unsigned char *memory;
    double best;

    if (threads > MOST_THREADS)
        threads = MOST_THREADS;
    if (threads < 1)
        threads = 1;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 0;
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    memset(memory, 1, bytes);
    part = bytes / sizeof(block) / threads / 4 * 4;
    for (unsigned i = 0; i < threads; i++)
        readers[i] = (struct reader){.sweep = machine_choose(),
                                     .from = (const block *)(const void *)memory + i * part,
                                     .count = part,
                                     .barrier = &barrier};
    best = time_sweeps(readers, threads, part * threads * sizeof(block), &barrier);
    munmap(memory, bytes);
    return best;
}

uint64_t bench_resident(void) {
    FILE *stream = fopen("/proc/self/status", "r");
    uint64_t kilobytes = 0;
    char line[256];

    if (!stream)
        return 0;
    while (fgets(line, sizeof line, stream))
        if (sscanf(line, "RssAnon: %" SCNu64, &kilobytes) == 1)
            break;
    fclose(stream);
    return kilobytes * 1024;
}
