/* config_hf.c - reads a model's description from a Hugging Face config.json. Uses jansson. */
#include <stdlib.h>
#include <string.h>

#include "models/config/config_hf.h"
#include "models/files/json.h"

static enum kvc_status find_family(struct kvc_hf_source *in, struct kvc_config *config) {
    const char *type = json_string_value(kvc_hf_get(in->root, "model_type"));
    if (!type) {
        return kvc_fail(in->error, KVC_INPUT, "%s: model_type is missing or not a string", in->path);
    }
    for (const struct kvc_family *family = kvc_families; family->gguf; family++) {
        if (strcmp(family->hf, type) == 0) {
            config->family = family;
            const json_t *text = kvc_hf_get(in->root, "text_config");
            if (family->nested && json_is_object(text)) {
                in->root = text;
            }
            return KVC_OK;
        }
    }
    char known[300];
    return kvc_fail(in->error, KVC_INPUT, "%s: model_type \"%.80s\" is not supported; %s are", in->path, type,
                    kvc_family_names(false, known, sizeof known));
}

static enum kvc_status read_field(const struct kvc_hf_source *in, const struct kvc_config_field *field,
                                  struct kvc_config *config) {
    const json_t *top = kvc_hf_get(in->root, field->hf), *rope = kvc_hf_get(in->rope, field->hf);
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

static enum kvc_status read_factors(const struct kvc_hf_source *in, const char *key, float **values, uint64_t *count) {
    const json_t *list = kvc_hf_get(in->rope, key);
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

static enum kvc_status read_longrope(const struct kvc_hf_source *in, struct kvc_config *config) {
    static const char *const keys[] = {"short_mscale", "long_mscale"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (kvc_hf_get(in->rope, keys[i])) {
            return kvc_hf_unsupported(in, "rope_scaling", keys[i]);
        }
    }
    enum kvc_status status = read_factors(in, "short_factor", &config->rope.short_factor, &config->rope.short_count);
    return status ? status : read_factors(in, "long_factor", &config->rope.long_factor, &config->rope.long_count);
}

/* Reads rope_condense_ratio, a key of LongChat's first files, which stands for linear scaling. */
static enum kvc_status read_condensed(const struct kvc_hf_source *in, struct kvc_config *config) {
    const json_t *condense = kvc_hf_get(in->root, "rope_condense_ratio");
    const double ratio = json_is_number(condense) ? json_number_value(condense) : -1;
    if (!condense) {
        return KVC_OK;
    }
    if (!(ratio >= 1 && ratio <= 1e6)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: rope_condense_ratio is not a number of 1 to 1e+06", in->path);
    }
    config->rope.kind = ratio > 1 ? KVC_ROPE_LINEAR : KVC_ROPE_PLAIN;
    config->rope.factor = (double)(float)ratio;
    return KVC_OK;
}

static enum kvc_status read_scaling(const struct kvc_hf_source *in, struct kvc_config *config) {
    static const struct {
        const char *name;
        enum kvc_rope_kind kind;
        bool su; /* only for families that use this spelling */
    } kinds[] = {{"default", KVC_ROPE_PLAIN, false},    {"su", KVC_ROPE_LONGROPE, true},
                 {"yarn", KVC_ROPE_LONGROPE, true},     {"linear", KVC_ROPE_LINEAR, false},
                 {"llama3", KVC_ROPE_LLAMA3, false},    {"yarn", KVC_ROPE_YARN, false},
                 {"longrope", KVC_ROPE_LONGROPE, false}};
    if (!in->rope && config->family->keep_fractions) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: neither rope_scaling nor rope_parameters is there; %s models have one", in->path,
                        config->family->hf);
    }
    if (!in->rope) {
        return read_condensed(in, config);
    }
    const json_t *value = kvc_hf_get(in->rope, "rope_type");
    value = value ? value : kvc_hf_get(in->rope, "type");
    const char *name = value ? json_string_value(value) : "default";
    for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) != 0 || (kinds[i].su && !config->family->su)) {
            continue;
        }
        config->rope.kind = kinds[i].kind;
        const json_t *truncate = kvc_hf_get(in->rope, "truncate");
        config->rope.keep_fractions = truncate && !json_is_true(truncate);
        return config->rope.kind == KVC_ROPE_LONGROPE ? read_longrope(in, config) : KVC_OK;
    }
    return kvc_fail(in->error, KVC_INPUT,
                    "%s: rope_scaling.rope_type \"%.40s\" is not supported; default, linear, llama3, "
                    "yarn and longrope are",
                    in->path, name ? name : "(not a string)");
}

/* Reads rope_parameters given per kind of layer. */
static enum kvc_status read_kinds(struct kvc_hf_source *in, struct kvc_config *config) {
    const json_t *local = kvc_hf_get(in->rope, "sliding_attention"), *theta = kvc_hf_get(local, "rope_theta");
    const json_t *type = kvc_hf_get(local, "rope_type");
    in->rope = kvc_hf_get(in->rope, "full_attention");
    if (!json_is_object(in->rope) || !json_is_object(local)) {
        return kvc_hf_unsupported(in, "rope_parameters", "not of full_attention and sliding_attention");
    }
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "default") != 0)) {
        return kvc_hf_unsupported(in, "rope_parameters.sliding_attention.rope_type", "not \"default\"");
    }
    if (!theta) {
        return KVC_OK;
    }
    const double base = json_is_number(theta) ? json_number_value(theta) : 0;
    if (!(base >= 1 && base <= 1e30)) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: rope_parameters.sliding_attention.rope_theta is not a number of 1 to 1e+30", in->path);
    }
    config->rope.local_base = (double)(float)base;
    return KVC_OK;
}

