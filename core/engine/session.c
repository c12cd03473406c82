/* session.c - sessions: what each has seen and holds, prompts through a network. Turns are in prompt.c, steps in
 * step.c.
 */
#include "core/base/float.h"
#include "core/engine/session.h"
#include "core/engine/advice.h"
#include "core/engine/fill.h"
#include "core/engine/finite.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_CHUNK 512u

void kvc_session_defaults(struct kvc_session_options *options) {
    memset(options, 0, sizeof *options);
    options->cache_type = KVC_F16;
}

/* Everything a session makes as it goes, with the kind it is counted under. */
static void set_kinds(struct kvc_session *session) {
    struct kvc_queries *queries[] = {&session->window, &session->pseudo, &session->probing};
    struct kvc_growable *buffers[] = {&session->read_rank,
                                      &session->read_count,
                                      &session->select_scores,
                                      &session->select_probabilities,
                                      &session->alpha,
                                      &session->probe,
                                      &session->probe_now,
                                      &session->cache_positions.cosine,
                                      &session->cache_positions.sine};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        queries[i]->q.kind = queries[i]->maximum.kind = queries[i]->sum.kind = KVC_MEMORY_SCRATCH;
        queries[i]->positions.kind = queries[i]->causal_offset.kind = KVC_MEMORY_SCRATCH;
    }
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        buffers[i]->kind = KVC_MEMORY_SCRATCH;
}

static void free_queries(struct kvc_device *device, struct kvc_queries *queries) {
    struct kvc_growable *buffers[] = {&queries->q, &queries->maximum, &queries->sum, &queries->positions,
                                      &queries->causal_offset};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        kvc_growable_free(device, buffers[i]);
}

/* The cache, and what is noted of each layer. */
static enum kvc_status open_layers(struct kvc_session *session, struct kvc_spares *store,
                                   const struct kvc_entry_format *format, uint64_t limit, struct kvc_error *error) {
    const struct kvc_geometry *g = &session->runner->geometry;
    uint32_t *heads = malloc(g->layers * sizeof *heads);
    session->held = calloc(g->layers, sizeof *session->held);
    session->after = calloc(g->layers, sizeof *session->after);
    session->touched = calloc(g->layers, sizeof *session->touched);
    session->select = calloc(g->layers, sizeof *session->select);
    session->planned = calloc(g->layers, sizeof *session->planned);
    if (session->record_reads)
        session->recorded = calloc((size_t)g->layers * g->heads, sizeof *session->recorded);
    enum kvc_status status = KVC_OK;
    if (!heads || !session->held || !session->after || !session->touched || !session->select || !session->planned ||
        (session->record_reads && !session->recorded))
        status = kvc_fail(error, KVC_RESOURCE, "session: no memory for %u layers", g->layers);
    for (uint32_t l = 0; l < g->layers && status == KVC_OK; l++) {
        heads[l] = kvc_policy_heads(session->policy, l, g);
        session->planned[l].nothing_goes = kvc_policy_whole(session->policy, l, g, format) == heads[l];
        if (heads[l] != g->kv_heads)
            session->runner->per_head = true;
    }
    if (status == KVC_OK)
        status =
            kvc_cache_open(session->runner->device, store, format, g->layers, heads, limit, &session->cache, error);
    free(heads);
    return status;
}

