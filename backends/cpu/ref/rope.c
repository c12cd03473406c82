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

void KVC_REF(rope)(struct kvc_device *device, struct kvc_span y_span, struct kvc_span x_span, struct kvc_span cosine,
                   struct kvc_span sine, uint32_t rows, uint32_t heads, uint32_t head_size, uint32_t rotary,
                   bool interleaved) {
    uint32_t half = rotary / 2;
    (void)device;
    for (uint32_t row = 0; row < rows; row++) {
        const float *c = (const float *)kvc_span_data(cosine) + (size_t)row * half;
        const float *s = (const float *)kvc_span_data(sine) + (size_t)row * half;
        for (uint32_t h = 0; h < heads; h++) {
            size_t at = ((size_t)row * heads + h) * head_size;
            KVC_REF(turn)
            ((float *)kvc_span_data(y_span) + at, (const float *)kvc_span_data(x_span) + at, c, s, head_size, rotary,
             interleaved);
        }
    }
}
