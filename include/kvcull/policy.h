/** @file kvcull/policy.h
 * The interface for writing a method: its options, the functions that its stages may call, and the class that describes
 * it to the library. Installed as kvcull/policy.h. docs/how-to/add-a-method.md walks through an example;
 * docs/reference/methods.md defines the terms and the numbered rules that comments here refer to.
 *
 * N is the number of entries of the longest head (the head with the most entries) when the turn's prompt is complete, B
 * the budget, d the head size, q_i a query, k_j the key and v_j the value of entry j. A list holds the entries of one
 * key-value head (with per=head: of one query head) in one layer. An entry's index is its place in the list, 0 for the
 * oldest; its position is the token's number in the text. A group is the query heads that read the same list.
 *
 * All functions here that return an enum kvc_status fail with KVC_USAGE for a wrong argument or a call in the wrong
 * stage, and with KVC_RESOURCE if memory runs out.
 */
#ifndef KVCULL_POLICY_H
#define KVCULL_POLICY_H

#include "kvcull.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- options ------------------------------------------------------------------------------------------------- */

/** Types of an option. */
enum kvc_option_kind {
    KVC_OPTION_INT,    /**< a whole number, minimum to maximum */
    KVC_OPTION_REAL,   /**< a number, minimum to maximum */
    KVC_OPTION_BUDGET, /**< tokens: a number, or a percentage of the prompt ("10%"); either may be split ("split:512").
                        * The option `budget` also accepts a separate budget for each layer ("64/32"). */
    KVC_OPTION_CHOICE, /**< one of `choices` */
    KVC_OPTION_TEXT    /**< a text; in a policy string, a text with ',' or '+' needs double quotes */
};
/** One row of a class's option table. A row with name NULL ends the table. */
struct kvc_option {
    const char *name;          /**< letters, digits and '_' */
    enum kvc_option_kind kind; /**< the type */
    const char *default_value; /**< as in a policy string. NULL: the option is required. "": there is no default, and a
                                    number that is not given reads as 0 */
    double minimum;            /**< smallest number */
    double maximum;            /**< largest number */
    const char *choices;       /**< KVC_OPTION_CHOICE: the names, separated by '|'. KVC_OPTION_TEXT: a word
                                    that is valid for any model and names no file, or NULL */
    const char *help;          /**< one line for the manual */
};

/** The parsed and checked options of a method in one policy. The kvc_value_ functions read them by name; a name that is
 * not in the table reads as 0 or "". */
struct kvc_values;
/** Returns a KVC_OPTION_INT. */
int64_t kvc_value_int(const struct kvc_values *values, const char *name);
/** Returns a KVC_OPTION_REAL. */
double kvc_value_real(const struct kvc_values *values, const char *name);
/** Returns a KVC_OPTION_TEXT or KVC_OPTION_CHOICE, valid as long as the policy. */
const char *kvc_value_text(const struct kvc_values *values, const char *name);
/** Returns a KVC_OPTION_BUDGET in tokens. A percentage of `prompt` tokens is rounded to the nearest token (halves up)
 * and is at least `least`; a number of tokens is returned unchanged. */
uint64_t kvc_value_budget(const struct kvc_values *values, const char *name, uint64_t prompt, uint64_t least);
/** Returns true if a KVC_OPTION_BUDGET depends on the prompt's length: it is a percentage, or split. */
bool kvc_value_is_share(const struct kvc_values *values, const char *name);
/** Returns true if a KVC_OPTION_BUDGET is split between a prompt method and a select method, such as "split:512" or
 * "split:10%" (RocketKV, arXiv:2502.14051). `*total` receives the budget after the colon, in tokens. For such an
 * option, kvc_value_budget returns the number of entries that the prompt method keeps. */
bool kvc_value_split(const struct kvc_values *values, const char *name, uint64_t prompt, uint64_t *total);
/** Returns true if the policy string contains the option. */
bool kvc_value_given(const struct kvc_values *values, const char *name);
/** Parses text [length] as a plain decimal number: digits, optionally a point and an exponent, independent of the
 * host's locale. Returns false for anything else, including "0x10", "inf" and blanks, which strtod accepts. */
bool kvc_decimal(const char *text, size_t length, double *number);

/* ---- what a stage function can read ---------------------------------------------------------------------------- */

/** Bits for the moments at which a method acts. */
enum kvc_stage_kind {
    KVC_STAGE_CHUNK = 1,     /**< after each chunk of a prompt: evicts */
    KVC_STAGE_PROMPT = 2,    /**< after a layer's whole prompt: evicts */
    KVC_STAGE_PROPAGATE = 4, /**< after a layer's whole prompt: drops tokens from the layers above (token pruning) */
    KVC_STAGE_SELECT = 8,    /**< before the attention of a decode step: chooses the entries to read */
    KVC_STAGE_DECODE = 16    /**< after a layer's decode step: evicts */
};

