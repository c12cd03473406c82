/* gemm.h - template: linear layers in 15 bits for many rows. The weights of TILE_OUTPUTS outputs are packed into a
 * panel. A tile of rows is multiplied by the panel, one block at a time.
 *
 * A block of a panel consists of groups of TILE_OUTPUTS words: the quants, two per word; with VNNI, the high digits
 * plus 128, four per word; and the scales. A block of a tile has the same groups with TILE_ROWS words each. Its high
 * digits are signed, and with VNNI a last group holds -128 times the sum of the high digits. Blocks have room for 256
 * quants.
 *
 * A sum of products in 32 bits wraps around. A second sum recovers the upper bits. Without VNNI, it adds sums of
 * eight products, with each of these sums shifted right by 14 bits. With VNNI, it adds the products of the high digits
 * (canon.h). */
#ifndef KVC_SIMD_INT16_GEMM_H
#define KVC_SIMD_INT16_GEMM_H

#include <string.h>

#include "backends/cpu/simd/int16/weights.h"
#include "backends/cpu/simd/int8/gemm.h"

#define WIDE_HIGH (PAIRS ? 0 : 64)                  /* number of words of a row's high digits */
#define WIDE_X_WORDS (128 + WIDE_HIGH + 1 + !PAIRS) /* number of words of a row's block */
#define WIDE_W_WORDS (128 + WIDE_HIGH + 1)          /* number of words of an output's block */
#define WIDE_X_BLOCK ((size_t)WIDE_X_WORDS * TILE_ROWS)
#define WIDE_W_BLOCK ((size_t)WIDE_W_WORDS * TILE_OUTPUTS)

static size_t wide_panel_bytes(const struct kvc_int8_call *call) { return groups_of(call) * WIDE_W_BLOCK * 4; }
static size_t wide_prepared_words(const struct kvc_int8_call *call) { return groups_of(call) * WIDE_X_BLOCK; }

/* Returns the high digits of 32 quants as bytes. */
INLINE __m256i high_digits(const __m256i quant[2]) {
    const __m256i packed = _mm256_packs_epi16(_mm256_srai_epi16(quant[0], 7), _mm256_srai_epi16(quant[1], 7));
    return _mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0));
}

/* Packs a block of each of eight outputs. The block has `parts` parts of 32 weights. `type` is a constant. */
INLINE void wide_pack(const enum kvc_type type, kvc_u32 *to, const struct wide_place *at, int parts) {
    struct wide_weights u[8];
    __m256i x[8];
    for (int i = 0; i < 8; i++) {
        if (parts == 8)
            wide_unpack(type, &u[i], at[i], 8);
        else
            wide_unpack(type, &u[i], at[i], parts);
        to[(128 + WIDE_HIGH) * TILE_OUTPUTS + i] = kvc_bits(u[i].scale);
    }
    for (int k = 0; k < 2 * parts; k++) {
        UNROLL
        for (int i = 0; i < 8; i++)
            x[i] = u[i].quant[k];
        store_transposed(to + (size_t)(8 * k) * TILE_OUTPUTS, x, TILE_OUTPUTS, 8);
    }
    for (int k = 0; WIDE_HIGH && k < parts; k++) {
        UNROLL
        for (int i = 0; i < 8; i++)
            x[i] = _mm256_xor_si256(high_digits(u[i].quant + 2 * k), _mm256_set1_epi8((char)-128));
        store_transposed(to + (size_t)(128 + 8 * k) * TILE_OUTPUTS, x, TILE_OUTPUTS, 8);
    }
}
#define WIDE_PACK(NAME, name)                                                                                          \
    static void wide_pack_##name(kvc_u32 *to, const struct wide_place *at, int parts) {                                \
        wide_pack(NAME, to, at, parts);                                                                                \
    }
WIDE_TYPES(WIDE_PACK)

static void (*const wide_pack_of[WIDE_TABLE])(kvc_u32 *, const struct wide_place *, int) = {
#define WIDE_PACK_BY_TYPE(NAME, name) [NAME] = wide_pack_##name,
    WIDE_TYPES(WIDE_PACK_BY_TYPE)};

