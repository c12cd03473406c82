/* gguf_write.c - writes GGUF v3 files. Numbers are written byte by byte, little-endian on every machine. The caller
 * supplies tensor data as it is stored. */
#include "models/files/gguf_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "core/base/types.h"
#include "models/files/output.h"

enum { ALIGNMENT = 32 };

struct bytes { /* a growing buffer; failed: an allocation failed */
    unsigned char *data;
    size_t used, capacity;
    bool failed;
};

struct written_tensor {
    char *name;
    uint64_t offset, bytes, done; /* offset: from the start of the tensor data */
};

struct kvc_gguf_writer {
    struct bytes entries, infos; /* the header's two parts after its counts */
    uint64_t entry_count;
    struct written_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    uint64_t data_bytes, data_start;
    bool invalid; /* a shape does not fit its type, or a size overflows */
    struct kvc_output *output;
};

static void gguf_write_put(struct bytes *to, const void *data, size_t count) {
    if (to->failed) {
        return;
    }
    if (count > to->capacity - to->used) {
        size_t capacity = to->capacity < 4096 ? 4096 : to->capacity;
        while (capacity - to->used < count && capacity <= SIZE_MAX / 2) {
            capacity *= 2;
        }
        unsigned char *grown = capacity - to->used < count ? NULL : realloc(to->data, capacity);
        if (!grown) {
            to->failed = true;
            return;
        }
        to->data = grown;
        to->capacity = capacity;
    }
    if (count > 0) {
        memcpy(to->data + to->used, data, count);
        to->used += count;
        KVC_ASSERT(to->used <= to->capacity);
    }
}

static void put_number(struct bytes *to, uint64_t value, unsigned count) {
    unsigned char little[8];
    KVC_ASSERT(count <= sizeof little);
    for (unsigned i = 0; i < count; i++) {
        little[i] = (unsigned char)(value >> (8 * i));
    }
    gguf_write_put(to, little, count);
}

static void put_text(struct bytes *to, const char *text, size_t count) {
    put_number(to, count, 8);
    gguf_write_put(to, text, count);
}

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static struct bytes *put_key(struct kvc_gguf_writer *writer, const char *key, enum kvc_gguf_type type) {
    writer->entry_count++;
    put_text(&writer->entries, key, strlen(key));
    put_number(&writer->entries, type, 4);
    return &writer->entries;
}

static struct bytes *put_array(struct kvc_gguf_writer *writer, const char *key, enum kvc_gguf_type element,
                               size_t count) {
    struct bytes *to = put_key(writer, key, KVC_GGUF_ARRAY);
    put_number(to, element, 4);
    put_number(to, count, 8);
    return to;
}

struct kvc_gguf_writer *kvc_gguf_writer_new(void) {
    return calloc(1, sizeof(struct kvc_gguf_writer));
}

void kvc_gguf_put_uint32(struct kvc_gguf_writer *writer, const char *key, uint32_t value) {
    put_number(put_key(writer, key, KVC_GGUF_U32), value, 4);
}

void kvc_gguf_put_float32(struct kvc_gguf_writer *writer, const char *key, float value) {
    put_number(put_key(writer, key, KVC_GGUF_F32), float_bits(value), 4);
}

void kvc_gguf_put_bool(struct kvc_gguf_writer *writer, const char *key, bool value) {
    put_number(put_key(writer, key, KVC_GGUF_BOOL), value, 1);
}

void kvc_gguf_put_string(struct kvc_gguf_writer *writer, const char *key, const char *text, size_t bytes) {
    put_text(put_key(writer, key, KVC_GGUF_STRING), text, bytes);
}

void kvc_gguf_put_int32s(struct kvc_gguf_writer *writer, const char *key, const int32_t *values, size_t count) {
    struct bytes *to = put_array(writer, key, KVC_GGUF_I32, count);
    for (size_t i = 0; i < count; i++) {
        put_number(to, (uint32_t)values[i], 4);
    }
}

