/* groups.h - template: reads the quants of cache entries with fewer than eight bits per channel, and dequantizes such
 * entries. */
#ifndef KVC_SIMD_ATTENTION_GROUPS_H
#define KVC_SIMD_ATTENTION_GROUPS_H

#include "core/base/entry_types.h"
#include "core/base/integers.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/simd/lanes/lanes.h"

#define NEVER_INLINE __attribute__((noinline))

#define EACH_BYTE(x) (UINT64_C(0x0101010101010101) * (x))

/* Returns the high bits of eight codes, one code per byte. `word` (0 .. 3) tells which eight channels of the group
 * these are. */
INLINE uint64_t high_bits(enum kvc_type type, const unsigned char *high, unsigned word) {
    uint64_t bits;
    if (type == KVC_Q5H) { /* byte e becomes 16 if bit e of the high byte is set */
        bits = EACH_BYTE((uint64_t)high[word]) & UINT64_C(0x8040201008040201);
        return ((bits + EACH_BYTE(0x7f)) >> 7 & EACH_BYTE(1)) << 4;
    }
    memcpy(&bits, high, sizeof bits);
    return (bits >> 2 * word & EACH_BYTE(3)) << 4;
}

/* Writes the quants of a whole group of a type whose codes are the quants plus `half`. If `minus` is true, negates the
 * quants. Eight channels are computed as one word of bytes. */
INLINE void whole_quants(enum kvc_type type, unsigned half, bool minus, kvc_i8 *to, const unsigned char *q) {
    /* The sum is the quant with bit 7 flipped: code + (0x80 - half), or (0x7f - code) + (half + 1) if negated. No sum
     * carries into the next byte. There is no branch for `minus`, because signs are random and a branch would be slow.
     */
    const uint64_t flip = EACH_BYTE(minus ? 0x7f : 0), add = EACH_BYTE(minus ? half + 1 : 0x80 - half);
    uint64_t four[2];
    memcpy(four, q, sizeof four);
    UNROLL
    for (unsigned w = 0; w < 4; w++) {
        uint64_t code = four[w % 2] >> w / 2 * 4 & EACH_BYTE(15);
        if (type == KVC_Q5H || type == KVC_Q6H)
            code |= high_bits(type, q + 16, w);
        if (half)
            code = ((code ^ flip) + add) ^ EACH_BYTE(0x80);
        memcpy(to + 8 * w, &code, sizeof code);
    }
}

#if defined(__AVX2__)
/* Returns the high bits of the codes of a whole group, each shifted to its place in the code. */
INLINE __m256i high_bits_256(enum kvc_type type, const unsigned char *high) {
    int64_t word = 0;
    memcpy(&word, high, type == KVC_Q5H ? 4 : 8);
    if (type == KVC_Q5H) { /* a byte becomes 16 if its bit is set */
        const __m256i place = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
        const __m256i bit = _mm256_set1_epi64x((long long)UINT64_C(0x8040201008040201));
        const __m256i byte = _mm256_shuffle_epi8(_mm256_set1_epi32((int)word), place);
        return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(byte, bit), bit), _mm256_set1_epi8(16));
    }
    const __m256i pairs = _mm256_srlv_epi64(_mm256_set1_epi64x(word), _mm256_setr_epi64x(0, 2, 4, 6));
    return _mm256_slli_epi16(_mm256_and_si256(pairs, _mm256_set1_epi8(3)), 4);
}

/* Does the same as whole_quants, and also supports types whose quants are looked up. */
INLINE void whole_quants_256(enum kvc_type type, unsigned half, bool minus, kvc_i8 *to, const unsigned char *q) {
    const __m128i four = _mm_loadu_si128((const __m128i *)(const void *)q);
    __m256i x = _mm256_inserti128_si256(_mm256_castsi128_si256(four), _mm_srli_epi16(four, 4), 1);
    x = _mm256_and_si256(x, _mm256_set1_epi8(15));
    if (KVC_LOOKS_UP(KVC_, type)) {
        kvc_i8 value[16];
        UNROLL
        for (int i = 0; i < 16; i++)
            value[i] = (kvc_i8)kvc_iq4_value(i);
        x = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)value)), x);
    }
    if (type == KVC_Q5H || type == KVC_Q6H)
        x = _mm256_or_si256(x, high_bits_256(type, q + 16));
    if (half)
        x = _mm256_sub_epi8(x, _mm256_set1_epi8((char)half));
    const __m256i sign = _mm256_set1_epi8(minus ? -1 : 0); /* -x is ~x + 1 */
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_sub_epi8(_mm256_xor_si256(x, sign), sign));
}
#endif

