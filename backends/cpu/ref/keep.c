/* keep.c - chooses entries by their scores: pooling, the rule of struct kvc_keep, and the division of slots among
 * heads. */
#include <stdlib.h>

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/cpu/ref/ref.h"

void KVC_REF(pool)(struct kvc_device *device, const struct kvc_pool *args) {
    KVC_ASSERT(args->out.buffer != args->in.buffer || args->out.offset != args->in.offset);
    KVC_ASSERT(args->kernel > 0);
    const struct kvc_lists *lists = args->lists;
    uint32_t half = args->kernel / 2;
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads * args->rows; h++) {
        float *y = (float *)kvc_span_data(args->out) + (size_t)h * args->stride;
        const float *x = (const float *)kvc_span_data(args->in) + (size_t)h * args->stride;
        uint32_t count = kvc_list_count(lists, h / args->rows),
                 n = args->tail < count ? count - (uint32_t)args->tail : 0;
        for (uint32_t r = 0; r < n && args->pooling == KVC_POOL_CHUNKS; r++) {
            const uint32_t first = r - r % args->kernel, size = kvc_min_u32(n - first, args->kernel);
            float sum = 0.0f;
            for (uint32_t i = 0; i < size; i++)
                sum = sum + x[first + i];
            y[r] = kvc_div(sum, (float)size);
        }
        for (uint32_t r = 0; r < n && args->pooling != KVC_POOL_CHUNKS; r++) {
            uint32_t first = r > half ? r - half : 0, last = n - 1 - r > half ? r + half : n - 1;
            float value = args->pooling == KVC_POOL_MAX ? x[first] : 0.0f;
            for (uint32_t i = first; i <= last; i++)
                value = args->pooling == KVC_POOL_MAX ? kvc_max(value, x[i]) : value + x[i];
            y[r] = args->pooling == KVC_POOL_MAX ? value : kvc_div(value, (float)args->kernel);
        }
        for (uint32_t r = n; r < count; r++)
            y[r] = 0.0f;
    }
}

void KVC_REF(group_scores)(struct kvc_device *device, const struct kvc_group_scores *args) {
    KVC_ASSERT(args->rows == 1 || args->out.buffer != args->in.buffer);
    const struct kvc_lists *lists = args->lists;
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        float *y = (float *)kvc_span_data(args->out) + (size_t)h * args->stride;
        const float *x = (const float *)kvc_span_data(args->in) + (size_t)h * args->rows * args->stride;
        for (uint32_t r = 0; r < kvc_list_count(lists, h); r++) {
            float sum = 0.0f;
            for (uint32_t g = 0; g < args->rows; g++)
                sum = sum + x[(size_t)g * args->stride + r];
            y[r] = kvc_div(sum, args->divisor);
        }
    }
}

/* A candidate entry. `key` holds the sort key of its score, followed by the sort key of the score that breaks ties. */
struct candidate {
    uint64_t key;
    uint32_t head, index;
};

/* Sorts by key, descending. Entries with equal keys are sorted by head and index, ascending. */
static int keep_compare(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index ? 1 : 0;
}

static bool is_forced(const struct kvc_lists *lists, uint32_t h, const struct kvc_keep *rule, uint32_t index) {
    uint32_t count = kvc_list_count(lists, h);
    return count <= rule->limit || index < rule->first || (uint64_t)(count - index) <= rule->tail ||
           kvc_list_position(lists, h, kvc_list_slot(lists, h, index)) >= rule->recent;
}

void KVC_REF(keep)(struct kvc_device *device, const struct kvc_keep_rules *args) {
    KVC_ASSERT(args->rule_count == 1 || args->rule_count == args->lists->kv_heads);
    const struct kvc_lists *lists = args->lists;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const struct kvc_keep *rule = &args->rules[args->rule_count > 1 ? h : 0];
        uint32_t count = kvc_list_count(lists, h), candidates = 0, kept_count = 0;
        uint32_t *indices = (uint32_t *)args->kept->index->data + (size_t)h * args->kept->stride;
        const float *score =
            args->scores.buffer ? (const float *)kvc_span_data(args->scores) + (size_t)h * args->stride : NULL;
        const float *tie =
            args->ties.buffer ? (const float *)kvc_span_data(args->ties) + (size_t)h * args->stride : NULL;
        struct candidate *order;
        uint64_t top = rule->top, forced;
        bool *keep;
        order = kvc_cpu_scratch((struct kvc_cpu *)device, 0, count * (sizeof *order + sizeof *keep));
        if (!order)
            return;
        keep = (bool *)(order + count);
        for (uint32_t r = 0; r < count; r++) {
            keep[r] = is_forced(lists, h, rule, r);
            if (!keep[r]) {
                uint64_t high = score ? kvc_score_key(score[r]) : 0, low = tie ? kvc_score_key(tie[r]) : 0;
                order[candidates++] = (struct candidate){high << 32 | low, h, r};
            }
        }
        forced = count - candidates;
        if (rule->fill > forced && top < rule->fill - forced)
            top = rule->fill - forced;
        qsort(order, candidates, sizeof *order, keep_compare);
        for (uint32_t i = 0; i < candidates && i < top; i++)
            keep[order[i].index] = order[i].key >> 32 >= kvc_keep_least(rule);
        for (uint32_t r = 0; r < count; r++)
            if (keep[r])
                indices[kept_count++] = r;
        ((uint32_t *)args->kept->count->data)[h] = kept_count;
    }
}

void KVC_REF(shares)(struct kvc_device *device, const struct kvc_shares *args) {
    const struct kvc_lists *lists = args->lists;
    uint32_t *share = kvc_span_data(args->shares);
    struct candidate *order;
    size_t n = 0;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        n += kvc_list_count(lists, h);
        share[h] = 0;
    }
    order = kvc_cpu_scratch((struct kvc_cpu *)device, 0, n * sizeof *order);
    if (!order)
        return;
    n = 0;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        for (uint32_t r = 0; (uint64_t)r + args->tail < kvc_list_count(lists, h); r++)
            order[n++] = (struct candidate){
                kvc_score_key(((const float *)kvc_span_data(args->scores))[(size_t)h * args->stride + r]), h, r};
    qsort(order, n, sizeof *order, keep_compare);
    for (size_t i = 0; i < n && i < args->slots; i++)
        share[order[i].head]++;
}
