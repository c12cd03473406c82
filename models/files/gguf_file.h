/* gguf_file.h - the internals of an open GGUF file, shared by its parser (gguf.c), its parts (gguf_parts.c) and its
 * lookups (gguf_value.c). */
#ifndef KVC_MODELS_FILES_GGUF_FILE_H
#define KVC_MODELS_FILES_GGUF_FILE_H

#include "models/files/gguf.h"
#include "models/files/map.h"

struct kvc_gguf_entry { /* a metadata key whose value is known to lie inside the mapping */
    char *key;
    enum kvc_gguf_type type, element; /* element: type of an array's elements */
    const unsigned char *value;       /* the value's bytes in the file, including array and string lengths */
    uint64_t value_bytes;
    const unsigned char *data; /* first element of an array, first byte of a string, else the value */
    uint64_t count;            /* elements of an array, bytes of a string, else 1 */
    uint64_t *strings;         /* for an array of strings: offset of each string's length from data */
};

struct kvc_gguf {
    struct kvc_map map;
    struct kvc_gguf_entry *entries; /* in file order */
    size_t entry_count;
    uint32_t *entries_by_key; /* sorted indices */
    struct kvc_file_tensor *tensors;
    size_t tensor_count;
    uint32_t *tensors_by_name; /* sorted indices */
    struct kvc_gguf **parts;   /* the files of a split model, this one first; `tensors` has the tensors of all files */
    size_t part_count;         /* 0: a single file */
};

/* Opens a single file, even if it is a part of a split model. */
enum kvc_status kvc_gguf_open_file(const char *path, struct kvc_gguf **file, struct kvc_error *error);

uint32_t kvc_gguf_value_size(enum kvc_gguf_type type); /* 0: string or array */
const char *kvc_gguf_value_name(enum kvc_gguf_type type);

static inline uint64_t kvc_gguf_little(const unsigned char *from, uint32_t bytes) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        value |= (uint64_t)from[i] << (8 * i);
    }
    return value;
}

const struct kvc_gguf_entry *kvc_gguf_find(const struct kvc_gguf *file, const char *key);

#endif
