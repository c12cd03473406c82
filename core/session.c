/* session.c - sessions: what each has seen, its cache, its turns, its policy's moments. Decode steps are in step.c. */
#include "core/session.h"

#include <stdlib.h>
#include <string.h>

#define STANDARD_CHUNK 512u

void kvc_session_defaults(struct kvc_session_options *options) {
    memset(options, 0, sizeof *options);
    options->cache_type = KVC_F16;
}

static enum kvc_status create(struct kvc_runner *runner, const struct kvc_session_options *options,
                              struct kvc_session **session, struct kvc_error *error) {
    struct kvc_session_options standard;
    if (!options) {
        kvc_session_defaults(&standard);
        options = &standard;
    }
    const struct kvc_geometry *g = &runner->geometry;
    if (options->cache_type != KVC_F32 && options->cache_type != KVC_F16 && options->cache_type != KVC_Q8_0)
        return kvc_fail(error, KVC_USAGE, "session: a cache of %s: must be f32, f16 or q8_0",
                        kvc_type_name(options->cache_type));
    struct kvc_session *made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "session: no memory");
    made->engine = runner->engine;
    made->runner = runner;
    made->chunk = options->chunk ? options->chunk : STANDARD_CHUNK;
    made->context = options->context;
    made->seed = options->seed;
    struct kvc_room *rooms[] = {&made->window.q, &made->window.maximum, &made->window.sum, &made->window.positions,
                                &made->window.later};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        rooms[i]->kind = KVC_MEMORY_SCRATCH;
    const struct kvc_entry_format format = {options->cache_type, g->head_size,
                                            kvc_entry_row_bytes(options->cache_type, g->head_size)};
    struct kvc_arena *arena;
    enum kvc_status status = kvc_policy_parse(runner->engine, options->policy, &made->policy, error);
    if (status == KVC_OK)
        status = kvc_policy_check_layers(made->policy, g->layers, error);
    if (status == KVC_OK)
        status = kvc_runner_arena(runner, &format, &arena, error);
    if (status == KVC_OK)
        status = kvc_cache_open(runner->device, arena, &format, g->layers, g->kv_heads, options->memory_limit,
                                &made->cache, error);
    if (status == KVC_OK) {
        made->held = calloc(g->layers, sizeof *made->held);
        if (!made->held)
            status = kvc_fail(error, KVC_RESOURCE, "session: no memory for %u layers", g->layers);
    }
    if (status != KVC_OK) {
        kvc_session_close(made);
        return status;
    }
    *session = made;
    return KVC_OK;
}

enum kvc_status kvc_session_create(struct kvc_engine *engine, const struct kvc_network *network,
                                   struct kvc_runner **runner, const struct kvc_session_options *options,
                                   struct kvc_session **session, struct kvc_error *error) {
    *session = NULL;
    if (!*runner) {
        const struct kvc_geometry geometry = {network->layers, network->heads, network->kv_heads, network->head_size};
        const enum kvc_status status = kvc_runner_open(engine, network, &geometry, runner, error);
        if (status != KVC_OK)
            return status;
    }
    return create(*runner, options, session, error);
}

enum kvc_status kvc_session_create_bare(struct kvc_runner *runner, const struct kvc_session_options *options,
                                        struct kvc_session **session, struct kvc_error *error) {
    *session = NULL;
    return create(runner, options, session, error);
}

void kvc_session_close(struct kvc_session *session) {
    if (!session)
        return;
    struct kvc_device *device = session->runner->device;
    struct kvc_window *window = &session->window;
    struct kvc_room *rooms[] = {&window->q, &window->maximum, &window->sum, &window->positions, &window->later};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        kvc_room_free(device, rooms[i]);
    if (session->cache.device)
        kvc_cache_close(&session->cache);
    kvc_policy_free(session->policy);
    free(session->held);
    free(session);
}

/* ---- turns ---- */

