/* scaled_pair.c - finds pairs of tensors in a safetensors file: FP8 or MXFP4 numbers and their scales. Nothing is
 * trusted: shapes are compared, and scales must be finite. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"
#include "core/base/weight_blocks.h"
#include "models/files/scaled.h"
#include "models/files/tensor_index.h"

struct pairing {
    struct kvc_safetensors *file;
    const char *path;
    bool *taken; /* [tensor_count]: scales, which are removed from the list */
    struct kvc_error *error;
};

static enum kvc_status new_scaled(const struct pairing *in, struct kvc_file_tensor *tensor,
                                  const struct kvc_file_tensor *scales, struct kvc_scaled values) {
    struct kvc_scaled *scaled = malloc(sizeof *scaled);
    if (!scaled) {
        return kvc_fail(in->error, KVC_RESOURCE, "%s: no memory for its tensors", in->path);
    }
    values.raw = tensor->data;
    values.scales = scales->data;
    *scaled = values;
    tensor->scaled = scaled;
    tensor->data = NULL;
    tensor->raw = KVC_RAW_NONE;
    in->taken[scales - in->file->tensors] = true;
    return KVC_OK;
}

/* Returns the tensor with this name and suffix, or NULL. */
static const struct kvc_file_tensor *find_beside(const struct pairing *in, const char *stem, int length,
                                                 const char *suffix) {
    char name[300];
    snprintf(name, sizeof name, "%.*s%s", length, stem, suffix);
    return kvc_safetensors_tensor(in->file, name);
}

/* Pairs FP8 numbers with scales per block of 128 x 128, per row, or for the whole matrix. */
static enum kvc_status pair_fp8(const struct pairing *in, struct kvc_file_tensor *tensor) {
    const uint64_t rows = tensor->rows, cols = tensor->cols;
    const uint64_t grid_rows = rows / KVC_FP8_BLOCK + (rows % KVC_FP8_BLOCK > 0);
    const uint64_t grid_cols = cols / KVC_FP8_BLOCK + (cols % KVC_FP8_BLOCK > 0);
    const struct kvc_file_tensor *scales = find_beside(in, tensor->name, (int)strlen(tensor->name), "_scale_inv");
    if (!scales) {
        scales = find_beside(in, tensor->name, (int)strlen(tensor->name), "_scale");
    }
    if (!scales || scales->raw || scales->scaled) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s is F8_E4M3, but there is no %s_scale_inv of dtype F32, F16 or BF16 beside it",
                        in->path, tensor->name, tensor->name);
    }
    const bool one = scales->rows == 1 && scales->cols == 1;
    if (tensor->dimensions != 2) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s is F8_E4M3 in %u dimensions; only matrices may be",
                        in->path, tensor->name, (unsigned)tensor->dimensions);
    }
    const bool each = scales->dimensions == 2 && scales->rows == rows && scales->cols == 1; /* one scale per row */
    if (!one && !each && (scales->dimensions != 2 || scales->rows != grid_rows || scales->cols != grid_cols)) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s is %" PRIu64 " x %" PRIu64 "; its scales, %s, are %" PRIu64 " x %" PRIu64
                        ", they must be %" PRIu64 " x %" PRIu64 " (blocks of %d x %d), one for each row, or one",
                        in->path, tensor->name, rows, cols, scales->name, scales->rows, scales->cols, grid_rows,
                        grid_cols, KVC_FP8_BLOCK, KVC_FP8_BLOCK);
    }
    for (uint64_t i = 0; i < scales->rows * scales->cols; i++) {
        const float scale = kvc_scale_at(scales->data, scales->type, i);
        if (!(scale * 0.0f == 0.0f)) {
            return kvc_fail(in->error, KVC_INPUT,
                            "%s: tensor %s: number %" PRIu64 " is infinite or NaN, which is not a scale", in->path,
                            scales->name, i);
        }
    }
    const size_t row_bytes = kvc_type_row_bytes(KVC_FP8, cols);
    tensor->type = row_bytes ? KVC_FP8 : KVC_F32;
    tensor->bytes =
        rows * (row_bytes ? row_bytes : 4 * cols); /* cannot overflow: at most 4 times the bytes in the file */
    return new_scaled(in, tensor, scales,
                      (struct kvc_scaled){.scale_type = scales->type,
                                          .block_rows = one    ? rows
                                                        : each ? 1
                                                               : KVC_FP8_BLOCK,
                                          .block_cols = one || each ? cols : KVC_FP8_BLOCK,
                                          .grid_cols = one || each ? 1 : grid_cols});
}

