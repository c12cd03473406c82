/* ops.h - the operations of every backend: their parameter structs and the dispatch table. Both are generated from the
 * list of operations, ops.def, which gives formulas and shapes.
 *
 * backends/cpu/ref defines each operation in plain C; core/base/canon.h has the arithmetic that they share. On every
 * backend and for any number of threads, results must be bit-identical to ref's. Operations are queued in order; only
 * sync, upload and download wait. The device keeps a failure of a queued operation and returns it from the next sync.
 * An operation reads its parameter struct before the call returns.
 *
 * Symbols: rows = tokens in the batch, H = query heads, H_kv = key-value heads (of the lists), G = H / H_kv, d = head
 * size, n = entries of a head. All arrays are dense, row-major and float32 unless stated otherwise.
 *
 * Formulas fix the order of additions:
 *   sum over i        begins with 0 and adds the terms one by one, by ascending i. A term fma(a, b, sum) is added by
 *                     this fused multiply-add.
 *   group sum         a sum over the query heads of a list.
 *   lane sum over i   adds term i in this way to lane i % 32, and then the 32 lanes pairwise (KVC_TREE32).
 *   sum by tiles      a sum in each tile of 256 indices or places, and then a sum over the tiles. A lane sum by tiles
 *                     has a lane sum in each tile.
 *   max over i        kvc_max by ascending i, beginning with -inf. */
#ifndef KVC_CORE_BASE_OPS_H
#define KVC_CORE_BASE_OPS_H

#include "core/base/lists.h"

/* The probabilities that Keyformer uses in place of attention's: softmax over the same entries of (s + g) / tau, where
 * g = kvc_gumbel(seed, layer, query head, key position) (canon.h). */
struct kvc_noise {
    uint64_t seed;
    uint32_t layer;
    uint32_t first_head; /* query head h counts as head first_head + h */
    float tau;
};

/* How a decode step's query scores a head's entries: the entries of the view or, without a view, of the lists. "Place"
 * below means an entry, or a page if pages of low and high are given. Heads with at most `budget` places are skipped;
 * their scores and weights are undefined.
 *
 * Chosen channels: A[c] is the group sum of |q[h, c]|. The `dims` channels with the highest A, by the rule of top-k,
 * are c_0, c_1, ... in ascending order. A channel is positive unless the group sum of q[h, c] is below 0. For each
 * query head h:
 *   dot = sum over i of fma(q[h, c_i], x[c_i], dot).
 *   score = dot * (1 / sqrt(r * (a / b))). If a or b is 0, score = dot * 0.
 *   a is the sum over i of |q[h, c_i]|, and b the sum over c of |q[h, c]|.
 *   r = d, or 1 / scale^2 if the model has a scale (kvc_score_span).
 * All scores except bounds are capped if the model has a cap.
 *
 * Softmax: n of a page is the number of its entries that a sliding window does not hide; n of an entry is 1 or 0.
 * Places with n = 0 take no part, and their result is -inf, so that every place with n > 0 and a number as its result
 * ranks before them, even if all weights are 0. For each query head:
 *   e = exp(score - M), where M is the largest score.
 *   L is the lane sum by tiles of fma(n, e, lane). If the model has sinks, the head's sink joins (kvc_join_sink) unless
 *   every n is 0.
 *   weight = e * (1 / L), or 0 where n is 0. */
enum kvc_score_kind {
    /* attention's score of dot32(q, key), then softmax; the result is the group sum of the weights */
    KVC_SCORE_EXACT,
    /* the score of the chosen channels, with x = the key (in pages.high if there are pages), then as above */
    KVC_SCORE_CHANNELS,
    /* per page: the same with x = high if the channel is positive, else low */
    KVC_SCORE_PAGE_CHANNELS,
    /* per page, without softmax: the group sum of dot = sum over c of `fma(q[c], q[c] < 0 ? low[c] : high[c], dot)` */
    KVC_SCORE_PAGE_BOUND
};

/* The function that gated_silu applies to the gate. The operation keeps the name gated_silu because data/hashes.txt
 * stores it. */
