/* cache.c - grows and shrinks the lists of one session. A growing head only gets more blocks, and its keys and values
 * never move. When a head shrinks, only the entries in freed blocks move. */
#include "core/engine/cache.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/base/log.h"
#include "core/base/types.h"

#include <stdlib.h>
#include <string.h>

static uint64_t block_bytes(const struct kvc_entry_format *format) {
    return (uint64_t)KVC_BLOCK * kvc_entry_bytes(format);
}

uint64_t kvc_cache_head_bytes(const struct kvc_entry_format *format, uint64_t entries) {
    return kvc_divide_up(entries, KVC_BLOCK) * block_bytes(format);
}

uint64_t kvc_cache_slots(uint64_t entries, uint64_t step_most) {
    if (entries == step_most && entries > 1 && entries % KVC_BLOCK == 1)
        return entries - 1 + KVC_EXTRA_SLOTS;
    return kvc_round_up(entries, KVC_BLOCK);
}

static uint32_t slots(const struct kvc_lists *lists) {
    return lists->host_base ? lists->host_base[lists->kv_heads] : 0;
}

static uint32_t head_slots(const struct kvc_lists *lists, uint32_t h) {
    return lists->host_base ? lists->host_base[h + 1] - lists->host_base[h] : 0;
}

enum kvc_status kvc_cache_open(struct kvc_device *device, struct kvc_extra_slots *store,
                               const struct kvc_entry_format *format, uint32_t layers, const uint32_t *heads,
                               uint64_t limit_bytes, struct kvc_cache *cache, struct kvc_error *error) {
    memset(cache, 0, sizeof *cache);
    cache->device = device;
    cache->store = store;
    cache->format = *format;
    cache->limit_bytes = limit_bytes;
    cache->layer = calloc(layers, sizeof *cache->layer);
    if (!cache->layer)
        return kvc_fail(error, KVC_RESOURCE, "cache: no memory for the lists of %u layers", layers);
    cache->layers = layers;
    KVC_ASSERT(format->key.bytes == kvc_entry_row_bytes(format->key.type, format->head_size));
    KVC_ASSERT(format->value.bytes == kvc_entry_row_bytes(format->value.type, format->head_size));
    for (uint32_t l = 0; l < layers; l++) {
        struct kvc_lists *lists = &cache->layer[l].lists;
        cache->layer[l].before = kvc_cache_lists(cache);
        KVC_ASSERT(heads[l] > 0);
        lists->kv_heads = heads[l];
        lists->format = *format;
        lists->arena = store->arena;
        cache->layer[l].count = calloc(heads[l], sizeof(uint32_t));
        if (!cache->layer[l].count) {
            kvc_cache_close(cache);
            return kvc_fail(error, KVC_RESOURCE, "cache: no memory for the lists of %u layers", layers);
        }
    }
    return KVC_OK;
}

/* Frees the arrays of a layer, but not its blocks. */
static void free_arrays(struct kvc_cache *cache, struct kvc_cache_layer *layer) {
    const struct kvc_ops *ops = cache->device->ops;
    struct kvc_lists *lists = &layer->lists;
    ops->buffer_free(cache->device, lists->base);
    ops->buffer_free(cache->device, lists->count);
    ops->buffer_free(cache->device, lists->blocks);
    ops->buffer_free(cache->device, lists->order);
    ops->buffer_free(cache->device, lists->position);
    ops->buffer_free(cache->device, lists->state);
    free(lists->host_base);
    free(layer->blocks);
    KVC_ASSERT(cache->state_bytes >= layer->state_bytes);
    cache->state_bytes -= layer->state_bytes;
    layer->state_bytes = 0;
}

/* Frees all slots of head h beyond its first `kept` slots. Returns the number of bytes freed. */
static uint64_t free_head(struct kvc_cache *cache, const struct kvc_cache_layer *layer, uint32_t h, uint32_t kept) {
    const uint32_t had = head_slots(&layer->lists, h), whole = had / KVC_BLOCK, from = kept / KVC_BLOCK;
    const uint32_t *names = layer->blocks + kvc_first_block(layer->lists.host_base[h], h);
    KVC_ASSERT(kept == had || (kept < had && kept % KVC_BLOCK == 0));
    if (kept == had)
        return 0;
    if (whole > from)
        cache->device->ops->arena_return(cache->device, cache->store->arena, whole - from, names + from);
    if (had % KVC_BLOCK)
        kvc_extra_slots_free(cache->store, 1, names + whole);
    return (kvc_slots_hold(had) - kept) * kvc_entry_bytes(&cache->format);
}

