/* unseen.c - what a sliding window hides from every row that may come is given back. A layer in which no method acts
 * holds all positions up to the newest but those that went this way, so what is hidden follows from how many there are.
 * Where a method acts, it decides what stays, and the window hides what it hides. */
#include "core/engine/unseen.h"

#include "core/base/integers.h"

static bool method_acts(const struct kvc_session *session, uint32_t layer) {
    const struct kvc_policy *policy = session->policy;
    struct kvc_chunking chunking;
    for (size_t i = 0; i < policy->count; i++)
        if (policy->method[i].stages && (session->use[i].acts[layer] || policy->method[i].stages & KVC_STAGE_PROPAGATE))
            return true; /* token pruning: ranks do not say positions, in any layer above */
    return kvc_policy_chunking(policy, &chunking);
}

enum kvc_status kvc_unseen_evict(struct kvc_session *session, uint32_t layer, struct kvc_error *error) {
    const struct kvc_network *network = session->runner->network;
    const uint32_t window = network ? network->layer[layer].window : 0, held = kvc_cache_most(&session->cache, layer);
    const uint64_t unseen = kvc_window_unseen(window, held);
    if (unseen == 0 || method_acts(session, layer))
        return KVC_OK;
    struct kvc_runner *runner = session->runner;
    struct kvc_device *device = runner->device;
    struct kvc_lists *lists = &session->cache.layer[layer].lists;
    const struct kvc_keep newest = {.tail = held - unseen, .recent = INT64_MAX};
    const uint32_t stride = (uint32_t)kvc_round_up(held, KVC_TILE);
    enum kvc_status status = kvc_growable_reserve(device, &runner->stage.kept_rank,
                                                  (size_t)stride * lists->kv_heads * sizeof(uint32_t), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &runner->stage.kept_count, lists->kv_heads * sizeof(uint32_t), error);
    if (status == KVC_OK)
        status = kvc_cache_make_order(&session->cache, layer, error);
    if (status != KVC_OK)
        return status;
    struct kvc_read_list kept = {runner->stage.kept_count.buffer, runner->stage.kept_rank.buffer, stride};
    device->ops->keep(device,
                      &(struct kvc_keep_rules){.lists = lists, .rules = &newest, .rule_count = 1, .kept = &kept});
    device->ops->evict(device, &(struct kvc_evict){.lists = lists, .kept = &kept});
    kvc_cache_evicted(&session->cache, layer, (struct kvc_span){NULL, 0});
    return KVC_OK;
}

enum kvc_status kvc_unseen_give(struct kvc_session *session, uint32_t layer, struct kvc_error *error) {
    const uint32_t held = kvc_cache_most(&session->cache, layer);
    const enum kvc_status status = kvc_unseen_evict(session, layer, error);
    return status == KVC_OK && kvc_cache_most(&session->cache, layer) < held
               ? kvc_cache_shrink(&session->cache, layer, 0, 1, error)
               : status;
}
