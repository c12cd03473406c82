/* kernels_256.h - template: attention over Q8_0 entries in integer arithmetic, with vectors of 256 bits.
 *
 * A file integers/<path>.c defines KERNELS, the name of its table of functions, and PAIRS. PAIRS is 1 without VNNI and
 * 0 with VNNI. With PAIRS, an instruction multiplies 16-bit integers and adds the products of two channels. With VNNI,
 * it multiplies bytes and adds the products of four channels (CHANNELS). For values, both multiply 16-bit integers,
 * because weights have 14 bits.
 *
 *   keys      [KVC_TILE / 8 strips][D / CHANNELS][8 entries][CHANNELS] bytes. Without PAIRS, a byte is unsigned:
 *             the quant plus 128.
 *   values    [G][2 halves][KVC_TILE / 2 pairs][2][8 channels][2 entries] bytes. Half 0 has channels 0 .. 7 and
 *             16 .. 23 of the group, half 1 has channels 8 .. 15 and 24 .. 31. The order of pairs is that of packed
 *             weights (entry_of_pair). */
#ifndef KVC_SIMD_INTEGERS_KERNELS_256_H
#define KVC_SIMD_INTEGERS_KERNELS_256_H

#if !defined(KERNELS) && !defined(PAIRS) /* true if a tool, such as an editor, reads this file alone */
#define KERNELS kvc_integer_avx2
#define PAIRS 1
#endif

#include <immintrin.h>
#include <string.h>

#include "backends/cpu/simd/integers/integers.h"
#include "backends/cpu/simd/lanes/unroll.h"

#define WIDTH 8u                           /* number of 32-bit elements of a vector */
#define CHANNELS (PAIRS ? 2u : 4u)         /* number of channels in an element of packed keys */
#define ELEMENTS (KVC_Q8_GROUP / CHANNELS) /* number of elements in a group of channels */
#define QUERIES 4u                         /* number of queries in a block of scores or outputs */
#define CHUNK 64u                          /* number of entries whose keys stay in L1 while all queries use them */
#define NEVER_INLINE __attribute__((noinline))

/* ---- packing ---- */

/* Returns the address of the 32 quants of a group. If the group has fewer than 32 channels, copies its quants to
 * `copy`, fills the rest with zeros, and returns `copy`. */
INLINE const unsigned char *whole_group(const unsigned char *row, uint32_t g, uint32_t d, unsigned char *copy) {
    const unsigned char *quants = row + (size_t)g * INTEGERS_BYTES + 2;
    const uint32_t channels = d - g * KVC_Q8_GROUP;
    if (channels >= KVC_Q8_GROUP)
        return quants;
    memset(copy, 0, KVC_Q8_GROUP);
    memcpy(copy, quants, channels);
    return copy;
}

/* Returns the second half of a row of scales [KVC_TILE]. Packing first stores the scales there as float16 numbers, and
 * widen_scales then converts them in place. */
INLINE unsigned char *halves_of(float *scale) { return (unsigned char *)scale + KVC_TILE * (sizeof *scale - 2); }

static void widen_scales(float *scale, uint32_t groups) {
    for (uint32_t g = 0; g < groups; g++, scale += KVC_TILE)
        for (uint32_t e = 0; e < KVC_TILE; e += WIDTH) { /* each float16 is read before it is overwritten */
            const __m128i half = _mm_loadu_si128((const __m128i *)(const void *)(halves_of(scale) + (size_t)2 * e));
            _mm256_storeu_ps(scale + e, _mm256_cvtph_ps(half));
        }
}

/* Clears the float16 scales of `groups` rows. */
static void start_scales(float *scale, uint32_t groups) {
    for (uint32_t g = 0; g < groups; g++)
        memset(halves_of(scale + (size_t)g * KVC_TILE), 0, (size_t)2 * KVC_TILE);
}

INLINE void prefetch_row(const unsigned char *row, size_t bytes) {
    for (size_t b = 0; b < bytes; b += 64)
        _mm_prefetch((const char *)row + b, _MM_HINT_T0);
}

#if PAIRS
/* Transposes the pairs of channels of eight entries. Afterwards, the lower half of x[i] has pair i, and the upper half
 * has pair i + 8. */
