/* fill.c - fills entries with random values, so that decoding after a very long prompt can be timed without computing
 * the prompt. Each part of the prompt's rows uses a different section of one array of values. */
#include "core/engine/fill.h"

#include "core/base/assert.h"

#include <stdlib.h>

#define STEP 8u      /* sections begin at multiples of this number of floats */
#define STEPS 16384u /* number of possible section starts */

static uint32_t fill_draw(struct kvc_fill *fill) {
    fill->random = fill->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(fill->random >> 32);
}

enum kvc_status kvc_fill_open(struct kvc_fill *fill, struct kvc_session *session, uint32_t rows,
                              struct kvc_error *error) {
    struct kvc_device *device = session->runner->device;
    const struct kvc_geometry *g = &session->runner->geometry;
    const size_t count = (size_t)rows * g->heads * g->head_size + (size_t)STEP * STEPS;
    float *values = malloc(count * sizeof *values);
    *fill = (struct kvc_fill){.values = {.kind = KVC_MEMORY_SCRATCH}, .random = session->seed};
    if (!values)
        return kvc_fail(error, KVC_RESOURCE, "session: no memory for %zu synthetic values", count);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((int32_t)fill_draw(fill) >> 8) * 0x1p-22f;
    const enum kvc_status status = kvc_growable_reserve(device, &fill->values, count * sizeof *values, error);
    if (status == KVC_OK)
        device->ops->upload(device, kvc_growable_at(&fill->values, 0), values, count * sizeof *values);
    free(values);
    return status;
}

void kvc_fill_close(struct kvc_fill *fill, struct kvc_session *session) {
    kvc_growable_free(session->runner->device, &fill->values);
}

static struct kvc_span stretch(struct kvc_fill *fill) {
    return kvc_growable_at(&fill->values, (size_t)(fill_draw(fill) % STEPS) * STEP * sizeof(float));
}

void kvc_fill_project(struct kvc_fill *fill, struct kvc_session *session, const struct kvc_row_span *part,
                      struct kvc_projected *projected) {
    struct kvc_runner *runner = session->runner;
    struct kvc_device *device = runner->device;
    const struct kvc_geometry *g = &runner->geometry;
    const struct kvc_span q = kvc_growable_at(&runner->q, 0);
    const struct kvc_span k = kvc_growable_at(&runner->k, 0), v = kvc_growable_at(&runner->v, 0);
    const size_t wide = (size_t)part->rows * g->heads * g->head_size * sizeof(float);
    const size_t narrow = (size_t)part->rows * g->kv_heads * g->head_size * sizeof(float);
    /* the first row that policies read */
    const uint64_t window = kvc_session_rows(session) - session->prompt.window.rows;
    KVC_ASSERT(session->prompt.window.rows <= kvc_session_rows(session));
    KVC_ASSERT(wide + (size_t)STEP * STEPS * sizeof(float) <= fill->values.bytes);
    /* for methods that keep unrotated keys */
    device->ops->copy(device, kvc_growable_at(&runner->k_raw, 0), stretch(fill), narrow);
    if (part->kind != KVC_ROWS_PROMPT || (uint64_t)session->prompt.chunk_from + part->row + part->rows > window) {
        device->ops->copy(device, q, stretch(fill), wide);
        device->ops->copy(device, k, stretch(fill), narrow);
        device->ops->copy(device, v, stretch(fill), narrow);
        *projected = (struct kvc_projected){.k = k, .v = v};
        return;
    }
    projected->v = stretch(fill);
    projected->k = stretch(fill);
    projected->entries_only = true;
}
