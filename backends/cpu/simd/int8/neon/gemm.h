/* gemm.h - template: int8 matrix products for many rows. The weights of TILE_OUTPUTS outputs are packed into a panel. A
 * tile of rows is multiplied by the panel one lane at a time, so that the integer sum of a block is complete before it
 * is scaled. A vector of the tile holds the results of UNIT_ROWS rows and UNIT_OUTPUTS outputs, row by row. */
#ifndef KVC_SIMD_INT8_NEON_GEMM_H
#define KVC_SIMD_INT8_NEON_GEMM_H

#include "core/base/integers.h"
#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/int8/neon/products.h"
#include "backends/cpu/simd/int8/neon/unpack.h"

#define TILE_UNITS ((TILE_ROWS + UNIT_ROWS - 1) / UNIT_ROWS)
#define TILE_VECTORS (TILE_OUTPUTS / UNIT_OUTPUTS)

/* A packed panel. A piece is the 16 or 32 weights that share a scale. `code` is [K / 16][TILE_OUTPUTS][16]. In this
 * array, the codes of each group of UNIT_OUTPUTS outputs are stored in the layout that pack_codes writes. */
struct panel {
    kvc_i8 *code;
    float *scale, *minimum; /* [K / piece][TILE_OUTPUTS] */
};

static struct panel panel_at(const struct kvc_int8_call *call, void *scratch) {
    struct panel p = {.code = scratch};
    p.scale = (float *)(void *)(p.code + call->K * TILE_OUTPUTS);
    p.minimum = p.scale + call->K / 16 * TILE_OUTPUTS;
    return p;
}
static size_t panel_bytes(const struct kvc_int8_call *call) {
    return (call->K + 2 * sizeof(float) * (call->K / 16)) * TILE_OUTPUTS;
}

/* Stores the scales or minimums of `parts` blocks of one output. */
INLINE void pack_floats(float *to, const float32x4_t *from, int parts, size_t stride) {
    float x[8];
    vst1q_f32(x, from[0]);
    vst1q_f32(x + 4, from[1]);
    for (int i = 0; i < parts; i++)
        to[(size_t)i * stride] = x[i];
}

/* Packs 256 weights of each of the panel's outputs, or fewer at the end of a row. */
INLINE void pack(const enum kvc_type type, const struct panel *p, const unsigned char *const *row, size_t group,
                 int parts) {
    const size_t pieces = (size_t)(32 / piece_width(type));
    struct unpacked u[TILE_OUTPUTS];
    for (size_t i = 0; i < TILE_OUTPUTS; i++) {
        const unsigned char *g = row[i] + group * (size_t)group_bytes(type);
        if (parts == 8)
            unpack(type, &u[i], g, 8);
        else
            unpack(type, &u[i], g, parts);
        for (size_t s = 0; s < pieces; s++) {
            const size_t to = (group * 8 * pieces + s) * TILE_OUTPUTS + i;
            pack_floats(p->scale + to, u[i].scale[s], parts, pieces * TILE_OUTPUTS);
            if (has_minimum(type))
                pack_floats(p->minimum + to, u[i].minimum[s], parts, pieces * TILE_OUTPUTS);
        }
    }
    for (size_t step = 0; step < 2 * (size_t)parts; step++)
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            int8x16_t x[UNIT_OUTPUTS];
            UNROLL
            for (size_t i = 0; i < UNIT_OUTPUTS; i++)
                x[i] = vsubq_s8(u[v * UNIT_OUTPUTS + i].quant[step], vdupq_n_s8((int8_t)code_offset(type)));
            pack_codes(p->code + ((group * 16 + step) * TILE_OUTPUTS + v * UNIT_OUTPUTS) * 16, x);
        }
}
#define PACK(a, NAME, name, ...)                                                                                       \
    static void pack_##name(const struct panel *p, const unsigned char *const *row, size_t group, int parts) {         \
        pack(KVC_##NAME, p, row, group, parts);                                                                        \
    }
KVC_BLOCK_TYPES(PACK, )

/* The rows of a tile. If there are fewer rows, the last row is repeated. */
struct tile_rows {
    const kvc_i8 *quant[TILE_UNITS * UNIT_ROWS];
    const float *scale[TILE_UNITS * UNIT_ROWS];
    const kvc_i32 *sum[TILE_UNITS * UNIT_ROWS];
};

/* Scales the sums of a piece and adds them to the lanes. kvc_int8_add and kvc_int8_take define the arithmetic. */
INLINE void add_piece(float32x4_t (*f)[TILE_VECTORS], const struct sums (*sum)[TILE_VECTORS], const struct tile_rows *x,
                      const float *scale, const float *minimum, size_t b, int piece, int units, int pieces,
                      int has_minimum) {
    float32x4_t x_scale[TILE_UNITS], x_sum[TILE_UNITS];
    UNROLL
    for (int r = 0; r < units; r++) {
        float s[UNIT_ROWS], t[UNIT_ROWS];
        UNROLL
        for (int i = 0; i < UNIT_ROWS; i++) {
            const kvc_i32 *of = x->sum[r * UNIT_ROWS + i] + 2 * b;
            s[i] = x->scale[r * UNIT_ROWS + i][b];
            t[i] = has_minimum ? s[i] * (float)(pieces == 2 ? of[piece] : of[0] + of[1]) : 0.0f;
        }
        x_scale[r] = of_rows(s);
        x_sum[r] = of_rows(t);
    }
    UNROLL
    for (int v = 0; v < TILE_VECTORS; v++) {
        const float32x4_t w = of_outputs(scale + v * UNIT_OUTPUTS);
        UNROLL
        for (int r = 0; r < units; r++)
            f[r][v] = vf_fma(vf_mul(w, x_scale[r]), vf_from_int(sums_of(sum[r][v])), f[r][v]);
    }
    UNROLL
    for (int v = 0; has_minimum && v < TILE_VECTORS; v++) {
        const float32x4_t m = of_outputs(minimum + v * UNIT_OUTPUTS);
        UNROLL
        for (int r = 0; r < units; r++)
            f[r][v] = vf_fnma(m, x_sum[r], f[r][v]);
    }
}

/* Multiplies the rows by the panel. Computes the lanes one after another, then adds them in the order of the tree
 * (canon.h). `pieces` is the number of pieces per block. */
INLINE void tile(const struct kvc_int8_call *call, const struct panel *p, const struct tile_rows *x, float *y,
                 int units, int pieces, int has_minimum) {
    float32x4_t lanes[KVC_INT8_LANES][TILE_UNITS][TILE_VECTORS];
    const size_t blocks = call->K / 32;
    for (size_t l = 0; l < KVC_INT8_LANES; l++) {
        float32x4_t f[TILE_UNITS][TILE_VECTORS];
        UNROLL
        for (int r = 0; r < units; r++)
            UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            f[r][v] = vf_zero();
        for (size_t b = l; b < blocks; b += KVC_INT8_LANES) {
            struct sums sum[TILE_UNITS][TILE_VECTORS];
            UNROLL
            for (int h = 0; h < 2; h++) {
                struct quants q[TILE_UNITS];
                UNROLL
                for (int r = 0; r < units; r++)
                    q[r] = quants_load(x->quant + r * UNIT_ROWS, b * 32 + (size_t)h * 16);
                UNROLL
                for (int v = 0; v < TILE_VECTORS; v++) {
                    const struct codes w =
                        codes_load(p->code + ((b * 2 + (size_t)h) * TILE_VECTORS + (size_t)v) * UNIT_OUTPUTS * 16);
                    UNROLL
                    for (int r = 0; r < units; r++)
                        sum[r][v] = sums_add(h == 0 || pieces == 2 ? sums_zero() : sum[r][v], w, q[r]);
                }
                if (h == 1 || pieces == 2) {
                    const size_t at = (b * (size_t)pieces + (size_t)(pieces == 2 ? h : 0)) * TILE_OUTPUTS;
                    add_piece(f, (const struct sums(*)[TILE_VECTORS])sum, x, p->scale + at, p->minimum + at, b, h,
                              units, pieces, has_minimum);
                }
            }
        }
        UNROLL
        for (int r = 0; r < units; r++)
            UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            lanes[l][r][v] = f[r][v];
    }
    for (int r = 0; r < units; r++)
        for (int v = 0; v < TILE_VECTORS; v++) {
            const float32x4_t a =
                vf_add(vf_add(lanes[0][r][v], lanes[4][r][v]), vf_add(lanes[2][r][v], lanes[6][r][v]));
            const float32x4_t b =
                vf_add(vf_add(lanes[1][r][v], lanes[5][r][v]), vf_add(lanes[3][r][v], lanes[7][r][v]));
            store_unit(y + r * UNIT_ROWS * TILE_OUTPUTS + v * UNIT_OUTPUTS, vf_add(a, b));
        }
}

/* `kind` is 1 for types with minimums, plus 2 for pieces of 16 weights. `units` is a constant. */
INLINE void tile_of_kind(const struct kvc_int8_call *call, const struct panel *p, const struct tile_rows *x, float *y,
                         int kind, const int units) {
    if (kind == 0)
        tile(call, p, x, y, units, 1, 0);
    else if (kind == 1)
        tile(call, p, x, y, units, 1, 1);
    else if (kind == 2)
        tile(call, p, x, y, units, 2, 0);
    else
        tile(call, p, x, y, units, 2, 1);
}
#define TILE(n)                                                                                                        \
    static void tile_##n(const struct kvc_int8_call *call, const struct panel *p, const struct tile_rows *x, float *y, \
                         int kind) {                                                                                   \
        tile_of_kind(call, p, x, y, kind, n);                                                                          \
    }
TILE_EVERY(TILE)
#define TILE_NAME(n) [n] = tile_##n,
static void (*const tile_of[TILE_UNITS + 1])(const struct kvc_int8_call *, const struct panel *,
                                             const struct tile_rows *, float *, int) = {TILE_EVERY(TILE_NAME)};

static const struct {
    void (*pack)(const struct panel *p, const unsigned char *const *row, size_t group, int parts);
    int kind; /* argument of tile_of_kind */
} gemm_by_type[KVC_TYPES] = {
#define GEMM_BY_TYPE(a, NAME, name, ...)                                                                               \
    [KVC_##NAME] = {pack_##name, KVC_INT8_HAS_MIN_##NAME + 2 * (KVC_INT8_WIDTH_##NAME == 16)},
    KVC_BLOCK_TYPES(GEMM_BY_TYPE, )};

static void panel(const struct kvc_int8_call *call, size_t number, size_t first, size_t last, void *scratch) {
    const struct panel p = panel_at(call, scratch);
    const size_t n0 = number * TILE_OUTPUTS, groups = (call->K + 255) / 256, blocks = call->K / 32;
    const unsigned char *from[TILE_OUTPUTS];
    for (size_t i = 0; i < TILE_OUTPUTS; i++) /* outputs past the call's last one are copies of it */
        from[i] = call->w + kvc_min_u64(n0 + i, call->N - 1) * call->row_bytes;
    for (size_t g = 0; g < groups; g++)
        gemm_by_type[call->type].pack(&p, from, g, (int)(kvc_min_u64(call->K - g * 256, 256) / 32));
    for (size_t row = first; row < last; row += TILE_ROWS) {
        const size_t rows = kvc_min_u64(TILE_ROWS, last - row);
        float y[TILE_UNITS * UNIT_ROWS * TILE_OUTPUTS];
        struct tile_rows x;
        for (size_t r = 0; r < TILE_UNITS * UNIT_ROWS; r++) {
            const size_t at = row + kvc_min_u64(r, rows - 1);
            x.quant[r] = call->quant + at * call->K;
            x.scale[r] = call->scale + at * blocks;
            x.sum[r] = call->sum + at * blocks * 2;
        }
        tile_of[(rows + UNIT_ROWS - 1) / UNIT_ROWS](call, &p, &x, y, gemm_by_type[call->type].kind);
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0; i < TILE_OUTPUTS && n0 + i < call->N; i++) {
                const float sum = y[r * TILE_OUTPUTS + i];
                call->y[(row + r) * call->N + n0 + i] = call->bias ? sum + call->bias[n0 + i] : sum;
            }
    }
}

#endif
