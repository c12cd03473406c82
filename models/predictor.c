/* predictor.c - reads the networks that predict scores of entries from a safetensors file, with the names that the
 * authors of KVzap (arXiv:2601.07891) use, or those of Fast KVzip (arXiv:2601.17668). */
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

enum { INNER_MOST = 1 << 20, CHANNELS_MOST = 4096 };

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

static enum kvc_status read_matrix(const struct predictor_reader *in, const char *name, uint64_t rows, uint64_t cols,
                                   struct kvc_predictor_matrix *matrix) {
    const struct kvc_file_tensor *tensor;
    const enum kvc_status status = find(in, name, 2, rows, cols, &tensor);
    if (!status) {
        *matrix = (struct kvc_predictor_matrix){tensor->type, kvc_tensor_data(tensor)};
    }
    return status;
}

/* Reads a vector (rows 0) or a matrix as floats, and moves *to past them. */
static enum kvc_status read_numbers(const struct predictor_reader *in, const char *name, uint64_t rows, uint64_t cols,
                                    float **to) {
    const struct kvc_file_tensor *tensor;
    const enum kvc_status status = find(in, name, rows ? 2 : 1, rows ? rows : 1, cols, &tensor);
    if (status) {
        return status;
    }
    const void *data = kvc_tensor_data(tensor);
    for (uint64_t i = 0; i < tensor->rows * tensor->cols; i++) {
        *(*to)++ = tensor->type == KVC_F32   ? ((const float *)data)[i]
                   : tensor->type == KVC_F16 ? kvc_f16_to_f32(((const uint16_t *)data)[i])
                                             : kvc_bf16_to_f32(((const uint16_t *)data)[i]);
    }
    return KVC_OK;
}

static enum kvc_status check_count(const struct predictor_reader *in, const struct kvc_network *network, size_t each) {
    const size_t count = kvc_safetensors_count(in->tensors);
    return count == each * network->layers
               ? KVC_OK
               : kvc_fail(in->error, KVC_INPUT, "%s: has %zu tensors; for this model of %u layers it must have %zu",
                          in->path, count, network->layers, each * network->layers);
}

static enum kvc_status lay_out(const struct predictor_reader *in, const struct kvc_network *network,
                               struct kvc_predictor_file *file) {
    return kvc_predictor_lay_out(network, file) ? KVC_OK : kvc_fail(in->error, KVC_RESOURCE, "%s: no memory", in->path);
}

/* ---- KVzap: layers.L.weight and .bias, or layers.L.0 and layers.L.2 with gelu between ---- */

/* Determines `inner` from the first layer. */
static enum kvc_status begin_linear(const struct predictor_reader *in, const struct kvc_network *network,
                                    struct kvc_predictor_file *file) {
    const struct kvc_file_tensor *first = kvc_safetensors_tensor(in->tensors, "layers.0.0.weight");
    if (first && (first->rows < 1 || first->rows > INNER_MOST)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s has %" PRIu64 " rows; it must have 1 to %d", in->path,
                        first->name, first->rows, INNER_MOST);
    }
    file->inner = first ? (uint32_t)first->rows : 0;
    const enum kvc_status status = check_count(in, network, first ? 4 : 2);
    return status ? status : lay_out(in, network, file);
}

/* Reads the matrix NAME.weight [outputs, inputs] and the vector NAME.bias [outputs]. */
static enum kvc_status read_linear(const struct predictor_reader *in, const char *name, uint64_t outputs,
                                   uint64_t inputs, struct kvc_predictor_matrix *matrix, float **bias) {
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    const enum kvc_status status = read_matrix(in, full, outputs, inputs, matrix);
    snprintf(full, sizeof full, "%s.bias", name);
    return status ? status : read_numbers(in, full, 0, outputs, bias);
}

