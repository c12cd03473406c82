/* network_parts.c - determines this process's part of a network and loads the network's ends: embedding, output head,
 * final norm. */
#include "models/network_load.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/base/types.h"
#include "core/engine/engine.h"
#include "models/config/names.h"
#include "models/files/scaled.h"

/* ---- parts ---- */

struct kvc_range kvc_loader_range(const struct kvc_loader *in, uint64_t outputs, bool heads) {
    const struct kvc_part_of *part = &in->network->part;
    if (!part->ranks || (heads && !part->heads_sharded)) {
        return part->ranks ? kvc_loader_range(in, outputs, false) : (struct kvc_range){0, outputs};
    }
    if (!heads) {
        return kvc_split_outputs(outputs, &part->ranks->rows.split, part->ranks->rows.link->rank);
    }
    const uint64_t each = outputs / part->kv_heads;
    return (struct kvc_range){part->first_kv_head * each, in->network->kv_heads * each};
}

enum kvc_status kvc_loader_note(struct kvc_loader *in, const void *data, uint64_t bytes) {
    struct kvc_network *network = in->network;
    struct kvc_bytes_read *last = network->read_count ? &network->read[network->read_count - 1] : NULL;
    if ((!network->part.ranks && !network->part.pipeline) || in->elsewhere) {
        return KVC_OK;
    }
    if (last && last->data + last->bytes == data) {
        last->bytes += bytes;
        return KVC_OK;
    }
    if (network->read_count == network->read_capacity) {
        const size_t capacity = 2 * network->read_capacity + 64;
        struct kvc_bytes_read *grown = realloc(network->read, capacity * sizeof *grown);
        if (!grown) {
            return kvc_loader_no_memory(in);
        }
        network->read = grown;
        network->read_capacity = capacity;
    }
    network->read[network->read_count++] = (struct kvc_bytes_read){data, bytes};
    return KVC_OK;
}

void kvc_loader_keep(struct kvc_loader *in, struct kvc_weight *weight, uint64_t rows, uint64_t inputs) {
    struct kvc_network *network = in->network;
    network->matrices[network->weight_count] = (struct kvc_matrix){.rows = rows, .inputs = inputs};
    network->weights[network->weight_count++] = weight;
}

enum kvc_status kvc_loader_rows(struct kvc_loader *in, enum kvc_type type, struct kvc_range rows, uint64_t inputs,
                                const void *data, struct kvc_weight **weight) {
    if (in->elsewhere) {
        return KVC_OK;
    }
    const unsigned char *first = (const unsigned char *)data + (size_t)rows.first * kvc_type_row_bytes(type, inputs);
    enum kvc_status status =
        in->device->ops->weight_create(in->device, type, rows.count, inputs, first, weight, in->error);
    if (!status) {
        kvc_loader_keep(in, *weight, rows.count, inputs);
        in->network->matrix_bytes += rows.count * kvc_type_row_bytes(type, inputs);
        status = kvc_loader_note(in, first, rows.count * kvc_type_row_bytes(type, inputs));
    }
    return status;
}

enum kvc_status kvc_loader_weight(struct kvc_loader *in, enum kvc_type type, uint64_t outputs, uint64_t inputs,
                                  const void *data, struct kvc_weight **weight) {
    return kvc_loader_rows(in, type, kvc_loader_range(in, outputs, false), inputs, data, weight);
}

/* Determines this rank's heads. If one norm covers all queries, or outputs have gates, every rank computes all
 * heads. */
static void share_heads(struct kvc_network *network, struct kvc_ranks *ranks) {
    network->part.ranks = ranks;
    network->part.heads_sharded = !network->qk_norm_whole && !network->gated_attention;
    if (network->part.heads_sharded) {
        const struct kvc_range own = kvc_split_heads(network->kv_heads, &ranks->rows.split, ranks->rows.link->rank);
        network->heads = network->heads / network->kv_heads * (uint32_t)own.count;
        network->kv_heads = (uint32_t)own.count;
        network->part.first_kv_head = (uint32_t)own.first;
    }
}

