/* cache_positions.c - rotates keys to their cache positions instead of their positions in the text (rule 2 of
 * docs/reference/methods.md, positions=cache). In a layer in which a method with positions=cache acts, the entry of
 * index r holds its key as if the token were at position r, and a query uses the index of its own entry. State columns
 * keep the unrotated keys. When an eviction has changed the indices, all keys of the layer are rotated again. Before
 * the first eviction, indices equal positions, so results are the same. */
#include "core/engine/cache_positions.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/engine/session.h"

#include <stdlib.h>

/* Returns true if the layer's keys are rotated to indices that may differ from their positions. */
static bool at_cache_positions(const struct kvc_session *session, uint32_t layer) {
    return session->cache.layer[layer].lists.order && kvc_policy_cache_positions(session->policy, layer);
}

/* Returns the first column of the unrotated keys; they follow the methods' columns. */
static uint32_t first_column(const struct kvc_session *session, uint32_t layer) {
    return kvc_policy_columns(session->policy, layer);
}

/* Returns the layer's rope. *first is the offset of its cosine and sine rows. */
static const struct kvc_rope *rope_of(const struct kvc_session *session, uint32_t layer, size_t *first) {
    const struct kvc_network *network = session->runner->network;
    const struct kvc_rope *rope = &network->rope[network->layer[layer].rope];
    *first = network->layer[layer].rope * (size_t)session->cache_positions.indices * (rope->rotary / 2) * sizeof(float);
    return rope;
}

/* Computes the cosine and sine rows of `indices` indices. */
static enum kvc_status cache_positions_reserve(struct kvc_session *session, uint64_t indices, struct kvc_error *error) {
    struct kvc_device *device = session->runner->device;
    const struct kvc_network *network = session->runner->network;
    struct kvc_cache_positions *cache_positions = &session->cache_positions;
    if (indices <= cache_positions->indices)
        return KVC_OK;
    const size_t rows = (size_t)kvc_round_up(indices, KVC_TILE);
    KVC_ASSERT(network && network->ropes >= 1 && network->ropes <= 2);
    const size_t bytes = rows * (network->rope[0].rotary / 2) * sizeof(float);
    enum kvc_status status = kvc_growable_reserve(device, &cache_positions->cosine, network->ropes * bytes, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &cache_positions->sine, network->ropes * bytes, error);
    int32_t *positions = malloc(rows * sizeof *positions);
    bool *long_factors = malloc(rows * sizeof *long_factors);
    float *host = malloc(bytes + 1);
    if (status == KVC_OK && (!positions || !long_factors || !host))
        status = kvc_fail(error, KVC_RESOURCE, "session: no memory to rotate %zu keys", rows);
    for (size_t i = 0; i < rows && status == KVC_OK; i++) {
        positions[i] = (int32_t)i;
        long_factors[i] = session->long_rope;
    }
    for (uint32_t i = 0; i < 2 * network->ropes && status == KVC_OK; i++) {
        const struct kvc_growable *to = i % 2 ? &cache_positions->sine : &cache_positions->cosine;
        kvc_rope_rows(&network->rope[i / 2], positions, long_factors, (uint32_t)rows, i % 2 == 1, host);
        device->ops->upload(device, kvc_growable_at(to, i / 2 * bytes), host, bytes);
    }
    cache_positions->indices = status == KVC_OK ? rows : 0;
    free(positions);
    free(long_factors);
    free(host);
    return status;
}

enum kvc_status kvc_cache_positions_reserve(struct kvc_session *session, uint64_t rows, struct kvc_error *error) {
    uint64_t most = 0;
    for (uint32_t l = 0; l < session->cache.layers; l++) {
        const uint64_t indices =
            kvc_policy_cache_positions(session->policy, l) ? kvc_cache_most(&session->cache, l) + rows : 0;
        most = kvc_max_u64(most, indices);
    }
    return most ? cache_positions_reserve(session, most, error) : KVC_OK;
}

