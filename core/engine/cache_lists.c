/* cache_lists.c - copies a cache's lists: to and from host memory by index, without free slots, and to another cache
 * slot by slot on the device. */
#include "core/engine/cache_lists.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define NO_INDEX UINT32_MAX

uint32_t kvc_cache_head_slots(const struct kvc_cache *cache, uint32_t l, uint32_t h) {
    const uint32_t *base = cache->layer[l].lists.host_base;
    return base ? base[h + 1] - base[h] : 0;
}

/* ---- creating a layer ---- */

/* Returns true if a head may own `slots` slots for `count` entries. */
static bool may_own(uint32_t slots, uint32_t count) {
    const uint32_t beside = slots % KVC_BLOCK;
    return (beside == 0 || beside == KVC_EXTRA_SLOTS) && count <= kvc_slots_hold(slots);
}

enum kvc_status kvc_cache_lay_out(struct kvc_cache *cache, uint32_t l, const uint32_t *slots, const uint32_t *counts,
                                  uint32_t columns, bool ordered, struct kvc_error *error) {
    struct kvc_cache_layer *layer = &cache->layer[l];
    const uint32_t heads = layer->lists.kv_heads;
    uint32_t *base = malloc((heads + 1) * sizeof *base);
    uint64_t all = 0;
    if (!base)
        return kvc_fail(error, KVC_RESOURCE, "cache: no memory for a block table");
    for (uint32_t h = 0; h < heads; h++) {
        base[h] = (uint32_t)all;
        all += slots[h];
        if (!may_own(slots[h], counts[h]) || all > UINT32_MAX - KVC_BLOCK) {
            free(base);
            return kvc_fail(error, KVC_INPUT, "layer %u, head %u: %u entries in %u slots: no list has this size", l, h,
                            counts[h], slots[h]);
        }
    }
    base[heads] = (uint32_t)all;
    const enum kvc_status status = kvc_cache_relayout(cache, layer, base, columns, ordered, error);
    free(base);
    if (status != KVC_OK)
        return status;
    memcpy(layer->count, counts, heads * sizeof *counts);
    cache->device->ops->upload(cache->device, (struct kvc_span){layer->lists.count, 0}, counts, heads * sizeof *counts);
    return KVC_OK;
}

/* ---- lists in host memory ---- */

/* A list, with host copies of its arrays. */
struct list {
    const struct kvc_cache *cache;
    const struct kvc_lists *lists;
    uint32_t h, slots, count;
    uint32_t key, value;   /* bytes of a key and of a value */
    const uint32_t *names; /* names of its blocks */
    uint32_t *order;       /* [slots] */
    uint32_t *index;       /* [slots]: index of the slot's entry, or NO_INDEX */
    uint32_t *words;       /* [slots] */
    unsigned char *block;  /* one block of the arena */
};

static void list_close(struct list *list) {
    free(list->order);
    free(list->index);
    free(list->words);
    free(list->block);
}

static enum kvc_status list_open(const struct kvc_cache *cache, uint32_t l, uint32_t h, struct list *list,
                                 struct kvc_error *error) {
    const struct kvc_cache_layer *layer = &cache->layer[l];
    const uint32_t slots = kvc_cache_head_slots(cache, l, h);
    KVC_ASSERT(!layer->stale && may_own(slots, layer->count[h]));
    *list = (struct list){.cache = cache,
                          .lists = &layer->lists,
                          .h = h,
                          .slots = slots,
                          .count = layer->count[h],
                          .key = cache->format.key.bytes,
                          .value = cache->format.value.bytes,
                          .names = slots ? layer->blocks + kvc_first_block(layer->lists.host_base[h], h) : NULL,
                          .order = malloc(slots * sizeof(uint32_t) + 1),
                          .index = malloc(slots * sizeof(uint32_t) + 1),
                          .words = malloc(slots * sizeof(uint32_t) + 1),
                          .block = malloc((size_t)KVC_BLOCK * kvc_entry_bytes(&cache->format))};
    if (list->order && list->index && list->words && list->block)
        return KVC_OK;
    list_close(list);
    return kvc_fail(error, KVC_RESOURCE, "cache: no memory for %u entries", layer->count[h]);
}

/* Returns the list's part of an array over all slots of the layer. */
static struct kvc_span part_of(const struct list *list, struct kvc_buffer *buffer) {
    return (struct kvc_span){buffer, list->lists->host_base[list->h] * sizeof(uint32_t)};
}

