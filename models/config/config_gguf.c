/* config_gguf.c - reads a model's description from GGUF metadata. libc only. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/config/names.h"
#include "models/files/gguf_file.h"

/* Keys that change the computation in an unsupported way, unless they hold the harmless value. */
static const struct {
    const char *key;
    double harmless;
    unsigned feature; /* families with this feature support the key */
} unsupported[] = {
    {"expert_shared_count", 0, 0},
    {"expert_group_count", 0, 0},
    {"expert_weights_scale", 1, 0},
    {"expert_gating_func", 1, 0}, /* softmax */
    {"leading_dense_block_count", 0, 0},
    {"moe_every_n_layers", 0, 0},
    {"interleave_moe_layer_step", 1, 0},
    {"attn_logit_softcapping", 0, KVC_SOFT_CAPS},
    {"final_logit_softcapping", 0, KVC_SOFT_CAPS},
    {"attention.scale", 0, KVC_SCORE_SCALE | KVC_MULTIPLIERS},
    {"attention.output_scale", 0, 0},
    {"attention.temperature_scale", 0, 0},
    {"attention.clamp_kqv", 0, 0},
    {"attention.max_alibi_bias", 0, 0},
    {"attention.q_lora_rank", 0, 0},
    {"attention.kv_lora_rank", 0, 0},
    {"attention.key_length_mla", 0, 0},
    {"attention.value_length_mla", 0, 0},
    {"attention.shared_kv_layers", 0, 0},
    {"logit_scale", 0, KVC_MULTIPLIERS | KVC_LOGIT_SCALE},
    {"residual_scale", 0, KVC_MULTIPLIERS},
    {"embedding_scale", 0, KVC_MULTIPLIERS},
    {"nextn_predict_layers", 0, 0},
    {"rope.scaling.yarn_log_multiplier", 0, 0},
    {"rope.scaling.yarn_ext_factor", 1, 0},
    {"rope.scaling.yarn_attn_factor", 1, 0},
    {"rope.freq_base_swa", 0, KVC_LOCAL_ROPE},
    {"use_parallel_residual", 0, KVC_SIDE_BY_SIDE},
    {"attention.causal", 1, 0},
};

static void make_key(const struct kvc_config *config, const char *name, char *key, size_t capacity) {
    snprintf(key, capacity, "%s.%s", config->family->gguf, name);
}

/* Finds the family's row for this file. Rows of one architecture differ in whether they have experts and whether they
 * refuse a window. */
static const struct kvc_family *find_row(const struct kvc_gguf *file, const struct kvc_config *config) {
    const struct kvc_family *family = config->family;
    char key[128];
    uint64_t count = 0, window = 0;
    make_key(config, "expert_count", key, sizeof key);
    (void)kvc_gguf_uint(file, key, &count);
    make_key(config, "attention.sliding_window", key, sizeof key);
    (void)kvc_gguf_uint(file, key, &window);
    for (; family->gguf && strcmp(family->gguf, config->family->gguf) == 0; family++) {
        if (family->experts == (count > 0) && !(window && family->features & KVC_NO_WINDOW))
            return family;
    }
    return config->family;
}

static enum kvc_status find_family(const struct kvc_gguf *file, const char *where, struct kvc_config *config,
                                   struct kvc_error *error) {
    const char *name;
    size_t bytes;
    if (!kvc_gguf_string(file, "general.architecture", &name, &bytes)) {
        return kvc_fail(error, KVC_INPUT, "%s: general.architecture is missing or not a string", where);
    }
    for (const struct kvc_family *family = kvc_families; family->gguf; family++) {
        if (strlen(family->gguf) == bytes && memcmp(family->gguf, name, bytes) == 0) {
            config->family = family;
            config->family = find_row(file, config);
            return KVC_OK;
        }
    }
    char known[300];
    return kvc_fail(error, KVC_INPUT, "%s: architecture \"%.*s\" is not supported; %s are", where,
                    (int)(bytes < 80 ? bytes : 80), name, kvc_family_names(true, known, sizeof known));
}

