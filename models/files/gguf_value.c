/* gguf_value.c - looks up tensors, metadata values and array elements in an open GGUF file. */
#include <string.h>

#include "models/files/gguf_file.h"
#include "core/base/assert.h"
#include "models/files/tensor_index.h"

static const struct {
    const char *name;
    uint32_t size;
} values[] = {
    [KVC_GGUF_U8] = {"uint8", 1},    [KVC_GGUF_I8] = {"int8", 1},    [KVC_GGUF_U16] = {"uint16", 2},
    [KVC_GGUF_I16] = {"int16", 2},   [KVC_GGUF_U32] = {"uint32", 4}, [KVC_GGUF_I32] = {"int32", 4},
    [KVC_GGUF_F32] = {"float32", 4}, [KVC_GGUF_BOOL] = {"bool", 1},  [KVC_GGUF_STRING] = {"string", 0},
    [KVC_GGUF_ARRAY] = {"array", 0}, [KVC_GGUF_U64] = {"uint64", 8}, [KVC_GGUF_I64] = {"int64", 8},
    [KVC_GGUF_F64] = {"float64", 8},
};

uint32_t kvc_gguf_value_size(enum kvc_gguf_type type) { return (unsigned)type <= KVC_GGUF_F64 ? values[type].size : 0; }

const char *kvc_gguf_value_name(enum kvc_gguf_type type) {
    return (unsigned)type <= KVC_GGUF_F64 ? values[type].name : "unknown";
}

