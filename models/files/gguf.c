/* gguf.c - opens a single GGUF v2 or v3 file (both have the same layout; gguf_parts.c joins models in several files).
 * Nothing in the file is trusted: every length, count, offset and type is checked against the file's size before use,
 * and memory grows only with bytes that exist. */
#include "models/files/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "core/base/types.h"
#include "models/files/gguf_file.h"
#include "models/files/tensor_index.h"

enum { LEAST_ENTRY = 8 + 1 + 4 + 1, LEAST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8, LONGEST_KEY = 65535, LONGEST_NAME = 255 };

struct reader {
    const char *path;
    const unsigned char *data;
    uint64_t size, at;
    struct kvc_error *error;
};

static enum kvc_status cut_short(const struct reader *in, const char *what) {
    return kvc_fail(in->error, KVC_INPUT, "%s: ends at byte %" PRIu64 " inside %s; the file is cut short or damaged",
                    in->path, in->size, what);
}

static enum kvc_status no_memory(const struct reader *in, const char *what) {
    return kvc_fail(in->error, KVC_RESOURCE, "%s: no memory for %s", in->path, what);
}

static bool gguf_take(struct reader *in, uint32_t bytes, uint64_t *value) {
    KVC_ASSERT(in->at <= in->size && bytes <= 8);
    if (in->size - in->at < bytes) {
        return false;
    }
    *value = kvc_gguf_little(in->data + in->at, bytes);
    in->at += bytes;
    return true;
}

/* Copies a key or tensor name. Control bytes are refused, because names appear in messages and are compared as C
 * strings. */
static enum kvc_status take_name(struct reader *in, const char *what, uint64_t longest, char **name) {
    uint64_t length;
    if (!gguf_take(in, 8, &length)) {
        return cut_short(in, what);
    }
    if (length == 0 || length > longest) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: byte %" PRIu64 ": %s is %" PRIu64 " bytes long, 1 to %" PRIu64 " were expected", in->path,
                        in->at - 8, what, length, longest);
    }
    if (length > in->size - in->at) {
        return cut_short(in, what);
    }
    for (uint64_t i = 0; i < length; i++) {
        if (in->data[in->at + i] < 0x20 || in->data[in->at + i] == 0x7f) {
            return kvc_fail(in->error, KVC_INPUT, "%s: byte %" PRIu64 ": %s holds the control byte 0x%02x", in->path,
                            in->at + i, what, in->data[in->at + i]);
        }
    }
    *name = malloc((size_t)length + 1);
    if (!*name) {
        return no_memory(in, what);
    }
    memcpy(*name, in->data + in->at, (size_t)length);
    (*name)[length] = '\0';
    in->at += length;
    return KVC_OK;
}

static enum kvc_status take_string(struct reader *in, const char *key) {
    uint64_t length;
    if (!gguf_take(in, 8, &length)) {
        return cut_short(in, key);
    }
    if (length > in->size - in->at) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: %s: a string of %" PRIu64 " bytes, but only %" PRIu64 " are left in the file", in->path,
                        key, length, in->size - in->at);
    }
    in->at += length;
    return KVC_OK;
}

static enum kvc_status take_array(struct reader *in, struct kvc_gguf_entry *entry) {
    uint64_t element;
    if (!gguf_take(in, 4, &element) || !gguf_take(in, 8, &entry->count)) {
        return cut_short(in, entry->key);
    }
    if (element > KVC_GGUF_F64 || element == KVC_GGUF_ARRAY) {
        return kvc_fail(in->error, KVC_INPUT, "%s: %s: arrays of type %" PRIu64 "%s are not supported", in->path,
                        entry->key, element, element == KVC_GGUF_ARRAY ? " (array)" : "");
    }
    entry->element = (enum kvc_gguf_type)element;
    entry->data = in->data + in->at;
    uint64_t left = in->size - in->at;
    uint32_t size = kvc_gguf_value_size(entry->element);
    /* A string takes at least the 8 bytes of its length, so the index below never outgrows the file. */
    if (entry->count > left / (size ? size : 8)) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: %s: an array of %" PRIu64 " %s, but only %" PRIu64 " bytes are left in the file", in->path,
                        entry->key, entry->count, kvc_gguf_value_name(entry->element), left);
    }
    if (size) {
        in->at += entry->count * size;
        return KVC_OK;
    }
    entry->strings = malloc(((size_t)entry->count + 1) * sizeof *entry->strings);
    if (!entry->strings) {
        return no_memory(in, entry->key);
    }
    uint64_t start = in->at;
    for (uint64_t i = 0; i < entry->count; i++) {
        entry->strings[i] = in->at - start;
        enum kvc_status status = take_string(in, entry->key);
        if (status) {
            return status;
        }
    }
    return KVC_OK;
}

