/* kvcompose.c - lets each head order its own entries, and keeps the best ranks of all layers
 * (docs/reference/methods/kvcompose.md). */
#include "policies/policies.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "core/base/canon.h"

enum { SCORE = 0, COMPOSITE = 1 }; /* state columns */

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head: the mean over the layers"),
    {"least", KVC_OPTION_INT, "1", 1, KVC_BUDGET_MOST, NULL, "entries per KV head that every layer keeps"},
    {"mean", KVC_OPTION_CHOICE, "on", 0, 0, "on|off", "add the mean over the layer's KV heads to each score"},
    KVC_OPTIONS_END};

struct kvcompose {
    uint64_t budget;
    bool evicts; /* a layer holds more than the budget */
};

static enum kvc_status compose_check(const struct kvc_values *values, struct kvc_error *error) {
    const int64_t budget = kvc_value_int(values, "budget"), least = kvc_value_int(values, "least");
    const enum kvc_status status = kvc_check_one_budget(values, error);
    if (status != KVC_OK || kvc_value_is_share(values, "budget") || least <= budget)
        return status;
    return kvc_fail(error, KVC_USAGE, "policy: least=%lld: must be 1 to %lld, the budget", (long long)least,
                    (long long)budget);
}

static size_t state_bytes(const struct kvc_values *values, const struct kvc_geometry *geometry) {
    (void)values, (void)geometry;
    return sizeof(struct kvcompose);
}

/* Any state is valid, because each prompt writes the state before it reads it. */
static bool state_fits(const struct kvc_values *values, const struct kvc_geometry *geometry, const void *state) {
    (void)values, (void)geometry, (void)state;
    return true;
}

static bool reads_layers(const struct kvc_values *values) {
    (void)values;
    return true;
}

static uint32_t compose_columns(const struct kvc_values *values) {
    (void)values;
    return 2;
}

/* As in kvzip, the pseudo tokens are the prompt's tokens once more. */
static uint32_t compose_pseudo(const struct kvc_values *values, const struct kvc_turn *turn, int32_t *offset,
                               int32_t *tokens) {
    struct kvcompose *state = turn->state;
    *offset = 0;
    state->budget = kvc_budget(values, turn->held, 0);
    state->evicts = turn->held > state->budget;
    for (uint64_t i = 0; tokens && state->evicts && i < turn->count; i++)
        tokens[i] = turn->tokens[i];
    return state->evicts ? (uint32_t)turn->count : 0;
}

static uint64_t compose_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_budget(values, prompt, 0) + steps;
}

/* ---- the scores of one layer ---- */

struct layer_scores {
    uint32_t lists, stride;
    float *x;                 /* [lists, stride]: an entry's score */
    float *composite;         /* [stride]: the mean score of a rank */
    struct kvc_ranked *order; /* [lists, stride]: each list's entries by rank */
    size_t *count;            /* [lists] */
};

static void free_scores(struct layer_scores *s) {
    free(s->x);
    free(s->composite);
    free(s->order);
    free(s->count);
}

static enum kvc_status make_scores(struct kvc_stage *stage, struct layer_scores *s, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    struct kvc_scores *heads, *scores;
    enum kvc_status status = kvc_stage_head_scores(stage, &heads, error);
    if (status == KVC_OK)
        status = kvc_stage_pseudo_most(stage, heads, error);
    if (status == KVC_OK)
        status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_group(stage, heads, (float)(info->heads / info->kv_heads), scores, error);
    const size_t lists = info->model_lists, stride = info->entries;
    *s = (struct layer_scores){.lists = info->model_lists,
                               .stride = (uint32_t)stride,
                               .x = calloc(lists * stride, sizeof *s->x),
                               .composite = calloc(stride, sizeof *s->composite),
                               .order = calloc(lists * stride, sizeof *s->order),
                               .count = calloc(lists, sizeof *s->count)};
    if (status == KVC_OK && (!s->x || !s->composite || !s->order || !s->count))
        status = kvc_fail(error, KVC_RESOURCE, "no memory for the scores of %zu entries", lists * stride);
    for (uint32_t h = 0; h < lists && status == KVC_OK; h++)
        status = kvc_stage_read_any_scores(stage, scores, h, s->x + h * stride, stride, &s->count[h], error);
    return status;
}

