/* small_batch.h - template: one tile of attention for one row and its query heads that share a KV head.
 *
 * A decode step reads every key and value once, so memory bandwidth limits its speed. A key is dequantized once for all
 * heads of its group. The 32 lanes of a dot product lie side by side in vectors. vf_rows_tree finishes
 * several dot products at the same time, one for each float of a vector (LANES): it sums the lanes of each product, and
 * returns one vector with all results. */
#ifndef KVC_SIMD_ATTENTION_SMALL_BATCH_H
#define KVC_SIMD_ATTENTION_SMALL_BATCH_H

#include "core/base/integers.h"
#include "backends/cpu/simd/attention/softmax_tile.h"

/* A pass computes the dot products of up to HEADS_AT_ONCE heads with ROWS_AT_ONCE keys. These numbers are chosen so
 * that the registers can hold all partial sums. */
#if LANES == 16
#define HEADS_AT_ONCE 7u
#define PREFETCH_BESIDE true /* prefetch values while scores are computed */
#define UNROLL_PASSES        /* without unrolling, the loop fits in the cache of decoded instructions */
#define ROWS_AT_ONCE(heads) ((heads) < 4 ? 4u : 2u)
#else
#define HEADS_AT_ONCE 1u
#define PREFETCH_BESIDE false /* in these shorter loops, testing whether to prefetch costs more than it saves */
#define UNROLL_PASSES UNROLL
#define ROWS_AT_ONCE(heads) 2u
#endif

/* Returns the number of floats of a query or dequantized key in scratch memory: d rounded up to whole vectors. A query
 * is padded with -0 and a key with +0; adding their product changes no lane, not even its sign. */
INLINE size_t padded_size(size_t d) { return (d + LANES - 1) / LANES * LANES; }

static inline void pad_query(float *to, const float *q, size_t d) {
    memcpy(to, q, d * sizeof *q);
    for (size_t c = d; c < padded_size(d); c++)
        to[c] = -0.0f;
}

static inline void dequantize_row(enum kvc_type type, float *to, const unsigned char *row, size_t d) {
    size_t c = 0;
    if (type != KVC_F32 && type != KVC_F16 && type != KVC_Q8_0) {
        dequantize_packed(type, to, row, d);
        memset(to + d, 0, (padded_size(d) - d) * sizeof *to);
        return;
    }
    for (; c + LANES <= d; c += LANES)
        vf_store(to + c, type == KVC_F32   ? entry_load(KVC_F32, row, c)
                         : type == KVC_F16 ? entry_load(KVC_F16, row, c)
                                           : entry_load(KVC_Q8_0, row, c));
    if (c < d)
        vf_store(to + c, entry_part_load(type, row, c, d - c));
}

/* If several multiply-adds use a vector, keeps it in a register. Otherwise the only multiply-add reads it from
 * memory. */
INLINE vf held_if(bool several, vf x) { return several ? vf_held(x) : x; }

/* Returns the bytes of one channel, without scales. */
INLINE size_t entry_bytes(enum kvc_type type) { return type == KVC_F32 ? 4 : type == KVC_F16 ? 2 : 1; }

/* Prefetches channels c .. c + n - 1 of a row. */
INLINE void prefetch_channels(enum kvc_type type, const unsigned char *row, size_t c, size_t n) {
    const size_t bytes = entry_bytes(type);
    UNROLL
    for (size_t b = 0; b < n * bytes; b += 64)
        __builtin_prefetch(row + c * bytes + b, 0, 2);
}

/* Sets s[h * KVC_TILE + i] to scale * dot(q[h], rows[i]) for LANES rows of `vectors` whole vectors. There are `heads`
 * queries, query_stride floats apart. Meanwhile prefetches the memory `ahead` bytes after each row. */
