/* policy.h - for those who write a method: its options, what its stage functions may call, and the class that tells the
 * library of it. Installed as kvcull/policy.h. docs/how-to/add-a-method.md walks through one; docs/reference/methods.md
 * defines the words and the numbered rules that comments here name.
 */
#ifndef KVCULL_POLICY_H
#define KVCULL_POLICY_H

#include "kvcull.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- options ------------------------------------------------------------------------------------------------- */

enum kvc_option_kind {
    KVC_OPTION_INT,    /* minimum..maximum */
    KVC_OPTION_REAL,   /* minimum..maximum */
    KVC_OPTION_BUDGET, /* tokens, or a share of the prompt as "10%" */
    KVC_OPTION_CHOICE, /* one of choices, separated by '|' */
    KVC_OPTION_TEXT
};
struct kvc_option { /* one row of a class's option table; a row with name NULL ends the table */
    const char *name;
    enum kvc_option_kind kind;
    const char *default_value; /* as written in a policy string. NULL: the option must be given. "": there is no
                                  default, and a number that is not given reads as 0 */
    double minimum, maximum;
    const char *choices;
    const char *help;
};

struct kvc_values; /* a method's options, parsed and checked */
int64_t kvc_value_int(const struct kvc_values *values, const char *name);
double kvc_value_real(const struct kvc_values *values, const char *name);
const char *kvc_value_text(const struct kvc_values *values, const char *name); /* also of a choice */
/* A budget in tokens, for a prompt of so many. A share is rounded to the nearest token, halves up. The result is at
 * least `least`. */
uint64_t kvc_value_budget(const struct kvc_values *values, const char *name, uint64_t prompt, uint64_t least);
bool kvc_value_is_share(const struct kvc_values *values, const char *name);
bool kvc_value_given(const struct kvc_values *values, const char *name); /* whether the policy string names it */
/* Reads text [length] as a plain decimal number: digits, with a point and an exponent where they are wanted, whatever
 * the host's locale. False where it is anything else; "0x10", "inf" and blanks, which strtod takes, are not plain. */
bool kvc_decimal(const char *text, size_t length, double *number);

/* ---- what a stage function sees ------------------------------------------------------------------------------ */

/* The moments at which a method acts, as bits, in the order in which they come. */
enum kvc_stage_kind {
    KVC_STAGE_CHUNK = 1,
    KVC_STAGE_PROMPT = 2,
    KVC_STAGE_PROPAGATE = 4,
    KVC_STAGE_SELECT = 8,
    KVC_STAGE_DECODE = 16
};

struct kvc_stage; /* one session and one layer, during one call of a stage function */
struct kvc_stage_info {
    uint32_t layer, layers, heads, head_size;
    uint32_t kv_heads; /* lists of entries: the model's KV heads, or its query heads where a method has per=head */
    uint32_t acting, actings; /* this layer's number among those the method acts on, and how many these are */
    uint64_t turn;            /* rows of this turn's prompt that reached this layer */
    uint64_t turn_tokens;     /* tokens of this turn's prompt: those rows, and those that token pruning dropped */
    uint64_t held;  /* N of docs/reference/methods.md: what the fullest head held when the turn's prompt was in, counted
                       as if  token pruning had dropped no rows of this layer */
    uint64_t after; /* entries of the fullest head after the prompt stage; 0 before it */
    uint64_t now;   /* tokens the session has seen, those of this step or chunk included */
    uint64_t step;  /* decode steps since the last prompt, this one included; 0 in the prompt stage */
    uint64_t entries;  /* entries of the fullest head now; once a decode stage has evicted: the most it can hold. In
                          stages that evict, without those that a sliding window hides from every row to come: they go
                          when scores are asked for, or the first rule, rank or position to keep is given */
    uint64_t expected; /* tokens the caller means to ask for after the prompt; 0: unknown */
    uint64_t seed;
    /* Where ranks share out the heads (docs/explanation/parallel-runs.md): how many lists and query heads the layer has
     * on all of them, and the numbers among these of this rank's first. Elsewhere: kv_heads, heads, 0 and 0. */
    uint32_t model_lists, model_heads, first_list, first_head;
    bool last_chunk;               /* in the chunk stage: this chunk is the prompt's last */
    bool owns_prompt, owns_decode; /* whether this method, and no other of the policy, holds that stage */
};
const struct kvc_stage_info *kvc_stage_info(const struct kvc_stage *stage);
void *kvc_stage_state(const struct kvc_stage *stage);               /* of this session: the class's state_bytes */
void *kvc_stage_user(const struct kvc_stage *stage);                /* the class's `user` */
bool kvc_stage_acts(const struct kvc_stage *stage, uint32_t layer); /* whether the method acts on a layer */
/* Switches the stage to an earlier layer: later calls of this stage function work on that one. Its state columns are
 * there, its queries are gone. */
