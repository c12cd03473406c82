/* kernels_neon.h - template: attention over Q8_0 entries in integer arithmetic, for NEON. A file integers/<path>.c
 * defines PATH and PRODUCTS (int8/neon/parameters.h).
 *
 *   keys      [KVC_TILE / 4 strips][D / 16] packed codes of four entries (int8/neon/four_outputs.h).
 *   values    With SDOT: [G][KVC_TILE / 4 quads][32 channels][4 entries] bytes. A weight then has two digits, because
 *             SDOT multiplies bytes. Without SDOT: [G][KVC_TILE entries][32 channels] bytes. A weight is then a 16-bit
 *             integer. */
#ifndef KVC_SIMD_INTEGERS_KERNELS_NEON_H
#define KVC_SIMD_INTEGERS_KERNELS_NEON_H

#include "backends/cpu/simd/int8/neon/products.h"
#include "backends/cpu/simd/integers/integers.h"

#define NEVER_INLINE __attribute__((noinline))
#define DIGITS (PRODUCTS == PRODUCTS_SDOT)
#define KEY_ROWS 4u                    /* number of queries in a block of scores */
#define KEY_STRIPS (DIGITS ? 4u : 2u)  /* number of strips, of four entries each, in a block of scores */
#define BLOCK_ENTRIES (4 * KEY_STRIPS) /* number of entries in a block of scores */
#define MIX_ROWS (DIGITS ? 2u : 4u)    /* number of queries in a block of outputs */
#define CHUNK 64u                      /* number of entries whose keys stay in L1 while all queries use them */
#define HALF (KVC_Q8_GROUP / 2)        /* number of channels in a block of outputs */

/* ---- packing ---- */

/* Returns the address of the 32 quants of a group. If the group has fewer than 32 channels, copies its quants to
 * `copy`, fills the rest with zeros, and returns `copy`. */
INLINE const kvc_i8 *whole_group(const unsigned char *row, uint32_t g, uint32_t d, kvc_i8 *copy) {
    const unsigned char *quants = row + (size_t)g * INTEGERS_BYTES + 2;
    const uint32_t channels = d - g * KVC_Q8_GROUP;
    if (channels >= KVC_Q8_GROUP)
        return (const kvc_i8 *)quants;
    memset(copy, 0, KVC_Q8_GROUP);
    memcpy(copy, quants, channels);
    return copy;
}

INLINE void prefetch_row(const unsigned char *row, size_t bytes) {
    for (size_t b = 0; b < bytes; b += 64)
        __builtin_prefetch(row + b);
}

/* Finds the rows of entries e .. e + 3. For an entry outside the range, finds the row of the nearest entry in the
 * range. */
INLINE void four_rows(const struct kvc_integer_entries *from, uint32_t e, size_t offset, const unsigned char **row) {
    for (uint32_t i = 0; i < 4; i++)
        row[i] =
            from->keys[e + i < from->range.low ? from->range.low : kvc_min_u32(e + i, from->range.high - 1)] + offset;
}

/* Loads the 32 quants of group g from each of four rows. Writes the scales of those entries that are in the range. */
INLINE void load_group(const struct kvc_integer_entries *from, const unsigned char *const *row, uint32_t e, uint32_t g,
                       float *scale, int8x16_t x[2][4]) {
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        kvc_i8 copy[KVC_Q8_GROUP];
        const kvc_i8 *quants = whole_group(row[i], g, from->d, copy);
        x[0][i] = vld1q_s8(quants);
        x[1][i] = vld1q_s8(quants + 16);
        if (e + i >= from->range.low && e + i < from->range.high)
            scale[g * KVC_TILE + e + i] = half_load(row[i] + (size_t)g * INTEGERS_BYTES);
    }
}

static void pack_keys(const struct kvc_integer_entries *from, struct kvc_integer_tile *tile) {
    const uint32_t d = from->d, groups = integer_groups(d), high = from->range.high;
    const size_t bytes = d + (size_t)2 * groups;
    tile->d = d;
    tile->range = from->range;
    memset(tile->key_scale, 0, groups * KVC_TILE * sizeof *tile->key_scale);
    for (uint32_t e = from->range.low / 4 * 4; e < high; e += 4) {
        const unsigned char *row[4];
        int8x16_t x[2][4];
        four_rows(from, e, 0, row);
        for (uint32_t i = 0; i < 4; i++) {
            if (from->value_offset)
                prefetch_row(row[i] + from->value_offset, bytes);
            if (e + 16 + i < high)
                prefetch_row(from->keys[e + 16 + i], bytes);
        }
        for (uint32_t g = 0; g < groups; g++) {
            kvc_i8 *to = tile->keys + ((size_t)e * groups + (size_t)4 * g) * KVC_Q8_GROUP;
            load_group(from, row, e, g, tile->key_scale, x);
            pack_codes(to, x[0]);
            pack_codes(to + 64, x[1]);
        }
    }
}

