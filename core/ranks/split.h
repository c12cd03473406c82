/* split.h - computes which part of a model each rank has. Only outputs are split (rows of matrices, and heads), never
 * the terms of a sum. So results are bit-identical for any number of ranks and any shares. */
#ifndef KVC_CORE_RANKS_SPLIT_H
#define KVC_CORE_RANKS_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#define KVC_SHARE_MOST 1000u /* maximum share of one rank */
#define KVC_SPLIT_BLOCK 32u  /* outputs that are quantized together as the next layer's input */

/* The ranks that split something, and the share of each. */
struct kvc_split {
    uint32_t ranks;
    const uint32_t *share; /* [ranks]: proportions, whose sum is below 2^31; NULL: equal shares */
};

struct kvc_range {
    uint64_t first, count;
};

/* Returns rank r's part of n outputs: whole blocks if there are many. n is below 2^32, as the number of a matrix's
 * outputs always is. If there are too few outputs to split, every rank gets all of them. */
struct kvc_range kvc_split_outputs(uint64_t n, const struct kvc_split *split, uint32_t rank);
/* Returns true if the outputs are split. */
bool kvc_split_shares(uint64_t n, const struct kvc_split *split);

/* Returns rank r's consecutive part of n layers, at least one. n must be at least the number of ranks. */
struct kvc_range kvc_split_layers(uint32_t n, const struct kvc_split *split, uint32_t rank);

/* Returns rank r's KV heads, at least one. If there are fewer heads than ranks, the surplus ranks hold a copy of
 * another rank's head, and gathering ignores their copy. */
struct kvc_range kvc_split_heads(uint32_t kv_heads, const struct kvc_split *split, uint32_t rank);
/* Returns how many of rank r's KV heads count in a gather: all or none. */
uint32_t kvc_split_owned_heads(uint32_t kv_heads, const struct kvc_split *split, uint32_t rank);

#endif
