/* replay.c - a policy on tensors from anywhere: attention, cache and stages without a model. */
#include "core/session.h"

#include <stdlib.h>

struct kvc_replay {
    struct kvc_runner *runner;
    struct kvc_session *session;
    uint32_t next_layer;
    uint64_t rows; /* of the prompt under way */
    bool failed;   /* a layer broke off: unusable */
};

enum kvc_status kvc_replay_open(struct kvc_engine *engine, const struct kvc_geometry *geometry,
                                const struct kvc_session_options *options, struct kvc_replay **replay,
                                struct kvc_error *error) {
    *replay = NULL;
    if (!geometry->layers || !geometry->heads || !geometry->kv_heads || !geometry->head_size ||
        geometry->heads % geometry->kv_heads || geometry->layers > 65536 || geometry->heads > 65536 ||
        geometry->head_size > 65536)
        return kvc_fail(error, KVC_INPUT,
                        "replay: %u layers, %u heads over %u KV heads of size %u: must be from 1 to 65536, KV heads "
                        "dividing heads",
                        geometry->layers, geometry->heads, geometry->kv_heads, geometry->head_size);
    struct kvc_replay *made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "replay: no memory");
    enum kvc_status status = kvc_runner_open(engine, NULL, geometry, &made->runner, error);
    if (status == KVC_OK)
        status = kvc_session_create_bare(made->runner, options, &made->session, error);
    if (status != KVC_OK) {
        kvc_replay_close(made);
        return status;
    }
    *replay = made;
    return KVC_OK;
}

void kvc_replay_close(struct kvc_replay *replay) {
    if (!replay)
        return;
    kvc_session_close(replay->session);
    kvc_runner_close(replay->runner);
    free(replay);
}

const struct kvc_session *kvc_replay_session(const struct kvc_replay *replay) { return replay->session; }

static struct kvc_span whole(const struct kvc_room *room) { return kvc_room_at(room, 0); }

/* Rows `from`.. of a layer: to the device, append and attend, and back. */
static void attend(struct kvc_replay *replay, struct kvc_batch *batch, uint32_t layer, uint32_t from, uint32_t rows,
                   const float *q, const float *k, const float *v, float *out) {
    struct kvc_runner *runner = replay->runner;
    struct kvc_device *device = runner->device;
    const struct kvc_geometry *g = &runner->geometry;
    const size_t q_width = (size_t)g->heads * g->head_size, k_width = (size_t)g->kv_heads * g->head_size;
    const struct kvc_part part = {replay->session, 0, rows, rows};
    device->ops->upload(device, whole(&runner->q), q + from * q_width, rows * q_width * sizeof(float));
    device->ops->upload(device, whole(&runner->k), k + from * k_width, rows * k_width * sizeof(float));
    device->ops->upload(device, whole(&runner->v), v + from * k_width, rows * k_width * sizeof(float));
    kvc_runner_attend(runner, batch, layer, from, &part, 1);
    if (out)
        device->ops->download(device, out + from * q_width, whole(&runner->attended), rows * q_width * sizeof(float));
}

/* Positions and `later` of rows that begin at the session's next token, in chunks of the session's size. */
static enum kvc_status fill(struct kvc_replay *replay, struct kvc_batch *batch, uint32_t rows, uint32_t chunk,
                            struct kvc_error *error) {
    int32_t *positions = malloc((size_t)rows * sizeof *positions);
    if (!positions)
        return kvc_fail(error, KVC_RESOURCE, "replay: no memory for %u positions", rows);
    for (uint32_t i = 0; i < rows; i++)
        positions[i] = (int32_t)(replay->session->tokens + i);
    const enum kvc_status status = kvc_batch_fill(replay->runner, batch, NULL, positions, NULL, rows, error);
    if (status == KVC_OK) {
        uint32_t *later = (uint32_t *)positions;
        for (uint32_t i = 0; i < rows; i++) {
            const uint32_t first = i - i % chunk;
            later[i] = (rows - first > chunk ? first + chunk : rows) - 1 - i;
        }
        struct kvc_device *device = replay->runner->device;
        device->ops->upload(device, whole(&batch->later), later, rows * sizeof *later);
    }
    free(positions);
    return status;
}

