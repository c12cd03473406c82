/* names.h - names of a network's tensors in both formats, and their shapes. */
#ifndef KVC_MODELS_CONFIG_NAMES_H
#define KVC_MODELS_CONFIG_NAMES_H

#include <stddef.h>

#include "models/config/config.h"

/* Sizes used in shapes, in this order: hidden, H*d, H_kv*d, feed-forward width, width of an expert, width of the shared
 * expert, 1, H*d (doubled if queries include gates), d, vocabulary. */
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

/* The families that have a tensor: those with separate or fused q, k and v; with separate or fused gate and up; with or
 * without a gate; with a shared expert. */
enum kvc_when { KVC_SEPARATE, KVC_FUSED, KVC_FEED_SEPARATE, KVC_FEED_FUSED, KVC_GATED, KVC_UNGATED, KVC_SHARED };
enum kvc_bias_flag { KVC_QKV_BIAS, KVC_OUTPUT_BIAS, KVC_FEED_BIAS }; /* flag that says whether the tensor has a bias */

/* A matrix of each layer, "<stem>.weight", with an optional "<stem>.bias". A fused matrix consists of several parts,
 * each a range of rows. */
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
extern const struct kvc_matrix_name kvc_matrix_names[]; /* the last row's gguf is NULL */
/* kvc_has_matrix returns true if the layer has the matrix. kvc_has_bias returns true if matrices with this flag have a
 * bias. */
bool kvc_has_matrix(const struct kvc_config *config, uint32_t layer, const struct kvc_matrix_name *matrix);
bool kvc_has_bias(const struct kvc_config *config, enum kvc_bias_flag bias);

/* A norm of each layer, "<stem>.weight". */
struct kvc_norm_name {
    const char *gguf, *hf;
    unsigned qk;    /* bits 1 << enum kvc_qk_norm: kinds of models with this norm; 0: not a norm of queries or keys */
    unsigned norms; /* bits 1 << enum kvc_norms: kinds of families with this norm; 0: all */
    enum kvc_extent length;
    size_t span, bias; /* offsets in struct kvc_layer; bias 0: never has a bias */
};
extern const struct kvc_norm_name kvc_norm_names[]; /* the last row's gguf is NULL */
/* kvc_has_norm returns true if the model has the norm. kvc_has_norm_bias returns true if the norm has a bias. */
bool kvc_has_norm(const struct kvc_config *config, const struct kvc_norm_name *norm);
bool kvc_has_norm_bias(const struct kvc_config *config, const struct kvc_norm_name *norm);
/* Returns the number of the norm's rows. Each row has kvc_norm_length weights. There is more than one row if each head
 * has its own weights. */
uint64_t kvc_norm_rows(const struct kvc_config *config, const struct kvc_norm_name *norm);

/* A matrix that each expert of a layer has. GGUF files stack all experts in one tensor [experts, outputs, inputs].
 * Hugging Face files, and the first GGUF files of Mixtral, have a tensor for each expert. */
struct kvc_expert_name {
    const char *gguf, *hf;
    const char *block_sparse; /* Mixtral's name in Hugging Face files */
    enum kvc_extent outputs, inputs;
    const char *stack;   /* name in folders that stack the experts, too (models/files/split_experts.c) */
    size_t weight, bias; /* offsets in struct kvc_layer */
};
extern const struct kvc_expert_name kvc_expert_names[]; /* the last row's gguf is NULL */
/* Write a tensor's name. kvc_stack_tensor: "blk.3.ffn_up_exps.weight" or "model.layers.3.mlp.experts.up_proj"; with
 * bias "blk.3.ffn_up_exps.bias" or "model.layers.3.mlp.experts.up_proj_bias". kvc_expert_tensor:
 * "blk.3.ffn_up.7.weight" or "model.layers.3.mlp.experts.7.up_proj.weight". */
void kvc_stack_tensor(char *name, size_t capacity, bool gguf, uint32_t layer, const struct kvc_expert_name *matrix,
                      bool bias);
void kvc_expert_tensor(char *name, size_t capacity, bool gguf, const struct kvc_config *config, uint32_t layer,
                       const struct kvc_expert_name *matrix, uint32_t expert);
/* Writes the name of one head's norm, if each head has a tensor:
 * "model.layers.3.self_attn.q_layernorm.norms.7.weight". */
void kvc_head_norm_tensor(char *name, size_t capacity, uint32_t layer, const struct kvc_norm_name *norm, uint32_t head);
/* Writes the name of the layer's attention sinks. */
void kvc_sinks_tensor(char *name, size_t capacity, bool gguf, uint32_t layer);
/* Writes the name of a delta net's vector: the factors of the decays (if `rate` is true), or the biases of the
 * decays. */
void kvc_delta_vector(char *name, size_t capacity, bool gguf, uint32_t layer, bool rate);
/* Returns the router's name without ".weight". */
const char *kvc_router_stem(bool gguf, const struct kvc_config *config);

/* Tensors outside the layers. */
extern const char *const kvc_embedding_name[2], *const kvc_head_name[2], *const kvc_head_bias_name[2]; /* [gguf] */
const char *kvc_final_norm_name(const struct kvc_config *config, bool gguf, bool bias);
/* Returns the length of a norm: hidden size, head size, or all heads together. */
uint64_t kvc_norm_length(const struct kvc_config *config, const struct kvc_norm_name *norm);

/* Returns true for tensors that files may contain but kvcull computes itself or does not need. */
bool kvc_tensor_ignored(const char *name, bool gguf, const struct kvc_config *config);

/* Writes the name of a layer's tensor: "blk.3.attn_q.weight" or "model.layers.3.self_attn.q_proj.weight". */
void kvc_layer_tensor(char *name, size_t capacity, bool gguf, uint32_t layer, const char *stem, const char *suffix);

#endif
