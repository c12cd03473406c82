/* linear.h - the runner's linear layers. They compute in float32, with two exceptions: --math int8 quantizes the rows
 * to eight bits if the weight is stored in blocks of small integers, and --math int16 quantizes the rows to fifteen
 * bits if the weight consists of floats. */
#ifndef KVC_CORE_ENGINE_LINEAR_H
#define KVC_CORE_ENGINE_LINEAR_H

#include "core/engine/growable.h"
#include "core/engine/network.h"
#include "core/engine/sharded.h"

struct kvc_runner;

/* The rows that were quantized last. */
struct kvc_linear_scratch {
    bool int8;                             /* true: some weight of the network uses the int8 path */
    bool int16;                            /* true: some weight of the network uses the int16 path */
    bool holds;                            /* true: the buffers still have the rows of the previous layer */
    struct kvc_growable quant, scale, sum; /* as in struct kvc_int8_rows or struct kvc_int16_rows */
};

/* Returns the engine's arithmetic for this network: KVC_MATH_INT8 or KVC_MATH_INT16 only if it applies
 * to some weight. */
enum kvc_math kvc_linear_math(const struct kvc_network *network, enum kvc_math math);
/* The memory of the weights that --math int16 quantizes. */
struct kvc_packed_bytes {
    uint64_t packed;   /* bytes that kvc_linear_pack allocates */
    uint64_t replaced; /* bytes of the file that are not read any more */
};
struct kvc_packed_bytes kvc_linear_packed_bytes(const struct kvc_network *network);
/* Quantizes every weight that int16 multiplies, once. */
enum kvc_status kvc_linear_pack(struct kvc_device *device, const struct kvc_network *network, struct kvc_error *error);
void kvc_linear_open(struct kvc_linear_scratch *scratch, const struct kvc_network *network, enum kvc_math math);
void kvc_linear_free(struct kvc_device *device, struct kvc_linear_scratch *scratch);
/* Reserves scratch for inputs of `values` values in total. */
enum kvc_status kvc_linear_reserve(struct kvc_runner *runner, size_t values, struct kvc_error *error);

/* The input of a linear layer. */
struct kvc_input {
    struct kvc_span x; /* [rows, K] */
    uint32_t rows, K;
    bool again;               /* true: x has the same rows as in the last call, unchanged */
    enum kvc_ownership parts; /* not KVC_WHOLE: gathers x [rows, this rank's part] first */
};
/* Computes y [rows, N] = x w^T + bias. If the N outputs are sharded, w and bias are this rank's part, and y is
 * gathered. */
void kvc_linear_pass(struct kvc_runner *runner, struct kvc_span y, struct kvc_input in, const struct kvc_weight *w,
                     struct kvc_span bias, uint64_t N);
/* Computes this rank's outputs only and does not gather y. */
void kvc_linear_own(struct kvc_runner *runner, struct kvc_span y, struct kvc_input in, const struct kvc_weight *w,
                    struct kvc_span bias);
/* Computes y [pairs, this rank's outputs]: multiplies each pair by its expert's matrix and adds the expert's bias
 * [experts, N]. `first` is the array that kvc_ops.route writes. */
void kvc_linear_own_experts(struct kvc_runner *runner, struct kvc_span y, struct kvc_input in,
                            const struct kvc_weight *w, struct kvc_span bias, struct kvc_span first);

#endif
