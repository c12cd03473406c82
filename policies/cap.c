/* cap.c - keeps entries whose values point in directions of their own, weighted by the mean query (CapKV)
 * (docs/reference/methods/cap.md). */
#include "policies/policies.h"

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, sinks included"),
    {"sinks", KVC_OPTION_INT, "4", 0, 1 << 20, NULL,
     "first entries, which are always kept; their tokens' queries do not count"},
    {"future", KVC_OPTION_INT, "512", 1, 65536, NULL, "positions after the prompt at which queries are expected"},
    {"tau", KVC_OPTION_REAL, "5", 0, 1000, NULL, "how sharply the direction of the mean query weighs entries; 0: not"},
    KVC_OPTIONS_END};

static enum kvc_status cap_check(const struct kvc_values *values, struct kvc_error *error) {
    return kvc_check_above(values, "sinks", error);
}

static uint64_t cap_sinks(const struct kvc_values *values) { return (uint64_t)kvc_value_int(values, "sinks"); }

static uint64_t cap_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_budget(values, prompt, cap_sinks(values)) + steps;
}

static enum kvc_status cap_attended(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    return kvc_stage_query_moments(stage, cap_sinks(values), error);
}

static enum kvc_status cap_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t sinks = cap_sinks(values), budget = kvc_budget(values, info->held, sinks);
    const float half = (float)(kvc_value_real(values, "tau") / 2); /* values get the square root of their weight */
    struct kvc_scores *weights, *scores;
    if (info->entries <= budget)
        return KVC_OK;
    enum kvc_status status = kvc_stage_head_scores(stage, &weights, error);
    if (status == KVC_OK)
        status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_mean_weights(stage, sinks, (uint32_t)kvc_value_int(values, "future"), half, weights, error);
    if (status == KVC_OK)
        status = kvc_stage_value_leverage(stage, sinks, weights, scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {
        .first = sinks, .top = budget - sinks, .limit = budget, .recent = INT64_MAX, .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_cap = {
    .name = "cap",
    .summary = "keeps values that stand out, where their keys point towards the mean query",
    .paper = "CapKV, arXiv:2604.25975",
    .idea =
        "What attention can return is made of the values. A value that points in a direction in which no other value "
        "points is hard to replace, and its statistical leverage measures this. But a value matters only if queries "
        "find its key. So each value counts more, the smaller the angle between its key and the query that is "
        "expected on average.",
    .formula =
        "all entries but the first `sinks` are scored; for each query head: mu: the mean of the prompt's queries at "
        "positions from `sinks` on, before RoPE; R: the mean of RoPE's rotations at positions n .. n + future - 1; "
        "w_j = exp(tau (cos(k_j, R mu) - m)), where m is the highest cosine; A = I + sum of w v v^T; l_j = w_j v_j . "
        "A^-1 v_j; score_j = the mean of l_j over the group's heads; kept = the first `sinks` entries, and the top of "
        "the others, B in all",
    .memory = "B entries after the prompt, one more per generated token; during the prompt (d + 1) d float32 per query "
              "head",
    .traffic = "B + generated entries per generated token",
    .differences =
        "The paper weighs by the dot product of key and query. This method weighs by their cosine, less the highest, "
        "and rotates the mean query to future positions, as kvpress's CapPress does. CapPress also adds 1e-6 to each "
        "weight in A; with epsilon=0 it does not.",
    .second_turn = "The mean is that of the queries of this turn's prompt. Old and new entries are scored.",
    .channels = true,
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .check = cap_check,
    .forecast = &(const struct kvc_forecast){.bound = cap_bound},
    .attended = cap_attended,
    .prompt = cap_prompt};