enum kvc_status kvc_session_begin_turn(struct kvc_session *session, uint64_t rows, struct kvc_error *error) {
    struct kvc_device *device = session->runner->device;
    const struct kvc_geometry *g = &session->runner->geometry;
    struct kvc_window *window = &session->window;
    if (session->failed)
        return kvc_fail(error, KVC_USAGE, "session: an earlier prompt or step failed; close it and open another");
    if (rows == 0)
        return kvc_fail(error, KVC_USAGE, "session: a prompt of 0 tokens; it needs at least 1");
    if (rows > INT32_MAX - session->tokens)
        return kvc_fail(error, KVC_USAGE, "session: %llu tokens after %llu; at most %d fit", (unsigned long long)rows,
                        (unsigned long long)session->tokens, INT32_MAX);
    const uint64_t wanted = kvc_policy_queries(session->policy);
    const uint32_t count = (uint32_t)(wanted < rows ? wanted : rows);
    if (count > 0) {
        const size_t bytes = (size_t)count * sizeof(float);
        enum kvc_status status = kvc_room_reserve(device, &window->q, bytes * g->heads * g->head_size, error);
        if (status == KVC_OK)
            status = kvc_room_reserve(device, &window->maximum, bytes * g->heads, error);
        if (status == KVC_OK)
            status = kvc_room_reserve(device, &window->sum, bytes * g->heads, error);
        if (status == KVC_OK)
            status = kvc_room_reserve(device, &window->positions, bytes, error);
        if (status == KVC_OK)
            status = kvc_room_reserve(device, &window->later, bytes, error);
        uint32_t *later = status == KVC_OK ? malloc(2 * bytes) : NULL;
        if (!later)
            return status != KVC_OK ? status : kvc_fail(error, KVC_RESOURCE, "session: no memory");
        int32_t *positions = (int32_t *)(later + count);
        for (uint32_t i = 0; i < count; i++) {
            later[i] = count - 1 - i;
            positions[i] = (int32_t)(session->tokens + rows - count + i);
        }
        device->ops->upload(device, kvc_room_at(&window->later, 0), later, bytes);
        device->ops->upload(device, kvc_room_at(&window->positions, 0), positions, bytes);
        free(later);
    }
    window->rows = count;
    session->turn = rows;
    session->step = 0;
    session->peak_before = session->cache.peak_bytes;
    session->cache.peak_bytes = session->cache.cache_bytes + session->cache.state_bytes;
    session->in_prompt = true;
    session->failed = true; /* until the turn is over */
    return KVC_OK;
}

enum kvc_status kvc_session_begin_layer(struct kvc_session *session, uint32_t layer, uint64_t rows,
                                        struct kvc_error *error) {
    return kvc_cache_reserve(&session->cache, layer, rows, kvc_policy_columns(session->policy, layer), error);
}

enum kvc_status kvc_session_end_layer(struct kvc_session *session, uint32_t layer, struct kvc_error *error) {
    const struct kvc_window *window = &session->window;
    session->held[layer] = kvc_cache_most(&session->cache, layer);
    enum kvc_status status = kvc_stage_run(session, layer, true, window->rows, kvc_room_at(&window->q, 0),
                                           kvc_room_at(&window->maximum, 0), kvc_room_at(&window->sum, 0),
                                           kvc_room_at(&window->positions, 0), kvc_room_at(&window->later, 0), error);
    if (status == KVC_OK)
        status = kvc_cache_shrink(&session->cache, layer, kvc_policy_surplus(session->policy, layer), KVC_TILE, error);
    return status;
}

void kvc_session_end_turn(struct kvc_session *session) {
    session->tokens += session->turn;
    session->prompt_peak = session->cache.peak_bytes;
    session->in_prompt = false;
    session->failed = false;
    session->cache.device->ops->arena_trim(session->cache.device, session->cache.arena);
}