/* Returns column c of the list's state. */
static struct kvc_span column_of(const struct list *list, uint32_t c) {
    const size_t first = (size_t)list->lists->columns * list->lists->host_base[list->h];
    KVC_ASSERT(c < list->lists->columns);
    return (struct kvc_span){list->lists->state, (first + (size_t)c * list->slots) * sizeof(float)};
}

size_t kvc_cache_list_bytes(const struct kvc_cache *cache, uint32_t l, uint32_t h) {
    const struct kvc_cache_layer *layer = &cache->layer[l];
    const size_t columns = layer->lists.state ? layer->lists.columns : 0;
    return layer->count[h] *
           (kvc_entry_bytes(&cache->format) + (layer->lists.order ? sizeof(int32_t) : 0) + columns * sizeof(float));
}

static void find_indices(const struct list *list) {
    struct kvc_device *device = list->cache->device;
    if (list->lists->order)
        device->ops->download(device, list->order, part_of(list, list->lists->order), list->slots * sizeof(uint32_t));
    for (uint32_t s = 0; s < list->slots; s++) {
        if (!list->lists->order)
            list->order[s] = s;
        list->index[s] = NO_INDEX;
    }
    for (uint32_t r = 0; r < list->count; r++) {
        KVC_ASSERT(list->order[r] < list->slots && list->index[list->order[r]] == NO_INDEX); /* each slot once */
        list->index[list->order[r]] = r;
    }
}

/* Copies the keys and values of block b to their places in index order. */
static void read_block(const struct list *list, uint32_t b, unsigned char *keys, unsigned char *values) {
    struct kvc_device *device = list->cache->device;
    struct kvc_arena *arena = list->cache->store->arena;
    const uint32_t first = b * KVC_BLOCK;
    KVC_ASSERT(first < list->slots);
    const uint32_t some = list->slots - first < KVC_BLOCK ? 1 : KVC_BLOCK; /* an extra slot is read on its own */
    const size_t key = list->key, value = list->value, half = KVC_BLOCK * key;
    bool used = false;
    for (uint32_t s = 0; s < some; s++)
        used = used || list->index[first + s] != NO_INDEX;
    if (!used)
        return;
    device->ops->arena_read(device, arena, list->names[b], 0, list->block, some * key);
    device->ops->arena_read(device, arena, list->names[b], half, list->block + half, some * value);
    for (uint32_t s = 0; s < some; s++) {
        const uint32_t index = list->index[first + s];
        if (index == NO_INDEX)
            continue;
        memcpy(keys + index * key, list->block + s * key, key);
        memcpy(values + index * value, list->block + half + s * value, value);
    }
}

/* Copies the entries' words to `to` in index order. `words` is in slot order. */
static unsigned char *put_words(const struct list *list, unsigned char *to) {
    for (uint32_t r = 0; r < list->count; r++)
        memcpy(to + r * sizeof(uint32_t), &list->words[list->order[r]], sizeof(uint32_t));
    return to + list->count * sizeof(uint32_t);
}

enum kvc_status kvc_cache_read_list(const struct kvc_cache *cache, uint32_t l, uint32_t h, unsigned char *bytes,
                                    struct kvc_error *error) {
    struct kvc_device *device = cache->device;
    struct list list;
    if (cache->layer[l].count[h] == 0)
        return KVC_OK;
    const enum kvc_status status = list_open(cache, l, h, &list, error);
    if (status != KVC_OK)
        return status;
    const size_t keys = (size_t)list.count * list.key;
    find_indices(&list);
    for (uint32_t b = 0; b < kvc_slots_blocks(list.slots); b++)
        read_block(&list, b, bytes, bytes + keys);
    bytes += keys + (size_t)list.count * list.value;
    if (list.lists->order) {
        device->ops->download(device, list.words, part_of(&list, list.lists->position), list.slots * sizeof(int32_t));
        bytes = put_words(&list, bytes);
    }
    for (uint32_t c = 0; list.lists->state && c < list.lists->columns; c++) {
        device->ops->download(device, list.words, column_of(&list, c), list.slots * sizeof(float));
        bytes = put_words(&list, bytes);
    }
    list_close(&list);
    return KVC_OK;
}

/* Writes the positions of a list, in which index and slot are equal. */
static enum kvc_status write_positions(const struct list *list, const unsigned char *bytes, uint64_t tokens,
                                       struct kvc_error *error) {
    struct kvc_device *device = list->cache->device;
    int64_t last = -1;
    for (uint32_t r = 0; r < list->count; r++) {
        int32_t position;
        memcpy(&position, bytes + r * sizeof position, sizeof position);
        if (position <= last || (uint64_t)position >= tokens)
            return kvc_fail(error, KVC_INPUT, "position %d after %lld, of %llu tokens", position, (long long)last,
                            (unsigned long long)tokens);
        last = position;
    }
    memcpy(list->words, bytes, list->count * sizeof(int32_t));
    device->ops->upload(device, part_of(list, list->lists->position), list->words, list->count * sizeof(int32_t));
    return KVC_OK;
}

