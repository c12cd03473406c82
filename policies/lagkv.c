/* lagkv.c - keeps the entries that differ from the entries of the next partition (docs/reference/methods/lagkv.md). */
#include "policies/policies.h"

#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head; at least sinks + 2 lag"),
    {"sinks", KVC_OPTION_INT, "4", 0, 1 << 20, NULL, "first entries, which are always kept"},
    {"lag", KVC_OPTION_INT, "128", 2, 1 << 20, NULL, "entries of a partition; the last partition is always kept"},
    {"scoring", KVC_OPTION_CHOICE, "within", 0, 0, "within|across",
     "within: entries compete by their rank in their partition; across: by their scores"},
    KVC_OPTIONS_END};

/* Returns the number of entries that are always kept: the first entries, the last complete partition, and the
 * incomplete partition after it. */
static uint64_t lagkv_fixed(const struct kvc_values *values) {
    return (uint64_t)kvc_value_int(values, "sinks") + 2 * (uint64_t)kvc_value_int(values, "lag") - 1;
}

static enum kvc_status lagkv_check(const struct kvc_values *values, struct kvc_error *error) {
    if (kvc_value_is_share(values, "budget") || (uint64_t)kvc_value_int(values, "budget") > lagkv_fixed(values))
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "policy: budget=%lld: must be at least %llu, sinks=%lld and twice lag=%lld",
                    (long long)kvc_value_int(values, "budget"), (unsigned long long)lagkv_fixed(values) + 1,
                    (long long)kvc_value_int(values, "sinks"), (long long)kvc_value_int(values, "lag"));
}

static uint64_t lagkv_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_budget(values, prompt, lagkv_fixed(values)) + steps;
}

static enum kvc_status lagkv_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = kvc_budget(values, info->held, lagkv_fixed(values));
    struct kvc_scores *scores;
    if (info->entries <= budget)
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_lag_scores(stage, (uint32_t)kvc_value_int(values, "sinks"),
                                      (uint32_t)kvc_value_int(values, "lag"),
                                      !strcmp(kvc_value_text(values, "scoring"), "across"), scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {.top = budget, .limit = budget, .recent = INT64_MAX, .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_lagkv = {
    .name = "lagkv",
    .summary = "keeps entries that stand out against the tokens after them",
    .paper = "LagKV, arXiv:2504.04704",
    .idea = "The prompt is cut into partitions. Each channel of a key is scaled to the range that the channel has in "
            "the next partition, and so is each channel of the value. Entries whose scaled channels differ most from "
            "each other carry information that the following tokens do not. The first entries and the last partition "
            "are kept. The method reads no query.",
    .formula = "after the first `sinks` entries, partitions of `lag`; against partition p + 1, an entry of p has t = "
               "(x - low) / (high - low) channel by channel, or 0 if high is not above low, and s = the standard "
               "deviation of t over the channels (d - 1); raw_j = (softmax over the partition of s of the key + "
               "softmax of s of the value) / 2; score_j = the number of entries of its partition with less, where of "
               "equal ones the higher indices count as less (scoring=across: raw_j); kept = the sinks, the last whole "
               "partition and what follows it, and the top of the others, B in all",
    .memory = "B entries after the prompt, one more per generated token",
    .traffic = "B + generated entries per generated token",
    .differences =
        "The paper keeps a share of each partition as the text arrives. Here, as in kvpress, the prompt is scored once "
        "and the partitions share B. If B cannot be divided evenly among the partitions, entries with the same rank in "
        "different partitions compete. Then the lower partitions keep one more entry (rule 4); kvpress leaves these "
        "ties to torch.topk, which does not promise an order. Channels that are constant in the next partition count "
        "0; the authors' code divides by 0.",
    .second_turn = "Partitions cover old and new entries, in their order.",
    .channels = true,
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .trial = "sinks=2,lag=8",
    .check = lagkv_check,
    .forecast = &(const struct kvc_forecast){.bound = lagkv_bound},
    .prompt = lagkv_prompt};