enum kvc_activation { KVC_SILU, KVC_GELU, KVC_CLAMPED_SILU, KVC_SIGMOID, KVC_GELU_EXACT };

/* Consecutive rows of one session in a layer with a recurrent state. */
struct kvc_recurrence {
    struct kvc_span state; /* the session's state in this layer */
    uint32_t row, rows;
    bool kept; /* true: the rows update the state; false: they leave it unchanged */
};

/* Rows of activations quantized to eight bits. */
struct kvc_int8_rows {
    struct kvc_span quant; /* int8 [rows, K] */
    struct kvc_span scale; /* [rows, K / 32] */
    struct kvc_span sum;   /* int32 [rows, K / 16]: sum of the quants in each half of a block */
};
/* Returns the rows from `row` on. */
static inline struct kvc_int8_rows kvc_int8_rows_from(struct kvc_int8_rows rows, uint64_t row, uint64_t K) {
    rows.quant.offset += (size_t)(row * K);
    rows.scale.offset += (size_t)(row * (K / 32) * 4);
    rows.sum.offset += (size_t)(row * (K / 16) * 4);
    return rows;
}

/* Returns the number of int16's blocks in a row, of which the last may be short. */
static inline uint64_t kvc_int16_blocks(uint64_t K) { return K / KVC_INT16_BLOCK + (K % KVC_INT16_BLOCK != 0); }

/* Rows of activations quantized to fifteen bits. */
struct kvc_int16_rows {
    struct kvc_span quant; /* int16 [rows, K] */
    struct kvc_span scale; /* [rows, kvc_int16_blocks(K)] */
};
/* Returns the rows from `row` on. */
static inline struct kvc_int16_rows kvc_int16_rows_from(struct kvc_int16_rows rows, uint64_t row, uint64_t K) {
    rows.quant.offset += (size_t)(row * K * 2);
    rows.scale.offset += (size_t)(row * kvc_int16_blocks(K) * 4);
    return rows;
}

/* Returns the size of a matrix [rows, K] in fifteen bits: two bytes for each number, and a scale for each block. The
 * size cannot overflow, because the original matrix is in memory already. */
static inline uint64_t kvc_int16_bytes(uint64_t rows, uint64_t K) { return rows * (K * 2 + kvc_int16_blocks(K) * 4); }

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

/* The shape of the next decode step, for kvc_ops.prepare. With lists, it describes one row of a
 * session in a layer. If lists is NULL, it describes the operations without lists, which work on all `rows` rows of the
 * batch. */
struct kvc_step_shape {
    const struct kvc_lists *lists;
    uint32_t rows, heads, head_size, places; /* `places`: stride of the read lists; 0: every entry is read */
    bool rotates;                            /* keys are rotated to cache positions */
    bool compares;                           /* keys are compared with each other (mix_redundancy) */
    bool merges;                             /* values are merged (merge_similar, merge_values) */
    bool series;                             /* keys are scored by statistics of all queries (series_scores) */
};

struct kvc_ops {
    const char *name;
#define KVC_LIFETIME(result, name, arguments) result(*name) arguments;
#define KVC_BYTES(result, name, arguments) result(*name) arguments;
#define KVC_OPERATION(name, parameters, ...) void (*name)(struct kvc_device *, const struct parameters *);
#include "core/base/ops.def"
};

/* A backend as core sees it. A new backend takes one folder and one line in backends/list.c. */
struct kvc_backend_class {
    const char *name;
    /* `detail`: the instruction set, or one line that says why the backend is not usable */
    bool (*usable)(char *detail, size_t capacity);
    /* `index`: the N of "opencl:N", otherwise 0. `path`: NULL, an instruction set of this backend ("avx2"), or part of
     * a device's name ("opencl:mali"). */
    enum kvc_status (*open)(const char *path, unsigned index, int threads, enum kvc_math math, struct kvc_device **,
                            struct kvc_error *);
    void (*missing)(char *text, size_t capacity);            /* operations that ref provides instead, or "none" */
    bool (*device)(size_t i, char *detail, size_t capacity); /* the i-th device; NULL: the backend has one device */
    bool in_turn; /* if no device is named, the ranks of one machine take different devices */
};

#endif
