/* policies.h - the built-in methods and the little they share. A policy works through the stage functions of
 * kvcull/policy.h only. */
#ifndef KVC_POLICIES_POLICIES_H
#define KVC_POLICIES_POLICIES_H

#include "core/base/integers.h"
#include "kvcull/policy.h"
#include "policies/select_sizes.h"

/* The largest budget a policy string may name: positions are 31 bits. */
#define KVC_BUDGET_MOST 2147483647.0

/* rule 7 of docs/reference/methods.md: budget must be above what `part` takes of it. */
enum kvc_status kvc_check_above(const struct kvc_values *values, const char *part, struct kvc_error *error);

/* A check_model: `dims` channels of keys must be there. */
enum kvc_status kvc_check_dims(const struct kvc_values *values, const struct kvc_geometry *geometry, const bool *acts,
                               struct kvc_error *error);

/* The budget for what a head held when the turn's prompt was in; a share is at least part + 1. */
uint64_t kvc_budget(const struct kvc_values *values, uint64_t held, uint64_t part);

/* An odd `kernel`; and `pooling` as the stage functions want it (rule 6 of docs/reference/methods.md). */
enum kvc_status kvc_check_kernel(const struct kvc_values *values, struct kvc_error *error);
enum kvc_pooling kvc_pooling_of(const struct kvc_values *values);

/* ---- rows of option tables that several methods have ---- */

/* clang-format off */
#define KVC_OPTIONS_END {.name = NULL}
/* A budget that must be given. */
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
/* positions=cache: keys stand not at their positions in the text, but at cache positions. */
bool kvc_positions_in_cache(const struct kvc_values *values);

/* ---- the newest entries that never go, of methods that evict by score ---- */

enum kvc_status kvc_check_recent(const struct kvc_values *values, struct kvc_error *error);
/* The budget, above `recent` where that is a number, and R. */
uint64_t kvc_recent_budget(const struct kvc_values *values, uint64_t held);
uint64_t kvc_recent(const struct kvc_values *values, uint64_t budget);
/* That budget after the prompt and after every step. */
extern const struct kvc_forecast kvc_recent_forecast;

/* h2o and keyformer: two state columns hold each entry's accumulated attention; the lowest of what is not recent goes.
 */
uint32_t kvc_accumulated_columns(const struct kvc_values *values);
enum kvc_status kvc_accumulated_evict(struct kvc_stage *stage, const struct kvc_values *values,
                                      struct kvc_error *error);

/* random, knorm and keydiff: what entries hold says which of those that are not recent go (KVC_NEWEST_OPTION), after
 * the * prompt and after every step. */
enum kvc_status kvc_check_newest(const struct kvc_values *values, struct kvc_error *error);
extern const struct kvc_forecast kvc_newest_forecast;
enum kvc_status kvc_entries_evict(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_entry_kind kind,
                                  uint64_t seed, struct kvc_error *error);

/* chunkkv and criticalkv take another method's scores, by the option `scorer`: is it this one; scores before they are
 * pooled, rows: of the window. */
bool kvc_scorer_is(const struct kvc_values *values, const char *name);
enum kvc_status kvc_check_scorer(const struct kvc_values *values, struct kvc_error *error);
enum kvc_status kvc_scorer_scores(struct kvc_stage *stage, const struct kvc_values *values, uint32_t rows,
                                  struct kvc_scores *scores, struct kvc_error *error);

/* adakv and kvzip: a layer's slots, `each` in the mean, fall to the heads by scores, mixed with a share `least` that
 * every head has; the last `tail` entries of each stay besides. */
enum kvc_status kvc_keep_shares(struct kvc_stage *stage, const struct kvc_scores *scores, uint64_t each, uint64_t tail,
                                double least, struct kvc_error *error);

/* A ring's newest rows that have been written: one per token seen, at most `rows`. Decode steps write theirs only where
 * the method acts in them; otherwise the rows before this turn's are of no use. */
static inline uint32_t kvc_ring_filled(const struct kvc_stage_info *info, uint32_t rows) {
    return (uint32_t)kvc_min_u64(info->owns_decode ? info->now : info->turn_tokens, rows);
}

/* ---- scores from the prompt's last queries: snapkv and those built on it ---- */

enum kvc_status kvc_check_window(const struct kvc_values *values, struct kvc_error *error);
uint32_t kvc_window_queries(const struct kvc_values *values);
uint64_t kvc_window_budget(const struct kvc_values *values, uint64_t held); /* above the window */
/* The window's rows of this turn. */
uint32_t kvc_window_rows(const struct kvc_values *values, const struct kvc_stage_info *info);
/* The budget and what comes, for `bound`. */
uint64_t kvc_window_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps);
extern const struct kvc_forecast kvc_window_forecast; /* that bound, in every layer and head */
/* The top of what is older than the window, by scores, and the window: so many entries. */
struct kvc_keep kvc_window_rule(uint64_t entries, uint32_t window, const struct kvc_scores *scores);
/* snapkv's prompt stage for so many entries. */
enum kvc_status kvc_window_evict(struct kvc_stage *stage, const struct kvc_values *values, uint64_t entries,
                                 struct kvc_error *error);
/* Window mass of the last `rows` queries, pooled over what is older. */
enum kvc_status kvc_window_scores(struct kvc_stage *stage, const struct kvc_values *values, uint32_t rows,
                                  struct kvc_scores **scores, struct kvc_error *error);

/* ---- a file of numbers for each head: duo and triattention ---- */

/* The text of option=path, with a NUL after it, at most `most` bytes. *text is malloc'ed. */
enum kvc_status kvc_read_option_file(const char *policy, const char *option, const char *path, uint32_t most,
                                     char **text, struct kvc_error *error);

/* ---- the same as snapkv while decoding, every so many steps, from a ring: snapkv-decode and rkv ---- */

uint32_t kvc_every(const struct kvc_values *values);
/* Of a list that held `first` before the first step. */
double kvc_every_entries(const struct kvc_values *values, double first, uint64_t budget, uint64_t steps);
extern const struct kvc_forecast kvc_every_forecast;
/* The prompt's last rows, to the ring. */
enum kvc_status kvc_every_observe(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_row_kind kind,
                                  struct kvc_error *error);
/* The step's row, to the ring; in a step that evicts the ring's sums, pooled over what is older than the window, and
 * otherwise NULL. Rows of logits are softmaxes over what is older. */
enum kvc_status kvc_every_scores(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_row_kind kind,
                                 struct kvc_scores **scores, struct kvc_error *error);
enum kvc_status kvc_every_keep(struct kvc_stage *stage, const struct kvc_values *values,
                               const struct kvc_scores *scores, struct kvc_error *error);

#endif
