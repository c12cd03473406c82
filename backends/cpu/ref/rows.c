/* rows.c - operations on rows of values: embed, norm, rope, gated_silu, add, blend, scale, repeat_heads,
 * gather, gate_scores. */
#include <string.h>

#include "backends/cpu/ref/ref.h"

#include "core/base/assert.h"

void KVC_REF(embed)(struct kvc_device *device, const struct kvc_embed *args) {
    float *y = kvc_span_data(args->out);
    const int32_t *token = kvc_span_data(args->tokens);
    (void)device;
    for (uint32_t i = 0; i < args->rows; i++)
        KVC_ASSERT(token[i] >= 0 && (uint64_t)token[i] < args->table->outputs); /* checked by the caller */
    for (uint32_t i = 0; i < args->rows; i++)
        KVC_REF(dequantize)
    (args->table->type, args->table->data + (size_t)token[i] * args->table->row_bytes, 0, args->table->inputs,
     y + (size_t)i * args->table->inputs);
}

/* Normalizes one row around its mean: subtracts the mean, multiplies by r and w, and adds bias unless it is NULL. */
static void centred_norm(float *y, const float *x, const float *w, const float *bias, uint32_t K, float eps) {
    float lane[KVC_LANES] = {0}, mean, r;
    for (uint32_t k = 0; k < K; k++)
        lane[k % KVC_LANES] = lane[k % KVC_LANES] + x[k];
    KVC_TREE32(lane);
    mean = kvc_div(lane[0], (float)K);
    for (uint32_t k = 0; k < K; k++)
        y[k] = x[k] - mean;
    r = kvc_div(1.0f, kvc_sqrt(kvc_div(kvc_ref_dot(y, y, K), (float)K) + eps));
    for (uint32_t k = 0; k < K; k++)
        y[k] = bias ? kvc_fma(y[k] * r, w[k], bias[k]) : (y[k] * r) * w[k];
}

void KVC_REF(norm)(struct kvc_device *device, const struct kvc_norm *args) {
    KVC_ASSERT(kvc_span_holds(args->x, (uint64_t)args->rows * args->K) &&
               kvc_span_holds(args->y, (uint64_t)args->rows * args->K));
    (void)device;
    for (uint32_t i = 0; i < args->rows; i++) {
        float *y = (float *)kvc_span_data(args->y) + (size_t)i * args->K;
        const float *x = (const float *)kvc_span_data(args->x) + (size_t)i * args->K;
        const size_t own = args->heads ? (size_t)(i % args->heads) * args->K : 0; /* offset of this row's w and bias */
        const float *w = (const float *)kvc_span_data(args->w) + own;
        if (args->centred) {
            const float *bias = args->bias.buffer ? (const float *)kvc_span_data(args->bias) + own : NULL;
            centred_norm(y, x, w, bias, args->K, args->eps);
            continue;
        }
        float r = kvc_div(1.0f, kvc_sqrt(kvc_div(kvc_ref_dot(x, x, args->K), (float)args->K) + args->eps));
        for (uint32_t k = 0; k < args->K; k++)
            y[k] = (x[k] * r) * w[k];
    }
}

void KVC_REF(rotate)(float *y, const float *x, const float *cosine, const float *sine, uint32_t d, uint32_t rotary,
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
    KVC_ASSERT(args->rotary <= args->head_size && args->rotary % 2 == 0 &&
               (args->y.buffer != args->x.buffer || !args->interleaved));
    uint32_t half = args->rotary / 2;
    (void)device;
    for (uint32_t row = 0; row < args->rows; row++) {
        const float *c = (const float *)kvc_span_data(args->cosine) + (size_t)row * half;
        const float *s = (const float *)kvc_span_data(args->sine) + (size_t)row * half;
        for (uint32_t h = 0; h < args->heads; h++) {
            size_t at = ((size_t)row * args->heads + h) * args->head_size;
            KVC_REF(rotate)
            ((float *)kvc_span_data(args->y) + at, (const float *)kvc_span_data(args->x) + at, c, s, args->head_size,
             args->rotary, args->interleaved);
        }
    }
}

void KVC_REF(gated_silu)(struct kvc_device *device, const struct kvc_gated_silu *args) {
    KVC_ASSERT(args->up.buffer || args->activation != KVC_CLAMPED_SILU);
    float *y = kvc_span_data(args->y);
    const float *gate = kvc_span_data(args->gate), *up = args->up.buffer ? kvc_span_data(args->up) : NULL;
    (void)device;
    for (size_t i = 0; i < args->n; i++) {
        const float a = args->activation == KVC_GELU         ? kvc_gelu(gate[i])
                        : args->activation == KVC_GELU_EXACT ? kvc_gelu_exact(gate[i])
                        : args->activation == KVC_SIGMOID    ? kvc_sigmoid(gate[i])
                                                             : kvc_silu(gate[i]);
        y[i] = args->activation == KVC_CLAMPED_SILU ? kvc_clamped_silu(gate[i], up[i]) : up ? a * up[i] : a;
    }
}

