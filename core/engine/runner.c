/* runner.c - the forward pass: embed, layers, logits. Every row takes the same path whether it belongs to a prompt or
 * to a decode step, alone or in a batch. */
#include "core/engine/runner.h"

#include "core/engine/session.h"
#include "core/base/trig.h"

#include <stdlib.h>
#include <string.h>

static const struct kvc_span none = {NULL, 0};

static struct kvc_span at(const struct kvc_growable *growable, size_t row, size_t width) {
    return (struct kvc_span){growable->buffer, row * width * sizeof(float)};
}

enum kvc_status kvc_growable_reserve(struct kvc_device *device, struct kvc_growable *growable, size_t bytes,
                                     struct kvc_error *error) {
    if (bytes <= growable->bytes)
        return KVC_OK;
    struct kvc_buffer *buffer;
    device->ops->buffer_free(device, growable->buffer);
    growable->buffer = NULL;
    growable->bytes = 0;
    const enum kvc_status status = device->ops->buffer_create(device, growable->kind, bytes, &buffer, error);
    if (status != KVC_OK)
        return status;
    growable->buffer = buffer;
    growable->bytes = bytes;
    return KVC_OK;
}

void kvc_growable_free(struct kvc_device *device, struct kvc_growable *growable) {
    device->ops->buffer_free(device, growable->buffer);
    growable->buffer = NULL;
    growable->bytes = 0;
}

/* All scratch rooms that hold one row of floats per batch row, with their widths. */
static size_t list_buffers(struct kvc_runner *runner, struct kvc_growable **buffers, size_t *widths) {
    const struct kvc_geometry *g = &runner->geometry;
    const size_t q_width = (size_t)g->heads * g->head_size, k_width = (size_t)g->kv_heads * g->head_size;
    const struct kvc_network *network = runner->network;
    const size_t hidden = network ? network->hidden : 0, feed = network ? network->feed_forward : 0;
    size_t n = 0;
#define ROOM(name, width) (buffers[n] = &runner->name, widths[n] = (width), n++)
    ROOM(q, q_width);
    ROOM(k, k_width);
    ROOM(v, k_width);
    ROOM(attended, q_width);
    ROOM(maximum, g->heads);
    ROOM(sum, g->heads);
    if (runner->per_head) {
        ROOM(k_heads, q_width);
        ROOM(v_heads, q_width);
    }
    if (network) {
        ROOM(normed, hidden);
        ROOM(q_raw, q_width);
        ROOM(k_raw, k_width);
        ROOM(projected, hidden);
        ROOM(gate, feed);
        ROOM(up, feed);
    }
#undef ROOM
    return n;
}

enum kvc_status kvc_runner_open(struct kvc_engine *engine, const struct kvc_network *network,
                                const struct kvc_geometry *geometry, struct kvc_runner **runner,
                                struct kvc_error *error) {
    struct kvc_runner *made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "runner: no memory");
    made->engine = engine;
    made->device = engine->device;
    made->network = network;
    made->geometry = *geometry;
    struct kvc_growable *buffers[14];
    size_t widths[14];
    made->per_head = true; /* list them all */
    const size_t n = list_buffers(made, buffers, widths);
    made->per_head = false;
    for (size_t i = 0; i < n; i++)
        buffers[i]->kind = KVC_MEMORY_SCRATCH;
    made->last.kind = made->logits.kind = made->counts.kind = KVC_MEMORY_SCRATCH;
    made->kept_rank.kind = made->kept_count.kind = made->totals.kind = KVC_MEMORY_SCRATCH;
    for (size_t i = 0; i < sizeof made->scores / sizeof *made->scores; i++)
        made->scores[i].kind = KVC_MEMORY_SCRATCH;
    struct kvc_batch *batches[] = {&made->prompt, &made->step};
    for (size_t i = 0; i < 2; i++) {
        struct kvc_batch *batch = batches[i];
        batch->hidden.kind = KVC_MEMORY_HIDDEN;
        batch->positions.kind = batch->tokens.kind = batch->causal_offset.kind = KVC_MEMORY_SCRATCH;
        batch->cosine.kind = batch->sine.kind = KVC_MEMORY_SCRATCH;
    }
    *runner = made;
    return KVC_OK;
}

