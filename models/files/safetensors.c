/* safetensors.c - reads a single safetensors file: 8 bytes of header length, a JSON header, the tensors' bytes. The
 * tensors must cover the data without holes, as the format requires, so no two can overlap. */
#include "models/files/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "core/base/types.h"
#include "models/files/gguf_file.h"
#include "models/files/json.h"
#include "models/files/scaled.h"
#include "models/files/safetensors_file.h"

#define LONGEST_HEADER UINT64_C(100000000) /* the format's limit */

enum { LONGEST_NAME = 255 };

struct header { /* a file while it is being read */
    const char *path;
    const unsigned char *data; /* the tensors' data */
    uint64_t bytes;
    struct kvc_error *error;
};

static enum kvc_status find_type(const struct header *in, const char *name, const json_t *dtype,
                                 struct kvc_file_tensor *tensor) {
    const char *text = json_string_value(dtype);
    enum kvc_type *type = &tensor->type;
    if (!text) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s has no dtype", in->path, name);
    }
    if (strcmp(text, "F32") == 0) {
        *type = KVC_F32;
    } else if (strcmp(text, "F16") == 0) {
        *type = KVC_F16;
    } else if (strcmp(text, "BF16") == 0) {
        *type = KVC_BF16;
    } else if (strcmp(text, "F8_E4M3") == 0) {
        tensor->raw = KVC_RAW_F8_E4M3;
    } else if (strcmp(text, "U8") == 0) {
        tensor->raw = KVC_RAW_U8;
    } else {
        return kvc_fail(
            in->error, KVC_INPUT,
            "%s: tensor %s has dtype %.20s; F32, F16, BF16 and, with scales, F8_E4M3 and MXFP4 are supported", in->path,
            name, text);
    }
    return KVC_OK;
}

static enum kvc_status find_shape(const struct header *in, const json_t *shape, struct kvc_file_tensor *tensor) {
    size_t dimensions = json_array_size(shape);
    if (!json_is_array(shape) || dimensions > 4) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s: a shape of at most 4 dimensions was expected", in->path,
                        tensor->name);
    }
    tensor->dimensions = (uint32_t)dimensions;
    tensor->rows = tensor->cols = 1;
    for (size_t i = 0; i < dimensions; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 1) {
            return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s: dimension %zu is not a whole number above 0",
                            in->path, tensor->name, i);
        }
        uint64_t elements = (uint64_t)json_integer_value(size);
        tensor->shape[i] = elements;
        if (i + 1 == dimensions) {
            tensor->cols = elements;
        } else if (elements > UINT64_MAX / tensor->rows) {
            return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s: the product of its dimensions overflows", in->path,
                            tensor->name);
        } else {
            tensor->rows *= elements;
        }
    }
    if (dimensions == 0) { /* a scalar */
        tensor->dimensions = 1;
        tensor->shape[0] = 1;
    }
    size_t row_bytes = tensor->raw ? (size_t)tensor->cols : kvc_type_row_bytes(tensor->type, tensor->cols);
    if (row_bytes == 0 || tensor->rows > UINT64_MAX / row_bytes) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s: the product of its dimensions overflows", in->path,
                        tensor->name);
    }
    tensor->bytes = tensor->rows * row_bytes;
    return KVC_OK;
}

static enum kvc_status find_place(const struct header *in, const json_t *offsets, struct kvc_file_tensor *tensor) {
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        json_integer_value(first) < 0 || json_integer_value(last) < json_integer_value(first)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s: data_offsets are not [begin, end]", in->path,
                        tensor->name);
    }
    uint64_t begin = (uint64_t)json_integer_value(first), end = (uint64_t)json_integer_value(last);
    if (end > in->bytes) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s ends at byte %" PRIu64 " of %" PRIu64 " bytes of data; "
                        "the file is cut short or damaged",
                        in->path, tensor->name, end, in->bytes);
    }
    if (end - begin != tensor->bytes) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s: its shape needs %" PRIu64 " bytes, its data_offsets "
                        "hold %" PRIu64,
                        in->path, tensor->name, tensor->bytes, end - begin);
    }
    tensor->data = in->data + begin;
    KVC_ASSERT(begin + tensor->bytes <= in->bytes);
    return KVC_OK;
}

static enum kvc_status add_tensor(const struct header *in, const char *name, const json_t *about,
                                  struct kvc_file_tensor *tensor) {
    size_t length = strlen(name);
    bool printable = length > 0 && length <= LONGEST_NAME;
    for (size_t i = 0; printable && i < length; i++) {
        printable = (unsigned char)name[i] >= 0x20 && name[i] != 0x7f;
    }
    if (!printable || !json_is_object(about)) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: the header has an entry that does not describe a tensor (a name "
                        "of 1 to %d printable bytes and an object were expected)",
                        in->path, LONGEST_NAME);
    }
    tensor->name = strdup(name);
    if (!tensor->name) {
        return kvc_fail(in->error, KVC_RESOURCE, "%s: no memory for its tensors", in->path);
    }
    enum kvc_status status = find_type(in, name, json_object_get(about, "dtype"), tensor);
    if (!status) {
        status = find_shape(in, json_object_get(about, "shape"), tensor);
    }
    if (!status) {
        status = find_place(in, json_object_get(about, "data_offsets"), tensor);
    }
    return status;
}

