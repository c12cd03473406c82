/* split.h - which part of a model each rank has. Only outputs are shared out, rows of matrices and heads, never the
 * terms of a sum; so results have the same bits for any number of ranks and any shares. */
#ifndef KVC_CORE_RANKS_SPLIT_H
#define KVC_CORE_RANKS_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#define KVC_SHARE_MOST 1000u /* of one rank */
#define KVC_SPLIT_BLOCK 32u  /* outputs that are quantized together as the next layer's input */

/* Among whom something is shared out, and how much each gets. */
struct kvc_split {
    uint32_t ranks;
    const uint32_t *share; /* [ranks], in proportion, their sum below 2^31; NULL: all alike */
};

struct kvc_range {
    uint64_t first, count;
};

/* Rank r's part of n outputs (below 2^32, as matrices have), whole blocks where there are many; of too few to share
 * out, all. */
struct kvc_range kvc_split_outputs(uint64_t n, const struct kvc_split *split, uint32_t rank);
/* Whether they are shared out. */
bool kvc_split_shares(uint64_t n, const struct kvc_split *split);

/* Rank r's run of n layers, at least one; n is no less than the number of ranks. */
struct kvc_range kvc_split_layers(uint32_t n, const struct kvc_split *split, uint32_t rank);

/* Rank r's KV heads, at least one. Where there are fewer heads than ranks, those that are left over hold one that
 * another rank has too; of what all ranks gather, theirs is left out. */
struct kvc_range kvc_split_heads(uint32_t kv_heads, const struct kvc_split *split, uint32_t rank);
/* Those among them that count in what all ranks gather: all or none. */
uint32_t kvc_split_owned_heads(uint32_t kv_heads, const struct kvc_split *split, uint32_t rank);

#endif
