/* tensor_index.h - finds a file's tensors by name. Refuses duplicate names and overlapping data. libc only. */
#ifndef KVC_MODELS_FILES_TENSOR_INDEX_H
#define KVC_MODELS_FILES_TENSOR_INDEX_H

#include "models/files/gguf.h"

/* Makes *index: indices of tensors sorted by name. The caller frees it. */
enum kvc_status kvc_tensor_index(const char *path, const struct kvc_file_tensor *tensors, size_t count,
                                 uint32_t **index, struct kvc_error *error);
const struct kvc_file_tensor *kvc_tensor_find(const struct kvc_file_tensor *tensors, const uint32_t *index,
                                              size_t count, const char *name); /* NULL: none */

/* An item of an index over other names, such as metadata keys. */
struct kvc_named {
    const char *name;
    const unsigned char *data;
    uint32_t index;
};
/* Sorts items by name and writes their indices. `what` is the noun for an item in the error about a duplicate name. */
enum kvc_status kvc_sort_names(const char *path, struct kvc_named *items, size_t count, const char *what,
                               uint32_t *index, struct kvc_error *error);

#endif
