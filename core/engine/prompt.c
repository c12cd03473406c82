/* prompt.c - prompts through a network: passes, layer by layer, with the logits that the caller wants. */
#include "core/base/float.h"
#include "core/base/integers.h"
#include "core/engine/fill.h"
#include "core/engine/finite.h"
#include "core/engine/pass.h"
#include "core/engine/advice.h"

#include <stdlib.h>
#include <string.h>

/* longrope: a session keeps the factors it began with, because its keys stay as they were rotated. */
static void choose_rope(struct kvc_session *session, uint64_t rows) {
    const struct kvc_rope *rope = &session->runner->network->rope[0];
    if (session->tokens)
        return;
    const uint64_t length = kvc_max_u64(session->context, rows);
    session->long_rope = rope->long_frequency && length > rope->original_context;
}

/* Gives the logits of rows of a pass to the caller, numbered as rows of the prompt. */
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
            if (!options->made_up)
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

/* A prompt on its way through a network. */
struct prompt {
    struct kvc_session *session;
    const struct kvc_prompt_options *options;
    float *row_logits;
    uint64_t done;         /* row-layers */
    struct kvc_fill *fill; /* NULL: the network computes the rows */
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

/* Of rows row.. of the pass, after a layer (-1: before the first), checks those whose logits will be looked at: all, if
 * the caller wants every row's, or else the pass's last, which attends to the others. */
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
    if (status == KVC_INPUT && layer == 0) { /* it may have read another row's embedding */
        kvc_runner_embed(runner, &runner->prompt);
        (void)kvc_finite_hidden(runner, &runner->prompt, -1, 0, session->prompt.chunk_rows, begin, error);
    }
    return status;
}

/* Before attention: q into the runner, and where k and v are. */
static enum kvc_status project_rows(void *user, uint32_t layer, const struct kvc_part *part,
                                    struct kvc_projected *projected, struct kvc_error *error) {
    struct prompt *prompt = user;
    struct kvc_session *session = prompt->session;
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

/* Calls the caller's progress function. */
static enum kvc_status report_progress(struct prompt *prompt, uint32_t layer, const struct kvc_part *part,
                                       struct kvc_error *error) {
    const struct kvc_session *session = prompt->session;
    const struct kvc_prompt_options *options = prompt->options;
    const uint32_t layers = session->cache.layers;
    /* what is left: of this layer, of those above it, of the chunks to come; less than all after token pruning */
    const uint64_t left = (uint64_t)(layers - layer) * session->prompt.chunk_rows - part->row - part->rows +
                          (session->prompt.last_chunk
                               ? 0
                               : layers * (session->turn - session->prompt.chunk_from - session->prompt.chunk_rows));
    if (options && options->progress && options->progress(options->user, prompt->done, prompt->done + left))
        return kvc_fail(error, KVC_USAGE, "prompt: stopped by the caller");
    return KVC_OK;
}

/* After attention; then what the caller wants to know of the prompt's own rows. */
static enum kvc_status feed_rows_forward(void *user, uint32_t layer, const struct kvc_part *part,
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
        if (session->prompt.kept_rows)
            status = kvc_fail(error, KVC_USAGE,
                              "prompt: the logits of every row are asked for, but policy %s keeps %u of %llu rows",
                              session->policy->spec, session->prompt.kept_row_count, (unsigned long long)session->turn);
        else
            status = report_rows(session, part->row, part->rows, options, prompt->row_logits, error);
    }
    prompt->done += part->rows;
    return status == KVC_OK ? report_progress(prompt, layer, part, error) : status;
}

static enum kvc_status gather_rows(void *user, const uint32_t *index, uint32_t rows, struct kvc_error *error) {
    struct kvc_runner *runner = ((struct prompt *)user)->session->runner;
    return kvc_batch_gather(runner, &runner->prompt, index, rows, error);
}

