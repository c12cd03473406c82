/* stage.c - what a policy's stage function may do: score entries and say which to keep, all on the backend. */
#include "core/session.h"

#include <stdlib.h>
#include <string.h>

const struct kvc_stage_info *kvc_stage_info(const struct kvc_stage *stage) { return &stage->info; }

static struct kvc_cache_layer *layer_of(const struct kvc_stage *stage) {
    return &stage->session->cache.layer[stage->layer];
}

/* Scores go by rank, and an eviction changes the ranks. */
static enum kvc_status check_before(const struct kvc_stage *stage, struct kvc_error *error) {
    if (stage->evicted)
        return kvc_fail(error, KVC_USAGE, "policy: scores are asked for after an eviction");
    return KVC_OK;
}

enum kvc_status kvc_stage_scores(struct kvc_stage *stage, struct kvc_scores **scores, struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    const unsigned n = stage->score_count;
    const enum kvc_status early = check_before(stage, error);
    if (early != KVC_OK)
        return early;
    if (n == sizeof stage->scores / sizeof *stage->scores)
        return kvc_fail(error, KVC_USAGE, "policy: a stage may hold at most %u score arrays", n);
    /* whole tiles, so that the buffer of a constant-size policy is made once */
    const uint64_t stride = (stage->info.entries + KVC_TILE - 1) / KVC_TILE * KVC_TILE;
    const enum kvc_status status = kvc_room_reserve(runner->device, &runner->scores[n],
                                                    (size_t)stride * stage->info.kv_heads * sizeof(float), error);
    if (status != KVC_OK)
        return status;
    stage->scores[n] = (struct kvc_scores){{runner->scores[n].buffer, 0}, (uint32_t)stride};
    *scores = &stage->scores[n];
    stage->score_count++;
    return KVC_OK;
}

/* The newest `count` of the queries a stage has. */
static struct kvc_weight_rows newest(const struct kvc_stage *stage, uint32_t count) {
    const struct kvc_geometry *g = &stage->session->runner->geometry;
    const struct kvc_network *network = stage->session->runner->network;
    const size_t skip = stage->queries - count, word = sizeof(float);
    struct kvc_weight_rows rows = {.lists = &layer_of(stage)->lists,
                                   .queries = count,
                                   .heads = g->heads,
                                   .kv_heads = g->kv_heads,
                                   .head_size = g->head_size,
                                   .window = network ? network->layer[stage->layer].window : 0,
                                   .q = stage->q,
                                   .maximum = stage->maximum,
                                   .sum = stage->sum,
                                   .positions = stage->positions,
                                   .later = stage->later};
    rows.q.offset += skip * g->heads * g->head_size * word;
    rows.maximum.offset += skip * g->heads * word;
    rows.sum.offset += skip * g->heads * word;
    rows.positions.offset += skip * word;
    rows.later.offset += skip * word;
    return rows;
}

