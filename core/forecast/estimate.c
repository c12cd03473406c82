/* estimate.c - estimates the bytes that a policy will need from its methods' formulas, before a model is loaded. */
#include "core/forecast/estimate.h"

#include "core/engine/cache.h"
#include "core/engine/centre.h"

#include <stdlib.h>

static enum kvc_status open_estimate(struct kvc_estimator *e, struct kvc_error *error) {
    const uint32_t layers = e->g->layers;
    enum kvc_status status = kvc_ledger_open(&e->ledger, layers, &e->format, error);
    if (status != KVC_OK)
        return status;
    e->view = calloc(layers, sizeof *e->view);
    e->indices = calloc(layers, sizeof *e->indices);
    e->after = calloc(layers, sizeof *e->after);
    e->most = calloc(layers, sizeof *e->most);
    e->now = calloc(layers, sizeof *e->now);
    e->events = calloc(2 * (size_t)layers, sizeof *e->events);
    e->pages = calloc(layers, sizeof *e->pages);
    e->from = calloc(layers, sizeof *e->from);
    e->chunks = calloc(layers, sizeof *e->chunks);
    if (!e->view || !e->indices || !e->after || !e->most || !e->now || !e->events || !e->pages || !e->from ||
        !e->chunks)
        return kvc_fail(error, KVC_RESOURCE, "estimate: no memory for %u layers", layers);
    for (uint32_t l = 0; l < layers; l++) {
        struct kvc_ledger_layer *layer = &e->ledger.layer[l];
        layer->elsewhere = l < e->first_layer || l - e->first_layer >= e->own_layers;
        layer->heads = kvc_policy_heads(e->policy, l, e->g);
        layer->columns = kvc_policy_all_columns(e->policy, l, e->g->head_size);
        layer->lists[1] = kvc_policy_whole(e->policy, l, e->g, &e->format);
        layer->lists[0] = layer->heads - layer->lists[1];
    }
    if (kvc_policy_centres(e->policy, kvc_format_types(&e->format)))
        e->ledger.state +=
            (uint64_t)e->own_layers * KVC_CENTRE_ARRAYS * e->g->kv_heads * e->g->head_size * sizeof(float);
    e->ledger.peak = e->ledger.state;
    return KVC_OK;
}

static void close_estimate(struct kvc_estimator *e) {
    kvc_ledger_close(&e->ledger);
    free(e->view);
    free(e->indices);
    free(e->after);
    free(e->most);
    free(e->now);
    free(e->events);
    free(e->pages);
    free(e->from);
    free(e->chunks);
}

static void estimate_run(struct kvc_estimator *e, uint64_t generated, struct kvc_estimate *estimate) {
    if (e->prompt)
        kvc_estimate_prompt(e);
    estimate->prompt_peak_bytes = e->ledger.peak;
    if (generated)
        kvc_estimate_steps(e, generated);
    for (uint32_t l = e->first_layer; l < e->first_layer + e->own_layers; l++) {
        const struct kvc_ledger_layer *layer = &e->ledger.layer[l];
        estimate->entries = kvc_max_u64(estimate->entries, kvc_longest_count(layer));
        estimate->all_entries += layer->lists[0] * layer->count[0] + layer->lists[1] * layer->count[1];
        estimate->lists += layer->heads;
    }
    estimate->cache_bytes = e->ledger.cache;
    estimate->state_bytes = e->ledger.state;
    estimate->peak_bytes = e->ledger.peak;
    estimate->kind = e->uneven ? KVC_EXPECTED_MOST : KVC_EXPECTED_EXACT;
}

