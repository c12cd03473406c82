/* experts.c - mixture-of-experts feed-forward networks. Rows are sorted by expert, so that the rows of one expert are
 * computed together and the weights of unused experts are not read. On a device, the host never learns which experts
 * are used. */
#include "core/engine/experts.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/engine/look.h"
#include "core/engine/runner.h"
#include "core/engine/sharded.h"

#define BUFFERS 11u

/* Lists all buffers and the number of values that each needs for `rows` rows. Without a network, the numbers are
 * meaningless. */
static void list_buffers(struct kvc_experts_scratch *scratch, const struct kvc_network *network, size_t rows,
                         struct kvc_growable **buffers, size_t *values) {
    const size_t pairs = network ? rows * network->experts_used : 0, experts = network ? network->experts : 0;
    const size_t hidden = network ? network->hidden : 0, shared = network ? rows * network->shared_feed : 0;
    const size_t feeds = network ? pairs * network->expert_feed : 0, most = kvc_max_u64(feeds, shared);
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
    KVC_ASSERT(n == BUFFERS);
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

/* Runs all rows through the shared expert, into shared and shared_logit. */
static void pass_shared(struct kvc_runner *runner, const struct kvc_layer *layer, uint32_t rows) {
    struct kvc_device *device = runner->device;
    const struct kvc_ops *ops = device->ops;
    const struct kvc_experts_scratch *s = &runner->experts;
    const struct kvc_span gate = all_of(&s->gate), up = all_of(&s->up);
    const uint32_t width = runner->network->shared_feed;
    KVC_ASSERT(width > 0 && s->shared.bytes > 0);
    struct kvc_input in = {.x = all_of(&runner->normed), .rows = rows, .K = runner->network->hidden};
    kvc_linear_pass(runner, all_of(&s->shared_logit), in, layer->shared_router, none, 1);
    in.again = true;
    kvc_linear_own(runner, gate, in, layer->shared_gate, none);
    kvc_linear_own(runner, up, in, layer->shared_up, none);
    ops->gated_silu(device, &(struct kvc_gated_silu){.y = gate,
                                                     .gate = gate,
                                                     .up = up,
                                                     .n = rows * kvc_sharded_own(runner, width),
                                                     .activation = runner->network->activation});
    in = (struct kvc_input){.x = gate, .rows = rows, .K = width, .parts = KVC_OUTPUTS};
    kvc_linear_pass(runner, all_of(&s->shared), in, layer->shared_down, none, runner->network->hidden);
}

void kvc_experts_forward(struct kvc_runner *runner, const struct kvc_layer *layer, uint32_t rows) {
    struct kvc_device *device = runner->device;
    const struct kvc_ops *ops = device->ops;
    const struct kvc_network *network = runner->network;
    const struct kvc_experts_scratch *s = &runner->experts;
    const uint32_t pairs = rows * network->experts_used;
    KVC_ASSERT(network->experts_used >= 1 && network->experts_used <= network->experts &&
               s->x.bytes >= (size_t)pairs * network->hidden * sizeof(float));
    const struct kvc_span normed = all_of(&runner->normed), logits = all_of(&s->logits), share = all_of(&s->share);
    const struct kvc_span x = all_of(&s->x), gate = all_of(&s->gate), up = all_of(&s->up), pair = all_of(&s->pair);
    struct kvc_input in = {.x = normed, .rows = rows, .K = network->hidden};
    kvc_linear_pass(runner, logits, in, layer->router, layer->router_bias, network->experts);
    if (!kvc_look(runner, 0))
        return; /* the prompt was stopped, so the logits are undefined */
    ops->route(device, &(struct kvc_route){.logits = logits,
                                           .rows = rows,
                                           .experts = network->experts,
                                           .used = network->experts_used,
                                           .normalised = network->routing_normalized,
                                           .expert = all_of(&s->expert),
                                           .share = share,
                                           .pair = pair,
                                           .row = all_of(&s->row),
                                           .first = all_of(&s->first)});
    ops->gather(device, &(struct kvc_gather){
                            .out = x, .x = normed, .index = all_of(&s->row), .rows = pairs, .width = network->hidden});
    in = (struct kvc_input){.x = x, .rows = pairs, .K = network->hidden};
    kvc_linear_own_experts(runner, gate, in, layer->gate, layer->gate_bias, all_of(&s->first));
    in.again = true;
    kvc_linear_own_experts(runner, up, in, layer->up, layer->up_bias, all_of(&s->first));
    ops->gated_silu(device, &(struct kvc_gated_silu){.y = gate,
                                                     .gate = gate,
                                                     .up = up,
                                                     .n = pairs * kvc_sharded_own(runner, network->expert_feed),
                                                     .activation = network->activation});
    in = (struct kvc_input){.x = gate, .rows = pairs, .K = network->expert_feed, .parts = KVC_OUTPUTS};
    kvc_linear_own_experts(runner, x, in, layer->down, layer->down_bias, all_of(&s->first));
    kvc_sharded_gather(runner, x, x, pairs, network->hidden, KVC_OUTPUTS);
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
