/* runner.c - the operations of a forward pass: embed, project, append, attend, feed forward, logits. A row is computed
 * in the same way in a prompt, in a decode step, alone and in a batch. decode.c and pass.c call these operations in
 * order. */
#include "core/engine/runner.h"

#include "core/base/assert.h"
#include "core/engine/coordinator.h"
#include "core/engine/sharded.h"
#include "core/engine/trace.h"

static const struct kvc_span none = {NULL, 0};

/* Returns row `row` of a buffer whose rows have `width` floats. */
static struct kvc_span at(const struct kvc_growable *growable, size_t row, size_t width) {
    return (struct kvc_span){growable->buffer, row * width * sizeof(float)};
}

/* Writes the norm of x [rows, width] to y, with weight w and bias. y may be x. */
static void norm_rows(struct kvc_runner *runner, struct kvc_span y, struct kvc_span x, struct kvc_span w,
                      struct kvc_span bias, uint32_t rows, uint32_t width) {
    runner->device->ops->norm(runner->device, &(struct kvc_norm){.y = y,
                                                                 .x = x,
                                                                 .w = w,
                                                                 .rows = rows,
                                                                 .K = width,
                                                                 .eps = runner->network->norm_eps,
                                                                 .centred = runner->network->centred,
                                                                 .bias = bias});
}

/* Multiplies x [n] by a factor and caps it. A cap of 0 means none. */
static void scale_values(struct kvc_runner *runner, struct kvc_span x, size_t n, float factor, float cap) {
    runner->device->ops->scale(runner->device,
                               &(struct kvc_scale){.y = x, .x = x, .n = n, .factor = factor, .cap = cap});
}

void kvc_runner_embed(struct kvc_runner *runner, struct kvc_batch *batch) {
    const struct kvc_network *network = runner->network;
    kvc_trace_rows(runner->engine->trace, KVC_TRACE_EMBEDDING, 0, batch, 0, batch->rows);
    const struct kvc_span hidden = at(&batch->hidden, 0, 0);
    if (!kvc_network_begins(network))
        return;
    runner->device->ops->embed(runner->device, &(struct kvc_embed){.out = hidden,
                                                                   .table = network->embedding,
                                                                   .tokens = at(&batch->tokens, 0, 0),
                                                                   .rows = batch->rows});
    if (network->embedding_scale != 0.0f)
        scale_values(runner, hidden, (size_t)batch->rows * network->hidden, network->embedding_scale, 0.0f);
}

/* Returns runner->normed as the input of a linear layer. `again` is true if the previous layer had the same input. */
static struct kvc_input normed_input(const struct kvc_runner *runner, uint32_t rows, bool again) {
    return (struct kvc_input){
        .x = at(&runner->normed, 0, 0), .rows = rows, .K = runner->network->hidden, .again = again};
}

/* Normalizes x [rows, heads, d] in place. */
static void norm_heads(struct kvc_runner *runner, struct kvc_span x, struct kvc_span w, struct kvc_span bias,
                       uint32_t rows, uint32_t heads) {
    const struct kvc_network *network = runner->network;
    const bool whole = network->qk_norm_whole;
    runner->device->ops->norm(runner->device,
                              &(struct kvc_norm){.y = x,
                                                 .x = x,
                                                 .w = w,
                                                 .rows = whole ? rows : rows * heads,
                                                 .K = whole ? heads * network->head_size : network->head_size,
                                                 .heads = network->qk_norm_each ? heads : 0,
                                                 .eps = network->norm_eps,
                                                 .centred = network->centred,
                                                 .bias = bias});
}

/* Applies a linear layer whose outputs are heads. If heads are sharded, it computes this rank's heads only. */
static void pass_heads(struct kvc_runner *runner, struct kvc_span y, struct kvc_input in, const struct kvc_weight *w,
                       struct kvc_span bias, uint32_t outputs) {
    if (runner->network->part.heads_sharded)
        kvc_linear_own(runner, y, in, w, bias);
    else
        kvc_linear_pass(runner, y, in, w, bias, outputs);
}

