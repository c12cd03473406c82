/* dequantized.h - dequantizes a range of a row of weights of any type to memory. Part of template.h. */
#ifndef KVC_SIMD_LINEAR_DEQUANTIZED_H
#define KVC_SIMD_LINEAR_DEQUANTIZED_H

#include "core/base/integers.h"
#include "backends/cpu/simd/linear/dequantize.h"
#include "backends/cpu/simd/linear/linear.h"
#include "backends/cpu/simd/linear/sizes.h"

/* Dequantizes n < 32 weights and fills the rest with padding. */
#define END_OF_ROW(a, NAME, name, ...)                                                                                 \
    INLINE void end_of_row_##name(float *w, const unsigned char *from, size_t n) {                                     \
        for (size_t i = 0; i < KVC_LANES; i++)                                                                         \
            w[i] = i < n ? dequantize_one_##name(from, i) : FILL_W;                                                    \
    }
KVC_ALL_WEIGHT_TYPES(END_OF_ROW, )

#define DEQUANTIZE_PART(type, p)                                                                                       \
    do {                                                                                                               \
        vf wv[LANE_VECTORS];                                                                                           \
        dequantize_##type(wv, from, p, &scales);                                                                       \
        UNROLL                                                                                                         \
        for (int v = 0; v < LANE_VECTORS; v++)                                                                         \
            vf_store(to + (p)*KVC_LANES + v * LANES, wv[v]);                                                           \
    } while (0)

/* Dequantizes at most GROUP weights from the start of a group. */
#define DEQUANTIZE_GROUP(type, rest)                                                                                   \
    static void dequantize_group_##type(float *to, const unsigned char *from, size_t n) {                              \
        struct scales scales;                                                                                          \
        int parts = (int)(n / KVC_LANES);                                                                              \
        prepare_##type(&scales, from, parts);                                                                          \
        rest(type)                                                                                                     \
    }
#define DEQUANTIZE_WHOLE(type)                                                                                         \
    DEQUANTIZE_PART(type, 0);                                                                                          \
    DEQUANTIZE_PART(type, 1);                                                                                          \
    DEQUANTIZE_PART(type, 2);                                                                                          \
    DEQUANTIZE_PART(type, 3);                                                                                          \
    DEQUANTIZE_PART(type, 4);                                                                                          \
    DEQUANTIZE_PART(type, 5);                                                                                          \
    DEQUANTIZE_PART(type, 6);                                                                                          \
    DEQUANTIZE_PART(type, 7);                                                                                          \
    (void)parts;
#define DEQUANTIZE_PARTS(type)                                                                                         \
    for (int p = 0; p < parts; p++)                                                                                    \
        DEQUANTIZE_PART(type, p);
#define DEQUANTIZE_ALL(type)                                                                                           \
    DEQUANTIZE_PARTS(type)                                                                                             \
    if (n % KVC_LANES)                                                                                                 \
        end_of_row_##type(to + parts * KVC_LANES, from + (size_t)parts * (group_bytes_##type / 8), n % KVC_LANES);

#define DEQUANTIZE_REST_1 DEQUANTIZE_ALL /* selected by the number of elements in a block */
#define DEQUANTIZE_REST_16 DEQUANTIZE_ALL
#define DEQUANTIZE_REST_32 DEQUANTIZE_PARTS
#define DEQUANTIZE_REST_128 DEQUANTIZE_PARTS
#define DEQUANTIZE_REST_256 DEQUANTIZE_WHOLE
#define DEQUANTIZE_GROUP_OF(a, NAME, name, gguf, elements, ...) DEQUANTIZE_GROUP(name, DEQUANTIZE_REST_##elements)
KVC_ALL_WEIGHT_TYPES(DEQUANTIZE_GROUP_OF, )

static const struct {
    void (*dequantize)(float *to, const unsigned char *from, size_t n);
    size_t bytes; /* bytes of a group */
} dequantize_by_type[KVC_ALL_TYPES] = {
#define DEQUANTIZE_BY_TYPE(a, NAME, name, ...) [KVC_##NAME] = {dequantize_group_##name, group_bytes_##name},
    KVC_ALL_WEIGHT_TYPES(DEQUANTIZE_BY_TYPE, )};

static const unsigned char *stretch_at(const struct kvc_linear_call *call, size_t output, size_t k0) {
    return call->w + output * call->row_bytes + k0 / GROUP * dequantize_by_type[call->type].bytes;
}

/* Dequantizes weights k0 ... k0 + n - 1 of a row, padded to whole groups of 32. k0 is a multiple of GROUP. */
static void dequantize_stretch(const struct kvc_linear_call *call, float *to, size_t output, size_t k0, size_t n) {
    size_t bytes = dequantize_by_type[call->type].bytes;
    const unsigned char *from = stretch_at(call, output, k0);
    for (; n > 0; from += bytes, to += GROUP) {
        size_t now = kvc_min_u64(n, GROUP);
        dequantize_by_type[call->type].dequantize(to, from, now);
        n -= now;
    }
}

/* Prefetches a group of weights that will be dequantized soon. The target is L2, because L1 holds the data in use. */
static void fetch_group(const struct kvc_linear_call *call, const unsigned char *from) {
    for (size_t line = 0; line < dequantize_by_type[call->type].bytes; line += 64)
        __builtin_prefetch(from + line, 0, 2);
}

#endif