static void pack_values(const struct kvc_integer_entries *from, struct kvc_integer_tile *tile) {
    const uint32_t d = from->d, groups = integer_groups(d), high = from->range.high;
    const size_t bytes = d + (size_t)2 * groups;
    tile->d = d;
    tile->range = from->range;
    memset(tile->value_scale, 0, groups * KVC_TILE * sizeof *tile->value_scale);
    for (uint32_t e = from->range.low / 4 * 4; e < high; e += 4) {
        const unsigned char *row[4];
        int8x16_t x[2][4];
        four_rows(from, e, from->value_offset, row);
        for (uint32_t i = 0; i < 4; i++)
            if (e + i < from->next_count)
                prefetch_row(from->next[e + i], bytes);
        for (uint32_t g = 0; g < groups; g++) {
            kvc_i8 *to = tile->values + ((size_t)g * KVC_TILE + e) * KVC_Q8_GROUP;
            load_group(from, row, e, g, tile->value_scale, x);
#if DIGITS
            vst4q_s8(to, ((int8x16x4_t){{x[0][0], x[0][1], x[0][2], x[0][3]}}));
            vst4q_s8(to + 64, ((int8x16x4_t){{x[1][0], x[1][1], x[1][2], x[1][3]}}));
#else
            UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                vst1q_s8(to + i * KVC_Q8_GROUP, x[0][i]);
                vst1q_s8(to + i * KVC_Q8_GROUP + 16, x[1][i]);
            }
#endif
        }
    }
}

/* ---- scores ---- */

/* Computes the scores of `rows` queries, from query `first` on, and of entries e .. e + BLOCK_ENTRIES - 1. */
INLINE void score_block(unsigned rows, const struct kvc_integer_tile *tile, const struct kvc_integer_queries *queries,
                        size_t first, uint32_t e, float scale, float *s) {
    const size_t groups = integer_groups(tile->d), D = groups * KVC_Q8_GROUP;
    const kvc_i8 *keys = tile->keys + e * D, *quant = queries->quant + first * D;
    const float *x_scale = queries->scale + first * groups, *key_scale = tile->key_scale + e;
    float32x4_t dot[KEY_ROWS][KEY_STRIPS];
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
    for (unsigned v = 0; v < KEY_STRIPS; v++)
        dot[r][v] = vdupq_n_f32(0.0f);
    for (size_t g = 0; g < groups; g++, key_scale += KVC_TILE) {
        struct sums sum[KEY_ROWS][KEY_STRIPS];
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            UNROLL
        for (unsigned v = 0; v < KEY_STRIPS; v++)
            sum[r][v] = sums_zero();
        for (unsigned half = 0; half < 2; half++, keys += 64, quant += 16) {
            struct quants x[KEY_ROWS];
            UNROLL
            for (unsigned r = 0; r < rows; r++)
                x[r] = (struct quants){vld1q_s8(quant + r * D)};
            UNROLL
            for (unsigned v = 0; v < KEY_STRIPS; v++) {
                const struct codes key = codes_load(keys + v * 4 * D);
                UNROLL
                for (unsigned r = 0; r < rows; r++)
                    sum[r][v] = sums_add(sum[r][v], key, x[r]);
            }
        }
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            UNROLL
        for (unsigned v = 0; v < KEY_STRIPS; v++)
            dot[r][v] = vfmaq_f32(dot[r][v], vmulq_n_f32(vld1q_f32(key_scale + 4 * v), x_scale[r * groups + g]),
                                  vcvtq_f32_s32(sums_of(sum[r][v])));
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
    for (unsigned v = 0; v < KEY_STRIPS; v++)
        vst1q_f32(s + r * KVC_TILE + e + 4 * v, vmulq_n_f32(dot[r][v], scale));
}

#define SCORES(rows)                                                                                                   \
    static NEVER_INLINE void scores_##rows(const struct kvc_integer_tile *tile,                                        \
                                           const struct kvc_integer_queries *queries, size_t first, uint32_t low,      \
                                           uint32_t high, float scale, float *s) {                                     \
        for (uint32_t e = low / BLOCK_ENTRIES * BLOCK_ENTRIES; e < high; e += BLOCK_ENTRIES)                           \
            score_block(rows, tile, queries, first, e, scale, s);                                                      \
    }
