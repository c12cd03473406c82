/* policies.h - the built-in methods and their shared functions. A method uses the stage functions of kvcull/policy.h
 * only. */
#ifndef KVC_POLICIES_POLICIES_H
#define KVC_POLICIES_POLICIES_H

#include "core/base/integers.h"
#include "kvcull/policy.h"
#include "policies/select_sizes.h"

/* The largest budget in a policy string: positions have 31 bits. */
#define KVC_BUDGET_MOST 2147483647.0

/* Checks that the budget exceeds the option `part` (rule 7 of docs/reference/methods.md). */
enum kvc_status kvc_check_above(const struct kvc_values *values, const char *part, struct kvc_error *error);

/* A check_model function: keys must have at least `dims` channels. */
enum kvc_status kvc_check_dims(const struct kvc_values *values, const struct kvc_geometry *geometry, const bool *acts,
                               struct kvc_error *error);

/* Returns the budget for N = held entries. A percentage is at least part + 1. */
uint64_t kvc_budget(const struct kvc_values *values, uint64_t held, uint64_t part);

/* Check that `kernel` is odd, and return `pooling` as the stage functions take it (rule 6 of
 * docs/reference/methods.md). */
enum kvc_status kvc_check_kernel(const struct kvc_values *values, struct kvc_error *error);
enum kvc_pooling kvc_pooling_of(const struct kvc_values *values);

/* ---- rows of option tables that several methods have ---- */

/* clang-format off */
#define KVC_OPTIONS_END {.name = NULL}
/* A required budget. */
#define KVC_BUDGET_OPTION(help) {"budget", KVC_OPTION_BUDGET, NULL, 1, KVC_BUDGET_MOST, NULL, help}
#define KVC_SINKS_OPTION(tokens) \
    {"sinks", KVC_OPTION_INT, tokens, 0, KVC_BUDGET_MOST, NULL, "first entries, which are always kept"}
#define KVC_RECENT_OPTION \
    {"recent", KVC_OPTION_TEXT, "half", 0, 0, NULL, \
     "newest tokens, whose entries are never evicted; half: half of the budget"}
#define KVC_NEWEST_OPTION \
    {"recent", KVC_OPTION_INT, "0", 0, KVC_BUDGET_MOST, NULL, "newest tokens, whose entries are never evicted"}
#define KVC_WINDOW_OPTION(queries, most) \
    {"window", KVC_OPTION_INT, queries, 1, most, NULL, \
     "last tokens of the prompt; their queries vote, and their entries are always kept"}
#define KVC_EVERY_OPTION(steps) \
    {"every", KVC_OPTION_INT, steps, 1, 1 << 20, NULL, "decode steps between evictions"}
#define KVC_KERNEL_OPTION(width) \
    {"kernel", KVC_OPTION_INT, width, 1, 1 << 20, NULL, "odd width of the pooling over neighbouring entries"}
#define KVC_POOLING_OPTION(how) \
    {"pooling", KVC_OPTION_CHOICE, how, 0, 0, "max|avg", "how the scores of neighbours are pooled"}
#define KVC_FLOOR_OPTION(share) \
    {"floor", KVC_OPTION_REAL, share, 0, 1, NULL, "share of the budget that every head gets, whatever its scores"}
#define KVC_PER_HEAD_OPTION(help) {"per", KVC_OPTION_CHOICE, "group", 0, 0, "group|head", help}
#define KVC_PER_HEAD_LISTS \
    "one list of entries per KV head, or (as in the paper) one per query head, which multiplies the cache by G"
#define KVC_POSITIONS_OPTION \
    {"positions", KVC_OPTION_CHOICE, "original", 0, 0, "original|cache", \
     "positions of keys: those in the text, or their indices in the cache"}
/* clang-format on */

bool kvc_per_head(const struct kvc_values *values); /* per=head */
/* positions=cache: keys are rotated by their index in the cache, not by their position in the text */
bool kvc_positions_in_cache(const struct kvc_values *values);

/* ---- methods that evict by score and always keep the newest entries ---- */

enum kvc_status kvc_check_recent(const struct kvc_values *values, struct kvc_error *error);
/* Return the budget, which exceeds `recent` if that is a number, and R. */
uint64_t kvc_recent_budget(const struct kvc_values *values, uint64_t held);
uint64_t kvc_recent(const struct kvc_values *values, uint64_t budget);
/* Forecast: that budget after the prompt and after every step. */
extern const struct kvc_forecast kvc_recent_forecast;

/* h2o and keyformer: two state columns hold the accumulated attention of each entry. The entries with the lowest sums
 * that are not recent are evicted. */
