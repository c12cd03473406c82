/* template.h - the int16 kernels for x86 CPUs. int8/<path>.c includes it and defines its parameters. */
#ifndef KVC_SIMD_INT16_TEMPLATE_H
#define KVC_SIMD_INT16_TEMPLATE_H

#include "backends/cpu/simd/int16/gemm.h"
#include "backends/cpu/simd/int16/gemv.h"
#include "backends/cpu/simd/simd.h"

/* Quantizes rows `first` .. `last` - 1 of activations, which are treated as weights of type F32. */
static void wide_quantize(const struct kvc_quantize_rows_int16 *args, size_t first, size_t last) {
    const size_t K = args->K, blocks = (K + 255) / 256;
    const float *x = kvc_span_data(args->x);
    kvc_i16 *quant = kvc_span_data(args->y.quant);
    float *scale = kvc_span_data(args->y.scale);
    for (size_t i = first; i < last; i++)
        wide_quantize_row(KVC_F32, (const unsigned char *)(const void *)(x + i * K), quant + i * K, scale + i * blocks,
                          K);
}

/* For at most this many rows, the weights are not packed: packing would take longer than reading the weights twice, for
 * four rows each time. */
#define WIDE_FEW 8

static const struct kvc_int8_kernels wide_kernels = {.few = WIDE_FEW,
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
