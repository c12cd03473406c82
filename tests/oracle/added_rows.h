/* added_rows.h - test support for methods that add rows to a prompt: compares their lists of entries with the lists of
 * a replay, also in the steps after the prompt. */
#ifndef KVC_TESTS_ORACLE_ADDED_ROWS_H
#define KVC_TESTS_ORACLE_ADDED_ROWS_H

#include "tests/oracle/select.h"

#include <stddef.h>

/* Fails the test unless the call returns KVC_OK. The caller declares the variables `spec` and `error`. */
#define SPEC_FINE(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != KVC_OK)                                                                                          \
            fail_msg("%s: %s", spec, error.text);                                                                      \
    } while (0)

enum { ROWS_SHAPES = 6, ROWS_TYPES = 3, ROWS_DECODES = 5, ROWS_STEPS = 12 };
extern const uint32_t rows_shapes[ROWS_SHAPES][2]; /* heads, KV heads */
extern const enum kvc_type rows_types[ROWS_TYPES];
/* Decode methods after a prompt: none, or morphkv, whose ring buffer starts with the prompt's last queries. The last
 * variant also evicts at the end of the prompt. */
extern const struct plan rows_decodes[ROWS_DECODES];

struct row_lists { /* the lists of all layers */
    struct head *heads;
    struct entry *entries;
    float **made; /* memory allocated by append, including that of evicted entries */
    size_t count, capacity;
};

/* The methods of the steps after a turn's prompt: `decode` evicts after each step, and `select` chooses the entries
 * that a step reads (NULL: all entries). */
struct row_steps {
    const struct plan *decode;
    const struct select_plan *select;
};

struct kvc_replay *rows_replay(struct kvc_engine *engine, const struct tensors *t, const char *spec, enum kvc_type type,
                               uint32_t chunk);
/* Appends an option to the policy string if the method leaves out some layers (bits in left_out). */
void rows_add_layers(char *spec, size_t capacity, uint32_t left_out, uint32_t layers);
/* Append the methods of the steps to the policy string. */
void rows_add_decode(char *spec, size_t capacity, const struct plan *decode);
void rows_add_select(char *spec, size_t capacity, const struct select_plan *plan);

struct row_lists rows_lists(const struct tensors *t);
void rows_free_lists(struct row_lists *lists);
void rows_append(struct row_lists *lists, const struct tensors *t, enum kvc_type type, uint32_t l, uint32_t h,
                 uint32_t row);
uint32_t rows_longest(const struct tensors *t, const struct row_lists *lists,
                      uint32_t l);                  /* returns the number of entries of the longest list of the layer */
uint32_t rows_share(uint32_t held, uint32_t share); /* returns `share` percent of the held entries, in tokens */

/* Adds the group's probabilities of query row q [H, d] over the first n entries of list h to the first `counted`
 * scores. */
void rows_add_probabilities(const struct tensors *t, const struct head *head, uint32_t h, const float *q, uint32_t n,
                            uint32_t counted, float *score);
/* Replaces each score by the average or maximum over its neighbours below n, by rule 6 of docs/reference/methods.md. */
void rows_pool(float *score, uint32_t n, uint32_t kernel, bool average);
void rows_keep_top(struct head *head, const float *score, uint32_t most);

/* Records the attention of the newest `rows` rows of layer l, which end at position now - 1. Call it before the layer
 * evicts. */
void rows_observe(const struct tensors *t, struct row_lists *lists, uint32_t l, uint32_t now, uint32_t rows,
                  const struct plan *decode);
void rows_note_after(const struct tensors *t, struct row_lists *lists); /* call it when the turn's prompt is over */
/* Runs decode steps with the rows from prompt to end - 1. */
void rows_run_steps(struct kvc_replay *replay, const struct tensors *t, struct row_lists *lists,
                    const struct row_steps *steps, enum kvc_type type, uint32_t prompt, uint32_t end, float *out,
                    const char *spec);
/* Checks that the session holds the entries of these lists. */
void rows_compare(const struct kvc_session *session, const struct tensors *t, const struct head *heads,
                  const char *spec, const char *when);

#endif
