/* names.c - the tensors of the Llama family: names in GGUF and Hugging Face files, shapes, parts of a layer. */
#include "models/config/names.h"

#include <stdio.h>
#include <string.h>

#define OF(member) offsetof(struct kvc_layer, member)

/* clang-format off */
const struct kvc_matrix_name kvc_matrix_names[] = {
    {"attn_q", "self_attn.q_proj", KVC_SEPARATE, KVC_QKV_BIAS, KVC_HIDDEN, 1, {{OF(q), OF(q_bias), KVC_QUERY_ROWS}}},
    {"attn_k", "self_attn.k_proj", KVC_SEPARATE, KVC_QKV_BIAS, KVC_HIDDEN, 1, {{OF(k), OF(k_bias), KVC_KEYS}}},
    {"attn_v", "self_attn.v_proj", KVC_SEPARATE, KVC_QKV_BIAS, KVC_HIDDEN, 1, {{OF(v), OF(v_bias), KVC_KEYS}}},
    {"attn_qkv", "self_attn.qkv_proj", KVC_FUSED, KVC_QKV_BIAS, KVC_HIDDEN, 3,
     {{OF(q), OF(q_bias), KVC_QUERIES}, {OF(k), OF(k_bias), KVC_KEYS}, {OF(v), OF(v_bias), KVC_KEYS}}},
    {"attn_output", "self_attn.o_proj", KVC_GATED, KVC_OUTPUT_BIAS, KVC_QUERIES, 1,
     {{OF(output), OF(output_bias), KVC_HIDDEN}}},
    {"attn_output", "self_attn.dense", KVC_UNGATED, KVC_OUTPUT_BIAS, KVC_QUERIES, 1,
     {{OF(output), OF(output_bias), KVC_HIDDEN}}},
    {"ffn_gate", "mlp.gate_proj", KVC_FEED_SEPARATE, KVC_FEED_BIAS, KVC_HIDDEN, 1, {{OF(gate), OF(gate_bias), KVC_FEED}}},
    {"ffn_up", "mlp.up_proj", KVC_FEED_SEPARATE, KVC_FEED_BIAS, KVC_HIDDEN, 1, {{OF(up), OF(up_bias), KVC_FEED}}},
    {"ffn_up", "mlp.gate_up_proj", KVC_FEED_FUSED, KVC_FEED_BIAS, KVC_HIDDEN, 2,
     {{OF(gate), OF(gate_bias), KVC_FEED}, {OF(up), OF(up_bias), KVC_FEED}}},
    {"ffn_down", "mlp.down_proj", KVC_GATED, KVC_FEED_BIAS, KVC_FEED, 1, {{OF(down), OF(down_bias), KVC_HIDDEN}}},
    {"ffn_up", "mlp.fc1", KVC_UNGATED, KVC_FEED_BIAS, KVC_HIDDEN, 1, {{OF(gate), OF(gate_bias), KVC_FEED}}},
    {"ffn_down", "mlp.fc2", KVC_UNGATED, KVC_FEED_BIAS, KVC_FEED, 1, {{OF(down), OF(down_bias), KVC_HIDDEN}}},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate", KVC_SHARED, KVC_FEED_BIAS, KVC_HIDDEN, 1,
     {{OF(shared_router), OF(down_bias), KVC_ONE}}},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj", KVC_SHARED, KVC_FEED_BIAS, KVC_HIDDEN, 1,
     {{OF(shared_gate), OF(gate_bias), KVC_SHARED_FEED}}},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj", KVC_SHARED, KVC_FEED_BIAS, KVC_HIDDEN, 1,
     {{OF(shared_up), OF(up_bias), KVC_SHARED_FEED}}},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj", KVC_SHARED, KVC_FEED_BIAS, KVC_SHARED_FEED, 1,
     {{OF(shared_down), OF(down_bias), KVC_HIDDEN}}},
    {0},
};
/* clang-format on */

const struct kvc_expert_name kvc_expert_names[] = {
    {"ffn_gate", "mlp.experts.%u.gate_proj", "block_sparse_moe.experts.%u.w1", KVC_EXPERT_FEED, KVC_HIDDEN, "gate_proj",
     OF(gate), OF(gate_bias)},
    {"ffn_up", "mlp.experts.%u.up_proj", "block_sparse_moe.experts.%u.w3", KVC_EXPERT_FEED, KVC_HIDDEN, "up_proj",
     OF(up), OF(up_bias)},
    {"ffn_down", "mlp.experts.%u.down_proj", "block_sparse_moe.experts.%u.w2", KVC_HIDDEN, KVC_EXPERT_FEED, "down_proj",
     OF(down), OF(down_bias)},
    {0},
};

#define BIT(norms) (1u << KVC_NORMS_##norms)
#define QK(kind) (1u << KVC_QK_##kind)
#define INPUT BIT(BEFORE) | BIT(POST) | BIT(AROUND) | BIT(GLM) | BIT(ONE)

