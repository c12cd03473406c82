/* channels.h - template: keys by channel. Transposes LANES rows, and computes dot products over some of the channels.
 * The values of a channel are contiguous, so one vector of entries or pages is computed at a time. */
#ifndef KVC_SIMD_SELECT_CHANNELS_H
#define KVC_SIMD_SELECT_CHANNELS_H

#include "backends/cpu/simd/attention/small_batch.h"

#define DOT_HEADS 4 /* number of queries that are computed together */
#if LANES == 8
#define DOT_VECTORS 2 /* number of vectors of entries that are computed together */
#else
#define DOT_VECTORS 4
#endif
#define DOT_PLACES (DOT_VECTORS * LANES)
/* A range of entries (a stretch) is computed in several passes, each over about this many channels, because long runs
 * of few channels are read faster. */
#define STRETCH_CHANNELS 12u
#define STRETCH_PLACES ((size_t)4096)
#define STRETCH_OF_ALL ((size_t)8 * DOT_PLACES) /* length of a stretch if one pass covers all channels */

/* Sets to[c * stride + i] to channel c of row i for i < n <= LANES, and to 0 for the other i < LANES. rows is [n,
 * padded]. If `wanted` [d / LANES, rounded up] is not NULL, transposes only the vectors of channels that it marks. */
static void transpose_rows(const float *rows, size_t padded, uint32_t n, const bool *wanted, float *to, size_t stride) {
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

/* One channel: its values `high`, and q of DOT_HEADS heads. For bounds of pages, `high` has the maxima, and `low` has
 * the minima, by which negative values of q are multiplied. */
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

/* Values to prefetch: entries `from` .. `to` - 1 of each channel, one channel after another. The next entry is
 * `place`. */
struct dot_ahead {
    const struct dot_channel *channel, *end;
    size_t from, to, place;
};

INLINE void prefetch_dots(enum kvc_type type, bool bound, struct dot_ahead *ahead) {
    const size_t size = type == KVC_F16 ? 2 : 4;
    if (ahead->channel == ahead->end)
        return;
    for (size_t b = 0; b < DOT_PLACES * size; b += 64) {
        __builtin_prefetch(ahead->channel->high + ahead->place * size + b, 0, 2);
        if (bound)
            __builtin_prefetch(ahead->channel->low + ahead->place * size + b, 0, 2);
    }
    ahead->place += DOT_PLACES;
    if (ahead->place >= ahead->to) {
        ahead->place = ahead->from;
        ahead->channel++;
    }
}

/* The channels of one pass over a stretch. The first pass starts the sums, and the last pass completes them. */
struct dot_pass {
    const struct dot_channel *channels;
    uint32_t dims;
    bool begin, end;
};

/* The results. For bounds, these are only the sums. Otherwise each sum of head h is multiplied by factor[h], top[h]
 * collects the largest sums, and nan[h] the lanes that had a NaN. */
struct dot_results {
    const float *factor;
    float *const *out; /* out[h][place] */
    vf *top;
    vm *nan;
};

/* Computes n <= DOT_PLACES entries from `place` on: out[h][place + ...] = sum over ascending channels of fma(q, x,
 * sum). In the first pass the sum starts from 0, in the others from the old value of out. `part` means that n may be
 * less than DOT_PLACES. */
INLINE void dot_strip(enum kvc_type type, bool bound, unsigned heads, bool part, const struct dot_pass *pass,
                      size_t place, uint32_t n, struct dot_ahead *ahead, const struct dot_results *to) {
    vf sum[DOT_HEADS][DOT_VECTORS];
    UNROLL
    for (unsigned h = 0; h < heads; h++)
        UNROLL
    for (unsigned v = 0; v < DOT_VECTORS; v++)
        sum[h][v] = pass->begin ? vf_zero()
                    : part      ? vf_part_load(to->out[h] + place + v * LANES, n > v * LANES ? n - v * LANES : 0)
                                : vf_load(to->out[h] + place + v * LANES);
    for (uint32_t i = 0; i < pass->dims; i++) {
        const struct dot_channel *channel = &pass->channels[i];
        vf x[DOT_VECTORS], y[DOT_VECTORS];
        prefetch_dots(type, bound, ahead);
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
                sum[h][v] = bound ? vf_fma(q, vf_select(negative, y[v], x[v]), sum[h][v])
                                  : vf_fma_by(x[v], &channel->q[h], sum[h][v]);
        }
    }
    UNROLL
    for (unsigned h = 0; h < heads; h++) {
        float *const out = to->out[h] + place;
        const vf share = vf_set(to->factor[h]);
        UNROLL
        for (unsigned v = 0; v < DOT_VECTORS; v++) {
            const size_t left = part ? (n > v * LANES ? n - v * LANES : 0) : LANES;
            if (pass->end && !bound)
                sum[h][v] = vf_mul(sum[h][v], share);
            if (left >= LANES)
                vf_store(out + v * LANES, sum[h][v]);
            else if (left > 0)
                vf_part_store(out + v * LANES, sum[h][v], left);
            if (part && pass->end && !bound) /* the padding must be neither the largest value nor a NaN */
                sum[h][v] = vf_select(vm_first(left), sum[h][v], vf_set(-kvc_infinity()));
        }
        if (!pass->end || bound)
            continue;
        UNROLL
        for (unsigned v = 0; v < DOT_VECTORS; v += 2) {
            to->top[h] = vf_max(vf_max(sum[h][v], sum[h][v + 1]), to->top[h]);
            to->nan[h] = vm_or(to->nan[h], vf_unordered(sum[h][v], sum[h][v + 1]));
        }
    }
}

