/* template.h - the kernels of int8.h for CPUs with NEON. Before it is included:
 *   dot16                      sum + four sums of the products of four signed bytes each
 *   UNIT_ROWS, UNIT_OUTPUTS    what a vector of four sums holds, for many rows
 *   TILE_ROWS, TILE_OUTPUTS    a tile of them; TILE_EVERY(m): m(each number of units of rows)
 *   struct codes, codes_load   16 packed quants of each of UNIT_OUTPUTS outputs, as pack_codes lays them out
 *   struct quants, quants_load 16 of each of UNIT_ROWS rows
 *   struct sums, sums_zero, sums_add, sums_of   sums of their products
 *   of_outputs, of_rows        floats of outputs or rows where a vector holds them; store_unit: a vector of outputs
 *   SMALL_BATCH_LIMIT                  rows that are few */
#include "backends/cpu/simd/int8/neon/unpack.h"

#include "backends/cpu/simd/int8/neon/quantize.h"

#include "backends/cpu/simd/int8/neon/gemv.h"

#include "backends/cpu/simd/int8/neon/gemm.h"

static const struct kvc_int8_kernels kernels = {.few = SMALL_BATCH_LIMIT,
                                                .tile_rows = TILE_ROWS,
                                                .tile_outputs = TILE_OUTPUTS,
                                                .quantize = quantize,
                                                .few_rows = few_rows,
                                                .panel_bytes = panel_bytes,
                                                .panel = panel};