void kvc_session_attended(struct kvc_session *session, const struct kvc_batch *batch, uint32_t layer,
                          uint32_t batch_row, uint32_t row, uint32_t rows) {
    struct kvc_runner *runner = session->runner;
    struct kvc_device *device = runner->device;
    const struct kvc_geometry *g = &runner->geometry;
    const size_t q_bytes = (size_t)g->heads * g->head_size * sizeof(float), m_bytes = g->heads * sizeof(float);
    if (!session->in_prompt) {
        if (session->failed)
            return;
        enum kvc_status status =
            kvc_stage_run(session, layer, false, 1, kvc_room_at(&runner->q, row * q_bytes),
                          kvc_room_at(&runner->maximum, row * m_bytes), kvc_room_at(&runner->sum, row * m_bytes),
                          kvc_room_at(&batch->positions, batch_row * sizeof(int32_t)),
                          kvc_room_at(&batch->later, batch_row * sizeof(uint32_t)), &session->failure);
        const uint64_t before = session->cache.cache_bytes;
        if (status == KVC_OK)
            status = kvc_cache_shrink(&session->cache, layer, kvc_policy_surplus(session->policy, layer), 2 * KVC_TILE,
                                      &session->failure);
        if (session->cache.cache_bytes < before)
            device->ops->arena_trim(device, session->cache.arena);
        session->failed = status != KVC_OK;
        return;
    }
    /* the batch's rows are the turn's: keep those among the last window->rows */
    const struct kvc_window *window = &session->window;
    const uint64_t first = session->turn - window->rows, end = (uint64_t)batch_row + rows;
    if (end <= first)
        return;
    const uint32_t skip = (uint32_t)(first > batch_row ? first - batch_row : 0);
    const uint64_t to = batch_row + skip - first;
    const uint32_t from = row + skip, count = rows - skip;
    device->ops->copy(device, kvc_room_at(&window->q, to * q_bytes), kvc_room_at(&runner->q, from * q_bytes),
                      count * q_bytes);
    device->ops->copy(device, kvc_room_at(&window->maximum, to * m_bytes),
                      kvc_room_at(&runner->maximum, from * m_bytes), count * m_bytes);
    device->ops->copy(device, kvc_room_at(&window->sum, to * m_bytes), kvc_room_at(&runner->sum, from * m_bytes),
                      count * m_bytes);
}

/* longrope: a session keeps the factors it began with, because its keys stay as they were turned. */
static void choose_rope(struct kvc_session *session, uint64_t rows) {
    const struct kvc_rope *rope = &session->runner->network->rope;
    if (session->rope_chosen)
        return;
    const uint64_t length = session->context > rows ? session->context : rows;
    session->long_rope = rope->long_frequency && length > rope->original_context;
    session->rope_chosen = true;
}

enum kvc_status kvc_session_check_tokens(const struct kvc_network *network, const int32_t *tokens, size_t count,
                                         struct kvc_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= network->vocab)
            return kvc_fail(error, KVC_USAGE, "token %zu is %ld: must be from 0 to %u", i, (long)tokens[i],
                            network->vocab - 1);
    }
    return KVC_OK;
}

/* Tokens, positions, rotations and `later` of a turn of count rows in chunks. */
static enum kvc_status fill_turn(struct kvc_session *session, const int32_t *tokens, uint32_t count,
                                 struct kvc_error *error) {
    struct kvc_runner *runner = session->runner;
    struct kvc_batch *batch = &runner->prompt;
    int32_t *positions = malloc((size_t)count * sizeof *positions);
    bool *long_factors = malloc(count * sizeof *long_factors);
    enum kvc_status status = KVC_OK;
    if (!positions || !long_factors) {
        status = kvc_fail(error, KVC_RESOURCE, "session: no memory for %u positions", count);
    } else {
        for (uint32_t i = 0; i < count; i++) {
            positions[i] = (int32_t)(session->tokens + i);
            long_factors[i] = session->long_rope;
        }
        status = kvc_batch_fill(runner, batch, tokens, positions, long_factors, count, error);
    }
    if (status == KVC_OK) {
        uint32_t *later = (uint32_t *)positions;
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t chunk_end =
                count - i > session->chunk - i % session->chunk ? i - i % session->chunk + session->chunk : count;
            later[i] = chunk_end - 1 - i;
        }
        runner->device->ops->upload(runner->device, kvc_room_at(&batch->later, 0), later, count * sizeof *later);
    }
    free(positions);
    free(long_factors);
    return status;
}