/* Computes one layer's queries or keys: projection, norm if the layer has one, then RoPE. */
static void project_and_rotate(struct kvc_runner *runner, const struct kvc_batch *batch, uint32_t row, uint32_t rows,
                               uint32_t l, bool keys) {
    struct kvc_device *device = runner->device;
    const struct kvc_ops *ops = device->ops;
    const struct kvc_network *network = runner->network;
    const struct kvc_layer *layer = &network->layer[l];
    const struct kvc_rope *rope = &network->rope[layer->rope];
    const struct kvc_span norm = keys ? layer->k_norm : layer->q_norm;
    const struct kvc_growable *raw = keys ? &runner->k_raw : &runner->q_raw, *out = keys ? &runner->k : &runner->q;
    const uint32_t heads = keys ? network->kv_heads : network->heads;
    const uint32_t d = network->head_size, half = rope->rotary / 2;
    const size_t angles = (size_t)layer->rope * batch->rows + row;
    const bool gated = !keys && network->gated_attention;
    KVC_ASSERT(row + rows <= batch->rows);
    KVC_ASSERT(rope->rotary <= d && rope->rotary % 2 == 0);
    pass_heads(runner, at(gated ? &runner->delta.q_and_gate : raw, 0, 0), normed_input(runner, rows, keys),
               keys ? layer->k : layer->q, keys ? layer->k_bias : layer->q_bias, (gated ? 2 : 1) * heads * d);
    if (gated)
        kvc_delta_part_queries(runner, rows);
    if (norm.buffer)
        norm_heads(runner, at(raw, 0, 0), norm, keys ? layer->k_norm_bias : layer->q_norm_bias, rows, heads);
    ops->rope(device, &(struct kvc_rope_heads){.y = at(out, 0, 0),
                                               .x = at(raw, 0, 0),
                                               .cosine = at(&batch->cosine, angles, half),
                                               .sine = at(&batch->sine, angles, half),
                                               .rows = rows,
                                               .heads = heads,
                                               .head_size = d,
                                               .rotary = rope->rotary,
                                               .interleaved = rope->interleaved});
}

/* Writes the normalized hidden states to runner->normed, or the hidden states themselves if there is no norm. */
static void norm_input(struct kvc_runner *runner, const struct kvc_batch *batch, struct kvc_span norm,
                       struct kvc_span bias, uint32_t row, uint32_t rows) {
    const uint32_t hidden = runner->network->hidden;
    KVC_ASSERT((size_t)rows * hidden * sizeof(float) <= runner->normed.bytes);
    const struct kvc_span normed = at(&runner->normed, 0, 0), x = at(&batch->hidden, row, hidden);
    if (norm.buffer)
        norm_rows(runner, normed, x, norm, bias, rows, hidden);
    else
        runner->device->ops->copy(runner->device, normed, x, (size_t)rows * hidden * sizeof(float));
}

/* Adds `projected` to `hidden`. If the layer has a norm for its output, `projected` is normalized first. */
static void add_projected(struct kvc_runner *runner, struct kvc_batch *batch, struct kvc_span norm, uint32_t row,
                          uint32_t rows) {
    const uint32_t hidden = runner->network->hidden;
    const struct kvc_span projected = at(&runner->projected, 0, 0);
    if (norm.buffer)
        norm_rows(runner, projected, projected, norm, none, rows, hidden);
    if (runner->network->residual_scale != 0.0f)
        scale_values(runner, projected, (size_t)rows * hidden, runner->network->residual_scale, 0.0f);
    runner->device->ops->add(
        runner->device,
        &(struct kvc_add){.y = at(&batch->hidden, row, hidden), .x = projected, .n = (size_t)rows * hidden});
}

void kvc_runner_project_queries_keys(struct kvc_runner *runner, const struct kvc_batch *batch, uint32_t l, uint32_t row,
                                     uint32_t rows) {
    const struct kvc_layer *layer = &runner->network->layer[l];
    kvc_trace_rows(runner->engine->trace, KVC_TRACE_LAYER, l, batch, row, rows);
    norm_input(runner, batch, layer->attention_norm, layer->attention_norm_bias, row, rows);
    project_and_rotate(runner, batch, row, rows, l, false);
    project_and_rotate(runner, batch, row, rows, l, true);
}

