/* rows.c - operations on rows of values: embed, norm, gated_silu, add, blend, repeat_heads, gather. */
#include <string.h>

#include "backends/cpu/ref/ref.h"

void KVC_REF(embed)(struct kvc_device *device, struct kvc_span out, const struct kvc_weight *table,
                    struct kvc_span tokens, uint32_t rows) {
    float *y = kvc_span_data(out);
    const int32_t *token = kvc_span_data(tokens);
    (void)device;
    for (uint32_t i = 0; i < rows; i++)
        KVC_REF(widen)
    (table->type, table->data + (size_t)token[i] * table->row_bytes, 0, table->inputs, y + (size_t)i * table->inputs);
}

void KVC_REF(norm)(struct kvc_device *device, struct kvc_span y_span, struct kvc_span x_span, struct kvc_span w_span,
                   uint32_t rows, uint32_t K, float eps) {
    (void)device;
    for (uint32_t i = 0; i < rows; i++) {
        float *y = (float *)kvc_span_data(y_span) + (size_t)i * K;
        const float *x = (const float *)kvc_span_data(x_span) + (size_t)i * K, *w = kvc_span_data(w_span);
        float r = kvc_div(1.0f, kvc_sqrt(kvc_div(kvc_ref_dot(x, x, K), (float)K) + eps));
        for (uint32_t k = 0; k < K; k++)
            y[k] = (x[k] * r) * w[k];
    }
}

void KVC_REF(gated_silu)(struct kvc_device *device, struct kvc_span y_span, struct kvc_span gate_span,
                         struct kvc_span up_span, size_t n) {
    float *y = kvc_span_data(y_span);
    const float *gate = kvc_span_data(gate_span), *up = kvc_span_data(up_span);
    (void)device;
    for (size_t i = 0; i < n; i++)
        y[i] = kvc_silu(gate[i]) * up[i];
}

void KVC_REF(add)(struct kvc_device *device, struct kvc_span y_span, struct kvc_span x_span, size_t n) {
    float *y = kvc_span_data(y_span);
    const float *x = kvc_span_data(x_span);
    (void)device;
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] + x[i];
}

void KVC_REF(blend)(struct kvc_device *device, struct kvc_span y_span, struct kvc_span x_span, float share, size_t n) {
    float *y = kvc_span_data(y_span), rest = 1.0f - share;
    const float *x = kvc_span_data(x_span);
    (void)device;
    for (size_t i = 0; i < n; i++)
        y[i] = kvc_fma(share, y[i], rest * x[i]);
}

void KVC_REF(repeat_heads)(struct kvc_device *device, struct kvc_span out, struct kvc_span x, uint32_t rows,
                           uint32_t heads, uint32_t copies, uint32_t head_size) {
    float *to = kvc_span_data(out);
    const float *from = kvc_span_data(x);
    (void)device;
    for (size_t i = 0; i < (size_t)rows * heads; i++, from += head_size)
        for (uint32_t c = 0; c < copies; c++, to += head_size)
            memcpy(to, from, head_size * sizeof *to);
}

void KVC_REF(gather)(struct kvc_device *device, struct kvc_span out, struct kvc_span x, struct kvc_span index,
                     uint32_t rows, uint32_t width) {
    const uint32_t *from = kvc_span_data(index);
    (void)device;
    for (uint32_t i = 0; i < rows; i++)
        memcpy((float *)kvc_span_data(out) + (size_t)i * width,
               (const float *)kvc_span_data(x) + (size_t)from[i] * width, width * sizeof(float));
}

void KVC_REF(fma_loop)(struct kvc_device *device, struct kvc_span x_span, size_t n, uint32_t rounds) {
    float *x = kvc_span_data(x_span);
    (void)device;
    for (size_t i = 0; i < n && rounds; i++) {
        float value = x[i];
        for (uint32_t r = 0; r < rounds; r++)
            value = kvc_fma(value, 0.999f, 0.001f);
        x[i] = value;
    }
}
