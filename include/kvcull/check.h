/** @file kvcull/check.h
 * Checks and measurements: predictions of a policy's formulas, replays of a policy on tensors, verification of a
 * backend against the reference, and speed measurements of its operations. Installed as kvcull/check.h.
 */
#ifndef KVCULL_CHECK_H
#define KVCULL_CHECK_H

#include "kvcull.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- formula: predicted entries and reads ---------------------------------------------------------------------- */

/** Predictions of the methods' formulas (struct kvc_forecast), for comparison with counted numbers. */
struct kvc_formula {
    double entries;               /**< entries of all layers and heads after the prompt */
    double read_bytes;            /**< cache bytes that all decode steps read, select_bytes included */
    double select_bytes;          /**< the part of read_bytes that is read in order to choose entries */
    enum kvc_expected entry_kind; /**< accuracy of `entries` */
    enum kvc_expected read_kind;  /**< accuracy of `read_bytes` */
};
/** Predicts a session with policy string `spec`, `prompt` tokens and `steps` decode steps. Fails with KVC_USAGE for a
 * wrong argument. */
enum kvc_status kvc_formula(const struct kvc_engine *engine, const char *spec, const struct kvc_geometry *geometry,
                            struct kvc_entry_types cache_type, uint64_t prompt, uint64_t steps,
                            struct kvc_formula *formula, struct kvc_error *error);

/* ---- replay: a policy on tensors from any source, without a model --------------------------------------------- */

/** A session whose queries, keys and values come from the caller: first the rows of a prompt, layer by layer, then
 * decode steps, row by row and layer by layer. */
struct kvc_replay;
/** Opens a replay; `options` as for kvc_session_open. Close it with kvc_replay_close. */
enum kvc_status kvc_replay_open(struct kvc_engine *engine, const struct kvc_geometry *geometry,
                                const struct kvc_session_options *options, struct kvc_replay **replay,
                                struct kvc_error *error);
/** Sets the sliding windows [layers] (0: none). Call it before the first prompt. */
enum kvc_status kvc_replay_windows(struct kvc_replay *replay, const uint32_t *windows, struct kvc_error *error);
/** Sets the cap of the scores (0: none) and the attention sinks [layers, H] (NULL: none). Call it before the first
 * prompt. */
enum kvc_status kvc_replay_scores(struct kvc_replay *replay, float cap, const float *sinks, struct kvc_error *error);
/** Frees a replay. NULL is allowed. */
void kvc_replay_close(struct kvc_replay *replay);
/** Passes one layer's rows of a prompt: q [rows, H, d], k and v [rows, H_kv, d], all after RoPE. `out` [rows, H, d], or
 * NULL, receives the attention output.
 *
 * Call it once for each layer, ascending, with the same `rows`. The policy's prompt stage runs at the end. A prompt
 * after decode steps begins another turn. Fails with KVC_USAGE for a layer out of order. After a failure within a layer
 * the replay must be closed. */
enum kvc_status kvc_replay_prompt(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                  const float *v, uint64_t rows, float *out, struct kvc_error *error);
/** Passes the pseudo rows of the method `dapq` for one layer, q [rows, H, d] and k [rows, H_kv, d], before the layer's
 * prompt. The arrays must stay valid until the prompt of the last layer returns. */
enum kvc_status kvc_replay_pseudo(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                  uint32_t rows, struct kvc_error *error);
/** Passes the probe queries q [rows, H, d] of the method `take` for one layer and one chunk, before the layer's prompt.
 * Call it for every chunk except the last. The array must stay valid until the prompt of the last layer returns. */
enum kvc_status kvc_replay_probe(struct kvc_replay *replay, uint32_t layer, uint32_t chunk, const float *q,
                                 uint32_t rows, struct kvc_error *error);
/** Called when a chunk has passed all layers; nonzero stops the prompt. */
typedef int kvc_chunk_fn(void *user, uint32_t chunk);
/** Sets the function to call after each chunk of a chunk method. With such a method all computation happens in the last
 * layer's kvc_replay_prompt, so q, k, v and out of all layers must stay valid until that returns. */
void kvc_replay_on_chunk(struct kvc_replay *replay, kvc_chunk_fn *done, void *user);
/** Passes one decode row of one layer: q [H, d], k and v [H_kv, d]. `out` [H, d], or NULL, receives the attention
 * output. Call it for all layers, ascending, before the next row. */
enum kvc_status kvc_replay_step(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                const float *v, float *out, struct kvc_error *error);
/** Returns the session of a replay, for kvc_session_positions and kvc_session_stats. The session belongs to the
 * replay. */
const struct kvc_session *kvc_replay_session(const struct kvc_replay *replay);

/* ---- verify: bitwise comparison of a backend with the reference ------------------------------------------------ */

