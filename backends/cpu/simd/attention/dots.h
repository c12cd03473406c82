/* dots.h - template: scores of many queries for heads of 64 channels, on CPUs with 16 registers of eight floats.
 *
 * The 64 channels of a query stay in eight registers for all keys. Each multiply-add reads its key as a memory operand,
 * so the only other instructions are additions of lanes. The lanes lie side by side in a vector, as in small_batch.h.
 * The last three levels of the tree that adds the lanes are computed for eight dot products together, beginning as soon
 * as two of them are ready. Only the scores are stored. gemm.h would need 26 loads and six stores for 24 multiply-adds.
 * Keys are dequantized but not packed. For other vector widths, this file defines nothing, because gemm.h then has
 * enough registers. */
#ifndef KVC_SIMD_ATTENTION_DOTS_H
#define KVC_SIMD_ATTENTION_DOTS_H

#include "backends/cpu/simd/attention/small_batch.h"

#if LANES == 8 && LANES_REGISTERS == 16
#define DOT_CHANNELS 64u
#define DOT_KEYS 32u /* number of keys that stay in L1 while all queries use them */

/* Computes the first levels of the tree over the lanes of one dot product. `zeros` is explained at score_strip in
 * gemm.h. */
INLINE vf dot_lanes(const vf *q, const float *key, bool zeros) {
    vf pair[2];
    UNROLL
    for (unsigned i = 0; i < 2; i++) {
        vf lane[2];
        UNROLL
        for (unsigned j = 0; j < 2; j++) {
            const unsigned v = i + 2 * j;
            lane[j] =
                zeros ? vf_fma(q[v], vf_load(key + v * LANES), vf_zero()) : vf_mul(q[v], vf_load(key + v * LANES));
            lane[j] = vf_fma(q[v + LANE_VECTORS], vf_load(key + (v + LANE_VECTORS) * LANES), lane[j]);
        }
        pair[i] = vf_add(lane[0], lane[1]);
    }
    return vf_add(pair[0], pair[1]);
}

/* Computes dot products with keys 0, 1, 4 and 5 of eight keys. Two lanes of each dot product remain to be added. */
INLINE vf dot_quad(const vf *q, const float *keys, bool zeros) {
    vf x = dot_lanes(q, keys, zeros);
    x = vf_tree_4(x, dot_lanes(q, keys + 4 * DOT_CHANNELS, zeros));
    vf y = dot_lanes(q, keys + DOT_CHANNELS, zeros);
    y = vf_tree_4(y, dot_lanes(q, keys + 5 * DOT_CHANNELS, zeros));
    return vf_tree_2(x, y);
}

/* s [count] = scale * dot of the query with keys [count, DOT_CHANNELS]. `count` is a multiple of LANES. */
INLINE void dots(const float *query, const float *keys, uint32_t count, bool zeros, float scale, float *s) {
    vf q[DOT_CHANNELS / LANES];
    UNROLL
    for (unsigned v = 0; v < DOT_CHANNELS / LANES; v++)
        q[v] = vf_held(vf_load(query + v * LANES));
    for (uint32_t e = 0; e < count; e += LANES, keys += LANES * DOT_CHANNELS) {
        const vf x = dot_quad(q, keys, zeros), y = dot_quad(q, keys + 2 * DOT_CHANNELS, zeros);
        vf_store(s + e, vf_mul(vf_tree_1(x, y), vf_set(scale)));
    }
}
static NEVER_INLINE void dots_plain(const float *query, const float *keys, uint32_t count, float scale, float *s) {
    dots(query, keys, count, false, scale, s);
}
static NEVER_INLINE void dots_zeros(const float *query, const float *keys, uint32_t count, float scale, float *s) {
    dots(query, keys, count, true, scale, s);
}

/* Dequantizes keys low .. high - 1 of the tile to [KVC_TILE, DOT_CHANNELS]. Writes whole groups of LANES
 * rows: before and after these keys, the nearest key is repeated. */
static void dequantize_keys(enum kvc_type type, const unsigned char *const *keys, uint32_t low, uint32_t high,
                            float *to) {
    for (uint32_t e = low / LANES * LANES; e < (high + LANES - 1) / LANES * LANES; e++)
        dequantize_row(type, to + (size_t)e * DOT_CHANNELS,
                       keys[e < low    ? low
                            : e < high ? e
                                       : high - 1],
                       DOT_CHANNELS);
}

/* Does the work of gemm_scores in gemm.h, with queries [count, DOT_CHANNELS] and keys [KVC_TILE, DOT_CHANNELS]. */
static void dot_scores(const float *keys, const float *q, uint32_t count, const struct seen_range *in, bool zeros,
                       float scale, float *s) {
    for (uint32_t first = 0; first < KVC_TILE; first += DOT_KEYS)
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t low = kvc_max_u32(in[i].low / LANES * LANES, first);
            const uint32_t high = kvc_min_u32((in[i].high + LANES - 1) / LANES * LANES, first + DOT_KEYS);
            if (in[i].low < in[i].high && low < high)
                (zeros ? dots_zeros : dots_plain)(q + (size_t)i * DOT_CHANNELS, keys + (size_t)low * DOT_CHANNELS,
                                                  high - low, scale, s + (size_t)i * KVC_TILE + low);
        }
}
#endif

#endif
