/* entry_scores.c - evicting by what entries hold, without a query, for random, knorm and keydiff. */
#include "policies/policies.h"

enum kvc_status kvc_check_newest(const struct kvc_values *values, struct kvc_error *error) {
    return kvc_check_above(values, "recent", error);
}

static uint64_t budget_of(const struct kvc_values *values, uint64_t held) {
    return kvc_budget(values, held, (uint64_t)kvc_value_int(values, "recent"));
}

static uint64_t bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return budget_of(values, prompt) + (steps ? 1 : 0);
}

const struct kvc_forecast kvc_newest_forecast = {.bound = bound};

enum kvc_status kvc_entries_evict(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_entry_kind kind,
                                  uint64_t seed, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = budget_of(values, info->held);
    struct kvc_scores *scores;
    if (info->entries <= budget)
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_entry_scores(stage, kind, seed, scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {.fill = budget,
                                  .limit = budget,
                                  .recent = (int64_t)info->now - kvc_value_int(values, "recent"),
                                  .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}
