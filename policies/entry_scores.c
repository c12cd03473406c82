/* entry_scores.c - evicts by scores that need no query, for the methods `random`, `knorm` and `keydiff`. Also computes
 * the scores that the option `scorer` of `chunkkv` and `criticalkv` names: those of `snapkv` or of these methods. */
#include "policies/policies.h"

#include <string.h>

enum kvc_status kvc_check_newest(const struct kvc_values *values, struct kvc_error *error) {
    return kvc_check_above(values, "recent", error);
}

static uint64_t budget_of(const struct kvc_values *values, uint64_t held) {
    return kvc_budget(values, held, (uint64_t)kvc_value_int(values, "recent"));
}

static uint64_t entry_scores_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return budget_of(values, prompt) + (steps ? 1 : 0);
}

const struct kvc_forecast kvc_newest_forecast = {.bound = entry_scores_bound};

enum kvc_status kvc_keep_newest(struct kvc_stage *stage, const struct kvc_values *values,
                                const struct kvc_scores *scores, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = budget_of(values, info->held);
    const struct kvc_keep keep = {.fill = budget,
                                  .limit = budget,
                                  .recent = (int64_t)info->now - kvc_value_int(values, "recent"),
                                  .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

enum kvc_status kvc_entries_evict(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_entry_kind kind,
                                  uint64_t seed, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    struct kvc_scores *scores;
    if (info->entries <= budget_of(values, info->held))
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_entry_scores(stage, kind, seed, scores, error);
    return status == KVC_OK ? kvc_keep_newest(stage, values, scores, error) : status;
}

/* ---- scores by any of several methods ---- */

bool kvc_scorer_is(const struct kvc_values *values, const char *name) {
    return !strcmp(kvc_value_text(values, "scorer"), name);
}

enum kvc_status kvc_check_scorer(const struct kvc_values *values, struct kvc_error *error) {
    if (kvc_scorer_is(values, "snapkv") && kvc_value_int(values, "window") == 0)
        return kvc_fail(error, KVC_USAGE, "policy: window=0: must be 1 to %d with scorer=snapkv", 1 << 20);
    return kvc_check_above(values, "window", error);
}

enum kvc_status kvc_scorer_scores(struct kvc_stage *stage, const struct kvc_values *values, uint32_t rows,
                                  struct kvc_scores *scores, struct kvc_error *error) {
    if (kvc_scorer_is(values, "snapkv"))
        return kvc_stage_window_mass(stage, rows, scores, error);
    const enum kvc_entry_kind kind = kvc_scorer_is(values, "knorm")     ? KVC_ENTRY_NORM
                                     : kvc_scorer_is(values, "keydiff") ? KVC_ENTRY_APART
                                                                        : KVC_ENTRY_DRAW;
    return kvc_stage_entry_scores(stage, kind, kvc_stage_info(stage)->seed, scores, error);
}
