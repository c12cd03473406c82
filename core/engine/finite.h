/* finite.h - detects NaN and infinity, and finds the first layer whose output has one. */
#ifndef KVC_CORE_ENGINE_FINITE_H
#define KVC_CORE_ENGINE_FINITE_H

#include "core/engine/runner.h"

/* Returns true if no value is NaN or infinite. */
bool kvc_finite(const float *values, size_t count);

/* Checks `rows` rows of a batch's hidden states from `row` on: the output of a layer, or the embeddings (layer -1).
 * Returns KVC_INPUT, naming the layer, if a value is not finite. Waits for the device. `position` is the first row's
 * position. Embeddings are checked only by the process that has the first layer. */
enum kvc_status kvc_finite_hidden(struct kvc_runner *runner, const struct kvc_batch *batch, int64_t layer, uint32_t row,
                                  uint32_t rows, uint64_t position, struct kvc_error *error);
/* Checks the logits of one row whose hidden states were finite. Returns KVC_INPUT, naming the output matrix, if a value
 * is not finite. */
enum kvc_status kvc_finite_logits(const struct kvc_runner *runner, const float *logits, uint64_t position,
                                  struct kvc_error *error);

#endif
