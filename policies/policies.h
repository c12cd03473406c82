/* policies.h - the built-in methods and the little they share. A policy works through the stage functions of
 * kvcull/policy.h only. */
#ifndef KVC_POLICIES_POLICIES_H
#define KVC_POLICIES_POLICIES_H

#include "kvcull/policy.h"
#include "policies/select_sizes.h"

/* clang-format off */
extern const struct kvc_policy_class
    kvc_policy_full,
    kvc_policy_window,
    kvc_policy_streaming,
    kvc_policy_h2o,
    kvc_policy_scissorhands,
    kvc_policy_keyformer,
    kvc_policy_snapkv,
    kvc_policy_pyramidkv,
    kvc_policy_adakv,
    kvc_policy_cake,
    kvc_policy_fastkv,
    kvc_policy_lacache,
    kvc_policy_duo,
    kvc_policy_morphkv,
    kvc_policy_dapq,
    kvc_policy_take,
    kvc_policy_tova,
    kvc_policy_quest,
    kvc_policy_sparq,
    kvc_policy_hsa,
    kvc_policy_rocketkv,
    kvc_policy_rocketkv_mt,
    kvc_policy_topk;
/* clang-format on */

/* The largest budget a policy string may name: positions are 31 bits. */
#define KVC_BUDGET_MOST 2147483647.0

/* rule 7 of docs/methods.md: budget must be above what `part` takes of it. */
enum kvc_status kvc_check_above(const struct kvc_values *values, const char *part, struct kvc_error *error);

/* `dims` channels of keys must be there. */
enum kvc_status kvc_check_dims(const struct kvc_values *values, const struct kvc_geometry *geometry,
                               struct kvc_error *error);

/* The budget for what a head held when the turn's prompt was in; a share is at least part + 1. */
uint64_t kvc_budget(const struct kvc_values *values, uint64_t held, uint64_t part);

/* An odd `kernel`; and `pooling` as the stage functions want it (rule 6 of docs/methods.md). */
enum kvc_status kvc_check_kernel(const struct kvc_values *values, struct kvc_error *error);
enum kvc_pooling kvc_pooling_of(const struct kvc_values *values);
/* ---- where keys stand: at their positions in the text, or turned to their places in the cache ---- */

#define KVC_POSITIONS_OPTION                                                                                           \
    {                                                                                                                  \
        "positions", KVC_OPTION_CHOICE, "original", 0, 0, "original|cache",                                            \
            "where keys stand: at their positions in the text, or at their places in the cache"                        \
    }
bool kvc_positions_in_cache(const struct kvc_values *values);

/* ---- the newest entries that never go, of methods that evict by score ---- */

#define KVC_RECENT_OPTION                                                                                              \
    { "recent", KVC_OPTION_TEXT, "half", 0, 0, NULL, "newest tokens whose entries never go; half: of the budget" }
enum kvc_status kvc_check_recent(const struct kvc_values *values, struct kvc_error *error);
/* The budget, above `recent` where that is a number, and R. */
uint64_t kvc_recent_budget(const struct kvc_values *values, uint64_t held);
uint64_t kvc_recent(const struct kvc_values *values, uint64_t budget);

/* h2o and keyformer: two state columns hold each entry's accumulated weight; the lowest of what is not recent goes. */
uint32_t kvc_accumulated_columns(const struct kvc_values *values);
uint64_t kvc_accumulated_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps);
enum kvc_status kvc_accumulated_evict(struct kvc_stage *stage, const struct kvc_values *values,
                                      struct kvc_error *error);

/* A ring's newest rows that have been written: one per token seen, at most `rows`. Decode steps write theirs only where
 * the method acts in them; otherwise the rows before this turn's are of no use. */
static inline uint32_t kvc_ring_filled(const struct kvc_stage_info *info, uint32_t rows) {
    const uint64_t seen = info->owns_decode ? info->now : info->turn_tokens;
    return seen < rows ? (uint32_t)seen : rows;
}

/* ---- scores from the prompt's last queries: snapkv and those built on it ---- */

#define KVC_WINDOW_OPTIONS                                                                                             \
    {"window", KVC_OPTION_INT, "32", 1, 1 << 20, NULL, "last queries of the prompt that vote, and always stay"},       \
        {"kernel", KVC_OPTION_INT, "7", 1, 1 << 20, NULL, "odd width of the pooling over neighbouring entries"}, {     \
        "pooling", KVC_OPTION_CHOICE, "max", 0, 0, "max|avg", "how neighbours are pooled"                              \
    }
enum kvc_status kvc_check_window(const struct kvc_values *values, struct kvc_error *error);
uint32_t kvc_window_queries(const struct kvc_values *values);
uint64_t kvc_window_budget(const struct kvc_values *values, uint64_t held); /* above the window */
/* The window's rows of this turn. */
uint32_t kvc_window_rows(const struct kvc_values *values, const struct kvc_stage_info *info);
/* The budget and what comes, for `bound`. */
uint64_t kvc_window_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps);
/* The top of what is older than the window, by scores, and the window: so many entries. */
struct kvc_keep kvc_window_rule(uint64_t entries, uint32_t window, const struct kvc_scores *scores);
/* snapkv's prompt stage for so many entries. */
enum kvc_status kvc_window_evict(struct kvc_stage *stage, const struct kvc_values *values, uint64_t entries,
                                 struct kvc_error *error);
/* Window mass of the last `rows` queries, pooled over what is older. */
enum kvc_status kvc_window_scores(struct kvc_stage *stage, const struct kvc_values *values, uint32_t rows,
                                  struct kvc_scores **scores, struct kvc_error *error);

#endif