bool kvc_network_share(struct kvc_network *network, struct kvc_ranks *ranks) {
    network->part = (struct kvc_part_of){.heads = network->heads, .kv_heads = network->kv_heads};
    if (ranks && ranks->stages.link) {
        if (network->layers < ranks->stages.split.ranks)
            return false;
        const struct kvc_range own = kvc_split_layers(network->layers, &ranks->stages.split, ranks->stages.link->rank);
        network->part.pipeline = ranks;
        network->part.first_layer = (uint32_t)own.first;
        network->part.own_layers = (uint32_t)own.count;
    }
    if (ranks && ranks->rows.link)
        share_heads(network, ranks);
    return true;
}

/* ---- the ends ---- */

static enum kvc_status load_head_bias(struct kvc_loader *in, uint64_t vocab) {
    const struct kvc_range own = kvc_loader_range(in, vocab, false);
    float *values = NULL;
    enum kvc_status status = kvc_loader_vector(in, kvc_head_bias_name[in->gguf], vocab, &values);
    if (!status) {
        status = kvc_loader_add_floats(in, values + own.first, (size_t)own.count, &in->network->head_bias);
        free(values);
    }
    return status;
}

enum kvc_status kvc_loader_ends(struct kvc_loader *in) {
    const struct kvc_config *config = in->config;
    struct kvc_network *network = in->network;
    const char *embedding = kvc_embedding_name[in->gguf];
    const struct kvc_file_tensor *tensor = in->tensors->find(in->tensors->file, embedding);
    /* GGUF files need not give the size of the vocabulary. */
    uint64_t vocab = config->vocab ? config->vocab : tensor ? tensor->rows : 0;
    if (tensor && (vocab < 1 || vocab > 16777216)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s has %" PRIu64 " rows, it must have 1 to 16777216",
                        in->where, embedding, vocab);
    }
    network->vocab = (uint32_t)vocab;
    enum kvc_status status = kvc_loader_find(in, embedding, &tensor);
    if (!status) {
        status = kvc_loader_check_matrix(in, tensor, vocab, config->hidden);
    }
    /* A tied output head uses the embedding's matrix if this rank has all its outputs, else a part of it. */
    const bool whole_head = config->tied && kvc_loader_range(in, vocab, false).count == vocab;
    const bool looks_up = kvc_network_begins(network), ends = kvc_network_ends(network);
    in->elsewhere = !looks_up && !(ends && whole_head);
    if (!status) { /* every rank with a part of the first layer looks up tokens */
        status = kvc_loader_rows(in, tensor->type, (struct kvc_range){0, vocab}, config->hidden,
                                 kvc_tensor_data(tensor), &network->embedding);
    }
    if (!status && network->embedding) {
        network->matrices[network->weight_count - 1].shared = looks_up;
    }
    in->elsewhere = !ends;
    network->head = network->embedding;
    if (!status && config->tied && !whole_head) {
        const uint64_t before = network->matrix_bytes;
        status = kvc_loader_weight(in, tensor->type, vocab, config->hidden, kvc_tensor_data(tensor), &network->head);
        network->matrix_bytes = looks_up ? before : network->matrix_bytes;
        if (!status && ends && looks_up) {
            network->matrices[network->weight_count - 1].shared = true;
        }
    }
    in->elsewhere = false;
    if (!status) {
        status =
            kvc_loader_norm(in, kvc_final_norm_name(config, in->gguf, false), config->hidden, &network->final_norm);
    }
    if (!status && config->family->norm_bias) {
        status =
            kvc_loader_norm(in, kvc_final_norm_name(config, in->gguf, true), config->hidden, &network->final_norm_bias);
    }
    if (!status && config->family->head_bias) {
        status = load_head_bias(in, vocab);
    }
    if (!status && network->delta.count) {
        status = kvc_loader_delta_units(in);
    }
    if (!status) {
        status = kvc_loader_flush(in);
    }
    in->elsewhere = !ends;
    if (!status && !config->tied) {
        status = kvc_loader_matrix(in, kvc_head_name[in->gguf], vocab, config->hidden, &network->head);
    }
    in->elsewhere = false;
    return status;
}