enum kvc_status kvc_stage_window_mass(struct kvc_stage *stage, uint32_t window, struct kvc_scores *scores,
                                      struct kvc_error *error) {
    const enum kvc_status status = check_before(stage, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_weight_rows rows = newest(stage, window < stage->queries ? window : stage->queries);
    struct kvc_device *device = stage->session->runner->device;
    device->ops->window_mass(device, &rows, scores->span, scores->stride, false);
    return KVC_OK;
}

enum kvc_status kvc_stage_pool(struct kvc_stage *stage, struct kvc_scores *scores, uint64_t tail, uint32_t kernel,
                               enum kvc_pooling pooling, struct kvc_error *error) {
    struct kvc_device *device = stage->session->runner->device;
    const enum kvc_status early = check_before(stage, error);
    if (early != KVC_OK)
        return early;
    if (kernel % 2 == 0)
        return kvc_fail(error, KVC_USAGE, "policy: a pooling kernel of %u: must be odd", kernel);
    if (kernel == 1)
        return KVC_OK;
    struct kvc_scores *pooled;
    const enum kvc_status status = kvc_stage_scores(stage, &pooled, error);
    if (status != KVC_OK)
        return status;
    device->ops->pool(device, &layer_of(stage)->lists, 1, pooled->span, scores->span, scores->stride, tail, kernel,
                      pooling);
    /* the pooled scores take the place of the others; the spare array holds what was there */
    const struct kvc_span swap = scores->span;
    scores->span = pooled->span;
    pooled->span = swap;
    return KVC_OK;
}

enum kvc_status kvc_stage_ring_write(struct kvc_stage *stage, uint32_t first, uint32_t ring, uint32_t count,
                                     enum kvc_row_kind kind, struct kvc_error *error) {
    const enum kvc_status status = check_before(stage, error);
    if (status != KVC_OK)
        return status;
    if (ring == 0 || ring > layer_of(stage)->lists.columns)
        return kvc_fail(error, KVC_USAGE, "policy: a ring of %u rows; its class asked for %u state columns", ring,
                        layer_of(stage)->lists.columns);
    if (count > ring)
        count = ring;
    const struct kvc_weight_rows rows = newest(stage, count < stage->queries ? count : stage->queries);
    struct kvc_device *device = stage->session->runner->device;
    device->ops->ring_write(device, &rows, first, ring, kind);
    return KVC_OK;
}

enum kvc_status kvc_stage_ring_fuse(struct kvc_stage *stage, uint32_t first, uint32_t ring, uint32_t filled,
                                    enum kvc_row_kind kind, enum kvc_fusion fusion, int64_t recent,
                                    struct kvc_scores *scores, struct kvc_error *error) {
    const enum kvc_status status = check_before(stage, error);
    if (status != KVC_OK)
        return status;
    if (ring == 0 || ring > layer_of(stage)->lists.columns || filled > ring || filled > stage->info.now)
        return kvc_fail(error, KVC_USAGE, "policy: %u of a ring of %u rows; its class asked for %u state columns",
                        filled, ring, layer_of(stage)->lists.columns);
    struct kvc_device *device = stage->session->runner->device;
    device->ops->ring_fuse(device, &layer_of(stage)->lists, first, ring, filled, (int64_t)stage->info.now, kind, fusion,
                           recent, scores->span, scores->stride);
    return KVC_OK;
}

/* ---- to and from the host ---- */

static enum kvc_status check_head(const struct kvc_stage *stage, uint32_t kv_head, struct kvc_error *error) {
    if (kv_head < stage->info.kv_heads)
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "policy: KV head %u: must be below %u", kv_head, stage->info.kv_heads);
}

enum kvc_status kvc_stage_read_scores(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t kv_head,
                                      float *values, size_t room, size_t *count, struct kvc_error *error) {
    enum kvc_status status = check_head(stage, kv_head, error);
    if (status == KVC_OK)
        status = check_before(stage, error);
    if (status != KVC_OK)
        return status;
    struct kvc_device *device = stage->session->runner->device;
    *count = layer_of(stage)->count[kv_head];
    struct kvc_span from = scores->span;
    from.offset += (size_t)kv_head * scores->stride * sizeof(float);
    const size_t some = *count < room ? *count : room;
    if (some)
        device->ops->download(device, values, from, some * sizeof(float));
    return KVC_OK;
}

enum kvc_status kvc_stage_write_scores(struct kvc_stage *stage, struct kvc_scores *scores, uint32_t kv_head,
                                       const float *values, size_t count, struct kvc_error *error) {
    enum kvc_status status = check_head(stage, kv_head, error);
    if (status == KVC_OK)
        status = check_before(stage, error);
    if (status != KVC_OK)
        return status;
    if (count > layer_of(stage)->count[kv_head])
        return kvc_fail(error, KVC_USAGE, "policy: %zu scores for a head; it has %u entries", count,
                        layer_of(stage)->count[kv_head]);
    struct kvc_device *device = stage->session->runner->device;
    struct kvc_span to = scores->span;
    to.offset += (size_t)kv_head * scores->stride * sizeof(float);
    if (count)
        device->ops->upload(device, to, values, count * sizeof(float));
    return KVC_OK;
}

enum kvc_status kvc_stage_read_positions(struct kvc_stage *stage, uint32_t kv_head, int32_t *positions, size_t room,
                                         size_t *count, struct kvc_error *error) {
    const enum kvc_status status = check_head(stage, kv_head, error);
    if (status != KVC_OK)
        return status;
    return kvc_session_positions(stage->session, stage->layer, kv_head, positions, room, count, error);
}

/* ---- eviction ---- */

