/* gemm.h - template: int8 linear layers for many rows with AMX tiles, for types with one scale per block. A tile
 * product multiplies a block of 16 rows by a block of 16 outputs: a square. Its sums are stored to memory. Vector
 * instructions then load them, scale them and add them to the lanes as canon.h defines.
 *
 * Tile and vector instructions alternate: tile instructions multiply GROUP_BLOCKS blocks of each square, then vector
 * instructions add their sums. Mixing the two kinds is slower, because the CPU executes only half as many 512-bit
 * vector operations while a tile instruction runs. The sums of a group stay in L1. */
#ifndef KVC_SIMD_INT8_AMX_GEMM_H
#define KVC_SIMD_INT8_AMX_GEMM_H

#include "backends/cpu/simd/int8/amx/rows.h"

#define SIDE 16 /* number of rows, and of outputs, of a square */
#define SQUARE (SIDE * SIDE)
#define SQUARES 4      /* the product of a tile of rows and a panel has two by two squares */
#define GROUP_BLOCKS 4 /* number of blocks that are multiplied before their sums are added */
#define WAITING 3      /* largest number of waiting sums: sums of lanes that finish_lane stores until it adds them */
_Static_assert(TILE_ROWS == 2 * SIDE && TILE_OUTPUTS == 2 * SIDE, "the tiles below are those of two by two squares");

/* A thread's scratch memory. It follows the thread's panel in memory. */
struct area {
    kvc_i32 sum[SQUARES][GROUP_BLOCKS][SQUARE];
    float lane[SQUARES][SQUARE]; /* the lane that is being computed */
    float waiting[SQUARES][WAITING][SQUARE];
};

/* A product of a tile of rows and a panel. */
struct job {
    const struct kvc_int8_call *call;
    const kvc_u32 *x, *w;
    struct area *area;
    size_t row, rows, output, outputs; /* row, output: the first row and output; rows, outputs: how many there are */
};

/* Blocks of a lane that are multiplied together. */
struct group {
    const kvc_u32 *x, *w; /* the group's first block in the tile of rows, and in the panel */
    size_t blocks;
    size_t turn;       /* number of lanes that were computed before the group's lane */
    bool starts, ends; /* starts: the group is the first of its lane; ends: it is the last */
};

#define W_BLOCK(kind) ((size_t)(PANEL_WORDS(kind) * TILE_OUTPUTS)) /* number of words of a panel's block */

/* Tile registers 0 to 3 hold the sums of squares 0 to 3. Register 4 holds the rows of squares 0 and 1, register 5 those
 * of squares 2 and 3. Register 6 holds the outputs of squares 0 and 2, register 7 those of squares 1 and 3. */
enum { TILE_SUM, TILE_X = 4, TILE_W = 6 };

INLINE void configure(struct kvc_tiles *tiles) {
    struct kvc_tile_shapes shapes = {.palette = 0};
    for (unsigned i = 0; i < SQUARES; i++)
        kvc_tile_shape(&shapes, TILE_SUM + i, SIDE, SIDE * 4);
    for (unsigned i = 0; i < 2; i++) {
        kvc_tile_shape(&shapes, TILE_X + i, SIDE, 32);
        kvc_tile_shape(&shapes, TILE_W + i, 8, SIDE * 4);
    }
    TILES_CONFIGURE(tiles, &shapes);
}

/* Stores the sum of block b - 1 of a square and multiplies block b. In this order, the CPU multiplies one square while
 * it stores the sum of another. */
#define MULTIPLY_SQUARE(square)                                                                                        \
    do {                                                                                                               \
        if (b > 0)                                                                                                     \
            TILE_STORE(tiles, TILE_SUM + (square), area->sum[square][b - 1], SIDE * 4);                                \
        TILE_ZERO(tiles, TILE_SUM + (square));                                                                         \
        TILE_MULTIPLY(tiles, TILE_SUM + (square), TILE_X + (square) / 2, TILE_W + (square) % 2);                       \
    } while (0)

