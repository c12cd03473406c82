/* linear.c - linear layers in the engine's arithmetic. Rows that several layers use in succession, such as the input of
 * q, k and v, are quantized once. */
#include "core/engine/linear.h"

#include "core/base/assert.h"
#include "core/base/canon.h"
#include "core/base/types.h"
#include "core/engine/look.h"
#include "core/engine/runner.h"

/* Returns true if the weight is stored in blocks of integers. --math int8 multiplies these weights as integers. --math
 * int16 multiplies all other weights (plain floats or FP8) as integers. */
static bool is_int8(const struct kvc_weight *w) {
    return kvc_weight_type(w) >= KVC_Q8_0 && kvc_weight_type(w) < KVC_TYPES;
}

/* Returns true if the weight consists of floats. */
static bool is_float(const struct kvc_weight *w) { return !is_int8(w); }

enum kvc_math kvc_linear_math(const struct kvc_network *network, enum kvc_math math) {
    if (math != KVC_MATH_INT8 && math != KVC_MATH_INT16)
        return math;
    for (size_t i = 0; i < network->weight_count; i++)
        if (math == KVC_MATH_INT8 ? is_int8(network->weights[i]) : is_float(network->weights[i]))
            return math;
    return KVC_MATH_FLOAT;
}

/* Returns true if --math int16 multiplies by weight i. An embedding that is not also the output matrix is only looked
 * up. */
static bool packs(const struct kvc_network *network, size_t i) {
    const struct kvc_weight *w = network->weights[i];
    return is_float(w) && network->matrices[i].inputs % KVC_INT16_STEP == 0 &&
           (w != network->embedding || w == network->head);
}

struct kvc_packed_bytes kvc_linear_packed_bytes(const struct kvc_network *network) {
    struct kvc_packed_bytes bytes = {0, 0};
    for (size_t i = 0; i < network->weight_count; i++) {
        const struct kvc_matrix *matrix = &network->matrices[i];
        if (!packs(network, i))
            continue;
        bytes.packed += kvc_int16_bytes(matrix->rows, matrix->inputs);
        if (!matrix->shared)
            bytes.replaced += matrix->rows * kvc_type_row_bytes(kvc_weight_type(network->weights[i]), matrix->inputs);
    }
    return bytes;
}

enum kvc_status kvc_linear_pack(struct kvc_device *device, const struct kvc_network *network, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; i < network->weight_count && status == KVC_OK; i++)
        if (packs(network, i))
            status = device->ops->weight_pack(device, network->weights[i], error);
    return status;
}

void kvc_linear_open(struct kvc_linear_scratch *scratch, const struct kvc_network *network, enum kvc_math math) {
    scratch->quant.kind = scratch->scale.kind = scratch->sum.kind = KVC_MEMORY_SCRATCH;
    scratch->int8 = network && kvc_linear_math(network, math) == KVC_MATH_INT8;
    scratch->int16 = network && kvc_linear_math(network, math) == KVC_MATH_INT16;
}

void kvc_linear_free(struct kvc_device *device, struct kvc_linear_scratch *scratch) {
    kvc_growable_free(device, &scratch->quant);
    kvc_growable_free(device, &scratch->scale);
    kvc_growable_free(device, &scratch->sum);
}

