/* predictor.c - reads the networks that predict scores of entries from a safetensors file, with the names that the
 * authors of KVzap (arXiv:2601.07891) use: layers.L.weight and .bias, or layers.L.0 and layers.L.2 with gelu between.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/canon.h"
#include "core/base/types.h"
#include "core/engine/predictor.h"
#include "models/files/scaled.h"
#include "models/model.h"
#include "models/predictor.h"

enum { INNER_MOST = 1 << 20 };

struct predictor_reader {
    const char *path;
    struct kvc_safetensors *tensors;
    struct kvc_error *error;
};

/* Finds a tensor of `dimensions` dimensions, `rows` x `cols`. */
static enum kvc_status find(const struct predictor_reader *in, const char *name, uint32_t dimensions, uint64_t rows,
                            uint64_t cols, const struct kvc_file_tensor **tensor) {
    const struct kvc_file_tensor *found = *tensor = kvc_safetensors_tensor(in->tensors, name);
    if (!found) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s is missing", in->path, name);
    }
    if (found->dimensions != dimensions || found->rows != rows || found->cols != cols) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s is %" PRIu64 " x %" PRIu64 "; for this model it must be %" PRIu64 " x %" PRIu64,
                        in->path, name, found->rows, found->cols, rows, cols);
    }
    if (found->type != KVC_F32 && found->type != KVC_F16 && found->type != KVC_BF16) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s is of type %s; it must be f32, f16 or bf16", in->path,
                        name, kvc_type_name(found->type));
    }
    return kvc_tensor_make(found, in->path, in->error);
}

/* Reads the matrix NAME.weight [outputs, inputs] and the vector NAME.bias [outputs]. */
static enum kvc_status read_linear(const struct predictor_reader *in, const char *name, uint64_t outputs,
                                   uint64_t inputs, struct kvc_predictor_matrix *matrix, float *bias) {
    const struct kvc_file_tensor *tensor;
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    enum kvc_status status = find(in, full, 2, outputs, inputs, &tensor);
    if (status) {
        return status;
    }
    *matrix = (struct kvc_predictor_matrix){tensor->type, kvc_tensor_data(tensor)};
    snprintf(full, sizeof full, "%s.bias", name);
    status = find(in, full, 1, 1, outputs, &tensor);
    if (status) {
        return status;
    }
    const void *data = kvc_tensor_data(tensor);
    for (uint64_t i = 0; i < outputs; i++) {
        bias[i] = tensor->type == KVC_F32   ? ((const float *)data)[i]
                  : tensor->type == KVC_F16 ? kvc_f16_to_f32(((const uint16_t *)data)[i])
                                            : kvc_bf16_to_f32(((const uint16_t *)data)[i]);
    }
    return KVC_OK;
}

/* Determines `inner` from the first layer and allocates the arrays. */
static enum kvc_status begin(const struct predictor_reader *in, const struct kvc_network *network,
                             struct kvc_predictor_file *file) {
    const struct kvc_file_tensor *first = kvc_safetensors_tensor(in->tensors, "layers.0.0.weight");
    const size_t each = first ? 4 : 2, count = kvc_safetensors_count(in->tensors);
    if (first && (first->rows < 1 || first->rows > INNER_MOST)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s has %" PRIu64 " rows; it must have 1 to %d", in->path,
                        first->name, first->rows, INNER_MOST);
    }
    if (count != each * network->layers) {
        return kvc_fail(in->error, KVC_INPUT, "%s: has %zu tensors; for this model of %u layers it must have %zu",
                        in->path, count, network->layers, each * network->layers);
    }
    file->inner = first ? (uint32_t)first->rows : 0;
    file->matrix = calloc(2 * (size_t)network->layers, sizeof *file->matrix);
    file->bias = calloc(network->layers * ((size_t)file->inner + network->part.kv_heads), sizeof *file->bias);
    return file->matrix && file->bias ? KVC_OK : kvc_fail(in->error, KVC_RESOURCE, "%s: no memory", in->path);
}

static enum kvc_status read_layers(const struct predictor_reader *in, const struct kvc_network *network,
                                   struct kvc_predictor_file *file) {
    float *bias = file->bias;
    enum kvc_status status = KVC_OK;
    for (uint32_t l = 0; !status && l < network->layers; l++, bias += file->inner + network->part.kv_heads) {
        char name[32];
        if (file->inner) {
            snprintf(name, sizeof name, "layers.%u.0", l);
            status = read_linear(in, name, file->inner, network->hidden, &file->matrix[2 * (size_t)l], bias);
        }
        snprintf(name, sizeof name, file->inner ? "layers.%u.2" : "layers.%u", l);
        if (!status) {
            status = read_linear(in, name, network->part.kv_heads, file->inner ? file->inner : network->hidden,
                                 &file->matrix[2 * (size_t)l + 1], bias + file->inner);
        }
    }
    return status;
}

static void close_file(void *owner) { kvc_safetensors_close(owner); }

enum kvc_status kvc_predictor_read(const struct kvc_network *network, const char *path, struct kvc_predictor_file *file,
                                   struct kvc_error *error) {
    struct predictor_reader in = {.path = path, .error = error};
    *file = (struct kvc_predictor_file){.inner = 0};
    enum kvc_status status = kvc_safetensors_open(path, &in.tensors, error);
    if (status) {
        return status;
    }
    file->owner = in.tensors;
    file->close = close_file;
    status = begin(&in, network, file);
    return status ? status : read_layers(&in, network, file);
}

enum kvc_status kvc_estimate_networks(const struct kvc_model *model, const char *spec, uint32_t first_layer,
                                      uint32_t layers, uint32_t kv_heads, uint64_t *bytes, struct kvc_error *error) {
    const struct kvc_network *network = &model->network;
    if (first_layer > network->layers || layers > network->layers - first_layer || kv_heads > network->part.kv_heads) {
        return kvc_fail(error, KVC_USAGE, "estimate: %u layers from %u on with %u KV heads: the model has %u with %u",
                        layers, first_layer, kv_heads, network->layers, network->part.kv_heads);
    }
    return kvc_predictors_bytes(model->engine, network, spec, first_layer, layers, kv_heads, bytes, error);
}
