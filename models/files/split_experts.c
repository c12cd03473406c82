/* split_experts.c - presents the experts of gpt-oss folders as GGUF files store them. In these folders gate and up are
 * one tensor, in which their outputs alternate, and unquantized matrices are [inputs, outputs]. Here they become stacks
 * [experts, outputs, inputs], made on demand. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"
#include "models/files/scaled.h"
#include "models/files/tensor_index.h"

/* The kinds of fused tensors: how their names end, and how the names of their two parts end. If `second` is NULL, the
 * tensor is only transposed. */
static const struct {
    const char *end, *first, *second;
    uint32_t dimensions;
} fused[] = {
    {".mlp.experts.gate_up_proj", ".mlp.experts.gate_proj", ".mlp.experts.up_proj", 3},
    {".mlp.experts.gate_up_proj_bias", ".mlp.experts.gate_proj_bias", ".mlp.experts.up_proj_bias", 2},
    {".mlp.experts.down_proj", ".mlp.experts.down_proj", NULL, 3},
};

struct splitting {
    struct kvc_safetensors *file;
    const char *path;
    struct kvc_error *error;
};

static enum kvc_status no_memory(const struct splitting *in) {
    return kvc_fail(in->error, KVC_RESOURCE, "%s: no memory for its tensors", in->path);
}

/* Returns the name with its end replaced. The caller frees it. */
static char *renamed(const char *name, const char *end, const char *other) {
    const size_t stem = strlen(name) - strlen(end), length = strlen(other);
    char *made = malloc(stem + length + 1);
    if (made) {
        memcpy(made, name, stem);
        memcpy(made + stem, other, length + 1);
    }
    return made;
}

/* Makes one of the `parts` tensors that a fused tensor is split into. */
static enum kvc_status add_part(const struct splitting *in, const struct kvc_file_tensor *from, char *name,
                                uint32_t parts, uint32_t part, struct kvc_file_tensor *to) {
    struct kvc_scaled *scaled = name ? malloc(sizeof *scaled) : NULL;
    if (!scaled) {
        free(name);
        return no_memory(in);
    }
    *to = *from;
    to->name = name;
    to->bytes = from->bytes / parts;
    if (from->scaled) {
        *scaled = *from->scaled;
        scaled->made = NULL; /* existing data belongs to the whole tensor */
        to->shape[1] /= parts;
    } else {
        *scaled = (struct kvc_scaled){.raw = from->data, .transposed = true};
        to->data = NULL;
        to->shape[1] = from->shape[from->dimensions - 1] / parts;
        if (to->dimensions == 3)
            to->shape[2] = from->shape[1];
    }
    scaled->parts = parts;
    scaled->part = part;
    to->cols = to->shape[to->dimensions - 1];
    to->rows = to->dimensions == 3 ? to->shape[0] * to->shape[1] : to->shape[0];
    to->scaled = scaled;
    return KVC_OK;
}

static enum kvc_status check_fused(const struct splitting *in, const struct kvc_file_tensor *tensor, size_t kind) {
    const uint32_t parts = fused[kind].second ? 2 : 1;
    if (tensor->scaled && tensor->type != KVC_MXFP4) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s is F8_E4M3; such experts are F32, F16, BF16 or MXFP4",
                        in->path, tensor->name);
    }
    const uint32_t outputs = tensor->scaled ? 1 : tensor->dimensions - 1;
    if (tensor->dimensions != fused[kind].dimensions || tensor->shape[outputs] % parts != 0) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s must have %u dimensions%s", in->path, tensor->name,
                        (unsigned)fused[kind].dimensions, parts > 1 ? " and an even number of outputs" : "");
    }
    return KVC_OK;
}

static void free_tensor(const struct kvc_file_tensor *tensor) {
    free((void *)(uintptr_t)tensor->name);
    kvc_scaled_free(tensor->scaled);
}

/* Replaces the tensor by its parts. The second part goes to the end of the list, which has room for it. */
static enum kvc_status split_one(const struct splitting *in, size_t i, size_t kind) {
    struct kvc_safetensors *file = in->file;
    const struct kvc_file_tensor old = file->tensors[i];
    const uint32_t parts = fused[kind].second ? 2 : 1;
    struct kvc_file_tensor made[2];
    enum kvc_status status = check_fused(in, &old, kind);
    if (status || (parts == 1 && old.scaled)) { /* MXFP4 is stored as [outputs, inputs] already */
        return status;
    }
    for (uint32_t p = 0; p < parts; p++) {
        char *name = renamed(old.name, fused[kind].end, p ? fused[kind].second : fused[kind].first);
        status = add_part(in, &old, name, parts, p, &made[p]);
        if (status) {
            if (p > 0)
                free_tensor(&made[0]);
            return status;
        }
    }
    free_tensor(&old);
    file->tensors[i] = made[0];
    if (parts > 1)
        file->tensors[file->tensor_count++] = made[1];
    return KVC_OK;
}

static bool ends_with(const char *name, const char *end) {
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Returns the kind of a fused tensor, or the number of kinds for any other tensor. */
static size_t kind_of(const struct kvc_file_tensor *tensor) {
    size_t kind = 0;
    while (kind < sizeof fused / sizeof *fused && !ends_with(tensor->name, fused[kind].end))
        kind++;
    return kind;
}

/* Doubles the room in the list of tensors. */
static enum kvc_status split_experts_grow(const struct splitting *in) {
    struct kvc_safetensors *file = in->file;
    const size_t count = file->tensor_count, most = 2 * count + 1;
    struct kvc_file_tensor *tensors = realloc(file->tensors, most * sizeof *tensors);
    if (!tensors) {
        return no_memory(in);
    }
    file->tensors = tensors;
    if (file->copies) {
        void **copies = realloc(file->copies, most * sizeof *copies);
        if (!copies) {
            return no_memory(in);
        }
        memset(copies + count, 0, (most - count) * sizeof *copies);
        file->copies = copies;
    }
    return KVC_OK;
}

enum kvc_status kvc_safetensors_split(struct kvc_safetensors *file, const char *path, struct kvc_error *error) {
    const struct splitting in = {file, path, error};
    const size_t count = file->tensor_count;
    enum kvc_status status = split_experts_grow(&in);
    for (size_t i = 0; i < count && !status; i++) {
        const size_t kind = kind_of(&file->tensors[i]);
        if (kind < sizeof fused / sizeof *fused) {
            status = split_one(&in, i, kind);
        }
    }
    return status ? status : kvc_safetensors_name(file, path, error);
}
