/* policy_methods.c - collects what a policy's methods need from a session (layers, queries, state columns, heads,
 * chunks), and creates the methods' own state. */
#include "core/stage/policy.h"

#include "core/base/assert.h"

#include <stdlib.h>

uint32_t kvc_policy_queries(const struct kvc_policy *policy) {
    uint32_t most = 0;
    for (size_t i = 0; i < policy->count; i++) {
        const struct kvc_method *method = &policy->method[i];
        const uint32_t queries = method->policy->queries ? method->policy->queries(&method->values) : 0;
        if (queries > most)
            most = queries;
    }
    struct kvc_chunking chunking;
    if (kvc_policy_chunking(policy, &chunking) && chunking.probe > most)
        most = chunking.probe;
    return most;
}

uint32_t kvc_method_columns(const struct kvc_method *method, uint32_t layer) {
    return method->policy->columns && kvc_method_acts(method, layer) ? method->policy->columns(&method->values) : 0;
}

uint32_t kvc_policy_columns(const struct kvc_policy *policy, uint32_t layer) {
    uint32_t all = 0;
    for (size_t i = 0; i < policy->count; i++) {
        const uint32_t columns = kvc_method_columns(&policy->method[i], layer);
        all = columns > KVC_COLUMNS_MOST - all ? KVC_COLUMNS_MOST : all + columns;
    }
    return all;
}

const struct kvc_method *kvc_policy_cache_positions(const struct kvc_policy *policy, uint32_t layer) {
    for (size_t i = 0; i < policy->count; i++) {
        const struct kvc_method *method = &policy->method[i];
        if (method->policy->cache_positions && method->policy->cache_positions(&method->values) &&
            kvc_method_acts(method, layer))
            return method;
    }
    return NULL;
}

bool kvc_policy_merges(const struct kvc_policy *policy, uint32_t layer) {
    for (size_t i = 0; i < policy->count; i++)
        if (policy->method[i].policy->evicts && kvc_method_acts(&policy->method[i], layer))
            return true;
    return false;
}

uint32_t kvc_policy_all_columns(const struct kvc_policy *policy, uint32_t layer, uint32_t head_size) {
    return kvc_policy_columns(policy, layer) + (kvc_policy_cache_positions(policy, layer) ? head_size : 0);
}

const struct kvc_forecast *kvc_method_forecast(const struct kvc_method *method) {
    static const struct kvc_forecast nothing;
    if (method && method->policy->forecasts)
        return method->policy->forecasts(&method->values);
    return method && method->policy->forecast ? method->policy->forecast : &nothing;
}

uint32_t kvc_policy_surplus(const struct kvc_policy *policy, uint32_t layer) {
    const struct kvc_method *method = kvc_policy_owner(policy, KVC_STAGE_DECODE);
    if (!method || !kvc_method_acts(method, layer))
        return 0;
    return method->policy->surplus ? method->policy->surplus(&method->values) : 1;
}

bool kvc_policy_chunking(const struct kvc_policy *policy, struct kvc_chunking *chunking) {
    const struct kvc_method *method = kvc_policy_owner(policy, KVC_STAGE_CHUNK);
    if (!method)
        return false;
    *chunking = (struct kvc_chunking){.chunk = 0};
    method->policy->chunking(&method->values, chunking);
    return true;
}

uint32_t kvc_policy_decider(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry,
                            const struct kvc_entry_format *format) {
    const struct kvc_method_layer at = kvc_policy_method_at(policy, KVC_STAGE_CHUNK, layer, geometry, format);
    return at.method && at.method->policy->decider ? at.method->policy->decider(&at.values, &at.context) : layer;
}

/* ---- the layers in which methods act ---- */

static void free_use(struct kvc_method_use *use) {
    free(use->acts);
    free(use->context);
    free(use->column);
    free(use->state);
    *use = (struct kvc_method_use){.acts = NULL};
}

static enum kvc_status use_method(const struct kvc_policy *policy, size_t i, uint32_t layers,
                                  struct kvc_method_use *use, struct kvc_error *error) {
    use->acts = calloc(layers, sizeof *use->acts);
    use->context = calloc(layers, sizeof *use->context);
    use->column = calloc(layers, sizeof *use->column);
    if (!use->acts || !use->context || !use->column)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for %u layers", layers);
    for (uint32_t l = 0; l < layers; l++) {
        use->acts[l] = kvc_method_acts(&policy->method[i], l);
        use->context[l] = use->count;
        use->count += use->acts[l];
        KVC_ASSERT(use->column[l] == 0 && use->count <= l + 1);
        for (size_t before = 0; before < i; before++)
            use->column[l] += kvc_method_columns(&policy->method[before], l);
    }
    return KVC_OK;
}

static enum kvc_status check_method(const struct kvc_method *method, const struct kvc_geometry *geometry,
                                    const bool *acts, struct kvc_error *error) {
    const struct kvc_policy_class *policy = method->policy;
    return policy->check_model
               ? kvc_policy_named(policy, policy->check_model(&method->values, geometry, acts, error), error)
               : KVC_OK;
}

