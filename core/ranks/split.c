/* split.c - computes which part of a model each rank has. */
#include "core/ranks/split.h"

#include "core/base/assert.h"

enum { GEMM_BLOCKS = 32 }; /* minimum number of blocks per rank for splitting by blocks */

/* Returns the sum of the shares of the first `ranks` ranks. */
static uint64_t shares_of(const struct kvc_split *split, uint32_t ranks) {
    uint64_t sum = 0;
    for (uint32_t r = 0; r < ranks && split->share; r++)
        sum += split->share[r];
    return split->share ? sum : ranks;
}

/* Returns where rank r's part begins if the first `ranks` ranks split n: each gets one, and the rest is divided in
 * proportion to the shares. No product overflows, because n is below 2^32 and the sum of all shares below 2^31. */
static uint64_t split_begin(uint64_t n, const struct kvc_split *split, uint32_t ranks, uint32_t rank) {
    const uint64_t whole = shares_of(split, ranks);
    KVC_ASSERT(n >= ranks && rank <= ranks && whole >= 1);
    return rank + ((n - ranks) * shares_of(split, rank) + whole / 2) / whole;
}

static struct kvc_range split_part(uint64_t n, const struct kvc_split *split, uint32_t ranks, uint32_t rank) {
    const uint64_t first = split_begin(n, split, ranks, rank);
    return (struct kvc_range){first, split_begin(n, split, ranks, rank + 1) - first};
}

bool kvc_split_shares(uint64_t n, const struct kvc_split *split) {
    return split->ranks > 1 && n >= 2ull * split->ranks;
}

/* Returns the unit in which n outputs are split: blocks if each rank has so many that one more or less does not matter,
 * otherwise single outputs. */
static uint64_t unit_of(uint64_t n, const struct kvc_split *split) {
    return n % KVC_SPLIT_BLOCK == 0 && n / KVC_SPLIT_BLOCK >= GEMM_BLOCKS * split->ranks ? KVC_SPLIT_BLOCK : 1;
}

struct kvc_range kvc_split_outputs(uint64_t n, const struct kvc_split *split, uint32_t rank) {
    if (!kvc_split_shares(n, split))
        return (struct kvc_range){0, n};
    const uint64_t unit = unit_of(n, split);
    const struct kvc_range units = split_part(n / unit, split, split->ranks, rank);
    return (struct kvc_range){units.first * unit, units.count * unit};
}

struct kvc_range kvc_split_layers(uint32_t n, const struct kvc_split *split, uint32_t rank) {
    return split_part(n, split, split->ranks, rank);
}

struct kvc_range kvc_split_heads(uint32_t kv_heads, const struct kvc_split *split, uint32_t rank) {
    return rank < kv_heads ? split_part(kv_heads, split, split->ranks < kv_heads ? split->ranks : kv_heads, rank)
                           : (struct kvc_range){rank % kv_heads, 1};
}

uint32_t kvc_split_owned_heads(uint32_t kv_heads, const struct kvc_split *split, uint32_t rank) {
    return rank < kv_heads ? (uint32_t)kvc_split_heads(kv_heads, split, rank).count : 0;
}
