/* select_sizes.h - the sizes that hsa and rocketkv work out from a compression (docs/reference/methods/hsa.md,
 * docs/reference/methods/rocketkv.md). */
#ifndef KVC_POLICIES_SELECT_SIZES_H
#define KVC_POLICIES_SELECT_SIZES_H

#include <stdint.h>

/* hsa's two dimensions: entries of a page, channels looked at. c2 >= 1. */
struct kvc_hsa_sizes {
    uint32_t page, dims;
};
struct kvc_hsa_sizes kvc_hsa_sizes(double c2, uint32_t head_size);

/* rocketkv's split of a prompt of S tokens and a budget of t: c = max(1, S/t), r, c2 = c^(1-r), and how many entries
 * stage 1 keeps. split < 0: r by the paper's formula. */
struct kvc_rocket_sizes {
    double c, r, c2;
    uint64_t kept;
};
struct kvc_rocket_sizes kvc_rocket_sizes(uint64_t S, uint64_t t, uint32_t window, double split);

/* Half of a count, halves up. */
static inline uint64_t kvc_half(uint64_t n) { return n / 2 + n % 2; }

#endif