enum kvc_status kvc_stage_layer(struct kvc_stage *stage, uint32_t layer, struct kvc_error *error);

/* ---- scores ---------------------------------------------------------------------------------------------------
 * A float32 for each rank of each list of entries, or of each query head. They lie on the device and live until the
 * stage function returns or turns to another layer; a function that is given older ones returns KVC_USAGE. Everything
 * below runs on the backend; nothing is copied to the host unless the comment says so. */

struct kvc_scores;
struct kvc_keep;
/* Buffers for scores of every list of entries, and of every query head. */
enum kvc_status kvc_stage_scores(struct kvc_stage *stage, struct kvc_scores **scores, struct kvc_error *error);
enum kvc_status kvc_stage_head_scores(struct kvc_stage *stage, struct kvc_scores **scores, struct kvc_error *error);
/* The window mass (docs/reference/methods.md) of the last `window` prompt queries, of which there are at most as many
 * as the class's `queries` asked for. Where the scores are per query head, each head has its own. */
enum kvc_status kvc_stage_window_mass(struct kvc_stage *stage, uint32_t window, struct kvc_scores *scores,
                                      struct kvc_error *error);
/* The same of the rows that the class's `pseudo` added; and the most that any of them, in any of the group's heads,
 * gave an entry. */
enum kvc_status kvc_stage_pseudo_mass(struct kvc_stage *stage, struct kvc_scores *scores, struct kvc_error *error);
enum kvc_status kvc_stage_pseudo_most(struct kvc_stage *stage, struct kvc_scores *scores, struct kvc_error *error);
/* take's scores, in a chunk stage. The layer's rotated probe queries Q go into the accumulated probe: A = Q in the
 * first chunk, A = alpha*A + (1-alpha)*Q in later ones. scores = the mean over the probe's tokens of softmax(A K^T /
 * sqrt(d)), over all entries; NULL: none are made. */
enum kvc_status kvc_stage_probe_mass(struct kvc_stage *stage, float alpha, struct kvc_scores *scores,
                                     struct kvc_error *error);
/* cake's scores (per query head): mean + gamma * variance of the probabilities that the last `window` queries gave, for
 * ranks below entries - tail. The total dispersion and variance (docs/reference/methods/cake.md) go to the host. */
enum kvc_status kvc_stage_moments(struct kvc_stage *stage, uint32_t window, uint64_t tail, float gamma,
                                  struct kvc_scores *scores, float *dispersion, float *variance,
                                  struct kvc_error *error);
enum kvc_pooling {
    KVC_POOL_MAX,
    KVC_POOL_AVERAGE,
    KVC_POOL_CHUNKS /* not by neighbours: each rank gets the mean of the `kernel` ranks of its chunk, which are counted
                       from rank 0; the last chunk may have fewer. The kernel may be even */
};
/* 1-D pooling over each head's ranks below (its entries - tail); kernel is odd (rule 6 of docs/reference/methods.md).
 */
enum kvc_status kvc_stage_pool(struct kvc_stage *stage, struct kvc_scores *scores, uint64_t tail, uint32_t kernel,
                               enum kvc_pooling pooling, struct kvc_error *error);
/* From scores per query head to scores per list: the sum over each group, divided by divisor. */
enum kvc_status kvc_stage_group(struct kvc_stage *stage, const struct kvc_scores *heads, float divisor,
                                struct kvc_scores *scores, struct kvc_error *error);

