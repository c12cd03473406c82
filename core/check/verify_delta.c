/* verify_delta.c - test cases of the operations of gated delta nets: convolve, delta_rule. */
#include <stdio.h>

#include "core/base/delta.h"
#include "core/base/integers.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

enum { SEGMENTS_MOST = 3 };

/* Consecutive segments on both devices. `before` unrelated floats precede the state of each segment. */
struct segments {
    struct kvc_recurrence side[2][SEGMENTS_MOST];
    struct kvc_twin state;
    uint32_t count, rows;
    uint64_t before, all;
};

static struct segments draw_segments(struct kvc_verify *v, uint64_t floats, enum kvc_flavour flavour) {
    static const uint32_t rows[] = {1, 1, 1, 2, 3, 4, 5, 9, 17, 40};
    struct segments s = {.count = kvc_verify_range(v, 1, SEGMENTS_MOST)};
    s.before = kvc_verify_range(v, 0, 40);
    s.all = s.count * (s.before + floats);
    s.state = kvc_verify_twin_values(v, (size_t)s.all, flavour);
    for (uint32_t i = 0; i < s.count; i++) {
        const uint32_t drawn = kvc_verify_pick(v, rows), some = v->small ? kvc_min_u32(drawn, 3) : drawn;
        const bool kept = kvc_verify_range(v, 0, 3) > 0;
        for (int side = v->first; side < 2; side++) {
            s.side[side][i] = (struct kvc_recurrence){kvc_verify_span(s.state, side), s.rows, some, kept};
            s.side[side][i].state.offset = (size_t)(i * (s.before + floats) * sizeof(float));
        }
        s.rows += some;
    }
    return s;
}

KVC_INJECT(convolve, kvc_convolve, if (args->segment_count) kvc_flip(device, args->y, 0))
KVC_CASE(convolve, 30) {
    static const uint32_t widths[] = {1, 2, 7, 8, 15, 16, 17, 33, 64, 100, 257, 1000};
    const uint32_t drawn = kvc_verify_pick(v, widths), channels = v->small ? kvc_min_u32(drawn, 33) : drawn;
    const uint32_t taps = kvc_verify_range(v, 0, 2) ? 4 : kvc_verify_range(v, 2, KVC_DELTA_TAPS_MOST);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const struct segments s = draw_segments(v, (uint64_t)(taps - 1) * channels, flavour);
    const size_t n = (size_t)s.rows * channels;
    const struct kvc_twin x = kvc_verify_twin_values(v, n, flavour), y = kvc_verify_output(v, n * sizeof(float));
    const struct kvc_twin w = kvc_verify_twin_values(v, (size_t)channels * taps, flavour);
    snprintf(v->shape, sizeof v->shape, "%u segments, %u rows of %u, %u taps, flavour %d", (unsigned)s.count,
             (unsigned)s.rows, (unsigned)channels, (unsigned)taps, (int)flavour);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->convolve(v->device[side], &(struct kvc_convolve){.segments = s.side[side],
                                                                               .segment_count = s.count,
                                                                               .state_at = s.before * sizeof(float),
                                                                               .y = kvc_verify_span(y, side),
                                                                               .x = kvc_verify_span(x, side),
                                                                               .w = kvc_verify_span(w, side),
                                                                               .channels = channels,
                                                                               .taps = taps});
    kvc_verify_compare(v, y, 0, n, "y");
    kvc_verify_compare(v, s.state, 0, (size_t)s.all, "state");
}

/* Draws n values that are not positive. */
static struct kvc_twin draw_rates(struct kvc_verify *v, uint32_t n, enum kvc_flavour flavour) {
    float *values = kvc_verify_values(v, n, flavour);
    for (uint32_t i = 0; values && i < n; i++)
        values[i] = values[i] > 0.0f ? -values[i] : values[i];
    return kvc_verify_twin(v, n * sizeof(float), values);
}

KVC_INJECT(delta_rule, kvc_delta_rule, if (args->segment_count) kvc_flip(device, args->out, 0))
KVC_CASE(delta_rule, 30) {
    static const uint32_t sizes[] = {1, 3, 8, 16, 24, 31, 32, 33, 64, 100, 128};
    const uint32_t key_heads = kvc_verify_range(v, 1, 3), heads = key_heads * kvc_verify_range(v, 1, v->small ? 2 : 4);
    const uint32_t n_drawn = kvc_verify_pick(v, sizes), d_drawn = kvc_verify_pick(v, sizes);
    const uint32_t n = v->small ? kvc_min_u32(n_drawn, 33) : n_drawn, d = v->small ? kvc_min_u32(d_drawn, 8) : d_drawn;
    const bool tiled = kvc_verify_range(v, 0, 1);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const struct segments s = draw_segments(v, (uint64_t)heads * d * n, flavour);
    const size_t keys = (size_t)s.rows * key_heads * n, values = (size_t)s.rows * heads * d;
    const struct kvc_twin q = kvc_verify_twin_values(v, keys, flavour), k = kvc_verify_twin_values(v, keys, flavour);
    const struct kvc_twin value = kvc_verify_twin_values(v, values, flavour);
    const struct kvc_twin a = kvc_verify_twin_values(v, (size_t)s.rows * heads, flavour);
    const struct kvc_twin beta = kvc_verify_twin_values(v, (size_t)s.rows * heads, flavour);
    const struct kvc_twin rate = draw_rates(v, heads, flavour), bias = kvc_verify_twin_values(v, heads, flavour);
    const struct kvc_twin out = kvc_verify_output(v, values * sizeof(float));
    snprintf(v->shape, sizeof v->shape, "%u segments, %u rows, heads %u of %u, sizes %u and %u, flavour %d%s",
             (unsigned)s.count, (unsigned)s.rows, (unsigned)heads, (unsigned)key_heads, (unsigned)d, (unsigned)n,
             (int)flavour, tiled ? ", tiled" : "");
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->delta_rule(v->device[side], &(struct kvc_delta_rule){.segments = s.side[side],
                                                                                   .segment_count = s.count,
                                                                                   .state_at = s.before * sizeof(float),
                                                                                   .out = kvc_verify_span(out, side),
                                                                                   .q = kvc_verify_span(q, side),
                                                                                   .k = kvc_verify_span(k, side),
                                                                                   .v = kvc_verify_span(value, side),
                                                                                   .a = kvc_verify_span(a, side),
                                                                                   .beta = kvc_verify_span(beta, side),
                                                                                   .rate = kvc_verify_span(rate, side),
                                                                                   .bias = kvc_verify_span(bias, side),
                                                                                   .heads = heads,
                                                                                   .key_heads = key_heads,
                                                                                   .value_size = d,
                                                                                   .key_size = n,
                                                                                   .tiled = tiled});
    kvc_verify_compare(v, out, 0, values, "out");
    kvc_verify_compare(v, s.state, 0, (size_t)s.all, "state");
}