/* clang-format off */
const struct kvc_norm_name kvc_norm_names[] = {
    {"attn_norm", "input_layernorm", 0, INPUT, KVC_HIDDEN, OF(attention_norm), OF(attention_norm_bias)},
    {"ffn_norm", "post_attention_layernorm", 0, BIT(BEFORE) | BIT(GLM), KVC_HIDDEN, OF(feed_norm),
     OF(feed_norm_bias)},
    {"post_attention_norm", "post_attention_layernorm", 0, BIT(POST), KVC_HIDDEN, OF(feed_norm), 0},
    {"ffn_norm", "pre_feedforward_layernorm", 0, BIT(AROUND), KVC_HIDDEN, OF(feed_norm), 0},
    {"post_attention_norm", "post_attention_layernorm", 0, BIT(AROUND) | BIT(AFTER), KVC_HIDDEN,
     OF(attention_after), 0},
    {"post_attention_norm", "post_self_attn_layernorm", 0, BIT(GLM), KVC_HIDDEN, OF(attention_after), 0},
    {"post_ffw_norm", "post_feedforward_layernorm", 0, BIT(AROUND) | BIT(AFTER), KVC_HIDDEN, OF(feed_after), 0},
    {"post_ffw_norm", "post_mlp_layernorm", 0, BIT(GLM), KVC_HIDDEN, OF(feed_after), 0},
    {"attn_q_norm", "self_attn.q_norm", QK(ALIKE) | QK(WHOLE) | QK(EACH), 0, KVC_QUERIES, OF(q_norm), 0},
    {"attn_k_norm", "self_attn.k_norm", QK(ALIKE) | QK(WHOLE) | QK(EACH), 0, KVC_KEYS, OF(k_norm), 0},
    {"attn_q_norm", "self_attn.q_layernorm.norms", QK(SPLIT), 0, KVC_QUERIES, OF(q_norm), 0},
    {"attn_k_norm", "self_attn.k_layernorm.norms", QK(SPLIT), 0, KVC_KEYS, OF(k_norm), 0},
    {"attn_q_norm", "self_attn.q_layernorm", QK(BIASED), 0, KVC_QUERIES, OF(q_norm), OF(q_norm_bias)},
    {"attn_k_norm", "self_attn.k_layernorm", QK(BIASED), 0, KVC_KEYS, OF(k_norm), OF(k_norm_bias)},
    {0},
};
/* clang-format on */

bool kvc_has_norm(const struct kvc_config *config, const struct kvc_norm_name *norm) {
    return norm->qk ? norm->qk >> config->qk_norm & 1 : norm->norms >> config->norms & 1;
}

bool kvc_has_norm_bias(const struct kvc_config *config, const struct kvc_norm_name *norm) {
    return config->family->norm_bias && norm->bias;
}

uint64_t kvc_norm_rows(const struct kvc_config *config, const struct kvc_norm_name *norm) {
    const bool each = norm->qk && (config->qk_norm == KVC_QK_EACH || config->qk_norm == KVC_QK_SPLIT);
    return each ? kvc_extent(config, norm->length) / config->head_size : 1;
}

uint64_t kvc_norm_length(const struct kvc_config *config, const struct kvc_norm_name *norm) {
    return norm->qk && config->qk_norm != KVC_QK_WHOLE ? config->head_size : kvc_extent(config, norm->length);
}

bool kvc_has_matrix(const struct kvc_config *config, uint32_t layer, const struct kvc_matrix_name *matrix) {
    const struct kvc_family *family = config->family;
    const bool chooses = kvc_config_chooses(config, layer);
    const bool one = family->fused || family->fused_feed, feed = matrix->bias == KVC_FEED_BIAS;
    if (kvc_config_recurs(config, layer) && !feed) /* attention tensors of delta nets are in models/network_delta.c */
        return false;
    if (chooses && feed && matrix->when != KVC_SHARED) /* expert tensors have their own list */
        return false;
    switch (matrix->when) {
    case KVC_SEPARATE:
        return !config->fused;
    case KVC_FUSED:
        return config->fused;
    case KVC_FEED_SEPARATE:
        return !one && !family->ungated;
    case KVC_FEED_FUSED:
        return one;
    case KVC_GATED:
        return !family->ungated;
    case KVC_UNGATED:
        return family->ungated;
    case KVC_SHARED:
        return chooses && config->shared_feed > 0;
    }
    return false;
}

bool kvc_has_bias(const struct kvc_config *config, enum kvc_bias_flag bias) {
    return bias == KVC_QKV_BIAS ? config->qkv_bias : bias == KVC_OUTPUT_BIAS ? config->output_bias : config->feed_bias;
}

const char *kvc_final_norm_name(const struct kvc_config *config, bool gguf, bool bias) {
    if (gguf)
        return bias ? "output_norm.bias" : "output_norm.weight";
    if (config->family->ungated)
        return bias ? "model.final_layernorm.bias" : "model.final_layernorm.weight";
    return bias ? "model.norm.bias" : "model.norm.weight";
}

const char *const kvc_embedding_name[2] = {"model.embed_tokens.weight", "token_embd.weight"};
const char *const kvc_head_name[2] = {"lm_head.weight", "output.weight"};
const char *const kvc_head_bias_name[2] = {"lm_head.bias", "output.bias"};