/** The result for one operation (of kvc_verify_operations) or one method (of the command `kvcull verify`). */
struct kvc_verify_row {
    const char *kind;        /**< "operation" or "method" */
    const char *name;        /**< its name */
    uint64_t cases;          /**< shapes tried */
    uint64_t values;         /**< values compared */
    uint64_t differing;      /**< values (operation) or logits (method) that differ */
    uint64_t differing_bits; /**< bits that differ in these values */
    uint64_t kept_differing; /**< method: entries that only one of the two runs keeps */
    uint64_t read_differing; /**< method: entries that only one of the two runs reads in decode steps */
    uint64_t hash;           /**< hash of all results (operation) or logits (method) of the tested backend */
    uint64_t kept_hash;      /**< method: hash of the entries kept in all steps */
    uint64_t read_hash;      /**< method: hash of the entries read in all steps */
    char first[160];         /**< the first difference: shape, index and both values in hexadecimal; "": none */
};
/** Receives the result for one operation; nonzero stops. */
typedef int kvc_verify_fn(void *user, const struct kvc_verify_row *row);
/** Options of kvc_verify_operations. */
struct kvc_verify_options {
    const char *backend; /**< as in struct kvc_engine_options, or an instruction set of the CPU: "avx2", "avx512",
                              "neon". "ref" compares the reference with and without fused multiply-add */
    int threads;         /**< as in struct kvc_engine_options */
    unsigned effort;     /**< multiplies the number of cases; `kvcull verify` uses 10; 0: about an eighth of them */
    bool alone;          /**< do not run ref: hash the results for comparison with stored hashes, and compare nothing */
    bool small;          /**< short rows and few entries, for interpreters of kernels such as Oclgrind */
    const char *only;    /**< one operation; NULL: all */
    const char *inject;  /**< for tests: falsify the results of this operation; NULL: none */
};
/** Compares every operation of a backend with ref and calls `row` (or NULL) for each. Fails with KVC_DIFFERS if
 * anything differs, and with KVC_USAGE for an unknown name. */
enum kvc_status kvc_verify_operations(const struct kvc_verify_options *options, kvc_verify_fn *row, void *user,
                                      struct kvc_error *error);
/** Returns the name of the i-th operation; NULL past the last one. */
const char *kvc_verify_operation(size_t i);
/** For tests: falsifies the results of one operation in everything that is opened from the engine from now on. */
enum kvc_status kvc_verify_inject(struct kvc_engine *engine, const char *operation, struct kvc_error *error);

/* ---- measure: the speed of a backend's operations and of its device --------------------------------------------- */

/** Limits of the device, measured in the same run. */
struct kvc_rooflines {
    double copy;    /**< bytes per second, read and written, of a large copy */
    double read;    /**< bytes per second that the processor reads; 0: not measured for this table or backend */
    double fma;     /**< flops per second of exact fused multiply-adds on registers */
    double product; /**< flops per second of a BLAS library's matrix product (KVC_MATH_FAST); 0: there is none */
    double launch;  /**< seconds of an empty call */
};
/** The measurement of one operation at one shape. */
struct kvc_measured {
    const char *name;      /**< the operation */
    const char *shape;     /**< the shape */
    uint64_t bytes;        /**< bytes that one call must read and write */
    uint64_t flops;        /**< arithmetic of one call; a fused multiply-add counts 2, an exponential 20; 0: none */
    uint64_t beside_bytes; /**< bytes of the call that it is compared with */
    unsigned calls;        /**< backend calls per measured call: 1, or more if copies must restore its input */
    double seconds;        /**< time of one call, the best of several */
    double beside; /**< seconds of one call on the other backend; 0: there is none. If the first backend is less than
                        twice as fast, both are measured in five rounds, and the round with the median ratio counts */
    double launch; /**< seconds of an empty call in the same round; 0 without another backend */
};
/** Receives one measurement; nonzero stops. */
typedef int kvc_measure_fn(void *user, const struct kvc_rooflines *rooflines, const struct kvc_measured *row);
/** A table that kvc_measure_operations measures. */
struct kvc_measure_table {
    const char *name;   /**< its name */
    const char *beside; /**< the call with which the table compares each row if no other backend is given; NULL: none */
    bool model;         /**< kvc_measure_prompt measures it, because it needs a model */
};
/** Returns the i-th table; NULL past the last one. */
const struct kvc_measure_table *kvc_measure_table(size_t i);
/** Range of `entries` in struct kvc_measure_options. */
enum {
    KVC_MEASURE_LEAST = 256,   /**< smallest number of entries */
    KVC_MEASURE_MOST = 1 << 22 /**< largest number of entries */
};
/** Options of kvc_measure_operations. */
struct kvc_measure_options {
    const char *beside; /**< a second backend to measure with the same calls; NULL: none */
    const char *only;   /**< an operation's name; NULL: all */
    uint32_t entries;   /**< entries of the table's cache (KVC_MEASURE_LEAST to _MOST); 0: the table's own number. Only
                             the tables "layer" and "select" have entries */
    const char *table;  /**< the table's name; NULL: "operations", or "layer" if there are entries */
    bool quick;         /**< call everything once, at small shapes, to see that it runs */
};
/** Measures a table and calls `row` for each of its rows. With one CPU thread, all tables except "operations" and
 * "layer" measure CPU time, which other load affects less. Fails as kvc_engine_open does, and with KVC_USAGE for an
 * unknown table or operation. */
enum kvc_status kvc_measure_operations(const struct kvc_engine_options *options, const struct kvc_measure_options *what,
                                       kvc_measure_fn *row, void *user, struct kvc_error *error);
/** Computes a prompt in a new session and calls `row` for every operation: `seconds` is the time of all its calls,
 * `beside` the time of the whole prompt, and `shape` gives the number of calls. The last row has the remaining time.
 * The engine must be the model's and compute nothing else meanwhile. */
enum kvc_status kvc_measure_prompt(struct kvc_engine *engine, struct kvc_model *model,
                                   const struct kvc_session_options *options, const int32_t *tokens, size_t count,
                                   kvc_measure_fn *row, void *user, struct kvc_error *error);
/** Returns the bytes per second that `threads` threads (0: one per core) read from memory larger than any cache, the
 * best of several sweeps. Returns 0 if the memory cannot be allocated. */
double kvc_measure_bandwidth(unsigned threads);

#ifdef __cplusplus
}
#endif
#endif
