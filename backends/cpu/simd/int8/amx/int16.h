/* int16.h - template: linear layers in 15 bits for many rows with AMX tiles. A quant has two digits (canon.h). A square
 * is 16 outputs by 16 rows. For each of the four pairs of digits, tiles add the products of a square over a whole
 * block.
 *
 * The four sums are stored to memory. Vector instructions then load them, combine them, scale them and add them to the
 * outputs. A tile instruction leaves half of the vector units free. So after each tile instruction, the kernel does
 * this vector work for one line of the previous square.
 *
 * Weights are the left operand of a tile product. Lines of a left operand have the same layout as rows of weights, so a
 * panel needs no transposition. All squares of a block are computed before the next block, so that a block of a panel
 * stays in L1 for all rows of a row tile. */
#ifndef KVC_SIMD_INT8_AMX_INT16_H
#define KVC_SIMD_INT8_AMX_INT16_H

#include <string.h>

#include "backends/cpu/simd/int8/amx/gemm.h"
#include "backends/cpu/simd/int16/weights.h"

#define DIGITS 2
#define STEPS 4 /* number of steps of a block; a step has 64 quants */
#define PRODUCTS 4
#define WIDE_TILE_ROWS 64
#define WIDE_TILES 8     /* number of row tiles that are multiplied by a piece of a panel */
#define WIDE_OUTPUTS 128 /* number of outputs of a panel */
#define WIDE_TOGETHER 32 /* number of outputs that are computed for all rows of a row tile before the next outputs */
#define WIDE_PIECE 8     /* number of blocks of a piece */
#define WIDE_SQUARE ((size_t)STEPS * DIGITS * SQUARE) /* number of words of a block for 16 rows or 16 outputs */
#define WIDE_X_BLOCK (WIDE_TILE_ROWS / SIDE * WIDE_SQUARE + WIDE_TILE_ROWS)
#define WIDE_W_BLOCK (WIDE_OUTPUTS / SIDE * WIDE_SQUARE + WIDE_OUTPUTS)

/* A thread's scratch memory. It follows the thread's piece of a panel in memory. */
struct wide_area {
    kvc_i32 sum[2][PRODUCTS][SQUARE];                    /* sums of the current square and of the previous one */
    float to[WIDE_TILES][WIDE_OUTPUTS * WIDE_TILE_ROWS]; /* the outputs of each tile, one output after another */
};

/* A square whose sums are complete. */
struct wide_square {
    const kvc_i32 (*sum)[SQUARE]; /* sums of the products of high and high, high and low, low and high, low and low
                                   * digits */
    const float *w_scale, *x_scale;
    float *to;
    __mmask16 adds; /* all bits set: adds the sums to those of earlier blocks; no bit set: this is the first block */
};

/* A block of rows or of a panel consists of squares, followed by the scales. A square consists of steps: 16 lines of
 * high digits, then 16 lines of low digits. A line of a panel has 64 digits of one output. A line of rows has four
 * digits of each of 16 rows. */
static size_t wide_panel_bytes(const struct kvc_int8_call *call) {
    (void)call;
    return WIDE_PIECE * WIDE_W_BLOCK * 4 + sizeof(struct wide_area);
}
static size_t wide_prepared_words(const struct kvc_int8_call *call) { return groups_of(call) * WIDE_X_BLOCK; }

/* Splits 64 quants into high and low digits, as bytes. */
INLINE void wide_split(const __m512i quant[2], __m512i digit[DIGITS]) {
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), ones = _mm512_set1_epi16(127);
    digit[0] = _mm512_packs_epi16(_mm512_srai_epi16(quant[0], 7), _mm512_srai_epi16(quant[1], 7));
    digit[1] = _mm512_packs_epi16(_mm512_and_si512(quant[0], ones), _mm512_and_si512(quant[1], ones));
    digit[0] = _mm512_permutexvar_epi64(order, digit[0]);
    digit[1] = _mm512_permutexvar_epi64(order, digit[1]);
}

