/* stage_ranks.h - scores of all lists of a layer, where ranks share them out: for methods that look across heads. */
#ifndef KVC_CORE_STAGE_STAGE_RANKS_H
#define KVC_CORE_STAGE_STAGE_RANKS_H

#include "core/stage/stage.h"

enum { KVC_ACROSS_ARRAYS = 2 };

/* What operations across lists take: the stage's own lists and scores, or copies of all ranks'. */
struct kvc_across {
    struct kvc_lists lists;                    /* counts alone are to be looked at */
    struct kvc_span scores[KVC_ACROSS_ARRAYS]; /* [lists.kv_heads, stride] */
    uint32_t stride;
    uint32_t first, own; /* which of them are the stage's */
    bool copied;
};

/* Those that have other lists of the layer; NULL: there are none. */
struct kvc_ranks *kvc_stage_ranks_of(const struct kvc_stage *stage);
/* scores [count]: per list, of one stride. All ranks call it; kvc_across_free follows. */
enum kvc_status kvc_across_open(struct kvc_stage *stage, const struct kvc_scores *const *scores, unsigned count,
                                struct kvc_across *across, struct kvc_error *error);
/* scores = the stage's part of array i. */
void kvc_across_take(struct kvc_stage *stage, const struct kvc_across *across, unsigned i, struct kvc_scores *scores);
void kvc_across_free(struct kvc_across *across);
/* values become those of all lists' owners: rank by rank `each` numbers of each list, this rank's first [own, each]. */
enum kvc_status kvc_stage_gather(const struct kvc_stage *stage, uint32_t lists, uint32_t model_lists, size_t each,
                                 const float *own, float *all, struct kvc_error *error);

#endif
