/* weights_512.h - template: computes integer weights, as two digits of seven bits, with 512-bit vectors. */
#ifndef KVC_SIMD_INTEGERS_WEIGHTS_512_H
#define KVC_SIMD_INTEGERS_WEIGHTS_512_H

#include "backends/cpu/simd/integers/pack_512.h"

/* Computes tile->factor [G, KVC_TILE] for the entries in `range`, and unit [G]. Sets the factors of the other entries
 * in the same blocks of 64 to 0. */
static void factors(const struct kvc_integer_tile *tile, struct seen_range range, float *unit) {
    const uint32_t groups = integer_groups(tile->d), from = block_start(range.low), to = block_end(range.high);
    for (uint32_t g = 0; g < groups; g++) {
        const float *scale = tile->value_scale + g * KVC_TILE;
        float *factor = tile->factor + g * KVC_TILE;
        __m512i top = _mm512_setzero_si512();
        for (uint32_t e = from; e < to; e += 16) {
            const __m512i entry = _mm512_add_epi32(
                _mm512_set1_epi32((int)e), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
            const __mmask16 in = _mm512_cmplt_epi32_mask(entry, _mm512_set1_epi32((int)range.high)) &
                                 _mm512_cmpge_epi32_mask(entry, _mm512_set1_epi32((int)range.low));
            /* scales are not negative, so they can be compared as integers */
            const __m512i x = _mm512_maskz_loadu_epi32(in, scale + e);
            _mm512_storeu_si512(factor + e, x);
            top = _mm512_max_epi32(top, x);
        }
        const kvc_u32 most = (kvc_u32)_mm512_reduce_max_epi32(top);
        const __m512 inverse = _mm512_set1_ps(kvc_value_inverse(most));
        unit[g] = kvc_value_unit(most);
        for (uint32_t e = from; e < to; e += 16)
            _mm512_storeu_ps(factor + e, _mm512_mul_ps(_mm512_loadu_ps(factor + e), inverse));
    }
}

/* Computes the weights of 16 entries. If p is a NaN, the weight is unspecified. */
INLINE __m512i weights_of(const float *p, const float *factor) {
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(p), _mm512_loadu_ps(factor)));
}

/* Stores the high and low digits of the weights of 64 entries to digit [2, KVC_TILE]. */
INLINE void store_digits(const __m512i *x, unsigned char *digit) {
    const __m512i seven = _mm512_set1_epi16(127), a = _mm512_packs_epi32(x[0], x[1]),
                  b = _mm512_packs_epi32(x[2], x[3]);
    _mm512_storeu_si512(digit, _mm512_packus_epi16(_mm512_srai_epi16(a, 7), _mm512_srai_epi16(b, 7)));
    _mm512_storeu_si512(digit + KVC_TILE, _mm512_packus_epi16(_mm512_and_si512(a, seven), _mm512_and_si512(b, seven)));
}

/* Computes the weights of one query from p [KVC_TILE], and writes their digits to digit [2, KVC_TILE], for the blocks
 * of entries that `of` contains. `in` is the range of entries that the query sees. p is undefined outside the blocks of
 * 32 that `in` overlaps. */
INLINE void weigh(const float *p, const float *factor, struct seen_range in, struct seen_range of,
                  unsigned char *digit) {
    const uint32_t first = in.low / KVC_LANES * KVC_LANES, end = (in.high + KVC_LANES - 1) / KVC_LANES * KVC_LANES;
    for (uint32_t e = of.low; e < of.high; e += BLOCK) {
        __m512i x[4];
        if (e >= first && e + BLOCK <= end) {
            UNROLL
            for (uint32_t i = 0; i < 4; i++)
                x[i] = weights_of(p + e + 16 * i, factor + e + 16 * i);
        } else {
            UNROLL
            for (uint32_t i = 0; i < 4; i++)
                x[i] = e + 16 * i >= first && e + 16 * i < end ? weights_of(p + e + 16 * i, factor + e + 16 * i)
                                                               : _mm512_setzero_si512();
        }
        store_digits(x, digit + e);
    }
}

/* Computes the digits [G, INTEGERS_PADDING, 2, KVC_TILE] and the units [count, G] of queries first .. first + count - 1
 * from p [.., KVC_TILE]. If first > 0, the previous call must have ended with query first - 1. Returns the range of
 * entries that have digits, in whole blocks of 64. */
static struct seen_range weigh_queries(const struct kvc_integer_tile *tile, const float *p, const struct seen_range *in,
                                       uint32_t first, uint32_t count) {
    const uint32_t groups = integer_groups(tile->d);
    struct seen_range any = seen_by_all(in + first, count);
    any.low = block_start(any.low), any.high = block_end(any.high);
    for (uint32_t i = first; i < first + count; i++) {
        float *unit = tile->unit + (size_t)i * groups;
        struct seen_range mine = in[i];
        if (mine.low >= mine.high)
            mine.low = mine.high = 0;
        if (i && in[i].low == in[i - 1].low && in[i].high == in[i - 1].high)
            memcpy(unit, unit - groups, groups * sizeof *unit);
        else
            factors(tile, mine, unit);
        for (uint32_t g = 0; g < groups; g++)
            weigh(p + (size_t)i * KVC_TILE, tile->factor + g * KVC_TILE, mine, any,
                  tile->digits + ((size_t)g * INTEGERS_PADDING + i - first) * 2 * KVC_TILE);
    }
    return any;
}

/* Stores the outputs of a group of 32 channels, of which only the first `channels` exist. high0 and low0 are the sums
 * of the high and low digits for the first half of the group, and high1 and low1 for the second half. */
INLINE void store_group(__m512i high0, __m512i high1, __m512i low0, __m512i low1, float unit, uint32_t channels,
                        float *o) {
    const __m512 first = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high0, 7), low0));
    const __m512 second = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high1, 7), low1));
    __m512 x, y;
    natural_order(first, second, &x, &y);
    x = _mm512_mul_ps(x, _mm512_set1_ps(unit));
    y = _mm512_mul_ps(y, _mm512_set1_ps(unit));
    if (channels >= 32) {
        _mm512_storeu_ps(o, x);
        _mm512_storeu_ps(o + 16, y);
        return;
    }
    _mm512_mask_storeu_ps(o, (__mmask16)(channels >= 16 ? 0xffffu : (1u << channels) - 1), x);
    _mm512_mask_storeu_ps(o + 16, (__mmask16)(channels > 16 ? (1u << (channels - 16)) - 1 : 0), y);
}

#endif
