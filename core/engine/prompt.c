/* prompt.c - a prompt's rows pass the layers: whole, layer by layer, or chunk by chunk where the policy cuts the
 * prompt; with the rows that methods add, and the moments at which they look and evict. */
#include "core/engine/session.h"

#include <stdlib.h>
#include <string.h>

static struct kvc_device *device_of(const struct kvc_session *session) { return session->runner->device; }

static const struct kvc_method *pseudo_method(const struct kvc_session *session) {
    for (size_t i = 0; i < session->policy->count; i++) {
        const struct kvc_method *method = &session->policy->method[i];
        if (method->policy->pseudo && (method->stages & KVC_STAGE_PROMPT))
            return method;
    }
    return NULL;
}

/* Sets of queries that rooms hold: one for every layer where chunks come one after another. */
static uint32_t sets(const struct kvc_session *session) { return session->chunking.chunk ? session->cache.layers : 1; }
size_t kvc_turn_set(const struct kvc_session *session, uint32_t layer) { return session->chunking.chunk ? layer : 0; }

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

/* Position of row i of those that go on. */
static int32_t position_of(const struct kvc_session *session, uint32_t i) {
    return (int32_t)(session->tokens + (session->kept_rows ? session->kept_rows[i] : i));
}

/* The last queries of `rows` rows, and their place behind each other. */
static enum kvc_status set_window(struct kvc_session *session, uint32_t rows, struct kvc_error *error) {
    struct kvc_queries *window = &session->window;
    const uint32_t wanted = kvc_policy_queries(session->policy), count = wanted < rows ? wanted : rows;
    window->rows = count;
    if (count == 0)
        return KVC_OK;
    enum kvc_status status = reserve_queries(session, window, count, sets(session), error);
    int32_t *positions = realloc(session->window_positions, count * sizeof *positions);
    uint32_t *causal_offset = malloc(count * sizeof *causal_offset);
    if (positions)
        session->window_positions = positions;
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

/* Rooms for the probe's queries of every layer. */
static enum kvc_status reserve_probe(struct kvc_session *session, struct kvc_error *error) {
    const struct kvc_geometry *g = &session->runner->geometry;
    struct kvc_device *device = device_of(session);
    const uint32_t probes = session->probes;
    const size_t bytes = (size_t)g->layers * probes * g->heads * g->head_size * sizeof(float);
    enum kvc_status status = kvc_growable_reserve(device, &session->probe, bytes, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &session->probe_now, bytes, error);
    if (status == KVC_OK)
        status = reserve_queries(session, &session->probing, probes, 1, error);
    if (status == KVC_OK) { /* it sees every entry, wherever it stands */
        device->ops->zero(device, kvc_growable_at(&session->probing.causal_offset, 0), probes * sizeof(uint32_t));
        device->ops->zero(device, kvc_growable_at(&session->probing.positions, 0), probes * sizeof(int32_t));
    }
    return status;
}

enum kvc_status kvc_turn_begin(struct kvc_session *session, uint64_t rows, struct kvc_error *error) {
    if (session->failed)
        return kvc_fail(error, KVC_USAGE, "session: an earlier prompt or step failed; close it and open another");
    if (rows == 0)
        return kvc_fail(error, KVC_USAGE, "session: a prompt of 0 tokens; it needs at least 1");
    if (rows > INT32_MAX - session->tokens)
        return kvc_fail(error, KVC_USAGE, "session: %llu tokens after %llu; at most %d fit", (unsigned long long)rows,
                        (unsigned long long)session->tokens, INT32_MAX);
    session->chunking = (struct kvc_chunking){.chunk = 0};
    kvc_policy_chunking(session->policy, &session->chunking);
    session->probes = session->chunking.probe < rows ? session->chunking.probe : (uint32_t)rows;
    enum kvc_status status = set_window(session, (uint32_t)rows, error);
    if (status == KVC_OK && session->probes)
        status = reserve_probe(session, error);
    if (status == KVC_OK)
        status = kvc_cache_positions_reserve(session, rows, error);
    if (status != KVC_OK)
        return status;
    for (uint32_t l = 0; l < session->cache.layers; l++) {
        session->held[l] = kvc_cache_most(&session->cache, l) + rows;
        session->after[l] = 0;
        session->cache.layer[l].step_most = 0;
        session->touched[l] = false;
        kvc_select_drop_view(session, l);
    }
    session->turn = rows;
    session->step = 0;
    session->peak_before = session->cache.peak_bytes;
    session->cache.peak_bytes = session->cache.cache_bytes + session->cache.state_bytes;
    session->in_prompt = true;
    session->failed = true; /* until the turn is over */
    return KVC_OK;
}

void kvc_turn_end(struct kvc_session *session) {
    struct kvc_device *device = device_of(session);
    struct kvc_growable *buffers[] = {&session->probe, &session->probe_now};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        kvc_growable_free(device, buffers[i]);
    session->tokens += session->turn;
    session->prompt_peak = session->cache.peak_bytes;
    session->in_prompt = false;
    session->failed = false;
    free(session->kept_rows);
    session->kept_rows = NULL;
    device->ops->arena_trim(device, session->cache.store->arena);
}

uint32_t kvc_turn_rows_most(const struct kvc_session *session, uint64_t rows) {
    uint32_t most = session->chunk < rows ? session->chunk : (uint32_t)rows;
    struct kvc_chunking chunking;
    if (kvc_policy_chunking(session->policy, &chunking)) {
        if (chunking.chunk < most)
            most = chunking.chunk;
        if (chunking.probe > most)
            most = chunking.probe;
    }
    const struct kvc_method *method = pseudo_method(session);
    const struct kvc_turn turn = {NULL, rows, INT32_MAX, session->seed,
                                  method ? session->use[method - session->policy->method].state : NULL};
    uint32_t offset;
    const uint32_t pseudo = method ? method->policy->pseudo(&method->values, &turn, &offset, NULL) : 0;
    return pseudo > most ? pseudo : most;
}

/* ---- the rows of a pass ---- */

/* Pseudo rows behind the prompt's last pass; tokens gets them where the turn has tokens. */
static enum kvc_status plan_pseudo(struct kvc_session *session, const struct kvc_turn_rows *by, uint32_t *offset,
                                   int32_t **tokens, struct kvc_error *error) {
    const struct kvc_method *method = pseudo_method(session);
    session->pseudo.rows = 0;
    if (!session->last_chunk || !method)
        return KVC_OK;
    struct kvc_turn turn = {by->tokens, session->turn, 0, session->seed,
                            session->use[method - session->policy->method].state};
    for (uint32_t l = 0; l < session->cache.layers; l++) {
        const uint64_t held = kvc_cache_most(&session->cache, l) + (uint64_t)session->chunk_rows;
        if (session->use[method - session->policy->method].acts[l] && held > turn.held)
            turn.held = held;
    }
    const uint32_t count = method->policy->pseudo(&method->values, &turn, offset, NULL);
    struct kvc_error cause;
    if (count > 0 && !by->tokens && by->pseudo != count)
        return kvc_fail(error, KVC_INPUT, "replay: policy %s looks from %u pseudo rows; %u came with the prompt",
                        method->policy->name, count, by->pseudo);
    if (count == 0)
        return KVC_OK;
    if (session->tokens + session->turn + *offset + count > INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "session: pseudo rows beyond position %d", INT32_MAX);
    if (by->tokens) {
        *tokens = malloc(count * sizeof **tokens);
        if (!*tokens)
            return kvc_fail(error, KVC_RESOURCE, "session: no memory for %u pseudo tokens", count);
        method->policy->pseudo(&method->values, &turn, offset, *tokens);
        const enum kvc_status status = kvc_session_check_tokens(session->runner->network, *tokens, count, &cause);
        if (status != KVC_OK)
            return kvc_fail(error, status, "policy %s: a pseudo %s", method->policy->name, cause.text);
    }
    return reserve_queries(session, &session->pseudo, count, sets(session), error);
}

static uint32_t extra_rows(const struct kvc_session *session) {
    return session->last_chunk ? session->pseudo.rows : session->probes;
}

/* Tokens, positions and `later` of the pass: the chunk's rows, then the rows that methods add. */
static enum kvc_status load(struct kvc_session *session, const struct kvc_turn_rows *by, uint32_t offset,
                            const int32_t *pseudo_tokens, struct kvc_error *error) {
    const uint32_t rows = session->chunk_rows, extra = extra_rows(session), all = rows + extra;
    int32_t *tokens = malloc(all * sizeof *tokens), *positions = malloc(all * sizeof *positions);
    uint32_t *causal_offset = malloc(all * sizeof *causal_offset);
    enum kvc_status status = tokens && positions && causal_offset
                                 ? KVC_OK
                                 : kvc_fail(error, KVC_RESOURCE, "session: no memory for %u positions", all);
    for (uint32_t i = 0; i < rows && status == KVC_OK; i++) {
        const uint32_t row = session->chunk_from + i, in_chunk = i % session->chunk;
        const uint32_t left = rows - (i - in_chunk), end = left < session->chunk ? left : session->chunk;
        positions[i] = position_of(session, row);
        tokens[i] = by->tokens ? by->tokens[session->kept_rows ? session->kept_rows[row] : row] : 0;
        causal_offset[i] = end - 1 - in_chunk;
    }
    for (uint32_t i = 0; i < extra && status == KVC_OK; i++) {
        const uint64_t probe = session->turn - session->probes + i; /* its row in the turn */
        if (session->last_chunk) {
            tokens[rows + i] = pseudo_tokens ? pseudo_tokens[i] : 0;
            positions[rows + i] = (int32_t)(session->tokens + session->turn + offset + i);
            causal_offset[rows + i] = extra - 1 - i;
        } else {
            tokens[rows + i] = by->tokens ? by->tokens[probe] : 0;
            positions[rows + i] = session->chunking.at_end
                                      ? (int32_t)(session->tokens + probe)
                                      : position_of(session, session->chunk_from + rows - 1) + 1 + (int32_t)i;
            causal_offset[rows + i] = 0;
        }
    }
    if (status == KVC_OK)
        status = by->load(by->user, by->tokens ? tokens : NULL, positions, causal_offset, all, error);
    free(tokens);
    free(positions);
    free(causal_offset);
    return status;
}

enum kvc_status kvc_turn_begin_pass(struct kvc_session *session, const struct kvc_turn_rows *by, uint32_t from,
                                    uint32_t rows, struct kvc_error *error) {
    int32_t *pseudo_tokens = NULL;
    uint32_t offset = 0;
    session->chunk_from = from;
    session->chunk_rows = rows;
    session->first_chunk = from == 0;
    session->last_chunk = from + rows == session->turn;
    session->ended = 0;
    enum kvc_status status = plan_pseudo(session, by, &offset, &pseudo_tokens, error);
    session->pseudo_offset = offset;
    if (status == KVC_OK)
        status = load(session, by, offset, pseudo_tokens, error);
    free(session->pseudo_tokens);
    session->pseudo_tokens = pseudo_tokens;
    return status;
}

/* ---- one layer ---- */

/* A stage that may look at the last queries of the prompt. */
static struct kvc_stage window_stage(struct kvc_session *session, uint32_t layer) {
    const struct kvc_geometry *g = &session->runner->geometry;
    const struct kvc_queries *window = &session->window;
    const size_t first = window->rows * kvc_turn_set(session, layer) * sizeof(float);
    struct kvc_stage stage = kvc_stage_make(session, layer);
    stage.queries = window->rows;
    stage.q = kvc_growable_at(&window->q, first * g->heads * g->head_size);
    stage.maximum = kvc_growable_at(&window->maximum, first * g->heads);
    stage.sum = kvc_growable_at(&window->sum, first * g->heads);
    stage.positions = kvc_growable_at(&window->positions, first);
    stage.causal_offset =
        session->chunking.chunk ? (struct kvc_span){NULL, 0} : kvc_growable_at(&window->causal_offset, 0);
    stage.host_positions = session->window_positions;
    return stage;
}

/* Blocks that evictions left without entries go back. */
static enum kvc_status shrink(struct kvc_session *session, uint32_t most, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    for (uint32_t l = 0; l <= most && status == KVC_OK; l++) {
        if (!session->touched[l])
            continue;
        session->touched[l] = false;
        status = kvc_cache_shrink(&session->cache, l, kvc_policy_surplus(session->policy, l), 1, error);
    }
    return status;
}

/* The rows that a propagate stage chose, and the extra ones, are those of the layers above. */
static enum kvc_status cut(struct kvc_session *session, const struct kvc_turn_rows *by, struct kvc_error *error) {
    const uint32_t rows = session->next_rows, extra = extra_rows(session), had = session->chunk_rows;
    uint32_t *index = malloc((rows + extra) * sizeof *index);
    if (!index)
        return kvc_fail(error, KVC_RESOURCE, "session: no memory for %u rows", rows + extra);
    for (uint32_t i = 0, at = 0; i < rows; i++) { /* next_kept_rows as indices into what there was */
        while ((session->kept_rows ? session->kept_rows[at] : at) != session->next_kept_rows[i])
            at++;
        index[i] = at;
    }
    for (uint32_t i = 0; i < extra; i++)
        index[rows + i] = had + i;
    free(session->kept_rows);
    session->kept_rows = session->next_kept_rows;
    session->kept_row_count = session->chunk_rows = rows;
    session->next_kept_rows = NULL;
    enum kvc_status status = by->cut(by->user, index, rows + extra, error);
    free(index);
    if (status == KVC_OK)
        status = load(session, by, session->pseudo_offset, session->pseudo_tokens, error);
    return status == KVC_OK ? set_window(session, rows, error) : status;
}

static enum kvc_status end_prompt(struct kvc_session *session, const struct kvc_turn_rows *by, uint32_t layer,
                                  struct kvc_error *error) {
    const uint64_t away = session->turn - (session->kept_rows ? session->kept_row_count : session->turn);
    if (!session->chunking.chunk)
        session->held[layer] = kvc_cache_most(&session->cache, layer) + away;
    session->cache.layer[layer].step_most = kvc_policy_step_most(session->policy, layer, &session->runner->geometry,
                                                                 &session->cache.format, session->held[layer]);
    struct kvc_stage stage = window_stage(session, layer);
    enum kvc_status status = kvc_stage_run_prompt(&stage, error);
    for (uint32_t l = 0; l <= layer; l++) /* of those before it, too, which the stage may have shrunk */
        session->after[l] = kvc_cache_most(&session->cache, l);
    if (status == KVC_OK)
        status = shrink(session, layer, error);
    if (status == KVC_OK && session->next_kept_rows)
        status = cut(session, by, error);
    return status;
}

/* A layer that one above it chooses for is not over before that one's turn. */
static enum kvc_status end_layers(struct kvc_session *session, const struct kvc_turn_rows *by, uint32_t layer,
                                  struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    while (status == KVC_OK && session->ended <= layer &&
           kvc_policy_decider(session->policy, session->ended, &session->runner->geometry, &session->cache.format) <=
               layer)
        status = end_prompt(session, by, session->ended++, error);
    return status;
}

enum kvc_status kvc_turn_layer(struct kvc_session *session, const struct kvc_turn_rows *by, uint32_t layer,
                               struct kvc_error *error) {
    const uint32_t rows = session->chunk_rows, extra = extra_rows(session);
    const uint32_t stored = session->last_chunk ? extra : 0; /* probes leave no entry behind, pseudo rows for a while */
    enum kvc_status status =
        kvc_cache_reserve(&session->cache, layer, (uint64_t)rows + stored,
                          kvc_policy_all_columns(session->policy, layer, session->cache.format.head_size), error);
    if (status == KVC_OK && session->kept_rows) /* positions are not those that ranks would say */
        status = kvc_cache_make_order(&session->cache, layer, error);
    for (uint32_t row = 0; row < rows && status == KVC_OK;) {
        const uint32_t some = rows - row < session->chunk ? rows - row : session->chunk;
        const struct kvc_part part = {session, 0, some, some, KVC_ROWS_PROMPT};
        status = by->compute(by->user, layer, row, &part, error);
        row += some;
        if (status == KVC_OK && session->failure.status != KVC_OK) /* a looker's */
            status = kvc_fail(error, session->failure.status, "%s", session->failure.text);
    }
    if (status == KVC_OK && extra) {
        const struct kvc_part part = {session, 0, extra, stored,
                                      session->last_chunk ? KVC_ROWS_PSEUDO : KVC_ROWS_PROBE};
        status = by->compute(by->user, layer, rows, &part, error);
        if (status == KVC_OK && stored)
            kvc_cache_drop(&session->cache, layer, stored);
    }
    if (status == KVC_OK && session->chunking.chunk) {
        struct kvc_stage stage = kvc_stage_make(session, layer);
        status = kvc_stage_run_chunk(&stage, error);
    }
    if (status == KVC_OK && session->last_chunk)
        status = end_layers(session, by, layer, error);
    return status;
}

/* ---- queries that pass by ---- */

/* Rows from.. of runner->q, maximum and sum go to row `to` of the set. */
static void keep_queries(struct kvc_session *session, const struct kvc_batch *batch, struct kvc_queries *queries,
                         size_t to, uint32_t batch_row, uint32_t from, uint32_t count) {
    struct kvc_runner *runner = session->runner;
    struct kvc_device *device = runner->device;
    const struct kvc_geometry *g = &runner->geometry;
    const size_t word = sizeof(float), m = g->heads * word, q = m * g->head_size;
    device->ops->copy(device, kvc_growable_at(&queries->q, to * q), kvc_growable_at(&runner->q, from * q), count * q);
    device->ops->copy(device, kvc_growable_at(&queries->maximum, to * m), kvc_growable_at(&runner->maximum, from * m),
                      count * m);
    device->ops->copy(device, kvc_growable_at(&queries->sum, to * m), kvc_growable_at(&runner->sum, from * m),
                      count * m);
    device->ops->copy(device, kvc_growable_at(&queries->positions, to * word),
                      kvc_growable_at(&batch->positions, batch_row * word), count * word);
}

void kvc_turn_attended(struct kvc_session *session, const struct kvc_batch *batch, uint32_t layer,
                       const struct kvc_part *part, uint32_t batch_row) {
    struct kvc_runner *runner = session->runner;
    const struct kvc_geometry *g = &runner->geometry;
    const size_t word = sizeof(float), m = g->heads * word, q = m * g->head_size;
    if (part->kind == KVC_ROWS_PSEUDO) {
        keep_queries(session, batch, &session->pseudo, kvc_turn_set(session, layer) * part->rows, batch_row, part->row,
                     part->rows);
        return;
    }
    if (part->kind == KVC_ROWS_PROBE) {
        runner->device->ops->copy(runner->device,
                                  kvc_growable_at(&session->probe_now, (size_t)layer * session->probes * q),
                                  kvc_growable_at(&runner->q, part->row * q), part->rows * q);
        return;
    }
    /* those among the last window->rows */
    struct kvc_queries *window = &session->window;
    const uint64_t rows = session->kept_rows ? session->kept_row_count : session->turn, first = rows - window->rows;
    const uint64_t at = (uint64_t)session->chunk_from + batch_row, end = at + part->rows;
    if (end > first) {
        const uint32_t skip = (uint32_t)(first > at ? first - at : 0);
        const size_t set = kvc_turn_set(session, layer) * window->rows;
        keep_queries(session, batch, window, set + (at + skip - first), batch_row + skip, part->row + skip,
                     part->rows - skip);
    }
    struct kvc_stage stage = kvc_stage_make(session, layer);
    stage.queries = part->rows;
    stage.q = kvc_growable_at(&runner->q, part->row * q);
    stage.maximum = kvc_growable_at(&runner->maximum, part->row * m);
    stage.sum = kvc_growable_at(&runner->sum, part->row * m);
    stage.positions = kvc_growable_at(&batch->positions, batch_row * word);
    stage.causal_offset = kvc_growable_at(&batch->causal_offset, batch_row * word);
    if (session->failure.status == KVC_OK)
        session->failure.status = kvc_stage_run_attended(&stage, &session->failure);
}
