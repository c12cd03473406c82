/* merging.c - merges the values of evicted entries into those of similar kept entries
 * (docs/reference/methods/merging.md).
 */
#include "policies/policies.h"

static const struct kvc_option options[] = {
    {"threshold", KVC_OPTION_REAL, "0", 0, 1, NULL, "least cosine of the two keys at which an entry is merged"},
    KVC_OPTIONS_END};

static enum kvc_status merging_evicts(struct kvc_stage *stage, const struct kvc_values *values,
                                      struct kvc_error *error) {
    return kvc_stage_merge_similar(stage, (float)kvc_value_real(values, "threshold"), error);
}

const struct kvc_policy_class kvc_policy_merging = {
    .name = "merging",
    .summary = "merges the values of the entries that another method evicts into those of similar kept entries",
    .paper = "Token Merging, arXiv:2210.09461; D2O, arXiv:2406.13035",
    .idea = "This method joins a method that evicts, as in snapkv:budget=512+merging. The other method decides which "
            "entries are kept. The value of each evicted entry is then not lost, but becomes a part of the value of "
            "the kept "
            "entry with the most similar key, which is the entry that most probably gets its attention. Keys do not "
            "change. Without another method nothing is evicted, so nothing is merged.",
    .formula = "for each evicted entry r, before each eviction: j = the kept entry with the highest cosine c_r of the "
               "keys k_r "
               "and k_j; r is merged if c_r >= threshold and c_r > 0; w_r = c_r |v_r| / (|v_r| + |v_j| + 0.000001); "
               "then v_j = (v_j + sum of w_r v_r) / (1 + sum of w_r), over the entries r merged into j",
    .memory = "no entry and no state beyond the other method's",
    .traffic = "that of the other method; each eviction reads the evicted entries and compares every evicted key with "
               "every kept key",
    .differences =
        "The rule is that of kvpress's MergingPress with merge_fraction=1, which takes ideas from the two papers but "
        "implements neither. Of equal cosines the lowest kept position is merged into; kvpress takes the one with the "
        "highest score. Here entries are also merged if a method evicts in decode steps or after each chunk of a "
        "prompt; kvpress merges only after the prompt. New values are stored in the cache's type, rounded as any value "
        "is. With rotated types (q4h and others), no mean is subtracted from keys.",
    .second_turn =
        "An entry that was merged into others is an entry like any other: it may itself be evicted and merged.",
    .options = options,
    .whole_keys = true,
    .evicts = merging_evicts};
