/* weight_blocks.h - block formats of weights: their layout in GGUF files and the exact value of each weight. C, OpenCL
 * C and CUDA C include this file; the rules of canon.h apply. */
#ifndef KVC_CORE_BASE_WEIGHT_BLOCKS_H
#define KVC_CORE_BASE_WEIGHT_BLOCKS_H

#if !defined(__OPENCL_VERSION__) /* OpenCL sources are concatenated, not included */
#include "core/base/canon.h"
#endif

/* Blocks as stored in GGUF files (little-endian), and blocks of FP8 weights. KVC_DEQUANTIZE_<TYPE>(b, e) is the value
 * of element e of block b (an lvalue). All products are exact in binary32 (11 bits of scale, at most 12 bits of
 * sub-scale and quant together), except next to denormal results. Types with a minimum then round once, in the fma. So
 * the values equal the values of programs that multiply first and then add or subtract. */
struct kvc_block_q8_0 { /* 32 values: d * q */
    kvc_u8 d[2];
    kvc_i8 q[32];
};
struct kvc_block_q4_0 { /* 32 values: d * (q - 8); byte i holds element i (low half) and element i + 16 */
    kvc_u8 d[2];
    kvc_u8 q[16];
};
struct kvc_block_q5_0 { /* 32 values: d * (q - 16); layout of Q4_0; `high` has the elements' fifth bits */
    kvc_u8 d[2];
    kvc_u8 high[4];
    kvc_u8 q[16];
};
struct kvc_block_q4_1 { /* 32 values: fma(d, q, m); layout of Q4_0 */
    kvc_u8 d[2], m[2];
    kvc_u8 q[16];
};
struct kvc_block_q5_1 { /* 32 values: fma(d, q, m); layout of Q5_0 */
    kvc_u8 d[2], m[2];
    kvc_u8 high[4];
    kvc_u8 q[16];
};
struct kvc_block_iq4_nl { /* 32 values: d * kvc_iq4_value(q); layout of Q4_0 */
    kvc_u8 d[2];
    kvc_u8 q[16];
};
struct kvc_block_mxfp4 { /* 32 values: kvc_power_half(power) * kvc_e2m1_twice(q); layout of Q4_0 */
    kvc_u8 power[1];
    kvc_u8 q[16];
};
struct kvc_block_q2_k { /* 256 values: fma(d * scale, q, -(dmin * min)), 16 sub-blocks of 16 */
    kvc_u8 scale[16];   /* the minimum is in the high half */
    kvc_u8 q[64];
    kvc_u8 d[2], dmin[2];
};
struct kvc_block_iq4_xs { /* 256 values: (d * (scale - 32)) * kvc_iq4_value(q), 8 sub-blocks laid out as Q4_0
                           */
    kvc_u8 d[2];
    kvc_u8 high[2], low[4]; /* parts of the scales: two high bits, four low bits */
    kvc_u8 q[128];
};
struct kvc_block_q3_k { /* 256 values: (d * (scale - 32)) * (q - 4), 16 sub-blocks of 16 */
    kvc_u8 high[32];
    kvc_u8 q[64];
    kvc_u8 scale[12];
    kvc_u8 d[2];
};
struct kvc_block_q4_k { /* 256 values: fma(d * scale, q, -(dmin * min)), 8 sub-blocks of 32 */
    kvc_u8 d[2], dmin[2];
    kvc_u8 scale[12];
    kvc_u8 q[128];
};
struct kvc_block_q5_k { /* 256 values: as Q4_K with a fifth bit */
    kvc_u8 d[2], dmin[2];
    kvc_u8 scale[12];
    kvc_u8 high[32];
    kvc_u8 q[128];
};
struct kvc_block_q6_k { /* 256 values: (d * scale) * (q - 32), 16 sub-blocks of 16 */
    kvc_u8 low[128];
    kvc_u8 high[64];
    kvc_i8 scale[16];
    kvc_u8 d[2];
};

struct kvc_block_fp8 { /* 128 values: scale * e4m3, rounded once; only in memory, never in files (models/files/scaled.h)
                        */
    kvc_u8 scale[4];   /* a float32, little-endian */
    kvc_u8 q[128];
};

/* The 16 values of IQ4_NL and IQ4_XS, which are denser near 0, as bytes of four words. */
#define KVC_IQ4_WORD_0 0xbfad9881u
#define KVC_IQ4_WORD_1 0xf6eaddcfu
#define KVC_IQ4_WORD_2 0x26190d01u
#define KVC_IQ4_WORD_3 0x71594535u
KVC_INLINE int kvc_iq4_value(int q) {
    kvc_u32 low = q & 4 ? KVC_IQ4_WORD_1 : KVC_IQ4_WORD_0, high = q & 4 ? KVC_IQ4_WORD_3 : KVC_IQ4_WORD_2;
    return (kvc_i8)((q & 8 ? high : low) >> (q & 3) * 8 & 255);
}
/* An E2M1 number (one sign bit, two exponent bits, one fraction bit) times two: 0, 1, 2, 3, 4, 6, 8, 12 and their
 * negatives. 0 occurs twice. */
