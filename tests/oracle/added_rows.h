/* added_rows.h - for tests of methods that add rows to a prompt: compares their lists of entries with a replay's, and
 * the steps after the prompt. */
#ifndef KVC_TESTS_ORACLE_ADDED_ROWS_H
#define KVC_TESTS_ORACLE_ADDED_ROWS_H

#include "tests/oracle/select.h"

#include <stddef.h>

/* A call that must succeed; `spec` and `error` are the caller's variables. */
#define SPEC_FINE(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != KVC_OK)                                                                                          \
            fail_msg("%s: %s", spec, error.text);                                                                      \
    } while (0)

enum { ROWS_SHAPES = 6, ROWS_TYPES = 3, ROWS_DECODES = 5, ROWS_STEPS = 12 };
extern const uint32_t rows_shapes[ROWS_SHAPES][2]; /* heads, KV heads */
extern const enum kvc_type rows_types[ROWS_TYPES];
/* What follows a prompt: nothing, or morphkv, whose ring starts with the prompt's last queries; the last variant also
 * evicts at the prompt's end. */
extern const struct plan rows_decodes[ROWS_DECODES];

struct row_lists { /* of all layers */
    struct head *heads;
    struct entry *entries;
    float **made; /* memory allocated by append, including that of evicted entries */
    size_t count, capacity;
};

/* Steps after a turn's prompt: what evicts after each step, and what chooses the entries it reads (NULL: it reads all).
 */
struct row_steps {
    const struct plan *decode;
    const struct select_plan *select;
};

struct kvc_replay *rows_replay(struct kvc_engine *engine, const struct tensors *t, const char *spec, enum kvc_type type,
                               uint32_t chunk);
/* Appends to the policy string which layers the method acts on, if some (bits in left_out) are left out. */
void rows_add_layers(char *spec, size_t capacity, uint32_t left_out, uint32_t layers);
/* Appends what follows the prompt. */
void rows_add_decode(char *spec, size_t capacity, const struct plan *decode);
void rows_add_select(char *spec, size_t capacity, const struct select_plan *plan);

struct row_lists rows_lists(const struct tensors *t);
void rows_free_lists(struct row_lists *lists);
void rows_append(struct row_lists *lists, const struct tensors *t, enum kvc_type type, uint32_t l, uint32_t h,
                 uint32_t row);
uint32_t rows_longest(const struct tensors *t, const struct row_lists *lists,
                      uint32_t l);                  /* The number of entries of the longest list of the layer. */
uint32_t rows_share(uint32_t held, uint32_t share); /* percent of the held entries, in tokens */

/* Adds the group's probabilities of query row q [H, d] over the first n entries of list h to the first `counted`
 * scores. */
void rows_add_probabilities(const struct tensors *t, const struct head *head, uint32_t h, const float *q, uint32_t n,
                            uint32_t counted, float *score);
/* The average or maximum over neighbors within n, by rule 6 of docs/reference/methods.md. */
void rows_pool(float *score, uint32_t n, uint32_t kernel, bool average);
void rows_keep_top(struct head *head, const float *score, uint32_t most);

/* Called before layer l evicts anything, when the rows up to position now - 1 were read, `rows` of them just now. */
void rows_observe(const struct tensors *t, struct row_lists *lists, uint32_t l, uint32_t now, uint32_t rows,
                  const struct plan *decode);
void rows_note_after(const struct tensors *t, struct row_lists *lists); /* called when the turn's prompt is over */
/* Decode steps with the rows from prompt to end - 1. */
void rows_run_steps(struct kvc_replay *replay, const struct tensors *t, struct row_lists *lists,
                    const struct row_steps *steps, enum kvc_type type, uint32_t prompt, uint32_t end, float *out,
                    const char *spec);
/* Checks that the session holds the entries of these lists. */
void rows_compare(const struct kvc_session *session, const struct tensors *t, const struct head *heads,
                  const char *spec, const char *when);

#endif