INLINE void transpose_pairs(__m256i *x) {
    __m256i y[8], z[8];
    UNROLL
    for (int i = 0; i < 4; i++) {
        y[2 * i] = _mm256_unpacklo_epi16(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = _mm256_unpackhi_epi16(x[2 * i], x[2 * i + 1]);
    }
    UNROLL
    for (int i = 0; i < 2; i++)
        UNROLL
    for (int j = 0; j < 2; j++) {
        z[4 * i + 2 * j] = _mm256_unpacklo_epi32(y[4 * i + j], y[4 * i + 2 + j]);
        z[4 * i + 2 * j + 1] = _mm256_unpackhi_epi32(y[4 * i + j], y[4 * i + 2 + j]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        x[2 * i] = _mm256_unpacklo_epi64(z[i], z[i + 4]);
        x[2 * i + 1] = _mm256_unpackhi_epi64(z[i], z[i + 4]);
    }
}

/* Packs 32 quants from each of eight entries. */
INLINE void pack_group(const unsigned char *const *from, kvc_i8 *to) {
    __m256i x[WIDTH];
    UNROLL
    for (unsigned i = 0; i < WIDTH; i++)
        x[i] = _mm256_loadu_si256((const __m256i *)(const void *)from[i]);
    transpose_pairs(x);
    UNROLL
    for (unsigned i = 0; i < WIDTH; i++) {
        _mm_storeu_si128((__m128i *)(void *)(to + (size_t)i * 16), _mm256_castsi256_si128(x[i]));
        _mm_storeu_si128((__m128i *)(void *)(to + (size_t)(i + 8) * 16), _mm256_extracti128_si256(x[i], 1));
    }
}
#else
INLINE void pack_group(const unsigned char *const *from, kvc_i8 *to) {
    const __m256i sign = _mm256_set1_epi8((char)-128);
    UNROLL
    for (unsigned half = 0; half < 2; half++) {
        __m256i x[4], y[4];
        UNROLL
        for (unsigned i = 0; i < 4; i++) {
            const __m128i low = _mm_loadu_si128((const __m128i *)(const void *)(from[i] + (size_t)16 * half));
            const __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(from[i + 4] + (size_t)16 * half));
            x[i] = _mm256_xor_si256(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1), sign);
        }
        UNROLL
        for (unsigned i = 0; i < 2; i++) {
            y[2 * i] = _mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
            y[2 * i + 1] = _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
        }
        UNROLL
        for (unsigned i = 0; i < 2; i++) {
            __m256i *at = (__m256i *)(void *)(to + (size_t)32 * (4 * half + 2 * i));
            _mm256_storeu_si256(at, _mm256_unpacklo_epi64(y[i], y[i + 2]));
            _mm256_storeu_si256(at + 1, _mm256_unpackhi_epi64(y[i], y[i + 2]));
        }
    }
}
#endif

/* A strip has WIDTH entries. If one of them is outside the range, the nearest entry of the range is copied to its place
 * with a scale of 0. */
static void pack_keys(const struct kvc_integer_entries *from, struct kvc_integer_tile *tile) {
    const uint32_t d = from->d, groups = integer_groups(d), low = from->range.low, high = from->range.high;
    const size_t bytes = d + (size_t)2 * groups;
    unsigned char copy[WIDTH][KVC_Q8_GROUP];
    tile->d = d;
    tile->range = from->range;
    start_scales(tile->key_scale, groups);
    for (uint32_t e = low / WIDTH * WIDTH; e < high; e += WIDTH) {
        const unsigned char *row[WIDTH], *quants[WIDTH];
        for (uint32_t i = 0; i < WIDTH; i++) {
            row[i] = from->keys[e + i < low ? low : kvc_min_u32(e + i, high - 1)];
            if (from->value_offset)
                prefetch_row(row[i] + from->value_offset, bytes);
            if (e + 2 * WIDTH + i < high)
                prefetch_row(from->keys[e + 2 * WIDTH + i], bytes);
        }
        for (uint32_t g = 0; g < groups; g++) {
            unsigned char *halves = halves_of(tile->key_scale + (size_t)g * KVC_TILE);
            UNROLL
            for (uint32_t i = 0; i < WIDTH; i++) {
                quants[i] = whole_group(row[i], g, d, copy[i]);
                memcpy(halves + (size_t)2 * (e + i), row[i] + (size_t)g * INTEGERS_BYTES, 2);
            }
            pack_group(quants, tile->keys + ((size_t)e * groups + (size_t)g * WIDTH) * KVC_Q8_GROUP);
        }
    }
    widen_scales(tile->key_scale, groups);
    for (uint32_t g = 0; g < groups && low < high; g++) { /* the scales of the copies */
        float *scale = tile->key_scale + (size_t)g * KVC_TILE;
        for (uint32_t e = low / WIDTH * WIDTH; e < low; e++)
            scale[e] = 0.0f;
        for (uint32_t e = high; e % WIDTH; e++)
            scale[e] = 0.0f;
    }
}

