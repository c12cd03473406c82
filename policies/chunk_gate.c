/* chunk_gate.c - the gate of `chunkkv`: keeps an important chunk whole only if its entries share its importance
 * (docs/reference/methods/chunkkv.md). The host computes it, once per layer and prompt. */
#include "policies/policies.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/assert.h"
#include "core/base/canon.h"

#define EPSILON 1e-8f

static float mean_of(const float *x, uint32_t n) {
    float sum = 0.0f;
    for (uint32_t i = 0; i < n; i++)
        sum = sum + x[i];
    return kvc_div(sum, (float)n);
}

/* Returns the entropy of n scores divided by the entropy of equal scores, 0 to 1. If a score is negative, all scores
 * are first raised by the same amount, so that the least is 0. */
static float evenness(const float *x, uint32_t n) {
    float least = 0.0f, sum = 0.0f, entropy = 0.0f;
    for (uint32_t i = 0; i < n; i++)
        least = x[i] < least ? x[i] : least;
    for (uint32_t i = 0; i < n; i++)
        sum = sum + (x[i] - least);
    for (uint32_t i = 0; i < n && n > 1; i++) {
        const float p = kvc_div(x[i] - least, sum + EPSILON);
        entropy = entropy - p * kvc_log(p + EPSILON);
    }
    entropy = n > 1 ? kvc_div(entropy, kvc_log((float)n)) : 0.0f;
    return entropy > 1.0f ? 1.0f : entropy > 0.0f ? entropy : 0.0f;
}

/* Returns the key of the median of x [n]; if n is even, of the lower of the two middle scores. `order` [n] is
 * overwritten. */
static uint32_t median(const float *x, uint32_t n, struct kvc_ranked *order) {
    kvc_rank_scores(x, n, order);
    return order[n / 2].key; /* descending, so of two medians the lower one is second */
}

/* Replaces the scores of a chunk, x [n], by its mean. With `top` above 0, only the `top` highest scores receive the
 * mean, and the others receive minus infinity. */
static void level(float *x, uint32_t n, float mean, uint32_t top, struct kvc_ranked *order) {
    kvc_rank_scores(x, n, order);
    for (uint32_t i = 0; i < n; i++)
        x[order[i].index] = top > 0 && i >= top ? -INFINITY : mean;
}

/* Gates the scores x [n] in chunks of `chunk`. mean, even [chunks] and order [n] are overwritten. */
static void gate(float *x, uint32_t n, uint32_t chunk, uint32_t top, float *mean, float *even,
                 struct kvc_ranked *order) {
    const uint32_t chunks = (uint32_t)kvc_divide_up(n, chunk);
    for (uint32_t c = 0; c < chunks; c++) {
        const uint32_t size = kvc_min_u32(n - c * chunk, chunk);
        mean[c] = mean_of(x + (size_t)c * chunk, size);
        even[c] = evenness(x + (size_t)c * chunk, size);
    }
    const uint32_t important = median(mean, chunks, order), mixed = median(even, chunks, order);
    for (uint32_t c = 0; c < chunks; c++) {
        const bool uneven = kvc_score_key(mean[c]) >= important && kvc_score_key(even[c]) < mixed;
        level(x + (size_t)c * chunk, kvc_min_u32(n - c * chunk, chunk), mean[c], uneven ? top : 0, order);
    }
}

enum kvc_status kvc_chunk_gate(struct kvc_stage *stage, const struct kvc_scores *scores, uint64_t tail, uint32_t chunk,
                               uint32_t top, struct kvc_scores *gated, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const size_t most = info->entries;
    float *x = malloc(3 * most * sizeof *x);
    struct kvc_ranked *order = malloc(most * sizeof *order);
    enum kvc_status status = KVC_OK;
    KVC_ASSERT(chunk > top && top > 0 && most > 0);
    if (!x || !order)
        status = kvc_fail(error, KVC_RESOURCE, "no memory for the scores of %zu entries", most);
    for (uint32_t h = 0; h < info->kv_heads && status == KVC_OK; h++) {
        size_t count = 0;
        status = kvc_stage_read_scores(stage, scores, h, x, most, &count, error);
        KVC_ASSERT(count <= most);
        if (status == KVC_OK && count > tail)
            gate(x, (uint32_t)(count - tail), chunk, top, x + most, x + 2 * most, order);
        if (status == KVC_OK)
            status = kvc_stage_write_scores(stage, gated, h, x, count, error);
    }
    free(x);
    free(order);
    return status;
}
