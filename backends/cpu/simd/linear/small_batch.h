/* small_batch.h - linear layers for few rows: lanes lie side by side, as in gemv.h, and weights are dequantized once
 * for all rows. Part of template.h. */
#ifndef KVC_SIMD_LINEAR_SMALL_BATCH_H
#define KVC_SIMD_LINEAR_SMALL_BATCH_H

#include "core/base/integers.h"
#include "backends/cpu/simd/linear/dequantized.h"
#include "backends/cpu/simd/linear/linear.h"
#include "backends/cpu/simd/linear/sizes.h"

/* STRETCH weights of each of SMALL_BATCH_OUTPUTS outputs are dequantized at a time and stay in L1. The outputs are
 * STRETCH_APART floats apart, so that weights with the same index fall into different cache sets. */
#define STRETCH 1024
#define STRETCH_APART (STRETCH + LANES)

/* Rows are divided evenly into blocks of at most SMALL_BATCH_ROWS. */
static size_t small_batch_blocks(size_t rows) { return kvc_divide_up(rows, SMALL_BATCH_ROWS); }
static size_t small_batch_block_row(size_t rows, size_t block) { return rows * block / small_batch_blocks(rows); }

static size_t small_batch_rows_scratch(const struct kvc_linear_call *call) {
    /* The memory holds, in this order, dequantized weights; the lanes of every sum [rows, SMALL_BATCH_OUTPUTS, 32]; x
     * in the layout of small_batch_pack. */
    return SMALL_BATCH_OUTPUTS * STRETCH_APART +
           call->rows * (SMALL_BATCH_OUTPUTS * KVC_LANES + kvc_round_up(call->K, KVC_LANES));
}

/* Packs x in the order in which it is read: [block][vector of lanes][k / 32][row of the block][LANES], padded to whole
 * groups of 32. */
static void small_batch_pack(const struct kvc_linear_call *call, float *to) {
    const size_t groups = kvc_divide_up(call->K, KVC_LANES);
    float last[KVC_LANES];
    for (size_t block = 0; block < small_batch_blocks(call->rows); block++) {
        const size_t first = small_batch_block_row(call->rows, block),
                     rows = small_batch_block_row(call->rows, block + 1) - first;
        for (size_t row = 0; row < rows; row++) {
            const float *x = call->x + (first + row) * call->K;
            for (size_t g = 0; g < groups; g++) {
                const float *group = x + g * KVC_LANES;
                if (call->K - g * KVC_LANES < KVC_LANES) {
                    for (size_t l = 0; l < KVC_LANES; l++)
                        last[l] = g * KVC_LANES + l < call->K ? group[l] : FILL_X;
                    group = last;
                }
                UNROLL
                for (int v = 0; v < LANE_VECTORS; v++)
                    vf_store(to + (((size_t)v * groups + g) * rows + row) * LANES, vf_load(group + v * LANES));
            }
        }
        to += rows * groups * KVC_LANES;
    }
}

/* Addresses to prefetch; they advance by `step` bytes with each group. */
struct small_batch_ahead {
    const unsigned char *a, *b;
    size_t step;
};

/* Loads weights of a plain type as floats. `type` is a constant here and below. */
INLINE vf load_plain(const enum kvc_type type, const unsigned char *w) {
    if (type == KVC_F16)
        return vf_load_f16(w);
    if (type == KVC_BF16)
        return vf_load_bf16(w);
    return vf_load((const float *)(const void *)w);
}

/* Computes one vector of lanes at a time, so that many sums fit in registers: lanes [rows, SMALL_BATCH_OUTPUTS, 32] +=
 * x [groups, rows, LANES] times w. w has groups of 32 weights of the type for each of SMALL_BATCH_OUTPUTS outputs. */