/* Packs panel `number`. After the layer's last output, the panel is filled up with copies of that output. */
static void wide_pack_panel(const struct kvc_int8_call *call, size_t number, kvc_u32 *to) {
    const size_t groups = groups_of(call), bytes = (size_t)wide_bytes(call->type);
    for (size_t place = 0; place < TILE_OUTPUTS; place += 8) {
        struct wide_place at[8];
        for (size_t i = 0; i < 8; i++)
            at[i] = wide_row(call, kvc_min_u64(number * TILE_OUTPUTS + place + i, call->N - 1));
        for (size_t g = 0; g < groups; g++) {
            wide_pack_of[call->type](to + g * WIDE_W_BLOCK + place, at,
                                     (int)(kvc_min_u64(call->K - g * 256, 256) / 32));
            for (size_t i = 0; i < 8; i++) {
                at[i].data += bytes;
                at[i].scale += call->type == KVC_PACKED;
            }
        }
    }
}

/* Prepares a block of one row: its `parts` parts of 32 quants. The row's words are TILE_ROWS words apart. */
INLINE void wide_prepare_block(kvc_u32 *to, const kvc_i16 *quant, float scale, int parts) {
    kvc_u32 word[WIDE_X_WORDS];
    memcpy(word, quant, (size_t)parts * 64);
    for (int i = 0; i < parts * 16; i++)
        to[(size_t)i * TILE_ROWS] = word[i];
#if !PAIRS
    __m256i sum = _mm256_setzero_si256();
    for (int k = 0; k < parts; k++) {
        const __m256i *from = (const __m256i *)(const void *)(quant + 32 * k);
        const __m256i pair[2] = {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)}, high = high_digits(pair);
        sum = _mm256_dpbusd_epi32(sum, _mm256_set1_epi8((char)-128), high); /* the byte -128 is read as unsigned, 128 */
        _mm256_storeu_si256((__m256i *)(void *)(word + 8 * k), high);
    }
    for (int i = 0; i < parts * 8; i++)
        to[(size_t)(128 + i) * TILE_ROWS] = word[i];
    to[(size_t)(WIDE_X_WORDS - 1) * TILE_ROWS] = 0u - (kvc_u32)sum_elements(sum);
#endif
    to[(size_t)(128 + WIDE_HIGH) * TILE_ROWS] = kvc_bits(scale);
}

/* Prepares the rows of tiles `first` .. `last` - 1. */
static void wide_prepare(const struct kvc_int8_call *call, size_t first, size_t last) {
    const size_t groups = groups_of(call);
    for (size_t row = first * call->tile_rows; row < kvc_min_u64(last * call->tile_rows, call->rows); row++) {
        kvc_u32 *tile = call->prepared + row / call->tile_rows * wide_prepared_words(call) + row % call->tile_rows;
        for (size_t g = 0; g < groups; g++)
            wide_prepare_block(tile + g * WIDE_X_BLOCK, call->wide_quant + row * call->K + 256 * g,
                               call->scale[row * groups + g], (int)(kvc_min_u64(call->K - g * 256, 256) / 32));
    }
}

/* Converts I = 16384 * high + rest to float, rounded as in kvc_int16_float. */
INLINE fv wide_float(iv high, iv rest) {
    const fv low = fv_of(iv_and(rest, iv_set(16383)));
    return fv_fma(fv_of(iv_add(high, iv_down(rest, 14))), fv_set(16384.0f), low);
}

/* A block's sums: `wrapped` modulo 2^32, and `high`, from which the upper bits follow. */
struct wide_sums {
    iv wrapped[TILE_ROWS][TILE_VECTORS], high[TILE_ROWS][TILE_VECTORS];
};

/* Adds the products of one word of each row and output. A word holds two quants or, if `high` is true, four high
 * digits. */
INLINE void wide_word(iv to[TILE_ROWS][TILE_VECTORS], const kvc_u32 *x, const kvc_u32 *w, int rows, int high) {
    iv of_w[TILE_VECTORS];
    UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        of_w[v] = iv_load(w + v * WIDTH);
    UNROLL
    for (int r = 0; r < rows; r++) {
        const iv q = iv_set((kvc_i32)x[r]);
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            to[r][v] = high ? iv_dot(to[r][v], of_w[v], q) : iv_dot_wide(to[r][v], of_w[v], q);
    }
}

