/* names.h - what the tensors of a network are called in both formats, and their shapes. */
#ifndef KVC_MODELS_CONFIG_NAMES_H
#define KVC_MODELS_CONFIG_NAMES_H

#include <stddef.h>

#include "models/config/config.h"

/* Sizes that shapes are made of: hidden, H*d, H_kv*d, feed-forward, d, vocabulary. */
enum kvc_extent { KVC_HIDDEN, KVC_QUERIES, KVC_KEYS, KVC_FEED, KVC_HEAD, KVC_VOCAB };
uint64_t kvc_extent(const struct kvc_config *config, enum kvc_extent extent);

/* Families that have the tensor: those whose q, k, v are separate, or in one; whose gate and up are separate, or in
 * one; that have a gate, or none. */
enum kvc_when { KVC_SEPARATE, KVC_FUSED, KVC_FEED_SEPARATE, KVC_FEED_FUSED, KVC_GATED, KVC_UNGATED };
enum kvc_bias { KVC_QKV_BIAS, KVC_OUTPUT_BIAS, KVC_FEED_BIAS }; /* the flag that says whether it has a bias */

/* A matrix of each layer, "<stem>.weight", perhaps with "<stem>.bias"; row slices of a fused one are parts. */
struct kvc_matrix_name {
    const char *gguf, *hf;
    enum kvc_when when;
    enum kvc_bias bias;
    enum kvc_extent inputs;
    unsigned parts;
    struct {
        size_t weight, bias; /* offsets in struct kvc_layer */
        enum kvc_extent outputs;
    } part[3];
};
extern const struct kvc_matrix_name kvc_matrix_names[]; /* ends with gguf NULL */
/* Whether the family has the matrix; whether that has a bias. */
bool kvc_has_matrix(const struct kvc_config *config, const struct kvc_matrix_name *matrix);
bool kvc_has_bias(const struct kvc_config *config, enum kvc_bias bias);

/* A norm of each layer, "<stem>.weight". */
struct kvc_norm_name {
    const char *gguf, *hf;
    bool per_head;  /* of families with q/k norms */
    unsigned norms; /* bits 1 << enum kvc_norms: of families with one of these; 0: of all */
    enum kvc_extent length;
    size_t span, bias; /* offsets in struct kvc_layer; bias 0: it never has one */
};
extern const struct kvc_norm_name kvc_norm_names[]; /* ends with gguf NULL */
/* Whether the family has the norm. */
bool kvc_has_norm(const struct kvc_config *config, const struct kvc_norm_name *norm);

/* The network's own tensors. */
extern const char *const kvc_embedding_name[2], *const kvc_head_name[2], *const kvc_head_bias_name[2]; /* [gguf] */
const char *kvc_final_norm_name(const struct kvc_config *config, bool gguf, bool bias);
/* Of a norm or, where the norm is over all heads, of these. */
uint64_t kvc_norm_length(const struct kvc_config *config, const struct kvc_norm_name *norm);

/* A tensor that files may hold and that this engine computes itself or does not need. */
bool kvc_tensor_ignored(const char *name, bool gguf, const struct kvc_config *config);

/* "blk.3.attn_q.weight" or "model.layers.3.self_attn.q_proj.weight". */
void kvc_layer_tensor(char *name, size_t capacity, bool gguf, uint32_t layer, const char *stem, const char *suffix);

#endif
