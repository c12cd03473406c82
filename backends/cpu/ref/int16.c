/* int16.c - linear layers with activations and weights in 15 bits: quantize_rows_int16, linear_int16,
 * expert_linear_int16. */
#include "backends/cpu/ref/pairs.h"
#include "backends/cpu/ref/ref.h"
#include "core/base/assert.h"
#include "core/base/integers.h"

/* Quantizes a row of K numbers. */
static void quantize(const float *x, size_t K, kvc_i16 *quant, float *scale) {
    for (size_t k = 0; k < K; k += KVC_INT16_BLOCK) {
        const size_t end = kvc_min_u64(k + KVC_INT16_BLOCK, K);
        kvc_u32 top = 0;
        for (size_t i = k; i < end; i++)
            top = kvc_int8_top(top, x[i]);
        scale[k / KVC_INT16_BLOCK] = kvc_int16_scale(top);
        for (size_t i = k; i < end; i++)
            quant[i] = kvc_int16_quant(x[i], kvc_int16_inverse(top));
    }
}

void KVC_REF(quantize_rows_int16)(struct kvc_device *device, const struct kvc_quantize_rows_int16 *args) {
    KVC_ASSERT(args->K % KVC_INT16_STEP == 0 && kvc_span_holds(args->x, (uint64_t)args->rows * args->K));
    const size_t K = args->K, blocks = kvc_int16_blocks(K);
    const float *x = kvc_span_data(args->x);
    kvc_i16 *quant = kvc_span_data(args->y.quant);
    float *scale = kvc_span_data(args->y.scale);
    (void)device;
    for (size_t i = 0; i < args->rows; i++)
        quantize(x + i * K, K, quant + i * K, scale + i * blocks);
}

#if !defined(KVC_REF_FMA) /* compiled only once, because both builds of ref would give identical results */
void kvc_ref_pack_int16(const struct kvc_weight *w, size_t first, size_t last) {
    const size_t K = (size_t)w->inputs, blocks = kvc_int16_blocks(K);
    for (size_t n = first; n < last; n++)
        for (size_t b = 0; b < blocks; b++) {
            const size_t k = b * KVC_INT16_BLOCK, here = kvc_min_u64(KVC_INT16_BLOCK, K - k);
            float value[KVC_INT16_BLOCK];
            KVC_REF(dequantize)(w->type, kvc_weight_row(w, n), k, here, value);
            quantize(value, here, w->packed.quant + n * K + k, w->packed.scale + n * blocks + b);
        }
}
#endif

static float dot(const kvc_i16 *w, const float *w_scale, const kvc_i16 *x, const float *x_scale, size_t K) {
    float sum = 0.0f;
    for (size_t k = 0; k < K; k += KVC_INT16_BLOCK) {
        const size_t end = kvc_min_u64(k + KVC_INT16_BLOCK, K), b = k / KVC_INT16_BLOCK;
        kvc_i64 whole = 0;
        for (size_t i = k; i < end; i++)
            whole += w[i] * x[i];
        sum = kvc_int16_add(w_scale[b], x_scale[b], whole, sum);
    }
    return sum;
}

void KVC_REF(linear_int16)(struct kvc_device *device, const struct kvc_linear_int16 *args) {
    KVC_ASSERT(args->w->inputs % KVC_INT16_STEP == 0 && kvc_span_holds(args->y, args->rows * args->w->outputs));
    const size_t K = args->w->inputs, N = args->w->outputs, blocks = kvc_int16_blocks(K);
    float *y = kvc_span_data(args->y);
    float *row = kvc_cpu_scratch((struct kvc_cpu *)device, 0, (K + blocks) * sizeof *row + K * sizeof(kvc_i16));
    const float *bias = args->bias.buffer ? kvc_span_data(args->bias) : NULL, *scale = kvc_span_data(args->x.scale);
    const kvc_i16 *x = kvc_span_data(args->x.quant);
    if (!row)
        return;
    const float *w_scale = row + K;
    const kvc_i16 *w = (kvc_i16 *)(row + K + blocks);
    for (size_t n = 0; n < N; n++) {
        if (args->w->packed.quant) {
            w = args->w->packed.quant + n * K;
            w_scale = args->w->packed.scale + n * blocks;
        } else {
            KVC_REF(dequantize)(args->w->type, args->w->data + n * args->w->row_bytes, 0, K, row);
            quantize(row, K, (kvc_i16 *)(row + K + blocks), row + K);
        }
        for (size_t i = 0; i < args->rows; i++) {
            const float sum = dot(w, w_scale, x + i * K, scale + i * blocks, K);
            y[i * N + n] = bias ? sum + bias[n] : sum;
        }
    }
}

void KVC_REF(expert_linear_int16)(struct kvc_device *device, const struct kvc_expert_linear_int16 *args) {
    for (uint32_t e = 0; e < args->experts; e++) {
        struct kvc_weight w;
        const struct kvc_linear_int16 linear = kvc_int16_expert(args, e, &w);
        if (linear.rows)
            KVC_REF(linear_int16)(device, &linear);
    }
}
