/* fastkv.c - evicts as `snapkv` does. In upper layers it computes only the important tokens of the prompt
 * (docs/reference/methods/fastkv.md). */
#include "policies/policies.h"

#include <stdint.h>
#include <stdlib.h>

#include "core/base/assert.h"
#include "core/base/canon.h"

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, window included"),
    KVC_WINDOW_OPTION("8", 1 << 20),
    KVC_KERNEL_OPTION("7"),
    KVC_POOLING_OPTION("avg"),
    {"tsp_layer", KVC_OPTION_INT, "-1", -1, 1 << 20, NULL,
     "layer after which unimportant tokens are dropped; -1: floor(L / 2) - 1"},
    {"tsp", KVC_OPTION_INT, "2048", 2, KVC_BUDGET_MOST, NULL, "tokens that are kept after tsp_layer, window included"},
    KVC_OPTIONS_END};

static enum kvc_status fastkv_check(const struct kvc_values *values, struct kvc_error *error) {
    const int64_t tsp = kvc_value_int(values, "tsp"), window = kvc_value_int(values, "window");
    if (tsp <= window)
        return kvc_fail(error, KVC_USAGE, "policy fastkv: tsp=%lld: must be above window=%lld, at most %.0f",
                        (long long)tsp, (long long)window, KVC_BUDGET_MOST);
    return kvc_check_window(values, error);
}

/* Returns the layer above which tokens are pruned, or -1 for a model of a single layer, which prunes no tokens. */
static int64_t tsp_layer(const struct kvc_values *values, uint32_t layers) {
    const int64_t given = kvc_value_int(values, "tsp_layer");
    return given < 0 ? (int64_t)(layers / 2) - 1 : given;
}

static enum kvc_status check_model(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                   const bool *acts, struct kvc_error *error) {
    const int64_t layer = tsp_layer(values, geometry->layers);
    if (layer >= geometry->layers)
        return kvc_fail(error, KVC_USAGE, "policy fastkv: tsp_layer=%lld: must be 0 to %u, the model's layers",
                        (long long)layer, geometry->layers - 1);
    if (layer >= 0 && !acts[layer])
        return kvc_fail(error, KVC_USAGE,
                        "policy fastkv: tsp_layer=%lld: must be a layer that skip_layers and layers leave in",
                        (long long)layer);
    return KVC_OK;
}

static uint64_t propagated(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t rows) {
    const uint64_t tsp = (uint64_t)kvc_value_int(values, "tsp");
    return context->layer == tsp_layer(values, context->layers) && rows > tsp ? tsp : rows;
}

/* Computes the window mass, pools it for each query head, and sums it over the groups. */
static enum kvc_status make_scores(struct kvc_stage *stage, const struct kvc_values *values, uint32_t window,
                                   struct kvc_scores **scores, struct kvc_error *error) {
    struct kvc_scores *heads;
    enum kvc_status status = kvc_stage_head_scores(stage, &heads, error);
    if (status == KVC_OK)
        status = kvc_stage_window_mass(stage, window, heads, error);
    if (status == KVC_OK)
        status = kvc_stage_pool(stage, heads, window, (uint32_t)kvc_value_int(values, "kernel"), kvc_pooling_of(values),
                                error);
    if (status == KVC_OK)
        status = kvc_stage_scores(stage, scores, error);
    return status == KVC_OK ? kvc_stage_group(stage, heads, 1.0f, *scores, error) : status;
}

/* ---- token pruning: which rows are kept ---- */

/* Adds one head's scores to sums [count], which has one sum for each row of the turn before the window. The turn's
 * entries are the newest entries of the head. */
static enum kvc_status add_head(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t head, float *values,
                                float *sums, uint32_t count, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    size_t held = 0;
    const enum kvc_status status = kvc_stage_read_any_scores(stage, scores, head, values, info->entries, &held, error);
    KVC_ASSERT(status != KVC_OK || held >= info->turn);
    for (uint32_t i = 0; i < count && status == KVC_OK; i++)
        sums[i] += values[held - info->turn + i];
    return status;
}

