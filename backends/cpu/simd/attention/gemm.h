/* gemm.h - template: one tile of attention for many queries that share a KV head, as in chunks of a prompt.
 *
 * Keys and values of the tile are dequantized and packed once. Scores are computed for STRIP entries at a time. The 32
 * lanes of the dot product are computed one after another, in bit-reversed order, so that lanes that the tree adds to
 * each other are consecutive. A few lanes are summed in registers, and the rest on a stack in memory. Thus nearly all
 * instructions are multiply-adds of full vectors. Stores to the stack cost more than additions, because the CPU has
 * separate ports for additions. For this reason, the registers hold few queries and many lanes. Outputs are computed as
 * an ordinary outer product of the weights of MIX_QUERIES queries and MIX_VECTORS vectors of value channels. */
#ifndef KVC_SIMD_ATTENTION_GEMM_H
#define KVC_SIMD_ATTENTION_GEMM_H

#include "core/base/integers.h"
#include "backends/cpu/simd/attention/dots.h"

/* A call of score_strip computes SCORE_QUERIES times SCORE_VECTORS vectors of scores. It sums SCORE_LANES lanes in
 * registers. For each vector of scores, two lanes need two registers and four lanes need three. */
#if LANES == 16
#define SCORE_QUERIES 2
#define SCORE_VECTORS 4
#define SCORE_LANES 4
#elif LANES_REGISTERS == 32
#define SCORE_QUERIES 6
#define SCORE_VECTORS 2
#define SCORE_LANES 2
#else
#define SCORE_QUERIES 3
#define SCORE_VECTORS 2
#define SCORE_LANES 2
#endif
#define SCORE_SUMS (SCORE_QUERIES * SCORE_VECTORS)
#define SCORE_LEVELS (SCORE_LANES == 4 ? 3 : 4) /* number of tree levels that are summed on the stack */
#define STRIP (SCORE_VECTORS * LANES)           /* number of entries computed at a time */
#define MIX_QUERIES (LANES_REGISTERS == 32 ? 12u : 6u)
#define MIX_VECTORS 2
#define MIX_CHANNELS (MIX_VECTORS * LANES)
#define SMALL_BATCH_QUERIES 8 /* up to this number of queries per KV head, tiles are not packed */
#define QUERIES_AT_ONCE 48    /* number of queries whose scores stay in L2; a multiple of 12 */

/* Number of channels of a packed key or query: d rounded up to a multiple of 32. The padding has the same values as in
 * small_batch.h. */
INLINE size_t packed_size(size_t d) { return (d + KVC_LANES - 1) / KVC_LANES * KVC_LANES; }
INLINE size_t value_size(size_t d) { return (d + MIX_CHANNELS - 1) / MIX_CHANNELS * MIX_CHANNELS; }

/* Returns the index of channel c in a packed key, which has the lanes in bit-reversed order, each with all of its
 * channels. */
static inline size_t packed_index(size_t c, size_t d) {
    static const unsigned char reversed[KVC_LANES] = {0, 16, 8, 24, 4, 20, 12, 28, 2, 18, 10, 26, 6, 22, 14, 30,
                                                      1, 17, 9, 25, 5, 21, 13, 29, 3, 19, 11, 27, 7, 23, 15, 31};
    return reversed[c % KVC_LANES] * (packed_size(d) / KVC_LANES) + c / KVC_LANES; /* the mapping is its own inverse */
}

/* Packs SCORE_QUERIES queries of d floats to [packed_size(d)][SCORE_QUERIES], or to the layout of dots.h. A pointer to
 * a missing query is NULL. */