/** One call of a stage function, for one session and one layer. */
struct kvc_stage;
/** Properties of the current call. */
struct kvc_stage_info {
    uint32_t layer;       /**< index of the layer, from 0, among the layers with attention */
    uint32_t layers;      /**< number of layers with attention in the model */
    uint32_t heads;       /**< H: number of query heads */
    uint32_t head_size;   /**< d: head size */
    uint32_t kv_heads;    /**< number of lists: the model's KV heads, or its query heads if a method has per=head */
    uint32_t acting;      /**< index of this layer, from 0, among the layers on which the method acts */
    uint32_t actings;     /**< number of layers on which the method acts */
    uint64_t turn;        /**< number of rows of this turn's prompt that reached this layer */
    uint64_t turn_tokens; /**< number of tokens of this turn's prompt, including those that token pruning dropped */
    uint64_t held;     /**< N: entries of the longest head when the turn's prompt was complete, as if token pruning had
                            dropped no rows of this layer */
    uint64_t after;    /**< entries of the longest head after the prompt stage; 0 before it */
    uint64_t now;      /**< tokens processed by the session, including those of this step or chunk */
    uint64_t step;     /**< decode steps since the last prompt, this one included; 0 in the prompt stage */
    uint64_t entries;  /**< entries of the longest head now; an upper bound after a decode stage has evicted. In stages
                            that evict, expired entries (those that no later row can attend to) are not counted. The
                            library removes them at the stage's first call that creates scores, reads positions or
                            chooses entries (by a rule, by indices or by positions) */
    uint64_t expected; /**< tokens that the caller intends to generate after the prompt; 0: unknown */
    uint64_t seed;     /**< the session's seed */
    uint32_t model_lists; /**< lists of the layer on all ranks (docs/explanation/parallel-runs.md); with one process the
                             same as kv_heads */
    uint32_t model_heads; /**< query heads of the layer on all ranks; with one process the same as heads */
    uint32_t first_list;  /**< index of this rank's first list among model_lists */
    uint32_t first_head;  /**< index of this rank's first query head among model_heads */
    bool last_chunk;      /**< chunk stage: this is the prompt's last chunk */
    bool owns_prompt;     /**< this method holds the prompt stage of the policy */
    bool owns_decode;     /**< this method holds the decode stage of the policy */
};
/** Returns the properties of the current call, valid during it. */
const struct kvc_stage_info *kvc_stage_info(const struct kvc_stage *stage);
/** Returns this session's state, of the size that the class's `state_bytes` gave; NULL: none. */
void *kvc_stage_state(const struct kvc_stage *stage);
/** Returns the class's `user`. */
void *kvc_stage_user(const struct kvc_stage *stage);
/** Returns true if the method acts on a layer. */
bool kvc_stage_acts(const struct kvc_stage *stage, uint32_t layer);
/** Switches the stage to an earlier layer, to which further calls in this stage function then apply. The earlier
 * layer's state columns are available, its queries are not. */
enum kvc_status kvc_stage_layer(struct kvc_stage *stage, uint32_t layer, struct kvc_error *error);

/* ---- scores ---------------------------------------------------------------------------------------------------
 * Everything below runs on the backend. Nothing is copied to the host unless the comment says so. */

/** A float32 for each index of each list, or of each query head, on the device. Scores live until the stage function
 * returns, switches to another layer or evicts; functions refuse older scores with KVC_USAGE. */
struct kvc_scores;
struct kvc_keep;
/** Creates scores for every list. */
enum kvc_status kvc_stage_scores(struct kvc_stage *stage, struct kvc_scores **scores, struct kvc_error *error);
/** Creates scores for every query head. */
enum kvc_status kvc_stage_head_scores(struct kvc_stage *stage, struct kvc_scores **scores, struct kvc_error *error);
/** Sets scores to the window mass (SnapKV, arXiv:2404.14469): for each entry the sum of its attention probabilities for
 * the last `window` prompt queries, at most as many as the class's `queries` requested. Scores per list sum over the
 * group's heads; scores per query head do not. */
enum kvc_status kvc_stage_window_mass(struct kvc_stage *stage, uint32_t window, struct kvc_scores *scores,
                                      struct kvc_error *error);
/** Like kvc_stage_window_mass, but multiplies the probabilities of each query by the number of held entries that it
 * sees, so that every query has the same average (Finch, arXiv:2408.00167; docs/reference/methods/finch.md). Copies the
 * queries' sums to the host. */
enum kvc_status kvc_stage_counted_mass(struct kvc_stage *stage, uint32_t window, struct kvc_scores *scores,
                                       struct kvc_error *error);
/** Sets scores to the attention mass that entries get from the rows that the class's `pseudo` added (DapQ). */
enum kvc_status kvc_stage_pseudo_mass(struct kvc_stage *stage, struct kvc_scores *scores, struct kvc_error *error);
/** Sets the score of each entry to the largest attention probability that any of the added rows gave it in any head of
 * the group (KVzip, arXiv:2505.23416). */
enum kvc_status kvc_stage_pseudo_most(struct kvc_stage *stage, struct kvc_scores *scores, struct kvc_error *error);
/** How kvc_stage_probe_mass averages a probe's queries Q over the chunks of a prompt (TAKE). */
struct kvc_probe_average {
    float alpha;          /**< `A = alpha*A + (1-alpha)*Q` */
    bool from_zero;       /**< A is 0 before the first chunk; false: `A = Q` in the first chunk */
    bool before_rotation; /**< averages queries before RoPE, and rotates A to the probe's positions in this chunk */
};
/** Chunk stage: updates the accumulated probe A with the layer's rotated probe queries. Then sets scores per list to
 * `softmax(A K^T / sqrt(d))` over all entries, averaged over the probe's tokens and summed over the group's heads.
 * scores NULL: only updates A. */
enum kvc_status kvc_stage_probe_mass(struct kvc_stage *stage, const struct kvc_probe_average *average,
                                     struct kvc_scores *scores, struct kvc_error *error);
/** Sets scores per query head to `mean + gamma * variance` of the probabilities of the last `window` queries, for
 * indices below entries - tail (CAKE, arXiv:2503.12491). Copies the layer's total dispersion and variance
 * (docs/reference/methods/cake.md) to the host. */
enum kvc_status kvc_stage_moments(struct kvc_stage *stage, uint32_t window, uint64_t tail, float gamma,
                                  struct kvc_scores *scores, float *dispersion, float *variance,
                                  struct kvc_error *error);
/** How kvc_stage_pool combines neighbouring scores. */
enum kvc_pooling {
    KVC_POOL_MAX,     /**< maximum; entries outside the list do not count */
    KVC_POOL_AVERAGE, /**< average; entries outside the list count as 0 */
    KVC_POOL_CHUNKS /**< the list is cut into chunks of `kernel` entries from index 0 on (the last may be shorter), and
                         each entry gets the mean of its chunk; `kernel` may be even */
};
/** Pools the scores of each head over `kernel` (odd) neighbours, for indices below entries - tail (rule 6 of
 * docs/reference/methods.md). */
enum kvc_status kvc_stage_pool(struct kvc_stage *stage, struct kvc_scores *scores, uint64_t tail, uint32_t kernel,
                               enum kvc_pooling pooling, struct kvc_error *error);