static enum kvc_status take_entry(struct reader *in, struct kvc_gguf_entry *entry) {
    enum kvc_status status = take_name(in, "a metadata key", LONGEST_KEY, &entry->key);
    if (status) {
        return status;
    }
    uint64_t type;
    if (!gguf_take(in, 4, &type)) {
        return cut_short(in, entry->key);
    }
    if (type > KVC_GGUF_F64) {
        return kvc_fail(in->error, KVC_INPUT, "%s: %s: unknown value type %" PRIu64 ", 0 to 12 were expected", in->path,
                        entry->key, type);
    }
    entry->type = (enum kvc_gguf_type)type;
    entry->count = 1;
    entry->value = entry->data = in->data + in->at;
    if (entry->type == KVC_GGUF_ARRAY) {
        status = take_array(in, entry);
    } else if (entry->type == KVC_GGUF_STRING) {
        entry->data += 8;
        status = take_string(in, entry->key);
        if (!status) {
            entry->count = kvc_gguf_little(entry->value, 8);
        }
    } else {
        uint64_t value;
        if (!gguf_take(in, kvc_gguf_value_size(entry->type), &value)) {
            return cut_short(in, entry->key);
        }
        if (entry->type == KVC_GGUF_BOOL && value > 1) {
            return kvc_fail(in->error, KVC_INPUT, "%s: %s: a bool of value %" PRIu64 ", 0 or 1 was expected", in->path,
                            entry->key, value);
        }
    }
    entry->value_bytes = (uint64_t)(in->data + in->at - entry->value);
    KVC_ASSERT(status != KVC_OK || entry->value_bytes <= in->at);
    return status;
}

/* ---- tensors ---- */

/* Unsupported tensor types, by the format's number. core/base/weight_types.h lists the supported ones. */
static const char *const refused_types[] = {
    [4] = "Q4_2",      [5] = "Q4_3",   [9] = "Q8_1",   [15] = "Q8_K",       [16] = "IQ2_XXS",    [17] = "IQ2_XS",
    [18] = "IQ3_XXS",  [19] = "IQ1_S", [21] = "IQ3_S", [22] = "IQ2_S",      [24] = "I8",         [25] = "I16",
    [26] = "I32",      [27] = "I64",   [28] = "F64",   [29] = "IQ1_M",      [31] = "Q4_0_4_4",   [32] = "Q4_0_4_8",
    [33] = "Q4_0_8_8", [34] = "TQ1_0", [35] = "TQ2_0", [36] = "IQ4_NL_4_4", [37] = "IQ4_NL_4_8", [38] = "IQ4_NL_8_8",
    [40] = "NVFP4",    [41] = "Q1_0",  [42] = "Q2_0",
};

uint32_t kvc_gguf_file_type(enum kvc_type type) {
    static const uint32_t numbers[KVC_TYPES] = {
#define FILE_TYPE(a, NAME, name, gguf, ...) [KVC_##NAME] = gguf,
        KVC_WEIGHT_TYPES(FILE_TYPE, )};
    return (unsigned)type < KVC_TYPES ? numbers[type] : UINT32_MAX;
}

static bool take_type(uint64_t number, enum kvc_type *type) {
    for (unsigned i = 0; i < KVC_TYPES; i++) {
        if (kvc_gguf_file_type((enum kvc_type)i) == number) {
            *type = (enum kvc_type)i;
            return true;
        }
    }
    return false;
}

/* The file stores dimensions innermost first, the struct outermost first. */
static enum kvc_status take_shape(struct reader *in, struct kvc_file_tensor *tensor) {
    uint64_t dimensions;
    if (!gguf_take(in, 4, &dimensions)) {
        return cut_short(in, tensor->name);
    }
    if (dimensions < 1 || dimensions > 4) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s has %" PRIu64 " dimensions, 1 to 4 were expected",
                        in->path, tensor->name, dimensions);
    }
    tensor->dimensions = (uint32_t)dimensions;
    tensor->rows = 1;
    for (uint32_t i = 0; i < tensor->dimensions; i++) {
        uint64_t size;
        if (!gguf_take(in, 8, &size)) {
            return cut_short(in, tensor->name);
        }
        if (size == 0) {
            return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s: dimension %u is 0, at least 1 was expected", in->path,
                            tensor->name, i);
        }
        tensor->shape[tensor->dimensions - 1 - i] = size;
        if (i == 0) {
            tensor->cols = size;
        } else if (size > UINT64_MAX / tensor->rows) {
            return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s: the product of its dimensions overflows", in->path,
                            tensor->name);
        } else {
            tensor->rows *= size;
        }
    }
    return KVC_OK;
}

