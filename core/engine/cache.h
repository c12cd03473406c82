/* cache.h - the entries of one session: for each layer and KV head a list of slots in blocks of an arena. Heads
 * allocate and free blocks as they grow and shrink (docs/explanation/cache.md). */
#ifndef KVC_CORE_ENGINE_CACHE_H
#define KVC_CORE_ENGINE_CACHE_H

#include "core/base/ops.h"
#include "core/engine/extra_slots.h"

struct kvc_cache_layer {
    struct kvc_lists lists;
    uint32_t *count;    /* [lists.kv_heads]: host copy of lists.count */
    uint32_t mean_rows; /* number of keys whose mean is subtracted from all keys; 0: unknown (centre.h) */
    bool stale;         /* an eviction has made the lists shorter than `count` */
    uint32_t before;    /* number of lists in the layers below */
    uint32_t *blocks;   /* host copy of lists.blocks */
    uint64_t step_most; /* length that a list reaches only within decode steps; 0: unknown */
    uint64_t state_bytes;
};

struct kvc_cache {
    struct kvc_device *device;
    struct kvc_extra_slots *store; /* not owned */
    struct kvc_entry_format format;
    uint32_t layers;
    struct kvc_cache_layer *layer; /* [layers] */
    uint64_t cache_bytes;          /* bytes of blocks and extra slots */
    uint64_t state_bytes;          /* bytes of everything else */
    uint64_t peak_bytes;           /* largest sum of both */
    uint64_t limit_bytes;          /* 0: no limit */
};

/* Returns true if every list has slots for its entries, in whole blocks and at most one extra slot. For assertions. */
static inline bool kvc_cache_layer_fits(const struct kvc_cache_layer *layer) {
    const uint32_t *base = layer->lists.host_base;
    for (uint32_t h = 0; h < layer->lists.kv_heads; h++) {
        const uint32_t slots = base ? base[h + 1] - base[h] : 0, beside = slots % KVC_BLOCK;
        if (layer->count[h] > kvc_slots_hold(slots) || (beside && beside != KVC_EXTRA_SLOTS))
            return false;
    }
    return !base || base[0] == 0;
}

/* Returns the bytes of the blocks that `entries` entries of one head take. */
uint64_t kvc_cache_head_bytes(const struct kvc_entry_format *format, uint64_t entries);

/* Returns the number of slots for `entries` entries of a head: whole blocks. If step_most is one more than these blocks
 * hold, an extra slot is added. */
uint64_t kvc_cache_slots(uint64_t entries, uint64_t step_most);

/* Returns the number of expired entries at the front of a list of `held` consecutive positions. No row from the next
 * position on can see them through the window (0: no window). The result is a multiple of KVC_TILE. */
static inline uint64_t kvc_window_expired(uint32_t window, uint64_t held) {
    return window && held >= window ? (held - window + 1) / KVC_TILE * KVC_TILE : 0;
}

/* Opens a cache. heads [layers] is the number of lists in each layer. */
enum kvc_status kvc_cache_open(struct kvc_device *device, struct kvc_extra_slots *store,
                               const struct kvc_entry_format *format, uint32_t layers, const uint32_t *heads,
                               uint64_t limit_bytes, struct kvc_cache *cache, struct kvc_error *error);
void kvc_cache_close(struct kvc_cache *cache);

/* Gives head h of a layer base[h+1] - base[h] slots, allocating or freeing blocks, with `columns` state columns and, if
 * `ordered`, an order. On failure nothing has changed. */
enum kvc_status kvc_cache_relayout(struct kvc_cache *cache, struct kvc_cache_layer *layer, const uint32_t *base,
                                   uint32_t columns, bool ordered, struct kvc_error *error);
/* Reserves room for `rows` more entries in every head of the layer. On failure nothing has changed. */
enum kvc_status kvc_cache_reserve(struct kvc_cache *cache, uint32_t layer, uint64_t rows, uint32_t columns,
                                  struct kvc_error *error);
/* Updates the host's counts after kvc_ops.append of `rows` entries. */
void kvc_cache_appended(struct kvc_cache *cache, uint32_t layer, uint32_t rows);
/* Copies a layer's entries from another cache. The destination is empty and has reserved room. The source holds all
 * positions from 0 on; nothing was evicted. One cache may have lists per query head and the other lists per KV head. */
void kvc_cache_copy(struct kvc_cache *cache, const struct kvc_cache *from, uint32_t layer);
/* Removes the newest `rows` entries of every head. */
void kvc_cache_drop(struct kvc_cache *cache, uint32_t layer, uint32_t rows);
/* Creates a buffer for data that methods keep in addition to entries. The buffer counts as state and against the
 * session's limit. */
enum kvc_status kvc_cache_state_create(struct kvc_cache *cache, size_t bytes, struct kvc_buffer **buffer,
                                       struct kvc_error *error);
void kvc_cache_state_free(struct kvc_cache *cache, size_t bytes, struct kvc_buffer *buffer);
/* Creates order lists and positions, which the first eviction needs. */
enum kvc_status kvc_cache_make_order(struct kvc_cache *cache, uint32_t layer, struct kvc_error *error);
/* Updates the cache after an eviction. If to.buffer is NULL, the counts are fetched. Otherwise the device copies them
 * to uint32 to[before ...]. Until kvc_cache_take_counts, the host's counts are stale: the old counts, which
 * are an upper bound. */
void kvc_cache_evicted(struct kvc_cache *cache, uint32_t layer, struct kvc_span to);
/* Fetches a layer's counts if they are stale. Only the host's copy changes. */
void kvc_cache_catch_up(const struct kvc_cache *cache, uint32_t layer);
bool kvc_cache_is_stale(const struct kvc_cache *cache);
/* Updates the host's counts after evictions. `counts` is a host copy of what kvc_cache_evicted wrote to its `to`. */
void kvc_cache_take_counts(struct kvc_cache *cache, const uint32_t *counts);
uint32_t kvc_cache_lists(const struct kvc_cache *cache); /* returns the number of lists in all layers */
/* Frees the blocks that are not needed for the entries plus `surplus`. If `in_step` is true, keeps the blocks that
 * later steps need for step_most entries. */
enum kvc_status kvc_cache_shrink(struct kvc_cache *cache, uint32_t layer, uint32_t surplus, bool in_step,
                                 struct kvc_error *error);
uint32_t kvc_cache_most(const struct kvc_cache *cache, uint32_t layer); /* entries of the longest head */
/* Copies the positions of a head's entries in index order, at most `capacity` of them. *count receives the number of
 * entries. */
enum kvc_status kvc_cache_read_positions(const struct kvc_cache *cache, uint32_t layer, uint32_t head,
                                         int32_t *positions, size_t capacity, size_t *count, struct kvc_error *error);

#endif
