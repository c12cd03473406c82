/* cache_lists.h - what the lists of a cache hold as bytes on the host, and as a copy in another cache. */
#ifndef KVC_CORE_ENGINE_CACHE_LISTS_H
#define KVC_CORE_ENGINE_CACHE_LISTS_H

#include "core/engine/cache.h"

/* Slots that head h owns; 0: the layer has been given none. */
uint32_t kvc_cache_head_slots(const struct kvc_cache *cache, uint32_t layer, uint32_t h);

/* A layer that has nothing gets slots [heads], of which the first counts [heads] hold entries by index: what these are
 * comes next. KVC_INPUT: there cannot be such lists. */
enum kvc_status kvc_cache_lay_out(struct kvc_cache *cache, uint32_t layer, const uint32_t *slots,
                                  const uint32_t *counts, uint32_t columns, bool ordered, struct kvc_error *error);

/* Bytes of a list by index: keys [count, row_bytes], values likewise; where the list has an order positions, int32
 * [count]; state columns, float32 [columns, count]. */
size_t kvc_cache_list_bytes(const struct kvc_cache *cache, uint32_t layer, uint32_t h);
enum kvc_status kvc_cache_read_list(const struct kvc_cache *cache, uint32_t layer, uint32_t h, unsigned char *bytes,
                                    struct kvc_error *error);
/* Of a list that has just been laid out: index and slot are the same number. KVC_INPUT: positions do not ascend, from 0
 * to below `tokens`. */
enum kvc_status kvc_cache_write_list(struct kvc_cache *cache, uint32_t layer, uint32_t h, const unsigned char *bytes,
                                     uint64_t tokens, struct kvc_error *error);

/* A layer that has just been laid out with the slots of another cache's gets what that one holds, on the device. */
enum kvc_status kvc_cache_clone(struct kvc_cache *cache, const struct kvc_cache *from, uint32_t layer,
                                struct kvc_error *error);

#endif