/* Loads quants 64 * step .. 64 * step + 63 of a block. The block has `parts` parts; quants after its end are zeros. */
INLINE void wide_load_step(const void *quant, int step, int parts, __m512i to[2]) {
    const unsigned char *from = (const unsigned char *)quant + 128 * step;
    to[0] = _mm512_loadu_si512(from);
    to[1] = 2 * step + 1 < parts ? _mm512_loadu_si512(from + 64) : _mm512_setzero_si512();
}

/* ---- the panel ---- */

/* Packs inputs k .. end - 1 of an output into the output's line of each block. `at` is the place of input k in the
 * output's weights. `type` is a constant. */
INLINE void wide_pack(const enum kvc_type type, kvc_u32 *panel, size_t output, struct wide_place at, size_t k,
                      size_t end) {
    kvc_u32 *to = panel + output / SIDE * WIDE_SQUARE + output % SIDE * 16;
    kvc_u32 *scale = panel + WIDE_OUTPUTS / SIDE * WIDE_SQUARE + output;
    for (; k < end; k += 256, to += WIDE_W_BLOCK, scale += WIDE_W_BLOCK, at.data += wide_bytes(type)) {
        const int parts = (int)(kvc_min_u64(end - k, 256) / 32);
        struct wide_weights u;
        if (type == KVC_PACKED)
            u.scale = *at.scale++;
        else
            wide_unpack(type, &u, at, parts);
        for (int s = 0; s < (parts + 1) / 2; s++) {
            __m512i quant[2], digit[DIGITS];
            wide_load_step(type == KVC_PACKED ? (const void *)at.data : (const void *)u.quant, s, parts, quant);
            wide_split(quant, digit);
            _mm512_storeu_si512(to + s * DIGITS * SQUARE, digit[0]);
            _mm512_storeu_si512(to + (s * DIGITS + 1) * SQUARE, digit[1]);
        }
        *scale = kvc_bits(u.scale);
    }
}
#define WIDE_PACK(NAME, name)                                                                                          \
    static void wide_pack_##name(kvc_u32 *panel, size_t output, struct wide_place at, size_t k, size_t end) {          \
        wide_pack(NAME, panel, output, at, k, end);                                                                    \
    }
WIDE_TYPES(WIDE_PACK)

static void (*const wide_pack_of[WIDE_TABLE])(kvc_u32 *, size_t, struct wide_place, size_t, size_t) = {
#define WIDE_PACK_BY_TYPE(NAME, name) [NAME] = wide_pack_##name,
    WIDE_TYPES(WIDE_PACK_BY_TYPE)};

/* Packs inputs k .. end - 1 of panel `number`. After the last output, the last square is filled up with copies of that
 * output. */
static void wide_pack_piece(const struct kvc_int8_call *call, size_t number, size_t k, size_t end, kvc_u32 *to) {
    const size_t n0 = number * WIDE_OUTPUTS, outputs = kvc_min_u64(WIDE_OUTPUTS, call->N - n0);
    for (size_t i = 0; i < (outputs + SIDE - 1) / SIDE * SIDE; i++) {
        struct wide_place at = wide_row(call, kvc_min_u64(n0 + i, call->N - 1));
        at.data += k / 256 * (size_t)wide_bytes(call->type);
        if (call->type == KVC_PACKED)
            at.scale += k / 256;
        wide_pack_of[call->type](to, i, at, k, end);
    }
}

/* ---- rows ---- */