enum kvc_status kvc_cache_write_list(struct kvc_cache *cache, uint32_t l, uint32_t h, const unsigned char *bytes,
                                     uint64_t tokens, struct kvc_error *error) {
    struct kvc_device *device = cache->device;
    struct list list;
    if (cache->layer[l].count[h] == 0)
        return KVC_OK;
    enum kvc_status status = list_open(cache, l, h, &list, error);
    if (status != KVC_OK)
        return status;
    const size_t key = list.key, value = list.value, keys = list.count * key, half = KVC_BLOCK * key;
    for (uint32_t first = 0; first < list.count; first += KVC_BLOCK) {
        const size_t some = kvc_min_u32(list.count - first, KVC_BLOCK);
        const uint32_t name = list.names[first / KVC_BLOCK];
        device->ops->arena_write(device, cache->store->arena, name, 0, bytes + first * key, some * key);
        device->ops->arena_write(device, cache->store->arena, name, half, bytes + keys + first * value, some * value);
    }
    bytes += keys + list.count * value;
    if (list.lists->order) {
        status = write_positions(&list, bytes, tokens, error);
        bytes += list.count * sizeof(int32_t);
    }
    for (uint32_t c = 0; list.lists->state && c < list.lists->columns && status == KVC_OK; c++) {
        memcpy(list.words, bytes, list.count * sizeof(float));
        device->ops->upload(device, column_of(&list, c), list.words, list.count * sizeof(float));
        bytes += list.count * sizeof(float);
    }
    list_close(&list);
    return status;
}

/* ---- copying to another cache ---- */

static void copy_buffer(struct kvc_device *device, struct kvc_buffer *to, struct kvc_buffer *from, size_t bytes) {
    if (from && bytes)
        device->ops->copy(device, (struct kvc_span){to, 0}, (struct kvc_span){from, 0}, bytes);
}

enum kvc_status kvc_cache_clone(struct kvc_cache *cache, const struct kvc_cache *from, uint32_t l,
                                struct kvc_error *error) {
    struct kvc_device *device = cache->device;
    const struct kvc_lists *to = &cache->layer[l].lists, *source = &from->layer[l].lists;
    const size_t row[2] = {cache->format.key.bytes, cache->format.value.bytes}, half = KVC_BLOCK * row[0];
    if (!source->host_base)
        return KVC_OK;
    unsigned char *entry = malloc(kvc_entry_bytes(&cache->format));
    if (!entry)
        return kvc_fail(error, KVC_RESOURCE, "cache: no memory for an entry");
    for (uint32_t h = 0; h < to->kv_heads; h++) {
        const uint32_t slots = kvc_cache_head_slots(from, l, h), first = kvc_first_block(to->host_base[h], h);
        const uint32_t used = source->order ? slots / KVC_BLOCK : kvc_slots_blocks(from->layer[l].count[h]);
        const uint32_t *names = from->layer[l].blocks + first;
        KVC_ASSERT(to->host_base[h] == source->host_base[h] && used <= kvc_slots_blocks(slots));
        const uint32_t whole = kvc_min_u32(used, slots / KVC_BLOCK);
        device->ops->arena_copy(device, cache->store->arena, whole, cache->layer[l].blocks + first, names);
        if (slots % KVC_BLOCK == 0)
            continue;
        for (size_t side = 0; side < 2; side++) {
            const uint32_t b = slots / KVC_BLOCK;
            device->ops->arena_read(device, cache->store->arena, names[b], side * half, entry, row[side]);
            device->ops->arena_write(device, cache->store->arena, cache->layer[l].blocks[first + b], side * half, entry,
                                     row[side]);
        }
    }
    free(entry);
    const size_t all = source->host_base[source->kv_heads];
    KVC_ASSERT(to->host_base[to->kv_heads] == all && to->columns == source->columns);
    KVC_ASSERT(!to->order == !source->order);
    copy_buffer(device, to->order, source->order, all * sizeof(uint32_t));
    copy_buffer(device, to->position, source->position, all * sizeof(int32_t));
    copy_buffer(device, to->state, source->state, all * source->columns * sizeof(float));
    return KVC_OK;
}
