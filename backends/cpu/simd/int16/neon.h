/* neon.h - the int16 kernels for CPUs with NEON. int8/neon/template.h and int16/pack_neon.h include this file. One
 * kernel serves any number of rows. It quantizes a group of 256 weights once for up to 64 rows. */
#ifndef KVC_SIMD_INT16_NEON_H
#define KVC_SIMD_INT16_NEON_H

#include <string.h>

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/int8/neon/gemv.h"
#include "backends/cpu/simd/lanes/neon.h"

#define WIDE_ROWS 64 /* number of rows that share one quantization of the weights */

/* Converts four FP8 numbers to floats. The seven bits of exponent and fraction become those of an F16, whose exponent
 * bias is larger by 8. If all seven are ones, the number is a NaN. */
INLINE float32x4_t floats_of_e4m3(const unsigned char *from) {
    const uint16x4_t ones = vdup_n_u16(0xbf80), sign = vdup_n_u16(0x8000);
    kvc_u32 word;
    memcpy(&word, from, sizeof word);
    const int16x4_t bytes = vget_low_s16(vmovl_s8(vcreate_s8((uint64_t)word)));
    const uint16x4_t half = vand_u16(vreinterpret_u16_s16(vshl_n_s16(bytes, 7)), ones);
    const uint16x4_t none = vceq_u16(vorr_u16(half, sign), ones);
    return vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(vorr_u16(half, none))), 256.0f);
}

/* Loads weights 4 i .. 4 i + 3 of a group as floats. */
INLINE float32x4_t wide_floats(const enum kvc_type type, const unsigned char *group, int i) {
    if (type == KVC_F16)
        return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(group + 8 * i)));
    if (type == KVC_BF16)
        return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(group + 8 * i)), 16));
    if (type == KVC_F32)
        return vreinterpretq_f32_u8(vld1q_u8(group + 16 * i));
    float scale; /* FP8: 128 weights share a scale, which is stored before them */
    const unsigned char *block = group + i / 32 * 132;
    memcpy(&scale, block, sizeof scale);
    return vmulq_n_f32(floats_of_e4m3(block + 4 + 4 * (i % 32)), scale);
}

/* Quantizes the first 32 * parts weights of a group, which form a block. Returns the block's scale. */
INLINE float wide_block(const enum kvc_type type, kvc_i16 *quant, const unsigned char *group, size_t parts) {
    float32x4_t v[64];
    uint32x4_t most = vdupq_n_u32(0);
    for (size_t i = 0; i < 8 * parts; i++) {
        v[i] = wide_floats(type, group, (int)i);
        most = vmaxq_u32(most, vandq_u32(vreinterpretq_u32_f32(v[i]), vdupq_n_u32(0x7fffffffu)));
    }
    const kvc_u32 top = vmaxvq_u32(most);
    const float inverse = kvc_int16_inverse(top);
    for (size_t i = 0; i < 4 * parts; i++) {
        const int32x4_t a = vcvtnq_s32_f32(vmulq_n_f32(v[2 * i], inverse));
        const int32x4_t b = vcvtnq_s32_f32(vmulq_n_f32(v[2 * i + 1], inverse));
        vst1q_s16(quant + 8 * i, inverse == 0.0f ? vdupq_n_s16(0) : vcombine_s16(vmovn_s32(a), vmovn_s32(b)));
    }
    return kvc_int16_scale(top);
}

/* Returns the sum of the first 32 * parts products. Each element of `sum` adds eight products. The result fits in 32
 * bits. */
INLINE kvc_i64 wide_dot(const kvc_i16 *w, const kvc_i16 *x, size_t parts) {
    int64x2_t total = vdupq_n_s64(0);
    for (size_t b = 0; b < parts; b++, w += 32, x += 32) {
        int32x4_t sum = vdupq_n_s32(0);
        UNROLL
        for (int i = 0; i < 4; i++) {
            const int16x8_t p = vld1q_s16(w + 8 * i), q = vld1q_s16(x + 8 * i);
            sum = vmlal_s16(sum, vget_low_s16(p), vget_low_s16(q));
            sum = vmlal_high_s16(sum, p, q);
        }
        total = vpadalq_s32(total, sum);
    }
    return vaddvq_s64(total);
}

