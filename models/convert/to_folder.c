/* to_folder.c - writes a model as a Hugging Face folder. The plan made from the description gives every tensor's name
 * in both formats. Interleaved rows become half-split, stacks of experts become one tensor each (for gpt-oss see
 * stacked.c), and norms of 1 + w become w. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"
#include "models/config/names.h"
#include "models/convert/convert.h"
#include "models/convert/quantize.h"
#include "models/convert/to_folder.h"
#include "models/files/safetensors.h"
#include "models/files/tensor_file.h"

/* A tensor of the folder to write. */
struct target {
    const struct kvc_planned_tensor *planned,
        *second; /* `second`: in gpt-oss, the up projection that is stored with the gate; else NULL */
    uint32_t expert;
    bool transposed; /* written by kvc_convert_stacked */
    char name[128];
};

struct work {
    struct kvc_converter *converter;
    const struct kvc_gguf *gguf; /* one of gguf and folder is NULL */
    const struct kvc_safetensors *folder;
    struct kvc_config config;
    const struct kvc_family *read; /* the source's family, if the folder is written as another family */
    struct kvc_plan plan;
    struct target *targets;
    struct kvc_tensor *tensors; /* [count], parallel to targets */
    enum kvc_type *types;
    size_t count;
    struct kvc_error *error;
};

static enum kvc_status no_memory(const struct work *work) {
    return kvc_fail(work->error, KVC_RESOURCE, "%s: no memory for its list of tensors", work->converter->from);
}

enum kvc_status kvc_output_set_json(struct kvc_output_set *set, const char *name, json_t *root, bool whole,
                                    struct kvc_error *error) {
    const size_t flags = JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9);
    const size_t bytes = root && whole ? json_dumpb(root, NULL, 0, flags) : 0;
    char *text = bytes ? malloc(bytes + 1) : NULL;
    enum kvc_status status;
    if (text && json_dumpb(root, text, bytes, flags) == bytes) {
        text[bytes] = '\n';
        status = kvc_output_set_write(set, name, text, bytes + 1, error);
    } else {
        status = kvc_fail(error, KVC_RESOURCE, "%s: no memory", name);
    }
    free(text);
    json_decref(root);
    return status;
}

/* ---- the list of tensors ---- */

/* Returns the family under which the folder is written. A Llama with a window becomes a Mistral; families that read
 * images become their text-only relatives. */
static const struct kvc_family *folder_family(const struct kvc_config *config) {
    const struct kvc_family *own = config->family;
    const bool window = config->sliding_window > 0 && own->window == KVC_WINDOW_NONE;
    for (const struct kvc_family *family = kvc_families; family->gguf; family++) {
        const bool fits = window ? family->window != KVC_WINDOW_NONE : own->nested || family == own;
        if (fits && strcmp(family->gguf, own->gguf) == 0 && family->experts == own->experts && !family->nested)
            return family;
    }
    return own;
}

/* Returns the planned tensor of the up projection (or of its bias), given the planned tensor of the gate. */
static const struct kvc_planned_tensor *beside(const struct kvc_plan *plan, const struct kvc_planned_tensor *gate) {
    for (size_t i = 0; i < plan->count; i++) {
        const struct kvc_planned_tensor *other = &plan->tensors[i];
        if (other->experts == gate->experts + 1 && other->kind == gate->kind && other->layer == gate->layer)
            return other;
    }
    return NULL;
}