const struct kvc_gguf_entry *kvc_gguf_find(const struct kvc_gguf *file, const char *key) {
    size_t low = 0, high = file->entries_by_key ? file->entry_count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct kvc_gguf_entry *entry = &file->entries[file->entries_by_key[middle]];
        KVC_ASSERT(file->entries_by_key[middle] < file->entry_count);
        int order = strcmp(key, entry->key);
        if (order == 0) {
            return entry;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

/* ---- tensors ---- */

size_t kvc_gguf_tensor_count(const struct kvc_gguf *file) { return file->tensor_count; }

const struct kvc_file_tensor *kvc_gguf_tensor_at(const struct kvc_gguf *file, size_t i) {
    return i < file->tensor_count ? &file->tensors[i] : NULL;
}

const struct kvc_file_tensor *kvc_gguf_tensor(const struct kvc_gguf *file, const char *name) {
    return kvc_tensor_find(file->tensors, file->tensors_by_name, file->tensor_count, name);
}

/* ---- single values; data holds one value of the type ---- */

static bool read_int(const unsigned char *data, enum kvc_gguf_type type, bool *negative, uint64_t *bits) {
    uint32_t size = kvc_gguf_value_size(type);
    bool is_signed = type == KVC_GGUF_I8 || type == KVC_GGUF_I16 || type == KVC_GGUF_I32 || type == KVC_GGUF_I64;
    bool is_unsigned = type == KVC_GGUF_U8 || type == KVC_GGUF_U16 || type == KVC_GGUF_U32 || type == KVC_GGUF_U64;
    if (!is_signed && !is_unsigned) {
        return false;
    }
    *bits = kvc_gguf_little(data, size);
    KVC_ASSERT(size >= 1 && size <= 8);
    *negative = is_signed && (*bits >> (8 * size - 1)) != 0;
    if (*negative && size < 8) {
        *bits |= ~UINT64_C(0) << (8 * size);
    }
    return true;
}

static bool read_uint(const unsigned char *data, enum kvc_gguf_type type, uint64_t *value) {
    bool negative;
    uint64_t bits;
    if (!read_int(data, type, &negative, &bits) || negative) {
        return false;
    }
    *value = bits;
    return true;
}

static bool read_real(const unsigned char *data, enum kvc_gguf_type type, double *value) {
    if (type == KVC_GGUF_F32) {
        uint32_t bits = (uint32_t)kvc_gguf_little(data, 4);
        float narrow;
        memcpy(&narrow, &bits, sizeof narrow);
        *value = (double)narrow;
        return true;
    }
    if (type == KVC_GGUF_F64) {
        uint64_t bits = kvc_gguf_little(data, 8);
        memcpy(value, &bits, sizeof *value);
        return true;
    }
    return false;
}

bool kvc_gguf_has(const struct kvc_gguf *file, const char *key) { return kvc_gguf_find(file, key) != NULL; }

bool kvc_gguf_uint(const struct kvc_gguf *file, const char *key, uint64_t *value) {
    const struct kvc_gguf_entry *entry = kvc_gguf_find(file, key);
    return entry && read_uint(entry->data, entry->type, value);
}

bool kvc_gguf_real(const struct kvc_gguf *file, const char *key, double *value) {
    const struct kvc_gguf_entry *entry = kvc_gguf_find(file, key);
    bool negative;
    uint64_t bits;
    if (!entry) {
        return false;
    }
    if (read_int(entry->data, entry->type, &negative, &bits)) {
        *value = negative ? -(double)(~bits + 1) : (double)bits;
        return true;
    }
    return read_real(entry->data, entry->type, value);
}

bool kvc_gguf_bool(const struct kvc_gguf *file, const char *key, bool *value) {
    const struct kvc_gguf_entry *entry = kvc_gguf_find(file, key);
    if (!entry || entry->type != KVC_GGUF_BOOL) {
        return false;
    }
    *value = entry->data[0] != 0;
    return true;
}

bool kvc_gguf_string(const struct kvc_gguf *file, const char *key, const char **text, size_t *bytes) {
    const struct kvc_gguf_entry *entry = kvc_gguf_find(file, key);
    if (!entry || entry->type != KVC_GGUF_STRING) {
        return false;
    }
    *text = (const char *)entry->data;
    *bytes = (size_t)entry->count;
    return true;
}

/* ---- arrays ---- */

bool kvc_gguf_array(const struct kvc_gguf *file, const char *key, enum kvc_gguf_type *type, uint64_t *count) {
    const struct kvc_gguf_entry *entry = kvc_gguf_find(file, key);
    if (!entry || entry->type != KVC_GGUF_ARRAY) {
        return false;
    }
    *type = entry->element;
    *count = entry->count;
    return true;
}

/* Returns the bytes of the i-th element, in the array's element type, or NULL if i is past the end. */
static const unsigned char *element(const struct kvc_gguf *file, const char *key, uint64_t i,
                                    const struct kvc_gguf_entry **entry) {
    *entry = kvc_gguf_find(file, key);
    if (!*entry || (*entry)->type != KVC_GGUF_ARRAY || i >= (*entry)->count) {
        return NULL;
    }
    return (*entry)->data + ((*entry)->strings ? (*entry)->strings[i] : i * kvc_gguf_value_size((*entry)->element));
}

bool kvc_gguf_array_uint(const struct kvc_gguf *file, const char *key, uint64_t i, uint64_t *value) {
    const struct kvc_gguf_entry *entry;
    const unsigned char *data = element(file, key, i, &entry);
    return data && read_uint(data, entry->element, value);
}

bool kvc_gguf_array_int(const struct kvc_gguf *file, const char *key, uint64_t i, int64_t *value) {
    const struct kvc_gguf_entry *entry;
    const unsigned char *data = element(file, key, i, &entry);
    bool negative;
    uint64_t bits;
    if (!data || !read_int(data, entry->element, &negative, &bits) || (!negative && bits > INT64_MAX)) {
        return false;
    }
    *value = negative ? -(int64_t)(~bits) - 1 : (int64_t)bits;
    return true;
}

bool kvc_gguf_array_real(const struct kvc_gguf *file, const char *key, uint64_t i, double *value) {
    const struct kvc_gguf_entry *entry;
    const unsigned char *data = element(file, key, i, &entry);
    return data && read_real(data, entry->element, value);
}

bool kvc_gguf_array_string(const struct kvc_gguf *file, const char *key, uint64_t i, const char **text, size_t *bytes) {
    const struct kvc_gguf_entry *entry;
    const unsigned char *data = element(file, key, i, &entry);
    if (!data || !entry->strings) {
        return false;
    }
    *text = (const char *)data + 8;
    *bytes = (size_t)kvc_gguf_little(data, 8);
    return true;
}

bool kvc_gguf_key(const struct kvc_gguf *file, size_t i, const char **key, enum kvc_gguf_type *type) {
    if (i >= file->entry_count) {
        return false;
    }
    *key = file->entries[i].key;
    *type = file->entries[i].type;
    return true;
}

const unsigned char *kvc_gguf_value_data(const struct kvc_gguf *file, size_t i, uint64_t *bytes) {
    if (i >= file->entry_count) {
        return NULL;
    }
    *bytes = file->entries[i].value_bytes;
    return file->entries[i].value;
}
