/* linear.c - y = x w^T + bias: one 32-lane dot product per output. */
#include "backends/cpu/ref/ref.h"

void KVC_REF(linear)(struct kvc_device *device, struct kvc_span y_span, struct kvc_span x_span,
                     const struct kvc_weight *w, struct kvc_span bias_span, uint32_t rows) {
    size_t K = w->inputs, N = w->outputs;
    float *y = kvc_span_data(y_span), *row = kvc_cpu_scratch((struct kvc_cpu *)device, 0, K * sizeof *row);
    const float *x = kvc_span_data(x_span), *bias = bias_span.buffer ? kvc_span_data(bias_span) : NULL;
    if (!row)
        return;
    for (size_t n = 0; n < N; n++) {
        KVC_REF(widen)(w->type, w->data + n * w->row_bytes, 0, K, row);
        for (size_t i = 0; i < rows; i++) {
            float sum = kvc_ref_dot(x + i * K, row, K);
            y[i * N + n] = bias ? sum + bias[n] : sum;
        }
    }
}