void kvc_batch_free(struct kvc_runner *runner, struct kvc_batch *batch) {
    struct kvc_growable *buffers[] = {&batch->positions, &batch->tokens, &batch->causal_offset,
                                      &batch->cosine,    &batch->sine,   &batch->hidden};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        kvc_growable_free(runner->device, buffers[i]);
    batch->rows = 0;
}

void kvc_runner_close(struct kvc_runner *runner) {
    if (!runner)
        return;
    struct kvc_growable *buffers[14];
    size_t widths[14];
    runner->per_head = true; /* list them all */
    const size_t n = list_buffers(runner, buffers, widths);
    for (size_t i = 0; i < n; i++)
        kvc_growable_free(runner->device, buffers[i]);
    struct kvc_growable *others[] = {&runner->last,      &runner->logits,     &runner->counts,
                                     &runner->kept_rank, &runner->kept_count, &runner->totals};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        kvc_growable_free(runner->device, others[i]);
    for (size_t i = 0; i < sizeof runner->scores / sizeof *runner->scores; i++)
        kvc_growable_free(runner->device, &runner->scores[i]);
    kvc_batch_free(runner, &runner->prompt);
    kvc_batch_free(runner, &runner->step);
    for (size_t i = 0; i < 3; i++) {
        if (runner->store[i].arena)
            runner->device->ops->arena_free(runner->device, runner->store[i].arena);
        free(runner->store[i].block);
    }
    free(runner->segments);
    free(runner->reads);
    free(runner->host_rows);
    free(runner->host_counts);
    free(runner);
}

enum kvc_status kvc_runner_store(struct kvc_runner *runner, const struct kvc_entry_format *format,
                                 struct kvc_spares **store, struct kvc_error *error) {
    struct kvc_spares *found = &runner->store[format->type == KVC_F32 ? 0 : format->type == KVC_F16 ? 1 : 2];
    found->device = runner->device;
    *store = found;
    return found->arena ? KVC_OK : runner->device->ops->arena_create(runner->device, format, &found->arena, error);
}

enum kvc_status kvc_runner_reserve(struct kvc_runner *runner, uint32_t rows, size_t parts, struct kvc_error *error) {
    if (parts > runner->segment_capacity) {
        struct kvc_segment *grown = realloc(runner->segments, parts * sizeof *grown);
        if (!grown)
            return kvc_fail(error, KVC_RESOURCE, "runner: no memory for %zu segments", parts);
        runner->segments = grown;
        const struct kvc_read_list **reads = realloc(runner->reads, parts * sizeof *reads);
        if (!reads)
            return kvc_fail(error, KVC_RESOURCE, "runner: no memory for %zu segments", parts);
        runner->reads = reads;
        runner->segment_capacity = parts;
    }
    struct kvc_growable *buffers[14];
    size_t widths[14];
    const size_t n = list_buffers(runner, buffers, widths);
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; i < n && status == KVC_OK; i++)
        status = kvc_growable_reserve(runner->device, buffers[i], (size_t)rows * widths[i] * sizeof(float), error);
    return status;
}

void kvc_rope_rows(const struct kvc_rope *rope, const int32_t *positions, const bool *long_factors, uint32_t rows,
                   bool sine, float *out) {
    const uint32_t half = rope->rotary / 2;
    for (uint32_t i = 0; i < rows; i++) {
        const bool long_row = long_factors && long_factors[i] && rope->long_frequency;
        const float *frequency = long_row ? rope->long_frequency : rope->frequency;
        const float factor = long_row ? rope->long_attention_factor : rope->attention_factor;
        for (uint32_t c = 0; c < half; c++) {
            const float angle = (float)positions[i] * frequency[c];
            const double value = sine ? kvc_double_sin((double)angle) : kvc_double_cos((double)angle);
            out[(size_t)i * half + c] = (float)value * factor;
        }
    }
}