void kvc_cache_close(struct kvc_cache *cache) {
    for (uint32_t l = 0; cache->layer && l < cache->layers; l++) {
        struct kvc_cache_layer *layer = &cache->layer[l];
        for (uint32_t h = 0; layer->blocks && h < layer->lists.kv_heads; h++)
            cache->cache_bytes -= free_head(cache, layer, h, 0);
        free_arrays(cache, layer);
        free(layer->count);
    }
    KVC_ASSERT(cache->cache_bytes == 0 && cache->state_bytes == 0); /* all bytes that were counted have been freed */
    if (cache->layer)
        cache->device->ops->arena_trim(cache->device, cache->store->arena);
    free(cache->layer);
    memset(cache, 0, sizeof *cache);
}

/* Checks that `bytes` more bytes are within the session's limit. */
static enum kvc_status check_limit(const struct kvc_cache *cache, uint64_t bytes, struct kvc_error *error) {
    const uint64_t held = cache->cache_bytes + cache->state_bytes;
    if (!cache->limit_bytes || (held <= cache->limit_bytes && bytes <= cache->limit_bytes - held))
        return KVC_OK;
    return kvc_fail(error, KVC_RESOURCE,
                    "cache: the session's limit of %llu bytes is reached (%llu held, %llu more wanted)",
                    (unsigned long long)cache->limit_bytes, (unsigned long long)held, (unsigned long long)bytes);
}

static void record_peak(struct kvc_cache *cache) {
    cache->peak_bytes = kvc_max_u64(cache->peak_bytes, cache->cache_bytes + cache->state_bytes);
}

static enum kvc_status make_buffer(struct kvc_cache *cache, struct kvc_cache_layer *layer, size_t bytes,
                                   struct kvc_buffer **buffer, struct kvc_error *error) {
    enum kvc_status status = check_limit(cache, bytes, error);
    if (status == KVC_OK)
        status = cache->device->ops->buffer_create(cache->device, KVC_MEMORY_STATE, bytes, buffer, error);
    if (status == KVC_OK) {
        layer->state_bytes += bytes;
        cache->state_bytes += bytes;
    }
    return status;
}

enum kvc_status kvc_cache_state_create(struct kvc_cache *cache, size_t bytes, struct kvc_buffer **buffer,
                                       struct kvc_error *error) {
    struct kvc_cache_layer none = {.count = NULL};
    const enum kvc_status status = make_buffer(cache, &none, bytes, buffer, error);
    if (status == KVC_OK)
        record_peak(cache);
    return status;
}

void kvc_cache_state_free(struct kvc_cache *cache, size_t bytes, struct kvc_buffer *buffer) {
    if (!buffer)
        return;
    cache->device->ops->buffer_free(cache->device, buffer);
    KVC_ASSERT(bytes <= cache->state_bytes);
    cache->state_bytes -= bytes;
}

