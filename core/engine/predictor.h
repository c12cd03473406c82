/* predictor.h - small networks, one per layer, that predict scores of entries from the hidden states that enter the
 * layer's attention (KVzap, arXiv:2601.07891; Fast KVzip, arXiv:2601.17668). A method names their file. All sessions of
 * a runner share them. */
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

struct kvc_predictor_shape {
    uint32_t rows, inputs; /* 0 rows: there is no such matrix */
    bool by_head;          /* each KV head has so many rows */
};

/* What a file holds. For each layer two matrices A and B, and numbers. x is a hidden state, H the number of the model's
 * KV heads, G the query heads per KV head.
 * KVC_PREDICT_LINEAR: the scores of the KV heads are B x + b, or B g(A x + a) + b, where g is gelu (kvc_gelu_exact).
 *   Numbers: a [inner], b [H].
 * KVC_PREDICT_GATES: the queries are norm(A x + a), the keys norm(B x), and the scores those of operation gate_scores.
 *   Numbers: a [H, G, C], bias [H, G], base [H, S, C], the norm's weights of queries [C] and of keys [C]. */
struct kvc_predictor_file {
    enum kvc_predictor_kind kind;
    uint32_t inner;           /* KVC_PREDICT_LINEAR: rows of A; 0: there is no A */
    uint32_t channels, sinks; /* KVC_PREDICT_GATES: C and S */
    struct kvc_predictor_shape shape[2];
    size_t numbers;                      /* of a layer */
    struct kvc_predictor_matrix *matrix; /* [layers, 2]: A and B, with the rows of all KV heads */
    float *number;                       /* [layers, numbers] */
    void *owner;
    void (*close)(void *owner); /* frees the matrices' data */
};

/* Sets the members `shape` and `numbers` by the members before them, and allocates `matrix` and `number`. Returns false
 * if out of memory. */
bool kvc_predictor_lay_out(const struct kvc_network *network, struct kvc_predictor_file *file);

struct kvc_predictor {
    char *path;
    uint32_t users; /* number of methods in sessions */
    struct kvc_predictor_file file;
    struct kvc_weight **weight; /* [layers, 2]: A and B, with the rows of this rank's KV heads; NULL: none here */
    struct kvc_buffer *number;  /* as in the file */
    struct kvc_growable rows;   /* A x and B x, unless the latter are the scores */
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
