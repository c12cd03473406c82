/* streaming.c - keeps the first few entries ("sinks") and the most recent ones. */
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
    .summary = "keeps the first entries and the most recent ones",
    .paper = "StreamingLLM, arXiv:2309.17453",
    .idea = "The first few tokens attract much of the attention, whatever they say. If the cache keeps them and a "
            "window of the newest entries, a model stays stable over any length. Everything in between is forgotten.",
    .formula =
        "kept = the first `sinks` entries and the B - sinks entries of highest position; with positions=cache the key "
        "of the entry with index r is rotated to position r, and the query is rotated to the index of its own entry",
    .memory = "B entries (B + 1 within a decode step); with positions=cache d more float32 per entry and KV head",
    .traffic = "B + 1 entries per generated token",
    .differences = "Keys keep their original positions, unless positions=cache.",
    .second_turn = "The new prompt attends to the entries held and to itself. The sinks are still those of the first "
                   "turn, and the newest entries of both turns fill the rest of the budget.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = streaming_check,
    .cache_positions = kvc_positions_in_cache,
    .forecast = &(const struct kvc_forecast){.bound = streaming_bound},
    .prompt = streaming_evict,
    .decode = streaming_evict};
