/* network.c - loads a network from a file's tensors onto a device and checks names, shapes, types, biases and tied
 * heads. libc only. */
#include "models/network.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "core/engine/advice.h"
#include "core/engine/engine.h"
#include "core/base/canon.h"
#include "core/base/types.h"
#include "models/config/names.h"
#include "models/files/scaled.h"
#include "models/network_load.h"

enum {
    VECTOR_ALIGNMENT = 16, /* floats: aligns vectors to cache lines */
    LAYER_WEIGHTS = 15     /* upper limit of weights per layer */
};

enum kvc_status kvc_loader_no_memory(const struct kvc_loader *in) {
    return kvc_fail(in->error, KVC_RESOURCE, "%s: no memory for the description of %" PRIu64 " layers", in->where,
                    in->config->layers);
}

enum kvc_status kvc_loader_find(struct kvc_loader *in, const char *name, const struct kvc_file_tensor **tensor) {
    *tensor = in->tensors->find(in->tensors->file, name);
    if (!*tensor) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s is missing", in->where, name);
    }
    if (in->loaded.used_count == 0 ||
        in->loaded.used[in->loaded.used_count - 1] != *tensor) { /* several parts may come from one tensor */
        in->loaded.used[in->loaded.used_count++] = *tensor;
    }
    return in->elsewhere && (*tensor)->dimensions > 1 ? KVC_OK : kvc_tensor_make(*tensor, in->where, in->error);
}

/* ---- matrices: they remain in the file's mapping ---- */

enum kvc_status kvc_loader_check_matrix(const struct kvc_loader *in, const struct kvc_file_tensor *tensor,
                                        uint64_t outputs, uint64_t inputs) {
    if (!(tensor->dimensions == 2 || (tensor->dimensions == 1 && outputs == 1)) || tensor->rows != outputs ||
        tensor->cols != inputs) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s is %" PRIu64 " x %" PRIu64 "%s, it must be %" PRIu64 " x %" PRIu64, in->where,
                        tensor->name, tensor->rows, tensor->cols, tensor->dimensions == 2 ? "" : " (not a matrix)",
                        outputs, inputs);
    }
    return KVC_OK;
}

enum kvc_status kvc_loader_matrix(struct kvc_loader *in, const char *name, uint64_t outputs, uint64_t inputs,
                                  struct kvc_weight **weight) {
    const struct kvc_file_tensor *tensor;
    enum kvc_status status = kvc_loader_find(in, name, &tensor);
    if (!status) {
        status = kvc_loader_check_matrix(in, tensor, outputs, inputs);
    }
    return status ? status : kvc_loader_weight(in, tensor->type, outputs, inputs, kvc_tensor_data(tensor), weight);
}

/* ---- vectors: converted to float32, collected, then copied to one buffer ---- */

enum kvc_status kvc_loader_dequantize(struct kvc_loader *in, const struct kvc_file_tensor *tensor, float **values) {
    const size_t count = (size_t)(tensor->rows * tensor->cols);
    KVC_ASSERT(count > 0);
    if (tensor->type != KVC_F32 && tensor->type != KVC_F16 && tensor->type != KVC_BF16) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s is of type %s; a norm or bias must be f32, f16 or bf16",
                        in->where, tensor->name, kvc_type_name(tensor->type));
    }
    /* kvc_tensor_make is called here, because kvc_loader_find does not call it for other ranks' matrices. */
    enum kvc_status status = kvc_tensor_make(tensor, in->where, in->error);
    if (!status) {
        status = kvc_loader_note(in, kvc_tensor_data(tensor), tensor->bytes);
    }
    if (status) {
        return status;
    }
    *values = malloc(count * sizeof **values);
    if (!*values) {
        return kvc_loader_no_memory(in);
    }
    const uint16_t *half = kvc_tensor_data(tensor);
    if (tensor->type == KVC_F32) {
        memcpy(*values, kvc_tensor_data(tensor), count * sizeof **values);
    } else {
        for (size_t i = 0; i < count; i++) {
            (*values)[i] = tensor->type == KVC_F16 ? kvc_f16_to_f32(half[i]) : kvc_bf16_to_f32(half[i]);
        }
    }
    return KVC_OK;
}

