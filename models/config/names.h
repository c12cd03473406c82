/* names.h - what the tensors of a network are called in both formats, and their shapes. */
#ifndef KVC_MODELS_CONFIG_NAMES_H
#define KVC_MODELS_CONFIG_NAMES_H

#include <stddef.h>

#include "models/config/config.h"

/* Sizes that shapes are made of: hidden, H*d, H_kv*d, feed-forward, d, vocabulary. */
enum kvc_extent { KVC_HIDDEN, KVC_QUERIES, KVC_KEYS, KVC_FEED, KVC_HEAD, KVC_VOCAB };
uint64_t kvc_extent(const struct kvc_config *config, enum kvc_extent extent);

enum kvc_when { KVC_ALWAYS, KVC_SEPARATE, KVC_FUSED };          /* families that have the tensor */
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

/* A norm of each layer, "<stem>.weight". */
struct kvc_norm_name {
    const char *gguf, *hf;
    bool per_head;  /* of families with q/k norms */
    unsigned norms; /* bits 1 << enum kvc_norms: of families with one of these; 0: of all */
    enum kvc_extent length;
    size_t span; /* offset in struct kvc_layer */
};
extern const struct kvc_norm_name kvc_norm_names[]; /* ends with gguf NULL */
/* Whether the family has the norm. */
bool kvc_has_norm(const struct kvc_config *config, const struct kvc_norm_name *norm);

/* The network's own tensors. */
extern const char *const kvc_embedding_name[2], *const kvc_final_norm_name[2], *const kvc_head_name[2]; /* [gguf] */

/* A tensor that files may hold and that this engine computes itself or does not need. */
bool kvc_tensor_ignored(const char *name, bool gguf, const struct kvc_config *config);

/* "blk.3.attn_q.weight" or "model.layers.3.self_attn.q_proj.weight". */
void kvc_layer_tensor(char *name, size_t capacity, bool gguf, uint32_t layer, const char *stem, const char *suffix);

#endif