/* Creates the arrays of a layer whose heads own base[h+1] - base[h] slots. The caller fills made->blocks. */
static enum kvc_status make_arrays(struct kvc_cache *cache, const uint32_t *base, uint32_t heads, uint32_t columns,
                                   bool ordered, struct kvc_cache_layer *made, struct kvc_error *error) {
    const struct kvc_ops *ops = cache->device->ops;
    const size_t all = base[heads], named = kvc_first_block(base[heads], heads);
    KVC_ASSERT(base[0] == 0);
    struct kvc_lists *lists = &made->lists;
    lists->kv_heads = heads;
    lists->columns = columns;
    lists->format = cache->format;
    lists->arena = cache->store->arena;
    lists->host_base = malloc((heads + 1) * sizeof(uint32_t));
    made->blocks = calloc(named, sizeof(uint32_t));
    if (!lists->host_base || !made->blocks)
        return kvc_fail(error, KVC_RESOURCE, "cache: no memory for a block table");
    memcpy(lists->host_base, base, (heads + 1) * sizeof(uint32_t));
    enum kvc_status status = make_buffer(cache, made, (heads + 1) * sizeof(uint32_t), &lists->base, error);
    if (status == KVC_OK)
        status = make_buffer(cache, made, heads * sizeof(uint32_t), &lists->count, error);
    if (status == KVC_OK)
        status = make_buffer(cache, made, named * sizeof(uint32_t), &lists->blocks, error);
    if (status == KVC_OK && ordered)
        status = make_buffer(cache, made, all * sizeof(uint32_t), &lists->order, error);
    if (status == KVC_OK && ordered)
        status = make_buffer(cache, made, all * sizeof(int32_t), &lists->position, error);
    if (status == KVC_OK && columns > 0)
        status = make_buffer(cache, made, columns * all * sizeof(float), &lists->state, error);
    if (status == KVC_OK)
        ops->upload(cache->device, (struct kvc_span){lists->base, 0}, base, (heads + 1) * sizeof(uint32_t));
    return status;
}

/* Blocks and extra slots for the heads whose number of slots changes. */
struct fresh {
    uint32_t blocks;
    uint32_t extra_slots;
    uint32_t *block;      /* [blocks] */
    uint32_t *extra_slot; /* [extra_slots], in the same allocation */
};

static enum kvc_status cache_take(struct kvc_cache *cache, const struct kvc_lists *old, const uint32_t *base,
                                  struct fresh *fresh, struct kvc_error *error) {
    for (uint32_t h = 0; h < old->kv_heads; h++) {
        const uint32_t then = base[h + 1] - base[h], kept = kvc_slots_kept(then, head_slots(old, h));
        fresh->blocks += then / KVC_BLOCK - kept / KVC_BLOCK;
        fresh->extra_slots += then != kept && then % KVC_BLOCK;
    }
    const uint64_t bytes =
        fresh->blocks * block_bytes(&cache->format) + fresh->extra_slots * kvc_entry_bytes(&cache->format);
    fresh->block = malloc(((size_t)fresh->blocks + fresh->extra_slots) * sizeof(uint32_t) + 1);
    if (!fresh->block)
        return kvc_fail(error, KVC_RESOURCE, "cache: no memory for a block list");
    fresh->extra_slot = fresh->block + fresh->blocks;
    enum kvc_status status = bytes ? check_limit(cache, bytes, error) : KVC_OK;
    if (status == KVC_OK && fresh->blocks > 0)
        status = cache->device->ops->arena_take(cache->device, cache->store->arena, fresh->blocks, fresh->block, error);
    if (status == KVC_OK) {
        status = kvc_extra_slots_take(cache->store, fresh->extra_slots, fresh->extra_slot, error);
        if (status != KVC_OK && fresh->blocks > 0)
            cache->device->ops->arena_return(cache->device, cache->store->arena, fresh->blocks, fresh->block);
    }
    if (status == KVC_OK)
        cache->cache_bytes += bytes;
    return status;
}