enum kvc_status kvc_loader_vector(struct kvc_loader *in, const char *name, uint64_t length, float **values) {
    const struct kvc_file_tensor *tensor;
    enum kvc_status status = kvc_loader_find(in, name, &tensor);
    if (status) {
        return status;
    }
    if (tensor->dimensions != 1 || tensor->cols != length) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s has %" PRIu64 " x %" PRIu64 " numbers, it must be a vector "
                        "of %" PRIu64,
                        in->where, name, tensor->rows, tensor->cols, length);
    }
    return kvc_loader_dequantize(in, tensor, values);
}

enum kvc_status kvc_loader_add_floats(struct kvc_loader *in, const float *values, size_t count, struct kvc_span *span) {
    const size_t padded = (count + VECTOR_ALIGNMENT - 1) / VECTOR_ALIGNMENT * VECTOR_ALIGNMENT;
    KVC_ASSERT(in->float_count % VECTOR_ALIGNMENT == 0);
    if (in->elsewhere) {
        return KVC_OK;
    }
    if (in->float_count + padded > in->float_capacity) {
        const size_t capacity = 2 * (in->float_count + padded);
        float *floats = realloc(in->floats, capacity * sizeof *floats);
        if (!floats) {
            return kvc_loader_no_memory(in);
        }
        in->floats = floats;
        in->float_capacity = capacity;
    }
    memcpy(in->floats + in->float_count, values, count * sizeof *values);
    memset(in->floats + in->float_count + count, 0, (padded - count) * sizeof *values);
    span->offset = in->float_count * sizeof *values;
    in->spans[in->span_count++] = span;
    in->float_count += padded;
    return KVC_OK;
}

/* Copies all collected vectors into one buffer. */
enum kvc_status kvc_loader_flush(struct kvc_loader *in) {
    struct kvc_buffer *buffer;
    if (in->elsewhere) {
        return KVC_OK;
    }
    const size_t bytes = in->float_count * sizeof *in->floats;
    enum kvc_status status = in->device->ops->buffer_create(in->device, KVC_MEMORY_WEIGHTS, bytes, &buffer, in->error);
    if (status) {
        return status;
    }
    in->network->buffers[in->network->buffer_count++] = buffer;
    in->device->ops->upload(in->device, (struct kvc_span){buffer, 0}, in->floats, bytes);
    for (size_t i = 0; i < in->span_count; i++) {
        in->spans[i]->buffer = buffer;
    }
    in->span_count = in->float_count = 0;
    return KVC_OK;
}

enum kvc_status kvc_loader_norm(struct kvc_loader *in, const char *name, uint64_t length, struct kvc_span *span) {
    float *values = NULL;
    enum kvc_status status = kvc_loader_vector(in, name, length, &values);
    for (uint64_t i = 0; !status && !in->gguf && in->config->family->norm_plus_one && i < length; i++) {
        values[i] = values[i] + 1.0f;
    }
    if (!status) {
        status = kvc_loader_add_floats(in, values, (size_t)length, span);
        free(values);
    }
    return status;
}

/* ---- one layer ---- */

/* Loads norms with separate weights for each head: a matrix [heads, d], or one vector per head in folders that split
 * it. */
static enum kvc_status load_head_norms(struct kvc_loader *in, uint32_t l, const struct kvc_norm_name *norm,
                                       struct kvc_span *span) {
    const uint64_t rows = kvc_norm_rows(in->config, norm), length = kvc_norm_length(in->config, norm);
    const bool apart = !in->gguf && in->config->qk_norm == KVC_QK_SPLIT;
    const struct kvc_file_tensor *tensor;
    char name[128];
    float *all = NULL;
    enum kvc_status status;
    if (!apart) {
        kvc_layer_tensor(name, sizeof name, in->gguf, l, in->gguf ? norm->gguf : norm->hf, "weight");
        status = kvc_loader_find(in, name, &tensor);
        status = status ? status : kvc_loader_check_matrix(in, tensor, rows, length);
        status = status ? status : kvc_loader_dequantize(in, tensor, &all);
    } else {
        all = malloc((size_t)(rows * length) * sizeof *all);
        status = all ? KVC_OK : kvc_loader_no_memory(in);
        for (uint32_t h = 0; !status && h < rows; h++) {
            float *values = NULL;
            kvc_head_norm_tensor(name, sizeof name, l, norm, h);
            status = kvc_loader_vector(in, name, length, &values);
            if (!status)
                memcpy(all + h * length, values, (size_t)length * sizeof *all);
            free(values);
        }
    }
    const struct kvc_range own = kvc_loader_range(in, rows, true);
    if (!status)
        status = kvc_loader_add_floats(in, all + own.first * length, (size_t)(own.count * length), span);
    free(all);
    return status;
}

