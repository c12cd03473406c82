/* pack_neon.h - quantizes weights to 15 bits once, for NEON (operation weight_pack). */
#ifndef KVC_SIMD_INT16_PACK_NEON_H
#define KVC_SIMD_INT16_PACK_NEON_H

#include "backends/cpu/simd/int16/neon.h"
#include "backends/cpu/simd/simd.h"

/* Quantizes row n. */
INLINE void pack_row(const enum kvc_type type, const struct kvc_weight *w, size_t n) {
    const size_t K = (size_t)w->inputs;
    wide_row(type, w->packed.quant + n * K, w->packed.scale + n * kvc_int16_blocks(K), kvc_weight_row(w, n), K);
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
