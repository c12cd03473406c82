/* keydiff.c - keeps the entries whose keys are least similar to the mean key (docs/reference/methods/keydiff.md). */
#include "policies/policies.h"

static const struct kvc_option options[] = {KVC_BUDGET_OPTION("entries kept per KV head"), KVC_NEWEST_OPTION,
                                            KVC_OPTIONS_END};

static enum kvc_status keydiff_evict(struct kvc_stage *stage, const struct kvc_values *values,
                                     struct kvc_error *error) {
    return kvc_entries_evict(stage, values, KVC_ENTRY_APART, 0, error);
}

const struct kvc_policy_class kvc_policy_keydiff = {
    .name = "keydiff",
    .summary = "keeps the keys least similar to the mean of all keys",
    .paper = "KeyDiff, arXiv:2504.15364",
    .idea = "A key that points in a direction of its own attracts attention. Keys that point in the same direction as "
            "most others are alike and can replace each other. The method compares every key with the mean of all "
            "normalized keys, and keeps the least similar ones. It reads no query, so a prompt may be cut anywhere.",
    .formula = "u = sum over the entries held of k_j / |k_j|; score_j = -(k_j . u) / |k_j|, or 0 if |k_j| is 0 (the "
               "length of u is the same for all keys and is left out); kept = top B; with recent=R the last R tokens, "
               "and the top of the others",
    .memory = "B entries (B + 1 within a decode step)",
    .traffic = "B + 1 entries per generated token, and three more reads of their keys",
    .differences = "The mean is computed again at each eviction, over the entries held then, in decode steps as in the "
                   "prompt. The paper evicts after every block of a prompt; kvcull evicts after the whole prompt.",
    .second_turn = "The mean covers old and new entries, and the B entries least similar to it are kept.",
    .whole_keys = true,
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = kvc_check_newest,
    .forecast = &kvc_newest_forecast,
    .prompt = keydiff_evict,
    .decode = keydiff_evict};
