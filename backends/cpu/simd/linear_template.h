/* linear_template.h - the kernels of linear.h, written once over the vectors of lanes_<path>.h. Before it is included:
 *   TILE_ROWS, TILE_VECTORS    a tile of the packed shape: rows, and vectors of outputs
 *   ONE_ROW_STREAMS            outputs summed at once where there is one row, so many streams of weights;
 *   ONE_ROW_HALF_STREAMS       the same for F16 and BF16
 *   FEW_OUTPUTS                the same with several rows, FEW_ROWS of them at once
 *   FEW_LIMIT                  from how many rows on packing is faster, less one
 * and TILE_EVERY(m), which calls m(number of rows) for each height a tile may have. */

#include "backends/cpu/simd/linear.h"
#include "backends/cpu/simd/widen.h"

#define TILE_OUTPUTS (TILE_VECTORS * LANES)
#define TILE_FLOATS (TILE_ROWS * TILE_OUTPUTS)

/* What fills up a group of 32 lanes adds the product +0 * -0 = -0, which changes no sum. */
#define FILL_X 0.0f
#define FILL_W (-0.0f)

static size_t at_most(size_t a, size_t b) { return a < b ? a : b; }

/* The tree over the 32 lanes. */
INLINE float sum_lanes(const vf *lanes) {
    vf sum[LANE_VECTORS];
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        sum[v] = lanes[v];
    UNROLL
    for (int w = LANE_VECTORS / 2; w > 0; w /= 2) {
        UNROLL
        for (int v = 0; v < w; v++)
            sum[v] = vf_add(sum[v], sum[v + w]);
    }
    return vf_tree(sum[0]);
}

/* ---- one row ------------------------------------------------------------------------------------------------- */

/* The last k % 32 weights of each output, for types whose rows need not be whole groups of 32. */
INLINE void tail_one_row(const int outputs, vf (*acc)[LANE_VECTORS], const float *x, size_t n, const float *w) {
    float left[KVC_LANES];
    for (size_t i = 0; i < KVC_LANES; i++)
        left[i] = i < n ? x[i] : FILL_X;
    UNROLL
    for (int j = 0; j < outputs; j++)
        UNROLL
        for (int v = 0; v < LANE_VECTORS; v++)
            acc[j][v] = vf_fma(vf_load(left + v * LANES), vf_load(w + j * KVC_LANES + v * LANES), acc[j][v]);
}

/* One part: 32 weights of each of the outputs. */
#define ONE_ROW_PART(type, p)                                                                                         \
    do {                                                                                                              \
        vf xv[LANE_VECTORS];                                                                                          \
        UNROLL                                                                                                        \
        for (int v = 0; v < LANE_VECTORS; v++)                                                                        \
            xv[v] = vf_load(x + k + (p) * KVC_LANES + v * LANES);                                                     \
        UNROLL                                                                                                        \
        for (int j = 0; j < outputs; j++) {                                                                           \
            vf wv[LANE_VECTORS];                                                                                      \
            widen_##type(wv, row[j], p, &scales[j]);                                                                  \
            UNROLL                                                                                                    \
            for (int v = 0; v < LANE_VECTORS; v++)                                                                    \
                acc[j][v] = vf_fma(xv[v], wv[v], acc[j][v]);                                                          \
        }                                                                                                             \
    } while (0)

/* The outputs first ... last - 1 in `streams` stretches, one output of each at a time: as many streams of weights
 * that never jump. Of each group's bytes so many are fetched AHEAD bytes before their use, into the second level: the
 * first has few buffers for what is on its way. For types that need little work the hardware does it alone, and better.
 * rest(...) deals with what is left of a group. */
