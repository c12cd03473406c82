/* prompt.c - runs prompts through a network: pass by pass, layer by layer, and computes the logits that the caller
 * wants. If several sessions have prompts of the same rows (prompt_many.c), the rows are computed once, and each
 * session runs its own stages. */
#include "core/base/float.h"
#include "core/base/integers.h"
#include "core/engine/fill.h"
#include "core/engine/finite.h"
#include "core/engine/pass.h"
#include "core/engine/pipeline.h"
#include "core/engine/advice.h"
#include "core/engine/prompt.h"

#include <stdlib.h>
#include <string.h>

bool kvc_prompt_long_rope(const struct kvc_session *session, uint32_t rows) {
    const struct kvc_rope *rope = &session->runner->network->rope[0];
    const uint64_t length = kvc_max_u64(session->context, rows);
    return session->tokens ? session->long_rope : rope->long_frequency && length > rope->original_context;
}

/* Passes the logits of rows of a pass to the caller, with row numbers of the prompt. */
static enum kvc_status report_rows(struct kvc_session *session, uint32_t row, uint32_t rows,
                                   const struct kvc_prompt_options *options, float *logits, struct kvc_error *error) {
    struct kvc_runner *runner = session->runner;
    const uint32_t vocab = runner->network->vocab, first = session->prompt.chunk_from;
    for (uint32_t from = row; from < row + rows; from += KVC_LOGIT_ROWS) {
        const uint32_t count = kvc_min_u32(row + rows - from, KVC_LOGIT_ROWS);
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
            const unsigned depth = kvc_call_out(kvc_session_ranks(session));
            const int stop = options->row(options->user, first + from + i, logits + (size_t)i * vocab);
            if (kvc_call_back(kvc_session_ranks(session), depth, stop))
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
    uint64_t done;              /* row-layers computed */
    struct kvc_fill *fill;      /* NULL: the network computes the rows */
    struct kvc_passing passing; /* the pass in flight between ranks; its status covers all passes */
    /* in a pipeline (pipeline.h): */
    uint32_t lead;       /* how many passes this rank may run ahead of the last status it received */
    uint32_t unreceived; /* passes sent whose status has not been received */
    uint32_t late;       /* last rank: number of passes from the failed pass on; 0: none has failed */
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
 * it checks all rows; otherwise only the last row of the pass, which attends to the others. */
static enum kvc_status check_rows(const struct prompt *prompt, int64_t layer, uint32_t row, uint32_t rows,
                                  struct kvc_error *error) {
    const struct kvc_session *session = prompt->session;
    const bool all = prompt->options && prompt->options->row, last = row + rows == session->prompt.chunk_rows;
    if (prompt->fill || !(all || last))
        return KVC_OK;
    struct kvc_runner *runner = session->runner;
    const uint32_t from = all ? row : row + rows - 1;
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

/* Called before attention: computes q into the runner, and returns where k and v are. */
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

/* Calls the caller's progress function. `left` is the number of row-layers to compute. */
static enum kvc_status call_progress(const struct prompt *prompt, uint64_t left, struct kvc_error *error) {
    const struct kvc_session *session = prompt->session;
    const struct kvc_prompt_options *options = prompt->options;
    const unsigned depth = kvc_call_out(kvc_session_ranks(session));
    const int stop = options->progress(options->user, prompt->done, prompt->done + left);
    if (kvc_call_back(kvc_session_ranks(session), depth, stop))
        return kvc_fail(error, KVC_USAGE, "prompt: stopped by the caller");
    return KVC_OK;
}

/* Reports progress after a part of a layer. */
static enum kvc_status report_progress(struct prompt *prompt, uint32_t layer, const struct kvc_row_span *part,
                                       struct kvc_error *error) {
    const struct kvc_session *session = prompt->session;
    const struct kvc_prompt_options *options = prompt->options;
    const uint32_t layers = session->cache.layers;
    /* row-layers left in this layer, in the layers above and in later chunks; token pruning makes it an overestimate */
    const uint64_t left = (uint64_t)(layers - layer) * session->prompt.chunk_rows - part->row - part->rows +
                          (session->prompt.last_chunk
                               ? 0
                               : layers * (session->turn - session->prompt.chunk_from - session->prompt.chunk_rows));
    if (!options || !options->progress || session->runner->network->part.pipeline)
        return KVC_OK;
    return call_progress(prompt, left, error);
}

/* Called after attention: runs the feed-forward network, then passes results of the prompt's own rows to the caller. */
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
    if (part->kind != KVC_ROWS_PROMPT)
        return KVC_OK;
    enum kvc_status status = check_rows(prompt, layer, part->row, part->rows, error);
    if (status == KVC_OK && layer == session->cache.layers - 1 && options && options->row) {
        const bool pipeline = runner->network->part.pipeline;
        if (session->prompt.kept_rows)
            status = kvc_fail(error, KVC_USAGE,
                              "prompt: the logits of every row were requested, but policy %s keeps %u of %llu rows",
                              session->policy->spec, session->prompt.kept_row_count, (unsigned long long)session->turn);
        else if (!pipeline) /* in a pipeline, report_pass does this on all ranks after the pass */
            status = report_rows(session, part->row, part->rows, options, prompt->row_logits, error);
    }
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
static void pass_delta_net(const struct prompt *prompt, uint32_t delta) {
    struct kvc_device *device = prompt->session->runner->device;
    const struct kvc_session *first = prompt->session;
    const size_t bytes = (size_t)kvc_delta_state_of(&first->runner->network->delta).floats * sizeof(float);
    const uint32_t rows = first->prompt.chunk_rows;
    for (uint32_t row = 0, some; row < rows; row += some) {
        some = kvc_min_u32(rows - row, first->chunk);
        delta_rows(prompt, first, delta, row, some, true);
    }
    for (size_t i = 0; i < prompt->count; i++) {
        const struct kvc_session *session = prompt->sessions[i];
        if (session != first)
            device->ops->copy(device, kvc_session_recurrent(session, delta), kvc_session_recurrent(first, delta),
                              bytes);
        if (kvc_session_lives(session))
            delta_rows(prompt, session, delta, session->prompt.extra_from, kvc_prompt_extra_rows(session), false);
    }
}

/* Runs the rows through the delta nets below an attention layer. */
static void pass_delta(const struct prompt *prompt, uint32_t layer) {
    const struct kvc_layer *above = &prompt->session->runner->network->layer[layer];
    for (uint32_t i = 0; i < above->delta_count && !prompt->fill; i++)
        pass_delta_net(prompt, above->delta_from + i);
}

/* Applies the choices that stages of other ranks made. A failure ends all ranks, because the others would wait for this
 * one. */
static void settle(const struct prompt *prompt) {
    struct kvc_link *link = prompt->session->runner->network->part.pipeline->link; /* ends all ranks */
    struct kvc_error error;
    for (size_t i = 0; i < prompt->count; i++)
        if (kvc_session_lives(prompt->sessions[i]) &&
            kvc_pass_settle(prompt->sessions[i], prompt->passing.source, &error) != KVC_OK)
            link->class->end(link, error.text);
}

/* In a pipeline, passes the results of a pass's rows to the caller after the pass has left this rank's layers. If
 * passes do not overlap, this happens after the pass has left all ranks. */
static enum kvc_status report_pass(struct prompt *prompt, uint64_t rows_passed, struct kvc_error *error) {
    struct kvc_session *session = prompt->session;
    const struct kvc_prompt_options *options = prompt->options;
    const uint64_t layers = session->cache.layers;
    enum kvc_status status = prompt->lead ? KVC_OK : kvc_prompts_live(prompt->sessions, prompt->count, error);
    if (status == KVC_OK && options && options->row)
        status = report_rows(session, 0, session->prompt.chunk_rows, options, prompt->row_logits, error);
    prompt->done = rows_passed * layers;
    return status == KVC_OK && options && options->progress
               ? call_progress(prompt, (session->turn - rows_passed) * layers, error)
               : status;
}

/* Runs the rows of one pass through all layers. After a failed pass, the function only receives the messages that ranks
 * below still send. */
static void run_pass(struct prompt *prompt, uint32_t from, uint32_t rows) {
    struct kvc_session *session = prompt->session;
    struct kvc_device *device = session->runner->device;
    const struct kvc_network *network = session->runner->network;
    struct kvc_passing *passing = &prompt->passing;
    struct kvc_batch *batch = passing->batch;
    const struct kvc_row_source *source = passing->source;
    struct kvc_error *error = passing->error;
    enum kvc_status status = passing->status;
    if (status == KVC_OK)
        status = kvc_pass_begin(prompt->sessions, prompt->count, source, from, rows, error);
    if (status == KVC_OK && kvc_network_begins(network)) {
        kvc_runner_embed(session->runner, batch);
        status = check_rows(prompt, -1, 0, session->prompt.chunk_rows, error);
    }
    passing->rows = prompt->fill ? 0 : batch->rows;
    passing->status = status;
    kvc_pipeline_receive(passing);
    status = passing->status;
    for (uint32_t l = 0; l < session->cache.layers && status == KVC_OK; l++) {
        if (!kvc_network_has(network, l))
            continue;
        pass_delta(prompt, l);
        status = kvc_pass_layer(prompt->sessions, prompt->count, source, l, error);
        if (status == KVC_OK)
            status = device->ops->sync(device, error);
        kvc_pipeline_advance(session->runner);
    }
    passing->status = status;
    passing->rows = prompt->fill ? 0 : batch->rows;
    kvc_pipeline_send(passing);
    prompt->unreceived++;
}

static enum kvc_status report_chunk(const struct kvc_session *session, const struct kvc_prompt_options *options,
                                    uint64_t tokens, struct kvc_error *error) {
    const unsigned depth = kvc_call_out(kvc_session_ranks(session));
    const int stop = options->chunk(options->user, tokens);
    if (kvc_call_back(kvc_session_ranks(session), depth, stop))
        return kvc_fail(error, KVC_USAGE, "prompt: stopped by the caller");
    return KVC_OK;
}

/* Receives the statuses of all passes sent, except the last `lead` passes. Returns true if one has failed and all ranks
 * know it by now. The last rank learns of a failure first, and continues as long as the others do. */
static bool receive_statuses(struct prompt *prompt, uint32_t lead) {
    bool failed = false;
    if (kvc_network_ends(prompt->session->runner->network))
        return prompt->passing.status != KVC_OK && prompt->late++ >= lead;
    for (; prompt->unreceived > lead; prompt->unreceived--)
        failed = kvc_pipeline_receive_status(&prompt->passing) != KVC_OK || failed;
    return failed;
}

/* Reports a pass to the caller, which may stop the prompt. */
static enum kvc_status report(struct prompt *prompt, uint64_t rows_passed, struct kvc_error *error) {
    struct kvc_session *session = prompt->session;
    const struct kvc_prompt_options *options = prompt->options;
    enum kvc_status status = KVC_OK;
    if (session->runner->network->part.pipeline) {
        if (!prompt->lead)
            settle(prompt);
        status = report_pass(prompt, rows_passed, error);
    }
    return status == KVC_OK && session->prompt.chunking.chunk && options && options->chunk
               ? report_chunk(session, options, rows_passed, error)
               : status;
}

/* Returns the number of rows of a pass: a chunk if the policy cuts the prompt. In a pipeline whose passes may overlap,
 * a pass has as many rows as a layer computes at once, so each row is computed as without a pipeline. */
static uint32_t rows_of_pass(struct prompt *prompt) {
    const struct kvc_session *session = prompt->session;
    const struct kvc_prompt_options *options = prompt->options;
    prompt->lead = options && (options->row || options->synthetic) ? 0 : UINT32_MAX;
    for (size_t i = 0; i < prompt->count; i++)
        prompt->lead = kvc_min_u32(prompt->lead, kvc_pipeline_lead(prompt->sessions[i]));
    const uint32_t chunk = session->prompt.chunking.chunk;
    return chunk ? chunk : prompt->lead ? session->chunk : UINT32_MAX;
}

/* Runs the rows pass by pass. */
static enum kvc_status run_passes(struct prompt *prompt, uint32_t count, struct kvc_error *error) {
    const uint32_t pass = rows_of_pass(prompt);
    struct kvc_error stopped = {KVC_OK, ""};
    bool failed = false;
    for (uint32_t from = 0, rows; from < count && !failed && stopped.status == KVC_OK; from += rows) {
        rows = kvc_min_u32(count - from, pass);
        run_pass(prompt, from, rows);
        failed = receive_statuses(prompt, prompt->lead);
        if (!failed)
            stopped.status = report(prompt, from + rows, &stopped);
    }
    (void)receive_statuses(prompt, 0);
    if (prompt->passing.status != KVC_OK || stopped.status == KVC_OK)
        return prompt->passing.status;
    return kvc_fail(error, stopped.status, "%s", stopped.text);
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
                                          .source = &source};
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

static void broadcast_prompt(const struct kvc_session *session, const int32_t *tokens, size_t count,
                             const struct kvc_prompt_options *options, bool logits) {
    struct kvc_ranks *ranks = kvc_session_ranks(session);
    struct kvc_packet *packet = kvc_call_begin(ranks, KVC_CALL_PROMPT);
    uint64_t flags = logits ? KVC_PROMPT_LOGITS : 0;
    if (!packet)
        return;
    if (options)
        flags |= (options->row ? (unsigned)KVC_PROMPT_ROW : 0u) |
                 (options->progress ? (unsigned)KVC_PROMPT_PROGRESS : 0u) |
                 (options->chunk ? (unsigned)KVC_PROMPT_CHUNK : 0u) |
                 (options->synthetic ? (unsigned)KVC_PROMPT_SYNTHETIC : 0u);
    kvc_packet_put_pointer(packet, session);
    kvc_packet_put_number(packet, count);
    kvc_packet_put(packet, tokens, count * sizeof *tokens);
    kvc_packet_put_number(packet, flags);
    kvc_packet_put_number(packet, session->runner->network->vocab);
    kvc_call_broadcast(ranks);
}

enum kvc_status kvc_session_prompt(struct kvc_session *session, const int32_t *tokens, size_t count,
                                   const struct kvc_prompt_options *options, float *logits, struct kvc_error *error) {
    if (count > INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "prompt: %zu tokens; at most %d fit", count, INT32_MAX);
    broadcast_prompt(session, tokens, count, options, logits != NULL);
    const uint64_t environment = kvc_float_open();
    enum kvc_status status = kvc_prompt_start(session, tokens, (uint32_t)count, error);
    if (status == KVC_OK)
        status = kvc_prompt_run(&session, 1, tokens, (uint32_t)count, options, logits, error);
    status = kvc_advise(session, session->tokens + count, status, error);
    kvc_float_close(environment);
    return kvc_call_end(kvc_session_ranks(session), status, error);
}
