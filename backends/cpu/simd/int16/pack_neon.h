/* pack_neon.h - converts weights to fourteen bits once, for NEON (operation weight_pack). */
#ifndef KVC_SIMD_INT16_PACK_NEON_H
#define KVC_SIMD_INT16_PACK_NEON_H

#include "backends/cpu/simd/int16/neon.h"
#include "backends/cpu/simd/simd.h"

/* Quantizes row n. */
INLINE void pack_row(const enum kvc_type type, const struct kvc_weight *w, size_t n) {
    const size_t blocks = (size_t)w->inputs / KVC_INT16_BLOCK;
    const unsigned char *row = kvc_weight_row(w, n);
    for (size_t b = 0; b < blocks; b++) {
        kvc_i16 *quant = w->packed.quant + 32 * (n * blocks + b);
        const size_t step = type == KVC_F32 ? 1024 : type == KVC_FP8 ? 264 : 512; /* bytes of a group */
        int16x8_t q[4];
        w->packed.scale[n * blocks + b] = wide_block(type, q, row + b / 8 * step, (int)(b % 8));
        for (size_t i = 0; i < 4; i++)
            vst1q_s16(quant + 8 * i, q[i]);
    }
}

void kvc_pack_int16_neon(const struct kvc_weight *w, size_t first, size_t last) {
    for (size_t n = first; n < last; n++) {
        if (w->type == KVC_F16)
            pack_row(KVC_F16, w, n);
        else if (w->type == KVC_BF16)
            pack_row(KVC_BF16, w, n);
        else if (w->type == KVC_F32)
            pack_row(KVC_F32, w, n);
        else
            pack_row(KVC_FP8, w, n);
    }
}

#endif
