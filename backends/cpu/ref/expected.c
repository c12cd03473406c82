/* expected.c - expected attention: the moments of queries, and the scores and weights that they give to entries. */
#include <string.h>

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/cpu/ref/ref.h"

void KVC_REF(query_moments)(struct kvc_device *device, const struct kvc_query_moments *args) {
    const uint32_t d = args->head_size, half = args->interleaved / 2;
    float *x = kvc_cpu_scratch((struct kvc_cpu *)device, 0, d * sizeof *x);
    const size_t width = (size_t)args->heads * d, of_head = (size_t)(d + 1) * d;
    const float *q = kvc_span_data(args->q);
    float *sums = kvc_span_data(args->sums);
    if (!x)
        return;
    if (args->first)
        memset(sums, 0, args->heads * of_head * sizeof *sums);
    for (uint32_t i = 0; i < args->rows; i++)
        for (uint32_t h = 0; h < args->heads; h++) {
            const float *from = q + i * width + (size_t)h * d;
            float *sum = sums + h * of_head;
            for (uint32_t c = 0; c < d; c++) {
                x[c] = from[c < half ? 2 * c : c < 2 * half ? 2 * (c - half) + 1 : c];
                sum[c] = sum[c] + x[c];
            }
            for (uint32_t b = 0; b < d; b++)
                for (uint32_t c = 0; c < d; c++)
                    sum[(size_t)(b + 1) * d + c] = kvc_fma(x[b], x[c], sum[(size_t)(b + 1) * d + c]);
        }
}

struct expected { /* one list, and scratch memory */
    const struct kvc_expected_scores *call;
    uint32_t h, d, count;
    float *key, *y, *mean; /* [d] */
    float *covariance;     /* [d, d] */
    float *p;              /* [count]: scores of one query head, then their probabilities */
};

static void close_moments(const struct expected *w, uint32_t head) {
    const float *sum = (const float *)kvc_span_data(w->call->sums) + (size_t)head * (w->d + 1) * w->d;
    const float n = (float)w->call->queries;
    for (uint32_t c = 0; c < w->d; c++)
        w->mean[c] = kvc_div(sum[c], n);
    for (uint32_t b = 0; b < w->d; b++)
        for (uint32_t c = 0; c < w->d; c++)
            w->covariance[(size_t)b * w->d + c] =
                kvc_fma(-w->mean[b], w->mean[c], kvc_div(sum[(size_t)(b + 1) * w->d + c], n));
}

/* Loads the key or the value at an index of the list. */
static void load_side(const struct expected *w, uint32_t index, bool values, float *x) {
    const struct kvc_lists *lists = w->call->lists;
    const uint32_t slot = kvc_list_slot(lists, w->h, index);
    if (values)
        KVC_REF(load_value)(lists, w->h, slot, x);
    else
        KVC_REF(load_key)(lists, w->h, slot, x);
}

static void rotate_back(const struct expected *w, uint32_t index) {
    const uint32_t half = w->call->cosine.buffer ? w->call->rotary / 2 : 0;
    const float *cosine = half ? kvc_span_data(w->call->cosine) : NULL,
                *sine = half ? kvc_span_data(w->call->sine) : NULL;
    load_side(w, index, false, w->key);
    memcpy(w->y, w->key, w->d * sizeof *w->y);
    for (uint32_t i = 0; i < half; i++) {
        w->y[i] = kvc_fma(w->key[i + half], sine[i], w->key[i] * cosine[i]);
        w->y[i + half] = kvc_fma(-w->key[i], sine[i], w->key[i + half] * cosine[i]);
    }
}

static float expected_score(const struct expected *w) {
    const float scale = w->call->scale, a = kvc_ref_dot(w->mean, w->y, w->d);
    float b = 0.0f;
    if (!w->call->covariance)
        return scale * a;
    for (uint32_t i = 0; i < w->d; i++)
        b = kvc_fma(kvc_ref_dot(w->covariance + (size_t)i * w->d, w->y, w->d), w->y[i], b);
    return scale * kvc_fma(0.5f * scale, b, a);
}

/* Turns the scores p [count] into probabilities, from index `first` on. */
void KVC_REF(softmax_indices)(float *p, uint32_t first, uint32_t count) {
    float M = -kvc_infinity(), L = 0.0f;
    for (uint32_t r = first; r < count; r++)
        M = kvc_max(M, p[r]);
    for (uint32_t tile = 0; tile < count; tile += KVC_TILE) {
        float lane[KVC_LANES] = {0};
        for (uint32_t r = kvc_max_u32(tile, first); r < count && r < tile + KVC_TILE; r++) {
            p[r] = kvc_exp(p[r] - M);
            lane[r % KVC_LANES] = lane[r % KVC_LANES] + p[r];
        }
        KVC_TREE32(lane);
        L = L + lane[0];
    }
    for (uint32_t r = first; r < count; r++)
        p[r] = kvc_div(p[r], L);
}

