/* decode.c - decode steps of one or more sessions in one batch: collects the sessions, runs the step and reports
 * failures. */
#include "core/base/float.h"
#include "core/base/integers.h"
#include "core/engine/finite.h"
#include "core/engine/pipeline.h"
#include "core/engine/prepare_step.h"
#include "core/engine/step.h"
#include "core/engine/advice.h"

#include <stdlib.h>

#define SESSIONS_MOST 65536u

/* The sessions of a step, and their rows in the caller's arrays. */
struct participants {
    struct kvc_session **session; /* [count] */
    uint32_t *row;                /* [count]: row in the caller's arrays */
    int32_t *token;               /* [count] */
    int32_t *position;            /* [count] */
    bool *long_factors;           /* [count] */
    uint32_t count;
};

static bool participants_create(struct participants *participants, size_t count) {
    *participants = (struct participants){.session = malloc(count * sizeof *participants->session),
                                          .row = malloc(count * sizeof *participants->row),
                                          .token = malloc(count * sizeof *participants->token),
                                          .position = malloc(count * sizeof *participants->position),
                                          .long_factors = malloc(count * sizeof *participants->long_factors)};
    return participants->session && participants->row && participants->token && participants->position &&
           participants->long_factors;
}

static void participants_free(struct participants *participants) {
    free(participants->session);
    free(participants->row);
    free(participants->token);
    free(participants->position);
    free(participants->long_factors);
}

static enum kvc_status fail_all(enum kvc_status *statuses, size_t count, enum kvc_status status) {
    for (size_t i = 0; statuses && i < count; i++)
        statuses[i] = status;
    return status;
}

