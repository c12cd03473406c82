/* policy_list.h - the built-in policies. */
#ifndef KVC_CORE_BASE_POLICY_LIST_H
#define KVC_CORE_BASE_POLICY_LIST_H

#include "kvcull/policy.h"

/* NULL-terminated table (policies/list.c). */
extern const struct kvc_policy_class *const kvc_policy_list[];

#endif
