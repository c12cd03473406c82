/* roofline.h - measures the machine's limits in the process of a benchmark: memory bandwidth, and fused multiply-adds
 * in registers. Also defines a clock. */
#ifndef KVC_BENCH_ROOFLINE_H
#define KVC_BENCH_ROOFLINE_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/threads.h"

#if defined(KVC_X86_SIMD)
#include <immintrin.h>
#elif defined(KVC_NEON)
#include <arm_neon.h>
#endif

#if defined(__clang__)
#define BENCH_UNROLL _Pragma("unroll")
#else
#define BENCH_UNROLL _Pragma("GCC unroll 32")
#endif

/* The clock of the benchmark: wall time or, with one thread, the processor time of this process, which excludes other
 * load on the machine. */
static clockid_t bench_clock = CLOCK_MONOTONIC;

static inline double seconds_now(void) {
    struct timespec t;
    clock_gettime(bench_clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct roofline_job {
    const unsigned char *data;
    size_t bytes; /* bytes of one task */
    int rounds;
    double result[64]; /* the result is stored, so that the compiler cannot remove the computation */
};

#if defined(KVC_X86_SIMD)
__attribute__((target("avx2"))) static inline double read_bytes(const unsigned char *p, size_t bytes) {
    __m256i sum[8];
    BENCH_UNROLL
    for (int i = 0; i < 8; i++)
        sum[i] = _mm256_setzero_si256();
    for (size_t at = 0; at + 256 <= bytes; at += 256)
        BENCH_UNROLL
    for (int i = 0; i < 8; i++)
        sum[i] = _mm256_add_epi64(sum[i], _mm256_load_si256((const __m256i *)(const void *)(p + at) + i));
    BENCH_UNROLL
    for (int i = 1; i < 8; i++)
        sum[0] = _mm256_add_epi64(sum[0], sum[i]);
    return (double)_mm256_extract_epi64(sum[0], 0);
}

__attribute__((target("avx512f"))) static inline double fma_512(int rounds) {
    __m512 sum[16], a = _mm512_set1_ps(1.0f), b = _mm512_set1_ps(1e-9f);
    BENCH_UNROLL
    for (int i = 0; i < 16; i++)
        sum[i] = _mm512_set1_ps((float)i); /* the chains must differ */
    for (int r = 0; r < rounds; r++) {
        BENCH_UNROLL
        for (int i = 0; i < 16; i++)
            sum[i] = _mm512_fmadd_ps(a, b, sum[i]);
        __asm__ volatile("" : "+v"(a));
    }
    BENCH_UNROLL
    for (int i = 1; i < 16; i++)
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return _mm512_cvtss_f32(sum[0]);
}

__attribute__((target("avx2,fma"))) static inline double fma_256(int rounds) {
    __m256 sum[12], a = _mm256_set1_ps(1.0f), b = _mm256_set1_ps(1e-9f);
    BENCH_UNROLL
    for (int i = 0; i < 12; i++)
        sum[i] = _mm256_set1_ps((float)i);
    for (int r = 0; r < rounds; r++) {
        BENCH_UNROLL
        for (int i = 0; i < 12; i++)
            sum[i] = _mm256_fmadd_ps(a, b, sum[i]);
        __asm__ volatile("" : "+x"(a));
    }
    BENCH_UNROLL
    for (int i = 1; i < 12; i++)
        sum[0] = _mm256_add_ps(sum[0], sum[i]);
    return _mm256_cvtss_f32(sum[0]);
}
#else
static inline double read_bytes(const unsigned char *p, size_t bytes) {
    uint64_t sum[8] = {0}, x[8];
    for (size_t at = 0; at + sizeof x <= bytes; at += sizeof x) {
        memcpy(x, p + at, sizeof x);
        BENCH_UNROLL
        for (int i = 0; i < 8; i++)
            sum[i] += x[i];
    }
    return (double)(sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7]);
}
#endif

#if defined(KVC_NEON)
static inline double fma_128(int rounds) {
    float32x4_t sum[24], a = vdupq_n_f32(1.0f), b = vdupq_n_f32(1e-9f);
    BENCH_UNROLL
    for (int i = 0; i < 24; i++)
        sum[i] = vdupq_n_f32((float)i);
    for (int r = 0; r < rounds; r++) {
        BENCH_UNROLL
        for (int i = 0; i < 24; i++)
            sum[i] = vfmaq_f32(sum[i], a, b);
        __asm__ volatile("" : "+w"(a));
    }
    BENCH_UNROLL
    for (int i = 1; i < 24; i++)
        sum[0] = vaddq_f32(sum[0], sum[i]);
    return vgetq_lane_f32(sum[0], 0);
}
#endif

#if defined(KVC_X86_SIMD)
/* Returns true if the machine has 512-bit vectors, unless KVCULL_CPU names an instruction set without them. */
static inline bool fma_is_wide(void) {
    const char *path = getenv("KVCULL_CPU");
    return __builtin_cpu_supports("avx512f") && !(path && strncmp(path, "avx2", 4) == 0);
}
#endif

static void read_task(void *argument, size_t task, unsigned thread) {
    struct roofline_job *job = argument;
    job->result[thread % 64] += read_bytes(job->data + task * job->bytes, job->bytes);
}

static void fma_task(void *argument, size_t task, unsigned thread) {
    struct roofline_job *job = argument;
    (void)task;
#if defined(KVC_X86_SIMD)
    job->result[thread % 64] += fma_is_wide() ? fma_512(job->rounds) : fma_256(job->rounds);
#elif defined(KVC_NEON)
    job->result[thread % 64] += fma_128(job->rounds);
#else
    job->result[thread % 64] += job->rounds;
#endif
}

/* Returns the flops of one round of fma_task. */
static inline double fma_round_flops(void) {
#if defined(KVC_X86_SIMD)
    return fma_is_wide() ? 16 * 16 * 2 : 12 * 8 * 2;
#elif defined(KVC_NEON)
    return 24 * 4 * 2;
#else
    return 0;
#endif
}

/* Returns the bytes per second that the threads read from memory, in the best of several tries. data [bytes] must be
 * larger than the caches. */
static inline double measured_bandwidth(struct kvc_threads *threads, const unsigned char *data, size_t bytes) {
    const size_t tasks = 4 * (size_t)kvc_threads_count(threads);
    struct roofline_job job = {.data = data, .bytes = bytes / tasks / 256 * 256};
    double best = 0.0;
    for (int i = 0; i < 5; i++) {
        const double start = seconds_now();
        kvc_threads_run(threads, tasks, read_task, &job);
        const double rate = (double)(job.bytes * tasks) / (seconds_now() - start);
        best = rate > best ? rate : best;
    }
    return job.result[0] == 0.125 ? 0.0 : best;
}

/* Returns the flops per second of fused multiply-adds on registers. */
static inline double measured_flops(struct kvc_threads *threads) {
    const size_t tasks = 4 * (size_t)kvc_threads_count(threads);
    struct roofline_job job = {.rounds = 500000};
    double best = 0.0;
    for (int i = 0; i < 5; i++) {
        const double start = seconds_now();
        kvc_threads_run(threads, tasks, fma_task, &job);
        const double rate = fma_round_flops() * job.rounds * (double)tasks / (seconds_now() - start);
        best = rate > best ? rate : best;
    }
    return job.result[0] == 0.125 ? 0.0 : best;
}

#endif
