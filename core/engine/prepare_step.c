/* prepare_step.c - begins and ends a session's decode step. Everything that may fail for lack of memory happens before
 * the step: room for one more entry in every layer, buffers of the select and decode stages if their size is known, and
 * a method's plan of what to keep. After the step, the counts are updated. */
#include "core/engine/prepare_step.h"

#include "core/base/assert.h"
#include "core/engine/expired.h"
#include "core/stage/stage_call.h"

#include <stdlib.h>

#define ARRAYS 2u /* the most arrays of scores that a decode stage or a merging of values uses */

/* Reserves buffers for the scores and kept indices of a decode stage. */
static enum kvc_status reserve_decode(struct kvc_stage *stage, struct kvc_error *error) {
    struct kvc_read_list kept;
    struct kvc_scores *scores;
    enum kvc_status status = kvc_evict_reserve(stage, &kept, error);
    for (unsigned i = 0; i < ARRAYS && status == KVC_OK; i++)
        status = kvc_stage_scores(stage, &scores, error);
    stage->score_count = 0;
    return status;
}

/* Returns true if, by the method's formulas, the step may be the first that evicts from the layer. */
static bool may_evict(const struct kvc_session *session, uint32_t layer, uint64_t entries) {
    struct kvc_method_layer at =
        kvc_policy_method_at(session->policy, KVC_STAGE_DECODE, layer, &session->runner->model, &session->cache.format);
    const uint64_t held = session->held[layer];
    if (session->evictions.planned[layer].nothing_goes)
        return false;
    const struct kvc_forecast *forecast = kvc_method_forecast(at.method);
    /* another method may have evicted, so the list may be shorter than this method's bound assumes */
    if (forecast->bound && (at.method->stages & KVC_STAGE_PROMPT) && entries <= forecast->bound(&at.values, held, 0))
        return false;
    at.context.from = entries > session->step ? (double)(entries - session->step) : 0;
    return kvc_policy_entries(&at, false, held, session->step) < (double)entries;
}

/* Prepares the device's workspace for the step's operations in a layer. `places` is the largest number of entries that
 * a head reads or chooses from. */
static enum kvc_status prepare_device(struct kvc_session *session, uint32_t layer, uint32_t places,
                                      struct kvc_error *error) {
    const struct kvc_geometry *g = &session->runner->geometry;
    const struct kvc_method *method = kvc_policy_owner(session->policy, KVC_STAGE_DECODE);
    const struct kvc_step_shape shape = {.lists = &session->cache.layer[layer].lists,
                                         .heads = g->heads,
                                         .head_size = g->head_size,
                                         .places = places,
                                         .rotates = kvc_policy_cache_positions(session->policy, layer) != NULL,
                                         .merges = kvc_policy_merges(session->policy, layer),
                                         .compares = method && method->policy->compares_keys};
    return session->runner->device->ops->prepare(session->runner->device, &shape, error);
}

/* Prepares the layer: buffers of its select and decode stages, a method's plan, and the device's workspace. */
static enum kvc_status prepare_layer(struct kvc_session *session, uint32_t layer, struct kvc_error *error) {
    const struct kvc_policy *policy = session->policy;
    struct kvc_stage defaults = kvc_stage_make(session, layer);
    enum kvc_status status = KVC_OK;
    defaults.coming = 1; /* the step's entry */
    uint32_t places = session->select.layer[layer].view.stride;
    for (size_t i = 0; i < policy->count && status == KVC_OK; i++) {
        const struct kvc_method *method = &policy->method[i];
        const struct kvc_policy_class *class = method->policy;
        const struct kvc_values values = kvc_method_values(method, layer);
        struct kvc_stage stage = kvc_stage_of_method(&defaults, i, true);
        if (!stage.use->acts[layer])
            continue;
        if ((method->stages & KVC_STAGE_SELECT) && !class->select) {
            const struct kvc_select select = class->sizes(&values, &stage.info);
            status = kvc_select_prepare(session, layer, &select, &places, error);
        }
        if (!(method->stages & KVC_STAGE_DECODE) || !class->decode)
            continue;
        if (status == KVC_OK)
            status = reserve_decode(&stage, error);
        stage.plans = true;
        stage.info.entries = kvc_stage_entries(&stage, class->plan != NULL);
        if (status == KVC_OK && !session->cache.layer[layer].lists.order &&
            may_evict(session, layer, stage.info.entries))
            status = kvc_cache_make_order(&session->cache, layer, error);
        if (status == KVC_OK && class->plan)
            status = class->plan(&stage, &values, error);
        if (status == KVC_OK && class->prepare)
            status = class->prepare(&stage, &values, error);
    }
    return status == KVC_OK ? prepare_device(session, layer, places, error) : status;
}