/* Returns the first entry of packed pair j of a tile. _mm256_packs_epi32 leaves 16 weights in this order. */
INLINE uint32_t entry_of_pair(uint32_t j) { return j / 8 * 16 + (j & 1) * 2 + (j >> 1 & 1) * 8 + (j >> 2 & 1) * 4; }

static void pack_values(const struct kvc_integer_entries *from, struct kvc_integer_tile *tile) {
    const uint32_t d = from->d, groups = integer_groups(d), low = from->range.low, high = from->range.high;
    const size_t bytes = d + (size_t)2 * groups;
    unsigned char copy[2][KVC_Q8_GROUP];
    tile->d = d;
    tile->range = from->range;
    start_scales(tile->value_scale, groups);
    for (uint32_t j = low / 16 * 8; j < KVC_TILE / 2 && low < high; j++) {
        const uint32_t e = entry_of_pair(j);
        const unsigned char *row[2];
        for (uint32_t i = 0; i < 2; i++) {
            row[i] = from->keys[e + i < low ? low : kvc_min_u32(e + i, high - 1)] + from->value_offset;
            if (e + i < from->next_count)
                prefetch_row(from->next[e + i], bytes);
        }
        for (uint32_t g = 0; g < groups && e < high && e + 2 > low; g++) {
            kvc_i8 *to = tile->values + ((size_t)g * KVC_TILE + j) * KVC_Q8_GROUP;
            unsigned char *halves = halves_of(tile->value_scale + (size_t)g * KVC_TILE);
            __m256i x[2];
            UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                x[i] = _mm256_loadu_si256((const __m256i *)(const void *)whole_group(row[i], g, d, copy[i]));
                if (e + i >= low && e + i < high)
                    memcpy(halves + (size_t)2 * (e + i), row[i] + (size_t)g * INTEGERS_BYTES, 2);
            }
            _mm256_storeu_si256((__m256i *)(void *)to, _mm256_unpacklo_epi8(x[0], x[1]));
            _mm256_storeu_si256((__m256i *)(void *)(to + KVC_TILE / 2 * KVC_Q8_GROUP),
                                _mm256_unpackhi_epi8(x[0], x[1]));
        }
    }
    widen_scales(tile->value_scale, groups);
}

/* ---- scores ---- */

/* Keeps additions in the written order. Otherwise a compiler may rearrange them into a tree, which needs more registers
 * than there are. */
INLINE __m256i in_order(__m256i x) {
    __asm__("" : "+x"(x));
    return x;
}

/* Adds the products of two pairs of 16-bit integers to each element of sum. */
INLINE __m256i dot_of_16(__m256i sum, __m256i a, __m256i b) {
#if PAIRS
    return in_order(_mm256_add_epi32(sum, _mm256_madd_epi16(a, b)));
#else
    return _mm256_dpwssd_epi32(sum, a, b);
#endif
}

INLINE __m256i broadcast(const void *from) {
    int32_t x;
    memcpy(&x, from, sizeof x);
    return _mm256_set1_epi32(x);
}

INLINE __m256i wide_load(const kvc_i8 *from) { /* converts 16 bytes to 16-bit integers */
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
}

/* Quantized queries in the layout that the dot products read. Each has a row of `step` bytes, scales [groups] and sums
 * [groups]. */
struct query_rows {
    const unsigned char *quant;
    size_t step;
    const float *scale;
    const kvc_i32 *sum;
};

/* For each of `strips` strips and `rows` queries, multiplies one element of the strip's packed keys by the query's same
 * channels, and adds the products to the sums. */
INLINE void add_products(unsigned rows, unsigned strips, const kvc_i8 *keys, size_t strip, const unsigned char *quant,
                         size_t step, __m256i sum[QUERIES][QUERIES]) {
    __m256i key[QUERIES];
    UNROLL
    for (unsigned v = 0; v < strips; v++)
#if PAIRS
        key[v] = wide_load(keys + v * strip);
#else
        key[v] = _mm256_loadu_si256((const __m256i *)(const void *)(keys + v * strip));
#endif
    UNROLL
    for (unsigned r = 0; r < rows; r++) {
        const __m256i x = broadcast(quant + r * step);
        UNROLL
        for (unsigned v = 0; v < strips; v++)
#if PAIRS
            sum[r][v] = dot_of_16(sum[r][v], key[v], x);
#else
            sum[r][v] = _mm256_dpbusd_epi32(sum[r][v], key[v], x);
#endif
    }
}