void kvc_runner_project_values(struct kvc_runner *runner, uint32_t l, uint32_t rows) {
    const struct kvc_network *network = runner->network;
    const struct kvc_layer *layer = &network->layer[l];
    pass_heads(runner, at(&runner->v, 0, 0), normed_input(runner, rows, true), layer->v, layer->v_bias,
               network->kv_heads * network->head_size);
}

/* Copies the segments with `lists` lists to runner->alike, in order. Sessions of a batch may differ in their number of
 * lists. */
static size_t find_alike(struct kvc_runner *runner, const struct kvc_segment *segments, size_t count, uint32_t lists) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (segments[i].lists->kv_heads == lists)
            runner->alike[n++] = segments[i];
    return n;
}

/* Appends to segments with a list per query head. Each KV head's key and value are appended to every list of its
 * group. */
static void append_repeated(struct kvc_runner *runner, size_t n, struct kvc_span k, struct kvc_span v,
                            struct kvc_span positions) {
    struct kvc_device *device = runner->device;
    const struct kvc_geometry *g = &runner->geometry;
    KVC_ASSERT(n > 0 && g->heads % g->kv_heads == 0);
    const struct kvc_span k_heads = at(&runner->k_heads, 0, 0), v_heads = at(&runner->v_heads, 0, 0);
    const uint32_t rows = runner->alike[n - 1].row + runner->alike[n - 1].rows, copies = g->heads / g->kv_heads;
    device->ops->repeat_heads(
        device,
        &(struct kvc_repeat_heads){
            .out = k_heads, .x = k, .rows = rows, .heads = g->kv_heads, .copies = copies, .head_size = g->head_size});
    device->ops->repeat_heads(
        device,
        &(struct kvc_repeat_heads){
            .out = v_heads, .x = v, .rows = rows, .heads = g->kv_heads, .copies = copies, .head_size = g->head_size});
    device->ops->append(
        device, &(struct kvc_append){
                    .segments = runner->alike, .segment_count = n, .k = k_heads, .v = v_heads, .positions = positions});
}

void kvc_runner_append(struct kvc_runner *runner, const struct kvc_segment *segments, size_t count, struct kvc_span k,
                       struct kvc_span v, struct kvc_span positions) {
    const struct kvc_geometry *g = &runner->geometry;
    size_t n = find_alike(runner, segments, count, g->kv_heads);
    if (n)
        runner->device->ops->append(
            runner->device, &(struct kvc_append){
                                .segments = runner->alike, .segment_count = n, .k = k, .v = v, .positions = positions});
    n = n < count ? find_alike(runner, segments, count, g->heads) : 0;
    if (n)
        append_repeated(runner, n, k, v, positions);
}

void kvc_runner_keep(struct kvc_runner *runner, const struct kvc_lists *lists, uint32_t first, struct kvc_span x,
                     uint32_t rows, uint32_t width) {
    const struct kvc_geometry *g = &runner->geometry;
    if (lists->kv_heads != g->kv_heads) { /* a list per query head */
        const struct kvc_span repeated = at(&runner->k_heads, 0, 0);
        KVC_ASSERT((size_t)rows * lists->kv_heads * width * sizeof(float) <= runner->k_heads.bytes);
        runner->device->ops->repeat_heads(runner->device,
                                          &(struct kvc_repeat_heads){.out = repeated,
                                                                     .x = x,
                                                                     .rows = rows,
                                                                     .heads = g->kv_heads,
                                                                     .copies = lists->kv_heads / g->kv_heads,
                                                                     .head_size = width});
        x = repeated;
    }
    runner->device->ops->keep_keys(
        runner->device, &(struct kvc_keep_keys){.lists = lists, .first = first, .k = x, .rows = rows, .width = width});
}

