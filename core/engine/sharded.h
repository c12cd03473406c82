/* sharded.h - tensor parallelism: each rank computes some outputs of every row, and all ranks gather the results. */
#ifndef KVC_CORE_ENGINE_SHARDED_H
#define KVC_CORE_ENGINE_SHARDED_H

#include "core/base/ops.h"

struct kvc_runner;

/* The part of each row that a rank has: all outputs, its share of them (kvc_split_outputs), or its heads. */
enum kvc_ownership { KVC_WHOLE, KVC_OUTPUTS, KVC_HEADS };

/* Return whether N outputs of a linear layer are sharded, and how many of them this rank computes. */
bool kvc_sharded_splits(const struct kvc_runner *runner, uint64_t N);
uint64_t kvc_sharded_own(const struct kvc_runner *runner, uint64_t N);
/* Returns a buffer of `floats` floats. It is valid until the next call. */
struct kvc_span kvc_sharded_buffer(struct kvc_runner *runner, size_t floats);
/* Gathers y [rows, N] from all ranks' parts. `part` [rows, this rank's outputs] may overlap y. Does nothing if the
 * outputs are not sharded. */
void kvc_sharded_gather(struct kvc_runner *runner, struct kvc_span y, struct kvc_span part, uint32_t rows, uint64_t N,
                        enum kvc_ownership parts);
/* Gathers rows in eight bits: each rank quantizes its part, which cuts the gathered bytes to a third. Returns false and
 * does nothing if the parts are not whole blocks, or if there are so few rows that three messages take longer than one.
 */
bool kvc_sharded_gather_int8(struct kvc_runner *runner, struct kvc_int8_rows y, struct kvc_span part, uint32_t rows,
                             uint64_t N, enum kvc_ownership parts);
/* The same, quantized to fifteen bits, which halves the gathered bytes. */
bool kvc_sharded_gather_int16(struct kvc_runner *runner, struct kvc_int16_rows y, struct kvc_span part, uint32_t rows,
                              uint64_t N, enum kvc_ownership parts);

#endif
