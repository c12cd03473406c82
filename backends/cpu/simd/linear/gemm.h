/* gemm.h - linear layers for many rows: an outer product of packed rows and packed weights for one lane after another.
 * The partial sums are added in the order of the tree over the lanes. Part of template.h. */
#ifndef KVC_SIMD_LINEAR_GEMM_H
#define KVC_SIMD_LINEAR_GEMM_H

#include "backends/cpu/simd/linear/pack.h"

#define TREE_LEVELS 5 /* number of levels of the tree over 32 lanes */

/* A run multiplies consecutive tiles of rows, all of the same height, by one panel. It computes the lanes of one round:
 * consecutive lanes whose packed weights fit in L2 together. */
struct run {
    size_t tiles, depth;
    const float *rows;    /* the packed rows of the first tile, beginning with the round's first lane */
    const float *outputs; /* the packed panel, beginning with the same lane */
    size_t rows_tile_floats, rows_lane_floats, lane_floats;
    unsigned together, round; /* number of lanes in a round; number of this round */
    float *outer;             /* partial sums of earlier rounds, `outer_floats` floats for each tile */
    size_t outer_floats;
    const float *bias; /* [TILE_OUTPUTS] or NULL */
    float *y;          /* for the last round: the results; their rows are y_stride apart */
    size_t y_stride;
    const unsigned char *ahead, *ahead_end; /* bytes to prefetch during the run */
    size_t ahead_step;                      /* bytes to prefetch with each lane */
};

/* The stored sums of one lane, and the sums of earlier lanes that are added to them, most recent first. The next lane
 * is summed at the same time, row by row, so that the loads and stores fit between its multiplications. */
struct merge {
    unsigned adds; /* waiting[0] ... waiting[adds - 1] are added; waiting[adds] receives the result */
    const float *lane;
    float *const *waiting;
};

INLINE void merge_row(const int adds, const struct merge *m, int row, size_t stride, const float *bias) {
    UNROLL
    for (int v = 0; v < TILE_VECTORS; v++) {
        vf sum = vf_load(m->lane + row * TILE_OUTPUTS + v * LANES);
        UNROLL
        for (int n = 0; n < adds; n++)
            sum = vf_add(vf_load(m->waiting[n] + row * TILE_OUTPUTS + v * LANES), sum);
        if (adds == TREE_LEVELS && bias)
            sum = vf_add(sum, vf_load(bias + v * LANES));
        vf_store(m->waiting[adds] + (size_t)row * (adds == TREE_LEVELS ? stride : TILE_OUTPUTS) + v * LANES, sum);
    }
}

INLINE void tile_zero(const int rows, vf sum[TILE_ROWS][TILE_VECTORS]) {
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        sum[i][v] = vf_zero();
}

/* Some values of x are broadcast by a memory operand, which takes a load for each use. Others are broadcast into a
 * register, which takes a shuffle. Using both balances loads and shuffles. */
INLINE void tile_step(const int rows, vf sum[TILE_ROWS][TILE_VECTORS], const float *a, const float *b) {
    vf w[TILE_VECTORS];
    UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        w[v] = vf_load(b + v * LANES);
    __builtin_prefetch(a + TILE_PREFETCH * TILE_ROWS);
    UNROLL
    for (int i = 0; i < rows; i++) {
        vf x = vf_set(a[i]);
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            sum[i][v] = i % 3 == 2 ? vf_fma(x, w[v], sum[i][v]) : vf_fma_by(w[v], a + i, sum[i][v]);
    }
}

/* Computes the last step (a, b) of a lane, stores the lane's sums, and computes the first step of the next lane, vector
 * by vector. This way, a CPU that needs two cycles per store can store and multiply at the same time. If all stores
 * came together, the multiplications would have to wait. */
INLINE void tile_next_lane(const int rows, vf sum[TILE_ROWS][TILE_VECTORS], const float *a, const float *b,
                           const float *a_next, const float *b_next, float *to) {
    vf w[TILE_VECTORS], w_next[TILE_VECTORS];
    UNROLL
    for (int v = 0; v < TILE_VECTORS; v++) {
        w[v] = vf_load(b + v * LANES);
        w_next[v] = vf_load(b_next + v * LANES);
    }
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
    for (int v = 0; v < TILE_VECTORS; v++) {
        vf_store(to + i * TILE_OUTPUTS + v * LANES, vf_fma_by(w[v], a + i, sum[i][v]));
        sum[i][v] = vf_fma_by(w_next[v], a_next + i, vf_zero());
        __asm__ volatile("" : : : "memory"); /* keeps the compiler from changing this order */
    }
}