static enum kvc_status create(struct kvc_runner *runner, const struct kvc_session_options *options,
                              struct kvc_session **session, struct kvc_error *error) {
    struct kvc_session_options defaults;
    if (!options) {
        kvc_session_defaults(&defaults);
        options = &defaults;
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
    made->chunk = options->chunk ? options->chunk : DEFAULT_CHUNK;
    made->context = options->context;
    made->seed = options->seed;
    made->expected = options->expected;
    made->record_reads = options->record_reads;
    set_kinds(made);
    const struct kvc_entry_format format = {options->cache_type, g->head_size,
                                            kvc_entry_row_bytes(options->cache_type, g->head_size)};
    struct kvc_spares *store;
    enum kvc_status status = kvc_policy_parse(runner->engine, options->policy, &made->policy, error);
    if (status == KVC_OK)
        status = kvc_policy_open(made->policy, g, &made->use, error);
    if (status == KVC_OK)
        status = kvc_cache_positions_check(made->policy, runner->network, g->layers, error);
    if (status == KVC_OK)
        status = kvc_runner_store(runner, &format, &store, error);
    if (status == KVC_OK)
        status = open_layers(made, store, &format, options->memory_limit, error);
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
    const struct kvc_geometry *g = &session->runner->geometry;
    struct kvc_growable *buffers[] = {&session->probe, &session->probe_now, &session->cache_positions.cosine,
                                      &session->cache_positions.sine};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        kvc_growable_free(device, buffers[i]);
    free_queries(device, &session->window);
    free_queries(device, &session->pseudo);
    free_queries(device, &session->probing);
    if (session->cache.device) {
        (void)device->ops->sync(device, NULL); /* what the device counts goes into the session */
        kvc_select_close(session);
        for (uint32_t l = 0; session->planned && l < session->cache.layers; l++)
            kvc_stage_forget_plan(session, l);
        kvc_cache_close(&session->cache);
    }
    if (session->policy)
        kvc_policy_close(session->policy, session->use);
    kvc_policy_free(session->policy);
    for (size_t i = 0; session->recorded && i < (size_t)g->layers * g->heads; i++)
        free(session->recorded[i].positions);
    free(session->recorded);
    free(session->output_row);
    free(session->window_positions);
    free(session->pseudo_tokens);
    free(session->kept_rows);
    free(session->next_kept_rows);
    free(session->held);
    free(session->after);
    free(session->touched);
    free(session->select);
    free(session->planned);
    free(session);
}

/* ---- prompts ---- */

/* longrope: a session keeps the factors it began with, because its keys stay as they were turned. */
static void choose_rope(struct kvc_session *session, uint64_t rows) {
    const struct kvc_rope *rope = &session->runner->network->rope;
    if (session->tokens)
        return;
    const uint64_t length = session->context > rows ? session->context : rows;
    session->long_rope = rope->long_frequency && length > rope->original_context;
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

/* Gives the logits of rows of a pass to the caller, who knows them as rows of the turn. */
static enum kvc_status report_rows(struct kvc_session *session, uint32_t row, uint32_t rows,
                                   const struct kvc_prompt_options *options, float *logits, struct kvc_error *error) {
    struct kvc_runner *runner = session->runner;
    const uint32_t vocab = runner->network->vocab, first = session->chunk_from;
    for (uint32_t from = row; from < row + rows; from += KVC_LOGIT_ROWS) {
        const uint32_t count = row + rows - from < KVC_LOGIT_ROWS ? row + rows - from : KVC_LOGIT_ROWS;
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

/* Of rows row.. of the pass, behind a layer (-1: none yet), those whose logits will be looked at: all that the caller
 * wants, and the pass's last, which sees what all others left. */
static enum kvc_status check_rows(const struct prompt *prompt, int64_t layer, uint32_t row, uint32_t rows,
                                  struct kvc_error *error) {
    const struct kvc_session *session = prompt->session;
    const bool all = prompt->options && prompt->options->row, last = row + rows == session->chunk_rows;
    if (prompt->fill || !(all || last))
        return KVC_OK;
    struct kvc_runner *runner = session->runner;
    const uint32_t from = all ? row : row + rows - 1;
    const uint64_t begin = session->tokens + session->chunk_from;
    const uint64_t position = session->kept_rows ? session->tokens + session->kept_rows[from] : begin + from;
    const enum kvc_status status =
        kvc_finite_hidden(runner, &runner->prompt, layer, from, all ? rows : 1, position, error);
    if (status == KVC_INPUT && layer == 0) { /* it may have read another row's embedding */
        kvc_runner_embed(runner, &runner->prompt);
        (void)kvc_finite_hidden(runner, &runner->prompt, -1, 0, session->chunk_rows, begin, error);
    }
    return status;
}

static enum kvc_status compute_rows(void *user, uint32_t layer, uint32_t row, const struct kvc_part *part,
                                    struct kvc_error *error) {
    struct prompt *prompt = user;
    struct kvc_session *session = prompt->session;
    const struct kvc_prompt_options *options = prompt->options;
    const uint32_t layers = session->cache.layers;
    enum kvc_status status = KVC_OK;
    if (prompt->fill)
        kvc_fill_rows(prompt->fill, layer, row, part);
    else
        kvc_runner_layer(session->runner, &session->runner->prompt, layer, row, part->rows, part, 1);
    if (part->kind != KVC_ROWS_PROMPT)
        return KVC_OK;
    status = check_rows(prompt, layer, row, part->rows, error);
    if (status == KVC_OK && layer == layers - 1 && options && options->row) {
        if (session->kept_rows)
            status = kvc_fail(error, KVC_USAGE,
                              "prompt: the logits of every row are asked for, but policy %s lets %u of %llu rows go on",
                              session->policy->spec, session->kept_row_count, (unsigned long long)session->turn);
        else
            status = report_rows(session, row, part->rows, options, prompt->row_logits, error);
    }
    prompt->done += part->rows;
    /* what is left: of this layer, of those above it, of the chunks to come; less than all where rows were cut */
    const uint64_t left =
        (uint64_t)(layers - layer) * session->chunk_rows - row - part->rows +
        (session->last_chunk ? 0 : layers * (session->turn - session->chunk_from - session->chunk_rows));
    if (status == KVC_OK && options && options->progress &&
        options->progress(options->user, prompt->done, prompt->done + left))
        status = kvc_fail(error, KVC_USAGE, "prompt: stopped by the caller");
    return status;
}

static enum kvc_status cut_rows(void *user, const uint32_t *index, uint32_t rows, struct kvc_error *error) {
    struct kvc_runner *runner = ((struct prompt *)user)->session->runner;
    return kvc_runner_cut(runner, &runner->prompt, index, rows, error);
}

/* All layers over the rows of one pass. */
static enum kvc_status run_pass(struct prompt *prompt, const struct kvc_turn_rows *by, uint32_t from, uint32_t rows,
                                struct kvc_error *error) {
    struct kvc_session *session = prompt->session;
    struct kvc_device *device = session->runner->device;
    enum kvc_status status = kvc_turn_begin_pass(session, by, from, rows, error);
    if (status == KVC_OK)
        kvc_runner_embed(session->runner, &session->runner->prompt);
    if (status == KVC_OK)
        status = check_rows(prompt, -1, 0, session->chunk_rows, error);
    for (uint32_t l = 0; l < session->cache.layers && status == KVC_OK; l++) {
        status = kvc_turn_layer(session, by, l, error);
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
    const struct kvc_turn_rows by = {&prompt, tokens, 0, load_rows, compute_rows, cut_rows};
    enum kvc_status status = kvc_session_check_tokens(runner->network, tokens, count, error);
    if (status != KVC_OK)
        return status;
    const uint64_t saturated = device->saturated;
    choose_rope(session, session->tokens + count); /* the turn makes room for rows of cosine and sine by it */
    status = kvc_turn_begin(session, count, error);
    if (status != KVC_OK)
        return status;
    if (options && options->row) {
        const size_t rows = count < KVC_LOGIT_ROWS ? count : KVC_LOGIT_ROWS;
        prompt.row_logits = malloc(rows * runner->network->vocab * sizeof(float));
        if (!prompt.row_logits)
            status = kvc_fail(error, KVC_RESOURCE, "prompt: no memory for %zu rows of logits", rows);
    }
    if (status == KVC_OK)
        status = kvc_runner_reserve(runner, kvc_turn_rows_most(session, count), 1, error);
    if (status == KVC_OK && options && options->made_up) {
        prompt.fill = &fill;
        status = kvc_fill_open(&fill, session, kvc_turn_rows_most(session, count), error);
    }
    const uint32_t step = session->chunking.chunk && session->chunking.chunk < count ? session->chunking.chunk : count;
    for (uint32_t from = 0; from < count && status == KVC_OK; from += step)
        status = run_pass(&prompt, &by, from, count - from < step ? count - from : step, error);
    if (status == KVC_OK && logits)
        status = kvc_runner_logits(runner, &runner->prompt, session->chunk_rows - 1, 1, logits, error);
    if (status == KVC_OK)
        status = device->ops->sync(device, error);
    if (status == KVC_OK && logits && !prompt.fill)
        status = kvc_finite_logits(runner, logits, session->tokens + count - 1, error);
    free(prompt.row_logits);
    if (prompt.fill)
        kvc_fill_close(&fill, session);
    kvc_batch_free(runner, &runner->prompt);
    session->saturated += device->saturated - saturated;
    if (status == KVC_OK)
        kvc_turn_end(session);
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

/* ---- what a session holds ---- */

void kvc_session_stats(const struct kvc_session *session, struct kvc_session_stats *stats) {
    const struct kvc_cache *cache = &session->cache;
    memset(stats, 0, sizeof *stats);
    stats->tokens = session->tokens;
    for (uint32_t l = 0; l < cache->layers; l++) {
        for (uint32_t h = 0; h < cache->layer[l].lists.kv_heads; h++) {
            const uint64_t entries = cache->layer[l].count[h];
            stats->entries += entries;
            if (entries > stats->entries_most)
                stats->entries_most = entries;
        }
    }
    stats->entry_bytes = 2ull * cache->format.row_bytes;
    stats->cache_bytes = cache->cache_bytes;
    stats->state_bytes = cache->state_bytes;
    stats->peak_bytes = cache->peak_bytes > session->peak_before ? cache->peak_bytes : session->peak_before;
    stats->prompt_peak_bytes = session->prompt_peak;
    stats->full_bytes =
        kvc_cache_head_bytes(&cache->format, session->tokens) * cache->layers * session->runner->geometry.kv_heads;
    stats->read_bytes = session->read_bytes + session->select_bytes;
    stats->select_bytes = session->select_bytes;
    stats->decode_steps = session->steps_total;
    stats->saturated = session->saturated;
    const struct kvc_network *network = session->runner->network;
    stats->outgrown = network && network->rope.long_frequency && !session->long_rope &&
                      session->tokens > network->rope.original_context;
}

enum kvc_status kvc_session_watch(struct kvc_session *session, kvc_output_fn *output, void *user,
                                  struct kvc_error *error) {
    const struct kvc_geometry *g = &session->runner->geometry;
    if (output && !session->output_row) {
        session->output_row = malloc((size_t)g->heads * g->head_size * sizeof(float));
        if (!session->output_row)
            return kvc_fail(error, KVC_RESOURCE, "session: no memory for a row of attention's output");
    }
    session->output = output;
    session->output_user = user;
    return KVC_OK;
}

uint32_t kvc_session_heads(const struct kvc_session *session, uint32_t layer) {
    return layer < session->cache.layers ? session->cache.layer[layer].lists.kv_heads : 0;
}

enum kvc_status kvc_session_positions(const struct kvc_session *session, uint32_t layer, uint32_t kv_head,
                                      int32_t *positions, size_t capacity, size_t *count, struct kvc_error *error) {
    const struct kvc_cache *cache = &session->cache;
    if (layer >= cache->layers || kv_head >= cache->layer[layer].lists.kv_heads)
        return kvc_fail(error, KVC_USAGE, "positions: layer %u, head %u; the model has layers 0 to %u, heads 0 to %u",
                        layer, kv_head, cache->layers - 1,
                        kvc_session_heads(session, layer < cache->layers ? layer : 0) - 1);
    const struct kvc_lists *lists = &cache->layer[layer].lists;
    kvc_cache_catch_up(cache, layer);
    *count = cache->layer[layer].count[kv_head];
    const size_t some = *count < capacity ? *count : capacity;
    if (!lists->order || some == 0) {
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