/* Writes the quants of a group of n channels, whose codes begin at `q`. If `minus` is true, negates the quants. Inlined
 * for each type, and for whole groups. */
INLINE void group_quants(enum kvc_type type, bool minus, kvc_i8 *to, const unsigned char *q, size_t n) {
    const int half = type == KVC_Q5H ? 16 : type == KVC_Q6H ? 32 : type == KVC_Q4_1 || KVC_LOOKS_UP(KVC_, type) ? 0 : 8;
    const unsigned char *high = q + kvc_min_u64(n, 16);
    if (type == KVC_Q8_0) {
        memcpy(to, q, n);
#if defined(__AVX2__)
    } else if (n == KVC_ENTRY_GROUP) {
        whole_quants_256(type, (unsigned)half, minus, to, q);
#endif
    } else if (KVC_LOOKS_UP(KVC_, type)) {
        for (size_t e = 0; e < n; e++)
            to[e] = (kvc_i8)(minus ? -kvc_iq4_value(KVC_CODE4(q, e)) : kvc_iq4_value(KVC_CODE4(q, e)));
    } else if (n == KVC_ENTRY_GROUP) {
        whole_quants(type, (unsigned)half, minus, to, q);
    } else {
        for (size_t e = 0; e < n; e++) {
            const int code = type == KVC_Q5H   ? KVC_CODE5(q, high, e)
                             : type == KVC_Q6H ? KVC_CODE6(q, high, e)
                                               : KVC_CODE4(q, e);
            to[e] = (kvc_i8)(minus ? half - code : code - half);
        }
    }
}

/* Replaces the codes [n] of a group by the quants that they index in `table`. */
INLINE void look_up_quants(const kvc_i8 *table, kvc_i8 *code, size_t n) {
#if defined(__AVX2__)
    if (n == KVC_ENTRY_GROUP) {
        const __m256i wide = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table));
        __m256i *at = (__m256i *)(void *)code;
        _mm256_storeu_si256(at, _mm256_shuffle_epi8(wide, _mm256_loadu_si256(at)));
        return;
    }
#endif
    for (size_t e = 0; e < n; e++)
        code[e] = table[code[e]];
}

/* Dequantizes a row [d] whose groups have `bytes` bytes. Inlined for each type. */
INLINE void dequantize_groups(enum kvc_type type, size_t bytes, float *to, const unsigned char *row, size_t d) {
    for (size_t c = 0; c < d; c += KVC_ENTRY_GROUP, row += bytes) {
        const size_t n = kvc_min_u64(d - c, KVC_ENTRY_GROUP);
        const float scale = half_load(row), minimum = type == KVC_Q4_1 ? half_load(row + 2) : 0.0f;
        const unsigned char *q = row + (type == KVC_Q4_1 ? 4 : 2);
        kvc_i8 quant[KVC_ENTRY_GROUP];
        if (n == KVC_ENTRY_GROUP)
            group_quants(type, false, quant, q, KVC_ENTRY_GROUP);
        else
            group_quants(type, false, quant, q, n);
        size_t e = 0;
        for (; e + LANES <= n; e += LANES) {
            const vf x = vf_load_i8(quant + e);
            vf_store(to + c + e,
                     type == KVC_Q4_1 ? vf_fma(vf_set(scale), x, vf_set(minimum)) : vf_mul(vf_set(scale), x));
        }
        for (; e < n; e++)
            to[c + e] = type == KVC_Q4_1 ? kvc_fma(scale, (float)quant[e], minimum) : scale * (float)quant[e];
    }
}

/* Dequantizes a row [d] of a type that the attention kernels do not read directly. */
static NEVER_INLINE void dequantize_packed(enum kvc_type type, float *to, const unsigned char *row, size_t d) {
    switch (type) {
    case KVC_BF16:
        for (size_t c = 0; c < d; c++)
            to[c] = kvc_bf16_to_f32(KVC_LOAD_U16(row + 2 * c));
        return;
    case KVC_Q4_1:
        dequantize_groups(KVC_Q4_1, KVC_GROUP_Q4_1, to, row, d);
        return;
    case KVC_IQ4_NL:
    case KVC_Q4H:
        dequantize_groups(KVC_IQ4_NL, KVC_GROUP_IQ4_NL, to, row, d);
        return;
    case KVC_Q5H:
        dequantize_groups(KVC_Q5H, KVC_GROUP_Q5H, to, row, d);
        return;
    case KVC_Q6H:
        dequantize_groups(KVC_Q6H, KVC_GROUP_Q6H, to, row, d);
        return;
    default:
        dequantize_groups(KVC_Q4_0, KVC_GROUP_Q4_0, to, row, d);
        return;
    }
}

#endif
