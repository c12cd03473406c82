/* full.c - keeps everything. */
#include "policies/policies.h"

static const struct kvc_option options[] = {KVC_OPTIONS_END};

const struct kvc_policy_class kvc_policy_full = {
    .name = "full",
    .summary = "keeps everything",
    .paper = "-",
    .idea = "Every key and value stays in the cache. All other methods are measured against this one.",
    .formula = "kept = all",
    .memory = "n entries after n tokens",
    .traffic = "n entries per generated token",
    .differences = "None.",
    .second_turn = "The new prompt attends to everything before it.",
    .options = options};
