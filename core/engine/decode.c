/* decode.c - decode steps of one or more sessions in one batch. In file order: a layer (kvc_step_layer), all layers and
 * the logits (run_step), the step's preparation and the result of each session (take_step), and the public function
 * (kvc_decode). */
#include "core/base/assert.h"
#include "core/base/float.h"
#include "core/base/integers.h"
#include "core/engine/advice.h"
#include "core/engine/centre.h"
#include "core/engine/coordinator.h"
#include "core/engine/decode.h"
#include "core/engine/finite.h"
#include "core/engine/participants.h"
#include "core/engine/prepare_step.h"
#include "core/engine/trace.h"
#include "core/stage/stage_call.h"

#define SESSIONS_MOST 65536u

/* ---- one layer ---- */

/* Returns row i of a scratch buffer whose rows have `width` floats. */
static struct kvc_span row_of(const struct kvc_growable *growable, uint32_t i, size_t width) {
    return kvc_growable_at(growable, i * width * sizeof(float));
}

/* Returns how many consecutive sessions, beginning with the i-th, have entries of the same types. */
static uint32_t same_types(const struct kvc_step *step, uint32_t i) {
    const struct kvc_entry_types types = kvc_session_cache_type(step->session[i]);
    uint32_t n = 1;
    while (i + n < step->count && kvc_entry_types_equal(kvc_session_cache_type(step->session[i + n]), types))
        n++;
    return n;
}

/* Computes the rows' queries, keys and values, and transforms and centres them as the cache requires. If a method has
 * positions=cache, the queries and keys are rotated by their indices instead of their positions. */
static void project(const struct kvc_step *step, uint32_t layer) {
    kvc_runner_project_queries_keys(step->runner, &step->runner->step, layer, step->first, step->count);
    for (uint32_t i = 0; i < step->count; i++)
        kvc_cache_positions_rotate(step->session[i], layer, i, 1);
    kvc_runner_project_values(step->runner, layer, step->count);
    const size_t width = (size_t)step->runner->geometry.kv_heads * step->runner->geometry.head_size;
    for (uint32_t i = 0; i < step->count; i++)
        kvc_centre_smooth(
            step->session[i], layer,
            row_of(&step->runner->q, i, (size_t)step->runner->geometry.heads * step->runner->geometry.head_size), true,
            row_of(&step->runner->k, i, width), 1, step->stored);
    for (uint32_t i = 0, rows; i < step->count; i += rows) {
        rows = same_types(step, i);
        kvc_runner_transform(step->runner, &step->session[i]->cache.format, i, rows, row_of(&step->runner->k, 0, 0),
                             row_of(&step->runner->v, 0, 0));
    }
    for (uint32_t i = 0; i < step->count; i++)
        kvc_centre_keys(&step->session[i], 1, layer, row_of(&step->runner->k, i, width), 1, step->stored);
}

/* Appends each row's key and value to its session's lists. If a select method keeps a view (a subset of the entries),
 * the new entry also joins the view. */
static void step_append(const struct kvc_step *step, uint32_t layer) {
    struct kvc_runner *runner = step->runner;
    KVC_ASSERT(step->stored <= 1);
    for (uint32_t i = 0; i < step->count; i++)
        runner->segments[i] = (struct kvc_segment){.lists = &step->session[i]->cache.layer[layer].lists,
                                                   .row = i,
                                                   .rows = 1,
                                                   .stored = step->stored,
                                                   .bytes_read = &step->session[i]->sums.read_bytes};
    kvc_runner_append(runner, runner->segments, step->count, kvc_growable_at(&runner->k, 0),
                      kvc_growable_at(&runner->v, 0),
                      kvc_growable_at(&runner->step.positions, step->first * sizeof(int32_t)));
    for (uint32_t i = 0; i < step->count; i++) {
        kvc_cache_appended(&step->session[i]->cache, layer, step->stored);
        kvc_cache_positions_keep(step->session[i], layer, i, step->stored);
        if (step->stored)
            kvc_select_appended(step->session[i], layer);
    }
}

/* Returns the entries that the session's query reads, or NULL if it reads all of them. */
static const struct kvc_read_list *select_reads(const struct kvc_step *step, uint32_t i, uint32_t layer) {
    struct kvc_session *session = step->session[i];
    session->select.mixing = false;
    if (session->failed || !kvc_policy_owner(session->policy, KVC_STAGE_SELECT))
        return NULL;
    struct kvc_stage stage = kvc_stage_make(session, layer);
    kvc_stage_set_rows(&stage, &step->runner->step, i, step->first + i, 1);
    stage.maximum = stage.sum = (struct kvc_span){NULL, 0}; /* not known before attention */
    session->failed = kvc_stage_call_select(&stage, &session->failure) != KVC_OK;
    session->select.mixing = !session->failed && stage.mean_value;
    KVC_ASSERT(session->failed || !stage.mean_value || stage.chosen == &session->select.chosen);
    return session->failed ? NULL : stage.chosen;
}

