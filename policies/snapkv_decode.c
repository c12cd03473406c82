/* snapkv_decode.c - snapkv's choice made anew every so many decode steps (docs/methods/snapkv-decode.md). */
#include "policies/policies.h"

#include <math.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, window included"),
    {"window", KVC_OPTION_INT, "32", 1, 4096, NULL, "newest tokens, whose queries vote and whose entries always stay"},
    {"every", KVC_OPTION_INT, "64", 1, 1 << 20, NULL, "decode steps from one eviction to the next"},
    KVC_KERNEL_OPTION("7"),
    KVC_POOLING_OPTION("max"),
    KVC_OPTIONS_END};

static uint32_t every(const struct kvc_values *values) { return (uint32_t)kvc_value_int(values, "every"); }

static uint64_t bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_window_budget(values, prompt) + kvc_min_u64(steps, every(values));
}

/* A list grows up to the n-th step, whatever it held before. */
static double entries(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt,
                      uint64_t steps) {
    const uint64_t since = steps % every(values), last = steps - since;
    const double first = context->from, budget = (double)kvc_window_budget(values, prompt);
    return (last ? fmin(first + (double)last, budget) : first) + (double)since;
}

static enum kvc_status write_rows(struct kvc_stage *stage, const struct kvc_values *values, uint64_t rows,
                                  struct kvc_error *error) {
    return kvc_stage_ring_write(stage, 0, kvc_window_queries(values), (uint32_t)rows, KVC_ROW_PROBABILITIES, error);
}

/* The prompt's last queries vote in a step that comes before there are `window` others. */
static enum kvc_status observe(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    return write_rows(stage, values, kvc_window_rows(values, kvc_stage_info(stage)), error);
}

static enum kvc_status decode(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint32_t window = kvc_window_queries(values);
    const uint64_t ahead =
        (every(values) - info->step % every(values)) % every(values); /* steps to the next eviction */
    const uint64_t budget = kvc_window_budget(values, info->held);
    struct kvc_scores *scores;
    enum kvc_status status = ahead < window ? write_rows(stage, values, 1, error) : KVC_OK;
    if (status != KVC_OK || ahead != 0 || info->entries <= budget)
        return status;
    status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_ring_fuse(stage, 0, window, kvc_ring_filled(info, window), KVC_ROW_PROBABILITIES,
                                     KVC_FUSE_SUM, INT64_MAX, scores, error);
    if (status == KVC_OK)
        status = kvc_stage_pool(stage, scores, window, (uint32_t)kvc_value_int(values, "kernel"),
                                kvc_pooling_of(values), error);
    const struct kvc_keep keep = {
        .tail = window, .top = budget - window, .limit = budget, .recent = INT64_MAX, .scores = scores};
    return status == KVC_OK ? kvc_stage_keep(stage, &keep, error) : status;
}

const struct kvc_policy_class kvc_policy_snapkv_decode = {
    .name = "snapkv-decode",
    .summary = "snapkv's choice made anew every so many decode steps",
    .paper = "SnapKV, arXiv:2404.14469; in decode steps as kvpress has it (DecodingPress)",
    .idea =
        "A long answer moves on from what the prompt's last queries looked for. Every `every` decode steps the last "
        "queries vote as snapkv's do, over all that is held, prompt and answer alike, and what they leave goes. In "
        "between the cache grows.",
    .formula = "in the n-th, 2n-th, ... decode step (n = every): score_j = pool(sum over the last w queries i and the "
               "group's heads of a_ij), over all but the last w entries; kept = top B - w, and the last w",
    .memory = "B entries after an eviction, up to every - 1 more before the next, and w float32 per entry and KV head "
              "for the rows of the last queries",
    .traffic = "B + (every + 1) / 2 entries per generated token in the mean; of the rows all w in each eviction",
    .differences =
        "rows hold probabilities as the attention computed them, over what was held then; kvpress computes "
        "the votes again at the eviction, over what is held now. Of the prompt's queries those vote that the "
        "last w tokens still reach, where kvpress has the steps' alone",
    .second_turn = "evicts nothing in its prompt, whose last queries vote as the first turn's do; steps count from its "
                   "end",
    .stages = KVC_STAGE_DECODE,
    .options = options,
    .trial = "window=8,every=4",
    .check = kvc_check_window,
    .queries = kvc_window_queries,
    .columns = kvc_window_queries,
    .surplus = every,
    .forecast = &(const struct kvc_forecast){.bound = bound, .entries = entries},
    .observe_prompt = observe,
    .decode = decode};
