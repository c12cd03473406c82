/* dequantize.h - template: dequantizes weights of every type to float32, 32 at a time, with the formulas of
 * core/base/weight_blocks.h. Included by template.h.
 *
 * A group is 256 weights, or fewer at the end of a row for types with blocks below 256. prepare_<type> reads a group's
 * scales. dequantize_<type> writes part p (weights 32 p ... 32 p + 31) as LANE_VECTORS vectors. KVC_ALL_WEIGHT_TYPES
 * generates the functions that take the type as an argument. */
#ifndef KVC_SIMD_LINEAR_DEQUANTIZE_H
#define KVC_SIMD_LINEAR_DEQUANTIZE_H

#include "core/base/types.h"
#include "core/base/weight_blocks.h"
#include "core/base/weight_types.h"
#include "backends/cpu/simd/linear/dequantize_fp8.h"
#include "backends/cpu/simd/linear/dequantize_nibbles.h"
#include "backends/cpu/simd/linear/scales.h"

/* ---- for every type ---- */

enum {
#define GROUP_BYTES(a, NAME, name, gguf, elements, bytes, ...) group_bytes_##name = GROUP / (elements) * (bytes),
    KVC_ALL_WEIGHT_TYPES(GROUP_BYTES, )
#define BLOCK_ELEMENTS(a, NAME, name, gguf, elements, ...) elements_##name = (elements),
        KVC_ALL_WEIGHT_TYPES(BLOCK_ELEMENTS, )
};

/* Return element i of a row, for the end of a row. */
INLINE float dequantize_one_f32(const unsigned char *row, size_t i) {
    float x;
    memcpy(&x, row + 4 * i, sizeof x);
    return x;
}
INLINE float dequantize_one_f16(const unsigned char *row, size_t i) { return half_load(row + 2 * i); }
INLINE float dequantize_one_bf16(const unsigned char *row, size_t i) {
    return kvc_bf16_to_f32(KVC_LOAD_U16(row + 2 * i));
}
#define DEQUANTIZE_ONE(a, NAME, name, gguf, elements, ...)                                                             \
    INLINE float dequantize_one_##name(const unsigned char *row, size_t i) {                                           \
        const struct kvc_block_##name *b = (const struct kvc_block_##name *)row + i / (elements);                      \
        return KVC_DEQUANTIZE_##NAME(*b, i % (elements));                                                              \
    }
KVC_ALL_BLOCK_TYPES(DEQUANTIZE_ONE, )

/* ---- plain types ---- */

INLINE void prepare_nothing(struct scales *s, const unsigned char *g, int parts) { (void)s, (void)g, (void)parts; }
#define prepare_f32 prepare_nothing
#define prepare_f16 prepare_nothing
#define prepare_bf16 prepare_nothing

INLINE void dequantize_f32(vf *w, const unsigned char *g, int p, const struct scales *s) {
    (void)s;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_load((const float *)(const void *)(g + p * 128) + v * LANES);
}
INLINE void dequantize_f16(vf *w, const unsigned char *g, int p, const struct scales *s) {
    (void)s;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_load_f16(g + p * 64 + v * LANES * 2);
}
INLINE void dequantize_bf16(vf *w, const unsigned char *g, int p, const struct scales *s) {
    (void)s;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_load_bf16(g + p * 64 + v * LANES * 2);
}

/* ---- blocks of 32 ---- */

INLINE void prepare_q8_0(struct scales *s, const unsigned char *g, int parts) {
    prepare_halves(s->scale, g, parts, 34);
}

INLINE void dequantize_q8_0(vf *w, const unsigned char *g, int p, const struct scales *s) {
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_mul_by(vf_load_i8(g + p * 34 + 2 + v * LANES), &s->scale[p]);
}

/* Unpacks the 32 five-bit quants of a block from their high bits and nibbles, and subtracts `less` (0 or 16). */
INLINE void unpack_five(int8_t *to, const unsigned char *high_bits, int less) {
#if LANES >= 8
    /* for each element, the index of the byte that holds its high bit */
    const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3,
                                          3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    __m256i high = _mm256_shuffle_epi8(_mm256_set1_epi32((int)load_u32(high_bits)), byte);
    high = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(high, bit), bit), _mm256_set1_epi8(16));
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)(high_bits + 4));
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(q), _mm_srli_epi16(q, 4), 1);
    both = _mm256_and_si256(both, _mm256_set1_epi8(15));
    vb_store(to, vb_less(_mm256_or_si256(both, high), less));