/* Adds to each score the mean score of the same token over the lists. All lists hold the same tokens. */
static void add_mean(struct layer_scores *s) {
    for (size_t j = 0; j < s->stride; j++) {
        float sum = 0.0f;
        for (uint32_t h = 0; h < s->lists; h++)
            sum = sum + s->x[h * (size_t)s->stride + j];
        sum = kvc_div(sum, (float)s->lists);
        for (uint32_t h = 0; h < s->lists; h++)
            s->x[h * (size_t)s->stride + j] = s->x[h * (size_t)s->stride + j] + sum;
    }
}

static void rank(struct layer_scores *s) {
    for (uint32_t h = 0; h < s->lists; h++) {
        const float *x = s->x + h * (size_t)s->stride;
        struct kvc_ranked *order = s->order + h * (size_t)s->stride;
        KVC_ASSERT(s->count[h] <= s->stride);
        kvc_rank_scores(x, (uint32_t)s->count[h], order);
        for (size_t r = 0; r < s->count[h]; r++)
            s->composite[r] = s->composite[r] + x[order[r].index];
    }
    for (size_t r = 0; r < s->stride; r++)
        s->composite[r] = kvc_div(s->composite[r], (float)s->lists);
}

/* Stores the scores in the state columns. `x` is overwritten. */
static enum kvc_status store(struct kvc_stage *stage, struct layer_scores *s, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    struct kvc_scores *scores;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    for (uint32_t column = SCORE; column <= COMPOSITE && status == KVC_OK; column++) {
        for (uint32_t h = 0; h < info->kv_heads && status == KVC_OK; h++) {
            const size_t at = (info->first_list + h) * (size_t)s->stride, n = s->count[info->first_list + h];
            for (size_t r = 0; r < n && column == COMPOSITE; r++)
                s->x[at + s->order[at + r].index] = s->composite[r];
            status = kvc_stage_write_scores(stage, scores, h, s->x + at, n, error);
        }
        if (status == KVC_OK)
            status = kvc_stage_scores_column(stage, scores, column, error);
    }
    return status;
}

/* ---- the division among the layers so far ---- */

/* Reads the composite scores of a layer's longest list. Adds them to `all`, with the layer's number. */
static enum kvc_status add_layer(struct kvc_stage *stage, const struct kvc_values *values, uint32_t layer,
                                 struct kvc_ranked **all, size_t *count, struct kvc_error *error) {
    struct kvc_scores *scores;
    enum kvc_status status = kvc_stage_layer(stage, layer, error);
    if (status == KVC_OK)
        status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_column_scores(stage, COMPOSITE, 1, scores, error);
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const size_t most = info->entries, least = (size_t)kvc_value_int(values, "least");
    struct kvc_ranked *grown = status == KVC_OK ? realloc(*all, (*count + most) * sizeof *grown + 1) : NULL;
    float *x = malloc(most * sizeof *x + 1);
    *all = grown ? grown : *all;
    if (status == KVC_OK && (!grown || !x))
        status = kvc_fail(error, KVC_RESOURCE, "no memory for the ranks of %zu entries", *count + most);
    size_t held = 0;
    for (uint32_t h = 0; h < info->model_lists && held < most && status == KVC_OK; h++)
        status = kvc_stage_read_any_scores(stage, scores, h, x, most, &held, error);
    if (status == KVC_OK) {
        struct kvc_ranked *order = *all + *count;
        kvc_rank_scores(x, (uint32_t)held, order);
        for (size_t r = 0; r < held; r++) {
            order[r].key = r < least ? UINT32_MAX : order[r].key;
            order[r].index = layer;
        }
        *count += held;
    }
    free(x);
    return status;
}

static enum kvc_status keep_best(struct kvc_stage *stage, uint32_t layer, uint64_t top, struct kvc_error *error) {
    struct kvc_scores *scores;
    enum kvc_status status = kvc_stage_layer(stage, layer, error);
    if (status != KVC_OK || kvc_stage_info(stage)->entries <= top)
        return status;
    status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_column_scores(stage, SCORE, 1, scores, error);
    const struct kvc_keep keep = {.top = top, .limit = top, .recent = INT64_MAX, .scores = scores};
    return status == KVC_OK ? kvc_stage_keep(stage, &keep, error) : status;
}

/* Keeps only the best `slots` ranks in layers 0 to `here` together. Later layers only take slots away, so the result
 * after the last layer is the same as if nothing had been evicted before. */
