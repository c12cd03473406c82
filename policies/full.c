/* full.c - keeps everything. */
#include "policies/policies.h"

static const struct kvc_option options[] = {KVC_OPTIONS_END};

const struct kvc_policy_class kvc_policy_full = {
    .name = "full",
    .summary = "keeps everything",
    .paper = "-",
    .idea = "Every key and value stays in the cache. The measure for all other methods.",
    .formula = "kept = all",
    .memory = "n entries after n tokens",
    .traffic = "n entries per generated token",
    .differences = "none",
    .second_turn = "the new prompt attends to all that was said before",
    .options = options};