/* Computes the scores of `rows` queries and `strips` strips, from entry e on. */
INLINE void score_block(unsigned rows, unsigned strips, const struct kvc_integer_tile *tile,
                        const struct query_rows *queries, uint32_t e, float scale, float *s) {
    const size_t groups = integer_groups(tile->d), strip = groups * KVC_Q8_GROUP * WIDTH;
    const kvc_i8 *keys = tile->keys + e * groups * KVC_Q8_GROUP;
    const float *key_scale = tile->key_scale + e;
    const unsigned char *quant = queries->quant;
    __m256 dot[QUERIES][QUERIES];
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
    for (unsigned v = 0; v < strips; v++)
        dot[r][v] = _mm256_setzero_ps();
    for (size_t g = 0; g < groups; g++, key_scale += KVC_TILE) {
        __m256i sum[QUERIES][QUERIES];
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            const __m256i start = _mm256_set1_epi32(PAIRS ? 0 : -128 * queries->sum[r * groups + g]);
            UNROLL
            for (unsigned v = 0; v < strips; v++)
                sum[r][v] = start;
        }
        for (unsigned c = 0; c < ELEMENTS; c += 4, keys += 4 * CHANNELS * WIDTH, quant += 16)
            UNROLL
        for (unsigned i = 0; i < 4; i++)
            add_products(rows, strips, keys + i * CHANNELS * WIDTH, strip, quant + (size_t)4 * i, queries->step, sum);
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            const __m256 x = _mm256_set1_ps(queries->scale[r * groups + g]);
            UNROLL
            for (unsigned v = 0; v < strips; v++)
                dot[r][v] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_loadu_ps(key_scale + v * WIDTH), x),
                                            _mm256_cvtepi32_ps(sum[r][v]), dot[r][v]);
        }
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
    for (unsigned v = 0; v < strips; v++)
        _mm256_storeu_ps(s + r * KVC_TILE + e + v * WIDTH, _mm256_mul_ps(_mm256_set1_ps(scale), dot[r][v]));
}

/* Computes the scores of entries low .. high - 1, with the range extended to whole blocks. */
#define SCORES(name, rows, strips)                                                                                     \
    static NEVER_INLINE void name(const struct kvc_integer_tile *tile, const struct query_rows *queries, uint32_t low, \
                                  uint32_t high, float scale, float *s) {                                              \
        for (uint32_t e = low / ((strips)*WIDTH) * ((strips)*WIDTH); e < high; e += (strips)*WIDTH)                    \
            score_block(rows, strips, tile, queries, e, scale, s);                                                     \
    }
SCORES(scores_1, 1, 4)
SCORES(scores_2, 2, 4)
SCORES(scores_3, 3, 2)
SCORES(scores_4, 4, 2)

static void some_scores(const struct kvc_integer_tile *tile, const struct query_rows *queries, uint32_t count,
                        struct seen_range range, float scale, float *s) {
    const size_t groups = integer_groups(tile->d);
    for (uint32_t from = range.low, to; from < range.high; from = to) {
        to = kvc_min_u32((from / CHUNK + 1) * CHUNK, range.high);
        for (uint32_t i = 0; i < count; i += QUERIES) {
            const uint32_t rows = kvc_min_u32(count - i, QUERIES);
            const struct query_rows at = {queries->quant + i * queries->step, queries->step,
                                          queries->scale + i * groups, queries->sum + i * groups};
            (rows == 4   ? scores_4
             : rows == 3 ? scores_3
             : rows == 2 ? scores_2
                         : scores_1)(tile, &at, from, to, scale, s + (size_t)i * KVC_TILE);
        }
    }
}

