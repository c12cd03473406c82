/* query_stats.h - statistics of a model's queries. `kvcull collect` writes them, and the methods `triattention`,
 * `expected` and `qfilter` read them.
 *
 * The file is text. Its lines are a title; "model NAME"; "tokens N"; "shape LAYERS HEADS SIZE"; then for each layer
 * "layer L rotary R" and one line per head, with channels in RoPE's order. The title determines what a head's line
 * contains:
 *   "kvcull query statistics 1"   a query head's mean query before RoPE, as SIZE numbers, then the mean length of each
 *                                 pair of channels (i, i + R / 2), as R / 2 numbers;
 *   "kvcull query covariances 1"  the mean query, then the covariance of channels b and c for each c up to b,
 *                                 row by row;
 *   "kvcull query filters 1"      a KV head's filter, as SIZE numbers. */
#ifndef KVC_POLICIES_QUERY_STATS_H
#define KVC_POLICIES_QUERY_STATS_H

#include "policies/policies.h"

enum kvc_query_file { KVC_QUERY_PAIRS, KVC_QUERY_COVARIANCES, KVC_QUERY_FILTERS };

/* A policy's option that names a file of statistics or, if it is "drawn", asks for random ones. */
struct kvc_query_option {
    const char *policy, *name;
    enum kvc_query_file file;
    bool means_only; /* the state does not contain the rest of a head's line */
};

/* The statistics of one layer, from this rank's first head on. `rest` has kvc_query_rest numbers for each head; for
 * KVC_QUERY_PAIRS these are the mean length of each pair minus the length of the mean pair. */
struct kvc_query_stats {
    uint32_t rotary; /* rotated channels, or KVC_ANY_ROTARY */
    const float *mean, *rest;
};

/* Returns how many numbers follow a mean of head_size channels. */
size_t kvc_query_rest(enum kvc_query_file file, uint32_t head_size);
/* Checks the file, if the option names one. */
enum kvc_status kvc_query_check(const struct kvc_query_option *option, const struct kvc_values *values,
                                struct kvc_error *error);
/* Checks that the file's shape is the model's. */
enum kvc_status kvc_query_check_model(const struct kvc_query_option *option, const struct kvc_values *values,
                                      const struct kvc_geometry *geometry, struct kvc_error *error);
/* For the class's `state_bytes` and `open`: the state holds the statistics of all layers and heads. */
size_t kvc_query_state_bytes(const struct kvc_query_option *option, const struct kvc_geometry *geometry);
enum kvc_status kvc_query_open(const struct kvc_query_option *option, const struct kvc_values *values,
                               const struct kvc_geometry *geometry, void *state, struct kvc_error *error);
/* Returns the statistics of queries of the stage's layer. */
struct kvc_query_stats kvc_query_stats_of(const struct kvc_query_option *option, struct kvc_stage *stage);
/* Uploads the filters of the layer's lists, for KVC_ENTRY_FILTER. */
enum kvc_status kvc_query_prepare_filter(const struct kvc_query_option *option, struct kvc_stage *stage,
                                         struct kvc_error *error);

#endif
