/* int8.c - linear layers with 8-bit activations: quantize_rows, linear_int8, expert_linear_int8. */
#include "backends/cpu/ref/pairs.h"
#include "backends/cpu/ref/ref.h"
#include "core/base/assert.h"
#include "core/base/weight_blocks.h"

void KVC_REF(quantize_rows)(struct kvc_device *device, const struct kvc_quantize_rows *args) {
    KVC_ASSERT(args->K % KVC_INT8_BLOCK == 0);
    const float *x = kvc_span_data(args->x);
    kvc_i8 *quant = kvc_span_data(args->y.quant);
    float *scale = kvc_span_data(args->y.scale);
    kvc_i32 *sum = kvc_span_data(args->y.sum);
    const size_t blocks = (size_t)args->rows * (args->K / KVC_INT8_BLOCK);
    (void)device;
    for (size_t b = 0; b < blocks; b++, x += KVC_INT8_BLOCK, quant += KVC_INT8_BLOCK, sum += 2) {
        kvc_u32 top = 0;
        for (size_t i = 0; i < KVC_INT8_BLOCK; i++)
            top = kvc_int8_top(top, x[i]);
        scale[b] = kvc_int8_scale(top);
        sum[0] = sum[1] = 0;
        for (size_t i = 0; i < KVC_INT8_BLOCK; i++) {
            quant[i] = kvc_int8_quant(x[i], kvc_int8_inverse(top));
            sum[i / 16] += quant[i];
        }
    }
}

/* A row of weights: quants [K], and the scale and minimum of each group of `width` weights. */
struct weights {
    kvc_i8 *quant;
    float *scale, *minimum;
    size_t width;
    bool has_minimum;
};

#define UNPACK(a, NAME, name, gguf, elements, ...)                                                                     \
    static void unpack_##name(const unsigned char *row, size_t K, struct weights *w) {                                 \
        const struct kvc_block_##name *b = (const struct kvc_block_##name *)row;                                       \
        for (size_t k = 0; k < K; k++)                                                                                 \
            w->quant[k] = (kvc_i8)KVC_##NAME##_QUANT(b[k / (elements)], k % (elements));                               \
        for (size_t k = 0; k < K; k += KVC_INT8_WIDTH_##NAME) {                                                        \
            const size_t s = k % (elements) / KVC_INT8_WIDTH_##NAME;                                                   \
            (void)s;                                                                                                   \
            w->scale[k / KVC_INT8_WIDTH_##NAME] = KVC_INT8_SCALE_##NAME(b[k / (elements)], s);                         \
            w->minimum[k / KVC_INT8_WIDTH_##NAME] = KVC_INT8_MIN_##NAME(b[k / (elements)], s);                         \
        }                                                                                                              \
        w->width = KVC_INT8_WIDTH_##NAME;                                                                              \
        w->has_minimum = KVC_INT8_HAS_MIN_##NAME;                                                                      \
    }
KVC_BLOCK_TYPES(UNPACK, )

static void unpack(enum kvc_type type, const unsigned char *row, size_t K, struct weights *w) {
    switch (type) {
#define UNPACK_CASE(a, NAME, name, ...)                                                                                \
    case KVC_##NAME:                                                                                                   \
        unpack_##name(row, K, w);                                                                                      \
        break;
        KVC_BLOCK_TYPES(UNPACK_CASE, )
    default: /* float types have no int8 operation */
        *w = (struct weights){.quant = NULL};
        break;
    }
}

static float dot(const struct weights *w, const kvc_i8 *x, const float *scale, size_t K) {
    float lane[KVC_INT8_LANES] = {0};
    for (size_t k = 0; w->width && k < K; k += w->width) {
        const size_t piece = k / w->width, block = k / KVC_INT8_BLOCK, l = block % KVC_INT8_LANES;
        kvc_i32 product = 0, sum = 0;
        for (size_t i = k; i < k + w->width; i++) {
            product += w->quant[i] * x[i];
            sum += x[i];
        }
        lane[l] = kvc_int8_add(w->scale[piece], scale[block], product, lane[l]);
        if (w->has_minimum)
            lane[l] = kvc_int8_take(w->minimum[piece], scale[block], sum, lane[l]);
    }
    KVC_TREE8(lane);
    return lane[0];
}

void KVC_REF(linear_int8)(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    KVC_ASSERT(kvc_span_holds(args->y, args->rows * args->w->outputs));
    const size_t K = args->w->inputs, N = args->w->outputs, pieces = K / 16;
    float *y = kvc_span_data(args->y), *floats = kvc_cpu_scratch((struct kvc_cpu *)device, 0, pieces * 8 + K);
    const float *bias = args->bias.buffer ? kvc_span_data(args->bias) : NULL, *scale = kvc_span_data(args->x.scale);
    const kvc_i8 *x = kvc_span_data(args->x.quant);
    if (!floats)
        return;
    for (size_t n = 0; n < N; n++) {
        struct weights w = {.scale = floats, .minimum = floats + pieces, .quant = (kvc_i8 *)(floats + 2 * pieces)};
        unpack(args->w->type, args->w->data + n * args->w->row_bytes, K, &w);
        for (size_t i = 0; i < args->rows; i++) {
            const float sum = dot(&w, x + i * K, scale + i * (K / KVC_INT8_BLOCK), K);
            y[i * N + n] = bias ? sum + bias[n] : sum;
        }
    }
}

void KVC_REF(expert_linear_int8)(struct kvc_device *device, const struct kvc_expert_linear_int8 *args) {
    for (uint32_t e = 0; e < args->experts; e++) {
        struct kvc_weight w;
        const struct kvc_linear_int8 linear = kvc_int8_expert(args, e, &w);
        if (linear.rows)
            KVC_REF(linear_int8)(device, &linear);
    }
}
