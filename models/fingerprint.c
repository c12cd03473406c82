/* fingerprint.c - computes a model's fingerprint: a hash of its whole description and of samples of its weights, so
 * that a file of any size takes milliseconds. libc only. */
#include "models/fingerprint.h"

#include <stdatomic.h>
#include <stdio.h>
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

static uint64_t add_key(uint64_t hash, const struct kvc_gguf *file, size_t i) {
    const char *key;
    enum kvc_gguf_type type;
    uint64_t bytes;
    if (!kvc_gguf_key(file, i, &key, &type))
        return hash;
    const unsigned char *value = kvc_gguf_value_data(file, i, &bytes);
    hash = add_number(add_text(hash, key), (uint64_t)type);
    return kvc_bytes_hash(hash, value, (size_t)bytes);
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

/* Adds the numbers, other than weights, that a forward pass uses. */
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
                                network->routing_normalized,
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
    const bool made = !tensor->data && tensor->scaled; /* FP8 or MXFP4 */
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

static size_t keys_of(const struct kvc_model *model) {
    const char *key;
    enum kvc_gguf_type type;
    size_t count = 0;
    while (model->gguf && kvc_gguf_key(model->gguf, count, &key, &type))
        count++;
    return count;
}

size_t kvc_model_tensors(const struct kvc_model *model) {
    return model->gguf ? kvc_gguf_tensor_count(model->gguf) : kvc_safetensors_count(model->safetensors);
}

const struct kvc_file_tensor *kvc_model_tensor(const struct kvc_model *model, size_t i) {
    return model->gguf ? kvc_gguf_tensor_at(model->gguf, i) : kvc_safetensors_at(model->safetensors, i);
}

/* `keys`: the number of the model's metadata keys (keys_of). */
static uint64_t add_item(uint64_t hash, const struct kvc_model *model, size_t keys, size_t i) {
    if (i == 0)
        return add_network(hash, &model->network);
    return i <= keys ? add_key(hash, model->gguf, i - 1) : add_tensor(hash, kvc_model_tensor(model, i - 1 - keys));
}

size_t kvc_fingerprint_items(const struct kvc_model *model) { return 1 + keys_of(model) + kvc_model_tensors(model); }

uint64_t kvc_fingerprint_item(const struct kvc_model *model, size_t i) { return add_item(0, model, keys_of(model), i); }

const struct kvc_file_tensor *kvc_fingerprint_item_name(const struct kvc_model *model, size_t i, char *text,
                                                        size_t size) {
    const size_t keys = keys_of(model);
    const struct kvc_file_tensor *tensor = i > keys ? kvc_model_tensor(model, i - 1 - keys) : NULL;
    const char *key = "";
    enum kvc_gguf_type type;
    if (tensor)
        snprintf(text, size, "tensor %.100s", tensor->name);
    else if (i > 0 && kvc_gguf_key(model->gguf, i - 1, &key, &type))
        snprintf(text, size, "metadata %.100s", key);
    else
        snprintf(text, size, "the configuration");
    return tensor;
}

uint64_t kvc_model_fingerprint(struct kvc_model *model) {
    uint64_t hash = 0;
    const uint64_t known = atomic_load(&model->fingerprint);
    if (known)
        return known;
    const size_t keys = keys_of(model), items = kvc_fingerprint_items(model);
    for (size_t i = 0; i < items; i++)
        hash = add_item(hash, model, keys, i);
    hash += hash == 0;
    atomic_store(&model->fingerprint, hash);
    return hash;
}