uint64_t kvc_extent(const struct kvc_config *config, enum kvc_extent extent) {
    switch (extent) {
    case KVC_HIDDEN:
        return config->hidden;
    case KVC_QUERIES:
        return config->heads * config->head_size;
    case KVC_KEYS:
        return config->kv_heads * config->head_size;
    case KVC_FEED:
        return config->feed_forward;
    case KVC_EXPERT_FEED:
        return config->expert_feed;
    case KVC_SHARED_FEED:
        return config->shared_feed;
    case KVC_ONE:
        return 1;
    case KVC_QUERY_ROWS:
        return config->heads * config->head_size * (config->family->gated_attention ? 2 : 1);
    case KVC_HEAD:
        return config->head_size;
    case KVC_VOCAB:
        return config->vocab;
    }
    return 0;
}

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

bool kvc_tensor_ignored(const char *name, bool gguf, const struct kvc_config *config) {
    if (gguf) { /* factors of rotary frequencies, read with the metadata */
        return strcmp(name, "rope_freqs.weight") == 0 || strcmp(name, "rope_factors_short.weight") == 0 ||
               strcmp(name, "rope_factors_long.weight") == 0;
    }
    if (config->family->nested &&
        (strncmp(name, "vision_tower.", 13) == 0 || strncmp(name, "multi_modal_projector.", 22) == 0 ||
         strncmp(name, "model.vision_tower.", 19) == 0 || strncmp(name, "model.multi_modal_projector.", 28) == 0)) {
        return true; /* images are not supported */
    }
    if (kvc_config_knows(config, KVC_DELTA) &&
        (strncmp(name, "mtp.", 4) == 0 || strncmp(name, "model.visual.", 13) == 0)) {
        return true; /* vision and multi-token prediction are not supported */
    }
    /* Older files store the rotary frequencies and a second copy of a tied embedding. FP8 files store scales for
     * activations, which kvcull does not quantize. */
    return ends_with(name, ".rotary_emb.inv_freq") || (config->tied && ends_with(name, "lm_head.weight")) ||
           ends_with(name, ".input_scale") || ends_with(name, ".input_scale_ub");
}

void kvc_layer_tensor(char *name, size_t capacity, bool gguf, uint32_t layer, const char *stem, const char *suffix) {
    snprintf(name, capacity, "%s.%u.%s.%s", gguf ? "blk" : "model.layers", (unsigned)layer, stem, suffix);
}

const char *kvc_router_stem(bool gguf, const struct kvc_config *config) {
    if (gguf)
        return "ffn_gate_inp";
    return config->family->block_sparse ? "block_sparse_moe.gate" : config->family->stacked ? "mlp.router" : "mlp.gate";
}

void kvc_sinks_tensor(char *name, size_t capacity, bool gguf, uint32_t layer) {
    snprintf(name, capacity, gguf ? "blk.%u.attn_sinks.weight" : "model.layers.%u.self_attn.sinks", (unsigned)layer);
}

void kvc_delta_vector(char *name, size_t capacity, bool gguf, uint32_t layer, bool rate) {
    if (gguf)
        snprintf(name, capacity, "blk.%u.%s", (unsigned)layer, rate ? "ssm_a" : "ssm_dt.bias");
    else
        snprintf(name, capacity, "model.layers.%u.linear_attn.%s", (unsigned)layer, rate ? "A_log" : "dt_bias");
}

void kvc_head_norm_tensor(char *name, size_t capacity, uint32_t layer, const struct kvc_norm_name *norm,
                          uint32_t head) {
    snprintf(name, capacity, "model.layers.%u.%s.%u.weight", (unsigned)layer, norm->hf, (unsigned)head);
}

void kvc_stack_tensor(char *name, size_t capacity, bool gguf, uint32_t layer, const struct kvc_expert_name *matrix,
                      bool bias) {
    if (gguf)
        snprintf(name, capacity, "blk.%u.%s_exps.%s", (unsigned)layer, matrix->gguf, bias ? "bias" : "weight");
    else
        snprintf(name, capacity, "model.layers.%u.mlp.experts.%s%s", (unsigned)layer, matrix->stack,
                 bias ? "_bias" : "");
}

/* Writes the stem with the expert's number in place of "%u", or appended if there is no "%u". */
void kvc_expert_tensor(char *name, size_t capacity, bool gguf, const struct kvc_config *config, uint32_t layer,
                       const struct kvc_expert_name *matrix, uint32_t expert) {
    const char *stem = gguf ? matrix->gguf : config->family->block_sparse ? matrix->block_sparse : matrix->hf;
    const char *number = strstr(stem, "%u");
    char text[64];
    snprintf(text, sizeof text, "%.*s%u%s", number ? (int)(number - stem) : 0, stem, (unsigned)expert,
             number ? number + 2 : "");
    if (!number)
        snprintf(text, sizeof text, "%s.%u", stem, (unsigned)expert);
    kvc_layer_tensor(name, capacity, gguf, layer, text, "weight");
}