static enum kvc_status load_named_matrix(struct kvc_loader *in, uint32_t l, const struct kvc_matrix_name *matrix,
                                         struct kvc_layer *layer) {
    char name[128];
    const char *stem = in->gguf ? matrix->gguf : matrix->hf;
    uint64_t outputs = 0, first = 0;
    for (unsigned p = 0; p < matrix->parts; p++) {
        outputs += kvc_extent(in->config, matrix->part[p].outputs);
    }
    kvc_layer_tensor(name, sizeof name, in->gguf, l, stem, "weight");
    const struct kvc_file_tensor *tensor;
    float *bias = NULL;
    enum kvc_status status = kvc_loader_find(in, name, &tensor);
    if (!status) {
        status = kvc_loader_check_matrix(in, tensor, outputs, kvc_extent(in->config, matrix->inputs));
    }
    if (!status && kvc_has_bias(in->config, matrix->bias)) {
        kvc_layer_tensor(name, sizeof name, in->gguf, l, stem, "bias");
        status = kvc_loader_vector(in, name, outputs, &bias);
    }
    for (unsigned p = 0; !status && p < matrix->parts; p++) {
        const uint64_t rows = kvc_extent(in->config, matrix->part[p].outputs);
        void *weight = (char *)layer + matrix->part[p].weight, *span = (char *)layer + matrix->part[p].bias;
        struct kvc_range own = kvc_loader_range(in, rows, matrix->bias == KVC_QKV_BIAS);
        own.first += first;
        status = kvc_loader_rows(in, tensor->type, own, tensor->cols, kvc_tensor_data(tensor), weight);
        if (!status && bias) {
            status = kvc_loader_add_floats(in, bias + own.first, (size_t)own.count, span);
        }
        first += rows;
    }
    free(bias);
    return status;
}

/* Loads the attention sinks. A sink that is not finite would make every output of its head 0 or NaN. */
static enum kvc_status load_sinks(struct kvc_loader *in, uint32_t l, struct kvc_layer *layer) {
    const size_t heads = (size_t)in->config->heads;
    char name[128];
    float *sinks = NULL;
    kvc_sinks_tensor(name, sizeof name, in->gguf, l);
    enum kvc_status status = kvc_loader_vector(in, name, heads, &sinks);
    for (size_t h = 0; !status && h < heads; h++) {
        if (!(sinks[h] * 0.0f == 0.0f)) {
            status = kvc_fail(in->error, KVC_INPUT, "%s: tensor %s: the sink of head %zu is %g, it must be finite",
                              in->where, name, h, (double)sinks[h]);
        }
    }
    if (!status) {
        const struct kvc_range own = kvc_loader_range(in, heads, true);
        status = kvc_loader_add_floats(in, sinks + own.first, (size_t)own.count, &layer->sinks);
    }
    free(sinks);
    return status;
}

/* Loads layer l of the model. `delta` is true if the layer is a gated delta net, which has no attention. */
static enum kvc_status load_layer(struct kvc_loader *in, uint32_t l, struct kvc_layer *layer, bool delta) {
    enum kvc_status status = KVC_OK;
    for (const struct kvc_norm_name *norm = kvc_norm_names; !status && norm->gguf; norm++) {
        char name[128];
        if (!kvc_has_norm(in->config, norm) || (delta && norm->qk)) {
            continue;
        }
        void *span = (char *)layer + norm->span;
        kvc_layer_tensor(name, sizeof name, in->gguf, l, in->gguf ? norm->gguf : norm->hf, "weight");
        status = norm->qk && in->network->qk_norm_each
                     ? load_head_norms(in, l, norm, span)
                     : kvc_loader_norm(in, name, kvc_norm_length(in->config, norm), span);
        if (!status && kvc_has_norm_bias(in->config, norm)) {
            span = (char *)layer + norm->bias;
            kvc_layer_tensor(name, sizeof name, in->gguf, l, in->gguf ? norm->gguf : norm->hf, "bias");
            status = kvc_loader_norm(in, name, kvc_norm_length(in->config, norm), span);
        }
    }
    for (const struct kvc_matrix_name *matrix = kvc_matrix_names; !status && matrix->gguf; matrix++) {
        if (kvc_has_matrix(in->config, l, matrix)) {
            status = load_named_matrix(in, l, matrix, layer);
        }
    }
    if (!status && delta) {
        status = kvc_loader_delta(in, l, layer);
    }
    if (!status && in->config->family->sinks) {
        status = load_sinks(in, l, layer);
    }
    if (!status && kvc_config_chooses(in->config, l)) {
        status = kvc_loader_experts(in, l, layer);
    }
    const bool slides = !in->config->sliding || in->config->sliding[l];
    layer->window = slides ? (uint32_t)in->config->sliding_window : 0;
    layer->rope = in->config->unrotated ? in->config->unrotated[l] : layer->window && in->network->ropes > 1;
    return status ? status : kvc_loader_flush(in);
}

