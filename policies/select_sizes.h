/* select_sizes.h - the sizes that hsa and rocketkv derive from a compression ratio (docs/reference/methods/hsa.md,
 * docs/reference/methods/rocketkv.md). */
#ifndef KVC_POLICIES_SELECT_SIZES_H
#define KVC_POLICIES_SELECT_SIZES_H

#include <stdint.h>

/* The two dimensions of hsa: entries per page, and channels read per page. Requires c2 >= 1. */
struct kvc_hsa_sizes {
    uint32_t page, dims;
};
struct kvc_hsa_sizes kvc_hsa_sizes(double c2, uint32_t head_size);

/* The split of rocketkv for a prompt of S tokens and a budget of t: c = max(1, S/t), r, c2 = c^(1-r), and the entries
 * that stage 1 keeps. If `split` is negative, r follows the paper's formula; otherwise r equals `split`. */
struct kvc_rocket_sizes {
    double c, r, c2;
    uint64_t kept;
};
struct kvc_rocket_sizes kvc_rocket_sizes(uint64_t S, uint64_t t, uint32_t window, double split);

/* Returns n / 2, rounded up. */
static inline uint64_t kvc_half(uint64_t n) { return n / 2 + n % 2; }

#endif
