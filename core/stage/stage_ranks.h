/* stage_ranks.h - scores of all lists of a layer, for methods that compare heads when lists are sharded among ranks. */
#ifndef KVC_CORE_STAGE_STAGE_RANKS_H
#define KVC_CORE_STAGE_STAGE_RANKS_H

#include "core/stage/stage.h"

enum { KVC_ACROSS_ARRAYS = 2 };

/* The arguments of operations across lists: the stage's own lists and scores, or copies of all ranks' lists and
 * scores. */
struct kvc_across {
    struct kvc_lists lists;                    /* only the counts may be used */
    struct kvc_span scores[KVC_ACROSS_ARRAYS]; /* [lists.kv_heads, stride] */
    uint32_t stride;
    uint32_t first, own; /* range of the stage's own lists */
    bool copied;
};

/* Returns the ranks that have other lists of the layer, or NULL if there are none. */
struct kvc_ranks *kvc_stage_ranks_of(const struct kvc_stage *stage);
/* Opens the arguments from scores [count], which have one row per list and equal strides. All ranks must call it. Close
 * it with kvc_across_free. */
enum kvc_status kvc_across_open(struct kvc_stage *stage, const struct kvc_scores *const *scores, unsigned count,
                                struct kvc_across *across, struct kvc_error *error);
/* Copies the stage's part of array i to `scores`. */
void kvc_across_take(struct kvc_stage *stage, const struct kvc_across *across, unsigned i, struct kvc_scores *scores);
void kvc_across_free(struct kvc_across *across);
/* Gathers `each` numbers for every list from all ranks into `all`, ordered by rank. own [lists, each] are this rank's
 * numbers. */
enum kvc_status kvc_stage_gather(const struct kvc_stage *stage, uint32_t lists, uint32_t model_lists, size_t each,
                                 const float *own, float *all, struct kvc_error *error);

#endif
