/* select.c - from scores to entries: pooling, and the rule of struct kvc_keep. */
#include <stdlib.h>

#include "backends/cpu/ref/ref.h"

void KVC_REF(pool)(struct kvc_device *device, const struct kvc_lists *lists, uint32_t rows, struct kvc_span out,
                   struct kvc_span in, uint32_t stride, uint64_t tail, uint32_t kernel, enum kvc_pooling pooling) {
    uint32_t half = kernel / 2;
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads * rows; h++) {
        float *y = (float *)kvc_span_data(out) + (size_t)h * stride;
        const float *x = (const float *)kvc_span_data(in) + (size_t)h * stride;
        uint32_t count = kvc_list_count(lists, h / rows), n = tail < count ? count - (uint32_t)tail : 0;
        for (uint32_t r = 0; r < n; r++) {
            uint32_t first = r > half ? r - half : 0, last = n - 1 - r > half ? r + half : n - 1;
            float value = pooling == KVC_POOL_MAX ? x[first] : 0.0f;
            for (uint32_t i = first; i <= last; i++)
                value = pooling == KVC_POOL_MAX ? kvc_max(value, x[i]) : value + x[i];
            y[r] = pooling == KVC_POOL_MAX ? value : kvc_div(value, (float)kernel);
        }
        for (uint32_t r = n; r < count; r++)
            y[r] = 0.0f;
    }
}

/* Descending. */
static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static bool is_forced(const struct kvc_lists *lists, uint32_t h, const struct kvc_keep *rule, uint32_t rank) {
    uint32_t count = kvc_list_count(lists, h);
    return rank < rule->first || (uint64_t)(count - rank) <= rule->tail ||
           kvc_list_position(lists, h, kvc_list_slot(lists, h, rank)) >= rule->recent;
}

void KVC_REF(keep)(struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_keep *rules,
                   uint32_t rule_count, struct kvc_span scores, struct kvc_span ties, uint32_t stride,
                   struct kvc_read_list *kept) {
    (void)ties;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const struct kvc_keep *rule = &rules[rule_count > 1 ? h : 0];
        uint32_t count = kvc_list_count(lists, h), candidates = 0, kept_count = 0;
        uint32_t *ranks = (uint32_t *)kept->rank->data + (size_t)h * kept->stride;
        const float *score = scores.buffer ? (const float *)kvc_span_data(scores) + (size_t)h * stride : NULL;
        uint64_t *order, top = rule->top, forced;
        bool *keep;
        order = kvc_cpu_scratch((struct kvc_cpu *)device, 0, count * (sizeof *order + sizeof *keep));
        if (!order)
            return;
        keep = (bool *)(order + count);
        for (uint32_t r = 0; r < count; r++) {
            keep[r] = is_forced(lists, h, rule, r);
            if (!keep[r]) /* higher score first, then the lower rank */
                order[candidates++] = (uint64_t)(score ? kvc_score_key(score[r]) : 0) << 32 | (UINT32_MAX - r);
        }
        forced = count - candidates;
        if (rule->fill > forced && top < rule->fill - forced)
            top = rule->fill - forced;
        qsort(order, candidates, sizeof *order, compare);
        for (uint32_t i = 0; i < candidates && i < top; i++)
            keep[UINT32_MAX - (uint32_t)order[i]] = true;
        for (uint32_t r = 0; r < count; r++)
            if (keep[r])
                ranks[kept_count++] = r;
        ((uint32_t *)kept->count->data)[h] = kept_count;
    }
}
