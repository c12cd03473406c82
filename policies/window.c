/* window.c - keeps the most recent entries. */
#include "policies/policies.h"

#include <stdint.h>

static const struct kvc_option options[] = {KVC_BUDGET_OPTION("entries kept per KV head"), KVC_OPTIONS_END};

static uint64_t window_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_budget(values, prompt, 0) + (steps ? 1 : 0);
}

static enum kvc_status window_evict(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = kvc_budget(values, info->held, 0);
    if (info->entries <= budget)
        return KVC_OK;
    const struct kvc_keep keep = {.tail = budget, .recent = INT64_MAX};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_window = {
    .name = "window",
    .summary = "keeps the most recent entries",
    .paper = "-",
    .idea = "Keeps the B newest entries and evicts the others, after the prompt and after every decode step. This is "
            "the simplest bounded cache.",
    .formula = "kept = the B entries of highest position",
    .memory = "B entries (B + 1 within a decode step)",
    .traffic = "B + 1 entries per generated token",
    .differences = "None.",
    .second_turn = "The new prompt attends to the B entries held and to itself. Then the B newest of both are kept.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .forecast = &(const struct kvc_forecast){.bound = window_bound},
    .prompt = window_evict,
    .decode = window_evict};
