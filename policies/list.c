/* list.c - the list of built-in methods. list.def is generated from policies/policies.mk and has one KVC_POLICY(name)
 * for each class kvc_policy_NAME. */
#include "core/base/policy_list.h"

#define KVC_POLICY(name) extern const struct kvc_policy_class kvc_policy_##name;
#include "policies/list.def"
#undef KVC_POLICY

#define KVC_POLICY(name) &kvc_policy_##name,
const struct kvc_policy_class *const kvc_policy_list[] = {
#include "policies/list.def"
    NULL};