enum kvc_status kvc_step_begin(struct kvc_session *session, struct kvc_error *error) {
    if (session->failed)
        return kvc_fail(error, KVC_USAGE, "session: an earlier prompt or step failed; close it and open another");
    if (session->tokens == 0)
        return kvc_fail(error, KVC_USAGE, "session: a decode step before any prompt");
    if (session->tokens >= INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "session: at most %d tokens fit", INT32_MAX);
    for (uint32_t l = 0; l < session->cache.layers; l++) {
        if (!kvc_network_has(session->runner->network, l))
            continue;
        enum kvc_status status = kvc_expired_evict(session, l, session->tokens, error);
        if (status != KVC_OK)
            return status;
        status = kvc_cache_reserve(&session->cache, l, 1,
                                   kvc_policy_all_columns(session->policy, l, session->cache.format.head_size), error);
        if (status == KVC_OK && session->select.layer[l].view.index)
            status = kvc_select_reserve(session, l, error);
        if (status != KVC_OK)
            return status;
    }
    KVC_ASSERT(!session->in_prompt && !kvc_cache_is_stale(&session->cache) && !kvc_select_is_stale(session));
    session->step++;
    enum kvc_status status = kvc_cache_positions_reserve(session, 1, error);
    for (uint32_t l = 0; l < session->cache.layers && status == KVC_OK; l++)
        if (kvc_network_has(session->runner->network, l))
            status = prepare_layer(session, l, error);
    session->step -= status != KVC_OK;
    return status;
}

void kvc_step_cancel(struct kvc_session *session) { session->step--; }

void kvc_step_end(struct kvc_session *session) {
    KVC_ASSERT(session->tokens < INT32_MAX && session->step > 0);
    session->tokens++;
    session->sums.steps++;
}

/* ---- counts ---- */

/* Number of words of a session in runner->counts: the count of each list, then the count of each list's view. */
static size_t count_words(const struct kvc_session *session) { return 2 * (size_t)kvc_cache_lists(&session->cache); }

enum kvc_status kvc_step_reserve_counts(struct kvc_runner *runner, struct kvc_session *const *sessions, size_t count,
                                        struct kvc_error *error) {
    size_t all = 0;
    for (size_t i = 0; i < count; i++)
        all += count_words(sessions[i]);
    if (all > runner->count_capacity) {
        free(runner->host_counts);
        runner->host_counts = malloc(all * sizeof *runner->host_counts);
        runner->count_capacity = runner->host_counts ? all : 0;
        if (!runner->host_counts)
            return kvc_fail(error, KVC_RESOURCE, "decode: no memory for the counts of %zu lists", all);
    }
    const enum kvc_status status =
        kvc_growable_reserve(runner->device, &runner->counts, all * sizeof *runner->host_counts, error);
    all = 0;
    for (size_t i = 0; i < count && status == KVC_OK; i++) {
        sessions[i]->evictions.counts = kvc_growable_at(&runner->counts, all * sizeof *runner->host_counts);
        all += count_words(sessions[i]);
    }
    return status;
}

/* Frees blocks that a step's evictions have emptied. */
static void shrink(struct kvc_session *session) {
    struct kvc_device *device = session->runner->device;
    const uint64_t before = session->cache.cache_bytes;
    const enum kvc_status status = kvc_evict_shrink(session, session->cache.layers, true, &session->failure);
    if (session->cache.cache_bytes < before)
        device->ops->arena_trim(device, session->cache.store->arena);
    session->failed = status != KVC_OK;
}

void kvc_step_take_counts(struct kvc_runner *runner, struct kvc_session *const *sessions, size_t count) {
    size_t all = 0;
    bool stale = false;
    for (size_t i = 0; i < count; i++) {
        all += count_words(sessions[i]);
        stale = stale || kvc_cache_is_stale(&sessions[i]->cache) || kvc_select_is_stale(sessions[i]);
    }
    if (stale)
        runner->device->ops->download(runner->device, runner->host_counts, kvc_growable_at(&runner->counts, 0),
                                      all * sizeof *runner->host_counts);
    for (size_t i = 0; i < count; i++) {
        struct kvc_session *session = sessions[i];
        const uint32_t *counts = runner->host_counts + session->evictions.counts.offset / sizeof *counts;
        KVC_ASSERT(session->evictions.counts.offset / sizeof *counts + count_words(session) <= runner->count_capacity);
        kvc_cache_take_counts(&session->cache, counts);
        kvc_select_take_counts(session, counts + kvc_cache_lists(&session->cache));
        if (!session->failed)
            shrink(session);
    }
}