/** Sets scores per list to the sum of `heads` (scores per query head) over each group, divided by `divisor`. */
enum kvc_status kvc_stage_group(struct kvc_stage *stage, const struct kvc_scores *heads, float divisor,
                                struct kvc_scores *scores, struct kvc_error *error);
/** Replaces scores per list by their sum over all lists of the layer, entry by entry (TOVA, arXiv:2401.06104). If
 * another method of the policy may evict from the layer, its lists may hold different tokens, and the scores remain
 * unchanged. */
enum kvc_status kvc_stage_layer_sum(struct kvc_stage *stage, struct kvc_scores *scores, struct kvc_error *error);

/** Scores of entries that need no query. */
enum kvc_entry_kind {
    KVC_ENTRY_DRAW,  /**< a random number for each entry, from `seed`, the layer and the position */
    KVC_ENTRY_NORM,  /**< minus the length of the key (arXiv:2406.11430) */
    KVC_ENTRY_APART, /**< minus the cosine between the key and the mean of the list's normalized keys, times a constant
                          (KeyDiff, arXiv:2504.15364) */
    KVC_ENTRY_FILTER /**< the dot product of the key and the list's filter, which kvc_stage_prepare_filter uploaded
                          (Q-Filters, arXiv:2503.02812) */
};
/** Sets scores per list from the entries alone, without a query. */
enum kvc_status kvc_stage_entry_scores(struct kvc_stage *stage, enum kvc_entry_kind kind, uint64_t seed,
                                       struct kvc_scores *scores, struct kvc_error *error);
/** In `prepare`, or in the prompt stage: uploads a layer's filters [kv_heads, d], in the channels of the stored keys,
 * for the next kvc_stage_entry_scores with KVC_ENTRY_FILTER. */
enum kvc_status kvc_stage_prepare_filter(struct kvc_stage *stage, const float *filters, struct kvc_error *error);
/** Forms of the networks of kvc_stage_predict. */
enum kvc_predictor_kind {
    KVC_PREDICT_LINEAR, /**< one linear layer, or two with gelu between them (KVzap, arXiv:2601.07891) */
    KVC_PREDICT_GATES   /**< queries and keys of a few channels (Fast KVzip, arXiv:2601.17668;
                             docs/reference/methods/fastkvzip.md) */
};
/** In `attended` and `observe_step`: predicts scores of the entries of the rows just computed, from the hidden states
 * that entered the layer's attention, with the class's `predictor`. Writes them to the class's state column
 * `column`. */
enum kvc_status kvc_stage_predict(struct kvc_stage *stage, uint32_t column, struct kvc_error *error);
/** Sets scores per list as LagKV does (arXiv:2504.04704; docs/reference/methods/lagkv.md), from the standard deviation
 * of a key's and a value's channels, each normalized by the range of the next partition of `lag` entries. The score is
 * the entry's rank within its partition, or with `across` the value that is ranked. Indices below `first`, the last
 * whole partition and the entries after it get the score `lag`, more than any other. */
enum kvc_status kvc_stage_lag_scores(struct kvc_stage *stage, uint32_t first, uint32_t lag, bool across,
                                     struct kvc_scores *scores, struct kvc_error *error);

/** What kvc_stage_norm_shares compares. */
enum kvc_share_kind {
    KVC_SHARE_KEYS,   /**< squared lengths of keys */
    KVC_SHARE_VALUES, /**< squared lengths of values */
    KVC_SHARE_MEAN,   /**< the mean of both shares */
    KVC_SHARE_PRODUCT /**< the product of both shares */
};
/** Sets scores per list to each entry's share of the squared lengths in its chunk (CurDKV, arXiv:2509.15038;
 * docs/reference/methods/cur.md). A list is cut into chunks of `chunk` entries from index 0 on (the last may be
 * shorter); with chunk 0 the squared lengths themselves are used. */
enum kvc_status kvc_stage_norm_shares(struct kvc_stage *stage, enum kvc_share_kind kind, uint32_t chunk,
                                      struct kvc_scores *scores, struct kvc_error *error);

/** Replaces scores per list by `share * score / divisor - (1 - share) * redundancy` (R-KV, arXiv:2505.24133;
 * docs/reference/methods/rkv.md). The redundancy is a softmax over all entries of the mean cosine to the other keys;
 * keys whose cosine is above `threshold` count as repetitions. */
enum kvc_status kvc_stage_mix_redundancy(struct kvc_stage *stage, float threshold, float share, float divisor,
                                         struct kvc_scores *scores, struct kvc_error *error);

/** Sets norms per query head to the L1 norm of each value multiplied by the head's columns of the output projection,
 * `|W_o v_j|_1` (CriticalKV, arXiv:2502.03805; docs/reference/methods/criticalkv.md). A replay has no projection and
 * uses `|v_j|_1`. */
enum kvc_status kvc_stage_output_norms(struct kvc_stage *stage, struct kvc_scores *norms, struct kvc_error *error);
/** Replaces scores per list by `(score + epsilon) * factor`. The entries that `rule` would keep get a higher score than
 * all others. The rule's scores may be the same array. */
enum kvc_status kvc_stage_weigh(struct kvc_stage *stage, const struct kvc_keep *rule, float epsilon,
                                const struct kvc_scores *factor, struct kvc_scores *scores, struct kvc_error *error);

/** In statistics of queries: any number of rotated channels. */
#define KVC_ANY_ROTARY UINT32_MAX
/** In `attended`: adds the current rows at positions `from` and later to the mean and covariance of the prompt's
 * queries before RoPE (Expected Attention, arXiv:2510.00636). */
enum kvc_status kvc_stage_query_moments(struct kvc_stage *stage, uint64_t from, struct kvc_error *error);
/** Prompt stage: replaces the mean and covariance of the prompt's queries by those of other queries before RoPE: mean
 * [H, d], and per head the covariance of channels b and c for each c up to b, row by row. covariance NULL: zero.
 * `rotary` is the number of rotated channels, or KVC_ANY_ROTARY; fails with KVC_INPUT if the layer's is another. */
enum kvc_status kvc_stage_give_moments(struct kvc_stage *stage, const float *mean, const float *covariance,
                                       uint32_t rotary, struct kvc_error *error);
