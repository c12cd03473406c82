/* evict.c - evicts entries by scores, indices, positions or a plan, and frees empty blocks. Every eviction calls
 * evict_unkept. This function first lets methods merge the values of evicted entries into kept ones. It then updates
 * the lists. Last, it updates all data that depends on indices: the select method's view, and keys that are rotated by
 * their index. */
#include "core/engine/evict.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/base/log.h"
#include "core/engine/expired.h"
#include "core/stage/stage_call.h"

#include <stdlib.h>

static const struct kvc_span none = {NULL, 0};

/* Checks that `scores` (may be NULL) has one row per list. */
static enum kvc_status check_scores(const struct kvc_stage *stage, const struct kvc_scores *scores,
                                    struct kvc_error *error) {
    const enum kvc_status status = scores ? kvc_stage_check_scores(stage, scores, error) : KVC_OK;
    if (status != KVC_OK || !scores || scores->heads == stage->info.kv_heads)
        return status;
    return kvc_fail(error, KVC_USAGE, "policy: keep by scores per query head: scores must be per list");
}

/* Checks that the stage may evict, and that it may use these rules. */
static enum kvc_status check_keep(const struct kvc_stage *stage, const struct kvc_keep *rules, uint32_t count,
                                  struct kvc_error *error) {
    if (stage->observes)
        return kvc_fail(error, KVC_USAGE, "policy: a method that only observes the prompt must not evict");
    for (uint32_t h = 0; h < count; h++)
        if ((rules[h].top || rules[h].fill || rules[h].bounded) && !rules[0].scores)
            return kvc_fail(error, KVC_USAGE, "policy: keep by score, but there are no scores");
    if (rules[0].scores && stage->evicted)
        return kvc_fail(error, KVC_USAGE, "policy: keep by scores from before an eviction");
    const enum kvc_status status = check_scores(stage, rules[0].scores, error);
    return status == KVC_OK ? check_scores(stage, rules[0].ties, error) : status;
}

