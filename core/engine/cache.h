/* cache.h - one session's entries: per layer and KV head a list of slots in blocks of an arena, taken and given back
 * as heads grow and shrink (docs/explanation/cache.md). */
#ifndef KVC_CORE_ENGINE_CACHE_H
#define KVC_CORE_ENGINE_CACHE_H

#include "core/base/ops.h"
#include "core/engine/extra_slots.h"

struct kvc_cache_layer {
    struct kvc_lists lists;
    uint32_t *count;    /* [lists.kv_heads], the host's copy of lists.count */
    bool stale;         /* an eviction has made the lists shorter than count says */
    uint32_t before;    /* lists of the layers below */
    uint32_t *blocks;   /* the host's copy of lists.blocks */
    uint64_t step_most; /* entries that a list has within decode steps and never between them; 0: not known */
    uint64_t state_bytes;
};

struct kvc_cache {
    struct kvc_device *device;
    struct kvc_extra_slots *store; /* not owned */
    struct kvc_entry_format format;
    uint32_t layers;
    struct kvc_cache_layer *layer; /* [layers] */
    uint64_t cache_bytes;          /* of blocks and spare slots */
    uint64_t state_bytes;          /* of everything beside them */
    uint64_t peak_bytes;           /* the most of both */
    uint64_t limit_bytes;          /* 0: none */
};

uint32_t kvc_entry_row_bytes(enum kvc_type type, uint32_t head_size);
/* Bytes of blocks that `entries` entries of one head take. */
uint64_t kvc_cache_head_bytes(const struct kvc_entry_format *format, uint64_t entries);

/* Slots for so many entries of a head: whole blocks; for step_most of them, where that is one more than these hold, a
 * spare slot. */
uint64_t kvc_cache_slots(uint64_t entries, uint64_t step_most);

/* Entries in front of a list of `held` neighbouring positions that no row from the next position on can see through a
 * window (0: none), in whole tiles. */
static inline uint64_t kvc_window_expired(uint32_t window, uint64_t held) {
    return window && held >= window ? (held - window + 1) / KVC_TILE * KVC_TILE : 0;
}

/* heads [layers]: lists of entries in each layer. */
enum kvc_status kvc_cache_open(struct kvc_device *device, struct kvc_extra_slots *store,
                               const struct kvc_entry_format *format, uint32_t layers, const uint32_t *heads,
                               uint64_t limit_bytes, struct kvc_cache *cache, struct kvc_error *error);
void kvc_cache_close(struct kvc_cache *cache);

/* Gives head h of a layer base[h+1] - base[h] slots, taking or giving blocks; with so many columns, and an order if
 * `ordered`. On failure nothing has changed. */
enum kvc_status kvc_cache_relayout(struct kvc_cache *cache, struct kvc_cache_layer *layer, const uint32_t *base,
                                   uint32_t columns, bool ordered, struct kvc_error *error);
/* Capacity for `rows` more entries in every head of the layer. On failure nothing has changed. */
enum kvc_status kvc_cache_reserve(struct kvc_cache *cache, uint32_t layer, uint64_t rows, uint32_t columns,
                                  struct kvc_error *error);
/* After kvc_ops.append of `rows` entries. */
void kvc_cache_appended(struct kvc_cache *cache, uint32_t layer, uint32_t rows);
/* The layer, which has been reserved and holds nothing, gets what another cache's holds: entries of all positions from
 * 0 on, from which none has gone. One may have lists of query heads where the other has those of KV heads. */
void kvc_cache_copy(struct kvc_cache *cache, const struct kvc_cache *from, uint32_t layer);
/* Removes the newest `rows` entries of every head. */
void kvc_cache_drop(struct kvc_cache *cache, uint32_t layer, uint32_t rows);
/* A buffer of what methods keep beside the entries, counted with them and within the session's limit. */
enum kvc_status kvc_cache_state_create(struct kvc_cache *cache, size_t bytes, struct kvc_buffer **buffer,
                                       struct kvc_error *error);
void kvc_cache_state_free(struct kvc_cache *cache, size_t bytes, struct kvc_buffer *buffer);
/* Order lists and positions, needed before the first eviction. */
enum kvc_status kvc_cache_make_order(struct kvc_cache *cache, uint32_t layer, struct kvc_error *error);
/* After an eviction. to.buffer NULL: fetches the counts. Otherwise they go to uint32 to[before ...], on the device. The
 * host's are then stale until kvc_cache_take_counts: those from before, an upper bound. */
void kvc_cache_evicted(struct kvc_cache *cache, uint32_t layer, struct kvc_span to);
/* Fetches a layer's counts if they are stale; what the host knows of the cache changes, the cache does not. */
void kvc_cache_catch_up(const struct kvc_cache *cache, uint32_t layer);
bool kvc_cache_is_stale(const struct kvc_cache *cache);
/* counts: what the evictions wrote to `to`, on the host now. */
void kvc_cache_take_counts(struct kvc_cache *cache, const uint32_t *counts);
uint32_t kvc_cache_lists(const struct kvc_cache *cache); /* of all layers */
/* Gives back blocks beyond what the entries and `surplus` more need, where a head has at least `many` too many. */
enum kvc_status kvc_cache_shrink(struct kvc_cache *cache, uint32_t layer, uint32_t surplus, uint32_t many,
                                 struct kvc_error *error);
uint32_t kvc_cache_most(const struct kvc_cache *cache, uint32_t layer); /* entries of the fullest head */
/* Positions of a head's entries by index, at most `capacity` of its `count`. */
enum kvc_status kvc_cache_read_positions(const struct kvc_cache *cache, uint32_t layer, uint32_t head,
                                         int32_t *positions, size_t capacity, size_t *count, struct kvc_error *error);

#endif
