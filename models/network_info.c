/* network_info.c - fills in a model's info from its loaded tensors: sizes, types, bytes. */
#include "models/network_info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"

static void count_types(const struct kvc_loaded *loaded, struct kvc_model_info *info, uint64_t *bytes) {
    for (size_t i = 0; i < loaded->used_count; i++) {
        const struct kvc_file_tensor *tensor = loaded->used[i];
        info->parameters += tensor->rows * tensor->cols;
        info->weight_bytes += tensor->bytes;
        bytes[tensor->type] += tensor->bytes;
        if (tensor->dimensions >= 2 && !tensor->scaled) {
            info->mapped_bytes += tensor->bytes;
        }
    }
}

/* Lists the types in order of their total bytes: "q4_k, q6_k, f32". */
static char *name_types(uint64_t *bytes) {
    char text[16 * KVC_ALL_TYPES] = "";
    for (;;) {
        unsigned most = 0;
        for (unsigned type = 1; type < KVC_ALL_TYPES; type++) {
            if (bytes[type] > bytes[most])
                most = type;
        }
        if (bytes[most] == 0) {
            return strdup(text);
        }
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", kvc_type_name((enum kvc_type)most));
        bytes[most] = 0;
    }
}

bool kvc_network_info(const struct kvc_loaded *loaded, const struct kvc_config *config, bool gguf,
                      const struct kvc_network *network, struct kvc_model_info *info) {
    uint64_t bytes[KVC_ALL_TYPES] = {0};
    *info = (struct kvc_model_info){
        .format = gguf ? "gguf" : "huggingface",
        .architecture = gguf ? config->family->gguf : config->family->hf,
        .layers = network->layers,
        .recurrent_layers = network->delta.count,
        .recurrent_bytes = network->delta.count * kvc_delta_state_of(&network->delta).floats * sizeof(float),
        .hidden = (uint32_t)config->hidden,
        .heads = (uint32_t)config->heads,
        .kv_heads = (uint32_t)config->kv_heads,
        .head_size = (uint32_t)config->head_size,
        .feed_forward = network->experts ? network->expert_feed : network->feed_forward,
        .experts = network->experts,
        .experts_used = network->experts_used,
        .dense_feed = network->experts ? network->feed_forward : 0,
        .vocab = network->vocab,
        .trained_context = (uint32_t)config->context,
        .original_context = config->rope.kind == KVC_ROPE_LONGROPE ? (uint32_t)config->rope.original_context : 0,
        .sliding_window = (uint32_t)config->sliding_window,
        .rope = kvc_rope_kind_name(config->rope.kind),
        .bos = (int32_t)config->bos,
        .eos = (int32_t)config->eos,
    };
    count_types(loaded, info, bytes);
    for (uint64_t l = 0; l < config->layers; l++)
        info->expert_layers += kvc_config_chooses(config, l);
    if (config->sliding_window > 0) {
        uint32_t *windows = calloc(network->layers, sizeof *windows);
        if (!windows)
            return false;
        for (uint32_t l = 0; l < network->layers; l++)
            windows[l] = network->layer[l].window;
        info->windows = windows;
    }
    const uint64_t experts = config->experts ? config->experts : 1, idle = experts - config->experts_used;
    info->active_parameters = info->parameters - loaded->expert_parameters / experts * idle;
    info->active_bytes = info->weight_bytes - loaded->expert_bytes / experts * idle;
    info->weight_types = name_types(bytes);
    if (info->weight_types)
        return true;
    free((void *)(uintptr_t)info->windows);
    info->windows = NULL;
    return false;
}
