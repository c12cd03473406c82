/* network.h - the geometry and weights of a model, as the runner needs them. The names of model families stay in
 * models/. */
#ifndef KVC_CORE_ENGINE_NETWORK_H
#define KVC_CORE_ENGINE_NETWORK_H

#include "core/base/ops.h"
#include "core/ranks/ranks.h"

/* A layer's weights. Norms and biases are vectors on the device; their buffer is NULL if the model has none. */
struct kvc_layer {
    struct kvc_span attention_norm; /* [hidden]: norm of the attention's input; NULL: no norm */
    struct kvc_weight *q;           /* [H*d, hidden] */
    struct kvc_weight *k;           /* [H_kv*d, hidden] */
    struct kvc_weight *v;           /* [H_kv*d, hidden] */
    struct kvc_weight *output;      /* [hidden, H*d] */
    struct kvc_span q_bias;         /* [H*d] */
    struct kvc_span k_bias;         /* [H_kv*d] */
    struct kvc_span v_bias;         /* [H_kv*d] */
    struct kvc_span output_bias;    /* [hidden] */
    /* norm before RoPE: [d], shared by all heads; [H, d], one per head; or [H*d], one over all heads */
    struct kvc_span q_norm;
    struct kvc_span k_norm;          /* [d], [H_kv, d] or [H_kv*d], as for q_norm */
    struct kvc_span q_norm_bias;     /* [d], if both norms are centred */
    struct kvc_span k_norm_bias;     /* [d] */
    struct kvc_span attention_after; /* [hidden]: norm of the attention's output, before it is added */
    struct kvc_span feed_norm;       /* [hidden]: norm of the feed-forward network's input; NULL: no norm */
    struct kvc_span feed_after;      /* [hidden]: norm of the feed-forward network's output, before it is added */
    struct kvc_span attention_norm_bias, feed_norm_bias; /* [hidden]: biases of centred norms */
    struct kvc_weight *router; /* [experts, hidden]; NULL: gate, up and down are one matrix each */
    struct kvc_weight *gate;   /* [feed_forward, hidden], or [expert_feed, hidden] for each expert */
    struct kvc_weight *up;     /* the same shape as `gate`; NULL: `gate` is the only input matrix, and the activation
                                * applies to its output alone */
    struct kvc_weight *down;   /* [hidden, feed_forward] or [hidden, expert_feed] */
    struct kvc_weight *shared_router; /* [1, hidden]: gives the shared expert's weight; NULL: no shared expert */
    struct kvc_weight *shared_gate;   /* [shared_feed, hidden] */
    struct kvc_weight *shared_up;     /* [shared_feed, hidden] */
    struct kvc_weight *shared_down;   /* [hidden, shared_feed] */
    struct kvc_span sinks;            /* [H]: attention sink scores, one per query head */
    struct kvc_span router_bias;      /* [experts] */
    struct kvc_span gate_bias;        /* [feed_forward], or [expert_feed] for each expert */
    struct kvc_span up_bias;          /* the same shape as gate_bias */
    struct kvc_span down_bias;        /* [hidden], or [hidden] for each expert */
    /* Weights of a gated delta net (core/base/delta.h), which uses q, k, v and output too: H value heads of d_v
     * channels, H_k query and key heads of d_k. NULL in attention layers. */
    struct kvc_weight *delta_gate;  /* [H*d_v, hidden]: output gate */
    struct kvc_weight *delta_decay; /* [H, hidden] */
    struct kvc_weight *delta_beta;  /* [H, hidden] */
    struct kvc_span q_taps;         /* [H_k*d_k, taps]: convolution of the queries */
    struct kvc_span k_taps;         /* [H_k*d_k, taps] */
    struct kvc_span v_taps;         /* [H*d_v, taps] */
    struct kvc_span decay_rate;     /* [H], none positive */
    struct kvc_span decay_bias;     /* [H] */
    struct kvc_span delta_norm;     /* [d_v]: norm of each head's output */
    /* attention layers: the delta nets between this layer and the attention layer below */
    uint32_t delta_from, delta_count;
    uint32_t window; /* sliding window of this layer; 0: none */
    uint32_t rope;   /* the rope of its queries and keys: an index in network.rope */
};

