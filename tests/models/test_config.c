/* test_config.c - model descriptions in folders: hostile or unsupported values give one clear line that names the key;
 * and the information about an opened model. */
#include "models/config/shapes.h"
#include "tests/models/config_checks.h"

#include <jansson.h>
#include <math.h>

/* ---- config.json ---- */

static json_t *load_json(const char *rest) {
    char path[512];
    json_error_t why;
    json_t *root = json_load_file(golden(rest, path, sizeof path), 0, &why);
    if (!root)
        fail_msg("%s: %s", path, why.text);
    return root;
}

/* Sets the key ("a" or "a.b") to JSON text; "" removes it. */
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
    {"llama2", "model_type", "\"mamba\"", "model_type \"mamba\" is not supported"},
    {"llama2", "model_type", "", "model_type is missing"},
    {"llama2", "model_type", "7", "model_type is missing or not a string"},
    {"qwen3-moe", "num_experts", "0", "num_experts or num_local_experts is missing or 0"},
    {"qwen3-moe", "num_experts", "", "num_experts or num_local_experts is missing or 0"},
    {"qwen3-moe", "num_experts", "1025", "num_experts is 1025"},
    {"qwen3-moe", "num_experts", "-1", "num_experts is -1"},
    {"qwen3-moe", "num_experts", "11.5", "num_experts is not an integer"},
    {"qwen3-moe", "num_experts_per_tok", "12", "num_experts_per_tok is 12, it must be at most"},
    {"qwen3-moe", "num_experts_per_tok", "0", "num_experts_per_tok is missing or 0"},
    {"qwen3-moe", "num_experts_per_tok", "9223372036854775807", "num_experts_per_tok is"},
    {"qwen3-moe", "decoder_sparse_step", "0", "decoder_sparse_step is not an integer of 1 to 4096"},
    {"qwen3-moe", "decoder_sparse_step", "4097", "decoder_sparse_step is not an integer of 1 to 4096"},
    {"qwen3-moe", "decoder_sparse_step", "\"2\"", "decoder_sparse_step is not an integer of 1 to 4096"},
    {"qwen3-moe", "decoder_sparse_step", "4", "no layer has experts, though there are 11 of them"},
    {"qwen3-moe", "mlp_only_layers", "[0, 1, 2, 2]", "no layer has experts"},
    {"qwen3-moe", "mlp_only_layers", "[0, 3]", "mlp_only_layers[1] is not a layer, 0 to 2"},
    {"qwen3-moe", "mlp_only_layers", "[-1]", "mlp_only_layers[0] is not a layer, 0 to 2"},
    {"qwen3-moe", "mlp_only_layers", "[1.0]", "mlp_only_layers[0] is not a layer, 0 to 2"},
    {"qwen3-moe", "mlp_only_layers", "1", "mlp_only_layers is not a list of layers"},
    {"olmoe", "mlp_only_layers", "[1]", "mlp_only_layers: a model that uses this is not supported"},
    {"olmoe", "decoder_sparse_step", "2", "decoder_sparse_step is other than 1"},
    {"qwen3-moe", "norm_topk_prob", "1", "norm_topk_prob is not true or false"},
    {"qwen3-moe", "shared_expert_intermediate_size", "8", "shared_expert_intermediate_size is 8"},
    {"mixtral", "num_local_experts", "null", "num_experts or num_local_experts is missing or 0"},
    {"olmoe", "clip_qkv", "8.0", "clip_qkv"},
    {"qwen35", "layer_types", "[\"full_attention\"]", "layer_types must be a list of 6 names, one for each layer"},
    {"qwen35", "layer_types",
     "[\"linear_attention\", 1, \"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\"]",
     "layer_types[1] \"(not a string)\" is not supported; full_attention and linear_attention are"},
    {"qwen35", "layer_types",
     "[\"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\", "
     "\"linear_attention\"]",
     "the last of 6 layers is a gated delta net"},
    {"qwen35", "full_attention_interval", "4", "the last of 6 layers is a gated delta net"},
    {"qwen35", "full_attention_interval", "0", "full_attention_interval is 0, it must be 1 to 4096"},
    {"qwen35", "attn_output_gate", "false", "attn_output_gate is not true"},
    {"qwen35", "linear_conv_kernel_dim", "1", "linear_conv_kernel_dim is 1, it must be 2 to 16"},
    {"qwen35", "linear_key_head_dim", "2048", "linear_key_head_dim is 2048, it must be 1 to 1024"},
    {"qwen35", "linear_num_key_heads", "4", "linear_num_value_heads is 6, it must be a multiple of linear_num_key_heads"},
    {"qwen35", "linear_value_head_dim", "\"8\"", "linear_value_head_dim is not an integer"},
    {"qwen35", "attn_output_gate", "", "OK"},
    {"gpt-oss", "swiglu_limit", "10", "swiglu_limit must be 7"},
    {"gpt-oss", "swiglu_limit", "\"7\"", "swiglu_limit must be 7"},
    {"gpt-oss", "swiglu_limit", "", "OK"},
    {"gpt-oss-plain", "swiglu_alpha", "1.5", "swiglu_alpha must be 1.702"},
    {"gpt-oss", "rope_scaling", "null", "neither rope_scaling nor rope_parameters is there; gpt_oss models have one"},
    {"gpt-oss", "attention_bias", "7", "attention_bias is not true or false"},
    {"gpt-oss", "attention_bias", "", "OK"},
    {"gpt-oss", "sliding_window", "null", "layer_types has sliding_attention, but no sliding_window"},
    {"gpt-oss", "layer_types", "", "OK"},
    {"gpt-oss", "num_local_experts", "0", "num_experts or num_local_experts is missing or 0"},
    {"gpt-oss", "quantization_config", "{\"quant_method\": \"awq\"}", "quant_method is awq; fp8, fbgemm_fp8, compressed"},
    {"qwen2-moe", "use_sliding_window", "true", "use_sliding_window is true without layer_types"},
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
    {"llama2", "partial_rotary_factor", "0.7", "OK"}, /* int(6 * 0.7) channels rotate */
    {"llama2", "partial_rotary_factor", "1.5", "partial_rotary_factor is 1.5"},
    {"llama2", "partial_rotary_factor", "0.2", "partial_rotary_factor"},
    {"llama2", "hidden_act", "\"gelu\"", "hidden_act is gelu"},
    {"llama2", "tie_word_embeddings", "1", "tie_word_embeddings is not true or false"},
    {"llama2", "quantization_config", "{\"bits\": 4}", "quantization_config: quant_method is missing"},
    {"llama2", "quantization_config", "7", "quantization_config: quant_method is missing"},
    {"llama2", "quantization_config", "{\"quant_method\": \"gptq\"}", "quant_method is gptq; fp8, fbgemm_fp8, "},
    {"llama2", "quantization_config", "{\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\"}",
     "format is pack-quantized; of compressed-tensors float-quantized is supported"},
    {"llama2", "quantization_config", "{\"quant_method\": \"fp8\", \"weight_block_size\": [64, 128]}", "weight_block_size"},
    {"llama2", "num_local_experts", "8", "num_local_experts"},
    {"llama2", "final_logit_softcapping", "30.0", "final_logit_softcapping"},
    {"llama2", "final_logit_softcapping", "null", "OK"},
    {"llama2", "query_pre_attn_scalar", "256", "query_pre_attn_scalar"},
    {"smollm3", "no_rope_layers", "[1, 1]", "no_rope_layers must be a list of 5 numbers"},
    {"smollm3", "no_rope_layers", "[1, 1, 1, 1, 2]", "no_rope_layers[4] is not 0 or 1"},
    {"smollm3", "no_rope_layers", "[1, 0, 1, 1, 0]", "OK"},
    {"smollm3", "no_rope_layer_interval", "0", "no_rope_layer_interval is not an integer of 1 to 4096"},
    {"smollm3", "use_sliding_window", "true", "use_sliding_window"},
    {"llama2", "no_rope_layers", "[1, 0, 1]", "no_rope_layers"},
    {"llama2", "embedding_multiplier", "12.0", "embedding_multiplier"},
    {"granite", "embedding_multiplier", "0", "embedding_multiplier is 0"},
    {"granite", "attention_multiplier", "-1", "attention_multiplier is -1"},
    {"granite", "logits_scaling", "\"8\"", "logits_scaling is not a number"},
    {"granite", "residual_multiplier", "", "OK"},
    {"granite", "attention_multiplier", "", "OK"},
    {"cohere", "use_qk_norm", "1", "use_qk_norm is not true or false"},
    {"cohere", "qk_layernorm", "true", "qk_layernorm: a model that uses this is not supported"},
    {"llama2", "use_qk_norm", "true", "use_qk_norm: a model that uses this is not supported"},
    {"cohere", "logit_scale", "0", "logit_scale is 0"},
    {"phi2-norms", "qk_layernorm", "\"yes\"", "qk_layernorm is not true or false"},
    {"phi2", "hidden_act", "\"gelu\"", "hidden_act is gelu"},
    {"stablelm", "use_parallel_residual", "true", "OK"},
    {"stablelm", "use_parallel_residual", "[1]", "use_parallel_residual is not true or false"},
    {"glm4", "use_parallel_residual", "true", "use_parallel_residual"},
    {"olmo3", "layer_types", "[\"full_attention\"]", "layer_types must be a list of 5 names"},
    {"olmo3", "sliding_window", "0", "sliding_window is 0"},
    {"stablelm", "use_qkv_bias", "3", "use_qkv_bias is not true or false"},
    {"stablelm", "layer_norm_eps", "0", "layer_norm_eps is 0"},
    {"glm4", "partial_rotary_factor", "0.1", "partial_rotary_factor"},
    {"gemma2", "attn_logit_softcapping", "-3", "attn_logit_softcapping is -3"},
    {"gemma2", "attn_logit_softcapping", "\"x\"", "attn_logit_softcapping is not a number"},
    {"gemma2", "attn_logit_softcapping", "null", "OK"},
    {"gemma2", "final_logit_softcapping", "", "OK"},
    {"gemma2", "final_logit_softcapping", "1e9", "final_logit_softcapping is 1e+09"},
    {"gemma2", "query_pre_attn_scalar", "0", "query_pre_attn_scalar is 0"},
    {"gemma2", "hidden_activation", "\"gelu\"", "hidden_activation is gelu; only gelu_pytorch_tanh"},
    {"gemma2", "use_bidirectional_attention", "true", "use_bidirectional_attention"},
    {"gemma3", "rope_local_base_freq", "0.5", "rope_local_base_freq is 0.5"},
    {"gemma3", "sliding_window_pattern", "0", "sliding_window_pattern is not an integer of 1 to 4096"},
    {"gemma3", "sliding_window_pattern", "3", "OK"},
    {"gemma3", "sliding_window", "-1", "sliding_window is -1"},
    {"gemma3", "layer_types", "[\"full_attention\"]", "layer_types must be a list of 7 names"},
    {"gemma3-new", "rope_parameters.sliding_attention", "3", "rope_parameters is not of full_attention and"},
    {"gemma3-new", "rope_parameters.sliding_attention", "{\"rope_theta\": 0}", "sliding_attention.rope_theta is not"},
    {"gemma3-new", "rope_parameters.sliding_attention", "{\"rope_type\": \"linear\"}", "rope_type is not \"default\""},
    {"gemma3-images", "text_config.vision_config", "{\"x\": 1}", "vision_config"},
    {"gemma3-images", "text_config", "3", "vision_config"},
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
    {"qwen2-yarn", "rope_scaling.factor", "", "OK"}, /* the factor is then computed from the two lengths */
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

