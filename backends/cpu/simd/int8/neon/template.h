/* template.h - the kernels of int8.h for CPUs with NEON. parameters.h explains the names that the including file
 * defines. */
#ifndef KVC_SIMD_INT8_NEON_TEMPLATE_H
#define KVC_SIMD_INT8_NEON_TEMPLATE_H

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/int8/neon/gemm.h"
#include "backends/cpu/simd/int8/neon/quantize.h"
#include "backends/cpu/simd/int8/small_batch.h"
#include "backends/cpu/simd/int16/neon.h"
#include "backends/cpu/simd/simd.h"

static const struct kvc_int8_kernels kernels = {.few = SMALL_BATCH_LIMIT,
                                                .tile_rows = TILE_ROWS,
                                                .row_step = 1,
                                                .tile_outputs = TILE_OUTPUTS,
                                                .quantize = quantize,
                                                .few_rows = few_rows,
                                                .panel_bytes = panel_bytes,
                                                .panel = panel};

INT8_FUNCTIONS(PATH, &kernels)

#endif
