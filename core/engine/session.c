/* session.c - opens and closes sessions, and reports their statistics. */
#include "core/engine/session.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/engine/centre.h"
#include "core/engine/coordinator.h"
#include "core/engine/pipeline.h"
#include "core/engine/predictor.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_CHUNK 512u
#define SHARED_CHUNK 256u /* default `chunk` if layers are sharded (measured in docs/measured/ranks.md) */

void kvc_session_defaults(struct kvc_session_options *options) {
    memset(options, 0, sizeof *options);
    options->cache_type = kvc_entry_types(KVC_F16);
}

/* Sets the memory kind of every buffer that a session creates on demand. */
static void set_kinds(struct kvc_session *session) {
    struct kvc_queries *queries[] = {&session->prompt.window, &session->prompt.pseudo, &session->prompt.probing};
    struct kvc_growable *buffers[] = {&session->select.read_index,
                                      &session->select.read_count,
                                      &session->select.scores,
                                      &session->select.probabilities,
                                      &session->select.alpha,
                                      &session->select.rest,
                                      &session->prompt.probe,
                                      &session->prompt.probe_now,
                                      &session->prompt.moments,
                                      &session->prompt.angles,
                                      &session->cache_positions.cosine,
                                      &session->cache_positions.sine,
                                      &session->series,
                                      &session->filters};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        queries[i]->q.kind = queries[i]->maximum.kind = queries[i]->sum.kind = KVC_MEMORY_SCRATCH;
        queries[i]->positions.kind = queries[i]->causal_offset.kind = KVC_MEMORY_SCRATCH;
    }
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        buffers[i]->kind = KVC_MEMORY_SCRATCH;
}

/* Opens the cache and allocates the session's arrays with an element per layer. */
static enum kvc_status open_layers(struct kvc_session *session, struct kvc_extra_slots *store,
                                   const struct kvc_entry_format *format, uint64_t limit, struct kvc_error *error) {
    const struct kvc_geometry *g = &session->runner->geometry;
    uint32_t *heads = malloc(g->layers * sizeof *heads);
    session->held = calloc(g->layers, sizeof *session->held);
    session->after = calloc(g->layers, sizeof *session->after);
    session->evictions.touched = calloc(g->layers, sizeof *session->evictions.touched);
    session->evictions.thinned = calloc(g->layers, sizeof *session->evictions.thinned);
    session->select.layer = calloc(g->layers, sizeof *session->select.layer);
    session->evictions.planned = calloc(g->layers, sizeof *session->evictions.planned);
    if (session->record.reads)
        session->record.recorded = calloc((size_t)g->layers * g->heads, sizeof *session->record.recorded);
    enum kvc_status status = KVC_OK;
    if (!heads || !session->held || !session->after || !session->evictions.touched || !session->evictions.thinned ||
        !session->select.layer || !session->evictions.planned || (session->record.reads && !session->record.recorded))
        status = kvc_fail(error, KVC_RESOURCE, "session: no memory for %u layers", g->layers);
    for (uint32_t l = 0; l < g->layers && status == KVC_OK; l++) {
        const struct kvc_geometry *model = &session->runner->model;
        heads[l] = kvc_policy_heads(session->policy, l, g);
        session->evictions.planned[l].nothing_goes =
            kvc_policy_whole(session->policy, l, model, format) == kvc_policy_heads(session->policy, l, model);
        if (heads[l] != g->kv_heads)
            session->runner->per_head = true;
    }
    if (status == KVC_OK)
        status =
            kvc_cache_open(session->runner->device, store, format, g->layers, heads, limit, &session->cache, error);
    free(heads);
    return status;
}

/* Creates the recurrent state, which counts as cache memory and has a constant size. */
static enum kvc_status open_recurrent(struct kvc_session *session, struct kvc_error *error) {
    const struct kvc_network *network = session->runner->network;
    const uint64_t bytes = network ? kvc_network_state_bytes(network) : 0;
    return bytes ? kvc_cache_state_create(&session->cache, (size_t)bytes, &session->recurrent, error) : KVC_OK;
}

struct kvc_span kvc_session_recurrent(const struct kvc_session *session, uint32_t delta) {
    const uint64_t floats = kvc_delta_state_of(&session->runner->network->delta).floats;
    const uint32_t first = session->runner->network->part.first_delta;
    KVC_ASSERT(session->recurrent && delta >= first);
    return (struct kvc_span){session->recurrent, (size_t)((delta - first) * floats * sizeof(float))};
}

