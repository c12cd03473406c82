/* step.c - decode steps of one or more sessions in one batch: who takes part, the rows, and who failed. */
#include "core/base/float.h"
#include "core/forecast/advice.h"
#include "core/engine/finite.h"
#include "core/engine/session.h"

#include <stdlib.h>

#define SESSIONS_MOST 65536u

enum kvc_status kvc_session_begin_step(struct kvc_session *session, struct kvc_error *error) {
    if (session->failed)
        return kvc_fail(error, KVC_USAGE, "session: an earlier prompt or step failed; close it and open another");
    if (session->tokens == 0)
        return kvc_fail(error, KVC_USAGE, "session: a decode step before any prompt");
    if (session->tokens >= INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "session: at most %d tokens fit", INT32_MAX);
    for (uint32_t l = 0; l < session->cache.layers; l++) {
        enum kvc_status status = kvc_cache_reserve(
            &session->cache, l, 1, kvc_policy_all_columns(session->policy, l, session->cache.format.head_size), error);
        if (status == KVC_OK && session->select[l].view.rank)
            status = kvc_select_reserve(session, l, error);
        if (status != KVC_OK)
            return status;
    }
    session->step++;
    enum kvc_status status = kvc_cache_positions_reserve(session, 1, error);
    for (uint32_t l = 0; l < session->cache.layers && status == KVC_OK; l++)
        status = kvc_stage_prepare(session, l, error);
    session->step -= status != KVC_OK;
    return status;
}

void kvc_session_cancel_step(struct kvc_session *session) { session->step--; }

void kvc_session_end_step(struct kvc_session *session) {
    session->tokens++;
    session->steps_total++;
}

/* The decode stage of one row in one layer. */
static enum kvc_status decode_stage(struct kvc_session *session, const struct kvc_batch *batch, uint32_t layer,
                                    uint32_t row, uint32_t batch_row, const struct kvc_read_list *reads) {
    struct kvc_runner *runner = session->runner;
    const struct kvc_geometry *g = &runner->geometry;
    const size_t m = g->heads * sizeof(float);
    struct kvc_stage stage = kvc_stage_make(session, layer);
    stage.queries = 1;
    stage.q = kvc_growable_at(&runner->q, row * m * g->head_size);
    stage.maximum = kvc_growable_at(&runner->maximum, row * m);
    stage.sum = kvc_growable_at(&runner->sum, row * m);
    stage.positions = kvc_growable_at(&batch->positions, batch_row * sizeof(int32_t));
    stage.causal_offset = kvc_growable_at(&batch->causal_offset, batch_row * sizeof(uint32_t));
    stage.reads = reads;
    return kvc_stage_run_decode(&stage, &session->failure);
}

void kvc_session_attended(struct kvc_session *session, const struct kvc_batch *batch, uint32_t layer,
                          const struct kvc_part *part, uint32_t batch_row, const struct kvc_read_list *reads) {
    struct kvc_device *device = session->runner->device;
    const struct kvc_geometry *g = &session->runner->geometry;
    if (session->in_prompt) {
        kvc_turn_attended(session, batch, layer, part, batch_row);
        return;
    }
    if (session->failed)
        return;
    if (session->mixing && reads) {
        const struct kvc_select_layer *select = &session->select[layer];
        const size_t bytes = (size_t)g->heads * g->head_size * sizeof(float);
        device->ops->mix_mean(
            device, &(struct kvc_mix_mean){.lists = &session->cache.layer[layer].lists,
                                           .view = select->view.rank ? &select->view : NULL,
                                           .reads = reads,
                                           .heads = g->heads,
                                           .head_size = g->head_size,
                                           .out = kvc_growable_at(&session->runner->attended, part->row * bytes),
                                           .alpha = kvc_growable_at(&session->alpha, 0),
                                           .sums = (struct kvc_span){select->sums, 0}});
    }
    if (session->output) {
        const size_t bytes = (size_t)g->heads * g->head_size * sizeof(float);
        device->ops->download(device, session->output_row,
                              kvc_growable_at(&session->runner->attended, part->row * bytes), bytes);
        session->output(session->output_user, layer, session->output_row);
    }
    enum kvc_status status = KVC_OK;
    if (session->record_reads)
        status = kvc_select_record(session, layer, reads, &session->failure);
    if (status == KVC_OK)
        status = decode_stage(session, batch, layer, part->row, batch_row, reads);
    session->failed = status != KVC_OK;
}

/* Words of a session in runner->counts: how much each list holds, then each list's view. */
static size_t count_words(const struct kvc_session *session) { return 2 * (size_t)kvc_cache_lists(&session->cache); }

enum kvc_status kvc_step_reserve_counts(struct kvc_runner *runner, const struct kvc_part *parts, size_t part_count,
                                        struct kvc_error *error) {
    size_t all = 0;
    for (size_t i = 0; i < part_count; i++)
        all += count_words(parts[i].session);
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
    for (size_t i = 0; i < part_count && status == KVC_OK; i++) {
        parts[i].session->counts = kvc_growable_at(&runner->counts, all * sizeof *runner->host_counts);
        all += count_words(parts[i].session);
    }
    return status;
}

