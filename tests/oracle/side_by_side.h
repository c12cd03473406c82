/* side_by_side.h - runs a policy in a replay and its oracle together: after every layer of every turn and step, both
 * must hold the same entries, and attention over them must be bit-identical. */
#ifndef KVC_TESTS_ORACLE_SIDE_BY_SIDE_H
#define KVC_TESTS_ORACLE_SIDE_BY_SIDE_H

#include "tests/oracle/oracle.h"

#include <stddef.h>

struct side {
    const char *spec;
    moment_fn *prompt, *step; /* what a layer keeps after a turn and after a decode step */
    const void *plan;         /* an argument of these functions */
    enum kvc_type type;
    uint32_t chunk;
    bool per_head;     /* a list of entries for each query head, as in t->lists */
    select_fn *select; /* NULL: a step reads all entries */
};

struct turn {
    uint32_t prompt, steps;
};

void side_run_turns(const struct tensors *t, const struct turn *turns, size_t turn_count, const struct side *side);
void side_run(const struct tensors *t, uint32_t prompt, const struct side *side); /* one turn, then steps */
/* Every kind of tensor and shape, with alternating cache types and chunks; prompts of about 40 tokens and more. */
void side_run_all(const struct side *side, uint32_t layers);
/* Every kind of tensor with some shapes, cache types and chunks over these turns; t->kept_rows may be written. */
void side_run_kinds(const struct side *side, uint32_t layers, const struct turn *turns, size_t turn_count);

/* Compares the entries of list h that the step read, and its outputs out [H, d], with the oracle's choice; entries that
 * were not read are then marked as such for the decode stage. */
void side_compare_choice(const struct kvc_session *session, const struct moment *m, uint32_t h, select_fn *select,
                         const void *plan, const float *out, const char *what);

/* A replay with that geometry opens, or is refused with a message that contains both texts (NULL: any). */
void side_accepted(const char *spec, const struct kvc_geometry *geometry);
void side_refused(const char *spec, const struct kvc_geometry *geometry, const char *says, const char *too);

int side_open(void **state); /* opens and closes the engine: setup and teardown of the group */
int side_close(void **state);
struct kvc_engine *side_engine(void);

#endif