/* Logs which method holds which stage, and how the entries are stored. */
static void log_session(const struct kvc_session *session) {
    static const enum kvc_stage_kind stages[] = {KVC_STAGE_CHUNK, KVC_STAGE_PROMPT, KVC_STAGE_PROPAGATE,
                                                 KVC_STAGE_SELECT, KVC_STAGE_DECODE};
    const struct kvc_log *log = &session->engine->log;
    const struct kvc_entry_format *format = &session->cache.format;
    char types[KVC_ENTRY_TYPES_NAME];
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const struct kvc_method *owner = kvc_policy_owner(session->policy, stages[i]);
        if (owner)
            KVC_LOG(log, KVC_LOG_INFO, KVC_LOG_POLICY, "%s: %s holds the stage %s", session->policy->spec,
                    owner->policy->name, kvc_stage_name(stages[i]));
    }
    KVC_LOG(
        log, KVC_LOG_INFO, KVC_LOG_CACHE,
        "session with %s: %s entries of %u bytes, %u lists in %u layers, blocks of %u entries; up to %u rows at once",
        session->policy->spec, kvc_entry_types_name(kvc_format_types(format), types), kvc_entry_bytes(format),
        kvc_cache_lists(&session->cache), session->cache.layers, KVC_TILE, session->chunk);
}

static enum kvc_status create(struct kvc_runner *runner, const struct kvc_session_options *options,
                              struct kvc_session **session, struct kvc_error *error) {
    struct kvc_session_options defaults;
    if (!options) {
        kvc_session_defaults(&defaults);
        options = &defaults;
    }
    const struct kvc_geometry *g = &runner->geometry;
    if (!kvc_entry_types_valid(options->cache_type))
        return kvc_fail(error, KVC_USAGE, "session: " KVC_ENTRY_TYPES_WANTED);
    struct kvc_session *made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "session: no memory");
    made->engine = runner->engine;
    made->number = runner->engine->sessions++;
    made->runner = runner;
    made->chunk = options->chunk                                   ? options->chunk
                  : runner->network && runner->network->part.ranks ? SHARED_CHUNK
                                                                   : DEFAULT_CHUNK;
    made->context = options->context;
    made->seed = options->seed;
    made->expected = options->expected;
    made->record.reads = options->record_reads;
    set_kinds(made);
    const struct kvc_entry_format format = kvc_entry_format(options->cache_type, g->head_size);
    struct kvc_extra_slots *store;
    enum kvc_status status = kvc_policy_parse(runner->engine, options->policy, &made->policy, error);
    if (status == KVC_OK)
        status = kvc_policy_check_types(made->policy, options->cache_type, error);
    if (status == KVC_OK)
        status = kvc_policy_open(made->policy, &runner->model, &made->use, error);
    if (status == KVC_OK)
        status = kvc_cache_positions_check(made->policy, runner->network, g->layers, error);
    if (status == KVC_OK)
        status = kvc_predictors_open(made, error);
    if (status == KVC_OK)
        status = kvc_runner_store(runner, &format, &store, error);
    if (status == KVC_OK) {
        made->cache.format = format;
        status = kvc_pipeline_check(made, error);
    }
    if (status == KVC_OK)
        status = open_layers(made, store, &format, options->memory_limit, error);
    if (status == KVC_OK)
        status = open_recurrent(made, error);
    if (status == KVC_OK)
        status = kvc_centre_open(made, error);
    if (status != KVC_OK) {
        kvc_session_free(made);
        return status;
    }
    log_session(made);
    *session = made;
    return KVC_OK;
}

enum kvc_status kvc_session_create(struct kvc_engine *engine, const struct kvc_network *network,
                                   struct kvc_runner **runner, const struct kvc_session_options *options,
                                   struct kvc_session **session, struct kvc_error *error) {
    *session = NULL;
    if (!*runner) {
        const struct kvc_geometry geometry = {network->layers, network->heads, network->kv_heads, network->head_size};
        const enum kvc_status status = kvc_runner_open(engine, network, &geometry, runner, error);
        if (status != KVC_OK)
            return status;
    }
    if ((*runner)->linear.int16) { /* the first session packs the weights, so that opening a model does not read them */
        const enum kvc_status status = kvc_linear_pack(engine->device, network, error);
        if (status != KVC_OK)
            return status;
    }
    return create(*runner, options, session, error);
}

enum kvc_status kvc_session_create_bare(struct kvc_runner *runner, const struct kvc_session_options *options,
                                        struct kvc_session **session, struct kvc_error *error) {
    *session = NULL;
    return create(runner, options, session, error);
}

void kvc_session_close(struct kvc_session *session) {
    if (!session)
        return;
    const struct kvc_runner *runner = session->runner;
    runner->coordinator->begin(session, KVC_CALL_SESSION_CLOSE);
    kvc_session_free(session);
    (void)runner->coordinator->end(runner, KVC_OK, NULL);
}

