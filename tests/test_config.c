/* test_config.c - descriptions of models: rotary frequencies of real geometries against transformers, and hostile or
 * unsupported values in both formats, each of which must be one clear line that names the key. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <jansson.h>

#include "core/engine.h"
#include "models/config.h"
#include "models/gguf_write.h"
#include "models/model.h"

static struct kvc_error error;

static const char *golden(const char *rest, char *path, size_t room) {
    const char *folder = getenv("top_srcdir");
    snprintf(path, room, "%s/tests/data/golden/%s", folder ? folder : ".", rest);
    return path;
}

static void expect_error(enum kvc_status status, const char *text, const char *what) {
    if (status != KVC_INPUT)
        fail_msg("%s: status %d, 3 was expected (%s)", what, (int)status, text);
    if (!strstr(error.text, text))
        fail_msg("%s: \"%s\" was expected in: %s", what, text, error.text);
    if (strchr(error.text, '\n'))
        fail_msg("%s: more than one line: %s", what, error.text);
}

/* ---- rotary frequencies ---- */

static double read_real(FILE *file) {
    char text[64];
    assert_int_equal(fscanf(file, "%63s", text), 1);
    return strtod(text, NULL);
}

/* At most two units in the last place of a float32: transformers' own pow is not correctly rounded. A few more where
 * Llama 3's formula with other parameters than the published ones goes through divisors, as GGUF has them. */
static void expect_near(const char *name, size_t i, float ours, double theirs) {
    const double limit = strcmp(name, "llama3-odd") == 0 ? 6e-7 : 2.4e-7;
    if (!(fabs((double)ours - theirs) <= limit * fabs(theirs)))
        fail_msg("%s: frequency %zu is %.9g, transformers has %.9g", name, i, (double)ours, theirs);
}

static void check_rope(const char *name) {
    char rest[128], path[512];
    struct kvc_config config;
    struct kvc_rope rope;
    snprintf(rest, sizeof rest, "rope/%s.json", name);
    if (kvc_config_from_json(golden(rest, path, sizeof path), &config, &error))
        fail_msg("%s", error.text);
    assert_int_equal(kvc_rope_build(&config, false, &rope, &error), KVC_OK);
    snprintf(rest, sizeof rest, "rope/%s.txt", name);
    FILE *file = fopen(golden(rest, path, sizeof path), "r");
    if (!file)
        fail_msg("%s: cannot open", path);
    const double attention = read_real(file);
    const size_t pairs = (size_t)read_real(file);
    const bool two = read_real(file) != 0;
    assert_int_equal(rope.rotary, 2 * pairs);
    assert_true(two == (rope.long_frequency != NULL));
    expect_near(name, 9999, rope.attention_factor, attention);
    expect_near(name, 9999, rope.long_attention_factor, attention);
    for (size_t i = 0; i < pairs; i++)
        expect_near(name, i, rope.frequency[i], read_real(file));
    for (size_t i = 0; two && i < pairs; i++)
        expect_near(name, i, rope.long_frequency[i], read_real(file));
    fclose(file);
    free(rope.frequency);
    free(rope.long_frequency);
    kvc_config_free(&config);
}