static enum kvc_status refuse_unsupported(const struct kvc_gguf *file, const char *where,
                                          const struct kvc_config *config, struct kvc_error *error) {
    char key[128];
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
        double value;
        bool flag;
        make_key(config, unsupported[i].key, key, sizeof key);
        if (!kvc_gguf_has(file, key) || (unsupported[i].feature && kvc_config_knows(config, unsupported[i].feature))) {
            continue;
        }
        if (kvc_gguf_bool(file, key, &flag)) {
            value = flag ? 1 : 0;
        } else if (!kvc_gguf_real(file, key, &value)) {
            return kvc_fail(error, KVC_INPUT, "%s: %s is not a number", where, key);
        }
        if (value != unsupported[i].harmless) {
            return kvc_fail(error, KVC_INPUT, "%s: %s is %g: a model that uses this is not supported", where, key,
                            value);
        }
    }
    return KVC_OK;
}

/* Reads a number, or an array with one number per layer. *differ is set if the numbers are not all equal. */
static bool read_equal_elements(const struct kvc_gguf *file, const char *key, uint64_t *value, bool *differ) {
    enum kvc_gguf_type type;
    uint64_t count, other;
    if (!kvc_gguf_array(file, key, &type, &count) || count == 0 || !kvc_gguf_array_uint(file, key, 0, value)) {
        return false;
    }
    for (uint64_t i = 1; i < count && !*differ; i++) {
        if (!kvc_gguf_array_uint(file, key, i, &other)) {
            return false;
        }
        *differ = other != *value;
    }
    return true;
}

static enum kvc_status read_field(const struct kvc_gguf *file, const char *where, const struct kvc_config_field *field,
                                  struct kvc_config *config, struct kvc_error *error) {
    char key[128];
    double real;
    uint64_t integer;
    bool differ = false;
    kvc_config_key(config, true, field, key, sizeof key);
    if (!kvc_gguf_has(file, key)) {
        return KVC_OK;
    }
    if (field->real) {
        if (!kvc_gguf_real(file, key, &real)) {
            return kvc_fail(error, KVC_INPUT, "%s: %s is not a number", where, key);
        }
    } else {
        if (!kvc_gguf_uint(file, key, &integer) && !read_equal_elements(file, key, &integer, &differ)) {
            return kvc_fail(error, KVC_INPUT, "%s: %s is not an integer of 0 or more", where, key);
        }
        if (differ) {
            return kvc_fail(error, KVC_INPUT, "%s: %s differs between layers: such a model is not supported", where,
                            key);
        }
        real = (double)integer;
    }
    return kvc_config_set(config, field, true, real, where, error);
}

/* Checks that value heads are as long as key heads. */
static enum kvc_status check_value_length(const struct kvc_gguf *file, const char *where,
                                          const struct kvc_config *config, struct kvc_error *error) {
    char key[128];
    uint64_t length;
    make_key(config, "attention.value_length", key, sizeof key);
    if (kvc_gguf_has(file, key) && (!kvc_gguf_uint(file, key, &length) || length != config->head_size)) {
        return kvc_fail(error, KVC_INPUT, "%s: %s must be the size of the key heads, %" PRIu64, where, key,
                        config->head_size);
    }
    return KVC_OK;
}

/* Reads whether routing weights are normalized to a sum of 1. */
static enum kvc_status read_shares(const struct kvc_gguf *file, const char *where, struct kvc_config *config,
                                   struct kvc_error *error) {
    char key[128];
    config->routing_normalized = config->family->normalised;
    make_key(config, "expert_weights_norm", key, sizeof key);
    if (config->experts && kvc_gguf_has(file, key) && !kvc_gguf_bool(file, key, &config->routing_normalized)) {
        return kvc_fail(error, KVC_INPUT, "%s: %s is not true or false", where, key);
    }
    return KVC_OK;
}