/* What entries are worth by what they hold, or by chance, without a query; scores are per list. */
enum kvc_entry_kind {
    KVC_ENTRY_DRAW, /* a number drawn for each entry of a list, from `seed`, the layer and the entry's position */
    KVC_ENTRY_NORM, /* minus the length of the key */
    KVC_ENTRY_APART /* minus the cosine between the key and the mean of all keys of the list, each divided by its
                       length; times a number that is the same for all */
};
enum kvc_status kvc_stage_entry_scores(struct kvc_stage *stage, enum kvc_entry_kind kind, uint64_t seed,
                                       struct kvc_scores *scores, struct kvc_error *error);
/* lagkv's (docs/reference/methods/lagkv.md): how much a key and a value spread within the range of those in the next
 * partition of `lag` entries, as the rank within its own partition, or (across) as the number itself. Ranks below
 * `first` and those of the last partition and after it have `lag`, which is more than any other. */
enum kvc_status kvc_stage_lag_scores(struct kvc_stage *stage, uint32_t first, uint32_t lag, bool across,
                                     struct kvc_scores *scores, struct kvc_error *error);

/* rkv's (docs/reference/methods/rkv.md): scores become share * scores / divisor - (1 - share) * how much a list's key
 * repeats the others, a softmax over all of its entries. Keys whose cosine is above `threshold` repeat each other. */
enum kvc_status kvc_stage_mix_redundancy(struct kvc_stage *stage, float threshold, float share, float divisor,
                                         struct kvc_scores *scores, struct kvc_error *error);

/* criticalkv's (docs/reference/methods/criticalkv.md). norms, per query head: the sum over the outputs of the layer's
 * output projection of how much, either way, the head's part of it makes of an entry's value; in a replay of the
 * value's channels themselves. */
enum kvc_status kvc_stage_output_norms(struct kvc_stage *stage, struct kvc_scores *norms, struct kvc_error *error);
/* scores, per list, become (scores + epsilon) * factor; of entries that `rule` keeps, whose scores may be these, more
 * than any other. */
enum kvc_status kvc_stage_weigh(struct kvc_stage *stage, const struct kvc_keep *rule, float epsilon,
                                const struct kvc_scores *factor, struct kvc_scores *scores, struct kvc_error *error);

/* Of a class's `attended`: counts the rows at hand, those at positions below `from` left out, into the mean and the
 * covariance of the prompt's queries before their rotation. */
enum kvc_status kvc_stage_query_moments(struct kvc_stage *stage, uint64_t from, struct kvc_error *error);
/* In the prompt stage: the attention that queries of this mean and covariance give on average from the next `future`
 * positions (docs/reference/methods/expected.md), over ranks from `first` on; scores are per list. */
struct kvc_expectation {
    uint64_t first;
    uint32_t future;
    bool covariance, values; /* values: times the length of the value, after `epsilon` is added */
    float epsilon;
};
enum kvc_status kvc_stage_expected_scores(struct kvc_stage *stage, const struct kvc_expectation *expected,
                                          struct kvc_scores *scores, struct kvc_error *error);

/* Of a class's `attended`: the rows at hand before their rotation, to the host, for who collects what is known of all
 * queries. queries [capacity, H, d], channels in the order in which rope gives them out: pair i of those that are
 * rotated are channels i and i + rotary / 2. *rows is how many there are, of which as many as fit are written; *rotary
 * how many channels the layer rotates. */
enum kvc_status kvc_stage_read_queries(struct kvc_stage *stage, float *queries, size_t capacity, size_t *rows,
                                       uint32_t *rotary, struct kvc_error *error);
/* Of a class's `prepare`: what is known of all of the layer's queries before their rotation, for scores in the step to
 * come. What the positions to come make of it, at now + 1, now + 2, now + 4, .. now + future, goes to the device.
 * KVC_INPUT: the layer rotates another number of channels. */