enum kvc_status kvc_cache_relayout(struct kvc_cache *cache, struct kvc_cache_layer *layer, const uint32_t *base,
                                   uint32_t columns, bool ordered, struct kvc_error *error) {
    const struct kvc_ops *ops = cache->device->ops;
    const uint32_t heads = layer->lists.kv_heads;
    const struct kvc_lists *old = &layer->lists;
    struct fresh fresh = {.blocks = 0};
    KVC_ASSERT(!old->order || ordered);
    struct kvc_cache_layer made = {.count = layer->count,
                                   .mean_rows = layer->mean_rows,
                                   .stale = layer->stale,
                                   .before = layer->before,
                                   .step_most = layer->step_most};
    enum kvc_status status = make_arrays(cache, base, heads, columns, ordered, &made, error);
    if (status == KVC_OK)
        status = cache_take(cache, old, base, &fresh, error);
    if (status != KVC_OK) {
        free_arrays(cache, &made);
        free(fresh.block);
        return status;
    }
    const uint32_t *block = fresh.block, *extra_slot = fresh.extra_slot;
    for (uint32_t h = 0; h < heads; h++) {
        const uint32_t had = head_slots(old, h), then = base[h + 1] - base[h], kept = kvc_slots_kept(then, had);
        uint32_t *names = made.blocks + kvc_first_block(base[h], h);
        KVC_ASSERT(then % KVC_BLOCK == 0 || then % KVC_BLOCK == KVC_EXTRA_SLOTS);
        KVC_ASSERT(!old->host_base || layer->count[h] <= kvc_slots_hold(then));
        if (kept > 0)
            memcpy(names, layer->blocks + kvc_first_block(old->host_base[h], h),
                   kvc_slots_blocks(kept) * sizeof *names);
        for (uint32_t b = kept / KVC_BLOCK; then != kept && b < then / KVC_BLOCK; b++)
            names[b] = *block++;
        if (then != kept && then % KVC_BLOCK)
            names[then / KVC_BLOCK] = *extra_slot++;
    }
    KVC_ASSERT(block == fresh.block + fresh.blocks && extra_slot == fresh.extra_slot + fresh.extra_slots);
    ops->upload(cache->device, (struct kvc_span){made.lists.blocks, 0}, made.blocks,
                kvc_first_block(base[heads], heads) * sizeof(uint32_t));
    if (old->host_base) {
        ops->relayout(cache->device, &(struct kvc_relayout){.dst = &made.lists, .src = old});
    } else if (ordered) {
        ops->identity(cache->device, &(struct kvc_identity){.lists = &made.lists});
    }
    record_peak(cache);
    for (uint32_t h = 0; h < heads && old->host_base; h++)
        cache->cache_bytes -= free_head(cache, layer, h, kvc_slots_kept(base[h + 1] - base[h], head_slots(old, h)));
    KVC_LOG(cache->device->log, KVC_LOG_DEBUG, KVC_LOG_MEMORY,
            "layer with %u lists: %u slots become %u; the session holds %llu bytes of blocks and %llu of state", heads,
            slots(old), base[heads], (unsigned long long)cache->cache_bytes,
            (unsigned long long)(cache->state_bytes - layer->state_bytes));
    free_arrays(cache, layer);
    *layer = made;
    free(fresh.block);
    return KVC_OK;
}

enum kvc_status kvc_cache_reserve(struct kvc_cache *cache, uint32_t l, uint64_t rows, uint32_t columns,
                                  struct kvc_error *error) {
    struct kvc_cache_layer *layer = &cache->layer[l];
    const uint32_t heads = layer->lists.kv_heads;
    bool enough = layer->lists.host_base != NULL;
    for (uint32_t h = 0; h < heads; h++) {
        if (layer->count[h] + rows > kvc_slots_hold(head_slots(&layer->lists, h)))
            enough = false;
    }
    if (enough)
        return KVC_OK;
    uint32_t *base = malloc((heads + 1) * sizeof(uint32_t));
    if (!base)
        return kvc_fail(error, KVC_RESOURCE, "cache: no memory for a block table");
    uint64_t all = 0;
    for (uint32_t h = 0; h < heads; h++) {
        const uint64_t need = kvc_cache_slots(layer->count[h] + rows, layer->step_most);
        const uint64_t have = head_slots(&layer->lists, h);
        base[h] = (uint32_t)all;
        all += kvc_max_u64(need, have);
        if (all > UINT32_MAX - KVC_BLOCK) {
            free(base);
            return kvc_fail(error, KVC_RESOURCE, "cache: %llu entries in one layer are too many",
                            (unsigned long long)all);
        }
    }
    base[heads] = (uint32_t)all;
    const enum kvc_status status = kvc_cache_relayout(cache, layer, base, columns, layer->lists.order != NULL, error);
    KVC_ASSERT(kvc_cache_layer_fits(layer));
    free(base);
    return status;
}

void kvc_cache_appended(struct kvc_cache *cache, uint32_t l, uint32_t rows) {
    KVC_ASSERT(!cache->layer[l].stale);
    for (uint32_t h = 0; h < cache->layer[l].lists.kv_heads; h++)
        cache->layer[l].count[h] += rows;
    KVC_ASSERT(kvc_cache_layer_fits(&cache->layer[l])); /* kvc_cache_reserve was called before */
}

