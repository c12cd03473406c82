/* qfilter.c - keeps the keys that point furthest along a direction that the model's queries share
 * (docs/reference/methods/qfilter.md). */
#include "policies/query_stats.h"

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head"),
    {"file", KVC_OPTION_TEXT, NULL, 0, 0, "drawn",
     "filters of the model, as `kvcull collect --for qfilter` writes them; drawn: random numbers instead of a file, to "
     "try the method on any model"},
    KVC_NEWEST_OPTION,
    KVC_OPTIONS_END};

static const struct kvc_query_option file_option = {"qfilter", "file", KVC_QUERY_FILTERS, false};

static enum kvc_status qfilter_check(const struct kvc_values *values, struct kvc_error *error) {
    const enum kvc_status status = kvc_check_newest(values, error);
    return status == KVC_OK ? kvc_query_check(&file_option, values, error) : status;
}

static enum kvc_status check_model(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                   const bool *acts, struct kvc_error *error) {
    (void)acts;
    return kvc_query_check_model(&file_option, values, geometry, error);
}

static size_t state_bytes(const struct kvc_values *values, const struct kvc_geometry *geometry) {
    (void)values;
    return kvc_query_state_bytes(&file_option, geometry);
}

static enum kvc_status open_state(const struct kvc_values *values, const struct kvc_geometry *geometry, void *state,
                                  struct kvc_error *error) {
    return kvc_query_open(&file_option, values, geometry, state, error);
}

static enum kvc_status qfilter_prepare(struct kvc_stage *stage, const struct kvc_values *values,
                                       struct kvc_error *error) {
    (void)values;
    return kvc_query_prepare_filter(&file_option, stage, error);
}

static enum kvc_status qfilter_decode(struct kvc_stage *stage, const struct kvc_values *values,
                                      struct kvc_error *error) {
    return kvc_entries_evict(stage, values, KVC_ENTRY_FILTER, 0, error);
}

static enum kvc_status qfilter_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                      struct kvc_error *error) {
    const enum kvc_status status = qfilter_prepare(stage, values, error);
    return status == KVC_OK ? qfilter_decode(stage, values, error) : status;
}

const struct kvc_policy_class kvc_policy_qfilter = {
    .name = "qfilter",
    .summary = "keeps the keys that point furthest along the main direction of the model's queries",
    .paper = "Q-Filters, arXiv:2503.02812",
    .idea =
        "After rotation, most queries of a head have a large component along one direction, whatever the text. So a "
        "key's own component along this direction estimates the attention that it will get. `kvcull collect --for "
        "qfilter` finds the direction once for a model, on any text. The method then reads no query.",
    .formula = "for each query head, v: the first right singular vector of the matrix of its rotated queries, with the "
               "sign that makes the sum of q . v positive; f: the mean of v over the group's heads (`file`); score_j = "
               "k_j . f; kept = top B; with recent=R the last R tokens, and the top of the others",
    .memory = "B entries (B + 1 within a decode step); the filters, d float32 per layer and KV head",
    .traffic = "B + 1 entries per generated token, and one more read of their keys",
    .differences =
        "The authors' cache always keeps a window of the newest tokens (64 in their example); kvpress keeps none, and "
        "recent=64 adds it. Their script takes 3,000 queries at random, gives v the sign that most of them have, and "
        "stores -f; kvcull takes all queries of the text and the paper's sign, that of the sum. `tools/query_stats.py` "
        "converts the filters that they publish, which were not tried here. kvpress evicts after the prompt only "
        "(stages=prompt).",
    .second_turn = "The B keys of highest score among old and new entries are kept.",
    .whole_keys = true,
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = qfilter_check,
    .check_model = check_model,
    .state_bytes = state_bytes,
    .open = open_state,
    .forecast = &kvc_newest_forecast,
    .prompt = qfilter_prompt,
    .prepare = qfilter_prepare,
    .decode = qfilter_decode};
