/* tova.c - keeps the entries that the newest query attends to (TOVA). docs/how-to/add-a-method.md explains this file.
 */
#include "policies/policies.h"

#include <string.h>

static const struct kvc_option options[] = {
    {"budget", KVC_OPTION_BUDGET, NULL, 2, KVC_BUDGET_MOST, NULL, "entries kept per KV head, the newest included"},
    {"per", KVC_OPTION_CHOICE, "layer", 0, 0, "layer|group",
     "one selection per layer, by the sum over all its heads, or one per KV head"},
    KVC_OPTIONS_END};

static uint64_t budget_of(const struct kvc_values *values, uint64_t held) { return kvc_budget(values, held, 1); }

static uint64_t tova_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return budget_of(values, prompt) + (steps ? 1 : 0);
}

static uint32_t tova_queries(const struct kvc_values *values) {
    (void)values;
    return 1;
}

/* Evicts in both stages: the last query of the prompt, and then the query of every decode step, decides which entries
 * are kept. */
static enum kvc_status tova_evict(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = budget_of(values, info->held);
    if (info->entries <= budget)
        return KVC_OK;
    struct kvc_scores *scores;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_window_mass(stage, 1, scores, error);
    if (status == KVC_OK && !strcmp(kvc_value_text(values, "per"), "layer"))
        status = kvc_stage_layer_sum(stage, scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {.tail = 1, .top = budget - 1, .limit = budget, .recent = INT64_MAX, .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_tova = {
    .name = "tova",
    .summary = "keeps the entries that the newest query attends to",
    .paper = "TOVA, arXiv:2401.06104",
    .idea = "The cache has a constant size, and the newest query decides: the entry to which it gives the least "
            "attention is evicted. The method does not remember earlier queries, so it needs no state.",
    .formula =
        "score_j = sum over the layer's heads (per=group: the group's) of a_ij, i the newest query; kept = top B "
        "- 1, and the newest entry",
    .memory = "B entries (B + 1 within a decode step)",
    .traffic = "B + 1 entries per generated token",
    .differences =
        "The paper takes the mean over a layer's heads. This engine takes the sum, which gives the same order: it adds "
        "the heads' probabilities within each group, and then adds the groups. If another method of the policy evicts "
        "from a layer, the layer's KV heads may hold different tokens. Then tova selects per KV head, as with "
        "per=group. The newest entry is always kept.",
    .second_turn = "The last query of the new prompt cuts old and new entries to B.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .queries = tova_queries,
    .forecast = &(const struct kvc_forecast){.bound = tova_bound},
    .prompt = tova_evict,
    .decode = tova_evict};
