/* rope.c - rotary position embedding. */
#include "backends/cpu/ref/ref.h"

void KVC_REF(turn)(float *y, const float *x, const float *cosine, const float *sine, uint32_t d, uint32_t rotary,
                   bool interleaved) {
    uint32_t half = rotary / 2;
    for (uint32_t i = 0; i < half; i++) {
        float x0 = interleaved ? x[2 * i] : x[i], x1 = interleaved ? x[2 * i + 1] : x[i + half];
        y[i] = kvc_fma(-x1, sine[i], x0 * cosine[i]);
        y[i + half] = kvc_fma(x0, sine[i], x1 * cosine[i]);
    }
    for (uint32_t i = rotary; i < d; i++)
        y[i] = x[i];
}

void KVC_REF(rope)(struct kvc_device *device, const struct kvc_rope_heads *args) {
    uint32_t half = args->rotary / 2;
    (void)device;
    for (uint32_t row = 0; row < args->rows; row++) {
        const float *c = (const float *)kvc_span_data(args->cosine) + (size_t)row * half;
        const float *s = (const float *)kvc_span_data(args->sine) + (size_t)row * half;
        for (uint32_t h = 0; h < args->heads; h++) {
            size_t at = ((size_t)row * args->heads + h) * args->head_size;
            KVC_REF(turn)
            ((float *)kvc_span_data(args->y) + at, (const float *)kvc_span_data(args->x) + at, c, s, args->head_size,
             args->rotary, args->interleaved);
        }
    }
}
