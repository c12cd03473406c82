/* snapkv.c - what the prompt's last queries looked at (METHODS section 4). */
#include "policies/policies.h"

#include <stdint.h>
#include <string.h>

static const struct kvc_option options[] = {
    {"budget", KVC_OPTION_BUDGET, NULL, 1, KVC_BUDGET_MOST, NULL, "entries kept per KV head, window included"},
    {"window", KVC_OPTION_INT, "32", 1, 1 << 20, NULL, "last queries of the prompt that vote, and always stay"},
    {"kernel", KVC_OPTION_INT, "7", 1, 1 << 20, NULL, "odd width of the pooling over neighbouring entries"},
    {"pooling", KVC_OPTION_CHOICE, "max", 0, 0, "max|avg", "how neighbours are pooled"},
    {NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};

static enum kvc_status check(const struct kvc_values *values, struct kvc_error *error) {
    const int64_t kernel = kvc_value_int(values, "kernel");
    if (kernel % 2 == 0)
        return kvc_fail(error, KVC_USAGE, "policy snapkv: kernel=%lld: must be odd, from 1 to %d", (long long)kernel,
                        1 << 20);
    return kvc_check_above(values, "window", error);
}

static uint32_t queries(const struct kvc_values *values) { return (uint32_t)kvc_value_int(values, "window"); }

static uint64_t budget_of(const struct kvc_values *values, uint64_t held) {
    return kvc_budget(values, held, queries(values));
}

static uint64_t bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return budget_of(values, prompt) + steps;
}

static enum kvc_status prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = budget_of(values, info->held);
    if (info->entries <= budget)
        return KVC_OK;
    const uint32_t asked = queries(values), window = asked < info->turn ? asked : (uint32_t)info->turn;
    const bool average = !strcmp(kvc_value_text(values, "pooling"), "avg");
    struct kvc_scores *scores;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_window_mass(stage, window, scores, error);
    if (status == KVC_OK)
        status = kvc_stage_pool(stage, scores, window, (uint32_t)kvc_value_int(values, "kernel"),
                                average ? KVC_POOL_AVERAGE : KVC_POOL_MAX, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {.tail = window, .top = budget - window, .recent = INT64_MAX, .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_snapkv = {
    .name = "snapkv",
    .summary = "what the prompt's last queries attended to",
    .paper = "SnapKV, arXiv:2404.14469",
    .idea = "The last queries of a prompt already look where the answer will. Their attention weights over the prompt "
            "are summed, smoothed over neighbours, and the best entries stay together with the window itself. After "
            "the prompt nothing more is evicted.",
    .formula = "score_j = pool(sum over the window's queries i and the group's heads of a_ij); kept = top B - w, and "
               "the last w",
    .memory = "B entries after the prompt, one more per generated token",
    .traffic = "B + generated entries per generated token",
    .differences = "one selection per KV head from its group's sum; the paper selects per query head",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .check = check,
    .queries = queries,
    .bound = bound,
    .prompt = prompt};
