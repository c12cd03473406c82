/* network.h - what the runner needs to know of a model: geometry and weights. Names of families stay in models/. */
#ifndef KVC_CORE_ENGINE_NETWORK_H
#define KVC_CORE_ENGINE_NETWORK_H

#include "core/base/ops.h"
#include "core/ranks/ranks.h"

/* Norm and bias vectors on the device; buffer NULL where the model has none. */
struct kvc_layer {
    struct kvc_span attention_norm; /* [hidden], of what goes into the attention; NULL: it is taken as it is */
    struct kvc_weight *q;           /* [H*d, hidden] */
    struct kvc_weight *k;           /* [H_kv*d, hidden] */
    struct kvc_weight *v;           /* [H_kv*d, hidden] */
    struct kvc_weight *output;      /* [hidden, H*d] */
    struct kvc_span q_bias;         /* [H*d] */
    struct kvc_span k_bias;         /* [H_kv*d] */
    struct kvc_span v_bias;         /* [H_kv*d] */
    struct kvc_span output_bias;    /* [hidden] */
    struct kvc_span q_norm;      /* applied to each head before RoPE: [d], or [H, d] one for each; or [H*d]: to all */
    struct kvc_span k_norm;      /* [d], [H_kv, d] or [H_kv*d], likewise */
    struct kvc_span q_norm_bias; /* [d], where both are centred */
    struct kvc_span k_norm_bias; /* [d] */
    struct kvc_span attention_after; /* [hidden]: a norm of what the attention adds */
    struct kvc_span feed_norm;       /* [hidden], of what goes into the feed-forward network; NULL: as above */
    struct kvc_span feed_after;      /* [hidden]: a norm of what that adds */
    struct kvc_span attention_norm_bias, feed_norm_bias; /* [hidden], of norms that are centred */
    struct kvc_weight *router;        /* [experts, hidden]; NULL: gate, up and down are one matrix each */
    struct kvc_weight *gate;          /* [feed_forward, hidden], or of each expert [expert_feed, hidden] */
    struct kvc_weight *up;            /* [feed_forward, hidden], likewise; NULL: the activation gates nothing */
    struct kvc_weight *down;          /* [hidden, feed_forward] or [hidden, expert_feed] */
    struct kvc_weight *shared_router; /* [1, hidden]: what the shared expert counts; NULL: there is none */
    struct kvc_weight *shared_gate;   /* [shared_feed, hidden] */
    struct kvc_weight *shared_up;     /* [shared_feed, hidden] */
    struct kvc_weight *shared_down;   /* [hidden, shared_feed] */
    struct kvc_span sinks;            /* [H]: scores of no entry, one of each query head */
    struct kvc_span router_bias;      /* [experts] */
    struct kvc_span gate_bias;        /* [feed_forward], or of each expert [expert_feed] */
    struct kvc_span up_bias;          /* [feed_forward], likewise */
    struct kvc_span down_bias;        /* [hidden], likewise */
    /* Of a gated delta net (core/base/delta.h), which has q, k, v and output too: H value heads of d_v channels, H_k
     * query and key heads of d_k. NULL in attention layers. */
    struct kvc_weight *delta_gate;    /* [H*d_v, hidden]: what its output is gated by */
    struct kvc_weight *delta_decay;   /* [H, hidden] */
    struct kvc_weight *delta_beta;    /* [H, hidden] */
    struct kvc_span q_taps;           /* [H_k*d_k, taps], of the convolution of queries */
    struct kvc_span k_taps;           /* [H_k*d_k, taps] */
    struct kvc_span v_taps;           /* [H*d_v, taps] */
    struct kvc_span decay_rate;       /* [H], none above 0 */
    struct kvc_span decay_bias;       /* [H] */
    struct kvc_span delta_norm;       /* [d_v], of each head's output */
    uint32_t delta_from, delta_count; /* of an attention layer: the delta nets between it and the one below */
    uint32_t window;                  /* sliding window of this layer, 0: none */
    uint32_t rope;                    /* which of the network's rotates its queries and keys */
};

/* Rotary frequencies after the model's scaling, float32 as transformers computes them. */
struct kvc_rope {
    uint32_t rotary;       /* channels of a head that are rotated, even */
    bool interleaved;      /* pairs in the projections' outputs are (2i, 2i+1) */
    float *frequency;      /* [rotary/2] */
    float *long_frequency; /* [rotary/2] or NULL: longrope, for contexts above original_context */
    uint64_t original_context;
    float attention_factor; /* cos and sin are multiplied by it */
    float long_attention_factor;
};

/* Gated delta nets of a network: how large they are. count 0: it has none. */
struct kvc_delta_shape {
    uint32_t count;                /* layers of this kind */
    uint32_t heads, key_heads;     /* H, H_k */
    uint32_t value_size, key_size; /* d_v, d_k */
    uint32_t taps;
    bool tiled; /* as in struct kvc_delta_rule */
};

/* Which part of a network this process has; heads and kv_heads of struct kvc_network are its own. */
struct kvc_part_of {
    struct kvc_ranks *ranks;  /* NULL: it has all of each of its layers */
    bool heads_sharded;       /* each rank has some KV heads and their queries; otherwise each has all */
    uint32_t heads, kv_heads; /* of all ranks */
    uint32_t first_kv_head;
    struct kvc_ranks *pipeline;       /* NULL: it has all layers, or a part of each */
    uint32_t first_layer, own_layers; /* of a pipeline */
    uint32_t first_delta, own_deltas; /* the delta nets below them */
};

