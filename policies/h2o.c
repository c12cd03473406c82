/* h2o.c - heavy hitters: keeps the entries with the most accumulated attention (docs/reference/methods/h2o.md). */
#include "policies/policies.h"

#include <stdint.h>
#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, recent ones included"),
    KVC_RECENT_OPTION,
    {"prompt", KVC_OPTION_CHOICE, "evict", 0, 0, "evict|keep",
     "keep: every entry of the prompt stays, and the budget is that of the answer"},
    KVC_PER_HEAD_OPTION(KVC_PER_HEAD_LISTS),
    KVC_OPTIONS_END};

static bool keeps_prompt(const struct kvc_values *values) { return !strcmp(kvc_value_text(values, "prompt"), "keep"); }

static uint64_t h2o_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return keeps_prompt(values) ? 0 : kvc_recent_budget(values, prompt) + (steps ? 1 : 0);
}

static double h2o_entries(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt,
                          uint64_t steps) {
    const uint64_t budget = kvc_recent_budget(values, prompt);
    if (!keeps_prompt(values))
        return (double)budget;
    /* a list that is shorter than the longest list grows to the longest list's length before it evicts */
    const double most = context->uneven ? (double)(prompt + budget) : context->from + (double)budget;
    return most < context->from + (double)steps ? most : context->from + (double)steps;
}

/* Adds the current rows' attention to the sums. With the option prompt=keep, only the answer's entries may be evicted,
 * so their sums begin with the answer. */
static enum kvc_status h2o_attended(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    return keeps_prompt(values) ? KVC_OK : kvc_stage_accumulate(stage, 0, 0.0f, 0, error);
}

static enum kvc_status h2o_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    return keeps_prompt(values) ? KVC_OK : kvc_accumulated_evict(stage, values, 0, error);
}

static enum kvc_status h2o_decode(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const uint64_t first = keeps_prompt(values) ? kvc_stage_info(stage)->after : 0;
    const enum kvc_status status = kvc_stage_accumulate(stage, 0, 0.0f, 0, error);
    return status == KVC_OK ? kvc_accumulated_evict(stage, values, first, error) : status;
}

const struct kvc_policy_class kvc_policy_h2o = {
    .name = "h2o",
    .summary = "keeps the entries that all queries so far attended to most, and the most recent ones",
    .paper = "H2O, arXiv:2306.14048",
    .idea = "A few entries, the heavy hitters, attract most of the attention. Each entry sums the attention that every "
            "query so far has given it, including the prompt's queries. By default, half of the budget goes to the "
            "newest tokens and half to the highest sums. Each decode step evicts the entry with the lowest sum that is "
            "not recent.",
    .formula =
        "score_k = sum over all queries i so far and the group's heads of a_ik; among the entries older than "
        "the last `recent` tokens, the lowest scores are evicted until B entries are left; prompt=keep: the entries "
        "held after the prompt (n of the longest head) stay, and of those after the n-th, B are left by the "
        "same rule",
    .memory = "B entries (B + 1 within a decode step), and 2 float32 per entry and KV head for the sums; with per=head "
              "all of this per query head; with prompt=keep the prompt's entries in addition",
    .traffic = "B + 1 entries per generated token, and the sums; after the prompt its keys are read once more, to "
               "compute the probabilities of all its queries",
    .differences = "Scores are summed over the group (per=head keeps query heads apart, as the paper does). With "
                   "prompt=keep the method is H2O as the MorphKV paper describes it (section 1 and Figure 3). The "
                   "whole prompt attends to itself before entries are evicted; the paper evicts while it reads the "
                   "prompt. As in the paper's algorithm 1, a score is a sum. kvpress's ObservedAttentionPress divides "
                   "it by the number of queries that could attend to the entry, which favours new entries, and it does "
                   "not always keep recent entries. Attention in the decode steps of a joined method is not counted.",
    .second_turn = "The sums continue. The new prompt's queries add to the sums of the entries held, and its own "
                   "entries start at 0. Then the lowest sums are evicted until B entries are left.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = kvc_check_recent,
    .columns = kvc_accumulated_columns,
    .per_head = kvc_per_head,
    .forecast = &(const struct kvc_forecast){.bound = h2o_bound, .entries = h2o_entries},
    .attended = h2o_attended,
    .prompt = h2o_prompt,
    .decode = h2o_decode};
