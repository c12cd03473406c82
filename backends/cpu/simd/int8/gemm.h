/* gemm.h - template: int8 products for many rows. The weights of TILE_OUTPUTS outputs are packed into a panel, with
 * four weights of one output in each element of a vector. A tile of rows is multiplied by the panel one lane at a time.
 * The integer sum of a block is therefore complete before it is scaled, and no sum across a vector is ever needed. */
#ifndef KVC_SIMD_INT8_GEMM_H
#define KVC_SIMD_INT8_GEMM_H

#include "backends/cpu/simd/int8/prepare.h"

static size_t panel_bytes(const struct kvc_int8_call *call) {
    return groups_of(call) * 8 * (size_t)PANEL_WORDS(kind_of[call->type]) * TILE_OUTPUTS * 4;
}

/* Transposes eight vectors of eight 32-bit elements. */
INLINE void transpose8(__m256i *x) {
    __m256i y[8], z[8];
    UNROLL
    for (int i = 0; i < 4; i++) {
        y[2 * i] = _mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        z[4 * i] = _mm256_unpacklo_epi64(y[4 * i], y[4 * i + 2]);
        z[4 * i + 1] = _mm256_unpackhi_epi64(y[4 * i], y[4 * i + 2]);
        z[4 * i + 2] = _mm256_unpacklo_epi64(y[4 * i + 1], y[4 * i + 3]);
        z[4 * i + 3] = _mm256_unpackhi_epi64(y[4 * i + 1], y[4 * i + 3]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        x[i] = _mm256_permute2x128_si256(z[i], z[i + 4], 0x20);
        x[i + 4] = _mm256_permute2x128_si256(z[i], z[i + 4], 0x31);
    }
}

/* Transposes the vectors of eight outputs and stores row i at to + i * stride words. */
INLINE void store_transposed(void *to, __m256i *x, size_t stride, int rows) {
    transpose8(x);
    UNROLL
    for (int i = 0; i < 8; i++)
        if (i < rows)
            _mm256_storeu_si256((__m256i *)(void *)((kvc_u32 *)to + (size_t)i * stride), x[i]);
}

/* Extends 16 of the 32 bytes to 16 bits. */
INLINE __m256i sign_extended_half(__m256i x, int half) {
    return _mm256_cvtepi8_epi16(half ? _mm256_extracti128_si256(x, 1) : _mm256_castsi256_si128(x));
}

INLINE void prefetch_lines(const unsigned char *bytes, size_t count) {
    UNROLL
    for (size_t line = 0; line < count; line += 64)
        _mm_prefetch((const char *)bytes + line, _MM_HINT_T0);
}

/* Packs 256 weights of each of eight outputs, fewer at the end of a row. The first of these outputs is output `place`
 * of the panel. Also prefetches the weights `ahead` bytes after them. */
INLINE void pack(const enum kvc_type type, kvc_u32 *to, const unsigned char *const *row, size_t ahead, size_t groups,
                 size_t group, int parts, size_t place) {
    const int pieces = 32 / piece_width(type), words = CODE_WORDS(is_wide(type) ? KIND_WIDE : KIND_START_32);
    const size_t block = (size_t)(words + pieces * (1 + has_minimum(type))) * TILE_OUTPUTS;
    const size_t bytes = (size_t)group_bytes(type);
    struct unpacked u[8];
    __m256i x[8];
    to += group * block + place;
    for (int i = 0; i < 8; i++) {
        prefetch_lines(row[i] + ahead + group * bytes, bytes);
        if (parts == 8)
            unpack(type, &u[i], row[i] + group * bytes, 8);
        else
            unpack(type, &u[i], row[i] + group * bytes, parts);
    }
    for (int b = 0; b < parts; b++) {
        kvc_u32 *code = to + (size_t)b * groups * block;
        UNROLL
        for (int i = 0; i < 8; i++)
            x[i] = is_wide(type) ? sign_extended_half(u[i].quant[b], 0) : code_of(u[i].quant[b], is_signed(type));
        store_transposed(code, x, TILE_OUTPUTS, 8);
        if (!is_wide(type))
            continue;
        UNROLL
        for (int i = 0; i < 8; i++)
            x[i] = sign_extended_half(u[i].quant[b], 1);
        store_transposed(code + (size_t)8 * TILE_OUTPUTS, x, TILE_OUTPUTS, 8);
    }
    for (int s = 0; s < pieces; s++) {
        kvc_u32 *scale = to + (size_t)(words + s) * TILE_OUTPUTS;
        for (int i = 0; i < 8; i++)
            x[i] = _mm256_castps_si256(u[i].scale[s]);
        store_transposed(scale, x, groups * block, parts);
        for (int i = 0; has_minimum(type) && i < 8; i++)
            x[i] = _mm256_castps_si256(negative(u[i].minimum[s]));
        if (has_minimum(type))
            store_transposed(scale + pieces * TILE_OUTPUTS, x, groups * block, parts);
    }
}
#define PACK(a, NAME, name, ...)                                                                                       \
    static void pack_##name(kvc_u32 *to, const unsigned char *const *row, size_t ahead, size_t groups, size_t group,   \
                            int parts, size_t place) {                                                                 \
        pack(KVC_##NAME, to, row, ahead, groups, group, parts, place);                                                 \
    }
KVC_BLOCK_TYPES(PACK, )

/* Multiplies words of the outputs' codes by the words of `rows` rows and adds the products to sum. */
INLINE void add_words(iv sum[TILE_ROWS][TILE_VECTORS], const kvc_u32 *code, const kvc_u32 *x, int rows, int words,
                      int wide) {
    UNROLL
    for (int k = 0; k < words; k++) {
        iv w[TILE_VECTORS];
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            w[v] = iv_load(code + k * TILE_OUTPUTS + v * WIDTH);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const iv q = iv_set((kvc_i32)x[k * TILE_ROWS + r]);
            UNROLL
            for (int v = 0; v < TILE_VECTORS; v++)
                sum[r][v] = wide ? iv_dot_wide(sum[r][v], w[v], q) : iv_dot(sum[r][v], w[v], q);
        }
    }
}

