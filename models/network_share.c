/* network_share.c - which part of a network a rank has, and the rows of matrices that are that part. */
#include "models/network_load.h"

#include "core/base/types.h"
#include "core/engine/engine.h"

struct kvc_range kvc_loader_range(const struct kvc_loader *in, uint64_t outputs, bool heads) {
    const struct kvc_part_of *part = &in->network->part;
    if (!part->ranks || (heads && !part->heads_shared)) {
        return part->ranks ? kvc_loader_range(in, outputs, false) : (struct kvc_range){0, outputs};
    }
    if (!heads) {
        return kvc_split_outputs(outputs, part->ranks->link->count, part->ranks->link->rank);
    }
    const uint64_t each = outputs / part->kv_heads;
    return (struct kvc_range){part->first_kv_head * each, in->network->kv_heads * each};
}

enum kvc_status kvc_loader_rows(struct kvc_loader *in, enum kvc_type type, struct kvc_range rows, uint64_t inputs,
                                const void *data, struct kvc_weight **weight) {
    const unsigned char *first = (const unsigned char *)data + (size_t)rows.first * kvc_type_row_bytes(type, inputs);
    enum kvc_status status =
        in->device->ops->weight_create(in->device, type, rows.count, inputs, first, weight, in->error);
    if (!status) {
        in->network->weights[in->network->weight_count++] = *weight;
    }
    return status;
}

enum kvc_status kvc_loader_weight(struct kvc_loader *in, enum kvc_type type, uint64_t outputs, uint64_t inputs,
                                  const void *data, struct kvc_weight **weight) {
    return kvc_loader_rows(in, type, kvc_loader_range(in, outputs, false), inputs, data, weight);
}

/* Which heads this rank has. Those whose queries go through one norm, or through a gate, are computed by every rank. */
void kvc_network_share(struct kvc_network *network, struct kvc_ranks *ranks) {
    network->part = (struct kvc_part_of){.ranks = ranks,
                                         .heads_shared = ranks && !network->qk_norm_whole && !network->gated_attention,
                                         .heads = network->heads,
                                         .kv_heads = network->kv_heads};
    if (network->part.heads_shared) {
        const struct kvc_range own = kvc_split_heads(network->kv_heads, ranks->link->count, ranks->link->rank);
        network->heads = network->heads / network->kv_heads * (uint32_t)own.count;
        network->kv_heads = (uint32_t)own.count;
        network->part.first_kv_head = (uint32_t)own.first;
    }
}