static void scores(const struct kvc_integer_tile *tile, const struct kvc_integer_queries *queries, uint32_t first,
                   uint32_t count, struct seen_range range, float scale, float *s) {
    const size_t groups = integer_groups(tile->d), D = groups * KVC_Q8_GROUP;
#if PAIRS
    int16_t *wide = (int16_t *)(void *)tile->sums; /* the quants [D] of `most` queries */
    const uint32_t most = (uint32_t)(2 * INTEGERS_PADDING * KVC_TILE * sizeof *tile->sums / (D * sizeof *wide));
    KVC_ASSERT(most > 0);
    for (uint32_t i = 0, some; i < count; i += some) {
        some = kvc_min_u32(count - i, most);
        const kvc_i8 *quant = queries->quant + (first + i) * D;
        for (size_t c = 0; c < some * D; c += 16)
            _mm256_storeu_si256((__m256i *)(void *)(wide + c), wide_load(quant + c));
        const struct query_rows rows = {(const unsigned char *)wide, D * sizeof *wide,
                                        queries->scale + (first + i) * groups, queries->sum + (first + i) * groups};
        some_scores(tile, &rows, some, range, scale, s + (size_t)i * KVC_TILE);
    }
#else
    const struct query_rows rows = {(const unsigned char *)queries->quant + first * D, D,
                                    queries->scale + first * groups, queries->sum + first * groups};
    some_scores(tile, &rows, count, range, scale, s);
#endif
}

/* ---- values ---- */

/* The second arguments of kvc_value_weight for one group of channels and the entries that a query sees. */
struct factors {
    struct seen_range in;
    float *factor; /* [KVC_TILE], 0 outside `in` */
    float unit;
};

static NEVER_INLINE void find_factors(const float *scale, struct seen_range in, struct factors *to) {
    const __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), magnitude = _mm256_set1_epi32(INT32_MAX);
    const __m256i low = _mm256_set1_epi32((int32_t)in.low - 1), high = _mm256_set1_epi32((int32_t)in.high);
    const uint32_t from = in.low / 32 * 32, end = (in.high + 31) / 32 * 32;
    __m256i most = _mm256_setzero_si256();
    uint32_t bits[WIDTH], top = 0;
    for (uint32_t e = from; e < end; e += WIDTH) {
        const __m256i at = _mm256_add_epi32(place, _mm256_set1_epi32((int32_t)e));
        const __m256i seen = _mm256_and_si256(_mm256_cmpgt_epi32(at, low), _mm256_cmpgt_epi32(high, at));
        const __m256i x = _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(scale + e)), seen);
        _mm256_storeu_ps(to->factor + e, _mm256_castsi256_ps(x));
        most = _mm256_max_epi32(most, _mm256_and_si256(x, magnitude));
    }
    _mm256_storeu_si256((__m256i *)(void *)bits, most);
    for (unsigned i = 0; i < WIDTH; i++)
        top = kvc_max_u32(top, bits[i]);
    const __m256 inverse = _mm256_set1_ps(kvc_value_inverse(top));
    for (uint32_t e = from; e < end; e += WIDTH)
        _mm256_storeu_ps(to->factor + e, _mm256_mul_ps(_mm256_loadu_ps(to->factor + e), inverse));
    to->in = in;
    to->unit = kvc_value_unit(top);
}

/* Writes the weights of a query for entries `from` .. `to` - 1 to weight [KVC_TILE], in the order of packed values.
 * Writes 0 for blocks of 32 entries of which the query sees none. */
static NEVER_INLINE void find_weights(const float *p, const struct factors *factors, uint32_t from, uint32_t to,
                                      int16_t *weight) {
    const uint32_t low = factors->in.low / 32 * 32, high = (factors->in.high + 31) / 32 * 32;
    if (from < low)
        memset(weight + from, 0, (low - from) * sizeof *weight);
    for (uint32_t e = low; e < high; e += 2 * WIDTH) {
        __m256i w[2];
        UNROLL
        for (unsigned i = 0; i < 2; i++)
            w[i] = _mm256_cvtps_epi32(
                _mm256_mul_ps(_mm256_loadu_ps(p + e + i * WIDTH), _mm256_loadu_ps(factors->factor + e + i * WIDTH)));
        _mm256_storeu_si256((__m256i *)(void *)(weight + e), _mm256_packs_epi32(w[0], w[1]));
    }
    if (high < to)
        memset(weight + high, 0, (to - high) * sizeof *weight);
}

/* Sums weights times values over entries low .. high - 1 for `rows` queries, whose weights are [KVC_TILE] each.
 * Computes `vectors` vectors of eight channels: 4 are a whole group, and 2 are half a group. Writes the outputs to o,
 * in rows that are `stride` floats apart. */