/* Lists a stack of gpt-oss's experts or their biases: gate and up in one tensor, matrices [inputs, outputs]. */
static void list_stacked(struct work *work, const struct kvc_planned_tensor *planned) {
    const bool stack = planned->kind == KVC_PLAN_EXPERTS, gate = planned->experts == &kvc_expert_names[0];
    if (planned->experts == &kvc_expert_names[1])
        return; /* already listed with the gate */
    struct target *target = &work->targets[work->count];
    struct kvc_tensor *tensor = &work->tensors[work->count];
    *target = (struct target){.planned = planned, .transposed = stack || gate};
    target->second = gate ? beside(&work->plan, planned) : NULL;
    const char *end = strstr(planned->hf, "gate_proj");
    if (gate && end)
        snprintf(target->name, sizeof target->name, "%.*sgate_up_proj%s", (int)(end - planned->hf), planned->hf,
                 end + strlen("gate_proj"));
    else
        snprintf(target->name, sizeof target->name, "%s", planned->hf);
    tensor->name = target->name;
    tensor->dimensions = planned->dimensions;
    memcpy(tensor->shape, planned->shape, tensor->dimensions * sizeof *tensor->shape);
    if (stack) {
        tensor->shape[1] = planned->shape[2];
        tensor->shape[2] = planned->shape[1];
    }
    if (target->second)
        tensor->shape[tensor->dimensions - 1] *= 2;
    work->types[work->count++] = planned->type;
}

static enum kvc_status list_tensors(struct work *work) {
    size_t most = 0;
    for (size_t i = 0; i < work->plan.count; i++)
        most += (size_t)kvc_plan_parts(&work->plan.tensors[i]);
    work->targets = calloc(most + 1, sizeof *work->targets);
    work->tensors = calloc(most + 1, sizeof *work->tensors);
    work->types = calloc(most + 1, sizeof *work->types);
    if (!work->targets || !work->tensors || !work->types)
        return no_memory(work);
    for (size_t i = 0; i < work->plan.count; i++) {
        const struct kvc_planned_tensor *planned = &work->plan.tensors[i];
        const bool stack = planned->apart;
        if (planned->experts && work->config.family->stacked) {
            list_stacked(work, planned);
            continue;
        }
        const uint64_t count = kvc_plan_parts(planned);
        for (uint64_t e = 0; e < count; e++) {
            struct target *target = &work->targets[work->count];
            struct kvc_tensor *tensor = &work->tensors[work->count];
            *target = (struct target){.planned = planned, .expert = (uint32_t)e};
            kvc_plan_part(&work->config, planned, (uint32_t)e, target->name, sizeof target->name);
            tensor->name = target->name;
            tensor->dimensions = planned->dimensions - stack;
            memcpy(tensor->shape, planned->shape + stack, tensor->dimensions * sizeof *tensor->shape);
            work->types[work->count++] = planned->type;
        }
    }
    return KVC_OK;
}

/* Narrows a stack to one expert's matrix, or norms to one head's row. */
static void take_slice(struct kvc_file_tensor *tensor, uint32_t expert) {
    const uint64_t rows = tensor->dimensions == 3 ? tensor->shape[1] : 1;
    const size_t bytes = (size_t)rows * kvc_type_row_bytes(tensor->type, tensor->cols);
    tensor->data = (const unsigned char *)tensor->data + expert * bytes;
    tensor->rows = rows;
    tensor->bytes = bytes;
    tensor->dimensions--;
    tensor->shape[0] = tensor->dimensions == 2 ? rows : tensor->cols;
    tensor->shape[1] = tensor->dimensions == 2 ? tensor->cols : 0;
}

/* Finds the rows of queries, keys or values in a file that stores all three in one tensor. Returns false if there is no
 * such tensor or its shape differs. */
static bool find_in_fused(const struct work *work, const char *name, struct kvc_file_tensor *tensor) {
    static const char *const parts[] = {".attn_q.", ".attn_k.", ".attn_v."};
    const struct kvc_config *config = &work->config;
    const uint64_t heads[] = {config->heads, config->kv_heads, config->kv_heads};
    uint64_t before = 0;
    for (size_t i = 0; i < 3; before += heads[i++] * config->head_size) {
        const char *at = strstr(name, parts[i]);
        char fused[160];
        if (!at)
            continue;
        snprintf(fused, sizeof fused, "%.*s.attn_qkv.%s", (int)(at - name), name, at + strlen(parts[i]));
        const struct kvc_file_tensor *found = kvc_gguf_tensor(work->gguf, fused);
        if (!found)
            return false;
        const bool bias = found->dimensions == 1;
        const uint64_t all = bias ? found->cols : found->rows, rows = heads[i] * config->head_size;
        const size_t row_bytes = kvc_type_row_bytes(found->type, bias ? 1 : found->cols);
        if (all != (config->heads + 2 * config->kv_heads) * config->head_size || row_bytes == 0)
            return false;
        *tensor = *found;
        tensor->data = (const unsigned char *)found->data + before * row_bytes;
        tensor->bytes = rows * row_bytes;
        tensor->shape[0] = rows;
        *(bias ? &tensor->cols : &tensor->rows) = rows;
        return true;
    }
    return false;
}

