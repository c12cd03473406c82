/* network_experts.c - loads a layer's experts: the router, the matrices (one tensor for all experts or one for each),
 * and the biases. libc only. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "core/base/types.h"
#include "models/config/names.h"
#include "models/files/scaled.h"
#include "models/network_load.h"

static enum kvc_status check_stack(const struct kvc_loader *in, const struct kvc_file_tensor *tensor, uint64_t outputs,
                                   uint64_t inputs) {
    const uint64_t experts = in->config->experts, *shape = tensor->shape;
    if (tensor->dimensions != 3 || shape[0] != experts || shape[1] != outputs || shape[2] != inputs) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s has %" PRIu64 " x %" PRIu64 " numbers in %u dimensions, it must be %" PRIu64
                        " matrices of %" PRIu64 " x %" PRIu64,
                        in->where, tensor->name, tensor->rows, tensor->cols, (unsigned)tensor->dimensions, experts,
                        outputs, inputs);
    }
    return KVC_OK;
}

/* Finds the data of each expert's matrix and checks that all have the same type. */
static enum kvc_status find_experts(struct kvc_loader *in, uint32_t l, const struct kvc_expert_name *matrix,
                                    uint64_t outputs, uint64_t inputs, enum kvc_type *type) {
    const uint32_t experts = (uint32_t)in->config->experts;
    const struct kvc_file_tensor *tensor = NULL;
    char name[128], first[128];
    kvc_stack_tensor(name, sizeof name, in->gguf, l, matrix, false);
    kvc_expert_tensor(first, sizeof first, in->gguf, in->config, l, matrix, 0);
    const bool stacked = in->config->family->stacked || (in->gguf && !in->tensors->find(in->tensors->file, first));
    enum kvc_status status = KVC_OK;
    for (uint32_t e = 0; e < experts && !status; e++) {
        if (!stacked)
            kvc_expert_tensor(name, sizeof name, in->gguf, in->config, l, matrix, e);
        if (!stacked || e == 0)
            status = kvc_loader_find(in, name, &tensor);
        if (!status && (!stacked || e == 0))
            status = stacked ? check_stack(in, tensor, outputs, inputs)
                             : kvc_loader_check_matrix(in, tensor, outputs, inputs);
        if (!status && e > 0 && tensor->type != *type)
            status = kvc_fail(in->error, KVC_INPUT, "%s: tensor %s is of type %s, expert 0's of type %s: must be equal",
                              in->where, name, kvc_type_name(tensor->type), kvc_type_name(*type));
        if (status)
            break;
        const size_t bytes = (size_t)outputs * kvc_type_row_bytes(tensor->type, inputs);
        *type = tensor->type;
        const struct kvc_range own = kvc_loader_range(in, outputs, false);
        const size_t row = kvc_type_row_bytes(tensor->type, inputs);
        KVC_ASSERT(row > 0 && own.first + own.count <= outputs);
        if (!in->elsewhere) {
            in->experts[e] =
                (const unsigned char *)kvc_tensor_data(tensor) + (stacked ? e * bytes : 0) + (size_t)own.first * row;
            status = kvc_loader_note(in, in->experts[e], own.count * row);
        }
        in->loaded.expert_parameters += outputs * inputs;
        in->loaded.expert_bytes += bytes;
    }
    return status;
}

/* Loads the biases of the experts, [experts, outputs]. */
static enum kvc_status load_biases(struct kvc_loader *in, uint32_t l, const struct kvc_expert_name *matrix,
                                   struct kvc_layer *layer) {
    const uint64_t experts = in->config->experts, outputs = kvc_extent(in->config, matrix->outputs);
    void *span = (char *)layer + matrix->bias;
    const struct kvc_file_tensor *tensor = NULL;
    char name[128];
    float *values = NULL;
    kvc_stack_tensor(name, sizeof name, in->gguf, l, matrix, true);
    enum kvc_status status = kvc_loader_find(in, name, &tensor);
    if (!status && (tensor->dimensions != 2 || tensor->rows != experts || tensor->cols != outputs)) {
        status = kvc_fail(in->error, KVC_INPUT,
                          "%s: tensor %s has %" PRIu64 " x %" PRIu64 " numbers in %u dimensions, it must be %" PRIu64
                          " x %" PRIu64,
                          in->where, name, tensor->rows, tensor->cols, (unsigned)tensor->dimensions, experts, outputs);
    }
    if (!status) {
        status = kvc_loader_dequantize(in, tensor, &values);
    }
    if (!status) { /* keep this rank's outputs of each expert, contiguously */
        const struct kvc_range own = kvc_loader_range(in, outputs, false);
        for (uint64_t e = 0; e < experts; e++)
            memmove(values + e * own.count, values + e * outputs + own.first, (size_t)own.count * sizeof *values);
        status = kvc_loader_add_floats(in, values, (size_t)(experts * own.count), span);
        in->loaded.expert_parameters += experts * outputs;
        in->loaded.expert_bytes += tensor->bytes;
    }
    free(values);
    return status;
}

enum kvc_status kvc_loader_experts(struct kvc_loader *in, uint32_t l, struct kvc_layer *layer) {
    const struct kvc_config *config = in->config;
    const char *router = kvc_router_stem(in->gguf, config);
    char name[128];
    float *bias = NULL;
    kvc_layer_tensor(name, sizeof name, in->gguf, l, router, "weight");
    enum kvc_status status = kvc_loader_matrix(in, name, config->experts, config->hidden, &layer->router);
    if (!status && config->family->stacked) {
        kvc_layer_tensor(name, sizeof name, in->gguf, l, router, "bias");
        status = kvc_loader_vector(in, name, config->experts, &bias);
    }
    if (bias) {
        const struct kvc_range own = kvc_loader_range(in, config->experts, false);
        status = kvc_loader_add_floats(in, bias + own.first, (size_t)own.count, &layer->router_bias);
        free(bias);
    }
    for (const struct kvc_expert_name *matrix = kvc_expert_names; !status && matrix->gguf; matrix++) {
        const uint64_t outputs = kvc_extent(config, matrix->outputs), inputs = kvc_extent(config, matrix->inputs);
        void *at = (char *)layer + matrix->weight;
        struct kvc_weight **weight = at;
        enum kvc_type type = KVC_F32;
        status = find_experts(in, l, matrix, outputs, inputs, &type);
        if (!status && !in->elsewhere)
            status = in->device->ops->experts_create(in->device, type, (uint32_t)config->experts,
                                                     kvc_loader_range(in, outputs, false).count, inputs, in->experts,
                                                     weight, in->error);
        if (!status && !in->elsewhere) {
            const uint64_t rows = config->experts * kvc_loader_range(in, outputs, false).count;
            kvc_loader_keep(in, *weight, rows, inputs);
            in->network->matrix_bytes += rows * kvc_type_row_bytes(type, inputs);
        }
        if (!status && config->family->stacked)
            status = load_biases(in, l, matrix, layer);
    }
    return status;
}