static enum kvc_status take_tensor(struct reader *in, struct kvc_file_tensor *tensor, uint64_t *offset) {
    char *name = NULL;
    enum kvc_status status = take_name(in, "a tensor's name", LONGEST_NAME, &name);
    tensor->name = name;
    if (!status) {
        status = take_shape(in, tensor);
    }
    if (status) {
        return status;
    }
    uint64_t type;
    if (!gguf_take(in, 4, &type) || !gguf_take(in, 8, offset)) {
        return cut_short(in, tensor->name);
    }
    if (!take_type(type, &tensor->type)) {
        const bool known = type < sizeof refused_types / sizeof *refused_types && refused_types[type];
        char number[sizeof "of the unknown type 18446744073709551615"];
        snprintf(number, sizeof number, "of the unknown type %" PRIu64, type);
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s is %s; kvcull reads %s", in->path, tensor->name,
                        known ? refused_types[type] : number, KVC_TYPE_LIST);
    }
    size_t row_bytes = kvc_type_row_bytes(tensor->type, tensor->cols);
    if (row_bytes == 0) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s: rows of %" PRIu64 " elements do not fit type %s (blocks "
                        "of %u)",
                        in->path, tensor->name, tensor->cols, kvc_type_name(tensor->type),
                        kvc_type_block(tensor->type).elements);
    }
    if (tensor->rows > UINT64_MAX / row_bytes) {
        return kvc_fail(in->error, KVC_INPUT, "%s: tensor %s: the product of its dimensions overflows", in->path,
                        tensor->name);
    }
    tensor->bytes = tensor->rows * row_bytes;
    KVC_ASSERT(tensor->bytes / row_bytes == tensor->rows);
    return KVC_OK;
}

static enum kvc_status place_tensor(const struct reader *in, struct kvc_file_tensor *tensor, uint64_t offset,
                                    uint64_t start, uint64_t alignment) {
    if (offset % alignment != 0) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s starts at offset %" PRIu64 ", not a multiple of the "
                        "alignment %" PRIu64,
                        in->path, tensor->name, offset, alignment);
    }
    uint64_t capacity = in->size > start ? in->size - start : 0;
    if (offset > capacity || tensor->bytes > capacity - offset) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: tensor %s (%" PRIu64 " bytes at offset %" PRIu64 ") does not lie "
                        "inside the %" PRIu64 " bytes of tensor data; the file is cut short or damaged",
                        in->path, tensor->name, tensor->bytes, offset, capacity);
    }
    tensor->data = in->data + start + offset;
    KVC_ASSERT(offset + tensor->bytes <= in->size - start);
    return KVC_OK;
}

static enum kvc_status index_entries(const struct reader *in, struct kvc_gguf *file) {
    struct kvc_named *items = malloc((file->entry_count + 1) * sizeof *items);
    file->entries_by_key = malloc((file->entry_count + 1) * sizeof *file->entries_by_key);
    if (!items || !file->entries_by_key) {
        free(items);
        return no_memory(in, "the index of metadata");
    }
    for (size_t i = 0; i < file->entry_count; i++) {
        items[i] = (struct kvc_named){file->entries[i].key, NULL, (uint32_t)i};
    }
    enum kvc_status status =
        kvc_sort_names(in->path, items, file->entry_count, "metadata key", file->entries_by_key, in->error);
    free(items);
    return status;
}

/* ---- the file ---- */

static enum kvc_status take_head(struct reader *in, uint64_t *tensors, uint64_t *entries) {
    uint64_t version;
    if (in->size < 4 || memcmp(in->data, "GGUF", 4) != 0) {
        return kvc_fail(in->error, KVC_INPUT, "%s: is not a GGUF file (it does not begin with \"GGUF\")", in->path);
    }
    in->at = 4;
    if (!gguf_take(in, 4, &version)) {
        return cut_short(in, "the header");
    }
    if (version != 2 && version != 3) {
        bool swapped = (version & 0xffff) == 0 && version != 0;
        return kvc_fail(in->error, KVC_INPUT,
                        swapped ? "%s: a big-endian GGUF file (version field %08" PRIx64
                                  "); little-endian files are supported"
                                : "%s: GGUF version %" PRIu64 "; versions 2 and 3 are supported",
                        in->path, version);
    }
    if (!gguf_take(in, 8, tensors) || !gguf_take(in, 8, entries)) {
        return cut_short(in, "the header");
    }
    uint64_t left = in->size - in->at;
    if (*tensors > left / LEAST_TENSOR || *tensors > UINT32_MAX) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: a count of %" PRIu64 " tensors cannot fit a file of %" PRIu64 " bytes", in->path, *tensors,
                        in->size);
    }
    if (*entries > left / LEAST_ENTRY || *entries > UINT32_MAX) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: a count of %" PRIu64 " metadata keys cannot fit a file of %" PRIu64 " bytes", in->path,
                        *entries, in->size);
    }
    return KVC_OK;
}

