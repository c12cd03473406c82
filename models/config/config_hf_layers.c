/* config_hf_layers.c - reads from a Hugging Face config.json how the layers differ: a sliding window, a recurrent
 * state, no rotation, no experts. */
#include "models/config/config_hf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Fills `sliding` from layer_types. Sets *any if a layer has a window. */
static enum kvc_status read_layer_types(const struct kvc_hf_source *in, const json_t *types, struct kvc_config *config,
                                        bool *any) {
    if (!json_is_array(types) || json_array_size(types) != config->layers) {
        return kvc_fail(in->error, KVC_INPUT, "%s: layer_types must be a list of %" PRIu64 " names, one for each layer",
                        in->path, config->layers);
    }
    *any = false;
    for (size_t i = 0; i < config->layers; i++) {
        const char *name = json_string_value(json_array_get(types, i));
        const bool slides = name && strcmp(name, "sliding_attention") == 0;
        if (!slides && (!name || strcmp(name, "full_attention") != 0)) {
            return kvc_fail(in->error, KVC_INPUT,
                            "%s: layer_types[%zu] \"%.40s\" is not supported; full_attention and "
                            "sliding_attention are",
                            in->path, i, name ? name : "(not a string)");
        }
        config->sliding[i] = slides;
        *any = *any || slides;
    }
    return KVC_OK;
}

/* Marks the gated delta nets from layer_types. */
static enum kvc_status read_recurrent(const struct kvc_hf_source *in, struct kvc_config *config) {
    const json_t *types = kvc_hf_get(in->root, "layer_types");
    if (types && (!json_is_array(types) || json_array_size(types) != config->layers)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: layer_types must be a list of %" PRIu64 " names, one for each layer",
                        in->path, config->layers);
    }
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *name = json_string_value(json_array_get(types, i));
        const bool linear = name && strcmp(name, "linear_attention") == 0;
        if (!linear && (!name || strcmp(name, "full_attention") != 0)) {
            return kvc_fail(in->error, KVC_INPUT,
                            "%s: layer_types[%zu] \"%.40s\" is not supported; full_attention and linear_attention are",
                            in->path, i, name ? name : "(not a string)");
        }
        config->recurrent[i] = linear;
    }
    const json_t *gate = kvc_hf_get(in->root, "attn_output_gate");
    if (gate && !json_is_true(gate)) {
        return kvc_hf_unsupported(in, "attn_output_gate", "not true");
    }
    return kvc_config_delta_check(config, in->path, in->error);
}

/* Returns true if layer_types is a list in which no layer has a sliding window. */
static bool all_full(const json_t *types) {
    bool full = json_is_array(types);
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *name = json_string_value(json_array_get(types, i));
        full = full && name && strcmp(name, "sliding_attention") != 0;
    }
    return full;
}

/* Decides if the model has a sliding window. config->sliding_window has been read. Sets it to the family's default if
 * the key is missing, and to 0 if the model does not use it. */
static enum kvc_status read_window(const struct kvc_hf_source *in, struct kvc_config *config, const json_t *types) {
    const enum kvc_window_kind kind = config->family->window;
    const bool asked = kind == KVC_WINDOW_ASKED || kind == KVC_WINDOW_LISTED || kind == KVC_WINDOW_CHOSEN;
    bool use = kind == KVC_WINDOW_ALL || kind == KVC_WINDOW_PATTERN;
    const enum kvc_status status = asked ? kvc_hf_read_flag(in, "use_sliding_window", &use) : KVC_OK;
    if (status) {
        return status;
    }
    if (!json_object_get(in->root, "sliding_window")) { /* a missing key selects the default; null means no window */
        config->sliding_window = config->family->sliding_window;
    }
    if (use && config->sliding_window == 0 && kvc_hf_get(in->root, "sliding_window") && !all_full(types)) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: sliding_window is 0, it must be 1 to 2147483647, or null in a model without a window",
                        in->path);
    }
    if (!use) {
        config->sliding_window = 0;
    }
    return KVC_OK;
}

/* Reads max_window_layers: layers before layer *first have no window. */
static enum kvc_status read_first_window(const struct kvc_hf_source *in, int64_t *first) {
    const json_t *value = kvc_hf_get(in->root, "max_window_layers");
    *first = value ? (int64_t)json_integer_value(value) : 28;
    return value && (!json_is_integer(value) || *first < 0)
               ? kvc_fail(in->error, KVC_INPUT, "%s: max_window_layers is not an integer of 0 or more", in->path)
               : KVC_OK;
}

/* Reads sliding_window_pattern: all but every pattern-th layer have the window. */
static enum kvc_status read_pattern(const struct kvc_hf_source *in, struct kvc_config *config) {
    const json_t *pattern = kvc_hf_get(in->root, "sliding_window_pattern");
    if (!pattern || config->family->window != KVC_WINDOW_PATTERN) {
        return KVC_OK;
    }
    if (!json_is_integer(pattern) || json_integer_value(pattern) < 1 || json_integer_value(pattern) > 4096) {
        return kvc_fail(in->error, KVC_INPUT, "%s: sliding_window_pattern is not an integer of 1 to 4096", in->path);
    }
    config->pattern = (uint64_t)json_integer_value(pattern);
    return KVC_OK;
}

