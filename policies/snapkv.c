/* snapkv.c - keeps the entries that the last queries of the prompt attended to (docs/reference/methods/snapkv.md). */
#include "policies/policies.h"

#include <stdint.h>
#include <string.h>

static const struct kvc_option options[] = {KVC_BUDGET_OPTION("entries kept per KV head, window included"),
                                            KVC_WINDOW_OPTION("32", 1 << 20),
                                            KVC_KERNEL_OPTION("7"),
                                            KVC_POOLING_OPTION("max"),
                                            KVC_PER_HEAD_OPTION(KVC_PER_HEAD_LISTS),
                                            KVC_OPTIONS_END};

static enum kvc_status snapkv_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                     struct kvc_error *error) {
    return kvc_window_evict(stage, values, kvc_window_budget(values, kvc_stage_info(stage)->held), error);
}

const struct kvc_policy_class kvc_policy_snapkv = {
    .name = "snapkv",
    .summary = "keeps the entries that the prompt's last queries attended to",
    .paper = "SnapKV, arXiv:2404.14469",
    .idea = "The last queries of a prompt already attend to the entries that the answer will need. Their attention "
            "over the prompt is summed and smoothed over neighbours. The entries with the highest scores are kept, "
            "together with the window itself. Nothing more is evicted after the prompt.",
    .formula = "score_j = pool(sum over the window's queries i and the group's heads of a_ij); kept = top B - w, and "
               "the last w",
    .memory = "B entries after the prompt, one more per generated token; with per=head B per query head",
    .traffic = "B + generated entries per generated token",
    .differences = "Each KV head has one selection, from its group's sum; per=head selects per query head, as the "
                   "paper does. Of equal scores the lower position is kept; the authors' code leaves this to chance.",
    .second_turn = "The last min(w, its tokens) queries of the turn choose again among old and new entries. Entries "
                   "that were kept before, and entries that were generated, may be evicted now.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .check = kvc_check_window,
    .queries = kvc_window_queries,
    .per_head = kvc_per_head,
    .forecast = &kvc_window_forecast,
    .prompt = snapkv_prompt};