#else
    static const uint8_t bits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    vb q = vb_load(high_bits + 4), bit = vld1q_u8(bits);
    UNROLL
    for (int i = 0; i < 2; i++) {
        vb high = vcombine_u8(vdup_n_u8(high_bits[2 * i]), vdup_n_u8(high_bits[1 + 2 * i]));
        high = vandq_u8(vtstq_u8(high, bit), vdupq_n_u8(16));
        vb_store(to + 16 * i, vb_less(vorrq_u8(vb_bits(q, 4 * i, 15), high), less));
    }
#endif
}
INLINE void prepare_q5_0(struct scales *s, const unsigned char *g, int parts) {
    prepare_halves(s->scale, g, parts, sizeof(struct kvc_block_q5_0));
    for (int p = 0; p < parts; p++)
        unpack_five(s->quant + p * 32, g + (size_t)p * sizeof(struct kvc_block_q5_0) + 2, 16);
}
INLINE void dequantize_q5_0(vf *w, const unsigned char *g, int p, const struct scales *s) {
    (void)g;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_mul_by(vf_load_stored_i8(s->quant + p * 32 + v * LANES), &s->scale[p]);
}

INLINE void prepare_q5_1(struct scales *s, const unsigned char *g, int parts) {
    prepare_pairs(s, g, parts, sizeof(struct kvc_block_q5_1));
    for (int p = 0; p < parts; p++)
        unpack_five(s->quant + p * 32, g + (size_t)p * sizeof(struct kvc_block_q5_1) + 4, 0);
}
INLINE void dequantize_q5_1(vf *w, const unsigned char *g, int p, const struct scales *s) {
    (void)g;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = minimum_value(vf_load_stored_i8(s->quant + p * 32 + v * LANES), p, s);
}

/* ---- blocks of 256 ---- */

/* Computes the scales, followed by the negated minimums. */
INLINE void prepare_q2_k(struct scales *s, const unsigned char *g, int parts) {
    const vf d = vf_set(half_load(g + offsetof(struct kvc_block_q2_k, d)));
    const vf dmin = vf_set(-half_load(g + offsetof(struct kvc_block_q2_k, dmin)));
    (void)parts;
    UNROLL
    for (int i = 0; i < 16; i += LANES) {
        const vi both = load_u8(g + offsetof(struct kvc_block_q2_k, scale) + i);
        vf_store(s->scale + i, vf_mul(d, vf_from_int(vi_and(both, vi_set(15)))));
        vf_store(s->scale + 16 + i, vf_mul(dmin, vf_from_int(bits_of(both, 4, 15))));
    }
    UNROLL
    for (int p = 0; p < 8; p++)
        UNROLL
    for (int i = 0; i < 32; i += VB) {
        vb q = vb_load(g + offsetof(struct kvc_block_q2_k, q) + p / 4 * 32 + i);
        vb_store(s->quant + p * 32 + i, vb_bits(q, p % 4 * 2, 3));
    }
}
INLINE void dequantize_q2_k(vf *w, const unsigned char *g, int p, const struct scales *s) {
    (void)g;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++) {
        const float *scale = &s->scale[2 * p + v * LANES / 16];
        w[v] = vf_fma_by(vf_load_stored_i8(s->quant + p * 32 + v * LANES), scale, vf_set(scale[16]));
    }
}

INLINE void prepare_q3_k(struct scales *s, const unsigned char *g, int parts) {
    const unsigned char *b = g + offsetof(struct kvc_block_q3_k, scale);
    uint32_t a0 = load_u32(b), a1 = load_u32(b + 4), a2 = load_u32(b + 8), four = 0x0f0f0f0fu, two = 0x03030303u;
    uint32_t sixteen[4] = {(a0 & four) | (a2 & two) << 4, (a1 & four) | (a2 >> 2 & two) << 4,
                           (a0 >> 4 & four) | (a2 >> 4 & two) << 4, (a1 >> 4 & four) | (a2 >> 6 & two) << 4};
    vf d = vf_set(half_load(g + offsetof(struct kvc_block_q3_k, d)));
    (void)parts;
    UNROLL
    for (int i = 0; i < 16; i += LANES) {
        vi scale = vi_sub(bytes_of(sixteen, i), vi_set(32));
        vf_store(s->scale + i, vf_mul(d, vf_from_int(scale)));
    }
    UNROLL
    for (int i = 0; i < 32; i += VB) {
        vb high = vb_load(g + offsetof(struct kvc_block_q3_k, high) + i);
        UNROLL
        for (int p = 0; p < 8; p++) {
            vb q = vb_bits(vb_load(g + offsetof(struct kvc_block_q3_k, q) + p / 4 * 32 + i), p % 4 * 2, 3);
            vb_store(s->quant + p * 32 + i, vb_less(vb_join(q, vb_bits(high, p, 1), 2), 4));
        }
    }
}
INLINE void dequantize_q3_k(vf *w, const unsigned char *g, int p, const struct scales *s) {
    (void)g;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_mul_by(vf_load_stored_i8(s->quant + p * 32 + v * LANES), &s->scale[2 * p + v * LANES / 16]);
}

