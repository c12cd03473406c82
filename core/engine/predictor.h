/* predictor.h - small networks, one per layer, that predict scores of entries from the hidden states that enter the
 * layer's attention (KVzap, arXiv:2601.07891). A method names their file. All sessions of a runner share them. */
#ifndef KVC_CORE_ENGINE_PREDICTOR_H
#define KVC_CORE_ENGINE_PREDICTOR_H

#include "core/engine/growable.h"
#include "core/engine/network.h"

struct kvc_runner;
struct kvc_session;

struct kvc_predictor_matrix {
    enum kvc_type type;
    const void *data; /* [outputs, inputs]; valid until the file is closed */
};

/* What a file holds. The scores of a layer's KV heads for a hidden state x are W x + b, or W g(V x + a) + b, where g is
 * gelu (kvc_gelu_exact). */
struct kvc_predictor_file {
    uint32_t inner;                      /* outputs of V; 0: there is no V */
    struct kvc_predictor_matrix *matrix; /* [layers, 2]: V [inner, hidden], W [model's KV heads, inner or hidden] */
    float *bias;                         /* [layers, inner + model's KV heads]: a and b */
    void *owner;
    void (*close)(void *owner); /* frees the matrices' data */
};

struct kvc_predictor {
    char *path;
    uint32_t users; /* number of methods in sessions */
    struct kvc_predictor_file file;
    struct kvc_weight **weight; /* [layers, 2]: V, and W's rows of this rank's KV heads; NULL: none here */
    struct kvc_buffer *bias;    /* as in the file */
    struct kvc_growable rows;   /* [rows, inner] */
    struct kvc_growable scores; /* [rows, H_kv] */
    struct kvc_predictor *next; /* next element of the runner's linked list */
};

/* Opens the predictors of the methods of a session. Returns KVC_USAGE in a replay, which has no hidden states. */
enum kvc_status kvc_predictors_open(struct kvc_session *session, struct kvc_error *error);
void kvc_predictors_close(struct kvc_session *session);
/* Computes the bytes that the networks of a policy's methods will need: those of `layers` layers from `first_layer` on,
 * for `kv_heads` KV heads. */
enum kvc_status kvc_predictors_bytes(const struct kvc_engine *engine, const struct kvc_network *network,
                                     const char *spec, uint32_t first_layer, uint32_t layers, uint32_t kv_heads,
                                     uint64_t *bytes, struct kvc_error *error);
/* Computes the scores [rows, H_kv] of the hidden states `row` .. `row` + `rows` - 1 in runner->normed. */
enum kvc_status kvc_predictor_scores(struct kvc_runner *runner, struct kvc_predictor *predictor, uint32_t layer,
                                     uint32_t row, uint32_t rows, struct kvc_span *scores, struct kvc_error *error);

#endif
