/* linear.h - the runner's linear layers in the engine's arithmetic: by floats, or (--math int8) with their rows in
 * eight bits where the weight is in blocks of small integers. */
#ifndef KVC_CORE_ENGINE_LINEAR_H
#define KVC_CORE_ENGINE_LINEAR_H

#include "core/engine/growable.h"
#include "core/engine/network.h"
#include "core/engine/sharded.h"

struct kvc_runner;

/* The rows that were quantized last. */
struct kvc_linear_scratch {
    bool int8;                             /* some weight of the network is multiplied so */
    bool holds;                            /* the rows that the layer before took are here */
    struct kvc_growable quant, scale, sum; /* struct kvc_int8_rows */
};

/* What an engine's arithmetic is for this network: KVC_MATH_INT8 only where a weight is multiplied so. */
enum kvc_math kvc_linear_math(const struct kvc_network *network, enum kvc_math math);
void kvc_linear_open(struct kvc_linear_scratch *scratch, const struct kvc_network *network, enum kvc_math math);
void kvc_linear_free(struct kvc_device *device, struct kvc_linear_scratch *scratch);
/* For inputs of so many values in all. */
enum kvc_status kvc_linear_reserve(struct kvc_runner *runner, size_t values, struct kvc_error *error);

/* What a layer takes. */
struct kvc_input {
    struct kvc_span x; /* [rows, K] */
    uint32_t rows, K;
    bool again; /* they are what the last call took too, unchanged */
    enum kvc_ownership
        parts; /* not KVC_WHOLE: x [rows, this rank's part] is gathered, to where it lies or in eight bits */
};
/* y [rows, N] = x w^T + bias. Where ranks share out the N outputs, w and bias are this rank's, and y is gathered. */
void kvc_linear_pass(struct kvc_runner *runner, struct kvc_span y, struct kvc_input in, const struct kvc_weight *w,
                     struct kvc_span bias, uint64_t N);
/* The same, of this rank's outputs alone. */
void kvc_linear_own(struct kvc_runner *runner, struct kvc_span y, struct kvc_input in, const struct kvc_weight *w,
                    struct kvc_span bias);
/* y [pairs, this rank's outputs]: rows are pairs, each multiplied by its expert's matrix, plus its bias [experts, N];
 * first as route gives it. */
void kvc_linear_own_experts(struct kvc_runner *runner, struct kvc_span y, struct kvc_input in,
                            const struct kvc_weight *w, struct kvc_span bias, struct kvc_span first);

#endif
