/* oracle.h - oracles: every method in slow, simple code, written from docs/reference/methods for plain lists, and
 * tensors to test it on. */
#ifndef KVC_TESTS_ORACLE_ORACLE_H
#define KVC_TESTS_ORACLE_ORACLE_H

#include "kvcull/check.h"

enum kind { RANDOM, EQUAL_KEYS, PLANTED, DRIFT, DENORMAL, HUGE_SCORES, KINDS };

struct tensors {
    uint32_t layers, heads, kv_heads, d, rows;
    uint32_t lists;          /* of entries in a layer: kv_heads, or heads for a policy with per=head */
    float *q, *k, *v;        /* [layers, rows, heads, d] or kv_heads */
    bool *kept_rows;         /* NULL, or [layers, rows]: the rows of prompts that reach a layer */
    const uint32_t *windows; /* NULL, or [layers]: how many positions a row sees, its own included; 0: all */
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
    float *k, *v;       /* [d], as stored */
    float ring[RING];   /* morphkv: by query position % window */
    float *probability; /* [rows] by query position: the group's summed probability; and in how many heads it was low */
    float *low;
    float score; /* cake: of the turn's window */
    float given; /* compactor: by the chunk that it came in */
    bool hidden; /* rocketkv-mt: not to be chosen in this turn */
    bool unread; /* in the step under way: a select method passed it over */
};

struct head { /* one list of entries of one layer */
    struct entry *entries;
    uint32_t count, held; /* held: by the fullest list of the layer when the last prompt was in */
    uint32_t after;       /* and when that turn's prompt stage was over */
    uint32_t cursor;      /* lacache */
    bool thinned;         /* a method has evicted */
};

/* The end of a turn of `turn` rows in a layer, or of decode step `step` (turn is then 0). */
struct moment {
    const struct tensors *t;
    struct head *heads; /* [lists] */
    uint32_t layer, now, turn, step;
};
typedef void moment_fn(const struct moment *moment, const void *plan);
/* What a decode step reads of list h, one mark an entry. Returns whether the outputs are to be mixed with the mean
 * value of what could have been read: alpha [heads of the group] then says how much of them stays. */
typedef bool select_fn(const struct moment *moment, uint32_t h, bool *read, float *alpha, const void *plan);

enum method { FULL, WINDOW, STREAMING, SNAPKV, MORPHKV };

struct plan { /* one method, as its options say */
    enum method prompt, decode;
    uint32_t budget, sinks, window, kernel, every;
    bool average, max_fusion, logits;
    uint32_t decode_budget, decode_window;
    uint32_t left_out; /* a bit for each layer that stays full: skip_layers=n leaves the lowest n out */
    uint32_t share;    /* percent of what is held, instead of the budgets; 0: none */
};

/* Of layers that a method leaves out: whether it acts on layer l, and on how many below l. */
bool oracle_acts(uint32_t left_out, uint32_t l);
uint32_t oracle_acting(uint32_t left_out, uint32_t l);
/* x [d] as a cache of the type gives it back; the 32-lane dot product. */
void oracle_store(enum kvc_type type, const float *from, float *to, uint32_t d);
float oracle_dot(const float *a, const float *b, uint32_t n);
/* Philox4x32-10 as its paper has it; the first word. */
uint32_t oracle_philox(const uint32_t counter[4], uint64_t seed);
/* Probabilities a[j] and logits s[j] of one query over the first n entries, 0 and minus infinity of those it did not
 * read, and its output when out is not NULL. */
void attend(const struct entry *entries, uint32_t n, const float *q, uint32_t d, float *s, float *a, float *out);
/* The same of a query that sees its last `window` positions, the newest entry's being its own; 0: all. */
void attend_within(const struct entry *entries, uint32_t n, uint32_t window, const float *q, uint32_t d, float *s,
                   float *a, float *out);
/* Row `row` of the tensors as the head's newest entry, as a cache of the type stores it. */
void append(struct head *head, const struct tensors *t, enum kvc_type type, uint32_t l, uint32_t h, uint32_t row);
/* The group's summed probabilities, or logits, of the query at `position` over entries 0..n-1 of list h. */
void group_row(const struct tensors *t, const struct head *head, uint32_t l, uint32_t h, uint32_t position, uint32_t n,
               bool logits, float *row);
/* Logits of one query become probabilities, minus infinity 0. */
void oracle_softmax_logits(float *row, uint32_t n);
/* The scores of snapkv, the last w entries left out. The caller frees them. */
float *window_scores(const struct moment *m, uint32_t h, uint32_t w, uint32_t kernel, bool average);
/* Marks the top `many` of candidates: again and again the highest score, the lowest index where equal. */
void mark_top(const float *score, const bool *candidate, uint32_t n, uint32_t many, bool *kept);
uint32_t entries_up_to(const struct head *head, uint32_t position); /* how many, the newest at that position */
void remove_unkept(struct head *head, const bool *kept);
/* Rule 16: entries that the layer's window hides from rows from `next` on. The first goes from every list; the second
 * only whole tiles, in front. What can be seen of a list of n, at most. */
void remove_hidden(struct head *heads, const struct tensors *t, uint32_t l, uint32_t next);
void remove_hidden_tiles(struct head *heads, const struct tensors *t, uint32_t l);
static inline uint32_t seen_of(const struct tensors *t, uint32_t l, uint32_t n) {
    const uint32_t window = oracle_window(t, l);
    return window && n > window - 1 ? window - 1 : n;
}
/* What the methods of a struct plan keep; after a prompt they look (rows for a ring), then evict. */
moment_fn oracle_look, oracle_evict, oracle_prompt, oracle_step;

#endif
