/* cache_lists.h - copies a cache's lists to and from host memory, and from one cache to another. */
#ifndef KVC_CORE_ENGINE_CACHE_LISTS_H
#define KVC_CORE_ENGINE_CACHE_LISTS_H

#include "core/engine/cache.h"

/* Returns the number of slots of head h, or 0 if the layer has none yet. */
uint32_t kvc_cache_head_slots(const struct kvc_cache *cache, uint32_t layer, uint32_t h);

/* Gives head h of an empty layer slots[h] slots. The caller then writes counts[h] entries to the first ones, in index
 * order. Returns KVC_INPUT if such lists cannot exist. */
enum kvc_status kvc_cache_lay_out(struct kvc_cache *cache, uint32_t layer, const uint32_t *slots,
                                  const uint32_t *counts, uint32_t columns, bool ordered, struct kvc_error *error);

/* Returns the size in bytes of a list as kvc_cache_read_list writes it, by index: keys [count, key bytes]; values
 * [count, value bytes]; positions int32 [count] if the list has an order; state columns float32 [columns, count]. */
size_t kvc_cache_list_bytes(const struct kvc_cache *cache, uint32_t layer, uint32_t h);
enum kvc_status kvc_cache_read_list(const struct kvc_cache *cache, uint32_t layer, uint32_t h, unsigned char *bytes,
                                    struct kvc_error *error);
/* Writes a list that kvc_cache_lay_out has just created, in which index and slot are equal. Returns KVC_INPUT unless
 * the positions ascend and are in 0 .. tokens - 1. */
enum kvc_status kvc_cache_write_list(struct kvc_cache *cache, uint32_t layer, uint32_t h, const unsigned char *bytes,
                                     uint64_t tokens, struct kvc_error *error);

/* Copies another cache's layer on the device. Both layers must have the same slots (kvc_cache_lay_out). */
enum kvc_status kvc_cache_clone(struct kvc_cache *cache, const struct kvc_cache *from, uint32_t layer,
                                struct kvc_error *error);

#endif