/* Finds a whole stack of gpt-oss, or its biases. */
static enum kvc_status find_stack(const struct work *work, const struct kvc_planned_tensor *planned,
                                  struct kvc_file_tensor *tensor) {
    const char *name = work->gguf ? planned->name : planned->hf;
    const struct kvc_file_tensor *found =
        work->gguf ? kvc_gguf_tensor(work->gguf, name) : kvc_safetensors_text_tensor(work->folder, name);
    if (!found)
        return kvc_fail(work->error, KVC_INPUT, "%s: tensor %s is missing", work->converter->from, name);
    *tensor = *found;
    if (found->dimensions != planned->dimensions ||
        memcmp(found->shape, planned->shape, planned->dimensions * sizeof *planned->shape) != 0)
        return kvc_fail(work->error, KVC_INPUT, "%s: tensor %s does not have the shape its model asks for",
                        work->converter->from, name);
    return KVC_OK;
}

/* Finds the source's tensor for a tensor of the folder. The data of scaled tensors belongs to the file object. */
static enum kvc_status to_folder_find(const struct work *work, const struct target *target,
                                      struct kvc_file_tensor *tensor) {
    const struct kvc_planned_tensor *planned = target->planned;
    const bool stack = planned->apart;
    const uint64_t *shape = planned->shape + stack;
    const uint64_t rows = planned->dimensions - stack == 2 ? shape[0] : 1,
                   cols = shape[planned->dimensions - stack - 1];
    char name[128];
    snprintf(name, sizeof name, "%s", work->gguf ? planned->name : target->name);
    const struct kvc_file_tensor *found =
        work->gguf ? kvc_gguf_tensor(work->gguf, name) : kvc_safetensors_text_tensor(work->folder, name);
    const bool whole = found && stack && work->gguf;
    if (!found && planned->experts && work->gguf) { /* the first GGUF files of Mixtral have a tensor per expert */
        kvc_expert_tensor(name, sizeof name, true, &work->config, planned->layer, planned->experts, target->expert);
        found = kvc_gguf_tensor(work->gguf, name);
    }
    if (found)
        *tensor = *found;
    else if (!work->gguf || !find_in_fused(work, name, tensor))
        return kvc_fail(work->error, KVC_INPUT, "%s: tensor %s is missing", work->converter->from, name);
    if (whole && tensor->dimensions == planned->dimensions && tensor->shape[0] == planned->shape[0])
        take_slice(tensor, target->expert);
    if (tensor->rows != rows || tensor->cols != cols)
        return kvc_fail(work->error, KVC_INPUT,
                        "%s: tensor %s is %" PRIu64 " x %" PRIu64 ", it must be %" PRIu64 " x %" PRIu64,
                        work->converter->from, name, tensor->rows, tensor->cols, rows, cols);
    return KVC_OK;
}

static enum kvc_status check_tensors(const struct work *work) {
    enum kvc_status status = KVC_OK;
    struct kvc_file_tensor tensor;
    for (size_t i = 0; !status && i < work->count; i++) {
        const struct target *target = &work->targets[i];
        status =
            target->transposed ? find_stack(work, target->planned, &tensor) : to_folder_find(work, target, &tensor);
        if (!status && target->second)
            status = find_stack(work, target->second, &tensor);
    }
    return status;
}

/* ---- writing ---- */

/* Converts 1 + w back to w. Fails if no w gives the stored number exactly, which cannot happen if the file was made
 * from a folder. */
