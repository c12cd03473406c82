/* budget.c - options that many methods share: a budget in tokens or as a percentage of the prompt, its part for recent
 * entries, and pooling (rules 6 and 7 of docs/reference/methods.md). */
#include "policies/policies.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum kvc_status kvc_check_above(const struct kvc_values *values, const char *part, struct kvc_error *error) {
    if (kvc_value_is_share(values, "budget"))
        return KVC_OK; /* kvc_budget returns at least part + 1 entries for any percentage */
    const int64_t budget = kvc_value_int(values, "budget"), taken = kvc_value_int(values, part);
    if (budget > taken)
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "policy: budget=%lld: must be above %s=%lld, at most %.0f", (long long)budget,
                    part, (long long)taken, KVC_BUDGET_MOST);
}

enum kvc_status kvc_check_one_budget(const struct kvc_values *values, struct kvc_error *error) {
    const char *budget = kvc_value_text(values, "budget");
    return strchr(budget, '/')
               ? kvc_fail(error, KVC_USAGE,
                          "policy: budget=%.60s: must be one budget, which the method divides among the "
                          "layers",
                          budget)
               : KVC_OK;
}

enum kvc_status kvc_check_dims(const struct kvc_values *values, const struct kvc_geometry *geometry, const bool *acts,
                               struct kvc_error *error) {
    (void)acts;
    const int64_t dims = kvc_value_int(values, "dims");
    if (dims <= (int64_t)geometry->head_size)
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "policy: dims=%lld: must be 1 to %u, the model's head size", (long long)dims,
                    geometry->head_size);
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

bool kvc_per_head(const struct kvc_values *values) { return !strcmp(kvc_value_text(values, "per"), "head"); }

bool kvc_positions_in_cache(const struct kvc_values *values) {
    return !strcmp(kvc_value_text(values, "positions"), "cache");
}

/* Returns the number of tokens, -1 for "half", or -2 for an invalid value. */
static int64_t recent_of(const struct kvc_values *values) {
    const char *text = kvc_value_text(values, "recent");
    const size_t digits = strspn(text, "0123456789");
    if (!strcmp(text, "half"))
        return -1;
    return digits > 0 && digits <= 10 && !text[digits] ? strtoll(text, NULL, 10) : -2;
}

enum kvc_status kvc_check_recent(const struct kvc_values *values, struct kvc_error *error) {
    const bool share = kvc_value_is_share(values, "budget");
    const int64_t recent = recent_of(values);
    const int64_t most = share ? (int64_t)KVC_BUDGET_MOST : kvc_value_int(values, "budget") - 1;
    if (recent == -1 || (recent > 0 && recent <= most))
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "policy: recent=%.60s: must be half, or a whole number from 1 to %lld%s",
                    kvc_value_text(values, "recent"), (long long)most, share ? "" : ", budget - 1");
}

uint64_t kvc_recent_budget(const struct kvc_values *values, uint64_t held) {
    KVC_ASSERT(recent_of(values) != -2);
    const int64_t recent = recent_of(values);
    return kvc_budget(values, held, recent > 0 ? (uint64_t)recent : 0);
}

uint64_t kvc_recent(const struct kvc_values *values, uint64_t budget) {
    KVC_ASSERT(budget > 0);
    const int64_t recent = recent_of(values);
    return recent > 0 ? (uint64_t)recent : budget / 2;
}

static uint64_t recent_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return kvc_recent_budget(values, prompt) + (steps ? 1 : 0);
}

const struct kvc_forecast kvc_recent_forecast = {.bound = recent_bound};
