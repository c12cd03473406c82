/* gemv.h - template: products of fourteen bits for few rows. Like int8/gemv.h, it computes eight blocks of an output at
 * a time. */
#ifndef KVC_SIMD_INT16_GEMV_H
#define KVC_SIMD_INT16_GEMV_H

#include "backends/cpu/simd/int16/weights.h"
#include "backends/cpu/simd/int8/gemv.h"

/* Returns eight sums of four products each of a block. */
INLINE __m256i wide_dot(const __m256i w[2], const kvc_i16 *x) {
    const __m256i x0 = _mm256_load_si256((const __m256i *)(const void *)x);
    const __m256i x1 = _mm256_load_si256((const __m256i *)(const void *)(x + 16));
#if PAIRS
    return _mm256_add_epi32(_mm256_madd_epi16(w[0], x0), _mm256_madd_epi16(w[1], x1));
#else
    return _mm256_dpwssd_epi32(_mm256_madd_epi16(w[0], x0), w[1], x1);
#endif
}

/* Multiplies one group of an output's weights by one row's activations. */
INLINE __m256 wide_group(const struct wide_weights *u, const struct kvc_int16_group *x, __m256 lane) {
    __m256i part[8], first, second;
    UNROLL
    for (int i = 0; i < 8; i++)
        part[i] = wide_dot(u->quant[i], x->quant + 32 * i);
    reduce(part, &first, &second);
    return add_sums(u->scale, _mm256_load_ps(x->scale), _mm256_add_epi32(first, second), lane);
}

/* Computes R rows from `row` on. R is a constant. */
INLINE void wide_small_batch(const enum kvc_type type, const struct kvc_int8_call *call, size_t row, size_t first,
                             size_t last, const int R) {
    const size_t whole = call->K / 256, groups = (call->K + 255) / 256, step = (size_t)wide_bytes(type);
    const int rest = (int)(call->K % 256 / 32);
    for (size_t n = first; n < last; n++) {
        const struct kvc_int16_group *x = call->wide_group + row * groups;
        struct wide_place g = wide_row(call, n);
        struct wide_weights u;
        __m256 lane[4];
        UNROLL
        for (int r = 0; r < R; r++)
            lane[r] = _mm256_setzero_ps();
        for (size_t i = 0; i < whole; i++, g.data += step, x++) {
            UNROLL
            for (size_t line = 0; line < step; line += 64)
                _mm_prefetch((const char *)g.data + 2 * AHEAD + line, _MM_HINT_T0);
            wide_unpack(type, &u, g, 8);
            if (type == KVC_PACKED)
                g.scale += 8;
            UNROLL
            for (int r = 0; r < R; r++)
                lane[r] = wide_group(&u, x + (size_t)r * groups, lane[r]);
        }
        if (rest) {
            wide_unpack(type, &u, g, rest);
            UNROLL
            for (int r = 0; r < R; r++)
                lane[r] = _mm256_blendv_ps(lane[r], wide_group(&u, x + (size_t)r * groups, lane[r]), first_lanes(rest));
        }
        UNROLL
        for (int r = 0; r < R; r++) {
            const float sum = sum_lanes8(lane[r]);
            call->y[(row + (size_t)r) * call->N + n] = call->bias ? sum + call->bias[n] : sum;
        }
    }
}

/* ---- packed weights ---- */

#define WIDE_STREAMS 4 /* outputs computed at a time: one stream of weights would use half of the bandwidth */

/* Multiplies a group of R rows by that of an output. */
INLINE void wide_packed_group(struct wide_place at, const struct kvc_int16_group *x, size_t groups, __m256 *lane,
                              const int R) {
    struct wide_weights u;
    wide_load(&u, at, 8);
    UNROLL
    for (int r = 0; r < R; r++)
        lane[r] = wide_group(&u, x + (size_t)r * groups, lane[r]);
}

/* The same for a short group, of `parts` blocks. */
INLINE void wide_packed_rest(struct wide_place at, const struct kvc_int16_group *x, size_t groups, __m256 *lane,
                             int parts, const int R) {
    const __m256i *from = (const __m256i *)(const void *)at.data;
    const __m256 scale = _mm256_maskload_ps(at.scale, wide_first(parts));
    UNROLL
    for (int r = 0; r < R; r++) {
        const struct kvc_int16_group *of_row = x + (size_t)r * groups;
        __m256i part[8], first, second;
        UNROLL
        for (int b = 0; b < 8; b++)
            part[b] = _mm256_setzero_si256();
        for (int b = 0; b < parts; b++) {
            const __m256i w[2] = {_mm256_loadu_si256(from + 2 * b), _mm256_loadu_si256(from + 2 * b + 1)};
            part[b] = wide_dot(w, of_row->quant + 32 * b);
        }
        reduce(part, &first, &second);
        const __m256 sum = add_sums(scale, _mm256_load_ps(of_row->scale), _mm256_add_epi32(first, second), lane[r]);
        lane[r] = _mm256_blendv_ps(lane[r], sum, first_lanes(parts));
    }
}

/* Computes R rows. The outputs are divided into ranges, and one output of each range is computed at a time, so that
 * each stream is read in order and the hardware fetches it ahead. R is a constant. */
INLINE void wide_packed(const struct kvc_int8_call *call, size_t row, size_t first, size_t last, const int R) {
    const size_t whole = call->K / 256, groups = (call->K + 255) / 256;
    const size_t stretch = (last - first + WIDE_STREAMS - 1) / WIDE_STREAMS;
    const int rest = (int)(call->K % 256 / 32);
    for (size_t n = first; n < first + stretch; n++) {
        const struct kvc_int16_group *x = call->wide_group + row * groups;
        struct wide_place at[WIDE_STREAMS];
        __m256 lane[WIDE_STREAMS][4];
        UNROLL
        for (size_t j = 0; j < WIDE_STREAMS; j++) {
            at[j] = wide_row(call, kvc_min_u64(n + j * stretch, last - 1));
            UNROLL
            for (int r = 0; r < R; r++)
                lane[j][r] = _mm256_setzero_ps();
        }
        for (size_t i = 0; i < whole; i++, x++) {
            UNROLL
            for (size_t j = 0; j < WIDE_STREAMS; j++) {
                wide_packed_group(at[j], x, groups, lane[j], R);
                at[j].data += 512;
                at[j].scale += 8;
            }
        }
        if (rest) {
            UNROLL
            for (size_t j = 0; j < WIDE_STREAMS; j++)
                wide_packed_rest(at[j], x, groups, lane[j], rest, R);
        }
        UNROLL
        for (size_t j = 0; j < WIDE_STREAMS; j++) {
            const size_t output = kvc_min_u64(n + j * stretch, last - 1);
            UNROLL
            for (int r = 0; r < R; r++) {
                const float sum = sum_lanes8(lane[j][r]);
                call->y[(row + (size_t)r) * call->N + output] = call->bias ? sum + call->bias[output] : sum;
            }
        }
    }
}

INLINE void wide_few(const enum kvc_type type, const struct kvc_int8_call *call, size_t row, size_t first, size_t last,
                     const int R) {
    if (type == KVC_PACKED)
        wide_packed(call, row, first, last, R);
    else
        wide_small_batch(type, call, row, first, last, R);
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
