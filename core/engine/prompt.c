/* prompt.c - runs prompts through a network: pass by pass, layer by layer, and computes the logits that the caller
 * wants. If several sessions have prompts of the same rows (prompt_many.c), the rows are computed once, and each
 * session runs its own stages. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/engine/coordinator.h"
#include "core/engine/fill.h"
#include "core/engine/finite.h"
#include "core/engine/look.h"
#include "core/engine/pass.h"
#include "core/engine/prompt.h"
#include "core/engine/trace.h"

#include <stdlib.h>
#include <string.h>

bool kvc_prompt_long_rope(const struct kvc_session *session, uint32_t rows) {
    const struct kvc_rope *rope = &session->runner->network->rope[0];
    const uint64_t length = kvc_max_u64(session->context, rows);
    return session->tokens ? session->long_rope : rope->long_frequency && length > rope->original_context;
}

/* Passes the logits of a pass's rows to the caller, with row numbers of the prompt. `logits` has room for
 * KVC_LOGIT_ROWS rows, or for all rows of a shorter prompt. */
static enum kvc_status report_rows(struct kvc_session *session, const struct kvc_prompt_options *options, float *logits,
                                   struct kvc_error *error) {
    struct kvc_runner *runner = session->runner;
    const uint32_t vocab = runner->network->vocab, first = session->prompt.chunk_from;
    const uint32_t rows = session->prompt.chunk_rows;
    for (uint32_t from = 0; from < rows; from += KVC_LOGIT_ROWS) {
        const uint32_t count = kvc_min_u32(rows - from, KVC_LOGIT_ROWS);
        KVC_ASSERT(from + count <= runner->prompt.rows);
        enum kvc_status status = kvc_runner_logits(runner, &runner->prompt, from, count, logits, error);
        if (status == KVC_OK)
            status = runner->device->ops->sync(runner->device, error);
        if (status != KVC_OK)
            return status;
        for (uint32_t i = 0; i < count; i++) {
            if (!options->synthetic)
                status =
                    kvc_finite_logits(runner, logits + (size_t)i * vocab, session->tokens + first + from + i, error);
            if (status != KVC_OK)
                return status;
            if (options->row(options->user, first + from + i, logits + (size_t)i * vocab))
                return kvc_fail(error, KVC_USAGE, "prompt: stopped by the caller at row %u", first + from + i);
        }
    }
    return KVC_OK;
}

/* A prompt that is being computed. */
struct prompt {
    struct kvc_session *const *sessions; /* [count]: the sessions that share the prompt */
    size_t count;
    struct kvc_session *session; /* the first session; all have the same rows, chunks and positions */
    const struct kvc_prompt_options *options;
    float *row_logits;
    uint64_t done;              /* rows times layers computed so far */
    struct kvc_fill *fill;      /* NULL: the network computes the rows */
    struct kvc_passing passing; /* the rows of the current pass; its status covers all passes */
};

static enum kvc_status load_rows(void *user, const int32_t *tokens, const int32_t *positions,
                                 const uint32_t *causal_offset, uint32_t rows, struct kvc_error *error) {
    struct kvc_session *session = ((struct prompt *)user)->session;
    struct kvc_runner *runner = session->runner;
    bool *long_factors = malloc(rows * sizeof *long_factors);
    if (!long_factors)
        return kvc_fail(error, KVC_RESOURCE, "session: no memory for %u rows", rows);
    memset(long_factors, session->long_rope, rows * sizeof *long_factors);
    const enum kvc_status status =
        kvc_batch_fill(runner, &runner->prompt, tokens, positions, long_factors, rows, error);
    if (status == KVC_OK)
        runner->device->ops->upload(runner->device, kvc_growable_at(&runner->prompt.causal_offset, 0), causal_offset,
                                    rows * sizeof *causal_offset);
    free(long_factors);
    return status;
}

/* Checks rows of the pass from `row` on after a layer (-1: before the first). If the caller wants every row's logits,
 * all rows are checked; otherwise only the last row of the pass, which attends to the others. */
static enum kvc_status check_rows(const struct prompt *prompt, int64_t layer, uint32_t row, uint32_t rows,
                                  struct kvc_error *error) {
    const struct kvc_session *session = prompt->session;
    const bool all = prompt->options && prompt->options->row, last = row + rows == session->prompt.chunk_rows;
    if (prompt->fill || !(all || last))
        return KVC_OK;
    struct kvc_runner *runner = session->runner;
    const uint32_t from = all ? row : row + rows - 1;
    KVC_ASSERT(from < runner->prompt.rows);
    const uint64_t begin = session->tokens + session->prompt.chunk_from;
    const uint64_t position =
        session->prompt.kept_rows ? session->tokens + session->prompt.kept_rows[from] : begin + from;
    const enum kvc_status status =
        kvc_finite_hidden(runner, &runner->prompt, layer, from, all ? rows : 1, position, error);
    if (status == KVC_INPUT && layer == 0) { /* the row may have attended to a row whose embedding is not finite */
        kvc_runner_embed(runner, &runner->prompt);
        (void)kvc_finite_hidden(runner, &runner->prompt, -1, 0, session->prompt.chunk_rows, begin, error);
    }
    return status;
}

