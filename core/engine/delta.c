/* delta.c - runs rows through a gated delta net: projections, convolutions, norms, the recurrence and the output gate.
 * It also splits the query projection of gated attention into queries and gates. */
#include "core/engine/delta.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/engine/runner.h"

#include <stdlib.h>

#define BUFFERS 10u
#define UNIT_EPS 1e-6f /* epsilon of the norms that give queries and keys unit length */

static const struct kvc_span none = {NULL, 0};

/* Lists all float buffers and the widths of their rows. Without a network, the widths are meaningless. */
static void list_buffers(struct kvc_delta_scratch *scratch, const struct kvc_network *network,
                         struct kvc_growable **buffers, uint64_t *widths) {
    const struct kvc_delta_shape shape = network ? network->delta : (struct kvc_delta_shape){0};
    const uint64_t keys = (uint64_t)shape.key_heads * shape.key_size, values = (uint64_t)shape.heads * shape.value_size;
    const uint64_t attended = network && network->gated_attention ? (uint64_t)network->heads * network->head_size : 0;
    size_t n = 0;
#define BUFFER(name, width) (buffers[n] = &scratch->name, widths[n] = (width), n++)
    BUFFER(raw, kvc_max_u64(keys, values));
    BUFFER(q, keys);
    BUFFER(k, keys);
    BUFFER(v, values);
    BUFFER(gate, values);
    BUFFER(decay, shape.heads);
    BUFFER(beta, shape.heads);
    BUFFER(out, values);
    BUFFER(q_and_gate, 2 * attended);
    BUFFER(attention_gate, attended);
#undef BUFFER
    KVC_ASSERT(n == BUFFERS);
}

void kvc_delta_set_kinds(struct kvc_delta_scratch *scratch) {
    struct kvc_growable *buffers[BUFFERS];
    uint64_t widths[BUFFERS];
    list_buffers(scratch, NULL, buffers, widths);
    for (size_t i = 0; i < BUFFERS; i++)
        buffers[i]->kind = KVC_MEMORY_SCRATCH;
    scratch->part.kind = KVC_MEMORY_SCRATCH;
}

void kvc_delta_free(struct kvc_device *device, struct kvc_delta_scratch *scratch) {
    struct kvc_growable *buffers[BUFFERS];
    uint64_t widths[BUFFERS];
    list_buffers(scratch, NULL, buffers, widths);
    for (size_t i = 0; i < BUFFERS; i++)
        kvc_growable_free(device, buffers[i]);
    kvc_growable_free(device, &scratch->part);
}

/* Computes the indices, in q_and_gate, of `rows` rows: first those of their queries, then those of their gates. */
static enum kvc_status make_parts(struct kvc_runner *runner, uint32_t rows, struct kvc_error *error) {
    struct kvc_delta_scratch *scratch = &runner->delta;
    const size_t heads = (size_t)rows * runner->network->heads, bytes = 2 * heads * sizeof(uint32_t);
    if (rows <= scratch->index_rows)
        return KVC_OK;
    if (heads > UINT32_MAX / 2)
        return kvc_fail(error, KVC_RESOURCE, "runner: %u rows of %u heads: too many at once", rows,
                        runner->network->heads);
    const enum kvc_status status = kvc_growable_reserve(runner->device, &scratch->part, bytes, error);
    uint32_t *index = status == KVC_OK ? malloc(bytes) : NULL;
    if (!index)
        return status == KVC_OK ? kvc_fail(error, KVC_RESOURCE, "runner: no memory for %zu bytes", bytes) : status;
    for (size_t i = 0; i < heads; i++) {
        index[i] = (uint32_t)(2 * i);
        index[heads + i] = (uint32_t)(2 * i + 1);
    }
    runner->device->ops->upload(runner->device, kvc_growable_at(&scratch->part, 0), index, bytes);
    free(index);
    scratch->index_rows = rows;
    return KVC_OK;
}

enum kvc_status kvc_delta_reserve(struct kvc_runner *runner, uint32_t rows, struct kvc_error *error) {
    const struct kvc_network *network = runner->network;
    struct kvc_growable *buffers[BUFFERS];
    uint64_t widths[BUFFERS];
    enum kvc_status status = KVC_OK;
    if (!network || (!network->delta.count && !network->gated_attention))
        return KVC_OK;
    list_buffers(&runner->delta, network, buffers, widths);
    for (size_t i = 0; i < BUFFERS && status == KVC_OK; i++)
        status = kvc_growable_reserve(runner->device, buffers[i], rows * widths[i] * sizeof(float), error);
    return status == KVC_OK && network->gated_attention ? make_parts(runner, rows, error) : status;
}

void kvc_delta_part_queries(struct kvc_runner *runner, uint32_t rows) {
    const struct kvc_delta_scratch *scratch = &runner->delta;
    const struct kvc_network *network = runner->network;
    const struct kvc_growable *to[] = {&runner->q_raw, &scratch->attention_gate};
    KVC_ASSERT(rows <= scratch->index_rows);
    for (size_t i = 0; i < 2; i++)
        runner->device->ops->gather(
            runner->device,
            &(struct kvc_gather){
                .out = kvc_growable_at(to[i], 0),
                .x = kvc_growable_at(&scratch->q_and_gate, 0),
                .index = kvc_growable_at(&scratch->part, i * scratch->index_rows * network->heads * sizeof(uint32_t)),
                .rows = rows * network->heads,
                .width = network->head_size});
}

/* Applies a linear layer to runner->normed. `again` is true if the previous layer had the same input. */
static void project(struct kvc_runner *runner, const struct kvc_growable *to, const struct kvc_weight *w, uint32_t rows,
                    uint32_t outputs, bool again) {
    const struct kvc_input input = {
        .x = kvc_growable_at(&runner->normed, 0), .rows = rows, .K = runner->network->hidden, .again = again};
    kvc_linear_pass(runner, kvc_growable_at(to, 0), input, w, none, outputs);
}

