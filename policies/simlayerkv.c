/* simlayerkv.c - in layers whose last queries attend mostly to the first and the last entries, keeps only those
 * (docs/reference/methods/simlayerkv.md). */
#include "policies/policies.h"

#include <stdlib.h>

static const struct kvc_option options[] = {
    KVC_SINKS_OPTION("4"),
    {"recent", KVC_OPTION_INT, "1024", 1, KVC_BUDGET_MOST, NULL, "last entries that a lazy layer keeps"},
    {"window", KVC_OPTION_INT, "1", 1, 4096, NULL, "last tokens of the prompt, whose queries decide"},
    {"threshold", KVC_OPTION_REAL, "0.9", 0, 1, NULL,
     "a layer is lazy if its queries give more than this share of their attention to those entries; 1: none is"},
    KVC_OPTIONS_END};

static uint64_t sinks_of(const struct kvc_values *values) { return (uint64_t)kvc_value_int(values, "sinks"); }
static uint64_t recent_of(const struct kvc_values *values) { return (uint64_t)kvc_value_int(values, "recent"); }

/* An upper bound: holds even if no layer is lazy. */
static uint64_t simlayerkv_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    (void)values;
    return prompt + steps;
}

static double simlayerkv_entries(const struct kvc_values *values, const struct kvc_layer_context *context,
                                 uint64_t prompt, uint64_t steps) {
    (void)context;
    return (double)simlayerkv_bound(values, prompt, steps);
}

/* Adds the window mass of the entries that a lazy layer keeps, over all its lists. `mass` [entries] is scratch. */
static enum kvc_status add_kept(struct kvc_stage *stage, const struct kvc_values *values,
                                const struct kvc_scores *scores, float *mass, double *sum, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    enum kvc_status status = KVC_OK;
    for (uint32_t h = 0; h < info->model_lists && status == KVC_OK; h++) {
        size_t held = 0;
        status = kvc_stage_read_any_scores(stage, scores, h, mass, info->entries, &held, error);
        for (size_t i = 0; i < held && status == KVC_OK; i++)
            if (i < sinks_of(values) || i + recent_of(values) >= held)
                *sum += (double)mass[i];
    }
    return status;
}

static enum kvc_status simlayerkv_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                         struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t kept = sinks_of(values) + recent_of(values);
    const double threshold = kvc_value_real(values, "threshold");
    const uint32_t rows = kvc_window_rows(values, info);
    if (info->entries <= kept || threshold >= 1)
        return KVC_OK;
    float *mass = malloc(info->entries * sizeof *mass);
    if (!mass)
        return kvc_fail(error, KVC_RESOURCE, "no memory for the scores of %llu entries",
                        (unsigned long long)info->entries);
    struct kvc_scores *scores;
    double sum = 0;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_window_mass(stage, rows, scores, error);
    if (status == KVC_OK)
        status = add_kept(stage, values, scores, mass, &sum, error);
    free(mass);
    if (status != KVC_OK || !(sum > threshold * rows * info->model_heads))
        return status;
    const struct kvc_keep keep = {
        .first = sinks_of(values), .tail = recent_of(values), .limit = kept, .recent = INT64_MAX};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_simlayerkv = {
    .name = "simlayerkv",
    .summary = "lazy layers, which attend mostly to the first and the last entries, keep only those",
    .paper = "SimLayerKV, arXiv:2410.13846",
    .idea = "In some layers, which the paper calls lazy, queries attend almost only to the first and the most recent "
            "tokens. The other layers find facts far back in the text. Which layers are lazy depends on the text, but "
            "hardly on the token. So the prompt's last queries decide: a lazy layer keeps its first and last entries "
            "only, and the others keep everything.",
    .formula =
        "per layer: share = (sum over all heads and the last w queries i, and over the first `sinks` and the last "
        "`recent` entries j, of a_ij) / (w H); if share > threshold, kept = the first `sinks` and the last "
        "`recent`; otherwise everything is kept",
    .memory =
        "`sinks` + `recent` entries in lazy layers and all in the others after the prompt, one more per generated "
        "token. The data decides how many layers are lazy, so `kvcull info` predicts what is held if none is.",
    .traffic = "the entries held",
    .differences =
        "A layer's recent entries include the window and are counted as its queries see them, as in the authors' code "
        "(commit 1fb6bda). kvpress leaves the last `window` entries out when it measures the share, and a lazy layer "
        "then keeps `window` entries fewer. The authors' code decides in the first decode step, by the query of the "
        "first generated token; here and in kvpress the prompt's last queries decide. The paper sets the threshold by "
        "model; kvpress recommends 0.9 for Llama 3, 0.65 for Llama 2, 0.8 for Mistral and 0.85 for Qwen, and by "
        "default (1) trims nothing. Lazy layers are trimmed after the prompt only, as in kvpress; generated tokens are "
        "kept.",
    .second_turn =
        "Each layer is judged again by the queries of the turn, over the entries that it holds. A layer that "
        "was lazy before does not get its entries back.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .trial = "recent=40,threshold=0.3",
    .queries = kvc_window_queries,
    .forecast = &(
        const struct kvc_forecast){.bound = simlayerkv_bound, .entries = simlayerkv_entries, .ragged = KVC_RAGGED_ANY},
    .prompt = simlayerkv_prompt};
