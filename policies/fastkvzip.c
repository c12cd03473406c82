/* fastkvzip.c - keeps the entries that small gates score highest from hidden states
 * (docs/reference/methods/fastkvzip.md). */
#include "policies/policies.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/canon.h"

enum { COLUMN = 0, LONG = 32000, LONG_WINDOW = 4096, SHARE = 50 };

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head: the mean over the heads that share a budget"),
    {"file", KVC_OPTION_TEXT, NULL, 0, 0, "drawn",
     "gates of the model: a file that tools/fastkvzip_file.py wrote, or a folder with it as model.safetensors; drawn: "
     "random gates instead of a file, to try the method on any model"},
    {"per", KVC_OPTION_CHOICE, "model", 0, 0, "model|layer|head",
     "the heads that share a budget: those of all layers, those of a layer, or each has its own"},
    KVC_SINKS_OPTION("4"),
    {"window", KVC_OPTION_INT, "", 1, KVC_BUDGET_MOST, NULL,
     "newest entries, which are always kept; default: a fiftieth of the entries, or 4096 from 32000 entries on"},
    KVC_OPTIONS_END};

static bool is_per(const struct kvc_values *values, const char *what) {
    return !strcmp(kvc_value_text(values, "per"), what);
}

static const char *gates_predictor(const struct kvc_values *values) { return kvc_value_text(values, "file"); }

static uint32_t gates_columns(const struct kvc_values *values) {
    (void)values;
    return 1;
}

/* ---- the budget ---- */

struct rule {
    uint64_t budget, sinks, window; /* the budget includes the others */
};

static enum kvc_status gates_check(const struct kvc_values *values, struct kvc_error *error) {
    const int64_t sinks = kvc_value_int(values, "sinks");
    const int64_t window = kvc_value_given(values, "window") ? kvc_value_int(values, "window") : 1;
    if (!is_per(values, "layer") && !is_per(values, "head")) {
        const enum kvc_status status = kvc_check_one_budget(values, error);
        if (status != KVC_OK)
            return status;
    }
    if (kvc_value_is_share(values, "budget") || kvc_value_int(values, "budget") > sinks + window)
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "policy: budget=%lld: must be above %lld, sinks=%lld and window=%lld",
                    (long long)kvc_value_int(values, "budget"), (long long)(sinks + window), (long long)sinks,
                    (long long)window);
}

/* Without the option, the window is at most what the budget leaves beside the sinks and one entry. */
static struct rule rule_of(const struct kvc_values *values, uint64_t held) {
    struct rule rule = {.sinks = (uint64_t)kvc_value_int(values, "sinks")};
    const bool given = kvc_value_given(values, "window");
    rule.window =
        given ? (uint64_t)kvc_value_int(values, "window") : (held < LONG ? kvc_max_u64(1, held / SHARE) : LONG_WINDOW);
    rule.budget = kvc_budget(values, held, rule.sinks + rule.window);
    if (!given)
        rule.window = kvc_min_u64(rule.window, rule.budget - rule.sinks - 1);
    return rule;
}

static uint64_t gates_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return rule_of(values, prompt).budget + steps;
}

static const struct kvc_forecast *gates_forecasts(const struct kvc_values *values) {
    static const struct kvc_forecast model = {.bound = gates_bound, .ragged = KVC_RAGGED_MODEL},
                                     layer = {.bound = gates_bound, .ragged = KVC_RAGGED_HEADS},
                                     head = {.bound = gates_bound};
    return is_per(values, "model") ? &model : is_per(values, "layer") ? &layer : &head;
}

static bool reads_layers(const struct kvc_values *values) { return is_per(values, "model"); }

/* ---- the division among heads ---- */

struct pool {
    struct kvc_ranked *entry; /* entries outside sinks and windows, with the index of their list */
    size_t count;
    uint32_t lists;  /* of the layers so far */
    uint64_t forced; /* entries in sinks and windows */
};

static enum kvc_status stored_scores(struct kvc_stage *stage, uint32_t layer, struct kvc_scores **scores,
                                     struct kvc_error *error) {
    enum kvc_status status = kvc_stage_layer(stage, layer, error);
    if (status == KVC_OK)
        status = kvc_stage_scores(stage, scores, error);
    return status == KVC_OK ? kvc_stage_column_scores(stage, COLUMN, 1, *scores, error) : status;
}