/* Rotary frequencies after the model's scaling, float32 as transformers computes them. */
struct kvc_rope {
    uint32_t rotary;       /* channels of a head that are rotated, even */
    bool interleaved;      /* the projections' outputs store pairs as (2i, 2i+1) */
    float *frequency;      /* [rotary/2] */
    float *long_frequency; /* [rotary/2] or NULL: longrope's frequencies for contexts above original_context */
    uint64_t original_context;
    float attention_factor; /* factor of cos and sin */
    float long_attention_factor;
};

/* The sizes of a network's gated delta nets. A count of 0 means none. */
struct kvc_delta_shape {
    uint32_t count;                /* number of delta net layers */
    uint32_t heads, key_heads;     /* H, H_k */
    uint32_t value_size, key_size; /* d_v, d_k */
    uint32_t taps;
    bool tiled; /* as in struct kvc_delta_rule */
};

/* The part of a network that this process has; heads and kv_heads of struct kvc_network count the heads of this
 * part. */
struct kvc_part_of {
    struct kvc_ranks *ranks;  /* NULL: every layer of the part is complete */
    bool heads_sharded;       /* each rank has some KV heads and their queries; otherwise each has all heads */
    uint32_t heads, kv_heads; /* total of all ranks */
    uint32_t first_kv_head;
    struct kvc_ranks *pipeline;       /* NULL: no pipeline, so this process has all layers, or a part of each */
    uint32_t first_layer, own_layers; /* this rank's range of layers in a pipeline */
    uint32_t first_delta, own_deltas; /* the delta nets below these layers */
};

/* A part of the model files that this rank uses, as mapped memory. */
struct kvc_bytes_read {
    const unsigned char *data;
    uint64_t bytes;
};

/* The shape and the use of a weight. */
struct kvc_matrix {
    uint64_t rows, inputs; /* rows of all experts */
    bool shared;           /* the embedding or a part of it: token lookup reads its bytes in the file */
};

struct kvc_network;
struct kvc_predictor_file;
/* Reads the networks of a method that predicts scores (core/engine/predictor.h). The caller frees *file, also after a
 * failure. */
typedef enum kvc_status kvc_predictor_reader(const struct kvc_network *network, const char *path,
                                             enum kvc_predictor_kind kind, struct kvc_predictor_file *file,
                                             struct kvc_error *error);

