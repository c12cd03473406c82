/* replay.c - runs a policy on tensors of any origin: attention, cache and stages without a model. */
#include "core/base/assert.h"
#include "core/base/float.h"
#include "core/base/integers.h"
#include "core/engine/look.h"
#include "core/engine/pass.h"
#include "core/engine/prepare_step.h"
#include "core/engine/decode.h"
#include "kvcull/check.h"

#include <stdlib.h>
#include <string.h>

/* The caller's tensors for one layer of the current prompt. */
struct layer_rows {
    const float *q;        /* [rows, H, d] */
    const float *k;        /* [rows, H_kv, d] */
    const float *v;        /* [rows, H_kv, d] */
    float *out;            /* [rows, H, d] or NULL */
    const float *pseudo_q; /* [pseudo_rows, H, d] */
    const float *pseudo_k; /* [pseudo_rows, H_kv, d] */
    uint32_t pseudo_rows;
    const float **probe; /* [probe_chunks]: [probe_rows, H, d] each */
    uint32_t probe_chunks;
};

struct kvc_replay {
    struct kvc_runner *runner;
    struct kvc_session *session;
    struct layer_rows *layer; /* [layers] */
    uint32_t next_layer;
    uint32_t probe_rows; /* rows of every given probe; 0: none given yet */
    uint64_t rows;       /* rows of the current prompt */
    bool failed;         /* a layer failed: the replay is unusable */
    kvc_chunk_fn *chunk_done;
    void *user;
};

enum kvc_status kvc_replay_open(struct kvc_engine *engine, const struct kvc_geometry *geometry,
                                const struct kvc_session_options *options, struct kvc_replay **replay,
                                struct kvc_error *error) {
    *replay = NULL;
    enum kvc_status status = kvc_geometry_check(geometry, "replay", error);
    if (status != KVC_OK)
        return status;
    struct kvc_replay *made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "replay: no memory");
    made->layer = calloc(geometry->layers, sizeof *made->layer);
    status = made->layer ? kvc_runner_open(engine, NULL, geometry, &made->runner, error)
                         : kvc_fail(error, KVC_RESOURCE, "replay: no memory");
    if (status == KVC_OK)
        status = kvc_session_create_bare(made->runner, options, &made->session, error);
    if (status != KVC_OK) {
        kvc_replay_close(made);
        return status;
    }
    *replay = made;
    return KVC_OK;
}

enum kvc_status kvc_replay_windows(struct kvc_replay *replay, const uint32_t *windows, struct kvc_error *error) {
    const size_t bytes = replay->runner->geometry.layers * sizeof *windows;
    if (replay->session->tokens || replay->session->in_prompt)
        return kvc_fail(error, KVC_USAGE, "replay: windows must be given before the first prompt");
    uint32_t *copy = malloc(bytes);
    if (!copy)
        return kvc_fail(error, KVC_RESOURCE, "replay: no memory for %u windows", replay->runner->geometry.layers);
    memcpy(copy, windows, bytes);
    free(replay->runner->windows);
    replay->runner->windows = copy;
    return KVC_OK;
}

static struct kvc_span replay_whole(const struct kvc_growable *growable) { return kvc_growable_at(growable, 0); }

enum kvc_status kvc_replay_scores(struct kvc_replay *replay, float cap, const float *sinks, struct kvc_error *error) {
    struct kvc_runner *runner = replay->runner;
    const size_t count = (size_t)runner->geometry.layers * runner->geometry.heads;
    if (replay->session->tokens || replay->session->in_prompt)
        return kvc_fail(error, KVC_USAGE, "replay: caps and sinks must be given before the first prompt");
    if (!(cap >= 0.0f && cap * 0.0f == 0.0f))
        return kvc_fail(error, KVC_USAGE, "replay: cap %g: must be 0 or above, and finite", (double)cap);
    for (size_t i = 0; sinks && i < count; i++)
        if (!(sinks[i] * 0.0f == 0.0f))
            return kvc_fail(error, KVC_USAGE, "replay: sink %zu of layer %zu is not finite", i % runner->geometry.heads,
                            i / runner->geometry.heads);
    kvc_growable_free(runner->device, &runner->sinks);
    enum kvc_status status = KVC_OK;
    if (sinks)
        status = kvc_growable_reserve(runner->device, &runner->sinks, count * sizeof *sinks, error);
    if (status == KVC_OK && sinks)
        runner->device->ops->upload(runner->device, replay_whole(&runner->sinks), sinks, count * sizeof *sinks);
    runner->cap = cap;
    return status;
}

