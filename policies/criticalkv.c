/* criticalkv.c - fills a part of the budget with the entries that another method scores highest. For the rest, it
 * multiplies an entry's score by the contribution of its value to the layer's output
 * (docs/reference/methods/criticalkv.md). */
#include "policies/policies.h"

#include <math.h>

#define SINKS 4u /* number of first entries that the option scorer=expected always keeps */

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, window included"),
    {"window", KVC_OPTION_INT, "32", 0, 1 << 20, NULL,
     "last tokens of the prompt; their queries vote, and their entries are always kept"},
    {"scorer", KVC_OPTION_CHOICE, "snapkv", 0, 0, "snapkv|expected|knorm|keydiff|random",
     "method whose scores are used"},
    {"first", KVC_OPTION_REAL, "0.5", 0, 1, NULL, "share of the budget that these scores alone decide"},
    {"epsilon", KVC_OPTION_REAL, "0.0001", 0, 1, NULL, "added to these scores before they are multiplied"},
    KVC_KERNEL_OPTION("7"),
    KVC_POOLING_OPTION("max"),
    KVC_OPTIONS_END};

static uint32_t criticalkv_sinks(const struct kvc_values *values) {
    return kvc_scorer_is(values, "expected") ? SINKS : 0;
}

/* Returns the number of entries that are always kept. */
static uint64_t criticalkv_fixed(const struct kvc_values *values) {
    return (uint64_t)kvc_value_int(values, "window") + criticalkv_sinks(values);
}

static enum kvc_status criticalkv_check(const struct kvc_values *values, struct kvc_error *error) {
    const int64_t budget = kvc_value_is_share(values, "budget") ? INT64_MAX : kvc_value_int(values, "budget");
    const enum kvc_status status = kvc_check_kernel(values, error);
    if (status == KVC_OK && budget > kvc_value_int(values, "window") && budget <= (int64_t)criticalkv_fixed(values))
        return kvc_fail(error, KVC_USAGE, "policy: budget=%lld: must be above %llu, window=%lld and %u first entries",
                        (long long)budget, (unsigned long long)criticalkv_fixed(values),
                        (long long)kvc_value_int(values, "window"), SINKS);
    return status == KVC_OK ? kvc_check_scorer(values, error) : status;
}

static uint64_t criticalkv_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_budget(values, prompt, criticalkv_fixed(values)) + steps;
}

static enum kvc_status criticalkv_attended(struct kvc_stage *stage, const struct kvc_values *values,
                                           struct kvc_error *error) {
    return kvc_scorer_is(values, "expected") ? kvc_stage_query_moments(stage, SINKS, error) : KVC_OK;
}

static enum kvc_status score(struct kvc_stage *stage, const struct kvc_values *values, uint32_t window,
                             struct kvc_scores *scores, struct kvc_error *error) {
    static const struct kvc_expectation expected = {.first = SINKS, .future = 512, .covariance = true};
    if (kvc_scorer_is(values, "expected"))
        return kvc_stage_expected_scores(stage, &expected, scores, error);
    enum kvc_status status = kvc_scorer_scores(stage, values, window, scores, error);
    if (status != KVC_OK || !kvc_scorer_is(values, "snapkv"))
        return status;
    status =
        kvc_stage_pool(stage, scores, window, (uint32_t)kvc_value_int(values, "kernel"), kvc_pooling_of(values), error);
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    return status == KVC_OK /* divides each sum by the number of probabilities in it */
               ? kvc_stage_group(stage, scores, (float)(window * (info->heads / info->kv_heads)), scores, error)
               : status;
}

static enum kvc_status criticalkv_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                         struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint32_t window = kvc_window_rows(values, info), first = criticalkv_sinks(values);
    const uint64_t budget = kvc_budget(values, info->held, criticalkv_fixed(values));
    const uint64_t alone = (uint64_t)floor(kvc_value_real(values, "first") * (double)budget), forced = window + first;
    struct kvc_scores *scores, *norms, *factor;
    if (info->entries <= budget)
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_head_scores(stage, &norms, error);
    if (status == KVC_OK)
        status = kvc_stage_scores(stage, &factor, error);
    if (status == KVC_OK)
        status = score(stage, values, window, scores, error);
    if (status == KVC_OK)
        status = kvc_stage_output_norms(stage, norms, error);
    if (status == KVC_OK)
        status = kvc_stage_group(stage, norms, (float)(info->heads / info->kv_heads), factor, error);
    if (status != KVC_OK)
        return status;
    struct kvc_keep keep = {.first = first,
                            .tail = window,
                            .top = alone > forced ? alone - forced : 0,
                            .recent = INT64_MAX,
                            .scores = scores};
    status = kvc_stage_weigh(stage, &keep, (float)kvc_value_real(values, "epsilon"), factor, scores, error);
    if (status != KVC_OK)
        return status;
    keep.top = budget - forced;
    keep.limit = budget;
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_criticalkv = {
    .name = "criticalkv",
    .summary = "keeps half of its entries by another method's scores, half by these scores times the value's effect on "
               "the output",
    .paper = "CriticalKV, arXiv:2502.03805",
    .idea = "An entry matters as much as the layer's output would change without it. This change is its attention "
            "times the length of its value after the output projection. Another method's scores estimate the future "
            "attention. These scores may be wrong, so they alone decide about a first part of the budget, and the "
            "product decides about the rest.",
    .formula = "s_j: snapkv's pooled window mass divided by w and by the number of the group's heads, or the score of "
               "knorm, keydiff or random, or of expected with sinks=4 and values=off (`scorer`); N_j = mean over the "
               "group's heads of |W_o v_j|_1, W_o being the head's columns of the output projection; S: the top "
               "floor(first B) by s, including the last w entries and, with scorer=expected, the first 4; kept = S, "
               "and of the others the top by (s_j + epsilon) N_j, B in all",
    .memory = "B entries after the prompt, one more per generated token",
    .traffic = "B + generated entries per generated token",
    .differences = "The window is part of S whatever its scores; kvpress gives it the highest scores. A replay has no "
                   "output projection, so N_j = |v_j|_1 there.",
    .second_turn = "Old and new entries are scored. The last min(w, its tokens) queries vote.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .trial = "window=8",
    .check = criticalkv_check,
    .queries = kvc_window_queries,
    .forecast = &(const struct kvc_forecast){.bound = criticalkv_bound},
    .attended = criticalkv_attended,
    .prompt = criticalkv_prompt};
