/* neon.h - the kernels of int16 for CPUs with NEON, for int8/<path>.c. All numbers of rows use the same kernel: a group
 * of 256 weights is quantized once for up to 64 rows. */
#ifndef KVC_SIMD_INT16_NEON_H
#define KVC_SIMD_INT16_NEON_H

#include <string.h>

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/int8/neon/gemv.h"
#include "backends/cpu/simd/lanes/neon.h"

#define WIDE_ROWS 64 /* rows for which weights are quantized once */

struct wide_weights {
    int16x8_t quant[8][4];
    float scale[8];
};

/* Converts four numbers of FP8 to floats. Their seven bits of exponent and fraction become those of an F16, whose
 * exponent bias is larger by 8. All ones are a NaN. */
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
    float scale; /* FP8: 128 weights have one scale, which precedes them */
    const unsigned char *block = group + i / 32 * 132;
    memcpy(&scale, block, sizeof scale);
    return vmulq_n_f32(floats_of_e4m3(block + 4 + 4 * (i % 32)), scale);
}

/* Quantizes a block of 32 weights. Returns their scale. */
INLINE float wide_block(const enum kvc_type type, int16x8_t quant[4], const unsigned char *group, int block) {
    float32x4_t v[8];
    uint32x4_t most = vdupq_n_u32(0);
    UNROLL
    for (int i = 0; i < 8; i++) {
        v[i] = wide_floats(type, group, 8 * block + i);
        most = vmaxq_u32(most, vandq_u32(vreinterpretq_u32_f32(v[i]), vdupq_n_u32(0x7fffffffu)));
    }
    const kvc_u32 top = vmaxvq_u32(most);
    const float inverse = kvc_int16_inverse(top);
    UNROLL
    for (int i = 0; i < 4; i++) {
        const int32x4_t a = vcvtnq_s32_f32(vmulq_n_f32(v[2 * i], inverse));
        const int32x4_t b = vcvtnq_s32_f32(vmulq_n_f32(v[2 * i + 1], inverse));
        quant[i] = inverse == 0.0f ? vdupq_n_s16(0) : vcombine_s16(vmovn_s32(a), vmovn_s32(b));
    }
    return kvc_int16_scale(top);
}

/* Quantizes the first `parts` blocks of 256 weights, or loads them if they are packed. The other blocks become zeros.
 * `type` is a constant. */
INLINE void wide_unpack(const enum kvc_type type, struct wide_weights *u, const unsigned char *group,
                        const float *scale, int parts) {
    if (parts < 8)
        memset(u, 0, sizeof *u);
    for (int b = 0; b < parts; b++)
        if (type == KVC_PACKED) {
            u->scale[b] = scale[b];
            UNROLL
            for (int i = 0; i < 4; i++)
                u->quant[b][i] = vreinterpretq_s16_u8(vld1q_u8(group + 64 * b + 16 * i));
        } else {
            u->scale[b] = wide_block(type, u->quant[b], group, b);
        }
}

/* Returns four sums of eight products each of a block. */
INLINE int32x4_t wide_dot(const int16x8_t w[4], const kvc_i16 *x) {
    int32x4_t sum = vdupq_n_s32(0);
    UNROLL
    for (int i = 0; i < 4; i++) {
        const int16x8_t q = vld1q_s16(x + 8 * i);
        sum = vmlal_s16(sum, vget_low_s16(w[i]), vget_low_s16(q));
        sum = vmlal_high_s16(sum, w[i], q);
    }
    return sum;
}

/* Multiplies one group of an output's weights by one row's activations. Adds to the first `parts` lanes only. */
INLINE void wide_group(const struct wide_weights *u, const struct kvc_int16_group *x, float *lane, size_t parts) {
    UNROLL
    for (int h = 0; h < 2; h++) {
        const float32x4_t before = vld1q_f32(lane + 4 * h);
        int32x4_t part[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            part[i] = wide_dot(u->quant[4 * h + i], x->quant + 32 * (4 * h + i));
        const float32x4_t scale = vf_mul(vld1q_f32(u->scale + 4 * h), vld1q_f32(x->scale + 4 * h));
        const float32x4_t after = vf_fma(scale, vf_from_int(reduce(part)), before);
        const size_t left = parts > 4 * (size_t)h ? parts - 4 * (size_t)h : 0;
        vst1q_f32(lane + 4 * h, left >= 4 ? after : vf_select(vm_first(left), after, before));
    }
}

INLINE void wide_rows(const enum kvc_type type, const struct kvc_int8_call *call, size_t row, size_t rows, size_t first,
                      size_t last) {
    const size_t groups = (call->K + 255) / 256;
    const size_t step = type == KVC_F32 ? 1024 : type == KVC_FP8 ? 264 : 512; /* bytes of a group */
    for (size_t n = first; n < last; n++) {
        const unsigned char *g = call->w + n * call->row_bytes;
        float lane[WIDE_ROWS][KVC_INT8_LANES];
        memset(lane, 0, rows * sizeof *lane);
        for (size_t i = 0; i < groups; i++, g += step) {
            const size_t left = (call->K - i * 256) / 32, parts = left < 8 ? left : 8;
            struct wide_weights u;
            wide_unpack(type, &u, g, type == KVC_PACKED ? call->w_scale + n * (call->K / 32) + 8 * i : NULL,
                        (int)parts);
            for (size_t r = 0; r < rows; r++)
                wide_group(&u, call->wide_group + (row + r) * groups + i, lane[r], parts);
        }
        for (size_t r = 0; r < rows; r++) {
            const float sum = vf_tree(vf_add(vld1q_f32(lane[r]), vld1q_f32(lane[r] + 4)));
            call->y[(row + r) * call->N + n] = call->bias ? sum + call->bias[n] : sum;
        }
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

/* Quantizes rows first .. last - 1 of activations, which are weights of type F32. */
static void wide_quantize(const struct kvc_quantize_rows_int16 *args, size_t first, size_t last) {
    const size_t blocks = args->K / KVC_INT16_BLOCK;
    const float *x = kvc_span_data(args->x);
    kvc_i16 *quant = kvc_span_data(args->y.quant);
    float *scale = kvc_span_data(args->y.scale);
    for (size_t b = first * blocks; b < last * blocks; b++) {
        int16x8_t q[4];
        scale[b] = wide_block(KVC_F32, q, (const unsigned char *)(const void *)(x + 32 * b), 0);
        for (size_t i = 0; i < 4; i++)
            vst1q_s16(quant + 32 * b + 8 * i, q[i]);
    }
}

static const struct kvc_int8_kernels wide_kernels = {
    .few = SIZE_MAX, .wide_quantize = wide_quantize, .few_rows = wide_few_rows};

INT16_FUNCTIONS(PATH, &wide_kernels)

#endif