INLINE void small_batch_dots(enum kvc_type type, const unsigned char *const *rows, const float *q, size_t query_stride,
                             unsigned heads, size_t vectors, float scale, size_t ahead, float *s) {
    const unsigned at_once = ROWS_AT_ONCE(heads);
    struct vf_rows folded[HEADS_AT_ONCE];
    UNROLL_PASSES
    for (unsigned e = 0; e < LANES; e += at_once) {
        vf lane[HEADS_AT_ONCE][ROWS_AT_ONCE(1)][LANE_VECTORS];
        UNROLL
        for (unsigned h = 0; h < heads; h++)
            UNROLL
        for (unsigned r = 0; r < at_once; r++)
            UNROLL
        for (unsigned f = 0; f < LANE_VECTORS; f++)
            lane[h][r][f] = vf_zero();
        size_t v = 0;
        for (; v + LANE_VECTORS <= vectors; v += LANE_VECTORS) {
            UNROLL
            for (unsigned r = 0; r < at_once; r++)
                if (PREFETCH_BESIDE && ahead)
                    prefetch_channels(type, rows[e + r] + ahead, v * LANES, KVC_LANES);
            UNROLL
            for (unsigned f = 0; f < LANE_VECTORS; f++) {
                vf key[ROWS_AT_ONCE(1)];
                UNROLL
                for (unsigned r = 0; r < at_once; r++)
                    key[r] = held_if(heads > 1, entry_load(type, rows[e + r], (v + f) * LANES));
                UNROLL
                for (unsigned h = 0; h < heads; h++) {
                    const vf x = held_if(heads > 1, vf_load(q + h * query_stride + (v + f) * LANES));
                    UNROLL
                    for (unsigned r = 0; r < at_once; r++)
                        lane[h][r][f] = vf_fma(x, key[r], lane[h][r][f]);
                }
            }
        }
        UNROLL
        for (unsigned f = 0; f + 1 < LANE_VECTORS; f++)
            if (v + f < vectors) {
                UNROLL
                for (unsigned r = 0; r < at_once; r++) {
                    const vf key = entry_load(type, rows[e + r], (v + f) * LANES);
                    UNROLL
                    for (unsigned h = 0; h < heads; h++)
                        lane[h][r][f] = vf_fma(vf_load(q + h * query_stride + (v + f) * LANES), key, lane[h][r][f]);
                }
            }
        UNROLL
        for (unsigned h = 0; h < heads; h++)
            UNROLL
        for (unsigned r = 0; r < at_once; r++)
            vf_rows_put(&folded[h], e + r, fold_lanes(lane[h][r]));
    }
    UNROLL
    for (unsigned h = 0; h < heads; h++)
        vf_store(s + h * KVC_TILE, vf_mul(vf_rows_tree(&folded[h]), vf_set(scale)));
}

/* Calls small_batch_dots. The compiler makes one version for heads of 64 channels, one for heads of 128, and one for
 * all others. */
INLINE void small_batch_dots_of(enum kvc_type type, unsigned heads, const unsigned char *const *rows, const float *q,
                                size_t vectors, float scale, size_t ahead, float *s) {
    const size_t stride = vectors * LANES;
    if (vectors == 64 / LANES)
        small_batch_dots(type, rows, q, stride, heads, 64 / LANES, scale, ahead, s);
    else if (vectors == 128 / LANES)
        small_batch_dots(type, rows, q, stride, heads, 128 / LANES, scale, ahead, s);
    else
        small_batch_dots(type, rows, q, stride, heads, vectors, scale, ahead, s);
}

typedef void small_batch_dots_function(const unsigned char *const *rows, const float *q, size_t vectors, float scale,
                                       size_t ahead, float *s);
#define SMALL_BATCH_DOTS(name, type, heads)                                                                            \
    static NEVER_INLINE void name(const unsigned char *const *rows, const float *q, size_t vectors, float scale,       \
                                  size_t ahead, float *s) {                                                            \
        small_batch_dots_of(type, heads, rows, q, vectors, scale, ahead, s);                                           \
    }
