/* gemv.h - linear layers for one row: the lanes of a few outputs lie side by side in registers, and every weight is
 * read once. Part of template.h. */
#ifndef KVC_SIMD_LINEAR_GEMV_H
#define KVC_SIMD_LINEAR_GEMV_H

#include "core/base/integers.h"
#include "backends/cpu/simd/linear/dequantized.h"
#include "backends/cpu/simd/linear/gemv_pipelined.h"
#include "backends/cpu/simd/linear/linear.h"
#include "backends/cpu/simd/linear/sizes.h"

/* Adds the products of the last K % 32 weights of each output, for types whose rows need not be whole groups of 32. */
INLINE void tail_gemv(const int outputs, vf (*acc)[LANE_VECTORS], const float *x, size_t n, const float *w) {
    float left[KVC_LANES];
    for (size_t i = 0; i < KVC_LANES; i++)
        left[i] = i < n ? x[i] : FILL_X;
    UNROLL
    for (int j = 0; j < outputs; j++)
        UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        acc[j][v] = vf_fma(vf_load(left + v * LANES), vf_load(w + j * KVC_LANES + v * LANES), acc[j][v]);
}

/* Adds the products of one part, which is 32 weights of each output. */
#define GEMV_PART(type, p)                                                                                             \
    do {                                                                                                               \
        vf xv[LANE_VECTORS];                                                                                           \
        UNROLL                                                                                                         \
        for (int v = 0; v < LANE_VECTORS; v++)                                                                         \
            xv[v] = vf_load(x + k + (p)*KVC_LANES + v * LANES);                                                        \
        UNROLL                                                                                                         \
        for (int j = 0; j < outputs; j++) {                                                                            \
            vf wv[LANE_VECTORS];                                                                                       \
            dequantize_##type(wv, row[j], p, &scales[j]);                                                              \
            UNROLL                                                                                                     \
            for (int v = 0; v < LANE_VECTORS; v++)                                                                     \
                acc[j][v] = vf_fma(xv[v], wv[v], acc[j][v]);                                                           \
        }                                                                                                              \
    } while (0)

/* Computes the outputs first ... last - 1. They are divided into `streams` ranges, and one output of each range is
 * computed at a time, so that each stream of weights is read in order. `fetched` bytes of each group are prefetched
 * into L2, AHEAD bytes before their use; L1 has too few buffers for loads in flight. For types that need little
 * arithmetic `fetched` is 0, because the hardware prefetcher does better.
 *
 * If `early` is set, sum_group(...) also prepares the scales of the next group. rest(...) adds the products of the
 * weights after the last whole group. total(...) adds the lanes. `type` names the functions that dequantize the
 * weights. They may expect another order of lanes than the functions of `name`. */
