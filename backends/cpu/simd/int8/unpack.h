/* unpack.h - template: unpacks 256 weights of any type to bytes and scales, in 256-bit vectors. quant[i] holds block i
 * of 32 weights. Its bytes are signed quants, or unsigned codes that exceed the quants by OFFSET_<type>. */
#ifndef KVC_SIMD_INT8_UNPACK_H
#define KVC_SIMD_INT8_UNPACK_H

#include <immintrin.h>
#include <string.h>

#include "core/base/weight_blocks.h"
#include "backends/cpu/simd/int8/parameters.h"
#include "backends/cpu/simd/int8/types.h"
#include "backends/cpu/simd/lanes/unroll.h"

struct unpacked {
    __m256i quant[8];
    __m256 scale[2], minimum[2]; /* element i of [0] belongs to the first or only piece of block i, element i of [1] to
                                  * its second piece */
};

/* 1: bytes are signed quants; 0: bytes are unsigned codes below 64, equal to the quant plus OFFSET_<type> */
#define SIGNED_q8_0 1
#define SIGNED_q4_0 0
#define SIGNED_q5_0 0
#define SIGNED_q3_k 0
#define SIGNED_q4_k 0
#define SIGNED_q5_k 0
#define SIGNED_q6_k 0
#define SIGNED_q4_1 0
#define SIGNED_q5_1 0
#define SIGNED_iq4_nl 1
#define SIGNED_mxfp4 0
#define SIGNED_q2_k 0
#define SIGNED_iq4_xs 1
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
#define OFFSET_mxfp4 12
#define OFFSET_q2_k 0
#define OFFSET_iq4_xs 0
/* The largest unsigned code of each type; 0 for types with signed bytes. */
#define MOST_q8_0 0
#define MOST_q4_0 15
#define MOST_q5_0 31
#define MOST_q3_k 7
#define MOST_q4_k 15
#define MOST_q5_k 31
#define MOST_q6_k 63
#define MOST_q4_1 15
#define MOST_q5_1 31
#define MOST_iq4_nl 0
#define MOST_mxfp4 24
#define MOST_q2_k 3
#define MOST_iq4_xs 0

INLINE __m256i load32(const unsigned char *from) { return _mm256_loadu_si256((const __m256i *)(const void *)from); }
INLINE __m128i load16(const unsigned char *from) { return _mm_loadu_si128((const __m128i *)(const void *)from); }
/* Unpacks 16 bytes: first the low halves, then the high halves. */
INLINE __m256i nibbles(const unsigned char *from) {
    const __m128i x = load16(from);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(x, 4), x), _mm256_set1_epi8(15));
}
/* Shifts every byte right by `shift` bits and masks it. */
INLINE __m256i bits(__m256i x, int shift, int mask) {
    return _mm256_and_si256(_mm256_srli_epi16(x, shift), _mm256_set1_epi8((char)mask));
}
/* Sets byte i to 16 if bit i of the 32 bits is set, otherwise to 0. */
INLINE __m256i fifth_bits(const unsigned char *from) {
    const __m256i pick = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3,
                                          3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    int word;
    memcpy(&word, from, sizeof word);
    const __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), pick), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(spread, bit), _mm256_set1_epi8(16));
}
INLINE __m256i from_table(__m256i index, const kvc_i8 *table) {
    const __m128i t = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), index);
}
static const kvc_i8 iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const kvc_i8 e2m1_codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* Loads the F16 value at the same offset in each of `parts` neighbouring blocks of `stride` bytes. The other elements
 * are 0. */
INLINE __m256 halves(const unsigned char *g, size_t stride, int parts) {
    if (parts == 8)
        return _mm256_cvtph_ps(_mm_setr_epi16((short)KVC_LOAD_U16(g), (short)KVC_LOAD_U16(g + stride),
                                              (short)KVC_LOAD_U16(g + 2 * stride), (short)KVC_LOAD_U16(g + 3 * stride),
                                              (short)KVC_LOAD_U16(g + 4 * stride), (short)KVC_LOAD_U16(g + 5 * stride),
                                              (short)KVC_LOAD_U16(g + 6 * stride),
                                              (short)KVC_LOAD_U16(g + 7 * stride)));
    kvc_u16 some[8] = {0};
    for (int i = 0; i < parts; i++)
        some[i] = KVC_LOAD_U16(g + (size_t)i * stride);
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)some));
}
INLINE __m256 half_of(const unsigned char *from) { return _mm256_cvtph_ps(_mm_set1_epi16((short)KVC_LOAD_U16(from))); }
/* Converts eight bytes to floats and multiplies them by d. */
INLINE __m256 times_bytes(__m256 d, __m128i x) { return _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(x))); }
INLINE __m256 times_signed(__m256 d, __m128i x) {
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)));
}
INLINE __m256 negative(__m256 x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)); }
INLINE __m128i evens(__m128i x) {
    return _mm_shuffle_epi8(x, _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0));
}
INLINE __m128i odds(__m128i x) {
    return _mm_shuffle_epi8(x, _mm_setr_epi8(1, 3, 5, 7, 9, 11, 13, 15, 0, 0, 0, 0, 0, 0, 0, 0));
}