/* Returns the larger of `most` and the largest lane, or a NaN if a lane had one. */
static float larger(float most, vf top, vm nan) {
    float lane[LANES];
    vf_store(lane, top);
    for (unsigned i = 0; i < LANES; i++)
        most = kvc_is_nan(most) ? most : kvc_max(lane[i], most);
    return vm_bits(nan) ? kvc_nan() : most;
}

/* Computes the dot products one stretch after another, with a few channels per pass. Meanwhile prefetches the values
 * that come next. */
INLINE void dots_of(enum kvc_type type, bool bound, unsigned heads, const struct dot_channel *channels, uint32_t dims,
                    size_t from, size_t to, const float *factor, float *const *out, float *most) {
    const bool together =
        /* several passes are slower for bounds with short vectors */
        to - from < DOT_PLACES || dims < STRETCH_CHANNELS || (bound && LANES < 16);
    const uint32_t parts = together ? 1 : (dims + STRETCH_CHANNELS / 2) / STRETCH_CHANNELS;
    const size_t stretch = parts == 1 ? STRETCH_OF_ALL : STRETCH_PLACES;
    vf top[DOT_HEADS];
    vm nan[DOT_HEADS];
    float *to_of[DOT_HEADS]; /* a copy, because the compiler must assume that stores may change `out` itself */
    UNROLL
    for (unsigned h = 0; h < heads; h++) {
        to_of[h] = out[h];
        top[h] = vf_set(-kvc_infinity());
        nan[h] = vf_is_nan(vf_zero());
    }
    const struct dot_results results = {factor, to_of, top, nan};
    for (size_t first = from, last; first < to; first = last) {
        last = to - first < stretch ? to : first + stretch;
        for (uint32_t part = 0; part < parts; part++) {
            const uint32_t low = dims * part / parts, high = dims * (part + 1) / parts;
            const struct dot_pass pass = {channels + low, high - low, part == 0, part + 1 == parts};
            const size_t after = to - last < stretch ? to : last + stretch;
            struct dot_ahead ahead = {channels, channels + (after > last ? dims / parts : 0), last, after, last};
            if (!pass.end)
                ahead = (struct dot_ahead){channels + high, channels + dims * (part + 2) / parts, first, last, first};
            size_t place = first;
            for (; place + DOT_PLACES <= last; place += DOT_PLACES)
                dot_strip(type, bound, heads, false, &pass, place, DOT_PLACES, &ahead, &results);
            if (place < last)
                dot_strip(type, bound, heads, true, &pass, place, (uint32_t)(last - place), &ahead, &results);
        }
    }
    UNROLL
    for (unsigned h = 0; h < heads; h++)
        most[h] = larger(most[h], top[h], nan[h]);
}

#define DOTS_OF(name, type, bound, heads)                                                                              \
    static NEVER_INLINE void name(const struct dot_channel *channels, uint32_t dims, size_t from, size_t to,           \
                                  const float *factor, float *const *out, float *most) {                               \
        dots_of(type, bound, heads, channels, dims, from, to, factor, out, most);                                      \
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

/* Computes out[h][from .. to - 1] for up to DOT_HEADS heads. Except for bounds, most[h] becomes the maximum of its old
 * value and these values. */
static void channel_dots(enum kvc_type type, bool bound, unsigned heads, const struct dot_channel *channels,
                         uint32_t dims, size_t from, size_t to, const float *factor, float *const *out, float *most) {
    typedef void dots_fn(const struct dot_channel *, uint32_t, size_t, size_t, const float *, float *const *, float *);
    static dots_fn *const table[2][2][DOT_HEADS] = {
        {{dots_f32_1, dots_f32_2, dots_f32_3, dots_f32_4}, {dots_f16_1, dots_f16_2, dots_f16_3, dots_f16_4}},
        {{bounds_f32_1, bounds_f32_2, bounds_f32_3, bounds_f32_4},
         {bounds_f16_1, bounds_f16_2, bounds_f16_3, bounds_f16_4}}};
    KVC_ASSERT(heads >= 1 && heads <= DOT_HEADS && dims > 0 && from <= to);
    table[bound][type == KVC_F16][heads - 1](channels, dims, from, to, factor, out, most);
}

#endif
