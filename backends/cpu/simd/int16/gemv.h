/* gemv.h - template: linear layers in 15 bits for few rows. A block of weights is read once for up to four rows. */
#ifndef KVC_SIMD_INT16_GEMV_H
#define KVC_SIMD_INT16_GEMV_H

#include "backends/cpu/simd/int16/weights.h"
#include "backends/cpu/simd/int8/gemv.h"

/* A block's sum, spread over eight elements. `wrapped` is the sum modulo 2^32. The elements of `high` add up to the sum
 * divided by 2^14, or to a number that is lower by at most 32. Together, `wrapped` and `high` determine the sum. */
struct wide_sum {
    __m256i wrapped, high;
};

/* Adds `products`: each element is the sum of up to eight products, which fits in 32 bits. */
INLINE void wide_sum_add(struct wide_sum *sum, __m256i products) {
    sum->wrapped = _mm256_add_epi32(sum->wrapped, products);
    sum->high = _mm256_add_epi32(sum->high, _mm256_srai_epi32(products, 14));
}

INLINE __m256i wide_dot(__m256i sum, __m256i w, const kvc_i16 *x) {
    const __m256i q = _mm256_load_si256((const __m256i *)(const void *)x);
#if PAIRS
    return _mm256_add_epi32(sum, _mm256_madd_epi16(w, q));
#else
    return _mm256_dpwssd_epi32(sum, w, q);
#endif
}

INLINE float wide_finish(struct wide_sum sum, float w, float x, float to) {
    const kvc_i32 high = sum_elements(sum.high);
    const kvc_i32 rest = (kvc_i32)((kvc_u32)sum_elements(sum.wrapped) - ((kvc_u32)high << 14));
    return kvc_int16_add(w, x, (kvc_i64)high * 16384 + rest, to);
}

/* Multiplies a block of an output's weights by the same block of R rows. A row has `groups` blocks. R is a constant. */
INLINE void wide_block(const struct wide_weights *u, const struct kvc_int16_group *x, size_t groups, float *sum,
                       const int R) {
    UNROLL
    for (int r = 0; r < R; r++) {
        const struct kvc_int16_group *of_row = x + (size_t)r * groups;
        struct wide_sum whole = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        UNROLL
        for (int i = 0; i < 16; i += 4) {
            __m256i products = _mm256_madd_epi16(
                u->quant[i], _mm256_load_si256((const __m256i *)(const void *)(of_row->quant + 16 * i)));
            UNROLL
            for (int j = 1; j < 4; j++)
                products = wide_dot(products, u->quant[i + j], of_row->quant + 16 * (i + j));
            wide_sum_add(&whole, products);
        }
        sum[r] = wide_finish(whole, u->scale, of_row->scale, sum[r]);
    }
}

/* number of outputs computed at a time; one stream of weights would reach only half of the bandwidth */
#define WIDE_STREAMS 4

/* Computes R rows. The outputs are divided into WIDE_STREAMS ranges, and one output of each range is computed at a
 * time. The weights of a range are read in order, so the hardware prefetches them. R is a constant. */
INLINE void wide_few(const enum kvc_type type, const struct kvc_int8_call *call, size_t row, size_t first, size_t last,
                     const int R) {
    const size_t whole = call->K / 256, groups = (call->K + 255) / 256;
    const size_t stretch = (last - first + WIDE_STREAMS - 1) / WIDE_STREAMS;
    const int rest = (int)(call->K % 256 / 32);
    for (size_t n = first; n < first + stretch; n++) {
        const struct kvc_int16_group *x = call->wide_group + row * groups;
        struct wide_place at[WIDE_STREAMS];
        struct wide_weights u;
        float sum[WIDE_STREAMS][4] = {{0.0f}};
        for (size_t j = 0; j < WIDE_STREAMS; j++)
            at[j] = wide_row(call, kvc_min_u64(n + j * stretch, last - 1));
        for (size_t i = 0; i < whole; i++, x++) {
            UNROLL
            for (size_t j = 0; j < WIDE_STREAMS; j++) {
                wide_unpack(type, &u, at[j], 8);
                wide_block(&u, x, groups, sum[j], R);
                at[j].data += wide_bytes(type);
                at[j].scale += type == KVC_PACKED;
            }
        }
        for (size_t j = 0; rest && j < WIDE_STREAMS; j++) {
            wide_unpack(type, &u, at[j], rest);
            wide_block(&u, x, groups, sum[j], R);
        }
        for (size_t j = 0; j < WIDE_STREAMS; j++) {
            const size_t output = kvc_min_u64(n + j * stretch, last - 1);
            for (int r = 0; r < R; r++)
                call->y[(row + (size_t)r) * call->N + output] = call->bias ? sum[j][r] + call->bias[output] : sum[j][r];
        }
    }
}

#define WIDE_SMALL_BATCH(NAME, name)                                                                                   \
    static void wide_1_##name(const struct kvc_int8_call *call, size_t row, size_t first, size_t last) {               \
        wide_few(NAME, call, row, first, last, 1);                                                                     \
    }                                                                                                                  \
    static void wide_2_##name(const struct kvc_int8_call *call, size_t row, size_t first, size_t last) {               \
        wide_few(NAME, call, row, first, last, 2);                                                                     \
    }                                                                                                                  \
    static void wide_4_##name(const struct kvc_int8_call *call, size_t row, size_t first, size_t last) {               \
        wide_few(NAME, call, row, first, last, 4);                                                                     \
    }
WIDE_TYPES(WIDE_SMALL_BATCH)

static void (*const wide_by_type[WIDE_TABLE][3])(const struct kvc_int8_call *, size_t row, size_t first,
                                                 size_t last) = {
#define WIDE_BY_TYPE(NAME, name) [NAME] = {wide_1_##name, wide_2_##name, wide_4_##name},
    WIDE_TYPES(WIDE_BY_TYPE)};

static void wide_few_rows(const struct kvc_int8_call *call, size_t first, size_t last) {
    for (size_t row = 0; row < call->rows;) {
        const size_t left = call->rows - row, power = left >= 4 ? 2 : left >= 2;
        wide_by_type[call->type][power](call, row, first, last);
        row += (size_t)1 << power;
    }
}

#endif