#define KVC_E2M1_WORD_0 0x03020100u
#define KVC_E2M1_WORD_1 0x0c080604u
KVC_INLINE int kvc_e2m1_twice(int q) {
    int magnitude = (int)((q & 4 ? KVC_E2M1_WORD_1 : KVC_E2M1_WORD_0) >> (q & 3) * 8 & 255);
    return q & 8 ? -magnitude : magnitude;
}
/* 2^(e - 128), which is half the scale that the byte represents (E8M0, 2^(e - 127)). It is denormal for e below 2. */
KVC_INLINE float kvc_power_half(kvc_u8 e) { return kvc_from_bits(e < 2 ? 0x00200000u << e : (kvc_u32)(e - 1) << 23); }

/* Quants as integers, centered if the type has no minimum. b is a block as an lvalue, and e is an element's index in
 * the block. */
#define KVC_Q8_0_QUANT(b, e) ((int)(b).q[e])
#define KVC_Q4_1_QUANT(b, e) ((int)((b).q[(e) % 16] >> ((e) / 16 * 4) & 15))
#define KVC_Q5_1_QUANT(b, e)                                                                                           \
    ((int)(((b).q[(e) % 16] >> ((e) / 16 * 4) & 15) | ((b).high[(e) / 8] >> ((e) % 8) & 1) << 4))
#define KVC_Q4_0_QUANT(b, e) (KVC_Q4_1_QUANT(b, e) - 8)
#define KVC_Q5_0_QUANT(b, e) (KVC_Q5_1_QUANT(b, e) - 16)
#define KVC_IQ4_NL_QUANT(b, e) kvc_iq4_value(KVC_Q4_1_QUANT(b, e))
#define KVC_MXFP4_QUANT(b, e) kvc_e2m1_twice(KVC_Q4_1_QUANT(b, e))
#define KVC_IQ4_XS_QUANT(b, e) kvc_iq4_value((int)((b).q[(e) / 32 * 16 + (e) % 16] >> ((e) % 32 / 16 * 4) & 15))
#define KVC_Q2_K_QUANT(b, e) ((int)((b).q[(e) / 128 * 32 + (e) % 32] >> ((e) % 128 / 32 * 2) & 3))
#define KVC_Q3_K_QUANT(b, e)                                                                                           \
    ((int)(((b).q[(e) / 128 * 32 + (e) % 32] >> ((e) % 128 / 32 * 2) & 3) | ((b).high[(e) % 32] >> ((e) / 32) & 1)     \
                                                                                << 2) -                                \
     4)
#define KVC_Q4_K_QUANT(b, e) ((int)((b).q[(e) / 64 * 32 + (e) % 32] >> ((e) / 32 % 2 * 4) & 15))
#define KVC_Q5_K_QUANT(b, e)                                                                                           \
    ((int)(((b).q[(e) / 64 * 32 + (e) % 32] >> ((e) / 32 % 2 * 4) & 15) | ((b).high[(e) % 32] >> ((e) / 32) & 1) << 4))
#define KVC_Q6_K_QUANT(b, e)                                                                                           \
    ((int)(((b).low[(e) / 128 * 64 + (e) % 64] >> ((e) % 128 / 64 * 4) & 15) |                                         \
           ((b).high[(e) / 128 * 32 + (e) % 32] >> ((e) % 128 / 32 * 2) & 3) << 4) -                                   \
     32)
/* Sub-block scales as integers. s is the sub-block's index: e / 16 for Q2_K, Q3_K and Q6_K, and e / 32 for the others.
 */
#define KVC_Q2_K_SCALE(b, s) ((int)((b).scale[s] & 15))
#define KVC_Q2_K_MIN(b, s) ((int)((b).scale[s] >> 4))
#define KVC_IQ4_XS_SCALE(b, s)                                                                                         \
    ((int)(((b).low[(s) / 2] >> ((s) % 2 * 4) & 15) | ((b).high[(s) / 4] >> ((s) % 4 * 2) & 3) << 4) - 32)
#define KVC_Q3_K_SCALE(b, s)                                                                                           \
    ((int)(((b).scale[(s) % 8] >> ((s) / 8 * 4) & 15) | ((b).scale[8 + (s) % 4] >> ((s) / 4 * 2) & 3) << 4) - 32)
#define KVC_Q4_K_SCALE(b, s)                                                                                           \
    ((int)((s) < 4 ? (b).scale[(s) % 4] & 63 : ((b).scale[(s) % 4 + 8] & 15) | ((b).scale[(s) % 4] >> 6) << 4))
