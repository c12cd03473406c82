/* channels.h - template: keys by channel: LANES rows turned into columns, and dots of a few channels whose values lie
 * side by side, one vector of places or pages at a time. */
#ifndef KVC_CPU_CHANNELS_H
#define KVC_CPU_CHANNELS_H

#include "backends/cpu/simd/attention_few.h"

#define DOT_HEADS 4 /* queries at once */
#if LANES == 8
#define DOT_VECTORS 2 /* vectors of places at once */
#else
#define DOT_VECTORS 4
#endif
#define DOT_PLACES (DOT_VECTORS * LANES)
#define RUN_STRIPS 8u /* that are asked for together, channel by channel: long runs are read faster */
#define RUN_PLACES ((size_t)RUN_STRIPS * DOT_PLACES)

/* to[c * stride + i] = channel c of row i, for i < n <= LANES (0 behind, up to LANES) and, of the channels, the vectors
 * that `wanted` [d / LANES, rounded up] marks (NULL: all). rows [n, padded]. */
static void turn_rows(const float *rows, size_t padded, uint32_t n, const bool *wanted, float *to, size_t stride) {
    for (size_t v = 0; v * LANES < padded; v++) {
        vf block[LANES];
        if (wanted && !wanted[v])
            continue;
        UNROLL
        for (uint32_t i = 0; i < LANES; i++)
            block[i] = i < n ? vf_load(rows + i * padded + v * LANES) : vf_zero();
        vf_transpose(block);
        UNROLL
        for (uint32_t i = 0; i < LANES; i++)
            vf_store(to + (v * LANES + i) * stride, block[i]);
    }
}

/* One channel: where its values begin, those for negative queries (bounds only), and q of DOT_HEADS heads. */
struct dot_channel {
    const unsigned char *high, *low;
    float q[DOT_HEADS];
};

INLINE vf channel_load(enum kvc_type type, const unsigned char *from, size_t place) {
    return type == KVC_F16 ? vf_load_f16(from + 2 * place) : vf_load((const float *)(const void *)from + place);
}
INLINE vf channel_part_load(enum kvc_type type, const unsigned char *from, size_t place, size_t n) {
    return type == KVC_F16 ? vf_part_load_f16(from + 2 * place, n)
                           : vf_part_load((const float *)(const void *)from + place, n);
}

/* out[h][place + ...] = (over channels ascending: fma(q, x, sum), from 0) * factor[h] for n <= DOT_PLACES places; part:
 * n is not DOT_PLACES. ahead: the run behind this one will be wanted. top and nan, but of bounds: the largest so far,
 * whether there was a NaN. */
INLINE void dot_strip(enum kvc_type type, bool bound, unsigned heads, bool part, const struct dot_channel *channels,
                      uint32_t dims, size_t place, uint32_t n, uint32_t ahead, const float *factor, float *const *out,
                      vf *top, vm *nan) {
    vf sum[DOT_HEADS][DOT_VECTORS];
    const size_t size = type == KVC_F16 ? 2 : 4;
    UNROLL
    for (unsigned h = 0; h < heads; h++)
        UNROLL
    for (unsigned v = 0; v < DOT_VECTORS; v++)
        sum[h][v] = vf_zero();
    for (uint32_t i = 0; i < dims; i++) {
        const struct dot_channel *channel = &channels[i];
        vf x[DOT_VECTORS], y[DOT_VECTORS];
        if (ahead) { /* a run of a channel at a time */
            const size_t turn = (size_t)(place / DOT_PLACES % RUN_STRIPS) * dims + i;
            const struct dot_channel *next = &channels[turn / RUN_STRIPS];
            const size_t at = (place / RUN_PLACES + 1) * RUN_PLACES + turn % RUN_STRIPS * DOT_PLACES;
            for (size_t b = 0; b < DOT_PLACES * size; b += 64) {
                __builtin_prefetch(next->high + at * size + b, 0, 2);
                if (bound)
                    __builtin_prefetch(next->low + at * size + b, 0, 2);
            }
        }
        UNROLL
        for (unsigned v = 0; v < DOT_VECTORS; v++) {
            const size_t at = place + v * LANES, left = part ? (n > v * LANES ? n - v * LANES : 0) : LANES;
            x[v] = part ? channel_part_load(type, channel->high, at, left) : channel_load(type, channel->high, at);
            if (bound)
                y[v] = part ? channel_part_load(type, channel->low, at, left) : channel_load(type, channel->low, at);
        }
        UNROLL
        for (unsigned h = 0; h < heads; h++) {
            const vf q = vf_set(channel->q[h]);
            const vm negative = vf_less(q, vf_zero());
            UNROLL
            for (unsigned v = 0; v < DOT_VECTORS; v++)
                sum[h][v] = vf_fma(q, bound ? vf_select(negative, y[v], x[v]) : x[v], sum[h][v]);
        }
    }
    UNROLL
    for (unsigned h = 0; h < heads; h++)
        UNROLL
    for (unsigned v = 0; v < DOT_VECTORS; v++) {
        const vf score = bound ? sum[h][v] : vf_mul(sum[h][v], vf_set(factor[h]));
        if (!bound) {
            const vm there = part ? vm_first(n > v * LANES ? n - v * LANES : 0) : vf_equal(vf_zero(), vf_zero());
            top[h] = vf_max(part ? vf_select(there, score, top[h]) : score, top[h]);
            nan[h] = vm_or(nan[h], part ? vm_and(there, vf_is_nan(score)) : vf_is_nan(score));
        }
        if (!part)
            vf_store(out[h] + place + v * LANES, score);
        else if (n > v * LANES)
            vf_part_store(out[h] + place + v * LANES, score, n - v * LANES);
    }
}

