/* budget.c - options that many methods have: budgets as tokens or as a share of the prompt, pooling (METHODS rules 6
 * and 7). */
#include "policies/policies.h"

#include <string.h>

enum kvc_status kvc_check_above(const struct kvc_values *values, const char *part, struct kvc_error *error) {
    if (kvc_value_is_share(values, "budget"))
        return KVC_OK; /* it grows to part + 1 where it must */
    const int64_t budget = kvc_value_int(values, "budget"), taken = kvc_value_int(values, part);
    if (budget > taken)
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "policy: budget=%lld: must be above %s=%lld, at most %.0f", (long long)budget,
                    part, (long long)taken, KVC_BUDGET_MOST);
}

uint64_t kvc_budget(const struct kvc_values *values, uint64_t held, uint64_t part) {
    return kvc_value_budget(values, "budget", held, part + 1);
}

enum kvc_status kvc_check_kernel(const struct kvc_values *values, struct kvc_error *error) {
    const int64_t kernel = kvc_value_int(values, "kernel");
    if (kernel % 2 != 0)
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "policy: kernel=%lld: must be odd, from 1 to %d", (long long)kernel, 1 << 20);
}

enum kvc_pooling kvc_pooling_of(const struct kvc_values *values) {
    return strcmp(kvc_value_text(values, "pooling"), "avg") ? KVC_POOL_MAX : KVC_POOL_AVERAGE;
}