static enum kvc_status find_alignment(const struct reader *in, const struct kvc_gguf *file, uint64_t *alignment) {
    *alignment = 32;
    if (!kvc_gguf_has(file, "general.alignment")) {
        return KVC_OK;
    }
    if (!kvc_gguf_uint(file, "general.alignment", alignment) || *alignment < 8 || *alignment > 65536 ||
        (*alignment & (*alignment - 1)) != 0) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: general.alignment is %" PRIu64 ", a power of two from 8 to 65536 "
                        "was expected",
                        in->path, *alignment);
    }
    return KVC_OK;
}

static enum kvc_status parse_tensors(struct reader *in, struct kvc_gguf *file, uint64_t *offsets) {
    uint64_t alignment;
    enum kvc_status status = find_alignment(in, file, &alignment);
    if (status) {
        return status;
    }
    for (size_t i = 0; !status && i < file->tensor_count; i++) {
        status = take_tensor(in, &file->tensors[i], &offsets[i]);
    }
    uint64_t start = (in->at + alignment - 1) / alignment * alignment; /* cannot overflow: at <= file size < 2^63 */
    for (size_t i = 0; !status && i < file->tensor_count; i++) {
        status = place_tensor(in, &file->tensors[i], offsets[i], start, alignment);
    }
    if (!status) {
        status = kvc_tensor_index(in->path, file->tensors, file->tensor_count, &file->tensors_by_name, in->error);
    }
    return status;
}

static enum kvc_status gguf_parse(struct reader *in, struct kvc_gguf *file) {
    uint64_t tensors = 0, entries = 0;
    enum kvc_status status = take_head(in, &tensors, &entries);
    if (status) {
        return status;
    }
    file->entries = calloc((size_t)entries + 1, sizeof *file->entries);
    file->tensors = calloc((size_t)tensors + 1, sizeof *file->tensors);
    uint64_t *offsets = calloc((size_t)tensors + 1, sizeof *offsets);
    if (!file->entries || !file->tensors || !offsets) {
        free(offsets);
        return no_memory(in, "the header");
    }
    file->entry_count = (size_t)entries;
    file->tensor_count = (size_t)tensors;
    for (size_t i = 0; !status && i < file->entry_count; i++) {
        status = take_entry(in, &file->entries[i]);
    }
    if (!status) {
        status = index_entries(in, file);
    }
    if (!status) {
        status = parse_tensors(in, file, offsets);
    }
    free(offsets);
    return status;
}

enum kvc_status kvc_gguf_open_file(const char *path, struct kvc_gguf **out, struct kvc_error *error) {
    *out = NULL;
    struct kvc_gguf *file = calloc(1, sizeof *file);
    if (!file) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    enum kvc_status status = kvc_map_open(path, &file->map, error);
    if (!status) {
        struct reader in = {path, file->map.data, file->map.bytes, 0, error};
        status = gguf_parse(&in, file);
    }
    if (status) {
        kvc_gguf_close(file);
        return status;
    }
    *out = file;
    return KVC_OK;
}

void kvc_gguf_let_go(const struct kvc_gguf *file) {
    for (size_t i = 1; i < file->part_count; i++) {
        kvc_map_let_go(&file->parts[i]->map);
    }
    kvc_map_let_go(&file->map);
}

void kvc_gguf_close(struct kvc_gguf *file) {
    if (!file) {
        return;
    }
    for (size_t i = 0; i < file->entry_count; i++) {
        free(file->entries[i].key);
        free(file->entries[i].strings);
    }
    for (size_t i = 0; i < file->tensor_count; i++) {
        free((void *)(uintptr_t)file->tensors[i].name);
    }
    for (size_t i = 1; i < file->part_count; i++) {
        kvc_gguf_close(file->parts[i]);
    }
    free(file->parts);
    free(file->entries);
    free(file->entries_by_key);
    free(file->tensors);
    free(file->tensors_by_name);
    kvc_map_close(&file->map);
    free(file);
}