enum kvc_status kvc_batch_fill(struct kvc_runner *runner, struct kvc_batch *batch, const int32_t *tokens,
                               const int32_t *positions, const bool *long_factors, uint32_t rows,
                               struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    const struct kvc_network *network = runner->network;
    enum kvc_status status = kvc_growable_reserve(device, &batch->positions, rows * sizeof(int32_t), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &batch->causal_offset, rows * sizeof(uint32_t), error);
    if (status != KVC_OK)
        return status;
    batch->rows = rows;
    device->ops->upload(device, at(&batch->positions, 0, 0), positions, rows * sizeof(int32_t));
    if (!network)
        return KVC_OK;
    const size_t half = network->rope.rotary / 2, bytes = rows * half * sizeof(float);
    status = kvc_growable_reserve(device, &batch->tokens, rows * sizeof(int32_t), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &batch->cosine, bytes, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &batch->sine, bytes, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &batch->hidden, (size_t)rows * network->hidden * sizeof(float), error);
    if (status != KVC_OK)
        return status;
    if (rows * half > runner->host_capacity) {
        free(runner->host_rows);
        runner->host_rows = malloc(bytes);
        runner->host_capacity = runner->host_rows ? rows * half : 0;
        if (!runner->host_rows)
            return kvc_fail(error, KVC_RESOURCE, "runner: no memory for %zu bytes", bytes);
    }
    device->ops->upload(device, at(&batch->tokens, 0, 0), tokens, rows * sizeof(int32_t));
    kvc_rope_rows(&network->rope, positions, long_factors, rows, false, runner->host_rows);
    device->ops->upload(device, at(&batch->cosine, 0, 0), runner->host_rows, bytes);
    kvc_rope_rows(&network->rope, positions, long_factors, rows, true, runner->host_rows);
    device->ops->upload(device, at(&batch->sine, 0, 0), runner->host_rows, bytes);
    return KVC_OK;
}

void kvc_runner_embed(struct kvc_runner *runner, struct kvc_batch *batch) {
    runner->device->ops->embed(runner->device, &(struct kvc_embed){.out = at(&batch->hidden, 0, 0),
                                                                   .table = runner->network->embedding,
                                                                   .tokens = at(&batch->tokens, 0, 0),
                                                                   .rows = batch->rows});
}

/* append + attention of the parts whose caches have `lists` lists of entries in this layer. */
static void attend_lists(struct kvc_runner *runner, const struct kvc_batch *batch, uint32_t layer, uint32_t row,
                         const struct kvc_part *parts, size_t part_count, uint32_t lists) {
    struct kvc_device *device = runner->device;
    const struct kvc_ops *ops = device->ops;
    const struct kvc_geometry *g = &runner->geometry;
    struct kvc_span k = at(&runner->k, 0, 0), v = at(&runner->v, 0, 0);
    size_t n = 0;
    uint32_t rows = 0;
    for (size_t i = 0; i < part_count; i++) {
        struct kvc_session *session = parts[i].session;
        if (session->cache.layer[layer].lists.kv_heads != lists)
            continue;
        runner->segments[n++] = (struct kvc_segment){.lists = &session->cache.layer[layer].lists,
                                                     .row = parts[i].row,
                                                     .rows = parts[i].rows,
                                                     .stored = parts[i].stored,
                                                     .bytes_read = session->in_prompt ? NULL : &session->read_bytes};
        rows = parts[i].row + parts[i].rows;
    }
    if (n == 0)
        return;
    if (lists != g->kv_heads) {
        const uint32_t copies = lists / g->kv_heads;
        ops->repeat_heads(device, &(struct kvc_repeat_heads){.out = at(&runner->k_heads, 0, 0),
                                                             .x = k,
                                                             .rows = rows,
                                                             .heads = g->kv_heads,
                                                             .copies = copies,
                                                             .head_size = g->head_size});
        ops->repeat_heads(device, &(struct kvc_repeat_heads){.out = at(&runner->v_heads, 0, 0),
                                                             .x = v,
                                                             .rows = rows,
                                                             .heads = g->kv_heads,
                                                             .copies = copies,
                                                             .head_size = g->head_size});
        k = at(&runner->k_heads, 0, 0);
        v = at(&runner->v_heads, 0, 0);
    }
    const struct kvc_span positions = {batch->positions.buffer, row * sizeof(int32_t)};
    ops->append(device, &(struct kvc_append){
                            .segments = runner->segments, .segment_count = n, .k = k, .v = v, .positions = positions});
    n = 0;
    for (size_t i = 0; i < part_count; i++) {
        struct kvc_session *session = parts[i].session;
        if (session->cache.layer[layer].lists.kv_heads != lists)
            continue;
        kvc_cache_appended(&session->cache, layer, parts[i].stored);
        kvc_cache_positions_keep(session, layer, &parts[i]);
        if (parts[i].kind == KVC_ROWS_STEP)
            kvc_select_appended(session, layer);
        runner->reads[i] = kvc_session_select(session, batch, layer, row + parts[i].row, parts[i].row);
        runner->segments[n++].reads = runner->reads[i];
    }
    const struct kvc_attention attention = {.segments = runner->segments,
                                            .segment_count = n,
                                            .heads = g->heads,
                                            .kv_heads = lists,
                                            .head_size = g->head_size,
                                            .window = runner->network ? runner->network->layer[layer].window : 0,
                                            .q = at(&runner->q, 0, 0),
                                            .out = at(&runner->attended, 0, 0),
                                            .maximum = at(&runner->maximum, 0, 0),
                                            .sum = at(&runner->sum, 0, 0),
                                            .positions = positions,
                                            .causal_offset = {batch->causal_offset.buffer, row * sizeof(uint32_t)}};
    ops->attention(device, &attention);
}

