/* knorm.c - keeps the entries with the shortest keys (docs/reference/methods/knorm.md). */
#include "policies/policies.h"

static const struct kvc_option options[] = {KVC_BUDGET_OPTION("entries kept per KV head"), KVC_NEWEST_OPTION,
                                            KVC_OPTIONS_END};

static enum kvc_status knorm_evict(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    return kvc_entries_evict(stage, values, KVC_ENTRY_NORM, 0, error);
}

const struct kvc_policy_class kvc_policy_knorm = {
    .name = "knorm",
    .summary = "keeps the keys of smallest norm",
    .paper = "A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression, arXiv:2406.11430",
    .idea = "In many models, a key that attracts much attention has a small norm. So the norm of the key alone decides "
            "what is kept. The method reads no query and stores no state.",
    .formula = "score_j = -|k_j|; kept = top B; with recent=R the last R tokens, and the top of the others",
    .memory = "B entries (B + 1 within a decode step)",
    .traffic = "B + 1 entries per generated token, and one more read of their keys",
    .differences = "Norms are those of the stored keys, which are rotated. A rotation changes a norm by rounding only. "
                   "The paper leaves out the first two layers; skip_layers=2 does that.",
    .second_turn = "The B keys of smallest norm among old and new entries are kept.",
    .whole_keys = true,
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = kvc_check_newest,
    .forecast = &kvc_newest_forecast,
    .prompt = knorm_evict,
    .decode = knorm_evict};
