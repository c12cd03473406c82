/* batch.h - the data of a batch that travel from layer to layer. A row is a token of a session at a position. */
#ifndef KVC_CORE_ENGINE_BATCH_H
#define KVC_CORE_ENGINE_BATCH_H

#include "core/engine/growable.h"
#include "core/engine/network.h"

struct kvc_runner;

struct kvc_batch {
    uint32_t rows;
    struct kvc_growable positions; /* int32 [rows] */
    struct kvc_growable tokens;    /* int32 [rows] */
    /* uint32 [rows]: entries at the end of the session's lists that the row must not see */
    struct kvc_growable causal_offset;
    struct kvc_growable cosine; /* float32 [ropes, rows, rotary/2] */
    struct kvc_growable sine;   /* float32 [ropes, rows, rotary/2] */
    struct kvc_growable hidden; /* float32 [rows, hidden] */
};

void kvc_batch_set_kinds(struct kvc_batch *batch);
void kvc_batch_free(struct kvc_runner *runner, struct kvc_batch *batch);

/* Uploads the tokens and positions of a batch and computes its cosine and sine rows. long_factors[i] selects longrope's
 * long factors for row i (NULL: for none). A replay, which has no network, has positions only. */
enum kvc_status kvc_batch_fill(struct kvc_runner *runner, struct kvc_batch *batch, const int32_t *tokens,
                               const int32_t *positions, const bool *long_factors, uint32_t rows,
                               struct kvc_error *error);
/* Keeps only the rows `index` [rows] of the batch's hidden states. */
enum kvc_status kvc_batch_gather(struct kvc_runner *runner, struct kvc_batch *batch, const uint32_t *index,
                                 uint32_t rows, struct kvc_error *error);

/* Writes the cosines or sines [rows, rotary/2] of position * frequency, computed in float32, times the attention
 * factor. */
void kvc_rope_rows(const struct kvc_rope *rope, const int32_t *positions, const bool *long_factors, uint32_t rows,
                   bool sine, float *out);

#endif
