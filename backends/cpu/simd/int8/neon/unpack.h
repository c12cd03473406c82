/* unpack.h - template: unpacks 256 weights of any type to bytes and scales, in 128-bit vectors. quant[2 * i] and
 * quant[2 * i + 1] hold block i of 32 weights. The bytes are signed and exceed the quants by OFFSET_<type>. */
#ifndef KVC_SIMD_INT8_NEON_UNPACK_H
#define KVC_SIMD_INT8_NEON_UNPACK_H

#include <string.h>

#include "core/base/weight_blocks.h"
#include "backends/cpu/simd/int8/neon/parameters.h"
#include "backends/cpu/simd/int8/types.h"

struct unpacked {
    int8x16_t quant[16];
    float32x4_t scale[2][2],
        minimum[2][2]; /* [piece][blocks 0 to 3 or 4 to 7]; piece 0 is the first or the only piece of a block */
};

#define OFFSET_q8_0 0
#define OFFSET_q4_0 8
#define OFFSET_q5_0 16
#define OFFSET_q3_k 4
#define OFFSET_q4_k 0
#define OFFSET_q5_k 0
#define OFFSET_q6_k 32
#define OFFSET_q4_1 0
#define OFFSET_q5_1 0
#define OFFSET_iq4_nl 0
#define OFFSET_mxfp4 0
#define OFFSET_q2_k 0
#define OFFSET_iq4_xs 0

INLINE uint8x16_t load16(const unsigned char *from) { return vld1q_u8(from); }
INLINE uint8x16_t low_halves(uint8x16_t x) { return vandq_u8(x, vdupq_n_u8(15)); }
INLINE uint8x16_t high_halves(uint8x16_t x) { return vshrq_n_u8(x, 4); }
INLINE int8x16_t signed_of(uint8x16_t x) { return vreinterpretq_s8_u8(x); }
/* Shifts every byte right by `shift` bits (left if negative) and masks it. */
INLINE uint8x16_t bits(uint8x16_t x, int shift, int mask) {
    return vandq_u8(vshlq_u8(x, vdupq_n_s8((int8_t)-shift)), vdupq_n_u8((uint8_t)mask));
}
/* Sets byte i to 16 if bit i of the 16 bits is set, otherwise to 0. */
INLINE uint8x16_t fifth_bits(const unsigned char *two) {
    static const uint8_t bit[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t spread = vcombine_u8(vdup_n_u8(two[0]), vdup_n_u8(two[1])),
                     of = vcombine_u8(vld1_u8(bit), vld1_u8(bit));
    return vandq_u8(vtstq_u8(spread, of), vdupq_n_u8(16));
}
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t e2m1_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

INLINE void no_floats(float32x4_t *to) { to[0] = to[1] = vdupq_n_f32(0.0f); }
/* Loads the F16 value at the same offset in each of `parts` neighbouring blocks of `stride` bytes. The other elements
 * are 0. */
INLINE void halves(float32x4_t *to, const unsigned char *g, size_t stride, int parts) {
    uint16_t some[8] = {0};
    UNROLL
    for (int i = 0; i < 8; i++)
        if (i < parts)
            some[i] = KVC_LOAD_U16(g + (size_t)i * stride);
    to[0] = vf_load_f16(some);
    to[1] = vf_load_f16(some + 4);
}
INLINE void negated_halves(float32x4_t *to, const unsigned char *g, size_t stride, int parts) {
    halves(to, g, stride, parts);
    to[0] = vnegq_f32(to[0]);
    to[1] = vnegq_f32(to[1]);
}
INLINE void powers(float32x4_t *to, const unsigned char *g, int parts) {
    float power[8];
    for (int i = 0; i < 8; i++)
        power[i] = kvc_power_half(g[(i < parts ? i : 0) * 17]);
    to[0] = vld1q_f32(power);
    to[1] = vld1q_f32(power + 4);
}
/* Converts eight bytes to floats and multiplies them by an F16 value. */
INLINE void times_signed(float32x4_t *to, const unsigned char *half, int8x8_t x) {
    const float32x4_t d = vdupq_n_f32(half_load(half));
    const int16x8_t wide = vmovl_s8(x);
    to[0] = vmulq_f32(d, vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))));
    to[1] = vmulq_f32(d, vcvtq_f32_s32(vmovl_s16(vget_high_s16(wide))));
}
INLINE int8x8_t evens(int8x16_t x) { return vget_low_s8(vuzp1q_s8(x, x)); }
INLINE int8x8_t odds(int8x16_t x) { return vget_low_s8(vuzp2q_s8(x, x)); }

