/* morphkv.c - keeps the cache at a constant size: the most recent queries decide which entries are kept
 * (docs/reference/methods/morphkv.md). */
#include "policies/policies.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, window included (C + R)"),
    {"window", KVC_OPTION_INT, "32", 1, 4096, NULL,
     "R: most recent tokens; their queries vote, and their entries are always kept"},
    {"fusion", KVC_OPTION_CHOICE, "sum", 0, 0, "sum|max", "how the window's votes are combined"},
    {"every", KVC_OPTION_INT, "1", 1, 1 << 20, NULL, "decode steps between evictions"},
    {"scores", KVC_OPTION_CHOICE, "weights", 0, 0, "weights|logits",
     "what a vote is: attention probabilities, or logits"},
    KVC_PER_HEAD_OPTION("one list of entries per KV head, or one per query head, which multiplies the cache by G"),
    KVC_OPTIONS_END};

static enum kvc_status morphkv_check(const struct kvc_values *values, struct kvc_error *error) {
    return kvc_check_above(values, "window", error);
}

static uint32_t window_of(const struct kvc_values *values) { return (uint32_t)kvc_value_int(values, "window"); }

static uint32_t surplus(const struct kvc_values *values) { return (uint32_t)kvc_value_int(values, "every"); }

static enum kvc_row_kind kind_of(const struct kvc_values *values) {
    return !strcmp(kvc_value_text(values, "scores"), "logits") ? KVC_ROW_LOGITS : KVC_ROW_PROBABILITIES;
}

static bool fuses_by_sum(const struct kvc_values *values) {
    return kind_of(values) == KVC_ROW_PROBABILITIES && !strcmp(kvc_value_text(values, "fusion"), "sum");
}

/* Returns the number of state columns: one for each row of the ring buffer and, if the option `fusion` is a sum, one
 * for each block of rows. */
static uint32_t morphkv_columns(const struct kvc_values *values) {
    return window_of(values) + (fuses_by_sum(values) ? kvc_ring_blocks(window_of(values)) : 0);
}

static uint64_t budget_of(const struct kvc_values *values, uint64_t held) {
    return kvc_budget(values, held, window_of(values));
}

static uint64_t morphkv_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return budget_of(values, prompt) + kvc_min_u64(steps, surplus(values));
}

/* Between two evictions, which are `every` steps apart, a list may exceed the budget. */
static double morphkv_entries(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt,
                              uint64_t steps) {
    const double budget = (double)budget_of(values, prompt);
    const uint64_t since = steps % surplus(values), last = steps - since;
    const double first = context->prompts ? fmin(context->from, budget) : context->from;
    return (last ? fmin(first + (double)last, budget) : first) + (double)since;
}

/* Keeps the entries of the last R tokens and the top C of the older ones. */
static enum kvc_status morphkv_evict(struct kvc_stage *stage, const struct kvc_values *values,
                                     struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint32_t window = window_of(values);
    const uint64_t budget = budget_of(values, info->held);
    if (info->entries <= budget)
        return KVC_OK;
    const uint32_t filled = kvc_ring_filled(info, window);
    struct kvc_keep keep = {.top = budget - window, .limit = budget, .recent = (int64_t)info->now - window};
    struct kvc_scores *scores;
    if (fuses_by_sum(values))
        return kvc_stage_keep_ring(stage, &keep, 0, window, filled, window, error);
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_ring_fuse(stage, 0, window, filled, kind_of(values),
                                     !strcmp(kvc_value_text(values, "fusion"), "max") ? KVC_FUSE_MAX : KVC_FUSE_SUM,
                                     keep.recent, scores, error);
    keep.scores = scores;
    return status == KVC_OK ? kvc_stage_keep(stage, &keep, error) : status;
}

static enum kvc_status write_rows(struct kvc_stage *stage, const struct kvc_values *values, uint32_t count,
                                  struct kvc_error *error) {
    const uint32_t window = window_of(values);
    const enum kvc_status status = kvc_stage_ring_write(stage, 0, window, count, kind_of(values), error);
    return status == KVC_OK && fuses_by_sum(values) ? kvc_stage_ring_sums(stage, 0, window, window, count, error)
                                                    : status;
}

/* Writes the prompt's last queries into the ring buffer. This is needed even if another method evicts after the
 * prompt. */
static enum kvc_status morphkv_observe(struct kvc_stage *stage, const struct kvc_values *values,
                                       struct kvc_error *error) {
    return write_rows(stage, values, (uint32_t)kvc_min_u64(kvc_stage_info(stage)->turn, window_of(values)), error);
}

static enum kvc_status morphkv_decode(struct kvc_stage *stage, const struct kvc_values *values,
                                      struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const enum kvc_status status = write_rows(stage, values, 1, error);
    if (status != KVC_OK || info->step % (uint64_t)kvc_value_int(values, "every") != 0)
        return status;
    return morphkv_evict(stage, values, error);
}

const struct kvc_policy_class kvc_policy_morphkv = {
    .name = "morphkv",
    .summary = "keeps a cache of constant size, chosen again in every step by the most recent queries",
    .paper = "MorphKV, arXiv:2503.00979",
    .idea = "The most recent tokens show which older entries still matter. A ring buffer holds the attention rows of "
            "the last R queries. The sum or the maximum over these rows is the score of an older entry, and each "
            "decode step evicts the entry with the lowest score. The cache has the same size from the first generated "
            "token to the last.",
    .formula = "F_k = sum_r or max_r S_r[k], r over the last R queries; S_r[k] = sum over the group of a_rk, 0 for "
               "keys newer than r; kept = top C by F of the entries older than the last R tokens, and the entries of "
               "these R tokens (C = B - R). It evicts after the prompt, whose last R queries are the first rows, and "
               "at each `every`-th decode step; every step writes its row, and an evicted entry takes its column with "
               "it. With scores=logits rows hold the group's sum of s_rk, and each row passes through a softmax over "
               "the older entries, without a sink, before the rows are fused",
    .memory = "C + R entries (every - 1 more between evictions), and R float32 per entry and KV head for the ring "
              "buffer; ceil(R / 8) more for sums of its rows with fusion=sum and scores=weights; with per=head all of "
              "this per query head",
    .traffic = "C + R + 1 entries per generated token ((every - 1) / 2 more on average), and all R rows of the ring "
               "buffer in each eviction. With fusion=sum, scores=weights and every=1, the vector code for CPUs reads "
               "the rows of one block of 8 and the sums of the other blocks, min(R, 8) + ceil(R / 8) - 1 values in "
               "all, and sums 8 rows in every eighth step.",
    .differences = "scores=logits follows the authors' code for G = 1. For G > 1, that code prunes its stored rows per "
                   "query head; here rows are summed over the group, or with per=head belong to a query head and its "
                   "own entries. The first eviction is at the end of the prompt; in the authors' code it is in the "
                   "first decode step.",
    .second_turn = "The ring buffer continues. A turn of fewer than R tokens keeps the rows of earlier queries (with "
                   "stages=prompt, or joined with another decode method, only a turn's own rows vote). After its "
                   "prompt, the cache is cut to C + R again, and `every` counts from there.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = morphkv_check,
    .queries = window_of,
    .columns = morphkv_columns,
    .surplus = surplus,
    .per_head = kvc_per_head,
    .forecast = &(const struct kvc_forecast){.bound = morphkv_bound, .entries = morphkv_entries, .follows = true},
    .observe_prompt = morphkv_observe,
    .prompt = morphkv_evict,
    .decode = morphkv_decode};
