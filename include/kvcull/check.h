/* check.h - for those who look closely: what a policy's formulas expect, replays of a policy on tensors, verification
 * of a backend against the reference, and measurements of its operations. Installed as kvcull/check.h.
 */
#ifndef KVCULL_CHECK_H
#define KVCULL_CHECK_H

#include "kvcull.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- formula: what a policy should hold and read --------------------------------------------------------------- */

/* By its methods' formulas (struct kvc_forecast), for a comparison with what is counted. */
struct kvc_formula {
    double entries;               /* of all layers and heads, after the prompt */
    double read_bytes;            /* cache bytes that all the decode steps read, select_bytes included */
    double select_bytes;          /* of these: read to choose what to read */
    enum kvc_expected entry_kind; /* of entries */
    enum kvc_expected read_kind;  /* of read_bytes */
};
enum kvc_status kvc_formula(const struct kvc_engine *engine, const char *spec, const struct kvc_geometry *geometry,
                            enum kvc_type cache_type, uint64_t prompt, uint64_t steps, struct kvc_formula *formula,
                            struct kvc_error *error);

/* ---- replay: a policy on tensors from anywhere, without a model ---------------------------------------------- */

/* A session whose queries, keys and values the caller brings: first a prompt's rows, layer by layer, then decode steps,
 * row by row and layer by layer. */
struct kvc_replay;
enum kvc_status kvc_replay_open(struct kvc_engine *engine, const struct kvc_geometry *geometry,
                                const struct kvc_session_options *options, struct kvc_replay **replay,
                                struct kvc_error *error);
/* Sliding windows of the layers [layers], 0: none. To be called before the first prompt. */
enum kvc_status kvc_replay_windows(struct kvc_replay *replay, const uint32_t *windows, struct kvc_error *error);
void kvc_replay_close(struct kvc_replay *replay);
/* One layer's rows of the prompt: q [rows, H, d], k and v [rows, H_kv, d], after RoPE; out [rows, H, d] or NULL. To be
 * called once for each layer, ascending. At the end the policy's prompt stage runs. Another prompt after steps is
 * another turn. After a failure inside a layer the replay must be closed. */
enum kvc_status kvc_replay_prompt(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                  const float *v, uint64_t rows, float *out, struct kvc_error *error);
/* The rows that a method adds, to be given before the layer's prompt; they must stay valid until the last layer's.
 * dapq's pseudo rows: q [rows, H, d], k [rows, H_kv, d]. take's probe: q [rows, H, d], for each chunk but the last. */
enum kvc_status kvc_replay_pseudo(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                  uint32_t rows, struct kvc_error *error);
enum kvc_status kvc_replay_probe(struct kvc_replay *replay, uint32_t layer, uint32_t chunk, const float *q,
                                 uint32_t rows, struct kvc_error *error);
/* With a chunk method nothing is computed before the last layer's prompt is given, and q, k, v and out of all layers
 * must stay valid until then. The function is called when a chunk has passed all layers; non-zero stops. */
typedef int kvc_chunk_fn(void *user, uint32_t chunk);
void kvc_replay_on_chunk(struct kvc_replay *replay, kvc_chunk_fn *done, void *user);
/* One decode row of one layer (all layers, ascending, before the next row): q [H, d], k, v [H_kv, d], out [H, d]. */
enum kvc_status kvc_replay_step(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                const float *v, float *out, struct kvc_error *error);
const struct kvc_session *kvc_replay_session(const struct kvc_replay *replay); /* for positions and stats */

/* ---- verify: a backend against the reference, to the bit ------------------------------------------------------ */

struct kvc_verify_row {
    const char *kind; /* "operation" or "method" */
    const char *name;
    uint64_t cases;                /* shapes tried */
    uint64_t values;               /* compared */
    uint64_t differing;            /* values (operation) or logits (method) with other bits */
    uint64_t differing_bits;       /* bits of these */
    uint64_t kept_differing;       /* entries (method) that one of the two keeps and the other does not */
    uint64_t read_differing;       /* the same of entries that decode steps read */
    uint64_t hash;                 /* of all results (operation) or logits (method) of the backend under test */
    uint64_t kept_hash, read_hash; /* (method) of the entries kept and read, all steps */
    char first[160];               /* first difference: shape, index, both values in hex; "" when none */
};
typedef int kvc_verify_fn(void *user, const struct kvc_verify_row *row); /* non-zero stops */
struct kvc_verify_options {
    const char *backend; /* as in kvc_engine_options, or "ref|avx2|avx512|neon" for one CPU path */
    int threads;
    unsigned effort;    /* multiplies the cases; `kvcull verify` takes 10; 0: an eighth of 1 */
    bool alone;         /* ref is not run: results are hashed, for comparison with stored hashes, not compared */
    bool small;         /* short rows and few entries: for an interpreter of kernels, such as Oclgrind */
    const char *only;   /* one operation; NULL: all */
    const char *inject; /* for tests: this operation's results are made wrong; NULL: none */
};
/* Calls row for every operation. KVC_DIFFERS when anything differed. */
enum kvc_status kvc_verify_operations(const struct kvc_verify_options *options, kvc_verify_fn *row, void *user,
                                      struct kvc_error *error);
const char *kvc_verify_operation(size_t i); /* the i-th operation's name; NULL past the last */
/* For tests: damages one operation's results in everything that is opened from the engine from now on. */
enum kvc_status kvc_verify_inject(struct kvc_engine *engine, const char *operation, struct kvc_error *error);

/* ---- measure: a backend's operations beside what its device can do --------------------------------------------- */

struct kvc_rooflines { /* of the device, measured in the same run */
    double copy;       /* bytes per second, read and written, of a large copy */
    double fma;        /* flops per second of exact fused multiply-adds that need no memory */
    double product;    /* flops per second of a library's matrix product (--math fast); 0: there is none */
    double launch;     /* seconds of a call that has nothing to do */
};
struct kvc_measured {
    const char *name, *shape;
    uint64_t bytes, flops; /* of one call: what it has to read and write, and its arithmetic; 0: none */
    unsigned calls;        /* queued for it: 1, or with copies that put back what it starts from */
    double seconds;        /* of one call: the best of several */
    double beside;         /* the same on the other backend; 0: there is none. Where the first is less than twice as
                              fast, five rounds of both are measured, and that of the median ratio counts */
    double launch;         /* of a call that has nothing to do, in the same round; 0 where nothing is beside */
};
typedef int kvc_measure_fn(void *user, const struct kvc_rooflines *rooflines, const struct kvc_measured *row);
enum { KVC_MEASURE_LEAST = 256, KVC_MEASURE_MOST = 1 << 22 };
struct kvc_measure_options {
    const char *beside; /* NULL, or a second backend to time with the same calls */
    const char *only;   /* NULL, or an operation's name */
    uint32_t entries; /* 0: each operation, at shapes of a model of one billion parameters. KVC_MEASURE_LEAST to _MOST:
                         what a context of so many entries costs in one layer of a model of eight billion. The rows are
                         then "linear" and "attention" (a decode step, over heads of different lengths), "prefill" (a
                         chunk, half of the context before it), and "selection" (what a prompt leaves in the cache) */
};
/* Calls row for every operation of the backend; non-zero stops. A fused multiply-add counts as two
 * flops, an exponential as twenty. */
enum kvc_status kvc_measure_operations(const struct kvc_engine_options *options, const struct kvc_measure_options *what,
                                       kvc_measure_fn *row, void *user, struct kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif
