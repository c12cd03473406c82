/* ways.h - how ranks divide a model among themselves. */
#ifndef KVC_RANKS_WAYS_H
#define KVC_RANKS_WAYS_H

#include "core/ranks/ranks.h"

#define KVC_RANKS_MOST 65536u

struct kvc_ways {
    bool data;
    uint32_t tensor, pipeline; /* ranks per stage; number of stages. Rank r has index r % tensor in its stage */
    uint32_t *share; /* weights of the ranks within a stage [tensor], then weights of the stages [pipeline]; NULL: equal
                        parts */
};

/* Parses text: "tensor[=N]", "pipeline[=N]", both, or "data". `count` is the number of ranks, or 0 if the text alone
 * determines it. Returns KVC_USAGE for any other text. */
enum kvc_status kvc_ways_read(const char *text, uint32_t count, struct kvc_ways *ways, struct kvc_error *error);
/* Parses text, the relative amount of work of each rank, such as "2,1,1". */
enum kvc_status kvc_ways_share(struct kvc_ways *ways, const char *text, struct kvc_error *error);
void kvc_ways_free(struct kvc_ways *ways);

/* Opens ranks->rows and ranks->stages on ranks->link. Both keep a reference to ways->share. All ranks call this
 * function together. */
enum kvc_status kvc_ways_open(const struct kvc_ways *ways, struct kvc_ranks *ranks, struct kvc_error *error);
void kvc_ways_close(struct kvc_ranks *ranks);

#endif
