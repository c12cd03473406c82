/* template.h - the kernels of int8.h for CPUs of the x86 family. Before it is included:
 *   dot_signed, dot_unsigned   eight sums of the products of four signed quants, or unsigned ones below 64, with bytes
 *                              of -127 .. 127
 *   WIDTH, iv, fv and theirs   vectors of WIDTH integers and floats, for many rows
 *   struct codes, codes_load   WIDTH times four packed quants, as code_of makes them: CODE_OFFSET more than they are
 *   iv_dot                     sum + their products with four bytes, which are in every element
 *   TILE_ROWS, TILE_VECTORS    a tile of rows and vectors of outputs; TILE_EVERY(m): m(each number of rows)
 *   FEW_LIMIT                  rows that are few */
#include <immintrin.h>
#include <string.h>

#include "backends/cpu/simd/int8/unpack.h"

#include "backends/cpu/simd/int8/quantize.h"

#include "backends/cpu/simd/int8/few.h"

#include "backends/cpu/simd/int8/many.h"

static const struct kvc_int8_kernels kernels = {.few = FEW_LIMIT,
                                                .tile_rows = TILE_ROWS,
                                                .tile_outputs = TILE_OUTPUTS,
                                                .quantize = quantize,
                                                .few_rows = few_rows,
                                                .panel_bytes = panel_bytes,
                                                .panel = panel};