static int by_place(const void *a, const void *b) {
    const unsigned char *x = ((const struct kvc_file_tensor *)a)->data, *y = ((const struct kvc_file_tensor *)b)->data;
    return (x > y) - (x < y);
}

static enum kvc_status refuse_holes(const struct header *in, const struct kvc_file_tensor *tensors, size_t count) {
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t begin = (uint64_t)((const unsigned char *)tensors[i].data - in->data);
        KVC_ASSERT(at <= in->bytes);
        if (begin != at) {
            return kvc_fail(in->error, KVC_INPUT,
                            "%s: tensor %s begins at byte %" PRIu64 " of the data, %" PRIu64
                            " was expected: tensors overlap or leave a hole",
                            in->path, tensors[i].name, begin, at);
        }
        at += tensors[i].bytes;
    }
    if (at != in->bytes) {
        return kvc_fail(in->error, KVC_INPUT, "%s: its tensors hold %" PRIu64 " bytes, the file has %" PRIu64, in->path,
                        at, in->bytes);
    }
    return KVC_OK;
}

static enum kvc_status add_tensors(struct kvc_safetensors *file, const struct header *in, json_t *root) {
    if (!json_is_object(root)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: its header is not a JSON object", in->path);
    }
    size_t more = json_object_size(root), first = file->tensor_count;
    if (more > UINT32_MAX - first) {
        return kvc_fail(in->error, KVC_INPUT, "%s: too many tensors", in->path);
    }
    struct kvc_file_tensor *grown = realloc(file->tensors, (first + more + 1) * sizeof *grown);
    if (!grown) {
        return kvc_fail(in->error, KVC_RESOURCE, "%s: no memory for its tensors", in->path);
    }
    file->tensors = grown;
    const char *name;
    json_t *about;
    json_object_foreach(root, name, about) {
        if (strcmp(name, "__metadata__") == 0) {
            continue;
        }
        struct kvc_file_tensor *tensor = &file->tensors[file->tensor_count++];
        memset(tensor, 0, sizeof *tensor);
        enum kvc_status status = add_tensor(in, name, about, tensor);
        if (status) {
            return status;
        }
    }
    qsort(file->tensors + first, file->tensor_count - first, sizeof *file->tensors, by_place);
    return refuse_holes(in, file->tensors + first, file->tensor_count - first);
}

enum kvc_status kvc_safetensors_add(struct kvc_safetensors *file, const char *path, struct kvc_error *error) {
    struct kvc_map *maps = realloc(file->maps, (file->map_count + 1) * sizeof *maps);
    if (!maps) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    file->maps = maps;
    struct kvc_map *map = &maps[file->map_count];
    enum kvc_status status = kvc_map_open(path, map, error);
    if (status) {
        return status;
    }
    file->map_count++;
    if (map->bytes < 8) {
        return kvc_fail(error, KVC_INPUT, "%s: is not a safetensors file (%zu bytes)", path, map->bytes);
    }
    uint64_t length = kvc_gguf_little(map->data, 8);
    if (length > map->bytes - 8 || length > LONGEST_HEADER) {
        return kvc_fail(error, KVC_INPUT,
                        "%s: its header claims %" PRIu64 " bytes, the file has %zu after the length "
                        "(a header has at most %" PRIu64 "); the file is cut short or not a safetensors file",
                        path, length, map->bytes - 8, LONGEST_HEADER);
    }
    json_t *root;
    status = kvc_json_parse(path, (const char *)map->data + 8, (size_t)length, &root, error);
    if (!status) {
        struct header in = {path, map->data + 8 + length, map->bytes - 8 - length, error};
        status = add_tensors(file, &in, root);
        json_decref(root);
    }
    return status;
}

void kvc_safetensors_let_go(const struct kvc_safetensors *file) {
    for (size_t i = 0; i < file->map_count; i++) {
        kvc_map_let_go(&file->maps[i]);
    }
}

void kvc_safetensors_close(struct kvc_safetensors *file) {
    if (!file) {
        return;
    }
    for (size_t i = 0; i < file->tensor_count; i++) {
        free((void *)(uintptr_t)file->tensors[i].name);
        kvc_scaled_free(file->tensors[i].scaled);
        if (file->copies) {
            free(file->copies[i]);
        }
    }
    for (size_t i = 0; i < file->map_count; i++) {
        kvc_map_close(&file->maps[i]);
    }
    free(file->copies);
    free(file->tensors);
    free(file->by_name);
    free(file->maps);
    free(file);
}

size_t kvc_safetensors_count(const struct kvc_safetensors *file) { return file->tensor_count; }