SCORES(1)
SCORES(2)
SCORES(3)
SCORES(4)

static void scores(const struct kvc_integer_tile *tile, const struct kvc_integer_queries *queries, uint32_t first,
                   uint32_t count, struct seen_range range, float scale, float *s) {
    for (uint32_t from = range.low, to; from < range.high; from = to) {
        to = kvc_min_u32((from / CHUNK + 1) * CHUNK, range.high);
        for (uint32_t i = 0; i < count; i += KEY_ROWS) {
            const uint32_t rows = kvc_min_u32(count - i, KEY_ROWS);
            (rows == 4   ? scores_4
             : rows == 3 ? scores_3
             : rows == 2 ? scores_2
                         : scores_1)(tile, queries, first + i, from, to, scale, s + (size_t)i * KVC_TILE);
        }
    }
}

/* ---- values ---- */

/* The second arguments of kvc_value_weight for one group of channels and the entries that a query sees. */
struct factors {
    struct seen_range in;
    float *factor; /* [KVC_TILE], 0 outside `in` */
    float unit;
};

static NEVER_INLINE void find_factors(const float *scale, struct seen_range in, struct factors *to) {
    const uint32_t from = in.low / 32 * 32, end = (in.high + 31) / 32 * 32;
    kvc_u32 top = 0;
    memset(to->factor + from, 0, (end - from) * sizeof *to->factor);
    for (uint32_t e = in.low; e < in.high; e++)
        top = kvc_int8_top(top, scale[e]);
    const float inverse = kvc_value_inverse(top);
    for (uint32_t e = in.low; e < in.high; e++)
        to->factor[e] = scale[e] * inverse;
    to->in = in;
    to->unit = kvc_value_unit(top);
}

/* The weights of a block of queries. */
struct weights {
#if DIGITS
    kvc_i8 high[MIX_ROWS][KVC_TILE], low[MIX_ROWS][KVC_TILE]; /* weight = 128 * high + low */
#else
    int16_t all[MIX_ROWS][KVC_TILE];
#endif
};

/* Sets the weights of query r for entries `from` .. `to` - 1, which are whole blocks of 32. */
static NEVER_INLINE void find_weights(const float *p, const struct factors *factors, struct seen_range in,
                                      uint32_t from, uint32_t to, struct weights *weights, unsigned r) {
    const uint32_t low = in.low / 32 * 32, high = (in.high + 31) / 32 * 32;
    for (uint32_t e = from; e < to; e += 8) {
        int16x8_t w = vdupq_n_s16(0);
        if (in.low < in.high && e >= low && e < high)
            w = vcombine_s16(
                vqmovn_s32(vcvtnq_s32_f32(vmulq_f32(vld1q_f32(p + e), vld1q_f32(factors->factor + e)))),
                vqmovn_s32(vcvtnq_s32_f32(vmulq_f32(vld1q_f32(p + e + 4), vld1q_f32(factors->factor + e + 4)))));
#if DIGITS
        vst1_s8(weights->high[r] + e, vshrn_n_s16(w, 7));
        vst1_s8(weights->low[r] + e, vmovn_s16(vandq_s16(w, vdupq_n_s16(127))));
#else
        vst1q_s16(weights->all[r] + e, w);
#endif
    }
}

/* Sums weights times values over entries low .. high - 1, which are whole blocks of 32, for `rows` queries and 16
 * channels. */
INLINE void mix(unsigned rows, const kvc_i8 *values, const struct weights *weights, uint32_t low, uint32_t high,
                const float *unit, float *o, size_t stride) {
    int32x4_t sum[MIX_ROWS][4];
#if DIGITS
    int32x4_t less[MIX_ROWS][4]; /* sums of the low digits */
#endif
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
    for (unsigned v = 0; v < 4; v++) {
        sum[r][v] = vdupq_n_s32(0);
#if DIGITS
        less[r][v] = vdupq_n_s32(0);
#endif
    }
#if DIGITS
    for (uint32_t e = low; e < high; e += 4) {
        const kvc_i8 *at = values + (size_t)e * KVC_Q8_GROUP;
        int8x16_t value[4];
        UNROLL
        for (unsigned v = 0; v < 4; v++)
            value[v] = vld1q_s8(at + 16 * v);
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            const int8x16_t a =
                vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(const void *)(weights->high[r] + e)));
            const int8x16_t b =
                vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(const void *)(weights->low[r] + e)));
            UNROLL
            for (unsigned v = 0; v < 4; v++) {
                sum[r][v] = vdotq_s32(sum[r][v], value[v], a);
                less[r][v] = vdotq_s32(less[r][v], value[v], b);
            }
        }
    }