struct kvc_network {
    uint32_t layers; /* attention layers, which have entries; sessions and policies count only these */
    uint32_t hidden;
    uint32_t heads;        /* H */
    uint32_t kv_heads;     /* H_kv */
    uint32_t head_size;    /* d */
    uint32_t feed_forward; /* width in layers with a single feed-forward network; 0: none */
    uint32_t expert_feed;  /* width of one expert */
    uint32_t experts;      /* E, in layers with experts; 0: no such layers */
    uint32_t experts_used; /* experts per row */
    bool routing_normalized;
    uint32_t shared_feed; /* width of the expert that every row passes; 0: none */
    uint32_t vocab;
    uint64_t trained_context;
    float norm_eps;
    struct kvc_rope rope[2];    /* [0]: for most layers; [1]: for the others; both have the same `rotary` */
    uint32_t ropes;             /* 1 or 2 */
    struct kvc_scoring scoring; /* how attention computes scores */
    enum kvc_activation activation;
    bool qk_norm_whole;    /* q_norm and k_norm apply to all heads as one vector */
    bool qk_norm_each;     /* q_norm and k_norm have separate weights for each head */
    float embedding_scale; /* factor of the embeddings; 0: none */
    float logit_cap;       /* cap of the logits; 0: none */
    float residual_scale;  /* factor of each layer's output before it is added; 0: none */
    float logit_scale;     /* factor of the logits before the cap; 0: none */
    bool centred;          /* norms subtract the mean first */
    bool parallel;         /* attention and feed-forward network have the same input, and both outputs are added */
    struct kvc_weight *embedding; /* [vocab, hidden] */
    struct kvc_layer *layer;      /* [layers] */
    struct kvc_delta_shape delta;
    struct kvc_layer *delta_layer; /* [delta.count] */
    /* [d_k]: norm weights that give a delta net's queries and keys their fixed length */
    struct kvc_span q_unit, k_unit;
    bool gated_attention;            /* q has twice as many rows: for each head the queries, then the output gate */
    struct kvc_span final_norm;      /* [hidden] */
    struct kvc_span final_norm_bias; /* [hidden] */
    struct kvc_weight *head;         /* [vocab, hidden]; the embedding itself if they are tied */
    struct kvc_span head_bias;       /* [vocab] */
    struct kvc_part_of part;
    kvc_predictor_reader *read_predictor; /* NULL: no such files can be read */
    uint64_t matrix_bytes; /* bytes of this rank's matrices in the file; a matrix that two weights share counts once */
    /* Owned objects, which kvc_network_free frees. */
    struct kvc_weight **weights;
    struct kvc_matrix *matrices; /* [weight_count] */
    size_t weight_count;
    struct kvc_buffer **buffers;
    size_t buffer_count;
    void **host; /* memory of weights that a file stores in another order */
    size_t host_count;
    struct kvc_bytes_read *read; /* [read_count]; used with several ranks */
    size_t read_count, read_capacity;
};

/* Returns true if this process computes a layer, holds its entries and has its weights. */
static inline bool kvc_network_has(const struct kvc_network *network, uint32_t layer) {
    const struct kvc_part_of *part = network ? &network->part : NULL;
    return !part || !part->pipeline || (layer >= part->first_layer && layer - part->first_layer < part->own_layers);
}
/* Return true if this process has the first layer and the embedding, or the last layer and the output matrix. */
static inline bool kvc_network_begins(const struct kvc_network *network) { return kvc_network_has(network, 0); }
static inline bool kvc_network_ends(const struct kvc_network *network) {
    return kvc_network_has(network, network->layers - 1);
}
/* Returns the pipeline stage that has a layer. */
uint32_t kvc_network_layer_owner(const struct kvc_network *network, uint32_t layer);
/* Returns the number of delta nets. */
uint32_t kvc_network_deltas(const struct kvc_network *network);

/* The layout of a session's recurrent state in one layer: offsets and total size in floats. */
struct kvc_delta_state {
    uint64_t q, k, v; /* inputs of the convolutions, [taps - 1, channels] each */
    uint64_t matrix;  /* [H, d_v, d_k] */
    uint64_t floats;
};
struct kvc_delta_state kvc_delta_state_of(const struct kvc_delta_shape *shape);
/* Returns true if totals over all ranks include this rank's entries. They do unless the entries are copies of another
 * rank's. */
bool kvc_network_counts(const struct kvc_network *network);
/* Returns the first rank that has a KV head, among the ranks that share layers. */
uint32_t kvc_network_owner(const struct kvc_network *network, uint32_t kv_head);
/* Returns the bytes of the recurrent state of all layers, or 0 if there are no delta nets. */
uint64_t kvc_network_state_bytes(const struct kvc_network *network);

/* Frees every weight, buffer and array. The struct itself belongs to the caller. */
void kvc_network_free(struct kvc_device *device, struct kvc_network *network);

/* Returns KVC_USAGE if a token is not in the vocabulary. */
enum kvc_status kvc_network_check_tokens(const struct kvc_network *network, const int32_t *tokens, size_t count,
                                         struct kvc_error *error);

#endif
