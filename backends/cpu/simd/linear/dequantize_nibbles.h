/* dequantize_nibbles.h - dequantizes four-bit weights, which index a table of 16 values: Q4_0, Q4_1, IQ4_NL, MXFP4,
 * IQ4_XS. Part of dequantize.h. */
#ifndef KVC_SIMD_LINEAR_DEQUANTIZE_NIBBLES_H
#define KVC_SIMD_LINEAR_DEQUANTIZE_NIBBLES_H

#include "backends/cpu/simd/linear/scales.h"

/* Calls row(NAME, name, stride, at) for each type. The 16 bytes of part p begin at offset `at` + p * stride. Their low
 * halves are the first 16 weights, their high halves the other 16. */
#define NIBBLE_TYPES(row)                                                                                              \
    row(Q4_0, q4_0, 18, 2) row(Q4_1, q4_1, 20, 4) row(IQ4_NL, iq4_nl, 18, 2) row(MXFP4, mxfp4, 17, 1)                  \
        row(IQ4_XS, iq4_xs, 16, 8)

INLINE void prepare_powers(float *scale, const unsigned char *g, int parts, size_t stride) {
    for (int p = 0; p < parts; p++)
        scale[p] = kvc_power_half(g[(size_t)p * stride]);
}
/* Computes d * (scale - 32). The integers are below 2^24, so the floats are exact. */
INLINE void prepare_iq4_xs_scales(float *to, const unsigned char *g) {
    const vi low = vi_set((int32_t)load_u32(g + offsetof(struct kvc_block_iq4_xs, low)));
    const vi high = vi_set(KVC_LOAD_U16(g + offsetof(struct kvc_block_iq4_xs, high)));
    const vf d = vf_set(half_load(g));
    UNROLL
    for (int i = 0; i < 8; i += LANES) { /* with 16 lanes, the last 8 are shifted out and not used */
        const vi twice = vi_add(vi_add(vi_ascending(), vi_set(i)), vi_add(vi_ascending(), vi_set(i)));
        const vf four = vf_from_int(vi_and(shift_right(low, vi_add(twice, twice)), vi_set(15)));
        const vf two = vf_from_int(vi_and(shift_right(high, twice), vi_set(3)));
        vf_store(to + i, vf_mul(d, vf_sub(vf_fma(two, vf_set(16), four), vf_set(32))));
    }
}

INLINE void prepare_q4_0(struct scales *s, const unsigned char *g, int parts) {
    prepare_halves(s->scale, g, parts, 18);
}
INLINE void prepare_q4_1(struct scales *s, const unsigned char *g, int parts) { prepare_pairs(s, g, parts, 20); }

#if LANES == 16

/* Return the 16 values that the weights of a part may have. */
INLINE vf table_q4_0(const struct scales *s, int p) {
    return vf_mul_by(_mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7), &s->scale[p]);
}
INLINE vf table_q4_1(const struct scales *s, int p) {
    return minimum_value(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), p, s);
}
INLINE vf table_iq4_nl(const struct scales *s, int p) {
    return vf_mul_by(_mm512_setr_ps(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113),
                     &s->scale[p]);
}
INLINE vf table_iq4_xs(const struct scales *s, int p) { return table_iq4_nl(s, p); }
INLINE vf table_mxfp4(const struct scales *s, int p) {
    return vf_mul_by(_mm512_setr_ps(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), &s->scale[p]);
}
INLINE void prepare_iq4_nl(struct scales *s, const unsigned char *g, int parts) {
    prepare_halves(s->scale, g, parts, 18);
}
INLINE void prepare_mxfp4(struct scales *s, const unsigned char *g, int parts) {
    prepare_powers(s->scale, g, parts, 17);
}
INLINE void prepare_iq4_xs(struct scales *s, const unsigned char *g, int parts) {
    (void)parts;
    prepare_iq4_xs_scales(s->scale, g);
}
#define DEQUANTIZE_NIBBLES(NAME, type, stride, at)                                                                     \
    INLINE void dequantize_##type(vf *w, const unsigned char *g, int p, const struct scales *s) {                      \
        const vf value = table_##type(s, p); /* the instruction uses only the low four bits of each index */           \
        const vi q = load_u8(g + p * (stride) + (at));                                                                 \
        w[0] = _mm512_permutexvar_ps(q, value);                                                                        \
        w[1] = _mm512_permutexvar_ps(_mm512_srli_epi32(q, 4), value);                                                  \
    }
NIBBLE_TYPES(DEQUANTIZE_NIBBLES)

#else

INLINE vf nibbles_of(const unsigned char *q, int v) { /* returns vector v of a part's weights as floats */
    return vf_from_int(bits_of(load_u8(q + v * LANES % 16), v * LANES / 16 * 4, 15));
}
INLINE void dequantize_q4_0(vf *w, const unsigned char *g, int p, const struct scales *s) {
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_mul_by(vf_sub(nibbles_of(g + p * 18 + 2, v), vf_set(8)), &s->scale[p]);
}
INLINE void dequantize_q4_1(vf *w, const unsigned char *g, int p, const struct scales *s) {
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = minimum_value(nibbles_of(g + p * 20 + 4, v), p, s);
}

/* For the other types, 16 bytes of nibbles index a table of bytes, part by part. */
static const int8_t table_iq4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t table_mxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
INLINE void look_up_nibbles(int8_t *to, const unsigned char *q, int parts, size_t stride, const int8_t *table) {
#if LANES == 8
    const __m128i t = _mm_loadu_si128((const __m128i *)(const void *)table), four = _mm_set1_epi8(15);
    for (int p = 0; p < parts; p++) {
        const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(q + (size_t)p * stride));
        const __m128i low = _mm_shuffle_epi8(t, _mm_and_si128(b, four));
        const __m128i high = _mm_shuffle_epi8(t, _mm_and_si128(_mm_srli_epi16(b, 4), four));
        vb_store(to + p * 32, _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1));
    }
#else
    const int8x16_t t = vld1q_s8(table);
    for (int p = 0; p < parts; p++) {
        const vb b = vb_load(q + (size_t)p * stride);
        vst1q_s8(to + p * 32, vqtbl1q_s8(t, vandq_u8(b, vdupq_n_u8(15))));
        vst1q_s8(to + p * 32 + 16, vqtbl1q_s8(t, vshrq_n_u8(b, 4)));
    }
#endif
}
INLINE void prepare_iq4_nl(struct scales *s, const unsigned char *g, int parts) {
    prepare_halves(s->scale, g, parts, 18);
    look_up_nibbles(s->quant, g + 2, parts, 18, table_iq4_nl);
}
INLINE void prepare_mxfp4(struct scales *s, const unsigned char *g, int parts) {
    prepare_powers(s->scale, g, parts, 17);
    look_up_nibbles(s->quant, g + 1, parts, 17, table_mxfp4);
}
INLINE void prepare_iq4_xs(struct scales *s, const unsigned char *g, int parts) {
    (void)parts;
    prepare_iq4_xs_scales(s->scale, g);
    look_up_nibbles(s->quant, g + offsetof(struct kvc_block_iq4_xs, q), 8, 16, table_iq4_nl);
}
#define dequantize_iq4_nl dequantize_q5_0
#define dequantize_mxfp4 dequantize_q5_0
#define dequantize_iq4_xs dequantize_q5_0

#endif

#endif
