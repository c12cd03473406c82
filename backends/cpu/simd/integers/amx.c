/* amx.c - attention over Q8_0 entries in integer arithmetic, with the tile registers of AMX. AMX multiplies signed
 * bytes. A tile register holds the scores of 16 queries and 16 entries, or the outputs of 16 queries and 16 channels.
 * The kernels of avx512vnni.c compute calls with up to most_few queries. Both files pack values in the same layout. For
 * keys there is one difference: avx512vnni.c adds 128 to every quant, and this file does not. */
#define KEY_BITS 0
#include "backends/cpu/simd/int8/tiles.h"
#include "backends/cpu/simd/integers/weights_512.h"

#define SIDE 16u
#define CELLS (SIDE * SIDE)

/* The numbers of the tile registers. For scores, the four sums are those of two strips and two groups of channels. For
 * outputs, they are those of two digits and two halves. */
enum { SUM_0, SUM_1, SUM_2, SUM_3, LEFT_0, LEFT_1, RIGHT_0, RIGHT_1 };

static void configure(struct kvc_tiles *t, unsigned left_bytes) {
    struct kvc_tile_shapes shapes = {0};
    for (unsigned n = SUM_0; n <= SUM_3; n++)
        kvc_tile_shape(&shapes, n, SIDE, 64);
    for (unsigned n = LEFT_0; n <= LEFT_1; n++)
        kvc_tile_shape(&shapes, n, SIDE, left_bytes);
    for (unsigned n = RIGHT_0; n <= RIGHT_1; n++)
        kvc_tile_shape(&shapes, n, left_bytes / 4, 64);
    TILES_CONFIGURE(t, &shapes);
}

/* ---- scores ---- */

/* Multiplies 16 queries by two strips of 16 keys, in one or two groups of channels. The caller has loaded these groups
 * of the queries into LEFT_0 and LEFT_1. Stores the sums to sum [strip][group][CELLS]. */
INLINE void multiply_groups(struct kvc_tiles *t, const kvc_i8 *words, size_t strip, unsigned groups, kvc_i32 *sum) {
    TILE_ZERO(t, SUM_0);
    TILE_LOAD(t, RIGHT_0, words, 64);
    TILE_MULTIPLY(t, SUM_0, LEFT_0, RIGHT_0);
    TILE_ZERO(t, SUM_2);
    TILE_LOAD(t, RIGHT_1, words + strip, 64);
    TILE_MULTIPLY(t, SUM_2, LEFT_0, RIGHT_1);
    if (groups > 1) {
        TILE_ZERO(t, SUM_1);
        TILE_LOAD(t, RIGHT_0, words + STRIP * KVC_Q8_GROUP, 64);
        TILE_MULTIPLY(t, SUM_1, LEFT_1, RIGHT_0);
        TILE_ZERO(t, SUM_3);
        TILE_LOAD(t, RIGHT_1, words + strip + STRIP * KVC_Q8_GROUP, 64);
        TILE_MULTIPLY(t, SUM_3, LEFT_1, RIGHT_1);
        TILE_STORE(t, SUM_1, sum + CELLS, 64);
        TILE_STORE(t, SUM_3, sum + 3 * CELLS, 64);
    }
    TILE_STORE(t, SUM_0, sum, 64);
    TILE_STORE(t, SUM_2, sum + 2 * CELLS, 64);
}

/* Scales the sums [strip][group][CELLS] and adds them to the dot products of two strips in rows of s. Multiplies the
 * results by `factor`, which is 1 until the last group. If `fresh`, the dot products start at 0. */
INLINE void add_groups(const kvc_i32 *sum, const float *x_scale, size_t scales, const float *key_scale, unsigned groups,
                       unsigned rows, bool fresh, float factor, float *s) {
    UNROLL
    for (unsigned strip = 0; strip < 2; strip++) {
        __m512 key[2];
        UNROLL
        for (unsigned g = 0; g < groups; g++)
            key[g] = _mm512_loadu_ps(key_scale + g * KVC_TILE + strip * STRIP);
        for (unsigned r = 0; r < rows; r++) {
            float *to = s + r * KVC_TILE + strip * STRIP;
            __m512 x = fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(to);
            UNROLL
            for (unsigned g = 0; g < groups; g++)
                x = _mm512_fmadd_ps(_mm512_mul_ps(key[g], _mm512_set1_ps(x_scale[r * scales + g])),
                                    _mm512_cvtepi32_ps(_mm512_load_si512(sum + (2 * strip + g) * CELLS + r * SIDE)), x);
            _mm512_storeu_ps(to, _mm512_mul_ps(x, _mm512_set1_ps(factor)));
        }
    }
}

/* Adds the products of one or two groups, from group g on, to s [rows, KVC_TILE], for up to 16 queries and the strips
 * of the range. While vector instructions add the sums of two strips, tile instructions multiply the next two. `groups`
 * is a compile-time constant. */
