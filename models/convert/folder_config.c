/* folder_config.c - writes a model's description as config.json. Every number is written so that reading it gives the
 * same float32. The file is then read back and compared. A description that config.json cannot express is an error. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"
#include "models/config/config.h"
#include "models/convert/to_folder.h"

struct made {
    const struct kvc_config *config;
    json_t *root;
    bool whole; /* no failure so far */
};

static void folder_config_put(struct made *made, json_t *object, const char *key, json_t *value) {
    made->whole = json_object_set_new(object, key, value) == 0 && made->whole;
}

static void folder_config_append(struct made *made, json_t *list, json_t *value) {
    made->whole = json_array_append_new(list, value) == 0 && made->whole;
}

/* Returns the shortest decimal number that rounds to this float32. */
static json_t *real(double value) {
    char text[40];
    double shortest = value;
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        shortest = strtod(text, NULL);
        if ((float)shortest == (float)value)
            break;
    }
    return json_real(shortest);
}

/* Returns the class name of a model_type: "Qwen3MoeForCausalLM" for "qwen3_moe". */
static json_t *class_of(const char *type) {
    static const char *const others[][2] = {
        {"gemma3_text", "Gemma3"}, {"smollm3", "SmolLM3"}, {"stablelm", "StableLm"}};
    char name[80];
    size_t bytes = 0;
    const char *rest = type;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i][0], type) == 0)
            rest = others[i][1];
    for (bool first = true; *rest && bytes < 60; rest++) {
        if (*rest != '_')
            name[bytes++] = (char)(first && *rest >= 'a' && *rest <= 'z' ? *rest - 'a' + 'A' : *rest);
        first = *rest == '_';
    }
    snprintf(name + bytes, sizeof name - bytes, "ForCausalLM");
    return json_pack("[s]", name);
}

/* ---- fields ---- */

/* Returns true for fields that need special treatment (written below) and for fields of other families. */
static bool is_special(const struct kvc_config *config, const struct kvc_config_field *field) {
    static const char *const special[] = {
        "partial_rotary_factor", "query_pre_attn_scalar", "attention_multiplier", "sliding_window", "mscale",
        "mscale_all_dim"};
    const bool centred = (config->family->features & KVC_LAYER_NORM) != 0;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (strcmp(field->hf, special[i]) == 0)
            return true;
    return field->place == KVC_ROPE || (centred && strcmp(field->hf, "rms_norm_eps") == 0) ||
           strcmp(field->hf,
                  config->family->block_sparse || config->family->stacked ? "num_experts" : "num_local_experts") == 0 ||
           (strcmp(field->hf, "original_max_position_embeddings") == 0 && config->rope.kind != KVC_ROPE_LONGROPE);
}

static void put_fields(struct made *made) {
    const struct kvc_config *config = made->config;
    for (const struct kvc_config_field *field = kvc_config_fields; field->gguf || field->hf; field++) {
        const void *at = (const char *)config + field->offset;
        double number = 0;
        uint64_t integer = 0;
        if (!field->hf || !kvc_config_knows(config, field->feature) || is_special(config, field))
            continue;
        if (field->real) {
            memcpy(&number, at, sizeof number);
            if (field->feature == KVC_SOFT_CAPS)
                folder_config_put(made, made->root, field->hf, number > 0 ? real(number) : json_null());
            else if (number != 0)
                folder_config_put(made, made->root, field->hf, real(number));
        } else {
            memcpy(&integer, at, sizeof integer);
            if (integer != 0)
                folder_config_put(made, made->root, field->hf, json_integer((json_int_t)integer));
        }
    }
}

/* Writes a fraction of the head size that gives exactly the same number of rotated channels. */
static void put_partial(struct made *made) {
    const struct kvc_config *config = made->config;
    const double head = (double)config->head_size, exact = (double)config->rope.rotary / head;
    double share = exact;
    for (double scale = 10; config->rope.rotary != config->head_size && scale < 1e10; scale *= 10) {
        share = ceil(exact * scale) / scale;
        if ((uint64_t)(head * share) == config->rope.rotary)
            break;
    }
    if (config->rope.rotary != config->head_size || config->family->partial > 0)
        folder_config_put(made, made->root, "partial_rotary_factor", real(share));
}