static void frequencies_are_those_of_transformers(void **state) {
    (void)state;
    static const char *const names[] = {"llama2-7b",    "llama3.1-8b",     "llama3.2-1b",     "llama3-odd",
                                        "longchat-7b",  "mistral-7b-v0.3", "qwen2.5-7b-yarn", "qwen3-8b-yarn",
                                        "yarn-options", "phi-4-mini",      "phi-3-su"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_rope(names[i]);
}

/* Divisors as GGUF has them lead back to the published parameters, and to the same frequencies in any case. */
static void divisors_are_recognised(void **state) {
    (void)state;
    static const char *const names[] = {"rope/llama3.1-8b.json", "rope/llama3.2-1b.json", "rope/llama3-odd.json"};
    static const enum kvc_rope_kind kinds[] = {KVC_ROPE_LLAMA3, KVC_ROPE_LLAMA3, KVC_ROPE_DIVISORS};
    for (size_t n = 0; n < 3; n++) {
        char path[512];
        struct kvc_config config;
        struct kvc_rope first, second;
        assert_int_equal(kvc_config_from_json(golden(names[n], path, sizeof path), &config, &error), KVC_OK);
        assert_int_equal(config.rope.kind, kinds[n]);
        assert_int_equal(kvc_rope_build(&config, false, &first, &error), KVC_OK);
        const uint64_t original = config.rope.original_context;
        config.rope.kind = KVC_ROPE_DIVISORS;
        config.rope.factor = config.rope.low_factor = config.rope.high_factor = 0;
        config.rope.original_context = 0;
        kvc_rope_recognise(&config);
        assert_int_equal(config.rope.kind, kinds[n]);
        if (kinds[n] == KVC_ROPE_LLAMA3)
            assert_int_equal(config.rope.original_context, original);
        assert_int_equal(kvc_rope_build(&config, false, &second, &error), KVC_OK);
        assert_memory_equal(first.frequency, second.frequency, config.rope.rotary / 2 * sizeof(float));
        free(first.frequency);
        free(second.frequency);
        kvc_config_free(&config);
    }
}

/* ---- config.json ---- */

static char folder[] = "/tmp/kvcull-config-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

static json_t *load_json(const char *rest) {
    char path[512];
    json_error_t why;
    json_t *root = json_load_file(golden(rest, path, sizeof path), 0, &why);
    if (!root)
        fail_msg("%s: %s", path, why.text);
    return root;
}

/* Sets key ("a" or "a.b") to JSON text; "" removes it. */
static void change_json(json_t *root, const char *key, const char *text) {
    char outer[64];
    const char *dot = strchr(key, '.');
    if (dot) {
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - key), key);
        root = json_object_get(root, outer);
        key = dot + 1;
    }
    if (!*text) {
        assert_int_equal(json_object_del(root, key), 0);
        return;
    }
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    assert_int_equal(json_object_set_new(root, key, value), 0);
}

