/* policies.h - the policies of this build. Adding one: policies/list.c. */
#ifndef KVC_CORE_BASE_POLICIES_H
#define KVC_CORE_BASE_POLICIES_H

#include "kvcull.h"

/* All of them, ending in NULL. */
extern const struct kvc_policy_class *const kvc_policy_list[];

#endif
