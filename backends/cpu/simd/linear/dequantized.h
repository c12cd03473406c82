/* dequantized.h - dequantizes a range of a row of weights of any type and stores it. Part of template.h. */
#ifndef KVC_SIMD_LINEAR_DEQUANTIZED_H
#define KVC_SIMD_LINEAR_DEQUANTIZED_H

#include "core/base/integers.h"
#include "backends/cpu/simd/linear/dequantize.h"
#include "backends/cpu/simd/linear/linear.h"
#include "backends/cpu/simd/linear/sizes.h"

/* Dequantizes n < 32 weights and fills the rest with padding. */
INLINE void end_of_row(const enum kvc_type type, float *w, const unsigned char *from, size_t n) {
    for (size_t i = 0; i < KVC_LANES; i++)
        w[i] = i < n ? dequantize_one(type, from, i) : FILL_W;
}

INLINE void dequantize_part(const enum kvc_type type, float *to, const unsigned char *from, int p,
                            const struct scales *scales) {
    vf wv[LANE_VECTORS];
    dequantize(type, wv, from, p, scales);
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        vf_store(to + p * KVC_LANES + v * LANES, wv[v]);
}

/* Dequantizes at most GROUP weights from the start of a group. */
INLINE void dequantize_group(const enum kvc_type type, float *to, const unsigned char *from, size_t n) {
    const int parts = (int)(n / KVC_LANES);
    struct scales scales;
    prepare(type, &scales, from, parts);
    if (block_elements(type) == GROUP) {
        dequantize_part(type, to, from, 0, &scales);
        dequantize_part(type, to, from, 1, &scales);
        dequantize_part(type, to, from, 2, &scales);
        dequantize_part(type, to, from, 3, &scales);
        dequantize_part(type, to, from, 4, &scales);
        dequantize_part(type, to, from, 5, &scales);
        dequantize_part(type, to, from, 6, &scales);
        dequantize_part(type, to, from, 7, &scales);
        return;
    }
    for (int p = 0; p < parts; p++)
        dequantize_part(type, to, from, p, &scales);
    if (block_elements(type) < KVC_LANES && n % KVC_LANES)
        end_of_row(type, to + parts * KVC_LANES, from + (size_t)parts * (group_bytes(type) / 8), n % KVC_LANES);
}
#define DEQUANTIZE_GROUP(a, NAME, name, ...)                                                                           \
    static void dequantize_group_##name(float *to, const unsigned char *from, size_t n) {                              \
        dequantize_group(KVC_##NAME, to, from, n);                                                                     \
    }
KVC_ALL_WEIGHT_TYPES(DEQUANTIZE_GROUP, )

static const struct {
    void (*dequantize)(float *to, const unsigned char *from, size_t n);
    size_t bytes; /* size of a group in bytes */
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

/* Prefetches into L2 a group of weights that will be dequantized soon. L1 holds the data in use. */
static void fetch_group(const struct kvc_linear_call *call, const unsigned char *from) {
    for (size_t line = 0; line < dequantize_by_type[call->type].bytes; line += 64)
        __builtin_prefetch(from + line, 0, 2);
}

#endif