/* clang-format off */
static const struct json_case {
    const char *model, *key, *text, *expected;
} json_cases[] = {
    {"llama2", "model_type", "\"gemma2\"", "model_type \"gemma2\" is not supported"},
    {"llama2", "model_type", "", "model_type is missing"},
    {"llama2", "model_type", "7", "model_type is missing or not a string"},
    {"llama2", "num_hidden_layers", "1000000000", "num_hidden_layers is 1000000000"},
    {"llama2", "num_hidden_layers", "0", "num_hidden_layers is 0"},
    {"llama2", "num_hidden_layers", "-1", "num_hidden_layers is -1"},
    {"llama2", "num_hidden_layers", "2.5", "num_hidden_layers is not an integer"},
    {"llama2", "num_hidden_layers", "\"2\"", "num_hidden_layers is not an integer"},
    {"llama2", "num_hidden_layers", "", "num_hidden_layers is missing"},
    {"llama2", "num_hidden_layers", "null", "num_hidden_layers is missing"},
    {"llama2", "hidden_size", "9223372036854775807", "hidden_size is"},
    {"llama2", "hidden_size", "25", "hidden_size is 25, not a multiple of num_attention_heads"},
    {"llama2", "num_attention_heads", "0", "num_attention_heads is 0"},
    {"llama2", "num_attention_heads", "100000", "num_attention_heads is 100000"},
    {"llama2", "num_attention_heads", "24", "gives heads of size 1"},
    {"llama2", "num_key_value_heads", "3", "num_attention_heads is 4, it must be a multiple of num_key_value_heads"},
    {"llama2", "num_key_value_heads", "0", "num_key_value_heads is 0"},
    {"llama2", "head_dim", "7", "it must be an even number"},
    {"llama2", "head_dim", "1", "head_dim is 1"},
    {"llama2", "head_dim", "100000", "head_dim is 100000"},
    {"llama2", "vocab_size", "0", "vocab_size is 0"},
    {"llama2", "vocab_size", "99999999999", "vocab_size is 99999999999"},
    {"llama2", "intermediate_size", "0", "intermediate_size is 0"},
    {"llama2", "max_position_embeddings", "0", "max_position_embeddings is 0"},
    {"llama2", "rms_norm_eps", "-1e-5", "rms_norm_eps is -1e-05"},
    {"llama2", "rms_norm_eps", "0", "rms_norm_eps is 0"},
    {"llama2", "rope_theta", "0", "rope_theta is 0"},
    {"llama2", "rope_theta", "-10000", "rope_theta is -10000"},
    {"llama2", "rope_theta", "\"x\"", "rope_theta is not a number"},
    {"llama2", "rope_theta", "1e300", "rope_theta is 1e+300"},
    {"llama2", "partial_rotary_factor", "0.7", "OK"}, /* int(6 * 0.7) channels turn */
    {"llama2", "partial_rotary_factor", "1.5", "partial_rotary_factor is 1.5"},
    {"llama2", "partial_rotary_factor", "0.2", "partial_rotary_factor"},
    {"llama2", "hidden_act", "\"gelu\"", "hidden_act is gelu"},
    {"llama2", "tie_word_embeddings", "1", "tie_word_embeddings is not true or false"},
    {"llama2", "quantization_config", "{\"bits\": 4}", "quantization_config"},
    {"llama2", "num_local_experts", "8", "num_local_experts"},
    {"llama2", "final_logit_softcapping", "30.0", "final_logit_softcapping"},
    {"llama2", "final_logit_softcapping", "null", "OK"},
    {"llama2", "rope_scaling", "[]", "rope_scaling is not an object"},
    {"llama2", "rope_scaling", "{\"type\": \"dynamic\", \"factor\": 2.0}", "rope_type \"dynamic\" is not supported"},
    {"llama2", "rope_scaling", "{\"type\": \"su\", \"factor\": 2.0}", "rope_type \"su\" is not supported"},
    {"llama2", "rope_scaling", "{\"type\": 3}", "rope_type"},
    {"llama2", "rope_scaling", "{\"full_attention\": {\"rope_type\": \"default\"}}", "kinds of layers"},
    {"llama2", "rope_scaling", "{\"type\": \"linear\"}", "rope_scaling.factor is missing"},
    {"llama2", "rope_scaling", "{\"type\": \"linear\", \"factor\": 0}", "rope_scaling.factor is 0"},
    {"llama2", "rope_scaling", "{\"type\": \"linear\", \"factor\": -2}", "rope_scaling.factor is -2"},
    {"llama2", "rope_scaling", "{\"type\": \"longrope\"}", "rope_scaling.short_factor must be a list"},
    {"llama2", "rope_condense_ratio", "8", "OK"},
    {"llama2", "rope_condense_ratio", "0", "rope_condense_ratio"},
    {"llama3", "rope_scaling.low_freq_factor", "4.0", "high_freq_factor is 4, it must be greater"},
    {"llama3", "rope_scaling.low_freq_factor", "", "rope_scaling.low_freq_factor is missing"},
    {"llama3", "rope_scaling.high_freq_factor", "", "rope_scaling.high_freq_factor is missing"},
    {"llama3", "rope_scaling.factor", "", "rope_scaling.factor is missing"},
    {"qwen2-yarn", "rope_scaling.factor", "", "OK"}, /* then from the two lengths */
    {"qwen2-yarn", "rope_scaling.beta_fast", "0", "rope_scaling.beta_fast is 0"},
    {"qwen2-yarn", "rope_scaling.original_max_position_embeddings", "0", "original_max_position_embeddings is 0"},
    {"qwen2-yarn", "rope_theta", "1", "yarn needs more than 1"},
    {"qwen2-window", "layer_types", "[\"full_attention\"]", "layer_types must be a list of 3 names"},
    {"qwen2-window", "layer_types", "[\"full_attention\", \"sliding_attention\", \"chunked_attention\"]",
     "layer_types[2] \"chunked_attention\" is not supported"},
    {"qwen2-window", "layer_types", "[\"full_attention\", \"sliding_attention\", \"full_attention\"]", "OK"},
    {"qwen2-window", "sliding_window", "0", "sliding_window is 0"},
    {"qwen2-window", "max_window_layers", "-3", "max_window_layers is not"},
    {"qwen2", "layer_types", "[\"full_attention\", \"full_attention\", \"full_attention\", \"sliding_attention\"]",
     "no sliding_window is in use"},
    {"mistral-window", "layer_types", "[\"full_attention\", \"sliding_attention\", \"full_attention\"]",
     "layer_types is not the same for every layer"},
    {"phi3-longrope", "rope_scaling.long_factor", "[1.0, 2.0]", "rope_scaling.long_factor has 2 numbers, it must have 6"},
    {"phi3-longrope", "rope_scaling.long_factor", "[1.0, 2.0, 3.0, 4.0, 5.0, 0]", "rope_scaling.long_factor[5]"},
    {"phi3-longrope", "rope_scaling.short_factor", "\"x\"", "rope_scaling.short_factor must be a list"},
    {"phi3-longrope", "rope_scaling.long_mscale", "1.2", "long_mscale"},
    {"phi3-longrope", "original_max_position_embeddings", "1", "longrope needs at least 2"},
};
/* clang-format on */