/* The tensors of a golden model with a changed config.json. */
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
    {"llama-linear", "mlp_bias", "false", "does not belong in a llama model"},
    {"qwen3", "model_type", "\"llama\"", "_norm.weight does not belong in a llama model"},
    {"qwen3-moe", "num_experts", "12", "mlp.gate.weight is 11 x 28, it must be 12 x 28"},
    {"qwen3-moe", "moe_intermediate_size", "13", "tensor model.layers.0.mlp.experts.0.gate_proj.weight is 12 x 28"},
    {"mixtral", "num_local_experts", "9", "block_sparse_moe.gate.weight is 8 x 24, it must be 9 x 24"},
    {"qwen2-moe", "shared_expert_intermediate_size", "27", "shared_expert.gate_proj.weight is 26 x 36"},
    {"qwen3-moe", "mlp_only_layers", "[1]", "mlp.gate_proj.weight is missing"},
    {"qwen3-moe-dense", "mlp_only_layers", "[0]", "layers.2.mlp.gate.weight is missing"},
    {"cohere", "use_qk_norm", "true", "self_attn.q_norm.weight is missing"},
    {"cohere-plus", "use_qk_norm", "false", "_norm.weight does not belong in a cohere model"},
    {"cohere-plus", "num_key_value_heads", "1", "k_norm.weight is 2 x 6, it must be 1 x 6"},
    {"phi2", "qk_layernorm", "true", "self_attn.q_layernorm.weight is missing"},
    {"stablelm", "qk_layernorm", "true", "self_attn.q_layernorm.norms.0.weight is missing"},
    {"stablelm-norms", "qk_layernorm", "false", "does not belong in a stablelm model"},
    {"qwen3-moe", "model_type", "\"olmoe\"", "it must be a vector of 80"},
    {"mixtral", "model_type", "\"qwen3_moe\"", "attn.q_norm.weight is missing"},
    {"mixtral", "num_experts_per_tok", "8", "OK"},
    {"qwen35", "linear_num_value_heads", "4", "linear_attn.in_proj_qkv.weight is 88 x 28, it must be 72 x 28"},
    {"qwen35", "linear_conv_kernel_dim", "3", "conv1d.weight has 88 x 4 numbers in 3 dimensions, it must be 88 x 3"},
    {"qwen35", "full_attention_interval", "3", "tensor model.layers.1.linear_attn.in_proj_qkv.weight is missing"},
    {"qwen3-next", "linear_value_head_dim", "8", "in_proj_qkvz.weight is 176 x 32, it must be 112 x 32"},
    {"gpt-oss", "num_local_experts", "6", "mlp.router.weight is 5 x 32, it must be 6 x 32"},
    {"gpt-oss", "intermediate_size", "32", "mlp.experts.gate_proj has 320 x 32 numbers in 3 dimensions, it must be 5 matrices"},
    {"gpt-oss", "attention_bias", "false", "bias does not belong in a gpt_oss model"},
    {"gpt-oss", "num_attention_heads", "8", "q_proj.weight is 120 x 32, it must be 160 x 32"},
    {"gpt-oss-plain", "attention_bias", "true", "self_attn.q_proj.bias is missing"},
    {"gpt-oss-plain", "intermediate_size", "19", "in 3 dimensions, it must be 9 matrices of 19 x 28"},
    {"gpt-oss-plain", "model_type", "\"qwen3_moe\"", "no sliding_window is in use"},
    {"qwen3", "head_dim", "", "it must be a vector of 128"}, /* 128 if config.json does not specify it */
    {"gemma3", "num_hidden_layers", "6", "does not belong in a gemma3_text model of 6 layers"},
    {"gemma3-images", "text_config.num_hidden_layers", "5", "does not belong in a gemma3 model of 5 layers"},
    {"gemma3-images", "text_config.num_attention_heads", "", "it must be 80 x 20"}, /* 8 of these heads */
    {"gemma3-images", "text_config.vocab_size", "", "embed_tokens.weight is 39 x 20, it must be 262208 x 20"},
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