static enum kvc_status propagate(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t tsp = (uint64_t)kvc_value_int(values, "tsp");
    if (info->layer != tsp_layer(values, info->layers) || info->turn <= tsp)
        return KVC_OK;
    const uint32_t window = kvc_window_rows(values, info), count = (uint32_t)info->turn - window;
    float *sums = calloc(count, sizeof *sums);
    struct kvc_ranked *order = malloc(count * sizeof *order);
    float *read = malloc(info->entries * sizeof *read);
    uint32_t *rows = malloc(tsp * sizeof *rows);
    struct kvc_scores *scores;
    enum kvc_status status = KVC_OK;
    if (!sums || !order || !read || !rows)
        status = kvc_fail(error, KVC_RESOURCE, "no memory for the scores of %llu rows", (unsigned long long)info->turn);
    if (status == KVC_OK)
        status = make_scores(stage, values, window, &scores, error);
    for (uint32_t h = 0; h < info->model_lists && status == KVC_OK; h++)
        status = add_head(stage, scores, h, read, sums, count, error);
    if (status == KVC_OK) {
        const uint32_t top = (uint32_t)tsp - window;
        KVC_ASSERT(top <= count && window < tsp);
        kvc_rank_scores(sums, count, order);
        for (uint32_t i = 0; i < top; i++)
            rows[i] = order[i].index;
        kvc_sort_indices(rows, top);
        for (uint32_t i = 0; i < window; i++)
            rows[top + i] = count + i;
        status = kvc_stage_prune_tokens(stage, rows, (uint32_t)tsp, error);
    }
    free(sums);
    free(order);
    free(read);
    free(rows);
    return status;
}

static enum kvc_status fastkv_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                     struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = kvc_window_budget(values, info->held);
    if (info->entries <= budget)
        return KVC_OK;
    const uint32_t window = kvc_window_rows(values, info);
    struct kvc_scores *scores;
    const enum kvc_status status = make_scores(stage, values, window, &scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = kvc_window_rule(budget, window, scores);
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_fastkv = {
    .name = "fastkv",
    .summary = "snapkv; above one layer, only the prompt's important tokens are computed",
    .paper = "FastKV, arXiv:2502.01068",
    .idea = "In the upper half of a model, the same few tokens matter in every layer. Up to a certain layer, the whole "
            "prompt is computed. The layers above it compute and store only the rows that the window's queries "
            "attended to most. So prefill takes about half the time. In each layer, the cache is cut as in snapkv.",
    .formula = "score_j = sum over the group's heads of pool(sum over the window's queries i of a_ij); kept = top B - "
               "w, and the last w; after tsp_layer, the rows whose score, summed over KV heads, is among the top tsp - "
               "w are kept, and the last w",
    .memory = "B entries after the prompt, one more per generated token; above tsp_layer at most tsp of the prompt",
    .traffic = "B + generated entries per generated token; above tsp_layer min(B, tsp) + generated",
    .differences = "In a later turn, only the turn's own rows are dropped. All rows of a prompt of up to tsp tokens "
                   "pass through all layers. Logits of prompt rows other than the last one are not those of a whole "
                   "prompt. Of equal scores the lower position is kept; the authors' code leaves this to chance.",
    .second_turn = "As snapkv. At most tsp of the turn's own tokens pass through the upper layers. These layers keep "
                   "the entries that they hold, and the new tokens attend to these entries.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_PROPAGATE,
    .options = options,
    .trial = "tsp=48",
    .check = fastkv_check,
    .check_model = check_model,
    .queries = kvc_window_queries,
    .forecast = &(const struct kvc_forecast){.bound = kvc_window_bound, .propagated = propagated},
    .propagate = propagate,
    .prompt = fastkv_prompt};