/* Adds the entries of a list, with scores x [held], to the pool. */
static enum kvc_status add_list(const struct rule *rule, const float *x, size_t held, struct pool *pool,
                                struct kvc_error *error) {
    struct kvc_ranked *grown = realloc(pool->entry, (pool->count + held) * sizeof *grown + 1);
    if (!grown)
        return kvc_fail(error, KVC_RESOURCE, "no memory for the scores of %zu entries", pool->count + held);
    pool->entry = grown;
    for (size_t j = rule->sinks; j + rule->window < held; j++)
        pool->entry[pool->count++] = (struct kvc_ranked){kvc_score_key(x[j]), pool->lists};
    pool->forced += kvc_min_u64(held, rule->sinks + rule->window);
    pool->lists++;
    return KVC_OK;
}

/* Adds the entries of a layer to the pool. */
static enum kvc_status add_layer(struct kvc_stage *stage, const struct rule *rule, uint32_t layer, struct pool *pool,
                                 struct kvc_error *error) {
    struct kvc_scores *scores;
    enum kvc_status status = stored_scores(stage, layer, &scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const size_t most = info->now; /* the longest list may differ between ranks, which must give the same number */
    float *x = malloc(most * sizeof *x);
    if (!x)
        return kvc_fail(error, KVC_RESOURCE, "no memory for the scores of %zu entries", most);
    for (uint32_t h = 0; h < info->model_lists && status == KVC_OK; h++) {
        size_t held = 0;
        status = kvc_stage_read_any_scores(stage, scores, h, x, most, &held, error);
        if (status == KVC_OK)
            status = add_list(rule, x, held, pool, error);
    }
    free(x);
    return status;
}

/* Keeps the `top` best entries of each list of a layer, besides sinks and window. *top moves to the next layer. */
static enum kvc_status keep_layer(struct kvc_stage *stage, const struct rule *rule, uint32_t layer,
                                  const uint64_t **top, struct kvc_error *error) {
    struct kvc_scores *scores;
    enum kvc_status status = stored_scores(stage, layer, &scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t *own = *top + info->first_list;
    *top += info->model_lists;
    struct kvc_keep *keep = calloc(info->kv_heads, sizeof *keep);
    if (!keep)
        return kvc_fail(error, KVC_RESOURCE, "no memory for the budgets of %u heads", info->kv_heads);
    for (uint32_t h = 0; h < info->kv_heads; h++)
        keep[h] = (struct kvc_keep){
            .first = rule->sinks, .tail = rule->window, .top = own[h], .recent = INT64_MAX, .scores = scores};
    status = kvc_stage_keep_heads(stage, keep, error);
    free(keep);
    return status;
}

/* Keeps the best `slots` entries of the layers `from` to `here` together, sinks and windows included. With per=model,
 * later layers only take slots away, so the result after the last layer is the same as if nothing had been evicted
 * before. */
static enum kvc_status divide(struct kvc_stage *stage, const struct rule *rule, uint32_t from, uint32_t here,
                              uint64_t slots, struct kvc_error *error) {
    struct pool pool = {.entry = NULL};
    enum kvc_status status = KVC_OK;
    for (uint32_t l = from; l <= here && status == KVC_OK; l++)
        if (kvc_stage_acts(stage, l))
            status = add_layer(stage, rule, l, &pool, error);
    const uint64_t kept = slots - kvc_min_u64(pool.forced, slots);
    if (status != KVC_OK || pool.count <= kept) {
        free(pool.entry);
        return status;
    }
    uint64_t *tops = calloc(pool.lists, sizeof *tops);
    const uint64_t *top = tops;
    if (!tops)
        status = kvc_fail(error, KVC_RESOURCE, "no memory for the budgets of %u heads", pool.lists);
    kvc_sort_ranked(pool.entry, pool.count);
    for (uint64_t i = 0; tops && i < kept; i++)
        tops[pool.entry[i].index]++;
    for (uint32_t l = from; l <= here && status == KVC_OK; l++)
        if (kvc_stage_acts(stage, l))
            status = keep_layer(stage, rule, l, &top, error);
    free(tops);
    free(pool.entry);
    return status;
}

/* ---- stages ---- */

static enum kvc_status gates_observe(struct kvc_stage *stage, const struct kvc_values *values,
                                     struct kvc_error *error) {
    (void)values;
    return kvc_stage_predict(stage, COLUMN, error);
}

static enum kvc_status gates_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const bool model = is_per(values, "model");
    const struct rule rule = rule_of(values, model ? info->now : info->held); /* with per=model alike in all layers */
    const uint32_t here = info->layer;
    const uint64_t slots = info->model_lists * rule.budget;
    struct kvc_scores *scores;
    if (model && (info->acting + 1) * info->now <= info->actings * rule.budget)
        return KVC_OK;
    if (model)
        return divide(stage, &rule, 0, here, info->actings * slots, error);
    if (info->entries <= rule.budget)
        return KVC_OK;
    if (is_per(values, "layer"))
        return divide(stage, &rule, here, here, slots, error);
    const enum kvc_status status = stored_scores(stage, here, &scores, error);
    const struct kvc_keep keep = {.first = rule.sinks,
                                  .tail = rule.window,
                                  .top = rule.budget - rule.sinks - rule.window,
                                  .limit = rule.budget,
                                  .recent = INT64_MAX,
                                  .scores = scores};
    return status == KVC_OK ? kvc_stage_keep(stage, &keep, error) : status;
}

const struct kvc_policy_class kvc_policy_fastkvzip = {
    .name = "fastkvzip",
    .summary = "keeps the entries that small gates score highest from hidden states",
    .paper = "Fast KVzip, arXiv:2601.17668",
    .idea =
        "kvzip scores an entry by the attention that it gets while the model repeats the text, which costs a second "
        "prefill. A gate imitates that attention: it makes a short query for each head and a short key from the "
        "hidden state of the entry's own token, and compares the key with base keys that stand for all other text. "
        "The gates of a model are trained to predict kvzip's scores. The best scores of all layers and heads share "
        "one budget.",
    .formula =
        "x_j: the hidden state that enters the attention, after the input norm; k_j = norm(V x_j) for each KV head, "
        "q_jh = norm(W x_j + a) for each head h, c channels each, and norms with weights; z_jh = k_j . q_jh / sqrt(c) "
        "+ b_h; p_jh = 1 / (1 + the sum over base keys s of exp(s . q_jh / sqrt(c) - z_jh)); score_j = the mean of "
        "p_jh over the group's heads. The first `sinks` and the last w entries of each list are kept, w being "
        "`window`, by default max(1, floor(N / 50)), from N = 32000 on 4096, and at most B - sinks - 1 (with "
        "per=model, N is the number of all tokens so far). The rest of the budget goes to the highest scores: "
        "per=model: L H_kv B in all; per=layer: H_kv B in each layer; per=head: B in each list. Of equal scores those "
        "of the lower layer, then of the lower head, then of the lower index win",
    .memory =
        "B entries after the prompt, on average over the heads that share a budget; one more per generated token; "
        "each with its score in float32; the gates, as large as the file. With per=model, the layers so far hold up "
        "to L H_kv B in all during the prompt, and one layer N more. Unless per=head, the host sorts the scores.",
    .traffic = "B + generated entries per generated token, on average over the heads that share a budget",
    .differences =
        "Entries are evicted while the prompt passes through the layers; kvpress evicts after the last layer, and "
        "only hides the entries. The paper also evicts while it reads a long prompt in chunks, and during decoding; "
        "here another method can do that, as in fastkvzip:budget=512,file=F+morphkv:budget=512. The authors publish "
        "the gates of some models as Python pickles, which tools/fastkvzip_file.py converts. kvcull does not train "
        "gates. The method was compared with kvpress on random gates, not on these. With per=model, a budget given as "
        "a share is a share of all tokens so far, and a pipeline of processes (`--ranks pipeline`) is refused; "
        "per=layer and per=head work there. A replay has no hidden states and is refused.",
    .second_turn = "Old and new entries compete with the scores that they got when they were new.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .check = gates_check,
    .predictor = gates_predictor,
    .predictor_kind = KVC_PREDICT_GATES,
    .columns = gates_columns,
    .reads_layers = reads_layers,
    .forecasts = gates_forecasts,
    .attended = gates_observe,
    .observe_step = gates_observe,
    .prompt = gates_prompt};