/* Called before attention: writes q to the runner's buffer, and returns where k and v are. */
static enum kvc_status project_rows(void *user, uint32_t layer, const struct kvc_row_span *part,
                                    struct kvc_projected *projected, struct kvc_error *error) {
    struct prompt *prompt = user;
    struct kvc_session *session = part->session;
    struct kvc_runner *runner = session->runner;
    (void)error;
    if (prompt->fill) {
        kvc_fill_project(prompt->fill, session, part, projected);
        return KVC_OK;
    }
    kvc_runner_project_queries_keys(runner, &runner->prompt, layer, part->row, part->rows);
    kvc_cache_positions_rotate(session, layer, 0, part->rows);
    kvc_runner_project_values(runner, layer, part->rows);
    projected->k = kvc_growable_at(&runner->k, 0);
    projected->v = kvc_growable_at(&runner->v, 0);
    return KVC_OK;
}

/* Calls the caller's progress function. `left` is what remains to be computed, in rows times layers. */
static enum kvc_status call_progress(const struct prompt *prompt, uint64_t left, struct kvc_error *error) {
    const struct kvc_prompt_options *options = prompt->options;
    if (options->progress(options->user, prompt->done, prompt->done + left))
        return kvc_fail(error, KVC_USAGE, "prompt: stopped by the caller");
    return KVC_OK;
}

/* Reports progress after a part of a layer. */
static enum kvc_status report_progress(struct prompt *prompt, uint32_t layer, const struct kvc_row_span *part,
                                       struct kvc_error *error) {
    const struct kvc_session *session = prompt->session;
    const struct kvc_prompt_options *options = prompt->options;
    const uint32_t layers = session->cache.layers;
    /* what remains in this layer, in the layers above and in later chunks; an overestimate after token pruning */
    const uint64_t left = (uint64_t)(layers - layer) * session->prompt.chunk_rows - part->row - part->rows +
                          (session->prompt.last_chunk
                               ? 0
                               : layers * (session->turn - session->prompt.chunk_from - session->prompt.chunk_rows));
    if (!options || !options->progress || prompt->passing.whole_passes)
        return KVC_OK;
    return call_progress(prompt, left, error);
}

/* Called after attention: runs the feed-forward network, then checks the prompt's own rows and reports progress. */
static enum kvc_status feed_rows_forward(void *user, uint32_t layer, const struct kvc_row_span *part,
                                         struct kvc_error *error) {
    struct prompt *prompt = user;
    struct kvc_session *session = prompt->session;
    struct kvc_runner *runner = session->runner;
    const struct kvc_prompt_options *options = prompt->options;
    if (!prompt->fill) {
        kvc_runner_project_output(runner, &runner->prompt, layer, part->row, part->rows);
        kvc_runner_feed_forward(runner, &runner->prompt, layer, part->row, part->rows);
    }
    enum kvc_status status = kvc_look_end(runner, error); /* the callback below may run steps of other sessions */
    if (status != KVC_OK || part->kind != KVC_ROWS_PROMPT)
        return status;
    status = check_rows(prompt, layer, part->row, part->rows, error);
    if (status == KVC_OK && layer == session->cache.layers - 1 && options && options->row && session->prompt.kept_rows)
        status = kvc_fail(error, KVC_USAGE,
                          "prompt: the logits of every row were requested, but policy %s keeps %u of %llu rows",
                          session->policy->spec, session->prompt.kept_row_count, (unsigned long long)session->turn);
    prompt->done += part->rows;
    return status == KVC_OK ? report_progress(prompt, layer, part, error) : status;
}

static enum kvc_status gather_rows(void *user, const uint32_t *index, uint32_t rows, struct kvc_error *error) {
    struct kvc_runner *runner = ((struct prompt *)user)->session->runner;
    return kvc_batch_gather(runner, &runner->prompt, index, rows, error);
}