/* The larger of `most` and of what the vector holds, NaN where there was one. */
static float larger(float most, vf top, vm nan) {
    float lane[LANES];
    vf_store(lane, top);
    for (unsigned i = 0; i < LANES; i++)
        most = kvc_is_nan(most) ? most : kvc_max(lane[i], most);
    return vm_bits(nan) ? kvc_nan() : most;
}

#define DOTS_OF(name, type, bound, heads)                                                                              \
    static NEVER_INLINE void name(const struct dot_channel *channels, uint32_t dims, size_t from, size_t to,           \
                                  const float *factor, float *const *out, float *most) {                               \
        vf top[DOT_HEADS];                                                                                             \
        vm nan[DOT_HEADS];                                                                                             \
        size_t place = from;                                                                                           \
        UNROLL                                                                                                         \
        for (unsigned h = 0; h < heads; h++) {                                                                         \
            top[h] = vf_set(-kvc_infinity());                                                                          \
            nan[h] = vf_is_nan(vf_zero());                                                                             \
        }                                                                                                              \
        for (; place + DOT_PLACES <= to; place += DOT_PLACES)                                                          \
            dot_strip(type, bound, heads, false, channels, dims, place, DOT_PLACES,                                    \
                      place / RUN_PLACES * RUN_PLACES + 2 * RUN_PLACES <= to, factor, out, top, nan);                  \
        if (place < to)                                                                                                \
            dot_strip(type, bound, heads, true, channels, dims, place, (uint32_t)(to - place), 0, factor, out, top,    \
                      nan);                                                                                            \
        UNROLL                                                                                                         \
        for (unsigned h = 0; h < heads; h++)                                                                           \
            most[h] = larger(most[h], top[h], nan[h]);                                                                 \
    }
DOTS_OF(dots_f16_1, KVC_F16, false, 1)
DOTS_OF(dots_f16_2, KVC_F16, false, 2)
DOTS_OF(dots_f16_3, KVC_F16, false, 3)
DOTS_OF(dots_f16_4, KVC_F16, false, 4)
DOTS_OF(dots_f32_1, KVC_F32, false, 1)
DOTS_OF(dots_f32_2, KVC_F32, false, 2)
DOTS_OF(dots_f32_3, KVC_F32, false, 3)
DOTS_OF(dots_f32_4, KVC_F32, false, 4)
DOTS_OF(bounds_f16_1, KVC_F16, true, 1)
DOTS_OF(bounds_f16_2, KVC_F16, true, 2)
DOTS_OF(bounds_f16_3, KVC_F16, true, 3)
DOTS_OF(bounds_f16_4, KVC_F16, true, 4)
DOTS_OF(bounds_f32_1, KVC_F32, true, 1)
DOTS_OF(bounds_f32_2, KVC_F32, true, 2)
DOTS_OF(bounds_f32_3, KVC_F32, true, 3)
DOTS_OF(bounds_f32_4, KVC_F32, true, 4)

/* out[h][from .. to-1] of up to DOT_HEADS heads; most[h], but of bounds, becomes the largest of itself and these. */
static void channel_dots(enum kvc_type type, bool bound, unsigned heads, const struct dot_channel *channels,
                         uint32_t dims, size_t from, size_t to, const float *factor, float *const *out, float *most) {
    typedef void dots_fn(const struct dot_channel *, uint32_t, size_t, size_t, const float *, float *const *, float *);
    static dots_fn *const table[2][2][DOT_HEADS] = {
        {{dots_f32_1, dots_f32_2, dots_f32_3, dots_f32_4}, {dots_f16_1, dots_f16_2, dots_f16_3, dots_f16_4}},
        {{bounds_f32_1, bounds_f32_2, bounds_f32_3, bounds_f32_4},
         {bounds_f16_1, bounds_f16_2, bounds_f16_3, bounds_f16_4}}};
    table[bound][type == KVC_F16][heads - 1](channels, dims, from, to, factor, out, most);
}

#endif