enum kvc_status kvc_linear_reserve(struct kvc_runner *runner, size_t values, struct kvc_error *error) {
    struct kvc_linear_scratch *scratch = &runner->linear;
    enum kvc_status status;
    if (!scratch->int8 && !scratch->int16)
        return KVC_OK;
    status = kvc_growable_reserve(runner->device, &scratch->quant, scratch->int16 ? 2 * values : values, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(runner->device, &scratch->scale, values / 32 * sizeof(float), error);
    if (status == KVC_OK && scratch->int8)
        status = kvc_growable_reserve(runner->device, &scratch->sum, values / 16 * sizeof(int32_t), error);
    return status;
}

/* Returns the complete input rows as floats, gathered from all ranks. */
static struct kvc_span linear_whole(struct kvc_runner *runner, const struct kvc_input *in) {
    kvc_sharded_gather(runner, in->x, in->x, in->rows, in->K, in->parts);
    return in->x;
}

/* Returns the complete input rows quantized to eight bits. */
static struct kvc_int8_rows quantized(struct kvc_runner *runner, const struct kvc_input *in) {
    struct kvc_linear_scratch *scratch = &runner->linear;
    const struct kvc_int8_rows rows = {.quant = kvc_growable_at(&scratch->quant, 0),
                                       .scale = kvc_growable_at(&scratch->scale, 0),
                                       .sum = kvc_growable_at(&scratch->sum, 0)};
    const bool there =
        (in->again && scratch->holds) || kvc_sharded_gather_int8(runner, rows, in->x, in->rows, in->K, in->parts);
    KVC_ASSERT(in->K % 32 == 0 && (size_t)in->rows * in->K <= scratch->quant.bytes);
    if (!there)
        runner->device->ops->quantize_rows(
            runner->device,
            &(struct kvc_quantize_rows){.y = rows, .x = linear_whole(runner, in), .rows = in->rows, .K = in->K});
    scratch->holds = true;
    return rows;
}

/* The same, quantized to fifteen bits. */
static struct kvc_int16_rows quantized_int16(struct kvc_runner *runner, const struct kvc_input *in) {
    struct kvc_linear_scratch *scratch = &runner->linear;
    const struct kvc_int16_rows rows = {.quant = kvc_growable_at(&scratch->quant, 0),
                                        .scale = kvc_growable_at(&scratch->scale, 0)};
    const bool there =
        (in->again && scratch->holds) || kvc_sharded_gather_int16(runner, rows, in->x, in->rows, in->K, in->parts);
    KVC_ASSERT(in->K % 32 == 0 && (size_t)in->rows * in->K * 2 <= scratch->quant.bytes);
    if (!there)
        runner->device->ops->quantize_rows_int16(
            runner->device,
            &(struct kvc_quantize_rows_int16){.y = rows, .x = linear_whole(runner, in), .rows = in->rows, .K = in->K});
    scratch->holds = true;
    return rows;
}

/* Returns true if the layer multiplies integers of fifteen bits. */
static bool uses_int16(const struct kvc_runner *runner, const struct kvc_weight *w, const struct kvc_input *in) {
    return runner->linear.int16 && is_float(w) && in->K % KVC_INT16_STEP == 0;
}

/* Returns false if the program has stopped the prompt. The estimate of the work is the same on all ranks. */
static bool goes_on(struct kvc_runner *runner, const struct kvc_input *in) {
    return kvc_look(runner, (uint64_t)in->rows * in->K * runner->network->hidden);
}

void kvc_linear_own(struct kvc_runner *runner, struct kvc_span y, struct kvc_input in, const struct kvc_weight *w,
                    struct kvc_span bias) {
    struct kvc_device *device = runner->device;
    runner->linear.holds = runner->linear.holds && in.again;
    if (!goes_on(runner, &in))
        return;
    if (runner->linear.int8 && is_int8(w))
        device->ops->linear_int8(
            device,
            &(struct kvc_linear_int8){.y = y, .x = quantized(runner, &in), .w = w, .bias = bias, .rows = in.rows});
    else if (uses_int16(runner, w, &in))
        device->ops->linear_int16(
            device, &(struct kvc_linear_int16){
                        .y = y, .x = quantized_int16(runner, &in), .w = w, .bias = bias, .rows = in.rows});
    else
        device->ops->linear(device, &(struct kvc_linear){
                                        .y = y, .x = linear_whole(runner, &in), .w = w, .bias = bias, .rows = in.rows});
}

void kvc_linear_pass(struct kvc_runner *runner, struct kvc_span y, struct kvc_input in, const struct kvc_weight *w,
                     struct kvc_span bias, uint64_t N) {
    const bool shared = kvc_sharded_splits(runner, N);
    KVC_ASSERT(kvc_sharded_own(runner, N) <= N);
    const struct kvc_span own = shared ? kvc_sharded_buffer(runner, in.rows * kvc_sharded_own(runner, N)) : y;
    kvc_linear_own(runner, own, in, w, bias);
    if (shared)
        kvc_sharded_gather(runner, y, own, in.rows, N, KVC_OUTPUTS);
}

void kvc_linear_own_experts(struct kvc_runner *runner, struct kvc_span y, struct kvc_input in,
                            const struct kvc_weight *w, struct kvc_span bias, struct kvc_span first) {
    struct kvc_device *device = runner->device;
    const uint32_t experts = runner->network->experts;
    KVC_ASSERT(experts > 0);
    runner->linear.holds = runner->linear.holds && in.again;
    if (!goes_on(runner, &in))
        return;
    if (runner->linear.int8 && is_int8(w))
        device->ops->expert_linear_int8(device, &(struct kvc_expert_linear_int8){.y = y,
                                                                                 .x = quantized(runner, &in),
                                                                                 .w = w,
                                                                                 .bias = bias,
                                                                                 .first = first,
                                                                                 .experts = experts,
                                                                                 .pairs = in.rows});
    else if (uses_int16(runner, w, &in))
        device->ops->expert_linear_int16(device, &(struct kvc_expert_linear_int16){.y = y,
                                                                                   .x = quantized_int16(runner, &in),
                                                                                   .w = w,
                                                                                   .bias = bias,
                                                                                   .first = first,
                                                                                   .experts = experts,
                                                                                   .pairs = in.rows});
    else
        device->ops->expert_linear(device, &(struct kvc_expert_linear){.y = y,
                                                                       .x = linear_whole(runner, &in),
                                                                       .w = w,
                                                                       .bias = bias,
                                                                       .first = first,
                                                                       .experts = experts,
                                                                       .pairs = in.rows});
}