/* Prepares block g of eight rows, from row r of a tile on. Rows with index `rows` or more are zeros. */
INLINE void wide_prepare_block(const struct kvc_int8_call *call, kvc_u32 *block, size_t row, size_t r, size_t rows,
                               size_t g) {
    const size_t groups = groups_of(call);
    const int parts = (int)(kvc_min_u64(call->K - g * 256, 256) / 32);
    kvc_u32 *to = block + r / SIDE * WIDE_SQUARE + r % SIDE;
    float *scale = (float *)(void *)(block + WIDE_TILE_ROWS / SIDE * WIDE_SQUARE);
    for (int s = 0; s < (parts + 1) / 2; s++) {
        __m256i x[DIGITS][2][8];
        for (size_t i = 0; i < 8; i++) {
            __m512i quant[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()}, digit[DIGITS];
            if (r + i < rows)
                wide_load_step(call->wide_quant + (row + r + i) * call->K + 256 * g, s, parts, quant);
            wide_split(quant, digit);
            for (int d = 0; d < DIGITS; d++) {
                x[d][0][i] = _mm512_castsi512_si256(digit[d]);
                x[d][1][i] = _mm512_extracti64x4_epi64(digit[d], 1);
            }
        }
        for (int d = 0; d < DIGITS; d++)
            for (int h = 0; h < 2; h++)
                store_transposed(to + (s * DIGITS + d) * SQUARE + h * (SQUARE / 2), x[d][h], SIDE, 8);
    }
    for (size_t i = r; i < r + 8; i++)
        scale[i] = i < rows ? call->scale[(row + i) * groups + g] : 0.0f;
}

/* Prepares the rows of tiles `first` .. `last` - 1. After the last row, the last square is filled up with zeros. */
static void wide_prepare(const struct kvc_int8_call *call, size_t first, size_t last) {
    const size_t groups = groups_of(call);
    for (size_t t = first; t < last && t * call->tile_rows < call->rows; t++) {
        const size_t row = t * call->tile_rows, rows = kvc_min_u64(call->tile_rows, call->rows - row);
        for (size_t g = 0; g < groups; g++)
            for (size_t r = 0; r < (rows + SIDE - 1) / SIDE * SIDE; r += 8)
                wide_prepare_block(call, call->prepared + t * wide_prepared_words(call) + g * WIDE_X_BLOCK, row, r,
                                   rows, g);
    }
}

/* ---- products ---- */

/* Tile registers: the four sums of products, then the high and low digits of the outputs, then those of the rows. */
enum { WIDE_SUM, WIDE_W = PRODUCTS, WIDE_X = WIDE_W + DIGITS };
_Static_assert(WIDE_X + DIGITS == KVC_TILE_COUNT, "all tiles are used");

INLINE void wide_configure(struct kvc_tiles *tiles) {
    struct kvc_tile_shapes shapes = {.palette = 0};
    for (unsigned i = 0; i < KVC_TILE_COUNT; i++)
        kvc_tile_shape(&shapes, i, SIDE, 64);
    TILES_CONFIGURE(tiles, &shapes);
}

/* Adds the sums of output n of a square to the results of its 16 rows (kvc_int16_float, kvc_int16_add). */
INLINE void wide_add_line(const struct wide_square *square, size_t n) {
    const kvc_u32 *sum = (const kvc_u32 *)square->sum + SIDE * n;
    float *to = square->to + n * WIDE_TILE_ROWS;
    const iv mixed = iv_add(iv_load(sum + SQUARE), iv_load(sum + 2 * SQUARE));
    const iv rest = iv_add(iv_up(mixed, 7), iv_load(sum + 3 * SQUARE));
    const fv low = fv_of(iv_and(rest, iv_set(16383)));
    const fv whole = fv_fma(fv_of(iv_add(iv_load(sum), iv_down(rest, 14))), fv_set(16384.0f), low);
    const fv scale = fv_mul(fv_set(square->w_scale[n]), fv_load(square->x_scale));
    fv_store(to, fv_fma(scale, whole, _mm512_maskz_loadu_ps(square->adds, to)));
}

/* Multiplies the digits of a square over `steps` steps and stores the sums. Unless `before` is NULL, adds the sums of
 * that square to the outputs at the same time. */
