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
    KVC_WINDOW_CHOSEN, /* use_sliding_window with max_window_layers or layer_types */
    KVC_WINDOW_PATTERN /* all but every n-th layer, or layer_types */
};

/* Norms that a layer has. */
enum kvc_norms {
    KVC_NORMS_BEFORE, /* of what goes into the attention and the feed-forward network */
    KVC_NORMS_POST,   /* the same; GGUF files call the second post_attention_norm */
    KVC_NORMS_AROUND, /* of these, and of what comes out */
    KVC_NORMS_GLM,    /* as around, by other names */
    KVC_NORMS_AFTER,  /* of what comes out */
    KVC_NORMS_ONE     /* of what goes into both, which stand side by side */
};

/* Norms of queries and keys, by how their weights lie. */
enum kvc_qk_norm {
    KVC_QK_NONE,
    KVC_QK_ALIKE, /* [d], for every head */
    KVC_QK_WHOLE, /* [heads*d]: one norm over all heads */
    KVC_QK_EACH,  /* [heads, d]; of models that have them: this and what follows */
    KVC_QK_SPLIT, /* the same, in folders a tensor for each head */
    KVC_QK_BIASED /* [d], and a bias [d] */
};

/* Keys that only some families know; others are refused for them. As bits. */
enum kvc_config_feature {
    KVC_SOFT_CAPS = 1,
    KVC_SCORE_SCALE = 2,
    KVC_LOCAL_ROPE = 4,  /* layers with a window have a rope of their own */
    KVC_MULTIPLIERS = 8, /* of embeddings, scores, what layers add, logits */
    KVC_LOGIT_SCALE = 16,
    KVC_LAYER_NORM = 32,    /* norms take the mean away first */
    KVC_UNROTATED = 64,     /* some layers do not rotate */
    KVC_NO_WINDOW = 128,    /* a window, which others ignore, is refused */
    KVC_SIDE_BY_SIDE = 256, /* use_parallel_residual makes its norms KVC_NORMS_ONE */
    KVC_DENSE_LAYERS = 512, /* some layers have one network in place of experts */
    KVC_DELTA = 1024        /* most layers are gated delta nets */
};

struct kvc_family {
    const char *gguf; /* general.architecture */
    const char *hf;   /* model_type; a family may have several rows */

    const char *models, *apart; /* as in struct kvc_model_family */

    bool interleaved; /* GGUF files keep rotary pairs as (2i, 2i+1) */
    bool fused;       /* q, k, v lie in one tensor; so do gate and up */
    bool may_fuse;    /* q, k, v do in some GGUF files */
    bool fused_feed;  /* gate and up alone do */
    bool pairs;       /* both formats keep rotary pairs as (2i, 2i+1) */
    bool ungated;     /* fc1 and fc2 in place of gate, up and down */
    bool norm_bias, head_bias;
    const char *qkv_bias_key;       /* of config.json: a flag for q, k, v alone; where it is missing: qkv_bias */
    enum kvc_qk_norm qk_norm;       /* of its models, or of some */
    bool qkv_bias;                  /* biases of q, k, v always, whatever config.json says */
    bool attention_bias, feed_bias; /* config.json's attention_bias and mlp_bias count */
    bool su;                        /* config.json may call longrope "su" or "yarn" */
    bool nested;                    /* config.json has the language model's keys in text_config */
    bool norm_plus_one;             /* Hugging Face files hold w of norms that multiply by 1 + w; GGUF files 1 + w */
    bool scaled_embedding;          /* by sqrt(hidden) */
    bool tied;                      /* where config.json does not say */
    enum kvc_norms norms;
    enum kvc_activation activation;
    unsigned features;    /* of enum kvc_config_feature */
    bool experts;         /* feed-forward networks are a choice of experts */
    bool shared;          /* one more expert, which every row passes */
    bool block_sparse;    /* config.json's tensors of experts have Mixtral's names */
    bool normalised;      /* shares of experts are, where nothing is said */
    bool stacked;         /* config.json's folders have one tensor for all experts of a layer; they have biases */
    bool sinks;           /* of attention */
    bool clamps;          /* config.json's swiglu_limit and swiglu_alpha must be those of canon.h */
    bool output_bias;     /* of o as of q, k, v, where config.json's attention_bias says nothing */
    bool keep_fractions;  /* GGUF: yarn does not round its ramp's ends; config.json says it, and how rope scales */
    bool norm_topk_prob;  /* config.json says it: false where it does not */
    bool gated_attention; /* q has as many rows more, head by head, of what the output is gated by */
    bool delta_grouped;   /* both formats keep what a delta net projects beside each key head */
    bool delta_tiled;     /* value head h has key head h % key heads: GGUF files have them so, folders come in order */
    uint64_t attention_every; /* every so many-th layer has attention, where files do not say; the others delta nets */
    enum kvc_window_kind window;
    uint64_t pattern;     /* every pattern-th layer has no window, where files do not say */
    uint64_t wide_layers; /* GGUF: a model of so many layers has queries scaled by hidden / heads, not by head size */
    /* What transformers takes where config.json lacks the key; 0: hidden / heads, heads, none. */
    uint64_t heads, head_size, kv_heads, vocab, sliding_window, original_context, context;
    double norm_eps, base, query_scalar;
    double partial, logit_scale;
    bool local_unscaled;                     /* layers with a window rotate as the others do without scaling */
    uint64_t unrotated;                      /* every so many-th layer does not rotate, where files do not say */
    double local_base, score_cap, logit_cap; /* GGUF files may lack these too */
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
    bool routing_normalized;
    unsigned char *dense; /* [layers] which layers have one network in place of experts, or NULL: none has */
    uint64_t sliding_window;
    unsigned char *sliding; /* [layers] which layers slide, or NULL: all of them when there is a window */
    double norm_eps;
    double score_scale;          /* what scores are multiplied by; 0: 1 / sqrt(head size) */
    double query_scalar;         /* config.json: scores are divided by its root */
    double score_cap, logit_cap; /* soft caps; below 0: not given, 0: none */
    double embedding_scale, residual_scale, logit_divisor, logit_scale; /* 0: none */
    unsigned char *unrotated; /* [layers] which layers do not rotate, or NULL */
    uint64_t pattern;         /* as the family's */
    unsigned char *recurrent; /* [layers] which layers are gated delta nets, or NULL */
    struct {                  /* of those: core/base/delta.h; inner: heads * value_size, as GGUF files say it */
        uint64_t heads, key_heads, value_size, key_size, taps, inner, every;
    } delta;
    bool tied;                /* the head is the embedding */
    bool fused;               /* q, k, v lie in one tensor */
    bool parallel;            /* attention and feed-forward network side by side, where the family may be either */
    enum kvc_norms norms;     /* the family's, or KVC_NORMS_ONE */
    enum kvc_qk_norm qk_norm; /* the family's, or none */
    bool qkv_bias, output_bias, feed_bias;
    struct {
        enum kvc_rope_kind kind;
        uint64_t rotary, original_context;
        double base, partial, factor, low_factor, high_factor; /* partial: rotary as a share of the head */
        double local_base;                                     /* of layers with a window; 0: as of the others */
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
    unsigned feature; /* 0, or of families that have it */
};
extern const struct kvc_config_field kvc_config_fields[]; /* ends with both names NULL */

/* Whether the family has what a key is about. */
static inline bool kvc_config_knows(const struct kvc_config *config, unsigned feature) {
    return feature == 0 || config->family->features & feature;
}
/* config.json's flag for norms of queries and keys; NULL: the family always has them, or never. */
static inline const char *kvc_qk_norm_key(const struct kvc_family *family) {
    return family->qk_norm < KVC_QK_EACH ? NULL : family->qk_norm == KVC_QK_EACH ? "use_qk_norm" : "qk_layernorm";
}
/* Whether a layer is a gated delta net. */
static inline bool kvc_config_recurs(const struct kvc_config *config, uint64_t layer) {
    return config->recurrent && config->recurrent[layer];
}
/* Whether the layer's feed-forward network is a choice of experts. */
static inline bool kvc_config_chooses(const struct kvc_config *config, uint64_t layer) {
    return config->experts > 0 && !(config->dense && config->dense[layer]);
}
/* config->dense, which are marked already: NULL where no layer is dense; refused where all are. */
enum kvc_status kvc_config_check_dense(struct kvc_config *config, const char *where, struct kvc_error *error);
/* Every so many-th layer does not rotate. */
enum kvc_status kvc_config_unrotate(struct kvc_config *config, uint64_t every, const char *where,
                                    struct kvc_error *error);
/* Sizes of the delta nets of a family that has them, and which layers are such: every attention_every-th is none. */
enum kvc_status kvc_config_delta(struct kvc_config *config, bool gguf, const char *where, struct kvc_error *error);
/* That the last layer has attention, so that a method has a say there. */
enum kvc_status kvc_config_delta_check(const struct kvc_config *config, const char *where, struct kvc_error *error);
/* KVC_INPUT for models that can be run and not yet be written. */
enum kvc_status kvc_config_convertible(const struct kvc_config *config, const char *where, struct kvc_error *error);
/* Which layers slide where a pattern says so. */
enum kvc_status kvc_config_slide(struct kvc_config *config, const char *where, struct kvc_error *error);

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
/* Frequencies of 0, for layers that do not rotate. */
enum kvc_status kvc_rope_build_still(const struct kvc_config *config, bool interleaved, struct kvc_rope *rope,
                                     struct kvc_error *error);
/* Those of the layers with a window, where they differ. */
enum kvc_status kvc_rope_build_local(const struct kvc_config *config, bool interleaved, struct kvc_rope *rope,
                                     struct kvc_error *error);
/* Llama 3's scaling as GGUF's rope_freqs.weight has it: divisor [rotary/2]. */
void kvc_rope_divisors(const struct kvc_config *config, float *divisor);
/* The reverse: makes divisors that are Llama 3's formula with the published parameters into these, so that frequencies
 * are computed as from config.json. Leaves others alone. */
void kvc_rope_recognise(struct kvc_config *config);
/* Rewrites what only config.json can say (attention_factor, mscale, Llama 3's parameters) into what GGUF says, so that
 * both formats give the same bits. Called by kvc_config_complete. */
enum kvc_status kvc_rope_unify(struct kvc_config *config, struct kvc_error *error);

#endif
