/* network_folder.c - loads a network from a Hugging Face folder: config.json and safetensors files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/model.h"
#include "models/network.h"

static const struct kvc_file_tensor *tensor_at(const void *file, size_t i) { return kvc_safetensors_at(file, i); }

static const struct kvc_file_tensor *find_tensor(const void *file, const char *name) {
    return kvc_safetensors_text_tensor(file, name);
}

/* Returns the folder's name without its parents and without trailing slashes. */
static char *folder_name(const char *folder) {
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && folder[start - 1] != '/')
        start--;
    return kvc_copy_text(folder + start, end - start);
}

enum kvc_status kvc_network_from_folder(struct kvc_engine *engine, struct kvc_safetensors *file, const char *folder,
                                        struct kvc_network *network, struct kvc_model_info *info,
                                        struct kvc_error *error) {
    *network = (struct kvc_network){0};
    *info = (struct kvc_model_info){0};
    const size_t capacity = strlen(folder) + sizeof "/config.json";
    char *path = malloc(capacity);
    if (!path) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", folder);
    }
    snprintf(path, capacity, "%s/config.json", folder);
    struct kvc_config config;
    enum kvc_status status = kvc_config_from_json(path, &config, error);
    free(path);
    if (status) {
        return status;
    }
    if (config.family->stacked) {
        status = kvc_safetensors_split(file, folder, error);
    }
    const struct kvc_tensors tensors = {file, kvc_safetensors_count(file), tensor_at, find_tensor};
    if (!status) {
        status = kvc_network_load(engine, &config, false, &tensors, folder, network, info, error);
    }
    kvc_config_free(&config);
    if (status) {
        return status;
    }
    info->path = strdup(folder);
    info->name = folder_name(folder);
    if (!info->path || !info->name) {
        kvc_model_info_free(info);
        kvc_network_free(engine->device, network);
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", folder);
    }
    return KVC_OK;
}