#define KVC_ANY_ROTARY UINT32_MAX
struct kvc_series {
    const float *mean;   /* [H, d], channels as above */
    const float *spread; /* [H, d / 2]: of each pair the mean length less the length of the mean */
    uint32_t rotary;     /* channels that are rotated, or KVC_ANY_ROTARY */
    uint32_t future;
};
enum kvc_status kvc_stage_prepare_series(struct kvc_stage *stage, const struct kvc_series *series,
                                         struct kvc_error *error);
/* Of that step's decode stage, with the same series: triattention's scores (docs/reference/methods/triattention.md), of
 * a group's heads the highest or (average) their mean; scores are per list. */
enum kvc_status kvc_stage_series_scores(struct kvc_stage *stage, const struct kvc_series *series, bool average,
                                        struct kvc_scores *scores, struct kvc_error *error);
/* compactor's (docs/reference/methods/compactor.md), in the prompt stage; scores are per list, 0 of ranks below `first`
 * and of the last `last`. What the prompt's own queries, all that the class's `queries` asked for, give the entries of
 * the chunk of `chunk` entries in which they stand, whether these come before or after them, times the length of the
 * value. What came in earlier turns has what its own turn gave it: a state column keeps it. scores NULL: that alone. */
enum kvc_status kvc_stage_chunk_mass(struct kvc_stage *stage, uint64_t first, uint64_t last, uint32_t chunk,
                                     uint32_t column, struct kvc_scores *scores, struct kvc_error *error);
/* The statistical leverage of each key among those of its list, before their rotation. */
enum kvc_status kvc_stage_leverage(struct kvc_stage *stage, uint64_t first, uint64_t last, struct kvc_scores *scores,
                                   struct kvc_error *error);
/* scores become share * leverage + scores, both less their mean over all lists and in units of their standard
 * deviation; a score of 0 counts as the mean. */
enum kvc_status kvc_stage_standard_mix(struct kvc_stage *stage, uint64_t first, uint64_t last, float share,
                                       const struct kvc_scores *leverage, struct kvc_scores *scores,
                                       struct kvc_error *error);

/* For trials: one head's scores or positions as arrays on the host. Reading waits for the device. values, positions
 * [capacity]; *count is how many entries the head has. */
enum kvc_status kvc_stage_read_scores(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t head,
                                      float *values, size_t capacity, size_t *count, struct kvc_error *error);
/* The same of any of the info's model_lists, whose scores another rank may have: all ranks must ask. */
enum kvc_status kvc_stage_read_any_scores(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t list,
                                          float *values, size_t capacity, size_t *count, struct kvc_error *error);
enum kvc_status kvc_stage_read_positions(struct kvc_stage *stage, uint32_t head, int32_t *positions, size_t capacity,
                                         size_t *count, struct kvc_error *error);
enum kvc_status kvc_stage_write_scores(struct kvc_stage *stage, struct kvc_scores *scores, uint32_t head,
                                       const float *values, size_t count, struct kvc_error *error);

/* ---- state columns --------------------------------------------------------------------------------------------
 * A class may ask for float32 columns, numbered from 0: so many numbers beside each entry, all 0 when the entry comes.
 */

/* Adds the probabilities of all the stage's queries (in `attended` those of the rows at hand, in a decode step its own)
 * to columns first and first+1, whose sum is the accumulated attention. tau 0: attention's own. Another tau:
 * keyformer's, softmax((s + g) / tau), with noise g drawn from `seed`. */
enum kvc_status kvc_stage_accumulate(struct kvc_stage *stage, uint32_t first, float tau, uint64_t seed,
                                     struct kvc_error *error);
/* From columns to scores: the sum of `count` neighbouring ones. */
enum kvc_status kvc_stage_column_scores(struct kvc_stage *stage, uint32_t first, uint32_t count,
                                        struct kvc_scores *scores, struct kvc_error *error);
/* From scores to a column. */
enum kvc_status kvc_stage_scores_column(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t column,
                                        struct kvc_error *error);

/* A ring remembers what each of the last `rows` queries gave to every entry. It takes columns first .. first+rows-1;
 * the row of the query at position p is column first + p % rows. */