/* ---- the whole network ---- */

/* Loads each layer into the list of its kind. A layer with attention also records which delta nets precede it. */
static enum kvc_status load_layers(struct kvc_loader *in) {
    struct kvc_network *network = in->network;
    struct kvc_part_of *part = &network->part;
    uint32_t attention = 0, delta = 0, from = 0;
    enum kvc_status status = KVC_OK;
    for (uint32_t l = 0; !status && l < in->config->layers; l++) {
        in->elsewhere = !kvc_network_has(network, attention);
        if (kvc_config_recurs(in->config, l)) {
            part->first_delta += in->elsewhere && attention < part->first_layer;
            part->own_deltas += !in->elsewhere;
            status = load_layer(in, l, &network->delta_layer[delta++], true);
            continue;
        }
        struct kvc_layer *layer = &network->layer[attention++];
        layer->delta_from = from;
        layer->delta_count = delta - from;
        from = delta;
        status = load_layer(in, l, layer, false);
    }
    in->elsewhere = false;
    return status;
}

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (const void *const *)a, y = (uintptr_t) * (const void *const *)b;
    return (x > y) - (x < y);
}

/* Refuses the file if it has unused tensors: such a file holds a different kind of model. */
static enum kvc_status refuse_unused(struct kvc_loader *in) {
    qsort(in->loaded.used, in->loaded.used_count, sizeof *in->loaded.used, by_address);
    for (size_t i = 0; i < in->tensors->count; i++) {
        const struct kvc_file_tensor *tensor = in->tensors->at(in->tensors->file, i);
        if (bsearch(&tensor, in->loaded.used, in->loaded.used_count, sizeof *in->loaded.used, by_address) ||
            kvc_tensor_ignored(tensor->name, in->gguf, in->config)) {
            continue;
        }
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s does not belong in a %s model of %" PRIu64
                        " layers with this configuration: such a model is not supported",
                        in->where, tensor->name, in->gguf ? in->config->family->gguf : in->config->family->hf,
                        in->config->layers);
    }
    return KVC_OK;
}

static enum kvc_status network_load(struct kvc_loader *in, struct kvc_model_info *info) {
    struct kvc_network *network = in->network;
    const size_t layers = (size_t)in->config->layers;
    network->layer = calloc(network->layers, sizeof *network->layer);
    network->delta_layer = calloc(network->delta.count + 1u, sizeof *network->delta_layer);
    network->host = calloc(7 * (size_t)network->delta.count + 1, sizeof *network->host);
    network->weights = calloc(layers * LAYER_WEIGHTS + 3, sizeof *network->weights);
    network->matrices = calloc(layers * LAYER_WEIGHTS + 3, sizeof *network->matrices);
    network->buffers = calloc(layers + 1, sizeof *network->buffers);
    const size_t experts = (size_t)in->config->experts;
    const size_t heads = in->config->qk_norm == KVC_QK_SPLIT ? (size_t)(in->config->heads + in->config->kv_heads) : 0;
    const size_t most = LAYER_WEIGHTS + KVC_LAYER_SPANS + 3 * experts + heads; /* upper limit of tensors per layer */
    in->loaded.used = calloc(layers * most + 5, sizeof *in->loaded.used);
    in->experts = calloc(experts + 1, sizeof *in->experts);
    if (!network->layer || !network->delta_layer || !network->host || !network->weights || !network->matrices ||
        !network->buffers || !in->loaded.used || !in->experts) {
        return kvc_loader_no_memory(in);
    }
    const bool interleaved = (in->gguf && in->config->family->interleaved) || in->config->family->pairs;
    enum kvc_status status = kvc_rope_build(in->config, interleaved, &network->rope[0], in->error);
    if (!status && in->config->rope.local_base > 0) {
        status = kvc_rope_build_local(in->config, interleaved, &network->rope[1], in->error);
        network->ropes = 2;
    }
    if (!status && in->config->unrotated) {
        status = kvc_rope_build_still(in->config, interleaved, &network->rope[1], in->error);
        network->ropes = 2;
    }
    if (!status) {
        status = kvc_loader_ends(in);
    }
    if (!status) {
        status = load_layers(in);
    }
    if (!status) {
        status = refuse_unused(in);
    }
    if (!status) {
        status = in->device->ops->sync(in->device, in->error);
    }
    if (!status && !kvc_network_info(&in->loaded, in->config, in->gguf, network, info)) {
        status = kvc_loader_no_memory(in);
    }
    return status;
}