void kvc_cache_copy(struct kvc_cache *cache, const struct kvc_cache *from, uint32_t l) {
    const struct kvc_cache_layer *to = &cache->layer[l], *source = &from->layer[l];
    const struct kvc_ops *ops = cache->device->ops;
    const uint32_t heads = to->lists.kv_heads, others = source->lists.kv_heads;
    KVC_ASSERT(!source->lists.order && !to->lists.order);
    KVC_ASSERT(heads % others == 0 || others % heads == 0);
    for (uint32_t h = 0; h < heads; h++) {
        const uint32_t other = (uint32_t)((uint64_t)h * others / heads), entries = source->count[other];
        ops->arena_copy(cache->device, cache->store->arena, (uint32_t)kvc_divide_up(entries, KVC_BLOCK),
                        to->blocks + kvc_first_block(to->lists.host_base[h], h),
                        source->blocks + kvc_first_block(source->lists.host_base[other], other));
        to->count[h] = entries;
        KVC_ASSERT(entries <= kvc_slots_hold(head_slots(&to->lists, h)));
    }
    ops->upload(cache->device, (struct kvc_span){to->lists.count, 0}, to->count, heads * sizeof *to->count);
}

void kvc_cache_drop(struct kvc_cache *cache, uint32_t l, uint32_t rows) {
    cache->device->ops->drop(cache->device, &(struct kvc_drop){.lists = &cache->layer[l].lists, .rows = rows});
    for (uint32_t h = 0; h < cache->layer[l].lists.kv_heads; h++) {
        KVC_ASSERT(cache->layer[l].count[h] >= rows);
        cache->layer[l].count[h] -= rows;
    }
}

enum kvc_status kvc_cache_make_order(struct kvc_cache *cache, uint32_t l, struct kvc_error *error) {
    struct kvc_cache_layer *layer = &cache->layer[l];
    struct kvc_lists *lists = &layer->lists;
    if (lists->order)
        return KVC_OK;
    const size_t all = slots(lists);
    enum kvc_status status = make_buffer(cache, layer, all * sizeof(uint32_t), &lists->order, error);
    if (status == KVC_OK)
        status = make_buffer(cache, layer, all * sizeof(int32_t), &lists->position, error);
    if (status != KVC_OK) {
        if (lists->order) {
            layer->state_bytes -= all * sizeof(uint32_t);
            cache->state_bytes -= all * sizeof(uint32_t);
        }
        cache->device->ops->buffer_free(cache->device, lists->order);
        lists->order = NULL;
        return status;
    }
    record_peak(cache);
    cache->device->ops->identity(cache->device, &(struct kvc_identity){.lists = lists});
    return KVC_OK;
}

void kvc_cache_evicted(struct kvc_cache *cache, uint32_t l, struct kvc_span to) {
    struct kvc_cache_layer *layer = &cache->layer[l];
    layer->stale = true;
    KVC_ASSERT(layer->lists.order);
    if (!to.buffer) {
        kvc_cache_catch_up(cache, l);
        return;
    }
    to.offset += layer->before * sizeof(uint32_t);
    cache->device->ops->copy(cache->device, to, (struct kvc_span){layer->lists.count, 0},
                             layer->lists.kv_heads * sizeof(uint32_t));
}

void kvc_cache_catch_up(const struct kvc_cache *cache, uint32_t l) {
    struct kvc_cache_layer *layer = &cache->layer[l];
    if (layer->stale)
        cache->device->ops->download(cache->device, layer->count, (struct kvc_span){layer->lists.count, 0},
                                     layer->lists.kv_heads * sizeof(uint32_t));
    layer->stale = false;
}

bool kvc_cache_is_stale(const struct kvc_cache *cache) {
    for (uint32_t l = 0; l < cache->layers; l++)
        if (cache->layer[l].stale)
            return true;
    return false;
}