#define AHEAD 2048
#define ONE_ROW(type, streams, bytes, fetched, rest)                                                                  \
    static void one_row_##type(const struct kvc_linear_call *call, size_t first, size_t last) {                       \
        enum { outputs = streams };                                                                                   \
        const float *x = call->x;                                                                                     \
        size_t stretch = (last - first + outputs - 1) / outputs | 1;                                                  \
        for (size_t n = first; n < first + stretch; n++) {                                                            \
            vf acc[outputs][LANE_VECTORS];                                                                            \
            const unsigned char *row[outputs];                                                                        \
            struct scales scales[outputs];                                                                            \
            size_t k = 0;                                                                                             \
            UNROLL                                                                                                    \
            for (int j = 0; j < outputs; j++) {                                                                       \
                row[j] = call->w + at_most(n + (size_t)j * stretch, last - 1) * call->row_bytes;                      \
                UNROLL                                                                                                \
                for (int v = 0; v < LANE_VECTORS; v++)                                                                \
                    acc[j][v] = vf_zero();                                                                            \
            }                                                                                                         \
            for (; k + GROUP <= call->K; k += GROUP) {                                                                \
                UNROLL                                                                                                \
                for (int j = 0; j < outputs; j++) {                                                                   \
                    UNROLL                                                                                            \
                    for (int line = 0; line < (fetched); line += 64)                                                  \
                        __builtin_prefetch(row[j] + AHEAD + line);                                                    \
                    prepare_##type(&scales[j], row[j], 8);                                                            \
                }                                                                                                     \
                ONE_ROW_PART(type, 0);                                                                                \
                ONE_ROW_PART(type, 1);                                                                                \
                ONE_ROW_PART(type, 2);                                                                                \
                ONE_ROW_PART(type, 3);                                                                                \
                ONE_ROW_PART(type, 4);                                                                                \
                ONE_ROW_PART(type, 5);                                                                                \
                ONE_ROW_PART(type, 6);                                                                                \
                ONE_ROW_PART(type, 7);                                                                                \
                UNROLL                                                                                                \
                for (int j = 0; j < outputs; j++)                                                                     \
                    row[j] += bytes;                                                                                  \
            }                                                                                                         \
            rest(type);                                                                                               \
            for (size_t j = 0; j < outputs && n + j * stretch < last; j++) {                                          \
                float sum = sum_lanes(acc[j]);                                                                        \
                size_t output = n + j * stretch;                                                                      \
                call->y[output] = call->bias ? sum + call->bias[output] : sum;                                        \
            }                                                                                                         \
        }                                                                                                             \
    }

#define REST_NONE(type) ((void)0)
/* Parts, one by one. */
#define REST_PARTS(type)                                                                                              \
    int parts = (int)((call->K - k) / KVC_LANES);                                                                     \
    UNROLL                                                                                                            \
    for (int j = 0; j < outputs; j++)                                                                                 \
        prepare_##type(&scales[j], row[j], parts);                                                                    \
    for (int p = 0; p < parts; p++)                                                                                   \
    ONE_ROW_PART(type, p)
/* Parts, then single weights. */
#define REST_ALL(type)                                                                                                \
    REST_PARTS(type);                                                                                                 \
    k += (size_t)parts * KVC_LANES;                                                                                   \
    if (k < call->K) {                                                                                                \
        float left_over[outputs * KVC_LANES];                                                                         \
        for (int j = 0; j < outputs; j++)                                                                             \
            end_of_row_##type(left_over + j * KVC_LANES, row[j] + (size_t)parts * part_bytes_##type, call->K - k);    \
        tail_one_row(outputs, acc, x + k, call->K - k, left_over);                                                    \
    }

/* n < 32 weights widened, the rest filled up. */
static void end_of_row_f32(float *w, const unsigned char *from, size_t n) {
    for (size_t i = n; i < KVC_LANES; i++)
        w[i] = FILL_W;
    memcpy(w, from, n * sizeof(float));
}
static void end_of_row_f16(float *w, const unsigned char *from, size_t n) {
    for (size_t i = 0; i < KVC_LANES; i++)
        w[i] = i < n ? half_load(from + 2 * i) : FILL_W;
}
static void end_of_row_bf16(float *w, const unsigned char *from, size_t n) {
    for (size_t i = 0; i < KVC_LANES; i++)
        w[i] = i < n ? kvc_bf16_to_f32(KVC_LOAD_U16(from + 2 * i)) : FILL_W;
}

ONE_ROW(f32, ONE_ROW_STREAMS, 8 * part_bytes_f32, 0, REST_ALL)
ONE_ROW(f16, ONE_ROW_HALF_STREAMS, 8 * part_bytes_f16, 0, REST_ALL)
ONE_ROW(bf16, ONE_ROW_HALF_STREAMS, 8 * part_bytes_bf16, 0, REST_ALL)
ONE_ROW(q8_0, ONE_ROW_STREAMS, 8 * part_bytes_q8_0, 8 * part_bytes_q8_0, REST_PARTS)
ONE_ROW(q4_0, ONE_ROW_STREAMS, 8 * part_bytes_q4_0, 8 * part_bytes_q4_0, REST_PARTS)
ONE_ROW(q5_0, ONE_ROW_STREAMS, 8 * part_bytes_q5_0, 8 * part_bytes_q5_0, REST_PARTS)
ONE_ROW(q3_k, ONE_ROW_STREAMS, group_bytes_q3_k, group_bytes_q3_k, REST_NONE)
ONE_ROW(q4_k, ONE_ROW_STREAMS, group_bytes_q4_k, group_bytes_q4_k, REST_NONE)
ONE_ROW(q5_k, ONE_ROW_STREAMS, group_bytes_q5_k, group_bytes_q5_k, REST_NONE)
ONE_ROW(q6_k, ONE_ROW_STREAMS, group_bytes_q6_k, group_bytes_q6_k, REST_NONE)

