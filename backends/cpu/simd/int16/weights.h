/* weights.h - template: quantizes 256 weights of a row to fourteen bits, eight blocks of 32 at a time, in 256-bit
 * vectors. Also quantizes rows of activations, which are weights of type F32.
 *
 * Sixteen quants of a vector are in the order of _mm256_packs_epi32: the second and the third four are exchanged. */
#ifndef KVC_SIMD_INT16_WEIGHTS_H
#define KVC_SIMD_INT16_WEIGHTS_H

#include <immintrin.h>
#include <string.h>

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/int8/parameters.h"
#include "backends/cpu/simd/lanes/unroll.h"

struct wide_weights {
    __m256i quant[8][2]; /* of each block: 16-bit quants 0 .. 15 and 16 .. 31 */
    __m256 scale;        /* of the eight blocks */
};

/* A place in a row of weights. */
struct wide_place {
    const unsigned char *data;
    const float *scale; /* of packed weights */
};

INLINE struct wide_place wide_row(const struct kvc_int8_call *call, size_t n) {
    return (struct wide_place){call->w + n * call->row_bytes,
                               call->w_scale ? call->w_scale + n * (call->K / 32) : NULL};
}

/* Returns the bytes of 256 weights. */
INLINE int wide_bytes(const enum kvc_type type) { return type == KVC_F32 ? 1024 : type == KVC_FP8 ? 264 : 512; }

INLINE __m128i load_16_bytes(const unsigned char *from) { return _mm_loadu_si128((const __m128i *)(const void *)from); }

/* Converts eight numbers of FP8 to floats. Their seven bits of exponent and fraction become those of an F16, whose
 * exponent bias is larger by 8. All ones are a NaN. */
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
    float scale; /* FP8: 128 weights have one scale, which precedes them */
    const unsigned char *block = group + i / 16 * 132;
    memcpy(&scale, block, sizeof scale);
    return _mm256_mul_ps(floats_of_e4m3(block + 4 + 8 * (i % 16)), _mm256_set1_ps(scale));
}

/* Returns elements of which the largest is the top of a block: of 16 bits for F16 and BF16, otherwise of 32. */
INLINE __m256i magnitudes(const enum kvc_type type, const unsigned char *group, int block) {
    if (type == KVC_F16 || type == KVC_BF16) {
        const __m256i *w = (const __m256i *)(const void *)(group + 64 * block);
        const __m256i mask = _mm256_set1_epi16(0x7fff);
        return _mm256_max_epi16(_mm256_and_si256(_mm256_loadu_si256(w), mask),
                                _mm256_and_si256(_mm256_loadu_si256(w + 1), mask));
    }
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    UNROLL
    for (int i = 0; i < 4; i++)
        most = _mm256_max_epi32(most,
                                _mm256_and_si256(_mm256_castps_si256(wide_floats(type, group, 4 * block + i)), mask));
    return most;
}

/* The larger ones of neighbouring elements of 32 bits, or of 64 bits. Elements of 16 bits stay apart. */
INLINE __m256i larger(const enum kvc_type type, __m256i a, __m256i b) {
    return type == KVC_F16 || type == KVC_BF16 ? _mm256_max_epi16(a, b) : _mm256_max_epi32(a, b);
}
INLINE __m256i larger_pairs(const enum kvc_type type, __m256i a, __m256i b) {
    return larger(type, _mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
INLINE __m256i larger_fours(const enum kvc_type type, __m256i a, __m256i b) {
    return larger(type, _mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

/* Returns the tops of eight blocks as bits of floats. The first `parts` blocks exist; the tops of the others are 0. */
INLINE __m256i tops(const enum kvc_type type, const unsigned char *group, int parts) {
    __m256i most[8];
    UNROLL
    for (int b = 0; b < 8; b++)
        most[b] = b < parts ? magnitudes(type, group, b) : _mm256_setzero_si256();
    const __m256i a = larger_fours(type, larger_pairs(type, most[0], most[1]), larger_pairs(type, most[2], most[3]));
    const __m256i b = larger_fours(type, larger_pairs(type, most[4], most[5]), larger_pairs(type, most[6], most[7]));
    const __m256i top = larger(type, _mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
    if (type != KVC_F16 && type != KVC_BF16)
        return top;
    if (type == KVC_BF16)
        return _mm256_max_epi32(_mm256_slli_epi32(top, 16), _mm256_and_si256(top, _mm256_set1_epi32((int)0xffff0000u)));
    const __m256i one = _mm256_max_epi16(_mm256_and_si256(top, _mm256_set1_epi32(0xffff)), _mm256_srli_epi32(top, 16));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(one, one), 0x08);
    return _mm256_castps_si256(_mm256_cvtph_ps(_mm256_castsi256_si128(packed)));
}

/* Returns the scales of eight blocks; *inverse receives the factors of their numbers. */
INLINE __m256 wide_scales(__m256i top, __m256 *inverse) {
    const __m256 most = _mm256_set1_ps(KVC_INT16_MOST), of = _mm256_castsi256_ps(top);
    const __m256 small = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)KVC_INT16_LEAST), top));
    const __m256 wild = _mm256_castsi256_ps(_mm256_cmpgt_epi32(top, _mm256_set1_epi32((int)KVC_INFINITY_BITS - 1)));
    *inverse = _mm256_andnot_ps(_mm256_or_ps(small, wild), _mm256_div_ps(most, of));
    return _mm256_blendv_ps(_mm256_andnot_ps(small, _mm256_div_ps(of, most)),
                            _mm256_castsi256_ps(_mm256_set1_epi32((int)KVC_NAN_BITS)), wild);
}

