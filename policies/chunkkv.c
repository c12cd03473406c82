/* chunkkv.c - keeps or evicts whole chunks of neighbouring entries, by another method's scores
 * (docs/reference/methods/chunkkv.md). */
#include "policies/policies.h"

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, window included"),
    {"window", KVC_OPTION_INT, "32", 0, 1 << 20, NULL,
     "last tokens of the prompt; their queries vote, and their entries are always kept"},
    {"chunk", KVC_OPTION_INT, "10", 1, 1 << 20, NULL, "entries of a chunk"},
    {"scorer", KVC_OPTION_CHOICE, "snapkv", 0, 0, "snapkv|knorm|keydiff|random",
     "method whose scores are averaged; snapkv's are not pooled"},
    KVC_OPTIONS_END};

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
    if (status == KVC_OK)
        status =
            kvc_stage_pool(stage, scores, window, (uint32_t)kvc_value_int(values, "chunk"), KVC_POOL_CHUNKS, error);
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
               "entries are kept, as many as B leaves room for",
    .memory = "B entries after the prompt, one more per generated token",
    .traffic = "B + generated entries per generated token",
    .differences = "The budget is filled; the authors' code keeps whole chunks only. Each KV head chooses its chunks; "
                   "kvpress adds the scores of all heads. Layers do not share indices.",
    .second_turn = "Old and new entries are cut into chunks again. The last min(w, its tokens) queries vote.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .trial = "window=8,chunk=4",
    .check = kvc_check_scorer,
    .queries = kvc_window_queries,
    .forecast = &kvc_window_forecast,
    .prompt = chunkkv_prompt};
