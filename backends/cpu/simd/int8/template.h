/* template.h - the kernels of int8.h for x86 CPUs. The including file must define these names.
 *
 *   PATH                       Name of the instruction set.
 *   PAIRS                      1 without VNNI: products of bytes are added in pairs (prepare.h).
 *   BITS                       Vector width for many rows.
 *   TILE_ROWS, TILE_VECTORS    Size of a tile: rows, and vectors of outputs.
 *   TILE_EVERY(m)              Calls m(rows) for each height of a tile.
 *   SMALL_BATCH_LIMIT          The largest number of rows that gemv.h computes. */
#include <immintrin.h>
#include <string.h>

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/lanes/unroll.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/integers.h"
#include "core/base/weight_blocks.h"

#if BITS == 256
#include "backends/cpu/simd/int8/vectors_256.h"
#else
#include "backends/cpu/simd/int8/vectors_512.h"
#endif

#define TILE_OUTPUTS (TILE_VECTORS * WIDTH) /* outputs of a panel */

#include "backends/cpu/simd/int8/unpack.h"

#include "backends/cpu/simd/int8/quantize.h"

#include "backends/cpu/simd/int8/gemv.h"

#include "backends/cpu/simd/int8/prepare.h"

#include "backends/cpu/simd/int8/gemm.h"

static const struct kvc_int8_kernels kernels = {.few = SMALL_BATCH_LIMIT,
                                                .tile_rows = TILE_ROWS,
                                                .tile_outputs = TILE_OUTPUTS,
                                                .quantize = quantize,
                                                .few_rows = few_rows,
                                                .prepared_words = prepared_words,
                                                .prepare = prepare,
                                                .panel_bytes = panel_bytes,
                                                .panel = panel};

#define JOINED(a, b) a##b
#define NAMED(name, path) JOINED(name, path)
void NAMED(kvc_quantize_rows_, PATH)(struct kvc_device *device, const struct kvc_quantize_rows *args) {
    kvc_int8_quantize((struct kvc_cpu *)device, &kernels, args);
}
void NAMED(kvc_linear_int8_, PATH)(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    kvc_int8_run((struct kvc_cpu *)device, &kernels, args);
}
void NAMED(kvc_expert_linear_int8_, PATH)(struct kvc_device *device, const struct kvc_expert_linear_int8 *args) {
    kvc_int8_run_experts((struct kvc_cpu *)device, &kernels, args);
}