/* Writes the factor of attention scores under the family's key. */
static void put_scale(struct made *made) {
    const struct kvc_config *config = made->config;
    const double scale = config->score_scale, head = (double)config->head_size;
    if (kvc_config_knows(config, KVC_MULTIPLIERS))
        folder_config_put(made, made->root, "attention_multiplier",
                          real(scale > 0 ? scale : (double)(float)(1 / sqrt(head))));
    if (kvc_config_knows(config, KVC_SCORE_SCALE)) {
        const double scalar = scale > 0 ? 1 / (scale * scale) : head, whole = rint(scalar);
        folder_config_put(made, made->root, "query_pre_attn_scalar",
                          scale > 0 && (double)(float)(1 / sqrt(whole)) != scale ? json_real(scalar)
                                                                                 : json_integer((json_int_t)whole));
    }
    if (kvc_config_knows(config, KVC_LOGIT_SCALE) && config->logit_scale == 0)
        folder_config_put(made, made->root, "logit_scale", real(1));
}

static void put_flags(struct made *made) {
    const struct kvc_config *config = made->config;
    const struct kvc_family *family = config->family;
    folder_config_put(made, made->root, "tie_word_embeddings", json_boolean(config->tied));
    if (family->attention_bias)
        folder_config_put(made, made->root, "attention_bias", json_boolean(config->output_bias));
    if (family->qkv_bias_key)
        folder_config_put(made, made->root, family->qkv_bias_key, json_boolean(config->qkv_bias));
    if (family->feed_bias)
        folder_config_put(made, made->root, "mlp_bias", json_boolean(config->feed_bias));
    if (kvc_qk_norm_key(family))
        folder_config_put(made, made->root, kvc_qk_norm_key(family), json_boolean(config->qk_norm != KVC_QK_NONE));
    if (kvc_config_knows(config, KVC_SIDE_BY_SIDE))
        folder_config_put(made, made->root, "use_parallel_residual", json_boolean(config->parallel));
    if (family->norm_topk_prob)
        folder_config_put(made, made->root, "norm_topk_prob", json_boolean(config->routing_normalized));
    const char *activation = family->activation == KVC_GELU ? "gelu_pytorch_tanh" : "silu";
    folder_config_put(made, made->root, "hidden_act", json_string(activation));
    if (family->activation == KVC_GELU)
        folder_config_put(made, made->root, "hidden_activation", json_string(activation));
}

/* ---- layers ---- */

static bool slides(const struct kvc_config *config, uint64_t layer) {
    return config->sliding_window > 0 && (!config->sliding || config->sliding[layer]);
}

static void put_layers(struct made *made) {
    const struct kvc_config *config = made->config;
    const enum kvc_window_kind kind = config->family->window;
    const bool window = config->sliding_window > 0;
    if (kind != KVC_WINDOW_NONE)
        folder_config_put(made, made->root, "sliding_window",
                          window ? json_integer((json_int_t)config->sliding_window) : json_null());
    if (kind == KVC_WINDOW_ASKED || kind == KVC_WINDOW_LISTED || kind == KVC_WINDOW_CHOSEN)
        folder_config_put(made, made->root, "use_sliding_window", json_boolean(window));
    if (window && (kind == KVC_WINDOW_LISTED || kind == KVC_WINDOW_CHOSEN || kind == KVC_WINDOW_PATTERN)) {
        json_t *types = json_array();
        for (uint64_t i = 0; i < config->layers; i++)
            folder_config_append(made, types, json_string(slides(config, i) ? "sliding_attention" : "full_attention"));
        folder_config_put(made, made->root, "layer_types", types);
    }
    if (config->unrotated) {
        json_t *rotate = json_array();
        for (uint64_t i = 0; i < config->layers; i++)
            folder_config_append(made, rotate, json_integer(!config->unrotated[i]));
        folder_config_put(made, made->root, "no_rope_layers", rotate);
    }
    if (config->dense) {
        json_t *dense = json_array();
        for (uint64_t i = 0; i < config->layers; i++)
            if (config->dense[i])
                folder_config_append(made, dense, json_integer((json_int_t)i));
        folder_config_put(made, made->root, "mlp_only_layers", dense);
        folder_config_put(made, made->root, "decoder_sparse_step", json_integer(1));
    }
}

/* ---- rotary scaling ---- */

static json_t *factors(struct made *made, const float *values, uint64_t count) {
    json_t *list = json_array();
    for (uint64_t i = 0; i < count; i++)
        folder_config_append(made, list, real((double)values[i]));
    return list;
}