enum kvc_status kvc_evict_reserve(struct kvc_stage *stage, struct kvc_read_list *kept, struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    const uint32_t heads = stage->info.kv_heads;
    const uint32_t stride = (uint32_t)kvc_round_up(kvc_stage_capacity(stage), KVC_TILE);
    enum kvc_status status = kvc_growable_reserve(runner->device, &runner->stage.kept_index,
                                                  (size_t)stride * heads * sizeof(uint32_t), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(runner->device, &runner->stage.kept_count, heads * sizeof(uint32_t), error);
    *kept = (struct kvc_read_list){runner->stage.kept_count.buffer, runner->stage.kept_index.buffer, stride};
    KVC_ASSERT(stride >= kvc_cache_most(&stage->session->cache, stage->layer));
    return status;
}

/* Evicts every entry of the layer whose index is not in `kept`. */
static enum kvc_status evict_unkept(struct kvc_stage *stage, const struct kvc_read_list *kept,
                                    struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_device *device = session->runner->device;
    enum kvc_status status = kvc_cache_make_order(&session->cache, stage->layer, error);
    if (status != KVC_OK)
        return status;
    status = kvc_stage_call_evicts(stage, kept, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_span to = session->in_prompt ? none : session->evictions.counts;
    KVC_ASSERT(kept->stride >= kvc_cache_most(&session->cache, stage->layer));
    KVC_ASSERT(session->in_prompt || to.buffer);
    device->ops->evict(device, &(struct kvc_evict){.lists = &kvc_stage_lists(stage)->lists, .kept = kept});
    kvc_cache_evicted(&session->cache, stage->layer, to);
    kvc_select_evicted(session, stage->layer, kept, to);
    session->evictions.touched[stage->layer] = session->evictions.thinned[stage->layer] = true;
    stage->evicted = true;
    const uint64_t before = stage->info.entries;
    stage->info.entries = kvc_cache_most(&session->cache, stage->layer);
    KVC_LOG(device->log, KVC_LOG_DEBUG, KVC_LOG_CACHE,
            "layer %u: evicted at token %llu; the longest list had %llu entries, %s %llu", stage->layer,
            (unsigned long long)stage->info.now, (unsigned long long)before, to.buffer ? "and has at most" : "and has",
            (unsigned long long)stage->info.entries);
    return kvc_cache_positions_renew(session, stage->layer, error);
}

/* Writes to `kept` the indices that the rules select. There is one rule for all lists, or one for each list. */
static void apply_rules(struct kvc_stage *stage, const struct kvc_keep *rules, uint32_t count,
                        struct kvc_read_list *kept) {
    struct kvc_device *device = stage->session->runner->device;
    const struct kvc_scores *scores = rules->scores, *ties = rules->ties;
    device->ops->keep(device, &(struct kvc_keep_rules){.lists = &kvc_stage_lists(stage)->lists,
                                                       .rules = rules,
                                                       .rule_count = count,
                                                       .scores = scores ? scores->span : none,
                                                       .ties = ties ? ties->span : none,
                                                       .stride = scores ? scores->stride : 0,
                                                       .kept = kept});
}

static enum kvc_status keep_by(struct kvc_stage *stage, const struct kvc_keep *rules, uint32_t count,
                               struct kvc_error *error) {
    struct kvc_read_list kept;
    enum kvc_status status = check_keep(stage, rules, count, error);
    if (status == KVC_OK && !rules[0].scores)
        status = kvc_expired_clear(stage, error);
    if (status == KVC_OK)
        status = kvc_evict_reserve(stage, &kept, error);
    if (status != KVC_OK)
        return status;
    apply_rules(stage, rules, count, &kept);
    stage->session->runner->stage.kept_stride = kept.stride;
    return evict_unkept(stage, &kept, error);
}

enum kvc_status kvc_stage_weigh(struct kvc_stage *stage, const struct kvc_keep *rule, float epsilon,
                                const struct kvc_scores *factor, struct kvc_scores *scores, struct kvc_error *error) {
    struct kvc_device *device = stage->session->runner->device;
    struct kvc_read_list kept;
    enum kvc_status status = check_keep(stage, rule, 1, error);
    if (status == KVC_OK)
        status = kvc_stage_check_scores(stage, factor, error);
    if (status == KVC_OK)
        status = kvc_stage_check_scores(stage, scores, error);
    if (status == KVC_OK && (scores->heads != factor->heads || scores->heads != stage->info.kv_heads))
        status = kvc_fail(error, KVC_USAGE, "policy: scores are weighed per list");
    if (status == KVC_OK)
        status = kvc_evict_reserve(stage, &kept, error);
    if (status != KVC_OK)
        return status;
    apply_rules(stage, rule, 1, &kept);
    device->ops->weigh_scores(device, &(struct kvc_weigh_scores){.lists = &kvc_stage_lists(stage)->lists,
                                                                 .kept = &kept,
                                                                 .epsilon = epsilon,
                                                                 .factor = factor->span,
                                                                 .scores = scores->span,
                                                                 .stride = scores->stride});
    return KVC_OK;
}

enum kvc_status kvc_stage_keep(struct kvc_stage *stage, const struct kvc_keep *rule, struct kvc_error *error) {
    return keep_by(stage, rule, 1, error);
}

enum kvc_status kvc_stage_keep_heads(struct kvc_stage *stage, const struct kvc_keep *rules, struct kvc_error *error) {
    return keep_by(stage, rules, stage->info.kv_heads, error);
}

enum kvc_status kvc_stage_keep_ring(struct kvc_stage *stage, const struct kvc_keep *rule, uint32_t first, uint32_t rows,
                                    uint32_t filled, uint32_t sums, struct kvc_error *error) {
    struct kvc_device *device = stage->session->runner->device;
    struct kvc_scores *fused = NULL;
    struct kvc_read_list kept;
    struct kvc_ring ring = {rows ? first : 0, rows, sums, (int64_t)stage->info.now};
    enum kvc_status status = kvc_stage_scores(stage, &fused, error);
    struct kvc_keep by = *rule;
    *(rule->scores ? &by.ties : &by.scores) = fused;
    if (status == KVC_OK)
        status = check_keep(stage, &by, 1, error);
    if (status == KVC_OK && (!device->ops->keep_ring || filled < rows || rule->bounded)) {
        status = kvc_stage_ring_fuse(stage, first, rows, filled, KVC_ROW_PROBABILITIES, KVC_FUSE_SUM, rule->recent,
                                     fused, error);
        return status == KVC_OK ? kvc_stage_keep(stage, &by, error) : status;
    }
    if (status == KVC_OK)
        status = kvc_stage_columns(stage, first, rows, &ring.first, error);
    if (status == KVC_OK && sums != UINT32_MAX)
        status = kvc_stage_columns(stage, sums, kvc_ring_blocks(rows), &ring.sums, error);
    if (status == KVC_OK)
        status = kvc_evict_reserve(stage, &kept, error);
    if (status != KVC_OK)
        return status;
    device->ops->keep_ring(device, &(struct kvc_keep_ring){.lists = &kvc_stage_lists(stage)->lists,
                                                           .rule = rule,
                                                           .ring = &ring,
                                                           .scores = rule->scores ? rule->scores->span : none,
                                                           .fused = fused->span,
                                                           .stride = fused->stride,
                                                           .kept = &kept});
    stage->session->runner->stage.kept_stride = kept.stride;
    return evict_unkept(stage, &kept, error);
}

/* Uploads the kept indices of one list. */
static void upload_kept(struct kvc_device *device, const struct kvc_read_list *kept, uint32_t list,
                        const uint32_t *indices, uint32_t count) {
    device->ops->upload(device, (struct kvc_span){kept->count, list * sizeof count}, &count, sizeof count);
    if (count)
        device->ops->upload(device, (struct kvc_span){kept->index, (size_t)list * kept->stride * sizeof *indices},
                            indices, count * sizeof *indices);
}

enum kvc_status kvc_stage_keep_indices(struct kvc_stage *stage, const uint32_t *indices, uint32_t count,
                                       struct kvc_error *error) {
    const struct kvc_keep nothing = {.recent = INT64_MAX};
    const uint32_t heads = stage->info.kv_heads;
    struct kvc_read_list kept;
    enum kvc_status status = check_keep(stage, &nothing, 1, error);
    if (status == KVC_OK)
        status = kvc_expired_clear(stage, error);
    kvc_cache_catch_up(&stage->session->cache, stage->layer);
    for (uint32_t h = 0; h < heads && status == KVC_OK; h++)
        if (count > 0 && indices[count - 1] >= kvc_stage_lists(stage)->count[h])
            status = kvc_fail(error, KVC_USAGE, "policy: keep index %u of a head with %u entries", indices[count - 1],
                              kvc_stage_lists(stage)->count[h]);
    for (uint32_t i = 1; i < count && status == KVC_OK; i++)
        if (indices[i] <= indices[i - 1])
            status = kvc_fail(error, KVC_USAGE, "policy: indices to be kept must ascend");
    if (status == KVC_OK)
        status = kvc_evict_reserve(stage, &kept, error);
    if (status != KVC_OK)
        return status;
    for (uint32_t h = 0; h < heads; h++)
        upload_kept(stage->session->runner->device, &kept, h, indices, count);
    stage->session->runner->stage.kept_stride = kept.stride;
    return evict_unkept(stage, &kept, error);
}

/* Finds the indices of one head's entries at the given positions. `held` and `positions` ascend. Returns the number of
 * indices found. */
static uint32_t indices_at(const int32_t *held, size_t held_count, const int32_t *positions, size_t count,
                           uint32_t *indices) {
    uint32_t n = 0;
    for (size_t i = 0, r = 0; i < count && r < held_count; r++) {
        while (i < count && positions[i] < held[r])
            i++;
        if (i < count && positions[i] == held[r])
            indices[n++] = (uint32_t)r;
    }
    KVC_ASSERT(n <= count && n <= held_count);
    return n;
}

static enum kvc_status check_positions(const int32_t *positions, size_t count, uint32_t head, struct kvc_error *error) {
    for (size_t i = 1; i < count; i++)
        if (positions[i] <= positions[i - 1])
            return kvc_fail(error, KVC_USAGE,
                            "policy: position %d after %d, of head %u: positions to be kept must ascend", positions[i],
                            positions[i - 1], head);
    return KVC_OK;
}

/* Notes the positions that a stage keeps in a layer of another process, for kvc_pipeline_settle. */
static void note_kept(struct kvc_stage *stage, const int32_t *const *positions, const size_t *counts) {
    struct kvc_packet *kept = &stage->session->kept;
    kvc_packet_put_number(kept, stage->layer);
    kvc_packet_put_number(kept, stage->info.kv_heads);
    for (uint32_t h = 0; h < stage->info.kv_heads; h++) {
        kvc_packet_put_number(kept, counts[h]);
        kvc_packet_put(kept, positions[h], counts[h] * sizeof(int32_t));
    }
}

enum kvc_status kvc_stage_keep_positions(struct kvc_stage *stage, const int32_t *const *positions, const size_t *counts,
                                         struct kvc_error *error) {
    const struct kvc_keep nothing = {.recent = INT64_MAX};
    for (uint32_t h = 0; h < stage->info.kv_heads; h++) {
        const enum kvc_status ascend = check_positions(positions[h], counts[h], h, error);
        if (ascend != KVC_OK)
            return ascend;
    }
    if (!kvc_network_has(stage->session->runner->network, stage->layer)) {
        note_kept(stage, positions, counts);
        return KVC_OK;
    }
    const size_t most = kvc_stage_capacity(stage);
    int32_t *held = malloc(most * sizeof *held + 1);
    uint32_t *indices = malloc(most * sizeof *indices + 1);
    struct kvc_read_list kept;
    enum kvc_status status = held && indices
                                 ? check_keep(stage, &nothing, 1, error)
                                 : kvc_fail(error, KVC_RESOURCE, "policy: no memory for %zu positions", most);
    if (status == KVC_OK)
        status = kvc_expired_clear(stage, error);
    if (status == KVC_OK)
        status = kvc_evict_reserve(stage, &kept, error);
    for (uint32_t h = 0; h < stage->info.kv_heads && status == KVC_OK; h++) {
        size_t count = 0;
        status = kvc_stage_read_positions(stage, h, held, most, &count, error);
        if (status != KVC_OK)
            break;
        upload_kept(stage->session->runner->device, &kept, h, indices,
                    indices_at(held, count, positions[h], counts[h], indices));
    }
    free(held);
    free(indices);
    return status == KVC_OK ? evict_unkept(stage, &kept, error) : status;
}

enum kvc_status kvc_stage_keep_again(struct kvc_stage *stage, struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    const struct kvc_keep nothing = {.recent = INT64_MAX};
    const enum kvc_status status = check_keep(stage, &nothing, 1, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_read_list kept = {runner->stage.kept_count.buffer, runner->stage.kept_index.buffer,
                                       runner->stage.kept_stride};
    KVC_ASSERT(kept.count && kept.stride % KVC_TILE == 0);
    return evict_unkept(stage, &kept, error);
}

/* ---- eviction by a plan ---- */

enum kvc_status kvc_stage_plan(struct kvc_stage *stage, uint32_t head, const uint32_t *indices, uint32_t count,
                               struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_device *device = session->runner->device;
    struct kvc_planned_keep *planned = &session->evictions.planned[stage->layer];
    const size_t words = stage->info.kv_heads * sizeof(uint32_t);
    KVC_ASSERT(stage->layer < session->cache.layers);
    if (head >= stage->info.kv_heads || count > stage->info.entries)
        return kvc_fail(error, KVC_USAGE, "policy: a plan of %u indices for head %u: at most %llu of head 0 to %u",
                        count, head, (unsigned long long)stage->info.entries, stage->info.kv_heads - 1);
    for (uint32_t i = 0; i < count; i++)
        if (indices[i] >= stage->info.entries || (i > 0 && indices[i] <= indices[i - 1]))
            return kvc_fail(error, KVC_USAGE, "policy: planned indices must ascend, up to %llu",
                            (unsigned long long)stage->info.entries - 1);
    planned->index.kind = planned->count.kind = KVC_MEMORY_SCRATCH;
    planned->stride = (uint32_t)kvc_round_up(stage->info.entries, KVC_TILE);
    enum kvc_status status = kvc_growable_reserve(device, &planned->index, words * planned->stride, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &planned->count, words, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_read_list kept = {planned->count.buffer, planned->index.buffer, planned->stride};
    upload_kept(device, &kept, head, indices, count);
    return KVC_OK;
}

void kvc_evict_forget_plan(struct kvc_session *session, uint32_t layer) {
    kvc_growable_free(session->runner->device, &session->evictions.planned[layer].index);
    kvc_growable_free(session->runner->device, &session->evictions.planned[layer].count);
}

enum kvc_status kvc_stage_keep_planned(struct kvc_stage *stage, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    const struct kvc_planned_keep *planned = &session->evictions.planned[stage->layer];
    const struct kvc_keep nothing = {.recent = INT64_MAX};
    enum kvc_status status = check_keep(stage, &nothing, 1, error);
    if (status == KVC_OK && (!planned->index.buffer || stage->evicted))
        status = kvc_fail(error, KVC_USAGE, "policy: keep by a plan, but none was made for this");
    if (status != KVC_OK)
        return status;
    const struct kvc_read_list kept = {planned->count.buffer, planned->index.buffer, planned->stride};
    status = evict_unkept(stage, &kept, error);
    KVC_ASSERT(planned->stride >= stage->info.entries);
    if (session->in_prompt) /* the plan is as large as the prompt: free it now */
        kvc_evict_forget_plan(session, stage->layer);
    return status;
}

/* ---- views: the entries that a select method may choose from; nothing is evicted ---- */

enum kvc_status kvc_stage_view(struct kvc_stage *stage, const struct kvc_keep *rule, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_device *device = session->runner->device;
    struct kvc_select_layer *select = &session->select.layer[stage->layer];
    enum kvc_status status = check_keep(stage, rule, 1, error);
    kvc_select_drop_view(session, stage->layer);
    if (status == KVC_OK && !rule->scores)
        status = kvc_expired_clear(stage, error);
    if (status == KVC_OK) /* the view may hold all entries */
        status = kvc_select_reserve(session, stage->layer, error);
    if (status != KVC_OK)
        return status;
    apply_rules(stage, rule, 1, &select->view);
    device->ops->download(device, select->view_count, (struct kvc_span){select->view.count, 0},
                          stage->info.kv_heads * sizeof(uint32_t));
    return KVC_OK;
}

/* ---- blocks ---- */

enum kvc_status kvc_evict_shrink(struct kvc_session *session, uint32_t layers, bool in_step, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    for (uint32_t l = 0; l < layers && status == KVC_OK; l++) {
        if (session->evictions.touched[l])
            status = kvc_cache_shrink(&session->cache, l, kvc_policy_surplus(session->policy, l), in_step, error);
        session->evictions.touched[l] = false;
    }
    return status;
}
