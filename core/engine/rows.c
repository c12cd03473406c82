/* rows.c - the current prompt: its rows pass by pass, whole or in chunks; the rows that methods add (pseudo rows,
 * probes); and buffers for the queries that methods will read. */
#include "core/engine/rows.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/engine/coordinator.h"

#include <stdlib.h>

static struct kvc_device *device_of(const struct kvc_session *session) { return session->runner->device; }

static const struct kvc_method *pseudo_method(const struct kvc_session *session) {
    for (size_t i = 0; i < session->policy->count; i++) {
        const struct kvc_method *method = &session->policy->method[i];
        if (method->policy->pseudo && (method->stages & KVC_STAGE_PROMPT))
            return method;
    }
    return NULL;
}

/* Returns the number of sets of queries: one, or one for each layer if the prompt is cut into chunks. */
static uint32_t sets(const struct kvc_session *session) {
    return session->prompt.chunking.chunk ? session->cache.layers : 1;
}

static enum kvc_status reserve_queries(struct kvc_session *session, struct kvc_queries *queries, uint32_t rows,
                                       uint32_t copies, struct kvc_error *error) {
    const struct kvc_geometry *g = &session->runner->geometry;
    const size_t words = (size_t)rows * sizeof(float);
    struct kvc_device *device = device_of(session);
    enum kvc_status status = kvc_growable_reserve(device, &queries->q, words * g->heads * g->head_size * copies, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &queries->maximum, words * g->heads * copies, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &queries->sum, words * g->heads * copies, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &queries->positions, words * copies, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &queries->causal_offset, words, error);
    queries->rows = rows;
    return status;
}

void kvc_prompt_free_queries(struct kvc_device *device, struct kvc_queries *queries) {
    struct kvc_growable *buffers[] = {&queries->q, &queries->maximum, &queries->sum, &queries->positions,
                                      &queries->causal_offset};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        kvc_growable_free(device, buffers[i]);
}

/* Returns the position of row i of the kept rows. */
static int32_t position_of(const struct kvc_session *session, uint32_t i) {
    return (int32_t)(session->tokens + kvc_session_row(session, i));
}

enum kvc_status kvc_prompt_set_window(struct kvc_session *session, uint32_t rows, struct kvc_error *error) {
    struct kvc_queries *window = &session->prompt.window;
    const uint32_t wanted = kvc_policy_queries(session->policy), count = kvc_min_u32(wanted, rows);
    window->rows = count;
    KVC_ASSERT(count <= rows);
    if (count == 0)
        return KVC_OK;
    enum kvc_status status = reserve_queries(session, window, count, sets(session), error);
    int32_t *positions = realloc(session->prompt.window_positions, count * sizeof *positions);
    uint32_t *causal_offset = malloc(count * sizeof *causal_offset);
    if (positions)
        session->prompt.window_positions = positions;
    if (status == KVC_OK && (!positions || !causal_offset))
        status = kvc_fail(error, KVC_RESOURCE, "session: no memory for a window of %u queries", count);
    for (uint32_t i = 0; i < count && status == KVC_OK; i++) {
        positions[i] = position_of(session, rows - count + i);
        causal_offset[i] = count - 1 - i;
    }
    if (status == KVC_OK)
        device_of(session)->ops->upload(device_of(session), kvc_growable_at(&window->causal_offset, 0), causal_offset,
                                        count * sizeof *causal_offset);
    free(causal_offset);
    return status;
}

/* Reserves buffers for every layer's probe queries. */
static enum kvc_status reserve_probe(struct kvc_session *session, struct kvc_error *error) {
    const struct kvc_geometry *g = &session->runner->geometry;
    struct kvc_device *device = device_of(session);
    const uint32_t probes = session->prompt.probes;
    const size_t bytes = (size_t)g->layers * probes * g->heads * g->head_size * sizeof(float);
    enum kvc_status status = kvc_growable_reserve(device, &session->prompt.probe, bytes, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &session->prompt.probe_now, bytes, error);
    if (status == KVC_OK)
        status = reserve_queries(session, &session->prompt.probing, probes, 1, error);
    if (status == KVC_OK) { /* a probe sees every entry, whatever its position */
        device->ops->zero(device, kvc_growable_at(&session->prompt.probing.causal_offset, 0),
                          probes * sizeof(uint32_t));
        device->ops->zero(device, kvc_growable_at(&session->prompt.probing.positions, 0), probes * sizeof(int32_t));
    }
    return status;
}