/* Pairs X_blocks [..., rows, blocks, 16] and X_scales [..., rows, blocks] as X [..., rows, 32 blocks]. */
static enum kvc_status pair_mxfp4(const struct pairing *in, struct kvc_file_tensor *tensor) {
    const size_t stem = strlen(tensor->name) - strlen("_blocks");
    const struct kvc_file_tensor *scales = find_beside(in, tensor->name, (int)stem, "_scales");
    if (!scales || scales->raw != KVC_RAW_U8) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s is U8, but there is no %.*s_scales of dtype U8 beside it",
                        in->path, tensor->name, (int)stem, tensor->name);
    }
    const uint32_t dimensions = scales->dimensions;
    if (tensor->dimensions != dimensions + 1 || tensor->cols != KVC_MXFP4_BYTES || dimensions < 2 ||
        memcmp(tensor->shape, scales->shape, dimensions * sizeof *scales->shape) != 0) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s must have the shape of %s and %d bytes for each of its numbers", in->path,
                        tensor->name, scales->name, KVC_MXFP4_BYTES);
    }
    const unsigned char *power = scales->data, *wrong = memchr(power, 255, (size_t)scales->bytes);
    if (wrong) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s: number %" PRIu64 " is 255, which is not a scale",
                        in->path, scales->name, (uint64_t)(wrong - power));
    }
    tensor->type = KVC_MXFP4; /* cannot overflow: 17 bytes per block, as in the file */
    tensor->dimensions = dimensions;
    tensor->shape[dimensions] = 0;
    tensor->shape[dimensions - 1] = tensor->cols = scales->cols * 32;
    tensor->rows = scales->rows;
    tensor->bytes = scales->bytes * sizeof(struct kvc_block_mxfp4);
    return new_scaled(in, tensor, scales, (struct kvc_scaled){.parts = 1});
}

static bool ends_with(const char *name, const char *suffix) {
    const size_t length = strlen(name), end = strlen(suffix);
    return length > end && strcmp(name + length - end, suffix) == 0;
}

static enum kvc_status refuse_raw(const struct pairing *in, const struct kvc_file_tensor *tensor) {
    return kvc_fail(in->error, KVC_INPUT,
                    "%s: tensor %s has dtype U8; F32, F16, BF16 and, with scales, F8_E4M3 and MXFP4 are supported",
                    in->path, tensor->name);
}

enum kvc_status kvc_safetensors_name(struct kvc_safetensors *file, const char *path, struct kvc_error *error) {
    const size_t count = file->tensor_count;
    struct kvc_named *items = malloc((count + 1) * sizeof *items);
    uint32_t *by_name = malloc((count + 1) * sizeof *by_name);
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; items && i < count; i++) {
        items[i] = (struct kvc_named){file->tensors[i].name, (const unsigned char *)"", (uint32_t)i};
    }
    if (items && by_name) {
        free(file->by_name);
        file->by_name = by_name;
        status = kvc_sort_names(path, items, count, "tensor", by_name, error);
    } else {
        free(by_name);
        status = kvc_fail(error, KVC_RESOURCE, "%s: no memory for its tensors", path);
    }
    free(items);
    return status;
}

/* Removes the scales from the list, removes "_blocks" from names, and rebuilds the index. */
static enum kvc_status remove_taken(const struct pairing *in) {
    struct kvc_safetensors *file = in->file;
    size_t left = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (in->taken[i]) {
            free((void *)(uintptr_t)file->tensors[i].name);
        } else {
            file->tensors[left++] = file->tensors[i];
        }
    }
    file->tensor_count = left;
    for (size_t i = 0; i < left; i++) {
        if (file->tensors[i].scaled && file->tensors[i].type == KVC_MXFP4) {
            char *name = (char *)(uintptr_t)file->tensors[i].name;
            name[strlen(name) - strlen("_blocks")] = '\0';
        }
    }
    return kvc_safetensors_name(file, in->path, in->error);
}

enum kvc_status kvc_scaled_pair(struct kvc_safetensors *file, const char *path, struct kvc_error *error) {
    bool any = false;
    for (size_t i = 0; i < file->tensor_count; i++) {
        any = any || file->tensors[i].raw;
    }
    if (!any) {
        return KVC_OK;
    }
    struct pairing in = {file, path, calloc(file->tensor_count, sizeof(bool)), error};
    enum kvc_status status = in.taken ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "%s: no memory for its tensors", path);
    for (size_t i = 0; i < file->tensor_count && !status; i++) {
        struct kvc_file_tensor *tensor = &file->tensors[i];
        if (tensor->raw == KVC_RAW_F8_E4M3) {
            status = pair_fp8(&in, tensor);
        } else if (tensor->raw == KVC_RAW_U8 && ends_with(tensor->name, "_blocks")) {
            status = pair_mxfp4(&in, tensor);
        }
    }
    for (size_t i = 0; i < file->tensor_count && !status; i++) {
        if (file->tensors[i].raw && !in.taken[i]) {
            status = refuse_raw(&in, &file->tensors[i]);
        }
    }
    if (!status) {
        status = remove_taken(&in);
    }
    free(in.taken);
    return status;
}
