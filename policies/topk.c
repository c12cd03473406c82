/* topk.c - the oracle of select methods: reads the entries with the most attention (docs/reference/methods/topk.md). */
#include "policies/policies.h"

#include <stdint.h>

static const struct kvc_option options[] = {KVC_BUDGET_OPTION("entries read per KV head and step"), KVC_OPTIONS_END};

static struct kvc_select sizes_for(const struct kvc_values *values, const struct kvc_stage_info *info) {
    const uint64_t budget = kvc_reads(values, info->held).budget;
    const struct kvc_select select = {.kind = KVC_SELECT_EXACT, .budget = budget, .top = budget};
    return select;
}

const struct kvc_policy_class kvc_policy_topk = {
    .name = "topk",
    .summary = "reads the entries with the most attention, computed from all keys (the oracle of select methods)",
    .paper = "Exact-TopK of RocketKV, arXiv:2502.14051",
    .idea = "Every key is read and its probability computed. Attention then uses the best entries alone. This saves "
            "only the traffic of values, but shows how good a method that chooses what to read can be, because all "
            "such methods estimate this choice from less data.",
    .formula = "read = top B by the sum over the group's heads of a_j",
    .memory = "n entries after n tokens",
    .traffic = "n keys, and B entries, per generated token",
    .differences = "Each KV head has one choice, by the sum of its group's probabilities.",
    .second_turn = "The new prompt attends to the whole history. A budget given as a share is computed again from its "
                   "length.",
    .stages = KVC_STAGE_SELECT,
    .options = options,
    .sizes = sizes_for};