/* Quantizes sixteen numbers. If their block's scale is a NaN, the quants are undefined: the products are NaN anyway. */
INLINE __m256i wide_quants(__m256 a, __m256 b, __m256 inverse) {
    return _mm256_packs_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(a, inverse)),
                              _mm256_cvtps_epi32(_mm256_mul_ps(b, inverse)));
}

/* Ones in the first `parts` of eight elements. */
INLINE __m256i wide_first(int parts) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(parts), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Loads packed weights. */
INLINE void wide_load(struct wide_weights *u, struct wide_place at, int parts) {
    const __m256i *from = (const __m256i *)(const void *)at.data;
    u->scale = parts == 8 ? _mm256_loadu_ps(at.scale) : _mm256_maskload_ps(at.scale, wide_first(parts));
    UNROLL
    for (int b = 0; b < 8; b++) {
        UNROLL
        for (int h = 0; h < 2; h++)
            u->quant[b][h] = b < parts ? _mm256_loadu_si256(from + 2 * b + h) : _mm256_setzero_si256();
    }
}

/* Quantizes 256 weights, or the first `parts` blocks of 32. The other blocks become zeros. `type` is a constant. */
INLINE void wide_unpack(const enum kvc_type type, struct wide_weights *u, struct wide_place at, int parts) {
    const unsigned char *group = at.data;
    float inverse[8];
    if (type == KVC_PACKED) {
        wide_load(u, at, parts);
        return;
    }
    __m256 inverses;
    u->scale = wide_scales(tops(type, group, parts), &inverses);
    _mm256_storeu_ps(inverse, inverses);
    UNROLL
    for (int b = 0; b < 8; b++) {
        UNROLL
        for (int h = 0; h < 2; h++)
            u->quant[b][h] =
                b < parts ? wide_quants(wide_floats(type, group, 4 * b + 2 * h),
                                        wide_floats(type, group, 4 * b + 2 * h + 1), _mm256_broadcast_ss(inverse + b))
                          : _mm256_setzero_si256();
    }
}

/* Calls m(TYPE, name) for each type of weights. */
#define WIDE_TYPES(m) m(KVC_F32, f32) m(KVC_F16, f16) m(KVC_BF16, bf16) m(KVC_FP8, fp8) m(KVC_PACKED, packed)
enum { WIDE_TABLE = KVC_PACKED + 1 };

/* Quantizes blocks first .. end - 1 of a row or of several, of which `from` has the first. */
INLINE void wide_blocks(const enum kvc_type type, const unsigned char *from, kvc_i16 *quant, float *scale, size_t first,
                        size_t end) {
    const size_t step = (size_t)wide_bytes(type);
    for (size_t b = first; b < end; b += 8, from += step) {
        const int parts = (int)kvc_min_u64(8, end - b);
        float scales[8];
        struct wide_weights u;
        wide_unpack(type, &u, (struct wide_place){from, NULL}, parts);
        _mm256_storeu_ps(scales, u.scale);
        for (int i = 0; i < parts; i++) {
            const __m256i none = _mm256_set1_epi32(kvc_is_nan(scales[i]) ? 0 : -1);
            scale[b + (size_t)i] = scales[i];
            for (int h = 0; h < 2; h++)
                _mm256_storeu_si256(
                    (__m256i *)(void *)(quant + 32 * (b + (size_t)i) + 16 * h),
                    _mm256_and_si256(none, _mm256_permute4x64_epi64(u.quant[i][h], _MM_SHUFFLE(3, 1, 2, 0))));
        }
    }
}

/* Quantizes rows first .. last - 1 of activations. */
static void wide_quantize(const struct kvc_quantize_rows_int16 *args, size_t first, size_t last) {
    const size_t blocks = args->K / KVC_INT16_BLOCK;
    const float *x = (const float *)kvc_span_data(args->x) + first * args->K;
    wide_blocks(KVC_F32, (const unsigned char *)(const void *)x, kvc_span_data(args->y.quant),
                kvc_span_data(args->y.scale), first * blocks, last * blocks);
}

#endif
