/* many.h - template: one tile of attention for many queries that share a KV head (prompt chunks).
 *
 * Keys and values of the tile are widened and packed once. Scores put STRIP entries side by side and take the 32 lanes
 * of the dot one after another, in bit-reversed order: neighbours of the tree are then neighbours in time, a few lanes
 * are summed in registers and the rest on a stack, so nearly all instructions are fmas on full vectors. Values are an
 * ordinary outer product, MIX_QUERIES queries by MIX_VECTORS vectors of channels.
 */
#ifndef KVC_SIMD_ATTENTION_MANY_H
#define KVC_SIMD_ATTENTION_MANY_H

#include "core/base/integers.h"
#include "backends/cpu/simd/attention/few.h"

#define STRIP (2 * LANES) /* entries side by side */
#define LANE_GROUP 2      /* lanes that are summed in registers: with four too few registers are left for queries */
#define GROUP_LEVELS 4    /* the tree's other levels */
#if LANES_REGISTERS == 32
#define SCORE_QUERIES 6 /* queries of one call of score_strip */
#define MIX_QUERIES 12
#else
#define SCORE_QUERIES 3
#define MIX_QUERIES 6
#endif
#define MIX_VECTORS 2
#define MIX_CHANNELS (MIX_VECTORS * LANES)
#define FEW_QUERIES 8      /* up to so many queries per KV head tiles are not packed */
#define QUERIES_AT_ONCE 48 /* whose scores stay in the second cache: a multiple of 12 */

/* Channels of a packed key or query: d rounded up to 32. Padding as in few.h. */
INLINE size_t packed_size(size_t d) { return (d + KVC_LANES - 1) / KVC_LANES * KVC_LANES; }
INLINE size_t value_size(size_t d) { return (d + MIX_CHANNELS - 1) / MIX_CHANNELS * MIX_CHANNELS; }

/* Where channel c of a packed key lies: lanes in bit-reversed order, LANE_GROUP at a time, inside a group all first
 * channels of its lanes, all second ones, ... */
static inline size_t packed_place(size_t c, size_t d) {
    static const unsigned char reversed[KVC_LANES] = {0, 16, 8, 24, 4, 20, 12, 28, 2, 18, 10, 26, 6, 22, 14, 30,
                                                      1, 17, 9, 25, 5, 21, 13, 29, 3, 19, 11, 27, 7, 23, 15, 31};
    const size_t depth = packed_size(d) / KVC_LANES, lane = reversed[c % KVC_LANES]; /* its own inverse */
    return lane / LANE_GROUP * LANE_GROUP * depth + c / KVC_LANES * LANE_GROUP + lane % LANE_GROUP;
}

/* Queries [SCORE_QUERIES] of d floats each (NULL: none) to [packed_size(d)][SCORE_QUERIES]. */
static void pack_queries(const float *const *q, size_t d, const uint16_t *place, float *to) {
    for (size_t c = 0; c < packed_size(d); c++)
        UNROLL
    for (unsigned i = 0; i < SCORE_QUERIES; i++)
        to[place[c] * SCORE_QUERIES + i] = c < d && q[i] ? q[i][c] : -0.0f;
}

INLINE vf entry_any_load(enum kvc_type type, const unsigned char *row, size_t c, size_t d) {
    if (c + LANES <= d)
        return type == KVC_F32   ? entry_load(KVC_F32, row, c)
               : type == KVC_F16 ? entry_load(KVC_F16, row, c)
                                 : entry_load(KVC_Q8_0, row, c);
    return entry_part_load(type, row, c, d - c);
}

/* Keys low .. high - 1 of the tile to strips [KVC_TILE / STRIP][packed_size(d)][STRIP]; of the strips that hold one,
 * what lies outside low .. high - 1 is some key of the tile. */
