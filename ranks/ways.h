/* ways.h - in which ways ranks share a model. */
#ifndef KVC_RANKS_WAYS_H
#define KVC_RANKS_WAYS_H

#include "core/ranks/ranks.h"

#define KVC_RANKS_MOST 65536u

struct kvc_ways {
    bool data;
    uint32_t tensor, pipeline; /* ranks that share a stage's layers; stages. Rank r has place r % tensor of its stage */
    uint32_t *share;           /* [tensor] of places, then [pipeline] of stages; NULL: all alike */
};

/* text: "tensor[=N]", "pipeline[=N]", both, or "data"; count: ranks that there are, 0: as many as the text says.
 * KVC_USAGE where it is none of these. */
enum kvc_status kvc_ways_read(const char *text, uint32_t count, struct kvc_ways *ways, struct kvc_error *error);
/* text: how much of the work each rank gets, as "2,1,1". */
enum kvc_status kvc_ways_share(struct kvc_ways *ways, const char *text, struct kvc_error *error);
void kvc_ways_free(struct kvc_ways *ways);

/* ranks->rows and ranks->stages, of ranks->link; they keep ways->share. All ranks call it at once. */
enum kvc_status kvc_ways_open(const struct kvc_ways *ways, struct kvc_ranks *ranks, struct kvc_error *error);
void kvc_ways_close(struct kvc_ranks *ranks);

#endif
