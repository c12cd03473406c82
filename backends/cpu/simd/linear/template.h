/* template.h - the kernels of linear.h, written once with the vectors of lanes/. The including file must define these
 * names.
 *
 *   TILE_ROWS, TILE_VECTORS    Size of a packed tile: rows, and vectors of outputs.
 *   TILE_EVERY(m)              Calls m(rows) for each height of a tile.
 *   GEMV_STREAMS               Outputs that are summed together for one row.
 *   SMALL_BATCH_OUTPUTS        Outputs that are summed together for few rows.
 *   SMALL_BATCH_ROWS           Rows that are summed together, at most.
 *   SMALL_BATCH_EVERY(m)       Calls m(rows) for 1 ... SMALL_BATCH_ROWS.
 *   SMALL_BATCH_LIMIT          The largest number of rows for which packing is not faster. */

#include "backends/cpu/simd/linear/linear.h"
#include "backends/cpu/simd/linear/dequantize.h"

#define TILE_OUTPUTS (TILE_VECTORS * LANES)
#define TILE_FLOATS (TILE_ROWS * TILE_OUTPUTS)

/* Padding of a group of 32 lanes adds the product +0 * -0 = -0, which changes no sum. */
#define FILL_X 0.0f
#define FILL_W (-0.0f)

/* Computes the tree over the 32 lanes. */
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

#include "backends/cpu/simd/linear/dequantized.h"

#include "backends/cpu/simd/linear/gemv.h"

#include "backends/cpu/simd/linear/small_batch.h"

#include "backends/cpu/simd/linear/pack.h"

#include "backends/cpu/simd/linear/gemm.h"

static const struct kvc_linear_kernels kernels = {.few = SMALL_BATCH_LIMIT,
                                                  .tile_rows = TILE_ROWS,
                                                  .tile_outputs = TILE_OUTPUTS,
                                                  .gemv_scratch = gemv_scratch,
                                                  .gemv_start = gemv_start,
                                                  .gemv = gemv,
                                                  .small_batch_rows_scratch = small_batch_rows_scratch,
                                                  .few_rows = few_rows,
                                                  .packed_floats = packed_floats,
                                                  .pack_rows = pack_rows,
                                                  .panel_scratch = panel_scratch,
                                                  .panel = panel};

static void linear(struct kvc_device *device, const struct kvc_linear *args) {
    kvc_linear_run((struct kvc_cpu *)(void *)device, &kernels, args);
}

static void expert_linear(struct kvc_device *device, const struct kvc_expert_linear *args) {
    kvc_expert_linear_run((struct kvc_cpu *)(void *)device, &kernels, args);
}