INLINE size_t wide_step(const enum kvc_type type) { /* size of a group in bytes */
    return type == KVC_F32 ? 1024 : type == KVC_FP8 ? 264 : 512;
}

/* Returns the number of parts of 32 weights in a group. */
INLINE size_t wide_parts(size_t K, size_t group) {
    const size_t left = K - 256 * group;
    return left < 256 ? left / 32 : 8;
}

INLINE void wide_rows(const enum kvc_type type, const struct kvc_int8_call *call, size_t row, size_t rows, size_t first,
                      size_t last) {
    const size_t groups = (call->K + 255) / 256;
    for (size_t n = first; n < last; n++) {
        const unsigned char *g = call->w + n * call->row_bytes;
        float total[WIDE_ROWS];
        memset(total, 0, rows * sizeof *total);
        for (size_t i = 0; i < groups; i++, g += wide_step(type)) {
            const size_t parts = wide_parts(call->K, i);
            const struct kvc_int16_group *x = call->wide_group + row * groups + i;
            kvc_i16 quant[256];
            const float scale = type == KVC_PACKED ? call->w_scale[n * groups + i] : wide_block(type, quant, g, parts);
            const kvc_i16 *w = type == KVC_PACKED ? (const kvc_i16 *)(const void *)g : quant;
            for (size_t r = 0; r < rows; r++, x += groups)
                total[r] = kvc_int16_add(scale, x->scale, wide_dot(w, x->quant, parts), total[r]);
        }
        for (size_t r = 0; r < rows; r++)
            call->y[(row + r) * call->N + n] = call->bias ? total[r] + call->bias[n] : total[r];
    }
}

static void wide_few_rows(const struct kvc_int8_call *call, size_t first, size_t last) {
    for (size_t row = 0; row < call->rows; row += WIDE_ROWS) {
        const size_t left = call->rows - row, rows = left < WIDE_ROWS ? left : WIDE_ROWS;
        if (call->type == KVC_PACKED)
            wide_rows(KVC_PACKED, call, row, rows, first, last);
        else if (call->type == KVC_F16)
            wide_rows(KVC_F16, call, row, rows, first, last);
        else if (call->type == KVC_BF16)
            wide_rows(KVC_BF16, call, row, rows, first, last);
        else if (call->type == KVC_F32)
            wide_rows(KVC_F32, call, row, rows, first, last);
        else
            wide_rows(KVC_FP8, call, row, rows, first, last);
    }
}

/* Quantizes a row of K floats or weights. */
INLINE void wide_row(const enum kvc_type type, kvc_i16 *quant, float *scale, const unsigned char *row, size_t K) {
    for (size_t k = 0; k < K; k += 256, row += wide_step(type))
        *scale++ = wide_block(type, quant + k, row, wide_parts(K, k / 256));
}

/* Quantizes rows `first` .. `last` - 1 of activations, which wide_row treats as weights of type F32. */
static void wide_quantize(const struct kvc_quantize_rows_int16 *args, size_t first, size_t last) {
    const size_t K = args->K, blocks = (size_t)kvc_int16_blocks(K);
    const float *x = kvc_span_data(args->x);
    kvc_i16 *quant = kvc_span_data(args->y.quant);
    float *scale = kvc_span_data(args->y.scale);
    for (size_t i = first; i < last; i++)
        wide_row(KVC_F32, quant + i * K, scale + i * blocks, (const unsigned char *)(const void *)(x + i * K), K);
}

static const struct kvc_int8_kernels wide_kernels = {
    .few = SIZE_MAX, .wide_quantize = wide_quantize, .few_rows = wide_few_rows};

INT16_FUNCTIONS(PATH, &wide_kernels)

#endif
