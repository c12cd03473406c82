/* network.c - frees what a network holds. */
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
    free(network->rope.frequency);
    free(network->rope.long_frequency);
    *network = (struct kvc_network){0};
}