/* Runs rows of the pass through a delta net from a session's state. If `kept` is true, the rows update the state. */
static void delta_rows(const struct prompt *prompt, const struct kvc_session *session, uint32_t delta, uint32_t row,
                       uint32_t rows, bool kept) {
    struct kvc_runner *runner = session->runner;
    const struct kvc_recurrence segment = {.state = kvc_session_recurrent(session, delta), .rows = rows, .kept = kept};
    if (rows)
        kvc_runner_delta(runner, &prompt->session->runner->prompt, delta, row, rows, &segment, 1);
}

/* Runs the pass's rows through a delta net. Rows that methods added do not change the state. Sessions that share the
 * rows have equal states before and after. */
static enum kvc_status pass_delta_net(const struct prompt *prompt, uint32_t delta, struct kvc_error *error) {
    struct kvc_device *device = prompt->session->runner->device;
    const struct kvc_session *first = prompt->session;
    const size_t bytes = (size_t)kvc_delta_state_of(&first->runner->network->delta).floats * sizeof(float);
    const uint32_t rows = first->prompt.chunk_rows;
    enum kvc_status status = KVC_OK;
    for (uint32_t row = 0, some; row < rows && status == KVC_OK; row += some) {
        some = kvc_min_u32(rows - row, first->chunk);
        status = kvc_look_begin(first->runner, error);
        if (status == KVC_OK) {
            delta_rows(prompt, first, delta, row, some, true);
            status = kvc_look_end(first->runner, error);
        }
    }
    for (size_t i = 0; i < prompt->count && status == KVC_OK; i++) {
        const struct kvc_session *session = prompt->sessions[i];
        if (session != first)
            device->ops->copy(device, kvc_session_recurrent(session, delta), kvc_session_recurrent(first, delta),
                              bytes);
        if (kvc_session_lives(session))
            delta_rows(prompt, session, delta, session->prompt.extra_from, kvc_prompt_extra_rows(session), false);
    }
    return status;
}

/* Runs the rows through the delta nets below an attention layer. */
static enum kvc_status pass_delta(const struct prompt *prompt, uint32_t layer, struct kvc_error *error) {
    const struct kvc_layer *above = &prompt->session->runner->network->layer[layer];
    enum kvc_status status = KVC_OK;
    for (uint32_t i = 0; i < above->delta_count && !prompt->fill && status == KVC_OK; i++)
        status = pass_delta_net(prompt, above->delta_from + i, error);
    return status;
}

/* Runs the rows of a pass through a layer. */
static enum kvc_status run_layer(const struct kvc_passing *rows, uint32_t layer) {
    const struct prompt *prompt = rows->user;
    struct kvc_device *device = rows->runner->device;
    enum kvc_status status = pass_delta(prompt, layer, rows->error);
    if (status == KVC_OK)
        status = kvc_pass_layer(prompt->sessions, prompt->count, rows->source, layer, rows->error);
    return status == KVC_OK ? device->ops->sync(device, rows->error) : status;
}

/* Begins the pass of rows from .. from+rows-1 and embeds them. */
static enum kvc_status begin_pass(struct prompt *prompt, uint32_t from, uint32_t rows, struct kvc_error *error) {
    struct kvc_runner *runner = prompt->session->runner;
    const enum kvc_status status =
        kvc_pass_begin(prompt->sessions, prompt->count, prompt->passing.source, from, rows, error);
    if (status != KVC_OK)
        return status;
    kvc_trace_sessions(runner->engine->trace, &prompt->session, 1);
    kvc_runner_embed(runner, &runner->prompt);
    return check_rows(prompt, -1, 0, prompt->session->prompt.chunk_rows, error);
}

/* Runs the rows of one pass through all layers. */
static enum kvc_status run_pass(struct prompt *prompt, uint32_t from, uint32_t rows) {
    struct kvc_passing *passing = &prompt->passing;
    if (passing->status == KVC_OK) /* otherwise, the coordinator only reports the failure */
        passing->status = begin_pass(prompt, from, rows, passing->error);
    passing->rows = prompt->fill ? 0 : passing->batch->rows;
    return passing->runner->coordinator->pass(passing);
}

/* Reports a pass to the caller, which may stop the prompt. `to` is the number of rows that have passed. */
static enum kvc_status report_pass(struct prompt *prompt, uint64_t to, struct kvc_error *error) {
    struct kvc_session *session = prompt->session;
    const struct kvc_prompt_options *options = prompt->options;
    const uint64_t layers = session->cache.layers;
    enum kvc_status status = KVC_OK;
    if (!options)
        return KVC_OK;
    if (options->row)
        status = report_rows(session, options, prompt->row_logits, error);
    if (status == KVC_OK && options->progress && prompt->passing.whole_passes) {
        prompt->done = to * layers;
        status = call_progress(prompt, (session->turn - to) * layers, error);
    }
    if (status == KVC_OK && options->chunk && session->prompt.chunking.chunk && options->chunk(options->user, to))
        status = kvc_fail(error, KVC_USAGE, "prompt: stopped by the caller");
    return status;
}