static void pack_queries(const float *const *q, size_t d, const uint16_t *index, float *to) {
#ifdef DOT_CHANNELS
    for (unsigned i = 0; d == DOT_CHANNELS && i < SCORE_QUERIES; i++)
        if (q[i])
            memcpy(to + i * d, q[i], d * sizeof *to);
    if (d == DOT_CHANNELS)
        return;
#endif
    for (size_t c = 0; c < packed_size(d); c++)
        UNROLL
    for (unsigned i = 0; i < SCORE_QUERIES; i++)
        to[index[c] * SCORE_QUERIES + i] = c < d && q[i] ? q[i][c] : -0.0f;
}

INLINE vf entry_any_load(enum kvc_type type, const unsigned char *row, size_t c, size_t d) {
    if (c + LANES <= d)
        return type == KVC_F32   ? entry_load(KVC_F32, row, c)
               : type == KVC_F16 ? entry_load(KVC_F16, row, c)
                                 : entry_load(KVC_Q8_0, row, c);
    return entry_part_load(type, row, c, d - c);
}

/* Packs keys low .. high - 1 of the tile to strips [KVC_TILE / STRIP][packed_size(d)][STRIP]. If a strip is partly
 * outside this range, some key of the tile fills the strip's places outside the range. */
static void pack_keys(enum kvc_type type, const unsigned char *const *keys, uint32_t low, uint32_t high, size_t d,
                      const uint16_t *index, float *to) {
    const size_t size = packed_size(d);
#ifdef DOT_CHANNELS
    if (d == DOT_CHANNELS) {
        dequantize_keys(type, keys, low, high, to);
        return;
    }
#endif
    for (uint32_t e = low / LANES * LANES; e < (high + STRIP - 1) / STRIP * STRIP; e += LANES) {
        float *strip = to + e / STRIP * size * STRIP + e % STRIP;
        for (size_t c = 0; c < size; c += LANES) {
            vf block[LANES];
            if (c >= d) {
                UNROLL
                for (size_t i = 0; i < LANES; i++)
                    vf_store(strip + index[c + i] * STRIP, vf_zero());
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
                vf_store(strip + index[c + i] * STRIP, block[i]);
        }
    }
}

/* Packs values to [value_size(d) / MIX_CHANNELS][KVC_TILE][MIX_CHANNELS], with +0 after the last channel. */
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

/* Adds the products of channel k of one lane to sum [SCORE_QUERIES][SCORE_VECTORS]. */
INLINE void score_channel(const float *strip, const float *q, size_t k, bool zeros, vf *sum) {
    vf key[SCORE_VECTORS];
    UNROLL
    for (unsigned v = 0; v < SCORE_VECTORS; v++)
        key[v] = vf_held(vf_load(strip + k * STRIP + v * LANES));
    UNROLL
    for (unsigned i = 0; i < SCORE_QUERIES; i++) {
        const vf x = vf_held(vf_set(q[k * SCORE_QUERIES + i]));
        UNROLL
        for (unsigned v = 0; v < SCORE_VECTORS; v++) {
            vf *to = &sum[i * SCORE_VECTORS + v];
            *to = k > 0 ? vf_fma(x, key[v], *to) : zeros ? vf_fma(x, key[v], vf_zero()) : vf_mul(x, key[v]);
        }
    }
}

/* Computes one lane of the dot products. The lane has `depth` channels. The loop over the first `unrolled` channels is
 * unrolled, so `unrolled` must be a constant. */
INLINE void score_lane(const float *strip, const float *q, size_t depth, size_t unrolled, bool zeros, vf *sum) {
    UNROLL
    for (size_t k = 0; k < unrolled; k++)
        score_channel(strip, q, k, zeros, sum);
    for (size_t k = unrolled; k < depth; k++)
        score_channel(strip, q, k, zeros, sum);
}

INLINE void score_add(vf *sum, const vf *other) {
    UNROLL
    for (unsigned i = 0; i < SCORE_SUMS; i++)
        sum[i] = vf_add(sum[i], other[i]);
}

/* Sets s[i * KVC_TILE + 0 .. STRIP - 1] to scale * dot of query i with the strip's keys. If `zeros` is true, each lane
 * begins with +0 instead of its first product, which gives a dot product of zero the correct sign. */
INLINE void score_strip(const float *strip, const float *q, size_t depth, size_t unrolled, bool zeros, float scale,
                        float *s) {
    const size_t keys = depth * STRIP, queries = depth * SCORE_QUERIES;
    vf stack[SCORE_LEVELS][SCORE_SUMS];
    for (unsigned group = 0; group < KVC_LANES / SCORE_LANES; group++) {
        vf sum[SCORE_SUMS], other[SCORE_SUMS];
        score_lane(strip, q, depth, unrolled, zeros, sum);
        score_lane(strip + keys, q + queries, depth, unrolled, zeros, other);
        score_add(sum, other);
#if SCORE_LANES == 4
        vf last[SCORE_SUMS];
        score_lane(strip + 2 * keys, q + 2 * queries, depth, unrolled, zeros, other);
        score_lane(strip + 3 * keys, q + 3 * queries, depth, unrolled, zeros, last);
        score_add(other, last);
        score_add(sum, other);
#endif
        strip += SCORE_LANES * keys;
        q += SCORE_LANES * queries;
        unsigned level = 0;
        for (; group >> level & 1; level++)
            score_add(sum, stack[level]);
        if (level < SCORE_LEVELS) {
            UNROLL
            for (unsigned i = 0; i < SCORE_SUMS; i++)
                stack[level][i] = sum[i];
        } else {
            UNROLL
            for (unsigned i = 0; i < SCORE_SUMS; i++)
                vf_store(s + i / SCORE_VECTORS * KVC_TILE + i % SCORE_VECTORS * LANES, vf_mul(sum[i], vf_set(scale)));
        }
    }
}

/* The loops for d = 64, 96 and 128 are unrolled. The score_zeros functions are for scores that policies use. */
#define SCORE_STRIP(name, zeros, depths)                                                                               \
    static NEVER_INLINE void name(const float *strip, const float *q, size_t depth, float scale, float *s) {           \
        (void)depth;                                                                                                   \
        score_strip(strip, q, (depths) ? (depths) : depth, (depths) ? (depths) : 1, zeros, scale, s);                  \
    }
SCORE_STRIP(score_strip_2, false, 2)
SCORE_STRIP(score_strip_3, false, 3)
SCORE_STRIP(score_strip_4, false, 4)
SCORE_STRIP(score_strip_any, false, 0)
SCORE_STRIP(score_zeros_2, true, 2)
SCORE_STRIP(score_zeros_4, true, 4)
SCORE_STRIP(score_zeros_any, true, 0)

typedef void score_strip_function(const float *strip, const float *q, size_t depth, float scale, float *s);

INLINE score_strip_function *score_strip_of(size_t depth, bool zeros) {
    if (zeros)
        return depth == 2 ? score_zeros_2 : depth == 4 ? score_zeros_4 : score_zeros_any;
    return depth == 2 ? score_strip_2 : depth == 3 ? score_strip_3 : depth == 4 ? score_strip_4 : score_strip_any;
}

/* Sets o[i, 0 .. n*LANES) to fma(p[i, j], v[j], o) for j = low .. high - 1 ascending and i < queries. If `fresh` is
 * true, o starts from 0. v is [KVC_TILE][MIX_CHANNELS], and rows of o are o_stride apart. */
INLINE void mix_block(unsigned queries, unsigned n, const float *v, uint32_t low, uint32_t high, const float *p,
                      bool fresh, float *o, size_t o_stride) {
    vf sum[MIX_QUERIES][MIX_VECTORS];
    UNROLL
    for (unsigned i = 0; i < queries; i++)
        UNROLL
    for (unsigned w = 0; w < n; w++)
        sum[i][w] = fresh ? vf_zero() : vf_load(o + i * o_stride + w * LANES);
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

#define MIX_BLOCK(name, queries, n)                                                                                    \
    static NEVER_INLINE void name(const float *v, uint32_t low, uint32_t high, const float *p, bool fresh, float *o,   \
                                  size_t o_stride) {                                                                   \
        mix_block(queries, n, v, low, high, p, fresh, o, o_stride);                                                    \
    }
MIX_BLOCK(mix_full, MIX_QUERIES, MIX_VECTORS)
MIX_BLOCK(mix_full_half, MIX_QUERIES, 1)
MIX_BLOCK(mix_third, MIX_QUERIES / 3, MIX_VECTORS)
MIX_BLOCK(mix_third_half, MIX_QUERIES / 3, 1)
MIX_BLOCK(mix_one, 1, MIX_VECTORS)
MIX_BLOCK(mix_one_half, 1, 1)

/* For `queries` queries, computes all output channels over entries low .. high - 1. `queries` is MIX_QUERIES, a third
 * of MIX_QUERIES, or 1. */
static void mix_queries(unsigned queries, const float *v, size_t d, uint32_t low, uint32_t high, const float *p,
                        bool fresh, float *o, size_t o_stride) {
    for (size_t c = 0; c < o_stride; c += MIX_CHANNELS, v += (size_t)KVC_TILE * MIX_CHANNELS) {
        const bool both = d > c + LANES;
        if (queries == MIX_QUERIES)
            (both ? mix_full : mix_full_half)(v, low, high, p, fresh, o + c, o_stride);
        else if (queries == MIX_QUERIES / 3)
            (both ? mix_third : mix_third_half)(v, low, high, p, fresh, o + c, o_stride);
        else
            (both ? mix_one : mix_one_half)(v, low, high, p, fresh, o + c, o_stride);
    }
}

/* Sums the values for a block of queries with different ranges: query i sees the entries in[i]. Entries that all
 * queries see are added for all queries together; other entries are added for each query alone. */
static void mix_ragged(unsigned queries, const struct seen_range *in, const float *v, size_t d, const float *p,
                       float *o, size_t o_stride) {
    uint32_t low = 0, high = KVC_TILE;
    bool fresh = true; /* true if no query's range begins before the common range */
    for (unsigned i = 0; i < queries; i++) {
        low = kvc_max_u32(in[i].low, low);
        high = kvc_min_u32(in[i].high, high);
    }
    for (unsigned i = 0; i < queries; i++)
        fresh = fresh && in[i].low == low;
    if (low >= high) { /* there is no common range, perhaps because a query sees nothing in this tile */
        for (unsigned i = 0; i < queries; i++)
            if (in[i].low < in[i].high)
                mix_queries(1, v, d, in[i].low, in[i].high, p + i * KVC_TILE, true, o + i * o_stride, o_stride);
        return;
    }
    if (!fresh)
        memset(o, 0, queries * o_stride * sizeof *o);
    for (unsigned i = 0; i < queries; i++)
        if (in[i].low < low)
            mix_queries(1, v, d, in[i].low, low, p + i * KVC_TILE, false, o + i * o_stride, o_stride);
    mix_queries(queries, v, d, low, high, p, fresh, o, o_stride);
    for (unsigned i = 0; i < queries; i++)
        if (in[i].high > high)
            mix_queries(1, v, d, high, in[i].high, p + i * KVC_TILE, false, o + i * o_stride, o_stride);
}

/* Computes the scores of `count` queries (packed, SCORE_QUERIES at a time) with the tile's packed keys: s [count
 * rounded up to SCORE_QUERIES, KVC_TILE]. Query i needs only the entries in[i]. `zeros` is explained at score_strip. */
static void gemm_scores(const float *keys, const float *q, uint32_t count, const struct seen_range *in, size_t d,
                        bool zeros, float scale, float *s) {
    const size_t size = packed_size(d);
#ifdef DOT_CHANNELS
    if (d == DOT_CHANNELS) {
        dot_scores(keys, q, count, in, zeros, scale, s);
        return;
    }
#endif
    score_strip_function *of_strip = score_strip_of(size / KVC_LANES, zeros);
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
                of_strip(keys + e / STRIP * size * STRIP, q + i * size, size / KVC_LANES, scale,
                         s + (size_t)i * KVC_TILE + e);
        }
}

/* The `count` keys of the next tile. Prefetching needs their addresses, because neither they nor their values follow
 * the current tile in memory. */
struct gemm_ahead {
    const unsigned char *const *keys;
    uint32_t count;
    size_t value_offset, row_bytes;
};

/* While queries `from` .. `to` - 1 of `count` are computed, prefetches the corresponding part of the next tile, and the
 * `floats` floats at o that will be stored next. Prefetching everything at once would fill the processor's line fill
 * buffers. */
INLINE void gemm_prefetch(const struct gemm_ahead *ahead, uint32_t from, uint32_t to, uint32_t count, const float *o,
                          size_t floats) {
    const size_t bytes = ahead->row_bytes;
    for (uint32_t i = ahead->count * from / count; i < ahead->count * to / count; i++) {
        prefetch_row_far(ahead->keys[i], bytes);
        prefetch_row_far(ahead->keys[i] + ahead->value_offset, bytes);
    }
    for (size_t i = 0; i < floats; i += 16)
        __builtin_prefetch(o + i, 1);
}

/* Turns the scores s [count, KVC_TILE] of `count` queries into p = exp(s - m), where m [count] has each query's maximum
 * score. Writes m, and the sums l [count] of p. */
static void gemm_softmax(float *s, const struct seen_range *in, uint32_t count, float *m, float *l) {
    /* computes all maxima first, so that no query's exponentials wait for its maximum */
    for (uint32_t i = 0; i < count; i++)
        m[i] = in[i].low < in[i].high ? tile_most(s + (size_t)i * KVC_TILE, in[i].low, in[i].high) : -kvc_infinity();
    for (uint32_t i = 0; i < count; i++)
        l[i] = in[i].low < in[i].high ? softmax_from(s + (size_t)i * KVC_TILE, in[i].low, in[i].high, &m[i]) : 0.0f;
}

/* Computes the results (task.h) of one packed tile for `count` queries: m and l [count], and o [count, value_size(d)].
 * Only the channels of o below d are set. If a query sees nothing, its m is -inf, its l is 0 and its o is not set. s
 * [QUERIES_AT_ONCE, KVC_TILE] is scratch. */
static void gemm_tile(const float *keys, const float *values, const float *q, uint32_t count,
                      const struct seen_range *in, size_t d, float scale, float cap, const struct gemm_ahead *ahead,
                      float *s, float *m, float *l, float *o) {
    const size_t stride = value_size(d);
    for (uint32_t from = 0; from < count; from += QUERIES_AT_ONCE) {
        const uint32_t some = kvc_min_u32(count - from, QUERIES_AT_ONCE);
        gemm_scores(keys, q + from * packed_size(d), some, in + from, d, false, scale, s);
        for (uint32_t i = 0; cap != 0.0f && i < some; i++)
            cap_scores(s + (size_t)i * KVC_TILE, KVC_TILE, cap);
        for (uint32_t i = 0; i < some;) {
            const uint32_t left = some - i;
            const unsigned block = left >= MIX_QUERIES ? MIX_QUERIES : left >= MIX_QUERIES / 3 ? MIX_QUERIES / 3 : 1;
            const uint32_t at = from + i, then = at + block, next = kvc_min_u32(count - then, MIX_QUERIES);
            gemm_prefetch(ahead, at, then, count, o + then * stride, next * stride);
            gemm_softmax(s + (size_t)i * KVC_TILE, in + at, block, m + at, l + at);
            mix_ragged(block, in + at, values, d, s + (size_t)i * KVC_TILE, o + at * stride, stride);
            i += block;
        }
    }
}

#endif
