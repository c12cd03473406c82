/* template.h - int8.h's kernels for many rows, with AMX tiles. */
#ifndef KVC_SIMD_INT8_AMX_TEMPLATE_H
#define KVC_SIMD_INT8_AMX_TEMPLATE_H

#include "backends/cpu/simd/int8/amx/gemm.h"

static const struct kvc_int8_kernels tile_kernels = {.tile_rows = TILE_ROWS,
                                                     .row_step = KVC_TILE_ROWS,
                                                     .tile_outputs = TILE_OUTPUTS,
                                                     .prepared_words = prepared_words,
                                                     .prepare = prepare,
                                                     .panel_bytes = panel_bytes,
                                                     .panel = panel};

#endif
