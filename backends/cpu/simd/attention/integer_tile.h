/* integer_tile.h - template: one tile of attention over Q8_0 entries in integer arithmetic. Quantizes queries and calls
 * the kernels of simd/integers. Scores and probabilities are floats, as for float entries. */
#ifndef KVC_SIMD_ATTENTION_INTEGER_TILE_H
#define KVC_SIMD_ATTENTION_INTEGER_TILE_H

#include "backends/cpu/simd/attention/gemm.h"
#include "backends/cpu/simd/bump.h"
#include "backends/cpu/simd/integers/integers.h"

struct integer_work {
    const struct kvc_integer_kernels *kernels; /* NULL if attention multiplies floats */
    struct kvc_integer_tile tile;
    struct kvc_integer_queries queries;
};

/* Lays out the memory for `queries` queries. If `values` is true, also lays out the memory for outputs. */
static void integer_lay_out(struct bump *at, uint32_t d, size_t queries, bool values, struct integer_work *work) {
    const size_t groups = integer_groups(d), D = groups * KVC_Q8_GROUP, f = sizeof(float);
    const size_t padded = (queries + INTEGERS_PADDING - 1) / INTEGERS_PADDING * INTEGERS_PADDING + INTEGERS_PADDING;
    struct kvc_integer_tile *tile = &work->tile;
    work->queries.quant = bump_take(at, padded * D);
    work->queries.scale = bump_take(at, padded * groups * f);
    work->queries.sum = bump_take(at, padded * groups * sizeof(kvc_i32));
    tile->keys = bump_take(at, D * KVC_TILE);
    tile->key_scale = bump_take(at, groups * KVC_TILE * f);
    tile->sums = bump_take(at, (size_t)2 * INTEGERS_PADDING * KVC_TILE * sizeof(kvc_i32));
    tile->values = bump_take(at, values ? D * KVC_TILE : 0);
    tile->value_scale = bump_take(at, values ? groups * KVC_TILE * f : 0);
    tile->factor = bump_take(at, values ? groups * KVC_TILE * f : 0);
    tile->unit = bump_take(at, values ? INTEGERS_QUERIES * groups * f : 0);
    tile->digits = bump_take(at, values ? groups * INTEGERS_PADDING * 2 * KVC_TILE : 0);
}

/* Quantizes a query [d] to row `row`. */
static void integer_query(const struct kvc_integer_queries *queries, size_t row, const float *q, uint32_t d) {
    const uint32_t groups = integer_groups(d);
    for (uint32_t g = 0; g < groups; g++) {
        const uint32_t channels = kvc_min_u32(d - g * KVC_Q8_GROUP, KVC_Q8_GROUP);
        const size_t at = row * groups + g;
        kvc_i8 *quant = queries->quant + at * KVC_Q8_GROUP;
        float x[KVC_Q8_GROUP] = {0};
        int32_t bits[LANES];
        kvc_u32 top = 0;
        kvc_i32 sum = 0;
        memcpy(x, q + g * KVC_Q8_GROUP, channels * sizeof *x);
        vi most = vi_set(0);
        UNROLL
        for (unsigned c = 0; c < KVC_Q8_GROUP; c += LANES) {
            const vi magnitude = vi_and(vf_bits(vf_load(x + c)), vi_set(INT32_MAX));
            most = vi_select(vi_greater(magnitude, most), magnitude, most);
        }
        vi_store(bits, most);
        for (unsigned i = 0; i < LANES; i++)
            top = (kvc_u32)bits[i] > top ? (kvc_u32)bits[i] : top;
        const float inverse = kvc_int8_inverse(top);
        queries->scale[at] = kvc_int8_scale(top);
        for (unsigned c = 0; c < KVC_Q8_GROUP; c++)
            quant[c] = kvc_int8_quant(x[c], inverse);
        for (unsigned c = 0; c < KVC_Q8_GROUP; c++)
            sum += quant[c];
        queries->sum[at] = sum;
    }
}

/* Clears INTEGERS_PADDING rows after the last query. */
static void integer_queries_end(const struct kvc_integer_queries *queries, size_t count, uint32_t d) {
    const size_t groups = integer_groups(d);
    memset(queries->quant + count * groups * KVC_Q8_GROUP, 0, INTEGERS_PADDING * groups * KVC_Q8_GROUP);
    memset(queries->scale + count * groups, 0, INTEGERS_PADDING * groups * sizeof(float));
    memset(queries->sum + count * groups, 0, INTEGERS_PADDING * groups * sizeof(kvc_i32));
}

_Static_assert(INTEGERS_QUERIES <= QUERIES_AT_ONCE, "scores of all queries are stored");

/* Computes the results (task.h) m [count], l [count] and o [count] of `count` queries over one packed tile. Rows of o
 * are `stride` floats apart. If a query sees no entries, its m is -inf, its l is 0 and its o is undefined. s
 * [QUERIES_AT_ONCE, KVC_TILE] is scratch memory. */
static void integer_tile(const struct integer_work *work, uint32_t count, const struct seen_range *in, float scale,
                         float cap, struct kept_scores keep, float *s, float *m, float *l, float *o, size_t stride) {
    const uint32_t at_once = work->kernels->at_once;
    KVC_ASSERT(at_once > 0 && at_once <= INTEGERS_QUERIES);
    for (uint32_t from = 0; from < count; from += at_once) {
        const uint32_t some = kvc_min_u32(count - from, at_once);
        const struct seen_range any = seen_by_all(in + from, some);
        work->kernels->scores(&work->tile, &work->queries, from, some, any, scale, s);
        for (uint32_t i = 0; cap != 0.0f && i < some; i++)
            cap_scores(s + (size_t)i * KVC_TILE, KVC_TILE, cap);
        for (uint32_t i = 0; keep.to && i < some; i++)
            memcpy(keep.to + (from + i) * keep.stride + any.low, s + (size_t)i * KVC_TILE + any.low,
                   (any.high - any.low) * sizeof *s);
        gemm_softmax(s, in + from, some, m + from, l + from);
        work->kernels->values(&work->tile, s, in + from, some, o + from * stride, stride);
    }
}

#endif
