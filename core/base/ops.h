/* ops.h - the operations of every backend: their parameter structs and the dispatch table, which the list of operations
 * (ops.def) makes; there are the formulas and shapes.
 *
 * backends/cpu/ref defines each operation in plain C; core/base/canon.h is the arithmetic they share. A result must be
 * equal to ref's to the bit on every backend, for any thread count. Operations are queued in order; only sync,
 * upload and download wait. A failure inside a queued operation is kept by the device and returned by the next sync.
 * A parameter struct is read before the call returns.
 *
 * Symbols: rows = tokens in the batch, H = query heads, H_kv = key-value heads (of the lists), G = H / H_kv, d = head
 * size, n = entries of a head. All arrays are dense and row-major, float32 unless said otherwise.
 */
#ifndef KVC_CORE_BASE_OPS_H
#define KVC_CORE_BASE_OPS_H

#include "core/base/lists.h"

/* Keyformer's weights instead of attention's: softmax over the same entries of (s + g) / tau, where
 * g = kvc_gumbel(seed, layer, query head, key position) of canon.h. */
struct kvc_noise {
    uint64_t seed;
    uint32_t layer;
    uint32_t first_head; /* query head h draws as first_head + h */
    float tau;
};

/* How the query of a decode step scores what a head holds (lists, or view where there is one): its places, or with
 * pages of low and high its pages; "place" below is either. Heads with no more than `budget` places are passed over,
 * their scores and weights are undefined.
 * Chosen channels: A[c] = sum over the group's heads ascending, from 0, of |q[h, c]|; the `dims` highest by the rule of
 * top-k, in ascending channel order c_0, c_1, ...; a channel is positive unless the sum over the heads ascending, from
 * 0, of q[h, c] is below 0. dot of head h: fma(q[h, c_i], x[c_i], dot) over ascending i, from 0. a and b: the sums,
 * ascending, from 0, of |q[h, c_i]| and of |q[h, c]|. score = dot * (1 / sqrt(r * (a / b))), r = d, or 1 / scale^2
 * where the model has a scale (kvc_score_span); dot * 0 where a or b is 0. Scores of all kinds but bounds are capped
 * where the model has a cap. A page's n is how many of its places a sliding window does not hide; n of an entry is 1 or
 * 0. Those with n = 0 take no part. Softmax: M the largest score, e = exp(score - M), L = the sum over tiles of 256
 * places (or pages) ascending, from 0, of the tile's lanes i % 32 of fma(n, e, lane), from 0, and the tree; where the
 * model has sinks the head's joins (kvc_join_sink), unless no place has an n; weight = e * (1 / L), 0 where n is 0. */
enum kvc_score_kind {
    KVC_SCORE_EXACT,    /* score = attention's, of dot32(q, key); softmax; group sum of the weights, ascending heads,
                           from 0 */
    KVC_SCORE_CHANNELS, /* x = the key's own channels (from pages.high where there are pages); the same */
    KVC_SCORE_PAGE_CHANNELS, /* by page: x = high where the channel is positive, else low; the same */
    KVC_SCORE_PAGE_BOUND     /* by page: fma(q[c], q[c] < 0 ? low[c] : high[c], dot) over all c ascending, from 0; group
                                sum of the dots; -inf where n is 0; no softmax */
};

/* What gated_silu does to the gate; the operation keeps its name, because data/hashes.txt stores it. */
enum kvc_activation { KVC_SILU, KVC_GELU, KVC_CLAMPED_SILU, KVC_SIGMOID };

/* Neighbouring rows of one session in a layer with a recurrent state. */
struct kvc_recurrence {
    struct kvc_span state; /* of the session in this layer */
    uint32_t row, rows;
    bool kept; /* the state takes these rows in; otherwise it stays as it is */
};

/* Rows of activations in eight bits. */
struct kvc_int8_rows {
    struct kvc_span quant; /* int8 [rows, K] */
    struct kvc_span scale; /* [rows, K / 32] */
    struct kvc_span sum;   /* int32 [rows, K / 16]: of the quants of each half of a block */
};
/* The same from a row on. */
static inline struct kvc_int8_rows kvc_int8_rows_from(struct kvc_int8_rows rows, uint64_t row, uint64_t K) {
    rows.quant.offset += (size_t)(row * K);
    rows.scale.offset += (size_t)(row * (K / 32) * 4);
    rows.sum.offset += (size_t)(row * (K / 16) * 4);
    return rows;
}

/* Every backend's struct kvc_weight begins with its type. */
static inline enum kvc_type kvc_weight_type(const struct kvc_weight *w) {
    return *(const enum kvc_type *)(const void *)w;
}

/* ---- parameters ---- */

#define KVC_OPERATION(name, parameters, ...)                                                                           \
    struct parameters {                                                                                                \
        __VA_ARGS__                                                                                                    \
    };
#include "core/base/ops.def"

/* ---- the table ---- */

/* What a decode step is about to do, for kvc_ops.prepare: with one row of a session in a layer, or (lists NULL) with
 * the `rows` rows of its batch outside of the lists. */
struct kvc_step_shape {
    const struct kvc_lists *lists;
    uint32_t rows, heads, head_size, places; /* places: stride of the read lists, 0 where everything is read */
    bool rotates;                            /* keys are rotated to cache positions */
    bool compares;                           /* keys are compared with each other (mix_redundancy) */
    bool series;                             /* keys are scored by what is known of all queries (series_scores) */
};

struct kvc_ops {
    const char *name;
#define KVC_LIFETIME(result, name, arguments) result(*name) arguments;
#define KVC_BYTES(result, name, arguments) result(*name) arguments;
#define KVC_OPERATION(name, parameters, ...) void (*name)(struct kvc_device *, const struct parameters *);
#include "core/base/ops.def"
};

/* A backend as core sees it. Adding one: one folder and one line in backends/list.c. */
struct kvc_backend_class {
    const char *name;
    bool (*usable)(char *detail, size_t capacity); /* detail: the path, or one line why not */
    /* index: the N of "opencl:N", 0 otherwise; path: NULL, or a path of this backend ("avx2"), or part of the name of a
     * device ("opencl:mali"). */
    enum kvc_status (*open)(const char *path, unsigned index, int threads, enum kvc_math math, struct kvc_device **,
                            struct kvc_error *);
    void (*missing)(char *text, size_t capacity); /* operations filled from ref, "none" where there are none */
    bool (*device)(size_t i, char *detail, size_t capacity); /* the i-th device; NULL: there is one */
    bool in_turn; /* indices of one machine take one device after another where none is named */
};

#endif