enum kvc_status kvc_prompt_begin(struct kvc_session *session, uint64_t rows, struct kvc_error *error) {
    if (session->failed)
        return kvc_fail(error, KVC_USAGE, "session: an earlier prompt or step failed; close it and open another");
    if (rows == 0)
        return kvc_fail(error, KVC_USAGE, "session: a prompt of 0 tokens; it needs at least 1");
    if (rows > INT32_MAX - session->tokens)
        return kvc_fail(error, KVC_USAGE, "session: %llu tokens after %llu; at most %d fit", (unsigned long long)rows,
                        (unsigned long long)session->tokens, INT32_MAX);
    session->prompt.chunking = (struct kvc_chunking){.chunk = 0};
    KVC_ASSERT(!session->in_prompt && !session->prompt.kept_rows);
    KVC_ASSERT(session->turn <= session->tokens);
    kvc_policy_chunking(session->policy, &session->prompt.chunking);
    session->prompt.probes = (uint32_t)kvc_min_u64(session->prompt.chunking.probe, rows);
    if (session->prompt.chunking.own)
        session->prompt.probes = kvc_min_u32(session->prompt.probes, session->prompt.chunking.chunk);
    enum kvc_status status = kvc_prompt_set_window(session, (uint32_t)rows, error);
    if (status == KVC_OK && session->prompt.probes)
        status = reserve_probe(session, error);
    if (status != KVC_OK)
        return status;
    for (uint32_t l = 0; l < session->cache.layers; l++) {
        session->held[l] = kvc_cache_most(&session->cache, l) + rows;
        session->after[l] = 0;
        session->cache.layer[l].step_most = 0;
        session->evictions.touched[l] = false;
        kvc_select_drop_view(session, l);
    }
    session->runner->coordinator->most_of_heads(session, session->held, session->cache.layers);
    session->turn = rows;
    session->step = 0;
    session->sums.together = 1;
    session->sums.peak_before = session->cache.peak_bytes;
    session->cache.peak_bytes = session->cache.cache_bytes + session->cache.state_bytes;
    KVC_LOG(device_of(session)->log, KVC_LOG_INFO, KVC_LOG_POLICY, "prompt of %llu tokens after %llu with %s: %s",
            (unsigned long long)rows, (unsigned long long)session->tokens, session->policy->spec,
            session->prompt.chunking.chunk ? "chunk by chunk" : "layer by layer");
    session->in_prompt = true;
    session->failed = true; /* the session counts as failed until the prompt ends */
    return KVC_OK;
}

void kvc_prompt_end(struct kvc_session *session) {
    struct kvc_device *device = device_of(session);
    struct kvc_growable *buffers[] = {&session->prompt.probe, &session->prompt.probe_now, &session->prompt.moments,
                                      &session->prompt.angles};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        kvc_growable_free(device, buffers[i]);
    session->prompt.angle_rows = 0;
    /* the queries of a whole prompt are too large to keep for the next prompt */
    if (kvc_policy_queries(session->policy) == UINT32_MAX)
        kvc_prompt_free_queries(device, &session->prompt.window);
    KVC_ASSERT(session->in_prompt && session->tokens + session->turn <= INT32_MAX);
    session->tokens += session->turn;
    session->sums.prompt_peak = session->cache.peak_bytes;
    session->in_prompt = false;
    session->failed = false;
    free(session->prompt.kept_rows);
    session->prompt.kept_rows = NULL;
    device->ops->arena_trim(device, session->cache.store->arena);
}

uint32_t kvc_prompt_rows_most(const struct kvc_session *session, uint64_t rows) {
    uint32_t most = (uint32_t)kvc_min_u64(session->chunk, rows);
    struct kvc_chunking chunking;
    if (kvc_policy_chunking(session->policy, &chunking)) {
        most = kvc_max_u32(kvc_min_u32(most, chunking.chunk), chunking.probe);
    }
    const struct kvc_method *method = pseudo_method(session);
    const struct kvc_turn turn = {.count = rows,
                                  .held = INT32_MAX,
                                  .seed = session->seed,
                                  .state = method ? session->use[method - session->policy->method].state : NULL};
    int32_t offset;
    const uint32_t pseudo = method ? method->policy->pseudo(&method->values, &turn, &offset, NULL) : 0;
    return kvc_max_u32(pseudo, most);
}

/* ---- the rows of a pass ---- */

