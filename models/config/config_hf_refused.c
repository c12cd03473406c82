/* config_hf_refused.c - refuses config.json files with unsupported features. Uses jansson. */
#include <string.h>

#include "core/base/canon.h"
#include "models/config/config_hf.h"

/* Accepts FP8 with scales per block, row or matrix, and MXFP4 (models/files/scaled.h). */
static enum kvc_status check_quantization(const struct kvc_hf_source *in) {
    static const char *const known[] = {"fp8", "mxfp4", "fbgemm_fp8", "compressed-tensors"};
    const json_t *about = kvc_hf_get(in->root, "quantization_config");
    if (!about || json_is_false(about)) {
        return KVC_OK;
    }
    const char *method = json_string_value(kvc_hf_get(about, "quant_method")),
               *format = json_string_value(kvc_hf_get(about, "format"));
    size_t i = 0;
    while (method && i < sizeof known / sizeof *known && strcmp(method, known[i]) != 0) {
        i++;
    }
    if (!method || i == sizeof known / sizeof *known) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: quantization_config: quant_method is %.40s; fp8, fbgemm_fp8, compressed-tensors and mxfp4 "
                        "are supported",
                        in->path, method ? method : "missing");
    }
    if (i == 3 && (!format || strcmp(format, "float-quantized") != 0)) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: quantization_config: format is %.40s; of compressed-tensors float-quantized is supported",
                        in->path, format ? format : "missing");
    }
    const json_t *block = kvc_hf_get(about, "weight_block_size");
    if (block && (json_array_size(block) != 2 || json_integer_value(json_array_get(block, 0)) != 128 ||
                  json_integer_value(json_array_get(block, 1)) != 128)) {
        return kvc_fail(in->error, KVC_INPUT,
                        "%s: quantization_config: weight_block_size is not [128, 128], the only one supported",
                        in->path);
    }
    return KVC_OK;
}

/* Checks that a key, if given, has the only supported value. */
static enum kvc_status check_number(const struct kvc_hf_source *in, const char *key, double wanted) {
    const json_t *value = kvc_hf_get(in->root, key);
    if (value && !(json_is_number(value) && json_number_value(value) == wanted)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: %s must be %g", in->path, key, wanted);
    }
    return KVC_OK;
}

enum kvc_status kvc_hf_refuse(const struct kvc_hf_source *in, const struct kvc_family *family) {
    static const struct {
        const char *key;
        unsigned feature; /* families with this feature support the key */
    } keys[] = {{"mlp_only_layers", KVC_DENSE_LAYERS},
                {"n_routed_experts", 0},
                {"attn_logit_softcapping", KVC_SOFT_CAPS},
                {"final_logit_softcapping", KVC_SOFT_CAPS},
                {"kv_lora_rank", 0},
                {"q_lora_rank", 0},
                {"no_rope_layers", KVC_UNROTATED},
                {"attention_multiplier", KVC_MULTIPLIERS},
                {"embedding_multiplier", KVC_MULTIPLIERS},
                {"residual_multiplier", KVC_MULTIPLIERS},
                {"logits_scaling", KVC_MULTIPLIERS},
                {"logit_scale", KVC_LOGIT_SCALE},
                {"qk_layernorm", 0},
                {"use_qk_norm", 0},
                {"use_parallel_residual", KVC_SIDE_BY_SIDE},
                {"clip_qkv", 0},
                {"attn_temperature_tuning", 0},
                {"query_pre_attn_scalar", KVC_SCORE_SCALE},
                {"use_bidirectional_attention", 0},
                {"vision_config", 0}};
    const char *qk_norm = kvc_qk_norm_key(family);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = kvc_hf_get(in->root, keys[i].key);
        if (qk_norm && strcmp(keys[i].key, qk_norm) == 0)
            continue;
        if (value && !(keys[i].feature & family->features) && !json_is_false(value) &&
            !(json_is_number(value) && json_number_value(value) == 0) &&
            !(json_is_array(value) && json_array_size(value) == 0)) {
            return kvc_hf_unsupported(in, keys[i].key, NULL);
        }
    }
    enum kvc_status status = check_quantization(in);
    if (!status && family->clamps)
        status = check_number(in, "swiglu_limit", (double)KVC_CLAMP_LIMIT);
    if (!status && family->clamps)
        status = check_number(in, "swiglu_alpha", 1.702);
    if (status) {
        return status;
    }
    const json_t *step = kvc_hf_get(in->root, "decoder_sparse_step"); /* distance between layers with experts */
    if (step && !(family->features & KVC_DENSE_LAYERS) && !(json_is_integer(step) && json_integer_value(step) == 1)) {
        return kvc_hf_unsupported(in, "decoder_sparse_step", "other than 1");
    }
    if (family->features & KVC_NO_WINDOW && json_is_true(kvc_hf_get(in->root, "use_sliding_window"))) {
        return kvc_hf_unsupported(in, "use_sliding_window", NULL);
    }
    return KVC_OK;
}

enum kvc_status kvc_hf_check_activation(const struct kvc_hf_source *in, const struct kvc_family *family) {
    const char *wanted = family->activation == KVC_GELU ? "gelu_pytorch_tanh" : "silu";
    const char *key = kvc_hf_get(in->root, "hidden_activation") ? "hidden_activation" : "hidden_act";
    const json_t *activation = kvc_hf_get(in->root, key);
    const char *name = json_string_value(activation);
    if (name && family->activation == KVC_GELU && strcmp(name, "gelu_new") == 0) {
        return KVC_OK; /* another name of the same activation */
    }
    if (activation && (!name || strcmp(name, wanted) != 0)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: %s is %.40s; only %s is supported for %s", in->path, key,
                        name ? name : "not a string", wanted, family->hf);
    }
    return KVC_OK;
}
