/* policies.h - the built-in methods and their shared functions. Of the library, a method uses only the stage functions
 * of kvcull/policy.h. */
#ifndef KVC_POLICIES_POLICIES_H
#define KVC_POLICIES_POLICIES_H

#include "core/base/integers.h"
#include "kvcull/policy.h"
#include "policies/select_sizes.h"

/* The largest budget in a policy string: positions have 31 bits. */
#define KVC_BUDGET_MOST 2147483647.0

/* Checks that the budget is larger than the option `part` (rule 7 of docs/reference/methods.md). */
enum kvc_status kvc_check_above(const struct kvc_values *values, const char *part, struct kvc_error *error);

/* Checks that the budget is not a list, one for each layer. Methods call this function if they
 * divide the budget among the layers, or if one layer chooses the entries that other layers keep. */
enum kvc_status kvc_check_one_budget(const struct kvc_values *values, struct kvc_error *error);

/* A check_model function: fails if keys have fewer than `dims` channels. */
enum kvc_status kvc_check_dims(const struct kvc_values *values, const struct kvc_geometry *geometry, const bool *acts,
                               struct kvc_error *error);

/* Returns the budget for a list of `held` entries. If the option is a percentage, the result is at least part + 1
 * entries. */
uint64_t kvc_budget(const struct kvc_values *values, uint64_t held, uint64_t part);

/* Check that the option `kernel` is odd, and return the option `pooling` as an enum (rule 6 of
 * docs/reference/methods.md). */
enum kvc_status kvc_check_kernel(const struct kvc_values *values, struct kvc_error *error);
enum kvc_pooling kvc_pooling_of(const struct kvc_values *values);

/* ---- rows of option tables that several methods have ---- */

/* clang-format off */
#define KVC_OPTIONS_END {.name = NULL}
/* The option `budget`, which is required. */
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

bool kvc_per_head(const struct kvc_values *values); /* returns true for per=head */
/* Returns true for positions=cache: keys are rotated by their index in the cache instead of their position in the
 * text. */
bool kvc_positions_in_cache(const struct kvc_values *values);

/* ---- methods that evict by score and always keep the newest entries ---- */

enum kvc_status kvc_check_recent(const struct kvc_values *values, struct kvc_error *error);
/* kvc_recent_budget returns the budget; if the option `recent` is a number, the budget is larger than that number.
 * kvc_recent returns the number of newest tokens whose entries are never evicted. */
uint64_t kvc_recent_budget(const struct kvc_values *values, uint64_t held);
uint64_t kvc_recent(const struct kvc_values *values, uint64_t budget);
/* The forecast of these methods: the budget, both after the prompt and after every step. */
extern const struct kvc_forecast kvc_recent_forecast;

/* The methods `h2o` and `keyformer` store the accumulated attention of each entry in two state columns. They evict the
 * entries with the lowest sums, except the recent ones and the `first` oldest. The `first` oldest entries are not part
 * of the budget. */
uint32_t kvc_accumulated_columns(const struct kvc_values *values);
enum kvc_status kvc_accumulated_evict(struct kvc_stage *stage, const struct kvc_values *values, uint64_t first,
                                      struct kvc_error *error);

/* The methods `random`, `knorm`, `keydiff` and `qfilter` evict after the prompt and after every step, by scores that
 * need no query. They keep the newest entries (KVC_NEWEST_OPTION). */
enum kvc_status kvc_check_newest(const struct kvc_values *values, struct kvc_error *error);
extern const struct kvc_forecast kvc_newest_forecast;
enum kvc_status kvc_keep_newest(struct kvc_stage *stage, const struct kvc_values *values,
                                const struct kvc_scores *scores, struct kvc_error *error);
enum kvc_status kvc_entries_evict(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_entry_kind kind,
                                  uint64_t seed, struct kvc_error *error);

/* The methods `chunkkv` and `criticalkv` use the scores of the method that their option `scorer` names. kvc_scorer_is
 * returns true if that is `name`. kvc_scorer_scores computes the scores before pooling; those of `snapkv` use the
 * prompt's last `rows` queries. */
bool kvc_scorer_is(const struct kvc_values *values, const char *name);
enum kvc_status kvc_check_scorer(const struct kvc_values *values, struct kvc_error *error);
enum kvc_status kvc_scorer_scores(struct kvc_stage *stage, const struct kvc_values *values, uint32_t rows,
                                  struct kvc_scores *scores, struct kvc_error *error);

/* For the method `chunkkv`. Sets `gated` to the mean score of each chunk of `chunk` entries, without the last `tail`
 * entries. In an important chunk of low entropy only the `top` best entries get the mean; the others get minus
 * infinity. */