static void pack_keys(enum kvc_type type, const unsigned char *const *keys, uint32_t low, uint32_t high, size_t d,
                      const uint16_t *place, float *to) {
    const size_t size = packed_size(d);
    for (uint32_t e = low / LANES * LANES; e < (high + STRIP - 1) / STRIP * STRIP; e += LANES) {
        float *strip = to + e / STRIP * size * STRIP + e % STRIP;
        for (size_t c = 0; c < size; c += LANES) {
            vf block[LANES];
            if (c >= d) {
                UNROLL
                for (size_t i = 0; i < LANES; i++)
                    vf_store(strip + place[c + i] * STRIP, vf_zero());
                continue;
            }
            UNROLL
            for (uint32_t i = 0; i < LANES; i++) {
                const uint32_t at = e + i < low ? low : e + i < high ? e + i : high - 1;
                block[i] = entry_any_load(type, keys[at], c, d);
            }
            vf_transpose(block);
            UNROLL
            for (size_t i = 0; i < LANES; i++)
                vf_store(strip + place[c + i] * STRIP, block[i]);
        }
    }
}

/* Values to [value_size(d) / MIX_CHANNELS][KVC_TILE][MIX_CHANNELS], +0 after the last channel. */
static void pack_values(enum kvc_type type, const unsigned char *const *keys, size_t value_offset, uint32_t low,
                        uint32_t high, size_t d, float *to) {
    const size_t size = value_size(d);
    for (uint32_t e = low; e < high; e++) {
        const unsigned char *row = keys[e] + value_offset;
        for (size_t c = 0; c < size; c += LANES)
            vf_store(to + (c / MIX_CHANNELS * KVC_TILE + e) * MIX_CHANNELS + c % MIX_CHANNELS,
                     c < d ? entry_any_load(type, row, c, d) : vf_zero());
    }
}

/* s[i * KVC_TILE + 0 .. STRIP - 1] = scale * dot of query i with the strip's keys. */
static NEVER_INLINE void score_strip(const float *strip, const float *q, size_t depth, float scale, float *s) {
    vf stack[GROUP_LEVELS][SCORE_QUERIES * 2];
    for (unsigned group = 0; group < KVC_LANES / LANE_GROUP; group++) {
        vf lane[LANE_GROUP][SCORE_QUERIES * 2];
        UNROLL
        for (unsigned g = 0; g < LANE_GROUP; g++)
            UNROLL
        for (unsigned i = 0; i < SCORE_QUERIES * 2; i++)
            lane[g][i] = vf_zero();
        for (size_t k = 0; k < depth; k++) {
            UNROLL
            for (unsigned g = 0; g < LANE_GROUP; g++) {
                const vf first = vf_load(strip + g * STRIP), second = vf_load(strip + g * STRIP + LANES);
                UNROLL
                for (unsigned i = 0; i < SCORE_QUERIES; i++) {
                    const vf x = vf_set(q[g * SCORE_QUERIES + i]);
                    lane[g][2 * i] = vf_fma(x, first, lane[g][2 * i]);
                    lane[g][2 * i + 1] = vf_fma(x, second, lane[g][2 * i + 1]);
                }
            }
            strip += LANE_GROUP * STRIP;
            q += LANE_GROUP * SCORE_QUERIES;
        }
        UNROLL
        for (unsigned i = 0; i < SCORE_QUERIES * 2; i++) {
            lane[0][i] = vf_add(lane[0][i], lane[1][i]);
        }
        unsigned level = 0;
        for (; group >> level & 1; level++)
            UNROLL
        for (unsigned i = 0; i < SCORE_QUERIES * 2; i++)
            lane[0][i] = vf_add(stack[level][i], lane[0][i]);
        if (level < GROUP_LEVELS) {
            UNROLL
            for (unsigned i = 0; i < SCORE_QUERIES * 2; i++)
                stack[level][i] = lane[0][i];
        } else {
            UNROLL
            for (unsigned i = 0; i < SCORE_QUERIES; i++) {
                vf_store(s + i * KVC_TILE, vf_mul(lane[0][2 * i], vf_set(scale)));
                vf_store(s + i * KVC_TILE + LANES, vf_mul(lane[0][2 * i + 1], vf_set(scale)));
            }
        }
    }
}