enum kvc_status kvc_geometry_check(const struct kvc_geometry *g, const char *who, struct kvc_error *error) {
    if (g->layers && g->heads && g->kv_heads && g->head_size && g->heads % g->kv_heads == 0 && g->layers <= 65536 &&
        g->heads <= 65536 && g->head_size <= 65536)
        return KVC_OK;
    return kvc_fail(
        error, KVC_USAGE,
        "%s: %u layers, %u heads over %u KV heads of size %u: must be from 1 to 65536, KV heads dividing heads", who,
        g->layers, g->heads, g->kv_heads, g->head_size);
}

enum kvc_status kvc_policy_check_model(const struct kvc_policy *policy, const struct kvc_geometry *geometry,
                                       struct kvc_error *error) {
    enum kvc_status status = kvc_policy_check_layers(policy, geometry->layers, error);
    for (size_t i = 0; i < policy->count && status == KVC_OK; i++) {
        struct kvc_method_use use = {.acts = NULL};
        status = use_method(policy, i, geometry->layers, &use, error);
        if (status == KVC_OK)
            status = check_method(&policy->method[i], geometry, use.acts, error);
        free_use(&use);
    }
    const struct kvc_entry_format any = kvc_entry_format(kvc_entry_types(KVC_F16), geometry->head_size);
    for (uint32_t l = 0; l < geometry->layers && status == KVC_OK; l++) {
        const uint32_t decider = kvc_policy_decider(policy, l, geometry, &any);
        if (kvc_policy_columns(policy, l) >= KVC_COLUMNS_MOST)
            status = kvc_fail(error, KVC_USAGE, "policy: more than %u values of state per entry in layer %u",
                              KVC_COLUMNS_MOST - 1, l);
        else if (kvc_policy_heads(policy, l, geometry) != kvc_policy_heads(policy, decider, geometry))
            status = kvc_fail(error, KVC_USAGE,
                              "policy: per=head: must hold in both of layers %u and %u, or in neither: the upper one "
                              "chooses for the lower, list by list",
                              l, decider);
    }
    return status;
}

enum kvc_status kvc_policy_check_types(const struct kvc_policy *policy, struct kvc_entry_types types,
                                       struct kvc_error *error) {
    char text[KVC_ENTRY_TYPES_NAME];
    for (size_t i = 0; i < policy->count; i++) {
        const struct kvc_policy_class *method = policy->method[i].policy;
        if (method->channels && kvc_type_is_rotated(types.key))
            return kvc_fail(error, KVC_USAGE,
                            "policy %s: reads single channels of keys, which entries of type %s do not keep: use "
                            "k=q8_0,v=%s",
                            method->name, kvc_entry_types_name(types, text), kvc_type_name(types.value));
        if (method->zeroes && !kvc_type_stores_zero(types.key))
            return kvc_fail(error, KVC_USAGE,
                            "policy %s: sets channels of keys to 0, which entries of type %s do not store exactly: use "
                            "k=q8_0,v=%s",
                            method->name, kvc_entry_types_name(types, text), kvc_type_name(types.value));
    }
    return KVC_OK;
}

bool kvc_policy_centres(const struct kvc_policy *policy, struct kvc_entry_types types) {
    bool whole = false;
    for (size_t i = 0; i < policy->count; i++) {
        const struct kvc_method *method = &policy->method[i];
        whole = whole || method->policy->whole_keys ||
                (method->policy->cache_positions && method->policy->cache_positions(&method->values));
    }
    return kvc_type_is_rotated(types.key) && !whole;
}

/* Allocates a method's own state. */
static enum kvc_status open_state(const struct kvc_method *method, const struct kvc_geometry *geometry,
                                  struct kvc_method_use *use, struct kvc_error *error) {
    const struct kvc_policy_class *class = method->policy;
    use->state_bytes = class->state_bytes ? class->state_bytes(&method->values, geometry) : 0;
    if (use->state_bytes) {
        use->state = calloc(1, use->state_bytes);
        if (!use->state)
            return kvc_fail(error, KVC_RESOURCE, "policy %s: no memory for %zu bytes of state", class->name,
                            use->state_bytes);
    }
    return class->open ? class->open(&method->values, geometry, use->state, error) : KVC_OK;
}

enum kvc_status kvc_policy_open(const struct kvc_policy *policy, const struct kvc_geometry *geometry,
                                struct kvc_method_use **use, struct kvc_error *error) {
    enum kvc_status status = kvc_policy_check_model(policy, geometry, error);
    *use = NULL;
    if (status != KVC_OK)
        return status;
    struct kvc_method_use *made = calloc(policy->count, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for %zu methods", policy->count);
    for (size_t i = 0; i < policy->count && status == KVC_OK; i++) {
        const struct kvc_method *method = &policy->method[i];
        status = use_method(policy, i, geometry->layers, &made[i], error);
        if (status == KVC_OK)
            status = open_state(method, geometry, &made[i], error);
    }
    if (status != KVC_OK) {
        kvc_policy_close(policy, made);
        return status;
    }
    *use = made;
    return KVC_OK;
}

void kvc_policy_close(const struct kvc_policy *policy, struct kvc_method_use *use) {
    for (size_t i = 0; use && i < policy->count; i++)
        free_use(&use[i]);
    free(use);
}