static void select_entries(const struct kvc_step *step, uint32_t layer) {
    for (uint32_t i = 0; i < step->count; i++)
        step->runner->segments[i].reads = select_reads(step, i, layer);
}

/* Computes attention over the selected entries. Some methods then blend in the mean of the unselected entries' value
 * vectors. */
static void step_attend(const struct kvc_step *step, uint32_t layer) {
    struct kvc_runner *runner = step->runner;
    const size_t width = (size_t)runner->geometry.heads * runner->geometry.head_size;
    kvc_runner_attend(runner, &runner->step, layer, step->first, 0, runner->segments, step->count);
    for (uint32_t i = 0; i < step->count; i++)
        if (!step->session[i]->failed)
            kvc_select_mix(step->session[i], layer, runner->segments[i].reads, row_of(&runner->attended, i, width));
    for (uint32_t i = 0, rows; i < step->count; i += rows) {
        rows = same_types(step, i);
        kvc_runner_transform_back(runner, &step->session[i]->cache.format, i, rows);
    }
}

/* Sends the attention output and the list of read entries to the session's observers. */
static enum kvc_status report(const struct kvc_step *step, uint32_t i, uint32_t layer) {
    struct kvc_session *session = step->session[i];
    const struct kvc_geometry *g = &step->runner->geometry;
    kvc_record_output(session, layer, row_of(&step->runner->attended, i, (size_t)g->heads * g->head_size));
    return kvc_record_reads(session, layer, step->runner->segments[i].reads, &session->failure);
}

/* Calls the decode stage of a session. The stage's method may read the query's scores and evict entries. */
static enum kvc_status run_decode_stage(const struct kvc_step *step, uint32_t i, uint32_t layer) {
    struct kvc_session *session = step->session[i];
    struct kvc_stage stage = kvc_stage_make(session, layer);
    kvc_stage_set_rows(&stage, &step->runner->step, i, step->first + i, 1);
    stage.reads = step->runner->segments[i].reads;
    return kvc_stage_call_decode(&stage, &session->failure);
}

static void step_evict(const struct kvc_step *step, uint32_t layer) {
    for (uint32_t i = 0; i < step->count; i++) {
        struct kvc_session *session = step->session[i];
        if (session->failed)
            continue;
        session->failed = report(step, i, layer) != KVC_OK || run_decode_stage(step, i, layer) != KVC_OK;
    }
}

/* Adds the output projection of the attention output to the hidden states, then the output of the feed-forward network.
 */
static void feed_forward(const struct kvc_step *step, uint32_t layer) {
    kvc_runner_project_output(step->runner, &step->runner->step, layer, step->first, step->count);
    kvc_runner_feed_forward(step->runner, &step->runner->step, layer, step->first, step->count);
}

/* Runs the rows through the delta nets below an attention layer. */
static void pass_delta(const struct kvc_step *step, uint32_t layer) {
    struct kvc_runner *runner = step->runner;
    const struct kvc_layer *above = &runner->network->layer[layer];
    KVC_ASSERT(above->delta_from + above->delta_count <= runner->network->delta.count);
    for (uint32_t d = above->delta_from; d < above->delta_from + above->delta_count; d++) {
        for (uint32_t i = 0; i < step->count; i++)
            runner->recurrences[i] = (struct kvc_recurrence){
                .state = kvc_session_recurrent(step->session[i], d), .row = i, .rows = 1, .kept = step->stored > 0};
        kvc_runner_delta(runner, &runner->step, d, step->first, step->count, runner->recurrences, step->count);
    }
}

/* Declares the rows to the engine's trace. */
static void trace_rows(const struct kvc_step *step, uint32_t layer) {
    struct kvc_trace *trace = step->runner->engine->trace;
    kvc_trace_rows(trace, KVC_TRACE_LAYER, layer, &step->runner->step, step->first, step->count);
}

void kvc_step_layer(const struct kvc_step *step, uint32_t layer) {
    const bool replay = !step->runner->network; /* a replay supplies q, k and v and uses only the attention output */
    KVC_ASSERT(step->count > 0 && step->count <= step->runner->segment_capacity);
    if (!replay)
        pass_delta(step, layer);
    trace_rows(step, layer);
    if (!replay)
        project(step, layer);
    step_append(step, layer);
    select_entries(step, layer);
    step_attend(step, layer);
    step_evict(step, layer);
    if (!replay)
        feed_forward(step, layer);
}

