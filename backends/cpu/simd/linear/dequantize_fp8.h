/* dequantize_fp8.h - dequantizes FP8 weights (e4m3), which have a float32 scale for each 128 weights of a row. Part of
 * dequantize.h. */
#ifndef KVC_SIMD_LINEAR_DEQUANTIZE_FP8_H
#define KVC_SIMD_LINEAR_DEQUANTIZE_FP8_H

#include "backends/cpu/simd/linear/scales.h"

/* Loads LANES e4m3 numbers as float32. Shifts exponent and fraction left by seven bits, to the exponent and fraction of
 * an F16, whose exponent bias is larger by 8. CPUs convert F16 without slowing down for denormal numbers. If all these
 * seven bits are ones, the number is a NaN, whatever its sign. */
INLINE vf load_e4m3(const unsigned char *p) {
#if LANES == 16
    const __m256i ones = _mm256_set1_epi16((short)0xbf80), sign = _mm256_set1_epi16((short)0x8000);
    const __m256i bytes = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(bytes, 7), ones);
    const __m256i none = _mm256_cmpeq_epi16(_mm256_or_si256(half, sign), ones);
    return vf_mul(_mm512_cvtph_ps(_mm256_or_si256(half, none)), vf_set(256));
#elif LANES == 8
    const __m128i ones = _mm_set1_epi16((short)0xbf80), sign = _mm_set1_epi16((short)0x8000);
    const __m128i bytes = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)p));
    const __m128i half = _mm_and_si128(_mm_slli_epi16(bytes, 7), ones);
    const __m128i none = _mm_cmpeq_epi16(_mm_or_si128(half, sign), ones);
    return vf_mul(_mm256_cvtph_ps(_mm_or_si128(half, none)), vf_set(256));
#else
    const uint16x4_t ones = vdup_n_u16(0xbf80), sign = vdup_n_u16(0x8000);
    const int16x4_t bytes = vget_low_s16(vmovl_s8(vcreate_s8((uint64_t)load_u32(p))));
    const uint16x4_t half = vand_u16(vreinterpret_u16_s16(vshl_n_s16(bytes, 7)), ones);
    const uint16x4_t none = vceq_u16(vorr_u16(half, sign), ones);
    return vf_mul(vcvt_f32_f16(vreinterpret_f16_u16(vorr_u16(half, none))), vf_set(256));
#endif
}

INLINE void prepare_fp8(struct scales *s, const unsigned char *g, int parts) {
    for (int p = 0; p < parts; p++)
        memcpy(&s->scale[p], g + (size_t)(p / 4) * sizeof(struct kvc_block_fp8), sizeof s->scale[p]);
}
INLINE void dequantize_fp8(vf *w, const unsigned char *g, int p, const struct scales *s) {
    const unsigned char *q =
        g + (size_t)(p / 4) * sizeof(struct kvc_block_fp8) + offsetof(struct kvc_block_fp8, q) + p % 4 * KVC_LANES;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_mul_by(load_e4m3(q + v * LANES), &s->scale[p]);
}

#endif
