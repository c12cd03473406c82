/* pass.c - runs a prompt's rows through one layer and then calls the policy's stages. A pass is a set of rows that go
 * through all layers: the whole prompt or, if a chunk method cuts the prompt, one chunk.
 *
 * If several sessions have the same prompt rows, the rows are computed once. The rows attend to the lists of one
 * session, the owner. Sessions whose methods observe the attention append the rows to their own lists at the same time.
 * Then the sessions finish the layer one after another, the owner last. If a session did not append the rows, the
 * owner's entries of the layer are first copied to its lists. Each session then runs its stages and frees the evicted
 * entries. So a layer holds all of its rows at most twice, plus once for each observing session, however many sessions
 * share the prompt. */
#include "core/engine/pass.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/engine/centre.h"
#include "core/engine/coordinator.h"
#include "core/engine/prune_rows.h"
#include "core/engine/expired.h"
#include "core/engine/look.h"
#include "core/engine/trace.h"
#include "core/stage/stage_call.h"

/* ---- a part of the rows ---- */

static struct kvc_segment segment_of(struct kvc_session *session, uint32_t layer, const struct kvc_row_span *part) {
    return (struct kvc_segment){
        .lists = &session->cache.layer[layer].lists, .rows = part->rows, .stored = part->stored};
}

/* Appends the keys and values of the part's first `stored` rows to the layer's lists. */
static void pass_append(struct kvc_session *session, uint32_t layer, const struct kvc_row_span *part,
                        const struct kvc_projected *projected) {
    struct kvc_runner *runner = session->runner;
    const struct kvc_segment segment = segment_of(session, layer, part);
    KVC_ASSERT(part->stored <= part->rows);
    kvc_runner_append(runner, &segment, 1, projected->k, projected->v,
                      kvc_growable_at(&runner->prompt.positions, part->row * sizeof(int32_t)));
    kvc_cache_appended(&session->cache, layer, part->stored);
    kvc_cache_positions_keep(session, layer, 0, part->stored);
}

/* Computes attention in blocks of rows, between which the program may stop the prompt. */
static void pass_attend(struct kvc_session *session, uint32_t layer, const struct kvc_row_span *part) {
    struct kvc_runner *runner = session->runner;
    const struct kvc_geometry *g = &runner->model;
    const uint32_t most = kvc_look_rows(session, layer, part->rows);
    const uint64_t work = 2 * session->turn * g->heads * g->head_size; /* roughly the work of one row */
    for (uint32_t row = 0, some; row < part->rows; row += some) {
        some = kvc_min_u32(part->rows - row, most);
        struct kvc_segment segment = segment_of(session, layer, part);
        segment.rows = some;
        if (kvc_look(runner, some * work))
            kvc_runner_attend(runner, &runner->prompt, layer, part->row + row, row, &segment, 1);
    }
}

/* Copies rows `from` .. `from` + `count` - 1 of runner->q, runner->maximum and runner->sum, and their positions, to
 * rows `to` .. `to` + `count` - 1 of `queries`. */
static void copy_queries(struct kvc_session *session, struct kvc_queries *queries, size_t to, uint32_t batch_row,
                         uint32_t from, uint32_t count) {
    struct kvc_runner *runner = session->runner;
    const struct kvc_batch *batch = &runner->prompt;
    struct kvc_device *device = runner->device;
    const struct kvc_geometry *g = &runner->geometry;
    const size_t word = sizeof(float), m = g->heads * word, q = m * g->head_size;
    KVC_ASSERT((to + count) * q <= queries->q.bytes && (to + count) * word <= queries->positions.bytes);
    KVC_ASSERT((from + (size_t)count) * q <= runner->q.bytes);
    device->ops->copy(device, kvc_growable_at(&queries->q, to * q), kvc_growable_at(&runner->q, from * q), count * q);
    device->ops->copy(device, kvc_growable_at(&queries->maximum, to * m), kvc_growable_at(&runner->maximum, from * m),
                      count * m);
    device->ops->copy(device, kvc_growable_at(&queries->sum, to * m), kvc_growable_at(&runner->sum, from * m),
                      count * m);
    device->ops->copy(device, kvc_growable_at(&queries->positions, to * word),
                      kvc_growable_at(&batch->positions, batch_row * word), count * word);
}