void kvc_cache_take_counts(struct kvc_cache *cache, const uint32_t *counts) {
    for (uint32_t l = 0; l < cache->layers; l++) {
        struct kvc_cache_layer *layer = &cache->layer[l];
        for (uint32_t h = 0; h < layer->lists.kv_heads && layer->stale; h++)
            KVC_ASSERT(counts[layer->before + h] <= layer->count[h]); /* an eviction makes no list longer */
        if (layer->stale)
            memcpy(layer->count, counts + layer->before, layer->lists.kv_heads * sizeof *counts);
        layer->stale = false;
    }
}

uint32_t kvc_cache_lists(const struct kvc_cache *cache) {
    uint32_t all = 0;
    for (uint32_t l = 0; l < cache->layers; l++)
        all += cache->layer[l].lists.kv_heads;
    return all;
}

enum kvc_status kvc_cache_shrink(struct kvc_cache *cache, uint32_t l, uint32_t surplus, bool in_step,
                                 struct kvc_error *error) {
    struct kvc_cache_layer *layer = &cache->layer[l];
    const uint32_t heads = layer->lists.kv_heads;
    KVC_ASSERT(!layer->stale);
    uint32_t *base = malloc((heads + 1) * sizeof(uint32_t));
    if (!base)
        return kvc_fail(error, KVC_RESOURCE, "cache: no memory for a block table");
    bool worth = false;
    base[0] = 0;
    for (uint32_t h = 0; h < heads; h++) {
        const uint32_t have = head_slots(&layer->lists, h);
        const uint64_t entries = kvc_max_u64((uint64_t)layer->count[h] + surplus, in_step ? layer->step_most : 0);
        const uint64_t wanted = kvc_cache_slots(entries, layer->step_most);
        const uint32_t need = (uint32_t)kvc_min_u64(wanted, have);
        KVC_ASSERT(layer->count[h] <= kvc_slots_hold(need));
        worth = worth || have / KVC_BLOCK > need / KVC_BLOCK;
        base[h + 1] = base[h] + need;
    }
    const enum kvc_status status =
        worth ? kvc_cache_relayout(cache, layer, base, layer->lists.columns, layer->lists.order != NULL, error)
              : KVC_OK;
    free(base);
    return status;
}

uint32_t kvc_cache_most(const struct kvc_cache *cache, uint32_t l) {
    uint32_t most = 0;
    for (uint32_t h = 0; h < cache->layer[l].lists.kv_heads; h++) {
        most = kvc_max_u32(most, cache->layer[l].count[h]);
    }
    return most;
}

enum kvc_status kvc_cache_read_positions(const struct kvc_cache *cache, uint32_t l, uint32_t head, int32_t *positions,
                                         size_t capacity, size_t *count, struct kvc_error *error) {
    const struct kvc_lists *lists = &cache->layer[l].lists;
    kvc_cache_catch_up(cache, l);
    *count = cache->layer[l].count[head];
    const size_t some = kvc_min_u64(*count, capacity);
    if (!lists->order || some == 0) {
        for (size_t i = 0; i < some; i++)
            positions[i] = (int32_t)i;
        return KVC_OK;
    }
    struct kvc_device *device = cache->device;
    const size_t first = lists->host_base[head] * sizeof(uint32_t);
    const size_t slots = lists->host_base[head + 1] - lists->host_base[head];
    uint32_t *order = malloc(slots * sizeof(uint32_t) + 1);
    int32_t *by_slot = malloc(slots * sizeof(int32_t) + 1);
    enum kvc_status status = KVC_OK;
    if (order && by_slot) {
        device->ops->download(device, order, (struct kvc_span){lists->order, first}, slots * sizeof(uint32_t));
        device->ops->download(device, by_slot, (struct kvc_span){lists->position, first}, slots * sizeof(int32_t));
        for (size_t i = 0; i < some; i++) {
            KVC_ASSERT(order[i] < slots);
            positions[i] = by_slot[order[i]];
            KVC_ASSERT(i == 0 || positions[i] > positions[i - 1]);
        }
    } else {
        status = kvc_fail(error, KVC_RESOURCE, "positions: no memory for %zu entries", *count);
    }
    free(order);
    free(by_slot);
    return status;
}
