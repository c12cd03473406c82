/* gemm.h - template: int8 products for many rows by tiles. Tiles multiply a block of 16 rows by that of 16 outputs. The
 * sums go through memory to vectors, which scale them and add them to the lanes as canon.h defines.
 *
 * The work on a tile of rows and a panel is a sequence of steps. A step is up to STEP_BLOCKS blocks of one lane, for a
 * square of 16 rows and 16 outputs. While vectors add the sums of one step, tiles multiply the blocks of the next. */
#ifndef KVC_SIMD_INT8_AMX_GEMM_H
#define KVC_SIMD_INT8_AMX_GEMM_H

#include "backends/cpu/simd/int8/amx/rows.h"

#define STEP_BLOCKS 4
#define SIDE 16 /* rows, or outputs, of a square */
#define SQUARES (SUBTILES * (TILE_OUTPUTS / SIDE))
#define WAITING 3 /* sums of lanes that wait at a time, see finish_lane */

/* A thread's scratch memory after its panel. */
struct area {
    kvc_i32 sum[2][STEP_BLOCKS][2][SIDE * SIDE]; /* of two steps, each block, each piece */
    float lane[SQUARES][SIDE * SIDE];            /* of the lane that is being computed */
    float waiting[SQUARES][WAITING][SIDE * SIDE];
};

/* A tile of rows and a panel, and a place in the sequence of its steps. */
struct walk {
    const struct kvc_int8_call *call;
    const kvc_u32 *x, *w;
    size_t groups, blocks;             /* of a row of K inputs */
    size_t row, rows, output, outputs; /* first one and number */
    size_t turn, block, subtile, part; /* the next step */
};

struct step {
    const kvc_u32 *x, *w; /* the first block of the rows and of the panel */
    size_t turn, subtile, part, blocks;
    bool starts, ends; /* the lane */
    bool none;         /* all steps are done */
};

/* Lanes are computed in the order in which a tree adds them: 0 and 4; 2 and 6; these two sums; and so on. */
static const kvc_u8 lane_at[KVC_INT8_LANES] = {0, 4, 2, 6, 1, 5, 3, 7};

INLINE size_t lane_blocks(const struct walk *walk, size_t l) {
    return (walk->blocks + KVC_INT8_LANES - 1 - l) / KVC_INT8_LANES;
}

/* Returns the next step. */
INLINE struct step take_step(struct walk *walk, int kind) {
    struct step step = {.none = walk->turn == KVC_INT8_LANES};
    if (step.none)
        return step;
    const size_t l = lane_at[walk->turn], count = lane_blocks(walk, l), at = l * walk->groups + walk->block;
    step.x = walk->x + at * BLOCK_WORDS(kind);
    step.w = walk->w + at * (size_t)(PANEL_WORDS(kind) * TILE_OUTPUTS);
    step.turn = walk->turn;
    step.subtile = walk->subtile;
    step.part = walk->part;
    step.blocks = kvc_min_u64(STEP_BLOCKS, count - walk->block);
    step.starts = walk->block == 0;
    step.ends = walk->block + step.blocks == count;
    if ((walk->part += 1) * SIDE < walk->outputs)
        return step;
    walk->part = 0;
    if ((walk->subtile += 1) * SIDE < walk->rows)
        return step;
    walk->subtile = 0;
    walk->block += step.blocks;
    if (step.ends) {
        walk->block = 0;
        walk->turn++;
    }
    return step;
}

/* The numbers of the tiles, by the pieces of a block: their sums, their quants of rows and of outputs. */
enum { TILE_SUM, TILE_X, TILE_W };

INLINE void configure(struct kvc_tiles *tiles, int kind) {
    struct kvc_tile_shapes shapes = {.palette = 0};
    const unsigned words = 8 / KIND_PIECES(kind);
    kvc_tile_shape(&shapes, TILE_SUM, SIDE, SIDE * 4);
    kvc_tile_shape(&shapes, TILE_X, SIDE, words * 4);
    kvc_tile_shape(&shapes, TILE_W, words, SIDE * 4);
    TILES_CONFIGURE(tiles, &shapes);
}

