/* delta.c - gated delta nets: convolve, delta_rule. There is one launch per segment. */
#include "backends/offload/offload.h"

#include "core/base/assert.h"

static struct kvc_span from_row(struct kvc_span span, uint32_t row, uint64_t width) {
    span.offset += (size_t)(row * width * sizeof(float));
    return span;
}

/* Returns the state that a launch may change: the segment's own state, or a copy if the state must be kept unchanged.
 * The buffer is NULL if memory runs out. */
static struct kvc_span state_of(struct kvc_device *device, const struct kvc_recurrence *segment, uint64_t at,
                                uint64_t floats) {
    const struct kvc_span state = {segment->state.buffer, segment->state.offset + (size_t)at};
    const size_t bytes = (size_t)floats * sizeof(float);
    if (segment->kept)
        return state;
    const struct kvc_span copy = {kvc_offload_workspace(kvc_offload_of(device), bytes), 0};
    if (copy.buffer)
        kvc_offload_copy(device, copy, state, bytes);
    return copy;
}

void kvc_offload_convolve(struct kvc_device *device, const struct kvc_convolve *args) {
    KVC_ASSERT(args->y.buffer != args->x.buffer || args->y.offset != args->x.offset);
    const uint32_t channels = args->channels, taps = args->taps;
    for (size_t i = 0; i < args->segment_count; i++) {
        const struct kvc_recurrence *segment = &args->segments[i];
        struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_convolve);
        const struct kvc_span kept = state_of(device, segment, args->state_at, (uint64_t)(taps - 1) * channels);
        if (!kept.buffer)
            continue;
        KVC_PUSH(&launch, kept, from_row(args->y, segment->row, channels), from_row(args->x, segment->row, channels),
                 args->w, channels, taps, segment->rows);
        kvc_launch_items(kvc_offload_of(device), &launch, segment->rows ? channels : 0, 1, 1);
    }
}

void kvc_offload_delta_rule(struct kvc_device *device, const struct kvc_delta_rule *args) {
    KVC_ASSERT(args->heads % args->key_heads == 0);
    const uint64_t values = (uint64_t)args->heads * args->value_size;
    const uint64_t keys = (uint64_t)args->key_heads * args->key_size;
    for (size_t i = 0; i < args->segment_count; i++) {
        const struct kvc_recurrence *segment = &args->segments[i];
        struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_delta_rule);
        const struct kvc_span state = state_of(device, segment, args->state_at, values * args->key_size);
        const uint32_t row = segment->row;
        if (!state.buffer)
            continue;
        KVC_PUSH(&launch, state, from_row(args->out, row, values), from_row(args->q, row, keys),
                 from_row(args->k, row, keys), from_row(args->v, row, values), from_row(args->a, row, args->heads),
                 from_row(args->beta, row, args->heads), args->rate, args->bias);
        KVC_PUSH(&launch, segment->rows, args->heads, args->key_heads, args->value_size, args->key_size, args->tiled);
        kvc_launch_items(kvc_offload_of(device), &launch, segment->rows ? values : 0, 1, 1);
    }
}