INLINE void wide_multiply(struct kvc_tiles *tiles, const kvc_u32 *w, const kvc_u32 *x, size_t steps,
                          kvc_i32 (*sum)[SQUARE], const struct wide_square *before) {
    const size_t lines = before ? SIDE : 0;
    TILE_ZERO(tiles, WIDE_SUM);
    TILE_ZERO(tiles, WIDE_SUM + 1);
    TILE_ZERO(tiles, WIDE_SUM + 2);
    TILE_ZERO(tiles, WIDE_SUM + 3);
    for (size_t s = 0; s < steps; s++, x += DIGITS * SQUARE, w += DIGITS * SQUARE) {
        TILE_LOAD(tiles, WIDE_W, w, 64);
        TILE_LOAD(tiles, WIDE_X, x, 64);
        TILE_MULTIPLY(tiles, WIDE_SUM, WIDE_W, WIDE_X);
        if (lines)
            wide_add_line(before, PRODUCTS * s);
        TILE_LOAD(tiles, WIDE_X + 1, x + SQUARE, 64);
        TILE_MULTIPLY(tiles, WIDE_SUM + 1, WIDE_W, WIDE_X + 1);
        if (lines)
            wide_add_line(before, PRODUCTS * s + 1);
        TILE_LOAD(tiles, WIDE_W + 1, w + SQUARE, 64);
        TILE_MULTIPLY(tiles, WIDE_SUM + 2, WIDE_W + 1, WIDE_X);
        if (lines)
            wide_add_line(before, PRODUCTS * s + 2);
        TILE_MULTIPLY(tiles, WIDE_SUM + 3, WIDE_W + 1, WIDE_X + 1);
        if (lines)
            wide_add_line(before, PRODUCTS * s + 3);
    }
    TILE_STORE(tiles, WIDE_SUM, sum[0], 64);
    TILE_STORE(tiles, WIDE_SUM + 1, sum[1], 64);
    TILE_STORE(tiles, WIDE_SUM + 2, sum[2], 64);
    TILE_STORE(tiles, WIDE_SUM + 3, sum[3], 64);
    for (size_t n = PRODUCTS * steps; n < lines; n++)
        wide_add_line(before, n);
}

/* A tile of rows, the outputs of a panel, and some of their blocks. */
struct wide_job {
    const kvc_u32 *x, *w; /* words of the first block */
    size_t rows, outputs; /* rounded up to multiples of SIDE */
    size_t k, end;        /* inputs k .. end - 1 */
    float *to;            /* [outputs, WIDE_TILE_ROWS] */
};

INLINE void wide_tile(struct kvc_tiles *tiles, const struct wide_job *job, struct wide_area *area) {
    const kvc_u32 *x = job->x, *w = job->w;
    struct wide_square square = {NULL};
    size_t turn = 0;
    for (size_t k = job->k; k < job->end; k += 256, x += WIDE_X_BLOCK, w += WIDE_W_BLOCK)
        for (size_t n0 = 0; n0 < job->outputs; n0 += WIDE_TOGETHER)
            for (size_t r = 0; r < job->rows; r += SIDE)
                for (size_t n = n0; n < kvc_min_u64(n0 + WIDE_TOGETHER, job->outputs); n += SIDE, turn ^= 1) {
                    wide_multiply(tiles, w + n / SIDE * WIDE_SQUARE, x + r / SIDE * WIDE_SQUARE,
                                  (kvc_min_u64(job->end - k, 256) + 63) / 64, area->sum[turn],
                                  square.sum ? &square : NULL);
                    square =
                        (struct wide_square){(const kvc_i32(*)[SQUARE])area->sum[turn],
                                             (const float *)(const void *)(w + WIDE_OUTPUTS / SIDE * WIDE_SQUARE) + n,
                                             (const float *)(const void *)(x + WIDE_TILE_ROWS / SIDE * WIDE_SQUARE) + r,
                                             job->to + n * WIDE_TILE_ROWS + r, k ? 0xffff : 0};
                }
    for (size_t n = 0; n < SIDE; n++)
        wide_add_line(&square, n);
}