void kvc_gguf_put_float32s(struct kvc_gguf_writer *writer, const char *key, const float *values, size_t count) {
    struct bytes *to = put_array(writer, key, KVC_GGUF_F32, count);
    for (size_t i = 0; i < count; i++) {
        put_number(to, float_bits(values[i]), 4);
    }
}

void kvc_gguf_put_bools(struct kvc_gguf_writer *writer, const char *key, const unsigned char *values, size_t count) {
    struct bytes *to = put_array(writer, key, KVC_GGUF_BOOL, count);
    for (size_t i = 0; i < count; i++) {
        put_number(to, values[i] != 0, 1);
    }
}

void kvc_gguf_put_strings(struct kvc_gguf_writer *writer, const char *key, size_t count) {
    put_array(writer, key, KVC_GGUF_STRING, count);
}

void kvc_gguf_add_string(struct kvc_gguf_writer *writer, const char *text, size_t bytes) {
    put_text(&writer->entries, text, bytes);
}

void kvc_gguf_put_raw(struct kvc_gguf_writer *writer, const char *key, enum kvc_gguf_type type,
                      const unsigned char *data, uint64_t bytes) {
    gguf_write_put(put_key(writer, key, type), data, (size_t)bytes);
}

static void describe_tensor(struct kvc_gguf_writer *writer, struct written_tensor *tensor, enum kvc_type type,
                            uint32_t dimensions, const uint64_t *shape) {
    uint64_t bytes = kvc_type_row_bytes(type, shape[dimensions - 1]);
    KVC_ASSERT(dimensions >= 1 && dimensions <= 4);
    bool fits = bytes > 0;
    put_text(&writer->infos, tensor->name, strlen(tensor->name));
    put_number(&writer->infos, dimensions, 4);
    for (uint32_t i = dimensions; i-- > 0;) { /* the file stores the innermost dimension first */
        put_number(&writer->infos, shape[i], 8);
        if (i + 1 < dimensions) {
            fits = fits && shape[i] > 0 && bytes <= INT64_MAX / shape[i];
            bytes = fits ? bytes * shape[i] : 0;
        }
    }
    fits = fits && bytes <= INT64_MAX / 2 - writer->data_bytes;
    writer->invalid = writer->invalid || !fits;
    tensor->offset = writer->data_bytes;
    KVC_ASSERT(writer->data_bytes % ALIGNMENT == 0);
    tensor->bytes = fits ? bytes : 0;
    put_number(&writer->infos, kvc_gguf_file_type(type), 4);
    put_number(&writer->infos, tensor->offset, 8);
    writer->data_bytes += (tensor->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t kvc_gguf_add_tensor(struct kvc_gguf_writer *writer, const char *name, enum kvc_type type, uint32_t dimensions,
                           const uint64_t *shape) {
    if (writer->tensor_count == writer->tensor_capacity) {
        size_t capacity = writer->tensor_capacity * 2 + 64;
        struct written_tensor *grown = realloc(writer->tensors, capacity * sizeof *grown);
        if (!grown) {
            writer->infos.failed = true;
            return 0;
        }
        writer->tensors = grown;
        writer->tensor_capacity = capacity;
    }
    struct written_tensor *tensor = &writer->tensors[writer->tensor_count];
    *tensor = (struct written_tensor){strdup(name), 0, 0, 0};
    if (!tensor->name) {
        writer->infos.failed = true;
        return 0;
    }
    describe_tensor(writer, tensor, type, dimensions, shape);
    return writer->tensor_count++;
}

enum kvc_status kvc_gguf_writer_begin(struct kvc_gguf_writer *writer, const char *path, struct kvc_error *error) {
    static const unsigned char zeros[ALIGNMENT];
    struct bytes head = {NULL, 0, 0, false};
    gguf_write_put(&head, "GGUF", 4);
    put_number(&head, 3, 4);
    put_number(&head, writer->tensor_count, 8);
    put_number(&head, writer->entry_count, 8);
    gguf_write_put(&head, writer->entries.data, writer->entries.used);
    gguf_write_put(&head, writer->infos.data, writer->infos.used);
    gguf_write_put(&head, zeros, (ALIGNMENT - head.used % ALIGNMENT) % ALIGNMENT);
    enum kvc_status status = KVC_OK;
    if (head.failed || writer->entries.failed || writer->infos.failed) {
        status = kvc_fail(error, KVC_RESOURCE, "%s: no memory for the header", path);
    } else if (writer->invalid) {
        status = kvc_fail(error, KVC_USAGE, "%s: a tensor's rows do not fit its type, or its size overflows", path);
    } else {
        writer->data_start = head.used;
        KVC_ASSERT(head.used % ALIGNMENT == 0);
        status = kvc_output_open(path, head.used + writer->data_bytes, &writer->output, error);
    }
    if (!status) {
        status = kvc_output_write(writer->output, 0, head.data, head.used, error);
    }
    free(head.data);
    return status;
}

enum kvc_status kvc_gguf_write(struct kvc_gguf_writer *writer, size_t i, const void *data, size_t bytes,
                               struct kvc_error *error) {
    struct written_tensor *tensor = &writer->tensors[i];
    KVC_ASSERT(i < writer->tensor_count && writer->tensors[i].done <= writer->tensors[i].bytes);
    if (bytes > tensor->bytes - tensor->done) {
        return kvc_fail(error, KVC_USAGE, "tensor %s is given more than its %" PRIu64 " bytes", tensor->name,
                        tensor->bytes);
    }
    enum kvc_status status =
        kvc_output_write(writer->output, writer->data_start + tensor->offset + tensor->done, data, bytes, error);
    if (!status) {
        tensor->done += bytes;
    }
    return status;
}

static void writer_free(struct kvc_gguf_writer *writer) {
    for (size_t i = 0; i < writer->tensor_count; i++) {
        free(writer->tensors[i].name);
    }
    free(writer->tensors);
    free(writer->entries.data);
    free(writer->infos.data);
    free(writer);
}

enum kvc_status kvc_gguf_writer_finish(struct kvc_gguf_writer *writer, const char **path, struct kvc_error *error) {
    for (size_t i = 0; i < writer->tensor_count; i++) {
        const struct written_tensor *tensor = &writer->tensors[i];
        if (tensor->done != tensor->bytes) {
            return kvc_fail(error, KVC_USAGE, "tensor %s got %" PRIu64 " of its %" PRIu64 " bytes", tensor->name,
                            tensor->done, tensor->bytes);
        }
    }
    /* Pads the last tensor, because readers expect a whole multiple of the alignment. */
    static const unsigned char zeros[ALIGNMENT];
    uint64_t end = 0;
    if (writer->tensor_count > 0) {
        const struct written_tensor *last = &writer->tensors[writer->tensor_count - 1];
        end = last->offset + last->bytes;
        KVC_ASSERT(end <= writer->data_bytes);
    }
    enum kvc_status status =
        kvc_output_write(writer->output, writer->data_start + end, zeros, (size_t)(writer->data_bytes - end), error);
    *path = status ? NULL : kvc_output_written(writer->output, error);
    return status ? status : *path ? KVC_OK : KVC_RESOURCE;
}

enum kvc_status kvc_gguf_writer_commit(struct kvc_gguf_writer *writer, struct kvc_error *error) {
    const char *path;
    enum kvc_status status = kvc_gguf_writer_finish(writer, &path, error);
    if (status) {
        kvc_gguf_writer_abandon(writer);
        return status;
    }
    status = kvc_output_commit(writer->output, error);
    writer_free(writer);
    return status;
}

void kvc_gguf_writer_abandon(struct kvc_gguf_writer *writer) {
    if (writer) {
        kvc_output_abandon(writer->output);
        writer_free(writer);
    }
}