/* Gives back blocks that a step's evictions left without entries. */
static void shrink(struct kvc_session *session) {
    struct kvc_device *device = session->runner->device;
    const uint64_t before = session->cache.cache_bytes;
    enum kvc_status status = KVC_OK;
    for (uint32_t l = 0; l < session->cache.layers && status == KVC_OK; l++) {
        if (session->touched[l])
            status = kvc_cache_shrink(&session->cache, l, kvc_policy_surplus(session->policy, l), 2, &session->failure);
        session->touched[l] = false;
    }
    if (session->cache.cache_bytes < before)
        device->ops->arena_trim(device, session->cache.store->arena);
    session->failed = status != KVC_OK;
}

void kvc_step_take_counts(struct kvc_runner *runner, const struct kvc_part *parts, size_t part_count) {
    size_t all = 0;
    bool stale = false;
    for (size_t i = 0; i < part_count; i++) {
        all += count_words(parts[i].session);
        stale = stale || kvc_cache_is_stale(&parts[i].session->cache) || kvc_select_is_stale(parts[i].session);
    }
    if (stale)
        runner->device->ops->download(runner->device, runner->host_counts, kvc_growable_at(&runner->counts, 0),
                                      all * sizeof *runner->host_counts);
    for (size_t i = 0; i < part_count; i++) {
        struct kvc_session *session = parts[i].session;
        const uint32_t *counts = runner->host_counts + session->counts.offset / sizeof *counts;
        kvc_cache_take_counts(&session->cache, counts);
        kvc_select_take_counts(session, counts + kvc_cache_lists(&session->cache));
        if (!session->failed)
            shrink(session);
    }
}

static enum kvc_status fail_all(enum kvc_status *statuses, size_t count, enum kvc_status status) {
    for (size_t i = 0; statuses && i < count; i++)
        statuses[i] = status;
    return status;
}

struct step { /* the sessions that take part, and where their rows are in the caller's arrays */
    struct kvc_part *parts;
    uint32_t *rows;
    int32_t *tokens, *positions;
    bool *long_factors;
    uint32_t count;
};

/* Everything a step needs that may fail for want of memory; no session has changed yet. */
static enum kvc_status prepare_step(struct kvc_runner *runner, const struct step *step, bool logits,
                                    struct kvc_error *error) {
    enum kvc_status status = kvc_runner_reserve(runner, step->count, step->count, error);
    if (status == KVC_OK && logits)
        status = kvc_runner_reserve_logits(runner, step->count < KVC_LOGIT_ROWS ? step->count : KVC_LOGIT_ROWS, error);
    const struct kvc_step_shape shape = {.rows = step->count};
    if (status == KVC_OK && runner->device->ops->prepare)
        status = runner->device->ops->prepare(runner->device, &shape, error);
    if (status == KVC_OK)
        status = kvc_step_reserve_counts(runner, step->parts, step->count, error);
    if (status == KVC_OK)
        status = kvc_batch_fill(runner, &runner->step, step->tokens, step->positions, step->long_factors, step->count,
                                error);
    return status;
}

/* Logits of the rows whose sessions have not failed, each into its place, as many neighbours at once as may be. */
static enum kvc_status step_logits(struct kvc_runner *runner, const struct step *step, float *logits,
                                   struct kvc_error *error) {
    for (uint32_t from = 0; from < step->count;) {
        const uint32_t row = step->rows[from];
        uint32_t count = 0;
        while (from + count < step->count && count < KVC_LOGIT_ROWS && !step->parts[from + count].session->failed &&
               step->rows[from + count] == row + count)
            count++;
        const enum kvc_status status = count ? kvc_runner_logits(runner, &runner->step, from, count,
                                                                 logits + (size_t)row * runner->network->vocab, error)
                                             : KVC_OK;
        if (status != KVC_OK)
            return status;
        from += count ? count : 1; /* 1: one that failed */
    }
    return KVC_OK;
}

static enum kvc_status run_step(struct kvc_runner *runner, const struct step *step, float *logits,
                                struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    struct kvc_batch *batch = &runner->step;
    device->ops->zero(device, kvc_growable_at(&batch->causal_offset, 0), step->count * sizeof(uint32_t));
    kvc_runner_embed(runner, batch);
    for (uint32_t l = 0; l < runner->network->layers; l++)
        kvc_runner_layer(runner, batch, l, 0, step->count, step->parts, step->count);
    const enum kvc_status status = logits ? step_logits(runner, step, logits, error) : KVC_OK;
    kvc_step_take_counts(runner, step->parts, step->count);
    return status == KVC_OK ? device->ops->sync(device, error) : status;
}