static void bad_json_values_are_named(void **state) {
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", folder);
    for (size_t i = 0; i < sizeof json_cases / sizeof *json_cases; i++) {
        const struct json_case *c = &json_cases[i];
        char rest[128], what[256];
        struct kvc_config config;
        snprintf(rest, sizeof rest, "%s/config.json", c->model);
        json_t *root = load_json(rest);
        change_json(root, c->key, c->text);
        assert_int_equal(json_dump_file(root, path, 0), 0);
        json_decref(root);
        snprintf(what, sizeof what, "%s with %s = %.60s", c->model, c->key, c->text);
        const enum kvc_status status = kvc_config_from_json(path, &config, &error);
        if (strcmp(c->expected, "OK") == 0) {
            if (status)
                fail_msg("%s: %s", what, error.text);
            kvc_config_free(&config);
        } else {
            expect_error(status, c->expected, what);
        }
    }
    assert_int_equal(unlink(path), 0);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void files_that_are_no_config(void **state) {
    (void)state;
    static const char *const texts[][2] = {{"[1, 2]", "is not a JSON object"},
                                           {"{\"model_type\": ", "JSON"},
                                           {"", "empty"},
                                           {"{}", "model_type is missing"},
                                           {"{\"a\": 1, \"a\": 2}", "JSON"}};
    struct kvc_config config;
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", folder);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_file(path, texts[i][0]);
        expect_error(kvc_config_from_json(path, &config, &error), texts[i][1], texts[i][0]);
    }
    assert_int_equal(unlink(path), 0);
    expect_error(kvc_config_from_json(path, &config, &error), path, "no file");
    expect_error(kvc_config_from_json(folder, &config, &error), folder, "a folder");
}

/* ---- whole folders ---- */

/* A golden's tensors under a changed config.json. */
static enum kvc_status open_changed(struct kvc_engine *engine, const char *model, const char *key, const char *text) {
    char rest[128], path[512], from[512], here[512], weights[512];
    struct kvc_model *opened;
    snprintf(rest, sizeof rest, "%s/config.json", model);
    json_t *root = load_json(rest);
    change_json(root, key, text);
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
    snprintf(rest, sizeof rest, "%s/model.safetensors", model);
    assert_non_null(realpath(golden(rest, from, sizeof from), here));
    snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
    assert_int_equal(symlink(here, weights), 0);
    const enum kvc_status status = kvc_model_open(engine, folder, &opened, &error);
    kvc_model_close(opened);
    assert_int_equal(unlink(weights), 0);
    assert_int_equal(unlink(path), 0);
    struct kvc_memory memory;
    kvc_engine_memory(engine, &memory);
    assert_int_equal(memory.now[KVC_MEMORY_WEIGHTS], 0);
    return status;
}

/* clang-format off */
static const struct json_case folder_cases[] = {
    {"llama2", "num_hidden_layers", "4", "tensor model.layers.3.input_layernorm.weight is missing"},
    {"llama2", "num_hidden_layers", "2", "tensor model.layers.2."},
    {"llama2", "hidden_size", "32", "tensor model.embed_tokens.weight is 61 x 24, it must be 61 x 32"},
    {"llama2", "vocab_size", "60", "tensor model.embed_tokens.weight is 61 x 24, it must be 60 x 24"},
    {"llama2", "num_key_value_heads", "2", "tensor model.layers.0.self_attn.k_proj.weight is 24 x 24, it must be 12 x 24"},
    {"llama2", "intermediate_size", "35", "is 34 x 24, it must be 35 x 24"},
    {"llama2", "attention_bias", "true", "tensor model.layers.0.self_attn.q_proj.bias is missing"},
    {"llama2", "tie_word_embeddings", "true", "OK"},
    {"llama2", "model_type", "\"qwen2\"", "tensor model.layers.0.self_attn.q_proj.bias is missing"},
    {"llama2", "model_type", "\"phi3\"", "tensor model.layers.0.self_attn.qkv_proj.weight is missing"},
    {"llama3", "tie_word_embeddings", "false", "tensor lm_head.weight is missing"},
    {"llama-linear", "mlp_bias", "false", "has no place in a llama model"},
    {"qwen3", "model_type", "\"llama\"", "_norm.weight has no place in a llama model"},
    {"qwen3", "head_dim", "", "it must be a vector of 128"}, /* 128 where config.json does not say */
};
/* clang-format on */

