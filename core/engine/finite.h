/* finite.h - values that are no numbers: whether there are any, and the layer whose output has the first. */
#ifndef KVC_CORE_ENGINE_FINITE_H
#define KVC_CORE_ENGINE_FINITE_H

#include "core/engine/runner.h"

/* Neither NaN nor infinite, all of them. */
bool kvc_finite(const float *values, size_t count);

/* The hidden states of `rows` rows of a batch from `row` on, which are a layer's output, or (layer -1) embeddings.
 * KVC_INPUT, naming the layer, where one is not finite; waits for the device. `position`: of the first row. */
enum kvc_status kvc_finite_hidden(struct kvc_runner *runner, const struct kvc_batch *batch, int64_t layer, uint32_t row,
                                  uint32_t rows, uint64_t position, struct kvc_error *error);
/* Logits of one row whose hidden states were finite: KVC_INPUT, naming the output matrix, where they are not. */
enum kvc_status kvc_finite_logits(const struct kvc_runner *runner, const float *logits, uint64_t position,
                                  struct kvc_error *error);

#endif