enum kvc_row_kind {
    KVC_ROW_PROBABILITIES, /* attention probabilities, summed over the group */
    KVC_ROW_LOGITS,        /* logits, summed over the group */
    KVC_ROW_LOW,   /* how many heads of the group gave the entry less than 1/n, of the n entries the query saw */
    KVC_ROW_COUNTS /* two rings and a sum: `rows` columns as KVC_ROW_PROBABILITIES, `rows` columns as KVC_ROW_LOW, and
                      one column with minus the sum of the latter */
};
enum kvc_fusion { KVC_FUSE_SUM, KVC_FUSE_MAX };
/* Writes the rows of the newest `count` queries: the step's own (count 1), or the last of the prompt. An entry that the
 * query did not see gets 0, among logits minus infinity. So does every entry in the row of a token that token pruning
 * dropped below the layer. */
enum kvc_status kvc_stage_ring_write(struct kvc_stage *stage, uint32_t first, uint32_t rows, uint32_t count,
                                     enum kvc_row_kind kind, struct kvc_error *error);
/* Fuses the ring's newest `filled` rows, by ascending position of their queries, into scores of the entries older than
 * position `recent` (INT64_MAX: of all entries). Each row of logits first goes through a softmax over those entries. */
enum kvc_status kvc_stage_ring_fuse(struct kvc_stage *stage, uint32_t first, uint32_t rows, uint32_t filled,
                                    enum kvc_row_kind kind, enum kvc_fusion fusion, int64_t recent,
                                    struct kvc_scores *scores, struct kvc_error *error);
/* Sums of KVC_RING_BLOCK neighbouring rows of a ring of probabilities, kept in kvc_ring_blocks(rows) columns from
 * `sums` on, so that kvc_stage_keep_ring need not read every row. To be called after each kvc_stage_ring_write, with
 * its count. */
enum { KVC_RING_BLOCK = 8 };
static inline uint32_t kvc_ring_blocks(uint32_t rows) { return (rows + KVC_RING_BLOCK - 1) / KVC_RING_BLOCK; }
enum kvc_status kvc_stage_ring_sums(struct kvc_stage *stage, uint32_t first, uint32_t rows, uint32_t sums,
                                    uint32_t count, struct kvc_error *error);

/* ---- what stays ------------------------------------------------------------------------------------------------- */

/* A rule of what a head keeps: ranks below `first`, the last `tail` ranks, entries at positions >= recent, and of the
 * others the `top` with the highest scores (rule 4 of docs/reference/methods.md). */
struct kvc_keep {
    uint64_t first, tail, top;
    uint64_t fill;                   /* 0, or how many entries to keep in all: top grows until there are so many */
    uint64_t limit;                  /* a head with no more entries than this keeps them all */
    int64_t recent;                  /* INT64_MAX: none */
    const struct kvc_scores *scores; /* per list; may be NULL where top and fill are 0 */
    const struct kvc_scores *ties;   /* of equal scores the one with more of these stays; NULL: the lower rank */
};
/* One rule for every head. */
enum kvc_status kvc_stage_keep(struct kvc_stage *stage, const struct kvc_keep *keep, struct kvc_error *error);
/* The same with the sums of a ring's newest `filled` rows of probabilities, as kvc_stage_ring_fuse makes them for
 * entries older than keep->recent. They are the scores; where keep->scores is given, they are its ties. sums: the first
 * column of kvc_stage_ring_sums, or UINT32_MAX where there are none. */
enum kvc_status kvc_stage_keep_ring(struct kvc_stage *stage, const struct kvc_keep *keep, uint32_t first, uint32_t rows,
                                    uint32_t filled, uint32_t sums, struct kvc_error *error);
/* A rule for each head: keeps [kv_heads]. Scores and ties are those of the first rule. */
enum kvc_status kvc_stage_keep_heads(struct kvc_stage *stage, const struct kvc_keep *keeps, struct kvc_error *error);
/* The same ranks of every head: ranks [count], ascending. */
enum kvc_status kvc_stage_keep_indices(struct kvc_stage *stage, const uint32_t *indices, uint32_t count,
                                       struct kvc_error *error);
/* Of each head the entries at these positions: positions [kv_heads][counts[head]], ascending, each once, or else
 * KVC_USAGE. A position that a head does not hold is passed over. */
