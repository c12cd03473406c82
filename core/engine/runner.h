/* runner.h - the operations of a forward pass over the rows of a batch, in the order in which a layer calls them. The
 * runner knows lists of entries and rows, but no sessions. It owns the scratch buffers, which grow to the largest batch
 * and are kept. */
#ifndef KVC_CORE_ENGINE_RUNNER_H
#define KVC_CORE_ENGINE_RUNNER_H

#include "core/engine/batch.h"
#include "core/engine/delta.h"
#include "core/engine/engine.h"
#include "core/engine/experts.h"
#include "core/engine/growable.h"
#include "core/engine/linear.h"
#include "core/engine/network.h"
#include "core/engine/extra_slots.h"

#define KVC_LOGIT_ROWS 64u

#define KVC_STAGE_SCORES 6u

/* Scratch of the current stage of a policy. */
struct kvc_stage_scratch {
    struct kvc_growable scores[KVC_STAGE_SCORES]; /* float32 [heads, stride] each */
    struct kvc_growable kept_index;           /* uint32 [lists, kept_stride]: the indices that the last eviction kept */
    struct kvc_growable kept_count;           /* uint32 [lists] */
    struct kvc_growable totals;               /* a few numbers to be copied to the host */
    struct kvc_growable rows;                 /* float32 [some outputs, H*d]: rows of an output projection */
    struct kvc_growable numbers;              /* int32 [some outputs]: the indices of these outputs */
    struct kvc_growable across, across_count; /* scores of all ranks' lists, and their counts (stage_ranks.c) */
    uint32_t kept_stride;
};

struct kvc_coordinator;
struct kvc_predictor;

struct kvc_runner {
    struct kvc_engine *engine;
    const struct kvc_coordinator *coordinator; /* the functions that involve other processes (coordinator.h) */
    struct kvc_device *device;
    const struct kvc_network *network; /* NULL: replay */
    struct kvc_geometry geometry;      /* this rank's geometry */
    struct kvc_geometry model;         /* geometry of all ranks together, which policies use */
    struct kvc_extra_slots *stores;    /* allocators of cache entries, one for each pair of types, as a linked list */
    struct kvc_predictor *predictors;  /* those in use by sessions, as a linked list (predictor.h) */
    bool per_head;                     /* some session's cache has a list per query head */

    /* float32 scratch for the rows of the current layer; H query heads of d channels, H_kv key-value heads */
    struct kvc_growable normed;      /* [rows, hidden] */
    struct kvc_growable q_raw;       /* [rows, H, d]: before rotation */
    struct kvc_growable k_raw;       /* [rows, H_kv, d]: before rotation */
    struct kvc_growable q;           /* [rows, H, d] */
    struct kvc_growable k;           /* [rows, H_kv, d] */
    struct kvc_growable v;           /* [rows, H_kv, d] */
    struct kvc_growable k_heads;     /* [rows, H, d]: k repeated, for lists per query head */
    struct kvc_growable v_heads;     /* [rows, H, d]: v repeated */
    struct kvc_growable attended;    /* [rows, H, d] */
    struct kvc_growable maximum;     /* [rows, H]: M of attention */
    struct kvc_growable sum;         /* [rows, H]: L */
    struct kvc_growable projected;   /* [rows, hidden] */
    struct kvc_growable gate;        /* [rows, feed_forward] */
    struct kvc_growable up;          /* [rows, feed_forward] */
    struct kvc_growable last;        /* [logit rows, hidden] */
    struct kvc_growable logits;      /* [logit rows, vocab] */
    struct kvc_growable part;        /* [rows, outputs of a linear layer]: this rank's part, before it is gathered */
    struct kvc_growable part_quants; /* this rank's part of a linear layer's quantized input, before it is gathered */
    struct kvc_growable gathered;    /* all ranks' parts on the device, ordered by rank, before they are put in order */
    struct kvc_linear_scratch linear;
    struct kvc_experts_scratch experts;
    struct kvc_delta_scratch delta;
    struct kvc_stage_scratch stage;

    struct kvc_segment *segments;       /* [segment_capacity]: segments of the rows of the current layer */
    struct kvc_segment *alike;          /* [segment_capacity]: the segments with the same number of lists */
    struct kvc_recurrence *recurrences; /* [segment_capacity]: segments of the rows of the current delta net */
    size_t segment_capacity;
    struct kvc_batch prompt;    /* rows of the current pass */
    struct kvc_batch step;      /* rows of the current decode step */
    struct kvc_growable counts; /* uint32 [count_capacity]: counts of all lists and views of a step's sessions */
    uint32_t *host_counts;      /* host copy of counts */
    size_t count_capacity;
    float *host_rows; /* [host_capacity]: cosine or sine rows to be copied to the device */
    size_t host_capacity;
    /* only for a replay: */
    uint32_t *windows;         /* [layers] or NULL: sliding windows */
    float cap;                 /* cap of the scores; 0: none */
    struct kvc_growable sinks; /* [layers, H], or no bytes: no attention sinks */
};