/* o[i, 0 .. n*LANES) = fma(p[i, j], v[j], o) for j = low .. high - 1 ascending, i < queries.
 * v [KVC_TILE][MIX_CHANNELS], o rows o_stride apart. */
INLINE void mix_block(unsigned queries, unsigned n, const float *v, uint32_t low, uint32_t high, const float *p,
                      float *o, size_t o_stride) {
    vf sum[MIX_QUERIES][MIX_VECTORS];
    UNROLL
    for (unsigned i = 0; i < queries; i++)
        UNROLL
    for (unsigned w = 0; w < n; w++)
        sum[i][w] = vf_load(o + i * o_stride + w * LANES);
    v += (size_t)low * MIX_CHANNELS;
    p += low;
    for (uint32_t j = low; j < high; j++) {
        vf value[MIX_VECTORS];
        UNROLL
        for (unsigned w = 0; w < n; w++)
            value[w] = vf_load(v + w * LANES);
        UNROLL
        for (unsigned i = 0; i < queries; i++) {
            const vf weight = vf_set(p[i * KVC_TILE]);
            UNROLL
            for (unsigned w = 0; w < n; w++)
                sum[i][w] = vf_fma(weight, value[w], sum[i][w]);
        }
        v += MIX_CHANNELS;
        p++;
    }
    UNROLL
    for (unsigned i = 0; i < queries; i++)
        UNROLL
    for (unsigned w = 0; w < n; w++)
        vf_store(o + i * o_stride + w * LANES, sum[i][w]);
}

static NEVER_INLINE void mix_full(const float *v, uint32_t low, uint32_t high, const float *p, float *o,
                                  size_t o_stride) {
    mix_block(MIX_QUERIES, MIX_VECTORS, v, low, high, p, o, o_stride);
}
static NEVER_INLINE void mix_full_half(const float *v, uint32_t low, uint32_t high, const float *p, float *o,
                                       size_t o_stride) {
    mix_block(MIX_QUERIES, 1, v, low, high, p, o, o_stride);
}
static NEVER_INLINE void mix_third(const float *v, uint32_t low, uint32_t high, const float *p, float *o,
                                   size_t o_stride) {
    mix_block(MIX_QUERIES / 3, MIX_VECTORS, v, low, high, p, o, o_stride);
}
static NEVER_INLINE void mix_third_half(const float *v, uint32_t low, uint32_t high, const float *p, float *o,
                                        size_t o_stride) {
    mix_block(MIX_QUERIES / 3, 1, v, low, high, p, o, o_stride);
}
static NEVER_INLINE void mix_one(const float *v, uint32_t low, uint32_t high, const float *p, float *o,
                                 size_t o_stride) {
    mix_block(1, MIX_VECTORS, v, low, high, p, o, o_stride);
}
static NEVER_INLINE void mix_one_half(const float *v, uint32_t low, uint32_t high, const float *p, float *o,
                                      size_t o_stride) {
    mix_block(1, 1, v, low, high, p, o, o_stride);
}

/* All channels of `queries` (MIX_QUERIES, a third of it, or 1) queries over places low .. high - 1. */
static void mix_queries(unsigned queries, const float *v, size_t d, uint32_t low, uint32_t high, const float *p,
                        float *o, size_t o_stride) {
    for (size_t c = 0; c < o_stride; c += MIX_CHANNELS, v += (size_t)KVC_TILE * MIX_CHANNELS) {
        const bool both = d > c + LANES;
        if (queries == MIX_QUERIES)
            (both ? mix_full : mix_full_half)(v, low, high, p, o + c, o_stride);
        else if (queries == MIX_QUERIES / 3)
            (both ? mix_third : mix_third_half)(v, low, high, p, o + c, o_stride);
        else
            (both ? mix_one : mix_one_half)(v, low, high, p, o + c, o_stride);
    }
}

