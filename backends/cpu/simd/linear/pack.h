/* pack.h - packs rows and weights lane by lane, in the order in which the tiles of gemm.h read them. Part of
 * template.h. */
#ifndef KVC_SIMD_LINEAR_PACK_H
#define KVC_SIMD_LINEAR_PACK_H

#include "core/base/integers.h"
#include "backends/cpu/simd/linear/dequantized.h"
#include "backends/cpu/simd/linear/linear.h"
#include "backends/cpu/simd/linear/sizes.h"

/* place[lane] is the index of a lane in the order of summation. The order is bit-reversed, so that the lanes that the
 * tree adds come one after another. */
static const unsigned char place[KVC_LANES] = {0, 16, 8, 24, 4, 20, 12, 28, 2, 18, 10, 26, 6, 22, 14, 30,
                                               1, 17, 9, 25, 5, 21, 13, 29, 3, 19, 11, 27, 7, 23, 15, 31};

/* Unused floats after each lane of a panel, so that stores of the same element in several lanes use different cache
 * sets. */
#define LANE_GAP 16

static size_t depth_of(const struct kvc_linear_call *call) { return (call->K + KVC_LANES - 1) / KVC_LANES; }
static size_t panel_lane_floats(const struct kvc_linear_call *call) { return depth_of(call) * TILE_OUTPUTS + LANE_GAP; }
/* Returns the number of floats of one lane of packed rows, including the gap. The last vector of a row may store beyond
 * its TILE_ROWS values, into the gap. */
static size_t rows_lane_floats(const struct kvc_linear_call *call) { return depth_of(call) * TILE_ROWS + LANE_GAP; }
static size_t row_tiles(const struct kvc_linear_call *call) { return (call->rows + TILE_ROWS - 1) / TILE_ROWS; }

/* Returns the number of lanes in a round, a power of two. Their packed weights have at most ROUND_BYTES. */
static size_t lanes_together(const struct kvc_linear_call *call) {
    size_t together = KVC_LANES;
    while (together > 1 && together * panel_lane_floats(call) * sizeof(float) > ROUND_BYTES)
        together /= 2;
    return together;
}
static size_t outer_levels(size_t together) {
    size_t levels = 0;
    for (; together < KVC_LANES; together *= 2)
        levels++;
    return levels;
}

#define TILE_PREFETCH 64 /* distance of prefetches in steps; packed rows come from L3 or from main memory */
#define ROW_BLOCK 48     /* number of row tiles that share a panel at a time; their partial sums stay in the cache */

/* Loads and transposes a square of LANES x LANES values. */
INLINE void transposed(vf *r, const float *const *from, size_t at) {
    UNROLL
    for (int i = 0; i < LANES; i++)
        r[i] = vf_load(from[i] + at);
    vf_transpose(r);
}

/* Returns the size of the packed rows, [tile][place[lane]][k / 32][TILE_ROWS], in floats. */
static size_t packed_floats(const struct kvc_linear_call *call) {
    return row_tiles(call) * KVC_LANES * rows_lane_floats(call);
}

/* If the packed rows do not fit in L2, their stores are non-temporal, so that the CPU need not read the cache lines
 * that it overwrites. STAGE steps of all lanes are collected first, so that every store is a whole vector. */
#define STAGE 8
#define STAGE_LANE (STAGE * TILE_ROWS + LANE_GAP)

static void pack_rows(const struct kvc_linear_call *call, size_t tile, float *packed) {
    _Alignas(64) float stage[KVC_LANES * STAGE_LANE];
    size_t depth = depth_of(call), lane_floats = rows_lane_floats(call), K = call->K;
    float *to = packed + tile * KVC_LANES * lane_floats;
    bool nontemporal = packed_floats(call) * sizeof(float) >= NONTEMPORAL_FROM && depth % STAGE == 0;
    for (size_t k0 = 0; k0 < depth; k0 += STAGE) {
        size_t steps = kvc_min_u64(STAGE, depth - k0), stride = nontemporal ? STAGE_LANE : lane_floats;
        float *near = nontemporal ? stage : to + k0 * TILE_ROWS;
        /* a tile without enough rows repeats the last row, and the sums of the copies are discarded */
        for (size_t r0 = 0; r0 < TILE_ROWS; r0 += LANES) {
            size_t rows = kvc_min_u64(LANES, TILE_ROWS - r0);
            const float *from[LANES];
            for (size_t i = 0; i < LANES; i++)
                from[i] = call->x + kvc_min_u64(tile * TILE_ROWS + r0 + kvc_min_u64(i, rows - 1), call->rows - 1) * K;
            for (size_t k = 0; k < steps; k++) {
                float end[LANES][KVC_LANES];
                const float *group[LANES];
                size_t n = kvc_min_u64(KVC_LANES, K - (k0 + k) * KVC_LANES);
                for (size_t i = 0; i < LANES; i++) {
                    group[i] = from[i] + (k0 + k) * KVC_LANES;
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
                        vf_store(near + place[lane + (size_t)i] * stride + k * TILE_ROWS + r0, r[i]);
                }
            }
        }
        for (size_t lane = 0; nontemporal && lane < KVC_LANES; lane++)
            for (size_t i = 0; i < STAGE * TILE_ROWS; i += LANES)
                vf_store_nontemporal(to + lane * lane_floats + k0 * TILE_ROWS + i,
                                     vf_load(stage + lane * STAGE_LANE + i));
    }
    if (nontemporal)
        vf_stores_done();
}

/* Packs a panel: [place[lane]][k / 32][TILE_OUTPUTS]. */
static void pack_panel(const struct kvc_linear_call *call, size_t n0, float *to, float *dequantized) {
    size_t stride = panel_lane_floats(call), K = call->K;
    /* a panel without enough outputs repeats the last output, and the sums of the copies are discarded */
    for (size_t g = 0; g < TILE_OUTPUTS; g += LANES) {
        size_t output[LANES];
        for (size_t i = 0; i < LANES; i++)
            output[i] = kvc_min_u64(n0 + g + i, call->N - 1);
        for (size_t k0 = 0; k0 < K; k0 += GROUP) {
            size_t n = kvc_min_u64(GROUP, K - k0), groups = (n + KVC_LANES - 1) / KVC_LANES;
            const float *from[LANES];
            for (size_t i = 0; i < LANES; i++) {
                from[i] = (const float *)(const void *)(call->w + output[i] * call->row_bytes) + k0;
                if (call->type != KVC_F32 || n % KVC_LANES) {
                    fetch_group(call, k0 + GROUP < K ? stretch_at(call, output[i], k0 + GROUP) : call->w);
                    dequantize_stretch(call, dequantized + i * GROUP, output[i], k0, n);
                    from[i] = dequantized + i * GROUP;
                }
            }
            for (size_t k = 0; k < groups; k++) {
                float *at = to + (k0 / KVC_LANES + k) * TILE_OUTPUTS + g;
                for (size_t lane = 0; lane < KVC_LANES; lane += LANES) {
                    vf r[LANES];
                    transposed(r, from, k * KVC_LANES + lane);
                    UNROLL
                    for (int i = 0; i < LANES; i++) {
                        vf_store(at + place[lane + (size_t)i] * stride, r[i]);
                    }
                }
            }
        }
    }
}

#endif
