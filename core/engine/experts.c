/* experts.c - a layer's feed-forward network that is a choice of several. Rows are put side by side by expert, so that
 * one expert's are computed together and experts that no row chose are not read; on a device the host never learns
 * which those are. */
#include "core/engine/experts.h"

#include "core/base/integers.h"
#include "core/engine/runner.h"

#define BUFFERS 11u

/* All buffers, with the values of each that so many rows take; network NULL: any. */
static void list_buffers(struct kvc_experts_scratch *scratch, const struct kvc_network *network, size_t rows,
                         struct kvc_growable **buffers, size_t *values) {
    const size_t pairs = network ? rows * network->experts_used : 0, experts = network ? network->experts : 0;
    const size_t hidden = network ? network->hidden : 0, shared = network ? rows * network->shared_feed : 0;
    const size_t feeds = network ? pairs * network->feed_forward : 0, most = kvc_max_u64(feeds, shared);
    size_t n = 0;
#define BUFFER(name, count) (buffers[n] = &scratch->name, values[n] = (count), n++)
    BUFFER(logits, rows * experts);
    BUFFER(expert, pairs);
    BUFFER(share, pairs);
    BUFFER(pair, pairs);
    BUFFER(row, pairs);
    BUFFER(first, experts + 1);
    BUFFER(x, pairs * hidden);
    BUFFER(gate, most);
    BUFFER(up, most);
    BUFFER(shared, shared ? rows * hidden : 0);
    BUFFER(shared_logit, shared ? rows : 0);
#undef BUFFER
}

void kvc_experts_set_kinds(struct kvc_experts_scratch *scratch) {
    struct kvc_growable *buffers[BUFFERS];
    size_t values[BUFFERS];
    list_buffers(scratch, NULL, 0, buffers, values);
    for (size_t i = 0; i < BUFFERS; i++)
        buffers[i]->kind = KVC_MEMORY_SCRATCH;
}

void kvc_experts_free(struct kvc_device *device, struct kvc_experts_scratch *scratch) {
    struct kvc_growable *buffers[BUFFERS];
    size_t values[BUFFERS];
    list_buffers(scratch, NULL, 0, buffers, values);
    for (size_t i = 0; i < BUFFERS; i++)
        kvc_growable_free(device, buffers[i]);
}

enum kvc_status kvc_experts_reserve(struct kvc_runner *runner, uint32_t rows, struct kvc_error *error) {
    struct kvc_growable *buffers[BUFFERS];
    size_t values[BUFFERS];
    enum kvc_status status = KVC_OK;
    if (!runner->network || !runner->network->experts)
        return KVC_OK;
    list_buffers(&runner->experts, runner->network, rows, buffers, values);
    for (size_t i = 0; i < BUFFERS && status == KVC_OK; i++)
        status = kvc_growable_reserve(runner->device, buffers[i], values[i] * sizeof(float), error);
    return status;
}

static const struct kvc_span none = {NULL, 0};

static struct kvc_span all_of(const struct kvc_growable *growable) { return kvc_growable_at(growable, 0); }

/* y = x times the matrices of the pairs' experts. */
static void pass(struct kvc_runner *runner, struct kvc_span y, struct kvc_span x, const struct kvc_weight *w,
                 uint32_t pairs) {
    runner->device->ops->expert_linear(runner->device,
                                       &(struct kvc_expert_linear){.y = y,
                                                                   .x = x,
                                                                   .w = w,
                                                                   .bias = {NULL, 0},
                                                                   .first = all_of(&runner->experts.first),
                                                                   .experts = runner->network->experts,
                                                                   .pairs = pairs});
}

/* The expert that every row passes: shared and shared_logit. */
static void pass_shared(struct kvc_runner *runner, const struct kvc_layer *layer, uint32_t rows) {
    struct kvc_device *device = runner->device;
    const struct kvc_ops *ops = device->ops;
    const struct kvc_experts_scratch *s = &runner->experts;
    const struct kvc_span x = all_of(&runner->normed), gate = all_of(&s->gate), up = all_of(&s->up);
    ops->linear(device,
                &(struct kvc_linear){.y = all_of(&s->shared_logit), .x = x, .w = layer->shared_router, .rows = rows});
    ops->linear(device, &(struct kvc_linear){.y = gate, .x = x, .w = layer->shared_gate, .rows = rows});
    ops->linear(device, &(struct kvc_linear){.y = up, .x = x, .w = layer->shared_up, .rows = rows});
    ops->gated_silu(device, &(struct kvc_gated_silu){.y = gate,
                                                     .gate = gate,
                                                     .up = up,
                                                     .n = (size_t)rows * runner->network->shared_feed,
                                                     .activation = runner->network->activation});
    ops->linear(device,
                &(struct kvc_linear){.y = all_of(&s->shared), .x = gate, .w = layer->shared_down, .rows = rows});
}

void kvc_experts_forward(struct kvc_runner *runner, const struct kvc_layer *layer, uint32_t rows) {
    struct kvc_device *device = runner->device;
    const struct kvc_ops *ops = device->ops;
    const struct kvc_network *network = runner->network;
    const struct kvc_experts_scratch *s = &runner->experts;
    const uint32_t pairs = rows * network->experts_used;
    const struct kvc_span normed = all_of(&runner->normed), logits = all_of(&s->logits), share = all_of(&s->share);
    const struct kvc_span x = all_of(&s->x), gate = all_of(&s->gate), up = all_of(&s->up), pair = all_of(&s->pair);
    ops->linear(device,
                &(struct kvc_linear){.y = logits, .x = normed, .w = layer->router, .bias = {NULL, 0}, .rows = rows});
    ops->route(device, &(struct kvc_route){.logits = logits,
                                           .rows = rows,
                                           .experts = network->experts,
                                           .used = network->experts_used,
                                           .normalised = network->shares_normalised,
                                           .expert = all_of(&s->expert),
                                           .share = share,
                                           .pair = pair,
                                           .row = all_of(&s->row),
                                           .first = all_of(&s->first)});
    ops->gather(device, &(struct kvc_gather){
                            .out = x, .x = normed, .index = all_of(&s->row), .rows = pairs, .width = network->hidden});
    pass(runner, gate, x, layer->gate, pairs);
    pass(runner, up, x, layer->up, pairs);
    ops->gated_silu(device, &(struct kvc_gated_silu){.y = gate,
                                                     .gate = gate,
                                                     .up = up,
                                                     .n = (size_t)pairs * network->feed_forward,
                                                     .activation = network->activation});
    pass(runner, x, gate, layer->down, pairs);
    if (layer->shared_router)
        pass_shared(runner, layer, rows);
    ops->expert_sum(device,
                    &(struct kvc_expert_sum){.out = all_of(&runner->projected),
                                             .y = x,
                                             .shared = layer->shared_router ? all_of(&s->shared) : none,
                                             .shared_logit = layer->shared_router ? all_of(&s->shared_logit) : none,
                                             .share = share,
                                             .pair = pair,
                                             .rows = rows,
                                             .used = network->experts_used,
                                             .width = network->hidden});
}