/* Marks the layers with a window from layer_types, and checks the list against the window and the family. */
static enum kvc_status read_listed(const struct kvc_hf_source *in, const json_t *types, struct kvc_config *config) {
    const enum kvc_window_kind kind = config->family->window;
    const bool same = kind == KVC_WINDOW_ALL || kind == KVC_WINDOW_ASKED;
    bool any = false;
    enum kvc_status status = read_layer_types(in, types, config, &any);
    if (!status && any && config->sliding_window == 0) {
        return kvc_fail(in->error, KVC_INPUT, "%s: layer_types has sliding_attention, but no sliding_window is in use",
                        in->path);
    }
    for (uint64_t i = 0; !status && same && i < config->layers; i++) {
        if (config->sliding[i] != (config->sliding_window > 0)) {
            status = kvc_hf_unsupported(in, "layer_types", "not the same for every layer");
        }
    }
    return status;
}

/* Finds the layers with a window: from layer_types, from the family's pattern, or from max_window_layers.
 * config->sliding stays NULL if all layers are alike. */
static enum kvc_status read_sliding(const struct kvc_hf_source *in, struct kvc_config *config) {
    const enum kvc_window_kind kind = config->family->window;
    const json_t *types = kvc_hf_get(in->root, "layer_types");
    int64_t first;
    enum kvc_status status = read_window(in, config, types);
    status = status ? status : read_first_window(in, &first);
    status = status ? status : read_pattern(in, config);
    if (status) {
        return status;
    }
    if (!types && kind == KVC_WINDOW_PATTERN && config->sliding_window > 0) {
        return kvc_config_slide(config, in->path, in->error);
    }
    if (!types && kind == KVC_WINDOW_LISTED && config->sliding_window) {
        return kvc_hf_unsupported(in, "use_sliding_window", "true without layer_types");
    }
    if (!types && (config->sliding_window == 0 || kind != KVC_WINDOW_CHOSEN)) {
        return KVC_OK;
    }
    config->sliding = malloc((size_t)config->layers);
    if (!config->sliding) {
        return kvc_fail(in->error, KVC_RESOURCE, "%s: no memory for %" PRIu64 " layers", in->path, config->layers);
    }
    if (types) {
        return read_listed(in, types, config);
    }
    for (uint64_t i = 0; i < config->layers; i++) {
        config->sliding[i] = (int64_t)i >= first;
    }
    return KVC_OK;
}

/* Marks the layers that do not rotate: those with 0 in no_rope_layers, or at a fixed interval. */
static enum kvc_status read_unrotated(const struct kvc_hf_source *in, struct kvc_config *config) {
    const json_t *list = kvc_hf_get(in->root, "no_rope_layers"),
                 *every = kvc_hf_get(in->root, "no_rope_layer_interval");
    const int64_t interval = every ? (int64_t)json_integer_value(every) : (int64_t)config->family->unrotated;
    if (!kvc_config_knows(config, KVC_UNROTATED)) {
        return KVC_OK;
    }
    if (interval < 1 || interval > 4096) {
        return kvc_fail(in->error, KVC_INPUT, "%s: no_rope_layer_interval is not an integer of 1 to 4096", in->path);
    }
    if (list && (!json_is_array(list) || (json_array_size(list) && json_array_size(list) != config->layers))) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: no_rope_layers must be a list of %" PRIu64 " numbers, one for each layer", in->path,
                        config->layers);
    }
    enum kvc_status status = kvc_config_unrotate(config, (uint64_t)interval, in->path, in->error);
    for (size_t i = 0; !status && i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > 1) {
            return kvc_fail(in->error, KVC_INPUT, "%s: no_rope_layers[%zu] is not 0 or 1", in->path, i);
        }
        config->unrotated[i] = json_integer_value(value) == 0;
    }
    return status;
}

/* Marks the dense layers: those in mlp_only_layers, and all but every decoder_sparse_step-th. */
static enum kvc_status read_dense(const struct kvc_hf_source *in, struct kvc_config *config) {
    const json_t *list = kvc_hf_get(in->root, "mlp_only_layers"), *every = kvc_hf_get(in->root, "decoder_sparse_step");
    const json_int_t step = every ? json_integer_value(every) : 1;
    if (!kvc_config_knows(config, KVC_DENSE_LAYERS)) {
        return KVC_OK;
    }
    if (step < 1 || step > 4096) {
        return kvc_fail(in->error, KVC_INPUT, "%s: decoder_sparse_step is not an integer of 1 to 4096", in->path);
    }
    if (list && !json_is_array(list)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: mlp_only_layers is not a list of layers", in->path);
    }
    config->dense = malloc((size_t)config->layers);
    if (!config->dense) {
        return kvc_fail(in->error, KVC_RESOURCE, "%s: no memory for %" PRIu64 " layers", in->path, config->layers);
    }
    for (uint64_t i = 0; i < config->layers; i++) {
        config->dense[i] = (i + 1) % (uint64_t)step != 0;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        const json_int_t layer = json_is_integer(value) ? json_integer_value(value) : -1;
        if (layer < 0 || (uint64_t)layer >= config->layers) {
            return kvc_fail(in->error, KVC_INPUT, "%s: mlp_only_layers[%zu] is not a layer, 0 to %" PRIu64, in->path, i,
                            config->layers - 1);
        }
        config->dense[layer] = 1;
    }
    return kvc_config_check_dense(config, in->path, in->error);
}

enum kvc_status kvc_hf_read_layers(const struct kvc_hf_source *in, struct kvc_config *config) {
    enum kvc_status status = config->recurrent ? read_recurrent(in, config) : read_sliding(in, config);
    status = status ? status : read_unrotated(in, config);
    return status ? status : read_dense(in, config);
}