/* Returns the attention factor of yarn or longrope as the engine computes it. */
static json_t *attention_factor(struct made *made) {
    struct kvc_rope rope;
    struct kvc_error error;
    if (kvc_rope_build(made->config, false, &rope, &error))
        return NULL;
    free(rope.frequency);
    free(rope.long_frequency);
    return real((double)rope.attention_factor);
}

static void put_rope(struct made *made) {
    const struct kvc_config *config = made->config;
    const enum kvc_rope_kind kind = config->rope.kind;
    if (kind == KVC_ROPE_PLAIN ||
        kind == KVC_ROPE_DIVISORS) { /* config.json cannot hold divisors; reading back reports any difference */
        folder_config_put(made, made->root, "rope_scaling", json_null());
        return;
    }
    json_t *rope = json_pack("{s:s}", "rope_type", kvc_rope_kind_name(kind));
    if (kind == KVC_ROPE_LONGROPE) {
        folder_config_put(made, rope, "type", json_string(kvc_rope_kind_name(kind)));
        folder_config_put(made, rope, "short_factor",
                          factors(made, config->rope.short_factor, config->rope.short_count));
        folder_config_put(made, rope, "long_factor", factors(made, config->rope.long_factor, config->rope.long_count));
    } else {
        folder_config_put(made, rope, "factor", real(config->rope.factor));
    }
    if (kind == KVC_ROPE_LLAMA3) {
        folder_config_put(made, rope, "low_freq_factor", real(config->rope.low_factor));
        folder_config_put(made, rope, "high_freq_factor", real(config->rope.high_factor));
    }
    if (kind == KVC_ROPE_YARN) {
        folder_config_put(made, rope, "beta_fast", real(config->rope.beta_fast));
        folder_config_put(made, rope, "beta_slow", real(config->rope.beta_slow));
        if (config->rope.keep_fractions)
            folder_config_put(made, rope, "truncate", json_false());
    }
    if (kind == KVC_ROPE_YARN || kind == KVC_ROPE_LONGROPE)
        folder_config_put(made, rope, "attention_factor", attention_factor(made));
    if (kind != KVC_ROPE_LINEAR)
        folder_config_put(made, rope, "original_max_position_embeddings",
                          json_integer((json_int_t)config->rope.original_context));
    folder_config_put(made, made->root, "rope_scaling", rope);
}

/* ---- reading back ---- */

static enum kvc_status compare_rope(const struct kvc_config *a, const struct kvc_config *b, bool *same,
                                    struct kvc_error *error) {
    struct kvc_rope x = {0}, y = {0};
    *same = a->rope.rotary == b->rope.rotary && a->rope.local_base == b->rope.local_base &&
            (a->rope.kind == KVC_ROPE_LONGROPE) == (b->rope.kind == KVC_ROPE_LONGROPE);
    const size_t bytes = (size_t)a->rope.rotary / 2 * sizeof(float);
    enum kvc_status status = *same ? kvc_rope_build(a, false, &x, error) : KVC_OK;
    if (!status && *same)
        status = kvc_rope_build(b, false, &y, error);
    *same = *same && !status && memcmp(x.frequency, y.frequency, bytes) == 0 &&
            x.attention_factor == y.attention_factor &&
            (!x.long_frequency ||
             (memcmp(x.long_frequency, y.long_frequency, bytes) == 0 && x.original_context == y.original_context));
    free(x.frequency);
    free(x.long_frequency);
    free(y.frequency);
    free(y.long_frequency);
    return status;
}

static bool same_layers(const struct kvc_config *a, const struct kvc_config *b) {
    for (uint64_t i = 0; i < a->layers; i++)
        if (slides(a, i) != slides(b, i) || kvc_config_chooses(a, i) != kvc_config_chooses(b, i) ||
            (a->unrotated ? a->unrotated[i] : 0) != (b->unrotated ? b->unrotated[i] : 0))
            return false;
    return true;
}

/* Returns the name of the first relevant difference between two descriptions, or NULL if there is none. Frequencies are
 * not compared. */