/* Takes session i into the step, or notes why not. */
static enum kvc_status join_step(struct step *step, struct kvc_session *session, size_t i, int32_t token,
                                 struct kvc_runner *runner, struct kvc_error *error) {
    struct kvc_error cause = {KVC_OK, ""};
    if (session->busy)
        return kvc_fail(error, KVC_USAGE, "decode: session %zu is given twice", i);
    if (session->runner != runner)
        return kvc_fail(error, KVC_USAGE, "decode: session %zu belongs to another model", i);
    enum kvc_status status = kvc_session_check_tokens(runner->network, &token, 1, &cause);
    if (status == KVC_OK)
        status = kvc_session_begin_step(session, &cause);
    if (status != KVC_OK)
        return kvc_fail(error, status, "decode: session %zu: %s", i, cause.text);
    const uint32_t n = step->count++;
    step->parts[n] = (struct kvc_part){session, n, 1, 1, KVC_ROWS_STEP};
    step->rows[n] = (uint32_t)i;
    step->tokens[n] = token;
    step->positions[n] = (int32_t)session->tokens;
    step->long_factors[n] = session->long_rope;
    session->busy = true;
    return KVC_OK;
}

/* Computes the step of the sessions that joined and ends it for each, whatever became of it; the first failure. */
static enum kvc_status take_step(struct kvc_runner *runner, const struct step *step, float *logits,
                                 enum kvc_status *statuses, struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    const uint64_t saturated = device->saturated;
    enum kvc_status first = prepare_step(runner, step, logits != NULL, error);
    const bool prepared = first == KVC_OK;
    if (prepared)
        first = run_step(runner, step, logits, error);
    const enum kvc_status all = first; /* what every session shares */
    for (uint32_t n = 0; n < step->count; n++) {
        struct kvc_session *session = step->parts[n].session;
        enum kvc_status status = all;
        session->busy = false;
        session->saturated += device->saturated - saturated;
        if (all == KVC_OK && logits && !session->failed)
            kvc_finite_step(runner, session, n, logits + (size_t)step->rows[n] * runner->network->vocab);
        if (!prepared) {
            kvc_session_cancel_step(session);
        } else if (session->failed) {
            status = session->failure.status;
            if (first == KVC_OK)
                first = kvc_fail(error, status, "decode: session %u: %s", step->rows[n], session->failure.text);
        } else if (all == KVC_OK) {
            kvc_session_end_step(session);
        } else {
            session->failed = true;
        }
        if (statuses)
            statuses[step->rows[n]] = status;
    }
    return first;
}

static enum kvc_status decode(struct kvc_session *const *sessions, const int32_t *tokens, size_t count, float *logits,
                              enum kvc_status *statuses, struct kvc_error *error) {
    struct kvc_runner *runner = sessions[0]->runner;
    if (!runner->network)
        return fail_all(statuses, count, kvc_fail(error, KVC_USAGE, "decode: a replayed session has no model"));
    struct step step = {.parts = malloc(count * sizeof *step.parts),
                        .rows = malloc(count * sizeof *step.rows),
                        .tokens = malloc(count * sizeof *step.tokens),
                        .positions = malloc(count * sizeof *step.positions),
                        .long_factors = malloc(count * sizeof *step.long_factors)};
    enum kvc_status first = KVC_OK;
    if (!step.parts || !step.rows || !step.tokens || !step.positions || !step.long_factors) {
        first = fail_all(statuses, count, kvc_fail(error, KVC_RESOURCE, "decode: no memory for %zu rows", count));
    } else {
        for (size_t i = 0; i < count; i++) {
            struct kvc_error cause;
            enum kvc_status status = join_step(&step, sessions[i], i, tokens[i], runner, &cause);
            status = kvc_advise(sessions[i], sessions[i]->tokens + 1, status, &cause);
            if (statuses)
                statuses[i] = status;
            if (status != KVC_OK && first == KVC_OK) {
                first = status;
                if (error)
                    *error = cause;
            }
        }
        const enum kvc_status status =
            step.count ? take_step(runner, &step, logits, statuses, first ? NULL : error) : KVC_OK;
        if (first == KVC_OK)
            kvc_advise(sessions[0], sessions[0]->tokens + 1, status, error);
        if (first == KVC_OK)
            first = status;
    }
    free(step.parts);
    free(step.rows);
    free(step.tokens);
    free(step.positions);
    free(step.long_factors);
    return first;
}

enum kvc_status kvc_decode(struct kvc_session *const *sessions, const int32_t *tokens, size_t count, float *logits,
                           enum kvc_status *statuses, struct kvc_error *error) {
    if (count == 0)
        return KVC_OK;
    if (count > SESSIONS_MOST)
        return fail_all(statuses, count,
                        kvc_fail(error, KVC_USAGE, "decode: %zu sessions; at most %u at once", count, SESSIONS_MOST));
    const uint64_t environment = kvc_float_open();
    const enum kvc_status status = decode(sessions, tokens, count, logits, statuses, error);
    kvc_float_close(environment);
    return status;
}
