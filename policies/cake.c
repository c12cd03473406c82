/* cake.c - divides the cache among the layers by the dispersion and the variance of their attention
 * (docs/reference/methods/cake.md). */
#include "policies/policies.h"

#include <math.h>
#include <stdint.h>

#include "core/base/assert.h"
#include "core/base/trig.h"

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, window included: the mean over the layers"),
    KVC_WINDOW_OPTION("32", 4096),
    KVC_KERNEL_OPTION("5"),
    KVC_POOLING_OPTION("avg"),
    {"gamma", KVC_OPTION_REAL, "200", 0, 1e6, NULL, "factor of the variance in an entry's score"},
    {"tau1", KVC_OPTION_REAL, "1", 0.05, 100, NULL, "temperature of the dispersion in a layer's share"},
    {"tau2", KVC_OPTION_REAL, "1", 0.05, 100, NULL, "temperature of the variance in a layer's share"},
    KVC_OPTIONS_END};

/* A layer whose prompt rows have been computed. */
struct cake_layer {
    uint32_t number;
    uint64_t older;  /* entries outside the window at the end of the prompt */
    double P;        /* the layer's preference */
    uint64_t budget; /* entries kept outside the window */
};
struct cake {
    uint64_t mean; /* B - w: the mean budget without the window */
    struct cake_layer layer[];
};

static size_t state_bytes(const struct kvc_values *values, const struct kvc_geometry *geometry) {
    (void)values;
    return sizeof(struct cake) + geometry->layers * sizeof(struct cake_layer);
}

/* Any state is valid, because each prompt writes the state before it reads it. */
static bool state_fits(const struct kvc_values *values, const struct kvc_geometry *geometry, const void *state) {
    (void)values, (void)geometry, (void)state;
    return true;
}

static uint32_t cake_columns(const struct kvc_values *values) {
    (void)values;
    return 1; /* the score of each entry: if a later layer's computation makes an earlier layer evict more, this column
               * tells which entries */
}

/* Adds `amount` entries evenly to the budgets of the layers whose budget is below `older`. The remainder goes to the
 * lowest of these layers, one entry each. */
static void cake_give(struct cake_layer *layer, uint32_t n, uint64_t amount) {
    uint64_t receivers = 0, each, more;
    for (uint32_t i = 0; i < n; i++)
        receivers += layer[i].budget < layer[i].older;
    if (receivers == 0)
        return;
    each = amount / receivers;
    KVC_ASSERT(receivers <= n);
    more = amount % receivers;
    for (uint32_t i = 0; i < n; i++) {
        if (layer[i].budget >= layer[i].older)
            continue;
        layer[i].budget += each + (more > 0);
        more -= more > 0;
    }
}

/* Subtracts `amount` entries evenly from the budgets above 1. The remainder is taken from the lowest of these layers,
 * one entry each. */
static void cake_take(struct cake_layer *layer, uint32_t n, uint64_t amount) {
    uint64_t givers = 0, each, more;
    for (uint32_t i = 0; i < n; i++)
        givers += layer[i].budget > 1;
    if (givers == 0)
        return;
    each = amount / givers;
    more = amount % givers;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t wanted = each + (more > 0);
        if (layer[i].budget <= 1)
            continue;
        layer[i].budget -= kvc_min_u64(wanted, layer[i].budget);
        more -= more > 0;
    }
}

/* Divides `slots` entries, which do not include the windows, among n layers. */
static void share_out(struct cake_layer *layer, uint32_t n, uint64_t slots) {
    double sum = 0.0;
    uint64_t cut = 0, all = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += layer[i].P;
    const bool some = sum > 0.0 && isfinite(sum); /* if not, all layers get equal shares */
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t share = (uint64_t)floor((some ? layer[i].P / sum : 1.0 / (double)n) * (double)slots);
        layer[i].budget = kvc_min_u64(share, layer[i].older);
        KVC_ASSERT(layer[i].budget <= layer[i].older);
        cut += share - layer[i].budget;
    }
    cake_give(layer, n, cut);
    for (uint32_t i = 0; i < n; i++)
        all += layer[i].budget;
    if (all < slots)
        cake_give(layer, n, slots - all);
    else
        cake_take(layer, n, all - slots);
}