static void one_row(const struct kvc_linear_call *call, size_t first, size_t last) {
    static void (*const by_type[KVC_TYPES])(const struct kvc_linear_call *, size_t, size_t) = {
        [KVC_F32] = one_row_f32,   [KVC_F16] = one_row_f16,   [KVC_BF16] = one_row_bf16, [KVC_Q8_0] = one_row_q8_0,
        [KVC_Q4_0] = one_row_q4_0, [KVC_Q5_0] = one_row_q5_0, [KVC_Q3_K] = one_row_q3_k, [KVC_Q4_K] = one_row_q4_k,
        [KVC_Q5_K] = one_row_q5_k, [KVC_Q6_K] = one_row_q6_k};
    by_type[call->type](call, first, last);
}

/* ---- a stretch of one row of weights, widened ---------------------------------------------------------------- */

#define WIDEN_PART(type, p)                                                                                           \
    do {                                                                                                              \
        vf wv[LANE_VECTORS];                                                                                          \
        widen_##type(wv, from, p, &scales);                                                                           \
        UNROLL                                                                                                        \
        for (int v = 0; v < LANE_VECTORS; v++)                                                                        \
            vf_store(to + (p) * KVC_LANES + v * LANES, wv[v]);                                                        \
    } while (0)

/* At most GROUP weights from the start of a group. */
#define WIDEN_GROUP(type, rest)                                                                                       \
    static void widen_group_##type(float *to, const unsigned char *from, size_t n) {                                  \
        struct scales scales;                                                                                         \
        int parts = (int)(n / KVC_LANES);                                                                             \
        prepare_##type(&scales, from, parts);                                                                         \
        rest(type)                                                                                                    \
    }
#define WIDEN_WHOLE(type)                                                                                             \
    WIDEN_PART(type, 0);                                                                                              \
    WIDEN_PART(type, 1);                                                                                              \
    WIDEN_PART(type, 2);                                                                                              \
    WIDEN_PART(type, 3);                                                                                              \
    WIDEN_PART(type, 4);                                                                                              \
    WIDEN_PART(type, 5);                                                                                              \
    WIDEN_PART(type, 6);                                                                                              \
    WIDEN_PART(type, 7);                                                                                              \
    (void)parts;
#define WIDEN_PARTS(type)                                                                                             \
    for (int p = 0; p < parts; p++)                                                                                   \
        WIDEN_PART(type, p);
#define WIDEN_ALL(type)                                                                                               \
    WIDEN_PARTS(type)                                                                                                 \
    if (n % KVC_LANES)                                                                                                \
        end_of_row_##type(to + parts * KVC_LANES, from + (size_t)parts * part_bytes_##type, n % KVC_LANES);

WIDEN_GROUP(f32, WIDEN_ALL)
WIDEN_GROUP(f16, WIDEN_ALL)
WIDEN_GROUP(bf16, WIDEN_ALL)
WIDEN_GROUP(q8_0, WIDEN_PARTS)
WIDEN_GROUP(q4_0, WIDEN_PARTS)
WIDEN_GROUP(q5_0, WIDEN_PARTS)
WIDEN_GROUP(q3_k, WIDEN_WHOLE)
WIDEN_GROUP(q4_k, WIDEN_WHOLE)
WIDEN_GROUP(q5_k, WIDEN_WHOLE)
WIDEN_GROUP(q6_k, WIDEN_WHOLE)

