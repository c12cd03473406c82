/* gemm.h - template: int8 products for many rows. The weights of TILE_OUTPUTS outputs are packed into a panel. A tile
 * of rows is multiplied by the panel one lane at a time. The integer sum of a block is therefore complete before it is
 * scaled, and no sum across a vector is ever needed. */
#ifndef KVC_SIMD_INT8_GEMM_H
#define KVC_SIMD_INT8_GEMM_H

#include "backends/cpu/simd/int8/prepare.h"

/* Multiplies words of the outputs' codes by words of `rows` rows and adds the products to `sum`. */
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

/* Computes the integer sums of a piece: the weights of a block that share a scale. `start` has the initial values of
 * the rows' sums, or is NULL. */
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

/* Computes one lane of a tile. The lane has `count` blocks. `kind` is a constant. */
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

/* Multiplies `rows` rows by the panel. Computes the lanes one after another, then adds them in the order of the tree
 * (canon.h). */
INLINE void tile(const struct kvc_int8_call *call, const kvc_u32 *w, size_t row, size_t n0, int rows, int kind) {
    fv lanes[KVC_INT8_LANES][TILE_ROWS][TILE_VECTORS];
    const size_t groups = groups_of(call), blocks = call->K / 32;
    const kvc_u32 *x = call->prepared + row / call->tile_rows * (groups * 8 * (size_t)TILE_WORDS(kind) * TILE_ROWS);
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
    for (int r = 0; r < rows; r++) {
        fv sum[TILE_VECTORS];
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) {
            const fv a = fv_add(fv_add(lanes[0][r][v], lanes[4][r][v]), fv_add(lanes[2][r][v], lanes[6][r][v]));
            const fv b = fv_add(fv_add(lanes[1][r][v], lanes[5][r][v]), fv_add(lanes[3][r][v], lanes[7][r][v]));
            sum[v] = fv_add(a, b);
        }
        store_row(call, sum, row + (size_t)r, n0);
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

static void panel(const struct kvc_int8_call *call, size_t number, size_t first, size_t last, void *scratch) {
    pack_panel(call, number, scratch);
    for (size_t i = first; i < last; i += call->tile_rows)
        tile_of[kvc_min_u64(call->tile_rows, last - i)](call, scratch, i, number * TILE_OUTPUTS);
}

#endif
