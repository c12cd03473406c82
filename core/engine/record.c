/* record.c - lets observers see a session's decode steps: each layer's attention output, and the entries that were
 * read. */
#include "core/engine/record.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/engine/coordinator.h"

#include <stdlib.h>
#include <string.h>

enum kvc_status kvc_session_watch(struct kvc_session *session, kvc_output_fn *output, void *user,
                                  struct kvc_error *error) {
    const struct kvc_geometry *g = &session->runner->geometry;
    if (output && session->runner->coordinator->several)
        return kvc_fail(error, KVC_USAGE, "session: a session that several processes share cannot be observed");
    if (output && !session->record.output_row) {
        session->record.output_row = malloc((size_t)g->heads * g->head_size * sizeof(float));
        if (!session->record.output_row)
            return kvc_fail(error, KVC_RESOURCE, "session: no memory for a row of attention's output");
    }
    session->record.output = output;
    session->record.output_user = user;
    return KVC_OK;
}

void kvc_record_close(struct kvc_session *session) {
    const struct kvc_geometry *g = &session->runner->geometry;
    for (size_t i = 0; session->record.recorded && i < (size_t)g->layers * g->heads; i++)
        free(session->record.recorded[i].positions);
    free(session->record.recorded);
    free(session->record.output_row);
}

void kvc_record_output(struct kvc_session *session, uint32_t layer, struct kvc_span attended) {
    struct kvc_device *device = session->runner->device;
    const struct kvc_geometry *g = &session->runner->geometry;
    if (!session->record.output)
        return;
    KVC_ASSERT(session->record.output_row);
    device->ops->download(device, session->record.output_row, attended,
                          (size_t)g->heads * g->head_size * sizeof(float));
    session->record.output(session->record.output_user, layer, session->record.output_row);
}

enum kvc_status kvc_record_reads(struct kvc_session *session, uint32_t layer, const struct kvc_read_list *reads,
                                 struct kvc_error *error) {
    const struct kvc_lists *lists = &session->cache.layer[layer].lists;
    struct kvc_device *device = session->runner->device;
    if (!session->record.reads)
        return KVC_OK;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        struct kvc_recorded *recorded = &session->record.recorded[(size_t)layer * session->runner->geometry.heads + h];
        const uint32_t held = session->cache.layer[layer].count[h];
        if (held > recorded->capacity) {
            int32_t *grown = realloc(recorded->positions, held * 2ull * sizeof *grown);
            if (!grown)
                return kvc_fail(error, KVC_RESOURCE, "session: no memory to record what is read");
            recorded->positions = grown;
            recorded->capacity = held * 2ull;
        }
        enum kvc_status status =
            kvc_cache_read_positions(&session->cache, layer, h, recorded->positions, held, &recorded->count, error);
        if (status != KVC_OK || !reads) {
            if (status != KVC_OK)
                return status;
            continue;
        }
        uint32_t count;
        device->ops->download(device, &count, (struct kvc_span){reads->count, h * sizeof count}, sizeof count);
        KVC_ASSERT(count <= held && count <= reads->stride);
        uint32_t *indices = malloc(count * sizeof *indices + 1);
        if (!indices)
            return kvc_fail(error, KVC_RESOURCE, "session: no memory to record what is read");
        if (count)
            device->ops->download(device, indices,
                                  (struct kvc_span){reads->index, (size_t)h * reads->stride * sizeof *indices},
                                  count * sizeof *indices);
        /* in place: indices ascend, so no element is overwritten before it is read */
        for (uint32_t i = 0; i < count; i++) {
            KVC_ASSERT(indices[i] >= i && indices[i] < held);
            recorded->positions[i] = recorded->positions[indices[i]];
        }
        recorded->count = count;
        free(indices);
    }
    return KVC_OK;
}

enum kvc_status kvc_session_reads(const struct kvc_session *session, uint32_t layer, uint32_t kv_head,
                                  int32_t *positions, size_t capacity, size_t *count, struct kvc_error *error) {
    const struct kvc_coordinator *coordinator = session->runner->coordinator;
    uint32_t here;
    if (layer >= session->cache.layers || kv_head >= kvc_session_heads(session, layer))
        return kvc_fail(error, KVC_USAGE, "reads: layer %u, head %u: the session has no such head", layer, kv_head);
    if (!session->record.recorded)
        return kvc_fail(error, KVC_USAGE, "reads: the session was opened without record_reads");
    coordinator->begin_list(session, KVC_CALL_READS, layer, kv_head, capacity);
    if (coordinator->has_list(session, layer, kv_head, &here)) {
        const struct kvc_recorded *recorded =
            &session->record.recorded[(size_t)layer * session->runner->geometry.heads + here];
        *count = recorded->count;
        if (recorded->count && capacity)
            memcpy(positions, recorded->positions, kvc_min_u64(recorded->count, capacity) * sizeof *positions);
    }
    coordinator->share_positions(session, layer, kv_head, positions, capacity, count);
    return coordinator->end(session->runner, KVC_OK, error);
}
