/* gemv.h - template: int8 products for few rows, with weights in the file's layout. Eight blocks of an output are
 * computed at a time: their sums form one vector of integers, whose elements go to the eight lanes. */
#ifndef KVC_SIMD_INT8_GEMV_H
#define KVC_SIMD_INT8_GEMV_H

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/int8/unpack.h"

#define AHEAD 512 /* prefetch weights this many bytes before their use */

/* Returns eight sums of four products each. w has unsigned quants, below 64 without VNNI; q has bytes of -127 ..
 * 127. */
INLINE __m256i dot_unsigned(__m256i w, __m256i q) {
#if PAIRS
    return _mm256_madd_epi16(_mm256_maddubs_epi16(w, q), _mm256_set1_epi16(1));
#else
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), w, q);
#endif
}
/* dot_signed does the same for signed quants of -128 .. 127. multiplied_offset returns the amount by which the
 * multiplied codes exceed the quants. Without VNNI, pairs of products are added in 16 bits with saturation. No pair
 * saturates, because a product is at most 128 * 127 and two of them are at most 32512. */
INLINE int multiplied_offset(const enum kvc_type type) {
    return !is_signed(type) ? code_offset(type) : PAIRS ? 0 : 128;
}
INLINE __m256i dot_signed(__m256i w, __m256i q) {
#if PAIRS
    return dot_unsigned(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w));
#else
    return dot_unsigned(_mm256_xor_si256(w, _mm256_set1_epi8((char)-128)), q);
#endif
}

/* add_pairs reduces the four elements in each half of `a` to two sums, and does the same for `b`. add_fours reduces two
 * such results to one sum for each of the four inputs. */
INLINE __m256i add_pairs(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
INLINE __m256i add_fours(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}
/* Reduces the eight sums of each of eight blocks to two: one for the first half of the block and one for the second. */
INLINE void reduce(const __m256i *part, __m256i *first, __m256i *second) {
    const __m256i a = add_fours(add_pairs(part[0], part[1]), add_pairs(part[2], part[3]));
    const __m256i b = add_fours(add_pairs(part[4], part[5]), add_pairs(part[6], part[7]));
    *first = _mm256_permute2x128_si256(a, b, 0x20);
    *second = _mm256_permute2x128_si256(a, b, 0x31);
}
INLINE __m256i load_sums(const kvc_i32 *from) { return _mm256_load_si256((const __m256i *)(const void *)from); }

/* Returns lane + s * x * sum, with the roundings of kvc_int8_add. */
INLINE __m256 add_sums(__m256 s, __m256 x, __m256i sum, __m256 lane) {
    return _mm256_fmadd_ps(_mm256_mul_ps(s, x), _mm256_cvtepi32_ps(sum), lane);
}

/* Returns lane - m * (x * sum), with the roundings of kvc_int8_take. */
INLINE __m256 take(__m256 m, const float *scaled, __m256 lane) {
    return _mm256_fnmadd_ps(m, _mm256_load_ps(scaled), lane);
}

/* Multiplies one group of an output's weights by one row's activations. */
INLINE __m256 add_group(const enum kvc_type type, const struct unpacked *u, const struct kvc_int8_group *x,
                        __m256 lane) {
    const int offset = multiplied_offset(type);
    const __m256 scale = _mm256_load_ps(x->scale);
    __m256i part[8], first, second;
    UNROLL
    for (int i = 0; i < 8; i++) {
        const __m256i q = _mm256_load_si256((const __m256i *)(const void *)(x->quant + 32 * i));
        part[i] = is_signed(type) ? dot_signed(u->quant[i], q) : dot_unsigned(u->quant[i], q);
    }
    reduce(part, &first, &second);
    if (piece_width(type) == 32) {
        __m256i sum = _mm256_add_epi32(first, second);
        if (offset)
            sum = _mm256_sub_epi32(sum, _mm256_mullo_epi32(load_sums(x->sum), _mm256_set1_epi32(offset)));
        lane = add_sums(u->scale[0], scale, sum, lane);
        return has_minimum(type) ? take(u->minimum[0], x->scaled, lane) : lane;
    }
    if (offset) {
        const __m256i by = _mm256_set1_epi32(offset);
        first = _mm256_sub_epi32(first, _mm256_mullo_epi32(load_sums(x->half[0]), by));
        second = _mm256_sub_epi32(second, _mm256_mullo_epi32(load_sums(x->half[1]), by));
    }
    lane = add_sums(u->scale[0], scale, first, lane);
    if (has_minimum(type))
        lane = take(u->minimum[0], x->half_scaled[0], lane);
    lane = add_sums(u->scale[1], scale, second, lane);
    return has_minimum(type) ? take(u->minimum[1], x->half_scaled[1], lane) : lane;
}

INLINE float sum_lanes8(__m256 lane) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(lane), _mm256_extractf128_ps(lane, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/* Returns a mask of the first `parts` lanes, for a short group. */
INLINE __m256 first_lanes(int parts) {
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(parts), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}

/* Computes R rows from `row` on. R is a constant. */
INLINE void small_batch(const enum kvc_type type, const struct kvc_int8_call *call, size_t row, size_t first,
                        size_t last, const int R) {
    const size_t whole = call->K / 256, groups = (call->K + 255) / 256, step = (size_t)group_bytes(type);
    const int rest = (int)(call->K % 256 / 32);
    const unsigned char *w = call->w + first * call->row_bytes;
    for (size_t n = first; n < last; n++, w += call->row_bytes) {
        const struct kvc_int8_group *x = call->group + row * groups;
        const unsigned char *g = w;
        struct unpacked u;
        __m256 lane[4];
        UNROLL
        for (int r = 0; r < R; r++)
            lane[r] = _mm256_setzero_ps();
        for (size_t i = 0; i < whole; i++, g += step, x++) {
            UNROLL
            for (size_t line = 0; line < step; line += 64)
                _mm_prefetch((const char *)g + AHEAD + line, _MM_HINT_T0);
            unpack(type, &u, g, 8);
            UNROLL
            for (int r = 0; r < R; r++)
                lane[r] = add_group(type, &u, x + (size_t)r * groups, lane[r]);
        }
        if (rest) {
            unpack(type, &u, g, rest);
            UNROLL
            for (int r = 0; r < R; r++)
                lane[r] =
                    _mm256_blendv_ps(lane[r], add_group(type, &u, x + (size_t)r * groups, lane[r]), first_lanes(rest));
        }
        UNROLL
        for (int r = 0; r < R; r++) {
            const float sum = sum_lanes8(lane[r]);
            call->y[(row + (size_t)r) * call->N + n] = call->bias ? sum + call->bias[n] : sum;
        }
    }
}

#endif