/** Parameters of kvc_stage_expected_scores. */
struct kvc_expectation {
    uint64_t first;  /**< first index that is scored */
    uint32_t future; /**< number of future positions over which RoPE's rotation is averaged */
    bool covariance; /**< include the covariance of the queries */
    bool values;     /**< multiply by the length of the value, after epsilon is added */
    float epsilon;   /**< added to the expected attention */
};
/** Prompt stage: sets scores per list to the attention that queries with the collected mean and covariance give on
 * average from the next positions (Expected Attention, arXiv:2510.00636; docs/reference/methods/expected.md). */
enum kvc_status kvc_stage_expected_scores(struct kvc_stage *stage, const struct kvc_expectation *expected,
                                          struct kvc_scores *scores, struct kvc_error *error);
/** Prompt stage: sets weights per query head to `exp(scale * (c - m))`, where c is the cosine of a key and the mean of
 * the collected queries, rotated as for kvc_stage_expected_scores, and m is the highest c (CapKV, arXiv:2604.25975;
 * docs/reference/methods/cap.md). Indices below `first` get 0. */
enum kvc_status kvc_stage_mean_weights(struct kvc_stage *stage, uint64_t first, uint32_t future, float scale,
                                       struct kvc_scores *weights, struct kvc_error *error);

/** In `attended`: copies the current query rows to the host, before RoPE or `rotated`, for statistics of all queries.
 * `queries` [capacity, H, d] has channels in RoPE's order: rotated pair i is channels i and i + rotary / 2. `*rows` is
 * the number of rows, of which at most `capacity` are written; `*rotary` is the number of channels that the layer
 * rotates. */
enum kvc_status kvc_stage_read_queries(struct kvc_stage *stage, bool rotated, float *queries, size_t capacity,
                                       size_t *rows, uint32_t *rotary, struct kvc_error *error);
/** Statistics of a layer's queries before RoPE (TriAttention, arXiv:2604.04921). */
struct kvc_series {
    const float *mean;   /**< [H, d] mean query, channels as in kvc_stage_read_queries */
    const float *spread; /**< [H, d / 2] for each pair: the mean length minus the length of the mean */
    uint32_t rotary;     /**< channels that are rotated, or KVC_ANY_ROTARY */
    uint32_t future;     /**< queries are expected at now + 1, now + 2, now + 4, ... now + future */
};
/** In `prepare`: rotates the mean to the expected positions and uploads the result for the next decode stage. Fails
 * with KVC_INPUT if the layer rotates another number of channels. */
enum kvc_status kvc_stage_prepare_series(struct kvc_stage *stage, const struct kvc_series *series,
                                         struct kvc_error *error);
/** Decode stage, after kvc_stage_prepare_series with the same series: sets scores per list to TriAttention's scores
 * (docs/reference/methods/triattention.md): the highest score of the group's heads or, with `average`, their mean. */
enum kvc_status kvc_stage_series_scores(struct kvc_stage *stage, const struct kvc_series *series, bool average,
                                        struct kvc_scores *scores, struct kvc_error *error);
/** Prompt stage: sets scores per list to the attention within chunks, times the length of the value (Compactor,
 * arXiv:2507.08143; docs/reference/methods/compactor.md). The prompt is cut into chunks of `chunk` entries; every query
 * (the class's `queries` must request all) attends to all entries of its chunk, including later ones. The oldest
 * `first` and the newest `last` entries get 0. Entries of earlier turns keep the score of their own turn, stored in
 * state column `column`. scores NULL: only updates the column. */
enum kvc_status kvc_stage_chunk_mass(struct kvc_stage *stage, uint64_t first, uint64_t last, uint32_t chunk,
                                     uint32_t column, struct kvc_scores *scores, struct kvc_error *error);
/** Sets scores per list to the statistical leverage of each key before RoPE among the keys of its list (Compactor). */
enum kvc_status kvc_stage_leverage(struct kvc_stage *stage, uint64_t first, uint64_t last, struct kvc_scores *scores,
                                   struct kvc_error *error);
/** Sets scores per list to the leverage of the values times `weights`, which are per query head, among those of their
 * list; the mean over the group's heads (CapKV). Indices below `first` get 0. */
enum kvc_status kvc_stage_value_leverage(struct kvc_stage *stage, uint64_t first, const struct kvc_scores *weights,
                                         struct kvc_scores *scores, struct kvc_error *error);
/** Replaces scores per list by `share * z(leverage) + z(scores)`, where z subtracts the mean over all lists and divides
 * by the standard deviation; a score of 0 counts as the mean (Compactor). */
enum kvc_status kvc_stage_standard_mix(struct kvc_stage *stage, uint64_t first, uint64_t last, float share,
                                       const struct kvc_scores *leverage, struct kvc_scores *scores,
                                       struct kvc_error *error);

/** Copies one head's scores to the host, for experiments; waits for the device. `*count` is the number of the head's
 * entries; `values` receives at most `capacity` of them. */
enum kvc_status kvc_stage_read_scores(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t head,
                                      float *values, size_t capacity, size_t *count, struct kvc_error *error);
/** Copies the scores of any of the model_lists to the host, even if another rank holds them. All ranks must call it. */
enum kvc_status kvc_stage_read_any_scores(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t list,
                                          float *values, size_t capacity, size_t *count, struct kvc_error *error);
/** Copies the positions of one list's entries to the host, as kvc_stage_read_scores does. */
enum kvc_status kvc_stage_read_positions(struct kvc_stage *stage, uint32_t head, int32_t *positions, size_t capacity,
                                         size_t *count, struct kvc_error *error);
/** Copies `count` values, at most one per entry, from the host to one head's scores. */
enum kvc_status kvc_stage_write_scores(struct kvc_stage *stage, struct kvc_scores *scores, uint32_t head,
                                       const float *values, size_t count, struct kvc_error *error);

/* ---- state columns --------------------------------------------------------------------------------------------
 * A class may request float32 columns (`columns`), numbered from 0. Each column holds one number for each entry, which
 * is 0 when the entry is appended. */

