/* side_by_side.h - runs a policy in a replay and its oracle together: after every layer of every turn and step, both
 * must hold the same entries, and attention over them must be bit-identical. */
#ifndef KVC_TESTS_ORACLE_SIDE_BY_SIDE_H
#define KVC_TESTS_ORACLE_SIDE_BY_SIDE_H

#include "tests/oracle/oracle.h"

#include <stddef.h>

struct side {
    const char *spec;
    moment_fn *prompt, *step; /* functions that evict after a turn and after a decode step */
    const void *plan;         /* the argument `plan` of these functions */
    enum kvc_type type;
    uint32_t chunk;
    uint32_t evict_after; /* `prompt` evicts after every this many rows of a turn; 0: after the turn */
    bool per_head;        /* each query head has a list of entries, as in t->lists */
    select_fn *select;    /* NULL: a step reads all entries */
};

struct turn {
    uint32_t prompt, steps;
};

void side_run_turns(const struct tensors *t, const struct turn *turns, size_t turn_count, const struct side *side);
void side_run(const struct tensors *t, uint32_t prompt, const struct side *side); /* runs one turn and then steps */
/* Runs every kind of tensor and every shape, with alternating cache types and chunks, and with prompts of about 40
 * tokens and more. */
void side_run_all(const struct side *side, uint32_t layers);
/* Runs every kind of tensor, with some shapes, cache types and chunks, over these turns. The functions of `side` may
 * write t->kept_rows. */
void side_run_kinds(const struct side *side, uint32_t layers, const struct turn *turns, size_t turn_count);

/* Compares the entries of list h that the step read, and its outputs out [H, d], with the oracle's choice; then marks
 * the entries that the step did not read, for the decode stage. */
void side_compare_choice(const struct kvc_session *session, const struct moment *m, uint32_t h, select_fn *select,
                         const void *plan, const float *out, const char *what);

/* side_accepted checks that a replay with that geometry opens. side_refused checks that it is refused, with a message
 * that contains both texts (a NULL text is ignored). */
void side_accepted(const char *spec, const struct kvc_geometry *geometry);
void side_refused(const char *spec, const struct kvc_geometry *geometry, const char *says, const char *too);

int side_open(void **state); /* set up and tear down the group: open and close the engine */
int side_close(void **state);
struct kvc_engine *side_engine(void);

#endif
