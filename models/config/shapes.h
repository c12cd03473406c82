/* shapes.h - real model geometries by name, for models with random weights. libc only. */
#ifndef KVC_MODELS_CONFIG_SHAPES_H
#define KVC_MODELS_CONFIG_SHAPES_H

#include "models/config/config.h"

struct kvc_shape {
    const char *name, *summary;
    const char *hf; /* model_type of the family */
    uint32_t layers, hidden, heads, kv_heads, head_size, feed_forward, vocab, context, window;
    bool tied;
    float norm_eps, base;
    enum kvc_rope_kind rope; /* plain, llama3 (with factor) or longrope */
    float factor;
    uint32_t original_context;
    const char *pre; /* name of the byte-level pre-tokenizer; NULL: SentencePiece */
    uint32_t experts, experts_used;
};

const struct kvc_shape *kvc_shape_find(const char *name); /* NULL: none */
/* Fills in config. Free it with kvc_config_free. */
enum kvc_status kvc_shape_config(const struct kvc_shape *shape, struct kvc_config *config, struct kvc_error *error);

#endif