static const struct {
    void (*widen)(float *to, const unsigned char *from, size_t n);
    size_t bytes; /* of a group */
} widen_by_type[KVC_TYPES] = {
    [KVC_F32] = {widen_group_f32, 8 * part_bytes_f32},    [KVC_F16] = {widen_group_f16, 8 * part_bytes_f16},
    [KVC_BF16] = {widen_group_bf16, 8 * part_bytes_bf16}, [KVC_Q8_0] = {widen_group_q8_0, 8 * part_bytes_q8_0},
    [KVC_Q4_0] = {widen_group_q4_0, 8 * part_bytes_q4_0}, [KVC_Q5_0] = {widen_group_q5_0, 8 * part_bytes_q5_0},
    [KVC_Q3_K] = {widen_group_q3_k, group_bytes_q3_k},    [KVC_Q4_K] = {widen_group_q4_k, group_bytes_q4_k},
    [KVC_Q5_K] = {widen_group_q5_k, group_bytes_q5_k},    [KVC_Q6_K] = {widen_group_q6_k, group_bytes_q6_k}};

static const unsigned char *stretch_at(const struct kvc_linear_call *call, size_t output, size_t k0) {
    return call->w + output * call->row_bytes + k0 / GROUP * widen_by_type[call->type].bytes;
}

/* Weights k0 ... k0 + n - 1 of a row, k0 a multiple of GROUP, filled up to whole groups of 32. What comes later, as long
 * as this, is fetched meanwhile. */
static void widen_stretch(const struct kvc_linear_call *call, float *to, size_t output, size_t k0, size_t n,
                          const unsigned char *later) {
    size_t bytes = widen_by_type[call->type].bytes;
    const unsigned char *from = stretch_at(call, output, k0);
    for (; n > 0; from += bytes, later += bytes, to += GROUP) {
        size_t now = at_most(n, GROUP);
        for (size_t line = 0; line < bytes; line += 64)
            __builtin_prefetch(later + line, 0, 2); /* not into the first level: it holds what is used now */
        widen_by_type[call->type].widen(to, from, now);
        n -= now;
    }
}

/* ---- few rows ------------------------------------------------------------------------------------------------ */

/* Weights of FEW_OUTPUTS outputs widened at a time: they stay in the first level. Short with very few rows, so that
 * reading ahead never waits for long. */
#define STRETCH 1024
#define STRETCH_SHORT GROUP

static size_t few_rows_scratch(const struct kvc_linear_call *call) {
    /* widened weights; lanes of every sum [rows, FEW_OUTPUTS, 32]; the last, filled up 32 values of every row */
    return FEW_OUTPUTS * STRETCH + call->rows * FEW_OUTPUTS * KVC_LANES + call->rows * KVC_LANES;
}

/* lanes [rows, FEW_OUTPUTS, 32] += x [rows of x_stride] times w [FEW_OUTPUTS of w_stride], `groups` times 32 deep. One
 * vector of lanes at a time, so that many sums fit in registers. */
INLINE void few_block(const int rows, float *lanes, const float *x, size_t x_stride, const float *w, size_t w_stride,
                      size_t groups) {
    for (size_t lane = 0; lane < KVC_LANES; lane += LANES) {
        vf acc[FEW_ROWS][FEW_OUTPUTS];
        UNROLL
        for (int i = 0; i < rows; i++)
            UNROLL
            for (int j = 0; j < FEW_OUTPUTS; j++)
                acc[i][j] = vf_load(lanes + (i * FEW_OUTPUTS + j) * KVC_LANES + lane);
        for (size_t g = 0; g < groups; g++) {
            const float *xg = x + g * KVC_LANES + lane, *wg = w + g * KVC_LANES + lane;
            vf xv[FEW_ROWS];
            UNROLL
            for (int i = 0; i < rows; i++)
                xv[i] = vf_load(xg + (size_t)i * x_stride);
            UNROLL
            for (int j = 0; j < FEW_OUTPUTS; j++) {
                vf wv = vf_load(wg + (size_t)j * w_stride);
                UNROLL
                for (int i = 0; i < rows; i++)
                    acc[i][j] = vf_fma(xv[i], wv, acc[i][j]);
            }
        }
        UNROLL
        for (int i = 0; i < rows; i++)
            UNROLL
            for (int j = 0; j < FEW_OUTPUTS; j++)
                vf_store(lanes + (i * FEW_OUTPUTS + j) * KVC_LANES + lane, acc[i][j]);
    }
}

