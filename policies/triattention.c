/* triattention.c - every n decode steps, scores entries by the attention that future queries will give them. Statistics
 * of the model's queries predict it (docs/reference/methods/triattention.md). */
#include "policies/query_stats.h"

#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head"),
    {"stats", KVC_OPTION_TEXT, NULL, 0, 0, "drawn",
     "statistics of the model's queries, as `kvcull collect` writes them; drawn: random numbers instead of a file, to "
     "try the method on any model"},
    KVC_EVERY_OPTION("128"),
    KVC_NEWEST_OPTION,
    {"future", KVC_OPTION_INT, "65536", 1, 65536, NULL,
     "queries are expected 1, 2, 4, .. positions after the next one, up to this many"},
    {"heads", KVC_OPTION_CHOICE, "max", 0, 0, "max|mean", "how the scores of a group's heads are combined"},
    KVC_OPTIONS_END};

static uint64_t budget_of(const struct kvc_values *values, uint64_t held) {
    return kvc_budget(values, held, (uint64_t)kvc_value_int(values, "recent"));
}

static uint64_t triattention_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return budget_of(values, prompt) + kvc_min_u64(steps, kvc_every(values));
}

static double triattention_entries(const struct kvc_values *values, const struct kvc_layer_context *context,
                                   uint64_t prompt, uint64_t steps) {
    return kvc_every_entries(values, context->from, budget_of(values, prompt), steps);
}

/* ---- the statistics ---- */

static const struct kvc_query_option stats_option = {"triattention", "stats", KVC_QUERY_PAIRS, false};

static enum kvc_status triattention_check(const struct kvc_values *values, struct kvc_error *error) {
    const enum kvc_status status = kvc_check_newest(values, error);
    return status == KVC_OK ? kvc_query_check(&stats_option, values, error) : status;
}

static enum kvc_status check_model(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                   const bool *acts, struct kvc_error *error) {
    (void)acts;
    return kvc_query_check_model(&stats_option, values, geometry, error);
}

static size_t state_bytes(const struct kvc_values *values, const struct kvc_geometry *geometry) {
    (void)values;
    return kvc_query_state_bytes(&stats_option, geometry);
}

static enum kvc_status open_state(const struct kvc_values *values, const struct kvc_geometry *geometry, void *state,
                                  struct kvc_error *error) {
    return kvc_query_open(&stats_option, values, geometry, state, error);
}

/* Returns the trigonometric series of the stage's layer. */
static struct kvc_series series_of(struct kvc_stage *stage, const struct kvc_values *values) {
    const struct kvc_query_stats stats = kvc_query_stats_of(&stats_option, stage);
    return (struct kvc_series){.mean = stats.mean,
                               .spread = stats.rest,
                               .rotary = stats.rotary,
                               .future = (uint32_t)kvc_value_int(values, "future")};
}

/* ---- the stage ---- */

/* Prepares the series in each step that may evict, and also in the first step, so that statistics of a model with
 * another rotation are refused at once. */
static enum kvc_status triattention_prepare(struct kvc_stage *stage, const struct kvc_values *values,
                                            struct kvc_error *error) {
    const struct kvc_series series = series_of(stage, values);
    const uint64_t step = kvc_stage_info(stage)->step;
    struct kvc_error cause;
    if (step != 1 && step % kvc_every(values) != 0)
        return KVC_OK;
    const enum kvc_status status = kvc_stage_prepare_series(stage, &series, &cause);
    if (status == KVC_OK)
        return KVC_OK;
    return kvc_fail(error, status, "policy triattention: stats=%.200s: %.200s", kvc_value_text(values, "stats"),
                    cause.text);
}

static enum kvc_status triattention_decode(struct kvc_stage *stage, const struct kvc_values *values,
                                           struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = budget_of(values, info->held);
    const struct kvc_series series = series_of(stage, values);
    struct kvc_scores *scores;
    if (info->step % kvc_every(values) != 0 || info->entries <= budget)
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status =
            kvc_stage_series_scores(stage, &series, !strcmp(kvc_value_text(values, "heads"), "mean"), scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {.fill = budget,
                                  .limit = budget,
                                  .recent = (int64_t)info->now - kvc_value_int(values, "recent"),
                                  .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_triattention = {
    .name = "triattention",
    .summary = "at intervals in decode, keeps entries that queries of known statistics will attend to",
    .paper = "TriAttention, arXiv:2604.04921",
    .idea = "Before rotation, the queries of a head lie close to one centre, whatever the text. So the attention that "
            "a query will give to a key follows mostly from this centre and from the distance between query and key: "
            "it is a trigonometric series of the distance. An entry's score is the mean of this series over future "
            "positions, plus the length of its key, weighted by how far queries stray from the centre. `kvcull "
            "collect` collects the centres once for a model, on any text. The method reads no query of the answer.",
    .formula = "in the n-th, 2n-th, ... decode step (n = every), for each query head: mu_c = the mean query before "
               "RoPE and E_i = the mean length of its rotated pair i = (c, c'), both from `stats`; u = mu with its "
               "pairs rotated by the mean of RoPE's rotations at positions now + 1, now + 2, now + 4, .. now + future "
               "(the stored key k_j is rotated to its own position, so u . k_j is sum_i |mu_i| |k_ji| cos(w_i distance "
               "+ phi_ij), averaged over these distances); s_j = u . k_j + sum_i (E_i - |mu_i|) |k_ji|, times RoPE's "
               "attention factor if it has one; z_j = (s_j - mean of s) / max(standard deviation of s, 1e-6) over all "
               "entries; score_j = the largest z_j of the group's heads (heads=mean: their mean); kept = the entries "
               "of the last `recent` tokens, and the top of the others, B in all",
    .memory = "B entries after an eviction, up to every - 1 more before the next; the statistics, 3 d / 2 float32 per "
              "layer and query head",
    .traffic = "B + (every + 1) / 2 entries per generated token on average; each eviction reads all keys",
    .differences =
        "Each layer and KV head chooses for itself (the authors' per_layer_perhead_pruning); their default uses the "
        "mean of all layers' scores for a KV head. Entries of the prompt are scored like others; the authors' default "
        "keeps them all. Steps count from the prompt's end; the authors' code evicts once it holds n entries more than "
        "B. Of the authors' two ways to combine distances, kvcull has their default, the mean. Channels that are not "
        "rotated count in u . k_j only. No noise breaks ties. The option `recent` is an addition.",
    .second_turn = "The turn's prompt evicts nothing. Steps count from its end.",
    .channels = true,
    .stages = KVC_STAGE_DECODE,
    .options = options,
    .trial = "every=4",
    .check = triattention_check,
    .check_model = check_model,
    .state_bytes = state_bytes,
    .open = open_state,
    .surplus = kvc_every,
    .forecast = &(const struct kvc_forecast){.bound = triattention_bound, .entries = triattention_entries},
    .prepare = triattention_prepare,
    .decode = triattention_decode};