static enum kvc_status divide(struct kvc_stage *stage, const struct kvc_values *values, uint32_t here, uint64_t slots,
                              struct kvc_error *error) {
    struct kvc_ranked *all = NULL;
    size_t count = 0;
    uint64_t *tops = calloc(here + (size_t)1, sizeof *tops);
    enum kvc_status status =
        tops ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "no memory for the budgets of %u layers", here + 1);
    for (uint32_t l = 0; l <= here && status == KVC_OK; l++)
        if (kvc_stage_acts(stage, l))
            status = add_layer(stage, values, l, &all, &count, error);
    if (status == KVC_OK && count > slots) {
        kvc_sort_ranked(all, count);
        for (size_t i = 0; i < slots; i++)
            tops[all[i].index]++;
        for (uint32_t l = 0; l <= here && status == KVC_OK; l++)
            if (kvc_stage_acts(stage, l))
                status = keep_best(stage, l, tops[l], error);
    }
    free(all);
    free(tops);
    return status;
}

static enum kvc_status compose_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                      struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const struct kvcompose *state = kvc_stage_state(stage);
    const uint64_t slots = info->actings * state->budget;
    const uint32_t here = info->layer;
    struct layer_scores s = {.lists = 0};
    if (!state->evicts)
        return KVC_OK;
    enum kvc_status status = make_scores(stage, &s, error);
    if (status == KVC_OK && info->entries == info->now && !strcmp(kvc_value_text(values, "mean"), "on"))
        add_mean(&s);
    if (status == KVC_OK) {
        rank(&s);
        status = store(stage, &s, error);
    }
    free_scores(&s);
    return status == KVC_OK ? divide(stage, values, here, slots, error) : status;
}

const struct kvc_policy_class kvc_policy_kvcompose = {
    .name = "kvcompose",
    .summary = "lets each head keep its own entries, and divides one budget among the layers by their scores",
    .paper = "KVCompose, arXiv:2509.05165",
    .idea =
        "Heads attend to different tokens, but lists of different lengths do not fit into a tensor. So each head "
        "orders "
        "its own entries by score, and the entries of one rank in all heads of a layer form a composite token. All "
        "heads of a layer keep the same number of entries, though of different tokens. Composite tokens of all layers "
        "compete for one budget, so a layer whose scores are high keeps more. The scores come from a second run of the "
        "prompt, as in kvzip.",
    .formula =
        "pseudo token i: the prompt's token i at position n + i; x_jh = the mean over the group's heads of the largest "
        "a_ij over pseudo queries i; mean=on: plus the mean of x_j over the layer's KV heads, while the layer holds "
        "every token; c_r of a layer = the mean over its KV heads of the r-th largest x; the L B largest c over all "
        "layers are kept (the first `least` of each layer come before all others; of equal c the lower layer's); a "
        "layer with n of them keeps the top n by x in each head",
    .memory = "B entries after the prompt, on average over the layers; one more per generated token; and 2 float32 per "
              "entry and KV head. During the prompt, the layers so far hold up to L B in all, and one layer n more. "
              "The rows of this layer are computed at once. The host sorts the scores.",
    .traffic = "B + generated entries per generated token, on average over the layers",
    .differences =
        "Entries are evicted while the prompt passes through the layers; kvpress evicts after the last layer and holds "
        "the prompt twice. kvpress gives the first layer, rank by rank, the largest c of all layers, so that it is the "
        "longest; here no layer is treated differently. Tasks that replace the second run, the length of the value as "
        "a factor, and separate lengths of the heads (not structured) are left out. A budget given as a share is a "
        "share of the longest layer's entries. A pipeline of processes (`--ranks pipeline`) is refused.",
    .second_turn =
        "Repeats the turn's tokens after its prompt, and chooses among old and new entries. Where heads hold "
        "different tokens, no mean is added. Nothing is repeated if no layer holds more than B.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .check = compose_check,
    .state_bytes = state_bytes,
    .state_fits = state_fits,
    .columns = compose_columns,
    .reads_layers = reads_layers,
    /* this bound holds for the mean over the layers; a single layer may hold more */
    .forecast = &(const struct kvc_forecast){.bound = compose_bound, .ragged = KVC_RAGGED_LAYERS},
    .pseudo = compose_pseudo,
    .prompt = compose_prompt};