/* ---- blocks of 32 ---- */

/* Computes kvc_power_half of eight exponents. */
INLINE __m256 powers(const unsigned char *g, int parts) {
    kvc_u64 bytes = 0;
    UNROLL
    for (int i = 0; i < 8; i++)
        bytes |= (kvc_u64)g[(i < parts ? i : 0) * 17] << 8 * i;
    const __m256i e = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i denormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, denormal, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}
/* Unpacks the quants of one block. */
INLINE __m256i unpack_block(const enum kvc_type type, const unsigned char *b) {
    switch ((int)type) {
    case KVC_Q8_0:
        return load32(b + 2);
    case KVC_Q4_0:
        return nibbles(b + 2);
    case KVC_Q5_0:
        return _mm256_or_si256(nibbles(b + 6), fifth_bits(b + 2));
    case KVC_Q4_1:
        return nibbles(b + 4);
    case KVC_Q5_1:
        return _mm256_or_si256(nibbles(b + 8), fifth_bits(b + 4));
    case KVC_IQ4_NL:
        return from_table(nibbles(b + 2), iq4_values);
    default: /* KVC_MXFP4 */
        return from_table(nibbles(b + 1), e2m1_codes);
    }
}
/* Unpacks `parts` blocks; beyond the end of a row, repeats the first block. */
INLINE void unpack_blocks(const enum kvc_type type, struct unpacked *u, const unsigned char *g, int parts) {
    const int bytes = group_bytes(type) / 8;
    UNROLL
    for (int i = 0; i < 8; i++)
        u->quant[i] = unpack_block(type, g + (i < parts ? i : 0) * bytes);
    u->scale[0] = type == KVC_MXFP4 ? powers(g, parts) : halves(g, (size_t)bytes, parts);
    u->minimum[0] = has_minimum(type) ? negative(halves(g + 2, (size_t)bytes, parts)) : _mm256_setzero_ps();
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
    const kvc_u64 scale = (a & 0x3f3f3f3fu) | (kvc_u64)scale_high << 32;
    const kvc_u64 minimum = (b & 0x3f3f3f3fu) | (kvc_u64)minimum_high << 32;
    u->scale[0] = times_bytes(half_of(g), _mm_cvtsi64_si128((long long)scale));
    u->minimum[0] = times_bytes(half_of(g + 2), _mm_cvtsi64_si128((long long)minimum));
}
INLINE void unpack_q4_k(struct unpacked *u, const unsigned char *g) {
    UNROLL
    for (int j = 0; j < 4; j++) {
        const __m256i x = load32(g + 16 + 32 * j);
        u->quant[2 * j] = bits(x, 0, 15);
        u->quant[2 * j + 1] = bits(x, 4, 15);
    }
    unpack_six_bits(u, g);
}
INLINE void unpack_q5_k(struct unpacked *u, const unsigned char *g) {
    const __m256i high = load32(g + 16), sixteen = _mm256_set1_epi8(16);
    UNROLL
    for (int j = 0; j < 4; j++) {
        const __m256i x = load32(g + 48 + 32 * j);
        const __m256i low_bit = j < 2 ? _mm256_slli_epi16(high, 4 - 2 * j) : _mm256_srli_epi16(high, 2 * j - 4);
        const __m256i high_bit = j < 2 ? _mm256_slli_epi16(high, 3 - 2 * j) : _mm256_srli_epi16(high, 2 * j - 3);
        u->quant[2 * j] = _mm256_or_si256(bits(x, 0, 15), _mm256_and_si256(low_bit, sixteen));
        u->quant[2 * j + 1] = _mm256_or_si256(bits(x, 4, 15), _mm256_and_si256(high_bit, sixteen));
    }
    unpack_six_bits(u, g);
}
INLINE void unpack_q6_k(struct unpacked *u, const unsigned char *g) {
    const __m256 d = half_of(g + 208);
    const __m128i scale = load16(g + 192);
    UNROLL
    for (int h = 0; h < 2; h++) {
        const __m256i a = load32(g + 64 * h), b = load32(g + 64 * h + 32), high = load32(g + 128 + 32 * h);
        u->quant[4 * h] = _mm256_or_si256(bits(a, 0, 15), _mm256_slli_epi16(bits(high, 0, 3), 4));
        u->quant[4 * h + 1] = _mm256_or_si256(bits(b, 0, 15), _mm256_slli_epi16(bits(high, 2, 3), 4));
        u->quant[4 * h + 2] = _mm256_or_si256(bits(a, 4, 15), bits(high, 0, 0x30));
        u->quant[4 * h + 3] = _mm256_or_si256(bits(b, 4, 15), bits(high, 2, 0x30));
    }
    u->scale[0] = times_signed(d, evens(scale));
    u->scale[1] = times_signed(d, odds(scale));
}
INLINE void unpack_q3_k(struct unpacked *u, const unsigned char *g) {
    const __m256 d = half_of(g + 108);
    const __m256i high = load32(g);
    kvc_u32 a, b, c;
    memcpy(&a, g + 96, 4);
    memcpy(&b, g + 100, 4);
    memcpy(&c, g + 104, 4);
    const __m128i six = _mm_setr_epi32(
        (int)((a & 0x0f0f0f0fu) | (c << 4 & 0x30303030u)), (int)((b & 0x0f0f0f0fu) | (c << 2 & 0x30303030u)),
        (int)((a >> 4 & 0x0f0f0f0fu) | (c & 0x30303030u)), (int)((b >> 4 & 0x0f0f0f0fu) | (c >> 2 & 0x30303030u)));
    const __m128i scale = _mm_sub_epi8(six, _mm_set1_epi8(32));
    UNROLL
    for (int i = 0; i < 8; i++) {
        const __m256i x = load32(g + 32 + i / 4 * 32);
        const __m256i bit = i < 2 ? _mm256_slli_epi16(high, 2 - i) : _mm256_srli_epi16(high, i - 2);
        u->quant[i] = _mm256_or_si256(bits(x, i % 4 * 2, 3), _mm256_and_si256(bit, _mm256_set1_epi8(4)));
    }
    u->scale[0] = times_signed(d, evens(scale));
    u->scale[1] = times_signed(d, odds(scale));
}
INLINE void unpack_q2_k(struct unpacked *u, const unsigned char *g) {
    const __m128i both = load16(g), four = _mm_set1_epi8(15);
    const __m128i scale = _mm_and_si128(both, four), minimum = _mm_and_si128(_mm_srli_epi16(both, 4), four);
    const __m256 d = half_of(g + 80), dmin = half_of(g + 82);
    UNROLL
    for (int i = 0; i < 8; i++)
        u->quant[i] = bits(load32(g + 16 + i / 4 * 32), i % 4 * 2, 3);
    u->scale[0] = times_bytes(d, evens(scale));
    u->scale[1] = times_bytes(d, odds(scale));
    u->minimum[0] = times_bytes(dmin, evens(minimum));
    u->minimum[1] = times_bytes(dmin, odds(minimum));
}
INLINE void unpack_iq4_xs(struct unpacked *u, const unsigned char *g) {
    kvc_u64 scale = 0;
    UNROLL
    for (int s = 0; s < 8; s++)
        scale |= (kvc_u64)((g[4 + s / 2] >> (s % 2 * 4) & 15) | (g[2 + s / 4] >> (s % 4 * 2) & 3) << 4) << 8 * s;
    UNROLL
    for (int i = 0; i < 8; i++)
        u->quant[i] = from_table(nibbles(g + 8 + 16 * i), iq4_values);
    u->scale[0] = times_signed(half_of(g), _mm_sub_epi8(_mm_cvtsi64_si128((long long)scale), _mm_set1_epi8(32)));
}

#include "backends/cpu/simd/int8/unpack_any.h"

/* Returns true if the bytes are signed. */
INLINE bool is_signed(const enum kvc_type type) {
    switch ((int)type) {
#define CASE_IS_SIGNED(a, NAME, name, ...)                                                                             \
    case KVC_##NAME:                                                                                                   \
        return SIGNED_##name;
        KVC_BLOCK_TYPES(CASE_IS_SIGNED, )
    }
    return false;
}

#endif