void kvc_replay_close(struct kvc_replay *replay) {
    if (!replay)
        return;
    for (uint32_t l = 0; replay->layer && replay->runner && l < replay->runner->geometry.layers; l++)
        free(replay->layer[l].probe);
    kvc_session_close(replay->session);
    kvc_runner_close(replay->runner);
    free(replay->layer);
    free(replay);
}

const struct kvc_session *kvc_replay_session(const struct kvc_replay *replay) { return replay->session; }

void kvc_replay_on_chunk(struct kvc_replay *replay, kvc_chunk_fn *done, void *user) {
    replay->chunk_done = done;
    replay->user = user;
}

/* ---- the caller's rows, in place of a network's ---- */

/* Uploads rows of `width` floats to row `to` of a scratch buffer. */
static void replay_put(struct kvc_replay *replay, const struct kvc_growable *growable, uint32_t to, const float *x,
                       size_t rows, size_t width) {
    KVC_ASSERT((to + rows) * width * sizeof(float) <= growable->bytes);
    struct kvc_device *device = replay->runner->device;
    device->ops->upload(device, kvc_growable_at(growable, to * width * sizeof(float)), x, rows * width * sizeof(float));
}

static enum kvc_status load_rows(void *user, const int32_t *tokens, const int32_t *positions,
                                 const uint32_t *causal_offset, uint32_t rows, struct kvc_error *error) {
    struct kvc_runner *runner = ((struct kvc_replay *)user)->runner;
    (void)tokens;
    const enum kvc_status status = kvc_batch_fill(runner, &runner->prompt, NULL, positions, NULL, rows, error);
    if (status == KVC_OK)
        runner->device->ops->upload(runner->device, replay_whole(&runner->prompt.causal_offset), causal_offset,
                                    rows * sizeof *causal_offset);
    return status;
}

/* Returns how many rows of the part, from row i on, are consecutive in the caller's tensors. *from is the first of
 * them. */
static size_t neighbours(const struct kvc_session *session, const struct kvc_row_span *part, uint32_t i, size_t *from) {
    const uint32_t at = session->prompt.chunk_from + part->row + i;
    KVC_ASSERT(at < kvc_session_rows(session));
    *from = kvc_session_row(session, at);
    return session->prompt.kept_rows ? 1 : part->rows;
}

/* Uploads q, k and v of a part's rows to the runner. */
static enum kvc_status upload_rows(void *user, uint32_t layer, const struct kvc_row_span *part,
                                   struct kvc_projected *projected, struct kvc_error *error) {
    struct kvc_replay *replay = user;
    struct kvc_runner *runner = replay->runner;
    struct kvc_session *session = replay->session;
    struct kvc_device *device = runner->device;
    const struct kvc_geometry *g = &runner->geometry;
    const struct layer_rows *given = &replay->layer[layer];
    const size_t wide = (size_t)g->heads * g->head_size, narrow = (size_t)g->kv_heads * g->head_size;
    projected->k = replay_whole(&runner->k);
    projected->v = replay_whole(&runner->v);
    if (part->kind == KVC_ROWS_PSEUDO) {
        if (given->pseudo_rows != part->rows)
            return kvc_fail(error, KVC_INPUT, "replay: %u pseudo rows in layer %u: must be %u", given->pseudo_rows,
                            layer, part->rows);
        replay_put(replay, &runner->q, 0, given->pseudo_q, part->rows, wide);
        replay_put(replay, &runner->k, 0, given->pseudo_k, part->rows, narrow);
        device->ops->zero(device, replay_whole(&runner->v), part->rows * narrow * sizeof(float));
    } else if (part->kind == KVC_ROWS_PROBE) {
        const uint32_t chunk = session->prompt.chunk_from / session->prompt.chunking.chunk;
        KVC_ASSERT(part->rows == session->prompt.probes);
        if (chunk >= given->probe_chunks || !given->probe[chunk] || replay->probe_rows != part->rows)
            return kvc_fail(error, KVC_INPUT, "replay: layer %u, chunk %u: %u probe queries must come with the prompt",
                            layer, chunk, part->rows);
        replay_put(replay, &runner->q, 0, given->probe[chunk], part->rows, wide);
        if (part->stored) { /* the attention of probes to each other affects only their outputs, which nothing reads */
            device->ops->zero(device, replay_whole(&runner->k), part->rows * narrow * sizeof(float));
            device->ops->zero(device, replay_whole(&runner->v), part->rows * narrow * sizeof(float));
        }
    } else {
        for (uint32_t i = 0, some; i < part->rows; i += some) {
            size_t from;
            some = (uint32_t)neighbours(session, part, i, &from);
            replay_put(replay, &runner->q, i, given->q + from * wide, some, wide);
            replay_put(replay, &runner->k, i, given->k + from * narrow, some, narrow);
            replay_put(replay, &runner->v, i, given->v + from * narrow, some, narrow);
        }
    }
    return KVC_OK;
}

