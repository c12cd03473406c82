/* select_sizes.c - divides a compression ratio between the two stages of `rocketkv` and, for `hsa`, between entries and
 * channels. It uses the powers and logarithms of core/base/trig.h, so that every machine computes the same sizes. */
#include "policies/select_sizes.h"

#include <math.h>

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/base/trig.h"

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

/* Returns floor(x), or the nearest integer if x differs from it only by a rounding error. */
static uint64_t floor_of(double x) {
    const double nearest = floor(x + 0.5);
    return (uint64_t)(fabs(x - nearest) < 1e-12 * x ? nearest : floor(x));
}

struct kvc_rocket_sizes kvc_rocket_sizes(uint64_t S, uint64_t t, uint32_t window, double split) {
    struct kvc_rocket_sizes sizes = {.c = S > t ? (double)S / (double)t : 1.0, .r = split};
    if (split < 0) {
        sizes.r = 0.2 + 0.06 * (kvc_double_log(sizes.c) / kvc_double_log(2.0));
        sizes.r = sizes.r < 0.8 ? sizes.r : 0.8;
    }
    KVC_ASSERT(sizes.c >= 1 && sizes.r >= 0 && sizes.r <= 1);
    sizes.c2 = kvc_double_pow(sizes.c, 1.0 - sizes.r);
    sizes.kept = floor_of((double)S / kvc_double_pow(sizes.c, sizes.r));
    sizes.kept = kvc_min_u64(kvc_max_u64(sizes.kept, window + 1ull), S);
    return sizes;
}