static void few_all(size_t rows, float *lanes, const float *x, size_t x_stride, const float *w, size_t w_stride,
                    size_t groups) {
    if (groups == 0)
        return;
    for (; rows >= FEW_ROWS; rows -= FEW_ROWS) {
        few_block(FEW_ROWS, lanes, x, x_stride, w, w_stride, groups);
        lanes += FEW_ROWS * FEW_OUTPUTS * KVC_LANES;
        x += FEW_ROWS * x_stride;
    }
    switch (rows) { /* FEW_ROWS is at most 4 */
    case 3:
        few_block(3, lanes, x, x_stride, w, w_stride, groups);
        break;
    case 2:
        few_block(2, lanes, x, x_stride, w, w_stride, groups);
        break;
    case 1:
        few_block(1, lanes, x, x_stride, w, w_stride, groups);
        break;
    default:
        break;
    }
}

static void few_rows(const struct kvc_linear_call *call, size_t first, size_t last, float *scratch) {
    size_t rows = call->rows, K = call->K, tail = K % KVC_LANES;
    float *widened = scratch, *lanes = widened + FEW_OUTPUTS * STRETCH;
    float *x_tail = lanes + rows * FEW_OUTPUTS * KVC_LANES;
    size_t stretch = rows <= 4 ? STRETCH_SHORT : STRETCH;
    for (size_t i = 0; tail && i < rows; i++) {
        for (size_t l = 0; l < KVC_LANES; l++)
            x_tail[i * KVC_LANES + l] = l < tail ? call->x[i * K + K - tail + l] : FILL_X;
    }
    for (size_t n = first; n < last; n += FEW_OUTPUTS) {
        memset(lanes, 0, rows * FEW_OUTPUTS * KVC_LANES * sizeof(float));
        for (size_t k = 0; k < K; k += stretch) {
            size_t depth = at_most(stretch, K - k), whole = depth / KVC_LANES;
            for (size_t j = 0; j < FEW_OUTPUTS; j++) {
                size_t output = at_most(n + j, last - 1), next = at_most(n + FEW_OUTPUTS + j, call->N - 1);
                widen_stretch(call, widened + j * STRETCH, output, k, depth,
                              k + stretch < K ? stretch_at(call, output, k + stretch) : stretch_at(call, next, 0));
            }
            few_all(rows, lanes, call->x + k, K, widened, STRETCH, whole);
            if (depth % KVC_LANES)
                few_all(rows, lanes, x_tail, KVC_LANES, widened + whole * KVC_LANES, STRETCH, 1);
        }
        for (size_t i = 0; i < rows; i++) {
            for (size_t j = 0; j < FEW_OUTPUTS && n + j < last; j++) {
                vf side_by_side[LANE_VECTORS];
                for (size_t v = 0; v < LANE_VECTORS; v++)
                    side_by_side[v] = vf_load(lanes + (i * FEW_OUTPUTS + j) * KVC_LANES + v * LANES);
                float sum = sum_lanes(side_by_side);
                call->y[i * call->N + n + j] = call->bias ? sum + call->bias[n + j] : sum;
            }
        }
    }
}

/* ---- many rows ----------------------------------------------------------------------------------------------- */

/* Lanes in the order in which they are summed: bit-reversed, so that the tree adds neighbours. place[lane]. */
static const unsigned char place[KVC_LANES] = {0, 16, 8, 24, 4, 20, 12, 28, 2, 18, 10, 26, 6, 22, 14, 30,
                                               1, 17, 9, 25, 5, 21, 13, 29, 3, 19, 11, 27, 7, 23, 15, 31};

/* Floats behind each lane of a panel: the lanes of one store fall into different cache sets. */
#define LANE_GAP 16
#ifndef ROUND_BYTES
#define ROUND_BYTES (192 * 1024) /* of packed weights that are used together for all rows: they stay in the second level */
#endif

static size_t depth_of(const struct kvc_linear_call *call) { return (call->K + KVC_LANES - 1) / KVC_LANES; }
static size_t panel_lane_floats(const struct kvc_linear_call *call) { return depth_of(call) * TILE_OUTPUTS + LANE_GAP; }
/* The same for packed rows; here the gap takes what the last whole vector stores past its TILE_ROWS values. */
static size_t rows_lane_floats(const struct kvc_linear_call *call) { return depth_of(call) * TILE_ROWS + LANE_GAP; }
static size_t row_tiles(const struct kvc_linear_call *call) { return (call->rows + TILE_ROWS - 1) / TILE_ROWS; }

/* How many of the 32 lanes are visited together: a power of two. */
static size_t lanes_together(const struct kvc_linear_call *call) {
    size_t together = KVC_LANES;
    while (together > 1 && together * call->strip * panel_lane_floats(call) * sizeof(float) > ROUND_BYTES)
        together /= 2;
    return together;
}
static size_t outer_levels(size_t together) {
    size_t levels = 0;
    for (; together < KVC_LANES; together *= 2)
        levels++;
    return levels;
}

