/* tensor_file.c - writes safetensors files tensor by tensor, and reads float32 tensors by name. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"
#include "models/files/output.h"
#include "models/files/safetensors.h"
#include "models/files/tensor_file.h"
#include "models/tokenizer/parts.h"

struct written {
    char *name;
    enum kvc_type type;
    uint64_t offset, bytes, done; /* offset in the data; later, offset in the file */
};

struct kvc_tensor_writer {
    struct kvc_output *output;
    struct written *tensors;
    size_t count;
};

struct kvc_tensor_reader {
    struct kvc_safetensors *file;
    char *path;
};

/* ---- writing ---- */

/* Returns the size of a tensor's values in bytes. Returns 0 for an invalid shape. */
static uint64_t size_of(const struct kvc_tensor *tensor, enum kvc_type type) {
    const uint64_t size = kvc_type_block(type).bytes;
    uint64_t values = 1;
    bool fits = tensor->dimensions >= 1 && tensor->dimensions <= 4;
    for (uint32_t k = 0; fits && k < tensor->dimensions; k++) {
        fits = tensor->shape[k] > 0 && values <= INT64_MAX / 16 / tensor->shape[k];
        values *= fits ? tensor->shape[k] : 1;
    }
    return fits ? values * size : 0;
}

static enum kvc_status place_tensors(struct kvc_tensor_writer *writer, const char *path,
                                     const struct kvc_tensor *tensors, const enum kvc_type *types, uint64_t *bytes,
                                     struct kvc_error *error) {
    *bytes = 0;
    for (size_t i = 0; i < writer->count; i++) {
        const enum kvc_type type = types ? types[i] : KVC_F32;
        struct written *tensor = &writer->tensors[i];
        *tensor = (struct written){strdup(tensors[i].name), type, 0, size_of(&tensors[i], type), 0};
        if (!tensor->name) {
            return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
        }
        if (tensor->bytes == 0) {
            return kvc_fail(error, KVC_USAGE, "%s: tensor %s: 1 to 4 dimensions above 0 were expected", path,
                            tensors[i].name);
        }
    }
    for (int narrow = 0; narrow < 2; narrow++) {
        for (size_t i = 0; i < writer->count; i++) {
            struct written *tensor = &writer->tensors[i];
            if ((tensor->type != KVC_F32) != narrow) {
                continue;
            }
            if (tensor->bytes > INT64_MAX / 4 - *bytes) {
                return kvc_fail(error, KVC_USAGE, "%s: tensor %s: the file would have too many bytes", path,
                                tensor->name);
            }
            tensor->offset = *bytes;
            *bytes += tensor->bytes;
        }
    }
    return KVC_OK;
}

enum { HEADER_FLAGS = JSON_COMPACT | JSON_PRESERVE_ORDER };

/* Adds a tensor to the header. Returns false if out of memory. */
static bool tensor_file_describe(json_t *root, const struct written *tensor, const struct kvc_tensor *shape_of) {
    json_t *shape = json_array();
    bool done = shape != NULL;
    for (uint32_t k = 0; k < shape_of->dimensions && done; k++) {
        done = json_array_append_new(shape, json_integer((json_int_t)shape_of->shape[k])) == 0;
    }
    const char *dtype = tensor->type == KVC_F16 ? "F16" : tensor->type == KVC_BF16 ? "BF16" : "F32";
    json_t *about = json_pack("{s:s, s:O, s:[I,I]}", "dtype", dtype, "shape", shape, "data_offsets",
                              (json_int_t)tensor->offset, (json_int_t)(tensor->offset + tensor->bytes));
    json_decref(shape);
    return json_object_set_new(root, tensor->name, about) == 0 && done;
}

