/* gemv.h - template: few rows times weights as they lie in the file. Eight blocks of an output at a time: their sums
 * are one vector of integers, whose elements go to the eight lanes. */

#define AHEAD 512 /* bytes: weights are asked for so far ahead */

/* Eight sums of the products of four unsigned quants, with VNNI any, else below 64, with bytes of -127 .. 127. */
INLINE __m256i dot_unsigned(__m256i w, __m256i q) {
#if PAIRS
    return _mm256_madd_epi16(_mm256_maddubs_epi16(w, q), _mm256_set1_epi16(1));
#else
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), w, q);
#endif
}
/* Signed ones of -128 .. 127, and how much more than they are their sums are of. Without VNNI pairs are added in 16
 * bits, with saturation: a magnitude of at most 128 times one of at most 127, twice, is 32512. */
#define SMALL_BATCH_OFFSET(is_signed, offset) (!(is_signed) ? (offset) : PAIRS ? 0 : 128)
INLINE __m256i dot_signed(__m256i w, __m256i q) {
#if PAIRS
    return dot_unsigned(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w));
#else
    return dot_unsigned(_mm256_xor_si256(w, _mm256_set1_epi8((char)-128)), q);
#endif
}

/* Of the four elements of each half of a and of b, two sums each, a's and b's side by side; then one sum each of four.
 */
INLINE __m256i add_pairs(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
INLINE __m256i add_fours(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}
/* Eight sums for each of eight blocks to sums of the blocks' first halves and second halves. */
INLINE void reduce(const __m256i *part, __m256i *first, __m256i *second) {
    const __m256i a = add_fours(add_pairs(part[0], part[1]), add_pairs(part[2], part[3]));
    const __m256i b = add_fours(add_pairs(part[4], part[5]), add_pairs(part[6], part[7]));
    *first = _mm256_permute2x128_si256(a, b, 0x20);
    *second = _mm256_permute2x128_si256(a, b, 0x31);
}
INLINE __m256i load_sums(const kvc_i32 *from) { return _mm256_load_si256((const __m256i *)(const void *)from); }

/* lane += s * x * sum, as kvc_int8_add. */
INLINE __m256 add_sums(__m256 s, __m256 x, __m256i sum, __m256 lane) {
    return _mm256_fmadd_ps(_mm256_mul_ps(s, x), _mm256_cvtepi32_ps(sum), lane);
}

/* lane -= m * (x * sum), as kvc_int8_take. */
INLINE __m256 take(__m256 m, const float *scaled, __m256 lane) {
    return _mm256_fnmadd_ps(m, _mm256_load_ps(scaled), lane);
}

/* One group of an output's weights times one row's. All but the first three are constants. */
INLINE __m256 add_group(const struct unpacked *u, const struct kvc_int8_group *x, __m256 lane, int is_signed,
                        int offset, int width, int has_minimum) {
    const __m256 scale = _mm256_load_ps(x->scale);
    __m256i part[8], first, second;
    UNROLL
    for (int i = 0; i < 8; i++) {
        const __m256i q = _mm256_load_si256((const __m256i *)(const void *)(x->quant + 32 * i));
        part[i] = is_signed ? dot_signed(u->quant[i], q) : dot_unsigned(u->quant[i], q);
    }
    reduce(part, &first, &second);
    if (width == 32) {
        __m256i sum = _mm256_add_epi32(first, second);
        if (offset)
            sum = _mm256_sub_epi32(sum, _mm256_mullo_epi32(load_sums(x->sum), _mm256_set1_epi32(offset)));
        lane = add_sums(u->scale[0], scale, sum, lane);
        return has_minimum ? take(u->minimum[0], x->scaled, lane) : lane;
    }
    if (offset) {
        const __m256i by = _mm256_set1_epi32(offset);
        first = _mm256_sub_epi32(first, _mm256_mullo_epi32(load_sums(x->half[0]), by));
        second = _mm256_sub_epi32(second, _mm256_mullo_epi32(load_sums(x->half[1]), by));
    }
    lane = add_sums(u->scale[0], scale, first, lane);
    if (has_minimum)
        lane = take(u->minimum[0], x->half_scaled[0], lane);
    lane = add_sums(u->scale[1], scale, second, lane);
    return has_minimum ? take(u->minimum[1], x->half_scaled[1], lane) : lane;
}

INLINE float sum_lanes8(__m256 lane) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(lane), _mm256_extractf128_ps(lane, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/* Lanes that a short group has. */
INLINE __m256 first_lanes(int parts) {
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(parts), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}

#define FEW(a, NAME, name, gguf, elements, bytes, at, scales, wide, holds)                                             \
    INLINE void small_batch_of_##name(const struct kvc_int8_call *call, size_t row, size_t first, size_t last,         \
                                      int R) {                                                                         \
        const size_t whole = call->K / 256, groups = (call->K + 255) / 256, step = 256 / (elements) * (bytes);         \
        const int rest = (int)(call->K % 256 / 32);                                                                    \
        const unsigned char *w = call->w + first * call->row_bytes;                                                    \
        for (size_t n = first; n < last; n++, w += call->row_bytes) {                                                  \
            const struct kvc_int8_group *x = call->group + row * groups;                                               \
            const unsigned char *g = w;                                                                                \
            struct unpacked u;                                                                                         \
            __m256 lane[4];                                                                                            \
            UNROLL                                                                                                     \
            for (int r = 0; r < R; r++)                                                                                \
                lane[r] = _mm256_setzero_ps();                                                                         \
            for (size_t i = 0; i < whole; i++, g += step, x++) {                                                       \
                UNROLL                                                                                                 \
                for (size_t line = 0; line < step; line += 64)                                                         \
                    _mm_prefetch((const char *)g + AHEAD + line, _MM_HINT_T0);                                         \
                unpack_##name(&u, g, 8);                                                                               \
                UNROLL                                                                                                 \
                for (int r = 0; r < R; r++)                                                                            \
                    lane[r] = add_group(&u, x + (size_t)r * groups, lane[r], SIGNED_##name,                            \
                                        SMALL_BATCH_OFFSET(SIGNED_##name, OFFSET_##name), KVC_INT8_WIDTH_##NAME,       \
                                        KVC_INT8_HAS_MIN_##NAME);                                                      \
            }                                                                                                          \
            if (rest) {                                                                                                \
                unpack_##name(&u, g, rest);                                                                            \
                UNROLL                                                                                                 \
                for (int r = 0; r < R; r++)                                                                            \
                    lane[r] = _mm256_blendv_ps(lane[r],                                                                \
                                               add_group(&u, x + (size_t)r * groups, lane[r], SIGNED_##name,           \
                                                         SMALL_BATCH_OFFSET(SIGNED_##name, OFFSET_##name),             \
                                                         KVC_INT8_WIDTH_##NAME, KVC_INT8_HAS_MIN_##NAME),              \
                                               first_lanes(rest));                                                     \
            }                                                                                                          \
            UNROLL                                                                                                     \
            for (int r = 0; r < R; r++) {                                                                              \
                const float sum = sum_lanes8(lane[r]);                                                                 \
                call->y[(row + (size_t)r) * call->N + n] = call->bias ? sum + call->bias[n] : sum;                     \
            }                                                                                                          \
        }                                                                                                              \
    }
KVC_BLOCK_TYPES(FEW, )

#include "backends/cpu/simd/int8/small_batch.h"