#else
    for (uint32_t e = low; e < high; e++) {
        const int8x16_t x = vld1q_s8(values + (size_t)e * KVC_Q8_GROUP);
        const int16x8_t a = vmovl_s8(vget_low_s8(x)), b = vmovl_high_s8(x);
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            const int16x8_t w = vld1q_dup_s16(weights->all[r] + e);
            sum[r][0] = vmlal_s16(sum[r][0], vget_low_s16(a), vget_low_s16(w));
            sum[r][1] = vmlal_high_s16(sum[r][1], a, w);
            sum[r][2] = vmlal_s16(sum[r][2], vget_low_s16(b), vget_low_s16(w));
            sum[r][3] = vmlal_high_s16(sum[r][3], b, w);
        }
    }
#endif
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
    for (unsigned v = 0; v < 4; v++) {
#if DIGITS
        sum[r][v] = vaddq_s32(vshlq_n_s32(sum[r][v], 7), less[r][v]);
#endif
        vst1q_f32(o + r * stride + 4 * v, vmulq_n_f32(vcvtq_f32_s32(sum[r][v]), unit[r]));
    }
}

#define MIX(rows)                                                                                                      \
    static NEVER_INLINE void mix_##rows(const kvc_i8 *values, const struct weights *weights, uint32_t low,             \
                                        uint32_t high, const float *unit, float *o, size_t stride) {                   \
        for (unsigned half = 0; half < 2; half++)                                                                      \
            mix(rows, values + half * (DIGITS ? 4 * HALF : HALF), weights, low, high, unit, o + half * HALF, stride);  \
    }
MIX(1)
MIX(2)
#if !DIGITS
MIX(3)
MIX(4)
#endif

/* For up to MIX_ROWS queries, computes one group of output channels. */
static void mix_queries(const struct kvc_integer_tile *tile, uint32_t g, const float *p, const struct seen_range *in,
                        uint32_t count, struct factors *factors, float *o, size_t stride) {
    const struct seen_range any = seen_by_all(in, count);
    const uint32_t low = any.low / 32 * 32, high = (any.high + 31) / 32 * 32;
    const uint32_t channels = kvc_min_u32(tile->d - g * KVC_Q8_GROUP, KVC_Q8_GROUP);
    const kvc_i8 *from = tile->values + (size_t)g * KVC_TILE * KVC_Q8_GROUP;
    const bool whole = channels == KVC_Q8_GROUP;
    struct weights weights;
    float unit[MIX_ROWS] = {0}, part[MIX_ROWS * KVC_Q8_GROUP];
    float *to = whole ? o : part;
    const size_t step = whole ? stride : KVC_Q8_GROUP;
    for (uint32_t i = 0; i < count; i++) {
        if (in[i].low < in[i].high && (in[i].low != factors->in.low || in[i].high != factors->in.high))
            find_factors(tile->value_scale + (size_t)g * KVC_TILE, in[i], factors);
        find_weights(p + (size_t)i * KVC_TILE, factors, in[i], low, high, &weights, i);
        unit[i] = factors->unit;
    }
    if (count == 1)
        mix_1(from, &weights, low, high, unit, to, step);
    else if (count == 2)
        mix_2(from, &weights, low, high, unit, to, step);
#if !DIGITS
    else if (count == 3)
        mix_3(from, &weights, low, high, unit, to, step);
    else
        mix_4(from, &weights, low, high, unit, to, step);
#endif
    for (uint32_t i = 0; !whole && i < count; i++)
        memcpy(o + i * stride, part + (size_t)i * KVC_Q8_GROUP, channels * sizeof *o);
}

static void values(const struct kvc_integer_tile *tile, const float *p, const struct seen_range *in, uint32_t count,
                   float *o, size_t stride) {
    for (uint32_t g = 0; g < integer_groups(tile->d); g++) {
        struct factors factors = {.factor = tile->factor};
        for (uint32_t i = 0; i < count; i += MIX_ROWS)
            mix_queries(tile, g, p + (size_t)i * KVC_TILE, in + i, kvc_min_u32(count - i, MIX_ROWS), &factors,
                        o + i * stride + (size_t)g * KVC_Q8_GROUP, stride);
    }
}

#define TABLE_OF(path) kvc_integer_##path
#define TABLE(path) TABLE_OF(path)
const struct kvc_integer_kernels TABLE(PATH) = {
    .pack_keys = pack_keys, .pack_values = pack_values, .scores = scores, .values = values, .at_once = 48};

#endif
