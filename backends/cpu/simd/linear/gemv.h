/* gemv.h - linear layers for one row: the lanes of a few outputs lie side by side in registers, and every weight is
 * read once. Part of template.h. */
#ifndef KVC_SIMD_LINEAR_GEMV_H
#define KVC_SIMD_LINEAR_GEMV_H

#include "core/base/integers.h"
#include "backends/cpu/simd/linear/dequantized.h"
#include "backends/cpu/simd/linear/gemv_pipelined.h"
#include "backends/cpu/simd/linear/linear.h"
#include "backends/cpu/simd/linear/sizes.h"

/* The order in which the products of a group are added, and the order of the lanes. */
enum gemv_order {
    GEMV_IN_ORDER,  /* part after part */
    GEMV_PIPELINED, /* as in gemv_pipelined.h, for AVX-512 */
    GEMV_SHIFTED,   /* as GEMV_PIPELINED, with the lanes in the order of order_shifted */
};
INLINE enum gemv_order gemv_order(const enum kvc_type type) {
    if (LANES != 16)
        return GEMV_IN_ORDER;
    switch ((int)type) {
    case KVC_Q8_0:
    case KVC_Q4_K:
        return GEMV_PIPELINED;
#define CASE_SHIFTED(NAME, ...) case KVC_##NAME:
        NIBBLE_TYPES(CASE_SHIFTED)
        return GEMV_SHIFTED;
    default:
        return GEMV_IN_ORDER;
    }
}

/* Dequantizes part p of a group, in the order of lanes in which gemv_start has stored x. */
INLINE void gemv_dequantize(const enum kvc_type type, vf *w, const unsigned char *g, int p, const struct scales *s) {
#if LANES == 16
    if (gemv_order(type) == GEMV_SHIFTED) {
        dequantize_shifted(type, w, g, p, s);
        return;
    }
#endif
    dequantize(type, w, g, p, s);
}

/* Adds the lanes of one output. */
INLINE float gemv_total(const enum kvc_type type, const vf *acc) {
#if LANES == 16
    if (gemv_order(type) == GEMV_SHIFTED)
        return total_shifted(acc);
#endif
    (void)type;
    return sum_lanes(acc);
}

/* Adds the products of part p of a group. A part is 32 weights of each output. */
INLINE void gemv_part(const enum kvc_type type, vf (*acc)[LANE_VECTORS], const float *x,
                      const unsigned char *const *row, int p, const struct scales *scales) {
    vf xv[LANE_VECTORS];
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        xv[v] = vf_load(x + p * KVC_LANES + v * LANES);
    UNROLL
    for (int j = 0; j < GEMV_STREAMS; j++) {
        vf wv[LANE_VECTORS];
        gemv_dequantize(type, wv, row[j], p, &scales[j]);
        UNROLL
        for (int v = 0; v < LANE_VECTORS; v++)
            acc[j][v] = vf_fma(xv[v], wv[v], acc[j][v]);
    }
}

/* Adds the products of a whole group of each output, part after part. */
INLINE void gemv_in_order(const enum kvc_type type, vf (*acc)[LANE_VECTORS], const float *x,
                          const unsigned char *const *row, const struct scales *scales) {
    gemv_part(type, acc, x, row, 0, scales);
    gemv_part(type, acc, x, row, 1, scales);
    gemv_part(type, acc, x, row, 2, scales);
    gemv_part(type, acc, x, row, 3, scales);
    gemv_part(type, acc, x, row, 4, scales);
    gemv_part(type, acc, x, row, 5, scales);
    gemv_part(type, acc, x, row, 6, scales);
    gemv_part(type, acc, x, row, 7, scales);
}

/* Adds the products of a whole group of each output. `more` tells whether another group follows. */
INLINE void gemv_group(const enum kvc_type type, vf (*acc)[LANE_VECTORS], const float *x,
                       const unsigned char *const *row, bool more, const struct scales *scales,
                       struct scales *next_scales) {
#if LANES == 16
    if (gemv_order(type) != GEMV_IN_ORDER) {
        gemv_pipelined(type, acc, x, row, more ? group_bytes(type) : 0, scales, next_scales);
        return;
    }
#endif
    (void)more, (void)next_scales;
    gemv_in_order(type, acc, x, row, scales);
}

/* Adds the products of the last n % 32 weights of each output, for types whose rows need not have a multiple of 32
 * weights. */