/* Copies the queries of this part that belong to the chunk's probe, which consists of the chunk's last rows. */
static void keep_own_probe(struct kvc_session *session, uint32_t layer, const struct kvc_row_span *part) {
    struct kvc_runner *runner = session->runner;
    struct kvc_prompt *prompt = &session->prompt;
    const size_t q = (size_t)runner->geometry.heads * runner->geometry.head_size * sizeof(float);
    KVC_ASSERT(prompt->chunk_rows >= prompt->probes);
    const uint32_t first = prompt->chunk_rows - prompt->probes, end = part->row + part->rows;
    const uint32_t from = kvc_max_u32(first, part->row);
    if (from < end)
        runner->device->ops->copy(
            runner->device, kvc_growable_at(&prompt->probe_now, ((size_t)layer * prompt->probes + (from - first)) * q),
            kvc_growable_at(&runner->q, (from - part->row) * q), (end - from) * q);
}

/* Copies the part's queries that policies will read later. */
static void keep_queries(struct kvc_session *session, uint32_t layer, const struct kvc_row_span *part) {
    struct kvc_runner *runner = session->runner;
    struct kvc_prompt *prompt = &session->prompt;
    const size_t q = (size_t)runner->geometry.heads * runner->geometry.head_size * sizeof(float);
    const size_t set = kvc_session_query_set(session, layer);
    if (part->kind == KVC_ROWS_PSEUDO) {
        copy_queries(session, &prompt->pseudo, set * part->rows, part->row, 0, part->rows);
        return;
    }
    if (part->kind == KVC_ROWS_PROBE) {
        runner->device->ops->copy(runner->device,
                                  kvc_growable_at(&prompt->probe_now, (size_t)layer * prompt->probes * q),
                                  kvc_growable_at(&runner->q, 0), part->rows * q);
        return;
    }
    if (prompt->chunking.own && !prompt->last_chunk)
        keep_own_probe(session, layer, part);
    /* keep only the rows among the last window.rows of the prompt */
    const uint64_t first = kvc_session_rows(session) - prompt->window.rows;
    KVC_ASSERT(prompt->window.rows <= kvc_session_rows(session));
    const uint64_t at = (uint64_t)prompt->chunk_from + part->row, end = at + part->rows;
    if (end > first) {
        const uint32_t skip = (uint32_t)(first > at ? first - at : 0);
        KVC_ASSERT(skip < part->rows && at + skip - first + (part->rows - skip) <= prompt->window.rows);
        copy_queries(session, &prompt->window, set * prompt->window.rows + (at + skip - first), part->row + skip, skip,
                     part->rows - skip);
    }
}

/* Passes the part's queries to the methods that observe attention. */
static void pass_observe(struct kvc_session *session, uint32_t layer, const struct kvc_row_span *part) {
    struct kvc_stage stage = kvc_stage_make(session, layer);
    if (part->kind != KVC_ROWS_PROMPT || session->failure.status != KVC_OK)
        return;
    kvc_stage_set_rows(&stage, &session->runner->prompt, 0, part->row, part->rows);
    stage.row = session->prompt.chunk_from + part->row;
    session->failure.status = kvc_stage_call_attended(&stage, &session->failure);
}

