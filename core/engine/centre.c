/* centre.c - multiplies channels of keys and queries by factors (ops.def, smooth_factors) before they are rotated, and
 * subtracts a constant, the centre, from all rotated keys of a session. The keys of a head lie around a point far
 * from zero. The differences from their mean are smaller, and rounding them to a few bits loses less. The centre is the
 * mean of the first keys, moved so that the first key, on which many heads rely most, is stored without loss. In layers
 * with a sliding window, which the first key leaves, the centre is the mean. All scores of a query change by the same
 * number, so attention stays the same, unless the model caps its scores or has attention sinks. A session has centres
 * if its keys have a rotated type and no method reads whole keys (kvc_policy_centres). In a model with caps or sinks,
 * the centres stay unused, because forecasts do not know about caps and sinks. */
#include "core/engine/centre.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/engine/archive.h"
#include "core/engine/session.h"

/* The arrays [H_kv, d] of a layer, in this order. */
enum { CENTRE, KEY_FACTORS, QUERY_FACTORS };

static size_t width_of(const struct kvc_session *session) {
    const struct kvc_geometry *g = &session->runner->geometry;
    return (size_t)g->kv_heads * g->head_size;
}

/* Returns the number of this process's layers. *first receives its first layer. */
static uint32_t own_layers(const struct kvc_session *session, uint32_t *first) {
    const struct kvc_network *network = session->runner->network;
    const bool pipeline = network && network->part.pipeline;
    *first = pipeline ? network->part.first_layer : 0;
    return pipeline ? network->part.own_layers : session->runner->geometry.layers;
}

static size_t bytes_of(const struct kvc_session *session) {
    uint32_t first;
    return own_layers(session, &first) * KVC_CENTRE_ARRAYS * width_of(session) * sizeof(float);
}

static struct kvc_span array_of(const struct kvc_session *session, uint32_t layer, uint32_t array) {
    uint32_t first;
    (void)own_layers(session, &first);
    KVC_ASSERT(layer >= first);
    return (struct kvc_span){session->centres,
                             ((layer - first) * KVC_CENTRE_ARRAYS + array) * width_of(session) * sizeof(float)};
}

/* Returns true if a constant that is added to all scores of a row does not change attention. */
static bool scores_may_move(const struct kvc_runner *runner, uint32_t layer) {
    return kvc_runner_scoring(runner).cap == 0.0f && !kvc_runner_sinks(runner, layer).buffer;
}

enum kvc_status kvc_centre_open(struct kvc_session *session, struct kvc_error *error) {
    const size_t bytes = bytes_of(session);
    if (bytes == 0 || !kvc_policy_centres(session->policy, kvc_format_types(&session->cache.format)))
        return KVC_OK;
    /* so that the mean does not depend on `chunk` */
    session->chunk = kvc_max_u32(session->chunk, KVC_MEAN_ROWS);
    return kvc_cache_state_create(&session->cache, bytes, &session->centres, error);
}

void kvc_centre_close(struct kvc_session *session) {
    if (session->centres)
        kvc_cache_state_free(&session->cache, bytes_of(session), session->centres);
}

/* Returns true if the layer's keys are changed. *first receives the number of rows from which the layer's arrays must
 * be computed; 0: they exist. */
static bool changes_keys(const struct kvc_session *session, uint32_t layer, uint32_t stored, uint32_t *first) {
    const uint32_t had = session->cache.layer[layer].mean_rows;
    *first = had ? 0 : kvc_min_u32(stored, KVC_MEAN_ROWS);
    return session->centres && scores_may_move(session->runner, layer) && (had || stored);
}

void kvc_centre_smooth(const struct kvc_session *session, uint32_t layer, struct kvc_span q, bool queries,
                       struct kvc_span k, uint32_t rows, uint32_t stored) {
    struct kvc_device *device = session->runner->device;
    const struct kvc_geometry *g = &session->runner->geometry;
    uint32_t first;
    KVC_ASSERT(stored <= rows);
    if (!changes_keys(session, layer, stored, &first))
        return;
    if (first)
        device->ops->smooth_factors(device,
                                    &(struct kvc_smooth_factors){.k = k,
                                                                 .q = queries ? q : (struct kvc_span){NULL, 0},
                                                                 .factors = array_of(session, layer, KEY_FACTORS),
                                                                 .rows = first,
                                                                 .heads = g->heads,
                                                                 .kv_heads = g->kv_heads,
                                                                 .d = g->head_size});
    struct kvc_smooth smooth = {.x = k,
                                .factor = array_of(session, layer, KEY_FACTORS),
                                .rows = rows,
                                .heads = g->kv_heads,
                                .kv_heads = g->kv_heads,
                                .d = g->head_size};
    device->ops->smooth(device, &smooth);
    smooth.x = q;
    smooth.factor = array_of(session, layer, QUERY_FACTORS);
    smooth.heads = g->heads;
    if (queries)
        device->ops->smooth(device, &smooth);
}

void kvc_centre_keys(struct kvc_session *const *sessions, size_t count, uint32_t layer, struct kvc_span k,
                     uint32_t rows, uint32_t stored) {
    const struct kvc_runner *runner = sessions[0]->runner;
    const struct kvc_ops *ops = runner->device->ops;
    const uint32_t width = (uint32_t)width_of(sessions[0]);
    uint32_t first;
    KVC_ASSERT(count > 0 && stored <= rows);
    if (!changes_keys(sessions[0], layer, stored, &first))
        return;
    const struct kvc_span centre = array_of(sessions[0], layer, CENTRE);
    const bool lasting = kvc_runner_window(runner, layer) == 0; /* later rows see the first key */
    ops->centre(runner->device,
                &(struct kvc_centre){.x = k,
                                     .centre = centre,
                                     .rows = rows,
                                     .width = width,
                                     .first = first,
                                     .d = runner->geometry.head_size,
                                     .type = lasting ? kvc_format_types(&sessions[0]->cache.format).key : KVC_F32});
    for (size_t i = 0; i < count && first; i++) {
        KVC_ASSERT(sessions[i]->centres && sessions[i]->cache.layer[layer].mean_rows == 0);
        if (i > 0)
            ops->copy(runner->device, array_of(sessions[i], layer, CENTRE), centre,
                      KVC_CENTRE_ARRAYS * width * sizeof(float));
        sessions[i]->cache.layer[layer].mean_rows = first;
    }
}

void kvc_centre_pass(struct kvc_archive *archive, struct kvc_session *session) {
    struct kvc_device *device = session->runner->device;
    const struct kvc_span at = {session->centres, 0};
    const size_t bytes = session->centres ? bytes_of(session) : 0;
    if (!bytes)
        return;
    if (archive->from) {
        if (archive->reads)
            device->ops->copy(device, at, (struct kvc_span){archive->from->centres, 0}, bytes);
        return;
    }
    kvc_archive_begin(archive, KVC_SECTION_CENTRES, 0);
    unsigned char *place = kvc_archive_place(archive, bytes);
    if (place && archive->reads)
        device->ops->upload(device, at, place, bytes);
    else if (place)
        device->ops->download(device, place, at, bytes);
    kvc_archive_end(archive, KVC_SECTION_CENTRES, 0);
}
