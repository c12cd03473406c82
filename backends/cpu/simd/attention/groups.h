/* groups.h - template: reads the quants of cache entries of fewer than eight bits, and dequantizes such entries. */
#ifndef KVC_SIMD_ATTENTION_GROUPS_H
#define KVC_SIMD_ATTENTION_GROUPS_H

#include "core/base/entry_types.h"
#include "core/base/integers.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/simd/lanes/lanes.h"

#define NEVER_INLINE __attribute__((noinline))

/* Adds the high bits to the low four bits of a whole group. Eight channels are a word. */
INLINE void add_high_bits(enum kvc_type type, kvc_i8 *to, const unsigned char *high) {
    uint64_t word, low;
    for (unsigned i = 0; i < 4; i++) {
        if (type == KVC_Q5H) { /* byte e of the word becomes 16 if bit e of the high byte is 1 */
            word = high[i] * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);
            word = (word + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & UINT64_C(0x0101010101010101);
        } else {
            memcpy(&word, high, sizeof word);
            word = word >> 2 * i & UINT64_C(0x0303030303030303);
        }
        memcpy(&low, to + 8 * i, sizeof low);
        low |= word << 4;
        memcpy(to + 8 * i, &low, sizeof low);
    }
}

/* Writes the quants of a group of n channels from `q` on. Inlined for each type, and for whole groups. */
INLINE void group_quants(enum kvc_type type, kvc_i8 *to, const unsigned char *q, size_t n) {
    static const kvc_i8 iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    const int half = type == KVC_Q5H ? 16 : type == KVC_Q6H ? 32 : type == KVC_Q4_1 ? 0 : 8;
    if (type == KVC_Q8_0) {
        memcpy(to, q, n);
        return;
    }
    if (n == KVC_ENTRY_GROUP) {
        for (unsigned e = 0; e < 16; e++) {
            to[e] = (kvc_i8)(q[e] & 15);
            to[16 + e] = (kvc_i8)(q[e] >> 4);
        }
        if (type == KVC_Q5H || type == KVC_Q6H)
            add_high_bits(type, to, q + 16);
    } else {
        const unsigned char *high = q + kvc_min_u64(n, 16);
        for (size_t e = 0; e < n; e++)
            to[e] = (kvc_i8)(type == KVC_Q5H   ? KVC_CODE5(q, high, e)
                             : type == KVC_Q6H ? KVC_CODE6(q, high, e)
                                               : KVC_CODE4(q, e));
    }
    for (size_t e = 0; e < n && type == KVC_IQ4_NL; e++)
        to[e] = iq4[to[e]];
    for (size_t e = 0; e < n && type != KVC_IQ4_NL && half; e++)
        to[e] = (kvc_i8)(to[e] - half);
}

/* Dequantizes a row [d] whose groups have `bytes` bytes. Inlined for each type. */
INLINE void dequantize_groups(enum kvc_type type, size_t bytes, float *to, const unsigned char *row, size_t d) {
    for (size_t c = 0; c < d; c += KVC_ENTRY_GROUP, row += bytes) {
        const size_t n = kvc_min_u64(d - c, KVC_ENTRY_GROUP);
        const float scale = half_load(row), minimum = type == KVC_Q4_1 ? half_load(row + 2) : 0.0f;
        const unsigned char *q = row + (type == KVC_Q4_1 ? 4 : 2);
        kvc_i8 quant[KVC_ENTRY_GROUP];
        if (n == KVC_ENTRY_GROUP)
            group_quants(type, quant, q, KVC_ENTRY_GROUP);
        else
            group_quants(type, quant, q, n);
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

/* Dequantizes a row [d] of a type that attention does not read itself. */
static NEVER_INLINE void dequantize_packed(enum kvc_type type, float *to, const unsigned char *row, size_t d) {
    switch (type) {
    case KVC_BF16:
        for (size_t c = 0; c < d; c++)
            to[c] = kvc_bf16_to_f32(KVC_LOAD_U16(row + 2 * c));
        return;
    case KVC_Q4_1:
        dequantize_groups(KVC_Q4_1, 20, to, row, d);
        return;
    case KVC_IQ4_NL:
        dequantize_groups(KVC_IQ4_NL, 18, to, row, d);
        return;
    case KVC_Q5H:
        dequantize_groups(KVC_Q5H, 22, to, row, d);
        return;
    case KVC_Q6H:
        dequantize_groups(KVC_Q6H, 26, to, row, d);
        return;
    default:
        dequantize_groups(KVC_Q4_0, 18, to, row, d);
        return;
    }
}

#endif
