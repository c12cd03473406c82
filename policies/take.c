/* take.c - reads a prompt chunk by chunk into a bounded cache. The question's tokens are computed with every chunk as
 * probes (docs/reference/methods/take.md). */
#include "policies/policies.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head after every chunk"),
    {"warmup_budget", KVC_OPTION_BUDGET, "", 1, KVC_BUDGET_MOST, NULL,
     "entries that the warm-up layers keep before the last chunk; default: four times the budget"},
    {"warmup_layers", KVC_OPTION_INT, "-1", -1, 1 << 20, NULL,
     "W: number of lower layers that keep what layer W-1 chooses; -1: half of the layers"},
    {"chunk", KVC_OPTION_INT, "4096", 1, 1 << 24, NULL, "Z: tokens of the prompt read at once"},
    {"probe", KVC_OPTION_INT, "32", 1, 4096, NULL, "p: last tokens of the prompt, run with every chunk"},
    {"alpha", KVC_OPTION_REAL, "0.32", 0, 1, NULL, "weight of the probe accumulated so far"},
    KVC_KERNEL_OPTION("7"),
    KVC_POOLING_OPTION("max"),
    {"probe_pos", KVC_OPTION_CHOICE, "chunk", 0, 0, "chunk|end",
     "probes use the positions after the chunk, or their true positions"},
    {"probe_sees", KVC_OPTION_CHOICE, "probes", 0, 0, "chunk|probes",
     "probes attend to the entries held and the chunk, or also to themselves and the probes before them"},
    {"probe_from", KVC_OPTION_CHOICE, "prompt", 0, 0, "prompt|chunk",
     "prompt: the probe is the prompt's last tokens, run with every chunk; chunk: the probe is the last tokens of each "
     "chunk, without accumulation"},
    {"average", KVC_OPTION_CHOICE, "rotated", 0, 0, "rotated|unrotated",
     "queries are averaged after their rotation, or before it and then rotated to the probe's positions in the chunk"},
    {"first", KVC_OPTION_CHOICE, "whole", 0, 0, "whole|share",
     "the first chunk's queries are the average so far, or enter it with the factor 1 - alpha"},
    {"question", KVC_OPTION_CHOICE, "score", 0, 0, "score|keep",
     "the probe's own entries are kept by their scores, or always (the budget must then be above probe)"},
    KVC_PER_HEAD_OPTION("one selection per KV head, or per query head"),
    KVC_POSITIONS_OPTION,
    KVC_OPTIONS_END};

static bool is_choice(const struct kvc_values *values, const char *option, const char *choice) {
    return !strcmp(kvc_value_text(values, option), choice);
}

/* Returns the number of entries at the prompt's end that are always kept. */
static uint64_t question_of(const struct kvc_values *values) {
    return is_choice(values, "question", "keep") ? (uint64_t)kvc_value_int(values, "probe") : 0;
}

static uint64_t budget_of(const struct kvc_values *values, uint64_t held) {
    return kvc_budget(values, held, question_of(values));
}

static uint64_t warmup_budget(const struct kvc_values *values, uint64_t held) {
    const uint64_t budget = budget_of(values, held);
    if (!kvc_value_given(values, "warmup_budget"))
        return 4 * budget;
    return kvc_max_u64(kvc_value_budget(values, "warmup_budget", held, 1), budget);
}

static uint32_t warmup_layers(const struct kvc_values *values, uint32_t layers) {
    const int64_t given = kvc_value_int(values, "warmup_layers");
    return given < 0 ? layers / 2 : (uint32_t)given;
}

/* Refuses options for positions in the text if keys have cache positions. */
static enum kvc_status check_positions(const struct kvc_values *values, struct kvc_error *error) {
    static const char *const needed[][2] = {{"probe_pos", "chunk"}, {"average", "rotated"}};
    for (size_t i = 0; kvc_positions_in_cache(values) && i < sizeof needed / sizeof *needed; i++)
        if (!is_choice(values, needed[i][0], needed[i][1]))
            return kvc_fail(error, KVC_USAGE, "policy take: %s=%s: must be %s with positions=cache", needed[i][0],
                            kvc_value_text(values, needed[i][0]), needed[i][1]);
    return KVC_OK;
}