void kvc_runner_attend(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t layer, uint32_t row,
                       const struct kvc_part *parts, size_t part_count) {
    const struct kvc_geometry *g = &runner->geometry;
    attend_lists(runner, batch, layer, row, parts, part_count, g->kv_heads);
    if (runner->per_head && g->heads != g->kv_heads)
        attend_lists(runner, batch, layer, row, parts, part_count, g->heads);
    for (size_t i = 0; i < part_count; i++)
        kvc_session_attended(parts[i].session, batch, layer, &parts[i], row + parts[i].row, runner->reads[i]);
}

enum kvc_status kvc_runner_cut(struct kvc_runner *runner, struct kvc_batch *batch, const uint32_t *index, uint32_t rows,
                               struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    const uint32_t hidden = runner->network->hidden;
    struct kvc_growable kept = {.kind = KVC_MEMORY_HIDDEN}, indices = {.kind = KVC_MEMORY_SCRATCH};
    enum kvc_status status = kvc_growable_reserve(device, &kept, (size_t)rows * hidden * sizeof(float), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &indices, rows * sizeof *index, error);
    if (status == KVC_OK) {
        device->ops->upload(device, at(&indices, 0, 0), index, rows * sizeof *index);
        device->ops->gather(device, &(struct kvc_gather){.out = at(&kept, 0, 0),
                                                         .x = at(&batch->hidden, 0, 0),
                                                         .index = at(&indices, 0, 0),
                                                         .rows = rows,
                                                         .width = hidden});
        status = device->ops->sync(device, error);
    }
    kvc_growable_free(device, &indices);
    if (status != KVC_OK) {
        kvc_growable_free(device, &kept);
        return status;
    }
    kvc_growable_free(device, &batch->hidden);
    batch->hidden = kept;
    return KVC_OK;
}

/* A projection of one layer's queries or keys: linear, then the per-head norm where there is one, then RoPE. */
static void project_and_rotate(struct kvc_runner *runner, const struct kvc_batch *batch, uint32_t row, uint32_t rows,
                               const struct kvc_weight *weight, struct kvc_span bias, struct kvc_span norm,
                               uint32_t heads, const struct kvc_growable *raw, const struct kvc_growable *out) {
    struct kvc_device *device = runner->device;
    const struct kvc_ops *ops = device->ops;
    const struct kvc_network *network = runner->network;
    const uint32_t d = network->head_size, half = network->rope.rotary / 2;
    ops->linear(device,
                &(struct kvc_linear){
                    .y = at(raw, 0, 0), .x = at(&runner->normed, 0, 0), .w = weight, .bias = bias, .rows = rows});
    if (norm.buffer)
        ops->norm(device, &(struct kvc_norm){.y = at(raw, 0, 0),
                                             .x = at(raw, 0, 0),
                                             .w = norm,
                                             .rows = rows * heads,
                                             .K = d,
                                             .eps = network->norm_eps});
    ops->rope(device, &(struct kvc_rope_heads){.y = at(out, 0, 0),
                                               .x = at(raw, 0, 0),
                                               .cosine = at(&batch->cosine, row, half),
                                               .sine = at(&batch->sine, row, half),
                                               .rows = rows,
                                               .heads = heads,
                                               .head_size = d,
                                               .rotary = network->rope.rotary,
                                               .interleaved = network->rope.interleaved});
}

