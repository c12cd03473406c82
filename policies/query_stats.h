/* query_stats.h - statistics of a model's queries before RoPE. `kvcull collect` writes them, and the method
 * `triattention` reads them.
 *
 * The file is text. Its lines are "kvcull query statistics 1"; "model NAME"; "tokens N"; "shape LAYERS HEADS SIZE";
 * then for each layer "layer L rotary R" and one line per query head. That line has first the mean query, as SIZE
 * numbers with channels in RoPE's order, then the mean length of each pair of channels (i, i + R / 2), as R / 2
 * numbers. */
#ifndef KVC_POLICIES_QUERY_STATS_H
#define KVC_POLICIES_QUERY_STATS_H

#include "policies/policies.h"

struct kvc_query_stats {
    uint32_t layers, heads, head_size;
    uint32_t *rotary; /* [layers] */
    float *mean;      /* [layers, heads, head_size] */
    float *spread;    /* [layers, heads, head_size / 2]: the mean length of each pair, minus the length of the mean
                       * pair */
};

/* Reads a file. Errors name the policy and its option. */
enum kvc_status kvc_query_stats_read(const char *policy, const char *option, const char *path,
                                     struct kvc_query_stats **stats, struct kvc_error *error);
/* Draws random statistics, so that a method can be tried on any model. */
enum kvc_status kvc_query_stats_draw(const struct kvc_geometry *geometry, struct kvc_query_stats **stats,
                                     struct kvc_error *error);
void kvc_query_stats_free(struct kvc_query_stats *stats); /* stats may be NULL */

#endif