INLINE void mix(unsigned rows, unsigned vectors, const kvc_i8 *values, const int16_t *weight, uint32_t low,
                uint32_t high, const float *unit, float *o, size_t stride) {
    __m256i sum[QUERIES][4];
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
    for (unsigned v = 0; v < vectors; v++)
        sum[r][v] = _mm256_setzero_si256();
    for (uint32_t e = low; e < high; e += 2) {
        const kvc_i8 *at = values + (size_t)e * (KVC_Q8_GROUP / 2);
        __m256i value[4];
        UNROLL
        for (unsigned v = 0; v < vectors; v++)
            value[v] = wide_load(at + v / 2 * (KVC_TILE / 2 * KVC_Q8_GROUP) + v % 2 * 16);
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            const __m256i w = broadcast(weight + r * KVC_TILE + e);
            UNROLL
            for (unsigned v = 0; v < vectors; v++)
                sum[r][v] = dot_of_16(sum[r][v], value[v], w);
        }
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
    for (unsigned v = 0; v < vectors; v++)
        _mm256_storeu_ps(o + r * stride + v / 2 * 8 + v % 2 * 16,
                         _mm256_mul_ps(_mm256_cvtepi32_ps(sum[r][v]), _mm256_set1_ps(unit[r])));
}

#define MIX(name, rows, vectors)                                                                                       \
    static NEVER_INLINE void name(const kvc_i8 *values, const int16_t *weight, uint32_t low, uint32_t high,            \
                                  const float *unit, float *o, size_t stride) {                                        \
        for (unsigned half = 0; half < 4 / (vectors); half++)                                                          \
            mix(rows, vectors, values + half * (KVC_TILE / 2 * KVC_Q8_GROUP), weight, low, high, unit, o + 8 * half,   \
                stride);                                                                                               \
    }
MIX(mix_1, 1, 4)
MIX(mix_2, 2, 4)
MIX(mix_3, 3, 2)
MIX(mix_4, 4, 2)

/* For up to QUERIES queries, computes one group of output channels. */
static void mix_queries(const struct kvc_integer_tile *tile, uint32_t g, const float *p, const struct seen_range *in,
                        uint32_t count, struct factors *factors, float *o, size_t stride) {
    const struct seen_range any = seen_by_all(in, count);
    const uint32_t low = any.low / 32 * 32, high = (any.high + 31) / 32 * 32;
    const uint32_t channels = kvc_min_u32(tile->d - g * KVC_Q8_GROUP, KVC_Q8_GROUP);
    int16_t weight[QUERIES * KVC_TILE];
    float unit[QUERIES] = {0}, part[QUERIES * KVC_Q8_GROUP];
    const bool whole = channels == KVC_Q8_GROUP;
    for (uint32_t i = 0; i < count; i++) {
        if (in[i].low >= in[i].high) {
            memset(weight + (size_t)i * KVC_TILE + low, 0, (high - low) * sizeof *weight);
            continue;
        }
        if (in[i].low != factors->in.low || in[i].high != factors->in.high)
            find_factors(tile->value_scale + (size_t)g * KVC_TILE, in[i], factors);
        find_weights(p + (size_t)i * KVC_TILE, factors, low, high, weight + (size_t)i * KVC_TILE);
        unit[i] = factors->unit;
    }
    (count == 4   ? mix_4
     : count == 3 ? mix_3
     : count == 2 ? mix_2
                  : mix_1)(tile->values + (size_t)g * KVC_TILE * KVC_Q8_GROUP, weight, low, high, unit,
                           whole ? o : part, whole ? stride : KVC_Q8_GROUP);
    for (uint32_t i = 0; !whole && i < count; i++)
        memcpy(o + i * stride, part + (size_t)i * KVC_Q8_GROUP, channels * sizeof *o);
}

static void values(const struct kvc_integer_tile *tile, const float *p, const struct seen_range *in, uint32_t count,
                   float *o, size_t stride) {
    for (uint32_t g = 0; g < integer_groups(tile->d); g++) {
        struct factors factors = {.factor = tile->factor};
        for (uint32_t i = 0; i < count; i += QUERIES)
            mix_queries(tile, g, p + (size_t)i * KVC_TILE, in + i, kvc_min_u32(count - i, QUERIES), &factors,
                        o + i * stride + (size_t)g * KVC_Q8_GROUP, stride);
    }
}

const struct kvc_integer_kernels KERNELS = {
    .pack_keys = pack_keys, .pack_values = pack_values, .scores = scores, .values = values, .at_once = 48};

#endif