/** Adds the attention probabilities of the current queries (in `attended`, of the current rows; in a decode step, of
 * its row) to columns first and first+1, whose sum is the accumulated attention (H2O, arXiv:2306.14048). tau 0:
 * attention's own probabilities. Otherwise: `softmax((s + g) / tau)` with noise g drawn from `seed` (Keyformer,
 * arXiv:2403.09054). */
enum kvc_status kvc_stage_accumulate(struct kvc_stage *stage, uint32_t first, float tau, uint64_t seed,
                                     struct kvc_error *error);
/** Sets scores per list to the sum of `count` neighbouring columns. */
enum kvc_status kvc_stage_column_scores(struct kvc_stage *stage, uint32_t first, uint32_t count,
                                        struct kvc_scores *scores, struct kvc_error *error);
/** Copies scores per list to a column. */
enum kvc_status kvc_stage_scores_column(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t column,
                                        struct kvc_error *error);

/** Contents of a ring buffer of recent queries: for each of the last `rows` queries a column with one number per entry.
 * The ring buffer uses columns first to first+rows-1; the query at position p writes column `first + p % rows`. */
enum kvc_row_kind {
    KVC_ROW_PROBABILITIES, /**< attention probabilities, summed over the group */
    KVC_ROW_LOGITS,        /**< logits, summed over the group */
    KVC_ROW_LOW,           /**< number of the group's heads that gave the entry less than 1/n, for n visible entries
                                (Scissorhands, arXiv:2305.17118) */
    KVC_ROW_COUNTS         /**< two ring buffers and a sum: `rows` columns as KVC_ROW_PROBABILITIES, `rows` columns as
                                KVC_ROW_LOW, and a column with minus the sum of the latter */
};
/** How kvc_stage_ring_fuse combines the rows. */
enum kvc_fusion {
    KVC_FUSE_SUM, /**< sum */
    KVC_FUSE_MAX  /**< maximum */
};
/** Writes the rows of the newest `count` queries: the step's own query (count 1), or the prompt's last queries. An
 * entry that a query could not see gets 0, or minus infinity among logits. A row whose token was pruned below this
 * layer gets this value for every entry. */
enum kvc_status kvc_stage_ring_write(struct kvc_stage *stage, uint32_t first, uint32_t rows, uint32_t count,
                                     enum kvc_row_kind kind, struct kvc_error *error);
/** Sets scores per list by combining the newest `filled` rows, by ascending position of their queries, for entries
 * older than position `recent` (INT64_MAX: all entries) (MorphKV, arXiv:2503.00979). Each row of logits first passes a
 * softmax over these entries. */
enum kvc_status kvc_stage_ring_fuse(struct kvc_stage *stage, uint32_t first, uint32_t rows, uint32_t filled,
                                    enum kvc_row_kind kind, enum kvc_fusion fusion, int64_t recent,
                                    struct kvc_scores *scores, struct kvc_error *error);
/** Width of the blocks of kvc_stage_ring_sums. */
enum {
    KVC_RING_BLOCK = 8 /**< rows of a block */
};
/** Returns the number of blocks of `rows` rows. */
static inline uint32_t kvc_ring_blocks(uint32_t rows) { return (rows + KVC_RING_BLOCK - 1) / KVC_RING_BLOCK; }
/** Updates the sums of each KVC_RING_BLOCK neighbouring rows of probabilities, so that kvc_stage_keep_ring reads fewer
 * columns. The sums use kvc_ring_blocks(rows) columns from `sums` on. Call it after each kvc_stage_ring_write with the
 * same `count`. */
enum kvc_status kvc_stage_ring_sums(struct kvc_stage *stage, uint32_t first, uint32_t rows, uint32_t sums,
                                    uint32_t count, struct kvc_error *error);

/* ---- eviction --------------------------------------------------------------------------------------------------- */

/** Which entries a head keeps: indices below `first`, the last `tail` indices, positions from `recent` on, and among
 * the others the `top` with the highest scores (rule 4 of docs/reference/methods.md). */
struct kvc_keep {
    uint64_t first; /**< oldest entries to keep */
    uint64_t tail;  /**< newest entries to keep */
    uint64_t top;   /**< entries to keep by score */
    uint64_t fill;  /**< number of entries to keep in total: increases `top` to reach it; 0: not used */
    uint64_t limit; /**< a head with no more entries than this keeps them all */
    int64_t recent; /**< entries at this position and later are kept; INT64_MAX: none */
    bool bounded;   /**< entries with scores below `least` are not kept by score */
    float least;    /**< the lowest score that is kept, if `bounded` is set */
    const struct kvc_scores *scores; /**< per list; may be NULL if `top` and `fill` are 0 */
    const struct kvc_scores *ties;   /**< of equal scores the entry with the higher value here is kept; NULL: the lower
                                          index */
};
/** Evicts by one rule for every head. */
enum kvc_status kvc_stage_keep(struct kvc_stage *stage, const struct kvc_keep *keep, struct kvc_error *error);
/** Evicts by the sums of the newest `filled` rows of a ring buffer of probabilities, as kvc_stage_ring_fuse computes
 * them for entries older than keep->recent. The sums serve as scores or, if keep->scores is given, as ties. `sums` is
 * the first column of kvc_stage_ring_sums; UINT32_MAX: none. */
enum kvc_status kvc_stage_keep_ring(struct kvc_stage *stage, const struct kvc_keep *keep, uint32_t first, uint32_t rows,
                                    uint32_t filled, uint32_t sums, struct kvc_error *error);
/** Evicts by one rule per head: keeps [kv_heads]. All use the scores and ties of the first rule. */
enum kvc_status kvc_stage_keep_heads(struct kvc_stage *stage, const struct kvc_keep *keeps, struct kvc_error *error);
/** Keeps the same indices [count], ascending, of every head. */
enum kvc_status kvc_stage_keep_indices(struct kvc_stage *stage, const uint32_t *indices, uint32_t count,
                                       struct kvc_error *error);
/** Keeps the entries of each head at positions [kv_heads][counts[head]], strictly ascending. Positions that a head does
 * not hold are ignored. */
enum kvc_status kvc_stage_keep_positions(struct kvc_stage *stage, const int32_t *const *positions, const size_t *counts,
                                         struct kvc_error *error);