/* Reads whether attention and feed-forward network run in parallel. */
static enum kvc_status read_parallel(const struct kvc_gguf *file, const char *where, struct kvc_config *config,
                                     struct kvc_error *error) {
    char key[128];
    make_key(config, "use_parallel_residual", key, sizeof key);
    if (kvc_config_knows(config, KVC_SIDE_BY_SIDE) && kvc_gguf_has(file, key) &&
        !kvc_gguf_bool(file, key, &config->parallel)) {
        return kvc_fail(error, KVC_INPUT, "%s: %s is not true or false", where, key);
    }
    return KVC_OK;
}

/* Reads the pattern of layers with a sliding window. */
static enum kvc_status read_pattern(const struct kvc_gguf *file, const char *where, const char *key,
                                    struct kvc_config *config, struct kvc_error *error) {
    if (kvc_gguf_has(file, key) && (!kvc_gguf_uint(file, key, &config->pattern) || config->pattern > 4096)) {
        return kvc_fail(error, KVC_INPUT, "%s: %s must be an array of bools or a number of 0 to 4096", where, key);
    }
    return config->sliding_window ? kvc_config_slide(config, where, error) : KVC_OK;
}

/* Reads which layers have a sliding window: an array with one bool per layer, or a pattern. */
static enum kvc_status read_sliding(const struct kvc_gguf *file, const char *where, struct kvc_config *config,
                                    struct kvc_error *error) {
    char key[128];
    make_key(config, "attention.sliding_window_pattern", key, sizeof key);
    const struct kvc_gguf_entry *entry = kvc_gguf_find(file, key);
    if (config->family->window == KVC_WINDOW_PATTERN && config->sliding_window == 0 &&
        !kvc_config_knows(config, KVC_LOCAL_ROPE)) {
        return kvc_fail(error, KVC_INPUT, "%s: %s.attention.sliding_window is missing or 0; %s models have a window",
                        where, config->family->gguf, config->family->gguf);
    }
    if (config->family->window == KVC_WINDOW_PATTERN && (!entry || entry->type != KVC_GGUF_ARRAY)) {
        return read_pattern(file, where, key, config, error);
    }
    if (!entry || config->sliding_window == 0) {
        return KVC_OK;
    }
    if (entry->type != KVC_GGUF_ARRAY || entry->element != KVC_GGUF_BOOL || entry->count != config->layers) {
        return kvc_fail(error, KVC_INPUT, "%s: %s must be an array of %" PRIu64 " bools, one for each layer", where,
                        key, config->layers);
    }
    config->sliding = malloc((size_t)config->layers);
    if (!config->sliding) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for %" PRIu64 " layers", where, config->layers);
    }
    for (uint64_t i = 0; i < config->layers; i++) {
        config->sliding[i] = entry->data[i] != 0;
    }
    return KVC_OK;
}

static bool has_tensor(const struct kvc_gguf *file, uint64_t layer, const char *stem, const char *suffix) {
    char name[80];
    kvc_layer_tensor(name, sizeof name, true, (uint32_t)layer, stem, suffix);
    return kvc_gguf_tensor(file, name) != NULL;
}

/* Finds the dense layers. No key names the dense layers, but these layers lack the tensors of experts. */
static enum kvc_status read_dense(const struct kvc_gguf *file, const char *where, struct kvc_config *config,
                                  struct kvc_error *error) {
    if (!kvc_config_knows(config, KVC_DENSE_LAYERS)) {
        return KVC_OK;
    }
    config->dense = malloc((size_t)config->layers);
    if (!config->dense) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for %" PRIu64 " layers", where, config->layers);
    }
    for (uint64_t i = 0; i < config->layers; i++) {
        config->dense[i] = !has_tensor(file, i, kvc_router_stem(true, config), "weight") &&
                           (has_tensor(file, i, "ffn_up", "weight") || has_tensor(file, i, "ffn_down", "weight"));
    }
    return kvc_config_check_dense(config, where, error);
}

