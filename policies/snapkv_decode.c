/* snapkv_decode.c - chooses entries as `snapkv` does, again after every n decode steps
 * (docs/reference/methods/snapkv-decode.md). */
#include "policies/policies.h"

static const struct kvc_option options[] = {KVC_BUDGET_OPTION("entries kept per KV head, window included"),
                                            {"window", KVC_OPTION_INT, "32", 1, 4096, NULL,
                                             "newest tokens; their queries vote, and their entries are always kept"},
                                            KVC_EVERY_OPTION("64"),
                                            KVC_KERNEL_OPTION("7"),
                                            KVC_POOLING_OPTION("max"),
                                            KVC_OPTIONS_END};

/* Writes the rows of the prompt's last queries. The scores use them until `window` decode steps have
 * overwritten them. */
static enum kvc_status snapkv_decode_observe(struct kvc_stage *stage, const struct kvc_values *values,
                                             struct kvc_error *error) {
    return kvc_every_observe(stage, values, KVC_ROW_PROBABILITIES, error);
}

static enum kvc_status snapkv_decode_decode(struct kvc_stage *stage, const struct kvc_values *values,
                                            struct kvc_error *error) {
    struct kvc_scores *scores;
    const enum kvc_status status = kvc_every_scores(stage, values, KVC_ROW_PROBABILITIES, &scores, error);
    return status == KVC_OK && scores ? kvc_every_keep(stage, values, scores, error) : status;
}

const struct kvc_policy_class kvc_policy_snapkv_decode = {
    .name = "snapkv-decode",
    .summary = "repeats snapkv's choice at intervals in decode",
    .paper = "SnapKV, arXiv:2404.14469; in decode steps as in kvpress (DecodingPress)",
    .idea = "A long answer moves away from the entries that the prompt's last queries attended to. Every `every` "
            "decode steps, the last queries vote as in snapkv, over all entries held: those of the prompt and those of "
            "the answer. The entries with the lowest scores are evicted. The cache grows between two evictions.",
    .formula = "in the n-th, 2n-th, ... decode step (n = every): score_j = pool(sum over the last w queries i and the "
               "group's heads of a_ij), over all but the last w entries; kept = top B - w, and the last w",
    .memory = "B entries after an eviction, up to every - 1 more before the next, and w float32 per entry and KV head "
              "for the rows of the last queries",
    .traffic = "B + (every + 1) / 2 entries per generated token on average; each eviction reads all w rows",
    .differences = "A query's votes are the probabilities that its attention computed, over the entries held at that "
                   "time; kvpress computes the votes again at the eviction, over the entries held then. Queries of the "
                   "prompt vote while they are among the last w; in kvpress only queries of decode steps vote.",
    .second_turn = "The turn's prompt evicts nothing, and its last queries vote as those of the first turn do. Steps "
                   "count from its end.",
    .stages = KVC_STAGE_DECODE,
    .options = options,
    .trial = "window=8,every=4",
    .check = kvc_check_window,
    .queries = kvc_window_queries,
    .columns = kvc_window_queries,
    .surplus = kvc_every,
    .forecast = &kvc_every_forecast,
    .observe_prompt = snapkv_decode_observe,
    .decode = snapkv_decode_decode};
