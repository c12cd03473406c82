/* config_hf.c - fills a model's description from a Hugging Face config.json. Uses jansson. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "models/config/config.h"
#include "models/files/json.h"

struct source {
    const char *path;
    const json_t *root, *rope; /* rope: rope_scaling or rope_parameters, NULL where neither is an object */
    struct kvc_error *error;
};

static const json_t *get(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static enum kvc_status unsupported(const struct source *in, const char *key, const char *what) {
    return kvc_fail(in->error, KVC_INPUT, "%s: %s%s%s: a model that uses this is not supported", in->path, key,
                    what ? " is " : "", what ? what : "");
}

static enum kvc_status find_family(const struct source *in, struct kvc_config *config) {
    const char *type = json_string_value(get(in->root, "model_type"));
    if (!type) {
        return kvc_fail(in->error, KVC_INPUT, "%s: model_type is missing or not a string", in->path);
    }
    for (const struct kvc_family *family = kvc_families; family->gguf; family++) {
        if (strcmp(family->hf, type) == 0) {
            config->family = family;
            return KVC_OK;
        }
    }
    char known[200];
    return kvc_fail(in->error, KVC_INPUT, "%s: model_type \"%.80s\" is not supported; %s are", in->path, type,
                    kvc_family_names(false, known, sizeof known));
}

/* Keys that change the computation in a way this engine does not have. 0, false, null and empty say nothing. */
static enum kvc_status refuse_unsupported(const struct source *in) {
    static const char *const keys[] = {
        "quantization_config",    "n_routed_experts",        "mlp_only_layers",      "clip_qkv",
        "attn_logit_softcapping", "final_logit_softcapping", "kv_lora_rank",         "q_lora_rank",
        "no_rope_layers",         "attention_multiplier",    "embedding_multiplier", "residual_multiplier",
        "logits_scaling",         "attn_temperature_tuning", "vision_config"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = get(in->root, keys[i]);
        if (value && !json_is_false(value) && !(json_is_number(value) && json_number_value(value) == 0) &&
            !(json_is_array(value) && json_array_size(value) == 0)) {
            return unsupported(in, keys[i], NULL);
        }
    }
    const json_t *step = get(in->root, "decoder_sparse_step"); /* from one layer with experts to the next */
    if (step && !(json_is_integer(step) && json_integer_value(step) == 1)) {
        return unsupported(in, "decoder_sparse_step", "other than 1");
    }
    const json_t *activation = get(in->root, "hidden_act");
    if (activation && (!json_is_string(activation) || strcmp(json_string_value(activation), "silu") != 0)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: hidden_act is %.40s; only silu is supported", in->path,
                        json_is_string(activation) ? json_string_value(activation) : "not a string");
    }
    return KVC_OK;
}

static enum kvc_status read_flag(const struct source *in, const char *key, bool *flag) {
    const json_t *value = get(in->root, key);
    if (value && !json_is_boolean(value)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: %s is not true or false", in->path, key);
    }
    *flag = json_is_true(value);
    return KVC_OK;
}

static enum kvc_status read_field(const struct source *in, const struct kvc_config_field *field,
                                  struct kvc_config *config) {
    const json_t *top = get(in->root, field->hf), *rope = get(in->rope, field->hf);
    const json_t *value = field->place == KVC_TOP             ? top
                          : field->place == KVC_ROPE          ? rope
                          : field->place == KVC_TOP_THEN_ROPE ? (top ? top : rope)
                                                              : (rope ? rope : top);
    if (!value) {
        return KVC_OK;
    }
    if (field->real ? !json_is_number(value) : !json_is_integer(value)) {
        char key[128];
        return kvc_fail(in->error, KVC_INPUT, "%s: %s is not %s", in->path,
                        kvc_config_key(config, false, field, key, sizeof key), field->real ? "a number" : "an integer");
    }
    return kvc_config_set(config, field, false, json_number_value(value), in->path, in->error);
}

/* ---- rotary scaling ---- */