/* Multiplies a group. `more_rows` and `more_outputs` tell whether there are rows and outputs beyond the first 16. */
INLINE void multiply_group(struct kvc_tiles *tiles, const struct group *group, struct area *area, bool more_rows,
                           bool more_outputs, int kind) {
    const size_t last = group->blocks - 1;
    for (size_t b = 0; b < group->blocks; b++) {
        const kvc_u32 *x = group->x + b * BLOCK_WORDS(kind), *w = group->w + b * W_BLOCK(kind);
        TILE_LOAD(tiles, TILE_X, x, 32);
        TILE_LOAD(tiles, TILE_W, w, TILE_OUTPUTS * 4);
        MULTIPLY_SQUARE(0);
        if (more_outputs) {
            TILE_LOAD(tiles, TILE_W + 1, w + SIDE, TILE_OUTPUTS * 4);
            MULTIPLY_SQUARE(1);
        }
        if (more_rows) {
            TILE_LOAD(tiles, TILE_X + 1, x + SIDE * 8, 32);
            MULTIPLY_SQUARE(2);
        }
        if (more_rows && more_outputs)
            MULTIPLY_SQUARE(3);
    }
    if (group->blocks == 0)
        return;
    TILE_STORE(tiles, TILE_SUM, area->sum[0][last], SIDE * 4);
    if (more_outputs)
        TILE_STORE(tiles, TILE_SUM + 1, area->sum[1][last], SIDE * 4);
    if (more_rows)
        TILE_STORE(tiles, TILE_SUM + 2, area->sum[2][last], SIDE * 4);
    if (more_rows && more_outputs)
        TILE_STORE(tiles, TILE_SUM + 3, area->sum[3][last], SIDE * 4);
}

/* Adds a block's sums to the lane of a square. x and w point to the words after the block's quants. */
INLINE void add_block(fv lane[SIDE], const kvc_u32 *x, const kvc_u32 *w, const kvc_i32 *sum, int kind) {
    const fv scale = fv_of_bits(iv_load(w));
    UNROLL
    for (int r = 0; r < SIDE; r++) {
        const fv total = fv_of(iv_load((const kvc_u32 *)sum + SIDE * r));
        lane[r] = fv_fma(fv_mul(scale, fv_of_bits(iv_set((kvc_i32)x[r]))), total, lane[r]);
    }
    if (!KIND_MINIMUM(kind))
        return;
    const fv minimum = fv_of_bits(iv_load(w + TILE_OUTPUTS));
    UNROLL
    for (int r = 0; r < SIDE; r++)
        lane[r] = fv_fma(minimum, fv_of_bits(iv_set((kvc_i32)x[TILE_ROWS + r])), lane[r]);
}

/* Stores the final sums of a square as outputs. */
INLINE void store_outputs(const struct job *job, size_t square, const fv sum[SIDE]) {
    const size_t r0 = square / 2 * SIDE, n0 = square % 2 * SIDE, n = job->output + n0;
    const size_t rows = kvc_min_u64(SIDE, job->rows - r0);
    const __mmask16 some = (__mmask16)(0xffffu >> (SIDE - kvc_min_u64(SIDE, job->outputs - n0)));
    const float *bias = job->call->bias;
    float *y = job->call->y + (job->row + r0) * job->call->N + n;
    UNROLL
    for (size_t r = 0; r < SIDE; r++)
        if (r < rows)
            _mm512_mask_storeu_ps(y + r * job->call->N, some,
                                  bias ? fv_add(sum[r], _mm512_maskz_loadu_ps(some, bias + n)) : sum[r]);
}

/* Prefetches the memory of a square's outputs before they are written. Each row is on a page of its own. */
INLINE void fetch_outputs(const struct job *job, size_t square) {
    const size_t r0 = square / 2 * SIDE, rows = kvc_min_u64(SIDE, job->rows - r0);
    const float *y = job->call->y + (job->row + r0) * job->call->N + job->output + square % 2 * SIDE;
    for (size_t r = 0; r < rows; r++)
        __builtin_prefetch(y + r * job->call->N, 1);
}

/* The order in which lanes are computed. The tree adds lanes 0 and 4, then 2 and 6, then these two sums, and so on. */
static const kvc_u8 lane_at[KVC_INT8_LANES] = {0, 4, 2, 6, 1, 5, 3, 7};

/* Adds to a finished lane the waiting sums that the tree combines with it. The result becomes another waiting sum or,
 * after the last lane, the outputs. */
INLINE void finish_lane(const struct job *job, size_t turn, size_t square, fv lane[SIDE]) {
    float(*waiting)[SQUARE] = job->area->waiting[square];
    size_t depth = (turn & 1) + (turn >> 1 & 1) + (turn >> 2 & 1);
    for (size_t left = turn; left & 1; left >>= 1) {
        depth--;
        UNROLL
        for (int r = 0; r < SIDE; r++)
            lane[r] = fv_add(fv_load(waiting[depth] + SIDE * r), lane[r]);
    }
    if (turn == KVC_INT8_LANES - 1) {
        store_outputs(job, square, lane);
        return;
    }
    if (turn == KVC_INT8_LANES / 2)
        fetch_outputs(job, square);
    UNROLL
    for (int r = 0; r < SIDE; r++)
        fv_store(waiting[depth] + SIDE * r, lane[r]);
}

