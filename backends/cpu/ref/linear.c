/* linear.c - y = x w^T + bias: one 32-lane dot product per output. */
#include "backends/cpu/ref/ref.h"

#include "core/base/assert.h"

void KVC_REF(linear)(struct kvc_device *device, const struct kvc_linear *args) {
    KVC_ASSERT(kvc_span_holds(args->x, args->rows * args->w->inputs) &&
               kvc_span_holds(args->y, args->rows * args->w->outputs));
    size_t K = args->w->inputs, N = args->w->outputs;
    float *y = kvc_span_data(args->y), *row = kvc_cpu_scratch((struct kvc_cpu *)device, 0, K * sizeof *row);
    const float *x = kvc_span_data(args->x), *bias = args->bias.buffer ? kvc_span_data(args->bias) : NULL;
    if (!row)
        return;
    for (size_t n = 0; n < N; n++) {
        KVC_REF(dequantize)(args->w->type, args->w->data + n * args->w->row_bytes, 0, K, row);
        for (size_t i = 0; i < args->rows; i++) {
            float sum = kvc_ref_dot(x + i * K, row, K);
            y[i * N + n] = bias ? sum + bias[n] : sum;
        }
    }
}