/* Gives every row's logits of one chunk to the caller. */
static enum kvc_status report_rows(struct kvc_runner *runner, uint32_t row, uint32_t rows,
                                   const struct kvc_prompt_options *options, float *logits, struct kvc_error *error) {
    uint32_t index[KVC_LOGIT_ROWS];
    const uint32_t vocab = runner->network->vocab;
    for (uint32_t from = row; from < row + rows; from += KVC_LOGIT_ROWS) {
        const uint32_t count = row + rows - from < KVC_LOGIT_ROWS ? row + rows - from : KVC_LOGIT_ROWS;
        for (uint32_t i = 0; i < count; i++)
            index[i] = from + i;
        enum kvc_status status = kvc_runner_logits(runner, &runner->prompt, index, count, logits, error);
        if (status == KVC_OK)
            status = runner->device->ops->sync(runner->device, error);
        if (status != KVC_OK)
            return status;
        for (uint32_t i = 0; i < count; i++) {
            if (options->row(options->user, from + i, logits + (size_t)i * vocab))
                return kvc_fail(error, KVC_USAGE, "prompt: stopped by the caller at row %u", from + i);
        }
    }
    return KVC_OK;
}

/* Layer-major: every row passes layer l, the policy keeps its share of that layer, then layer l + 1. */
static enum kvc_status run_layers(struct kvc_session *session, uint32_t count, const struct kvc_prompt_options *options,
                                  float *row_logits, struct kvc_error *error) {
    struct kvc_runner *runner = session->runner;
    const uint32_t layers = runner->network->layers;
    enum kvc_status status = KVC_OK;
    kvc_runner_embed(runner, &runner->prompt);
    for (uint32_t l = 0; l < layers && status == KVC_OK; l++) {
        status = kvc_session_begin_layer(session, l, count, error);
        for (uint32_t row = 0; row < count && status == KVC_OK; row += session->chunk) {
            const uint32_t rows = count - row < session->chunk ? count - row : session->chunk;
            const struct kvc_part part = {session, 0, rows, rows};
            kvc_runner_layer(runner, &runner->prompt, l, row, rows, &part, 1);
            if (l == layers - 1 && options && options->row)
                status = report_rows(runner, row, rows, options, row_logits, error);
            if (status == KVC_OK && options && options->progress &&
                options->progress(options->user, (uint64_t)l * count + row + rows, (uint64_t)layers * count))
                status = kvc_fail(error, KVC_USAGE, "prompt: stopped by the caller");
            if (rows < session->chunk)
                break;
        }
        if (status == KVC_OK)
            status = kvc_session_end_layer(session, l, error);
        if (status == KVC_OK)
            status = runner->device->ops->sync(runner->device, error);
    }
    return status;
}

static enum kvc_status run_prompt(struct kvc_session *session, const int32_t *tokens, uint32_t count,
                                  const struct kvc_prompt_options *options, float *logits, struct kvc_error *error) {
    struct kvc_runner *runner = session->runner;
    struct kvc_device *device = runner->device;
    float *row_logits = NULL;
    enum kvc_status status = kvc_session_check_tokens(runner->network, tokens, count, error);
    if (status != KVC_OK)
        return status;
    const uint64_t saturated = device->saturated;
    status = kvc_session_begin_turn(session, count, error);
    if (status != KVC_OK)
        return status;
    choose_rope(session, session->tokens + count);
    if (options && options->row) {
        const size_t rows = count < KVC_LOGIT_ROWS ? count : KVC_LOGIT_ROWS;
        row_logits = malloc(rows * runner->network->vocab * sizeof(float));
        if (!row_logits)
            status = kvc_fail(error, KVC_RESOURCE, "prompt: no memory for %zu rows of logits", rows);
    }
    if (status == KVC_OK)
        status = kvc_runner_reserve(runner, count < session->chunk ? count : session->chunk, 1, error);
    if (status == KVC_OK)
        status = fill_turn(session, tokens, count, error);
    if (status == KVC_OK)
        status = run_layers(session, count, options, row_logits, error);
    if (status == KVC_OK && logits) {
        const uint32_t last = count - 1;
        status = kvc_runner_logits(runner, &runner->prompt, &last, 1, logits, error);
    }
    if (status == KVC_OK)
        status = device->ops->sync(device, error);
    free(row_logits);
    kvc_batch_free(runner, &runner->prompt);
    session->saturated += device->saturated - saturated;
    if (status == KVC_OK)
        kvc_session_end_turn(session);
    return status;
}