void KVC_REF(expected_scores)(struct kvc_device *device, const struct kvc_expected_scores *args) {
    KVC_ASSERT(args->queries > 0 && args->heads % args->lists->kv_heads == 0);
    const struct kvc_lists *lists = args->lists;
    const uint32_t group = args->heads / lists->kv_heads, d = lists->format.head_size;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        struct expected w = {.call = args, .h = h, .d = d, .count = kvc_list_count(lists, h)};
        float *score = (float *)kvc_span_data(args->scores) + (size_t)h * args->stride;
        w.key = kvc_cpu_scratch((struct kvc_cpu *)device, 0, ((3 + (size_t)d) * d + w.count) * sizeof *w.key);
        if (!w.key)
            return;
        w.y = w.key + d, w.mean = w.y + d, w.covariance = w.mean + d, w.p = w.covariance + (size_t)d * d;
        for (uint32_t r = 0; r < w.count; r++)
            score[r] = 0.0f;
        for (uint32_t g = h * group; g < (h + 1) * group; g++) {
            close_moments(&w, g);
            for (uint32_t r = args->first; r < w.count; r++) {
                rotate_back(&w, r);
                w.p[r] = expected_score(&w);
            }
            KVC_REF(softmax_indices)(w.p, args->first, w.count);
            for (uint32_t r = args->first; r < w.count; r++)
                score[r] = score[r] + w.p[r];
        }
        for (uint32_t r = args->first; r < w.count; r++) {
            score[r] = kvc_div(score[r], (float)group);
            if (!args->values)
                continue;
            load_side(&w, r, true, w.key);
            score[r] = (score[r] + args->epsilon) * kvc_sqrt(kvc_ref_dot(w.key, w.key, d));
        }
    }
}

/* ---- mean_weights ---- */

/* Sets u [d] to the mean of a head's queries, rotated; mean [d] is scratch memory. */
static void mean_direction(const struct kvc_mean_weights *args, uint32_t head, float *mean, float *u) {
    const uint32_t d = args->lists->format.head_size, half = args->cosine.buffer ? args->rotary / 2 : 0;
    const float *sum = (const float *)kvc_span_data(args->sums) + (size_t)head * (d + 1) * d;
    const float *cosine = half ? kvc_span_data(args->cosine) : NULL, *sine = half ? kvc_span_data(args->sine) : NULL;
    for (uint32_t c = 0; c < d; c++)
        u[c] = mean[c] = kvc_div(sum[c], (float)args->queries);
    for (uint32_t i = 0; i < half; i++) {
        u[i] = kvc_fma(-mean[i + half], sine[i], mean[i] * cosine[i]);
        u[i + half] = kvc_fma(mean[i], sine[i], mean[i + half] * cosine[i]);
    }
}

void KVC_REF(mean_weights)(struct kvc_device *device, const struct kvc_mean_weights *args) {
    KVC_ASSERT(args->queries > 0 && args->heads % args->lists->kv_heads == 0);
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size;
    float *u = kvc_cpu_scratch((struct kvc_cpu *)device, 0, 2 * (size_t)d * sizeof *u), *key = u + d;
    if (!u)
        return;
    for (uint32_t g = 0; g < args->heads; g++) {
        const uint32_t h = g / (args->heads / lists->kv_heads), count = kvc_list_count(lists, h);
        float *weight = (float *)kvc_span_data(args->weights) + (size_t)g * args->stride, M = -kvc_infinity();
        mean_direction(args, g, key, u);
        const float length = kvc_sqrt(kvc_ref_dot(u, u, d));
        for (uint32_t r = 0; r < count; r++) {
            weight[r] = 0.0f;
            if (r < args->first)
                continue;
            KVC_REF(load_key)(lists, h, kvc_list_slot(lists, h, r), key);
            const float both = length * kvc_sqrt(kvc_ref_dot(key, key, d));
            weight[r] = args->scale * (both == 0.0f ? 0.0f : kvc_div(kvc_ref_dot(u, key, d), both));
            M = kvc_max(M, weight[r]);
        }
        for (uint32_t r = args->first; r < count; r++)
            weight[r] = kvc_exp(weight[r] - M);
    }
}
