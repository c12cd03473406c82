/* pyramidkv.c - `snapkv`, with more entries in lower layers and fewer in upper ones
 * (docs/reference/methods/pyramidkv.md). */
#include "policies/policies.h"

#include <stdint.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, window included: the mean over the layers"),
    KVC_WINDOW_OPTION("32", 1 << 20),
    KVC_KERNEL_OPTION("7"),
    KVC_POOLING_OPTION("max"),
    KVC_PER_HEAD_OPTION(KVC_PER_HEAD_LISTS),
    {"beta", KVC_OPTION_INT, "20", 1, 1000, NULL, "steepness: the last layer keeps (B - w) / beta and the window"},
    KVC_OPTIONS_END};

/* Returns a / b rounded to the nearest integer; a half is rounded up. */
static uint64_t round_ratio(uint64_t a, uint64_t b) { return a / b + (a % b >= b - a % b); }

/* Returns how many entries outside the window a layer keeps. The layer has `older` such entries. `mean`, which is B -
 * w, is less than `older`. The computation uses integers over a common denominator, so that it rounds only once. */
static uint64_t layer_budget(uint64_t mean, uint64_t older, uint64_t beta, uint64_t layer, uint64_t layers) {
    const uint64_t last = layers - 1;
    if (layers == 1)
        return mean;
    if (mean * (2 * beta - 1) > older * beta) /* by this rule the first layer would keep more entries than it has */
        return round_ratio(older * last - layer * 2 * (older - mean), last);
    return round_ratio(mean * ((2 * beta - 1) * last - 2 * layer * (beta - 1)), beta * last);
}

/* Returns how many of `held` entries a layer keeps, window included. */
static uint64_t kept_by(const struct kvc_values *values, uint64_t held, uint64_t window, uint64_t layer,
                        uint64_t layers) {
    const uint64_t budget = kvc_window_budget(values, held);
    if (held <= budget)
        return held; /* all entries fit in the budget of every layer */
    return layer_budget(budget - window, held - window, (uint64_t)kvc_value_int(values, "beta"), layer, layers) +
           window;
}

static double pyramidkv_entries(const struct kvc_values *values, const struct kvc_layer_context *context,
                                uint64_t prompt, uint64_t steps) {
    const uint64_t window = kvc_window_queries(values);
    return (double)(kept_by(values, prompt, kvc_min_u64(window, prompt), context->acting, context->actings) + steps);
}

static enum kvc_status pyramidkv_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                        struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = kept_by(values, info->held, kvc_window_rows(values, info), info->acting, info->actings);
    return kvc_window_evict(stage, values, budget, error);
}

static enum kvc_status pyramidkv_check(const struct kvc_values *values, struct kvc_error *error) {
    const enum kvc_status status = kvc_check_one_budget(values, error);
    return status == KVC_OK ? kvc_check_window(values, error) : status;
}

const struct kvc_policy_class kvc_policy_pyramidkv = {
    .name = "pyramidkv",
    .summary = "snapkv with a budget that shrinks from layer to layer",
    .paper = "PyramidKV, arXiv:2406.02069",
    .idea = "In lower layers attention spreads widely; in upper layers it concentrates on few tokens. The method "
            "distributes the same total along a line: many entries to the first layer, few to the last. Within a layer "
            "it chooses as snapkv does.",
    .formula = "min = (B - w) / beta, max = 2(B - w) - min; if max > N - w, then max = N - w and min = 2(B - w) - max; "
               "layer l keeps the top round(max - l (max - min) / (L - 1)), and the last w; a single layer keeps B",
    .memory = "B entries per layer after the prompt, on average over the layers; one more per generated token; with "
              "per=head B per query head",
    .traffic = "B + generated entries per generated token and layer, on average over the layers",
    .differences =
        "L and l count the layers that the method acts on. Fractions are exact until the single rounding; the authors' "
        "code divides whole numbers at each step. Each KV head has one selection, from its group's sum; per=head "
        "selects per query head, as that code does. The window is kept in addition to a layer's share, as in the "
        "authors' code; kvpress counts it in the share, and gives all layers the same budget where the last one would "
        "get fewer entries than the window.",
    .second_turn = "As snapkv. N is the number of entries that the layer holds, which differs from layer to layer, so "
                   "an upper layer may hold more than after the first turn.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .check = pyramidkv_check,
    .queries = kvc_window_queries,
    .per_head = kvc_per_head,
    /* `bound` holds for the mean over the layers; a single layer may hold more */
    .forecast = &(const struct kvc_forecast){.bound = kvc_window_bound, .entries = pyramidkv_entries},
    .prompt = pyramidkv_prompt};