/* Reads a float32 vector. *values is left alone if there is no such tensor. */
static enum kvc_status read_vector(const struct kvc_gguf *file, const char *where, const char *name, float **values,
                                   uint64_t *count, struct kvc_error *error) {
    const struct kvc_file_tensor *tensor = kvc_gguf_tensor(file, name);
    if (!tensor) {
        return KVC_OK;
    }
    if (tensor->type != KVC_F32 || tensor->dimensions != 1 || tensor->cols > 4096) {
        return kvc_fail(error, KVC_INPUT, "%s: tensor %s must be an f32 vector of at most 4096 numbers", where, name);
    }
    *values = malloc((size_t)tensor->cols * sizeof **values);
    if (!*values) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for %s", where, name);
    }
    memcpy(*values, tensor->data, (size_t)tensor->cols * sizeof **values);
    *count = tensor->cols;
    return KVC_OK;
}

/* Reads the kind of rotary scaling from rope.scaling.type and from the tensors of factors. */
static enum kvc_status read_scaling(const struct kvc_gguf *file, const char *where, struct kvc_config *config,
                                    struct kvc_error *error) {
    static const struct {
        const char *name;
        enum kvc_rope_kind kind;
    } kinds[] = {{"none", KVC_ROPE_PLAIN},
                 {"linear", KVC_ROPE_LINEAR},
                 {"yarn", KVC_ROPE_YARN},
                 {"longrope", KVC_ROPE_LONGROPE}};
    char key[128];
    const char *name = "none";
    size_t bytes = 4, i = 0;
    make_key(config, "rope.scaling.type", key, sizeof key);
    if (kvc_gguf_has(file, key) && !kvc_gguf_string(file, key, &name, &bytes)) {
        return kvc_fail(error, KVC_INPUT, "%s: %s is not a string", where, key);
    }
    while (i < sizeof kinds / sizeof *kinds && (strlen(kinds[i].name) != bytes || memcmp(kinds[i].name, name, bytes))) {
        i++;
    }
    if (i == sizeof kinds / sizeof *kinds) {
        return kvc_fail(error, KVC_INPUT, "%s: %s \"%.*s\" is not supported; none, linear, yarn and longrope are",
                        where, key, (int)(bytes < 80 ? bytes : 80), name);
    }
    config->rope.kind = kinds[i].kind;
    config->rope.keep_fractions = config->family->keep_fractions;
    make_key(config, "rope.scale_linear", key, sizeof key); /* a key of older files */
    double linear;
    if (config->rope.kind == KVC_ROPE_PLAIN && kvc_gguf_real(file, key, &linear) && linear != 1) {
        if (!(linear >= 1e-6 && linear <= 1e9)) {
            return kvc_fail(error, KVC_INPUT, "%s: %s is %g, it must be 1e-06 to 1e+09", where, key, linear);
        }
        config->rope.kind = KVC_ROPE_LINEAR;
        config->rope.factor = (double)(float)linear;
    }
    enum kvc_status status = read_vector(file, where, "rope_factors_short.weight", &config->rope.short_factor,
                                         &config->rope.short_count, error);
    if (!status) {
        status = read_vector(file, where, "rope_factors_long.weight", &config->rope.long_factor,
                             &config->rope.long_count, error);
    }
    if (!status) {
        status =
            read_vector(file, where, "rope_freqs.weight", &config->rope.divisor, &config->rope.divisor_count, error);
    }
    if (status) {
        return status;
    }
    const bool two_lists = config->rope.short_factor || config->rope.long_factor;
    if (two_lists && config->rope.kind == KVC_ROPE_PLAIN) {
        config->rope.kind = KVC_ROPE_LONGROPE;
    } else if (config->rope.divisor && config->rope.kind == KVC_ROPE_PLAIN) {
        config->rope.kind = KVC_ROPE_DIVISORS;
        return KVC_OK;
    }
    if (config->rope.divisor || (two_lists && config->rope.kind != KVC_ROPE_LONGROPE)) {
        return kvc_fail(error, KVC_INPUT, "%s: rope scaling of type %s together with tensor %s is not supported", where,
                        kvc_rope_kind_name(config->rope.kind),
                        config->rope.divisor ? "rope_freqs.weight" : "rope_factors_*.weight");
    }
    if (config->rope.kind == KVC_ROPE_LONGROPE && config->rope.factor > 0 && config->rope.factor != 1) {
        return kvc_fail(error, KVC_INPUT, "%s: longrope together with rope.scaling.factor %g is not supported", where,
                        config->rope.factor);
    }
    return KVC_OK;
}