/* Stores the current layer's scores in its state column and computes the layer's preference. */
static enum kvc_status cake_look(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint32_t window = kvc_window_rows(values, info);
    struct cake *cake = kvc_stage_state(stage);
    struct kvc_scores *heads, *scores;
    float dispersion, variance;
    enum kvc_status status = kvc_stage_head_scores(stage, &heads, error);
    if (status == KVC_OK)
        status = kvc_stage_moments(stage, window, window, (float)kvc_value_real(values, "gamma"), heads, &dispersion,
                                   &variance, error);
    if (status == KVC_OK)
        status = kvc_stage_pool(stage, heads, window, (uint32_t)kvc_value_int(values, "kernel"), kvc_pooling_of(values),
                                error);
    if (status == KVC_OK)
        status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_group(stage, heads, (float)(info->heads / info->kv_heads), scores, error);
    if (status == KVC_OK)
        status = kvc_stage_scores_column(stage, scores, 0, error);
    if (status != KVC_OK)
        return status;
    cake->layer[info->acting].P = kvc_double_pow(fmax(dispersion, 0.0), 1.0 / kvc_value_real(values, "tau1")) *
                                  kvc_double_pow(fmax(variance, 0.0), 1.0 / kvc_value_real(values, "tau2"));
    KVC_ASSERT(cake->layer[info->acting].P >= 0);
    return KVC_OK;
}

static enum kvc_status cake_shrink(struct kvc_stage *stage, const struct cake_layer *layer, uint32_t window,
                                   struct kvc_error *error) {
    struct kvc_scores *scores = NULL;
    enum kvc_status status = kvc_stage_layer(stage, layer->number, error);
    if (status != KVC_OK || kvc_stage_info(stage)->entries <= layer->budget + window)
        return status;
    status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_column_scores(stage, 0, 1, scores, error);
    const struct kvc_keep keep = {
        .tail = window, .top = layer->budget, .limit = layer->budget + window, .recent = INT64_MAX, .scores = scores};
    return status == KVC_OK ? kvc_stage_keep(stage, &keep, error) : status;
}

static enum kvc_status cake_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint32_t here = info->acting, window = kvc_window_rows(values, info);
    struct cake *cake = kvc_stage_state(stage);
    if (here == 0)
        cake->mean = kvc_window_budget(values, info->held) - window;
    const uint64_t slots = info->actings * cake->mean;
    KVC_ASSERT(here < info->actings);
    cake->layer[here].number = info->layer;
    cake->layer[here].older = info->held > window ? info->held - window : 0;
    enum kvc_status status = KVC_OK;
    bool above = false; /* true if a layer holds more than B entries, so that the budgets apply */
    for (uint32_t i = 0; i <= here; i++)
        above = above || cake->layer[i].older > cake->mean;
    if (!above)
        return KVC_OK;
    share_out(cake->layer, here + 1, slots);
    for (uint32_t i = 0; i <= here && status == KVC_OK; i++)
        status = cake_shrink(stage, &cake->layer[i], window, error);
    return status;
}

static enum kvc_status cake_check(const struct kvc_values *values, struct kvc_error *error) {
    const enum kvc_status status = kvc_check_one_budget(values, error);
    return status == KVC_OK ? kvc_check_window(values, error) : status;
}

const struct kvc_policy_class kvc_policy_cake = {
    .name = "cake",
    .summary = "divides the cache among layers by how widely they attend and how much their attention changes",
    .paper = "CAKE, arXiv:2503.12491",
    .idea = "Layers need different amounts of memory. A layer gets a larger share if its last queries spread their "
            "attention widely, and if their attention to an entry changes from query to query. The shares are computed "
            "again after every layer of the prompt: the layers computed so far share the whole cache, and their shares "
            "shrink as more layers follow. Within a layer, the entries whose attention probabilities have the highest "
            "mean and variance are kept.",
    .formula = "per layer, over the last w queries and the entries older than they: disp = -sum a log(a + 1e-10), var "
               "= variance over the queries, both summed over entries and query heads; P = disp^(1/tau1) var^(1/tau2); "
               "layer l's budget is about P_l / (sum of P so far) L (B - w), plus w; score of an entry = mean + gamma "
               "variance per query head, pooled, then the mean over the group",
    .memory = "B entries after the prompt, on average over the layers; one more per generated token; and 1 float32 per "
              "entry and KV head for its score. During the prompt, the layers so far hold up to L B in all.",
    .traffic = "B + generated entries per generated token, on average over the layers",
    .differences = "There is one score per KV head. The window of the newest w entries of each layer is outside the "
                   "budget that P divides. A budget given as a share is a share of the entries that the first of its "
                   "layers holds. If all P are 0 (window=1), layers share evenly. A prompt longer than the budget is "
                   "cut; the authors' code cuts only prompts longer than budget plus window.",
    .second_turn =
        "As snapkv. The shares are computed again from this turn's queries. A layer's share is at most the number of "
        "entries that it holds, and a budget given as a share is a share of the entries that the first of the layers "
        "holds.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .check = cake_check,
    .state_bytes = state_bytes,
    .state_fits = state_fits,
    .queries = kvc_window_queries,
    .columns = cake_columns,
    /* this bound holds for the mean over the layers; a single layer may hold more */
    .forecast = &(const struct kvc_forecast){.bound = kvc_window_bound, .ragged = KVC_RAGGED_LAYERS},
    .observe_prompt = cake_look,
    .prompt = cake_prompt};
