/* pack.h - converts weights to fourteen bits once, for AVX2 (operation weight_pack). */
#ifndef KVC_SIMD_INT16_PACK_H
#define KVC_SIMD_INT16_PACK_H

#include "backends/cpu/simd/int16/weights.h"
#include "backends/cpu/simd/simd.h"

void kvc_pack_int16_avx2(const struct kvc_weight *w, size_t first, size_t last) {
    const size_t blocks = (size_t)w->inputs / KVC_INT16_BLOCK;
    for (size_t n = first; n < last; n++) {
        const unsigned char *row = kvc_weight_row(w, n);
        kvc_i16 *quant = w->packed.quant;
        float *scale = w->packed.scale;
        if (w->type == KVC_F16)
            wide_blocks(KVC_F16, row, quant, scale, n * blocks, (n + 1) * blocks);
        else if (w->type == KVC_BF16)
            wide_blocks(KVC_BF16, row, quant, scale, n * blocks, (n + 1) * blocks);
        else if (w->type == KVC_F32)
            wide_blocks(KVC_F32, row, quant, scale, n * blocks, (n + 1) * blocks);
        else
            wide_blocks(KVC_FP8, row, quant, scale, n * blocks, (n + 1) * blocks);
    }
}

#endif