static const char *difference(const struct kvc_config *a, const struct kvc_config *b) {
    static const struct {
        const char *what;
        size_t offset;
    } numbers[] = {
#define NUMBER(what, member) {what, offsetof(struct kvc_config, member)}
        NUMBER("the number of layers", layers),
        NUMBER("the hidden size", hidden),
        NUMBER("the number of heads", heads),
        NUMBER("the number of key heads", kv_heads),
        NUMBER("the head size", head_size),
        NUMBER("the size of the feed-forward network", feed_forward),
        NUMBER("the vocabulary", vocab),
        NUMBER("the context", context),
        NUMBER("the number of experts", experts),
        NUMBER("the number of experts of a row", experts_used),
        NUMBER("the size of an expert", expert_feed),
        NUMBER("the size of the shared expert", shared_feed),
        NUMBER("the sliding window", sliding_window),
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (memcmp((const char *)a + numbers[i].offset, (const char *)b + numbers[i].offset, sizeof(uint64_t)) != 0)
            return numbers[i].what;
    if ((float)a->norm_eps != (float)b->norm_eps)
        return "the epsilon of norms";
    if ((float)a->score_scale != (float)b->score_scale || (float)a->score_cap != (float)b->score_cap ||
        (float)a->logit_cap != (float)b->logit_cap)
        return "the scale or the caps of scores";
    if ((float)a->embedding_scale != (float)b->embedding_scale ||
        (float)a->residual_scale != (float)b->residual_scale || a->logit_divisor != b->logit_divisor ||
        (a->logit_scale > 0 ? a->logit_scale : 1) != (b->logit_scale > 0 ? b->logit_scale : 1))
        return "a multiplier";
    if (a->tied != b->tied || a->qkv_bias != b->qkv_bias || a->output_bias != b->output_bias ||
        a->feed_bias != b->feed_bias)
        return "which biases there are";
    if (a->norms != b->norms || a->qk_norm != b->qk_norm)
        return "where the norms are";
    if (a->experts && a->routing_normalized != b->routing_normalized)
        return "whether the shares of experts add up to 1";
    return same_layers(a, b) ? NULL : "which layers have a window, do not rotate or have experts";
}

static enum kvc_status check_written(const struct kvc_output_set *set, const char *from,
                                     const struct kvc_config *config, struct kvc_error *error) {
    const char *folder = kvc_output_set_folder(set);
    const size_t capacity = strlen(folder) + sizeof "/config.json";
    char *path = malloc(capacity);
    struct kvc_config again;
    struct kvc_error why = {0};
    if (!path)
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", from);
    snprintf(path, capacity, "%s/config.json", folder);
    enum kvc_status status = kvc_config_from_json(path, &again, &why);
    if (status) { /* the message must not contain the temporary path */
        const char *rest = strncmp(why.text, path, strlen(path)) == 0 ? why.text + strlen(path) : why.text;
        status = kvc_fail(error, status, "%s: cannot be a Hugging Face folder%s", from, rest);
        free(path);
        return status;
    }
    free(path);
    bool same = true;
    const char *what = difference(config, &again);
    if (!what)
        status = compare_rope(config, &again, &same, error);
    kvc_config_free(&again);
    if (status)
        return status;
    what = same ? what : "its rotary frequencies";
    return what ? kvc_fail(error, KVC_INPUT,
                           "%s: cannot be a Hugging Face folder: the config.json of %s does not say %s", from,
                           config->family->hf, what)
                : KVC_OK;
}

enum kvc_status kvc_write_config(struct kvc_output_set *set, const char *from, const struct kvc_config *config,
                                 enum kvc_type dtype, struct kvc_error *error) {
    const char *name = dtype == KVC_F16 ? "float16" : dtype == KVC_BF16 ? "bfloat16" : "float32";
    struct made made = {config, json_object(), true};
    folder_config_put(&made, made.root, "architectures", class_of(config->family->hf));
    folder_config_put(&made, made.root, "model_type", json_string(config->family->hf));
    folder_config_put(&made, made.root, "torch_dtype", json_string(name));
    folder_config_put(&made, made.root, "bos_token_id",
                      config->bos < 0 ? json_null() : json_integer((json_int_t)config->bos));
    folder_config_put(&made, made.root, "eos_token_id",
                      config->eos < 0 ? json_null() : json_integer((json_int_t)config->eos));
    folder_config_put(&made, made.root, "pad_token_id", json_null());
    put_fields(&made);
    put_partial(&made);
    put_scale(&made);
    put_flags(&made);
    put_layers(&made);
    put_rope(&made);
    const enum kvc_status status = kvc_output_set_json(set, "config.json", made.root, made.whole, error);
    return status ? status : check_written(set, from, config, error);
}