INLINE void score_groups(struct kvc_tiles *t, const struct kvc_integer_tile *tile,
                         const struct kvc_integer_queries *queries, size_t first, size_t g, unsigned groups,
                         unsigned rows, struct seen_range range, float factor, float *s) {
    const size_t all = integer_groups(tile->d), row_bytes = all * KVC_Q8_GROUP, strip = STRIP * row_bytes;
    const kvc_i8 *quant = queries->quant + first * row_bytes + g * KVC_Q8_GROUP;
    const kvc_i8 *words = tile->keys + g * STRIP * KVC_Q8_GROUP;
    const float *x_scale = queries->scale + first * all + g, *key_scale = tile->key_scale + g * KVC_TILE;
    const uint32_t from = range.low / 32 * 32;
    kvc_i32 *sum = tile->sums;
    TILE_LOAD(t, LEFT_0, quant, row_bytes);
    if (groups > 1)
        TILE_LOAD(t, LEFT_1, quant + KVC_Q8_GROUP, row_bytes);
    multiply_groups(t, words + from / STRIP * strip, strip, groups, sum);
    for (uint32_t e = from; e < range.high; e += 2 * STRIP) {
        const kvc_i32 *now = tile->sums + (e / 32 % 2 == from / 32 % 2 ? 0 : 4 * CELLS);
        if (e + 2 * STRIP < range.high)
            multiply_groups(t, words + (e + 2 * STRIP) / STRIP * strip, strip, groups,
                            now == tile->sums ? tile->sums + 4 * CELLS : tile->sums);
        add_groups(now, x_scale, all, key_scale + e, groups, rows, g == 0, factor, s + e);
    }
}

static void scores(const struct kvc_integer_tile *tile, const struct kvc_integer_queries *queries, uint32_t first,
                   uint32_t count, struct seen_range range, float scale, float *s) {
    const size_t groups = integer_groups(tile->d);
    struct kvc_tiles t;
    if (range.low >= range.high)
        return;
    configure(&t, KVC_Q8_GROUP);
    for (uint32_t i = 0; i < count; i += SIDE, s += (size_t)SIDE * KVC_TILE) {
        const unsigned rows = kvc_min_u32(count - i, SIDE);
        for (size_t g = 0; g < groups; g += 2)
            if (g + 1 < groups)
                score_groups(&t, tile, queries, first + i, g, 2, rows, range, g + 2 < groups ? 1.0f : scale, s);
            else
                score_groups(&t, tile, queries, first + i, g, 1, rows, range, scale, s);
    }
    TILES_RELEASE(&t);
}

/* ---- values ---- */

/* Computes weighted sums of the values of the entries in `of`, for 16 queries and one group of channels. Each digit of
 * the weights has its own sums. Stores the sums to sum [2 digits][2 halves][CELLS]; the high digit comes first. */
INLINE void multiply_values(struct kvc_tiles *t, const kvc_i8 *values, const unsigned char *digits,
                            struct seen_range of, kvc_i32 *sum) {
    TILE_ZERO(t, SUM_0);
    TILE_ZERO(t, SUM_1);
    TILE_ZERO(t, SUM_2);
    TILE_ZERO(t, SUM_3);
    for (uint32_t e = of.low; e < of.high; e += BLOCK) {
        TILE_LOAD(t, RIGHT_0, values + 16 * (size_t)e, 64);
        TILE_LOAD(t, RIGHT_1, values + HALF_BYTES + 16 * (size_t)e, 64);
        TILE_LOAD(t, LEFT_0, digits + e, 2 * KVC_TILE);
        TILE_LOAD(t, LEFT_1, digits + KVC_TILE + e, 2 * KVC_TILE);
        TILE_MULTIPLY(t, SUM_0, LEFT_0, RIGHT_0);
        TILE_MULTIPLY(t, SUM_1, LEFT_0, RIGHT_1);
        TILE_MULTIPLY(t, SUM_2, LEFT_1, RIGHT_0);
        TILE_MULTIPLY(t, SUM_3, LEFT_1, RIGHT_1);
    }
    TILE_STORE(t, SUM_0, sum, 64);
    TILE_STORE(t, SUM_1, sum + CELLS, 64);
    TILE_STORE(t, SUM_2, sum + 2 * CELLS, 64);
    TILE_STORE(t, SUM_3, sum + 3 * CELLS, 64);
}

static void values(const struct kvc_integer_tile *tile, const float *p, const struct seen_range *in, uint32_t count,
                   float *o, size_t stride) {
    const uint32_t groups = integer_groups(tile->d);
    struct kvc_tiles t;
    if (tile->negative) {
        kvc_integer_plain.values(tile, p, in, count, o, stride);
        return;
    }
    configure(&t, 64);
    for (uint32_t i = 0; i < count; i += SIDE) {
        const uint32_t rows = kvc_min_u32(count - i, SIDE);
        const struct seen_range of = weigh_queries(tile, p, in, i, rows);
        multiply_values(&t, tile->values, tile->digits, of, tile->sums);
        /* tile instructions compute group g + 1 while vector instructions scale group g */
        for (uint32_t g = 0; g < groups; g++) {
            const kvc_i32 *sum = tile->sums + g % 2 * 4 * CELLS;
            if (g + 1 < groups)
                multiply_values(&t, tile->values + 2 * (g + 1) * HALF_BYTES,
                                tile->digits + (g + 1) * (size_t)INTEGERS_PADDING * 2 * KVC_TILE, of,
                                tile->sums + (g + 1) % 2 * 4 * CELLS);
            for (uint32_t r = 0; r < rows; r++, sum += SIDE)
                store_group(_mm512_load_si512(sum), _mm512_load_si512(sum + CELLS), _mm512_load_si512(sum + 2 * CELLS),
                            _mm512_load_si512(sum + 3 * CELLS), tile->unit[(size_t)(i + r) * groups + g],
                            tile->d - g * KVC_Q8_GROUP, o + (i + r) * stride + g * KVC_Q8_GROUP);
        }
    }
    TILES_RELEASE(&t);
}

const struct kvc_integer_kernels kvc_integer_amx = {.pack_keys = pack_keys,
                                                    .pack_values = pack_values,
                                                    .scores = scores,
                                                    .values = values,
                                                    .at_once = 48,
                                                    .most_few = 8,
                                                    .few = &kvc_integer_avx512vnni};
