/* series.c - TriAttention's scores, from statistics of all queries. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/cpu/ref/ref.h"

/* Returns the sum of x [count], or of its squares. */
static float sum_indices(const float *x, uint32_t count, bool squares) {
    float sum = 0.0f;
    for (uint32_t tile = 0; tile < count; tile += KVC_TILE) {
        float lane[KVC_LANES] = {0};
        for (uint32_t r = tile; r < count && r < tile + KVC_TILE; r++)
            lane[r % KVC_LANES] = squares ? kvc_fma(x[r], x[r], lane[r % KVC_LANES]) : lane[r % KVC_LANES] + x[r];
        KVC_TREE32(lane);
        sum = sum + lane[0];
    }
    return sum;
}

/* Subtracts the mean of s [count] and divides by the standard deviation. */
static void normalise(float *s, uint32_t count) {
    const float n = (float)count, mean = kvc_div(sum_indices(s, count, false), n);
    for (uint32_t r = 0; r < count; r++)
        s[r] = s[r] - mean;
    const float deviation = kvc_max(kvc_sqrt(kvc_div(sum_indices(s, count, true), n)), 1e-6f);
    for (uint32_t r = 0; r < count; r++)
        s[r] = kvc_div(s[r], deviation);
}

void KVC_REF(series_scores)(struct kvc_device *device, const struct kvc_series_scores *args) {
    KVC_ASSERT(args->heads % args->lists->kv_heads == 0 && args->pairs <= args->lists->format.head_size / 2);
    const struct kvc_lists *lists = args->lists;
    const uint32_t group = args->heads / lists->kv_heads, d = lists->format.head_size, pairs = args->pairs;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t count = kvc_list_count(lists, h);
        float *score = (float *)kvc_span_data(args->scores) + (size_t)h * args->stride;
        float *key = kvc_cpu_scratch((struct kvc_cpu *)device, 0, ((size_t)2 * d + count) * sizeof *key);
        if (!key)
            return;
        float *length = key + d, *s = length + d;
        for (uint32_t g = h * group; g < (h + 1) * group; g++) {
            const float *mean = (const float *)kvc_span_data(args->mean) + (size_t)g * d;
            const float *spread = (const float *)kvc_span_data(args->spread) + (size_t)g * pairs;
            for (uint32_t r = 0; r < count; r++) {
                KVC_REF(load_key)(lists, h, kvc_list_slot(lists, h, r), key);
                for (uint32_t i = 0; i < pairs; i++)
                    length[i] = kvc_sqrt(kvc_fma(key[i + pairs], key[i + pairs], key[i] * key[i]));
                s[r] = kvc_ref_dot(mean, key, d) + kvc_ref_dot(spread, length, pairs);
            }
            normalise(s, count);
            for (uint32_t r = 0; r < count; r++) {
                const float before = g > h * group ? score[r] : args->average ? 0.0f : -kvc_infinity();
                score[r] = args->average ? before + s[r] : kvc_max(before, s[r]);
            }
        }
        for (uint32_t r = 0; r < count && args->average; r++)
            score[r] = kvc_div(score[r], (float)group);
    }
}