static void folders_that_do_not_fit(void **state) {
    (void)state;
    struct kvc_engine *engine;
    assert_int_equal(kvc_engine_open(NULL, &engine, &error), KVC_OK);
    for (size_t i = 0; i < sizeof folder_cases / sizeof *folder_cases; i++) {
        const struct json_case *c = &folder_cases[i];
        const enum kvc_status status = open_changed(engine, c->model, c->key, c->text);
        if (strcmp(c->expected, "OK") == 0) {
            if (status)
                fail_msg("%s: %s", c->model, error.text);
        } else {
            expect_error(status, c->expected, c->key);
        }
    }
    kvc_engine_close(engine);
}

/* ---- GGUF: a golden written anew with one change ---- */

/* clang-format off */
enum change_kind { UINT, REAL, TEXT, FLAG, UINTS, BOOLS, REMOVE, RENAME, DROP, RESHAPE, RETYPE, VECTOR };
static const struct gguf_case {
    const char *model;
    enum change_kind kind;
    const char *name;    /* the key or tensor */
    double value;        /* of UINT, REAL, FLAG; how many numbers of UINTS, BOOLS, VECTOR */
    const char *text;    /* of TEXT; the new name of RENAME */
    const char *expected;
} gguf_cases[] = {
    {"llama2", TEXT, "general.architecture", 0, "gemma", "architecture \"gemma\" is not supported; llama"},
    {"llama2", REMOVE, "general.architecture", 0, NULL, "general.architecture is missing"},
    {"llama2", UINT, "llama.block_count", 1e9, NULL, "llama.block_count is 1000000000"},
    {"llama2", UINT, "llama.block_count", 0, NULL, "llama.block_count is 0"},
    {"llama2", REAL, "llama.block_count", 3, NULL, "llama.block_count is not an integer"},
    {"llama2", REMOVE, "llama.block_count", 0, NULL, "llama.block_count is missing"},
    {"llama2", UINT, "llama.block_count", 2, NULL, "has no place in a llama model of 2 layers"},
    {"llama2", UINT, "llama.block_count", 4, NULL, "tensor blk.3.attn_norm.weight is missing"},
    {"llama2", UINT, "llama.attention.head_count", 0, NULL, "llama.attention.head_count is 0"},
    {"llama2", UINT, "llama.attention.head_count", 5, NULL, "llama.attention.head_count is 5, it must be a multiple of"},
    {"llama2", UINT, "llama.attention.head_count_kv", 0, NULL, "llama.attention.head_count_kv is 0"},
    {"llama2", UINT, "llama.attention.head_count_kv", 3, NULL, "llama.attention.head_count_kv, which is 3"},
    {"llama2", UINTS, "llama.attention.head_count_kv", 3, NULL, "differs between layers"},
    {"llama2", TEXT, "llama.attention.head_count_kv", 0, "4", "is not an integer"},
    {"llama2", UINT, "llama.embedding_length", 4294967295.0, NULL, "llama.embedding_length is 4294967295"},
    {"llama2", UINT, "llama.embedding_length", 32, NULL, "token_embd.weight is 61 x 24, it must be 61 x 32"},
    {"llama2", UINT, "llama.feed_forward_length", 0, NULL, "llama.feed_forward_length is 0"},
    {"llama2", UINT, "llama.vocab_size", 62, NULL, "token_embd.weight is 61 x 24, it must be 62 x 24"},
    {"llama2", REMOVE, "llama.vocab_size", 0, NULL, "OK"},
    {"llama2", UINT, "llama.rope.dimension_count", 5, NULL, "it must be an even number"},
    {"llama2", UINT, "llama.rope.dimension_count", 8, NULL, "it must be an even number"},
    {"llama2", UINT, "llama.rope.dimension_count", 0, NULL, "llama.rope.dimension_count is 0"},
    {"llama2", UINT, "llama.attention.key_length", 8, NULL, "it must be 32 x 24"},
    {"llama2", UINT, "llama.attention.value_length", 8, NULL, "llama.attention.value_length must be"},
    {"llama2", REAL, "llama.rope.freq_base", NAN, NULL, "llama.rope.freq_base is"},
    {"llama2", REAL, "llama.rope.freq_base", INFINITY, NULL, "llama.rope.freq_base is inf"},
    {"llama2", REAL, "llama.attention.layer_norm_rms_epsilon", -1, NULL, "layer_norm_rms_epsilon is -1"},
    {"llama2", UINT, "llama.context_length", 0, NULL, "llama.context_length is 0"},
    {"llama2", UINT, "llama.attention.sliding_window", 4294967295.0, NULL, "sliding_window is 4294967295"},
    {"llama2", UINT, "llama.attention.sliding_window", 0, NULL, "OK"},
    {"llama2", UINT, "split.count", 3, NULL, "split.count is 3"},
    {"llama2", UINT, "split.count", 1, NULL, "OK"},
    {"llama2", UINT, "llama.expert_count", 8, NULL, "llama.expert_count is 8"},
    {"llama2", UINT, "llama.expert_count", 0, NULL, "OK"},
    {"llama2", REAL, "llama.attn_logit_softcapping", 50, NULL, "llama.attn_logit_softcapping is 50"},
    {"llama2", FLAG, "llama.use_parallel_residual", 1, NULL, "llama.use_parallel_residual is 1"},
    {"llama2", REAL, "llama.logit_scale", 0.5, NULL, "llama.logit_scale is 0.5"},
    {"llama2", TEXT, "llama.rope.scaling.type", 0, "dynamic", "llama.rope.scaling.type \"dynamic\" is not supported"},
    {"llama2", TEXT, "llama.rope.scaling.type", 0, "linear", "llama.rope.scaling.factor is missing"},
    {"llama2", TEXT, "llama.rope.scaling.type", 0, "longrope", "rope_factors_short.weight has 0 numbers"},
    {"llama2", UINT, "llama.rope.scaling.type", 1, NULL, "llama.rope.scaling.type is not a string"},
    {"llama2", REAL, "llama.rope.scale_linear", 4, NULL, "OK"},
    {"llama2", REAL, "llama.rope.scale_linear", -4, NULL, "llama.rope.scale_linear is -4"},
    {"llama2", RENAME, "blk.1.ffn_norm.weight", 0, "blk.1.ffn_nope.weight", "tensor blk.1.ffn_norm.weight is missing"},
    {"llama2", RENAME, "blk.2.attn_k.weight", 0, "blk.2.attn_q.bias", "tensor blk.2.attn_k.weight is missing"},
    {"llama2", DROP, "token_embd.weight", 0, NULL, "tensor token_embd.weight is missing"},
    {"llama2", DROP, "output_norm.weight", 0, NULL, "tensor output_norm.weight is missing"},
    {"llama2", DROP, "output.weight", 0, NULL, "OK"}, /* tied */
    {"llama2", RESHAPE, "blk.0.ffn_down.weight", 0, NULL, "is 34 x 24, it must be 24 x 34"},
    {"llama2", RESHAPE, "blk.0.ffn_norm.weight", 0, NULL, "it must be a vector of 24"},
    {"qwen2-window", RETYPE, "output_norm.weight", 0, NULL, "is of type q8_0; a norm or bias must be f32, f16 or bf16"},
    {"llama2", VECTOR, "blk.0.attn_q.scale", 4, NULL, "tensor blk.0.attn_q.scale has no place"},
    {"llama2", VECTOR, "rope_freqs.weight", 3, NULL, "OK"},
    {"llama2", VECTOR, "rope_freqs.weight", 4, NULL, "rope_freqs.weight has 4 numbers, it must have 3"},
    {"llama-linear", VECTOR, "rope_freqs.weight", 3, NULL, "type linear together with tensor rope_freqs.weight"},
    {"qwen2", DROP, "blk.1.attn_v.bias", 0, NULL, "tensor blk.1.attn_v.bias is missing"},
    {"qwen2-window", UINTS, "qwen2.attention.sliding_window_pattern", 3, NULL, "must be an array of 3 bools"},
    {"qwen2-window", BOOLS, "qwen2.attention.sliding_window_pattern", 2, NULL, "must be an array of 3 bools"},
    {"qwen2-yarn", REAL, "qwen2.rope.scaling.yarn_log_multiplier", 0.1, NULL, "yarn_log_multiplier is 0.1"},
    {"qwen3", DROP, "blk.0.attn_k_norm.weight", 0, NULL, "tensor blk.0.attn_k_norm.weight is missing"},
    {"phi3", DROP, "blk.0.attn_qkv.weight", 0, NULL, "tensor blk.0.attn_qkv.weight is missing"},
    {"phi3-longrope", DROP, "rope_factors_long.weight", 0, NULL, "rope_factors_long.weight has 0 numbers"},
    {"phi3-longrope", REMOVE, "phi3.rope.scaling.attn_factor", 0, NULL, "OK"},
    {"phi3-longrope", REAL, "phi3.rope.scaling.factor", 4, NULL, "longrope together with rope.scaling.factor"},
};
/* clang-format on */

