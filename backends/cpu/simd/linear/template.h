/* template.h - the kernels of linear.h, written once with the vectors of lanes/ and the sizes of sizes.h, and compiled
 * by linear/<name>.c for each instruction set. */
#ifndef KVC_SIMD_LINEAR_TEMPLATE_H
#define KVC_SIMD_LINEAR_TEMPLATE_H

#include "backends/cpu/simd/linear/gemm.h"
#include "backends/cpu/simd/linear/gemv.h"
#include "backends/cpu/simd/linear/linear.h"
#include "backends/cpu/simd/linear/sizes.h"
#include "backends/cpu/simd/linear/small_batch.h"

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

void LANES_NAME(kvc_linear_)(struct kvc_device *device, const struct kvc_linear *args) {
    kvc_linear_run((struct kvc_cpu *)(void *)device, &kernels, args);
}
void LANES_NAME(kvc_expert_linear_)(struct kvc_device *device, const struct kvc_expert_linear *args) {
    kvc_expert_linear_run((struct kvc_cpu *)(void *)device, &kernels, args);
}

#endif