#define TILE_PREFETCH 64 /* packed rows come from the third level, or from memory: so many steps ahead */
#define ROW_BLOCK 48 /* tiles of rows that pass a strip of panels together, so that their partial sums stay near */

#define PREFETCH GROUP /* floats ahead: each row is read a group at a time, too short for the hardware to see ahead */

/* A square of LANES x LANES, transposed. */
INLINE void transposed(vf *r, const float *const *from, size_t at) {
    UNROLL
    for (int i = 0; i < LANES; i++) {
        r[i] = vf_load(from[i] + at);
        __builtin_prefetch(from[i] + at + PREFETCH);
    }
    vf_transpose(r);
}

/* Packed rows: [tile][place of lane][k / 32][TILE_ROWS]. */
static size_t packed_floats(const struct kvc_linear_call *call) {
    return row_tiles(call) * KVC_LANES * rows_lane_floats(call);
}

static void pack_rows(const struct kvc_linear_call *call, size_t tile, float *packed) {
    size_t depth = depth_of(call), lane_floats = rows_lane_floats(call), K = call->K;
    float *to = packed + tile * KVC_LANES * lane_floats;
    for (size_t r0 = 0; r0 < TILE_ROWS; r0 += LANES) { /* rows below the last repeat it; their sums are not kept */
        size_t rows = at_most(LANES, TILE_ROWS - r0);
        const float *from[LANES];
        for (size_t i = 0; i < LANES; i++)
            from[i] = call->x + at_most(tile * TILE_ROWS + r0 + at_most(i, rows - 1), call->rows - 1) * K;
        for (size_t k = 0; k < depth; k++) {
            float end[LANES][KVC_LANES];
            const float *group[LANES];
            size_t n = at_most(KVC_LANES, K - k * KVC_LANES);
            for (size_t i = 0; i < LANES; i++) {
                group[i] = from[i] + k * KVC_LANES;
                if (n < KVC_LANES) {
                    for (size_t l = 0; l < KVC_LANES; l++)
                        end[i][l] = l < n ? group[i][l] : FILL_X;
                    group[i] = end[i];
                }
            }
            for (size_t lane = 0; lane < KVC_LANES; lane += LANES) {
                vf r[LANES];
                transposed(r, group, lane);
                UNROLL
                for (int i = 0; i < LANES; i++)
                    vf_store(to + place[lane + (size_t)i] * lane_floats + k * TILE_ROWS + r0, r[i]);
            }
        }
    }
}

/* A packed panel: [place of lane][k / 32][TILE_OUTPUTS]. */
static void pack_panel(const struct kvc_linear_call *call, size_t n0, float *to, float *widened) {
    size_t stride = panel_lane_floats(call), K = call->K;
    for (size_t g = 0; g < TILE_OUTPUTS; g += LANES) { /* outputs behind the last repeat it; their sums are not kept */
        size_t output[LANES];
        for (size_t i = 0; i < LANES; i++)
            output[i] = at_most(n0 + g + i, call->N - 1);
        for (size_t k0 = 0; k0 < K; k0 += GROUP) {
            size_t n = at_most(GROUP, K - k0), groups = (n + KVC_LANES - 1) / KVC_LANES;
            const float *from[LANES];
            for (size_t i = 0; i < LANES; i++) {
                from[i] = (const float *)(const void *)(call->w + output[i] * call->row_bytes) + k0;
                if (call->type != KVC_F32 || n % KVC_LANES) {
                    widen_stretch(call, widened + i * GROUP, output[i], k0, n,
                                  k0 + GROUP < K ? stretch_at(call, output[i], k0 + GROUP) : call->w);
                    from[i] = widened + i * GROUP;
                }
            }
            for (size_t k = 0; k < groups; k++) {
                float *at = to + (k0 / KVC_LANES + k) * TILE_OUTPUTS + g;
                for (size_t lane = 0; lane < KVC_LANES; lane += LANES) {
                    vf r[LANES];
                    transposed(r, from, k * KVC_LANES + lane);
                    UNROLL
                    for (int i = 0; i < LANES; i++)
                        vf_store(at + place[lane + (size_t)i] * stride, r[i]);
                }
            }
        }
    }
}