static enum kvc_status find_rope(struct kvc_hf_source *in, struct kvc_config *config) {
    const json_t *scaling = kvc_hf_get(in->root, "rope_scaling"), *parameters = kvc_hf_get(in->root, "rope_parameters");
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
        if (json_is_object(value) && kvc_config_knows(config, KVC_LOCAL_ROPE)) {
            return read_kinds(in, config);
        }
        if (json_is_object(value)) {
            return kvc_hf_unsupported(in, key, "different for kinds of layers");
        }
    }
    return KVC_OK;
}

static enum kvc_status read_qk_norm(const struct kvc_hf_source *in, struct kvc_config *config) {
    const char *key = kvc_qk_norm_key(config->family);
    bool asked = !key;
    const enum kvc_status status = key ? kvc_hf_read_flag(in, key, &asked) : KVC_OK;
    config->qk_norm = asked ? config->family->qk_norm : KVC_QK_NONE;
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

static const json_t *get_token(const struct kvc_hf_source *in, const char *key) {
    const json_t *token = kvc_hf_get(in->top, key);
    return token ? token : kvc_hf_get(in->root, key);
}

/* A missing cap selects the family's default; null means no cap. */
static void read_nulls(const struct kvc_hf_source *in, struct kvc_config *config) {
    if (json_is_null(json_object_get(in->root, "attn_logit_softcapping")))
        config->score_cap = 0;
    if (json_is_null(json_object_get(in->root, "final_logit_softcapping")))
        config->logit_cap = 0;
}

/* Reads every number of kvc_config_fields that the family knows, and the caps that may be null. */
static enum kvc_status read_fields(const struct kvc_hf_source *in, struct kvc_config *config) {
    enum kvc_status status = KVC_OK;
    for (const struct kvc_config_field *field = kvc_config_fields; !status && (field->gguf || field->hf); field++) {
        if (field->hf && kvc_config_knows(config, field->feature))
            status = read_field(in, field, config);
    }
    if (!status)
        read_nulls(in, config);
    return status;
}

/* Finds which projections have a bias. A family without gate projections has a bias in every projection except q, k and
 * v. */
static enum kvc_status read_biases(const struct kvc_hf_source *in, struct kvc_config *config) {
    const struct kvc_family *family = config->family;
    bool attention_bias = family->output_bias, qkv_bias = family->qkv_bias, feed_bias = config->feed_bias;
    enum kvc_status status = family->attention_bias ? kvc_hf_read_flag(in, "attention_bias", &attention_bias) : KVC_OK;
    if (!status && family->feed_bias)
        status = kvc_hf_read_flag(in, "mlp_bias", &feed_bias);
    if (!status && family->qkv_bias_key)
        status = kvc_hf_read_flag(in, family->qkv_bias_key, &qkv_bias);
    config->qkv_bias = attention_bias || qkv_bias;
    config->output_bias = attention_bias || family->ungated;
    config->feed_bias = feed_bias || family->ungated;
    return status;
}

/* Finds whether the routing weights are normalized to a sum of 1. */
static enum kvc_status read_routing(const struct kvc_hf_source *in, struct kvc_config *config) {
    if (!config->family->experts) {
        return KVC_OK;
    }
    config->routing_normalized = config->family->normalised;
    return config->family->norm_topk_prob ? kvc_hf_read_flag(in, "norm_topk_prob", &config->routing_normalized)
                                          : KVC_OK;
}

static enum kvc_status config_hf_fill(struct kvc_hf_source *in, struct kvc_config *config) {
    if (!json_is_object(in->root)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: is not a JSON object", in->path);
    }
    enum kvc_status status = find_family(in, config);
    if (status) {
        return status;
    }
    config->tied = config->family->tied;
    status = kvc_hf_refuse(in, config->family);
    status = status ? status : kvc_hf_check_activation(in, config->family);
    status = status ? status : find_rope(in, config);
    status = status ? status : read_scaling(in, config);
    status = status ? status : read_fields(in, config);
    if (!status && kvc_config_knows(config, KVC_SIDE_BY_SIDE)) {
        status = kvc_hf_read_flag(in, "use_parallel_residual", &config->parallel);
    }
    status = status ? status : kvc_config_complete(config, false, in->path, in->error);
    status = status ? status : kvc_hf_read_layers(in, config);
    status = status ? status : kvc_hf_read_flag(in, "tie_word_embeddings", &config->tied);
    status = status ? status : read_qk_norm(in, config);
    status = status ? status : read_biases(in, config);
    status = status ? status : read_routing(in, config);
    config->bos = read_token(get_token(in, "bos_token_id"));
    config->eos = read_token(get_token(in, "eos_token_id"));
    return status;
}

enum kvc_status kvc_config_from_json(const char *path, struct kvc_config *config, struct kvc_error *error) {
    *config = (struct kvc_config){.score_cap = -1, .logit_cap = -1, .bos = -1, .eos = -1};
    json_t *root;
    enum kvc_status status = kvc_json_load(path, &root, error);
    if (status) {
        return status;
    }
    struct kvc_hf_source in = {path, root, root, NULL, error};
    status = config_hf_fill(&in, config);
    json_decref(root);
    if (status) {
        kvc_config_free(config);
    }
    return status;
}
