/* oracle.h - oracles: slow, simple implementations of every method over plain lists, written from
 * docs/reference/methods; and tensors for tests. */
#ifndef KVC_TESTS_ORACLE_ORACLE_H
#define KVC_TESTS_ORACLE_ORACLE_H

#include "kvcull/check.h"

enum kind { RANDOM, EQUAL_KEYS, PLANTED, DRIFT, DENORMAL, HUGE_SCORES, KINDS };

struct tensors {
    uint32_t layers, heads, kv_heads, d, rows;
    uint32_t lists;   /* lists of entries in a layer: kv_heads, or heads for a policy with per=head */
    float *q, *k, *v; /* [layers, rows, heads, d]; k and v have kv_heads */
    bool *kept_rows;  /* [layers, rows]: true if that row of the prompt reaches that layer; or NULL */
    const uint32_t
        *windows; /* [layers]: the number of positions that a row sees, including its own, or 0 for all; or NULL */
};
static inline uint32_t oracle_window(const struct tensors *t, uint32_t l) { return t->windows ? t->windows[l] : 0; }

float *q_row(const struct tensors *t, uint32_t l, uint32_t row);
size_t kv_at(const struct tensors *t, uint32_t l, uint32_t row, uint32_t h);
struct tensors make_tensors(enum kind kind, uint64_t seed, uint32_t layers, uint32_t heads, uint32_t kv_heads,
                            uint32_t d, uint32_t rows);
void free_tensors(struct tensors *t);

#define RING 64

struct entry {
    int32_t position;
    float *k, *v;       /* [d], as the cache stores them */
    float ring[RING];   /* morphkv: the row of each query, at index position % window */
    float *probability; /* [rows], by query position: the sum of the group's probabilities; low: the number of the
                           group's heads with a low probability */
    float *low;
    float score; /* cake: the score from the turn's window */
    float given; /* compactor: the attention from the chunk that contained the entry's token */
    bool hidden; /* rocketkv-mt: the entry may not be chosen in this turn */
    bool unread; /* a select method skipped the entry in the current step */
};

struct head { /* one list of entries of one layer */
    struct entry *entries;
    uint32_t count, held; /* `held`: the length of the layer's longest list when the last prompt was read */
    uint32_t after;       /* `after`: the longest list's length after the last prompt's stage */
    uint32_t cursor;      /* lacache: the position in its ladder */
    bool thinned;         /* a method has evicted entries */
};

/* The end of a prompt of `turn` rows in a layer, or the end of decode step `step`; `turn` is then 0. */
struct moment {
    const struct tensors *t;
    struct head *heads; /* [lists] */
    uint32_t layer, now, turn, step;
};
typedef void moment_fn(const struct moment *moment, const void *plan);
/* Marks which entries of list h a decode step reads. Returns true if the outputs are mixed with the mean of all values
 * that could have been read. alpha [heads of the group] is then the weight of the outputs. */
typedef bool select_fn(const struct moment *moment, uint32_t h, bool *read, float *alpha, const void *plan);

enum method { FULL, WINDOW, STREAMING, SNAPKV, MORPHKV };

struct plan { /* one method with the values of its options */
    enum method prompt, decode;
    uint32_t budget, sinks, window, kernel, every;
    bool average, max_fusion, logits;
    uint32_t decode_budget, decode_window;
    uint32_t left_out; /* one bit for each layer in which the method does not act; skip_layers=n sets the lowest n */
    uint32_t share;    /* a percentage of the held entries that replaces the budgets; 0: no percentage */
};

/* oracle_acts returns true if the method acts on layer l, and oracle_acting returns the number of layers below l on
 * which it acts. left_out has a bit for each layer on which it does not act. */
bool oracle_acts(uint32_t left_out, uint32_t l);
uint32_t oracle_acting(uint32_t left_out, uint32_t l);
/* oracle_store rounds a row [d] as a cache of the type stores it; oracle_dot returns the dot product, summed in 32
 * lanes. */
void oracle_store(enum kvc_type type, const float *from, float *to, uint32_t d);
float oracle_dot(const float *a, const float *b, uint32_t n);
/* Computes Philox4x32-10 as defined in its paper, and returns the first word. */
uint32_t oracle_philox(const uint32_t counter[4], uint64_t seed);
/* Computes the probabilities a[j] and logits s[j] of one query over the first n entries, and its output if out is not
 * NULL. For unread entries, a[j] is 0 and s[j] is minus infinity. */
void attend(const struct entry *entries, uint32_t n, const float *q, uint32_t d, float *s, float *a, float *out);
/* Like attend, for a query that sees its last `window` positions, including its own, which is the position of the
 * newest entry. If window is 0, the query sees all positions. */
void attend_within(const struct entry *entries, uint32_t n, uint32_t window, const float *q, uint32_t d, float *s,
                   float *a, float *out);
/* Like attend, but multiplies the probabilities by n, by dividing the sum of their exponentials. */
void attend_counted(const struct entry *entries, uint32_t n, const float *q, uint32_t d, float *s, float *a);
/* Appends row `row` of the tensors as the head's newest entry, as a cache of the type stores it. */
void append(struct head *head, const struct tensors *t, enum kvc_type type, uint32_t l, uint32_t h, uint32_t row);
/* Computes the sums over the group of the probabilities, or of the logits, of the query at `position` over the entries
 * 0 to n - 1 of list h. */
void group_row(const struct tensors *t, const struct head *head, uint32_t l, uint32_t h, uint32_t position, uint32_t n,
               bool logits, float *row);
/* Turns logits of one query into probabilities; minus infinity becomes 0. */
void oracle_softmax_logits(float *row, uint32_t n);
/* Returns the scores of snapkv for all entries except the last w. The caller frees the scores. */
float *window_scores(const struct moment *m, uint32_t h, uint32_t w, uint32_t kernel, bool average);
/* Marks the `many` candidates with the highest scores; among equal scores, lower indices come first. */
void mark_top(const float *score, const bool *candidate, uint32_t n, uint32_t many, bool *kept);
uint32_t entries_up_to(const struct head *head,
                       uint32_t position); /* returns the number of entries up to that position */
void remove_unkept(struct head *head, const bool *kept);
/* Rule 16 of docs/reference/methods.md. remove_hidden removes the entries from every list that the layer's window hides
 * from all rows from `next` on. remove_hidden_tiles removes only whole tiles at the beginning. seen_of returns the
 * maximum number of visible entries in a list of n entries. */
void remove_hidden(struct head *heads, const struct tensors *t, uint32_t l, uint32_t next);
void remove_hidden_tiles(struct head *heads, const struct tensors *t, uint32_t l);
static inline uint32_t seen_of(const struct tensors *t, uint32_t l, uint32_t n) {
    const uint32_t window = oracle_window(t, l);
    return window && n > window - 1 ? window - 1 : n;
}
/* The functions of the methods of a struct plan. After a prompt, oracle_look observes (it writes rows to a ring buffer)
 * and oracle_evict evicts. */
moment_fn oracle_look, oracle_evict, oracle_prompt, oracle_step;

#endif
