/* stage_call.c - creates stages and calls a policy's methods in them: every observer, or the method that holds the
 * stage. */
#include "core/stage/stage_call.h"

#include "core/base/assert.h"
#include "core/engine/coordinator.h"
#include "core/engine/expired.h"
#include "core/engine/trace.h"

#include <string.h>

typedef enum kvc_status stage_fn(struct kvc_stage *, const struct kvc_values *, struct kvc_error *);

/* Computes the index of this rank's first list of a layer among the lists of all ranks. */
static void number_lists(const struct kvc_session *session, struct kvc_stage_info *info) {
    const struct kvc_network *network = session->runner->network;
    const uint32_t group = info->heads / session->runner->geometry.kv_heads;
    const uint32_t each = info->kv_heads / session->runner->geometry.kv_heads; /* lists per KV head */
    KVC_ASSERT(group * session->runner->geometry.kv_heads == info->heads && (each == 1 || each == group));
    info->model_lists = info->kv_heads;
    info->model_heads = info->heads;
    if (network && network->part.ranks) {
        info->model_lists = network->part.kv_heads * each;
        info->model_heads = network->part.heads;
        info->first_list = network->part.first_kv_head * each;
        info->first_head = network->part.first_kv_head * group;
    }
    KVC_ASSERT(info->first_list + info->kv_heads <= info->model_lists &&
               info->first_head + info->heads <= info->model_heads);
}

struct kvc_stage kvc_stage_make(struct kvc_session *session, uint32_t layer) {
    const struct kvc_geometry *g = &session->runner->geometry;
    const struct kvc_prompt *prompt = &session->prompt;
    KVC_ASSERT(layer < g->layers && g->layers == session->cache.layers);
    uint64_t in = 1; /* tokens that have arrived since session->tokens */
    if (session->in_prompt)
        in = prompt->chunking.chunk && !prompt->last_chunk ? (uint64_t)prompt->chunk_from + prompt->chunk_rows
                                                           : session->turn;
    struct kvc_stage stage = {.info = {.layer = layer,
                                       .layers = g->layers,
                                       .heads = g->heads,
                                       .kv_heads = session->cache.layer[layer].lists.kv_heads,
                                       .head_size = g->head_size,
                                       .turn = kvc_session_rows(session),
                                       .turn_tokens = session->turn,
                                       .held = session->held[layer],
                                       .after = session->in_prompt ? 0 : session->after[layer],
                                       .now = session->tokens + in,
                                       .step = session->in_prompt ? 0 : session->step,
                                       .expected = session->expected,
                                       .seed = session->seed,
                                       .last_chunk = prompt->last_chunk},
                              .session = session,
                              .layer = layer};
    number_lists(session, &stage.info);
    kvc_trace_list(session->engine->trace, session, layer);
    return stage;
}

uint64_t kvc_stage_entries(const struct kvc_stage *stage, bool plans) {
    const uint64_t held = kvc_stage_capacity(stage);
    if ((stage->observes && !stage->plans) || stage->decides)
        return held;
    if (!plans || stage->session->in_prompt)
        return kvc_expired_left(stage->session, stage->layer, held);
    const uint32_t window = kvc_runner_window(stage->session->runner, stage->layer);
    return window ? kvc_min_u64(held, window) : held;
}

struct kvc_stage kvc_stage_of_method(const struct kvc_stage *defaults, size_t i, bool observes) {
    const struct kvc_method *method = &defaults->session->policy->method[i];
    struct kvc_stage stage = *defaults;
    stage.use = &stage.session->use[i];
    stage.user = method->policy->user;
    stage.info.acting = stage.use->context[stage.layer];
    stage.info.actings = stage.use->count;
    KVC_ASSERT(stage.info.acting < stage.info.actings || !stage.use->acts[stage.layer]);
    stage.info.owns_prompt = method->stages & KVC_STAGE_PROMPT;
    stage.info.owns_decode = method->stages & KVC_STAGE_DECODE;
    stage.observes = observes;
    stage.info.entries = kvc_stage_entries(&stage, method->policy->plan != NULL);
    if (stage.session->in_prompt && !observes) /* all ranks must use the same number */
        stage.session->runner->coordinator->most_of_heads(stage.session, &stage.info.entries, 1);
    return stage;
}

static enum kvc_status run_method(struct kvc_stage *defaults, size_t i, stage_fn *run, bool observes,
                                  struct kvc_error *error) {
    const struct kvc_method *method = &defaults->session->policy->method[i];
    struct kvc_stage stage = kvc_stage_of_method(defaults, i, observes);
    KVC_ASSERT(i < defaults->session->policy->count && defaults->session->use[i].acts[defaults->layer]);
    struct kvc_error cause = {KVC_OK, ""};
    const struct kvc_values values = kvc_method_values(method, defaults->layer);
    const enum kvc_status status = run(&stage, &values, &cause);
    defaults->chosen = stage.chosen;
    defaults->mean_value = stage.mean_value;
    if (status == KVC_OK)
        return KVC_OK;
    return kvc_fail(error, status, "policy %s, layer %u: %s", method->policy->name, defaults->layer, cause.text);
}

/* Calls one function of every method whose class provides it. */
static enum kvc_status run_observers(struct kvc_stage *stage, size_t member, struct kvc_error *error) {
    const struct kvc_policy *policy = stage->session->policy;
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; i < policy->count && status == KVC_OK; i++) {
        stage_fn *run;
        memcpy(&run, (const char *)policy->method[i].policy + member, sizeof run);
        if (run && stage->session->use[i].acts[stage->layer])
            status = run_method(stage, i, run, true, error);
    }
    return status;
}

