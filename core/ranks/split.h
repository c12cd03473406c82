/* split.h - which part of a model each rank has. Only outputs are shared out, rows of matrices and heads, never the
 * terms of a sum; so results have the same bits for any number of ranks. */
#ifndef KVC_CORE_RANKS_SPLIT_H
#define KVC_CORE_RANKS_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

struct kvc_range {
    uint64_t first, count;
};

/* Rank r's part of n outputs; of too few to share out, all. */
struct kvc_range kvc_split_outputs(uint64_t n, uint32_t ranks, uint32_t rank);
/* Whether they are shared out. */
bool kvc_split_shares(uint64_t n, uint32_t ranks);

/* Rank r's run of n layers; n is no less than ranks. */
struct kvc_range kvc_split_layers(uint32_t n, uint32_t ranks, uint32_t rank);

/* Rank r's KV heads. Where there are fewer heads than ranks, those that are left over hold one that another rank has
 * too; of what all ranks gather, theirs is left out. */
struct kvc_range kvc_split_heads(uint32_t kv_heads, uint32_t ranks, uint32_t rank);
/* Those among them that count in what all ranks gather: all or none. */
uint32_t kvc_split_owned_heads(uint32_t kv_heads, uint32_t ranks, uint32_t rank);

#endif