void kvc_cache_positions_rotate(struct kvc_session *session, uint32_t layer, uint32_t row, uint32_t rows) {
    struct kvc_runner *runner = session->runner;
    struct kvc_device *device = runner->device;
    const struct kvc_geometry *g = &runner->geometry;
    size_t first;
    if (!at_cache_positions(session, layer))
        return;
    const struct kvc_rope *rope = rope_of(session, layer, &first);
    const size_t index = first + session->cache.layer[layer].count[0] * (size_t)(rope->rotary / 2) * sizeof(float);
    KVC_ASSERT(session->cache.layer[layer].count[0] == kvc_cache_most(&session->cache, layer));
    KVC_ASSERT(session->cache.layer[layer].count[0] + (uint64_t)rows <= session->cache_positions.indices);
    const size_t q = row * (size_t)g->heads * g->head_size * sizeof(float);
    const size_t k = row * (size_t)g->kv_heads * g->head_size * sizeof(float);
    const struct kvc_span cosine = kvc_growable_at(&session->cache_positions.cosine, index);
    const struct kvc_span sine = kvc_growable_at(&session->cache_positions.sine, index);
    device->ops->rope(device, &(struct kvc_rope_heads){.y = kvc_growable_at(&runner->q, q),
                                                       .x = kvc_growable_at(&runner->q_raw, q),
                                                       .cosine = cosine,
                                                       .sine = sine,
                                                       .rows = rows,
                                                       .heads = g->heads,
                                                       .head_size = g->head_size,
                                                       .rotary = rope->rotary,
                                                       .interleaved = rope->interleaved});
    device->ops->rope(device, &(struct kvc_rope_heads){.y = kvc_growable_at(&runner->k, k),
                                                       .x = kvc_growable_at(&runner->k_raw, k),
                                                       .cosine = cosine,
                                                       .sine = sine,
                                                       .rows = rows,
                                                       .heads = g->kv_heads,
                                                       .head_size = g->head_size,
                                                       .rotary = rope->rotary,
                                                       .interleaved = rope->interleaved});
}

void kvc_cache_positions_keep(struct kvc_session *session, uint32_t layer, uint32_t row, uint32_t stored) {
    struct kvc_runner *runner = session->runner;
    const struct kvc_geometry *g = &runner->geometry;
    const struct kvc_lists *lists = &session->cache.layer[layer].lists;
    if (!kvc_policy_cache_positions(session->policy, layer) || stored == 0)
        return;
    KVC_ASSERT(first_column(session, layer) + g->head_size == lists->columns);
    kvc_runner_keep(runner, lists, first_column(session, layer),
                    kvc_growable_at(&runner->k_raw, row * (size_t)g->kv_heads * g->head_size * sizeof(float)), stored,
                    g->head_size);
}

enum kvc_status kvc_cache_positions_renew(struct kvc_session *session, uint32_t layer, struct kvc_error *error) {
    struct kvc_device *device = session->runner->device;
    if (!at_cache_positions(session, layer))
        return KVC_OK;
    const enum kvc_status status = cache_positions_reserve(session, kvc_cache_most(&session->cache, layer), error);
    size_t first;
    const struct kvc_rope *rope = rope_of(session, layer, &first);
    if (status == KVC_OK)
        device->ops->rotate_keys(
            device, &(struct kvc_rotate_keys){.lists = &session->cache.layer[layer].lists,
                                              .first = first_column(session, layer),
                                              .cosine = kvc_growable_at(&session->cache_positions.cosine, first),
                                              .sine = kvc_growable_at(&session->cache_positions.sine, first),
                                              .rotary = rope->rotary,
                                              .interleaved = rope->interleaved});
    return status;
}

enum kvc_status kvc_cache_positions_check(const struct kvc_policy *policy, const struct kvc_network *network,
                                          uint32_t layers, struct kvc_error *error) {
    for (uint32_t l = 0; l < layers; l++) {
        const struct kvc_method *method = kvc_policy_cache_positions(policy, l);
        if (method && !network)
            return kvc_fail(
                error, KVC_USAGE,
                "policy %s: positions=cache needs a model, because the keys of a replay are already rotated",
                method->policy->name);
        if (method && network->layer[l].window)
            return kvc_fail(error, KVC_USAGE,
                            "policy %s: positions=cache: layer %u sees its last %u positions only; it needs a model "
                            "without a sliding window",
                            method->policy->name, l, network->layer[l].window);
    }
    return KVC_OK;
}
