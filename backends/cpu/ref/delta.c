/* delta.c - gated delta nets: convolve, delta_rule. */
#include <string.h>

#include "backends/cpu/ref/ref.h"
#include "core/base/delta.h"

/* Returns channel c of the input row that is `back` rows before row i of a segment. The row is in x if the segment
 * contains it, otherwise it is among the rows stored in the state. */
static float input_at(const float *x, const float *kept, uint32_t channels, uint32_t taps, uint32_t i, uint32_t back,
                      uint32_t c) {
    return back <= i ? x[(size_t)(i - back) * channels + c] : kept[(size_t)(taps - 1 + i - back) * channels + c];
}

void KVC_REF(convolve)(struct kvc_device *device, const struct kvc_convolve *args) {
    const uint32_t channels = args->channels, taps = args->taps;
    const float *w = kvc_span_data(args->w);
    (void)device;
    for (size_t s = 0; s < args->segment_count; s++) {
        const struct kvc_recurrence *segment = &args->segments[s];
        const float *x = (const float *)kvc_span_data(args->x) + (size_t)segment->row * channels;
        float *y = (float *)kvc_span_data(args->y) + (size_t)segment->row * channels;
        float *kept = (float *)kvc_span_data(segment->state) + args->state_at / sizeof(float);
        for (uint32_t i = 0; i < segment->rows; i++)
            for (uint32_t c = 0; c < channels; c++) {
                float sum = 0.0f;
                for (uint32_t t = 0; t < taps; t++)
                    sum = kvc_fma(input_at(x, kept, channels, taps, i, taps - 1 - t, c), w[(size_t)c * taps + t], sum);
                y[(size_t)i * channels + c] = kvc_silu(sum);
            }
        /* ascending, because row j is copied from a later row, which must not be overwritten yet */
        for (uint32_t j = 0; segment->kept && segment->rows && j + 1 < taps; j++)
            for (uint32_t c = 0; c < channels; c++)
                kept[(size_t)j * channels + c] = input_at(x, kept, channels, taps, segment->rows - 1, taps - 2 - j, c);
    }
}

/* Updates row c of a head's matrix, S [d_k], with every row of a segment, and writes output channel c of these rows. */
static void pass_channel(const struct kvc_delta_rule *args, const struct kvc_recurrence *segment, uint32_t h,
                         uint32_t c, float *S) {
    const uint32_t H = args->heads, key_heads = args->key_heads, n = args->key_size;
    const uint32_t key_head = args->tiled ? h % key_heads : h / (H / key_heads);
    const float *a = kvc_span_data(args->a), *beta = kvc_span_data(args->beta), *v = kvc_span_data(args->v);
    const float rate = ((const float *)kvc_span_data(args->rate))[h];
    const float bias = ((const float *)kvc_span_data(args->bias))[h];
    float *out = kvc_span_data(args->out);
    for (uint32_t i = segment->row; i < segment->row + segment->rows; i++) {
        const size_t head = (size_t)i * H + h, key = ((size_t)i * key_heads + key_head) * n;
        const float *q = (const float *)kvc_span_data(args->q) + key, *k = (const float *)kvc_span_data(args->k) + key;
        const float e = kvc_delta_decay(rate, a[head], bias);
        float u;
        for (uint32_t j = 0; j < n; j++)
            S[j] = e * S[j];
        u = (v[head * args->value_size + c] - kvc_ref_dot(S, k, n)) * kvc_sigmoid(beta[head]);
        for (uint32_t j = 0; j < n; j++)
            S[j] = kvc_fma(k[j], u, S[j]);
        out[head * args->value_size + c] = kvc_ref_dot(S, q, n);
    }
}

void KVC_REF(delta_rule)(struct kvc_device *device, const struct kvc_delta_rule *args) {
    const uint32_t n = args->key_size;
    float row[KVC_DELTA_KEY_MOST];
    (void)device;
    for (size_t s = 0; s < args->segment_count; s++) {
        const struct kvc_recurrence *segment = &args->segments[s];
        float *S = (float *)kvc_span_data(segment->state) + args->state_at / sizeof(float);
        for (uint32_t h = 0; h < args->heads; h++)
            for (uint32_t c = 0; c < args->value_size; c++, S += n) {
                memcpy(row, S, n * sizeof *row);
                pass_channel(args, segment, h, c, row);
                if (segment->kept)
                    memcpy(S, row, n * sizeof *row);
            }
    }
}
