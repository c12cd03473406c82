/* finite.c - detects NaN and infinity, and finds the first layer whose output has one. A NaN in a model's weights, or
 * an overflow, turns every later value into NaN, so results would be meaningless. */
#include "core/engine/finite.h"

#include "core/base/assert.h"
#include "core/base/integers.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 64u /* a constant count, so that compilers vectorize the loop */

/* Returns a word whose sign bit is set if some value's exponent is all ones: adding one to such an exponent carries
 * into the sign bit. */
static uint32_t carries(const float *values, size_t count) {
    uint32_t carried = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        carried |= (bits & 0x7fffffffu) + 0x00800000u;
    }
    return carried >> 31;
}

bool kvc_finite(const float *values, size_t count) {
    for (; count >= BLOCK; values += BLOCK, count -= BLOCK)
        if (carries(values, BLOCK))
            return false;
    return !carries(values, count);
}

#define NOT_FINITE "position %llu: the logits are not finite (NaN or infinity): "
#define MUST_BE "the model's weights must be finite, and not overflow float32"

enum kvc_status kvc_finite_hidden(struct kvc_runner *runner, const struct kvc_batch *batch, int64_t layer, uint32_t row,
                                  uint32_t rows, uint64_t position, struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    const size_t hidden = runner->network->hidden, bytes = hidden * sizeof(float);
    const uint32_t block = kvc_min_u32(rows, BLOCK);
    if (layer < 0 && !kvc_network_begins(runner->network))
        return KVC_OK;
    float *values = malloc(block * bytes);
    if (!values)
        return kvc_fail(error, KVC_RESOURCE, "session: no memory for %u rows of hidden states", block);
    enum kvc_status status = KVC_OK;
    for (uint32_t from = 0; from < rows && status == KVC_OK; from += block) {
        const uint32_t some = kvc_min_u32(rows - from, block);
        KVC_ASSERT((row + (size_t)from + some) * bytes <= batch->hidden.bytes);
        device->ops->download(device, values, kvc_growable_at(&batch->hidden, (row + from) * bytes), some * bytes);
        status = device->ops->sync(device, error);
        for (uint32_t i = 0; i < some && status == KVC_OK; i++) {
            const unsigned long long at = position + from + i;
            if (kvc_finite(values + i * hidden, hidden))
                continue;
            status = layer < 0 ? kvc_fail(error, KVC_INPUT, NOT_FINITE "the token's embedding is not; " MUST_BE, at)
                               : kvc_fail(error, KVC_INPUT,
                                          NOT_FINITE "layer %u, of 0 to %u, is the first whose output is not; " MUST_BE,
                                          at, (unsigned)layer, runner->network->layers - 1);
        }
    }
    free(values);
    return status;
}

enum kvc_status kvc_finite_logits(const struct kvc_runner *runner, const float *logits, uint64_t position,
                                  struct kvc_error *error) {
    if (kvc_finite(logits, runner->network->vocab))
        return KVC_OK;
    return kvc_fail(error, KVC_INPUT,
                    NOT_FINITE "all layers' outputs are finite, so the output matrix is the cause; " MUST_BE,
                    (unsigned long long)position);
}
