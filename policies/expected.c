/* expected.c - scores entries by the expected attention of future queries (docs/reference/methods/expected.md). */
#include "policies/policies.h"

#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, sinks included"),
    {"sinks", KVC_OPTION_INT, "4", 0, 1 << 20, NULL,
     "first entries, which are always kept; their tokens' queries do not count"},
    {"future", KVC_OPTION_INT, "512", 1, 65536, NULL, "positions after the prompt at which queries are expected"},
    {"covariance", KVC_OPTION_CHOICE, "on", 0, 0, "on|off", "use the covariance of the queries, too"},
    {"values", KVC_OPTION_CHOICE, "on", 0, 0, "on|off", "multiply by the length of the value"},
    {"epsilon", KVC_OPTION_REAL, "0", 0, 1, NULL, "added to the attention before the multiplication by the length"},
    KVC_OPTIONS_END};

static uint64_t expected_sinks(const struct kvc_values *values) { return (uint64_t)kvc_value_int(values, "sinks"); }

static bool is_on(const struct kvc_values *values, const char *name) {
    return !strcmp(kvc_value_text(values, name), "on");
}

static enum kvc_status expected_check(const struct kvc_values *values, struct kvc_error *error) {
    return kvc_check_above(values, "sinks", error);
}

static uint64_t expected_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_budget(values, prompt, expected_sinks(values)) + steps;
}

static enum kvc_status expected_attended(struct kvc_stage *stage, const struct kvc_values *values,
                                         struct kvc_error *error) {
    return kvc_stage_query_moments(stage, expected_sinks(values), error);
}

static enum kvc_status expected_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                       struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = kvc_budget(values, info->held, expected_sinks(values));
    const struct kvc_expectation expected = {.first = expected_sinks(values),
                                             .future = (uint32_t)kvc_value_int(values, "future"),
                                             .covariance = is_on(values, "covariance"),
                                             .values = is_on(values, "values"),
                                             .epsilon = (float)kvc_value_real(values, "epsilon")};
    struct kvc_scores *scores;
    if (info->entries <= budget)
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_expected_scores(stage, &expected, scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {.first = expected_sinks(values),
                                  .top = budget - expected_sinks(values),
                                  .limit = budget,
                                  .recent = INT64_MAX,
                                  .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_expected = {
    .name = "expected",
    .summary = "keeps entries that future queries will attend to, by the mean and covariance of the prompt's queries",
    .paper = "Expected Attention, arXiv:2510.00636",
    .idea =
        "The queries that will need an entry do not exist yet, but they will be distributed much like the prompt's "
        "queries. The method takes their mean and covariance before rotation, and rotates both by the mean rotation of "
        "the next `future` positions. For normally distributed queries, this gives the attention that each key can "
        "expect. This attention times the length of the value estimates what the output would lose without the entry.",
    .formula =
        "mu, C: mean and covariance of the prompt's queries at positions from `sinks` on, before RoPE; R: the mean of "
        "RoPE's rotations at positions n .. n + future - 1; for each query head s_j = (k_j . R mu) / sqrt(d) + k_j . "
        "(R C R^T) k_j / (2 d); p = softmax of s over the entries after the first `sinks`; score_j = (mean over the "
        "group's heads of p_j + epsilon) |v_j|; covariance=off: s_j without its second term; values=off: the mean "
        "alone; kept = the first `sinks` entries, and the top of the others, B in all",
    .memory =
        "B entries after the prompt, one more per generated token; during the prompt (d + 1) d float32 per query head",
    .traffic = "B + generated entries per generated token",
    .differences = "The covariance is the mean of the products minus the product of the means, in float32. A soft cap "
                   "of the model's scores is left out, as in the authors' code. The paper's budgets per head are "
                   "missing (the authors' code has them in another press).",
    .second_turn = "The mean and covariance are those of the queries of this turn's prompt. Old and new entries are "
                   "scored.",
    .channels = true,
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .check = expected_check,
    .forecast = &(const struct kvc_forecast){.bound = expected_bound},
    .attended = expected_attended,
    .prompt = expected_prompt};