static enum kvc_status take_check(const struct kvc_values *values, struct kvc_error *error) {
    const bool share = kvc_value_is_share(values, "budget"), warmup_share = kvc_value_is_share(values, "warmup_budget");
    const int64_t warmup = kvc_value_int(values, "warmup_budget"), budget = kvc_value_int(values, "budget");
    if (share && warmup_share && kvc_value_real(values, "warmup_budget") < kvc_value_real(values, "budget"))
        return kvc_fail(error, KVC_USAGE,
                        "policy take: warmup_budget=%.60s: must be at least budget=%.60s, at most 100%%",
                        kvc_value_text(values, "warmup_budget"), kvc_value_text(values, "budget"));
    if (kvc_value_given(values, "warmup_budget") && !share && !warmup_share && warmup < budget)
        return kvc_fail(error, KVC_USAGE, "policy take: warmup_budget=%lld: must be at least budget=%lld, at most %.0f",
                        (long long)warmup, (long long)budget, KVC_BUDGET_MOST);
    enum kvc_status status = kvc_check_one_budget(values, error);
    if (status == KVC_OK)
        status = kvc_check_kernel(values, error);
    if (status == KVC_OK)
        status = check_positions(values, error);
    return status == KVC_OK && question_of(values) ? kvc_check_above(values, "probe", error) : status;
}

static enum kvc_status check_model(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                   const bool *acts, struct kvc_error *error) {
    const uint32_t W = warmup_layers(values, geometry->layers);
    if (W > geometry->layers)
        return kvc_fail(error, KVC_USAGE, "policy take: warmup_layers=%u: must be 0 to %u, the model's layers", W,
                        geometry->layers);
    if (W > 0 && !acts[W - 1])
        return kvc_fail(
            error, KVC_USAGE,
            "policy take: warmup_layers=%u: layer %u chooses for those below it; skip_layers and layers must "
            "leave it in",
            W, W - 1);
    return KVC_OK;
}

/* Returns true if the last tokens of a chunk are its probe. */
static bool own_probe(const struct kvc_values *values) { return is_choice(values, "probe_from", "chunk"); }

static void chunking(const struct kvc_values *values, struct kvc_chunking *chunking) {
    chunking->chunk = (uint32_t)kvc_value_int(values, "chunk");
    chunking->probe = (uint32_t)kvc_value_int(values, "probe");
    chunking->at_end = is_choice(values, "probe_pos", "end");
    chunking->together = is_choice(values, "probe_sees", "probes");
    chunking->own = own_probe(values);
}

static uint64_t between(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt) {
    return context->layer < warmup_layers(values, context->layers) ? warmup_budget(values, prompt)
                                                                   : budget_of(values, prompt);
}

/* Returns the layer that chooses the entries of `layer`: layer W-1 for the first W layers, otherwise the layer itself.
 * W is the number of warm-up layers. */
static uint32_t decider(const struct kvc_values *values, const struct kvc_layer_context *context) {
    const uint32_t W = warmup_layers(values, context->layers);
    return context->layer < W ? W - 1 : context->layer;
}

static uint64_t take_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return budget_of(values, prompt) + steps;
}

/* ---- the layers below keep the positions that layer W-1 chose ---- */

struct chosen { /* the positions that one layer keeps, [heads] */
    int32_t **positions;
    size_t *counts;
    uint32_t heads;
};

static void free_chosen(struct chosen *chosen) {
    for (uint32_t h = 0; chosen->positions && h < chosen->heads; h++)
        free(chosen->positions[h]);
    free(chosen->positions);
    free(chosen->counts);
}

static enum kvc_status read_chosen(struct kvc_stage *stage, struct chosen *chosen, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    *chosen = (struct chosen){calloc(info->kv_heads, sizeof *chosen->positions),
                              calloc(info->kv_heads, sizeof *chosen->counts), info->kv_heads};
    enum kvc_status status = chosen->positions && chosen->counts ? KVC_OK : KVC_RESOURCE;
    for (uint32_t h = 0; h < info->kv_heads && status == KVC_OK; h++) {
        chosen->positions[h] = malloc(info->entries * sizeof **chosen->positions + 1);
        if (!chosen->positions[h])
            status = KVC_RESOURCE;
        else
            status = kvc_stage_read_positions(stage, h, chosen->positions[h], info->entries, &chosen->counts[h], error);
    }
    return status == KVC_RESOURCE ? kvc_fail(error, KVC_RESOURCE, "no memory for the chosen positions") : status;
}

/* Evicts from layers 0 to W-2 all positions that layer W-1 has not kept. In a first turn, all these layers hold the
 * same positions before the eviction. */
static enum kvc_status apply_below(struct kvc_stage *stage, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    struct chosen chosen = {NULL, NULL, 0};
    const uint32_t top = info->layer;
    KVC_ASSERT(top < info->layers);
    enum kvc_status status = read_chosen(stage, &chosen, error);
    for (uint32_t l = 0; l < top && status == KVC_OK; l++) {
        if (!kvc_stage_acts(stage, l))
            continue;
        status = kvc_stage_layer(stage, l, error);
        if (status == KVC_OK)
            status = kvc_stage_keep_positions(stage, (const int32_t *const *)chosen.positions, chosen.counts, error);
    }
    free_chosen(&chosen);
    return status;
}

