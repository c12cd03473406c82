/* template.h - the kernels of int8.h for CPUs with NEON. The including file must define these names.
 *
 *   dot16                      Adds to each of four 32-bit sums the products of four pairs of signed bytes.
 *   UNIT_ROWS, UNIT_OUTPUTS    In gemm.h, a vector of four sums holds this many rows and outputs.
 *   TILE_ROWS, TILE_OUTPUTS    Size of a tile.
 *   TILE_EVERY(m)              Calls m(n) for every n from 1 to the number of row units in a tile.
 *   struct codes, codes_load   16 packed quants of each of UNIT_OUTPUTS outputs, in the layout of pack_codes.
 *   struct quants, quants_load 16 quants of each of UNIT_ROWS rows.
 *   struct sums, sums_zero, sums_add, sums_of   Sums of the products of codes and quants.
 *   of_outputs, of_rows        Return vectors with one float per output or per row.
 *   store_unit                 Stores a vector of outputs.
 *   SMALL_BATCH_LIMIT          The largest number of rows that gemv.h computes. */
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
