/* obvious.h - slow, obvious code for every method, written from docs/methods.md on plain lists, and tensors to try it
 * on. */
#ifndef KVC_TESTS_OBVIOUS_H
#define KVC_TESTS_OBVIOUS_H

#include "kvcull.h"

enum kind { RANDOM, EQUAL_KEYS, PLANTED, DRIFT, DENORMAL, HUGE_SCORES, KINDS };

struct tensors {
    uint32_t layers, heads, kv_heads, d, rows;
    float *q, *k, *v; /* [layers, rows, heads, d] or kv_heads */
};

float *q_row(const struct tensors *t, uint32_t l, uint32_t row);
size_t kv_at(const struct tensors *t, uint32_t l, uint32_t row, uint32_t h);
struct tensors make_tensors(enum kind kind, uint64_t seed, uint32_t layers, uint32_t heads, uint32_t kv_heads,
                            uint32_t d, uint32_t rows);
void free_tensors(struct tensors *t);

#define RING 64

struct entry {
    int32_t position;
    float *k, *v;     /* [d], as stored */
    float ring[RING]; /* morphkv: by query position % window */
};

struct head { /* one KV head of one layer */
    struct entry *entries;
    uint32_t count, held; /* held: when the last prompt was in */
};

enum method { FULL, WINDOW, STREAMING, SNAPKV, MORPHKV };

struct plan { /* one method, as its options say */
    enum method prompt, decode;
    uint32_t budget, sinks, window, kernel, every;
    bool average, max_fusion, logits;
    uint32_t decode_budget, decode_window, skip_layers;
    uint32_t share; /* percent of what is held, in place of the budgets; 0: none */
};

/* Weights a[j] and logits s[j] of one query over the first n entries, and its output when out is not NULL. */
void attend(const struct entry *entries, uint32_t n, const float *q, uint32_t d, float *s, float *a, float *out);
/* Row `row` of the tensors as the head's newest entry, as a cache of the type stores it. */
void append(struct head *head, const struct tensors *t, enum kvc_type type, uint32_t l, uint32_t h, uint32_t row);
/* What a head keeps after a turn of `turn` rows, the last of them row now - 1; and after decode step `step` of row. */
void obvious_prompt(const struct tensors *t, struct head *head, uint32_t l, uint32_t h, const struct plan *plan,
                    uint32_t now, uint32_t turn);
void obvious_step(const struct tensors *t, struct head *head, uint32_t l, uint32_t h, const struct plan *plan,
                  uint32_t row, uint32_t step);

#endif
