/* safetensors_folder.c - opens a safetensors file, or a folder with one file or with an index of several. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/files/json.h"
#include "models/files/scaled.h"
#include "models/files/safetensors_file.h"
#include "models/files/tensor_index.h"

#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"

/* Returns folder/name. The caller frees it. */
static char *safetensors_folder_join(const char *folder, const char *name) {
    size_t capacity = strlen(folder) + strlen(name) + 2;
    char *path = malloc(capacity);
    if (path) {
        snprintf(path, capacity, "%s/%s", folder, name);
    }
    return path;
}

static enum kvc_status add_from(struct kvc_safetensors *file, const char *folder, const char *name,
                                struct kvc_error *error) {
    char *path = safetensors_folder_join(folder, name);
    if (!path) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", folder);
    }
    enum kvc_status status = kvc_safetensors_add(file, path, error);
    free(path);
    return status;
}

/* Accepts only names of files in the index's own folder. */
static bool plain_name(const char *name) {
    if (name[0] == '\0' || name[0] == '.' || strlen(name) > 255) {
        return false;
    }
    for (const char *c = name; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '/' || *c == '\\') {
            return false;
        }
    }
    return true;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static enum kvc_status add_shards(struct kvc_safetensors *file, const char *folder, const char *index, json_t *map,
                                  const char **names, struct kvc_error *error) {
    size_t count = 0;
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value) {
        const char *name = json_string_value(value);
        if (!name || !plain_name(name)) {
            return kvc_fail(error, KVC_INPUT,
                            "%s: weight_map: every tensor needs the plain name of a file in this "
                            "folder",
                            index);
        }
        names[count++] = name;
    }
    qsort(names, count, sizeof *names, by_text);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(names[i - 1], names[i]) != 0) {
            enum kvc_status status = add_from(file, folder, names[i], error);
            if (status) {
                return status;
            }
        }
    }
    return KVC_OK;
}

static enum kvc_status add_index(struct kvc_safetensors *file, const char *folder, const char *index,
                                 struct kvc_error *error) {
    json_t *root;
    enum kvc_status status = kvc_json_load(index, &root, error);
    if (status) {
        return status;
    }
    json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0) {
        status = kvc_fail(error, KVC_INPUT, "%s: has no weight_map", index);
    } else {
        const char **names = malloc(json_object_size(map) * sizeof *names);
        status = names ? add_shards(file, folder, index, map, names, error)
                       : kvc_fail(error, KVC_RESOURCE, "%s: no memory", index);
        free(names);
    }
    if (!status) {
        status = kvc_tensor_index(folder, file->tensors, file->tensor_count, &file->by_name, error);
    }
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value) {
        if (status) {
            break;
        }
        if (!kvc_safetensors_tensor(file, key)) {
            status = kvc_fail(error, KVC_INPUT, "%s: weight_map has a tensor that is not in %.255s: %.255s", index,
                              json_string_value(value), key);
        }
    }
    json_decref(root);
    return status;
}

static enum kvc_status add_folder(struct kvc_safetensors *file, const char *folder, struct kvc_error *error) {
    char *single = safetensors_folder_join(folder, SINGLE), *index = safetensors_folder_join(folder, INDEX);
    enum kvc_status status;
    struct stat about;
    if (!single || !index) {
        status = kvc_fail(error, KVC_RESOURCE, "%s: no memory", folder);
    } else if (stat(single, &about) == 0) {
        status = kvc_safetensors_add(file, single, error);
    } else if (stat(index, &about) == 0) {
        status = add_index(file, folder, index, error);
    } else {
        status = kvc_fail(error, KVC_INPUT, "%s: the folder has neither " SINGLE " nor " INDEX, folder);
    }
    free(single);
    free(index);
    return status;
}

/* Copies tensors that are not aligned for their element type; the format does not guarantee alignment. */
static enum kvc_status align_tensors(struct kvc_safetensors *file, const char *path, struct kvc_error *error) {
    for (size_t i = 0; i < file->tensor_count; i++) {
        struct kvc_file_tensor *tensor = &file->tensors[i];
        if (tensor->scaled || (uintptr_t)tensor->data % (tensor->type == KVC_F32 ? 4 : 2) == 0) {
            continue;
        }
        if (!file->copies) {
            file->copies = calloc(file->tensor_count, sizeof *file->copies);
        }
        if (!file->copies || !(file->copies[i] = malloc((size_t)tensor->bytes))) {
            return kvc_fail(error, KVC_RESOURCE, "%s: no memory to align tensor %s", path, tensor->name);
        }
        memcpy(file->copies[i], tensor->data, (size_t)tensor->bytes);
        tensor->data = file->copies[i];
    }
    return KVC_OK;
}

enum kvc_status kvc_safetensors_open(const char *path, struct kvc_safetensors **out, struct kvc_error *error) {
    *out = NULL;
    struct stat about;
    if (stat(path, &about) != 0) {
        return kvc_fail(error, KVC_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    }
    struct kvc_safetensors *file = calloc(1, sizeof *file);
    if (!file) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    enum kvc_status status =
        S_ISDIR(about.st_mode) ? add_folder(file, path, error) : kvc_safetensors_add(file, path, error);
    if (!status && !file->by_name) {
        status = kvc_tensor_index(path, file->tensors, file->tensor_count, &file->by_name, error);
    }
    if (!status) {
        status = kvc_scaled_pair(file, path, error);
    }
    if (!status) {
        status = align_tensors(file, path, error);
    }
    if (status) {
        kvc_safetensors_close(file);
        return status;
    }
    *out = file;
    return KVC_OK;
}

const struct kvc_file_tensor *kvc_safetensors_at(const struct kvc_safetensors *file, size_t i) {
    return i < file->tensor_count ? &file->tensors[i] : NULL;
}

const struct kvc_file_tensor *kvc_safetensors_tensor(const struct kvc_safetensors *file, const char *name) {
    return kvc_tensor_find(file->tensors, file->by_name, file->tensor_count, name);
}

const struct kvc_file_tensor *kvc_safetensors_text_tensor(const struct kvc_safetensors *file, const char *name) {
    static const char *const fronts[] = {"", "language_model.", "model.language_model."};
    const struct kvc_file_tensor *found = NULL;
    char other[256];
    for (size_t i = 0; !found && i < sizeof fronts / sizeof *fronts; i++) {
        const char *rest = i == 2 && strncmp(name, "model.", 6) == 0 ? name + 6 : name;
        if (snprintf(other, sizeof other, "%s%s", fronts[i], rest) < (int)sizeof other)
            found = kvc_safetensors_tensor(file, other);
    }
    return found;
}
