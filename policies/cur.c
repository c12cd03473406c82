/* cur.c - keeps the entries whose keys and values are long compared with those of their neighbours (CurDKV)
 * (docs/reference/methods/cur.md). */
#include "policies/policies.h"

#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, sinks included"),
    KVC_SINKS_OPTION("4"),
    {"chunk", KVC_OPTION_INT, "16", 0, 65536, NULL,
     "neighbouring entries that share their lengths; 0: the lengths themselves"},
    {"by", KVC_OPTION_CHOICE, "product", 0, 0, "product|mean|keys|values",
     "the product or the mean of a key's and a value's share, or one of both"},
    KVC_OPTIONS_END};

static enum kvc_status cur_check(const struct kvc_values *values, struct kvc_error *error) {
    return kvc_check_above(values, "sinks", error);
}

static uint64_t budget_of(const struct kvc_values *values, uint64_t held) {
    return kvc_budget(values, held, (uint64_t)kvc_value_int(values, "sinks"));
}

static uint64_t cur_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return budget_of(values, prompt) + steps;
}

static enum kvc_share_kind kind_of(const struct kvc_values *values) {
    const char *by = kvc_value_text(values, "by");
    return !strcmp(by, "keys")     ? KVC_SHARE_KEYS
           : !strcmp(by, "values") ? KVC_SHARE_VALUES
           : !strcmp(by, "mean")   ? KVC_SHARE_MEAN
                                   : KVC_SHARE_PRODUCT;
}

static enum kvc_status cur_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = budget_of(values, info->held), sinks = (uint64_t)kvc_value_int(values, "sinks");
    struct kvc_scores *scores;
    if (info->entries <= budget)
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_norm_shares(stage, kind_of(values), (uint32_t)kvc_value_int(values, "chunk"), scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {
        .first = sinks, .top = budget - sinks, .limit = budget, .recent = INT64_MAX, .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_cur = {
    .name = "cur",
    .summary = "keeps entries whose key and value are long compared with those of their neighbours",
    .paper = "CurDKV, arXiv:2509.15038",
    .idea =
        "A CUR decomposition approximates a matrix by some of its own rows, which it chooses by their leverage "
        "scores. The method chooses rows of the keys and of the values in this way, and takes the squared length of "
        "a row as its leverage. So a value counts even if no query attends to its key. Lengths are compared within "
        "short chunks of the text, so every part of the text keeps some entries. No query is needed, so the choice "
        "does not depend on the question.",
    .formula = "the list is cut into chunks of `chunk` entries from its first entry on; k_j = |key_j|^2 / (sum of "
               "|key|^2 over j's chunk), v_j likewise with values, or 0 if the sum is 0; with chunk=0, k_j = |key_j|^2 "
               "and v_j = |value_j|^2; score_j = k_j v_j (by=mean: (k_j + v_j) / 2, by=keys: k_j, by=values: v_j); "
               "kept = the first `sinks`, and the top of the others, B in all",
    .memory = "B entries after the prompt, one more per generated token",
    .traffic = "B + generated entries per generated token",
    .differences =
        "The paper multiplies keys and values by a random matrix with 20 columns before it takes lengths, to "
        "save time; the expected squared length is the same. kvpress leaves this out by default "
        "(use_random_leverage=False), as this method always does. chunk=16 is kvpress's "
        "use_local_approximation, which the paper does not have; chunk=0 is without. Where all lengths of a "
        "chunk are 0, kvpress divides by 0. Every head keeps B entries, as in the paper's CurDKV; its "
        "AdaCurDKV, which divides a layer's budget among its heads, is not included.",
    .second_turn = "Old and new entries are scored alike. Chunks are counted from the oldest entry held, so an old "
                   "entry may have other neighbours than in its own turn.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .trial = "chunk=8",
    .check = cur_check,
    .whole_keys = true,
    .forecast = &(const struct kvc_forecast){.bound = cur_bound},
    .prompt = cur_prompt};