/** Repeats this stage function's last eviction, head by head, in the layer that the stage has switched to. The heads of
 * both layers must hold equally many entries. */
enum kvc_status kvc_stage_keep_again(struct kvc_stage *stage, struct kvc_error *error);
/** Uploads the indices [count], ascending, that one head will keep, for kvc_stage_keep_planned. Call it for every head,
 * in the class's `plan` (for the coming step) or in its prompt stage. */
enum kvc_status kvc_stage_plan(struct kvc_stage *stage, uint32_t head, const uint32_t *indices, uint32_t count,
                               struct kvc_error *error);
/** Evicts by the indices of kvc_stage_plan. */
enum kvc_status kvc_stage_keep_planned(struct kvc_stage *stage, struct kvc_error *error);
/** Counts how many of the `slots` highest scores of all heads belong to each head, leaving out the last `tail` entries
 * of each, and copies the counts to the host: shares [kv_heads] (Ada-KV, arXiv:2407.11550). */
enum kvc_status kvc_stage_shares(struct kvc_stage *stage, const struct kvc_scores *scores, uint64_t tail,
                                 uint64_t slots, uint32_t *shares, struct kvc_error *error);
/** Restricts select methods to the entries that this rule keeps, and to entries appended later, until the next prompt.
 * Evicts nothing. */
enum kvc_status kvc_stage_view(struct kvc_stage *stage, const struct kvc_keep *keep, struct kvc_error *error);
/** Propagate stage: lets the layers above compute only these rows [count] of this turn's prompt, numbered from 0 and
 * ascending. They must include the last row (FastKV, arXiv:2502.01068). */
enum kvc_status kvc_stage_prune_tokens(struct kvc_stage *stage, const uint32_t *rows, uint32_t count,
                                       struct kvc_error *error);

/* ---- merging --------------------------------------------------------------------------------------------------- */

/** In `evicts`: merges the value of each entry that is about to be evicted into the value of the kept entry whose key
 * has the highest cosine, if that is at least `threshold`. The kept entry's new value is a weighted mean
 * (docs/reference/methods/merging.md). Keys do not change. The class must have whole_keys = true. */
enum kvc_status kvc_stage_merge_similar(struct kvc_stage *stage, float threshold, struct kvc_error *error);
/** In `evicts`: with some probability, adds the value of an entry that is about to be evicted, in equal parts, to the
 * values of the next `span` kept entries. The probability is the entry's score divided by the mean score of these kept
 * entries; draws use `seed` (CaM; docs/reference/methods/cam.md). Overwrites the scores. */
enum kvc_status kvc_stage_merge_following(struct kvc_stage *stage, uint32_t span, uint64_t seed,
                                          struct kvc_scores *scores, struct kvc_error *error);

/* ---- channels -------------------------------------------------------------------------------------------------- */

/** In `prompt_end`: sets `channels` channels of the keys of this turn's tokens to 0, except those of the last `recent`
 * tokens. They are the channels with the lowest product of two sums of squares: over the last `window` prompt queries
 * of the group, and over the keys (ThinK, arXiv:2407.21018; docs/reference/methods/think.md). The class must have
 * zeroes = true and request queries. */
enum kvc_status kvc_stage_prune_channels(struct kvc_stage *stage, uint32_t window, uint32_t recent, uint32_t channels,
                                         struct kvc_error *error);

/* ---- reads of a decode step ---------------------------------------------------------------------------------- */

/** How a select method chooses entries. */
enum kvc_select_kind {
    KVC_SELECT_EXACT,         /**< the `top` entries of highest attention probability (topk) */
    KVC_SELECT_CHANNELS,      /**< the `top` entries of highest probability estimated from the query's `dims` largest
                                   channels; they always include the newest `local` (SparQ, arXiv:2312.04985) */
    KVC_SELECT_PAGE_CHANNELS, /**< the same with estimates from pages of `page` entries (hsa; RocketKV,
                                   arXiv:2502.14051) */
    KVC_SELECT_PAGE_BOUND     /**< the `top` pages of highest upper bound (Quest, arXiv:2406.10774) */
};
/** Parameters of kvc_stage_select. */
struct kvc_select {
    enum kvc_select_kind kind; /**< the choice */
    uint32_t page;   /**< entries of a page. With KVC_SELECT_CHANNELS: 1 stores a second copy of the keys by channel, so
                          that only the largest channels are read from memory; 0 does not */
    uint32_t dims;   /**< number of channels */
    uint64_t budget; /**< a head that may choose from no more entries than this reads all of them */
    uint64_t top;    /**< entries or pages to read */
    uint64_t local;  /**< newest entries that are always read */
    double share;    /**< with pages: the choice ends when the chosen entries have this share of all estimated weights;
                          0: not used. A weight is an entry's score, or with KVC_SELECT_PAGE_BOUND the exponential of a
                          page's bound, averaged over the group */
    bool mean_value; /**< KVC_SELECT_CHANNELS: give the probability of unread entries to the mean of all values */
};
/** Select stage: sets the entries that the step reads in every head, or in its view. */
enum kvc_status kvc_stage_select(struct kvc_stage *stage, const struct kvc_select *select, struct kvc_error *error);

/* ---- rows that a method adds to a prompt --------------------------------------------------------------------- */

/** The prompt of a turn. */
struct kvc_turn {
    const int32_t *tokens; /**< [count]; NULL in a replay, which provides the added rows itself */
    uint64_t count;        /**< tokens */
    uint64_t held;         /**< N: entries of the longest head, the prompt included */
    uint64_t seed;         /**< the session's seed */
    void *state;           /**< the session's state, of the class's state_bytes */
    const int32_t *draft;  /**< as many tokens as the class's `draft` returned. NULL in a replay, and in the copy of the
                                session that makes the draft; `pseudo` then uses other tokens */
};
/** How a chunk method cuts the prompt. The last `probe` tokens of the prompt run as additional rows with every chunk
 * but the last. */
struct kvc_chunking {
    uint32_t chunk; /**< rows of a chunk */
    uint32_t probe; /**< tokens of the probe */
    bool at_end;    /**< the probe uses its own positions at the prompt's end; false: positions right after the chunk */
    bool together;  /**< probe rows also attend to themselves and earlier probe rows; false: only to the entries */
    bool own;       /**< no row is added: the probe of a chunk is the chunk's own last tokens */
};

