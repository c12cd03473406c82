/* runner_memory.c - opens and closes a runner, and reserves its scratch buffers. */
#include "core/engine/runner.h"

#include "core/base/integers.h"
#include "core/engine/coordinator.h"

#include <stdlib.h>
#include <string.h>

#define ROW_BUFFERS 14u /* number of buffers in list_buffers */

/* Lists the growable buffers with one row of floats per batch row, with their widths. Returns their number. */
static size_t list_buffers(struct kvc_runner *runner, struct kvc_growable **buffers, size_t *widths) {
    const struct kvc_geometry *g = &runner->geometry;
    const size_t q_width = (size_t)g->heads * g->head_size, k_width = (size_t)g->kv_heads * g->head_size;
    const struct kvc_network *network = runner->network;
    const size_t hidden = network ? network->hidden : 0;     /* all ranks' rows are gathered in attended */
    const size_t feed = network ? network->feed_forward : 0; /* experts.c has its own buffers */
    size_t n = 0;
#define BUFFER(name, width) (buffers[n] = &runner->name, widths[n] = (width), n++)
    BUFFER(q, q_width);
    BUFFER(k, k_width);
    BUFFER(v, k_width);
    BUFFER(attended, (size_t)runner->model.heads * g->head_size);
    BUFFER(maximum, g->heads);
    BUFFER(sum, g->heads);
    if (runner->per_head) {
        BUFFER(k_heads, q_width);
        BUFFER(v_heads, q_width);
    }
    if (network) {
        BUFFER(normed, hidden);
        BUFFER(q_raw, q_width);
        BUFFER(k_raw, k_width);
        BUFFER(projected, hidden);
        BUFFER(gate, feed);
        BUFFER(up, feed);
    }
#undef BUFFER
    return n;
}

enum { OTHER_BUFFERS = 14 + KVC_STAGE_SCORES };

/* Lists the growable buffers that list_buffers does not have. Linear layers, experts, delta nets and batches keep their
 * own. */
static void list_others(struct kvc_runner *runner, struct kvc_growable *others[OTHER_BUFFERS]) {
    struct kvc_stage_scratch *stage = &runner->stage;
    struct kvc_growable *all[] = {&runner->last,     &runner->logits,      &runner->part,      &runner->part_quants,
                                  &runner->gathered, &runner->counts,      &stage->kept_index, &stage->kept_count,
                                  &stage->across,    &stage->across_count, &stage->rows,       &stage->numbers,
                                  &stage->totals,    &runner->sinks};
    memcpy(others, all, sizeof all);
    for (size_t i = 0; i < KVC_STAGE_SCORES; i++)
        others[sizeof all / sizeof *all + i] = &stage->scores[i];
}

enum kvc_status kvc_runner_open(struct kvc_engine *engine, const struct kvc_network *network,
                                const struct kvc_geometry *geometry, struct kvc_runner **runner,
                                struct kvc_error *error) {
    struct kvc_runner *made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "runner: no memory");
    made->engine = engine;
    made->device = engine->device;
    made->network = network;
    made->coordinator = !network || !engine->ranks ? &kvc_alone : network->part.pipeline ? &kvc_pipeline : &kvc_sharing;
    made->geometry = made->model = *geometry;
    if (network && network->part.ranks) {
        made->model.heads = network->part.heads;
        made->model.kv_heads = network->part.kv_heads;
    }
    struct kvc_growable *buffers[ROW_BUFFERS];
    size_t widths[ROW_BUFFERS];
    made->per_head = true; /* list_buffers then includes k_heads and v_heads */
    const size_t n = list_buffers(made, buffers, widths);
    made->per_head = false;
    for (size_t i = 0; i < n; i++)
        buffers[i]->kind = KVC_MEMORY_SCRATCH;
    struct kvc_growable *others[OTHER_BUFFERS];
    list_others(made, others);
    for (size_t i = 0; i < OTHER_BUFFERS; i++)
        others[i]->kind = KVC_MEMORY_SCRATCH;
    kvc_linear_open(&made->linear, network, engine->math);
    kvc_experts_set_kinds(&made->experts);
    kvc_delta_set_kinds(&made->delta);
    kvc_batch_set_kinds(&made->prompt);
    kvc_batch_set_kinds(&made->step);
    *runner = made;
    return KVC_OK;
}

