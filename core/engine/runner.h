/* runner.h - computes batches of rows: one layer of a network over neighbouring rows of one or more sessions, and the
 * attention part alone for replay. Owns the scratch buffers, which grow to the largest batch and are kept. */
#ifndef KVC_CORE_ENGINE_RUNNER_H
#define KVC_CORE_ENGINE_RUNNER_H

#include "core/engine/engine.h"
#include "core/engine/network.h"
#include "core/engine/spares.h"

#define KVC_LOGIT_ROWS 64u

struct kvc_session;

/* A buffer that is made again when it is too small. */
struct kvc_growable {
    struct kvc_buffer *buffer;
    size_t bytes;
    enum kvc_memory_kind kind;
};
enum kvc_status kvc_growable_reserve(struct kvc_device *device, struct kvc_growable *growable, size_t bytes,
                                     struct kvc_error *error);
void kvc_growable_free(struct kvc_device *device, struct kvc_growable *growable);
static inline struct kvc_span kvc_growable_at(const struct kvc_growable *growable, size_t bytes) {
    return (struct kvc_span){growable->buffer, bytes};
}

/* What every row of a batch carries: positions int32, tokens int32, cosine and sine [rows, rotary/2], hidden states
 * [rows, hidden], and how many entries at the end of its session's lists it must not see. */
struct kvc_batch {
    uint32_t rows;
    struct kvc_growable positions, tokens, causal_offset, cosine, sine, hidden;
};

/* What rows are: a prompt's own, those that a method adds to it, or a decode step's. */
enum kvc_rows_kind { KVC_ROWS_PROMPT, KVC_ROWS_PSEUDO, KVC_ROWS_PROBE, KVC_ROWS_STEP };

/* Neighbouring rows of one session; the first `stored` get entries. */
struct kvc_part {
    struct kvc_session *session;
    uint32_t row, rows, stored;
    enum kvc_rows_kind kind;
};

struct kvc_runner {
    struct kvc_engine *engine;
    struct kvc_device *device;
    const struct kvc_network *network; /* NULL: replay */
    struct kvc_geometry geometry;
    struct kvc_spares store[3]; /* arenas of F32, F16, Q8_0; made when first asked for */
    struct kvc_growable normed, q_raw, k_raw, q, k, v, attended, projected, gate, up, maximum, sum, last, logits;
    struct kvc_growable k_heads, v_heads;                         /* repeated for caches with a list per query head */
    bool per_head;                                                /* some session has such a cache */
    struct kvc_growable scores[6], kept_rank, kept_count, totals; /* of stages */
    uint32_t kept_stride;
    struct kvc_segment *segments;
    const struct kvc_read_list **reads; /* of the parts under way */
    size_t segment_capacity;
    struct kvc_batch prompt, step;
    struct kvc_growable
        counts; /* of a decode step's sessions: uint32, all lists and their views, one session after another */
    uint32_t *host_counts;
    size_t count_capacity;
    float *host_rows; /* cosine or sine rows on their way to the device */
    size_t host_capacity;
};

/* network NULL: for replay, with the geometry alone. */
enum kvc_status kvc_runner_open(struct kvc_engine *engine, const struct kvc_network *network,
                                const struct kvc_geometry *geometry, struct kvc_runner **runner,
                                struct kvc_error *error);
void kvc_runner_close(struct kvc_runner *runner);

enum kvc_status kvc_runner_store(struct kvc_runner *runner, const struct kvc_entry_format *format,
                                 struct kvc_spares **store, struct kvc_error *error);

/* Scratch for chunks of so many rows that belong to so many parts, and for so many rows of logits at once. */
enum kvc_status kvc_runner_reserve(struct kvc_runner *runner, uint32_t rows, size_t parts, struct kvc_error *error);
enum kvc_status kvc_runner_reserve_logits(struct kvc_runner *runner, uint32_t rows, struct kvc_error *error);

/* Uploads tokens and positions of a batch and makes its cosine and sine rows; long_factors[i] chooses longrope's long
 * factors for row i (NULL: none). With a network only. */
enum kvc_status kvc_batch_fill(struct kvc_runner *runner, struct kvc_batch *batch, const int32_t *tokens,
                               const int32_t *positions, const bool *long_factors, uint32_t rows,
                               struct kvc_error *error);
void kvc_batch_free(struct kvc_runner *runner, struct kvc_batch *batch);

/* Rows of cosine, or sine, [rows, rotary/2]: angle = position * frequency in float32, then times the attention factor.
 */
void kvc_rope_rows(const struct kvc_rope *rope, const int32_t *positions, const bool *long_factors, uint32_t rows,
                   bool sine, float *out);

/* hidden[row...] = embedding of the batch's tokens. */
void kvc_runner_embed(struct kvc_runner *runner, struct kvc_batch *batch);
/* One layer over the batch's rows row..row+rows-1, which the parts cover (part rows count from `row`). Runs each
 * session's look at its rows (kvc_session_attended). The scratch for them has been reserved. */
void kvc_runner_layer(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t layer, uint32_t row, uint32_t rows,
                      const struct kvc_part *parts, size_t part_count);
/* append + attention + kvc_session_attended on q, k, v that lie in runner->q, k, v; into runner->attended. */
void kvc_runner_attend(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t layer, uint32_t row,
                       const struct kvc_part *parts, size_t part_count);
/* Only the rows `index` [rows] of the batch's hidden states go on. */
enum kvc_status kvc_runner_cut(struct kvc_runner *runner, struct kvc_batch *batch, const uint32_t *index, uint32_t rows,
                               struct kvc_error *error);
/* Logits of the batch's rows first .. first+count-1, to the host. At most KVC_LOGIT_ROWS at a time. */
enum kvc_status kvc_runner_logits(struct kvc_runner *runner, struct kvc_batch *batch, uint32_t first, uint32_t count,
                                  float *logits, struct kvc_error *error);

#endif
