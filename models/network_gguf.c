/* network_gguf.c - loads a network from an open GGUF file. libc only. */
#include <stdlib.h>
#include <string.h>

#include "models/model.h"
#include "models/network.h"

char *kvc_copy_text(const char *text, size_t bytes) {
    char *copy = malloc(bytes + 1);
    if (copy) {
        for (size_t i = 0; i < bytes; i++) {
            copy[i] = (unsigned char)text[i] < 32 || text[i] == 127 ? '?' : text[i];
        }
        copy[bytes] = 0;
    }
    return copy;
}

void kvc_model_info_free(struct kvc_model_info *info) {
    free((void *)(uintptr_t)info->path);
    free((void *)(uintptr_t)info->name);
    free((void *)(uintptr_t)info->weight_types);
    free((void *)(uintptr_t)info->windows);
    *info = (struct kvc_model_info){0};
}

static const struct kvc_file_tensor *tensor_at(const void *file, size_t i) { return kvc_gguf_tensor_at(file, i); }

static const struct kvc_file_tensor *find_tensor(const void *file, const char *name) {
    return kvc_gguf_tensor(file, name);
}

enum kvc_status kvc_network_from_gguf(struct kvc_engine *engine, const struct kvc_gguf *file, const char *path,
                                      struct kvc_network *network, struct kvc_model_info *info,
                                      struct kvc_error *error) {
    struct kvc_config config;
    *network = (struct kvc_network){0};
    *info = (struct kvc_model_info){0};
    enum kvc_status status = kvc_config_from_gguf(file, path, &config, error);
    if (status) {
        return status;
    }
    const struct kvc_tensors tensors = {file, kvc_gguf_tensor_count(file), tensor_at, find_tensor};
    status = kvc_network_load(engine, &config, true, &tensors, path, network, info, error);
    kvc_config_free(&config);
    if (status) {
        return status;
    }
    const char *name = "";
    size_t bytes = 0;
    if (!kvc_gguf_string(file, "general.name", &name, &bytes)) {
        name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
        bytes = strlen(name);
    }
    info->path = strdup(path);
    info->name = kvc_copy_text(name, bytes < 200 ? bytes : 200);
    info->has_chat_template = kvc_gguf_has(file, "tokenizer.chat_template");
    if (!info->path || !info->name) {
        kvc_model_info_free(info);
        kvc_network_free(engine->device, network);
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    return KVC_OK;
}
