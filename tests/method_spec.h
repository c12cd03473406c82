/* method_spec.h - makes a policy string for any method from its class alone, for methods without their own test. */
#ifndef KVC_TESTS_METHOD_SPEC_H
#define KVC_TESTS_METHOD_SPEC_H

#include "kvcull/policy.h"

#include <stdio.h>
#include <string.h>

/* Writes NAME:budget=B, a fixed text for options that need one, and the class's trial options for a small model. */
static inline void kvc_test_method_spec(const struct kvc_policy_class *policy, unsigned budget, char *spec,
                                        size_t capacity) {
    size_t used = (size_t)snprintf(spec, capacity, "%s", policy->name);
    char join = ':';
    for (const struct kvc_option *o = policy->options; o->name && used < capacity; o++) {
        const size_t before = used;
        if (strcmp(o->name, "budget") == 0)
            used += (size_t)snprintf(spec + used, capacity - used, "%cbudget=%u", join, budget);
        else if (o->kind == KVC_OPTION_TEXT && !o->default_value)
            used += (size_t)snprintf(spec + used, capacity - used, "%c%s=%s", join, o->name, o->choices);
        join = used > before ? ',' : join;
    }
    if (policy->trial && used < capacity)
        snprintf(spec + used, capacity - used, "%c%s", join, policy->trial);
}

/* Returns true if a policy string begins with the method. */
static inline bool kvc_test_is_of(const char *spec, const struct kvc_policy_class *policy) {
    const size_t length = strlen(policy->name);
    return strncmp(spec, policy->name, length) == 0 && (!spec[length] || strchr(":+", spec[length]));
}

#endif
