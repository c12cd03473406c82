/* adakv.c - `snapkv`, with a layer's budget divided among its heads by their scores
 * (docs/reference/methods/adakv.md). */
#include "policies/policies.h"

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, window included: the mean over a layer's heads"),
    KVC_WINDOW_OPTION("32", 1 << 20),
    KVC_KERNEL_OPTION("7"),
    KVC_POOLING_OPTION("max"),
    KVC_FLOOR_OPTION("0.2"),
    KVC_PER_HEAD_OPTION(KVC_PER_HEAD_LISTS),
    KVC_OPTIONS_END};

static enum kvc_status adakv_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = kvc_window_budget(values, info->held);
    if (info->entries <= budget)
        return KVC_OK;
    const uint32_t window = kvc_window_rows(values, info);
    struct kvc_scores *scores;
    const enum kvc_status status = kvc_window_scores(stage, values, window, &scores, error);
    return status == KVC_OK
               ? kvc_keep_shares(stage, scores, budget - window, window, kvc_value_real(values, "floor"), error)
               : status;
}

const struct kvc_policy_class kvc_policy_adakv = {
    .name = "adakv",
    .summary = "snapkv with a layer's budget divided among its heads by their scores",
    .paper = "Ada-KV, arXiv:2407.11550",
    .idea = "Some heads attend to few tokens, others to many. The total budget of a layer goes to the highest scores "
            "over all its heads. A head's budget is the number of these scores that it has, mixed with a floor that "
            "every head gets. Heads hold different numbers of entries, and memory is freed head by head.",
    .formula = "share_g = how many of the layer's H_kv (B - w) highest snapkv scores are in head g (per=head: H, and "
               "query heads; of equal scores the lower head wins, then the lower index); head g keeps its top "
               "round(floor (B - w) + (1 - floor) share_g), and the last w",
    .memory = "B entries after the prompt, on average over a layer's heads; one more per generated token; with "
              "per=head B per query head",
    .traffic = "B + generated entries per generated token, on average over a layer's heads",
    .differences = "Scores are summed over the group; per=head keeps query heads apart, as the authors' code does "
                   "unless it is told to average the group. That code also normalizes them by the share that a head "
                   "would keep. Blocks of 32 entries are freed head by head; that code stores all heads in one flat "
                   "array. Of equal scores the lower position is kept; that code leaves this to chance. A head's "
                   "budget is a mixture, as in that code; kvpress protects the best entries of each head "
                   "(alpha_safeguard) and lets the scores choose the others.",
    .second_turn = "As snapkv. The budget is divided again by this turn's scores, so a head may hold more or fewer "
                   "entries than before. N is the number of entries of the longest head.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .check = kvc_check_window,
    .queries = kvc_window_queries,
    .per_head = kvc_per_head,
    /* this bound holds for the mean over a layer's heads; a single head may hold more */
    .forecast = &(const struct kvc_forecast){.bound = kvc_window_bound, .ragged = KVC_RAGGED_HEADS},
    .prompt = adakv_prompt};
