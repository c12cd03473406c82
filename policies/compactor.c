/* compactor.c - scores entries by the leverage of their keys and by the attention within chunks of the prompt
 * (docs/reference/methods/compactor.md). The methods `leverage` and `noncausal` use one of the two scores alone. */
#include "policies/policies.h"

enum { COLUMN = 0, NEIGHBOURS = 3 };

/* clang-format off */
#define COMMON_OPTIONS                                                                                                 \
    KVC_BUDGET_OPTION("entries kept per KV head, sinks and recent ones included"),                                     \
    {"sinks", KVC_OPTION_INT, "8", 0, 1 << 20, NULL, "first entries, which are always kept"},                          \
    {"recent", KVC_OPTION_INT, "4", 0, 1 << 20, NULL, "last entries of the prompt, which are always kept"}
#define CHUNK_OPTION {"chunk", KVC_OPTION_INT, "256", 1, 65536, NULL, "entries that attend to each other"}
/* clang-format on */

static const struct kvc_option options[] = {
    COMMON_OPTIONS,
    CHUNK_OPTION,
    {"blend", KVC_OPTION_REAL, "", 0, 1000, NULL,
     "weight of leverage relative to attention; default: the share of entries that are evicted, 1 - B / N"},
    KVC_OPTIONS_END};
static const struct kvc_option leverage_options[] = {COMMON_OPTIONS, KVC_OPTIONS_END};
static const struct kvc_option noncausal_options[] = {COMMON_OPTIONS, CHUNK_OPTION, KVC_OPTIONS_END};

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

static uint64_t budget_of(const struct kvc_values *values, const struct kvc_stage_info *info) {
    return kvc_budget(values, info->held, compactor_fixed(values));
}

/* Sets scores per list to the attention within chunks, averaged over each entry and its two neighbours. If scores is
 * NULL, only writes the state column, which a later turn reads. */
static enum kvc_status attention(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_scores *scores,
                                 struct kvc_error *error) {
    const uint64_t sinks = (uint64_t)kvc_value_int(values, "sinks"), recent = (uint64_t)kvc_value_int(values, "recent");
    const uint32_t chunk = (uint32_t)kvc_value_int(values, "chunk");
    const enum kvc_status status = kvc_stage_chunk_mass(stage, sinks, recent, chunk, COLUMN, scores, error);
    return status == KVC_OK && scores ? kvc_stage_pool(stage, scores, recent, NEIGHBOURS, KVC_POOL_AVERAGE, error)
                                      : status;
}

static enum kvc_status leverage(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_scores *scores,
                                struct kvc_error *error) {
    return kvc_stage_leverage(stage, (uint64_t)kvc_value_int(values, "sinks"),
                              (uint64_t)kvc_value_int(values, "recent"), scores, error);
}

/* Replaces scores by `share` * z(other) + z(scores). */
static enum kvc_status mix(struct kvc_stage *stage, const struct kvc_values *values, float share,
                           const struct kvc_scores *other, struct kvc_scores *scores, struct kvc_error *error) {
    return kvc_stage_standard_mix(stage, (uint64_t)kvc_value_int(values, "sinks"),
                                  (uint64_t)kvc_value_int(values, "recent"), share, other, scores, error);
}

static enum kvc_status keep_best(struct kvc_stage *stage, const struct kvc_values *values,
                                 const struct kvc_scores *scores, struct kvc_error *error) {
    const uint64_t budget = budget_of(values, kvc_stage_info(stage));
    const struct kvc_keep keep = {.first = (uint64_t)kvc_value_int(values, "sinks"),
                                  .tail = (uint64_t)kvc_value_int(values, "recent"),
                                  .top = budget - compactor_fixed(values),
                                  .limit = budget,
                                  .recent = INT64_MAX,
                                  .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

static enum kvc_status compactor_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                        struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = budget_of(values, info);
    const double gone = 1.0 - (double)budget / (double)kvc_max_u64(info->held, 1);
    const float blend = (float)(kvc_value_given(values, "blend") ? kvc_value_real(values, "blend") : gone);
    struct kvc_scores *scores, *other;
    if (info->entries <= budget)
        return attention(stage, values, NULL, error);
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_scores(stage, &other, error);
    if (status == KVC_OK)
        status = attention(stage, values, scores, error);
    if (status == KVC_OK)
        status = leverage(stage, values, other, error);
    if (status == KVC_OK)
        status = mix(stage, values, blend, other, scores, error);
    return status == KVC_OK ? keep_best(stage, values, scores, error) : status;
}

static enum kvc_status leverage_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                       struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    struct kvc_scores *scores;
    if (info->entries <= budget_of(values, info))
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = leverage(stage, values, scores, error);
    return status == KVC_OK ? keep_best(stage, values, scores, error) : status;
}

