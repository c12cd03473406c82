/* sharded.h - what several ranks compute of a layer: each some outputs of every row, which all then gather. */
#ifndef KVC_CORE_ENGINE_SHARDED_H
#define KVC_CORE_ENGINE_SHARDED_H

#include "core/base/ops.h"

struct kvc_runner;

/* What a rank has of each row: all of it, its part of some outputs (kvc_split_outputs), or its heads. */
enum kvc_ownership { KVC_WHOLE, KVC_OUTPUTS, KVC_HEADS };

/* Whether N outputs of a linear layer are shared out, and how many this rank has. */
bool kvc_sharded_splits(const struct kvc_runner *runner, uint64_t N);
uint64_t kvc_sharded_own(const struct kvc_runner *runner, uint64_t N);
/* A buffer for so many floats, until the next call. */
struct kvc_span kvc_sharded_buffer(struct kvc_runner *runner, size_t floats);
/* y [rows, N] = all ranks' parts; part [rows, this rank's]. They may lie at the same place. Where these are not shared
 * out, nothing happens: every rank has all. */
void kvc_sharded_gather(struct kvc_runner *runner, struct kvc_span y, struct kvc_span part, uint32_t rows, uint64_t N,
                        enum kvc_ownership parts);
/* The same of rows in eight bits: each rank quantizes its part, and a third of the bytes is gathered. False, and
 * nothing happens, where they are not shared out in whole blocks, or the rows are so few that three messages for one
 * take longer. */
bool kvc_sharded_gather_int8(struct kvc_runner *runner, struct kvc_int8_rows y, struct kvc_span part, uint32_t rows,
                             uint64_t N, enum kvc_ownership parts);

#endif