/* Queries of a block see different ranges `in`: what all see is mixed together, the rest for each query alone. */
static void mix_ragged(unsigned queries, const struct seen_range *in, const float *v, size_t d, const float *p,
                       float *o, size_t o_stride) {
    uint32_t low = 0, high = KVC_TILE;
    for (unsigned i = 0; i < queries; i++) {
        low = kvc_max_u32(in[i].low, low);
        high = kvc_min_u32(in[i].high, high);
    }
    if (low >= high) { /* nothing in common, perhaps because a query sees nothing here */
        for (unsigned i = 0; i < queries; i++)
            if (in[i].low < in[i].high)
                mix_queries(1, v, d, in[i].low, in[i].high, p + i * KVC_TILE, o + i * o_stride, o_stride);
        return;
    }
    for (unsigned i = 0; i < queries; i++)
        if (in[i].low < low)
            mix_queries(1, v, d, in[i].low, low, p + i * KVC_TILE, o + i * o_stride, o_stride);
    mix_queries(queries, v, d, low, high, p, o, o_stride);
    for (unsigned i = 0; i < queries; i++)
        if (in[i].high > high)
            mix_queries(1, v, d, high, in[i].high, p + i * KVC_TILE, o + i * o_stride, o_stride);
}

/* Scores of `count` queries (packed, SCORE_QUERIES at a time) with the tile's packed keys: s [count rounded up to
 * SCORE_QUERIES, KVC_TILE]; query i needs places in[i] only. */
static void many_scores(const float *keys, const float *q, uint32_t count, const struct seen_range *in, size_t d,
                        float scale, float *s) {
    const size_t size = packed_size(d);
    uint32_t low = KVC_TILE, high = 0;
    for (uint32_t i = 0; i < count; i++)
        if (in[i].low < in[i].high) {
            low = kvc_min_u32(in[i].low, low);
            high = kvc_max_u32(in[i].high, high);
        }
    for (uint32_t e = low / STRIP * STRIP; e < high; e += STRIP)
        for (uint32_t i = 0; i < count; i += SCORE_QUERIES) {
            bool wanted = false;
            for (uint32_t j = i; j < i + SCORE_QUERIES && j < count; j++)
                wanted = wanted || (in[j].low < e + STRIP && in[j].high > e && in[j].low < in[j].high);
            if (wanted)
                score_strip(keys + e / STRIP * size * STRIP, q + i * size, size / KVC_LANES, scale,
                            s + (size_t)i * KVC_TILE + e);
        }
}

/* One packed tile for `count` queries: m, l [count] and o [count, value_size(d)] from zero; a query that sees nothing
 * keeps m and l as they are. s [QUERIES_AT_ONCE, KVC_TILE] scratch. */
static void many_tile(const float *keys, const float *values, const float *q, uint32_t count,
                      const struct seen_range *in, size_t d, float scale, float *s, float *m, float *l, float *o) {
    const size_t stride = value_size(d);
    memset(o, 0, count * stride * sizeof *o);
    for (uint32_t from = 0; from < count; from += QUERIES_AT_ONCE) {
        const uint32_t some = kvc_min_u32(count - from, QUERIES_AT_ONCE);
        many_scores(keys, q + from * packed_size(d), some, in + from, d, scale, s);
        for (uint32_t i = 0; i < some; i++)
            if (in[from + i].low < in[from + i].high)
                m[from + i] = softmax_tile(s + (size_t)i * KVC_TILE, in[from + i].low, in[from + i].high, &l[from + i]);
        for (uint32_t i = 0; i < some;) {
            const uint32_t left = some - i;
            const unsigned block = left >= MIX_QUERIES ? MIX_QUERIES : left >= MIX_QUERIES / 3 ? MIX_QUERIES / 3 : 1;
            mix_ragged(block, in + from + i, values, d, s + (size_t)i * KVC_TILE, o + (from + i) * stride, stride);
            i += block;
        }
    }
}

#endif