/* Computes at most `steps` steps and spreads a merge evenly over them. Returns how many steps are left. */
INLINE size_t tile_merge(const int rows, const int adds, vf sum[TILE_ROWS][TILE_VECTORS], const float **a,
                         const float **b, size_t steps, const struct merge *m, const struct run *r) {
    const size_t gap = steps / (2 * (size_t)rows), stride = r->y_stride;
    const float *bias = r->bias;
    for (int row = 0; row < rows; row++) {
        for (size_t pair = 0; pair < gap; pair++) {
            tile_step(rows, sum, *a, *b);
            tile_step(rows, sum, *a + TILE_ROWS, *b + TILE_OUTPUTS);
            *a += 2 * TILE_ROWS;
            *b += 2 * TILE_OUTPUTS;
        }
        merge_row(adds, m, row, stride, bias);
    }
    return steps - 2 * gap * (size_t)rows;
}

/* Finds the memory for a tile's waiting sums of 1, 2, 4, 8 and 16 lanes. Later lanes will be added to a waiting sum. If
 * these later lanes belong to this round, the waiting sum is in the round's scratch memory, otherwise in `outer`. The
 * sums of all 32 lanes go to y, whose cache lines are prefetched. */
INLINE void tile_places(const int rows, const struct run *r, size_t tile, float *inner, float **waiting) {
    float *outer = r->outer + tile * r->outer_floats;
    for (unsigned n = 0; n < TREE_LEVELS; n++) {
        bool inside = 2u << n <= r->together;
        waiting[n] = inside ? inner + n * TILE_FLOATS : outer;
        outer += inside ? 0 : TILE_FLOATS;
    }
    waiting[TREE_LEVELS] = r->y + tile * (size_t)rows * r->y_stride;
    for (size_t i = 0; (r->round + 1) * r->together == KVC_LANES && i < (size_t)rows; i++)
        for (size_t j = 0; j < TILE_OUTPUTS; j += 16)
            __builtin_prefetch(waiting[TREE_LEVELS] + i * r->y_stride + j, 1);
}

/* Sums the lanes one after another. The sums of one lane are a tile of rows x TILE_OUTPUTS in registers. After lane j,
 * one waiting sum (tile_places) is added for each trailing 1 bit of j. */
INLINE void run_tiles(const int rows, struct run *r) {
    _Alignas(64) float inner[(TREE_LEVELS + 1) * TILE_FLOATS];
    /* for this tile, and for the previous tile, whose last merge is still to be done */
    float *waiting[2][TREE_LEVELS + 1];
    const float *a = r->rows, *b = r->outputs, *bk = b;
    vf sum[TILE_ROWS][TILE_VECTORS];
    struct merge merge = {.adds = 0};
    size_t steps = r->depth, tile = 0;
    unsigned lane = 0;
    tile_zero(rows, sum);
    tile_places(rows, r, tile, inner, waiting[0]);
    for (;;) {
        bool last = tile + (lane + 1 == r->together) >= r->tiles, next_lane = !last && r->depth > 1;
        switch (merge.adds) {
#define TILE_MERGE(adds)                                                                                               \
    case adds:                                                                                                         \
        steps = tile_merge(rows, adds, sum, &a, &bk, steps - next_lane, &merge, r) + next_lane;                        \
        break;
            TILE_MERGE(1) TILE_MERGE(2) TILE_MERGE(3) TILE_MERGE(4) TILE_MERGE(5)
        }
        if (tile == r->tiles)
            return;
        for (; steps > next_lane; steps--) {
            tile_step(rows, sum, a, bk);
            a += TILE_ROWS;
            bk += TILE_OUTPUTS;
        }
        for (size_t line = 0; line < r->ahead_step && r->ahead < r->ahead_end; line += 64, r->ahead += 64)
            __builtin_prefetch(r->ahead, 0, 1);

        unsigned number = r->round * r->together + lane;
        merge.adds = (unsigned)__builtin_ctz(~number);
        merge.waiting = waiting[tile % 2];
        float *to = merge.adds ? inner + TREE_LEVELS * TILE_FLOATS : merge.waiting[0];
        merge.lane = to;
        const float *a_next = a + (next_lane ? TILE_ROWS : 0) + LANE_GAP;
        b += r->lane_floats;
        if (++lane == r->together) {
            lane = 0;
            a_next = r->rows + ++tile * r->rows_tile_floats;
            b = r->outputs;
            if (!last)
                tile_places(rows, r, tile, inner, waiting[tile % 2]);
        }
        if (next_lane)
            tile_next_lane(rows, sum, a, bk, a_next, b, to);
        else {
            UNROLL
            for (int i = 0; i < rows; i++)
                UNROLL
            for (int v = 0; v < TILE_VECTORS; v++)
                vf_store(to + i * TILE_OUTPUTS + v * LANES, sum[i][v]);
            tile_zero(rows, sum);
        }
        a = a_next + (next_lane ? TILE_ROWS : 0);
        bk = b + (next_lane ? TILE_OUTPUTS : 0);
        steps = last ? 0 : r->depth - next_lane;
    }
}