/* ---- all layers and the logits ---- */

/* Runs rows of runner->step through a layer. */
static enum kvc_status run_layer(const struct kvc_passing *rows, uint32_t layer) {
    const struct kvc_step step = {
        .runner = rows->runner, .session = rows->sessions, .count = rows->rows, .first = rows->row, .stored = 1};
    kvc_step_layer(&step, layer);
    return KVC_OK; /* a method's failure fails its session only */
}

/* Computes the logits of the sessions that have not failed, each to its row of `logits`. Consecutive rows share one
 * call. */
static enum kvc_status step_logits(struct kvc_runner *runner, const struct kvc_participants *participants,
                                   float *logits, struct kvc_error *error) {
    for (uint32_t from = 0; from < participants->count;) {
        const uint32_t row = participants->row[from];
        uint32_t count = 0;
        while (from + count < participants->count && count < KVC_LOGIT_ROWS &&
               !participants->session[from + count]->failed && participants->row[from + count] == row + count)
            count++;
        KVC_ASSERT(participants->row[from] >= from);
        const enum kvc_status status = count ? kvc_runner_logits(runner, &runner->step, from, count,
                                                                 logits + (size_t)row * runner->network->vocab, error)
                                             : KVC_OK;
        if (status != KVC_OK)
            return status;
        from += count ? count : 1; /* skip one failed session */
    }
    return KVC_OK;
}

/* Runs the step: embeds the rows, runs them through the layers and computes the logits. */
static enum kvc_status run_step(struct kvc_runner *runner, const struct kvc_participants *participants, float *logits,
                                struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    struct kvc_batch *batch = &runner->step;
    const uint32_t count = participants->count;
    struct kvc_passing rows = {.runner = runner,
                               .batch = batch,
                               .rows = count,
                               .sessions = participants->session,
                               .count = count,
                               .layer = run_layer};
    device->ops->zero(device, kvc_growable_at(&batch->causal_offset, 0), count * sizeof(uint32_t));
    kvc_trace_sessions(runner->engine->trace, participants->session, count);
    kvc_runner_embed(runner, batch);
    (void)runner->coordinator->step(&rows);
    const enum kvc_status status = logits ? step_logits(runner, participants, logits, error) : KVC_OK;
    kvc_step_take_counts(runner, participants->session, count);
    return status == KVC_OK ? device->ops->sync(device, error) : status;
}

/* ---- the search for a layer whose output is not finite ---- */

/* Runs the row of one session through a layer again and checks its hidden state. */
static enum kvc_status check_layer(const struct kvc_passing *rows, uint32_t layer) {
    struct kvc_session *session = rows->user;
    const struct kvc_step step = {
        .runner = rows->runner, .session = &session, .count = 1, .first = rows->row, .stored = 0};
    kvc_step_layer(&step, layer);
    return kvc_finite_hidden(rows->runner, rows->batch, layer, rows->row, 1, session->tokens, rows->error);
}

/* Checks the logits of row n of the step that was just computed. If they are not finite, the session fails, and its row
 * is computed again over the session's current entries to find the first layer whose output is not finite. */
static void check_finite(struct kvc_runner *runner, struct kvc_session *session, uint32_t n, const float *logits) {
    struct kvc_error *error = &session->failure;
    struct kvc_passing rows = {.runner = runner,
                               .batch = &runner->step,
                               .row = n,
                               .rows = 1,
                               .error = error,
                               .layer = check_layer,
                               .user = session};
    if (kvc_finite(logits, runner->network->vocab))
        return;
    session->failed = true; /* keeps the policy and observers out of the second computation */
    rows.status = kvc_cache_positions_reserve(session, 1, error);
    if (rows.status == KVC_OK) {
        kvc_runner_embed(runner, rows.batch);
        rows.status = kvc_finite_hidden(runner, rows.batch, -1, n, 1, session->tokens, error);
    }
    if (runner->coordinator->step(&rows) == KVC_OK)
        (void)kvc_finite_logits(runner, logits, session->tokens, error);
}

/* ---- the step of all sessions ---- */

/* Does everything in a step that may fail for lack of memory, before any session changes. */
static enum kvc_status prepare(struct kvc_runner *runner, const struct kvc_participants *participants, bool logits,
                               struct kvc_error *error) {
    enum kvc_status status = kvc_runner_reserve(runner, participants->count, participants->count, error);
    if (status == KVC_OK && logits)
        status = kvc_runner_reserve_logits(runner, kvc_min_u32(participants->count, KVC_LOGIT_ROWS), error);
    const struct kvc_step_shape shape = {.rows = participants->count};
    if (status == KVC_OK && runner->device->ops->prepare)
        status = runner->device->ops->prepare(runner->device, &shape, error);
    if (status == KVC_OK)
        status = kvc_step_reserve_counts(runner, participants->session, participants->count, error);
    if (status == KVC_OK)
        status = kvc_batch_fill(runner, &runner->step, participants->token, participants->position,
                                participants->long_factors, participants->count, error);
    return status;
}