/* Adds a group's sums to the lane of a square. */
INLINE void add_square(const struct job *job, const struct group *group, size_t square, int kind) {
    const kvc_u32 *x = group->x + 8 * TILE_ROWS + square / 2 * SIDE,
                  *w = group->w + 8 * TILE_OUTPUTS + square % 2 * SIDE;
    float *to = job->area->lane[square];
    fv lane[SIDE];
    UNROLL
    for (int r = 0; r < SIDE; r++)
        lane[r] = group->starts ? fv_zero() : fv_load(to + SIDE * r);
    for (size_t b = 0; b < group->blocks; b++)
        add_block(lane, x + b * BLOCK_WORDS(kind), w + b * W_BLOCK(kind), job->area->sum[square][b], kind);
    if (group->ends) {
        finish_lane(job, group->turn, square, lane);
        return;
    }
    UNROLL
    for (int r = 0; r < SIDE; r++)
        fv_store(to + SIDE * r, lane[r]);
}

/* Multiplies a tile of rows by the panel. `kind` is a constant. */
INLINE void tile(struct kvc_tiles *tiles, const struct job *job, int kind) {
    const size_t groups = groups_of(job->call), blocks = job->call->K / 32;
    const bool more_rows = job->rows > SIDE, more_outputs = job->outputs > SIDE;
    for (size_t turn = 0; turn < KVC_INT8_LANES; turn++) {
        const size_t l = lane_at[turn], count = (blocks + KVC_INT8_LANES - 1 - l) / KVC_INT8_LANES;
        for (size_t first = 0; first == 0 || first < count; first += GROUP_BLOCKS) { /* a lane may have no blocks */
            const struct group group = {.x = job->x + (l * groups + first) * BLOCK_WORDS(kind),
                                        .w = job->w + (l * groups + first) * W_BLOCK(kind),
                                        .blocks = kvc_min_u64(GROUP_BLOCKS, count - first),
                                        .turn = turn,
                                        .starts = first == 0,
                                        .ends = first + GROUP_BLOCKS >= count};
            multiply_group(tiles, &group, job->area, more_rows, more_outputs, kind);
            for (size_t square = 0; square < SQUARES; square++)
                if ((more_rows || square / 2 == 0) && (more_outputs || square % 2 == 0))
                    add_square(job, &group, square, kind);
        }
    }
}

/* Multiplies rows `first` .. `last` - 1 by the panel. */
INLINE void tiles_of_kind(const struct kvc_int8_call *call, const kvc_u32 *w, struct area *area, size_t number,
                          size_t first, size_t last, const int kind) {
    struct kvc_tiles tiles;
    const size_t output = number * TILE_OUTPUTS;
    configure(&tiles);
    for (size_t row = first; row < last; row += call->tile_rows) {
        const struct job job = {.call = call,
                                .x = call->prepared + row / call->tile_rows * prepared_words(call),
                                .w = w,
                                .area = area,
                                .row = row,
                                .rows = kvc_min_u64(call->tile_rows, last - row),
                                .output = output,
                                .outputs = kvc_min_u64(TILE_OUTPUTS, call->N - output)};
        tile(&tiles, &job, kind);
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

static size_t packed_end(const struct kvc_int8_call *call) { return (packed_bytes(call) + 63) / 64 * 64; }
static size_t panel_bytes(const struct kvc_int8_call *call) { return packed_end(call) + sizeof(struct area); }

/* Returns true if this kernel multiplies weights of the type. If 16 weights share a scale, tiles would need twice as
 * many products of half the size, and vectors are faster. */
INLINE bool tiles_multiply(enum kvc_type type) { return KIND_PIECES(kind_of[type]) == 1; }

static void panel(const struct kvc_int8_call *call, size_t number, size_t first, size_t last, void *scratch) {
    void *area = (unsigned char *)scratch + packed_end(call);
    KVC_ASSERT(tiles_multiply(call->type));
    pack_panel(call, number, scratch);
    if (KIND_MINIMUM(kind_of[call->type]))
        tiles_KIND_MINIMUM_32(call, scratch, area, number, first, last);
    else
        tiles_KIND_START_32(call, scratch, area, number, first, last);
}

#endif
