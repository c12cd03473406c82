/* dms.c - evicts entries whose score is below a threshold, once they leave a sliding window
 * (docs/reference/methods/dms.md). */
#include "policies/query_stats.h"

static const struct kvc_option options[] = {
    {"threshold", KVC_OPTION_REAL, "0", -1e9, 1e9, NULL, "entries with lower scores are evicted"},
    {"window", KVC_OPTION_INT, "128", 1, KVC_BUDGET_MOST, NULL, "newest tokens, whose entries are never evicted"},
    {"scorer", KVC_OPTION_CHOICE, "qfilter", 0, 0, "qfilter|knorm|kvzap", "method whose scores are used"},
    {"file", KVC_OPTION_TEXT, "", 0, 0, "drawn",
     "for scorer=qfilter: filters of the model, as `kvcull collect --for qfilter` writes them; for scorer=kvzap: "
     "networks, as kvzap reads them; drawn: random numbers instead of a file"},
    KVC_OPTIONS_END};

static const struct kvc_query_option file_option = {"dms", "file", KVC_QUERY_FILTERS, false};

static bool has_filters(const struct kvc_values *values) { return kvc_scorer_is(values, "qfilter"); }
static bool has_networks(const struct kvc_values *values) { return kvc_scorer_is(values, "kvzap"); }

static enum kvc_status dms_check(const struct kvc_values *values, struct kvc_error *error) {
    if (!kvc_scorer_is(values, "knorm") && !*kvc_value_text(values, "file"))
        return kvc_fail(error, KVC_USAGE, "policy dms: file= is missing: scorer=%s reads it",
                        kvc_value_text(values, "scorer"));
    return has_filters(values) ? kvc_query_check(&file_option, values, error) : KVC_OK;
}

static const char *dms_predictor(const struct kvc_values *values) {
    return has_networks(values) ? kvc_value_text(values, "file") : NULL;
}

static uint32_t dms_columns(const struct kvc_values *values) { return has_networks(values); }

static enum kvc_status dms_observe(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    return has_networks(values) ? kvc_stage_predict(stage, 0, error) : KVC_OK;
}

static enum kvc_status check_model(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                   const bool *acts, struct kvc_error *error) {
    (void)acts;
    return has_filters(values) ? kvc_query_check_model(&file_option, values, geometry, error) : KVC_OK;
}

static size_t state_bytes(const struct kvc_values *values, const struct kvc_geometry *geometry) {
    return has_filters(values) ? kvc_query_state_bytes(&file_option, geometry) : 0;
}

static enum kvc_status open_state(const struct kvc_values *values, const struct kvc_geometry *geometry, void *state,
                                  struct kvc_error *error) {
    return has_filters(values) ? kvc_query_open(&file_option, values, geometry, state, error) : KVC_OK;
}

static uint64_t dms_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    (void)values;
    return prompt + steps;
}

static double dms_entries(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt,
                          uint64_t steps) {
    (void)context;
    return (double)dms_bound(values, prompt, steps);
}

static enum kvc_status dms_prepare(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    return has_filters(values) ? kvc_query_prepare_filter(&file_option, stage, error) : KVC_OK;
}

static enum kvc_status dms_decode(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t window = (uint64_t)kvc_value_int(values, "window");
    struct kvc_scores *scores;
    if (info->now <= window)
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = has_networks(values)
                     ? kvc_stage_column_scores(stage, 0, 1, scores, error)
                     : kvc_stage_entry_scores(stage, has_filters(values) ? KVC_ENTRY_FILTER : KVC_ENTRY_NORM, 0, scores,
                                              error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {.top = info->entries,
                                  .recent = (int64_t)info->now - (int64_t)window,
                                  .bounded = true,
                                  .least = (float)kvc_value_real(values, "threshold"),
                                  .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

static enum kvc_status dms_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const enum kvc_status status = dms_prepare(stage, values, error);
    return status == KVC_OK ? dms_decode(stage, values, error) : status;
}

const struct kvc_policy_class kvc_policy_dms = {
    .name = "dms",
    .summary = "evicts entries whose score is below a threshold, once they leave a sliding window",
    .paper = "Dynamic Memory Sparsification, arXiv:2506.05345",
    .idea = "A head that needs little of the text should hold few entries, and a text that repeats itself should leave "
            "fewer than one that does not. So there is no budget: an entry stays while it is among the newest, and is "
            "evicted after that if its score is below a threshold. How many entries a head holds depends on the text.",
    .formula = "score_j: that of knorm, qfilter or kvzap (`scorer`); kept = the entries of the last `window` tokens, "
               "and of the others those with score_j >= threshold",
    .memory = "at most n entries; the data decides how many. With scorer=qfilter the filters, d float32 per layer and "
              "KV head; with scorer=kvzap what kvzap needs",
    .traffic = "one entry more than a head holds per generated token, and one more read of their keys",
    .differences =
        "The paper trains the model to make the decision itself, from a channel of the key, when the entry is "
        "appended; "
        "a model so trained cannot be run here. Scores of another method and a threshold replace the trained decision, "
        "as in kvpress. kvpress accepts every scorer, kvcull those that need no query; with scorer=kvzap the method is "
        "KVzap's (arXiv:2601.07891). kvpress evicts in decode steps only on request; here, stages=prompt turns that "
        "off.",
    .second_turn = "Entries that leave the window are tested like those of the first turn.",
    .whole_keys = true,
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .trial = "file=drawn,window=20",
    .check = dms_check,
    .check_model = check_model,
    .predictor = dms_predictor,
    .columns = dms_columns,
    .attended = dms_observe,
    .observe_step = dms_observe,
    .state_bytes = state_bytes,
    .open = open_state,
    .forecast = &(const struct kvc_forecast){.bound = dms_bound, .entries = dms_entries, .ragged = KVC_RAGGED_ANY},
    .prompt = dms_prompt,
    .prepare = dms_prepare,
    .decode = dms_decode};