void kvc_session_free(struct kvc_session *session) {
    struct kvc_device *device = session->runner->device;
    struct kvc_growable *buffers[] = {&session->prompt.probe,
                                      &session->prompt.probe_now,
                                      &session->prompt.moments,
                                      &session->prompt.angles,
                                      &session->cache_positions.cosine,
                                      &session->cache_positions.sine,
                                      &session->series,
                                      &session->filters};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        kvc_growable_free(device, buffers[i]);
    kvc_prompt_free_queries(device, &session->prompt.window);
    kvc_prompt_free_queries(device, &session->prompt.pseudo);
    kvc_prompt_free_queries(device, &session->prompt.probing);
    if (session->cache.device) {
        (void)device->ops->sync(device, NULL); /* adds the device's counts to the session */
        kvc_select_close(session);
        for (uint32_t l = 0; session->evictions.planned && l < session->cache.layers; l++)
            kvc_evict_forget_plan(session, l);
        if (session->recurrent)
            kvc_cache_state_free(&session->cache, (size_t)kvc_network_state_bytes(session->runner->network),
                                 session->recurrent);
        kvc_centre_close(session);
        kvc_cache_close(&session->cache);
    }
    kvc_predictors_close(session);
    if (session->policy)
        kvc_policy_close(session->policy, session->use);
    kvc_policy_free(session->policy);
    kvc_record_close(session);
    kvc_packet_free(&session->kept);
    free(session->prompt.window_positions);
    free(session->prompt.pseudo_tokens);
    free(session->prompt.draft);
    free(session->prompt.moment_rows);
    free(session->prompt.kept_rows);
    free(session->prompt.next_kept_rows);
    free(session->held);
    free(session->after);
    free(session->evictions.touched);
    free(session->evictions.thinned);
    free(session->select.layer);
    free(session->evictions.planned);
    free(session);
}

/* ---- statistics ---- */

static void local_stats(const struct kvc_session *session, struct kvc_session_stats *stats) {
    const struct kvc_cache *cache = &session->cache;
    memset(stats, 0, sizeof *stats);
    stats->tokens = session->tokens;
    for (uint32_t l = 0; l < cache->layers; l++) {
        const uint64_t expired = kvc_window_expired(kvc_runner_window(session->runner, l), session->tokens);
        if (kvc_network_has(session->runner->network, l))
            stats->full_bytes +=
                kvc_cache_head_bytes(&cache->format, session->tokens - expired) * session->runner->geometry.kv_heads;
        for (uint32_t h = 0; h < cache->layer[l].lists.kv_heads; h++) {
            const uint64_t entries = cache->layer[l].count[h];
            stats->entries += entries;
            if (entries > stats->entries_most)
                stats->entries_most = entries;
        }
    }
    stats->entry_bytes = kvc_entry_bytes(&cache->format);
    KVC_ASSERT(stats->entries_most <= stats->entries);
    stats->cache_bytes = cache->cache_bytes;
    stats->state_bytes = cache->state_bytes;
    stats->peak_bytes = kvc_max_u64(cache->peak_bytes, session->sums.peak_before);
    stats->prompt_peak_bytes = session->sums.prompt_peak;
    stats->read_bytes = session->sums.read_bytes + session->sums.select_bytes;
    stats->select_bytes = session->sums.select_bytes;
    stats->decode_steps = session->sums.steps;
    stats->saturated = session->sums.saturated;
    stats->prompt_sessions = session->sums.together;
    stats->spared_rows = session->sums.spared;
    for (uint32_t l = 0; l < cache->layers; l++)
        stats->mean_rows = kvc_max_u32(stats->mean_rows, cache->layer[l].mean_rows);
    const struct kvc_network *network = session->runner->network;
    stats->outgrown = network && network->rope[0].long_frequency && !session->long_rope &&
                      session->tokens > network->rope[0].original_context;
}

void kvc_session_stats(const struct kvc_session *session, struct kvc_session_stats *stats) {
    const struct kvc_coordinator *coordinator = session->runner->coordinator;
    coordinator->begin(session, KVC_CALL_STATS);
    local_stats(session, stats);
    coordinator->add_stats(session, stats);
    (void)coordinator->end(session->runner, KVC_OK, NULL);
}

enum kvc_status kvc_session_positions(const struct kvc_session *session, uint32_t layer, uint32_t kv_head,
                                      int32_t *positions, size_t capacity, size_t *count, struct kvc_error *error) {
    const struct kvc_cache *cache = &session->cache;
    if (layer >= cache->layers || kv_head >= kvc_session_heads(session, layer))
        return kvc_fail(error, KVC_USAGE, "positions: layer %u, head %u; the model has layers 0 to %u, heads 0 to %u",
                        layer, kv_head, cache->layers - 1,
                        kvc_session_heads(session, layer < cache->layers ? layer : 0) - 1);
    const struct kvc_coordinator *coordinator = session->runner->coordinator;
    uint32_t here;
    coordinator->begin_list(session, KVC_CALL_POSITIONS, layer, kv_head, capacity);
    enum kvc_status status = KVC_OK;
    if (coordinator->has_list(session, layer, kv_head, &here))
        status = kvc_cache_read_positions(cache, layer, here, positions, capacity, count, error);
    coordinator->share_positions(session, layer, kv_head, positions, capacity, count);
    return coordinator->end(session->runner, status, error);
}

const char *kvc_session_policy(const struct kvc_session *session) { return session->policy->spec; }

struct kvc_entry_types kvc_session_cache_type(const struct kvc_session *session) {
    return kvc_format_types(&session->cache.format);
}