static enum kvc_status write_norm(struct work *work, const struct kvc_file_tensor *tensor, size_t i) {
    const size_t length = (size_t)tensor->cols;
    float *values = malloc(length * sizeof *values);
    if (!values)
        return no_memory(work);
    kvc_dequantize_row(tensor->type, tensor->data, length, values);
    enum kvc_status status = KVC_OK;
    for (size_t k = 0; k < length && !status; k++) {
        const float sum = values[k];
        values[k] = sum - 1.0f;
        if (values[k] + 1.0f != sum)
            status = kvc_fail(work->error, KVC_INPUT,
                              "%s: tensor %s: number %zu, %g, cannot be stored: folders of %s store w for 1 + w, and "
                              "no float32 w gives it",
                              work->converter->from, tensor->name, k, (double)sum, work->config.family->hf);
    }
    if (!status)
        status = kvc_tensor_write_bytes(work->converter->tensors, i, values, length * sizeof *values, work->error);
    free(values);
    return status;
}

static enum kvc_status write_stack(struct work *work, const struct target *target, size_t i) {
    struct kvc_file_tensor tensors[2];
    const struct kvc_file_tensor *const parts[2] = {&tensors[0], &tensors[1]};
    enum kvc_status status = find_stack(work, target->planned, &tensors[0]);
    if (!status && target->second)
        status = find_stack(work, target->second, &tensors[1]);
    return status ? status
                  : kvc_convert_stacked(work->converter, parts, target->second ? 2 : 1, target->planned->type, i,
                                        work->error);
}

static enum kvc_status write_tensors(struct work *work, const char *path) {
    struct kvc_converter *converter = work->converter;
    enum kvc_status status =
        kvc_typed_writer_open(path, work->tensors, work->types, work->count, &converter->tensors, work->error);
    for (size_t i = 0; !status && i < work->count; i++) {
        const struct kvc_planned_tensor *planned = work->targets[i].planned;
        struct kvc_file_tensor tensor;
        if (work->targets[i].transposed) {
            status = write_stack(work, &work->targets[i], i);
            continue;
        }
        status = to_folder_find(work, &work->targets[i], &tensor);
        if (status)
            break;
        if (work->gguf && planned->kind == KVC_PLAN_NORM && work->config.family->norm_plus_one)
            status = write_norm(work, &tensor, i);
        else
            status = kvc_convert_tensor(converter, &tensor, planned->type, work->gguf ? planned->interleaved : 0,
                                        work->config.rope.rotary, i, work->error);
    }
    if (!status) {
        struct kvc_tensor_writer *writer = converter->tensors;
        converter->tensors = NULL;
        status = kvc_tensor_writer_commit(writer, work->error);
    }
    return status;
}

static enum kvc_status write_folder(struct work *work, const char *to, enum kvc_type type) {
    struct kvc_output_set *set;
    const char *path, *from = work->converter->from;
    enum kvc_status status = list_tensors(work);
    if (!status)
        status = check_tensors(work);
    if (!status && work->folder) {
        struct kvc_config config = work->config;
        config.family = work->read;
        status = kvc_convert_unused(work->folder, &config, &work->plan, from, work->error);
    }
    if (!status)
        status = kvc_output_set_open(to, &set, work->error);
    if (status)
        return status;
    status = kvc_write_config(set, from, &work->config, type, work->error);
    if (!status)
        status = work->gguf ? kvc_write_text(set, from, work->gguf, work->config.vocab, work->error)
                            : kvc_copy_text_files(set, from, work->error);
    if (!status)
        status = kvc_output_set_path(set, "model.safetensors", &path, work->error);
    if (!status)
        status = write_tensors(work, path);
    if (!status)
        status = kvc_convert_read_back(kvc_output_set_folder(set), to, work->error);
    if (!status)
        return kvc_output_set_commit(set, work->error);
    kvc_tensor_writer_abandon(
        work->converter->tensors); /* must be abandoned before the folder that contains its file */
    work->converter->tensors = NULL;
    kvc_output_set_abandon(set);
    return status;
}

/* ---- the two sources ---- */