void kvc_runner_close(struct kvc_runner *runner) {
    if (!runner)
        return;
    struct kvc_growable *buffers[ROW_BUFFERS];
    size_t widths[ROW_BUFFERS];
    runner->per_head = true; /* list_buffers then includes k_heads and v_heads */
    const size_t n = list_buffers(runner, buffers, widths);
    for (size_t i = 0; i < n; i++)
        kvc_growable_free(runner->device, buffers[i]);
    struct kvc_growable *others[OTHER_BUFFERS];
    list_others(runner, others);
    for (size_t i = 0; i < OTHER_BUFFERS; i++)
        kvc_growable_free(runner->device, others[i]);
    kvc_linear_free(runner->device, &runner->linear);
    kvc_experts_free(runner->device, &runner->experts);
    kvc_delta_free(runner->device, &runner->delta);
    kvc_batch_free(runner, &runner->prompt);
    kvc_batch_free(runner, &runner->step);
    for (struct kvc_extra_slots *store = runner->stores, *next; store; store = next) {
        next = store->next;
        if (store->arena)
            runner->device->ops->arena_free(runner->device, store->arena);
        free(store->block);
        free(store);
    }
    free(runner->segments);
    free(runner->windows);
    free(runner->alike);
    free(runner->recurrences);
    free(runner->host_rows);
    free(runner->host_counts);
    free(runner);
}

enum kvc_status kvc_runner_store(struct kvc_runner *runner, const struct kvc_entry_format *format,
                                 struct kvc_extra_slots **store, struct kvc_error *error) {
    const struct kvc_entry_types types = kvc_format_types(format);
    struct kvc_extra_slots *found = runner->stores;
    while (found && !kvc_entry_types_equal(found->types, types))
        found = found->next;
    if (!found) {
        found = calloc(1, sizeof *found);
        if (!found)
            return kvc_fail(error, KVC_RESOURCE, "runner: no memory for a store of cache entries");
        found->device = runner->device;
        found->types = types;
        found->next = runner->stores;
        runner->stores = found;
    }
    *store = found;
    return found->arena ? KVC_OK : runner->device->ops->arena_create(runner->device, format, &found->arena, error);
}

/* Returns the largest number of input values of a linear layer for `rows` rows. */
static size_t most_inputs(const struct kvc_runner *runner, uint32_t rows) {
    const struct kvc_network *n = runner->network;
    const size_t pairs = (size_t)rows * n->experts_used;
    const uint32_t mixed = kvc_max_u32(runner->model.heads * n->head_size, n->delta.heads * n->delta.value_size);
    const uint32_t feed = kvc_max_u32(n->feed_forward, n->shared_feed);
    const size_t most = (size_t)rows * kvc_max_u32(kvc_max_u32(mixed, n->hidden), feed);
    return kvc_max_u64(most, pairs * kvc_max_u32(n->hidden, n->expert_feed));
}

enum kvc_status kvc_runner_reserve(struct kvc_runner *runner, uint32_t rows, size_t segments, struct kvc_error *error) {
    if (segments > runner->segment_capacity) {
        struct kvc_segment **arrays[] = {&runner->segments, &runner->alike};
        for (size_t i = 0; i < 2; i++) {
            struct kvc_segment *grown = realloc(*arrays[i], segments * sizeof *grown);
            if (!grown)
                return kvc_fail(error, KVC_RESOURCE, "runner: no memory for %zu segments", segments);
            *arrays[i] = grown;
        }
        struct kvc_recurrence *grown = realloc(runner->recurrences, segments * sizeof *grown);
        if (!grown)
            return kvc_fail(error, KVC_RESOURCE, "runner: no memory for %zu segments", segments);
        runner->recurrences = grown;
        runner->segment_capacity = segments;
    }
    struct kvc_growable *buffers[ROW_BUFFERS];
    size_t widths[ROW_BUFFERS];
    const size_t n = list_buffers(runner, buffers, widths);
    enum kvc_status status = kvc_experts_reserve(runner, rows, error);
    if (status == KVC_OK)
        status = kvc_delta_reserve(runner, rows, error);
    for (size_t i = 0; i < n && status == KVC_OK; i++)
        status = kvc_growable_reserve(runner->device, buffers[i], (size_t)rows * widths[i] * sizeof(float), error);
    if (status == KVC_OK && runner->network)
        status = kvc_linear_reserve(runner, most_inputs(runner, rows), error);
    return status;
}

enum kvc_status kvc_runner_reserve_logits(struct kvc_runner *runner, uint32_t rows, struct kvc_error *error) {
    struct kvc_device *device = runner->device;
    const struct kvc_network *network = runner->network;
    enum kvc_status status =
        kvc_growable_reserve(device, &runner->last, (size_t)rows * network->hidden * sizeof(float), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &runner->logits, (size_t)rows * network->vocab * sizeof(float), error);
    if (status == KVC_OK)
        status = kvc_linear_reserve(runner, (size_t)rows * network->hidden, error);
    return status;
}
