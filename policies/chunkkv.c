/* chunkkv.c - keeps or evicts whole chunks of neighbouring entries, by another method's scores
 * (docs/reference/methods/chunkkv.md). */
#include "policies/policies.h"

#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, window included"),
    {"window", KVC_OPTION_INT, "32", 0, 1 << 20, NULL,
     "last tokens of the prompt; their queries vote, and their entries are always kept"},
    {"chunk", KVC_OPTION_INT, "10", 1, 1 << 20, NULL, "entries of a chunk"},
    {"scorer", KVC_OPTION_CHOICE, "snapkv", 0, 0, "snapkv|knorm|keydiff|random",
     "method whose scores are averaged; snapkv's are not pooled"},
    {"per", KVC_OPTION_CHOICE, "group", 0, 0, "group|layer",
     "one choice of chunks per KV head, or one per layer from the sum of its heads' scores"},
    {"gate", KVC_OPTION_INT, "0", 0, (1 << 20) - 1, NULL,
     "entries kept of an important chunk whose importance comes from few of its entries; 0: the whole chunk"},
    KVC_OPTIONS_END};

static uint32_t chunkkv_int(const struct kvc_values *values, const char *name) {
    return (uint32_t)kvc_value_int(values, name);
}

static enum kvc_status chunkkv_check(const struct kvc_values *values, struct kvc_error *error) {
    if (chunkkv_int(values, "gate") > 0 && chunkkv_int(values, "gate") >= chunkkv_int(values, "chunk"))
        return kvc_fail(error, KVC_USAGE, "policy: gate=%u: must be below chunk=%u", chunkkv_int(values, "gate"),
                        chunkkv_int(values, "chunk"));
    return kvc_check_scorer(values, error);
}

/* Keeps the window and the best chunks. If an important chunk has uneven scores, only its best `gate` entries receive
 * the chunk's score. */
static enum kvc_status keep_gated(struct kvc_stage *stage, const struct kvc_values *values, uint64_t budget,
                                  uint32_t window, const struct kvc_scores *scores, struct kvc_error *error) {
    struct kvc_scores *gated;
    enum kvc_status status = kvc_stage_scores(stage, &gated, error);
    if (status == KVC_OK)
        status = kvc_chunk_gate(stage, scores, window, chunkkv_int(values, "chunk"), chunkkv_int(values, "gate"), gated,
                                error);
    if (status != KVC_OK)
        return status;
    struct kvc_keep keep = kvc_window_rule(budget, window, gated);
    keep.ties = scores;
    return kvc_stage_keep(stage, &keep, error);
}

static enum kvc_status chunkkv_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                      struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint32_t window = kvc_window_rows(values, info);
    const uint64_t budget = kvc_window_budget(values, info->held);
    struct kvc_scores *scores;
    if (info->entries <= budget)
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_scorer_scores(stage, values, window, scores, error);
    if (status == KVC_OK && !strcmp(kvc_value_text(values, "per"), "layer"))
        status = kvc_stage_layer_sum(stage, scores, error);
    if (status == KVC_OK && chunkkv_int(values, "gate") > 0)
        return keep_gated(stage, values, budget, window, scores, error);
    if (status == KVC_OK)
        status = kvc_stage_pool(stage, scores, window, chunkkv_int(values, "chunk"), KVC_POOL_CHUNKS, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = kvc_window_rule(budget, window, scores);
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_chunkkv = {
    .name = "chunkkv",
    .summary = "keeps or evicts neighbouring entries together, by another method's scores",
    .paper = "ChunkKV, arXiv:2502.00299",
    .idea = "A word has several tokens, and a statement several words, so a single entry says little. The prompt is "
            "cut into chunks of neighbours. A chunk's score is the mean score of its entries. The best chunks are kept "
            "whole, together with the window.",
    .formula = "s_j: snapkv's window mass, or the score of knorm, keydiff or random (`scorer`); chunks of `chunk` "
               "entries from the first entry on, without the last w; the last chunk may be shorter; score_j = the mean "
               "of s over j's chunk; kept = top B - w, and the last w; of the last chunk that is taken, only the first "
               "entries are kept, as many as B leaves room for. per=layer: s_j is summed over the layer's KV heads. "
               "gate=g: E_c = -sum p log(p + 1e-8) / log(entries of c), p_j = (s_j - m) / (1e-8 + the sum of s - m), m "
               "the least of 0 and c's s; of the chunks whose score is at least the median and whose E is below the "
               "median, only the g entries of highest s rank with the chunk, and the others rank below all chunks; of "
               "equal ranks the higher s is kept first; of two medians the lower one counts",
    .memory = "B entries after the prompt, one more per generated token",
    .traffic = "B + generated entries per generated token",
    .differences =
        "The budget is filled; the authors' code keeps whole chunks only. Each KV head chooses its chunks; kvpress "
        "adds the scores of all heads, as per=layer does (keydiff's scores are its cosines times a number of each "
        "head, so there the sums differ). Layers do not share indices. The gate is not in the paper but in kvpress "
        "(EntropyGatedChunkKVPress, chunk=10 and gate=4). Its medians leave the window out. The host computes it, once "
        "per layer and prompt, and chunks of equal score are told apart by the scores of their entries.",
    .second_turn = "Old and new entries are cut into chunks again. The last min(w, its tokens) queries vote.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .trial = "window=8,chunk=4",
    .check = chunkkv_check,
    .queries = kvc_window_queries,
    .forecast = &kvc_window_forecast,
    .prompt = chunkkv_prompt};