/* ---- blocks of 32 ---- */

#define LOW(from) low_halves(load16(from))
#define HIGH(from) high_halves(load16(from))
#define LOOKED_UP(table, index) vqtbl1q_s8(vld1q_s8(table), index)
/* Unpacks the quants of one block. */
INLINE void unpack_block(const enum kvc_type type, int8x16_t *to, const unsigned char *b) {
    switch ((int)type) {
    case KVC_Q8_0:
        to[0] = signed_of(load16(b + 2));
        to[1] = signed_of(load16(b + 18));
        break;
    case KVC_Q4_0:
        to[0] = signed_of(LOW(b + 2));
        to[1] = signed_of(HIGH(b + 2));
        break;
    case KVC_Q5_0:
        to[0] = signed_of(vorrq_u8(LOW(b + 6), fifth_bits(b + 2)));
        to[1] = signed_of(vorrq_u8(HIGH(b + 6), fifth_bits(b + 4)));
        break;
    case KVC_Q4_1:
        to[0] = signed_of(LOW(b + 4));
        to[1] = signed_of(HIGH(b + 4));
        break;
    case KVC_Q5_1:
        to[0] = signed_of(vorrq_u8(LOW(b + 8), fifth_bits(b + 4)));
        to[1] = signed_of(vorrq_u8(HIGH(b + 8), fifth_bits(b + 6)));
        break;
    case KVC_IQ4_NL:
        to[0] = LOOKED_UP(iq4_values, LOW(b + 2));
        to[1] = LOOKED_UP(iq4_values, HIGH(b + 2));
        break;
    default: /* KVC_MXFP4 */
        to[0] = LOOKED_UP(e2m1_values, LOW(b + 1));
        to[1] = LOOKED_UP(e2m1_values, HIGH(b + 1));
    }
}
/* Unpacks `parts` blocks; beyond the end of a row, repeats the first block. */
INLINE void unpack_blocks(const enum kvc_type type, struct unpacked *u, const unsigned char *g, int parts) {
    const int bytes = group_bytes(type) / 8;
    UNROLL
    for (int i = 0; i < 8; i++)
        unpack_block(type, &u->quant[2 * i], g + (i < parts ? i : 0) * bytes);
    if (type == KVC_MXFP4)
        powers(u->scale[0], g, parts);
    else
        halves(u->scale[0], g, (size_t)bytes, parts);
    if (has_minimum(type))
        negated_halves(u->minimum[0], g + 2, (size_t)bytes, parts);
    else
        no_floats(u->minimum[0]);
}

/* ---- blocks of 256 ---- */