void kvc_runner_layer(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t l, uint32_t row, uint32_t rows,
                      const struct kvc_part *parts, size_t part_count) {
    struct kvc_device *device = runner->device;
    const struct kvc_ops *ops = device->ops;
    const struct kvc_network *network = runner->network;
    const struct kvc_layer *layer = &network->layer[l];
    const struct kvc_span x = at(&batch->hidden, row, network->hidden), normed = at(&runner->normed, 0, 0);
    const struct kvc_span projected = at(&runner->projected, 0, 0);
    const struct kvc_span gate = at(&runner->gate, 0, 0), up = at(&runner->up, 0, 0);

    ops->norm(device, &(struct kvc_norm){.y = normed,
                                         .x = x,
                                         .w = layer->attention_norm,
                                         .rows = rows,
                                         .K = network->hidden,
                                         .eps = network->norm_eps});
    project_and_rotate(runner, batch, row, rows, layer->q, layer->q_bias, layer->q_norm, network->heads, &runner->q_raw,
                       &runner->q);
    project_and_rotate(runner, batch, row, rows, layer->k, layer->k_bias, layer->k_norm, network->kv_heads,
                       &runner->k_raw, &runner->k);
    for (size_t i = 0; i < part_count; i++)
        kvc_cache_positions_rotate(parts[i].session, l, &parts[i]);
    ops->linear(device,
                &(struct kvc_linear){
                    .y = at(&runner->v, 0, 0), .x = normed, .w = layer->v, .bias = layer->v_bias, .rows = rows});
    kvc_runner_attend(runner, batch, l, row, parts, part_count);
    ops->linear(device, &(struct kvc_linear){.y = projected,
                                             .x = at(&runner->attended, 0, 0),
                                             .w = layer->output,
                                             .bias = layer->output_bias,
                                             .rows = rows});
    ops->add(device, &(struct kvc_add){.y = x, .x = projected, .n = (size_t)rows * network->hidden});

    ops->norm(
        device,
        &(struct kvc_norm){
            .y = normed, .x = x, .w = layer->feed_norm, .rows = rows, .K = network->hidden, .eps = network->norm_eps});
    ops->linear(device,
                &(struct kvc_linear){.y = gate, .x = normed, .w = layer->gate, .bias = layer->gate_bias, .rows = rows});
    ops->linear(device,
                &(struct kvc_linear){.y = up, .x = normed, .w = layer->up, .bias = layer->up_bias, .rows = rows});
    ops->gated_silu(
        device, &(struct kvc_gated_silu){.y = gate, .gate = gate, .up = up, .n = (size_t)rows * network->feed_forward});
    ops->linear(device, &(struct kvc_linear){
                            .y = projected, .x = gate, .w = layer->down, .bias = layer->down_bias, .rows = rows});
    ops->add(device, &(struct kvc_add){.y = x, .x = projected, .n = (size_t)rows * network->hidden});
}

enum kvc_status kvc_runner_reserve_logits(struct kvc_runner *runner, uint32_t rows, struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    const struct kvc_network *network = runner->network;
    enum kvc_status status =
        kvc_growable_reserve(device, &runner->last, (size_t)rows * network->hidden * sizeof(float), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &runner->logits, (size_t)rows * network->vocab * sizeof(float), error);
    return status;
}

enum kvc_status kvc_runner_logits(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t first, uint32_t count,
                                  float *logits, struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    const struct kvc_ops *ops = device->ops;
    const struct kvc_network *network = runner->network;
    const enum kvc_status status = kvc_runner_reserve_logits(runner, count, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_span last = at(&runner->last, 0, 0), out = at(&runner->logits, 0, 0);
    ops->norm(device, &(struct kvc_norm){.y = last,
                                         .x = at(&batch->hidden, first, network->hidden),
                                         .w = network->final_norm,
                                         .rows = count,
                                         .K = network->hidden,
                                         .eps = network->norm_eps});
    ops->linear(device, &(struct kvc_linear){.y = out, .x = last, .w = network->head, .bias = none, .rows = count});
    ops->download(device, logits, out, (size_t)count * network->vocab * sizeof(float));
    return KVC_OK;
}
