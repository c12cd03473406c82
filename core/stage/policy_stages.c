/* policy_stages.c - assigns the stages of a policy to its methods, and rejects methods that cannot be combined. */
#include "core/stage/policy.h"

#include "core/base/assert.h"

#include <string.h>

static enum kvc_status limit_stages(struct kvc_method *method, struct kvc_error *error) {
    const char *text = kvc_value_text(&method->values, "stages");
    method->stages = method->policy->stages;
    if (!strcmp(text, "both"))
        return KVC_OK;
    const unsigned two = KVC_STAGE_PROMPT | KVC_STAGE_DECODE;
    if ((method->stages & two) != two)
        return kvc_fail(error, KVC_USAGE,
                        "policy %s: stages=%s: only a method with a prompt and a decode stage can be limited",
                        method->policy->name, text);
    method->stages &= ~two;
    method->stages |= !strcmp(text, "prompt") ? (unsigned)KVC_STAGE_PROMPT : (unsigned)KVC_STAGE_DECODE;
    return KVC_OK;
}

/* Returns how readily a method gives up a stage that another method wants. 0: never, because the method needs all its
 * stages or the user has chosen its stages. 1: the method needs only one of prompt and propagate. 2: the method needs
 * only one of prompt and decode. */
static int readiness(const struct kvc_method *method) {
    const unsigned stages = method->policy->stages;
    if (kvc_value_given(&method->values, "stages"))
        return 0;
    return stages == (KVC_STAGE_PROMPT | KVC_STAGE_DECODE)      ? 2
           : stages == (KVC_STAGE_PROMPT | KVC_STAGE_PROPAGATE) ? 1
                                                                : 0;
}

const char *kvc_stage_name(enum kvc_stage_kind stage) {
    switch (stage) {
    case KVC_STAGE_CHUNK:
        return "chunk";
    case KVC_STAGE_PROMPT:
        return "prompt";
    case KVC_STAGE_PROPAGATE:
        return "propagate";
    case KVC_STAGE_SELECT:
        return "select";
    default:
        return "decode";
    }
}

/* Assigns a stage to the method that gives it up least readily, and removes it from the other methods. Two methods that
 * give it up equally readily conflict. */
static enum kvc_status share_stage(struct kvc_policy *policy, unsigned stage, struct kvc_error *error) {
    struct kvc_method *owner = NULL;
    for (int ready = 0; ready <= 2; ready++)
        for (size_t i = 0; i < policy->count; i++) {
            struct kvc_method *method = &policy->method[i];
            if (readiness(method) != ready || !(method->stages & stage))
                continue;
            if (owner && readiness(owner) == ready)
                return kvc_fail(error, KVC_USAGE,
                                "policy: %s and %s both act at the %s stage; one of them must be left out%s",
                                owner->policy->name, method->policy->name, kvc_stage_name((enum kvc_stage_kind)stage),
                                ready == 2 ? " or limited by stages=" : "");
            if (owner)
                method->stages &= ~stage;
            else
                owner = method;
        }
    return KVC_OK;
}

/* Checks a method that rotates keys to their cache positions. Such a method needs equal lists in all heads, and queries
 * at the positions that it chooses. So it can be combined with select methods only. */
static enum kvc_status check_cache_positions(const struct kvc_policy *policy, const struct kvc_method *method,
                                             struct kvc_error *error) {
    if (!method->policy->cache_positions || !method->policy->cache_positions(&method->values))
        return KVC_OK;
    for (size_t i = 0; i < policy->count; i++)
        if (&policy->method[i] != method &&
            ((policy->method[i].stages & ~(unsigned)KVC_STAGE_SELECT) || policy->method[i].policy->zeroes))
            return kvc_fail(error, KVC_USAGE,
                            "policy: %s with positions=cache and %s cannot be joined: keys that move with every "
                            "eviction suit only methods that choose what to read",
                            method->policy->name, policy->method[i].policy->name);
    return KVC_OK;
}

/* Checks split budgets: all must be equal, and they must belong to a method that evicts from the prompt and to a select
 * method. */
static enum kvc_status check_split(const struct kvc_policy *policy, struct kvc_error *error) {
    const char *budget = NULL;
    unsigned stages = 0;
    uint64_t total;
    for (size_t i = 0; i < policy->count; i++) {
        const struct kvc_values *values = &policy->method[i].values;
        if (!kvc_value_split(values, "budget", 1, &total))
            continue;
        if (budget && strcmp(budget, kvc_value_text(values, "budget")) != 0)
            return kvc_fail(error, KVC_USAGE,
                            "policy: budget=%.60s and budget=%.60s: a split budget is the same for both", budget,
                            kvc_value_text(values, "budget"));
        budget = kvc_value_text(values, "budget");
        stages |= policy->method[i].stages;
    }
    if (!budget || ((stages & (KVC_STAGE_PROMPT | KVC_STAGE_CHUNK)) && (stages & KVC_STAGE_SELECT)))
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE,
                    "policy: budget=%.60s: must be that of a prompt method and of a select method, as in "
                    "adakv:budget=split:512+quest:budget=split:512",
                    budget);
}

enum kvc_status kvc_policy_share(struct kvc_policy *policy, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; i < policy->count && status == KVC_OK; i++)
        status = limit_stages(&policy->method[i], error);
    for (unsigned stage = KVC_STAGE_CHUNK; stage <= KVC_STAGE_DECODE && status == KVC_OK; stage <<= 1)
        status = share_stage(policy, stage, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_method *chunk = kvc_policy_owner(policy, KVC_STAGE_CHUNK);
    const struct kvc_method *propagate = kvc_policy_owner(policy, KVC_STAGE_PROPAGATE);
    if (chunk && propagate)
        return kvc_fail(
            error, KVC_USAGE,
            "policy: %s reads the prompt in chunks, but %s chooses among all of its rows; one of them must be "
            "left out",
            chunk->policy->name, propagate->policy->name);
    for (size_t i = 0; i < policy->count && status == KVC_OK; i++)
        status = check_cache_positions(policy, &policy->method[i], error);
    if (status == KVC_OK)
        status = check_split(policy, error);
    if (status != KVC_OK)
        return status;
    for (size_t i = 0; i < policy->count; i++) {
        if (policy->method[i].policy->stages && !policy->method[i].stages)
            return kvc_fail(error, KVC_USAGE, "policy: %s has no stage left to act at; the other methods hold both",
                            policy->method[i].policy->name);
    }
    return KVC_OK;
}

bool kvc_policy_prefills_in_full(const struct kvc_policy *policy) {
    return !kvc_policy_owner(policy, KVC_STAGE_CHUNK) && !kvc_policy_owner(policy, KVC_STAGE_PROPAGATE);
}

const struct kvc_method *kvc_policy_owner(const struct kvc_policy *policy, enum kvc_stage_kind stage) {
    KVC_ASSERT(stage && !((unsigned)stage & ((unsigned)stage - 1))); /* one stage */
    for (size_t i = 0; i < policy->count; i++) {
        if (policy->method[i].stages & (unsigned)stage)
            return &policy->method[i];
    }
    return NULL;
}