enum kvc_status kvc_stage_keep_positions(struct kvc_stage *stage, const int32_t *const *positions, const size_t *counts,
                                         struct kvc_error *error);
/* What this stage function last kept, once more, head by head, in the layer that the stage has switched to. The heads
 * of the two layers must hold equally many entries. */
enum kvc_status kvc_stage_keep_again(struct kvc_stage *stage, struct kvc_error *error);
/* Hands over the ranks [count], ascending, that one head will keep, for kvc_stage_keep_planned. It is called for every
 * head, from the class's `plan` (for the step at hand) or from its prompt stage. */
enum kvc_status kvc_stage_plan(struct kvc_stage *stage, uint32_t head, const uint32_t *indices, uint32_t count,
                               struct kvc_error *error);
enum kvc_status kvc_stage_keep_planned(struct kvc_stage *stage, struct kvc_error *error);
/* How the `slots` highest scores over all heads, those of the last `tail` entries left out, fall to the heads: shares
 * [kv_heads], to the host. */
enum kvc_status kvc_stage_shares(struct kvc_stage *stage, const struct kvc_scores *scores, uint64_t tail,
                                 uint64_t slots, uint32_t *shares, struct kvc_error *error);
/* Evicts nothing. Until the next prompt, select methods see only the entries this rule keeps, and those that come. */
enum kvc_status kvc_stage_view(struct kvc_stage *stage, const struct kvc_keep *keep, struct kvc_error *error);
/* Propagate stage, token pruning: the layers above compute only these rows of this turn's prompt. rows [count],
 * numbered from 0, ascending; the last row must be among them. */
enum kvc_status kvc_stage_prune_tokens(struct kvc_stage *stage, const uint32_t *rows, uint32_t count,
                                       struct kvc_error *error);

/* ---- what a decode step reads -------------------------------------------------------------------------------- */

enum kvc_select_kind {
    KVC_SELECT_EXACT,    /* the `top` entries of highest attention probability (topk) */
    KVC_SELECT_CHANNELS, /* the `top` entries by probabilities guessed from the query's `dims` strongest channels, the
                            newest `local` always among them (sparq) */
    KVC_SELECT_PAGE_CHANNELS, /* the same guess from pages of `page` entries (hsa) */
    KVC_SELECT_PAGE_BOUND     /* the `top` pages of highest upper bound (quest) */
};
struct kvc_select {
    enum kvc_select_kind kind;
    uint32_t page;   /* entries of a page. With KVC_SELECT_CHANNELS: 1 keeps the keys a second time, by channel, so that
                        only the strongest channels are read from memory; 0 does not */
    uint32_t dims;   /* channels */
    uint64_t budget; /* a head (or its view) with no more entries than this reads them all */
    uint64_t top, local;
    double share; /* with pages: 0, or what share of all estimated weights is enough; fewer are read then. Weights are
                     the scores of entries, or (KVC_SELECT_PAGE_BOUND) exponentials of a page's bound, by the
                     group's mean */
    bool mean_value; /* with KVC_SELECT_CHANNELS: the probability of what is not read goes to the mean of all values */
};
/* Select stage: what the step's query reads of every head, or of its view. */
enum kvc_status kvc_stage_select(struct kvc_stage *stage, const struct kvc_select *select, struct kvc_error *error);

/* ---- rows that a method adds to a prompt --------------------------------------------------------------------- */

struct kvc_turn {          /* a turn's prompt */
    const int32_t *tokens; /* [count]; NULL in a replay, whose rows come with it */
    uint64_t count;
    uint64_t held; /* N: entries of the fullest head with the prompt in */
    uint64_t seed;
    void *state; /* the session's: the class's state_bytes */
};
/* How a chunk method cuts the prompt: chunks of `chunk` rows. The last `probe` tokens of the prompt run as extra rows
 * with every chunk but the last, at positions right after the chunk, or (at_end) at their own. They attend to the
 * entries there are, or (together) also to themselves and the probes before them. */
struct kvc_chunking {
    uint32_t chunk, probe;
    bool at_end, together;
};

/* ---- forecasts ----------------------------------------------------------------------------------------------- */

