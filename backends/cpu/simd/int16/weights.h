/* weights.h - template: quantizes a block of 256 weights of a row to 15 bits, in 256-bit vectors. */
#ifndef KVC_SIMD_INT16_WEIGHTS_H
#define KVC_SIMD_INT16_WEIGHTS_H

#include <immintrin.h>
#include <string.h>

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/int8/parameters.h"
#include "backends/cpu/simd/lanes/unroll.h"

/* A quantized block. The last block of a row may have fewer parts of 32 weights; its other parts are zeros. */
struct wide_weights {
    __m256i quant[16];
    float scale;
};

/* The place of a block in a row of weights. */
struct wide_place {
    const unsigned char *data;
    const float *scale; /* for packed weights only */
};

INLINE struct wide_place wide_row(const struct kvc_int8_call *call, size_t n) {
    return (struct wide_place){call->w + n * call->row_bytes,
                               call->w_scale ? call->w_scale + n * ((call->K + 255) / 256) : NULL};
}

/* Returns the size of 256 weights in bytes. */
INLINE int wide_bytes(const enum kvc_type type) { return type == KVC_F32 ? 1024 : type == KVC_FP8 ? 264 : 512; }

INLINE __m128i load_16_bytes(const unsigned char *from) { return _mm_loadu_si128((const __m128i *)(const void *)from); }

/* Converts eight FP8 numbers to floats. The seven bits of exponent and fraction become those of an F16, whose exponent
 * bias is larger by 8. If all seven are ones, the number is a NaN. */
INLINE __m256 floats_of_e4m3(const unsigned char *from) {
    const __m128i ones = _mm_set1_epi16((short)0xbf80), sign = _mm_set1_epi16((short)0x8000);
    const __m128i bytes = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)from));
    const __m128i half = _mm_and_si128(_mm_slli_epi16(bytes, 7), ones);
    const __m128i none = _mm_cmpeq_epi16(_mm_or_si128(half, sign), ones);
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(half, none)), _mm256_set1_ps(256.0f));
}

/* Loads weights 8 i .. 8 i + 7 of a group as floats. */
INLINE __m256 wide_floats(const enum kvc_type type, const unsigned char *group, int i) {
    if (type == KVC_F16)
        return _mm256_cvtph_ps(load_16_bytes(group + 16 * i));
    if (type == KVC_BF16)
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16_bytes(group + 16 * i)), 16));
    if (type == KVC_F32)
        return _mm256_loadu_ps((const float *)(const void *)(group + 32 * i));
    float scale; /* FP8: 128 weights share a scale, which is stored before them */
    const unsigned char *block = group + i / 16 * 132;
    memcpy(&scale, block, sizeof scale);
    return _mm256_mul_ps(floats_of_e4m3(block + 4 + 8 * (i % 16)), _mm256_set1_ps(scale));
}

/* Returns elements whose maximum is the top (largest magnitude) of a part. The elements have 16 bits for F16 and BF16,
 * otherwise 32. */
INLINE __m256i magnitudes(const enum kvc_type type, const unsigned char *group, int part) {
    if (type == KVC_F16 || type == KVC_BF16) {
        const __m256i *w = (const __m256i *)(const void *)(group + 64 * part);
        const __m256i mask = _mm256_set1_epi16(0x7fff);
        return _mm256_max_epi16(_mm256_and_si256(_mm256_loadu_si256(w), mask),
                                _mm256_and_si256(_mm256_loadu_si256(w + 1), mask));
    }
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    UNROLL
    for (int i = 0; i < 4; i++)
        most =
            _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(wide_floats(type, group, 4 * part + i)), mask));
    return most;
}

/* Returns the top of a block, its largest magnitude, as the bits of a float. The block has `parts` parts. */
INLINE kvc_u32 wide_top(const enum kvc_type type, const unsigned char *group, int parts) {
    const bool halves = type == KVC_F16 || type == KVC_BF16;
    __m256i most = _mm256_setzero_si256();
    for (int part = 0; part < parts; part++)
        most = halves ? _mm256_max_epi16(most, magnitudes(type, group, part))
                      : _mm256_max_epi32(most, magnitudes(type, group, part));
    if (halves) /* takes the larger element of each pair and widens it to 32 bits */
        most = _mm256_max_epi32(_mm256_and_si256(most, _mm256_set1_epi32(0xffff)), _mm256_srli_epi32(most, 16));
    __m128i x = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1));
    const kvc_u32 top = (kvc_u32)_mm_cvtsi128_si32(x);
    return type == KVC_F16 ? kvc_bits(_cvtsh_ss((unsigned short)top)) : type == KVC_BF16 ? top << 16 : top;
}

/* Quantizes sixteen numbers. If the block's top is an infinity or a NaN, the quants are undefined. They do not matter
 * then, because the block's products are NaN in any case. */
INLINE __m256i wide_quants(__m256 a, __m256 b, __m256 inverse) {
    const __m256i packed = _mm256_packs_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(a, inverse)),
                                              _mm256_cvtps_epi32(_mm256_mul_ps(b, inverse)));
    return _mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0));
}

/* Loads the block if the weights are packed; otherwise quantizes it. The block has `parts` parts. `type` is a
 * constant. */
INLINE void wide_unpack(const enum kvc_type type, struct wide_weights *u, struct wide_place at, int parts) {
    if (type == KVC_PACKED) {
        u->scale = *at.scale;
        UNROLL
        for (int i = 0; i < 16; i++)
            u->quant[i] =
                i < 2 * parts ? _mm256_loadu_si256((const __m256i *)(const void *)at.data + i) : _mm256_setzero_si256();
        return;
    }
    const kvc_u32 top = wide_top(type, at.data, parts);
    const __m256 inverse = _mm256_set1_ps(kvc_int16_inverse(top));
    u->scale = kvc_int16_scale(top);
    UNROLL
    for (int i = 0; i < 16; i++)
        u->quant[i] = i < 2 * parts ? wide_quants(wide_floats(type, at.data, 2 * i),
                                                  wide_floats(type, at.data, 2 * i + 1), inverse)
                                    : _mm256_setzero_si256();
}

/* Calls m(TYPE, name) for each type of weights. */
#define WIDE_TYPES(m) m(KVC_F32, f32) m(KVC_F16, f16) m(KVC_BF16, bf16) m(KVC_FP8, fp8) m(KVC_PACKED, packed)
enum { WIDE_TABLE = KVC_PACKED + 1 };

/* Quantizes a row of K weights. */
INLINE void wide_quantize_row(const enum kvc_type type, const unsigned char *from, kvc_i16 *quant, float *scale,
                              size_t K) {
    for (size_t k = 0; k < K; k += 256, from += wide_bytes(type)) {
        const int parts = (int)(kvc_min_u64(256, K - k) / 32);
        struct wide_weights u;
        wide_unpack(type, &u, (struct wide_place){from, NULL}, parts);
        scale[k / 256] = u.scale;
        const __m256i some = _mm256_set1_epi32(kvc_is_nan(u.scale) ? 0 : -1);
        for (int i = 0; i < 2 * parts; i++)
            _mm256_storeu_si256((__m256i *)(void *)(quant + k + 16 * (size_t)i), _mm256_and_si256(some, u.quant[i]));
    }
}

INLINE kvc_i32 sum_elements(__m256i x) {
    __m128i y = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(y, _mm_shuffle_epi32(y, 0xb1)));
}

#endif
