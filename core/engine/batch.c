/* batch.c - the rows of a batch: tokens, positions, cosines and sines, hidden states. */
#include "core/engine/batch.h"

#include "core/base/assert.h"
#include "core/base/trig.h"
#include "core/engine/runner.h"

#include <stdlib.h>

static struct kvc_span batch_whole(const struct kvc_growable *growable) { return kvc_growable_at(growable, 0); }

void kvc_batch_set_kinds(struct kvc_batch *batch) {
    batch->hidden.kind = KVC_MEMORY_HIDDEN;
    batch->positions.kind = batch->tokens.kind = batch->causal_offset.kind = KVC_MEMORY_SCRATCH;
    batch->cosine.kind = batch->sine.kind = KVC_MEMORY_SCRATCH;
}

void kvc_batch_free(struct kvc_runner *runner, struct kvc_batch *batch) {
    struct kvc_growable *buffers[] = {&batch->positions, &batch->tokens, &batch->causal_offset,
                                      &batch->cosine,    &batch->sine,   &batch->hidden};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        kvc_growable_free(runner->device, buffers[i]);
    batch->rows = 0;
}

void kvc_rope_rows(const struct kvc_rope *rope, const int32_t *positions, const bool *long_factors, uint32_t rows,
                   bool sine, float *out) {
    const uint32_t half = rope->rotary / 2;
    KVC_ASSERT(rope->rotary % 2 == 0);
    for (uint32_t i = 0; i < rows; i++) {
        const bool long_row = long_factors && long_factors[i] && rope->long_frequency;
        const float *frequency = long_row ? rope->long_frequency : rope->frequency;
        const float factor = long_row ? rope->long_attention_factor : rope->attention_factor;
        for (uint32_t c = 0; c < half; c++) {
            const float angle = (float)positions[i] * frequency[c];
            const double value = sine ? kvc_double_sin((double)angle) : kvc_double_cos((double)angle);
            out[(size_t)i * half + c] = (float)value * factor;
        }
    }
}

enum kvc_status kvc_batch_fill(struct kvc_runner *runner, struct kvc_batch *batch, const int32_t *tokens,
                               const int32_t *positions, const bool *long_factors, uint32_t rows,
                               struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    const struct kvc_network *network = runner->network;
    enum kvc_status status = kvc_growable_reserve(device, &batch->positions, rows * sizeof(int32_t), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &batch->causal_offset, rows * sizeof(uint32_t), error);
    if (status != KVC_OK)
        return status;
    batch->rows = rows;
    KVC_ASSERT(rows > 0);
    device->ops->upload(device, batch_whole(&batch->positions), positions, rows * sizeof(int32_t));
    if (!network)
        return KVC_OK;
    const size_t half = network->rope[0].rotary / 2, values = (size_t)rows * half, bytes = values * sizeof(float);
    status = kvc_growable_reserve(device, &batch->tokens, rows * sizeof(int32_t), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &batch->cosine, network->ropes * bytes, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &batch->sine, network->ropes * bytes, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &batch->hidden, (size_t)rows * network->hidden * sizeof(float), error);
    if (status != KVC_OK)
        return status;
    if (values > runner->host_capacity) {
        free(runner->host_rows);
        runner->host_rows = malloc(bytes);
        runner->host_capacity = runner->host_rows ? values : 0;
        if (!runner->host_rows)
            return kvc_fail(error, KVC_RESOURCE, "runner: no memory for %zu bytes", bytes);
    }
    device->ops->upload(device, batch_whole(&batch->tokens), tokens, rows * sizeof(int32_t));
    for (uint32_t r = 0; r < network->ropes; r++) {
        kvc_rope_rows(&network->rope[r], positions, long_factors, rows, false, runner->host_rows);
        device->ops->upload(device, kvc_growable_at(&batch->cosine, r * bytes), runner->host_rows, bytes);
        kvc_rope_rows(&network->rope[r], positions, long_factors, rows, true, runner->host_rows);
        device->ops->upload(device, kvc_growable_at(&batch->sine, r * bytes), runner->host_rows, bytes);
    }
    return KVC_OK;
}

enum kvc_status kvc_batch_gather(struct kvc_runner *runner, struct kvc_batch *batch, const uint32_t *index,
                                 uint32_t rows, struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    const uint32_t hidden = runner->network->hidden;
    KVC_ASSERT(rows <= batch->rows);
    struct kvc_growable kept = {.kind = KVC_MEMORY_HIDDEN}, indices = {.kind = KVC_MEMORY_SCRATCH};
    enum kvc_status status = kvc_growable_reserve(device, &kept, (size_t)rows * hidden * sizeof(float), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &indices, rows * sizeof *index, error);
    if (status == KVC_OK) {
        device->ops->upload(device, batch_whole(&indices), index, rows * sizeof *index);
        device->ops->gather(device, &(struct kvc_gather){.out = batch_whole(&kept),
                                                         .x = batch_whole(&batch->hidden),
                                                         .index = batch_whole(&indices),
                                                         .rows = rows,
                                                         .width = hidden});
        status = device->ops->sync(device, error);
    }
    kvc_growable_free(device, &indices);
    if (status != KVC_OK) {
        kvc_growable_free(device, &kept);
        return status;
    }
    kvc_growable_free(device, &batch->hidden);
    batch->hidden = kept;
    return KVC_OK;
}