static enum kvc_status take_chunk(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint32_t W = warmup_layers(values, info->layers);
    if (info->layer + 1 < W)
        return KVC_OK;
    const bool warm = info->layer + 1 == W;
    KVC_ASSERT(W <= info->layers);
    const uint64_t budget =
        warm && !info->last_chunk ? warmup_budget(values, info->held) : budget_of(values, info->held);
    const struct kvc_probe_average average = {.alpha =
                                                  own_probe(values) ? 0.0f : (float)kvc_value_real(values, "alpha"),
                                              .from_zero = is_choice(values, "first", "share"),
                                              .before_rotation = is_choice(values, "average", "unrotated")};
    struct kvc_scores *scores;
    if (info->entries <= budget) /* nothing is evicted yet, but the probe's attention accumulates in every chunk */
        return kvc_stage_probe_mass(stage, &average, NULL, error);
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_probe_mass(stage, &average, scores, error);
    if (status != KVC_OK)
        return status;
    status = kvc_stage_pool(stage, scores, 0, (uint32_t)kvc_value_int(values, "kernel"), kvc_pooling_of(values), error);
    if (status != KVC_OK)
        return status;
    struct kvc_keep keep = {.top = budget, .limit = budget, .recent = INT64_MAX, .scores = scores};
    if (info->last_chunk && question_of(values)) {
        keep.top = 0;
        keep.fill = budget;
        keep.recent = (int64_t)info->now - (int64_t)question_of(values);
    }
    status = kvc_stage_keep(stage, &keep, error);
    return status == KVC_OK && warm ? apply_below(stage, error) : status;
}

const struct kvc_policy_class kvc_policy_take = {
    .name = "take",
    .summary = "reads the prompt chunk by chunk and evicts after each chunk",
    .paper = "TAKE: Task-Aware Chunked KV Cache Eviction for efficient long-context prefill",
    .idea = "The prompt is read in chunks. After each chunk, only entries that the question at the prompt's end "
            "attends to are kept, so even prefill runs in bounded memory. The question's last tokens run with every "
            "chunk as probes. Their queries, averaged over the chunks, score the entries held. The scores of the lower "
            "layers say little, so these layers keep what one layer in the middle chooses.",
    .formula = "A_i = alpha*A_(i-1) + (1-alpha)*Q_i; score = pool(mean over the probe of softmax(A_i K^T/sqrt(d)), "
               "summed over the group); kept = top B (warm-up layers: the entries that layer W-1 keeps, top "
               "warmup_budget before the last chunk)",
    .memory = "at most chunk + budget (or warmup_budget) entries in every layer at any time of prefill, plus "
              "p entries with probe_sees=probes; B entries after the prompt, one more per generated token; with "
              "positions=cache d more float32 per entry and list",
    .traffic = "B + generated entries per generated token",
    .differences =
        "Each KV head has one selection, from its group's sum. With per=head, each query head has one, as in the "
        "paper. The paper pools by an average, and appends the probe to each chunk without saying whether its tokens "
        "attend to each other. probe_sees=chunk,pooling=avg,kernel=5 follows its text literally. The defaults keep "
        "more of a fact: with probe_sees=probes, the queries that score a chunk are those of a whole question, and "
        "pooling=max,kernel=7 (snapkv's) keeps a fact if a few entries have high scores (docs/measured/take.md). The "
        "paper sets warmup_budget by the context's length, and states one value: 10240 for 128,000 tokens at B = "
        "512, which is 20 B and 8 % of the prompt (warmup_budget=8%); the default is 4 B, for less memory. The paper "
        "uses alpha = 0.32 for needles in a haystack and 0.2 for LongBench. Its equation 9 does not say whether "
        "queries are rotated before they are averaged (average=), and what the average is before the first chunk "
        "(first=). question=keep always keeps those of the probe's own entries that are in the last chunk. The "
        "paper's ablations are probe_from=chunk (without probe), warmup_layers=0 (without delay) and both options "
        "(chunk only). The paper does not say which queries score a chunk in the ablation without probe.",
    .second_turn = "The turn is read chunk by chunk, and its tokens attend to the entries held. The probe is the "
                   "turn's last tokens, accumulated from the turn's first chunk on. During that first chunk a layer "
                   "also holds the entries generated before, so it holds up to chunk + budget + generated entries.",
    .stages = KVC_STAGE_CHUNK,
    .options = options,
    .trial = "chunk=64,probe=8",
    .check = take_check,
    .check_model = check_model,
    .per_head = kvc_per_head,
    .cache_positions = kvc_positions_in_cache,
    .forecast = &(const struct kvc_forecast){.bound = take_bound, .between = between},
    .chunking = chunking,
    .decider = decider,
    .chunk = take_chunk};