static enum kvc_status check_layer(const struct kvc_replay *replay, uint32_t layer, struct kvc_error *error) {
    if (replay->failed)
        return kvc_fail(error, KVC_USAGE, "replay: an earlier layer failed; close it and open another");
    if (layer == replay->next_layer)
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "replay: layer %u comes before layer %u", layer, replay->next_layer);
}

static enum kvc_status prompt_layer(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                    const float *v, uint32_t rows, float *out, struct kvc_error *error) {
    struct kvc_session *session = replay->session;
    struct kvc_runner *runner = replay->runner;
    const uint32_t chunk = session->chunk < rows ? session->chunk : rows;
    enum kvc_status status = KVC_OK;
    if (layer == 0) {
        status = kvc_session_begin_turn(session, rows, error);
        if (status == KVC_OK)
            status = kvc_runner_reserve(runner, chunk, 1, error);
        if (status == KVC_OK)
            status = fill(replay, &runner->prompt, rows, chunk, error);
        replay->rows = rows;
    }
    if (status == KVC_OK)
        status = kvc_session_begin_layer(session, layer, rows, error);
    for (uint32_t from = 0; from < rows && status == KVC_OK; from += chunk) {
        const uint32_t count = rows - from < chunk ? rows - from : chunk;
        attend(replay, &runner->prompt, layer, from, count, q, k, v, out);
    }
    if (status == KVC_OK)
        status = kvc_session_end_layer(session, layer, error);
    if (status == KVC_OK)
        status = runner->device->ops->sync(runner->device, error);
    if (status == KVC_OK && layer + 1 == runner->geometry.layers) {
        kvc_session_end_turn(session);
        kvc_batch_free(runner, &runner->prompt);
    }
    if (status == KVC_OK)
        replay->next_layer = (layer + 1) % runner->geometry.layers;
    return status;
}

enum kvc_status kvc_replay_prompt(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                  const float *v, uint64_t rows, float *out, struct kvc_error *error) {
    enum kvc_status status = check_layer(replay, layer, error);
    if (status != KVC_OK)
        return status;
    if (rows == 0 || rows > INT32_MAX || (layer > 0 && (rows != replay->rows || !replay->session->in_prompt)))
        return kvc_fail(error, KVC_USAGE,
                        "replay: %llu prompt rows in layer %u: must be the same in all layers, 1 to %d",
                        (unsigned long long)rows, layer, INT32_MAX);
    const uint64_t environment = kvc_float_enter();
    status = prompt_layer(replay, layer, q, k, v, (uint32_t)rows, out, error);
    kvc_float_leave(environment);
    replay->failed = status != KVC_OK;
    return status;
}

static enum kvc_status step_layer(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                  const float *v, float *out, struct kvc_error *error) {
    struct kvc_session *session = replay->session;
    struct kvc_runner *runner = replay->runner;
    enum kvc_status status = KVC_OK;
    if (layer == 0) {
        status = kvc_session_begin_step(session, error);
        if (status == KVC_OK)
            status = kvc_runner_reserve(runner, 1, 1, error);
        if (status == KVC_OK)
            status = fill(replay, &runner->step, 1, 1, error);
    }
    if (status == KVC_OK) {
        attend(replay, &runner->step, layer, 0, 1, q, k, v, out);
        status = runner->device->ops->sync(runner->device, error);
    }
    if (status == KVC_OK && session->failed)
        status = kvc_fail(error, session->failure.status, "%s", session->failure.text);
    if (status == KVC_OK && layer + 1 == runner->geometry.layers)
        kvc_session_end_step(session);
    if (status == KVC_OK)
        replay->next_layer = (layer + 1) % runner->geometry.layers;
    return status;
}

enum kvc_status kvc_replay_step(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                const float *v, float *out, struct kvc_error *error) {
    enum kvc_status status = check_layer(replay, layer, error);
    if (status != KVC_OK)
        return status;
    if (replay->session->in_prompt || replay->session->tokens == 0)
        return kvc_fail(error, KVC_USAGE, "replay: a step before the prompt has passed every layer");
    const uint64_t environment = kvc_float_enter();
    status = step_layer(replay, layer, q, k, v, out, error);
    kvc_float_leave(environment);
    replay->failed = status != KVC_OK;
    return status;
}