/* ---- what an opened model reports about itself ---- */

/* The first session converts the weights of int16, as the model's info has forecast; the second one converts nothing.
 */
static void converted_weights(void **state) {
    static const char *const models[] = {"qwen2-window/model.gguf", "olmoe-gqa", "qwen3-next"};
    const struct kvc_engine_options options = {.math = KVC_MATH_INT16};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct kvc_engine *engine;
        struct kvc_model *model;
        struct kvc_session *session[2];
        struct kvc_memory before, after;
        char path[512];
        assert_int_equal(kvc_engine_open(&options, &engine, &error), KVC_OK);
        assert_int_equal(kvc_model_open(engine, golden(models[i], path, sizeof path), &model, &error), KVC_OK);
        const struct kvc_model_info *info = kvc_model_info(model);
        kvc_engine_memory(engine, &before);
        for (int s = 0; s < 2; s++) {
            assert_int_equal(kvc_session_open(model, NULL, &session[s], &error), KVC_OK);
            kvc_engine_memory(engine, &after);
            assert_int_equal(after.now[KVC_MEMORY_WEIGHTS] - before.now[KVC_MEMORY_WEIGHTS], info->packed_bytes);
        }
        assert_true(info->packed_bytes > 0 && info->resident_bytes > info->packed_bytes);
        kvc_session_close(session[0]);
        kvc_session_close(session[1]);
        kvc_model_close(model);
        kvc_engine_memory(engine, &after);
        assert_int_equal(after.now[KVC_MEMORY_WEIGHTS], 0);
        kvc_engine_close(engine);
    }
}

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
    /* 47 x 32 twice, and the last norm; per layer q, k, v, o, their biases, gate, up, down, two norms. */
    const uint64_t matrices = 2 * 47 * 32 + 3 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 40 * 32);
    const uint64_t vectors = 32 + 3 * (32 + 16 + 16 + 2 * 32);
    assert_int_equal(info->parameters, matrices + vectors);
    assert_int_equal(info->mapped_bytes, 2 * matrices);
    assert_true(info->packed_bytes == 0 && info->resident_bytes == info->weight_bytes);
    assert_int_equal(info->weight_bytes, 2 * matrices + 4 * vectors);
    int32_t *tokens;
    size_t count;
    expect_error(kvc_tokenize(model, "x", 1, 0, &tokens, &count, &error), "no tokenizer", "text without a tokenizer");
    kvc_model_close(model);
    expect_error(kvc_model_open(engine, golden("llama2/model.safetensors", path, sizeof path), &model, &error),
                 "give its folder", "a file of a folder");
    expect_error(kvc_model_open(engine, "/nowhere/model.gguf", &model, &error), "/nowhere/model.gguf", "no file");
    expect_error(kvc_model_open(engine, folder, &model, &error), folder, "an empty folder");
    kvc_engine_close(engine);
}