static enum kvc_status read_factors(const struct source *in, const char *key, float **values, uint64_t *count) {
    const json_t *list = get(in->rope, key);
    const size_t size = json_array_size(list);
    if (!json_is_array(list) || size < 1 || size > 4096) {
        return kvc_fail(in->error, KVC_INPUT, "%s: rope_scaling.%s must be a list of numbers; longrope needs it",
                        in->path, key);
    }
    *values = malloc(size * sizeof **values);
    if (!*values) {
        return kvc_fail(in->error, KVC_RESOURCE, "%s: no memory for rope_scaling.%s", in->path, key);
    }
    for (size_t i = 0; i < size; i++) {
        const json_t *value = json_array_get(list, i);
        const double number = json_is_number(value) ? json_number_value(value) : -1;
        if (!(number >= 1e-6 && number <= 1e9)) {
            return kvc_fail(in->error, KVC_INPUT, "%s: rope_scaling.%s[%zu] is not a number of 1e-06 to 1e+09",
                            in->path, key, i);
        }
        (*values)[i] = (float)number;
    }
    *count = size;
    return KVC_OK;
}

static enum kvc_status read_longrope(const struct source *in, struct kvc_config *config) {
    static const char *const keys[] = {"short_mscale", "long_mscale"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (get(in->rope, keys[i])) {
            return unsupported(in, "rope_scaling", keys[i]);
        }
    }
    enum kvc_status status = read_factors(in, "short_factor", &config->rope.short_factor, &config->rope.short_count);
    return status ? status : read_factors(in, "long_factor", &config->rope.long_factor, &config->rope.long_count);
}

static enum kvc_status read_scaling(const struct source *in, struct kvc_config *config) {
    static const struct {
        const char *name;
        enum kvc_rope_kind kind;
        bool su; /* only of families that write it so */
    } kinds[] = {{"default", KVC_ROPE_PLAIN, false},    {"su", KVC_ROPE_LONGROPE, true},
                 {"yarn", KVC_ROPE_LONGROPE, true},     {"linear", KVC_ROPE_LINEAR, false},
                 {"llama3", KVC_ROPE_LLAMA3, false},    {"yarn", KVC_ROPE_YARN, false},
                 {"longrope", KVC_ROPE_LONGROPE, false}};
    const json_t *condense = get(in->root, "rope_condense_ratio"); /* LongChat's first files */
    if (!in->rope) {
        if (condense) {
            const double ratio = json_is_number(condense) ? json_number_value(condense) : -1;
            if (!(ratio >= 1 && ratio <= 1e6)) {
                return kvc_fail(in->error, KVC_INPUT, "%s: rope_condense_ratio is not a number of 1 to 1e+06",
                                in->path);
            }
            config->rope.kind = ratio > 1 ? KVC_ROPE_LINEAR : KVC_ROPE_PLAIN;
            config->rope.factor = (double)(float)ratio;
        }
        return KVC_OK;
    }
    const json_t *value = get(in->rope, "rope_type");
    value = value ? value : get(in->rope, "type");
    const char *name = value ? json_string_value(value) : "default";
    for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) != 0 || (kinds[i].su && !config->family->su)) {
            continue;
        }
        config->rope.kind = kinds[i].kind;
        const json_t *truncate = get(in->rope, "truncate");
        config->rope.keep_fractions = truncate && !json_is_true(truncate);
        return config->rope.kind == KVC_ROPE_LONGROPE ? read_longrope(in, config) : KVC_OK;
    }
    return kvc_fail(in->error, KVC_INPUT,
                    "%s: rope_scaling.rope_type \"%.40s\" is not supported; default, linear, llama3, "
                    "yarn and longrope are",
                    in->path, name ? name : "(not a string)");
}

static enum kvc_status find_rope(struct source *in) {
    const json_t *scaling = get(in->root, "rope_scaling"), *parameters = get(in->root, "rope_parameters");
    in->rope = scaling ? scaling : parameters;
    if (!in->rope) {
        return KVC_OK;
    }
    const char *key = scaling ? "rope_scaling" : "rope_parameters";
    if (!json_is_object(in->rope)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: %s is not an object", in->path, key);
    }
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)in->rope, name, value) {
        if (json_is_object(value)) {
            return unsupported(in, key, "different for kinds of layers");
        }
    }
    return KVC_OK;
}

/* ---- sliding window ---- */