/* Rows of one layer that are being computed. */
struct mix {
    struct kvc_runner *runner;
    const struct kvc_recurrence *segments;
    size_t count;
    uint32_t rows;
};

/* Convolves `raw` and writes the result to `to`. state_at is an offset in floats within the layer's state. */
static void convolve(const struct mix *mix, const struct kvc_growable *to, struct kvc_span taps, uint32_t channels,
                     uint64_t state_at) {
    struct kvc_device *device = mix->runner->device;
    device->ops->convolve(device, &(struct kvc_convolve){.segments = mix->segments,
                                                         .segment_count = mix->count,
                                                         .state_at = state_at * sizeof(float),
                                                         .y = kvc_growable_at(to, 0),
                                                         .x = kvc_growable_at(&mix->runner->delta.raw, 0),
                                                         .w = taps,
                                                         .channels = channels,
                                                         .taps = mix->runner->network->delta.taps});
}

/* Normalizes heads of `size` channels in place. */
static void norm_heads(const struct mix *mix, const struct kvc_growable *x, struct kvc_span w, uint32_t heads,
                       uint32_t size, float eps) {
    struct kvc_device *device = mix->runner->device;
    device->ops->norm(device, &(struct kvc_norm){.y = kvc_growable_at(x, 0),
                                                 .x = kvc_growable_at(x, 0),
                                                 .w = w,
                                                 .rows = mix->rows * heads,
                                                 .K = size,
                                                 .eps = eps});
}

/* Makes queries, keys and values: projects and convolves them, and scales keys to length 1 and queries to 1 /
 * sqrt(d_k). */
static void make_heads(const struct mix *mix, const struct kvc_layer *layer) {
    struct kvc_runner *runner = mix->runner;
    struct kvc_delta_scratch *scratch = &runner->delta;
    const struct kvc_network *network = runner->network;
    const struct kvc_delta_shape *shape = &network->delta;
    const struct kvc_delta_state state = kvc_delta_state_of(shape);
    const uint32_t keys = shape->key_heads * shape->key_size, values = shape->heads * shape->value_size;
    /* x / sqrt(|x|^2 + eps) equals the norm of x with eps / d_k, times 1 / sqrt(d_k) */
    const float eps = UNIT_EPS / (float)shape->key_size;
    KVC_ASSERT(shape->heads % shape->key_heads == 0 && shape->taps > 0);
    project(runner, &scratch->raw, layer->q, mix->rows, keys, false);
    convolve(mix, &scratch->q, layer->q_taps, keys, state.q);
    norm_heads(mix, &scratch->q, network->q_unit, shape->key_heads, shape->key_size, eps);
    project(runner, &scratch->raw, layer->k, mix->rows, keys, true);
    convolve(mix, &scratch->k, layer->k_taps, keys, state.k);
    norm_heads(mix, &scratch->k, network->k_unit, shape->key_heads, shape->key_size, eps);
    project(runner, &scratch->raw, layer->v, mix->rows, values, true);
    convolve(mix, &scratch->v, layer->v_taps, values, state.v);
}

void kvc_delta_mix(struct kvc_runner *runner, const struct kvc_layer *layer, const struct kvc_recurrence *segments,
                   size_t count, uint32_t rows) {
    struct kvc_device *device = runner->device;
    struct kvc_delta_scratch *scratch = &runner->delta;
    const struct kvc_delta_shape *shape = &runner->network->delta;
    const struct mix mix = {runner, segments, count, rows};
    const uint32_t values = shape->heads * shape->value_size;
    const struct kvc_span out = kvc_growable_at(&scratch->out, 0), gate = kvc_growable_at(&scratch->gate, 0);
    KVC_ASSERT(scratch->out.bytes >= (size_t)rows * values * sizeof(float));
    make_heads(&mix, layer);
    project(runner, &scratch->gate, layer->delta_gate, rows, values, true);
    project(runner, &scratch->decay, layer->delta_decay, rows, shape->heads, true);
    project(runner, &scratch->beta, layer->delta_beta, rows, shape->heads, true);
    device->ops->delta_rule(device,
                            &(struct kvc_delta_rule){.segments = segments,
                                                     .segment_count = count,
                                                     .state_at = kvc_delta_state_of(shape).matrix * sizeof(float),
                                                     .out = out,
                                                     .q = kvc_growable_at(&scratch->q, 0),
                                                     .k = kvc_growable_at(&scratch->k, 0),
                                                     .v = kvc_growable_at(&scratch->v, 0),
                                                     .a = kvc_growable_at(&scratch->decay, 0),
                                                     .beta = kvc_growable_at(&scratch->beta, 0),
                                                     .rate = layer->decay_rate,
                                                     .bias = layer->decay_bias,
                                                     .heads = shape->heads,
                                                     .key_heads = shape->key_heads,
                                                     .value_size = shape->value_size,
                                                     .key_size = shape->key_size,
                                                     .tiled = shape->tiled});
    norm_heads(&mix, &scratch->out, layer->delta_norm, shape->heads, shape->value_size, runner->network->norm_eps);
    device->ops->gated_silu(
        device, &(struct kvc_gated_silu){
                    .y = gate, .gate = gate, .up = out, .n = (size_t)rows * values, .activation = KVC_SILU});
    kvc_linear_pass(runner, kvc_growable_at(&runner->projected, 0),
                    (struct kvc_input){.x = gate, .rows = rows, .K = values}, layer->output, none,
                    runner->network->hidden);
}