/* Every named shape is a model that can be run; the one with longrope has a factor for each pair of channels. */
static void shapes_are_models(void **state) {
    (void)state;
    const char *name, *summary;
    size_t factors = 0;
    for (size_t i = 0; kvc_shape(i, &name, &summary); i++) {
        struct kvc_config config;
        assert_int_equal(kvc_shape_config(kvc_shape_find(name), &config, &error), KVC_OK);
        assert_int_equal(kvc_config_complete(&config, true, name, &error), KVC_OK);
        for (uint64_t f = 0; f < config.rope.long_count; f++, factors++)
            assert_true(config.rope.short_factor[f] >= 1 && config.rope.long_factor[f] >= config.rope.short_factor[f]);
        assert_int_equal(config.rope.short_count, config.rope.long_count);
        assert_true(config.rope.kind != KVC_ROPE_LONGROPE || config.rope.long_count == config.head_size / 2);
        kvc_config_free(&config);
    }
    assert_true(factors > 0 && !kvc_shape_find("nosuch"));
    const struct kvc_shape nameless = {.name = "here", .hf = "nosuch"};
    struct kvc_config config;
    assert_int_equal(kvc_shape_config(&nameless, &config, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "shape here: there is no family nosuch"));
}

/* In GGUF files of Gemma's largest models, the number of layers determines the scale of the queries. */
static void scales_of_wide_models(void **state) {
    (void)state;
    static const struct {
        const char *family;
        uint64_t layers, hidden, heads, head_size;
        double scalar; /* 0: the head size */
    } models[] = {{"gemma2", 46, 4608, 32, 128, 144},
                  {"gemma2", 26, 2304, 8, 256, 0},
                  {"gemma3_text", 62, 5376, 32, 128, 168},
                  {"gemma3_text", 48, 3840, 16, 256, 0}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int gguf = 0; gguf < 2; gguf++) {
            const struct kvc_family *family = kvc_families;
            while (strcmp(family->hf, models[i].family) != 0)
                family++;
            struct kvc_config config = {.family = family,
                                        .layers = models[i].layers,
                                        .hidden = models[i].hidden,
                                        .heads = models[i].heads,
                                        .head_size = models[i].head_size,
                                        .feed_forward = 64,
                                        .vocab = 64,
                                        .score_cap = -1,
                                        .logit_cap = -1};
            if (!gguf) /* config.json specifies it */
                config.query_scalar = models[i].scalar > 0 ? models[i].scalar : (double)models[i].head_size;
            assert_int_equal(kvc_config_complete(&config, gguf == 1, "here", &error), KVC_OK);
            assert_true(config.score_scale == (models[i].scalar > 0 ? (double)(float)(1 / sqrt(models[i].scalar)) : 0));
            assert_true(config.score_cap == (i < 2 ? 50 : 0) && config.logit_cap == (i < 2 ? 30 : 0));
            kvc_config_free(&config);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_of_wide_models),     cmocka_unit_test(shapes_are_models),
        cmocka_unit_test(bad_json_values_are_named), cmocka_unit_test(files_that_are_no_config),
        cmocka_unit_test(folders_that_do_not_fit),   cmocka_unit_test(information),
        cmocka_unit_test(converted_weights),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