SMALL_BATCH_DOTS(small_batch_dots_q8, KVC_Q8_0, 1)
SMALL_BATCH_DOTS(small_batch_dots_f32_1, KVC_F32, 1)
SMALL_BATCH_DOTS(small_batch_dots_f16_1, KVC_F16, 1)
#if LANES == 16
SMALL_BATCH_DOTS(small_batch_dots_f32_2, KVC_F32, 2)
SMALL_BATCH_DOTS(small_batch_dots_f16_2, KVC_F16, 2)
SMALL_BATCH_DOTS(small_batch_dots_f32_3, KVC_F32, 3)
SMALL_BATCH_DOTS(small_batch_dots_f16_3, KVC_F16, 3)
SMALL_BATCH_DOTS(small_batch_dots_f32_4, KVC_F32, 4)
SMALL_BATCH_DOTS(small_batch_dots_f16_4, KVC_F16, 4)
SMALL_BATCH_DOTS(small_batch_dots_f32_5, KVC_F32, 5)
SMALL_BATCH_DOTS(small_batch_dots_f16_5, KVC_F16, 5)
SMALL_BATCH_DOTS(small_batch_dots_f32_6, KVC_F32, 6)
SMALL_BATCH_DOTS(small_batch_dots_f16_6, KVC_F16, 6)
SMALL_BATCH_DOTS(small_batch_dots_f32_7, KVC_F32, 7)
SMALL_BATCH_DOTS(small_batch_dots_f16_7, KVC_F16, 7)
#define EACH_NUMBER_OF_HEADS(name)                                                                                     \
    { name##1, name##2, name##3, name##4, name##5, name##6, name##7 }
#else
#define EACH_NUMBER_OF_HEADS(name)                                                                                     \
    { name##1 }
#endif

/* Returns the function for rows of a type and 1 to HEADS_AT_ONCE heads. For Q8_0, it computes only one head. */
INLINE small_batch_dots_function *small_batch_dots_for(enum kvc_type type, uint32_t heads) {
    static small_batch_dots_function *const f32[] = EACH_NUMBER_OF_HEADS(small_batch_dots_f32_);
    static small_batch_dots_function *const f16[] = EACH_NUMBER_OF_HEADS(small_batch_dots_f16_);
    return type == KVC_F32 ? f32[heads - 1] : type == KVC_F16 ? f16[heads - 1] : small_batch_dots_q8;
}

/* Returns how many of the remaining heads are computed together. */
INLINE uint32_t small_batch_heads(uint32_t left) {
    return left <= HEADS_AT_ONCE ? left : left < 2 * HEADS_AT_ONCE ? (left + 1) / 2 : HEADS_AT_ONCE;
}

/* Prefetches a row of `bytes` bytes. */
INLINE void prefetch_row(const unsigned char *row, size_t bytes) {
    for (size_t b = 0; b < bytes; b += 64)
        __builtin_prefetch(row + b);
}
INLINE void prefetch_row_far(const unsigned char *row, size_t bytes) { /* prefetches into L2 */
    for (size_t b = 0; b < bytes; b += 64)
        __builtin_prefetch(row + b, 0, 2);
}

#define KEYS_AHEAD 64u /* prefetch distance into L2, in keys, if only keys are read */

/* Prefetches row i. If row i + 1 begins at most `fill` bytes after row i, the bytes between the two rows are prefetched
 * too. If all entries are read, and not only those of a kvc_read_list, `fill` is 0. */
INLINE void prefetch_listed(const unsigned char *const *keys, uint32_t i, uint32_t count, size_t offset, size_t bytes,
                            size_t fill) {
    if (fill <= bytes || i + 1 >= count) {
        prefetch_row_far(keys[i] + offset, bytes);
        return;
    }
    const size_t far = (size_t)((uintptr_t)keys[i + 1] - (uintptr_t)keys[i]);
    prefetch_row_far(keys[i] + offset, far > bytes && far <= fill ? far : bytes);
}

/* Entries low .. high - 1 of a tile. */
struct tile_entries {
    enum kvc_type type;
    const unsigned char *const *keys; /* the addresses keys[low] .. keys[high - 1] are set */
    size_t value_offset;              /* if values are read: distance in bytes from a key to its value; otherwise 0 */
    size_t row_bytes;                 /* set only if values are read */
    size_t fill;                      /* see prefetch_listed */
    uint32_t low, high;
    bool ordered; /* true if rows are in order in memory and the keys are in L2 */
};

/* The queries of a tile. */
struct tile_queries {
    const float *q; /* [heads, padded_size(d)] */
    uint32_t heads, d;
    float scale;
};

/* Computes the scores s [heads, KVC_TILE] of a tile's entries. The pointers up to keys[`known` - 1] are set. If more
 * keys are read after this tile, `known` is greater than `high`; otherwise it equals `high`. wide [LANES *
 * padded_size(d)] is scratch. */
static void small_batch_scores(const struct tile_entries *tile, uint32_t known, const struct tile_queries *queries,
                               float *wide, float *s) {
    const enum kvc_type type = tile->type;
    const unsigned char *const *keys = tile->keys;
    const size_t value_offset = tile->value_offset, fill = tile->fill;
    const uint32_t low = tile->low, high = tile->high, heads = queries->heads, d = queries->d;
    const float *q = queries->q, scale = queries->scale;
    const size_t padded = padded_size(d);
    const bool direct = d % LANES == 0 && (heads == 1 || (type != KVC_Q8_0 && HEADS_AT_ONCE > 1));
    const unsigned char *rows[LANES];
    const size_t bytes = entry_bytes(type) * d;
    float out[HEADS_AT_ONCE * KVC_TILE]; /* scores of a block that has fewer than LANES entries */
    const bool beside = PREFETCH_BESIDE && direct && !fill && d % KVC_LANES == 0;
    for (uint32_t e = low; e < high; e += LANES) {
        const uint32_t n = kvc_min_u32(high - e, LANES);
        /* with a read list, the pass of each group of heads prefetches a part of the values */
        const uint32_t first = beside ? 0 : fill ? n * small_batch_heads(heads) / heads : n;
        const unsigned char *const *of = direct && n == LANES ? keys + e : rows;
        for (uint32_t i = 0; value_offset && i < first; i++)
            prefetch_listed(keys, e + i, high, value_offset, bytes, fill);
        for (uint32_t i = KEYS_AHEAD; known > high && i < KEYS_AHEAD + LANES && e + i < known; i++)
            prefetch_row_far(keys[e + i], bytes);
        for (uint32_t i = 2 * LANES; !tile->ordered && i < 3 * LANES && e + i < known; i++)
            prefetch_row(keys[e + i], bytes);
        for (uint32_t i = 0; of == rows && i < LANES; i++) {
            rows[i] = keys[i < n ? e + i : e];
            if (direct)
                continue;
            dequantize_row(type, wide + i * padded, rows[i], d);
            rows[i] = (const unsigned char *)(wide + i * padded);
        }
        for (uint32_t h = 0, some; h < heads; h += some) {
            float *to = n == LANES ? s + (size_t)h * KVC_TILE + e : out;
            some = small_batch_heads(heads - h);
            if (fill && h > 0)
                for (uint32_t i = n * h / heads; i < n * (h + some) / heads; i++)
                    prefetch_listed(keys, e + i, high, value_offset, bytes, fill);
            small_batch_dots_for(direct ? type : KVC_F32, some)(of, q + h * padded, padded / LANES, scale,
                                                                beside && h == 0 ? value_offset : 0, to);
            for (uint32_t j = 0; n < LANES && j < some; j++)
                memcpy(s + (size_t)(h + j) * KVC_TILE + e, out + j * KVC_TILE, n * sizeof *out);
        }
    }
}

/* ---- values ---- */

#define MIX_AHEAD 12u /* prefetch distance from L2, in value rows */
#define MIX_HEADS (LANES == 16 ? 8u : 4u)

/* The keys that are read after a tile. */
struct next_keys {
    const unsigned char *const *keys;
    uint32_t count;
};

/* Rows to prefetch during the weighted sum of the values: the next keys, and this tile's values with an index below
 * `high`. For each entry that the sum adds, it prefetches at most one row of each kind. */
struct small_batch_ahead {
    struct next_keys next;
    uint32_t high;
    size_t row_bytes, fill;
    bool ordered; /* see struct tile_entries */
};

/* A weighted sum of values: adds p [heads, KVC_TILE] times the values of entries low .. high - 1 to o [heads,
 * padded]. */
struct mix {
    const unsigned char *const *keys;
    size_t value_offset;
    uint32_t low, high;
    const float *p;
    float *o;
    size_t padded;
    const struct small_batch_ahead *ahead; /* may be NULL */
};

/* Sets o[h, c .. c + n*LANES) to fma(p[h, j], v[j], o) for j = low .. high - 1 ascending, for n vectors and `heads`
 * heads. */
INLINE void small_batch_mix_strip(enum kvc_type type, unsigned heads, unsigned n, const struct mix *mix, size_t c) {
    const unsigned char *const *keys = mix->keys;
    const size_t value_offset = mix->value_offset, padded = mix->padded;
    const uint32_t low = mix->low, high = mix->high;
    const float *p = mix->p;
    float *o = mix->o;
    const struct small_batch_ahead *ahead = mix->ahead;
    /* Numbers of rows to prefetch. The strip at channel 0 prefetches whole rows (`listed`: next keys, `near`: values).
     * With `beside`, each strip that begins a cache line prefetches its own channels of the next keys. */
    const uint32_t listed = ahead && ahead->fill && c == 0 ? ahead->next.count : 0;
    const uint32_t beside = ahead && !ahead->fill && c * entry_bytes(type) % 64 == 0 ? ahead->next.count : 0;
    const uint32_t near = ahead && !ahead->ordered && c == 0 ? ahead->high : 0;
    const uint32_t most = kvc_max_u32(kvc_max_u32(listed, beside), near);
    vf sum[MIX_HEADS][8];
    UNROLL
    for (unsigned h = 0; h < heads; h++)
        UNROLL
    for (unsigned v = 0; v < n; v++)
        sum[h][v] = vf_load(o + h * padded + c + v * LANES);
    for (uint32_t j = low; j < high; j++) {
        const unsigned char *row = keys[j] + value_offset;
        vf value[8];
        if (j < most) {
            if (j < listed)
                prefetch_listed(ahead->next.keys, j, ahead->next.count, 0, ahead->row_bytes, ahead->fill);
            if (j < beside)
                prefetch_channels(type, ahead->next.keys[j], c, n * LANES);
            if (j + MIX_AHEAD < near)
                prefetch_row(keys[j + MIX_AHEAD] + value_offset, ahead->row_bytes);
        }
        UNROLL
        for (unsigned v = 0; v < n; v++)
            value[v] = held_if(heads > 1, entry_load(type, row, c + v * LANES));
        UNROLL
        for (unsigned h = 0; h < heads; h++) {
            const vf weight = vf_set(p[h * KVC_TILE + j]);
            UNROLL
            for (unsigned v = 0; v < n; v++)
                sum[h][v] = vf_fma(weight, value[v], sum[h][v]);
        }
    }
    UNROLL
    for (unsigned h = 0; h < heads; h++)
        UNROLL
    for (unsigned v = 0; v < n; v++)
        vf_store(o + h * padded + c + v * LANES, sum[h][v]);
}

/* Returns how many vectors of channels are computed at once, so that their sums fit in the registers. */
INLINE unsigned small_batch_strip(unsigned heads) {
    if (LANES == 8)
        return heads > 2 ? 2 : heads == 2 ? 4 : 8;
    return heads > 4 ? 2 : heads > 2 ? 4 : 8;
}

/* Computes as many strips of n vectors as fit between channel c and d. Returns the first channel that remains. */
INLINE size_t small_batch_mix_strips(enum kvc_type type, unsigned heads, unsigned n, const struct mix *mix, size_t c,
                                     size_t d) {
    for (; c + n * LANES <= d; c += n * LANES)
        small_batch_mix_strip(type, heads, n, mix, c);
    return c;
}

/* Computes the last channels, which are fewer than a vector. */
INLINE void small_batch_mix_end(enum kvc_type type, unsigned heads, const struct mix *mix, size_t c, size_t d) {
    for (unsigned h = 0; h < heads; h++) {
        float *to = mix->o + h * mix->padded + c;
        vf sum = vf_load(to);
        for (uint32_t j = mix->low; j < mix->high; j++)
            sum = vf_fma(vf_set(mix->p[h * KVC_TILE + j]),
                         entry_part_load(type, mix->keys[j] + mix->value_offset, c, d - c), sum);
        vf_store(to, sum);
    }
}

/* Computes all channels for 1 to MIX_HEADS heads. */
INLINE void small_batch_mix_of(enum kvc_type type, unsigned heads, const struct mix *mix, size_t d) {
    const unsigned strip = small_batch_strip(heads);
    size_t c = small_batch_mix_strips(type, heads, strip, mix, 0, d);
    if (strip > 2)
        c = small_batch_mix_strips(type, heads, strip / 2, mix, c, d);
    c = small_batch_mix_strips(type, heads, 1, mix, c, d);
    if (c < d)
        small_batch_mix_end(type, heads, mix, c, d);
}

typedef void small_batch_mix_function(const struct mix *mix, size_t d);
#define SMALL_BATCH_MIX(name, type, heads)                                                                             \
    static NEVER_INLINE void name(const struct mix *mix, size_t d) { small_batch_mix_of(type, heads, mix, d); }
#define SMALL_BATCH_MIXES(heads)                                                                                       \
    SMALL_BATCH_MIX(small_batch_mix_f32_##heads, KVC_F32, heads)                                                       \
    SMALL_BATCH_MIX(small_batch_mix_f16_##heads, KVC_F16, heads)                                                       \
    SMALL_BATCH_MIX(small_batch_mix_q8_##heads, KVC_Q8_0, heads)
SMALL_BATCH_MIXES(1)
SMALL_BATCH_MIXES(2)
SMALL_BATCH_MIXES(3)
SMALL_BATCH_MIXES(4)
#if LANES == 16
SMALL_BATCH_MIXES(5)
SMALL_BATCH_MIXES(6)
SMALL_BATCH_MIXES(7)
SMALL_BATCH_MIXES(8)
#define EACH_OF_MIX_HEADS(name)                                                                                        \
    { name##1, name##2, name##3, name##4, name##5, name##6, name##7, name##8 }
#else
#define EACH_OF_MIX_HEADS(name)                                                                                        \
    { name##1, name##2, name##3, name##4 }
#endif

/* Returns the function for values of a type and 1 to MIX_HEADS heads. */
INLINE small_batch_mix_function *small_batch_mix_for(enum kvc_type type, uint32_t heads) {
    static small_batch_mix_function *const f32[] = EACH_OF_MIX_HEADS(small_batch_mix_f32_);
    static small_batch_mix_function *const f16[] = EACH_OF_MIX_HEADS(small_batch_mix_f16_);
    static small_batch_mix_function *const q8[] = EACH_OF_MIX_HEADS(small_batch_mix_q8_);
    return (type == KVC_F32 ? f32 : type == KVC_F16 ? f16 : q8)[heads - 1];
}

#define MIX_AT_ONCE 64 /* number of values that stay in L1 while all heads and channels are computed */

/* Adds p [heads, KVC_TILE] times the tile's values to o [heads, padded_size(d)], with one fma per entry in ascending
 * order. The next keys and the values are prefetched one at a time: the hardware prefetcher does not predict these
 * addresses, and prefetching all rows at once would fill the processor's line fill buffers. */
static void small_batch_mix(const struct tile_entries *tile, struct next_keys next, const float *p, uint32_t heads,
                            uint32_t d, float *o) {
    const size_t padded = padded_size(d);
    const bool all_at_once = heads == 1 && next.count == 0;
    const struct small_batch_ahead ahead = {next, tile->high, tile->row_bytes, tile->fill, tile->ordered};
    struct mix mix = {.keys = tile->keys, .value_offset = tile->value_offset, .padded = padded};
    for (uint32_t from = tile->low; from < tile->high; from = mix.high) {
        mix.low = from;
        mix.high = all_at_once || tile->high - from < MIX_AT_ONCE ? tile->high : from + MIX_AT_ONCE;
        for (uint32_t h = 0, some; h < heads; h += some) {
            some = kvc_min_u32(heads - h, MIX_HEADS);
            mix.p = p + (size_t)h * KVC_TILE;
            mix.o = o + h * padded;
            mix.ahead = h == 0 ? &ahead : NULL;
            small_batch_mix_for(tile->type, some)(&mix, d);
        }
    }
}

/* Where to keep the scores of a tile's entries before the softmax, in rows that are `stride` apart. NULL: they are not
 * kept. */
struct kept_scores {
    float *to;
    size_t stride;
};

/* The maxima, sums and outputs of tiles before they are merged. */
struct tile_results {
    float *m, *l; /* [tiles, heads] */
    float *o;     /* [tiles, heads, padded_size(d)] */
};

/* Computes one tile of attention (low < high), and writes its maxima, sums and outputs to the first tile of results.
 * Replaces its scores p [heads, KVC_TILE] by exp(p - m). */
static void small_batch_tile(const struct tile_entries *tile, struct next_keys next, const struct tile_queries *queries,
                             float *p, struct kept_scores keep, struct tile_results results) {
    const uint32_t low = tile->low, high = tile->high, heads = queries->heads, d = queries->d;
    for (uint32_t h = 0; keep.to && h < heads; h++)
        memcpy(keep.to + h * keep.stride + low, p + (size_t)h * KVC_TILE + low, (high - low) * sizeof *p);
    for (uint32_t h = 0; h < heads; h++)
        results.m[h] = softmax_tile(p + (size_t)h * KVC_TILE, low, high, &results.l[h]);
    memset(results.o, 0, heads * padded_size(d) * sizeof *p);
    small_batch_mix(tile, next, p, heads, d, results.o);
}

#endif