/* Makes the JSON header, padded with spaces so that the data begins at a multiple of 8. The caller frees it. */
static enum kvc_status make_header(const struct kvc_tensor_writer *writer, const char *path,
                                   const struct kvc_tensor *tensors, char **header, size_t *bytes,
                                   struct kvc_error *error) {
    json_t *root = json_object();
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; root && i < writer->count && !status; i++) {
        const char *name = writer->tensors[i].name;
        if (!kvc_is_utf8(name, strlen(name)) || json_object_get(root, name)) {
            status = kvc_fail(error, KVC_USAGE, "%s: tensor names must be UTF-8 and differ from each other", path);
        } else if (!tensor_file_describe(root, &writer->tensors[i], &tensors[i])) {
            status = kvc_fail(error, KVC_RESOURCE, "%s: no memory for its header", path);
        }
    }
    /* json_dumps may omit parts when memory runs out */
    const size_t length = root && !status ? json_dumpb(root, NULL, 0, HEADER_FLAGS) : 0, padded = (length + 7) / 8 * 8;
    *header = length ? malloc(8 + padded) : NULL;
    if (*header) {
        for (unsigned i = 0; i < 8; i++) {
            (*header)[i] = (char)(unsigned char)((uint64_t)padded >> (8 * i));
        }
        memset(*header + 8, ' ', padded);
        if (json_dumpb(root, *header + 8, padded, HEADER_FLAGS) != length) {
            free(*header);
            *header = NULL;
        }
        *bytes = 8 + padded;
    }
    json_decref(root);
    return *header || status ? status : kvc_fail(error, KVC_RESOURCE, "%s: no memory for its header", path);
}

static enum kvc_status tensor_file_begin(struct kvc_tensor_writer *writer, const char *path,
                                         const struct kvc_tensor *tensors, const enum kvc_type *types,
                                         struct kvc_error *error) {
    uint64_t data_bytes = 0;
    enum kvc_status status = place_tensors(writer, path, tensors, types, &data_bytes, error);
    if (status) {
        return status;
    }
    size_t header_bytes = 0;
    char *header = NULL;
    status = make_header(writer, path, tensors, &header, &header_bytes, error);
    if (status) {
        return status;
    }
    for (size_t i = 0; i < writer->count; i++) {
        writer->tensors[i].offset += header_bytes;
    }
    status = kvc_output_open(path, header_bytes + data_bytes, &writer->output, error);
    if (!status) {
        status = kvc_output_write(writer->output, 0, header, header_bytes, error);
    }
    free(header);
    return status;
}