/* Computes the integer sums of a piece of a block. `start` has the initial values of the rows' sums, or is NULL. */
INLINE void piece_sums(iv total[TILE_ROWS][TILE_VECTORS], const kvc_u32 *start, const kvc_u32 *code, const kvc_u32 *x,
                       int rows, int words, int halves, int wide) {
    UNROLL
    for (int h = 0; h <= halves; h++) {
        const int some = words / (1 + halves);
        iv sum[TILE_ROWS][TILE_VECTORS];
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < TILE_VECTORS; v++)
                sum[r][v] = iv_set(start ? (kvc_i32)start[r] : 0);
        }
        add_words(sum, code + h * some * TILE_OUTPUTS, x + h * some * TILE_ROWS, rows, some, wide);
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < TILE_VECTORS; v++) {
                const iv whole = wide ? sum[r][v] : iv_whole(sum[r][v]);
                total[r][v] = h ? iv_add(total[r][v], whole) : whole;
            }
        }
    }
}

INLINE fv float_words(const kvc_u32 *from) { return fv_of_bits(iv_load(from)); }
INLINE fv float_word(kvc_u32 x) { return fv_of_bits(iv_set((kvc_i32)x)); }

/* Computes one lane of a tile, which has `count` blocks. `kind` is a constant. */
INLINE void tile_lane(fv f[TILE_ROWS][TILE_VECTORS], const kvc_u32 *x, const kvc_u32 *w, size_t count, int rows,
                      int kind) {
    const int pieces = KIND_PIECES(kind), codes = CODE_WORDS(kind), words = codes / pieces;
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            f[r][v] = fv_zero();
    }
    for (; count > 0; count--, x += TILE_WORDS(kind) * TILE_ROWS, w += PANEL_WORDS(kind) * TILE_OUTPUTS) {
        UNROLL
        for (int s = 0; s < pieces; s++) {
            const kvc_u32 *of_piece = x + (codes + s) * TILE_ROWS, *scale = w + (codes + s) * TILE_OUTPUTS;
            iv total[TILE_ROWS][TILE_VECTORS];
            piece_sums(total, KIND_START(kind) ? of_piece : NULL, w + s * words * TILE_OUTPUTS,
                       x + s * words * TILE_ROWS, rows, words, kind == KIND_HALVES, kind == KIND_WIDE);
            UNROLL
            for (int r = 0; r < rows; r++) {
                const fv x_scale = float_word(x[(TILE_WORDS(kind) - 1) * TILE_ROWS + r]);
                UNROLL
                for (int v = 0; v < TILE_VECTORS; v++)
                    f[r][v] = fv_fma(fv_mul(float_words(scale + v * WIDTH), x_scale), fv_of(total[r][v]), f[r][v]);
            }
            const int with_minimum = KIND_MINIMUM(kind) ? rows : 0;
            UNROLL
            for (int r = 0; r < with_minimum; r++) {
                const fv scaled = float_word(of_piece[r]);
                UNROLL
                for (int v = 0; v < TILE_VECTORS; v++)
                    f[r][v] = fv_fma(float_words(scale + pieces * TILE_OUTPUTS + v * WIDTH), scaled, f[r][v]);
            }
        }
    }
}