/* Checks the arguments, and that all later sums fit 64 bits for any geometry and length. */
static enum kvc_status estimate_check(const struct kvc_geometry *g, uint32_t hidden, struct kvc_entry_types cache_type,
                                      uint64_t prompt, uint64_t generated, struct kvc_error *error) {
    const enum kvc_status status = kvc_geometry_check(g, "estimate", error);
    if (status != KVC_OK)
        return status;
    if (!kvc_entry_types_valid(cache_type))
        return kvc_fail(error, KVC_USAGE, "estimate: " KVC_ENTRY_TYPES_WANTED);
    if (prompt > INT32_MAX || generated > INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "estimate: %llu + %llu tokens: must be at most %d each",
                        (unsigned long long)prompt, (unsigned long long)generated, INT32_MAX);
    /* bytes per entry, for the largest type */
    const double entry = 2 * 4.0 * g->head_size + 8 + 4.0 * KVC_COLUMNS_MOST;
    const double heads = (double)g->layers * g->heads, tokens = (double)(prompt + generated + 2 * KVC_TILE);
    if (heads * tokens * entry * 4 > 0x1p63 || (double)prompt * hidden * 4 > 0x1p63)
        return kvc_fail(error, KVC_USAGE,
                        "estimate: %llu tokens of %u layers with %u heads of size %u: more bytes than 2^63",
                        (unsigned long long)(prompt + generated), g->layers, g->heads, g->head_size);
    return KVC_OK;
}

enum kvc_status kvc_estimate(const struct kvc_engine *engine, const char *spec, const struct kvc_geometry *geometry,
                             uint32_t hidden, struct kvc_entry_types cache_type, uint64_t prompt, uint64_t generated,
                             struct kvc_estimate *estimate, struct kvc_error *error) {
    return kvc_estimate_windows(engine, spec, geometry, NULL, hidden, cache_type, prompt, generated, estimate, error);
}

enum kvc_status kvc_estimate_windows(const struct kvc_engine *engine, const char *spec,
                                     const struct kvc_geometry *geometry, const uint32_t *windows, uint32_t hidden,
                                     struct kvc_entry_types cache_type, uint64_t prompt, uint64_t generated,
                                     struct kvc_estimate *estimate, struct kvc_error *error) {
    return kvc_estimate_part(engine, spec, geometry, windows, 0, geometry->layers, hidden, cache_type, prompt,
                             generated, estimate, error);
}

enum kvc_status kvc_estimate_part(const struct kvc_engine *engine, const char *spec,
                                  const struct kvc_geometry *geometry, const uint32_t *windows, uint32_t first_layer,
                                  uint32_t layers, uint32_t hidden, struct kvc_entry_types cache_type, uint64_t prompt,
                                  uint64_t generated, struct kvc_estimate *estimate, struct kvc_error *error) {
    struct kvc_policy *policy;
    struct kvc_method_use *use;
    enum kvc_status status = estimate_check(geometry, hidden, cache_type, prompt, generated, error);
    if (status == KVC_OK && (first_layer > geometry->layers || layers > geometry->layers - first_layer))
        status = kvc_fail(error, KVC_USAGE, "estimate: %u layers from %u on: there are %u", layers, first_layer,
                          geometry->layers);
    if (status == KVC_OK)
        status = kvc_policy_parse(engine, spec, &policy, error);
    if (status != KVC_OK)
        return status;
    status = kvc_policy_check_types(policy, cache_type, error);
    if (status == KVC_OK)
        status = kvc_policy_open(policy, geometry, &use, error);
    if (status != KVC_OK) {
        kvc_policy_free(policy);
        return status;
    }
    struct kvc_chunking chunking;
    const bool chunked = kvc_policy_chunking(policy, &chunking) && chunking.chunk < prompt;
    const uint64_t rows = chunked ? chunking.chunk + (uint64_t)chunking.probe : prompt;
    *estimate = (struct kvc_estimate){.hidden_bytes = rows * hidden * sizeof(float)};
    struct kvc_estimator made = {.policy = policy,
                                 .use = use,
                                 .g = geometry,
                                 .windows = windows,
                                 .first_layer = first_layer,
                                 .own_layers = layers,
                                 .format = kvc_entry_format(cache_type, geometry->head_size),
                                 .prompt = prompt};
    status = open_estimate(&made, error);
    if (status == KVC_OK)
        estimate_run(&made, generated, estimate);
    close_estimate(&made);
    kvc_policy_close(policy, use);
    kvc_policy_free(policy);
    return status;
}

void kvc_estimate_recurrent(struct kvc_estimate *estimate, uint64_t recurrent_bytes) {
    uint64_t *const counted[] = {&estimate->state_bytes, &estimate->peak_bytes, &estimate->prompt_peak_bytes};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        *counted[i] += recurrent_bytes;
}