/* Finds optional parts, for which config.json has flags, by their tensors. Families without a flag for the biases of q,
 * k and v always have these biases. */
static void read_parts(const struct kvc_gguf *file, struct kvc_config *config) {
    const struct kvc_family *family = config->family;
    uint64_t layer = 0; /* first layer with attention */
    while (layer + 1 < config->layers && kvc_config_recurs(config, layer))
        layer++;
    config->tied = !kvc_gguf_tensor(file, "output.weight");
    config->qkv_bias = has_tensor(file, layer, "attn_q", "bias") || has_tensor(file, layer, "attn_k", "bias") ||
                       has_tensor(file, layer, "attn_v", "bias") || has_tensor(file, layer, "attn_qkv", "bias") ||
                       (family->qkv_bias && !family->qkv_bias_key);
    config->qk_norm =
        kvc_qk_norm_key(family) && !has_tensor(file, layer, "attn_q_norm", "weight") ? KVC_QK_NONE : family->qk_norm;
    config->output_bias = has_tensor(file, layer, "attn_output", "bias");
    config->feed_bias = has_tensor(file, 0, "ffn_down", "bias");
}

static int64_t read_token(const struct kvc_gguf *file, const char *key) {
    uint64_t token;
    return kvc_gguf_uint(file, key, &token) && token <= INT32_MAX ? (int64_t)token : -1;
}

static enum kvc_status config_gguf_fill(const struct kvc_gguf *file, const char *where, struct kvc_config *config,
                                        struct kvc_error *error) {
    if (kvc_gguf_tensor_count(file) == 0 && kvc_gguf_has(file, "tokenizer.ggml.model")) {
        return kvc_fail(error, KVC_INPUT,
                        "%s: is a vocabulary without weights: `kvcull tokenize` takes it, and nothing can be computed",
                        where);
    }
    enum kvc_status status = find_family(file, where, config, error);
    if (!status) {
        status = refuse_unsupported(file, where, config, error);
    }
    for (const struct kvc_config_field *field = kvc_config_fields; !status && (field->gguf || field->hf); field++) {
        if (field->gguf && kvc_config_knows(config, field->feature)) {
            status = read_field(file, where, field, config, error);
        }
    }
    if (!status) {
        status = read_scaling(file, where, config, error);
        status = status ? status : read_parallel(file, where, config, error);
        config->fused = config->family->may_fuse && kvc_gguf_tensor(file, "blk.0.attn_qkv.weight");
    }
    if (!status) {
        status = kvc_config_complete(config, true, where, error);
    }
    if (!status) {
        status = check_value_length(file, where, config, error);
    }
    if (!status) {
        status = read_sliding(file, where, config, error);
    }
    if (!status && config->sliding_window && kvc_config_knows(config, KVC_NO_WINDOW)) {
        status = kvc_fail(error, KVC_INPUT, "%s: %s.attention.sliding_window is %" PRIu64 ": not supported for %s",
                          where, config->family->gguf, config->sliding_window, config->family->gguf);
    }
    if (!status && config->family->unrotated) {
        status = kvc_config_unrotate(config, config->family->unrotated, where, error);
    }
    if (!status) {
        status = read_dense(file, where, config, error);
    }
    if (!status) {
        status = read_shares(file, where, config, error);
    }
    if (status) {
        return status;
    }
    read_parts(file, config);
    config->bos = read_token(file, "tokenizer.ggml.bos_token_id");
    config->eos = read_token(file, "tokenizer.ggml.eos_token_id");
    return KVC_OK;
}

enum kvc_status kvc_config_from_gguf(const struct kvc_gguf *file, const char *where, struct kvc_config *config,
                                     struct kvc_error *error) {
    *config = (struct kvc_config){.score_cap = -1, .logit_cap = -1, .bos = -1, .eos = -1};
    enum kvc_status status = config_gguf_fill(file, where, config, error);
    if (status) {
        kvc_config_free(config);
    }
    return status;
}
