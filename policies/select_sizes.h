/* select_sizes.h - the sizes that select methods derive from a budget or a compression ratio
 * (docs/reference/methods/hsa.md). */
#ifndef KVC_POLICIES_SELECT_SIZES_H
#define KVC_POLICIES_SELECT_SIZES_H

#include <stdint.h>

#include "kvcull/policy.h"

/* The two dimensions of hsa: entries per page, and channels read per page. Requires c2 >= 1. */
struct kvc_hsa_sizes {
    uint32_t page, dims;
};
struct kvc_hsa_sizes kvc_hsa_sizes(double c2, uint32_t head_size);

/* What a select method reads under its option `budget`, when the longest head holds `held` entries at the prompt's end.
 * With a split budget, a prompt method leaves only `seen` of them; otherwise `seen` equals `held`. The compression
 * ratio c2 refers to the `seen` entries. */
struct kvc_reads {
    uint64_t budget, seen;
    double c2;
};
struct kvc_reads kvc_reads(const struct kvc_values *values, uint64_t held);

/* Returns n / 2, rounded up. */
static inline uint64_t kvc_half(uint64_t n) { return n / 2 + n % 2; }

#endif
