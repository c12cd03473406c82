/* budget_split.c - divides a compression between two methods. It uses the powers and logarithms of core/base/trig.h, so
 * that every machine computes the same sizes. */
#include "core/base/budget_split.h"

#include <math.h>

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/base/trig.h"

/* Returns floor(x), or the nearest integer if x differs from it only by a rounding error. */
static uint64_t floor_of(double x) {
    const double nearest = floor(x + 0.5);
    return (uint64_t)(fabs(x - nearest) < 1e-12 * x ? nearest : floor(x));
}

struct kvc_budget_split kvc_budget_split(uint64_t S, uint64_t t, uint64_t least, double exponent) {
    struct kvc_budget_split split = {.c = S > t ? (double)S / (double)t : 1.0, .r = exponent};
    if (exponent < 0) {
        split.r = 0.2 + 0.06 * (kvc_double_log(split.c) / kvc_double_log(2.0));
        split.r = split.r < 0.8 ? split.r : 0.8;
    }
    KVC_ASSERT(split.c >= 1 && split.r >= 0 && split.r <= 1);
    split.c2 = kvc_double_pow(split.c, 1.0 - split.r);
    split.kept = floor_of((double)S / kvc_double_pow(split.c, split.r));
    split.kept = kvc_min_u64(kvc_max_u64(split.kept, least), S);
    return split;
}