/* What a rank takes of the files: where it lies in memory. */
struct kvc_bytes_read {
    const unsigned char *data;
    uint64_t bytes;
};

struct kvc_network {
    uint32_t layers; /* with attention: those that have entries, which sessions and policies count */
    uint32_t hidden;
    uint32_t heads;        /* H */
    uint32_t kv_heads;     /* H_kv */
    uint32_t head_size;    /* d */
    uint32_t feed_forward; /* of layers with one network; 0: none has */
    uint32_t expert_feed;  /* of one expert */
    uint32_t experts;      /* E, of layers that have them; 0: none has */
    uint32_t experts_used; /* by each row */
    bool routing_normalized;
    uint32_t shared_feed; /* of an expert that every row passes; 0: there is none */
    uint32_t vocab;
    uint64_t trained_context;
    float norm_eps;
    struct kvc_rope rope[2];    /* of most layers; of the others, with the same `rotary` */
    uint32_t ropes;             /* 1 or 2 */
    struct kvc_scoring scoring; /* of attention */
    enum kvc_activation activation;
    bool qk_norm_whole;           /* q_norm and k_norm are of all heads as one */
    bool qk_norm_each;            /* they have weights for each head */
    float embedding_scale;        /* embeddings are multiplied by it; 0: they are not */
    float logit_cap;              /* of logits, 0: none */
    float residual_scale;         /* what a layer adds is multiplied by it; 0: it is not */
    float logit_scale;            /* logits are multiplied by it before they are capped; 0: they are not */
    bool centred;                 /* norms take the mean away first */
    bool parallel;                /* the feed-forward network gets what the attention gets, and both are added */
    struct kvc_weight *embedding; /* [vocab, hidden] */
    struct kvc_layer *layer;      /* [layers] */
    struct kvc_delta_shape delta;
    struct kvc_layer *delta_layer;   /* [delta.count] */
    struct kvc_span q_unit, k_unit;  /* [d_k]: norms by these make a delta net's queries and keys as long as they are */
    bool gated_attention;            /* q has as many rows more, head by head: of what the output is gated by */
    struct kvc_span final_norm;      /* [hidden] */
    struct kvc_span final_norm_bias; /* [hidden] */
    struct kvc_weight *head;         /* [vocab, hidden]; the embedding itself where tied */
    struct kvc_span head_bias;       /* [vocab] */
    struct kvc_part_of part;
    uint64_t matrix_bytes; /* of this rank, in the file; what lies in two weights counts once */
    /* Owners, freed by kvc_network_free. */
    struct kvc_weight **weights;
    size_t weight_count;
    struct kvc_buffer **buffers;
    size_t buffer_count;
    void **host; /* memory that weights lie in which a file has in another order */
    size_t host_count;
    struct kvc_bytes_read *read; /* [read_count], of several ranks */
    size_t read_count, read_capacity;
};

/* Whether this process computes a layer, holds its entries and has its weights. */
static inline bool kvc_network_has(const struct kvc_network *network, uint32_t layer) {
    const struct kvc_part_of *part = network ? &network->part : NULL;
    return !part || !part->pipeline || (layer >= part->first_layer && layer - part->first_layer < part->own_layers);
}
/* Whether it has the first layer, and the embedding; the last one, and the head. */
static inline bool kvc_network_begins(const struct kvc_network *network) { return kvc_network_has(network, 0); }
static inline bool kvc_network_ends(const struct kvc_network *network) {
    return kvc_network_has(network, network->layers - 1);
}
/* The stage of a pipeline that has a layer. */
uint32_t kvc_network_layer_owner(const struct kvc_network *network, uint32_t layer);
/* How many delta nets it has. */
uint32_t kvc_network_deltas(const struct kvc_network *network);

/* Floats of a session's recurrent state in one layer, and where the parts of it begin. */
struct kvc_delta_state {
    uint64_t q, k, v; /* inputs of the convolutions, [taps - 1, channels] each */
    uint64_t matrix;  /* [H, d_v, d_k] */
    uint64_t floats;
};
struct kvc_delta_state kvc_delta_state_of(const struct kvc_delta_shape *shape);
/* Whether this rank's entries count in what all hold: they are no second copies of another's. */
bool kvc_network_counts(const struct kvc_network *network);
/* Among the ranks that share layers out the one that has a KV head, the first of them. */
uint32_t kvc_network_owner(const struct kvc_network *network, uint32_t kv_head);
/* Bytes of the state of all layers; 0 where there are none. */
uint64_t kvc_network_state_bytes(const struct kvc_network *network);

/* Frees every weight and buffer and the arrays; the struct itself belongs to the caller. */
void kvc_network_free(struct kvc_device *device, struct kvc_network *network);

/* KVC_USAGE where a token is not in the vocabulary. */
enum kvc_status kvc_network_check_tokens(const struct kvc_network *network, const int32_t *tokens, size_t count,
                                         struct kvc_error *error);

#endif