/* Runs the rows pass by pass. A pass has all rows, or a chunk if the policy cuts the prompt. */
static enum kvc_status run_passes(struct prompt *prompt, uint32_t count, struct kvc_error *error) {
    const struct kvc_coordinator *coordinator = prompt->session->runner->coordinator;
    const struct kvc_prompt_options *options = prompt->options;
    const uint32_t most =
        coordinator->begin_passes(&prompt->passing, !options || !(options->row || options->synthetic));
    const uint32_t chunk = prompt->session->prompt.chunking.chunk;
    enum kvc_status status = KVC_OK;
    for (uint32_t from = 0, rows; from < count && status == KVC_OK; from += rows) {
        rows = kvc_min_u32(count - from, chunk ? chunk : most);
        status = run_pass(prompt, from, rows);
        if (status == KVC_OK)
            status = report_pass(prompt, from + rows, error);
    }
    return coordinator->end_passes(&prompt->passing, status);
}

enum kvc_status kvc_prompt_start(struct kvc_session *session, const int32_t *tokens, uint32_t count,
                                 struct kvc_error *error) {
    const enum kvc_status status = kvc_network_check_tokens(session->runner->network, tokens, count, error);
    if (status != KVC_OK)
        return status;
    /* long_rope selects the frequencies of the cosine and sine rows */
    session->long_rope = kvc_prompt_long_rope(session, count);
    return kvc_prompt_begin(session, count, error);
}

/* Reserves the buffers for the rows that are computed at once. */
static enum kvc_status prompt_reserve(struct prompt *prompt, uint32_t count, struct kvc_fill *fill,
                                      struct kvc_error *error) {
    struct kvc_runner *runner = prompt->session->runner;
    const struct kvc_prompt_options *options = prompt->options;
    uint32_t most = 0;
    for (size_t i = 0; i < prompt->count; i++)
        most = kvc_max_u32(most, kvc_prompt_rows_most(prompt->sessions[i], count));
    if (options && options->row) {
        const size_t rows = kvc_min_u32(count, KVC_LOGIT_ROWS);
        prompt->row_logits = malloc(rows * runner->network->vocab * sizeof(float));
        if (!prompt->row_logits)
            return kvc_fail(error, KVC_RESOURCE, "prompt: no memory for %zu rows of logits", rows);
    }
    enum kvc_status status = kvc_runner_reserve(runner, most, 1, error);
    if (status == KVC_OK && options && options->synthetic) {
        prompt->fill = fill;
        status = kvc_fill_open(fill, prompt->session, most, error);
    }
    return status;
}

enum kvc_status kvc_prompt_run(struct kvc_session *const *sessions, size_t session_count, const int32_t *tokens,
                               uint32_t count, const struct kvc_prompt_options *options, float *logits,
                               struct kvc_error *error) {
    struct kvc_session *session = sessions[0];
    struct kvc_runner *runner = session->runner;
    struct kvc_device *device = runner->device;
    struct kvc_fill fill;
    struct prompt prompt = {.sessions = sessions, .count = session_count, .session = session, .options = options};
    const struct kvc_row_source source = {&prompt, tokens, 0, load_rows, project_rows, feed_rows_forward, gather_rows};
    const uint64_t saturated = device->saturated;
    enum kvc_status status = prompt_reserve(&prompt, count, &fill, error);
    prompt.passing = (struct kvc_passing){.runner = runner,
                                          .batch = &runner->prompt,
                                          .sessions = sessions,
                                          .count = session_count,
                                          .error = error,
                                          .source = &source,
                                          .layer = run_layer,
                                          .user = &prompt};
    if (status == KVC_OK)
        status = run_passes(&prompt, count, error);
    if (status == KVC_OK && logits)
        status = kvc_runner_logits(runner, &runner->prompt, session->prompt.chunk_rows - 1, 1, logits, error);
    if (status == KVC_OK)
        status = device->ops->sync(device, error);
    if (status == KVC_OK && logits && !prompt.fill)
        status = kvc_finite_logits(runner, logits, session->tokens + count - 1, error);
    free(prompt.row_logits);
    if (prompt.fill)
        kvc_fill_close(&fill, session);
    kvc_batch_free(runner, &runner->prompt);
    if (session_count == 1) /* with several sessions, pass.c counts clipped values for each */
        session->sums.saturated += device->saturated - saturated;
    for (size_t i = 0; i < session_count && status == KVC_OK; i++)
        if (kvc_session_lives(sessions[i]))
            kvc_prompt_end(sessions[i]);
    return status;
}
