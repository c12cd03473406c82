/* keydiff.c - keys that point elsewhere than the others stay (docs/reference/methods/keydiff.md). */
#include "policies/policies.h"

static const struct kvc_option options[] = {KVC_BUDGET_OPTION("entries kept per KV head"), KVC_NEWEST_OPTION,
                                            KVC_OPTIONS_END};

static enum kvc_status keydiff_evict(struct kvc_stage *stage, const struct kvc_values *values,
                                     struct kvc_error *error) {
    return kvc_entries_evict(stage, values, KVC_ENTRY_APART, 0, error);
}

const struct kvc_policy_class kvc_policy_keydiff = {
    .name = "keydiff",
    .summary = "the keys least like the mean of all keys",
    .paper = "KeyDiff, arXiv:2504.15364",
    .idea = "Keys that point in a direction of their own gather attention, those that point where most others do are "
            "much alike and can stand for each other. The mean of all keys, each divided by its length, is compared "
            "with every key; the most different stay. No query is looked at, so a prompt may be cut anywhere.",
    .formula = "u = sum over the entries held of k_j / |k_j|; score_j = -(k_j . u) / |k_j|, 0 where |k_j| is 0 (the "
               "length of u is the same for all and is left out); kept = top B; with recent=R the last R tokens, and "
               "the top of the others",
    .memory = "B entries (B + 1 within a decode step)",
    .traffic = "B + 1 entries per generated token, and their keys three times more",
    .differences = "the mean is taken anew at each eviction, over what is held then, in decode steps as in the prompt; "
                   "the paper evicts after every block of a prompt, this after all of it",
    .second_turn = "the mean is that of what is held and what is new; the B least like it stay",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = kvc_check_newest,
    .forecast = &kvc_newest_forecast,
    .prompt = keydiff_evict,
    .decode = keydiff_evict};