/* Copies the attention output of a part's rows to the caller. */
static enum kvc_status download_rows(void *user, uint32_t layer, const struct kvc_row_span *part,
                                     struct kvc_error *error) {
    struct kvc_replay *replay = user;
    struct kvc_device *device = replay->runner->device;
    const struct kvc_geometry *g = &replay->runner->geometry;
    const struct layer_rows *given = &replay->layer[layer];
    const size_t wide = (size_t)g->heads * g->head_size;
    for (uint32_t i = 0, some; part->kind == KVC_ROWS_PROMPT && given->out && i < part->rows; i += some) {
        size_t to;
        some = (uint32_t)neighbours(replay->session, part, i, &to);
        device->ops->download(device, given->out + to * wide,
                              kvc_growable_at(&replay->runner->attended, i * wide * sizeof(float)),
                              some * wide * sizeof(float));
    }
    return device->ops->sync(device, error);
}

/* nothing to gather: session->prompt.kept_rows locates the kept rows */
static enum kvc_status gather_rows(void *user, const uint32_t *index, uint32_t rows, struct kvc_error *error) {
    (void)user, (void)index, (void)rows, (void)error;
    return KVC_OK;
}

static struct kvc_row_source source_of(struct kvc_replay *replay) {
    return (struct kvc_row_source){.user = replay,
                                   .pseudo = replay->layer[0].pseudo_rows,
                                   .load = load_rows,
                                   .project = upload_rows,
                                   .feed_forward = download_rows,
                                   .gather = gather_rows};
}

static enum kvc_status check_layer(const struct kvc_replay *replay, uint32_t layer, struct kvc_error *error) {
    if (replay->failed)
        return kvc_fail(error, KVC_USAGE, "replay: an earlier layer failed; close it and open another");
    if (layer == replay->next_layer)
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "replay: layer %u comes before layer %u", layer, replay->next_layer);
}

/* Runs the whole prompt chunk by chunk, after all layers have been given. */
static enum kvc_status run_chunks(struct kvc_replay *replay, uint32_t rows, struct kvc_error *error) {
    struct kvc_session *session = replay->session;
    const struct kvc_row_source source = source_of(replay);
    const uint32_t chunk = session->prompt.chunking.chunk;
    enum kvc_status status = KVC_OK;
    for (uint32_t from = 0; from < rows && status == KVC_OK; from += chunk) {
        status = kvc_pass_begin(&session, 1, &source, from, kvc_min_u32(rows - from, chunk), error);
        for (uint32_t l = 0; l < session->cache.layers && status == KVC_OK; l++)
            status = kvc_pass_layer(&session, 1, &source, l, error);
        if (status == KVC_OK && replay->chunk_done && replay->chunk_done(replay->user, from / chunk))
            status = kvc_fail(error, KVC_USAGE, "replay: stopped by the caller");
        if (rows - from <= chunk)
            break;
    }
    return status;
}

static enum kvc_status prompt_layer(struct kvc_replay *replay, uint32_t layer, uint32_t rows, struct kvc_error *error) {
    struct kvc_session *session = replay->session;
    struct kvc_runner *runner = replay->runner;
    const struct kvc_row_source source = source_of(replay);
    const bool last = layer + 1 == runner->geometry.layers;
    enum kvc_status status = KVC_OK;
    if (layer == 0) {
        status = kvc_prompt_begin(session, rows, error);
        if (status == KVC_OK)
            status = kvc_runner_reserve(runner, kvc_prompt_rows_most(session, rows), 1, error);
        if (status == KVC_OK && !session->prompt.chunking.chunk)
            status = kvc_pass_begin(&session, 1, &source, 0, rows, error);
        replay->rows = rows;
    }
    if (status == KVC_OK && !session->prompt.chunking.chunk)
        status = kvc_pass_layer(&session, 1, &source, layer, error);
    else if (status == KVC_OK && last)
        status = run_chunks(replay, rows, error);
    if (status == KVC_OK)
        status = runner->device->ops->sync(runner->device, error);
    if (status == KVC_OK && last) {
        kvc_prompt_end(session);
        kvc_batch_free(runner, &runner->prompt);
        for (uint32_t l = 0; l < runner->geometry.layers; l++) {
            free(replay->layer[l].probe);
            replay->layer[l] = (struct layer_rows){.q = NULL};
        }
        replay->probe_rows = 0;
    }
    if (status == KVC_OK)
        replay->next_layer = (layer + 1) % runner->geometry.layers;
    return status;
}

