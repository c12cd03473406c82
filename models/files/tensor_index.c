/* tensor_index.c - sorted indices over names, and the checks that need sorting: duplicates and overlaps. */
#include "models/files/tensor_index.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct kvc_named *)a)->name, ((const struct kvc_named *)b)->name);
}

static int by_data(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const struct kvc_named *)a)->data, y = (uintptr_t)((const struct kvc_named *)b)->data;
    return (x > y) - (x < y);
}

enum kvc_status kvc_sort_names(const char *path, struct kvc_named *items, size_t count, const char *what,
                               uint32_t *index, struct kvc_error *error) {
    qsort(items, count, sizeof *items, by_name);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(items[i - 1].name, items[i].name) == 0) {
            return kvc_fail(error, KVC_INPUT, "%s: %s %.255s comes twice", path, what, items[i].name);
        }
        index[i] = items[i].index;
    }
    return KVC_OK;
}

static enum kvc_status refuse_overlaps(const char *path, const struct kvc_file_tensor *tensors, struct kvc_named *items,
                                       size_t count, struct kvc_error *error) {
    qsort(items, count, sizeof *items, by_data);
    for (size_t i = 1; i < count; i++) {
        const struct kvc_file_tensor *a = &tensors[items[i - 1].index];
        if ((uintptr_t)items[i].data - (uintptr_t)items[i - 1].data < a->bytes) {
            return kvc_fail(error, KVC_INPUT, "%s: tensors %s and %s overlap", path, a->name, items[i].name);
        }
    }
    return KVC_OK;
}

enum kvc_status kvc_tensor_index(const char *path, const struct kvc_file_tensor *tensors, size_t count,
                                 uint32_t **index, struct kvc_error *error) {
    struct kvc_named *items = malloc((count + 1) * sizeof *items);
    *index = malloc((count + 1) * sizeof **index);
    if (!items || !*index) {
        free(items);
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for the index of %zu tensors", path, count);
    }
    for (size_t i = 0; i < count; i++) {
        items[i] = (struct kvc_named){tensors[i].name, tensors[i].data, (uint32_t)i};
    }
    enum kvc_status status = kvc_sort_names(path, items, count, "tensor", *index, error);
    if (!status) {
        status = refuse_overlaps(path, tensors, items, count, error);
    }
    free(items);
    return status;
}

const struct kvc_file_tensor *kvc_tensor_find(const struct kvc_file_tensor *tensors, const uint32_t *index,
                                              size_t count, const char *name) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, tensors[index[middle]].name);
        if (order == 0) {
            return &tensors[index[middle]];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}
