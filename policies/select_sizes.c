/* select_sizes.c - computes how much select methods read: divides a compression ratio between entries and channels for
 * `hsa`, and interprets budgets. */
#include "policies/select_sizes.h"

#include <math.h>

#include "core/base/budget_split.h"

struct kvc_hsa_sizes kvc_hsa_sizes(double c2, uint32_t head_size) {
    const double page = ceil(sqrt(c2));
    struct kvc_hsa_sizes sizes = {1, 1};
    if (page <= c2 && page < UINT32_MAX)
        sizes.page = (uint32_t)page;
    const double dims = floor(head_size * (double)sizes.page / c2 + 0.5);
    if (dims > 1)
        sizes.dims = dims < head_size ? (uint32_t)dims : head_size;
    return sizes;
}

struct kvc_reads kvc_reads(const struct kvc_values *values, uint64_t held) {
    struct kvc_reads reads = {.seen = held};
    if (kvc_value_split(values, "budget", held, &reads.budget)) {
        const struct kvc_budget_split split = kvc_budget_split(held, reads.budget, 1, -1);
        reads.seen = split.kept;
        reads.c2 = split.c2;
        return reads;
    }
    reads.budget = kvc_value_budget(values, "budget", held, 1);
    reads.c2 = held > reads.budget ? (double)held / (double)reads.budget : 1.0;
    return reads;
}