/* Calls the function of the method that holds the stage. */
static enum kvc_status run_owner(struct kvc_stage *stage, enum kvc_stage_kind kind, size_t member, bool observes,
                                 struct kvc_error *error) {
    const struct kvc_policy *policy = stage->session->policy;
    for (size_t i = 0; i < policy->count; i++) {
        if (!(policy->method[i].stages & (unsigned)kind))
            continue;
        stage_fn *run;
        memcpy(&run, (const char *)policy->method[i].policy + member, sizeof run);
        KVC_ASSERT(run);
        return stage->session->use[i].acts[stage->layer] ? run_method(stage, i, run, observes, error) : KVC_OK;
    }
    return KVC_OK;
}

#define MEMBER(name) offsetof(struct kvc_policy_class, name)

enum kvc_status kvc_stage_call_attended(struct kvc_stage *stage, struct kvc_error *error) {
    return run_observers(stage, MEMBER(attended), error);
}

bool kvc_stage_decides(const struct kvc_session *session, uint32_t layer) {
    const uint32_t window = kvc_runner_window(session->runner, layer);
    for (uint32_t l = 0; l < layer && window; l++) {
        const uint32_t other = kvc_runner_window(session->runner, l);
        if ((!other || other > window) &&
            kvc_policy_decider(session->policy, l, &session->runner->model, &session->cache.format) == layer)
            return true;
    }
    return false;
}

enum kvc_status kvc_stage_call_chunk(struct kvc_stage *stage, struct kvc_error *error) {
    stage->decides = kvc_stage_decides(stage->session, stage->layer);
    return run_owner(stage, KVC_STAGE_CHUNK, MEMBER(chunk), false, error);
}

enum kvc_status kvc_stage_call_prompt(struct kvc_stage *stage, struct kvc_error *error) {
    /* observers and the propagate stage run first: they need the entries that the prompt stage will evict */
    enum kvc_status status = run_observers(stage, MEMBER(observe_prompt), error);
    if (status == KVC_OK)
        status = run_owner(stage, KVC_STAGE_PROPAGATE, MEMBER(propagate), true, error);
    /* after a method has evicted, results need not be bit-identical to those of a complete list */
    if (status == KVC_OK && stage->session->evictions.thinned[stage->layer])
        status = kvc_expired_clear(stage, error);
    if (status == KVC_OK)
        status = run_owner(stage, KVC_STAGE_PROMPT, MEMBER(prompt), false, error);
    struct kvc_stage after = *stage;
    after.ends = after.evicted = true; /* the queries no longer match the lists */
    return status == KVC_OK ? run_observers(&after, MEMBER(prompt_end), error) : status;
}

enum kvc_status kvc_stage_call_prompt_again(struct kvc_stage *stage, struct kvc_error *error) {
    return run_owner(stage, KVC_STAGE_PROMPT, MEMBER(prompt), false, error);
}

static enum kvc_status select_by_sizes(struct kvc_stage *stage, const struct kvc_values *values,
                                       struct kvc_error *error) {
    const struct kvc_select select = values->policy->sizes(values, &stage->info);
    return kvc_stage_select(stage, &select, error);
}

enum kvc_status kvc_stage_call_select(struct kvc_stage *stage, struct kvc_error *error) {
    const struct kvc_policy *policy = stage->session->policy;
    for (size_t i = 0; i < policy->count; i++) {
        const struct kvc_policy_class *class = policy->method[i].policy;
        if ((policy->method[i].stages & KVC_STAGE_SELECT) && stage->session->use[i].acts[stage->layer])
            return run_method(stage, i, class->select ? class->select : select_by_sizes, true, error);
    }
    return KVC_OK;
}

enum kvc_status kvc_stage_call_decode(struct kvc_stage *stage, struct kvc_error *error) {
    const enum kvc_status status = run_observers(stage, MEMBER(observe_step), error);
    return status == KVC_OK ? run_owner(stage, KVC_STAGE_DECODE, MEMBER(decode), false, error) : status;
}

enum kvc_status kvc_stage_call_evicts(const struct kvc_stage *stage, const struct kvc_read_list *kept,
                                      struct kvc_error *error) {
    struct kvc_stage before = *stage;
    before.kept = kept;
    before.queries = 0;     /* after an earlier eviction in this stage, queries no longer match the lists */
    before.score_count = 0; /* the evicting method no longer needs its scores */
    before.evicted = false;
    return run_observers(&before, MEMBER(evicts), error);
}

/* ---- layers ---- */

bool kvc_stage_acts(const struct kvc_stage *stage, uint32_t layer) {
    return layer < stage->info.layers && stage->use->acts[layer];
}

enum kvc_status kvc_stage_layer(struct kvc_stage *stage, uint32_t layer, struct kvc_error *error) {
    if (layer > stage->info.layer)
        return kvc_fail(error, KVC_USAGE, "policy: layer %u was requested in layer %u: must not be higher", layer,
                        stage->info.layer);
    kvc_cache_catch_up(&stage->session->cache, layer);
    stage->layer = layer;
    stage->info.kv_heads = kvc_stage_lists(stage)->lists.kv_heads;
    stage->cleared = false;
    stage->info.entries = kvc_stage_entries(stage, false);
    stage->info.held = stage->session->held[layer];
    stage->info.acting = stage->use ? stage->use->context[layer] : layer;
    stage->queries = 0;
    stage->score_count = 0;
    stage->evicted = false;
    KVC_ASSERT(stage->info.entries <= kvc_stage_capacity(stage));
    return KVC_OK;
}