/* Q4_K and Q5_K begin with the same fields: d, dmin, and 12 bytes of 6-bit scales and minimums. `scale` stores them in
 * the order 4 scales, 4 minimums, 4 scales, 4 minimums. */
#define OFFSET_SCALE(p) ((p) + (p) / 4 * 4)
#define OFFSET_MIN(p) (4 + (p) + (p) / 4 * 4)
INLINE void prepare_offset(struct scales *s, const unsigned char *g) {
    const unsigned char *b = g + offsetof(struct kvc_block_q4_k, scale);
    const uint64_t six = 0x3f3f3f3f3f3f3f3fu, two = 0x3030303030303030u;
    uint64_t both = load_u32(b) | (uint64_t)load_u32(b + 4) << 32, low = load_u32(b + 8);
    uint64_t first = both & six, second = (both >> 2 & two) | ((low | low << 28) & 0x0f0f0f0f0f0f0f0fu);
#if LANES == 16
    const __m512i pattern = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1);
    __asm__("" : "+r"(first), "+r"(second)); /* computed in general registers, as in prepare_halves */
    vf d = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi32_si128((int)load_u32(g))));
    vf scale = vf_from_int(_mm512_cvtepu8_epi32(_mm_set_epi64x((long long)second, (long long)first)));
    vf_store(s->scale, vf_mul(_mm512_permutexvar_ps(pattern, d), scale));
#else
    const uint32_t sixteen[4] = {(uint32_t)first, (uint32_t)(first >> 32), (uint32_t)second, (uint32_t)(second >> 32)};
    vf d = vf_set(half_load(g)), dmin = vf_set(half_load(g + offsetof(struct kvc_block_q4_k, dmin)));
    UNROLL
    for (int i = 0; i < 16; i += LANES) {
#if LANES == 8
        vf_store(s->scale + i, vf_mul(_mm256_blend_ps(d, dmin, 0xf0), vf_from_int(bytes_of(sixteen, i))));
#else
        vf_store(s->scale + i, vf_mul(i % 8 < 4 ? d : dmin, vf_from_int(bytes_of(sixteen, i))));
#endif
    }
#endif
}
INLINE vf offset_value(vf quant, int p, const struct scales *s) {
#if LANES == 16 /* the product is exact (11 + 6 + 5 bits, never denormal), so this rounds like the fma */
    return vf_sub_by(vf_mul_by(quant, &s->scale[OFFSET_SCALE(p)]), &s->scale[OFFSET_MIN(p)]);
#else
    return vf_fma(vf_set(s->scale[OFFSET_SCALE(p)]), quant, vf_set(-s->scale[OFFSET_MIN(p)]));
#endif
}
INLINE void dequantize_offset(vf *w, int p, const struct scales *s) {
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = offset_value(vf_load_stored_i8(s->quant + p * 32 + v * LANES), p, s);
}

INLINE void prepare_q4_k(struct scales *s, const unsigned char *g, int parts) {
    (void)parts;
    prepare_offset(s, g);
#if LANES != 16
    UNROLL
    for (int i = 0; i < 128; i += VB) {
        vb q = vb_load(g + offsetof(struct kvc_block_q4_k, q) + i);
        vb_store(s->quant + i / 32 * 64 + i % 32, vb_bits(q, 0, 15));
        vb_store(s->quant + i / 32 * 64 + 32 + i % 32, vb_bits(q, 4, 15));
    }
#endif
}
INLINE void dequantize_q4_k(vf *w, const unsigned char *g, int p, const struct scales *s) {
#if LANES == 16 /* a table of the part's 16 possible values, indexed by the low four bits */
    const unsigned char *low = g + offsetof(struct kvc_block_q4_k, q) + p / 2 * 32;
    vf value = offset_value(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), p, s);
    UNROLL
    for (int v = 0; v < 2; v++) {
        vi q = load_u8(low + v * LANES); /* the compiler keeps `low` in a register for the next part */
        w[v] = _mm512_permutexvar_ps(p % 2 ? _mm512_srli_epi32(q, 4) : q, value);
    }