static void transform(struct kvc_runner *runner, struct kvc_span x, uint32_t row, uint32_t rows, uint32_t heads) {
    const uint32_t d = runner->geometry.head_size;
    x.offset += (size_t)row * heads * d * sizeof(float);
    runner->device->ops->hadamard(runner->device, &(struct kvc_hadamard){.x = x, .heads = rows * heads, .d = d});
}

void kvc_runner_transform(struct kvc_runner *runner, const struct kvc_entry_format *format, uint32_t row, uint32_t rows,
                          struct kvc_span k, struct kvc_span v) {
    const struct kvc_geometry *g = &runner->geometry;
    if (kvc_type_is_rotated(format->key.type)) {
        transform(runner, at(&runner->q, 0, 0), row, rows, g->heads);
        transform(runner, k, row, rows, g->kv_heads);
    }
    if (kvc_type_is_rotated(format->value.type))
        transform(runner, v, row, rows, g->kv_heads);
}

void kvc_runner_transform_back(struct kvc_runner *runner, const struct kvc_entry_format *format, uint32_t row,
                               uint32_t rows) {
    if (kvc_type_is_rotated(format->value.type))
        transform(runner, at(&runner->attended, 0, 0), row, rows, runner->geometry.heads);
}

void kvc_runner_attend(struct kvc_runner *runner, const struct kvc_batch *batch, uint32_t layer, uint32_t row,
                       uint32_t first, const struct kvc_segment *segments, size_t count) {
    const struct kvc_geometry *g = &runner->geometry;
    KVC_ASSERT(count <= runner->segment_capacity);
    const uint32_t lists[] = {g->kv_heads, g->heads};
    for (size_t i = 0, done = 0; i < 2 && done < count; i++) {
        const size_t n = find_alike(runner, segments, count, lists[i]);
        const struct kvc_attention attention = {.segments = runner->alike,
                                                .segment_count = n,
                                                .heads = g->heads,
                                                .kv_heads = lists[i],
                                                .head_size = g->head_size,
                                                .window = kvc_runner_window(runner, layer),
                                                .q = at(&runner->q, first, g->heads * g->head_size),
                                                .out = at(&runner->attended, first, g->heads * g->head_size),
                                                .maximum = at(&runner->maximum, first, g->heads),
                                                .sum = at(&runner->sum, first, g->heads),
                                                .positions = kvc_growable_at(&batch->positions, row * sizeof(int32_t)),
                                                .causal_offset =
                                                    kvc_growable_at(&batch->causal_offset, row * sizeof(uint32_t)),
                                                .scoring = kvc_runner_scoring(runner),
                                                .sinks = kvc_runner_sinks(runner, layer)};
        if (n)
            runner->device->ops->attention(runner->device, &attention);
        done += n;
    }
}

void kvc_runner_project_output(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t l, uint32_t row,
                               uint32_t rows) {
    const struct kvc_layer *layer = &runner->network->layer[l];
    const bool gated = runner->network->gated_attention;
    const struct kvc_input attended = {.x = at(gated ? &runner->delta.attention_gate : &runner->attended, 0, 0),
                                       .rows = rows,
                                       .K = runner->model.heads * runner->network->head_size,
                                       .parts = KVC_HEADS};
    if (gated) /* the sigmoid of the gate times the attention output */
        runner->device->ops->gated_silu(runner->device, &(struct kvc_gated_silu){.y = attended.x,
                                                                                 .gate = attended.x,
                                                                                 .up = at(&runner->attended, 0, 0),
                                                                                 .n = (size_t)rows * attended.K,
                                                                                 .activation = KVC_SIGMOID});
    kvc_linear_pass(runner, at(&runner->projected, 0, 0), attended, layer->output, layer->output_bias,
                    runner->network->hidden);
    add_projected(runner, batch, layer->attention_after, row, rows);
}