enum kvc_status kvc_network_load(struct kvc_engine *engine, const struct kvc_config *config, bool gguf,
                                 const struct kvc_tensors *tensors, const char *where, struct kvc_network *network,
                                 struct kvc_model_info *info, struct kvc_error *error) {
    *network = (struct kvc_network){
        .layers = (uint32_t)config->layers,
        .hidden = (uint32_t)config->hidden,
        .heads = (uint32_t)config->heads,
        .kv_heads = (uint32_t)config->kv_heads,
        .head_size = (uint32_t)config->head_size,
        .feed_forward = config->experts && !config->dense ? 0 : (uint32_t)config->feed_forward,
        .expert_feed = (uint32_t)config->expert_feed,
        .experts = (uint32_t)config->experts,
        .experts_used = (uint32_t)config->experts_used,
        .routing_normalized = config->routing_normalized,
        .shared_feed = (uint32_t)config->shared_feed,
        .trained_context = config->context,
        .norm_eps = (float)config->norm_eps,
        .ropes = 1,
        .scoring = {(float)config->score_scale, (float)config->score_cap},
        .activation = config->family->activation,
        .embedding_scale =
            config->family->scaled_embedding ? (float)sqrt((double)config->hidden) : (float)config->embedding_scale,
        .residual_scale = (float)config->residual_scale,
        .logit_scale = config->logit_divisor > 0 ? (float)(1 / config->logit_divisor) : (float)config->logit_scale,
        .centred = (config->family->features & KVC_LAYER_NORM) != 0,
        .parallel = config->norms == KVC_NORMS_ONE,
        .qk_norm_whole = config->qk_norm == KVC_QK_WHOLE,
        .qk_norm_each = config->qk_norm == KVC_QK_EACH || config->qk_norm == KVC_QK_SPLIT,
        .logit_cap = (float)config->logit_cap,
        .gated_attention = config->family->gated_attention,
        .delta = {.heads = (uint32_t)config->delta.heads,
                  .key_heads = (uint32_t)config->delta.key_heads,
                  .value_size = (uint32_t)config->delta.value_size,
                  .key_size = (uint32_t)config->delta.key_size,
                  .taps = (uint32_t)config->delta.taps,
                  .tiled = config->family->delta_tiled},
    };
    for (uint64_t l = 0; l < config->layers; l++) {
        network->delta.count += kvc_config_recurs(config, l);
    }
    network->layers -= network->delta.count;
    if (!kvc_network_share(network, engine->ranks)) {
        return kvc_fail(
            error, KVC_USAGE,
            "%s: %u layers with attention in a pipeline of %u: each stage needs at least one; '--ranks tensor' "
            "divides heads",
            where, network->layers, engine->ranks->stages.split.ranks);
    }
    struct kvc_device *device = engine->device;
    struct kvc_loader in = {.device = device,
                            .config = config,
                            .gguf = gguf,
                            .tensors = tensors,
                            .where = where,
                            .network = network,
                            .error = error};
    enum kvc_status status = network_load(&in, info);
    free(in.loaded.used);
    free(in.experts);
    free(in.floats);
    if (status) {
        uint64_t bytes = 0, values = 0;
        for (size_t i = 0; i < tensors->count; i++) {
            bytes += tensors->at(tensors->file, i)->bytes;
            values += tensors->at(tensors->file, i)->rows * tensors->at(tensors->file, i)->cols;
        }
        kvc_network_free(device, network);
        status = kvc_advise_weights(device, bytes, values, status, error);
    }
    return status;
}