/* Multiplies block b of a step. */
INLINE void multiply_block(struct kvc_tiles *tiles, const struct step *step, size_t b, kvc_i32 (*sum)[SIDE * SIDE],
                           int kind) {
    const int words = 8 / KIND_PIECES(kind);
    const kvc_u32 *x = step->x + b * BLOCK_WORDS(kind) + step->subtile * (SIDE * 8);
    const kvc_u32 *w = step->w + b * (size_t)(PANEL_WORDS(kind) * TILE_OUTPUTS) + step->part * SIDE;
    for (int s = 0; s < KIND_PIECES(kind); s++) {
        TILE_ZERO(tiles, TILE_SUM);
        TILE_LOAD(tiles, TILE_X, x + s * words, 32);
        TILE_LOAD(tiles, TILE_W, w + s * words * TILE_OUTPUTS, TILE_OUTPUTS * 4);
        TILE_MULTIPLY(tiles, TILE_SUM, TILE_X, TILE_W);
        TILE_STORE(tiles, TILE_SUM, sum[s], SIDE * 4);
    }
}

/* Adds block b of a step to the lane. */
INLINE void add_block(fv lane[SIDE], const struct step *step, size_t b, kvc_i32 (*sum)[SIDE * SIDE], int kind) {
    const int pieces = KIND_PIECES(kind);
    const kvc_u32 *x = step->x + b * BLOCK_WORDS(kind) + 8 * TILE_ROWS + step->subtile * SIDE;
    const kvc_u32 *w = step->w + b * (size_t)(PANEL_WORDS(kind) * TILE_OUTPUTS) + 8 * TILE_OUTPUTS + step->part * SIDE;
    UNROLL
    for (int s = 0; s < pieces; s++) {
        const fv scale = fv_of_bits(iv_load(w + s * TILE_OUTPUTS));
        UNROLL
        for (int r = 0; r < SIDE; r++) {
            const fv total = fv_of(iv_load((const kvc_u32 *)sum[s] + SIDE * r));
            lane[r] = fv_fma(fv_mul(scale, fv_of_bits(iv_set((kvc_i32)x[r]))), total, lane[r]);
        }
        if (!KIND_MINIMUM(kind))
            continue;
        const fv minimum = fv_of_bits(iv_load(w + (pieces + s) * TILE_OUTPUTS));
        UNROLL
        for (int r = 0; r < SIDE; r++)
            lane[r] = fv_fma(minimum, fv_of_bits(iv_set((kvc_i32)x[(1 + s) * TILE_ROWS + r])), lane[r]);
    }
}

/* Stores the sums of all lanes of a square as outputs. */
INLINE void store_outputs(const struct walk *walk, const struct step *step, const fv sum[SIDE]) {
    const size_t row = walk->row + step->subtile * SIDE, n = walk->output + step->part * SIDE;
    const size_t rows = kvc_min_u64(SIDE, walk->rows - step->subtile * SIDE);
    const __mmask16 some = (__mmask16)(0xffffu >> (SIDE - kvc_min_u64(SIDE, walk->outputs - step->part * SIDE)));
    const float *bias = walk->call->bias;
    float *y = walk->call->y + row * walk->call->N + n;
    UNROLL
    for (size_t r = 0; r < SIDE; r++)
        if (r < rows)
            _mm512_mask_storeu_ps(y + r * walk->call->N, some,
                                  bias ? fv_add(sum[r], _mm512_maskz_loadu_ps(some, bias + n)) : sum[r]);
}

/* Adds a finished lane to the sums that wait for it. After an odd number of lanes one sum begins to wait. */
INLINE void finish_lane(const struct walk *walk, const struct step *step, fv lane[SIDE],
                        float (*waiting)[SIDE * SIDE]) {
    size_t depth = (step->turn & 1) + (step->turn >> 1 & 1) + (step->turn >> 2 & 1);
    for (size_t turn = step->turn; turn & 1; turn >>= 1) {
        depth--;
        UNROLL
        for (int r = 0; r < SIDE; r++)
            lane[r] = fv_add(fv_load(waiting[depth] + SIDE * r), lane[r]);
    }
    if (step->turn == KVC_INT8_LANES - 1) {
        store_outputs(walk, step, lane);
        return;
    }
    UNROLL
    for (int r = 0; r < SIDE; r++)
        fv_store(waiting[depth] + SIDE * r, lane[r]);
}

