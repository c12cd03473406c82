/* fingerprint.c - what tells a model from another: its description wholly, its weights in samples, so that a file of
 * any size takes some milliseconds. libc only. */
#include "models/fingerprint.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/bytes_hash.h"
#include "core/base/integers.h"
#include "models/files/scaled.h"

enum { SAMPLE = 4096 }; /* bytes */

static uint64_t add_number(uint64_t hash, uint64_t number) { return kvc_bytes_hash(hash, &number, sizeof number); }

static uint64_t add_real(uint64_t hash, float real) { return kvc_bytes_hash(hash, &real, sizeof real); }

static uint64_t add_text(uint64_t hash, const char *text) {
    return text ? kvc_bytes_hash(hash, text, strlen(text) + 1) : hash;
}

static uint64_t add_metadata(uint64_t hash, const struct kvc_gguf *file) {
    const char *key;
    enum kvc_gguf_type type;
    for (size_t i = 0; kvc_gguf_key(file, i, &key, &type); i++) {
        uint64_t bytes;
        const unsigned char *value = kvc_gguf_value_data(file, i, &bytes);
        hash = add_number(add_text(hash, key), (uint64_t)type);
        hash = kvc_bytes_hash(hash, value, (size_t)bytes);
    }
    return hash;
}

static uint64_t add_rope(uint64_t hash, const struct kvc_rope *rope) {
    const float *frequencies[] = {rope->frequency, rope->long_frequency};
    hash = add_number(add_number(hash, rope->rotary), rope->interleaved);
    for (size_t i = 0; i < 2; i++)
        if (frequencies[i])
            hash = kvc_bytes_hash(hash, frequencies[i], rope->rotary / 2 * sizeof(float));
    hash = add_number(hash, rope->original_context);
    return add_real(add_real(hash, rope->attention_factor), rope->long_attention_factor);
}

/* The numbers that a forward pass takes beside the weights. */
static uint64_t add_network(uint64_t hash, const struct kvc_network *network) {
    const uint64_t numbers[] = {network->layers,
                                network->hidden,
                                network->part.heads,
                                network->part.kv_heads,
                                network->head_size,
                                network->feed_forward,
                                network->expert_feed,
                                network->experts,
                                network->experts_used,
                                network->shares_normalised,
                                network->shared_feed,
                                network->vocab,
                                network->ropes,
                                (uint64_t)network->activation,
                                network->qk_norm_whole,
                                network->qk_norm_each,
                                network->centred,
                                network->parallel,
                                network->gated_attention,
                                network->delta.count,
                                network->delta.heads,
                                network->delta.key_heads,
                                network->delta.value_size,
                                network->delta.key_size,
                                network->delta.taps,
                                network->delta.tiled};
    const float reals[] = {network->norm_eps,  network->scoring.scale,  network->scoring.cap, network->embedding_scale,
                           network->logit_cap, network->residual_scale, network->logit_scale};
    hash = kvc_bytes_hash(hash, numbers, sizeof numbers);
    hash = kvc_bytes_hash(hash, reals, sizeof reals);
    for (uint32_t i = 0; i < network->ropes; i++)
        hash = add_rope(hash, &network->rope[i]);
    for (uint32_t l = 0; l < network->layers; l++) {
        const struct kvc_layer *layer = &network->layer[l];
        hash = add_number(add_number(hash, layer->window), layer->rope);
        hash = add_number(add_number(hash, layer->delta_from), layer->delta_count);
    }
    return hash;
}

static uint64_t add_tensor(uint64_t hash, const struct kvc_file_tensor *tensor) {
    const bool made = !tensor->data && tensor->scaled; /* of numbers of eight or four bits */
    const unsigned char *data = made ? tensor->scaled->raw : tensor->data;
    const size_t bytes = (size_t)(made ? tensor->rows * tensor->cols / 2 : tensor->bytes);
    const size_t some = (size_t)kvc_min_u64(bytes, SAMPLE);
    hash = add_number(add_text(hash, tensor->name), (uint64_t)tensor->type);
    hash = kvc_bytes_hash(hash, tensor->shape, tensor->dimensions * sizeof *tensor->shape);
    if (!data)
        return hash;
    hash = kvc_bytes_hash(hash, data, some);
    hash = kvc_bytes_hash(hash, data + (bytes - some) / 2, some);
    return kvc_bytes_hash(hash, data + (bytes - some), some);
}

uint64_t kvc_model_fingerprint(struct kvc_model *model) {
    uint64_t hash = 0;
    const uint64_t known = atomic_load(&model->fingerprint);
    if (known)
        return known;
    hash = add_network(hash, &model->network);
    if (model->gguf)
        hash = add_metadata(hash, model->gguf);
    const size_t count = model->gguf ? kvc_gguf_tensor_count(model->gguf) : kvc_safetensors_count(model->safetensors);
    for (size_t i = 0; i < count; i++)
        hash = add_tensor(hash,
                          model->gguf ? kvc_gguf_tensor_at(model->gguf, i) : kvc_safetensors_at(model->safetensors, i));
    hash += hash == 0;
    atomic_store(&model->fingerprint, hash);
    return hash;
}