#define AHEAD 4096
#define GEMV_FUNCTION(name, streams, fetched, rest, type, sum_group, early, total)                                     \
    static void gemv_##name(const struct kvc_linear_call *call, size_t first, size_t last) {                           \
        enum { outputs = streams };                                                                                    \
        const float *x = call->x;                                                                                      \
        size_t stretch = (last - first + outputs - 1) / outputs | 1;                                                   \
        for (size_t n = first; n < first + stretch; n++) {                                                             \
            vf acc[outputs][LANE_VECTORS];                                                                             \
            const unsigned char *row[outputs];                                                                         \
            struct scales both[2][outputs], *scales = both[0], *next_scales = both[1];                                 \
            size_t k = 0;                                                                                              \
            UNROLL                                                                                                     \
            for (int j = 0; j < outputs; j++) {                                                                        \
                row[j] = call->w + kvc_min_u64(n + (size_t)j * stretch, last - 1) * call->row_bytes;                   \
                UNROLL                                                                                                 \
                for (int v = 0; v < LANE_VECTORS; v++)                                                                 \
                    acc[j][v] = vf_zero();                                                                             \
            }                                                                                                          \
            for (; k + GROUP <= call->K; k += GROUP) {                                                                 \
                UNROLL                                                                                                 \
                for (int j = 0; j < outputs; j++) {                                                                    \
                    UNROLL                                                                                             \
                    for (int line = 0; line < (fetched); line += 64)                                                   \
                        __builtin_prefetch(row[j] + AHEAD + line, 0, 2);                                               \
                    if (!(early) || k == 0)                                                                            \
                        prepare_##type(&scales[j], row[j], 8);                                                         \
                }                                                                                                      \
                const size_t next_group = k + 2 * GROUP <= call->K ? group_bytes_##type : 0;                           \
                (void)next_group;                                                                                      \
                sum_group(type, early);                                                                                \
                if (early) {                                                                                           \
                    struct scales *used = scales;                                                                      \
                    scales = next_scales;                                                                              \
                    next_scales = used;                                                                                \
                }                                                                                                      \
                UNROLL                                                                                                 \
                for (int j = 0; j < outputs; j++)                                                                      \
                    row[j] += group_bytes_##type;                                                                      \
            }                                                                                                          \
            rest(type);                                                                                                \
            UNROLL /* otherwise the sums would stay in memory */                                                       \
                for (int j = 0; j < outputs; j++) {                                                                    \
                size_t output = n + (size_t)j * stretch;                                                               \
                if (output < last) {                                                                                   \
                    float sum = total(acc[j]);                                                                         \
                    call->y[output] = call->bias ? sum + call->bias[output] : sum;                                     \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Adds the products of a group of each output, part after part. */
#define IN_ORDER(type, early)                                                                                          \
    do {                                                                                                               \
        GEMV_PART(type, 0);                                                                                            \
        GEMV_PART(type, 1);                                                                                            \
        GEMV_PART(type, 2);                                                                                            \
        GEMV_PART(type, 3);                                                                                            \
        GEMV_PART(type, 4);                                                                                            \
        GEMV_PART(type, 5);                                                                                            \
        GEMV_PART(type, 6);                                                                                            \
        GEMV_PART(type, 7);                                                                                            \
    } while (0)
#if LANES != 16
#define PIPELINED IN_ORDER
#define EARLY 0
#endif

#define REST_NONE(type) ((void)0)
/* Adds the products of the remaining parts, one by one. */
#define REST_PARTS(type)                                                                                               \
    int parts = (int)((call->K - k) / KVC_LANES);                                                                      \
    UNROLL                                                                                                             \
    for (int j = 0; j < outputs; j++)                                                                                  \
        prepare_##type(&scales[j], row[j], parts);                                                                     \
    for (int p = 0; p < parts; p++)                                                                                    \
    GEMV_PART(type, p)
/* Adds the products of the remaining parts, then of single weights. */
#define REST_ALL(type)                                                                                                 \
    REST_PARTS(type);                                                                                                  \
    k += (size_t)parts * KVC_LANES;                                                                                    \
    if (k < call->K) {                                                                                                 \
        float left_over[outputs * KVC_LANES];                                                                          \
        for (int j = 0; j < outputs; j++)                                                                              \
            end_of_row_##type(left_over + j * KVC_LANES, row[j] + (size_t)parts * (group_bytes_##type / 8),            \
                              call->K - k);                                                                            \
        tail_gemv(outputs, acc, x + k, call->K - k, left_over);                                                        \
    }

#define REST_16 REST_ALL /* selected by the number of elements in a block */
#define REST_32 REST_PARTS
#define REST_128 REST_PARTS
#define REST_256 REST_NONE
/* The values that GEMV_<type> in dequantize.h may have: the functions that dequantize the weights, the macro that sums
 * a group, whether scales are prepared early, and the function that adds the lanes. */
#define GEMV_IN_ORDER(type) type, IN_ORDER, 0, sum_lanes
#define GEMV_PIPELINED(type, early) type, PIPELINED, early, sum_lanes
#define GEMV_SHIFTED(type) type##_shifted, PIPELINED, EARLY, total_shifted
#define GEMV_OF(...) GEMV_FUNCTION(__VA_ARGS__)
#define GEMV_BLOCKS(a, NAME, name, gguf, elements, ...)                                                                \
    GEMV_OF(name, GEMV_STREAMS, group_bytes_##name, REST_##elements, GEMV_##name)

GEMV_OF(f32, GEMV_STREAMS, 0, REST_ALL, GEMV_IN_ORDER(f32))
GEMV_OF(f16, GEMV_STREAMS, 0, REST_ALL, GEMV_IN_ORDER(f16))
GEMV_OF(bf16, GEMV_STREAMS, 0, REST_ALL, GEMV_IN_ORDER(bf16))
KVC_ALL_BLOCK_TYPES(GEMV_BLOCKS, )

/* Some types need x in another order of lanes. It is reordered once for all outputs. */
#if LANES == 16
static bool gemv_is_shifted(enum kvc_type type) {
    return type == KVC_Q4_0 || type == KVC_Q4_1 || type == KVC_IQ4_NL || type == KVC_MXFP4 || type == KVC_IQ4_XS;
}
static size_t gemv_scratch(const struct kvc_linear_call *call) { return gemv_is_shifted(call->type) ? call->K : 0; }
static void gemv_start(struct kvc_linear_call *call, float *scratch) {
    if (!gemv_is_shifted(call->type))
        return;
    for (size_t k = 0; k < call->K; k += KVC_LANES) {
        vf x[LANE_VECTORS];
        order_shifted(x, call->x + k);
        vf_store(scratch + k, x[0]);
        vf_store(scratch + k + LANES, x[1]);
    }
    call->x = scratch;
}
#else
static size_t gemv_scratch(const struct kvc_linear_call *call) { return (void)call, (size_t)0; }
static void gemv_start(struct kvc_linear_call *call, float *scratch) { (void)call, (void)scratch; }
#endif

static void gemv(const struct kvc_linear_call *call, size_t first, size_t last) {
    static void (*const by_type[KVC_ALL_TYPES])(const struct kvc_linear_call *, size_t, size_t) = {
#define GEMV_BY_TYPE(a, NAME, name, ...) [KVC_##NAME] = gemv_##name,
        KVC_ALL_WEIGHT_TYPES(GEMV_BY_TYPE, )};
    by_type[call->type](call, first, last);
}

#endif
