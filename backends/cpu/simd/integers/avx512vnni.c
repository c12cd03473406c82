/* avx512vnni.c - attention over Q8_0 entries in integer arithmetic, for AVX-512 with VNNI. VNNI multiplies unsigned
 * bytes by signed bytes. Quants of keys are therefore stored as unsigned bytes, with 128 added. To correct for this,
 * each sum begins with -128 times the sum of the query's quants. */
#define KEY_BITS 0x80
#include "backends/cpu/simd/integers/weights_512.h"

#define SCORE_QUERIES 6 /* number of queries in a block of scores; each query has two strips of entries */
#define SCORE_STRIPS 2
#define VALUE_QUERIES 6 /* number of queries in a block of outputs; each query has two digits of two halves */

INLINE __m512i word(const void *from) {
    kvc_i32 x;
    memcpy(&x, from, sizeof x);
    return _mm512_set1_epi32(x);
}

/* Prevents the compiler from spilling sums to memory between iterations of a loop. */
INLINE __m512 in_registers(__m512 x) {
    __asm__("" : "+v"(x));
    return x;
}

/* Multiplies four unsigned bytes of `a` by four signed bytes of `b`, and adds the products to each element of `sum`. */
INLINE __m512i add_products(__m512i sum, __m512i a, __m512i b) {
    sum = _mm512_dpbusd_epi32(sum, a, b);
    __asm__("" : "+v"(sum));
    return sum;
}

/* ---- scores ---- */

/* Adds the products of one group of channels to the sums of `rows` queries and two strips of keys. A group is eight
 * words of four channels. */
INLINE void add_words(const kvc_i8 *words, size_t strip, const kvc_i8 *quant, size_t row_bytes, unsigned rows,
                      __m512i sum[SCORE_QUERIES][SCORE_STRIPS]) {
    UNROLL
    for (unsigned w = 0; w < 8; w++) {
        __m512i key[SCORE_STRIPS];
        UNROLL
        for (unsigned v = 0; v < SCORE_STRIPS; v++)
            key[v] = _mm512_loadu_si512(words + v * strip + 64 * w);
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            const __m512i q = word(quant + r * row_bytes + 4 * w);
            UNROLL
            for (unsigned v = 0; v < SCORE_STRIPS; v++)
                sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], key[v], q);
        }
    }
}

/* Computes the scores of `rows` queries with two strips of entries, from entry e on. `rows` is a compile-time
 * constant. */
INLINE void score_strips(const struct kvc_integer_tile *tile, const struct kvc_integer_queries *queries, size_t first,
                         uint32_t e, float scale, unsigned rows, float *s) {
    const size_t groups = integer_groups(tile->d), row_bytes = groups * KVC_Q8_GROUP, strip = STRIP * row_bytes;
    const float *x_scale = queries->scale + first * groups, *key_scale = tile->key_scale + e;
    const kvc_i32 *x_sum = queries->sum + first * groups;
    const kvc_i8 *words = tile->keys + e / STRIP * strip, *quant = queries->quant + first * row_bytes;
    __m512 dot[SCORE_QUERIES][SCORE_STRIPS];
    UNROLL
    for (unsigned r = 0; r < rows; r++) {
        UNROLL
        for (unsigned v = 0; v < SCORE_STRIPS; v++)
            dot[r][v] = _mm512_setzero_ps();
    }
    for (size_t g = 0; g < groups; g++, key_scale += KVC_TILE, words += STRIP * KVC_Q8_GROUP, quant += KVC_Q8_GROUP) {
        __m512i sum[SCORE_QUERIES][SCORE_STRIPS];
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            UNROLL
            for (unsigned v = 0; v < SCORE_STRIPS; v++)
                sum[r][v] = _mm512_set1_epi32(-128 * x_sum[r * groups + g]);
        }
        add_words(words, strip, quant, row_bytes, rows, sum);
        UNROLL
        for (unsigned v = 0; v < SCORE_STRIPS; v++) {
            const __m512 key = _mm512_loadu_ps(key_scale + 16 * v);
            UNROLL
            for (unsigned r = 0; r < rows; r++)
                dot[r][v] = in_registers(_mm512_fmadd_ps(_mm512_mul_ps(key, _mm512_set1_ps(x_scale[r * groups + g])),
                                                         _mm512_cvtepi32_ps(sum[r][v]), dot[r][v]));
        }
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++) {
        UNROLL
        for (unsigned v = 0; v < SCORE_STRIPS; v++)
            _mm512_storeu_ps(s + r * KVC_TILE + e + 16 * v, _mm512_mul_ps(dot[r][v], _mm512_set1_ps(scale)));
    }
}
#define EVERY(m) m(1) m(2) m(3) m(4) m(5) m(6)
#define SCORE_ROWS(n)                                                                                                  \
    static void score_rows_##n(const struct kvc_integer_tile *tile, const struct kvc_integer_queries *queries,         \
                               size_t first, struct seen_range range, float scale, float *s) {                         \
        for (uint32_t e = range.low / 32 * 32; e < range.high; e += SCORE_STRIPS * STRIP)                              \
            score_strips(tile, queries, first, e, scale, n, s);                                                        \
    }