#define KVC_Q4_K_MIN(b, s)                                                                                             \
    ((int)((s) < 4 ? (b).scale[(s) % 4 + 4] & 63 : ((b).scale[(s) % 4 + 8] >> 4) | ((b).scale[(s) % 4 + 4] >> 6) << 4))

/* Values without a minimum (d times an integer scale times an integer quant) and with a minimum. */
KVC_INLINE float kvc_weight_scaled(float d, int scale, int quant) { return (d * (float)scale) * (float)quant; }
KVC_INLINE float kvc_weight_offset(float d, float dmin, int scale, int min, int quant) {
    return kvc_fma(d * (float)scale, (float)quant, -(dmin * (float)min));
}
#define KVC_DEQUANTIZE_Q8_0(b, e) (KVC_HALF((b).d) * (float)(b).q[e])
#define KVC_DEQUANTIZE_Q4_0(b, e) (KVC_HALF((b).d) * (float)KVC_Q4_0_QUANT(b, e))
#define KVC_DEQUANTIZE_Q5_0(b, e) (KVC_HALF((b).d) * (float)KVC_Q5_0_QUANT(b, e))
#define KVC_DEQUANTIZE_Q4_1(b, e) kvc_fma(KVC_HALF((b).d), (float)KVC_Q4_1_QUANT(b, e), KVC_HALF((b).m))
#define KVC_DEQUANTIZE_Q5_1(b, e) kvc_fma(KVC_HALF((b).d), (float)KVC_Q5_1_QUANT(b, e), KVC_HALF((b).m))
#define KVC_DEQUANTIZE_IQ4_NL(b, e) (KVC_HALF((b).d) * (float)KVC_IQ4_NL_QUANT(b, e))
#define KVC_DEQUANTIZE_MXFP4(b, e) (kvc_power_half((b).power[0]) * (float)KVC_MXFP4_QUANT(b, e))
/* The scale of a block of FP8. */
#define KVC_FP8_SCALE(b)                                                                                               \
    kvc_from_bits((kvc_u32)(b).scale[0] | (kvc_u32)(b).scale[1] << 8 | (kvc_u32)(b).scale[2] << 16 |                   \
                  (kvc_u32)(b).scale[3] << 24)
#define KVC_DEQUANTIZE_FP8(b, e) (kvc_e4m3_to_f32((b).q[e]) * KVC_FP8_SCALE(b))
#define KVC_DEQUANTIZE_Q2_K(b, e)                                                                                      \
    kvc_weight_offset(KVC_HALF((b).d), KVC_HALF((b).dmin), KVC_Q2_K_SCALE(b, (e) / 16), KVC_Q2_K_MIN(b, (e) / 16),     \
                      KVC_Q2_K_QUANT(b, e))
#define KVC_DEQUANTIZE_IQ4_XS(b, e)                                                                                    \
    kvc_weight_scaled(KVC_HALF((b).d), KVC_IQ4_XS_SCALE(b, (e) / 32), KVC_IQ4_XS_QUANT(b, e))
#define KVC_DEQUANTIZE_Q3_K(b, e) kvc_weight_scaled(KVC_HALF((b).d), KVC_Q3_K_SCALE(b, (e) / 16), KVC_Q3_K_QUANT(b, e))
#define KVC_DEQUANTIZE_Q6_K(b, e) kvc_weight_scaled(KVC_HALF((b).d), (b).scale[(e) / 16], KVC_Q6_K_QUANT(b, e))
#define KVC_DEQUANTIZE_Q4_K(b, e)                                                                                      \
    kvc_weight_offset(KVC_HALF((b).d), KVC_HALF((b).dmin), KVC_Q4_K_SCALE(b, (e) / 32), KVC_Q4_K_MIN(b, (e) / 32),     \
                      KVC_Q4_K_QUANT(b, e))
#define KVC_DEQUANTIZE_Q5_K(b, e)                                                                                      \
    kvc_weight_offset(KVC_HALF((b).d), KVC_HALF((b).dmin), KVC_Q4_K_SCALE(b, (e) / 32), KVC_Q4_K_MIN(b, (e) / 32),     \
                      KVC_Q5_K_QUANT(b, e))

/* Definitions for int8 products (canon.h). The quants above are in -128 .. 127. KVC_INT8_WIDTH_<TYPE> consecutive
 * quants are a piece: they share a scale and a minimum, with value = scale * quant - minimum. float32 represents both
 * exactly, except next to denormal results. s is the piece's index, e / width. KVC_INT8_MIN_<TYPE> is 0.0f if
 * KVC_INT8_HAS_MIN_<TYPE> is 0. */