/* Unpacks the scales and minimums of Q4_K and Q5_K: eight of each, six bits wide, in 12 bytes. */
INLINE void unpack_six_bits(struct unpacked *u, const unsigned char *g) {
    kvc_u32 a, b, c;
    memcpy(&a, g + 4, 4);
    memcpy(&b, g + 8, 4);
    memcpy(&c, g + 12, 4);
    const kvc_u32 scale_high = (c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u);
    const kvc_u32 minimum_high = (c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u);
    times_signed(u->scale[0], g, vcreate_s8((a & 0x3f3f3f3fu) | (uint64_t)scale_high << 32));
    times_signed(u->minimum[0], g + 2, vcreate_s8((b & 0x3f3f3f3fu) | (uint64_t)minimum_high << 32));
}
INLINE void unpack_q4_k(struct unpacked *u, const unsigned char *g) {
    UNROLL
    for (int j = 0; j < 4; j++) {
        UNROLL
        for (int i = 0; i < 2; i++) {
            const uint8x16_t x = load16(g + 16 + 32 * j + 16 * i);
            u->quant[4 * j + i] = signed_of(low_halves(x));
            u->quant[4 * j + 2 + i] = signed_of(high_halves(x));
        }
    }
    unpack_six_bits(u, g);
}
INLINE void unpack_q5_k(struct unpacked *u, const unsigned char *g) {
    UNROLL
    for (int i = 0; i < 2; i++) {
        const uint8x16_t high = load16(g + 16 + 16 * i);
        UNROLL
        for (int j = 0; j < 4; j++) {
            const uint8x16_t x = load16(g + 48 + 32 * j + 16 * i);
            u->quant[4 * j + i] = signed_of(vorrq_u8(low_halves(x), bits(high, 2 * j - 4, 16)));
            u->quant[4 * j + 2 + i] = signed_of(vorrq_u8(high_halves(x), bits(high, 2 * j - 3, 16)));
        }
    }
    unpack_six_bits(u, g);
}
/* Unpacks the scales of sub-blocks of 16 quants. */
INLINE void scale_pairs(float32x4_t (*to)[2], const unsigned char *half, int8x16_t scale) {
    times_signed(to[0], half, evens(scale));
    times_signed(to[1], half, odds(scale));
}
INLINE void unpack_q6_k(struct unpacked *u, const unsigned char *g) {
    UNROLL
    for (int h = 0; h < 2; h++) {
        UNROLL
        for (int i = 0; i < 2; i++) {
            const uint8x16_t a = load16(g + 64 * h + 16 * i), b = load16(g + 64 * h + 32 + 16 * i);
            const uint8x16_t high = load16(g + 128 + 32 * h + 16 * i);
            u->quant[8 * h + i] = signed_of(vorrq_u8(low_halves(a), bits(high, -4, 0x30)));
            u->quant[8 * h + 2 + i] = signed_of(vorrq_u8(low_halves(b), bits(high, -2, 0x30)));
            u->quant[8 * h + 4 + i] = signed_of(vorrq_u8(high_halves(a), bits(high, 0, 0x30)));
            u->quant[8 * h + 6 + i] = signed_of(vorrq_u8(high_halves(b), bits(high, 2, 0x30)));
        }
    }
    scale_pairs(u->scale, g + 208, signed_of(load16(g + 192)));
}
INLINE void unpack_q3_k(struct unpacked *u, const unsigned char *g) {
    kvc_u32 a, b, c, six[4];
    memcpy(&a, g + 96, 4);
    memcpy(&b, g + 100, 4);
    memcpy(&c, g + 104, 4);
    six[0] = (a & 0x0f0f0f0fu) | (c << 4 & 0x30303030u);
    six[1] = (b & 0x0f0f0f0fu) | (c << 2 & 0x30303030u);
    six[2] = (a >> 4 & 0x0f0f0f0fu) | (c & 0x30303030u);
    six[3] = (b >> 4 & 0x0f0f0f0fu) | (c >> 2 & 0x30303030u);
    UNROLL
    for (int i = 0; i < 16; i++) {
        const uint8x16_t x = load16(g + 32 + i / 8 * 32 + i % 2 * 16), high = load16(g + i % 2 * 16);
        u->quant[i] = signed_of(vorrq_u8(bits(x, i / 2 % 4 * 2, 3), bits(high, i / 2 - 2, 4)));
    }
    scale_pairs(u->scale, g + 108, vsubq_s8(vreinterpretq_s8_u32(vld1q_u32(six)), vdupq_n_s8(32)));
}
INLINE void unpack_q2_k(struct unpacked *u, const unsigned char *g) {
    const uint8x16_t both = load16(g);
    UNROLL
    for (int i = 0; i < 16; i++)
        u->quant[i] = signed_of(bits(load16(g + 16 + i / 8 * 32 + i % 2 * 16), i / 2 % 4 * 2, 3));
    scale_pairs(u->scale, g + 80, signed_of(low_halves(both)));
    scale_pairs(u->minimum, g + 82, signed_of(high_halves(both)));
}
INLINE void unpack_iq4_xs(struct unpacked *u, const unsigned char *g) {
    uint64_t scale = 0;
    UNROLL
    for (int s = 0; s < 8; s++)
        scale |= (uint64_t)((g[4 + s / 2] >> (s % 2 * 4) & 15) | (g[2 + s / 4] >> (s % 4 * 2) & 3) << 4) << 8 * s;
    UNROLL
    for (int i = 0; i < 8; i++) {
        u->quant[2 * i] = LOOKED_UP(iq4_values, LOW(g + 8 + 16 * i));
        u->quant[2 * i + 1] = LOOKED_UP(iq4_values, HIGH(g + 8 + 16 * i));
    }
    times_signed(u->scale[0], g, vsub_s8(vcreate_s8(scale), vdup_n_s8(32)));
}

#include "backends/cpu/simd/int8/unpack_any.h"

#endif