enum kvc_status kvc_chunk_gate(struct kvc_stage *stage, const struct kvc_scores *scores, uint64_t tail, uint32_t chunk,
                               uint32_t top, struct kvc_scores *gated, struct kvc_error *error);

/* For the methods `adakv` and `kvzip`. Divides the budget of a layer among its heads, by the scores of their entries. A
 * head gets `each` entries on average. Every head keeps its last `tail` entries in addition, and its share is at least
 * `least`. */
enum kvc_status kvc_keep_shares(struct kvc_stage *stage, const struct kvc_scores *scores, uint64_t each, uint64_t tail,
                                double least, struct kvc_error *error);

/* ---- scores that the host sorts (ranking.c) ---- */

struct kvc_ranked {
    uint32_t key; /* the kvc_score_key of a score */
    uint32_t index;
};

/* Writes x [n] to order [n], sorted by rule 4: the highest score first, and of equal scores the lower index. */
void kvc_rank_scores(const float *x, uint32_t n, struct kvc_ranked *order);
/* Sorts in the same way. */
void kvc_sort_ranked(struct kvc_ranked *order, size_t n);
/* Sorts in ascending order. */
void kvc_sort_indices(uint32_t *indices, size_t n);

/* Returns the number of valid rows of a ring buffer: one per token, at most `rows`. Decode steps write rows only if the
 * method has the decode stage; otherwise only this turn's rows are valid. */
static inline uint32_t kvc_ring_filled(const struct kvc_stage_info *info, uint32_t rows) {
    return (uint32_t)kvc_min_u64(info->owns_decode ? info->now : info->turn_tokens, rows);
}

/* ---- scores from the prompt's last queries: snapkv and those built on it ---- */

enum kvc_status kvc_check_window(const struct kvc_values *values, struct kvc_error *error);
uint32_t kvc_window_queries(const struct kvc_values *values);
/* Returns the budget, which is larger than the window. */
uint64_t kvc_window_budget(const struct kvc_values *values, uint64_t held);
/* Returns the number of this turn's queries in the window. */
uint32_t kvc_window_rows(const struct kvc_values *values, const struct kvc_stage_info *info);
/* A `bound` function: the budget plus one entry for each decode step. */
uint64_t kvc_window_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps);
extern const struct kvc_forecast kvc_window_forecast; /* uses kvc_window_bound for every layer and head */
/* Returns a rule that keeps `entries` entries: the window, and the older entries with the highest scores. */
struct kvc_keep kvc_window_rule(uint64_t entries, uint32_t window, const struct kvc_scores *scores);
/* Evicts as snapkv's prompt stage does, until `entries` entries are left. */
enum kvc_status kvc_window_evict(struct kvc_stage *stage, const struct kvc_values *values, uint64_t entries,
                                 struct kvc_error *error);
/* Computes the window mass of the last `rows` queries, pooled over the older entries. */
enum kvc_status kvc_window_scores(struct kvc_stage *stage, const struct kvc_values *values, uint32_t rows,
                                  struct kvc_scores **scores, struct kvc_error *error);

/* ---- a text file that an option names: dapq, duo and query_stats.c ---- */

/* Reads the file `path`, which the option names. The file has at most `most` bytes; a NUL is appended. The caller frees
 * *text. */
enum kvc_status kvc_read_option_file(const char *policy, const char *option, const char *path, uint32_t most,
                                     char **text, struct kvc_error *error);

/* ---- snapkv's choice every n decode steps, from a ring buffer: snapkv-decode and rkv ---- */

uint32_t kvc_every(const struct kvc_values *values);
/* Returns the number of entries after `steps` decode steps, for a list that held `first` entries before them. */
double kvc_every_entries(const struct kvc_values *values, double first, uint64_t budget, uint64_t steps);
extern const struct kvc_forecast kvc_every_forecast;
/* Writes the prompt's last rows to the ring buffer. */
enum kvc_status kvc_every_observe(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_row_kind kind,
                                  struct kvc_error *error);
/* Writes the step's row to the ring buffer. In a step that evicts, *scores receives the sum of the rows, pooled over
 * the entries older than the window; in other steps *scores is NULL. Rows of logits are summed after a softmax over the
 * older entries. */
enum kvc_status kvc_every_scores(struct kvc_stage *stage, const struct kvc_values *values, enum kvc_row_kind kind,
                                 struct kvc_scores **scores, struct kvc_error *error);
enum kvc_status kvc_every_keep(struct kvc_stage *stage, const struct kvc_values *values,
                               const struct kvc_scores *scores, struct kvc_error *error);

#endif