enum kvc_status kvc_stage_keep(struct kvc_stage *stage, const struct kvc_keep *rule, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_runner *runner = session->runner;
    struct kvc_device *device = runner->device;
    struct kvc_lists *lists = &layer_of(stage)->lists;
    const uint32_t heads = stage->info.kv_heads;
    if (stage->looks_only)
        return kvc_fail(error, KVC_USAGE, "policy: entries are to be kept by a method that only observes the prompt");
    if ((rule->top || rule->fill) && !rule->scores)
        return kvc_fail(error, KVC_USAGE, "policy: entries are to be kept by score, but there are no scores");
    if (rule->scores && stage->evicted)
        return kvc_fail(error, KVC_USAGE, "policy: entries are to be kept by scores from before an eviction");
    const uint32_t stride = (uint32_t)((stage->info.entries + KVC_TILE - 1) / KVC_TILE * KVC_TILE);
    enum kvc_status status =
        kvc_room_reserve(device, &runner->kept_rank, (size_t)stride * heads * sizeof(uint32_t), error);
    if (status == KVC_OK)
        status = kvc_room_reserve(device, &runner->kept_count, heads * sizeof(uint32_t), error);
    if (status == KVC_OK)
        status = kvc_cache_make_order(&session->cache, stage->layer, error);
    if (status != KVC_OK)
        return status;
    struct kvc_read_list kept = {runner->kept_count.buffer, runner->kept_rank.buffer, stride};
    device->ops->keep(device, lists, rule, 1, rule->scores ? rule->scores->span : (struct kvc_span){NULL, 0},
                      (struct kvc_span){NULL, 0}, rule->scores ? rule->scores->stride : 0, &kept);
    device->ops->evict(device, lists, &kept);
    kvc_cache_evicted(&session->cache, stage->layer);
    stage->evicted = true;
    stage->info.entries = kvc_cache_most(&session->cache, stage->layer);
    return KVC_OK;
}

/* ---- running the methods of a policy ---- */

typedef enum kvc_status stage_fn(struct kvc_stage *, const struct kvc_values *, struct kvc_error *);

static enum kvc_status run_method(const struct kvc_stage *standard, const struct kvc_method *method, stage_fn *run,
                                  bool looks_only, struct kvc_error *error) {
    struct kvc_stage stage = *standard;
    struct kvc_error cause = {KVC_OK, ""};
    stage.info.owns_prompt = method->stages & KVC_STAGE_PROMPT;
    stage.info.owns_decode = method->stages & KVC_STAGE_DECODE;
    stage.looks_only = looks_only;
    stage.info.entries = kvc_cache_most(&stage.session->cache, stage.layer);
    const enum kvc_status status = run(&stage, &method->values, &cause);
    if (status == KVC_OK)
        return KVC_OK;
    return kvc_fail(error, status, "policy %s, layer %u: %s", method->policy->name, stage.layer, cause.text);
}

enum kvc_status kvc_stage_run(struct kvc_session *session, uint32_t layer, bool prompt, uint32_t queries,
                              struct kvc_span q, struct kvc_span maximum, struct kvc_span sum,
                              struct kvc_span positions, struct kvc_span later, struct kvc_error *error) {
    const struct kvc_geometry *g = &session->runner->geometry;
    const struct kvc_policy *policy = session->policy;
    struct kvc_stage stage = {.info = {.layer = layer,
                                       .layers = g->layers,
                                       .heads = g->heads,
                                       .kv_heads = g->kv_heads,
                                       .head_size = g->head_size,
                                       .turn = session->turn,
                                       .held = session->held[layer],
                                       .now = session->tokens + (prompt ? session->turn : 1),
                                       .step = prompt ? 0 : session->step},
                              .session = session,
                              .layer = layer,
                              .queries = queries,
                              .q = q,
                              .maximum = maximum,
                              .sum = sum,
                              .positions = positions,
                              .later = later};
    enum kvc_status status = KVC_OK;
    /* lookers first: they must see the entries that the stage's holder will evict */
    for (size_t i = 0; prompt && i < policy->count && status == KVC_OK; i++) {
        const struct kvc_method *method = &policy->method[i];
        if (method->policy->observe_prompt && kvc_method_acts(method, layer))
            status = run_method(&stage, method, method->policy->observe_prompt, true, error);
    }
    const struct kvc_method *holder = kvc_policy_holder(policy, prompt ? KVC_STAGE_PROMPT : KVC_STAGE_DECODE);
    if (status == KVC_OK && holder && kvc_method_acts(holder, layer))
        status = run_method(&stage, holder, prompt ? holder->policy->prompt : holder->policy->decode, false, error);
    return status;
}
