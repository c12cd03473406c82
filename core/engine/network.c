/* network.c - frees a network, and computes its sizes and the owners of its parts. */
#include "core/engine/network.h"

#include <stdlib.h>

#include "core/base/assert.h"
#include "core/base/integers.h"

#define STATE_ALIGNMENT 16u /* in floats: each part of a state begins at a cache line */

struct kvc_delta_state kvc_delta_state_of(const struct kvc_delta_shape *shape) {
    const uint64_t keys = (uint64_t)shape->key_heads * shape->key_size, before = shape->taps ? shape->taps - 1 : 0;
    const uint64_t values = (uint64_t)shape->heads * shape->value_size;
    struct kvc_delta_state state = {.q = 0};
    state.k = state.q + kvc_round_up(before * keys, STATE_ALIGNMENT);
    state.v = state.k + kvc_round_up(before * keys, STATE_ALIGNMENT);
    state.matrix = state.v + kvc_round_up(before * values, STATE_ALIGNMENT);
    state.floats = state.matrix + kvc_round_up(values * shape->key_size, STATE_ALIGNMENT);
    return state;
}

uint32_t kvc_network_deltas(const struct kvc_network *network) {
    return network->part.pipeline ? network->part.own_deltas : network->delta.count;
}

uint64_t kvc_network_state_bytes(const struct kvc_network *network) {
    return kvc_network_deltas(network) * kvc_delta_state_of(&network->delta).floats * sizeof(float);
}

bool kvc_network_counts(const struct kvc_network *network) {
    const struct kvc_team *team = network->part.ranks ? &network->part.ranks->rows : NULL;
    if (!team)
        return true;
    return network->part.heads_sharded
               ? kvc_split_owned_heads(network->part.kv_heads, &team->split, team->link->rank) > 0
               : team->link->rank == 0;
}

uint32_t kvc_network_owner(const struct kvc_network *network, uint32_t kv_head) {
    uint32_t rank = 0;
    if (!network->part.heads_sharded)
        return 0;
    const struct kvc_split *split = &network->part.ranks->rows.split;
    while (rank + 1 < split->ranks) {
        const struct kvc_range heads = kvc_split_heads(network->part.kv_heads, split, rank);
        if (kv_head >= heads.first && kv_head < heads.first + heads.count)
            break;
        rank++;
    }
    KVC_ASSERT(rank < split->ranks && kv_head < network->part.kv_heads);
    return rank;
}

uint32_t kvc_network_layer_owner(const struct kvc_network *network, uint32_t layer) {
    uint32_t stage = 0;
    if (!network->part.pipeline)
        return 0;
    const struct kvc_split *split = &network->part.pipeline->stages.split;
    while (stage + 1 < split->ranks && layer >= kvc_split_layers(network->layers, split, stage + 1).first)
        stage++;
    return stage;
}

void kvc_network_free(struct kvc_device *device, struct kvc_network *network) {
    for (size_t i = 0; i < network->weight_count; i++)
        device->ops->weight_free(device, network->weights[i]);
    for (size_t i = 0; i < network->buffer_count; i++)
        device->ops->buffer_free(device, network->buffers[i]);
    for (size_t i = 0; i < network->host_count; i++)
        free(network->host[i]);
    free(network->host);
    free(network->read);
    free(network->weights);
    free(network->matrices);
    free(network->buffers);
    free(network->layer);
    free(network->delta_layer);
    for (size_t i = 0; i < 2; i++) {
        free(network->rope[i].frequency);
        free(network->rope[i].long_frequency);
    }
    *network = (struct kvc_network){0};
}

enum kvc_status kvc_network_check_tokens(const struct kvc_network *network, const int32_t *tokens, size_t count,
                                         struct kvc_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= network->vocab)
            return kvc_fail(error, KVC_USAGE, "token %zu is %ld: must be from 0 to %u", i, (long)tokens[i],
                            network->vocab - 1);
    }
    return KVC_OK;
}