/* Stores rows r .. r + 15 of a tile, or fewer at the tile's end, for TILE_OUTPUTS outputs. `from` points to the first
 * row's first output. */
INLINE void wide_store(const struct kvc_int8_call *call, const float *from, size_t row, size_t rows, size_t n0) {
    float line[SIDE * TILE_OUTPUTS];
    for (size_t n = 0; n < TILE_OUTPUTS; n += 8)
        for (size_t h = 0; h < SIDE; h += 8) {
            __m256i x[8];
            UNROLL
            for (size_t i = 0; i < 8; i++)
                x[i] = _mm256_castps_si256(_mm256_loadu_ps(from + (n + i) * WIDE_TILE_ROWS + h));
            store_transposed(line + h * TILE_OUTPUTS + n, x, TILE_OUTPUTS, 8);
        }
    for (size_t i = 0; i < kvc_min_u64(SIDE, rows); i++) {
        fv sum[TILE_VECTORS];
        for (size_t v = 0; v < TILE_VECTORS; v++)
            sum[v] = fv_load(line + i * TILE_OUTPUTS + v * WIDTH);
        store_row(call, sum, row + i, n0);
    }
}

/* Multiplies rows `first` .. `last` - 1, at most WIDE_TILES tiles, by panel `number`. The panel's weights are packed
 * one piece at a time, so that a piece and a tile of rows stay in L2. */
INLINE void wide_tiles(struct kvc_tiles *tiles, const struct kvc_int8_call *call, size_t number, size_t first,
                       size_t last, kvc_u32 *panel, struct wide_area *area) {
    const size_t n0 = number * WIDE_OUTPUTS, outputs = kvc_min_u64(WIDE_OUTPUTS, call->N - n0);
    struct wide_job job = {.w = panel, .outputs = (outputs + SIDE - 1) / SIDE * SIDE};
    for (job.k = 0; job.k < call->K; job.k = job.end) {
        job.end = kvc_min_u64(job.k + WIDE_PIECE * 256, call->K);
        wide_pack_piece(call, number, job.k, job.end, panel);
        for (size_t row = first; row < last; row += call->tile_rows) {
            job.x = call->prepared + row / call->tile_rows * wide_prepared_words(call) + job.k / 256 * WIDE_X_BLOCK;
            job.rows = (kvc_min_u64(call->tile_rows, last - row) + SIDE - 1) / SIDE * SIDE;
            job.to = area->to[(row - first) / call->tile_rows];
            wide_tile(tiles, &job, area);
        }
    }
    for (size_t row = first; row < last; row += call->tile_rows)
        for (size_t r = 0; r < kvc_min_u64(call->tile_rows, last - row); r += SIDE)
            for (size_t n = 0; n < outputs; n += TILE_OUTPUTS)
                wide_store(call, area->to[(row - first) / call->tile_rows] + n * WIDE_TILE_ROWS + r, row + r,
                           kvc_min_u64(call->tile_rows, last - row) - r, n0 + n);
}

static void wide_panel(const struct kvc_int8_call *call, size_t number, size_t first, size_t last, void *scratch) {
    struct wide_area *area = (void *)((unsigned char *)scratch + WIDE_PIECE * WIDE_W_BLOCK * 4);
    const size_t step = WIDE_TILES * call->tile_rows;
    struct kvc_tiles tiles;
    wide_configure(&tiles);
    for (size_t row = first; row < last; row += step)
        wide_tiles(&tiles, call, number, row, kvc_min_u64(row + step, last), scratch, area);
    TILES_RELEASE(&tiles);
}

static const struct kvc_int8_kernels wide_tile_kernels = {.tile_rows = WIDE_TILE_ROWS,
                                                          .row_step = SIDE,
                                                          .tile_outputs = WIDE_OUTPUTS,
                                                          .prepared_words = wide_prepared_words,
                                                          .prepare = wide_prepare,
                                                          .panel_bytes = wide_panel_bytes,
                                                          .panel = wide_panel};

#endif
