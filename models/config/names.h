/* names.h - what the tensors of a network are called in both formats, and their shapes. */
#ifndef KVC_MODELS_CONFIG_NAMES_H
#define KVC_MODELS_CONFIG_NAMES_H

#include <stddef.h>

#include "models/config/config.h"

/* Sizes that shapes are made of: hidden, H*d, H_kv*d, feed-forward (of an expert, of the shared one), 1, H*d and with
 * gates twice as many, d, vocabulary. */
enum kvc_extent {
    KVC_HIDDEN,
    KVC_QUERIES,
    KVC_KEYS,
    KVC_FEED,
    KVC_EXPERT_FEED,
    KVC_SHARED_FEED,
    KVC_ONE,
    KVC_QUERY_ROWS,
    KVC_HEAD,
    KVC_VOCAB
};
uint64_t kvc_extent(const struct kvc_config *config, enum kvc_extent extent);

/* Families that have the tensor: those whose q, k, v are separate, or in one; whose gate and up are separate, or in
 * one; that have a gate, or none; that have a shared expert. */
enum kvc_when { KVC_SEPARATE, KVC_FUSED, KVC_FEED_SEPARATE, KVC_FEED_FUSED, KVC_GATED, KVC_UNGATED, KVC_SHARED };
enum kvc_bias_flag { KVC_QKV_BIAS, KVC_OUTPUT_BIAS, KVC_FEED_BIAS }; /* the flag that says whether it has a bias */

/* A matrix of each layer, "<stem>.weight", perhaps with "<stem>.bias"; row slices of a fused one are parts. */
struct kvc_matrix_name {
    const char *gguf, *hf;
    enum kvc_when when;
    enum kvc_bias_flag bias;
    enum kvc_extent inputs;
    unsigned parts;
    struct {
        size_t weight, bias; /* offsets in struct kvc_layer */
        enum kvc_extent outputs;
    } part[3];
};
extern const struct kvc_matrix_name kvc_matrix_names[]; /* ends with gguf NULL */
/* Whether the layer has the matrix; whether that has a bias. */
bool kvc_has_matrix(const struct kvc_config *config, uint32_t layer, const struct kvc_matrix_name *matrix);
bool kvc_has_bias(const struct kvc_config *config, enum kvc_bias_flag bias);

/* A norm of each layer, "<stem>.weight". */
struct kvc_norm_name {
    const char *gguf, *hf;
    unsigned qk;    /* bits 1 << enum kvc_qk_norm: of models with one of these; 0: not of queries or keys */
    unsigned norms; /* bits 1 << enum kvc_norms: of families with one of these; 0: of all */
    enum kvc_extent length;
    size_t span, bias; /* offsets in struct kvc_layer; bias 0: it never has one */
};
extern const struct kvc_norm_name kvc_norm_names[]; /* ends with gguf NULL */
/* Whether the model has the norm; a bias beside it. */
bool kvc_has_norm(const struct kvc_config *config, const struct kvc_norm_name *norm);
bool kvc_has_norm_bias(const struct kvc_config *config, const struct kvc_norm_name *norm);
/* Its rows, each of kvc_norm_length weights: more than one where heads have weights of their own. */
uint64_t kvc_norm_rows(const struct kvc_config *config, const struct kvc_norm_name *norm);

/* A matrix that each expert of a layer has. In GGUF files those of all experts are one tensor [experts, outputs,
 * inputs]; in Hugging Face files, and in the first GGUF files of Mixtral, each is a tensor of its own. */
struct kvc_expert_name {
    const char *gguf, *hf;
    const char *block_sparse; /* Mixtral's hf */
    enum kvc_extent outputs, inputs;
    const char *stack;   /* in folders whose experts are stacks too (models/files/split_experts.c) */
    size_t weight, bias; /* offsets in struct kvc_layer */
};
extern const struct kvc_expert_name kvc_expert_names[]; /* ends with gguf NULL */
/* "blk.3.ffn_up_exps.weight" or "model.layers.3.mlp.experts.up_proj", of their biases "blk.3.ffn_up_exps.bias" or
 * "model.layers.3.mlp.experts.up_proj_bias"; and of one expert "blk.3.ffn_up.7.weight" or
 * "model.layers.3.mlp.experts.7.up_proj.weight". */
void kvc_stack_tensor(char *name, size_t capacity, bool gguf, uint32_t layer, const struct kvc_expert_name *matrix,
                      bool bias);
void kvc_expert_tensor(char *name, size_t capacity, bool gguf, const struct kvc_config *config, uint32_t layer,
                       const struct kvc_expert_name *matrix, uint32_t expert);
/* Of one head's norm, where each is a tensor: "model.layers.3.self_attn.q_layernorm.norms.7.weight". */
void kvc_head_norm_tensor(char *name, size_t capacity, uint32_t layer, const struct kvc_norm_name *norm, uint32_t head);
/* Of the layer's attention sinks. */
void kvc_sinks_tensor(char *name, size_t capacity, bool gguf, uint32_t layer);
/* Of a delta net: what its decays are multiplied by (rate), or what is added to them before. */
void kvc_delta_vector(char *name, size_t capacity, bool gguf, uint32_t layer, bool rate);
/* The router's, without ".weight". */
const char *kvc_router_stem(bool gguf, const struct kvc_config *config);

/* The network's own tensors. */
extern const char *const kvc_embedding_name[2], *const kvc_head_name[2], *const kvc_head_bias_name[2]; /* [gguf] */
const char *kvc_final_norm_name(const struct kvc_config *config, bool gguf, bool bias);
/* Of what one norm is over: hidden states, a head, or all heads. */
uint64_t kvc_norm_length(const struct kvc_config *config, const struct kvc_norm_name *norm);

/* A tensor that files may hold and that this engine computes itself or does not need. */
bool kvc_tensor_ignored(const char *name, bool gguf, const struct kvc_config *config);

/* "blk.3.attn_q.weight" or "model.layers.3.self_attn.q_proj.weight". */
void kvc_layer_tensor(char *name, size_t capacity, bool gguf, uint32_t layer, const char *stem, const char *suffix);

#endif
