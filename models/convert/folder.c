/* folder.c - converts a Hugging Face folder to a GGUF file. The plan made from the configuration gives every tensor's
 * name in both formats. Query and key rows are reordered for families that GGUF stores interleaved. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/convert/convert.h"
#include "models/convert/quantize.h"
#include "models/convert/text.h"
#include "models/config/names.h"
#include "models/files/safetensors.h"

/* Returns the i-th tensor of the folder that makes up a planned tensor. */
static const struct kvc_file_tensor *folder_part(const struct kvc_safetensors *file, const struct kvc_config *config,
                                                 const struct kvc_planned_tensor *planned, uint64_t i, char name[128]) {
    kvc_plan_part(config, planned, (uint32_t)i, name, 128);
    return kvc_safetensors_text_tensor(file, name);
}

static enum kvc_status check_tensor(const struct kvc_converter *converter, const struct kvc_config *config,
                                    const struct kvc_planned_tensor *planned, const struct kvc_safetensors *file,
                                    struct kvc_error *error) {
    const uint32_t stacked = planned->apart, dimensions = planned->dimensions - stacked;
    char name[128];
    for (uint64_t i = 0; i < kvc_plan_parts(planned); i++) {
        const struct kvc_file_tensor *tensor = folder_part(file, config, planned, i, name);
        if (!tensor) {
            return kvc_fail(error, KVC_INPUT, "%s: tensor %s is missing", converter->from, name);
        }
        if (tensor->dimensions != dimensions ||
            memcmp(tensor->shape, planned->shape + stacked, dimensions * sizeof *planned->shape) != 0) {
            return kvc_fail(error, KVC_INPUT, "%s: tensor %s does not have the shape its config.json asks for",
                            converter->from, name);
        }
    }
    return KVC_OK;
}

/* Writes 1 + w, which GGUF files store. */
static enum kvc_status write_norm(struct kvc_converter *converter, const struct kvc_file_tensor *tensor, size_t index,
                                  struct kvc_error *error) {
    const size_t length = (size_t)tensor->cols;
    float *values = malloc(length * sizeof *values);
    if (!values) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for %zu values", converter->from, length);
    }
    kvc_dequantize_row(tensor->type, (const unsigned char *)tensor->data, length, values);
    for (size_t i = 0; i < length; i++) {
        values[i] = values[i] + 1.0f;
    }
    enum kvc_status status = kvc_gguf_write(converter->writer, index, values, length * sizeof *values, error);
    free(values);
    return status;
}

static enum kvc_status write_tensors(struct kvc_converter *converter, const struct kvc_config *config,
                                     const struct kvc_plan *plan, const struct kvc_safetensors *file,
                                     struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; !status && i < plan->count; i++) {
        const struct kvc_planned_tensor *planned = &plan->tensors[i];
        if (planned->kind == KVC_PLAN_FACTORS) {
            status = kvc_gguf_write(converter->writer, i, planned->factors,
                                    (size_t)planned->shape[0] * sizeof *planned->factors, error);
            continue;
        }
        if (planned->kind == KVC_PLAN_NORM && config->family->norm_plus_one) {
            status = write_norm(converter, kvc_safetensors_text_tensor(file, planned->hf), i, error);
            continue;
        }
        char name[128];
        for (uint64_t p = 0; !status && p < kvc_plan_parts(planned); p++) {
            status = kvc_convert_tensor(converter, folder_part(file, config, planned, p, name), planned->type,
                                        planned->interleaved, config->rope.rotary, i, error);
        }
    }
    return status;
}

/* Keeps the type of experts in MXFP4 (see kvc_stays). */
static void keep_experts(struct kvc_plan *plan, struct kvc_planned_tensor *planned, enum kvc_type asked,
                         const struct kvc_file_tensor *tensor) {
    if (!tensor || !kvc_stays(tensor, asked)) {
        return;
    }
    if (planned->type != asked) { /* the tensor keeps its type, so it no longer counts as replaced */
        plan->replaced.q8_0 -= planned->type == KVC_Q8_0;
        plan->replaced.f16 -= planned->type == KVC_F16;
    }
    planned->type = tensor->type;
}

static enum kvc_status write_file(struct kvc_converter *converter, const struct kvc_config *config,
                                  struct kvc_plan *plan, enum kvc_type asked, const struct kvc_safetensors *file,
                                  const char *to, struct kvc_error *error) {
    size_t length = strlen(converter->from);
    while (length > 1 && converter->from[length - 1] == '/') {
        length--;
    }
    size_t start = length;
    while (start > 0 && converter->from[start - 1] != '/') {
        start--;
    }
    char name[200];
    snprintf(name, sizeof name, "%.*s", (int)(length - start), converter->from + start);
    enum kvc_status status = kvc_plan_metadata(config, plan, asked, name, converter->writer, error);
    if (!status) {
        status = kvc_convert_text(converter->from, config->vocab, converter->writer, error);
    }
    for (size_t i = 0; !status && i < plan->count; i++) {
        struct kvc_planned_tensor *planned = &plan->tensors[i];
        status = check_tensor(converter, config, planned, file, error);
        if (!status) {
            keep_experts(plan, planned, asked, kvc_safetensors_text_tensor(file, planned->hf));
        }
        kvc_gguf_add_tensor(converter->writer, planned->name, planned->type, planned->dimensions, planned->shape);
    }
    if (!status) {
        status = kvc_convert_unused(file, config, plan, converter->from, error);
    }
    if (!status) {
        status = kvc_gguf_writer_begin(converter->writer, to, error);
    }
    return status ? status : write_tensors(converter, config, plan, file, error);
}

enum kvc_status kvc_convert_folder(struct kvc_converter *converter, const char *to, enum kvc_type type,
                                   struct kvc_replaced *replaced, struct kvc_error *error) {
    struct kvc_config config;
    struct kvc_plan plan;
    struct kvc_safetensors *file;
    const size_t capacity = strlen(converter->from) + sizeof "/config.json";
    char *path = malloc(capacity);
    if (!path) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", converter->from);
    }
    snprintf(path, capacity, "%s/config.json", converter->from);
    enum kvc_status status = kvc_config_from_json(path, &config, error);
    free(path);
    if (status) {
        return status;
    }
    status = kvc_config_convertible(&config, converter->from, error);
    status = status ? status : kvc_plan_build(&config, type, &plan, error);
    if (!status) {
        status = kvc_safetensors_open(converter->from, &file, error);
        if (!status) {
            if (config.family->stacked) {
                status = kvc_safetensors_split(file, converter->from, error);
            }
            status = status ? status : write_file(converter, &config, &plan, type, file, to, error);
            kvc_safetensors_close(file);
        }
        *replaced = plan.replaced;
        kvc_plan_free(&plan);
    }
    kvc_config_free(&config);
    return status;
}