#else
    (void)g;
    dequantize_offset(w, p, s);
#endif
}

INLINE void prepare_q5_k(struct scales *s, const unsigned char *g, int parts) {
    (void)parts;
    prepare_offset(s, g);
    UNROLL
    for (int i = 0; i < 32; i += VB) {
        vb high = vb_load(g + offsetof(struct kvc_block_q5_k, high) + i);
        UNROLL
        for (int p = 0; p < 8; p++) {
            vb q = vb_bits(vb_load(g + offsetof(struct kvc_block_q5_k, q) + p / 2 * 32 + i), p % 2 * 4, 15);
            vb_store(s->quant + p * 32 + i, vb_join(q, vb_bits(high, p, 1), 4));
        }
    }
}
INLINE void dequantize_q5_k(vf *w, const unsigned char *g, int p, const struct scales *s) {
    (void)g;
    dequantize_offset(w, p, s);
}

INLINE void prepare_q6_k(struct scales *s, const unsigned char *g, int parts) {
    vf d = vf_set(half_load(g + offsetof(struct kvc_block_q6_k, d)));
    (void)parts;
    UNROLL
    for (int i = 0; i < 16; i += LANES)
        vf_store(s->scale + i, vf_mul(d, vf_load_i8(g + offsetof(struct kvc_block_q6_k, scale) + i)));
    UNROLL
    for (int p = 0; p < 8; p++) {
        UNROLL
        for (int i = 0; i < 32; i += VB) {
            vb q = vb_bits(vb_load(g + p / 4 * 64 + p % 2 * 32 + i), p % 4 / 2 * 4, 15);
            vb high = vb_bits(vb_load(g + offsetof(struct kvc_block_q6_k, high) + p / 4 * 32 + i), p % 4 * 2, 3);
            vb_store(s->quant + p * 32 + i, vb_less(vb_join(q, high, 4), 32));
        }
    }
}
INLINE void dequantize_q6_k(vf *w, const unsigned char *g, int p, const struct scales *s) {
    (void)g;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_mul_by(vf_load_stored_i8(s->quant + p * 32 + v * LANES), &s->scale[2 * p + v * LANES / 16]);
}

/* ---- any type ---- */

/* `type` is a constant, so only one case of each switch remains after inlining. */
#define CASE_PREPARE(a, NAME, name, ...)                                                                               \
    case KVC_##NAME:                                                                                                   \
        prepare_##name(s, g, parts);                                                                                   \
        break;
#define CASE_DEQUANTIZE(a, NAME, name, ...)                                                                            \
    case KVC_##NAME:                                                                                                   \
        dequantize_##name(w, g, p, s);                                                                                 \
        break;
#define CASE_DEQUANTIZE_ONE(a, NAME, name, ...)                                                                        \
    case KVC_##NAME:                                                                                                   \
        return dequantize_one_##name(row, i);
#define CASE_GROUP_BYTES(a, NAME, name, ...)                                                                           \
    case KVC_##NAME:                                                                                                   \
        return group_bytes_##name;
#define CASE_BLOCK_ELEMENTS(a, NAME, name, gguf, elements, ...)                                                        \
    case KVC_##NAME:                                                                                                   \
        return elements;
INLINE void prepare(const enum kvc_type type, struct scales *s, const unsigned char *g, int parts) {
    switch ((int)type) { KVC_ALL_WEIGHT_TYPES(CASE_PREPARE, ) }
}
INLINE void dequantize(const enum kvc_type type, vf *w, const unsigned char *g, int p, const struct scales *s) {
    switch ((int)type) { KVC_ALL_WEIGHT_TYPES(CASE_DEQUANTIZE, ) }
}
INLINE float dequantize_one(const enum kvc_type type, const unsigned char *row, size_t i) {
    switch ((int)type) { KVC_ALL_WEIGHT_TYPES(CASE_DEQUANTIZE_ONE, ) }
    return 0.0f;
}
INLINE size_t group_bytes(const enum kvc_type type) {
    switch ((int)type) { KVC_ALL_WEIGHT_TYPES(CASE_GROUP_BYTES, ) }
    return 0;
}
INLINE size_t block_elements(const enum kvc_type type) {
    switch ((int)type) { KVC_ALL_WEIGHT_TYPES(CASE_BLOCK_ELEMENTS, ) }
    return 0;
}

#endif
