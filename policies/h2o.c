/* h2o.c - heavy hitters: keeps the entries with the most accumulated attention (docs/reference/methods/h2o.md). */
#include "policies/policies.h"

#include <stdint.h>
#include <string.h>

static const struct kvc_option options[] = {KVC_BUDGET_OPTION("entries kept per KV head, recent ones included"),
                                            KVC_RECENT_OPTION, KVC_PER_HEAD_OPTION(KVC_PER_HEAD_LISTS),
                                            KVC_OPTIONS_END};

static enum kvc_status h2o_attended(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    (void)values;
    return kvc_stage_accumulate(stage, 0, 0.0f, 0, error);
}

static enum kvc_status h2o_decode(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const enum kvc_status status = h2o_attended(stage, values, error);
    return status == KVC_OK ? kvc_accumulated_evict(stage, values, error) : status;
}

const struct kvc_policy_class kvc_policy_h2o = {
    .name = "h2o",
    .summary = "the entries that all queries so far attended to most, and the most recent ones",
    .paper = "H2O, arXiv:2306.14048",
    .idea = "A few entries, the heavy hitters, attract most of the attention. Each entry sums the attention that every "
            "query so far has given it, including the prompt's queries. By default, half of the budget goes to the "
            "newest tokens and half to the highest sums. Each decode step evicts the lowest sum that is not recent.",
    .formula = "score_k = sum over all queries i so far and the group's heads of a_ik; among the entries older than "
               "the last `recent` tokens, the lowest scores are evicted until B entries are left",
    .memory = "B entries (B + 1 within a decode step), and 2 float32 per entry and KV head for the sums; with per=head "
              "all of this per query head",
    .traffic = "B + 1 entries per generated token, and the sums; after the prompt its keys are read once more, to "
               "compute the probabilities of all its queries",
    .differences = "Scores are summed over the group (per=head keeps query heads apart, as the paper does). The prompt "
                   "attends to itself in full and is then cut; the paper evicts while it reads the prompt. Attention "
                   "in the decode steps of a joined method is not counted.",
    .second_turn = "The sums continue. The new prompt's queries add to the sums of the entries held, and its own "
                   "entries start at 0. Then the lowest sums are evicted until B entries are left.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = kvc_check_recent,
    .columns = kvc_accumulated_columns,
    .per_head = kvc_per_head,
    .forecast = &kvc_recent_forecast,
    .attended = h2o_attended,
    .prompt = kvc_accumulated_evict,
    .decode = h2o_decode};
