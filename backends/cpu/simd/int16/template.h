/* template.h - the kernels of int16 for x86 CPUs, for int8/<path>.c, whose parameters they share. */
#ifndef KVC_SIMD_INT16_TEMPLATE_H
#define KVC_SIMD_INT16_TEMPLATE_H

#include "backends/cpu/simd/int16/gemm.h"
#include "backends/cpu/simd/int16/gemv.h"
#include "backends/cpu/simd/simd.h"

static const struct kvc_int8_kernels wide_kernels = {.few = SMALL_BATCH_LIMIT,
                                                     .tile_rows = TILE_ROWS,
                                                     .row_step = 1,
                                                     .tile_outputs = TILE_OUTPUTS,
                                                     .wide_quantize = wide_quantize,
                                                     .few_rows = wide_few_rows,
                                                     .prepared_words = wide_prepared_words,
                                                     .prepare = wide_prepare,
                                                     .panel_bytes = wide_panel_bytes,
                                                     .panel = wide_panel};

INT16_FUNCTIONS(PATH, &wide_kernels)

#endif