/* Plans the pseudo rows after the prompt's last pass. *tokens receives their tokens if the prompt has tokens. */
static enum kvc_status plan_pseudo(struct kvc_session *session, const struct kvc_row_source *source, int32_t *offset,
                                   int32_t **tokens, struct kvc_error *error) {
    const struct kvc_method *method = pseudo_method(session);
    session->prompt.pseudo.rows = 0;
    if (!session->prompt.last_chunk || !method)
        return KVC_OK;
    struct kvc_turn turn = {.tokens = source->tokens,
                            .count = session->turn,
                            .seed = session->seed,
                            .state = session->use[method - session->policy->method].state,
                            .draft = session->prompt.draft};
    for (uint32_t l = 0; l < session->cache.layers; l++) {
        const uint64_t held = kvc_cache_most(&session->cache, l) + (uint64_t)session->prompt.chunk_rows;
        if (session->use[method - session->policy->method].acts[l])
            turn.held = kvc_max_u64(turn.held, held);
    }
    session->runner->coordinator->most_of_layers(session, &turn.held, 1);
    const uint32_t count = method->policy->pseudo(&method->values, &turn, offset, NULL);
    struct kvc_error cause;
    if (count > 0 && !source->tokens && source->pseudo != count)
        return kvc_fail(error, KVC_INPUT, "replay: policy %s needs %u pseudo rows; the prompt has %u",
                        method->policy->name, count, source->pseudo);
    if (count == 0)
        return KVC_OK;
    const int64_t end = (int64_t)(session->tokens + session->turn);
    if (end + *offset + count > INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "session: pseudo rows beyond position %d", INT32_MAX);
    if (source->tokens) {
        *tokens = malloc(count * sizeof **tokens);
        if (!*tokens)
            return kvc_fail(error, KVC_RESOURCE, "session: no memory for %u pseudo tokens", count);
        method->policy->pseudo(&method->values, &turn, offset, *tokens);
        const enum kvc_status status = kvc_network_check_tokens(session->runner->network, *tokens, count, &cause);
        if (status != KVC_OK)
            return kvc_fail(error, status, "policy %s: a pseudo %s", method->policy->name, cause.text);
    }
    return reserve_queries(session, &session->prompt.pseudo, count, sets(session), error);
}

uint32_t kvc_prompt_extra_rows(const struct kvc_session *session) {
    if (session->prompt.last_chunk)
        return session->prompt.pseudo.rows;
    return session->prompt.chunking.own ? 0 : session->prompt.probes;
}

uint32_t kvc_prompt_extra_stored(const struct kvc_session *session) {
    return session->prompt.last_chunk || session->prompt.chunking.together ? kvc_prompt_extra_rows(session) : 0;
}

/* The inputs of a pass's rows. */
struct loaded {
    int32_t *tokens, *positions; /* [rows] */
    uint32_t *causal_offset;     /* [rows] */
};

/* Fills in the prompt's own rows. */
static void load_rows(const struct kvc_session *session, const struct kvc_row_source *source, struct loaded *loaded) {
    const uint32_t rows = session->prompt.chunk_rows;
    for (uint32_t i = 0; i < rows; i++) {
        const uint32_t row = session->prompt.chunk_from + i, in_chunk = i % session->chunk;
        const uint32_t left = rows - (i - in_chunk), end = kvc_min_u32(left, session->chunk);
        loaded->positions[i] = position_of(session, row);
        loaded->tokens[i] = source->tokens ? source->tokens[kvc_session_row(session, row)] : 0;
        loaded->causal_offset[i] = end - 1 - in_chunk;
        KVC_ASSERT(loaded->causal_offset[i] < rows);
        KVC_ASSERT(i == 0 || loaded->positions[i] > loaded->positions[i - 1]);
    }
}

/* Fills in the rows that the session's methods add, from row `at` on. */
static void load_extra(const struct kvc_session *session, const struct kvc_row_source *source, uint32_t at,
                       struct loaded *loaded) {
    const struct kvc_prompt *prompt = &session->prompt;
    const uint32_t extra = kvc_prompt_extra_rows(session);
    for (uint32_t i = 0; i < extra; i++) {
        KVC_ASSERT(prompt->last_chunk || extra <= prompt->probes);
        const uint64_t probe = session->turn - prompt->probes + i; /* the probe's row number in the prompt */
        if (prompt->last_chunk) {
            loaded->tokens[at + i] = prompt->pseudo_tokens ? prompt->pseudo_tokens[i] : 0;
            loaded->positions[at + i] = prompt->pseudo_from + (int32_t)i;
            loaded->causal_offset[at + i] = extra - 1 - i;
        } else {
            loaded->tokens[at + i] = source->tokens ? source->tokens[probe] : 0;
            loaded->positions[at + i] =
                prompt->chunking.at_end
                    ? (int32_t)(session->tokens + probe)
                    : position_of(session, prompt->chunk_from + prompt->chunk_rows - 1) + 1 + (int32_t)i;
            loaded->causal_offset[at + i] = prompt->chunking.together ? extra - 1 - i : 0;
        }
    }
}