static void put_change(struct kvc_gguf_writer *writer, const struct gguf_case *c) {
    static const int32_t counts[] = {1, 2, 4};
    static const unsigned char flags[] = {0, 1, 1};
    switch (c->kind) {
    case UINT:
        kvc_gguf_put_uint32(writer, c->name, (uint32_t)c->value);
        break;
    case REAL:
        kvc_gguf_put_float32(writer, c->name, (float)c->value);
        break;
    case TEXT:
        kvc_gguf_put_string(writer, c->name, c->text, strlen(c->text));
        break;
    case FLAG:
        kvc_gguf_put_bool(writer, c->name, c->value != 0);
        break;
    case UINTS:
        kvc_gguf_put_int32s(writer, c->name, counts, (size_t)c->value);
        break;
    case BOOLS:
        kvc_gguf_put_bools(writer, c->name, flags, (size_t)c->value);
        break;
    default:
        break;
    }
}

/* Writes path as the golden with one change. */
static void write_changed(const struct gguf_case *c, const char *path) {
    char rest[128], from[512];
    struct kvc_gguf *file;
    snprintf(rest, sizeof rest, "%s/model.gguf", c->model);
    if (kvc_gguf_open(golden(rest, from, sizeof from), &file, &error))
        fail_msg("%s", error.text);
    struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
    assert_non_null(writer);
    const char *key;
    enum kvc_gguf_type type;
    for (size_t i = 0; kvc_gguf_key(file, i, &key, &type); i++) {
        uint64_t bytes;
        const unsigned char *data = kvc_gguf_value_data(file, i, &bytes);
        if (strcmp(key, c->name) != 0 && strcmp(key, "general.alignment") != 0)
            kvc_gguf_put_raw(writer, key, type, data, bytes);
    }
    put_change(writer, c);
    const size_t count = kvc_gguf_tensor_count(file);
    for (size_t i = 0; i < count; i++) {
        const struct kvc_file_tensor *tensor = kvc_gguf_tensor_at(file, i);
        const bool same = strcmp(tensor->name, c->name) == 0;
        uint64_t shape[2] = {tensor->shape[0], tensor->shape[1]};
        uint32_t dimensions = tensor->dimensions;
        enum kvc_type element = tensor->type;
        if (same && c->kind == DROP)
            continue;
        if (same && c->kind == RESHAPE) {
            shape[0] = tensor->cols;
            shape[1] = tensor->rows;
            dimensions = 2;
        }
        if (same && c->kind == RETYPE) {
            element = KVC_Q8_0;
            shape[0] = 32;
        }
        kvc_gguf_add_tensor(writer, same && c->kind == RENAME ? c->text : tensor->name, element, dimensions, shape);
    }
    const uint64_t length = (uint64_t)c->value;
    if (c->kind == VECTOR)
        kvc_gguf_add_tensor(writer, c->name, KVC_F32, 1, &length);
    if (kvc_gguf_writer_begin(writer, path, &error))
        fail_msg("%s", error.text);
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
        const struct kvc_file_tensor *tensor = kvc_gguf_tensor_at(file, i);
        const bool same = strcmp(tensor->name, c->name) == 0;
        if (same && c->kind == DROP)
            continue;
        const size_t bytes = same && c->kind == RETYPE ? 34 : (size_t)tensor->bytes;
        if (kvc_gguf_write(writer, next++, tensor->data, bytes, &error))
            fail_msg("%s", error.text);
    }
    if (c->kind == VECTOR) {
        static const float ones[] = {1, 1.5f, 2, 3};
        assert_int_equal(kvc_gguf_write(writer, next, ones, (size_t)length * sizeof *ones, &error), KVC_OK);
    }
    if (kvc_gguf_writer_commit(writer, &error))
        fail_msg("%s", error.text);
    kvc_gguf_close(file);
}