void KVC_REF(add)(struct kvc_device *device, const struct kvc_add *args) {
    float *y = kvc_span_data(args->y);
    const float *x = kvc_span_data(args->x);
    (void)device;
    for (size_t i = 0; i < args->n; i++)
        y[i] = y[i] + x[i];
}

void KVC_REF(blend)(struct kvc_device *device, const struct kvc_blend *args) {
    float *y = kvc_span_data(args->y), rest = 1.0f - args->share;
    const float *x = kvc_span_data(args->x);
    (void)device;
    for (size_t i = 0; i < args->n; i++)
        y[i] = kvc_fma(args->share, y[i], rest * x[i]);
}

void KVC_REF(scale)(struct kvc_device *device, const struct kvc_scale *args) {
    float *y = kvc_span_data(args->y);
    const float *x = kvc_span_data(args->x);
    (void)device;
    for (size_t i = 0; i < args->n; i++)
        y[i] = kvc_ref_score(x[i], args->factor, args->cap);
}

void KVC_REF(transform)(float *x, uint32_t d) {
    const uint32_t width = kvc_hadamard_width(d);
    for (float *part = x; part < x + d; part += width) {
        for (uint32_t step = 1; step < width; step *= 2)
            for (uint32_t i = 0; i < width; i++)
                if (!(i & step)) {
                    const float a = part[i], b = part[i + step];
                    part[i] = a + b;
                    part[i + step] = a - b;
                }
        for (uint32_t i = 0; i < width; i++)
            part[i] = part[i] * kvc_hadamard_factor(width);
    }
}

void KVC_REF(smooth_factors)(struct kvc_device *device, const struct kvc_smooth_factors *args) {
    const float *k = kvc_span_data(args->k), *q = args->q.buffer ? kvc_span_data(args->q) : NULL;
    const uint32_t d = args->d, width = args->kv_heads * d, group = args->heads / args->kv_heads;
    float *factors = kvc_span_data(args->factors);
    KVC_ASSERT(args->rows > 0 && args->heads % args->kv_heads == 0);
    (void)device;
    for (uint32_t i = 0; i < width; i++) {
        float mean = 0.0f, keys = 0.0f, queries = 0.0f;
        for (uint32_t r = 0; r < args->rows; r++)
            mean += k[(size_t)r * width + i];
        mean = kvc_div(mean, (float)args->rows);
        for (uint32_t r = 0; r < args->rows; r++) {
            const float off = k[(size_t)r * width + i] - mean;
            keys = kvc_fma(off, off, keys);
            for (uint32_t j = 0; q && j < group; j++) {
                const float x = q[(((size_t)r * args->kv_heads + i / d) * group + j) * d + i % d];
                queries = kvc_fma(x, x, queries);
            }
        }
        const float factor = q ? kvc_smooth_factor(keys * (float)group, queries) : 1.0f;
        factors[i] = kvc_div(1.0f, factor);
        factors[width + i] = factor;
    }
}

void KVC_REF(smooth)(struct kvc_device *device, const struct kvc_smooth *args) {
    const uint32_t d = args->d, group = args->heads / args->kv_heads;
    const float *factor = kvc_span_data(args->factor);
    float *x = kvc_span_data(args->x);
    KVC_ASSERT(args->heads % args->kv_heads == 0 && kvc_span_holds(args->x, (uint64_t)args->rows * args->heads * d));
    (void)device;
    for (uint32_t h = 0; h < args->rows * args->heads; h++)
        for (uint32_t c = 0; c < d; c++)
            x[(size_t)h * d + c] *= factor[(size_t)(h % args->heads / group) * d + c];
}

/* Replaces the mean of a head's keys by the centre. x [d] is the head's first key. */
static void keep_first(enum kvc_type type, uint32_t d, const float *x, float *centre) {
    float key[KVC_ENTRY_GROUP], stored[KVC_ENTRY_GROUP];
    for (uint32_t at = 0; at < d; at += KVC_ENTRY_GROUP) {
        const uint32_t n = kvc_min_u32(d - at, KVC_ENTRY_GROUP);
        for (uint32_t i = 0; i < n; i++)
            key[i] = x[at + i] - centre[at + i];
        KVC_REF(round_group)(type, key, n, stored);
        for (uint32_t i = 0; i < n; i++)
            centre[at + i] = x[at + i] - stored[i];
    }
}

