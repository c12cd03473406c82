/* split.c - which part of a model each rank has. */
#include "core/ranks/split.h"

/* The first n % ranks have one more. */
static struct kvc_range even(uint64_t n, uint32_t ranks, uint32_t rank) {
    const uint64_t each = n / ranks, more = n % ranks;
    return (struct kvc_range){rank * each + (rank < more ? rank : more), each + (rank < more)};
}

bool kvc_split_shares(uint64_t n, uint32_t ranks) { return ranks > 1 && n >= 2ull * ranks; }

struct kvc_range kvc_split_outputs(uint64_t n, uint32_t ranks, uint32_t rank) {
    return kvc_split_shares(n, ranks) ? even(n, ranks, rank) : (struct kvc_range){0, n};
}

struct kvc_range kvc_split_layers(uint32_t n, uint32_t ranks, uint32_t rank) {
    return even(n, ranks, rank);
}

struct kvc_range kvc_split_heads(uint32_t kv_heads, uint32_t ranks, uint32_t rank) {
    return rank < kv_heads ? even(kv_heads, ranks < kv_heads ? ranks : kv_heads, rank)
                           : (struct kvc_range){rank % kv_heads, 1};
}

uint32_t kvc_split_owned_heads(uint32_t kv_heads, uint32_t ranks, uint32_t rank) {
    return rank < kv_heads ? (uint32_t)kvc_split_heads(kv_heads, ranks, rank).count : 0;
}