/* Computes one part of the sessions' rows. */
static enum kvc_status compute_part(struct kvc_session *const *sessions, size_t count,
                                    const struct kvc_row_source *source, uint32_t layer,
                                    const struct kvc_row_span *part, struct kvc_error *error) {
    struct kvc_projected projected = {.entries_only = false};
    kvc_trace_sessions(part->session->engine->trace, &part->session, 1);
    kvc_trace_rows(part->session->engine->trace, KVC_TRACE_LAYER, layer, &part->session->runner->prompt, part->row,
                   part->rows);
    struct kvc_runner *runner = part->session->runner;
    enum kvc_status status = source->project(source->user, layer, part, &projected, error);
    if (status == KVC_OK)
        status = kvc_look_status(runner, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_entry_format *format = &part->session->cache.format; /* all sessions have the same types */
    kvc_centre_smooth(sessions[0], layer, kvc_growable_at(&runner->q, 0), !projected.entries_only, projected.k,
                      part->rows, part->stored);
    kvc_runner_transform(runner, format, 0, part->rows, projected.k, projected.v);
    kvc_centre_keys(sessions, count, layer, projected.k, part->rows, part->stored);
    for (size_t i = 0; i < count; i++)
        if (sessions[i]->prompt.has_rows)
            pass_append(sessions[i], layer, part, &projected);
    if (!projected.entries_only) {
        pass_attend(part->session, layer, part);
        status = kvc_look_status(runner, error);
        if (status != KVC_OK)
            return status;
        kvc_runner_transform_back(runner, format, 0, part->rows);
        for (size_t i = 0; i < count; i++)
            if (kvc_session_lives(sessions[i]))
                keep_queries(sessions[i], layer, part);
        for (size_t i = 0; i < count; i++)
            if (sessions[i]->prompt.has_rows)
                pass_observe(sessions[i], layer, part);
    }
    return source->feed_forward(source->user, layer, part, error);
}

/* Runs one part of the sessions' rows through the layer, unless the program stops the prompt. */
static enum kvc_status pass_part(struct kvc_session *const *sessions, size_t count, const struct kvc_row_source *source,
                                 uint32_t layer, const struct kvc_row_span *part, struct kvc_error *error) {
    struct kvc_runner *runner = part->session->runner;
    struct kvc_error stopped;
    enum kvc_status status = kvc_look_begin(runner, error);
    if (status == KVC_OK)
        status = compute_part(sessions, count, source, layer, part, error);
    (void)kvc_look_end(runner, &stopped); /* a failure is in `status` already */
    return status;
}

/* Runs the rows that a method added. If these rows were appended to the lists, their entries are dropped right after
 * the layer. */
static enum kvc_status pass_extra(struct kvc_session *session, const struct kvc_row_source *source, uint32_t layer,
                                  struct kvc_error *error) {
    const uint32_t extra = kvc_prompt_extra_rows(session);
    const struct kvc_row_span part = {session->prompt.extra_from, extra, kvc_prompt_extra_stored(session),
                                      session->prompt.last_chunk ? KVC_ROWS_PSEUDO : KVC_ROWS_PROBE, session};
    if (extra == 0)
        return KVC_OK;
    const enum kvc_status status = pass_part(&session, 1, source, layer, &part, error);
    if (status == KVC_OK && part.stored) {
        kvc_cache_drop(&session->cache, layer, part.stored);
        session->evictions.touched[layer] = true;
    }
    return status;
}

/* ---- the stages after the rows ---- */

/* Returns a stage that may read the last queries of the prompt. */
static struct kvc_stage window_stage(struct kvc_session *session, uint32_t layer) {
    const struct kvc_geometry *g = &session->runner->geometry;
    const struct kvc_queries *window = &session->prompt.window;
    const size_t first = window->rows * kvc_session_query_set(session, layer) * sizeof(float);
    KVC_ASSERT(layer < session->cache.layers);
    struct kvc_stage stage = kvc_stage_make(session, layer);
    stage.queries = window->rows;
    stage.q = kvc_growable_at(&window->q, first * g->heads * g->head_size);
    stage.maximum = kvc_growable_at(&window->maximum, first * g->heads);
    stage.sum = kvc_growable_at(&window->sum, first * g->heads);
    stage.positions = kvc_growable_at(&window->positions, first);
    stage.causal_offset =
        session->prompt.chunking.chunk ? (struct kvc_span){NULL, 0} : kvc_growable_at(&window->causal_offset, 0);
    stage.host_positions = session->prompt.window_positions;
    return stage;
}

static enum kvc_status end_prompt(struct kvc_session *session, const struct kvc_row_source *source, uint32_t layer,
                                  struct kvc_error *error) {
    const uint64_t away = session->turn - kvc_session_rows(session);
    KVC_ASSERT(kvc_session_rows(session) <= session->turn);
    if (!session->prompt.chunking.chunk)
        session->held[layer] = kvc_expired_left(session, layer, kvc_cache_most(&session->cache, layer) + away);
    session->runner->coordinator->most_of_heads(session, &session->held[layer], 1);
    session->cache.layer[layer].step_most = kvc_policy_step_most(session->policy, layer, &session->runner->model,
                                                                 &session->cache.format, session->held[layer]);
    struct kvc_stage stage = window_stage(session, layer);
    enum kvc_status status = kvc_stage_call_prompt(&stage, error);
    for (uint32_t l = 0; l <= layer; l++) /* the stage may also have shrunk the layers below */
        session->after[l] = kvc_expired_left(session, l, kvc_cache_most(&session->cache, l));
    session->runner->coordinator->most_of_heads(session, session->after, layer + 1);
    if (status == KVC_OK)
        status = kvc_evict_shrink(session, layer + 1, false, error);
    return status == KVC_OK ? kvc_prune_rows(session, source, error) : status;
}

enum kvc_status kvc_pass_end_layers(struct kvc_session *session, const struct kvc_row_source *source, uint32_t layer,
                                    uint32_t passed, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    while (status == KVC_OK && session->prompt.ended <= layer &&
           kvc_policy_decider(session->policy, session->prompt.ended, &session->runner->model,
                              &session->cache.format) <= passed)
        status = end_prompt(session, source, session->prompt.ended++, error);
    return status;
}

/* Runs the policy's stages that follow the computation of the rows: observe, prune rows, evict. */
static enum kvc_status pass_evict(struct kvc_session *session, const struct kvc_row_source *source, uint32_t layer,
                                  struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    if (session->prompt.chunking.chunk) {
        struct kvc_stage stage = kvc_stage_make(session, layer);
        status = kvc_stage_call_chunk(&stage, error);
    }
    if (status == KVC_OK && session->prompt.last_chunk)
        status = kvc_pass_end_layers(session, source, layer, layer, error);
    return status;
}

/* ---- one layer of a pass ---- */

/* Reserves capacity in the layer's lists for all rows of the pass. */
static enum kvc_status pass_reserve(struct kvc_session *session, uint32_t layer, struct kvc_error *error) {
    const struct kvc_prompt *prompt = &session->prompt;
    const uint64_t stored = (uint64_t)prompt->chunk_rows + kvc_prompt_extra_stored(session);
    KVC_ASSERT(!session->cache.layer[layer].stale);
    enum kvc_status status =
        kvc_cache_reserve(&session->cache, layer, stored,
                          kvc_policy_all_columns(session->policy, layer, session->cache.format.head_size), error);
    if (status != KVC_OK || !prompt->kept_rows)
        return status;
    session->evictions.thinned[layer] = true; /* with pruned rows, an index no longer implies a position */
    return kvc_cache_make_order(&session->cache, layer, error);
}

/* Returns true if a method needs the rows while they are computed: it observes attention, or it keeps unrotated
 * keys. */
static bool observes_layer(const struct kvc_session *session, uint32_t layer) {
    const struct kvc_policy *policy = session->policy;
    for (size_t i = 0; i < policy->count; i++)
        if (policy->method[i].policy->attended && session->use[i].acts[layer])
            return true;
    return kvc_policy_cache_positions(policy, layer) != NULL;
}

/* Prepares the session's lists to receive the rows while they are computed. Returns false on failure. */
static bool pass_prepare(struct kvc_session *session, uint32_t layer) {
    session->failure.status = pass_reserve(session, layer, &session->failure);
    session->prompt.has_rows = kvc_session_lives(session);
    if (session->prompt.moment_rows && session->prompt.first_chunk)
        session->prompt.moment_rows[layer] = 0;
    return session->prompt.has_rows;
}

/* Prepares the observing sessions, or one session if none observes. Returns the owner, which is the first of them, or
 * NULL if all have failed. */
static struct kvc_session *choose_owner(struct kvc_session *const *sessions, size_t count, uint32_t layer) {
    struct kvc_session *owner = NULL;
    for (size_t i = 0; i < count; i++) {
        sessions[i]->prompt.has_rows = false;
        if (kvc_session_lives(sessions[i]) && observes_layer(sessions[i], layer) && pass_prepare(sessions[i], layer) &&
            !owner)
            owner = sessions[i];
    }
    for (size_t i = 0; i < count && !owner; i++)
        if (kvc_session_lives(sessions[i]) && pass_prepare(sessions[i], layer))
            owner = sessions[i];
    return owner;
}

/* Finishes the layer for one session: computes the added rows, runs the stages, and frees expired entries. */
static void end_layer(struct kvc_session *session, const struct kvc_row_source *source, uint32_t layer) {
    const uint32_t rows = session->prompt.chunk_rows;
    const bool prompt_ends = session->prompt.last_chunk;
    struct kvc_error *error = &session->failure;
    enum kvc_status status = pass_extra(session, source, layer, error);
    if (status == KVC_OK)
        status = pass_evict(session, source, layer, error);
    if (status == KVC_OK && (prompt_ends || !kvc_stage_decides(session, layer))) {
        const uint64_t rows_passed = prompt_ends ? session->turn : session->prompt.chunk_from + (uint64_t)rows;
        status = kvc_expired_free(session, layer, session->tokens + rows_passed, error);
    }
    session->failure.status = status;
}

/* Increases each session's count of clipped values by the number of values that this session would clip if it ran
 * alone. `saturated` is the device's count before the rows were stored. A session with one list per query head stores
 * every value once for each head of the group. */
static enum kvc_status divide_saturated(struct kvc_session *const *sessions, size_t count, uint32_t layer,
                                        uint64_t saturated, struct kvc_error *error) {
    struct kvc_device *device = sessions[0]->runner->device;
    const enum kvc_status status = device->ops->sync(device, error);
    uint64_t stored = 0;
    for (size_t i = 0; i < count; i++)
        if (sessions[i]->prompt.has_rows)
            stored += sessions[i]->cache.layer[layer].lists.kv_heads;
    KVC_ASSERT(stored > 0 && device->saturated >= saturated);
    for (size_t i = 0; i < count && device->saturated > saturated; i++)
        sessions[i]->sums.saturated +=
            (device->saturated - saturated) * sessions[i]->cache.layer[layer].lists.kv_heads / stored;
    return status;
}

/* Copies the owner's rows to a session that did not append them itself, and finishes the layer for that session. */
static enum kvc_status end_shared_layer(struct kvc_session *session, const struct kvc_session *owner,
                                        const struct kvc_row_source *source, uint32_t layer, struct kvc_error *error) {
    struct kvc_device *device = session->runner->device;
    const uint64_t saturated = device->saturated;
    if (!kvc_session_lives(session))
        return KVC_OK;
    KVC_ASSERT(session->prompt.chunk_rows == owner->prompt.chunk_rows && session->turn == owner->turn);
    if (!session->prompt.has_rows && pass_prepare(session, layer))
        kvc_cache_copy(&session->cache, &owner->cache, layer);
    if (kvc_session_lives(session))
        end_layer(session, source, layer);
    const enum kvc_status status = device->ops->sync(device, error);
    session->sums.saturated += device->saturated - saturated;
    return status;
}

enum kvc_status kvc_pass_layer(struct kvc_session *const *sessions, size_t count, const struct kvc_row_source *source,
                               uint32_t layer, struct kvc_error *error) {
    struct kvc_session *owner = choose_owner(sessions, count, layer);
    if (!owner)
        return kvc_prompts_live(sessions, count, error);
    const uint32_t rows = owner->prompt.chunk_rows;
    KVC_ASSERT(rows > 0 && owner->chunk > 0);
    const uint64_t saturated = owner->runner->device->saturated;
    enum kvc_status status = KVC_OK;
    for (uint32_t row = 0, some; row < rows && status == KVC_OK; row += some) {
        some = kvc_min_u32(rows - row, owner->chunk);
        const struct kvc_row_span part = {row, some, some, KVC_ROWS_PROMPT, owner};
        KVC_ASSERT(row + (uint64_t)some <= rows);
        status = pass_part(sessions, count, source, layer, &part, error);
        if (status == KVC_OK)
            status = kvc_prompts_live(sessions, count, error);
    }
    if (status == KVC_OK && count == 1)
        end_layer(owner, source, layer);
    if (status == KVC_OK && count > 1)
        status = divide_saturated(sessions, count, layer, saturated, error);
    for (size_t i = 0; i < count && count > 1 && status == KVC_OK; i++)
        if (sessions[i] != owner)
            status = end_shared_layer(sessions[i], owner, source, layer, error);
    if (status == KVC_OK && count > 1)
        status = end_shared_layer(owner, owner, source, layer, error);
    return status == KVC_OK ? kvc_prompts_live(sessions, count, error) : status;
}