EVERY(SCORE_ROWS)

static void scores(const struct kvc_integer_tile *tile, const struct kvc_integer_queries *queries, uint32_t first,
                   uint32_t count, struct seen_range range, float scale, float *s) {
#define SCORE_NAME(n) [n] = score_rows_##n,
    static void (*const of_rows[])(const struct kvc_integer_tile *, const struct kvc_integer_queries *, size_t,
                                   struct seen_range, float, float *) = {EVERY(SCORE_NAME)};
    for (uint32_t i = 0, some; i < count; i += some) {
        some = kvc_min_u32(count - i, SCORE_QUERIES);
        of_rows[some](tile, queries, first + i, range, scale, s + (size_t)i * KVC_TILE);
    }
}

/* ---- values ---- */

/* For `rows` queries, computes one group of output channels over the packed quads `from` .. `to` - 1. A quad is four
 * entries. `rows` is a compile-time constant. */
INLINE void value_rows(const kvc_i8 *values, const unsigned char *digits, uint32_t from, uint32_t to, unsigned rows,
                       const float *unit, size_t units, uint32_t channels, float *o, size_t stride) {
    __m512i sum[VALUE_QUERIES][4];
    UNROLL
    for (unsigned r = 0; r < rows; r++) {
        UNROLL
        for (unsigned i = 0; i < 4; i++)
            sum[r][i] = _mm512_setzero_si512();
    }
    for (size_t quad = from; quad < to; quad++) {
        const __m512i first = _mm512_loadu_si512(values + 64 * quad);
        const __m512i second = _mm512_loadu_si512(values + HALF_BYTES + 64 * quad);
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            const unsigned char *digit = digits + (size_t)r * 2 * KVC_TILE + 4 * quad;
            const __m512i high = word(digit), low = word(digit + KVC_TILE);
            sum[r][0] = add_products(sum[r][0], high, first);
            sum[r][1] = add_products(sum[r][1], high, second);
            sum[r][2] = add_products(sum[r][2], low, first);
            sum[r][3] = add_products(sum[r][3], low, second);
        }
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        store_group(sum[r][0], sum[r][1], sum[r][2], sum[r][3], unit[r * units], channels, o + r * stride);
}
#define VALUE_ROWS(n)                                                                                                  \
    static void value_rows_##n(const kvc_i8 *values, const unsigned char *digits, uint32_t from, uint32_t to,          \
                               const float *unit, size_t units, uint32_t channels, float *o, size_t stride) {          \
        value_rows(values, digits, from, to, n, unit, units, channels, o, stride);                                     \
    }
EVERY(VALUE_ROWS)

static void values(const struct kvc_integer_tile *tile, const float *p, const struct seen_range *in, uint32_t count,
                   float *o, size_t stride) {
#define VALUE_NAME(n) [n] = value_rows_##n,
    static void (*const of_rows[])(const kvc_i8 *, const unsigned char *, uint32_t, uint32_t, const float *, size_t,
                                   uint32_t, float *, size_t) = {EVERY(VALUE_NAME)};
    const uint32_t groups = integer_groups(tile->d);
    if (tile->negative) {
        kvc_integer_plain.values(tile, p, in, count, o, stride);
        return;
    }
    for (uint32_t i = 0, some; i < count; i += some) {
        some = kvc_min_u32(count - i, VALUE_QUERIES);
        const struct seen_range any = weigh_queries(tile, p, in, i, some);
        for (uint32_t g = 0; g < groups; g++)
            of_rows[some](tile->values + 2 * g * HALF_BYTES, tile->digits + (size_t)g * INTEGERS_PADDING * 2 * KVC_TILE,
                          any.low / 4, any.high / 4, tile->unit + (size_t)i * groups + g, groups,
                          tile->d - g * KVC_Q8_GROUP, o + i * stride + g * KVC_Q8_GROUP, stride);
    }
}

const struct kvc_integer_kernels kvc_integer_avx512vnni = {
    .pack_keys = pack_keys, .pack_values = pack_values, .scores = scores, .values = values, .at_once = 24};
