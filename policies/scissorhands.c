/* scissorhands.c - evicts entries that recent queries often ignored (docs/reference/methods/scissorhands.md). */
#include "policies/policies.h"

#include <stdint.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, recent ones included"),
    {"history", KVC_OPTION_INT, "64", 1, 4096, NULL, "number of last queries whose attention is counted"},
    KVC_RECENT_OPTION,
    KVC_OPTIONS_END};

static uint32_t history(const struct kvc_values *values) { return (uint32_t)kvc_value_int(values, "history"); }

/* Returns the number of state columns: a ring buffer of probabilities, a ring buffer of counts of low probabilities,
 * and one column with the negative sum of these counts. */
static uint32_t scissorhands_columns(const struct kvc_values *values) { return 2 * history(values) + 1; }

static enum kvc_status scissorhands_evict(struct kvc_stage *stage, const struct kvc_values *values,
                                          struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = kvc_recent_budget(values, info->held);
    if (info->entries <= budget)
        return KVC_OK;
    const int64_t recent = (int64_t)info->now - (int64_t)kvc_recent(values, budget);
    const uint32_t rows = history(values), filled = kvc_ring_filled(info, rows);
    struct kvc_scores *counts;
    enum kvc_status status = kvc_stage_scores(stage, &counts, error);
    if (status == KVC_OK &&
        filled == rows) { /* the scores are negated counts, because the entries with the highest counts are evicted */
        status = kvc_stage_column_scores(stage, 2 * rows, 1, counts, error);
    } else if (status == KVC_OK) {
        status = kvc_stage_ring_fuse(stage, rows, rows, filled, KVC_ROW_LOW, KVC_FUSE_SUM, recent, counts, error);
        if (status == KVC_OK)
            status = kvc_stage_group(stage, counts, -1.0f, counts, error);
    }
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {.fill = budget, .limit = budget, .recent = recent, .scores = counts};
    return kvc_stage_keep_ring(stage, &keep, 0, rows, filled, UINT32_MAX, error);
}

/* Writes the rows of the prompt's last queries. This is needed even if another method evicts after the prompt. */
static enum kvc_status scissorhands_observe(struct kvc_stage *stage, const struct kvc_values *values,
                                            struct kvc_error *error) {
    const uint32_t rows = history(values), count = (uint32_t)kvc_min_u64(kvc_stage_info(stage)->turn, rows);
    return kvc_stage_ring_write(stage, 0, rows, count, KVC_ROW_COUNTS, error);
}

static enum kvc_status scissorhands_decode(struct kvc_stage *stage, const struct kvc_values *values,
                                           struct kvc_error *error) {
    const enum kvc_status status = kvc_stage_ring_write(stage, 0, history(values), 1, KVC_ROW_COUNTS, error);
    return status == KVC_OK ? scissorhands_evict(stage, values, error) : status;
}

const struct kvc_policy_class kvc_policy_scissorhands = {
    .name = "scissorhands",
    .summary = "evicts the entries that most of the recent queries ignored",
    .paper = "Scissorhands, arXiv:2305.17118",
    .idea = "An entry that was important stays important. For each entry, the method counts how many of the last "
            "queries gave it less than an even share of their attention. It first evicts the entries with the highest "
            "counts, and it never evicts the newest entries. In decode, it evicts one entry for each new entry.",
    .formula = "count_k = over the last `history` queries i and the group's heads, the number of times that a_ik < 1 / "
               "(number of entries that i attended to); among the entries older than the last `recent` tokens, the "
               "highest count is evicted first; of equal counts the lower sum of a_ik over the same queries, then the "
               "higher position. As the decode method of a pair, it starts with the rows of the prompt's last queries",
    .memory = "B entries (B + 1 within a decode step), and 2 history + 1 float32 per entry and KV head: two ring "
              "buffers (counts and probabilities), and the sum of the counts",
    .traffic = "B + 1 entries per generated token, and one row of each ring buffer; for entries with equal counts, all "
               "probabilities",
    .differences = "Counts are summed over the group. The cache returns to B after every step; the paper evicts many "
                   "entries at once when its buffer is full.",
    .second_turn = "The ring buffers continue. A turn of fewer than `history` tokens keeps the rows of earlier queries "
                   "(with stages=prompt, or joined with another decode method, a turn counts only its own rows). After "
                   "its prompt, the highest counts are evicted until B entries are left.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = kvc_check_recent,
    .queries = history,
    .columns = scissorhands_columns,
    .forecast = &kvc_recent_forecast,
    .observe_prompt = scissorhands_observe,
    .prompt = scissorhands_evict,
    .decode = scissorhands_decode};