INLINE void gemv_end(const enum kvc_type type, vf (*acc)[LANE_VECTORS], const float *x, size_t n,
                     const unsigned char *const *row, size_t at) {
    float left[KVC_LANES], w[GEMV_STREAMS * KVC_LANES];
    for (int j = 0; j < GEMV_STREAMS; j++)
        end_of_row(type, w + j * KVC_LANES, row[j] + at, n);
    for (size_t i = 0; i < KVC_LANES; i++)
        left[i] = i < n ? x[i] : FILL_X;
    UNROLL
    for (int j = 0; j < GEMV_STREAMS; j++)
        UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        acc[j][v] = vf_fma(vf_load(left + v * LANES), vf_load(w + j * KVC_LANES + v * LANES), acc[j][v]);
}

/* Adds the products of the n < GROUP weights after the last whole group: first of whole parts, then of single
 * weights. */
INLINE void gemv_rest(const enum kvc_type type, vf (*acc)[LANE_VECTORS], const float *x, size_t n,
                      const unsigned char *const *row, struct scales *scales) {
    const int parts = (int)(n / KVC_LANES);
    if (block_elements(type) == GROUP)
        return;
    UNROLL
    for (int j = 0; j < GEMV_STREAMS; j++)
        prepare(type, &scales[j], row[j], parts);
    for (int p = 0; p < parts; p++)
        gemv_part(type, acc, x, row, p, scales);
    if (block_elements(type) < KVC_LANES && n % KVC_LANES)
        gemv_end(type, acc, x + (size_t)parts * KVC_LANES, n % KVC_LANES, row, (size_t)parts * (group_bytes(type) / 8));
}

/* Computes the outputs `first` .. `last` - 1. They are divided into GEMV_STREAMS ranges, and one output of each range
 * is computed at a time. The weights of a range are thus read in order. Groups are prefetched AHEAD bytes before their
 * use, into L2, because L1 has too few buffers for outstanding loads. Nothing is prefetched for types that need little
 * arithmetic, because the hardware prefetcher does better. */
#define AHEAD 4096
INLINE void gemv_of(const enum kvc_type type, const struct kvc_linear_call *call, size_t first, size_t last) {
#if LANES == 16
    const bool early = gemv_order(type) != GEMV_IN_ORDER && prepared_early(type);
#else
    const bool early = false;
#endif
    const size_t fetched = block_elements(type) == 1 ? 0 : group_bytes(type);
    const float *x = call->x;
    const size_t stretch = (last - first + GEMV_STREAMS - 1) / GEMV_STREAMS | 1;
    for (size_t n = first; n < first + stretch; n++) {
        vf acc[GEMV_STREAMS][LANE_VECTORS];
        const unsigned char *row[GEMV_STREAMS];
        struct scales both[2][GEMV_STREAMS], *scales = both[0], *next_scales = both[1];
        size_t k = 0;
        UNROLL
        for (int j = 0; j < GEMV_STREAMS; j++) {
            row[j] = call->w + kvc_min_u64(n + (size_t)j * stretch, last - 1) * call->row_bytes;
            UNROLL
            for (int v = 0; v < LANE_VECTORS; v++)
                acc[j][v] = vf_zero();
        }
        for (; k + GROUP <= call->K; k += GROUP) {
            UNROLL
            for (int j = 0; j < GEMV_STREAMS; j++) {
                UNROLL
                for (size_t line = 0; line < fetched; line += 64)
                    __builtin_prefetch(row[j] + AHEAD + line, 0, 2);
                if (!early || k == 0)
                    prepare(type, &scales[j], row[j], 8);
            }
            gemv_group(type, acc, x + k, row, k + 2 * GROUP <= call->K, scales, next_scales);
            if (early) {
                struct scales *used = scales;
                scales = next_scales;
                next_scales = used;
            }
            UNROLL
            for (int j = 0; j < GEMV_STREAMS; j++)
                row[j] += group_bytes(type);
        }
        gemv_rest(type, acc, x + k, call->K - k, row, scales);
        UNROLL /* without this, the sums would stay in memory */
            for (int j = 0; j < GEMV_STREAMS; j++) {
            const size_t output = n + (size_t)j * stretch;
            if (output < last) {
                const float sum = gemv_total(type, acc[j]);
                call->y[output] = call->bias ? sum + call->bias[output] : sum;
            }
        }
    }
}

#define GEMV_FUNCTION(a, NAME, name, ...)                                                                              \
    static void gemv_##name(const struct kvc_linear_call *call, size_t first, size_t last) {                           \
        gemv_of(KVC_##NAME, call, first, last);                                                                        \
    }
KVC_ALL_WEIGHT_TYPES(GEMV_FUNCTION, )

/* Some types need the lanes of x in another order. x is reordered once for all outputs. */
#if LANES == 16
static bool gemv_is_shifted(enum kvc_type type) { return gemv_order(type) == GEMV_SHIFTED; }
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
