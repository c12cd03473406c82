/* four_outputs.h - template: vectors for gemm.h that hold the results of one row and four outputs. A vector of codes
 * holds four quants of each output; there are four such vectors. With SMMLA, this file defines nothing. */
#ifndef KVC_SIMD_INT8_NEON_FOUR_OUTPUTS_H
#define KVC_SIMD_INT8_NEON_FOUR_OUTPUTS_H

#include "core/base/canon.h"
#include "backends/cpu/simd/int8/neon/parameters.h"

#if PRODUCTS != PRODUCTS_SMMLA

#define UNIT_ROWS 1
#define UNIT_OUTPUTS 4

struct codes {
    int8x16_t quant[4];
};
struct quants {
    int8x16_t quant;
};
INLINE struct codes codes_load(const kvc_i8 *from) {
    return (struct codes){{vld1q_s8(from), vld1q_s8(from + 16), vld1q_s8(from + 32), vld1q_s8(from + 48)}};
}
INLINE void pack_codes(kvc_i8 *to, const int8x16_t *x) {
    float32x4_t four[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        four[i] = vreinterpretq_f32_s8(x[i]);
    vf_transpose(four);
    UNROLL
    for (int i = 0; i < 4; i++)
        vst1q_s8(to + 16 * i, vreinterpretq_s8_f32(four[i]));
}
INLINE struct quants quants_load(const kvc_i8 *const *rows, size_t k) { return (struct quants){vld1q_s8(rows[0] + k)}; }
INLINE float32x4_t of_outputs(const float *x) { return vld1q_f32(x); }
INLINE float32x4_t of_rows(const float *x) { return vdupq_n_f32(x[0]); }
INLINE void store_unit(float *y, float32x4_t x) { vst1q_f32(y, x); }

#endif

#endif
