/* names.c - the tensors of the Llama family: names in GGUF and Hugging Face files, shapes, parts of a layer. */
#include "models/config/names.h"

#include <stdio.h>
#include <string.h>

#define OF(member) offsetof(struct kvc_layer, member)

/* clang-format off */
const struct kvc_matrix_name kvc_matrix_names[] = {
    {"attn_q", "self_attn.q_proj", KVC_SEPARATE, KVC_QKV_BIAS, KVC_HIDDEN, 1, {{OF(q), OF(q_bias), KVC_QUERIES}}},
    {"attn_k", "self_attn.k_proj", KVC_SEPARATE, KVC_QKV_BIAS, KVC_HIDDEN, 1, {{OF(k), OF(k_bias), KVC_KEYS}}},
    {"attn_v", "self_attn.v_proj", KVC_SEPARATE, KVC_QKV_BIAS, KVC_HIDDEN, 1, {{OF(v), OF(v_bias), KVC_KEYS}}},
    {"attn_qkv", "self_attn.qkv_proj", KVC_FUSED, KVC_QKV_BIAS, KVC_HIDDEN, 3,
     {{OF(q), OF(q_bias), KVC_QUERIES}, {OF(k), OF(k_bias), KVC_KEYS}, {OF(v), OF(v_bias), KVC_KEYS}}},
    {"attn_output", "self_attn.o_proj", KVC_ALWAYS, KVC_OUTPUT_BIAS, KVC_QUERIES, 1,
     {{OF(output), OF(output_bias), KVC_HIDDEN}}},
    {"ffn_gate", "mlp.gate_proj", KVC_SEPARATE, KVC_FEED_BIAS, KVC_HIDDEN, 1, {{OF(gate), OF(gate_bias), KVC_FEED}}},
    {"ffn_up", "mlp.up_proj", KVC_SEPARATE, KVC_FEED_BIAS, KVC_HIDDEN, 1, {{OF(up), OF(up_bias), KVC_FEED}}},
    {"ffn_up", "mlp.gate_up_proj", KVC_FUSED, KVC_FEED_BIAS, KVC_HIDDEN, 2,
     {{OF(gate), OF(gate_bias), KVC_FEED}, {OF(up), OF(up_bias), KVC_FEED}}},
    {"ffn_down", "mlp.down_proj", KVC_ALWAYS, KVC_FEED_BIAS, KVC_FEED, 1, {{OF(down), OF(down_bias), KVC_HIDDEN}}},
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

bool kvc_matrix_wanted(const struct kvc_config *config, const struct kvc_matrix_name *matrix) {
    if (matrix->when == KVC_SHARED)
        return config->shared_feed > 0;
    const bool feeds = matrix->bias == KVC_FEED_BIAS; /* experts have their own list */
    return (matrix->when == KVC_ALWAYS || (matrix->when == KVC_FUSED) == config->family->fused) &&
           !(feeds && config->experts);
}

const struct kvc_expert_name kvc_expert_names[] = {
    {"ffn_gate", "mlp.experts.%u.gate_proj", "block_sparse_moe.experts.%u.w1", KVC_EXPERT_FEED, KVC_HIDDEN, OF(gate)},
    {"ffn_up", "mlp.experts.%u.up_proj", "block_sparse_moe.experts.%u.w3", KVC_EXPERT_FEED, KVC_HIDDEN, OF(up)},
    {"ffn_down", "mlp.experts.%u.down_proj", "block_sparse_moe.experts.%u.w2", KVC_HIDDEN, KVC_EXPERT_FEED, OF(down)},
    {0},
};

const struct kvc_norm_name kvc_norm_names[] = {
    {"attn_norm", "input_layernorm", false, KVC_HIDDEN, OF(attention_norm)},
    {"ffn_norm", "post_attention_layernorm", false, KVC_HIDDEN, OF(feed_norm)},
    {"attn_q_norm", "self_attn.q_norm", true, KVC_HEAD, OF(q_norm)},
    {"attn_k_norm", "self_attn.k_norm", true, KVC_HEAD, OF(k_norm)},
    {0},
};

const char *const kvc_embedding_name[2] = {"model.embed_tokens.weight", "token_embd.weight"};
const char *const kvc_final_norm_name[2] = {"model.norm.weight", "output_norm.weight"};
const char *const kvc_head_name[2] = {"lm_head.weight", "output.weight"};

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
    /* Older files keep the frequencies, and a second copy of a tied embedding. */
    return ends_with(name, ".rotary_emb.inv_freq") || (config->tied && strcmp(name, "lm_head.weight") == 0);
}

void kvc_layer_tensor(char *name, size_t capacity, bool gguf, uint32_t layer, const char *stem, const char *suffix) {
    snprintf(name, capacity, "%s.%u.%s.%s", gguf ? "blk" : "model.layers", (unsigned)layer, stem, suffix);
}

bool kvc_norm_wanted(const struct kvc_config *config, const struct kvc_norm_name *norm) {
    return !norm->per_head || config->family->qk_norm;
}

uint64_t kvc_norm_length(const struct kvc_config *config, const struct kvc_norm_name *norm) {
    if (!norm->per_head || !config->family->whole_norm)
        return kvc_extent(config, norm->length);
    return kvc_extent(config, norm->span == OF(q_norm) ? KVC_QUERIES : KVC_KEYS);
}

const char *kvc_router_stem(bool gguf, const struct kvc_config *config) {
    return gguf ? "ffn_gate_inp" : config->family->block_sparse ? "block_sparse_moe.gate" : "mlp.gate";
}

void kvc_stack_tensor(char *name, size_t capacity, uint32_t layer, const struct kvc_expert_name *matrix) {
    snprintf(name, capacity, "blk.%u.%s_exps.weight", (unsigned)layer, matrix->gguf);
}

/* The stem with the number in place of its "%u", or behind it. */
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
