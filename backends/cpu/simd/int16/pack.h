/* pack.h - quantizes weights to 15 bits once, for AVX2 (operation weight_pack). */
#ifndef KVC_SIMD_INT16_PACK_H
#define KVC_SIMD_INT16_PACK_H

#include "backends/cpu/simd/int16/weights.h"
#include "backends/cpu/simd/simd.h"

void kvc_pack_int16_avx2(const struct kvc_weight *w, size_t first, size_t last) {
    const size_t K = (size_t)w->inputs;
    for (size_t n = first; n < last; n++) {
        const unsigned char *row = kvc_weight_row(w, n);
        kvc_i16 *quant = w->packed.quant + n * K;
        float *scale = w->packed.scale + n * kvc_int16_blocks(K);
        if (w->type == KVC_F16)
            wide_quantize_row(KVC_F16, row, quant, scale, K);
        else if (w->type == KVC_BF16)
            wide_quantize_row(KVC_BF16, row, quant, scale, K);
        else if (w->type == KVC_F32)
            wide_quantize_row(KVC_F32, row, quant, scale, K);
        else
            wide_quantize_row(KVC_FP8, row, quant, scale, K);
    }
}

#endif