/* ---- forecasts ----------------------------------------------------------------------------------------------- */

/** One layer, as the formulas of a method see it. */
struct kvc_layer_context {
    uint32_t layer;            /**< index of the layer, from 0, among the layers with attention */
    uint32_t layers;           /**< number of layers with attention in the model */
    uint32_t acting;           /**< index of this layer, from 0, among the layers on which the method acts */
    uint32_t actings;          /**< number of layers on which the method acts */
    uint32_t kv_heads;         /**< lists of entries */
    uint32_t group;            /**< query heads per list */
    uint32_t head_size;        /**< d */
    uint32_t model_kv_heads;   /**< KV heads of the model: kv_heads, or fewer with per=head */
    double entry_bytes;        /**< size of an entry */
    double element_bytes;      /**< size of one channel of a key */
    double page_element_bytes; /**< size of one channel of a page's minimum or maximum */
    double from;  /**< for the function `entries`: length of the list before the method's prompt stage, or, if another
                       method holds that stage, before the first decode step */
    bool prompts; /**< the method holds the prompt stage */
    bool uneven;  /**< the data decides how many entries each list holds, and `from` is the mean: `entries` must return
                       the most that a list can hold */
};

/** Whether the data decides how entries are distributed. */
enum kvc_ragged {
    KVC_RAGGED_NONE,   /**< no: all heads of all layers hold the predicted number */
    KVC_RAGGED_HEADS,  /**< among the heads of a layer */
    KVC_RAGGED_LAYERS, /**< among the layers, whose heads hold equally many */
    KVC_RAGGED_MODEL,  /**< among all heads of all layers */
    KVC_RAGGED_ANY     /**< it also decides how many there are in all; `bound` and `entries` are upper bounds */
};

/** Predicts the entries of a method from its options and the lengths, without data. `kvcull info` uses it to predict
 * memory, `kvcull bench` compares it with counted numbers, and a session uses it to reserve memory before each step.
 * `prompt` is the number of the prompt's tokens, `steps` the number of decode steps since then (0: right after the
 * prompt). Any function may be NULL. */
struct kvc_forecast {
    /** Returns the most entries that a head holds at any time up to decode step `steps`, the step's own entry included.
     * NULL: no bound. If it returns 0, the bound is one more than `entries` returns. */
    uint64_t (*bound)(const struct kvc_values *values, uint64_t prompt, uint64_t steps);
    /** Returns the number of entries of a head after decode step `steps`, as a mean over the layer's heads, if the list
     * held at least context->from entries. NULL: bound(prompt, 0) or, if there is no `bound`, all entries. */
    double (*entries)(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt,
                      uint64_t steps);
    /** Returns how many of the layer's lists keep everything; `entries` then describes the others. NULL: none. */
    uint32_t (*whole)(const struct kvc_values *values, const struct kvc_layer_context *context);
    enum kvc_ragged ragged; /**< if not KVC_RAGGED_NONE, `entries` is a mean over heads or layers */
    bool follows;           /**< after another method's eviction the data decides how many entries this method leaves;
                                 `entries` then returns an upper bound */
    /** Returns the number of entries in the view (kvc_stage_view) that the prompt stage makes. NULL: it makes none. */
    uint64_t (*seen)(const struct kvc_values *values, uint64_t prompt);
    /** With KVC_STAGE_CHUNK: returns how many entries a head keeps between chunks. NULL: as many as after the last
     * chunk. */
    uint64_t (*between)(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt);
    /** With KVC_STAGE_PROPAGATE: returns how many of `rows` rows reach the layer above. */
    uint64_t (*propagated)(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t rows);
};

/* ---- the class ----------------------------------------------------------------------------------------------- */

/** A function of a stage, or an observer. The library calls it for one session and one layer; a result other than
 * KVC_OK ends the prompt or the step with that error. */
typedef enum kvc_status kvc_stage_fn(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error);

/** A method. Members that are not needed stay NULL or 0. Texts appear in the manual. */
struct kvc_policy_class {
    const char *name;                 /**< letters, digits, '-' and '_' */
    const char *summary;              /**< half a line */
    const char *paper;                /**< title and arXiv number; "-": none */
    const char *idea;                 /**< one paragraph */
    const char *formula;              /**< which entries are kept or read */
    const char *memory;               /**< entries and state that it needs */
    const char *traffic;              /**< entries that it reads per generated token */
    const char *differences;          /**< differences from the paper or from the authors' code */
    const char *second_turn;          /**< behaviour in later turns, in addition to rule 15 of
                                           docs/reference/methods.md */
    void *user;                       /**< for the writer's own use; see kvc_stage_user */
    unsigned stages;                  /**< bits of enum kvc_stage_kind */
    const struct kvc_option *options; /**< a row with name NULL ends the table; NULL: no options */
    const char *trial;                /**< options besides a budget that suit a model of a few layers and a prompt of a
                                           few hundred tokens, such as "span=2,sinks=4", for tests of every method;
                                           NULL: the defaults suit */

    /** Checks conditions beyond the range of a single option. Errors name the option, its value and the range. */
    enum kvc_status (*check)(const struct kvc_values *values, struct kvc_error *error);
    /** Checks conditions that depend on the model. acts [layers] says on which layers the method acts. */
    enum kvc_status (*check_model)(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                   const bool *acts, struct kvc_error *error);
    /** Returns the size of the state of one session or estimate (kvc_stage_state); 0: none. The library allocates,
     * zeroes, saves, loads, copies and frees it, so it must not contain pointers. */
    size_t (*state_bytes)(const struct kvc_values *values, const struct kvc_geometry *geometry);
    /** Sets the initial state if it is not all zeros; `state` is NULL without state. */
    enum kvc_status (*open)(const struct kvc_values *values, const struct kvc_geometry *geometry, void *state,
                            struct kvc_error *error);
    /** Returns true if a state read from a file is valid, so that stage functions can rely on it. NULL: the state never
     * changes and must equal that of `open`. */
    bool (*state_fits)(const struct kvc_values *values, const struct kvc_geometry *geometry, const void *state);