static enum kvc_status convert(struct work *work, const char *to, enum kvc_type type) {
    const enum kvc_status able = kvc_config_convertible(&work->config, work->converter->from, work->error);
    if (able) {
        return able;
    }
    work->read = work->config.family;
    work->config.family = folder_family(&work->config);
    work->config.fused = work->config.family->fused; /* folders of Phi-2 have separate q, k and v */
    enum kvc_status status = kvc_plan_build(&work->config, type, &work->plan, work->error);
    if (!status) {
        status = write_folder(work, to, type);
        kvc_plan_free(&work->plan);
    }
    free(work->targets);
    free(work->tensors);
    free(work->types);
    return status;
}

static enum kvc_status from_gguf(struct work *work, const char *to, enum kvc_type type) {
    struct kvc_gguf *file;
    enum kvc_status status = kvc_gguf_open(work->converter->from, &file, work->error);
    if (status)
        return status;
    status = kvc_config_from_gguf(file, work->converter->from, &work->config, work->error);
    if (!status) {
        const struct kvc_file_tensor *embedding = kvc_gguf_tensor(file, kvc_embedding_name[1]);
        work->gguf = file;
        work->config.vocab = work->config.vocab ? work->config.vocab : embedding ? embedding->rows : 0;
        status = convert(work, to, type);
        kvc_config_free(&work->config);
    }
    kvc_gguf_close(file);
    return status;
}

static enum kvc_status from_folder(struct work *work, const char *to, enum kvc_type type) {
    struct kvc_safetensors *file;
    const char *from = work->converter->from;
    const size_t capacity = strlen(from) + sizeof "/config.json";
    char *path = malloc(capacity);
    if (!path)
        return kvc_fail(work->error, KVC_RESOURCE, "%s: no memory", from);
    snprintf(path, capacity, "%s/config.json", from);
    enum kvc_status status = kvc_config_from_json(path, &work->config, work->error);
    free(path);
    if (status)
        return status;
    status = kvc_safetensors_open(from, &file, work->error);
    if (!status) {
        work->folder = file;
        if (work->config.family->stacked)
            status = kvc_safetensors_split(file, from, work->error);
        status = status ? status : convert(work, to, type);
        kvc_safetensors_close(file);
    }
    kvc_config_free(&work->config);
    return status;
}

enum kvc_status kvc_convert_to_folder(struct kvc_converter *converter, bool folder, const char *to, enum kvc_type type,
                                      struct kvc_error *error) {
    struct work work = {.converter = converter, .error = error};
    if (type != KVC_F32 && type != KVC_F16 && type != KVC_BF16)
        return kvc_fail(error, KVC_USAGE, "%s: a Hugging Face folder holds f32, f16 or bf16, not %s", to,
                        kvc_type_name(type));
    return folder ? from_folder(&work, to, type) : from_gguf(&work, to, type);
}

/* ---- choosing the type ---- */

enum kvc_status kvc_convert_folder_type(const char *from, bool folder, enum kvc_type *type, struct kvc_error *error) {
    struct kvc_gguf *gguf = NULL;
    struct kvc_safetensors *safetensors = NULL;
    enum kvc_status status =
        folder ? kvc_safetensors_open(from, &safetensors, error) : kvc_gguf_open(from, &gguf, error);
    if (status)
        return status;
    const size_t count = folder ? kvc_safetensors_count(safetensors) : kvc_gguf_tensor_count(gguf);
    bool seen[KVC_ALL_TYPES] = {false}, other = false;
    for (size_t i = 0; i < count; i++) {
        const struct kvc_file_tensor *tensor =
            folder ? kvc_safetensors_at(safetensors, i) : kvc_gguf_tensor_at(gguf, i);
        if (tensor->dimensions > 1) {
            seen[tensor->type] = true;
            other = other || (tensor->type != KVC_F32 && tensor->type != KVC_BF16);
        }
    }
    *type = other ? KVC_F16 : seen[KVC_BF16] ? KVC_BF16 : KVC_F32;
    kvc_gguf_close(gguf);
    kvc_safetensors_close(safetensors);
    return KVC_OK;
}