/* Returns how the model computes scores. A replay uses the default. */
static inline struct kvc_scoring kvc_runner_scoring(const struct kvc_runner *runner) {
    struct kvc_scoring scoring = {.scale = 0.0f, .cap = runner->cap};
    if (runner->network)
        scoring = runner->network->scoring;
    scoring.integers = runner->linear.int8;
    return scoring;
}

/* The layer's attention sinks. */
static inline struct kvc_span kvc_runner_sinks(const struct kvc_runner *runner, uint32_t layer) {
    if (runner->network)
        return runner->network->layer[layer].sinks;
    return runner->sinks.bytes ? kvc_growable_at(&runner->sinks, (size_t)layer * runner->geometry.heads * sizeof(float))
                               : (struct kvc_span){NULL, 0};
}

/* Returns a layer's sliding window, or 0 if it has none. */
static inline uint32_t kvc_runner_window(const struct kvc_runner *runner, uint32_t layer) {
    if (runner->network)
        return runner->network->layer[layer].window;
    return runner->windows ? runner->windows[layer] : 0;
}

/* Opens a runner. If `network` is NULL, opens a runner for a replay from the geometry alone. */
enum kvc_status kvc_runner_open(struct kvc_engine *engine, const struct kvc_network *network,
                                const struct kvc_geometry *geometry, struct kvc_runner **runner,
                                struct kvc_error *error);
void kvc_runner_close(struct kvc_runner *runner);

enum kvc_status kvc_runner_store(struct kvc_runner *runner, const struct kvc_entry_format *format,
                                 struct kvc_extra_slots **store, struct kvc_error *error);

/* Reserve scratch for `rows` rows at once in `segments` segments, and for `rows` rows of logits. */
enum kvc_status kvc_runner_reserve(struct kvc_runner *runner, uint32_t rows, size_t segments, struct kvc_error *error);
enum kvc_status kvc_runner_reserve_logits(struct kvc_runner *runner, uint32_t rows, struct kvc_error *error);

/* ---- the operations in the order of a forward pass; they require reserved scratch ---- */

/* Sets hidden [rows, hidden] to the embeddings of the batch's tokens. Does nothing if another process has the first
 * layer. */
void kvc_runner_embed(struct kvc_runner *runner, struct kvc_batch *batch);
/* Computes q_raw, q, k_raw and k of rows row .. row+rows-1 of the batch in a layer; q and k are rotated to the rows'
 * positions. */
void kvc_runner_project_queries_keys(struct kvc_runner *runner, const struct kvc_batch *batch, uint32_t layer,
                                     uint32_t row, uint32_t rows);
/* Computes v of the rows that kvc_runner_project_queries_keys projected last. */
void kvc_runner_project_values(struct kvc_runner *runner, uint32_t layer, uint32_t rows);
/* Appends the segments' stored rows to their lists. k, v [rows, H_kv, d], positions int32 [rows]. */
void kvc_runner_append(struct kvc_runner *runner, const struct kvc_segment *segments, size_t count, struct kvc_span k,
                       struct kvc_span v, struct kvc_span positions);
/* Copies x [rows, H_kv, width] to state columns first .. first+width-1 of the lists' newest `rows` entries. All lists
 * of a group receive the same values. */
void kvc_runner_keep(struct kvc_runner *runner, const struct kvc_lists *lists, uint32_t first, struct kvc_span x,
                     uint32_t rows, uint32_t width);
/* Apply the operation `hadamard` if the entries' types are rotated: to queries, keys and values before keys and values
 * are appended, and to attention's output. `row` is a row of the buffers, not of the batch. */
void kvc_runner_transform(struct kvc_runner *runner, const struct kvc_entry_format *format, uint32_t row, uint32_t rows,
                          struct kvc_span k, struct kvc_span v);
void kvc_runner_transform_back(struct kvc_runner *runner, const struct kvc_entry_format *format, uint32_t row,
                               uint32_t rows);
/* Computes `attended`, `maximum` and `sum` of the segments' rows from `q`. The segments' row 0 is row `first` of these
 * buffers and row `row` of the batch. */
void kvc_runner_attend(struct kvc_runner *runner, const struct kvc_batch *batch, uint32_t layer, uint32_t row,
                       uint32_t first, const struct kvc_segment *segments, size_t count);
/* Adds the output projection of `attended` to `hidden`. */
void kvc_runner_project_output(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t layer, uint32_t row,
                               uint32_t rows);
/* Adds the feed-forward network's output for the normalized hidden states to `hidden`. */
void kvc_runner_feed_forward(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t layer, uint32_t row,
                             uint32_t rows);
/* Runs a whole layer with a gated delta net: adds the delta net's output to `hidden`, then the output of the layer's
 * feed-forward network. The segments' rows are relative to `row`. */
void kvc_runner_delta(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t delta, uint32_t row, uint32_t rows,
                      const struct kvc_recurrence *segments, size_t count);
/* Copies the logits [count, vocab] of the batch's rows first .. first+count-1 to the host, in all processes. At most
 * KVC_LOGIT_ROWS rows. */
enum kvc_status kvc_runner_logits(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t first, uint32_t count,
                                  float *logits, struct kvc_error *error);

#endif
