/* scales.h - the scales of a group of weights, and the bytes and vectors from which all types are dequantized. Part of
 * dequantize.h. */
#ifndef KVC_SIMD_LINEAR_SCALES_H
#define KVC_SIMD_LINEAR_SCALES_H

#include "core/base/weight_blocks.h"
#include "backends/cpu/simd/lanes/lanes.h"

#define GROUP 256

struct scales {
    _Alignas(64) int8_t quant[GROUP]; /* for types with several bit fields: the quants, assembled as bytes */
    float scale[32]; /* one per part or per 16 weights; for types with minimums, in the order of prepare_pairs or
                      * prepare_offset */
};

/* ---- integers ---- */

#if LANES == 16
INLINE vi load_u8(const unsigned char *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INLINE vi shift_right(vi a, vi n) { return _mm512_srlv_epi32(a, n); }
#elif LANES == 8
INLINE vi load_u8(const unsigned char *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
INLINE vi shift_right(vi a, vi n) { return _mm256_srlv_epi32(a, n); }
#else
INLINE vi load_u8(const unsigned char *p) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four)))));
}
INLINE vi shift_right(vi a, vi n) { return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), vnegq_s32(n))); }
#endif

/* ---- bytes: VB at a time, for every LANES ---- */

#if LANES >= 8
#define VB 32
typedef __m256i vb;
INLINE vb vb_load(const unsigned char *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
INLINE void vb_store(int8_t *p, vb a) { _mm256_storeu_si256((__m256i *)(void *)p, a); }
INLINE vb vb_bits(vb a, int shift, int mask) { /* shifts each byte and masks it */
    return _mm256_and_si256(_mm256_srl_epi16(a, _mm_cvtsi32_si128(shift)), _mm256_set1_epi8((char)mask));
}
INLINE vb vb_join(vb low, vb high, int shift) { /* low | high << shift; no bit leaves its byte */
    return _mm256_or_si256(low, _mm256_sll_epi16(high, _mm_cvtsi32_si128(shift)));
}
INLINE vb vb_less(vb a, int n) { return _mm256_sub_epi8(a, _mm256_set1_epi8((char)n)); }
#else
#define VB 16
typedef uint8x16_t vb;
INLINE vb vb_load(const unsigned char *p) { return vld1q_u8(p); }
INLINE void vb_store(int8_t *p, vb a) { vst1q_s8(p, vreinterpretq_s8_u8(a)); }
INLINE vb vb_bits(vb a, int shift, int mask) {
    return vandq_u8(vshlq_u8(a, vdupq_n_s8((int8_t)-shift)), vdupq_n_u8((uint8_t)mask));
}
INLINE vb vb_join(vb low, vb high, int shift) { return vorrq_u8(low, vshlq_u8(high, vdupq_n_s8((int8_t)shift))); }
INLINE vb vb_less(vb a, int n) { return vsubq_u8(a, vdupq_n_u8((uint8_t)n)); }
#endif

INLINE vi bits_of(vi a, int shift, int mask) { return vi_and(shift_right(a, vi_set(shift)), vi_set(mask)); }

/* Returns bytes i ... i + LANES - 1 of sixteen bytes that are given as four words. */
INLINE vi bytes_of(const uint32_t *words, int i) {
#if LANES == 16 /* uses no memory: a load that is wider than the preceding stores would wait for them */
    (void)i;
    return _mm512_cvtepu8_epi32(_mm_set_epi64x((long long)((uint64_t)words[3] << 32 | words[2]),
                                               (long long)((uint64_t)words[1] << 32 | words[0])));
#elif LANES == 8
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)((uint64_t)words[i / 4 + 1] << 32 | words[i / 4])));
#else
    return load_u8((const unsigned char *)words + i);
#endif
}

INLINE uint32_t load_u32(const unsigned char *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* ---- scales ---- */

/* Loads the F16 scales of `parts` blocks that are `stride` bytes apart. */
INLINE void prepare_halves(float *scale, const unsigned char *g, int parts, size_t stride) {
#if LANES >= 8
    if (parts == 8) { /* assembled in general registers, because the vector units are busy */
        uint64_t half[8];
        UNROLL
        for (int p = 0; p < 8; p++) {
            uint16_t h;
            memcpy(&h, g + (size_t)p * stride, sizeof h);
            half[p] = h;
        }
        uint64_t low = half[0] | half[1] << 16 | half[2] << 32 | half[3] << 48;
        uint64_t high = half[4] | half[5] << 16 | half[6] << 32 | half[7] << 48;
        __asm__("" : "+r"(low), "+r"(high)); /* keeps the compiler from vectorizing this */
        _mm256_storeu_ps(scale, _mm256_cvtph_ps(_mm_set_epi64x((long long)high, (long long)low)));
        return;
    }
#endif
    for (int p = 0; p < parts; p++)
        scale[p] = half_load(g + (size_t)p * stride);
}
/* The order of `scale` in types with minimums: scale, minimum, scale, minimum, ... */
#define PART_SCALE(p) (2 * (p))
#define PART_MIN(p) (2 * (p) + 1)
INLINE void prepare_pairs(struct scales *s, const unsigned char *g, int parts, size_t stride) {
#if LANES >= 8
    if (parts == 8) { /* assembled in general registers, as in prepare_halves */
        UNROLL
        for (int i = 0; i < 8; i += 4) {
            const unsigned char *b = g + (size_t)i * stride;
            uint64_t low = load_u32(b) | (uint64_t)load_u32(b + stride) << 32;
            uint64_t high = load_u32(b + 2 * stride) | (uint64_t)load_u32(b + 3 * stride) << 32;
            __asm__("" : "+r"(low), "+r"(high));
            _mm256_storeu_ps(s->scale + 2 * i, _mm256_cvtph_ps(_mm_set_epi64x((long long)high, (long long)low)));
        }
        return;
    }
#endif
    for (int p = 0; p < parts; p++) {
        s->scale[PART_SCALE(p)] = half_load(g + (size_t)p * stride);
        s->scale[PART_MIN(p)] = half_load(g + (size_t)p * stride + 2);
    }
}

/* Returns d * q + m. The product is exact, so the fma gives the same result as two separate roundings. */
INLINE vf minimum_value(vf quant, int p, const struct scales *s) {
    return vf_fma_by(quant, &s->scale[PART_SCALE(p)], vf_set(s->scale[PART_MIN(p)]));
}

#endif