/* The pass's rows through the delta nets below an attention layer; what methods added to them leaves no trace. */
static void pass_delta(const struct prompt *prompt, uint32_t layer) {
    struct kvc_session *session = prompt->session;
    struct kvc_runner *runner = session->runner;
    const struct kvc_layer *above = &runner->network->layer[layer];
    const uint32_t rows = session->prompt.chunk_rows, all = rows + kvc_prompt_extra_rows(session);
    for (uint32_t i = 0; i < above->delta_count && !prompt->fill; i++)
        for (uint32_t row = 0, some; row < all; row += some) {
            const bool kept = row < rows;
            some = kept ? kvc_min_u32(rows - row, session->chunk) : all - row;
            const struct kvc_recurrence segment = {
                .state = kvc_session_recurrent(session, above->delta_from + i), .rows = some, .kept = kept};
            kvc_runner_delta(runner, &runner->prompt, above->delta_from + i, row, some, &segment, 1);
        }
}

/* All layers over the rows of one pass. */
static enum kvc_status run_pass(struct prompt *prompt, const struct kvc_row_source *source, uint32_t from,
                                uint32_t rows, struct kvc_error *error) {
    struct kvc_session *session = prompt->session;
    struct kvc_device *device = session->runner->device;
    enum kvc_status status = kvc_pass_begin(session, source, from, rows, error);
    if (status == KVC_OK)
        kvc_runner_embed(session->runner, &session->runner->prompt);
    if (status == KVC_OK)
        status = check_rows(prompt, -1, 0, session->prompt.chunk_rows, error);
    for (uint32_t l = 0; l < session->cache.layers && status == KVC_OK; l++) {
        pass_delta(prompt, l);
        status = kvc_pass_layer(session, source, l, error);
        if (status == KVC_OK)
            status = device->ops->sync(device, error);
    }
    return status;
}

static enum kvc_status run_prompt(struct kvc_session *session, const int32_t *tokens, uint32_t count,
                                  const struct kvc_prompt_options *options, float *logits, struct kvc_error *error) {
    struct kvc_runner *runner = session->runner;
    struct kvc_device *device = runner->device;
    struct kvc_fill fill;
    struct prompt prompt = {session, options, NULL, 0, NULL};
    const struct kvc_row_source source = {&prompt, tokens, 0, load_rows, project_rows, feed_rows_forward, gather_rows};
    enum kvc_status status = kvc_network_check_tokens(runner->network, tokens, count, error);
    if (status != KVC_OK)
        return status;
    const uint64_t saturated = device->saturated;
    choose_rope(session, session->tokens + count); /* kvc_prompt_begin computes rows of cosine and sine by it */
    status = kvc_prompt_begin(session, count, error);
    if (status != KVC_OK)
        return status;
    if (options && options->row) {
        const size_t rows = kvc_min_u32(count, KVC_LOGIT_ROWS);
        prompt.row_logits = malloc(rows * runner->network->vocab * sizeof(float));
        if (!prompt.row_logits)
            status = kvc_fail(error, KVC_RESOURCE, "prompt: no memory for %zu rows of logits", rows);
    }
    if (status == KVC_OK)
        status = kvc_runner_reserve(runner, kvc_prompt_rows_most(session, count), 1, error);
    if (status == KVC_OK && options && options->made_up) {
        prompt.fill = &fill;
        status = kvc_fill_open(&fill, session, kvc_prompt_rows_most(session, count), error);
    }
    const uint32_t chunk = session->prompt.chunking.chunk, pass = chunk ? kvc_min_u32(chunk, count) : count;
    for (uint32_t from = 0, rows; from < count && status == KVC_OK; from += rows) {
        rows = kvc_min_u32(count - from, pass);
        status = run_pass(&prompt, &source, from, rows, error);
        if (status == KVC_OK && chunk && options && options->chunk && options->chunk(options->user, from + rows))
            status = kvc_fail(error, KVC_USAGE, "prompt: stopped by the caller");
    }
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
    session->sums.saturated += device->saturated - saturated;
    if (status == KVC_OK)
        kvc_prompt_end(session);
    return status;
}

enum kvc_status kvc_session_prompt(struct kvc_session *session, const int32_t *tokens, size_t count,
                                   const struct kvc_prompt_options *options, float *logits, struct kvc_error *error) {
    if (count > INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "prompt: %zu tokens; at most %d fit", count, INT32_MAX);
    const uint64_t environment = kvc_float_open();
    enum kvc_status status = run_prompt(session, tokens, (uint32_t)count, options, logits, error);
    status = kvc_advise(session, session->tokens + count, status, error);
    kvc_float_close(environment);
    return status;
}