INLINE void small_batch_block(const enum kvc_type type, const int rows, float *lanes, const float *x,
                              const unsigned char *const *w, size_t groups, struct small_batch_ahead ahead) {
    const size_t bytes = KVC_LANES * (type == KVC_F32 ? 4 : 2);
    vf acc[SMALL_BATCH_ROWS][SMALL_BATCH_OUTPUTS];
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
    for (int j = 0; j < SMALL_BATCH_OUTPUTS; j++)
        acc[i][j] = vf_load(lanes + (i * SMALL_BATCH_OUTPUTS + j) * KVC_LANES);
    for (size_t g = 0; g < groups; g++) {
        vf wv[SMALL_BATCH_OUTPUTS];
        UNROLL
        for (int j = 0; j < SMALL_BATCH_OUTPUTS; j++)
            wv[j] = load_plain(type, w[j] + g * bytes);
        UNROLL
        for (size_t line = 0; line < bytes; line += 64) {
            __builtin_prefetch(ahead.a + line, 0, 2); /* prefetches into L2, because L1 holds the data in use */
            __builtin_prefetch(ahead.b + line, 0, 2);
        }
        ahead.a += ahead.step;
        ahead.b += ahead.step;
        UNROLL
        for (int i = 0; i < rows; i++) {
            const vf xv = vf_held(vf_load(x + (g * (size_t)rows + (size_t)i) * LANES));
            UNROLL
            for (int j = 0; j < SMALL_BATCH_OUTPUTS; j++)
                acc[i][j] = vf_fma(xv, wv[j], acc[i][j]);
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
    for (int j = 0; j < SMALL_BATCH_OUTPUTS; j++)
        vf_store(lanes + (i * SMALL_BATCH_OUTPUTS + j) * KVC_LANES, acc[i][j]);
}

/* A function for each type and number of rows. */
typedef void small_batch_function(float *, const float *, const unsigned char *const *, size_t,
                                  struct small_batch_ahead);
#define SMALL_BATCH_FUNCTION(TYPE, type, rows)                                                                         \
    static void small_batch_##type##_##rows(float *lanes, const float *x, const unsigned char *const *w,               \
                                            size_t groups, struct small_batch_ahead ahead) {                           \
        small_batch_block(KVC_##TYPE, rows, lanes, x, w, groups, ahead);                                               \
    }
#define SMALL_BATCH_FUNCTIONS(rows)                                                                                    \
    SMALL_BATCH_FUNCTION(F32, f32, rows) SMALL_BATCH_FUNCTION(F16, f16, rows) SMALL_BATCH_FUNCTION(BF16, bf16, rows)
SMALL_BATCH_EVERY(SMALL_BATCH_FUNCTIONS)
#define SMALL_BATCH_F32(rows) [rows] = small_batch_f32_##rows,
#define SMALL_BATCH_F16(rows) [rows] = small_batch_f16_##rows,
#define SMALL_BATCH_BF16(rows) [rows] = small_batch_bf16_##rows,
static small_batch_function *const small_batch_f32_by_rows[SMALL_BATCH_ROWS + 1] = {SMALL_BATCH_EVERY(SMALL_BATCH_F32)};
static small_batch_function *const small_batch_f16_by_rows[SMALL_BATCH_ROWS + 1] = {SMALL_BATCH_EVERY(SMALL_BATCH_F16)};
static small_batch_function *const small_batch_bf16_by_rows[SMALL_BATCH_ROWS + 1] = {
    SMALL_BATCH_EVERY(SMALL_BATCH_BF16)};

/* Weights k0 ... k0 + depth - 1 of SMALL_BATCH_OUTPUTS outputs from n on, as a kernel reads them. F32, F16 and BF16
 * weights are read in place; other types are dequantized. */
struct small_batch_weights {
    small_batch_function *const *by_rows;
    const unsigned char *of[SMALL_BATCH_OUTPUTS];
    size_t size; /* size of a weight in bytes */
    const unsigned char
        *ahead[SMALL_BATCH_OUTPUTS]; /* the weights that are read next: of the same outputs, or of the following ones */
};

static struct small_batch_weights small_batch_weights_at(const struct kvc_linear_call *call, size_t n, size_t last,
                                                         size_t k, size_t depth, float *dequantized) {
    struct small_batch_weights w = {.by_rows = call->type == KVC_F16    ? small_batch_f16_by_rows
                                               : call->type == KVC_BF16 ? small_batch_bf16_by_rows
                                                                        : small_batch_f32_by_rows,
                                    .size = call->type == KVC_F16 || call->type == KVC_BF16 ? 2 : 4};
    bool as_they_are = depth % KVC_LANES == 0 && (call->type == KVC_F32 || w.size == 2);
    if (!as_they_are) {
        w.by_rows = small_batch_f32_by_rows;
        w.size = 4;
    }
    for (size_t j = 0; j < SMALL_BATCH_OUTPUTS; j++) {
        const size_t output = kvc_min_u64(n + j, last - 1), next = kvc_min_u64(n + SMALL_BATCH_OUTPUTS + j, last - 1);
        w.ahead[j] = k + STRETCH < call->K ? stretch_at(call, output, k + STRETCH) : stretch_at(call, next, 0);
        w.of[j] = as_they_are ? stretch_at(call, output, k) : (const unsigned char *)(dequantized + j * STRETCH_APART);
        if (!as_they_are)
            dequantize_stretch(call, dequantized + j * STRETCH_APART, output, k, depth);
    }
    return w;
}

/* Multiplies `groups` groups of x, from weight k on, by the weights, for all rows. Spreads the prefetches of the next
 * weights evenly: for each vector of lanes, it prefetches the weights of two outputs, until it has fetched all. */
static void small_batch_stretch(const struct kvc_linear_call *call, float *lanes, const float *x,
                                const struct small_batch_weights *w, size_t k, size_t groups) {
    const size_t all = kvc_divide_up(call->K, KVC_LANES);
    size_t fetched = 0;
    for (size_t block = 0; block < small_batch_blocks(call->rows); block++) {
        const size_t first = small_batch_block_row(call->rows, block),
                     rows = small_batch_block_row(call->rows, block + 1) - first;
        for (size_t v = 0; v < LANE_VECTORS; v++, fetched += 2) {
            const unsigned char *of[SMALL_BATCH_OUTPUTS];
            struct small_batch_ahead next = {call->w, call->w, 0};
            if (fetched < SMALL_BATCH_OUTPUTS)
                next = (struct small_batch_ahead){w->ahead[fetched],
                                                  w->ahead[kvc_min_u64(fetched + 1, SMALL_BATCH_OUTPUTS - 1)],
                                                  dequantize_by_type[call->type].bytes / (GROUP / KVC_LANES)};
            for (size_t j = 0; j < SMALL_BATCH_OUTPUTS; j++)
                of[j] = w->of[j] + v * LANES * w->size;
            w->by_rows[rows](lanes + first * SMALL_BATCH_OUTPUTS * KVC_LANES + v * LANES,
                             x + (first * KVC_LANES + v * rows * LANES) * all + k / KVC_LANES * rows * LANES, of,
                             groups, next);
        }
    }
}

static void few_rows(const struct kvc_linear_call *call, size_t first, size_t last, float *scratch) {
    const size_t rows = call->rows, K = call->K;
    float *lanes = scratch + SMALL_BATCH_OUTPUTS * STRETCH_APART, *x = lanes + rows * SMALL_BATCH_OUTPUTS * KVC_LANES;
    small_batch_pack(call, x);
    for (size_t n = first; n < last; n += SMALL_BATCH_OUTPUTS) {
        memset(lanes, 0, rows * SMALL_BATCH_OUTPUTS * KVC_LANES * sizeof(float));
        for (size_t k = 0; k < K; k += STRETCH) {
            const size_t depth = kvc_min_u64(STRETCH, K - k);
            const struct small_batch_weights w = small_batch_weights_at(call, n, last, k, depth, scratch);
            small_batch_stretch(call, lanes, x, &w, k, kvc_divide_up(depth, KVC_LANES));
        }
        for (size_t i = 0; i < rows; i++) {
            for (size_t j = 0; j < SMALL_BATCH_OUTPUTS && n + j < last; j++) {
                vf side_by_side[LANE_VECTORS];
                for (size_t v = 0; v < LANE_VECTORS; v++)
                    side_by_side[v] = vf_load(lanes + (i * SMALL_BATCH_OUTPUTS + j) * KVC_LANES + v * LANES);
                float sum = sum_lanes(side_by_side);
                call->y[i * call->N + n + j] = call->bias ? sum + call->bias[n + j] : sum;
            }
        }
    }
}

#endif
