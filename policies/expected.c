/* expected.c - scores entries by the expected attention of future queries (docs/reference/methods/expected.md). */
#include "policies/query_stats.h"

#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, sinks included"),
    {"sinks", KVC_OPTION_INT, "4", 0, 1 << 20, NULL,
     "first entries, which are always kept; their tokens' queries do not count"},
    {"future", KVC_OPTION_INT, "512", 1, 65536, NULL, "positions after the prompt at which queries are expected"},
    {"covariance", KVC_OPTION_CHOICE, "on", 0, 0, "on|off", "use the covariance of the queries, too"},
    {"values", KVC_OPTION_CHOICE, "on", 0, 0, "on|off", "multiply by the length of the value"},
    {"epsilon", KVC_OPTION_REAL, "0", 0, 1, NULL, "added to the attention before the multiplication by the length"},
    {"stats", KVC_OPTION_TEXT, "", 0, 0, "drawn",
     "mean and covariance of the model's queries, as `kvcull collect --for expected` writes them, instead of those of "
     "the prompt's queries; drawn: random numbers instead of a file, to try the option on any model"},
    KVC_OPTIONS_END};

static uint64_t expected_sinks(const struct kvc_values *values) { return (uint64_t)kvc_value_int(values, "sinks"); }

static bool is_on(const struct kvc_values *values, const char *name) {
    return !strcmp(kvc_value_text(values, name), "on");
}

/* ---- the statistics ---- */

static bool has_stats(const struct kvc_values *values) { return *kvc_value_text(values, "stats") != 0; }

static struct kvc_query_option stats_option(const struct kvc_values *values) {
    return (struct kvc_query_option){"expected", "stats", KVC_QUERY_COVARIANCES, !is_on(values, "covariance")};
}

static enum kvc_status expected_check(const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_query_option option = stats_option(values);
    const enum kvc_status status = kvc_check_above(values, "sinks", error);
    return status == KVC_OK && has_stats(values) ? kvc_query_check(&option, values, error) : status;
}

static enum kvc_status check_model(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                   const bool *acts, struct kvc_error *error) {
    const struct kvc_query_option option = stats_option(values);
    (void)acts;
    return has_stats(values) ? kvc_query_check_model(&option, values, geometry, error) : KVC_OK;
}

static size_t state_bytes(const struct kvc_values *values, const struct kvc_geometry *geometry) {
    const struct kvc_query_option option = stats_option(values);
    return has_stats(values) ? kvc_query_state_bytes(&option, geometry) : 0;
}

static enum kvc_status open_state(const struct kvc_values *values, const struct kvc_geometry *geometry, void *state,
                                  struct kvc_error *error) {
    const struct kvc_query_option option = stats_option(values);
    return has_stats(values) ? kvc_query_open(&option, values, geometry, state, error) : KVC_OK;
}

/* Gives the stage the statistics of its layer. */
static enum kvc_status give_stats(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_query_option option = stats_option(values);
    const struct kvc_query_stats stats = kvc_query_stats_of(&option, stage);
    struct kvc_error cause;
    const enum kvc_status status =
        kvc_stage_give_moments(stage, stats.mean, option.means_only ? NULL : stats.rest, stats.rotary, &cause);
    if (status == KVC_OK)
        return KVC_OK;
    return kvc_fail(error, status, "policy expected: stats=%.200s: %.200s", kvc_value_text(values, "stats"),
                    cause.text);
}

/* ---- the stages ---- */

static uint64_t expected_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_budget(values, prompt, expected_sinks(values)) + steps;
}

static enum kvc_status expected_attended(struct kvc_stage *stage, const struct kvc_values *values,
                                         struct kvc_error *error) {
    return has_stats(values) ? KVC_OK : kvc_stage_query_moments(stage, expected_sinks(values), error);
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
    enum kvc_status status = has_stats(values) ? give_stats(stage, values, error) : KVC_OK;
    if (status == KVC_OK)
        status = kvc_stage_scores(stage, &scores, error);
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
        "expect. This attention times the length of the value estimates what the output would lose without the entry. "
        "With `stats`, a file has the mean and covariance of the model's queries over another text.",
    .formula =
        "mu, C: mean and covariance of the prompt's queries at positions from `sinks` on, before RoPE, or those in "
        "`stats`; R: the mean of "
        "RoPE's rotations at positions n .. n + future - 1; for each query head s_j = (k_j . R mu) / sqrt(d) + k_j . "
        "(R C R^T) k_j / (2 d); p = softmax of s over the entries after the first `sinks`; score_j = (mean over the "
        "group's heads of p_j + epsilon) |v_j|; covariance=off: s_j without its second term; values=off: the mean "
        "alone; kept = the first `sinks` entries, and the top of the others, B in all",
    .memory =
        "B entries after the prompt, one more per generated token; during the prompt (d + 1) d float32 per query head; "
        "with `stats`, another (d + 3) d / 2 per layer and query head all the time",
    .traffic = "B + generated entries per generated token",
    .differences =
        "The covariance is the mean of the products minus the product of the means, in float32. A soft cap "
        "of the model's scores is left out, as in the authors' code. The paper's budgets per head are "
        "missing (the authors' code has them in another press). kvpress divides the covariance in its files by "
        "the number of queries less one, kvcull by their number.",
    .second_turn = "The mean and covariance are those of the queries of this turn's prompt. Old and new entries are "
                   "scored.",
    .channels = true,
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .check = expected_check,
    .check_model = check_model,
    .state_bytes = state_bytes,
    .open = open_state,
    .forecast = &(const struct kvc_forecast){.bound = expected_bound},
    .attended = expected_attended,
    .prompt = expected_prompt};