struct tile {
    const float *rows;    /* packed, at the first of the lanes to visit */
    const float *outputs; /* the same */
    size_t depth, rows_lane_floats, lane_floats;
    unsigned together, round, rounds; /* lanes visited now; which of the rounds this is */
    float *outer;                     /* this tile's partial sums of earlier rounds */
    const float *bias;                /* [TILE_OUTPUTS] or NULL */
    float *y;                         /* after the last round: the sums, y_stride apart */
    size_t y_stride;
};

INLINE void tile_add(const int rows, vf sum[TILE_ROWS][TILE_VECTORS], const float *part) {
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            sum[i][v] = vf_add(vf_load(part + i * TILE_OUTPUTS + v * LANES), sum[i][v]);
}
INLINE void tile_store(const int rows, float *to, size_t stride, vf sum[TILE_ROWS][TILE_VECTORS]) {
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            vf_store(to + (size_t)i * stride + v * LANES, sum[i][v]);
}

/* Sums the lanes of one round, one after another, each as a tile of rows x TILE_OUTPUTS held in registers. After lane
 * number j as many partial tiles are added as j has ones at its end: the tree, with a stack of at most five. */
INLINE void tile_sum(const int rows, const struct tile *t) {
    _Alignas(64) float inner[5 * TILE_FLOATS];
    float *top = inner;
    const float *a = t->rows, *b = t->outputs;
    vf sum[TILE_ROWS][TILE_VECTORS];
    for (unsigned lane = 0;; lane++) {
        const float *bk = b;
        UNROLL
        for (int i = 0; i < rows; i++)
            UNROLL
            for (int v = 0; v < TILE_VECTORS; v++)
                sum[i][v] = vf_zero();
        for (size_t k = t->depth; k > 0; k--) {
            vf w[TILE_VECTORS];
            UNROLL
            for (int v = 0; v < TILE_VECTORS; v++) {
                w[v] = vf_load(bk + v * LANES);
            }
            __builtin_prefetch(a + TILE_PREFETCH * TILE_ROWS);
            UNROLL
            for (int i = 0; i < rows; i++) {
                vf x = vf_set(a[i]);
                UNROLL
                for (int v = 0; v < TILE_VECTORS; v++)
                    sum[i][v] = vf_fma(x, w[v], sum[i][v]);
            }
            a += TILE_ROWS;
            bk += TILE_OUTPUTS;
        }
        a += LANE_GAP;
        b += t->lane_floats;
        for (unsigned ones = lane; ones & 1; ones >>= 1) {
            top -= TILE_FLOATS;
            tile_add(rows, sum, top);
        }
        if (lane + 1 == t->together)
            break;
        tile_store(rows, top, TILE_OUTPUTS, sum);
        top += TILE_FLOATS;
    }
    float *outer = t->outer;
    for (unsigned ones = t->round; ones; ones &= ones - 1)
        outer += TILE_FLOATS; /* one partial tile waits for each one in the number of the round */
    for (unsigned ones = t->round; ones & 1; ones >>= 1) {
        outer -= TILE_FLOATS;
        tile_add(rows, sum, outer);
    }
    if (t->round + 1 < t->rounds) {
        tile_store(rows, outer, TILE_OUTPUTS, sum);
        return;
    }
    if (t->bias) {
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) {
            vf bias = vf_load(t->bias + v * LANES);
            UNROLL
            for (int i = 0; i < rows; i++)
                sum[i][v] = vf_add(sum[i][v], bias);
        }
    }
    tile_store(rows, t->y, t->y_stride, sum);
}

#define TILE_FUNCTION(height)                                                                                         \
    static void tile_sum_##height(const struct tile *t) { tile_sum(height, t); }
#define TILE_ENTRY(height) [height] = tile_sum_##height,
TILE_EVERY(TILE_FUNCTION)
static void (*const tile_by_height[TILE_ROWS + 1])(const struct tile *) = {TILE_EVERY(TILE_ENTRY)};

/* Offsets into the scratch of one strip, in floats. */
struct strip_scratch {
    size_t widened, outer, whole, bias, end;
};
static struct strip_scratch strip_places(const struct kvc_linear_call *call) {
    struct strip_scratch s;
    s.widened = call->strip * KVC_LANES * panel_lane_floats(call); /* behind the packed panels */
    s.outer = s.widened + LANES * GROUP;
    s.whole = s.outer + ROW_BLOCK * call->strip * outer_levels(lanes_together(call)) * TILE_FLOATS;
    s.bias = s.whole + TILE_FLOATS; /* behind a tile that hangs over the edge */
    s.end = s.bias + call->strip * TILE_OUTPUTS;
    return s;
}
static size_t strip_scratch(const struct kvc_linear_call *call) { return strip_places(call).end; }