/* Checks the state and arguments before a layer's prompt. */
static enum kvc_status check_extra(const struct kvc_replay *replay, uint32_t layer, uint32_t rows,
                                   struct kvc_error *error) {
    if (replay->failed)
        return kvc_fail(error, KVC_USAGE, "replay: an earlier layer failed; close it and open another");
    if (layer >= replay->runner->geometry.layers || rows == 0 || rows > INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "replay: %u rows of layer %u: there are %u layers", rows, layer,
                        replay->runner->geometry.layers);
    return KVC_OK;
}

enum kvc_status kvc_replay_pseudo(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                  uint32_t rows, struct kvc_error *error) {
    const enum kvc_status status = check_extra(replay, layer, rows, error);
    if (status != KVC_OK)
        return status;
    replay->layer[layer].pseudo_q = q;
    replay->layer[layer].pseudo_k = k;
    replay->layer[layer].pseudo_rows = rows;
    return KVC_OK;
}

enum kvc_status kvc_replay_probe(struct kvc_replay *replay, uint32_t layer, uint32_t chunk, const float *q,
                                 uint32_t rows, struct kvc_error *error) {
    enum kvc_status status = check_extra(replay, layer, rows, error);
    if (status != KVC_OK)
        return status;
    struct layer_rows *given = &replay->layer[layer];
    if (replay->probe_rows && rows != replay->probe_rows)
        return kvc_fail(error, KVC_INPUT, "replay: layer %u, chunk %u: %u probe queries; those before have %u", layer,
                        chunk, rows, replay->probe_rows);
    if (chunk >= INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "replay: probe of chunk %u: must be below %d", chunk, INT32_MAX);
    if (chunk >= given->probe_chunks) {
        const float **grown = realloc(given->probe, (chunk + 1ull) * sizeof *grown);
        if (!grown)
            return kvc_fail(error, KVC_RESOURCE, "replay: no memory for the probes of %u chunks", chunk + 1);
        given->probe = grown;
        while (given->probe_chunks <= chunk)
            grown[given->probe_chunks++] = NULL;
    }
    given->probe[chunk] = q;
    replay->probe_rows = rows;
    return KVC_OK;
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
    const uint64_t environment = kvc_float_open();
    struct layer_rows *given = &replay->layer[layer];
    given->q = q;
    given->k = k;
    given->v = v;
    given->out = out;
    kvc_look_open(replay->runner->engine);
    status = prompt_layer(replay, layer, (uint32_t)rows, error);
    kvc_float_close(environment);
    replay->failed = status != KVC_OK;
    return status;
}

static enum kvc_status step_layer(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                  const float *v, float *out, struct kvc_error *error) {
    struct kvc_session *session = replay->session;
    struct kvc_runner *runner = replay->runner;
    const struct kvc_step step = {.runner = runner, .session = &session, .count = 1, .stored = 1};
    enum kvc_status status = KVC_OK;
    if (layer == 0) {
        status = kvc_step_begin(session, error);
        if (status == KVC_OK)
            status = kvc_runner_reserve(runner, 1, 1, error);
        if (status == KVC_OK)
            status = kvc_step_reserve_counts(runner, &session, 1, error);
        const int32_t position = (int32_t)session->tokens;
        if (status == KVC_OK)
            status = kvc_batch_fill(runner, &runner->step, NULL, &position, NULL, 1, error);
        if (status == KVC_OK)
            runner->device->ops->zero(runner->device, replay_whole(&runner->step.causal_offset), sizeof(uint32_t));
    }
    if (status == KVC_OK) {
        const struct kvc_geometry *g = &runner->geometry;
        const size_t wide = (size_t)g->heads * g->head_size, narrow = (size_t)g->kv_heads * g->head_size;
        replay_put(replay, &runner->q, 0, q, 1, wide);
        replay_put(replay, &runner->k, 0, k, 1, narrow);
        replay_put(replay, &runner->v, 0, v, 1, narrow);
        kvc_step_layer(&step, layer);
        if (out)
            runner->device->ops->download(runner->device, out, replay_whole(&runner->attended), wide * sizeof(float));
        if (layer + 1 == g->layers)
            kvc_step_take_counts(runner, &session, 1);
        status = runner->device->ops->sync(runner->device, error);
    }
    if (status == KVC_OK && session->failed)
        status = kvc_fail(error, session->failure.status, "%s", session->failure.text);
    if (status == KVC_OK && layer + 1 == runner->geometry.layers)
        kvc_step_end(session);
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
    const uint64_t environment = kvc_float_open();
    status = step_layer(replay, layer, q, k, v, out, error);
    kvc_float_close(environment);
    replay->failed = status != KVC_OK;
    return status;
}
