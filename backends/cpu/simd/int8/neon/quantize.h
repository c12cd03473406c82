/* quantize.h - template: quantizes rows of activations to eight bits, in 128-bit vectors. */
#ifndef KVC_SIMD_INT8_NEON_QUANTIZE_H
#define KVC_SIMD_INT8_NEON_QUANTIZE_H

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/lanes/neon.h"

/* Quantizes a block of 32 values. */
INLINE void quantize_block(const float *x, kvc_i8 *quant, float *scale, kvc_i32 *sum) {
    float32x4_t v[8];
    uint32x4_t most = vdupq_n_u32(0);
    int32x4_t q[8];
    UNROLL
    for (int i = 0; i < 8; i++) {
        v[i] = vld1q_f32(x + 4 * i);
        most = vmaxq_u32(most, vandq_u32(vreinterpretq_u32_f32(v[i]), vdupq_n_u32(0x7fffffffu)));
    }
    const kvc_u32 top = vmaxvq_u32(most);
    const float inverse = kvc_int8_inverse(top);
    *scale = kvc_int8_scale(top);
    if (inverse == 0.0f) {
        memset(quant, 0, 32);
        sum[0] = sum[1] = 0;
        return;
    }
    UNROLL
    for (int i = 0; i < 8; i++)
        q[i] = vcvtnq_s32_f32(vmulq_f32(v[i], vdupq_n_f32(inverse)));
    UNROLL
    for (int i = 0; i < 2; i++) {
        const int16x8_t low = vcombine_s16(vmovn_s32(q[4 * i]), vmovn_s32(q[4 * i + 1]));
        const int16x8_t high = vcombine_s16(vmovn_s32(q[4 * i + 2]), vmovn_s32(q[4 * i + 3]));
        vst1q_s8(quant + 16 * i, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
        sum[i] = vaddlvq_s16(vaddq_s16(low, high));
    }
}

static void quantize(const struct kvc_quantize_rows *args, size_t first, size_t last) {
    const size_t blocks = args->K / KVC_INT8_BLOCK;
    const float *x = kvc_span_data(args->x);
    kvc_i8 *quant = kvc_span_data(args->y.quant);
    float *scale = kvc_span_data(args->y.scale);
    kvc_i32 *sum = kvc_span_data(args->y.sum);
    for (size_t b = first * blocks; b < last * blocks; b++)
        quantize_block(x + 32 * b, quant + 32 * b, scale + b, sum + 2 * b);
}

#endif
