/* gguf_file.h - the inside of an opened GGUF file, shared by its parser (gguf.c), its parts (gguf_parts.c) and
 * its lookups (gguf_value.c). */
#ifndef KVC_MODELS_FILES_GGUF_FILE_H
#define KVC_MODELS_FILES_GGUF_FILE_H

#include "models/files/gguf.h"
#include "models/files/map.h"

struct kvc_gguf_entry { /* one metadata key; everything was checked to lie inside the mapping */
    char *key;
    enum kvc_gguf_type type, element; /* element: of an array */
    const unsigned char *value;       /* the value as the file has it, array and string lengths included */
    uint64_t value_bytes;
    const unsigned char *data; /* an array's first element, a string's first byte, else the value */
    uint64_t count;            /* an array's elements, a string's bytes, else 1 */
    uint64_t *strings;         /* array of strings: where each one's length lies, from data */
};

struct kvc_gguf {
    struct kvc_map map;
    struct kvc_gguf_entry *entries; /* in file order */
    size_t entry_count;
    uint32_t *entries_by_key; /* indices, sorted */
    struct kvc_file_tensor *tensors;
    size_t tensor_count;
    uint32_t *tensors_by_name; /* indices, sorted */
    struct kvc_gguf **parts;   /* of a model in several files, first of all this one; their tensors are in `tensors` */
    size_t part_count;         /* 0: one file */
};

/* One file, whatever part it is. */
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