/* Multiplies `rows` rows by the panel. Computes each lane and then sums the lanes as a tree. */
INLINE void tile(const struct kvc_int8_call *call, const kvc_u32 *w, size_t row, size_t n0, int rows, int kind) {
    fv lanes[KVC_INT8_LANES][TILE_ROWS][TILE_VECTORS];
    const size_t groups = groups_of(call), blocks = call->K / 32;
    const kvc_u32 *x = call->prepared + row / call->tile_rows * prepared_words(call);
    for (size_t l = 0; l < KVC_INT8_LANES; l++) {
        fv f[TILE_ROWS][TILE_VECTORS];
        tile_lane(f, x + l * groups * (size_t)TILE_WORDS(kind) * TILE_ROWS,
                  w + l * groups * (size_t)PANEL_WORDS(kind) * TILE_OUTPUTS, (blocks + 7 - l) / 8, rows, kind);
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < TILE_VECTORS; v++)
                lanes[l][r][v] = f[r][v];
        }
    }
    const size_t outputs = kvc_min_u64(TILE_OUTPUTS, call->N - n0);
    for (int r = 0; r < rows; r++) {
        float part[TILE_OUTPUTS], *to = call->y + (row + (size_t)r) * call->N + n0, *y = to;
        const float *bias = call->bias ? call->bias + n0 : NULL;
        if (outputs < TILE_OUTPUTS) {
            y = part;
            for (size_t i = 0; bias && i < TILE_OUTPUTS; i++)
                part[i] = i < outputs ? bias[i] : 0.0f;
            bias = bias ? part : NULL;
        }
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) {
            const fv a = fv_add(fv_add(lanes[0][r][v], lanes[4][r][v]), fv_add(lanes[2][r][v], lanes[6][r][v]));
            const fv b = fv_add(fv_add(lanes[1][r][v], lanes[5][r][v]), fv_add(lanes[3][r][v], lanes[7][r][v]));
            const fv sum = fv_add(a, b);
            fv_store(y + v * WIDTH, bias ? fv_add(sum, fv_load(bias + v * WIDTH)) : sum);
        }
        for (size_t i = 0; y == part && i < outputs; i++)
            to[i] = part[i];
    }
}

/* `rows` is a constant. */
INLINE void tile_of_kind(const struct kvc_int8_call *call, const kvc_u32 *p, size_t row, size_t n0, const int rows) {
    switch (kind_of[call->type]) {
    case KIND_MINIMUM_32:
        tile(call, p, row, n0, rows, KIND_MINIMUM_32);
        break;
    case KIND_START_16:
        tile(call, p, row, n0, rows, KIND_START_16);
        break;
    case KIND_MINIMUM_16:
        tile(call, p, row, n0, rows, KIND_MINIMUM_16);
        break;
#if PAIRS
    case KIND_HALVES:
        tile(call, p, row, n0, rows, KIND_HALVES);
        break;
    case KIND_WIDE:
        tile(call, p, row, n0, rows, KIND_WIDE);
        break;
#endif
    default:
        tile(call, p, row, n0, rows, KIND_START_32);
    }
}
#define TILE(n)                                                                                                        \
    static void tile_##n(const struct kvc_int8_call *call, const kvc_u32 *p, size_t row, size_t n0) {                  \
        tile_of_kind(call, p, row, n0, n);                                                                             \
    }
TILE_EVERY(TILE)
#define TILE_NAME(n) [n] = tile_##n,
static void (*const tile_of[TILE_ROWS + 1])(const struct kvc_int8_call *, const kvc_u32 *, size_t,
                                            size_t) = {TILE_EVERY(TILE_NAME)};

static void (*const pack_of[KVC_TYPES])(kvc_u32 *, const unsigned char *const *, size_t, size_t, size_t, int,
                                        size_t) = {
#define PACK_BY_TYPE(a, NAME, name, ...) [KVC_##NAME] = pack_##name,
    KVC_BLOCK_TYPES(PACK_BY_TYPE, )};

static void panel(const struct kvc_int8_call *call, size_t number, size_t first, size_t last, void *scratch) {
    const size_t n0 = number * TILE_OUTPUTS, groups = groups_of(call);
    for (size_t place = 0; place < TILE_OUTPUTS; place += 8) { /* beyond N, the last output is repeated */
        const unsigned char *row[8];
        for (size_t i = 0; i < 8; i++)
            row[i] = call->w + kvc_min_u64(n0 + place + i, call->N - 1) * call->row_bytes;
        for (size_t g = 0; g < groups; g++)
            pack_of[call->type](scratch, row, 8 * call->row_bytes, groups, g,
                                (int)(kvc_min_u64(call->K - g * 256, 256) / 32), place);
    }
    for (size_t i = first; i < last; i += call->tile_rows)
        tile_of[kvc_min_u64(call->tile_rows, last - i)](call, scratch, i, n0);
}

#endif