/* Ends the step for a session, and returns its status. A session may fail alone. If the step itself failed, all of its
 * sessions fail. If the step could not be prepared, no session has changed. */
static enum kvc_status end_session(struct kvc_session *session, enum kvc_status all, bool prepared) {
    session->busy = false;
    if (!prepared)
        kvc_step_cancel(session);
    else if (session->failed)
        return session->failure.status;
    else if (all == KVC_OK)
        kvc_step_end(session);
    else
        session->failed = true;
    return all;
}

/* Runs the step of the sessions that joined and ends it for each of them. Returns the first failure. */
static enum kvc_status take_step(struct kvc_runner *runner, const struct kvc_participants *participants, float *logits,
                                 enum kvc_status *statuses, struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    const uint64_t saturated = device->saturated;
    enum kvc_status first = prepare(runner, participants, logits != NULL, error);
    const bool prepared = first == KVC_OK;
    if (prepared)
        first = run_step(runner, participants, logits, error);
    const enum kvc_status all = first; /* the status that all sessions share */
    for (uint32_t n = 0; n < participants->count; n++) {
        struct kvc_session *session = participants->session[n];
        const uint32_t row = participants->row[n];
        session->sums.saturated += device->saturated - saturated;
        if (all == KVC_OK && logits && !session->failed)
            check_finite(runner, session, n, logits + (size_t)row * runner->network->vocab);
        const enum kvc_status status = end_session(session, all, prepared);
        if (status != KVC_OK && first == KVC_OK)
            first = kvc_fail(error, status, "decode: session %u: %s", row, session->failure.text);
        if (statuses)
            statuses[row] = status;
    }
    return first;
}

/* Runs a step of all sessions that can take part. Returns the first failure. A session that cannot take part counts as
 * a failure. */
static enum kvc_status decode_batch(struct kvc_session *const *sessions, const int32_t *tokens, size_t count,
                                    float *logits, enum kvc_status *statuses, struct kvc_participants *participants,
                                    struct kvc_error *error) {
    struct kvc_runner *runner = sessions[0]->runner;
    enum kvc_status first = KVC_OK;
    for (size_t i = 0; i < count; i++) {
        struct kvc_error cause;
        enum kvc_status status = kvc_participants_join(participants, sessions[i], i, tokens[i], runner, &cause);
        status = kvc_advise(sessions[i], sessions[i]->tokens + 1, status, &cause);
        if (status == KVC_RESOURCE)
            runner->coordinator->lacks_memory(runner, cause.text);
        if (statuses)
            statuses[i] = status;
        if (status != KVC_OK && first == KVC_OK) {
            first = status;
            if (error)
                *error = cause;
        }
    }
    if (participants->count == 0)
        return first;
    KVC_ASSERT(participants->count <= count);
    const enum kvc_status status = take_step(runner, participants, logits, statuses, first ? NULL : error);
    return first == KVC_OK ? kvc_advise(sessions[0], sessions[0]->tokens + 1, status, error) : first;
}

static enum kvc_status fail_all(enum kvc_status *statuses, size_t count, enum kvc_status status) {
    for (size_t i = 0; statuses && i < count; i++)
        statuses[i] = status;
    return status;
}

enum kvc_status kvc_decode(struct kvc_session *const *sessions, const int32_t *tokens, size_t count, float *logits,
                           enum kvc_status *statuses, struct kvc_error *error) {
    if (count == 0)
        return KVC_OK;
    if (count > SESSIONS_MOST)
        return fail_all(statuses, count,
                        kvc_fail(error, KVC_USAGE, "decode: %zu sessions; at most %u at once", count, SESSIONS_MOST));
    const struct kvc_runner *runner = sessions[0]->runner;
    KVC_ASSERT(runner->network); /* callers get the session of a replay as const, so they cannot pass it here */
    runner->coordinator->begin_decode(sessions, count, tokens, logits != NULL);
    struct kvc_participants participants;
    const uint64_t environment = kvc_float_open();
    const enum kvc_status status =
        kvc_participants_create(&participants, count)
            ? decode_batch(sessions, tokens, count, logits, statuses, &participants, error)
            : fail_all(statuses, count, kvc_fail(error, KVC_RESOURCE, "decode: no memory for %zu rows", count));
    kvc_participants_free(&participants);
    kvc_float_close(environment);
    return runner->coordinator->end(runner, status, error);
}