static enum kvc_status noncausal_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                        struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    struct kvc_scores *scores;
    if (info->entries <= budget_of(values, info))
        return attention(stage, values, NULL, error);
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = attention(stage, values, scores, error);
    if (status == KVC_OK) /* `share` 0 ignores the other scores; an entry without attention gets the mean score */
        status = mix(stage, values, 0.0f, scores, scores, error);
    return status == KVC_OK ? keep_best(stage, values, scores, error) : status;
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
        "matrix for every 512 keys. The softmax of the last chunk covers its own entries, however few. So it does in "
        "the authors' engine, which then adds 1 / chunk to all of them for each query that its last tile of 64 queries "
        "lacks. kvpress fills "
        "that chunk up to its whole length: it gives the added keys a logit of -1e-9 (not -1e9), so these take part of "
        "every query's attention, and it adds as many queries, which attend to all keys equally. So its scores in the "
        "last chunk are not those of the formula, and one entry in eight differs; without the filling no entry "
        "differs. This method does not adapt the "
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

#define LEVERAGE_DIFFERENCES                                                                                           \
    "The leverage is that of the keys themselves; the paper and the authors' code first project the keys to 48 "       \
    "random channels. "

const struct kvc_policy_class kvc_policy_leverage = {
    .name = "leverage",
    .summary = "keeps keys that stand out: compactor without its attention",
    .paper = "Compactor, arXiv:2507.08143",
    .idea =
        "The statistical leverage of a key measures how much of the space spanned by the keys would be lost without "
        "it. A key that points in a direction in which no other key points has a leverage near 1. No query is "
        "needed, so the choice does not depend on the question.",
    .formula = "all entries but the first `sinks` and the last `recent` are scored. x_j: the key before RoPE minus the "
               "mean of all; G = sum of x x^T + 0.01 I; l_j = x_j . G^-1 x_j; kept = the sinks and the last `recent`, "
               "and the top of the others by l_j, B in all",
    .memory = "B entries after the prompt, one more per generated token",
    .traffic = "B + generated entries per generated token",
    .differences = LEVERAGE_DIFFERENCES "kvpress's LeverageScorePress scores all entries; here sinks=0,recent=0 does.",
    .second_turn = "Leverage is computed over old and new entries.",
    .channels = true,
    .stages = KVC_STAGE_PROMPT,
    .options = leverage_options,
    .trial = "sinks=2,recent=2",
    .check = compactor_check,
    .forecast = &(const struct kvc_forecast){.bound = compactor_bound},
    .prompt = leverage_prompt};

const struct kvc_policy_class kvc_policy_noncausal = {
    .name = "noncausal",
    .summary = "keeps entries that queries of the text around them attend to: compactor without leverage",
    .paper = "Compactor, arXiv:2507.08143",
    .idea = "The question is not known yet, but the text around an entry may attend to it. The prompt is cut into "
            "chunks, and every query of a chunk attends to every key of the chunk, including later keys. So an entry "
            "at the end of a chunk gets as many votes as one at its beginning.",
    .formula = "all entries but the first `sinks` and the last `recent` are scored. Chunks of `chunk` of the turn's "
               "entries: a_j = the mean over the group's heads of the sum over the chunk's queries i of softmax over "
               "the chunk of q_i . k_j, without a mask or a scale; c_j = a_j |v_j|; s_j = (c_j-1 + c_j + c_j+1) / 3, "
               "where entries that are not scored count 0; score_j = z(s_j), as in compactor with blend=0; kept = the "
               "sinks and the last `recent`, and the top of the others, B in all",
    .memory = "B entries and as many floats after the prompt, one more per generated token; during the prompt n H d "
              "float32, the queries of one layer",
    .traffic = "B + generated entries per generated token",
    .differences =
        "Those of compactor's attention: the softmax of the last chunk covers its own entries, where kvpress "
        "fills the chunk up. kvpress's NonCausalAttnPress scores all entries; here sinks=0,recent=0 does.",
    .second_turn = "An entry's attention comes from the queries of its own turn. Entries of generated tokens have no "
                   "such attention, and count as the mean.",
    .stages = KVC_STAGE_PROMPT,
    .options = noncausal_options,
    .trial = "sinks=2,recent=2,chunk=16",
    .check = compactor_check,
    .queries = compactor_queries,
    .columns = compactor_columns,
    .forecast = &(const struct kvc_forecast){.bound = compactor_bound},
    .prompt = noncausal_prompt};