/* Adds the products of a block's words to the initial values in `sum`. `words` is a multiple of four. */
INLINE void wide_words(struct wide_sums *sum, const kvc_u32 *x, const kvc_u32 *w, size_t words, int rows) {
#if PAIRS
    for (size_t k = 0; k < words; k += 4) {
        iv part[TILE_ROWS][TILE_VECTORS];
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < TILE_VECTORS; v++)
                part[r][v] = iv_set(0);
        }
        UNROLL
        for (size_t i = k; i < k + 4; i++)
            wide_word(part, x + i * TILE_ROWS, w + i * TILE_OUTPUTS, rows, 0);
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < TILE_VECTORS; v++) {
                sum->wrapped[r][v] = iv_add(sum->wrapped[r][v], part[r][v]);
                sum->high[r][v] = iv_add(sum->high[r][v], iv_down(part[r][v], 14));
            }
        }
    }
#else
    for (size_t k = 0; k < words; k += 4) {
        UNROLL
        for (size_t i = k; i < k + 4; i++)
            wide_word(sum->wrapped, x + i * TILE_ROWS, w + i * TILE_OUTPUTS, rows, 0);
    }
    for (size_t k = 128; k < 128 + words / 2; k += 2) {
        UNROLL
        for (size_t i = k; i < k + 2; i++)
            wide_word(sum->high, x + i * TILE_ROWS, w + i * TILE_OUTPUTS, rows, 1);
    }
#endif
}

/* Multiplies `rows` rows of a tile by the panel. `rows` is a constant. */
INLINE void wide_tile(const struct kvc_int8_call *call, const kvc_u32 *w, const kvc_u32 *x, size_t row, size_t n0,
                      const int rows) {
    fv to[TILE_ROWS][TILE_VECTORS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            to[r][v] = fv_zero();
    }
    for (size_t k = 0; k < call->K; k += 256, x += WIDE_X_BLOCK, w += WIDE_W_BLOCK) {
        struct wide_sums sum;
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < TILE_VECTORS; v++) {
                sum.wrapped[r][v] = iv_set(0);
                sum.high[r][v] = iv_set(PAIRS ? 0 : (kvc_i32)x[(WIDE_X_WORDS - 1) * TILE_ROWS + r]);
            }
        }
        wide_words(&sum, x, w, kvc_min_u64(call->K - k, 256) / 2, rows);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const fv x_scale = float_word(x[(128 + WIDE_HIGH) * TILE_ROWS + r]);
            UNROLL
            for (int v = 0; v < TILE_VECTORS; v++) {
                const iv high = sum.high[r][v], rest = iv_sub(sum.wrapped[r][v], iv_up(high, 14));
                const fv scale = fv_mul(float_words(w + (128 + WIDE_HIGH) * TILE_OUTPUTS + v * WIDTH), x_scale);
                to[r][v] = fv_fma(scale, wide_float(high, rest), to[r][v]);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        store_row(call, to[r], row + (size_t)r, n0);
}

/* Number of rows computed at a time, so that all sums of a block stay in registers. */
#if BITS == 512 && !PAIRS
#define WIDE_ROWS 6
#define WIDE_EVERY(m) m(1) m(2) m(3) m(4) m(5) m(6)
#elif BITS == 512
#define WIDE_ROWS 3
#define WIDE_EVERY(m) m(1) m(2) m(3)
#else
#define WIDE_ROWS 2
#define WIDE_EVERY(m) m(1) m(2)
#endif

#define WIDE_TILE(n)                                                                                                   \
    static void wide_tile_##n(const struct kvc_int8_call *call, const kvc_u32 *w, const kvc_u32 *x, size_t row,        \
                              size_t n0) {                                                                             \
        wide_tile(call, w, x, row, n0, n);                                                                             \
    }
WIDE_EVERY(WIDE_TILE)
#define WIDE_TILE_NAME(n) [n] = wide_tile_##n,
static void (*const wide_tile_of[WIDE_ROWS + 1])(const struct kvc_int8_call *, const kvc_u32 *, const kvc_u32 *, size_t,
                                                 size_t) = {WIDE_EVERY(WIDE_TILE_NAME)};

static void wide_panel(const struct kvc_int8_call *call, size_t number, size_t first, size_t last, void *scratch) {
    wide_pack_panel(call, number, scratch);
    for (size_t i = first; i < last; i += call->tile_rows) {
        const size_t rows = kvc_min_u64(call->tile_rows, last - i);
        const kvc_u32 *x = call->prepared + i / call->tile_rows * wide_prepared_words(call);
        for (size_t r = 0; r < rows; r += WIDE_ROWS)
            wide_tile_of[kvc_min_u64(WIDE_ROWS, rows - r)](call, scratch, x + r, i + r, number * TILE_OUTPUTS);
    }
}

#endif