/* One tile of rows times one panel: the lanes of one round. */
static void tile_round(const struct kvc_linear_call *call, struct tile *t, size_t tile, size_t n0, float *whole) {
    size_t rows = at_most(TILE_ROWS, call->rows - tile * TILE_ROWS), height = rows;
    size_t outputs = at_most(TILE_OUTPUTS, call->N - n0);
    while (!tile_by_height[height])
        height++;
    float *y = call->y + tile * TILE_ROWS * call->N + n0;
    int direct = height == rows && outputs == TILE_OUTPUTS;
    t->y = direct ? y : whole;
    t->y_stride = direct ? call->N : TILE_OUTPUTS;
    tile_by_height[height](t);
    for (size_t i = 0; !direct && t->round + 1 == t->rounds && i < rows; i++)
        memcpy(y + i * call->N, whole + i * TILE_OUTPUTS, outputs * sizeof(float));
}

static void strip(const struct kvc_linear_call *call, size_t number, size_t first, size_t last, const float *packed,
                  float *scratch) {
    struct strip_scratch at = strip_places(call);
    size_t n0 = number * call->strip * TILE_OUTPUTS, lane_floats = panel_lane_floats(call);
    size_t panels = at_most(call->strip, (call->N - n0 + TILE_OUTPUTS - 1) / TILE_OUTPUTS);
    size_t together = lanes_together(call), levels = outer_levels(together);
    struct tile t = {.depth = depth_of(call), .rows_lane_floats = rows_lane_floats(call), .lane_floats = lane_floats,
                     .together = (unsigned)together, .rounds = (unsigned)(KVC_LANES / together)};
    for (size_t p = 0; p < panels; p++)
        pack_panel(call, n0 + p * TILE_OUTPUTS, scratch + p * KVC_LANES * lane_floats, scratch + at.widened);
    for (size_t i = 0; call->bias && i < panels * TILE_OUTPUTS; i++)
        scratch[at.bias + i] = n0 + i < call->N ? call->bias[n0 + i] : 0.0f;
    /* Meanwhile the weights this thread will probably pack next come nearer, a few lines per tile. */
    size_t next = n0 + call->ahead * call->strip * TILE_OUTPUTS;
    const unsigned char *ahead = call->w + at_most(next, call->N) * call->row_bytes;
    const unsigned char *ahead_end = call->w + at_most(next + call->strip * TILE_OUTPUTS, call->N) * call->row_bytes;
    size_t step = (size_t)(ahead_end - ahead) / ((last - first) * panels * t.rounds) + 64;
    for (size_t block = first; block < last; block += ROW_BLOCK)
        for (t.round = 0; t.round < t.rounds; t.round++)
            for (size_t tile = block; tile < at_most(block + ROW_BLOCK, last); tile++)
                for (size_t p = 0; p < panels; p++) {
                    for (size_t line = 0; line < step && ahead < ahead_end; line += 64, ahead += 64)
                        __builtin_prefetch(ahead, 0, 1);
                    t.rows = packed + (tile * KVC_LANES + t.round * together) * t.rows_lane_floats;
                    t.outputs = scratch + (p * KVC_LANES + t.round * together) * lane_floats;
                    t.outer = scratch + at.outer + ((tile - block) * call->strip + p) * levels * TILE_FLOATS;
                    t.bias = call->bias ? scratch + at.bias + p * TILE_OUTPUTS : NULL;
                    tile_round(call, &t, tile, n0 + p * TILE_OUTPUTS, scratch + at.whole);
                }
}

static const struct kvc_linear_kernels kernels = {.few = FEW_LIMIT,
                                                  .tile_rows = TILE_ROWS,
                                                  .tile_outputs = TILE_OUTPUTS,
                                                  .one_row = one_row,
                                                  .few_rows_scratch = few_rows_scratch,
                                                  .few_rows = few_rows,
                                                  .packed_floats = packed_floats,
                                                  .pack_rows = pack_rows,
                                                  .strip_scratch = strip_scratch,
                                                  .strip = strip};

static void linear(struct kvc_device *device, struct kvc_span y, struct kvc_span x, const struct kvc_weight *w,
                   struct kvc_span bias, uint32_t rows) {
    kvc_linear_run((struct kvc_cpu *)(void *)device, &kernels, y, x, w, bias, rows);
}
