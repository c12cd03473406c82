/* plain.c - attention over Q8_0 entries in integer arithmetic, in plain C. */
#include <string.h>

#include "backends/cpu/simd/integers/integers.h"

/* Copies the quants of the entries in the range to quants [KVC_TILE, D], and their scales to scale [G, KVC_TILE]. */
static void unpack(const struct kvc_integer_entries *from, size_t offset, kvc_i8 *quants, float *scale) {
    const uint32_t groups = integer_groups(from->d);
    memset(scale, 0, groups * KVC_TILE * sizeof *scale);
    for (uint32_t e = from->range.low; e < from->range.high; e++)
        for (uint32_t g = 0; g < groups; g++) {
            const unsigned char *group = from->keys[e] + offset + (size_t)g * INTEGERS_BYTES;
            kvc_i8 *to = quants + ((size_t)e * groups + g) * KVC_Q8_GROUP;
            const uint32_t channels = kvc_min_u32(from->d - g * KVC_Q8_GROUP, KVC_Q8_GROUP);
            memcpy(to, group + 2, channels);
            memset(to + channels, 0, KVC_Q8_GROUP - channels);
            scale[g * KVC_TILE + e] = KVC_HALF(group);
        }
}

static void pack_keys(const struct kvc_integer_entries *from, struct kvc_integer_tile *tile) {
    tile->d = from->d;
    tile->range = from->range;
    unpack(from, 0, tile->keys, tile->key_scale);
}

static void pack_values(const struct kvc_integer_entries *from, struct kvc_integer_tile *tile) {
    tile->d = from->d;
    tile->range = from->range;
    unpack(from, from->value_offset, tile->values, tile->value_scale);
}

static kvc_i32 dot(const kvc_i8 *a, const kvc_i8 *b) {
    kvc_i32 sum = 0;
    for (uint32_t c = 0; c < KVC_Q8_GROUP; c++)
        sum += a[c] * b[c];
    return sum;
}

static void scores(const struct kvc_integer_tile *tile, const struct kvc_integer_queries *queries, uint32_t first,
                   uint32_t count, struct seen_range range, float scale, float *s) {
    const uint32_t groups = integer_groups(tile->d);
    for (uint32_t i = 0; i < count; i++, s += KVC_TILE) {
        const size_t at = (size_t)(first + i) * groups;
        for (uint32_t e = range.low; e < range.high; e++) {
            float sum = 0.0f;
            for (uint32_t g = 0; g < groups; g++)
                sum = kvc_int8_add(
                    tile->key_scale[g * KVC_TILE + e], queries->scale[at + g],
                    dot(queries->quant + (at + g) * KVC_Q8_GROUP, tile->keys + ((size_t)e * groups + g) * KVC_Q8_GROUP),
                    sum);
            s[e] = scale * sum;
        }
    }
}

/* Computes one group of channels of the output of one query. */
static void weigh(const struct kvc_integer_tile *tile, const float *p, struct seen_range in, uint32_t g, float *o) {
    const uint32_t groups = integer_groups(tile->d), c = g * KVC_Q8_GROUP;
    const float *scale = tile->value_scale + g * KVC_TILE;
    kvc_i32 sum[KVC_Q8_GROUP] = {0};
    kvc_u32 top = 0;
    for (uint32_t e = in.low; e < in.high; e++)
        top = kvc_int8_top(top, scale[e]);
    for (uint32_t e = in.low; e < in.high; e++) {
        const kvc_i32 weight = kvc_value_weight(p[e], scale[e] * kvc_value_inverse(top));
        const kvc_i8 *quant = tile->values + ((size_t)e * groups + g) * KVC_Q8_GROUP;
        for (uint32_t i = 0; i < KVC_Q8_GROUP; i++)
            sum[i] += weight * quant[i];
    }
    for (uint32_t i = 0; i < KVC_Q8_GROUP && c + i < tile->d; i++)
        o[c + i] = (float)sum[i] * kvc_value_unit(top);
}

static void values(const struct kvc_integer_tile *tile, const float *p, const struct seen_range *in, uint32_t count,
                   float *o, size_t stride) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t g = 0; g < integer_groups(tile->d) && in[i].low < in[i].high; g++)
            weigh(tile, p + (size_t)i * KVC_TILE, in[i], g, o + i * stride);
}

const struct kvc_integer_kernels kvc_integer_plain = {
    .pack_keys = pack_keys, .pack_values = pack_values, .scores = scores, .values = values, .at_once = 16};
