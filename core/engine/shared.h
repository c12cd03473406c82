/* shared.h - what several ranks compute of a layer: each some outputs of every row, which all then gather. */
#ifndef KVC_CORE_ENGINE_SHARED_H
#define KVC_CORE_ENGINE_SHARED_H

#include "core/base/ops.h"

struct kvc_runner;

/* Whether N outputs of a linear layer are shared out, and how many this rank has. */
bool kvc_shared_splits(const struct kvc_runner *runner, uint64_t N);
uint64_t kvc_shared_own(const struct kvc_runner *runner, uint64_t N);
/* A buffer for so many floats, until the next call. */
struct kvc_span kvc_shared_room(struct kvc_runner *runner, size_t floats);
/* y [rows, N] = all ranks' parts of N outputs; part [rows, this rank's]. They may lie at the same place. Where these
 * outputs are not shared out, nothing happens: every rank has all. */
void kvc_shared_gather(struct kvc_runner *runner, struct kvc_span y, struct kvc_span part, uint32_t rows, uint64_t N);
/* y [rows, H of all ranks, d] = all ranks' heads; part [rows, H, d]; likewise. */
void kvc_shared_gather_heads(struct kvc_runner *runner, struct kvc_span y, struct kvc_span part, uint32_t rows);

#endif