enum kvc_status kvc_pass_load(struct kvc_session *const *sessions, size_t count, const struct kvc_row_source *source,
                              struct kvc_error *error) {
    uint64_t all = sessions[0]->prompt.chunk_rows;
    for (size_t i = 0; i < count; i++) {
        sessions[i]->prompt.extra_from = (uint32_t)all;
        all += kvc_session_lives(sessions[i]) ? kvc_prompt_extra_rows(sessions[i]) : 0;
        if (all > INT32_MAX)
            return kvc_fail(error, KVC_USAGE, "session: %llu rows at once; at most %d fit", (unsigned long long)all,
                            INT32_MAX);
    }
    struct loaded loaded = {.tokens = malloc(all * sizeof *loaded.tokens),
                            .positions = malloc(all * sizeof *loaded.positions),
                            .causal_offset = malloc(all * sizeof *loaded.causal_offset)};
    enum kvc_status status = KVC_OK;
    if (!loaded.tokens || !loaded.positions || !loaded.causal_offset)
        status = kvc_fail(error, KVC_RESOURCE, "session: no memory for %llu positions", (unsigned long long)all);
    if (status == KVC_OK) {
        load_rows(sessions[0], source, &loaded);
        for (size_t i = 0; i < count; i++)
            if (kvc_session_lives(sessions[i]))
                load_extra(sessions[i], source, sessions[i]->prompt.extra_from, &loaded);
        status = source->load(source->user, source->tokens ? loaded.tokens : NULL, loaded.positions,
                              loaded.causal_offset, (uint32_t)all, error);
    }
    free(loaded.tokens);
    free(loaded.positions);
    free(loaded.causal_offset);
    return status;
}

enum kvc_status kvc_prompts_live(struct kvc_session *const *sessions, size_t count, struct kvc_error *error) {
    for (size_t i = 0; i < count; i++)
        if (kvc_session_lives(sessions[i]))
            return KVC_OK;
    return kvc_fail(error, sessions[0]->failure.status, "%s", sessions[0]->failure.text);
}

/* Begins the session's part of a pass, and decides which rows its methods add. */
static enum kvc_status rows_begin(struct kvc_session *session, const struct kvc_row_source *source, uint32_t from,
                                  uint32_t rows, struct kvc_error *error) {
    const int64_t end = (int64_t)(session->tokens + session->turn);
    int32_t *pseudo_tokens = NULL;
    int32_t offset = 0;
    session->prompt.chunk_from = from;
    KVC_ASSERT(rows > 0 && from + (uint64_t)rows <= kvc_session_rows(session));
    KVC_ASSERT(session->in_prompt);
    session->prompt.chunk_rows = rows;
    session->prompt.first_chunk = from == 0;
    session->prompt.last_chunk = from + rows == session->turn;
    session->prompt.ended = session->runner->network ? session->runner->network->part.first_layer : 0;
    enum kvc_status status = plan_pseudo(session, source, &offset, &pseudo_tokens, error);
    session->prompt.pseudo_from = (int32_t)(end + offset > 0 ? end + offset : 0);
    free(session->prompt.pseudo_tokens);
    session->prompt.pseudo_tokens = pseudo_tokens;
    /* the rows until the next eviction */
    const uint64_t rest = session->prompt.chunking.chunk ? rows : session->turn - from;
    if (status == KVC_OK)
        status = kvc_cache_positions_reserve(session, rest + kvc_prompt_extra_rows(session), error);
    KVC_LOG(device_of(session)->log, KVC_LOG_DEBUG, KVC_LOG_POLICY,
            "pass over rows %u to %u of a prompt of %llu, after %llu tokens; %u rows of methods", from, from + rows - 1,
            (unsigned long long)session->turn, (unsigned long long)session->tokens,
            status == KVC_OK ? kvc_prompt_extra_rows(session) : 0);
    return status;
}

enum kvc_status kvc_pass_begin(struct kvc_session *const *sessions, size_t count, const struct kvc_row_source *source,
                               uint32_t from, uint32_t rows, struct kvc_error *error) {
    for (size_t i = 0; i < count; i++)
        if (kvc_session_lives(sessions[i]))
            sessions[i]->failure.status = rows_begin(sessions[i], source, from, rows, &sessions[i]->failure);
    const enum kvc_status status = kvc_prompts_live(sessions, count, error);
    return status == KVC_OK ? kvc_pass_load(sessions, count, source, error) : status;
}