static enum kvc_status read_linears(const struct predictor_reader *in, const struct kvc_network *network,
                                    struct kvc_predictor_file *file) {
    float *bias = file->number;
    enum kvc_status status = KVC_OK;
    for (uint32_t l = 0; !status && l < network->layers; l++) {
        char name[32];
        if (file->inner) {
            snprintf(name, sizeof name, "layers.%u.0", l);
            status = read_linear(in, name, file->inner, network->hidden, &file->matrix[2 * (size_t)l], &bias);
        }
        snprintf(name, sizeof name, file->inner ? "layers.%u.2" : "layers.%u", l);
        if (!status) {
            status = read_linear(in, name, network->part.kv_heads, file->shape[1].inputs,
                                 &file->matrix[2 * (size_t)l + 1], &bias);
        }
    }
    return status;
}

/* ---- Fast KVzip: the tensors that tools/fastkvzip_file.py writes ---- */

/* Determines `channels` and `sinks` from the first layer. */
static enum kvc_status begin_gates(const struct predictor_reader *in, const struct kvc_network *network,
                                   struct kvc_predictor_file *file) {
    const struct kvc_file_tensor *first = kvc_safetensors_tensor(in->tensors, "layers.0.k_base");
    if (!first) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor layers.0.k_base is missing", in->path);
    }
    if (first->dimensions != 2 || first->rows < 1 || first->rows > INNER_MOST ||
        first->rows % network->part.kv_heads != 0 || first->cols < 1 || first->cols > CHANNELS_MOST) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s is %" PRIu64 " x %" PRIu64 "; for this model it must be a multiple of %u, up to "
                        "%d, x 1 to %d",
                        in->path, first->name, first->rows, first->cols, network->part.kv_heads, INNER_MOST,
                        CHANNELS_MOST);
    }
    file->channels = (uint32_t)first->cols;
    file->sinks = (uint32_t)first->rows / network->part.kv_heads;
    const enum kvc_status status = check_count(in, network, 7);
    return status ? status : lay_out(in, network, file);
}

static enum kvc_status read_gates(const struct predictor_reader *in, const struct kvc_network *network,
                                  struct kvc_predictor_file *file) {
    const uint64_t heads = network->part.kv_heads, group = network->heads / network->kv_heads, C = file->channels;
    const struct {
        const char *name;
        uint64_t rows, cols;
    } numbers[] = {{"q_proj.bias", 0, heads * group * C},
                   {"b", 0, heads * group},
                   {"k_base", heads * file->sinks, C},
                   {"q_norm.weight", 0, C},
                   {"k_norm.weight", 0, C}}, /* in the order of the file */
        matrices[] = {{"q_proj.weight", heads * group * C, network->hidden},
                      {"k_proj.weight", heads * C, network->hidden}};
    float *number = file->number;
    for (uint32_t l = 0; l < network->layers; l++) {
        enum kvc_status status = KVC_OK;
        char name[64];
        for (size_t i = 0; i < 2 && !status; i++) {
            snprintf(name, sizeof name, "layers.%u.%s", l, matrices[i].name);
            status = read_matrix(in, name, matrices[i].rows, matrices[i].cols, &file->matrix[2 * (size_t)l + i]);
        }
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++) {
            snprintf(name, sizeof name, "layers.%u.%s", l, numbers[i].name);
            status = read_numbers(in, name, numbers[i].rows, numbers[i].cols, &number);
        }
        if (status) {
            return status;
        }
    }
    return KVC_OK;
}

static void close_file(void *owner) { kvc_safetensors_close(owner); }

enum kvc_status kvc_predictor_read(const struct kvc_network *network, const char *path, enum kvc_predictor_kind kind,
                                   struct kvc_predictor_file *file, struct kvc_error *error) {
    struct predictor_reader in = {.path = path, .error = error};
    *file = (struct kvc_predictor_file){.kind = kind};
    enum kvc_status status = kvc_safetensors_open(path, &in.tensors, error);
    if (status) {
        return status;
    }
    file->owner = in.tensors;
    file->close = close_file;
    const bool gates = kind == KVC_PREDICT_GATES;
    status = (gates ? begin_gates : begin_linear)(&in, network, file);
    return status ? status : (gates ? read_gates : read_linears)(&in, network, file);
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