#define RUN_FUNCTION(height)                                                                                           \
    static void run_##height(struct run *r) { run_tiles(height, r); }
#define RUN_ENTRY(height) [height] = run_##height,
TILE_EVERY(RUN_FUNCTION)
static void (*const run_by_height[TILE_ROWS + 1])(struct run *) = {TILE_EVERY(RUN_ENTRY)};

/* Offsets into the scratch memory of one panel, in floats. */
struct panel_scratch {
    size_t dequantized, outer, whole, bias, end;
};
static struct panel_scratch panel_places(const struct kvc_linear_call *call) {
    struct panel_scratch s;
    s.dequantized = KVC_LANES * panel_lane_floats(call); /* dequantized weights follow the packed panel */
    s.outer = s.dequantized + LANES * GROUP;
    s.whole = s.outer + ROW_BLOCK * outer_levels(lanes_together(call)) * TILE_FLOATS;
    s.bias = s.whole + TILE_FLOATS; /* the bias follows the buffer for a partial tile */
    s.end = s.bias + TILE_OUTPUTS;
    return s;
}
static size_t panel_scratch(const struct kvc_linear_call *call) { return panel_places(call).end; }

/* Multiplies the run's tiles by the panel at output n0, from row `row` on. Partial tiles are computed one at a time in
 * the buffer `whole`. */
static void run_round(const struct kvc_linear_call *call, struct run *r, size_t row, size_t n0, float *whole) {
    size_t rows = kvc_min_u64(TILE_ROWS, call->rows - row), height = rows,
           outputs = kvc_min_u64(TILE_OUTPUTS, call->N - n0);
    size_t tiles = r->tiles;
    float *y = call->y + row * call->N + n0;
    while (!run_by_height[height])
        height++;
    if (height == rows && outputs == TILE_OUTPUTS) {
        r->y = y;
        r->y_stride = call->N;
        run_by_height[height](r);
        return;
    }
    r->y = whole;
    r->y_stride = TILE_OUTPUTS;
    for (r->tiles = 1; tiles > 0; tiles--) {
        run_by_height[height](r);
        for (size_t i = 0; (r->round + 1) * r->together == KVC_LANES && i < rows; i++)
            memcpy(y + i * call->N, whole + i * TILE_OUTPUTS, outputs * sizeof(float));
        r->rows += r->rows_tile_floats;
        r->outer += r->outer_floats;
        y += TILE_ROWS * call->N;
    }
}

static void panel(const struct kvc_linear_call *call, size_t number, size_t first, size_t last, const float *packed,
                  float *scratch) {
    struct panel_scratch at = panel_places(call);
    size_t n0 = number * TILE_OUTPUTS, together = lanes_together(call), rounds = KVC_LANES / together;
    size_t whole_tiles = call->rows / TILE_ROWS;
    struct run r = {.depth = depth_of(call),
                    .rows_lane_floats = rows_lane_floats(call),
                    .rows_tile_floats = KVC_LANES * rows_lane_floats(call),
                    .lane_floats = panel_lane_floats(call),
                    .together = (unsigned)together,
                    .outer_floats = outer_levels(together) * TILE_FLOATS,
                    .bias = call->bias ? scratch + at.bias : NULL};
    pack_panel(call, n0, scratch, scratch + at.dequantized);
    for (size_t i = 0; call->bias && i < TILE_OUTPUTS; i++)
        scratch[at.bias + i] = n0 + i < call->N ? call->bias[n0 + i] : 0.0f;
    /* The run also prefetches the weights that this thread will probably pack next. */
    size_t next = n0 + TILE_OUTPUTS;
    r.ahead = call->w + kvc_min_u64(next, call->N) * call->row_bytes;
    r.ahead_end = call->w + kvc_min_u64(next + TILE_OUTPUTS, call->N) * call->row_bytes;
    r.ahead_step = (size_t)(r.ahead_end - r.ahead) / ((last - first) * KVC_LANES) + 64;
    for (size_t block = first; block < last; block += ROW_BLOCK)
        for (r.round = 0; r.round < rounds; r.round++)
            for (size_t tile = block, end = kvc_min_u64(block + ROW_BLOCK, last); tile < end; tile += r.tiles) {
                r.tiles = tile < whole_tiles ? kvc_min_u64(end, whole_tiles) - tile : 1;
                r.rows = packed + (tile * KVC_LANES + r.round * together) * r.rows_lane_floats;
                r.outputs = scratch + r.round * together * r.lane_floats;
                r.outer = scratch + at.outer + (tile - block) * r.outer_floats;
                size_t now = r.tiles;
                run_round(call, &r, tile * TILE_ROWS, n0, scratch + at.whole);
                r.tiles = now;
            }
}

#endif