/* Fills sliding from layer_types. *any: at least one layer slides. */
static enum kvc_status read_layer_types(const struct source *in, const json_t *types, struct kvc_config *config,
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

/* Which layers slide, by max_window_layers unless layer_types says so. sliding_window was read with the fields. */
static enum kvc_status read_sliding(const struct source *in, struct kvc_config *config) {
    const enum kvc_window_kind kind = config->family->window;
    const json_t *types = get(in->root, "layer_types"), *first = get(in->root, "max_window_layers");
    bool use = kind == KVC_WINDOW_ALL, any = false;
    const bool asked = kind != KVC_WINDOW_ALL && kind != KVC_WINDOW_NONE;
    enum kvc_status status = asked ? read_flag(in, "use_sliding_window", &use) : KVC_OK;
    if (status) {
        return status;
    }
    if (!json_object_get(in->root, "sliding_window")) { /* a missing key is not null */
        config->sliding_window = config->family->sliding_window;
    }
    if (!use) {
        config->sliding_window = 0;
    }
    if (first && (!json_is_integer(first) || json_integer_value(first) < 0)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: max_window_layers is not an integer of 0 or more", in->path);
    }
    if (!types && kind == KVC_WINDOW_LISTED && config->sliding_window) {
        return unsupported(in, "use_sliding_window", "true without layer_types");
    }
    if (!types && (config->sliding_window == 0 || kind != KVC_WINDOW_CHOSEN)) {
        return KVC_OK;
    }
    config->sliding = malloc((size_t)config->layers);
    if (!config->sliding) {
        return kvc_fail(in->error, KVC_RESOURCE, "%s: no memory for %" PRIu64 " layers", in->path, config->layers);
    }
    if (!types) {
        const int64_t full = first ? (int64_t)json_integer_value(first) : 28;
        for (uint64_t i = 0; i < config->layers; i++) {
            config->sliding[i] = (int64_t)i >= full;
        }
        return KVC_OK;
    }
    status = read_layer_types(in, types, config, &any);
    if (!status && any && config->sliding_window == 0) {
        return kvc_fail(in->error, KVC_INPUT, "%s: layer_types has sliding_attention, but no sliding_window is in use",
                        in->path);
    }
    for (uint64_t i = 0; !status && kind != KVC_WINDOW_CHOSEN && kind != KVC_WINDOW_LISTED && i < config->layers; i++) {
        if (config->sliding[i] != (config->sliding_window > 0)) {
            status = unsupported(in, "layer_types", "not the same for every layer");
        }
    }
    return status;
}

static int64_t read_token(const json_t *value) {
    if (json_is_array(value)) {
        value = json_array_get(value, 0);
    }
    return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= INT32_MAX
               ? (int64_t)json_integer_value(value)
               : -1;
}

static enum kvc_status fill(struct source *in, struct kvc_config *config) {
    if (!json_is_object(in->root)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: is not a JSON object", in->path);
    }
    bool attention_bias = false;
    enum kvc_status status = find_family(in, config);
    if (!status)
        status = refuse_unsupported(in);
    if (!status)
        status = find_rope(in);
    if (!status)
        status = read_scaling(in, config);
    for (const struct kvc_config_field *field = kvc_config_fields; !status && (field->gguf || field->hf); field++) {
        if (field->hf)
            status = read_field(in, field, config);
    }
    if (!status)
        status = kvc_config_complete(config, false, in->path, in->error);
    if (!status)
        status = read_sliding(in, config);
    if (!status)
        status = read_flag(in, "tie_word_embeddings", &config->tied);
    if (!status && config->family->attention_bias)
        status = read_flag(in, "attention_bias", &attention_bias);
    if (!status && config->family->feed_bias)
        status = read_flag(in, "mlp_bias", &config->feed_bias);
    if (!status && config->family->experts) {
        config->shares_normalised = config->family->normalised;
        if (config->family->norm_topk_prob)
            status = read_flag(in, "norm_topk_prob", &config->shares_normalised);
    }
    config->qkv_bias = attention_bias || (config->family && config->family->qkv_bias);
    config->output_bias = attention_bias;
    config->bos = read_token(get(in->root, "bos_token_id"));
    config->eos = read_token(get(in->root, "eos_token_id"));
    return status;
}

enum kvc_status kvc_config_from_json(const char *path, struct kvc_config *config, struct kvc_error *error) {
    *config = (struct kvc_config){.bos = -1, .eos = -1};
    json_t *root;
    enum kvc_status status = kvc_json_load(path, &root, error);
    if (status) {
        return status;
    }
    struct source in = {path, root, NULL, error};
    status = fill(&in, config);
    json_decref(root);
    if (status) {
        kvc_config_free(config);
    }
    return status;
}
