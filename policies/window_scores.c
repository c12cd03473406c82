/* window_scores.c - scores entries by the attention of a prompt's last queries, for `snapkv` and the methods built on
 * it. */
#include "policies/policies.h"

#include "core/base/assert.h"

#include <stdint.h>

enum kvc_status kvc_check_window(const struct kvc_values *values, struct kvc_error *error) {
    const enum kvc_status status = kvc_check_kernel(values, error);
    return status == KVC_OK ? kvc_check_above(values, "window", error) : status;
}

uint32_t kvc_window_queries(const struct kvc_values *values) { return (uint32_t)kvc_value_int(values, "window"); }

uint64_t kvc_window_budget(const struct kvc_values *values, uint64_t held) {
    return kvc_budget(values, held, kvc_window_queries(values));
}

uint32_t kvc_window_rows(const struct kvc_values *values, const struct kvc_stage_info *info) {
    return (uint32_t)kvc_min_u64(kvc_window_queries(values), info->turn);
}

enum kvc_status kvc_window_scores(struct kvc_stage *stage, const struct kvc_values *values, uint32_t rows,
                                  struct kvc_scores **scores, struct kvc_error *error) {
    enum kvc_status status = kvc_stage_scores(stage, scores, error);
    if (status == KVC_OK)
        status = kvc_stage_window_mass(stage, rows, *scores, error);
    if (status == KVC_OK)
        status = kvc_stage_pool(stage, *scores, rows, (uint32_t)kvc_value_int(values, "kernel"), kvc_pooling_of(values),
                                error);
    return status;
}

uint64_t kvc_window_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_window_budget(values, prompt) + steps;
}

const struct kvc_forecast kvc_window_forecast = {.bound = kvc_window_bound};

struct kvc_keep kvc_window_rule(uint64_t entries, uint32_t window, const struct kvc_scores *scores) {
    KVC_ASSERT(entries >= window);
    return (struct kvc_keep){
        .tail = window, .top = entries - window, .limit = entries, .recent = INT64_MAX, .scores = scores};
}

enum kvc_status kvc_window_evict(struct kvc_stage *stage, const struct kvc_values *values, uint64_t entries,
                                 struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint32_t window = kvc_window_rows(values, info);
    struct kvc_scores *scores;
    if (info->entries <= entries)
        return KVC_OK;
    const enum kvc_status status = kvc_window_scores(stage, values, window, &scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = kvc_window_rule(entries, window, scores);
    return kvc_stage_keep(stage, &keep, error);
}
