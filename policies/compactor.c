/* compactor.c - scores entries by the leverage of their keys and by the attention within chunks of the prompt
 * (docs/reference/methods/compactor.md). */
#include "policies/policies.h"

enum { COLUMN = 0, NEIGHBOURS = 3 };

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, sinks and recent ones included"),
    {"sinks", KVC_OPTION_INT, "8", 0, 1 << 20, NULL, "first entries, which are always kept"},
    {"recent", KVC_OPTION_INT, "4", 0, 1 << 20, NULL, "last entries of the prompt, which are always kept"},
    {"chunk", KVC_OPTION_INT, "256", 1, 65536, NULL, "entries that attend to each other"},
    {"blend", KVC_OPTION_REAL, "", 0, 1000, NULL,
     "weight of leverage relative to attention; default: the share of entries that are evicted, 1 - B / N"},
    KVC_OPTIONS_END};

static uint64_t compactor_fixed(const struct kvc_values *values) {
    return (uint64_t)kvc_value_int(values, "sinks") + (uint64_t)kvc_value_int(values, "recent");
}

static enum kvc_status compactor_check(const struct kvc_values *values, struct kvc_error *error) {
    if (kvc_value_is_share(values, "budget") || (uint64_t)kvc_value_int(values, "budget") > compactor_fixed(values))
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "policy: budget=%lld: must be above %llu, sinks=%lld and recent=%lld",
                    (long long)kvc_value_int(values, "budget"), (unsigned long long)compactor_fixed(values),
                    (long long)kvc_value_int(values, "sinks"), (long long)kvc_value_int(values, "recent"));
}

static uint32_t compactor_queries(const struct kvc_values *values) {
    (void)values;
    return UINT32_MAX;
}

static uint32_t compactor_columns(const struct kvc_values *values) {
    (void)values;
    return 1;
}

static uint64_t compactor_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_budget(values, prompt, compactor_fixed(values)) + steps;
}

static enum kvc_status compactor_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                        struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = kvc_budget(values, info->held, compactor_fixed(values));
    const uint64_t sinks = (uint64_t)kvc_value_int(values, "sinks"), recent = (uint64_t)kvc_value_int(values, "recent");
    const uint32_t chunk = (uint32_t)kvc_value_int(values, "chunk");
    const double gone = 1.0 - (double)budget / (double)kvc_max_u64(info->held, 1);
    const float blend = (float)(kvc_value_given(values, "blend") ? kvc_value_real(values, "blend") : gone);
    struct kvc_scores *scores, *leverage;
    if (info->entries <= budget) /* nothing to evict: only writes the column, which a later turn reads */
        return kvc_stage_chunk_mass(stage, sinks, recent, chunk, COLUMN, NULL, error);
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_scores(stage, &leverage, error);
    if (status == KVC_OK)
        status = kvc_stage_chunk_mass(stage, sinks, recent, chunk, COLUMN, scores, error);
    if (status == KVC_OK)
        status = kvc_stage_pool(stage, scores, recent, NEIGHBOURS, KVC_POOL_AVERAGE, error);
    if (status == KVC_OK)
        status = kvc_stage_leverage(stage, sinks, recent, leverage, error);
    if (status == KVC_OK)
        status = kvc_stage_standard_mix(stage, sinks, recent, blend, leverage, scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {.first = sinks,
                                  .tail = recent,
                                  .top = budget - sinks - recent,
                                  .limit = budget,
                                  .recent = INT64_MAX,
                                  .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_compactor = {
    .name = "compactor",
    .summary = "keeps keys that stand out, and entries that queries of the text around them attend to",
    .paper = "Compactor, arXiv:2507.08143",
    .idea =
        "The question is not known yet, but two things still speak for an entry. First, its key may point in a "
        "direction in which no other key points. The statistical leverage of the key measures how much of the space "
        "spanned by the keys would be lost without it. Second, the text around the entry may attend to it. To measure "
        "this, the prompt is cut into chunks, and every query of a chunk attends to every key of the chunk, including "
        "later keys. The leverage and the attention of an entry are brought to the same scale and added.",
    .formula =
        "all entries but the first `sinks` and the last `recent` are scored, n of each list. x_j: the key before RoPE "
        "minus the mean of all; G = sum of x x^T + 0.01 I; l_j = x_j . G^-1 x_j. Chunks of `chunk` of the turn's "
        "entries: a_j = the mean over the group's heads of the sum over the chunk's queries i of softmax over the "
        "chunk of q_i . k_j, without a mask or a scale; c_j = a_j |v_j|; s_j = (c_j-1 + c_j + c_j+1) / 3, where "
        "entries that are not scored count 0. z: minus the mean, divided by the standard deviation (N - 1; at least "
        "1e-6) over the layer's lists together; z of s_j = 0 is 0. score_j = blend z(l_j) + z(s_j), with `blend` = 1 - "
        "B / N unless given; kept = the sinks and the last `recent`, and the top of the others, B in all",
    .memory = "B entries and as many floats after the prompt, one more per generated token; during the prompt n H d "
              "float32, the queries of one layer",
    .traffic = "B + generated entries per generated token",
    .differences =
        "The leverage is that of the keys themselves; the paper and the authors' code first project the keys to 48 "
        "random channels. The matrix of the leverage covers all keys, as in kvpress; the authors' engine makes one "
        "matrix for every 512 keys. The softmax of the last chunk covers its own entries, however few. kvpress fills "
        "that chunk up to its whole length: it gives the added keys a logit of -1e-9 (not -1e9), so these take part of "
        "every query's attention, and it adds as many queries, which attend to all keys equally. So its scores in the "
        "last chunk are not those of the formula, and one entry in eight differs. This method does not adapt the "
        "compression to the context, as the paper's calibration does.",
    .second_turn = "Leverage is computed over old and new entries. An entry's attention comes from the queries of its "
                   "own turn. Entries of generated tokens have no such attention, and count as the mean.",
    .channels = true,
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .trial = "sinks=2,recent=2,chunk=16",
    .check = compactor_check,
    .queries = compactor_queries,
    .columns = compactor_columns,
    .forecast = &(const struct kvc_forecast){.bound = compactor_bound},
    .prompt = compactor_prompt};
