/* kvzip.c - keeps the entries that the model needs to repeat the prompt (docs/reference/methods/kvzip.md). */
#include "policies/policies.h"

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head: the mean over a layer's heads"), KVC_FLOOR_OPTION("0"),
    KVC_OPTIONS_END};

static uint64_t budget_of(const struct kvc_values *values, uint64_t held) { return kvc_budget(values, held, 0); }

static uint32_t kvzip_pseudo(const struct kvc_values *values, const struct kvc_turn *turn, int32_t *offset,
                             int32_t *tokens) {
    *offset = 0;
    if (turn->held <= budget_of(values, turn->held))
        return 0;
    for (uint64_t i = 0; tokens && i < turn->count; i++)
        tokens[i] = turn->tokens[i];
    return (uint32_t)turn->count;
}

static uint64_t kvzip_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return budget_of(values, prompt) + steps;
}

static enum kvc_status kvzip_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = budget_of(values, info->held);
    struct kvc_scores *scores;
    if (info->entries <= budget)
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_pseudo_most(stage, scores, error);
    return status == KVC_OK ? kvc_keep_shares(stage, scores, budget, 0, kvc_value_real(values, "floor"), error)
                            : status;
}

const struct kvc_policy_class kvc_policy_kvzip = {
    .name = "kvzip",
    .summary = "keeps the entries needed to repeat the prompt, whatever the question will be",
    .paper = "KVzip, arXiv:2505.23416",
    .idea = "A cache that serves any question must let the model repeat its text. So the prompt's tokens are run a "
            "second time, after the first. An entry's score is the highest attention that any of these queries, in any "
            "head of its group, gave it. The total budget of a layer goes to the highest scores over its heads, so "
            "heads hold different numbers of entries. The repeated entries are removed at once, and the answer begins "
            "as if they had never existed.",
    .formula = "pseudo token i: the prompt's token i at position n + i; score_j = the largest a_ij over pseudo queries "
               "i and the group's heads; share_g = how many of the layer's H_kv B highest scores are in head g (of "
               "equal scores the lower head wins, then the lower index); head g keeps its top round(floor B + (1 - "
               "floor) share_g), at least one",
    .memory = "B entries after the prompt, on average over a layer's heads; one more per generated token. During "
              "prefill n more in one layer. The rows of this layer are computed at once, so temporary memory is needed "
              "for n rows instead of a chunk's rows.",
    .traffic = "B + generated entries per generated token, on average over a layer's heads",
    .differences =
        "No instruction asks for the repetition; the authors' code puts one before it. The whole prompt is repeated at "
        "once, and the probabilities cover all of it; that code works in chunks of 2048, whose softmax covers the "
        "chunk, the first 4 entries and the repetition. The first 4 entries may be evicted. The budget is divided "
        "within a layer; that code divides it over all layers unless told otherwise.",
    .second_turn = "Repeats the turn's tokens after its prompt, and chooses among old and new entries. Nothing is "
                   "repeated if N is at most B.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .forecast = &(const struct kvc_forecast){.bound = kvzip_bound, .ragged = KVC_RAGGED_HEADS},
    .pseudo = kvzip_pseudo,
    .prompt = kvzip_prompt};