enum kvc_status kvc_session_prompt(struct kvc_session *session, const int32_t *tokens, size_t count,
                                   const struct kvc_prompt_options *options, float *logits, struct kvc_error *error) {
    if (count > INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "prompt: %zu tokens; at most %d fit", count, INT32_MAX);
    const uint64_t environment = kvc_float_enter();
    const enum kvc_status status = run_prompt(session, tokens, (uint32_t)count, options, logits, error);
    kvc_float_leave(environment);
    return status;
}

/* ---- what a session holds ---- */

void kvc_session_stats(const struct kvc_session *session, struct kvc_session_stats *stats) {
    const struct kvc_cache *cache = &session->cache;
    memset(stats, 0, sizeof *stats);
    stats->tokens = session->tokens;
    for (uint32_t l = 0; l < cache->layers; l++) {
        for (uint32_t h = 0; h < cache->kv_heads; h++) {
            const uint64_t entries = cache->layer[l].count[h];
            stats->entries += entries;
            if (entries > stats->entries_most)
                stats->entries_most = entries;
        }
    }
    stats->cache_bytes = cache->cache_bytes;
    stats->state_bytes = cache->state_bytes;
    stats->peak_bytes = cache->peak_bytes > session->peak_before ? cache->peak_bytes : session->peak_before;
    stats->prompt_peak_bytes = session->prompt_peak;
    stats->full_bytes = kvc_cache_head_bytes(&cache->format, session->tokens) * cache->layers * cache->kv_heads;
    stats->read_bytes = session->read_bytes;
    stats->decode_steps = session->steps_total;
    stats->saturated = session->saturated;
}

enum kvc_status kvc_session_positions(const struct kvc_session *session, uint32_t layer, uint32_t kv_head,
                                      int32_t *positions, size_t room, size_t *count, struct kvc_error *error) {
    const struct kvc_cache *cache = &session->cache;
    if (layer >= cache->layers || kv_head >= cache->kv_heads)
        return kvc_fail(error, KVC_USAGE, "positions: layer %u, head %u; the model has layers 0 to %u, heads 0 to %u",
                        layer, kv_head, cache->layers - 1, cache->kv_heads - 1);
    const struct kvc_lists *lists = &cache->layer[layer].lists;
    *count = cache->layer[layer].count[kv_head];
    const size_t some = *count < room ? *count : room;
    if (!lists->order) {
        for (size_t i = 0; i < some; i++)
            positions[i] = (int32_t)i;
        return KVC_OK;
    }
    struct kvc_device *device = cache->device;
    const size_t first = lists->host_base[kv_head] * sizeof(uint32_t);
    const size_t slots = lists->host_base[kv_head + 1] - lists->host_base[kv_head];
    uint32_t *order = malloc(slots * sizeof(uint32_t) + 1);
    int32_t *by_slot = malloc(slots * sizeof(int32_t) + 1);
    enum kvc_status status = KVC_OK;
    if (order && by_slot) {
        device->ops->download(device, order, (struct kvc_span){lists->order, first}, slots * sizeof(uint32_t));
        device->ops->download(device, by_slot, (struct kvc_span){lists->position, first}, slots * sizeof(int32_t));
        for (size_t i = 0; i < some; i++)
            positions[i] = by_slot[order[i]];
    } else {
        status = kvc_fail(error, KVC_RESOURCE, "positions: no memory for %zu entries", *count);
    }
    free(order);
    free(by_slot);
    return status;
}