uint32_t kvc_accumulated_columns(const struct kvc_values *values);
enum kvc_status kvc_accumulated_evict(struct kvc_stage *stage, const struct kvc_values *values,
                                      struct kvc_error *error);

/* random, knorm and keydiff: evict entries that are not recent (KVC_NEWEST_OPTION) by a score of the entries alone,
 * after the prompt and after every step. */
enum kvc_status kvc_check_newest(const struct kvc_values *values, struct kvc_error *error);
extern const struct kvc_forecast kvc_newest_forecast;
enum kvc_status kvc_entries_evict(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_entry_kind kind,
                                  uint64_t seed, struct kvc_error *error);

/* chunkkv and criticalkv use another method's scores, which the option `scorer` names. kvc_scorer_is returns true if it
 * is `name`. kvc_scorer_scores computes the scores before pooling; rows: the number of the prompt's last queries. */
bool kvc_scorer_is(const struct kvc_values *values, const char *name);
enum kvc_status kvc_check_scorer(const struct kvc_values *values, struct kvc_error *error);
enum kvc_status kvc_scorer_scores(struct kvc_stage *stage, const struct kvc_values *values, uint32_t rows,
                                  struct kvc_scores *scores, struct kvc_error *error);

/* adakv and kvzip: divide a layer's entries, `each` per head on average, among the heads by scores. Every head gets at
 * least the share `least`, and keeps its last `tail` entries in addition. */
enum kvc_status kvc_keep_shares(struct kvc_stage *stage, const struct kvc_scores *scores, uint64_t each, uint64_t tail,
                                double least, struct kvc_error *error);

/* Returns how many rows of a ring buffer are valid: one per token, at most `rows`. Decode steps write rows only if the
 * method holds the decode stage; otherwise rows before this turn are out of date. */
static inline uint32_t kvc_ring_filled(const struct kvc_stage_info *info, uint32_t rows) {
    return (uint32_t)kvc_min_u64(info->owns_decode ? info->now : info->turn_tokens, rows);
}

/* ---- scores from the prompt's last queries: snapkv and those built on it ---- */

enum kvc_status kvc_check_window(const struct kvc_values *values, struct kvc_error *error);
uint32_t kvc_window_queries(const struct kvc_values *values);
uint64_t kvc_window_budget(const struct kvc_values *values, uint64_t held); /* exceeds the window */
/* Returns the rows of the window in this turn. */
uint32_t kvc_window_rows(const struct kvc_values *values, const struct kvc_stage_info *info);
/* A `bound` function: the budget and the entries appended since. */
uint64_t kvc_window_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps);
extern const struct kvc_forecast kvc_window_forecast; /* Forecast: that bound in every layer and head */
/* Returns a rule that keeps so many entries: the window and the older entries of highest score. */
struct kvc_keep kvc_window_rule(uint64_t entries, uint32_t window, const struct kvc_scores *scores);
/* Evicts as snapkv's prompt stage does, down to so many entries. */
enum kvc_status kvc_window_evict(struct kvc_stage *stage, const struct kvc_values *values, uint64_t entries,
                                 struct kvc_error *error);
/* Computes the window mass of the last `rows` queries, pooled over the older entries. */
enum kvc_status kvc_window_scores(struct kvc_stage *stage, const struct kvc_values *values, uint32_t rows,
                                  struct kvc_scores **scores, struct kvc_error *error);

/* ---- a file of numbers for each head: duo and triattention ---- */

/* Reads the file of option=path, at most `most` bytes, and appends a NUL. The caller frees *text. */
enum kvc_status kvc_read_option_file(const char *policy, const char *option, const char *path, uint32_t most,
                                     char **text, struct kvc_error *error);

/* ---- snapkv's choice every n decode steps, from a ring buffer: snapkv-decode and rkv ---- */

uint32_t kvc_every(const struct kvc_values *values);
/* Returns the entries of a list that held `first` before the first step. */
double kvc_every_entries(const struct kvc_values *values, double first, uint64_t budget, uint64_t steps);
extern const struct kvc_forecast kvc_every_forecast;
/* Writes the prompt's last rows to the ring buffer. */
enum kvc_status kvc_every_observe(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_row_kind kind,
                                  struct kvc_error *error);
/* Writes the step's row to the ring buffer. In a step that evicts, returns its sums, pooled over the entries older than
 * the window; otherwise NULL. Each row of logits first passes a softmax over the older entries. */
enum kvc_status kvc_every_scores(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_row_kind kind,
                                 struct kvc_scores **scores, struct kvc_error *error);
enum kvc_status kvc_every_keep(struct kvc_stage *stage, const struct kvc_values *values,
                               const struct kvc_scores *scores, struct kvc_error *error);

#endif