static void bad_gguf_values_are_named(void **state) {
    (void)state;
    struct kvc_engine *engine;
    char path[512];
    assert_int_equal(kvc_engine_open(NULL, &engine, &error), KVC_OK);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    for (size_t i = 0; i < sizeof gguf_cases / sizeof *gguf_cases; i++) {
        const struct gguf_case *c = &gguf_cases[i];
        struct kvc_model *model;
        struct kvc_memory memory;
        char what[256];
        write_changed(c, path);
        snprintf(what, sizeof what, "%s with %s changed (case %zu)", c->model, c->name, i);
        const enum kvc_status status = kvc_model_open(engine, path, &model, &error);
        if (strcmp(c->expected, "OK") == 0) {
            if (status)
                fail_msg("%s: %s", what, error.text);
        } else {
            expect_error(status, c->expected, what);
            assert_null(model);
        }
        kvc_model_close(model);
        kvc_engine_memory(engine, &memory);
        assert_int_equal(memory.now[KVC_MEMORY_WEIGHTS], 0);
    }
    assert_int_equal(unlink(path), 0);
    kvc_engine_close(engine);
}

/* ---- what an opened model tells of itself ---- */

static void information(void **state) {
    (void)state;
    struct kvc_engine *engine;
    struct kvc_model *model;
    char path[512];
    assert_int_equal(kvc_engine_open(NULL, &engine, &error), KVC_OK);
    assert_int_equal(kvc_model_open(engine, golden("qwen2-window/model.gguf", path, sizeof path), &model, &error),
                     KVC_OK);
    const struct kvc_model_info *info = kvc_model_info(model);
    assert_string_equal(info->format, "gguf");
    assert_string_equal(info->architecture, "qwen2");
    assert_string_equal(info->name, "qwen2-window");
    assert_string_equal(info->path, path);
    assert_string_equal(info->weight_types, "bf16, f32");
    assert_string_equal(info->rope, "plain");
    assert_int_equal(info->sliding_window, 5);
    assert_int_equal(info->layers, 3);
    assert_int_equal(info->bos, 1);
    assert_int_equal(info->eos, 2);
    assert_int_equal(model->network.layer[0].window, 0);
    assert_int_equal(model->network.layer[2].window, 5);
    /* 47 x 32 twice, the last norm; per layer q, k, v, o, their biases, gate, up, down, two norms */
    const uint64_t matrices = 2 * 47 * 32 + 3 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 40 * 32);
    const uint64_t vectors = 32 + 3 * (32 + 16 + 16 + 2 * 32);
    assert_int_equal(info->parameters, matrices + vectors);
    assert_int_equal(info->mapped_bytes, 2 * matrices);
    assert_int_equal(info->weight_bytes, 2 * matrices + 4 * vectors);
    int32_t *tokens;
    size_t count;
    expect_error(kvc_tokenize(model, "x", 1, 0, &tokens, &count, &error), "no tokenizer", "text without a tokenizer");
    kvc_model_close(model);
    expect_error(kvc_model_open(engine, golden("llama2/model.safetensors", path, sizeof path), &model, &error),
                 "give the folder", "a file of a folder");
    expect_error(kvc_model_open(engine, "/nowhere/model.gguf", &model, &error), "/nowhere/model.gguf", "no file");
    expect_error(kvc_model_open(engine, folder, &model, &error), folder, "an empty folder");
    kvc_engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_are_those_of_transformers),
        cmocka_unit_test(divisors_are_recognised),
        cmocka_unit_test(bad_json_values_are_named),
        cmocka_unit_test(files_that_are_no_config),
        cmocka_unit_test(folders_that_do_not_fit),
        cmocka_unit_test(bad_gguf_values_are_named),
        cmocka_unit_test(information),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
