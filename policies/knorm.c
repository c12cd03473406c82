/* knorm.c - keys of small length stay (docs/reference/methods/knorm.md). */
#include "policies/policies.h"

static const struct kvc_option options[] = {KVC_BUDGET_OPTION("entries kept per KV head"), KVC_NEWEST_OPTION,
                                            KVC_OPTIONS_END};

static enum kvc_status knorm_evict(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    return kvc_entries_evict(stage, values, KVC_ENTRY_NORM, 0, error);
}

const struct kvc_policy_class kvc_policy_knorm = {
    .name = "knorm",
    .summary = "the keys of smallest length",
    .paper = "A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression, arXiv:2406.11430",
    .idea = "In many models a key that gathers much attention is a short one. So the length of the key alone says what "
            "stays: no query is looked at, and nothing is remembered.",
    .formula = "score_j = -|k_j|, minus the length; kept = top B; with recent=R the last R "
               "tokens, and the top of the others",
    .memory = "B entries (B + 1 within a decode step)",
    .traffic = "B + 1 entries per generated token, and their keys once more",
    .differences = "keys are taken as they are stored, rotated, which does not change a length but for rounding; which "
                   "layers stay full, where the paper leaves out the first two, is said by skip_layers",
    .second_turn = "of what is held and what is new the B shortest keys stay",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = kvc_check_newest,
    .forecast = &kvc_newest_forecast,
    .prompt = knorm_evict,
    .decode = knorm_evict};
