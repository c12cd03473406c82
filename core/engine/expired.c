/* expired.c - evicts the entries that a sliding window hides from all later rows. As long as no method has evicted from
 * a layer, its lists hold consecutive positions up to the newest, so the count alone determines which entries have
 * expired. After a method has evicted, the positions of the entries decide. */
#include "core/engine/expired.h"

#include "core/base/assert.h"
#include "core/stage/stage.h"

/* Evicts every entry of the layer that the rule does not keep. */
static enum kvc_status evict_by_rule(struct kvc_session *session, uint32_t layer, const struct kvc_keep *rule,
                                     struct kvc_span to, struct kvc_read_list *kept, struct kvc_error *error) {
    struct kvc_runner *runner = session->runner;
    struct kvc_device *device = runner->device;
    struct kvc_lists *lists = &session->cache.layer[layer].lists;
    const uint32_t stride = (uint32_t)kvc_round_up(kvc_cache_most(&session->cache, layer), KVC_TILE);
    enum kvc_status status = kvc_growable_reserve(device, &runner->stage.kept_index,
                                                  (size_t)stride * lists->kv_heads * sizeof(uint32_t), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &runner->stage.kept_count, lists->kv_heads * sizeof(uint32_t), error);
    if (status == KVC_OK)
        status = kvc_cache_make_order(&session->cache, layer, error);
    if (status != KVC_OK)
        return status;
    KVC_ASSERT(stride >= kvc_cache_most(&session->cache, layer));
    *kept = (struct kvc_read_list){runner->stage.kept_count.buffer, runner->stage.kept_index.buffer, stride};
    device->ops->keep(device, &(struct kvc_keep_rules){.lists = lists, .rules = rule, .rule_count = 1, .kept = kept});
    device->ops->evict(device, &(struct kvc_evict){.lists = lists, .kept = kept});
    kvc_cache_evicted(&session->cache, layer, to);
    kvc_select_evicted(session, layer, kept, to);
    return KVC_OK;
}

/* Evicts every entry that no row from position `next` on can see. `to` is as for kvc_cache_evicted. `kept` receives the
 * kept indices. If the text is too short for any entry to expire, `kept` is unchanged. */
static enum kvc_status evict_hidden(struct kvc_session *session, uint32_t layer, uint64_t next, struct kvc_span to,
                                    struct kvc_read_list *kept, struct kvc_error *error) {
    const uint32_t window = kvc_runner_window(session->runner, layer);
    const struct kvc_keep seen = {.recent = (int64_t)next - window + 1};
    if (window == 0 || next < window || kvc_cache_most(&session->cache, layer) == 0)
        return KVC_OK;
    session->evictions.thinned[layer] = true;
    return evict_by_rule(session, layer, &seen, to, kept, error);
}

enum kvc_status kvc_expired_evict(struct kvc_session *session, uint32_t layer, uint64_t next, struct kvc_error *error) {
    const uint32_t held = kvc_cache_most(&session->cache, layer);
    const uint64_t expired = kvc_window_expired(kvc_runner_window(session->runner, layer), held);
    const struct kvc_span none = {NULL, 0};
    struct kvc_read_list kept;
    KVC_ASSERT(expired <= held && expired % KVC_TILE == 0);
    if (session->evictions.thinned[layer])
        return session->in_prompt || next % KVC_TILE == 0 ? evict_hidden(session, layer, next, none, &kept, error)
                                                          : KVC_OK;
    const struct kvc_keep newest = {.tail = held - expired, .recent = INT64_MAX};
    return expired ? evict_by_rule(session, layer, &newest, none, &kept, error) : KVC_OK;
}

enum kvc_status kvc_expired_free(struct kvc_session *session, uint32_t layer, uint64_t next, struct kvc_error *error) {
    const uint32_t held = kvc_cache_most(&session->cache, layer);
    if (!kvc_runner_window(session->runner, layer))
        return KVC_OK;
    const enum kvc_status status = kvc_expired_evict(session, layer, next, error);
    const bool some = session->evictions.thinned[layer] || kvc_cache_most(&session->cache, layer) < held;
    return status == KVC_OK && some
               ? kvc_cache_shrink(&session->cache, layer, kvc_policy_surplus(session->policy, layer), false, error)
               : status;
}

enum kvc_status kvc_expired_clear(struct kvc_stage *stage, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    const struct kvc_span to =
        session->in_prompt || stage->plans ? (struct kvc_span){NULL, 0} : session->evictions.counts;
    const uint64_t next = stage->info.now - stage->plans; /* a plan is made before the step's own row is appended */
    const struct kvc_select_layer *select = &session->select.layer[stage->layer];
    struct kvc_read_list kept = {.count = NULL};
    if (stage->cleared || stage->decides || (stage->observes && !stage->plans))
        return KVC_OK;
    stage->cleared = true;
    const enum kvc_status status = evict_hidden(session, stage->layer, next, to, &kept, error);
    if (status != KVC_OK || !kept.count)
        return status;
    if (stage->reads && stage->reads != &select->view) { /* select->view has already been renumbered */
        struct kvc_read_list reads = *stage->reads;
        struct kvc_device *device = session->runner->device;
        device->ops->view_evict(
            device, &(struct kvc_view_evict){.lists = &kvc_stage_lists(stage)->lists, .kept = &kept, .view = &reads});
    }
    session->evictions.touched[stage->layer] = true;
    if (!to.buffer)
        stage->info.entries = kvc_cache_most(&session->cache, stage->layer) + stage->coming;
    return KVC_OK;
}