enum kvc_status kvc_typed_writer_open(const char *path, const struct kvc_tensor *tensors, const enum kvc_type *types,
                                      size_t count, struct kvc_tensor_writer **out, struct kvc_error *error) {
    *out = NULL;
    struct kvc_tensor_writer *writer = calloc(1, sizeof *writer);
    if (writer) {
        writer->tensors = calloc(count + 1, sizeof *writer->tensors);
    }
    if (!writer || !writer->tensors) {
        free(writer);
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    writer->count = count;
    enum kvc_status status = tensor_file_begin(writer, path, tensors, types, error);
    if (status) {
        kvc_tensor_writer_abandon(writer);
        return status;
    }
    *out = writer;
    return KVC_OK;
}

enum kvc_status kvc_tensor_writer_open(const char *path, const struct kvc_tensor *tensors, size_t count,
                                       struct kvc_tensor_writer **writer, struct kvc_error *error) {
    return kvc_typed_writer_open(path, tensors, NULL, count, writer, error);
}

enum kvc_status kvc_tensor_write_bytes(struct kvc_tensor_writer *writer, size_t i, const void *data, size_t bytes,
                                       struct kvc_error *error) {
    if (i >= writer->count) {
        return kvc_fail(error, KVC_USAGE, "there is no tensor %zu, the file has %zu", i, writer->count);
    }
    struct written *tensor = &writer->tensors[i];
    if (bytes > tensor->bytes - tensor->done) {
        return kvc_fail(error, KVC_USAGE, "tensor %s is given more than its %" PRIu64 " values", tensor->name,
                        tensor->bytes / kvc_type_block(tensor->type).bytes);
    }
    enum kvc_status status = kvc_output_write(writer->output, tensor->offset + tensor->done, data, bytes, error);
    if (!status) {
        tensor->done += bytes;
    }
    return status;
}

enum kvc_status kvc_tensor_write(struct kvc_tensor_writer *writer, size_t i, const float *values, size_t count,
                                 struct kvc_error *error) {
    if (count > SIZE_MAX / sizeof *values) {
        return kvc_fail(error, KVC_USAGE, "tensor %zu cannot have %zu values", i, count);
    }
    return kvc_tensor_write_bytes(writer, i, values, count * sizeof *values, error);
}

static void writer_free(struct kvc_tensor_writer *writer) {
    for (size_t i = 0; i < writer->count; i++) {
        free(writer->tensors[i].name);
    }
    free(writer->tensors);
    free(writer);
}

enum kvc_status kvc_tensor_writer_commit(struct kvc_tensor_writer *writer, struct kvc_error *error) {
    for (size_t i = 0; i < writer->count; i++) {
        const struct written *tensor = &writer->tensors[i];
        if (tensor->done != tensor->bytes) {
            const uint64_t size = kvc_type_block(tensor->type).bytes;
            enum kvc_status status = kvc_fail(error, KVC_USAGE, "tensor %s got %" PRIu64 " of its %" PRIu64 " values",
                                              tensor->name, tensor->done / size, tensor->bytes / size);
            kvc_tensor_writer_abandon(writer);
            return status;
        }
    }
    enum kvc_status status = kvc_output_commit(writer->output, error);
    writer_free(writer);
    return status;
}

void kvc_tensor_writer_abandon(struct kvc_tensor_writer *writer) {
    if (writer) {
        kvc_output_abandon(writer->output);
        writer_free(writer);
    }
}

/* ---- reading ---- */

enum kvc_status kvc_tensor_reader_open(const char *path, struct kvc_tensor_reader **out, struct kvc_error *error) {
    *out = NULL;
    struct kvc_tensor_reader *reader = calloc(1, sizeof *reader);
    if (reader) {
        reader->path = strdup(path);
    }
    if (!reader || !reader->path) {
        free(reader);
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    enum kvc_status status = kvc_safetensors_open(path, &reader->file, error);
    if (status) {
        kvc_tensor_reader_close(reader);
        return status;
    }
    *out = reader;
    return KVC_OK;
}

void kvc_tensor_reader_close(struct kvc_tensor_reader *reader) {
    if (reader) {
        kvc_safetensors_close(reader->file);
        free(reader->path);
        free(reader);
    }
}

bool kvc_tensor_has(const struct kvc_tensor_reader *reader, const char *name) {
    return kvc_safetensors_tensor(reader->file, name) != NULL;
}

enum kvc_status kvc_tensor_read(const struct kvc_tensor_reader *reader, const char *name, struct kvc_tensor *tensor,
                                struct kvc_error *error) {
    const struct kvc_file_tensor *found = kvc_safetensors_tensor(reader->file, name);
    if (!found) {
        return kvc_fail(error, KVC_INPUT, "%s: has no tensor %s", reader->path, name);
    }
    if (found->type != KVC_F32 || found->scaled) {
        return kvc_fail(error, KVC_INPUT, "%s: tensor %s has type %s, f32 was expected", reader->path, name,
                        found->scaled ? "f8_e4m3" : kvc_type_name(found->type));
    }
    tensor->name = found->name;
    tensor->dimensions = found->dimensions;
    memcpy(tensor->shape, found->shape, sizeof tensor->shape);
    tensor->values = found->data;
    return KVC_OK;
}

const char *kvc_tensor_name(const struct kvc_tensor_reader *reader, size_t i) {
    const struct kvc_file_tensor *tensor = kvc_safetensors_at(reader->file, i);
    return tensor ? tensor->name : NULL;
}