/* Does everything in a step that may fail for lack of memory, before any session changes. */
static enum kvc_status decode_prepare(struct kvc_runner *runner, const struct participants *participants, bool logits,
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

/* Computes the logits of the sessions that have not failed, each to its row of `logits`. Consecutive rows share one
 * call. */
static enum kvc_status step_logits(struct kvc_runner *runner, const struct participants *participants, float *logits,
                                   struct kvc_error *error) {
    for (uint32_t from = 0; from < participants->count;) {
        const uint32_t row = participants->row[from];
        uint32_t count = 0;
        while (from + count < participants->count && count < KVC_LOGIT_ROWS &&
               !participants->session[from + count]->failed && participants->row[from + count] == row + count)
            count++;
        const enum kvc_status status = count ? kvc_runner_logits(runner, &runner->step, from, count,
                                                                 logits + (size_t)row * runner->network->vocab, error)
                                             : KVC_OK;
        if (status != KVC_OK)
            return status;
        from += count ? count : 1; /* skip one failed session */
    }
    return KVC_OK;
}

/* Marks sessions that have failed on another rank as failed. */
static void fail_received(const struct kvc_passing *passing) {
    for (size_t i = 0; i < passing->count; i++)
        if (passing->sessions[i]->failure.status != KVC_OK)
            passing->sessions[i]->failed = true;
}

/* Returns group g of a pipeline's step: consecutive rows that travel together. */
static struct kvc_passing passing_group(struct kvc_runner *runner, const struct participants *participants,
                                        uint32_t groups, uint32_t g) {
    const uint32_t from = (uint32_t)((uint64_t)participants->count * g / groups);
    const uint32_t to = (uint32_t)((uint64_t)participants->count * (g + 1) / groups);
    return (struct kvc_passing){.runner = runner,
                                .batch = &runner->step,
                                .row = from,
                                .rows = to - from,
                                .sessions = participants->session + from,
                                .count = to - from};
}

/* Runs a group's rows through the layers. */
static void step_group(struct kvc_runner *runner, const struct participants *participants, uint32_t groups,
                       uint32_t g) {
    struct kvc_passing passing = passing_group(runner, participants, groups, g);
    const struct kvc_step step = {
        .runner = runner, .session = passing.sessions, .count = passing.rows, .first = passing.row, .stored = 1};
    kvc_pipeline_receive(&passing);
    fail_received(&passing);
    for (uint32_t l = 0; l < runner->network->layers; l++)
        if (kvc_network_has(runner->network, l)) {
            kvc_step_layer(&step, l);
            kvc_pipeline_advance(runner);
        }
    kvc_pipeline_send(&passing);
}

/* Runs the step: embeds the rows, runs them through the layers and computes the logits. */
static enum kvc_status run_step(struct kvc_runner *runner, const struct participants *participants, float *logits,
                                struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    struct kvc_batch *batch = &runner->step;
    const uint32_t groups = kvc_pipeline_groups(runner, participants->count);
    device->ops->zero(device, kvc_growable_at(&batch->causal_offset, 0), participants->count * sizeof(uint32_t));
    if (kvc_network_begins(runner->network))
        kvc_runner_embed(runner, batch);
    for (uint32_t g = 0; g < groups; g++)
        step_group(runner, participants, groups, g);
    for (uint32_t g = 0; g < groups; g++) {
        struct kvc_passing passing = passing_group(runner, participants, groups, g);
        (void)kvc_pipeline_receive_status(&passing);
        fail_received(&passing);
    }
    const enum kvc_status status = logits ? step_logits(runner, participants, logits, error) : KVC_OK;
    kvc_step_take_counts(runner, participants->session, participants->count);
    return status == KVC_OK ? device->ops->sync(device, error) : status;
}

/* Checks the logits of row n of the step that was just computed. If they are not finite, the session fails, and its row
 * is computed again over the session's current entries to find the layer. */
static void check_finite(struct kvc_runner *runner, struct kvc_session *session, uint32_t n, const float *logits) {
    struct kvc_batch *batch = &runner->step;
    const struct kvc_step step = {.runner = runner, .session = &session, .count = 1, .first = n, .stored = 0};
    const uint64_t position = session->tokens;
    struct kvc_error *error = &session->failure;
    if (kvc_finite(logits, runner->network->vocab))
        return;
    session->failed = true; /* keeps the policy and observers out of the second computation */
    enum kvc_status status = kvc_cache_positions_reserve(session, 1, error);
    if (status == KVC_OK && kvc_network_begins(runner->network)) {
        kvc_runner_embed(runner, batch);
        status = kvc_finite_hidden(runner, batch, -1, n, 1, position, error);
    }
    struct kvc_passing passing = {runner, batch, n, 1, NULL, 0, status, error, NULL};
    kvc_pipeline_receive(&passing);
    for (uint32_t l = 0; l < runner->network->layers && passing.status == KVC_OK; l++) {
        if (!kvc_network_has(runner->network, l))
            continue;
        kvc_step_layer(&step, l);
        passing.status = kvc_finite_hidden(runner, batch, l, n, 1, position, error);
    }
    kvc_pipeline_send(&passing);
    (void)kvc_pipeline_receive_status(&passing);
    if (passing.status == KVC_OK)
        (void)kvc_finite_logits(runner, logits, position, error);
}

/* Adds session i to the step, or reports why it cannot take part. */
static enum kvc_status decode_join(struct participants *participants, struct kvc_session *session, size_t i,
                                   int32_t token, struct kvc_runner *runner, struct kvc_error *error) {
    struct kvc_error cause = {KVC_OK, ""};
    if (session->busy)
        return kvc_fail(error, KVC_USAGE, "decode: session %zu is given twice", i);
    if (session->runner != runner)
        return kvc_fail(error, KVC_USAGE, "decode: session %zu belongs to another model", i);
    enum kvc_status status = kvc_network_check_tokens(runner->network, &token, 1, &cause);
    if (status == KVC_OK)
        status = kvc_step_begin(session, &cause);
    if (status != KVC_OK)
        return kvc_fail(error, status, "decode: session %zu: %s", i, cause.text);
    const uint32_t n = participants->count++;
    participants->session[n] = session;
    participants->row[n] = (uint32_t)i;
    participants->token[n] = token;
    participants->position[n] = (int32_t)session->tokens;
    participants->long_factors[n] = session->long_rope;
    session->busy = true;
    return KVC_OK;
}

/* Runs the step of the sessions that joined and ends it for each of them. Returns the first failure. */
static enum kvc_status take_step(struct kvc_runner *runner, const struct participants *participants, float *logits,
                                 enum kvc_status *statuses, struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    const uint64_t saturated = device->saturated;
    enum kvc_status first = decode_prepare(runner, participants, logits != NULL, error);
    const bool prepared = first == KVC_OK;
    if (prepared)
        first = run_step(runner, participants, logits, error);
    const enum kvc_status all = first; /* the status that all sessions share */
    for (uint32_t n = 0; n < participants->count; n++) {
        struct kvc_session *session = participants->session[n];
        enum kvc_status status = all;
        session->busy = false;
        session->sums.saturated += device->saturated - saturated;
        if (all == KVC_OK && logits && !session->failed)
            check_finite(runner, session, n, logits + (size_t)participants->row[n] * runner->network->vocab);
        if (!prepared) {
            kvc_step_cancel(session);
        } else if (session->failed) {
            status = session->failure.status;
            if (first == KVC_OK)
                first = kvc_fail(error, status, "decode: session %u: %s", participants->row[n], session->failure.text);
        } else if (all == KVC_OK) {
            kvc_step_end(session);
        } else {
            session->failed = true;
        }
        if (statuses)
            statuses[participants->row[n]] = status;
    }
    return first;
}

/* Runs a step of all sessions that can take part. Returns the first failure. A session that cannot take part counts as
 * a failure. */
static enum kvc_status decode_batch(struct kvc_session *const *sessions, const int32_t *tokens, size_t count,
                                    float *logits, enum kvc_status *statuses, struct participants *participants,
                                    struct kvc_error *error) {
    enum kvc_status first = KVC_OK;
    for (size_t i = 0; i < count; i++) {
        struct kvc_error cause;
        enum kvc_status status = decode_join(participants, sessions[i], i, tokens[i], sessions[0]->runner, &cause);
        status = kvc_advise(sessions[i], sessions[i]->tokens + 1, status, &cause);
        /* the other ranks run the step with this session, so all ranks must end */
        if (status == KVC_RESOURCE && kvc_session_ranks(sessions[i]))
            sessions[i]->engine->ranks->link->class->end(sessions[i]->engine->ranks->link, cause.text);
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
    const enum kvc_status status = take_step(sessions[0]->runner, participants, logits, statuses, first ? NULL : error);
    return first == KVC_OK ? kvc_advise(sessions[0], sessions[0]->tokens + 1, status, error) : first;
}

enum kvc_status kvc_decode(struct kvc_session *const *sessions, const int32_t *tokens, size_t count, float *logits,
                           enum kvc_status *statuses, struct kvc_error *error) {
    if (count == 0)
        return KVC_OK;
    if (count > SESSIONS_MOST)
        return fail_all(statuses, count,
                        kvc_fail(error, KVC_USAGE, "decode: %zu sessions; at most %u at once", count, SESSIONS_MOST));
    if (!sessions[0]->runner->network)
        return fail_all(statuses, count, kvc_fail(error, KVC_USAGE, "decode: a replayed session has no model"));
    struct kvc_ranks *ranks = kvc_session_ranks(sessions[0]);
    struct kvc_packet *packet = kvc_call_begin(ranks, KVC_CALL_DECODE);
    if (packet) {
        kvc_sessions_broadcast(packet, sessions, count, tokens, count, logits != NULL);
        kvc_call_broadcast(ranks);
    }
    struct participants participants;
    const uint64_t environment = kvc_float_open();
    const enum kvc_status status =
        participants_create(&participants, count)
            ? decode_batch(sessions, tokens, count, logits, statuses, &participants, error)
            : fail_all(statuses, count, kvc_fail(error, KVC_RESOURCE, "decode: no memory for %zu rows", count));
    participants_free(&participants);
    kvc_float_close(environment);
    return kvc_call_end(ranks, status, error);
}