/* Adds the sums of step `now`, and between its blocks multiplies those of step `next`. */
INLINE void do_step(struct kvc_tiles *tiles, const struct walk *walk, const struct step *now, const struct step *next,
                    struct area *area, size_t turn, int kind) {
    const size_t square = now->subtile * (TILE_OUTPUTS / SIDE) + now->part;
    kvc_i32(*sum)[2][SIDE * SIDE] = area->sum[turn & 1], (*next_sum)[2][SIDE * SIDE] = area->sum[~turn & 1];
    fv lane[SIDE];
    UNROLL
    for (int r = 0; r < SIDE; r++)
        lane[r] = now->starts ? fv_zero() : fv_load(area->lane[square] + SIDE * r);
    for (size_t b = 0; b < STEP_BLOCKS; b++) {
        if (b < next->blocks)
            multiply_block(tiles, next, b, next_sum[b], kind);
        if (b < now->blocks)
            add_block(lane, now, b, sum[b], kind);
    }
    if (now->ends) {
        finish_lane(walk, now, lane, area->waiting[square]);
        return;
    }
    UNROLL
    for (int r = 0; r < SIDE; r++)
        fv_store(area->lane[square] + SIDE * r, lane[r]);
}

/* Multiplies a tile of rows by the panel. `kind` is a constant. */
INLINE void tile(struct kvc_tiles *tiles, struct walk *walk, struct area *area, int kind) {
    struct step now = take_step(walk, kind);
    for (size_t b = 0; b < now.blocks; b++)
        multiply_block(tiles, &now, b, area->sum[0][b], kind);
    for (size_t turn = 0; !now.none; turn++) {
        const struct step next = take_step(walk, kind);
        do_step(tiles, walk, &now, &next, area, turn, kind);
        now = next;
    }
}

/* Multiplies rows first .. last - 1 by the panel. */
INLINE void tiles_of_kind(const struct kvc_int8_call *call, const kvc_u32 *w, struct area *area, size_t number,
                          size_t first, size_t last, const int kind) {
    struct kvc_tiles tiles;
    const size_t output = number * TILE_OUTPUTS;
    configure(&tiles, kind);
    for (size_t row = first; row < last; row += call->tile_rows) {
        struct walk walk = {.call = call,
                            .x = call->prepared + row / call->tile_rows * prepared_words(call),
                            .w = w,
                            .groups = groups_of(call),
                            .blocks = call->K / 32,
                            .row = row,
                            .rows = kvc_min_u64(call->tile_rows, last - row),
                            .output = output,
                            .outputs = kvc_min_u64(TILE_OUTPUTS, call->N - output)};
        tile(&tiles, &walk, area, kind);
    }
    TILES_RELEASE(&tiles);
}

#define TILES_OF_KIND(kind)                                                                                            \
    static void tiles_##kind(const struct kvc_int8_call *call, const kvc_u32 *w, struct area *area, size_t number,     \
                             size_t first, size_t last) {                                                              \
        tiles_of_kind(call, w, area, number, first, last, kind);                                                       \
    }
TILES_OF_KIND(KIND_START_32)
TILES_OF_KIND(KIND_MINIMUM_32)
TILES_OF_KIND(KIND_START_16)
TILES_OF_KIND(KIND_MINIMUM_16)

static size_t packed_end(const struct kvc_int8_call *call) { return (packed_bytes(call) + 63) / 64 * 64; }
static size_t panel_bytes(const struct kvc_int8_call *call) { return packed_end(call) + sizeof(struct area); }

static void panel(const struct kvc_int8_call *call, size_t number, size_t first, size_t last, void *scratch) {
    static void (*const tiles_of[])(const struct kvc_int8_call *, const kvc_u32 *, struct area *, size_t, size_t,
                                    size_t) = {[KIND_START_32] = tiles_KIND_START_32,
                                               [KIND_MINIMUM_32] = tiles_KIND_MINIMUM_32,
                                               [KIND_START_16] = tiles_KIND_START_16,
                                               [KIND_MINIMUM_16] = tiles_KIND_MINIMUM_16};
    void *area = (unsigned char *)scratch + packed_end(call);
    pack_panel(call, number, scratch);
    tiles_of[kind_of[call->type]](call, scratch, area, number, first, last);
}

#endif
