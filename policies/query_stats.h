/* query_stats.h - what is known of all queries of a model before their rotation: statistics that `kvcull collect`
 * writes and triattention reads.
 *
 * The file is text. Lines of words: "kvcull query statistics 1"; "model NAME"; "tokens N"; "shape LAYERS HEADS SIZE";
 * then for each layer "layer L rotary R" and a line for each query head: SIZE numbers, the mean query, channels in the
 * order in which rope gives them out, and R / 2 numbers, the mean length of each pair of channels (i, i + R / 2). */
#ifndef KVC_POLICIES_QUERY_STATS_H
#define KVC_POLICIES_QUERY_STATS_H

#include "policies/policies.h"

struct kvc_query_stats {
    uint32_t layers, heads, head_size;
    uint32_t *rotary; /* [layers] */
    float *mean;      /* [layers, heads, head_size] */
    float *spread;    /* [layers, heads, head_size / 2]: mean lengths less the lengths of the means */
};

/* policy, option: who asks, in errors. */
enum kvc_status kvc_query_stats_read(const char *policy, const char *option, const char *path,
                                     struct kvc_query_stats **stats, struct kvc_error *error);
/* Numbers drawn by lot, to try a method on any model. */
enum kvc_status kvc_query_stats_draw(const struct kvc_geometry *geometry, struct kvc_query_stats **stats,
                                     struct kvc_error *error);
void kvc_query_stats_free(struct kvc_query_stats *stats); /* NULL is fine */

#endif
