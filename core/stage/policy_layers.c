/* policy_layers.c - describes a layer under a policy: its number of lists, the method that holds a stage in it, and the
 * layer's context for that method. */
#include "core/stage/policy.h"

#include "core/base/assert.h"

uint32_t kvc_policy_heads(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry) {
    for (size_t i = 0; i < policy->count; i++) {
        const struct kvc_method *method = &policy->method[i];
        if (method->policy->per_head && method->policy->per_head(&method->values) && kvc_method_acts(method, layer))
            return geometry->heads;
    }
    return geometry->kv_heads;
}

struct kvc_method_layer kvc_policy_method_at(const struct kvc_policy *policy, enum kvc_stage_kind stage, uint32_t layer,
                                             const struct kvc_geometry *g, const struct kvc_entry_format *format) {
    const struct kvc_method *method = kvc_policy_owner(policy, stage);
    struct kvc_method_layer found = {.method = method && kvc_method_acts(method, layer) ? method : NULL};
    const uint32_t lists = kvc_policy_heads(policy, layer, g);
    if (found.method)
        found.values = kvc_method_values(found.method, layer);
    KVC_ASSERT(lists > 0 && g->heads % lists == 0 && layer < g->layers);
    found.context = (struct kvc_layer_context){.layer = layer,
                                               .layers = g->layers,
                                               .kv_heads = lists,
                                               .group = g->heads / lists,
                                               .head_size = g->head_size,
                                               .model_kv_heads = g->kv_heads,
                                               .entry_bytes = kvc_entry_bytes(format),
                                               .element_bytes = (double)format->key.bytes / g->head_size,
                                               .page_element_bytes = format->key.type == KVC_F16 ? 2 : 4};
    for (uint32_t l = 0; method && l < g->layers; l++) {
        found.context.acting += l < layer && kvc_method_acts(method, l);
        found.context.actings += kvc_method_acts(method, l);
    }
    return found;
}