/* Computes runner->projected, the output of the feed-forward network for runner->normed. */
static void feed_rows(struct kvc_runner *runner, const struct kvc_layer *layer, uint32_t rows) {
    const struct kvc_span projected = at(&runner->projected, 0, 0), gate = at(&runner->gate, 0, 0);
    const struct kvc_span up = layer->up ? at(&runner->up, 0, 0) : none;
    const uint32_t width = runner->network->feed_forward;
    kvc_linear_own(runner, gate, normed_input(runner, rows, false), layer->gate, layer->gate_bias);
    if (layer->up)
        kvc_linear_own(runner, up, normed_input(runner, rows, true), layer->up, layer->up_bias);
    runner->device->ops->gated_silu(runner->device,
                                    &(struct kvc_gated_silu){.y = gate,
                                                             .gate = gate,
                                                             .up = up,
                                                             .n = rows * kvc_sharded_own(runner, width),
                                                             .activation = runner->network->activation});
    kvc_linear_pass(runner, projected, (struct kvc_input){.x = gate, .rows = rows, .K = width, .parts = KVC_OUTPUTS},
                    layer->down, layer->down_bias, runner->network->hidden);
}

static void feed_forward(struct kvc_runner *runner, struct kvc_batch *batch, const struct kvc_layer *layer,
                         uint32_t row, uint32_t rows) {
    if (!runner->network->parallel) /* parallel layers use the norm computed before attention */
        norm_input(runner, batch, layer->feed_norm, layer->feed_norm_bias, row, rows);
    if (layer->router)
        kvc_experts_forward(runner, layer, rows);
    else
        feed_rows(runner, layer, rows);
    add_projected(runner, batch, layer->feed_after, row, rows);
}

void kvc_runner_feed_forward(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t l, uint32_t row,
                             uint32_t rows) {
    feed_forward(runner, batch, &runner->network->layer[l], row, rows);
}

void kvc_runner_delta(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t delta, uint32_t row, uint32_t rows,
                      const struct kvc_recurrence *segments, size_t count) {
    const struct kvc_layer *layer = &runner->network->delta_layer[delta];
    KVC_ASSERT(delta < runner->network->delta.count && row + rows <= batch->rows);
    kvc_trace_rows(runner->engine->trace, KVC_TRACE_DELTA, delta, batch, row, rows);
    norm_input(runner, batch, layer->attention_norm, layer->attention_norm_bias, row, rows);
    kvc_delta_mix(runner, layer, segments, count, rows);
    add_projected(runner, batch, layer->attention_after, row, rows);
    feed_forward(runner, batch, layer, row, rows);
}

/* Computes the logits of the batch's rows from their hidden states, and copies them to the host. */
static void compute_logits(struct kvc_runner *runner, const struct kvc_batch *batch, uint32_t first, uint32_t count,
                           float *logits) {
    const struct kvc_network *network = runner->network;
    const size_t values = (size_t)count * network->vocab;
    const struct kvc_span last = at(&runner->last, 0, 0), out = at(&runner->logits, 0, 0);
    kvc_trace_rows(runner->engine->trace, KVC_TRACE_LOGITS, 0, batch, first, count);
    norm_rows(runner, last, at(&batch->hidden, first, network->hidden), network->final_norm, network->final_norm_bias,
              count, network->hidden);
    kvc_linear_pass(runner, out, (struct kvc_input){.x = last, .rows = count, .K = network->hidden}, network->head,
                    network->head_bias, network->vocab);
    if (network->logit_scale != 0.0f || network->logit_cap != 0.0f)
        scale_values(runner, out, values, network->logit_scale != 0.0f ? network->logit_scale : 1.0f,
                     network->logit_cap);
    runner->device->ops->download(runner->device, logits, out, values * sizeof *logits);
}

enum kvc_status kvc_runner_logits(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t first, uint32_t count,
                                  float *logits, struct kvc_error *error) {
    const struct kvc_network *network = runner->network;
    const enum kvc_status status = kvc_runner_reserve_logits(runner, count, error);
    if (status != KVC_OK)
        return status;
    KVC_ASSERT(first + count <= batch->rows);
    if (kvc_network_ends(network))
        compute_logits(runner, batch, first, count, logits);
    runner->coordinator->share_logits(runner, logits, (size_t)count * network->vocab * sizeof *logits);
    return KVC_OK;
}