/* One layer, as a method's formulas see it. */
struct kvc_layer_context {
    uint32_t layer, layers;              /* of the model */
    uint32_t acting, actings;            /* its number among those the method acts on, and how many these are */
    uint32_t kv_heads, group, head_size; /* lists of entries; query heads of each */
    uint32_t model_kv_heads;             /* KV heads of the model: kv_heads, or fewer with per=head */
    double entry_bytes;                  /* a key and a value */
    double element_bytes;                /* one channel of a key */
    double page_element_bytes;           /* one channel of a page's lowest or highest key */
    double from;  /* for `entries`: what the list held before the method's prompt stage, or, where another method holds
                     that stage, before the first decode step */
    bool prompts; /* whether the method holds the prompt stage */
    bool uneven;  /* data decides what each list holds and `from` is their mean: `entries` is to be the most a list can
                     hold */
};

/* Whether data decides how entries fall to the heads of a layer, or to the layers. */
enum kvc_ragged { KVC_RAGGED_NONE, KVC_RAGGED_HEADS, KVC_RAGGED_LAYERS };

/* What a method will hold, from its options and lengths alone, before there is any data. `kvcull info` tells from it
 * what will fit, `kvcull bench` compares it with what it counts, and a session reserves memory by it before each step.
 * prompt: tokens of the prompt. steps: decode steps since; 0: when the prompt is over. Any function may be NULL. */
struct kvc_forecast {
    /* The most entries that a head holds at any time up to that step, the step's own included. NULL: no bound. */
    uint64_t (*bound)(const struct kvc_values *values, uint64_t prompt, uint64_t steps);
    /* Entries of a head after that step, in the mean over the layer's heads, where at least so many came
     * (context->from). NULL: bound(prompt, 0), or everything where that is NULL too. */
    double (*entries)(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt,
                      uint64_t steps);
    /* How many of the layer's lists keep everything; `entries` is then of the others. NULL: none. */
    uint32_t (*whole)(const struct kvc_values *values, const struct kvc_layer_context *context);
    /* What data decides: `entries` is then a mean, of heads or of layers. */
    enum kvc_ragged ragged;
    /* Beside another method that evicts before it, data decides how many entries this one leaves; `entries` is then the
     * most. */
    bool follows;
    /* Entries of the view that the prompt stage leaves (kvc_stage_view). NULL: it leaves none. */
    uint64_t (*seen)(const struct kvc_values *values, uint64_t prompt);
    /* With KVC_STAGE_CHUNK: entries that a head keeps between the chunks. NULL: as after the last one. */
    uint64_t (*between)(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt);
    /* With KVC_STAGE_PROPAGATE: how many of `rows` reach the layer above. */
    uint64_t (*propagated)(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t rows);
};

/* ---- the class ----------------------------------------------------------------------------------------------- */

/* A function of a stage, or one that looks on. It is called for one session and one layer; what it returns other than
 * KVC_OK ends the prompt or the step. */
typedef enum kvc_status kvc_stage_fn(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error);

/* A method. Members that are not needed stay NULL; what NULL means is said where it is not plain. */
struct kvc_policy_class {
    const char *name, *summary, *paper;
    const char *idea; /* one paragraph */
    const char *formula;
    const char *memory, *traffic, *differences; /* differences: from the paper */
    const char *second_turn;          /* what a later turn does, beside rule 15 of docs/reference/methods.md */
    void *user;                       /* the writer's own, for kvc_stage_user */
    unsigned stages;                  /* bits of enum kvc_stage_kind */
    const struct kvc_option *options; /* ended by a row with name NULL */
    const char *trial; /* options beside a budget that suit a model of a few layers and a prompt of a few hundred
                          tokens, as "span=2,sinks=4", for checks of every method; NULL: the defaults do */