    /** Returns how many of the prompt's last queries the method's stages read; UINT32_MAX: all, which are freed after
     * the prompt. */
    uint32_t (*queries)(const struct kvc_values *values);
    /** Returns the number of state columns (float32 per entry), at most 65535. */
    uint32_t (*columns)(const struct kvc_values *values);
    /** Returns how many entries above the budget a head holds between two evictions of the decode stage. NULL: 1. */
    uint32_t (*surplus)(const struct kvc_values *values);
    /** Returns the safetensors file, or its folder, with the networks that kvc_stage_predict uses
     * (docs/reference/methods/kvzap.md); "drawn": random networks; NULL: none. With it, the method needs a model. */
    const char *(*predictor)(const struct kvc_values *values);
    enum kvc_predictor_kind predictor_kind; /**< the form of these networks */
    bool channels;   /**< the method reads single channels of keys or values, so it needs entries of a type that is not
                          rotated */
    bool whole_keys; /**< the method calls kvc_stage_entry_scores with a kind other than KVC_ENTRY_DRAW,
                          kvc_stage_mix_redundancy or kvc_stage_merge_similar: no mean is then subtracted from keys of
                          rotated types */
    bool zeroes; /**< the method calls kvc_stage_prune_channels, so it needs keys of a type that stores zeros exactly */
    bool compares_keys; /**< the decode stage calls kvc_stage_mix_redundancy, which needs memory before the step */
    /** Returns true if the prompt stage reads scores of other layers, so that these layers must be in one process. */
    bool (*reads_layers)(const struct kvc_values *values);
    /** Returns true if every query head has its own list of entries. */
    bool (*per_head)(const struct kvc_values *values);
    /** Returns true if keys are rotated by their index in the list (positions=cache). */
    bool (*cache_positions)(const struct kvc_values *values);
    const struct kvc_forecast *forecast; /**< predictions; NULL: heads hold everything */
    /** Returns the predictions, if they depend on the options. NULL: `forecast`. */
    const struct kvc_forecast *(*forecasts)(const struct kvc_values *values);

    /** With KVC_STAGE_CHUNK: says how the prompt is cut. */
    void (*chunking)(const struct kvc_values *values, struct kvc_chunking *chunking);
    /** With KVC_STAGE_CHUNK: returns the layer at which this layer's entries are chosen: itself or one above. NULL:
     * every layer chooses its own entries. */
    uint32_t (*decider)(const struct kvc_values *values, const struct kvc_layer_context *context);
    /** Returns how many pseudo tokens run after the prompt of this turn. `*offset` is the distance of the first one's
     * position from the prompt's end (negative: before it, at least position 0); `tokens`, unless NULL, receives their
     * ids. */
    uint32_t (*pseudo)(const struct kvc_values *values, const struct kvc_turn *turn, int32_t *offset, int32_t *tokens);

    /** Returns how many tokens of a draft of the answer `pseudo` needs; 0: none. If it is not 0, a copy of the session
     * first reads the prompt and generates the draft greedily, so the prompt is computed twice. Needs a single process.
     * NULL: none. */
    uint32_t (*draft)(const struct kvc_values *values);

    /** Observer, called after the attention of some of the prompt's rows (kvc_stage_accumulate), even if another method
     * holds the prompt stage. */
    kvc_stage_fn *attended;
    /** Observer, called after a layer's last prompt row, before the prompt stage, even if another method holds that
     * stage. It must not evict. */
    kvc_stage_fn *observe_prompt;
    /** Observer, called in each decode step after the layer's attention, before the decode stage, even if another
     * method holds that stage. It must not evict. */
    kvc_stage_fn *observe_step;
    /** Called after a layer's prompt stage, to change keys (kvc_stage_prune_channels), even if another method holds
     * that stage. It must not evict. */
    kvc_stage_fn *prompt_end;
    /** Called before each eviction of the policy's methods, to merge values (kvc_stage_merge_similar). It is not called
     * when entries expire. It must not evict, and there are no queries. */
    kvc_stage_fn *evicts;
    kvc_stage_fn *chunk;     /**< KVC_STAGE_CHUNK, called after each chunk, layer by layer */
    kvc_stage_fn *prompt;    /**< KVC_STAGE_PROMPT */
    kvc_stage_fn *propagate; /**< KVC_STAGE_PROPAGATE */
    kvc_stage_fn *select;    /**< KVC_STAGE_SELECT; not needed with `sizes` */
    kvc_stage_fn *decode;    /**< KVC_STAGE_DECODE */
    /** Returns the parameters of kvc_stage_select, if they depend only on the members `held`, `after`, `entries` and
     * `head_size` of `info`. */
    struct kvc_select (*sizes)(const struct kvc_values *values, const struct kvc_stage_info *info);
    /** Called before each decode step, if the host alone decides what `decode` will keep: uploads the indices
     * (kvc_stage_plan), so that nothing is uploaded within the step. info->entries includes the coming entry; there are
     * no queries. */
    kvc_stage_fn *plan;
    /** Called before each decode step, to upload data that `decode` needs (kvc_stage_prepare_series). */
    kvc_stage_fn *prepare;
};

/** Registers a class, which must outlive the engine. Fails with KVC_USAGE if the name is taken, a stage has no function
 * or the option table is malformed; also if the engine has several processes. */
enum kvc_status kvc_engine_register(struct kvc_engine *engine, const struct kvc_policy_class *policy,
                                    struct kvc_error *error);
/** Returns the i-th method that the engine knows, the built-in ones first; NULL past the last one. */
const struct kvc_policy_class *kvc_policy(const struct kvc_engine *engine, size_t i);
/** Returns the options that every method accepts (skip_layers, layers, stages). A row with name NULL ends the table. */
const struct kvc_option *kvc_common_options(void);
/** Returns the stages (bits of enum kvc_stage_kind) at which the methods of a policy string act. Fails as
 * kvc_policy_check does. */
enum kvc_status kvc_policy_stages(const struct kvc_engine *engine, const char *spec, unsigned *stages,
                                  struct kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif
