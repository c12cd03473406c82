/* config.h - a model's description as numbers. It is filled from GGUF metadata or config.json, checked, and turned into
 * rotary frequencies and a list of tensors to load. Families differ only in their rows of kvc_families. */
#ifndef KVC_MODELS_CONFIG_CONFIG_H
#define KVC_MODELS_CONFIG_CONFIG_H

#include "core/engine/network.h"
#include "models/files/gguf.h"

/* Which layers have a sliding window. */
enum kvc_window_kind {
    KVC_WINDOW_NONE,   /* no layer: sliding_window in config.json is ignored, as in transformers */
    KVC_WINDOW_ALL,    /* all layers, if config.json gives a size */
    KVC_WINDOW_ASKED,  /* all layers, if use_sliding_window is true */
    KVC_WINDOW_LISTED, /* the layers in layer_types, if use_sliding_window is true */
    KVC_WINDOW_CHOSEN, /* layers chosen by max_window_layers or layer_types, if use_sliding_window is true */
    KVC_WINDOW_PATTERN /* the layers in layer_types, or all layers except every n-th */
};

/* Where a layer has norms. */
enum kvc_norms {
    KVC_NORMS_BEFORE, /* on the inputs of attention and of the feed-forward network */
    KVC_NORMS_POST,   /* on the same inputs, but GGUF files call the second norm post_attention_norm */
    KVC_NORMS_AROUND, /* on the inputs and on the outputs */
    KVC_NORMS_GLM,    /* on the inputs and on the outputs, under other names */
    KVC_NORMS_AFTER,  /* on the outputs */
    KVC_NORMS_ONE     /* one norm for the inputs of attention and feed-forward network, which run in parallel */
};

/* Norms of queries and keys, by the shape of their weights. d: head size. */
enum kvc_qk_norm {
    KVC_QK_NONE,
    KVC_QK_ALIKE, /* [d], shared by all heads */
    KVC_QK_WHOLE, /* [heads*d]: one norm over all heads */
    KVC_QK_EACH,  /* [heads, d]; this and the following kinds depend on a flag in config.json */
    KVC_QK_SPLIT, /* [heads, d], but folders have one tensor per head */
    KVC_QK_BIASED /* [d], with a bias [d] */
};

/* Features of config files that only some families support, as bits. For all other families such files are refused. */
enum kvc_config_feature {
    KVC_SOFT_CAPS = 1,
    KVC_SCORE_SCALE = 2,
    KVC_LOCAL_ROPE = 4,  /* layers with a window have their own rotary base */
    KVC_MULTIPLIERS = 8, /* factors of embeddings, scores, layer outputs and logits */
    KVC_LOGIT_SCALE = 16,
    KVC_LAYER_NORM = 32,    /* norms subtract the mean first */
    KVC_UNROTATED = 64,     /* some layers do not rotate queries and keys */
    KVC_NO_WINDOW = 128,    /* a sliding window is refused; other families ignore the key */
    KVC_SIDE_BY_SIDE = 256, /* use_parallel_residual selects KVC_NORMS_ONE */
    KVC_DENSE_LAYERS = 512, /* some layers have a dense feed-forward network in place of experts */
    KVC_DELTA = 1024        /* most layers are gated delta nets */
};

struct kvc_family {
    const char *gguf; /* value of general.architecture */
    const char *hf;   /* value of model_type; a family may have several rows */

    const char *models, *apart; /* see struct kvc_model_family */

    bool interleaved; /* GGUF files store rotary pairs as (2i, 2i+1) */
    bool fused;       /* q, k and v are one tensor; so are gate and up */
    bool may_fuse;    /* q, k and v are one tensor in some GGUF files */
    bool fused_feed;  /* only gate and up are one tensor */
    bool pairs;       /* both formats store rotary pairs as (2i, 2i+1) */
    bool ungated;     /* feed-forward networks have fc1 and fc2, not gate, up and down */
    bool norm_bias, head_bias;
    const char *qkv_bias_key;       /* config.json's flag for biases of q, k and v */
    enum kvc_qk_norm qk_norm;       /* kind of q and k norms, in all or in some of the family's models */
    bool qkv_bias;                  /* q, k and v have biases, unless that flag is false */
    bool attention_bias, feed_bias; /* config.json's attention_bias and mlp_bias are read */
    bool su;                        /* config.json may call longrope "su" or "yarn" */
    bool nested;                    /* config.json has the language model's keys in text_config */
    bool norm_plus_one;             /* norms multiply by 1 + w: Hugging Face files store w, GGUF files 1 + w */
    bool scaled_embedding;          /* embeddings are multiplied by sqrt(hidden) */
    bool tied;                      /* default if config.json lacks the key */
    enum kvc_norms norms;
    enum kvc_activation activation;
    unsigned features;        /* bits of enum kvc_config_feature */
    bool experts;             /* feed-forward networks are mixtures of experts */
    bool shared;              /* has a shared expert, which every token uses */
    bool block_sparse;        /* Hugging Face files name expert tensors as Mixtral does */
    bool normalised;          /* default: routing weights are normalized to a sum of 1 */
    bool stacked;             /* folders have one tensor for all experts of a layer; the experts have biases */
    bool sinks;               /* attention has sinks */
    bool clamps;              /* config.json's swiglu_limit and swiglu_alpha must equal the values in canon.h */
    bool output_bias;         /* q, k, v and o have biases if config.json lacks attention_bias */
    bool keep_fractions;      /* GGUF: the ends of yarn's ramp are not rounded. config.json: a flag decides */
    bool norm_topk_prob;      /* config.json has this flag; default: false */
    bool gated_attention;     /* q has twice the rows: for each head, the query and then a gate of the output */
    bool delta_grouped;       /* both formats store a delta net's projections grouped by key head */
    bool delta_tiled;         /* GGUF: value head h uses key head h % key heads. Folders: grouped by key head */
    uint64_t attention_every; /* default: every n-th layer has attention, all others are delta nets */
    enum kvc_window_kind window;
    uint64_t pattern;     /* default: every n-th layer has no window */
    uint64_t wide_layers; /* GGUF: models with this many layers scale scores by 1 / sqrt(hidden / heads) */
    /* Defaults of transformers if config.json lacks the key. 0 means hidden / heads for head_size, heads for kv_heads,
     * and no default for the others. */
    uint64_t heads, head_size, kv_heads, vocab, sliding_window, original_context, context;
    double norm_eps, base, query_scalar;
    double partial, logit_scale;
    bool local_unscaled;                     /* layers with a window rotate like the others, but without scaling */
    uint64_t unrotated;                      /* default: every n-th layer does not rotate */
    double local_base, score_cap, logit_cap; /* also the defaults for GGUF files */
};
extern const struct kvc_family kvc_families[]; /* the last row's gguf is NULL */
/* Writes the families' names in GGUF files or config.json into text, for messages: "llama, qwen2, qwen3 and phi3".
 * Returns text. */
char *kvc_family_names(bool gguf, char *text, size_t capacity);

enum kvc_rope_kind {
    KVC_ROPE_PLAIN,
    KVC_ROPE_LINEAR,
    KVC_ROPE_LLAMA3,
    KVC_ROPE_YARN,
    KVC_ROPE_LONGROPE,
    KVC_ROPE_DIVISORS /* divisors in rope_freqs.weight that differ from those of the published Llama 3 models */
};
const char *kvc_rope_kind_name(enum kvc_rope_kind kind); /* "plain", "linear", ... */

/* A model's description. Integers are uint64_t. Reals are doubles that hold a float32, so that both formats give
 * bit-identical results. Zero means not given; kvc_config_complete derives such values from the others. */
struct kvc_config {
    const struct kvc_family *family;
    uint64_t layers, hidden, heads, kv_heads, head_size, feed_forward, vocab, context;
    uint64_t experts, experts_used, expert_feed; /* experts: 0 for a dense network; expert_feed: width of one expert */
    uint64_t shared_feed;                        /* width of the shared expert; 0: none */
    bool routing_normalized;
    unsigned char *dense; /* [layers] 1: dense network in place of experts; NULL: no layer */
    uint64_t sliding_window;
    unsigned char *sliding; /* [layers] 1: has a sliding window; NULL: all layers, if there is a window */
    double norm_eps;
    double score_scale;          /* factor of attention scores; 0: 1 / sqrt(head size) */
    double query_scalar;         /* config.json: scores are divided by the square root of this number */
    double score_cap, logit_cap; /* soft caps; negative: not given, 0: none */
    double embedding_scale, residual_scale, logit_divisor, logit_scale; /* 0: none */
    unsigned char *unrotated; /* [layers] 1: does not rotate; NULL: all layers rotate */
    uint64_t pattern;         /* see struct kvc_family */
    unsigned char *recurrent; /* [layers] 1: gated delta net; NULL: no layer */
    struct {                  /* gated delta nets (core/base/delta.h); inner: heads * value_size, as in GGUF files */
        uint64_t heads, key_heads, value_size, key_size, taps, inner, every;
    } delta;
    bool tied;            /* the output head is the embedding */
    bool fused;           /* q, k and v are one tensor */
    bool parallel;        /* attention and feed-forward network run in parallel; only for families that allow both */
    enum kvc_norms norms; /* the family's kind, or KVC_NORMS_ONE */
    enum kvc_qk_norm qk_norm; /* the family's kind, or KVC_QK_NONE */
    bool qkv_bias, output_bias, feed_bias;
    struct {
        enum kvc_rope_kind kind;
        uint64_t rotary, original_context;
        double base, partial, factor, low_factor, high_factor; /* `partial`: rotated fraction of the head */
        double local_base; /* base for layers with a window; 0: same as the other layers */
        double beta_fast, beta_slow, attention_factor, attention_scale, mscale, mscale_all;
        bool keep_fractions; /* yarn: do not round the ends of the ramp */
        uint64_t short_count, long_count, divisor_count;
        float *short_factor, *long_factor, *divisor;
    } rope;
    int64_t bos, eos; /* -1: none */
};

/* A field of the description. `gguf` is the field's key after "<architecture>.". `hf` is the field's key in
 * config.json, at the top or in rope_scaling (rope_parameters in newer files). A key is NULL if the format has no such
 * key. */
enum kvc_config_place { KVC_TOP, KVC_ROPE, KVC_TOP_THEN_ROPE, KVC_ROPE_THEN_TOP };
struct kvc_config_field {
    const char *gguf, *hf;
    size_t offset;
    enum kvc_config_place place;
    bool real, required; /* required: in config.json, and in GGUF files if that format has the key */
    double minimum, maximum;
    unsigned feature; /* 0: all families; else only families with this feature */
};
extern const struct kvc_config_field kvc_config_fields[]; /* both names of the last row are NULL */

/* Returns true if the family supports the feature. */
static inline bool kvc_config_knows(const struct kvc_config *config, unsigned feature) {
    return feature == 0 || config->family->features & feature;
}
/* Returns config.json's flag for norms of queries and keys, or NULL if all models of the family have such norms or none
 * has them. */
static inline const char *kvc_qk_norm_key(const struct kvc_family *family) {
    return family->qk_norm < KVC_QK_EACH ? NULL : family->qk_norm == KVC_QK_EACH ? "use_qk_norm" : "qk_layernorm";
}
/* Returns true if the layer is a gated delta net. */
static inline bool kvc_config_recurs(const struct kvc_config *config, uint64_t layer) {
    return config->recurrent && config->recurrent[layer];
}
/* Returns true if the layer's feed-forward network is a mixture of experts. */
static inline bool kvc_config_chooses(const struct kvc_config *config, uint64_t layer) {
    return config->experts > 0 && !(config->dense && config->dense[layer]);
}
/* Frees config->dense and sets it to NULL if no layer is dense. Returns KVC_INPUT if all layers are dense. */
enum kvc_status kvc_config_check_dense(struct kvc_config *config, const char *where, struct kvc_error *error);
/* Marks every n-th layer as not rotating. */
enum kvc_status kvc_config_unrotate(struct kvc_config *config, uint64_t every, const char *where,
                                    struct kvc_error *error);
/* Fills in the sizes of the delta nets and marks the layers that are delta nets: all but every attention_every-th. */
enum kvc_status kvc_config_delta(struct kvc_config *config, bool gguf, const char *where, struct kvc_error *error);
/* Checks that the last layer has attention, because methods act on attention layers only. */
enum kvc_status kvc_config_delta_check(const struct kvc_config *config, const char *where, struct kvc_error *error);
/* Returns KVC_INPUT for models that kvcull can run but not yet write. */
enum kvc_status kvc_config_convertible(const struct kvc_config *config, const char *where, struct kvc_error *error);
/* Marks the layers with a sliding window from the pattern. */
enum kvc_status kvc_config_slide(struct kvc_config *config, const char *where, struct kvc_error *error);

/* Checks a number against its field's range and stores it. */
enum kvc_status kvc_config_set(struct kvc_config *config, const struct kvc_config_field *field, bool gguf, double value,
                               const char *where, struct kvc_error *error);

/* Read a description. On failure nothing is left to free. `where` is the file's path, for errors. */
enum kvc_status kvc_config_from_gguf(const struct kvc_gguf *file, const char *where, struct kvc_config *config,
                                     struct kvc_error *error); /* libc only */
enum kvc_status kvc_config_from_json(const char *path, struct kvc_config *config, struct kvc_error *error);
void kvc_config_free(struct kvc_config *config);

/* Derives missing values and checks relations. Errors name the keys of the file's format. */
enum kvc_status kvc_config_complete(struct kvc_config *config, bool gguf, const char *where, struct kvc_error *error);
/* Writes a field's key in its format into key: "llama.block_count" or "num_hidden_layers". Returns key. */
const char *kvc_config_key(const struct kvc_config *config, bool gguf, const struct kvc_config_field *field, char *key,
                           size_t capacity);

/* Computes rotary frequencies in float32 as transformers does. On failure nothing is left to free. */
enum kvc_status kvc_rope_build(const struct kvc_config *config, bool interleaved, struct kvc_rope *rope,
                               struct kvc_error *error);
/* Makes frequencies of 0, for layers that do not rotate. */
enum kvc_status kvc_rope_build_still(const struct kvc_config *config, bool interleaved, struct kvc_rope *rope,
                                     struct kvc_error *error);
/* Computes the frequencies of layers with a window, if these have their own base. */
enum kvc_status kvc_rope_build_local(const struct kvc_config *config, bool interleaved, struct kvc_rope *rope,
                                     struct kvc_error *error);
/* Writes Llama 3's scaling to divisor [rotary/2], in the form of GGUF's tensor rope_freqs.weight. */
void kvc_rope_divisors(const struct kvc_config *config, float *divisor);
/* Recognizes divisors that follow Llama 3's formula with the published parameters and sets those parameters, so that
 * frequencies are computed as from config.json. Leaves other divisors alone. */
void kvc_rope_recognise(struct kvc_config *config);
/* Converts values that only config.json has (attention_factor, mscale, Llama 3's parameters) to GGUF's form, so that
 * both formats give bit-identical results. Called by kvc_config_complete. */
enum kvc_status kvc_rope_unify(struct kvc_config *config, struct kvc_error *error);

#endif
