/* policies.h - the built-in methods and the little they share. A policy works through the stage functions of
 * kvcull.h only. */
#ifndef KVC_POLICIES_H
#define KVC_POLICIES_H

#include "core/engine.h"

extern const struct kvc_policy_class kvc_policy_full, kvc_policy_window, kvc_policy_streaming, kvc_policy_snapkv,
    kvc_policy_morphkv, kvc_policy_dapq, kvc_policy_take;

/* The largest budget a policy string may name: positions are 31 bits. */
#define KVC_BUDGET_MOST 2147483647.0

/* METHODS rule 7: budget must be above what `part` takes of it. */
enum kvc_status kvc_check_above(const struct kvc_values *values, const char *part, struct kvc_error *error);

/* The budget for what a head held when the turn's prompt was in; a share is at least part + 1. */
uint64_t kvc_budget(const struct kvc_values *values, uint64_t held, uint64_t part);

/* An odd `kernel`; and `pooling` as the stage functions want it (METHODS rule 6). */
enum kvc_status kvc_check_kernel(const struct kvc_values *values, struct kvc_error *error);
enum kvc_pooling kvc_pooling_of(const struct kvc_values *values);

#endif
