/* finch.c - keeps the entries that the question at the prompt's end attends to, with a vote of equal weight for every
 * query (docs/reference/methods/finch.md). */
#include "policies/policies.h"

#include "core/base/assert.h"
#include "core/base/canon.h"

#include <stdlib.h>
#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, window included"),
    KVC_WINDOW_OPTION("32", 1 << 20),
    {"normalize", KVC_OPTION_CHOICE, "on", 0, 0, "on|off",
     "multiply a query's probabilities by the number of entries that it sees"},
    {"chunk", KVC_OPTION_INT, "0", 0, 1 << 24, NULL,
     "entries of a chunk, of which each keeps its share of the budget; 0: all entries compete"},
    KVC_POSITIONS_OPTION,
    KVC_OPTIONS_END};

static enum kvc_status finch_check(const struct kvc_values *values, struct kvc_error *error) {
    return kvc_check_above(values, "window", error);
}

/* ---- chunks: the host chooses, because the rules of struct kvc_keep know no chunks ---- */

/* Writes the ascending indices of the entries that a list of `count` entries keeps: the best of each chunk before the
 * window, and the window. Returns the number of indices. `ranked` [count] is scratch. */
static uint32_t choose(const float *scores, uint64_t count, uint64_t budget, uint64_t window, uint64_t chunk,
                       struct kvc_ranked *ranked, uint32_t *kept) {
    const uint64_t older = count > budget ? count - window : 0, top = budget - window;
    uint32_t n = 0;
    for (uint64_t from = 0, end; from < older; from = end) {
        end = kvc_min_u64(from + chunk, older);
        const uint64_t share = top * end / older - top * from / older;
        KVC_ASSERT(share <= end - from);
        kvc_rank_scores(scores + from, (uint32_t)(end - from), ranked);
        for (uint64_t i = 0; i < share; i++)
            kept[n++] = (uint32_t)from + ranked[i].index;
    }
    kvc_sort_indices(kept, n);
    for (uint64_t i = older; i < count; i++)
        kept[n++] = (uint32_t)i;
    return n;
}

static enum kvc_status keep_chunks(struct kvc_stage *stage, const struct kvc_scores *scores, uint64_t budget,
                                   uint64_t window, uint64_t chunk, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    float *read = malloc(info->entries * sizeof *read);
    struct kvc_ranked *ranked = malloc(info->entries * sizeof *ranked);
    uint32_t *kept = malloc(info->entries * sizeof *kept);
    enum kvc_status status = KVC_OK;
    if (!read || !ranked || !kept)
        status = kvc_fail(error, KVC_RESOURCE, "no memory to rank %llu entries", (unsigned long long)info->entries);
    for (uint32_t h = 0; h < info->kv_heads && status == KVC_OK; h++) {
        size_t held = 0;
        status = kvc_stage_read_scores(stage, scores, h, read, info->entries, &held, error);
        if (status == KVC_OK)
            status = kvc_stage_plan(stage, h, kept, choose(read, held, budget, window, chunk, ranked, kept), error);
    }
    free(read);
    free(ranked);
    free(kept);
    return status == KVC_OK ? kvc_stage_keep_planned(stage, error) : status;
}

static enum kvc_status finch_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = kvc_window_budget(values, info->held), chunk = (uint64_t)kvc_value_int(values, "chunk");
    const uint32_t window = kvc_window_rows(values, info);
    const bool normalize = !strcmp(kvc_value_text(values, "normalize"), "on");
    struct kvc_scores *scores;
    if (info->entries <= budget)
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = normalize ? kvc_stage_counted_mass(stage, window, scores, error)
                           : kvc_stage_window_mass(stage, window, scores, error);
    if (status != KVC_OK)
        return status;
    if (chunk)
        return keep_chunks(stage, scores, budget, window, chunk, error);
    const struct kvc_keep keep = kvc_window_rule(budget, window, scores);
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_finch = {
    .name = "finch",
    .summary = "keeps the entries that the question at the prompt's end attends to, chunk by chunk",
    .paper = "Finch, arXiv:2408.00167",
    .idea = "The prompt ends with a question, whose queries decide which entries of the text are kept. A query that "
            "sees many entries gives each of them less attention on average than one that sees few. So each query's "
            "probabilities are multiplied by the number of entries that it sees. With chunk=n, every part of the text "
            "keeps the same share of its entries.",
    .formula =
        "score_j = sum over the window's queries i and the group's heads of exp(s_ij - max_i) / (L_i / n_i), where L_i "
        "is the sum of the softmax and n_i the number of entries held that query i sees, its own included "
        "(normalize=off: a_ij); kept = the last w, and the top B - w of the older ones. With chunk=n, the m older "
        "entries are cut into chunks of n, and of the chunk from entry f to entry e - 1 the top floor((B - w) e / m) - "
        "floor((B - w) f / m) are kept",
    .memory = "B entries after the prompt, one more per generated token; with positions=cache d more float32 per entry "
              "and KV head",
    .traffic = "B + generated entries per generated token",
    .differences =
        "The window is a number of tokens: set it to the length of the question, which kvpress finds by a delimiter. "
        "The paper reads the text chunk by chunk, with the question after each chunk, and chooses among the entries "
        "kept so far and the new chunk; here the whole prompt is read first, as in kvpress's FinchPress. The method "
        "take bounds the memory of prefill as the paper does; take:alpha=0,kernel=1,warmup_layers=0 is its choice "
        "without normalization. The paper and kvpress rotate kept keys to their positions in the cache "
        "(positions=cache); the default keeps their positions, as other methods do. kvpress leaves a query's own entry "
        "out of n_i. Its chunks include the window, which then takes space from the last chunk, and each chunk's share "
        "is rounded down by itself.",
    .second_turn = "As snapkv: the queries of the turn's last tokens choose among old and new entries.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .trial = "window=8",
    .check = finch_check,
    .queries = kvc_window_queries,
    .cache_positions = kvc_positions_in_cache,
    .forecast = &kvc_window_forecast,
    .prompt = finch_prompt};
