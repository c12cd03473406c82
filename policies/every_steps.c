/* every_steps.c - evicts once in `every` decode steps, for `snapkv-decode` and `rkv`. A ring buffer contains the
 * attention rows of the last queries. An entry's score is the sum over these rows. */
#include "policies/policies.h"

#include <math.h>

uint32_t kvc_every(const struct kvc_values *values) { return (uint32_t)kvc_value_int(values, "every"); }

static uint64_t every_steps_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_window_budget(values, prompt) + kvc_min_u64(steps, kvc_every(values));
}

/* Between two evictions, which are `every` steps apart, a list may exceed the budget. */
double kvc_every_entries(const struct kvc_values *values, double first, uint64_t budget, uint64_t steps) {
    const uint64_t since = steps % kvc_every(values), last = steps - since;
    return (last ? fmin(first + (double)last, (double)budget) : first) + (double)since;
}

static double every_steps_entries(const struct kvc_values *values, const struct kvc_layer_context *context,
                                  uint64_t prompt, uint64_t steps) {
    return kvc_every_entries(values, context->from, kvc_window_budget(values, prompt), steps);
}

const struct kvc_forecast kvc_every_forecast = {.bound = every_steps_bound, .entries = every_steps_entries};

enum kvc_status kvc_every_observe(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_row_kind kind,
                                  struct kvc_error *error) {
    const uint32_t rows = kvc_window_rows(values, kvc_stage_info(stage));
    return kvc_stage_ring_write(stage, 0, kvc_window_queries(values), rows, kind, error);
}

enum kvc_status kvc_every_scores(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_row_kind kind,
                                 struct kvc_scores **scores, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint32_t window = kvc_window_queries(values), every = kvc_every(values);
    const uint64_t ahead = (every - info->step % every) % every; /* number of steps until the next eviction */
    const int64_t recent = kind == KVC_ROW_LOGITS ? (int64_t)info->now - window : INT64_MAX;
    enum kvc_status status = KVC_OK;
    *scores = NULL;
    if (ahead < window)
        status = kvc_stage_ring_write(stage, 0, window, 1, kind, error);
    if (status != KVC_OK || ahead != 0 || info->entries <= kvc_window_budget(values, info->held))
        return status;
    status = kvc_stage_scores(stage, scores, error);
    if (status == KVC_OK)
        status = kvc_stage_ring_fuse(stage, 0, window, kvc_ring_filled(info, window), kind, KVC_FUSE_SUM, recent,
                                     *scores, error);
    if (status == KVC_OK)
        status = kvc_stage_pool(stage, *scores, window, (uint32_t)kvc_value_int(values, "kernel"),
                                kvc_pooling_of(values), error);
    return status;
}

enum kvc_status kvc_every_keep(struct kvc_stage *stage, const struct kvc_values *values,
                               const struct kvc_scores *scores, struct kvc_error *error) {
    const uint64_t budget = kvc_window_budget(values, kvc_stage_info(stage)->held);
    const struct kvc_keep keep = kvc_window_rule(budget, kvc_window_queries(values), scores);
    return kvc_stage_keep(stage, &keep, error);
}