void KVC_REF(centre)(struct kvc_device *device, const struct kvc_centre *args) {
    float *x = kvc_span_data(args->x), *centre = kvc_span_data(args->centre);
    (void)device;
    KVC_ASSERT(args->first <= args->rows && kvc_span_holds(args->x, (uint64_t)args->rows * args->width));
    for (uint32_t i = 0; i < args->width && args->first; i++) {
        float sum = 0.0f;
        for (uint32_t r = 0; r < args->first; r++)
            sum += x[(size_t)r * args->width + i];
        centre[i] = kvc_div(sum, (float)args->first);
    }
    for (uint32_t at = 0; at < args->width && args->first && kvc_type_is_rotated(args->type); at += args->d)
        keep_first(args->type, args->d, x + at, centre + at);
    for (uint32_t r = 0; r < args->rows; r++)
        for (uint32_t i = 0; i < args->width; i++)
            x[(size_t)r * args->width + i] -= centre[i];
}

void KVC_REF(hadamard)(struct kvc_device *device, const struct kvc_hadamard *args) {
    KVC_ASSERT(kvc_span_holds(args->x, (uint64_t)args->heads * args->d));
    (void)device;
    for (uint32_t h = 0; h < args->heads; h++)
        KVC_REF(transform)((float *)kvc_span_data(args->x) + (size_t)h * args->d, args->d);
}

void KVC_REF(repeat_heads)(struct kvc_device *device, const struct kvc_repeat_heads *args) {
    KVC_ASSERT(kvc_span_holds(args->out, (uint64_t)args->rows * args->heads * args->copies * args->head_size));
    float *to = kvc_span_data(args->out);
    const float *from = kvc_span_data(args->x);
    (void)device;
    for (size_t i = 0; i < (size_t)args->rows * args->heads; i++, from += args->head_size)
        for (uint32_t c = 0; c < args->copies; c++, to += args->head_size)
            memcpy(to, from, args->head_size * sizeof *to);
}

void KVC_REF(gather)(struct kvc_device *device, const struct kvc_gather *args) {
    const uint32_t *from = kvc_span_data(args->index);
    (void)device;
    for (uint32_t i = 0; i < args->rows; i++)
        KVC_ASSERT(kvc_span_holds(args->x, ((uint64_t)from[i] + 1) * args->width));
    for (uint32_t i = 0; i < args->rows; i++)
        memcpy((float *)kvc_span_data(args->out) + (size_t)i * args->width,
               (const float *)kvc_span_data(args->x) + (size_t)from[i] * args->width, args->width * sizeof(float));
}

static float gate_dot(const float *x, const float *y, uint32_t n) {
    float sum = 0.0f;
    for (uint32_t c = 0; c < n; c++)
        sum = kvc_fma(x[c], y[c], sum);
    return sum;
}

void KVC_REF(gate_scores)(struct kvc_device *device, const struct kvc_gate_scores *args) {
    float *scores = kvc_span_data(args->scores);
    const float *q = kvc_span_data(args->q), *k = kvc_span_data(args->k);
    const size_t group = args->group, width = args->channels;
    (void)device;
    for (size_t i = 0; i < (size_t)args->rows * args->kv_heads; i++, k += width) {
        const size_t h = i % args->kv_heads;
        const float *base = (const float *)kvc_span_data(args->base) + h * args->sinks * width;
        const float *bias = (const float *)kvc_span_data(args->bias) + h * group;
        float all = 0.0f;
        for (size_t g = 0; g < group; g++, q += width) {
            const float z = kvc_fma(gate_dot(q, k, args->channels), args->scale, bias[g]);
            float sum = 0.0f;
            for (size_t s = 0; s < args->sinks; s++)
                sum = sum + kvc_exp(kvc_fma(gate_dot(q, base + s * width, args->channels), args->scale, -z));
            all = all + kvc_div(1.0f, 1.0f + sum);
        }
        scores[i] = kvc_div(all, (float)args->group);
    }
}

void KVC_REF(fma_loop)(struct kvc_device *device, const struct kvc_fma_loop *args) {
    KVC_ASSERT(args->n % 128 == 0);
    float *x = kvc_span_data(args->x);
    (void)device;
    for (size_t i = 0; i < args->n && args->rounds; i++) {
        float value = x[i];
        for (uint32_t r = 0; r < args->rounds; r++)
            value = kvc_fma(value, 0.999f, 0.001f);
        x[i] = value;
    }
}
