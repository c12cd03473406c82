/* config.h - a model's description as numbers: filled from GGUF metadata or config.json, checked, then made into
 * rotary frequencies and a list of tensors to load. Families differ only in the rows of kvc_families. */
#ifndef KVC_MODELS_CONFIG_CONFIG_H
#define KVC_MODELS_CONFIG_CONFIG_H

#include "core/engine/network.h"
#include "models/files/gguf.h"

/* Which layers a sliding window holds for. */
enum kvc_window_kind {
    KVC_WINDOW_NONE,   /* the family knows none: the key is ignored in config.json, as transformers does */
    KVC_WINDOW_ALL,    /* every layer, when config.json gives a size */
    KVC_WINDOW_ASKED,  /* every layer, with use_sliding_window */
    KVC_WINDOW_LISTED, /* use_sliding_window with layer_types */
    KVC_WINDOW_CHOSEN  /* use_sliding_window with max_window_layers or layer_types */
};

struct kvc_family {
    const char *gguf;               /* general.architecture */
    const char *hf;                 /* model_type; a family may have several rows */
    bool interleaved;               /* GGUF files keep rotary pairs as (2i, 2i+1) */
    bool fused;                     /* q, k, v lie in one tensor; so do gate and up */
    bool qk_norm;                   /* a norm over each query and key head */
    bool whole_norm;                /* that norm is over all heads of a row at once */
    bool qkv_bias;                  /* biases of q, k, v always, whatever config.json says */
    bool attention_bias, feed_bias; /* config.json's attention_bias and mlp_bias count */
    bool su;                        /* config.json may call longrope "su" or "yarn" */
    bool experts;                   /* feed-forward networks are a choice of experts */
    bool shared;                    /* one more expert, which every row passes */
    bool block_sparse;              /* config.json's tensors of experts have Mixtral's names */
    bool normalised;                /* shares of experts are, where nothing is said */
    bool norm_topk_prob;            /* config.json says it: false where it does not */
    enum kvc_window_kind window;
    /* What transformers takes where config.json lacks the key; 0: hidden / heads, heads, none. */
    uint64_t head_size, kv_heads, sliding_window, original_context, context;
    double norm_eps;
};
extern const struct kvc_family kvc_families[]; /* ends with gguf NULL */
/* Their names in GGUF files or in config.json, for messages: "llama, qwen2, qwen3 and phi3"; text is returned. */
char *kvc_family_names(bool gguf, char *text, size_t capacity);

enum kvc_rope_kind {
    KVC_ROPE_PLAIN,
    KVC_ROPE_LINEAR,
    KVC_ROPE_LLAMA3,
    KVC_ROPE_YARN,
    KVC_ROPE_LONGROPE,
    KVC_ROPE_DIVISORS /* rope_freqs.weight other than that of the published Llama 3 models */
};
const char *kvc_rope_kind_name(enum kvc_rope_kind kind); /* "plain", "linear", ... */

/* All integers are uint64_t and all reals doubles that hold a float32, so that both formats give the same bits.
 * Zero: not given. kvc_config_complete fills in what follows from the rest. */
struct kvc_config {
    const struct kvc_family *family;
    uint64_t layers, hidden, heads, kv_heads, head_size, feed_forward, vocab, context;
    uint64_t experts, experts_used, expert_feed; /* 0 experts: one network; expert_feed: of one of them */
    uint64_t shared_feed;                        /* of the expert that every row passes; 0: there is none */
    bool shares_normalised;
    uint64_t sliding_window;
    unsigned char *sliding; /* [layers] which layers slide, or NULL: all of them when there is a window */
    double norm_eps;
    bool tied; /* the head is the embedding */
    bool qkv_bias, output_bias, feed_bias;
    struct {
        enum kvc_rope_kind kind;
        uint64_t rotary, original_context;
        double base, partial, factor, low_factor, high_factor; /* partial: rotary as a share of the head */
        double beta_fast, beta_slow, attention_factor, attention_scale, mscale, mscale_all;
        bool keep_fractions; /* yarn: do not round the ramp's ends */
        uint64_t short_count, long_count, divisor_count;
        float *short_factor, *long_factor, *divisor;
    } rope;
    int64_t bos, eos; /* -1: none */
};

/* Where the numbers lie and what they may be; gguf is the key after "<architecture>.", hf the key of config.json,
 * at the top or in rope_scaling (in newer files rope_parameters). NULL: the format has no such key. */
enum kvc_config_place { KVC_TOP, KVC_ROPE, KVC_TOP_THEN_ROPE, KVC_ROPE_THEN_TOP };
struct kvc_config_field {
    const char *gguf, *hf;
    size_t offset;
    enum kvc_config_place place;
    bool real, required; /* required in config.json; GGUF too where it has the key */
    double minimum, maximum;
};
extern const struct kvc_config_field kvc_config_fields[]; /* ends with both names NULL */

/* Checks one number against its field's range and stores it. */
enum kvc_status kvc_config_set(struct kvc_config *config, const struct kvc_config_field *field, bool gguf, double value,
                               const char *where, struct kvc_error *error);

/* Both leave nothing to free on failure. where: the file's path, for errors. */
enum kvc_status kvc_config_from_gguf(const struct kvc_gguf *file, const char *where, struct kvc_config *config,
                                     struct kvc_error *error); /* libc only */
enum kvc_status kvc_config_from_json(const char *path, struct kvc_config *config, struct kvc_error *error);
void kvc_config_free(struct kvc_config *config);

/* Fills in what follows from the rest and checks relations; errors name the format's own keys. */
enum kvc_status kvc_config_complete(struct kvc_config *config, bool gguf, const char *where, struct kvc_error *error);
/* A field's key as the format writes it: "llama.block_count" or "num_hidden_layers". Returns key. */
const char *kvc_config_key(const struct kvc_config *config, bool gguf, const struct kvc_config_field *field, char *key,
                           size_t capacity);

/* Frequencies in float32 as transformers computes them. On failure nothing is left to free. */
enum kvc_status kvc_rope_build(const struct kvc_config *config, bool interleaved, struct kvc_rope *rope,
                               struct kvc_error *error);
/* Llama 3's scaling as GGUF's rope_freqs.weight has it: divisor [rotary/2]. */
void kvc_rope_divisors(const struct kvc_config *config, float *divisor);
/* The reverse: makes divisors that are Llama 3's formula with the published parameters into these, so that frequencies
 * are computed as from config.json. Leaves others alone. */
void kvc_rope_recognise(struct kvc_config *config);
/* Turns what only config.json can say (attention_factor, mscale, Llama 3's parameters) into what GGUF says, so that
 * both formats give the same bits. Called by kvc_config_complete. */
enum kvc_status kvc_rope_unify(struct kvc_config *config, struct kvc_error *error);

#endif