    /* What an option's own range cannot say. Errors name the option, its value and the range. */
    enum kvc_status (*check)(const struct kvc_values *values, struct kvc_error *error);
    /* What can be checked only when the layers are known. acts [layers]: the layers it acts on. */
    enum kvc_status (*check_model)(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                   const bool *acts, struct kvc_error *error);
    /* State of one session or of one estimate, which kvc_stage_state returns: so many bytes, which the library makes
     * (they are 0), saves, loads, copies and frees; 0: none. So it holds no pointers. open: what it begins with, where
     * that is not 0; state is NULL where there is none. */
    size_t (*state_bytes)(const struct kvc_values *values, const struct kvc_geometry *geometry);
    enum kvc_status (*open)(const struct kvc_values *values, const struct kvc_geometry *geometry, void *state,
                            struct kvc_error *error);
    /* Whether a state that was read from a file may be a session's, so that stage functions can rely on it; NULL: it
     * never changes and must be what `open` makes. */
    bool (*state_fits)(const struct kvc_values *values, const struct kvc_geometry *geometry, const void *state);

    /* How many of the prompt's last queries its stages look at; UINT32_MAX: at all, which are freed at its end. */
    uint32_t (*queries)(const struct kvc_values *values);
    uint32_t (*columns)(const struct kvc_values *values); /* float32 of state per entry, at most 65535 */
    uint32_t (*surplus)(const struct kvc_values *values); /* entries above the budget that a head holds between two
                                                             evictions of its decode stage; NULL: 1 */
    bool
        compares_keys; /* whether its decode stage calls kvc_stage_mix_redundancy, which wants memory before the step */
    bool (*per_head)(const struct kvc_values *values);        /* whether every query head has a list of entries */
    bool (*cache_positions)(const struct kvc_values *values); /* whether keys stand at cache positions */
    const struct kvc_forecast *forecast;                      /* NULL: heads hold all that comes */

    /* With KVC_STAGE_CHUNK: how it cuts the prompt; and in which layer a layer's entries are chosen, this one's
     * or that of one above it. decider NULL: each layer at its own. */
    void (*chunking)(const struct kvc_values *values, struct kvc_chunking *chunking);
    uint32_t (*decider)(const struct kvc_values *values, const struct kvc_layer_context *context);
    /* Pseudo tokens to run after the prompt: returns how many, 0 for none in this turn. *offset: the distance of the
     * first one's position from the prompt's end. tokens: NULL, or gets their ids. */
    uint32_t (*pseudo)(const struct kvc_values *values, const struct kvc_turn *turn, uint32_t *offset, int32_t *tokens);

    /* Two that look on, also where another method holds the prompt stage. attended: after the attention of some of the
     * prompt's rows, which kvc_stage_accumulate then sees. observe_prompt: after a layer's last prompt row, before the
     * prompt stage; it must not evict. */
    kvc_stage_fn *attended, *observe_prompt;
    /* The stages. chunk: after each chunk, layer by layer. A class with `sizes` needs no `select`. */
    kvc_stage_fn *chunk, *prompt, *propagate, *select, *decode;
    /* What a step reads, where that follows from the info's held, after, entries and head_size. */
    struct kvc_select (*sizes)(const struct kvc_values *values, const struct kvc_stage_info *info);
    /* Before each decode step, where the host alone can say what `decode` will keep, so that nothing need go to the
     * device within the step (kvc_stage_plan). The info's entries count the one to come; there are no queries. */
    kvc_stage_fn *plan;
    /* At the same moment, for what `decode` wants on the device and the host knows (kvc_stage_prepare_series). */
    kvc_stage_fn *prepare;
};

/* Makes a class known to an engine, which it must outlive. KVC_USAGE: a name that is taken, stages without functions,
 * or an option table that is not well-formed. */
enum kvc_status kvc_engine_register(struct kvc_engine *engine, const struct kvc_policy_class *policy,
                                    struct kvc_error *error);
/* The i-th policy known to the engine, built-in ones first; NULL past the last. */
const struct kvc_policy_class *kvc_policy(const struct kvc_engine *engine, size_t i);
/* The options that every method takes (skip_layers, layers, stages); a row with name NULL ends the table. */
const struct kvc_option *kvc_common_options(void);
/* The stages (bits of enum kvc_stage_kind) at which a policy's methods act. Fails as kvc_policy_check does. */
enum kvc_status kvc_policy_stages(const struct kvc_engine *engine, const char *spec, unsigned *stages,
                                  struct kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif
