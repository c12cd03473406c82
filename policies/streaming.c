/* streaming.c - the first few entries ("sinks") and the most recent ones. */
#include "policies/policies.h"

#include <stdint.h>

static const struct kvc_option options[] = {KVC_BUDGET_OPTION("entries kept per KV head, sinks included"),
                                            KVC_SINKS_OPTION("4"), KVC_POSITIONS_OPTION, KVC_OPTIONS_END};

static enum kvc_status streaming_check(const struct kvc_values *values, struct kvc_error *error) {
    return kvc_check_above(values, "sinks", error);
}

static uint64_t budget_of(const struct kvc_values *values, uint64_t held) {
    return kvc_budget(values, held, (uint64_t)kvc_value_int(values, "sinks"));
}

static uint64_t streaming_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return budget_of(values, prompt) + (steps ? 1 : 0);
}

static enum kvc_status streaming_evict(struct kvc_stage *stage, const struct kvc_values *values,
                                       struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = budget_of(values, info->held), sinks = (uint64_t)kvc_value_int(values, "sinks");
    if (info->entries <= budget)
        return KVC_OK;
    const struct kvc_keep keep = {.first = sinks, .tail = budget - sinks, .recent = INT64_MAX};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_streaming = {
    .name = "streaming",
    .summary = "the first entries and the most recent ones",
    .paper = "StreamingLLM, arXiv:2309.17453",
    .idea = "Much of the attention is on the first few tokens whatever they say. Keeping those beside a window "
            "of the newest entries keeps a model stable over any length; what lies between is forgotten.",
    .formula = "kept = the first `sinks` entries and the B - sinks of highest position; with positions=cache the "
               "entry at index r has the key of a token at position r, and the query uses the index of its own entry",
    .memory = "B entries (B + 1 within a decode step); with positions=cache d float32 more per entry and KV head",
    .traffic = "B + 1 entries per generated token",
    .differences = "keys stay at their original positions, unless positions=cache",
    .second_turn = "the new prompt attends to what is held and to itself; the first entries of all are still those of "
                   "the first turn, and the newest of both fill up the budget",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = streaming_check,
    .cache_positions = kvc_positions_in_cache,
    .forecast = &(const struct kvc_forecast){.bound = streaming_bound},
    .prompt = streaming_evict,
    .decode = streaming_evict};
