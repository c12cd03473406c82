/* network.c - what a network holds: frees it, and says which tokens it knows. */
#include "core/engine/network.h"

#include <stdlib.h>

void kvc_network_free(struct kvc_device *device, struct kvc_network *network) {
    for (size_t i = 0; i < network->weight_count; i++)
        device->ops->weight_free(device, network->weights[i]);
    for (size_t i = 0; i < network->buffer_count; i++)
        device->ops->buffer_free(device, network->buffers[i]);
    free(network->weights);
    free(network->buffers);
    free(network->layer);
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
