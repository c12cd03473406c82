/* quantize.h - template: quantizes rows of activations to eight bits, in 256-bit vectors. */
#ifndef KVC_SIMD_INT8_QUANTIZE_H
#define KVC_SIMD_INT8_QUANTIZE_H

#include <immintrin.h>

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/int8/parameters.h"
#include "backends/cpu/simd/lanes/unroll.h"

/* Quantizes a block of 32 values. */
INLINE void quantize_block(const float *x, kvc_i8 *quant, float *scale, kvc_i32 *sum) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256 v[4];
    __m256i most = _mm256_setzero_si256(), q[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
    }
    __m128i top = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0x4e));
    top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0xb1));
    const kvc_u32 bits = (kvc_u32)_mm_cvtsi128_si32(top);
    const float inverse = kvc_int8_inverse(bits);
    *scale = kvc_int8_scale(bits);
    if (inverse == 0.0f) {
        _mm256_storeu_si256((__m256i *)(void *)quant, _mm256_setzero_si256());
        sum[0] = sum[1] = 0;
        return;
    }
    UNROLL
    for (int i = 0; i < 4; i++)
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(inverse)));
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    _mm256_storeu_si256((__m256i *)(void *)quant,
                        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    UNROLL
    for (int i = 0; i < 2; i++) {
        const __m256i two = _mm256_add_epi32(q[2 * i], q[2 * i + 1]);
        __m128i s = _mm_add_epi32(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
        s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
        s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
        sum[i] = _mm_cvtsi128_si32(s);
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
