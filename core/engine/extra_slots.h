/* extra_slots.h - spare slots (core/base/ops.h) of all caches of one arena. They share blocks, which are taken as they
 * are needed and given back with their last slot. */
#ifndef KVC_CORE_ENGINE_EXTRA_SLOTS_H
#define KVC_CORE_ENGINE_EXTRA_SLOTS_H

#include "core/base/ops.h"

struct kvc_extra_block {
    uint32_t number;              /* of the arena */
    uint32_t taken;               /* slots */
    uint64_t bits[KVC_TILE / 64]; /* one for each slot that is taken */
};

struct kvc_extra_slots {
    struct kvc_device *device;
    struct kvc_arena *arena;       /* not owned */
    struct kvc_extra_block *block; /* [blocks] */
    uint32_t blocks;
};

/* names [count]: as they stand in block tables. On failure none is taken. */
enum kvc_status kvc_extra_slots_take(struct kvc_extra_slots *extra_slots, uint32_t count, uint32_t *names,
                                     struct kvc_error *error);
void kvc_extra_slots_free(struct kvc_extra_slots *extra_slots, uint32_t count, const uint32_t *names);

#endif