#define KVC_INT8_WIDTH_Q8_0 32
#define KVC_INT8_WIDTH_Q4_0 32
#define KVC_INT8_WIDTH_Q5_0 32
#define KVC_INT8_WIDTH_Q3_K 16
#define KVC_INT8_WIDTH_Q4_K 32
#define KVC_INT8_WIDTH_Q5_K 32
#define KVC_INT8_WIDTH_Q6_K 16
#define KVC_INT8_WIDTH_Q4_1 32
#define KVC_INT8_WIDTH_Q5_1 32
#define KVC_INT8_WIDTH_IQ4_NL 32
#define KVC_INT8_WIDTH_MXFP4 32
#define KVC_INT8_WIDTH_Q2_K 16
#define KVC_INT8_WIDTH_IQ4_XS 32
#define KVC_INT8_HAS_MIN_Q8_0 0
#define KVC_INT8_HAS_MIN_Q4_0 0
#define KVC_INT8_HAS_MIN_Q5_0 0
#define KVC_INT8_HAS_MIN_Q3_K 0
#define KVC_INT8_HAS_MIN_Q4_K 1
#define KVC_INT8_HAS_MIN_Q5_K 1
#define KVC_INT8_HAS_MIN_Q6_K 0
#define KVC_INT8_HAS_MIN_Q4_1 1
#define KVC_INT8_HAS_MIN_Q5_1 1
#define KVC_INT8_HAS_MIN_IQ4_NL 0
#define KVC_INT8_HAS_MIN_MXFP4 0
#define KVC_INT8_HAS_MIN_Q2_K 1
#define KVC_INT8_HAS_MIN_IQ4_XS 0
#define KVC_Q5_K_SCALE KVC_Q4_K_SCALE
#define KVC_Q5_K_MIN KVC_Q4_K_MIN
#define KVC_Q6_K_SCALE(b, s) ((int)(b).scale[s])
#define KVC_INT8_SCALE_Q8_0(b, s) KVC_HALF((b).d)
#define KVC_INT8_SCALE_Q4_0(b, s) KVC_HALF((b).d)
#define KVC_INT8_SCALE_Q5_0(b, s) KVC_HALF((b).d)
#define KVC_INT8_SCALE_Q3_K(b, s) (KVC_HALF((b).d) * (float)KVC_Q3_K_SCALE(b, s))
#define KVC_INT8_SCALE_Q4_K(b, s) (KVC_HALF((b).d) * (float)KVC_Q4_K_SCALE(b, s))
#define KVC_INT8_SCALE_Q5_K(b, s) (KVC_HALF((b).d) * (float)KVC_Q5_K_SCALE(b, s))
#define KVC_INT8_SCALE_Q6_K(b, s) (KVC_HALF((b).d) * (float)KVC_Q6_K_SCALE(b, s))
#define KVC_INT8_SCALE_Q4_1(b, s) KVC_HALF((b).d)
#define KVC_INT8_SCALE_Q5_1(b, s) KVC_HALF((b).d)
#define KVC_INT8_SCALE_IQ4_NL(b, s) KVC_HALF((b).d)
#define KVC_INT8_SCALE_MXFP4(b, s) kvc_power_half((b).power[0])
#define KVC_INT8_SCALE_Q2_K(b, s) (KVC_HALF((b).d) * (float)KVC_Q2_K_SCALE(b, s))
#define KVC_INT8_SCALE_IQ4_XS(b, s) (KVC_HALF((b).d) * (float)KVC_IQ4_XS_SCALE(b, s))
#define KVC_INT8_MIN_Q8_0(b, s) 0.0f
#define KVC_INT8_MIN_Q4_0(b, s) 0.0f
#define KVC_INT8_MIN_Q5_0(b, s) 0.0f
#define KVC_INT8_MIN_Q3_K(b, s) 0.0f
#define KVC_INT8_MIN_Q4_K(b, s) (KVC_HALF((b).dmin) * (float)KVC_Q4_K_MIN(b, s))
#define KVC_INT8_MIN_Q5_K(b, s) (KVC_HALF((b).dmin) * (float)KVC_Q5_K_MIN(b, s))
#define KVC_INT8_MIN_Q6_K(b, s) 0.0f
#define KVC_INT8_MIN_Q4_1(b, s) (-KVC_HALF((b).m))
#define KVC_INT8_MIN_Q5_1(b, s) (-KVC_HALF((b).m))
#define KVC_INT8_MIN_IQ4_NL(b, s) 0.0f
#define KVC_INT8_MIN_MXFP4(b, s) 0.0f
#define KVC_INT8_MIN_Q2_K(b, s) (KVC_HALF((b).dmin) * (float)KVC_Q2_K_MIN(b, s))
#define KVC_INT8_MIN_IQ4_XS(b, s) 0.0f

#endif
