/* extra_slots.h - the extra slots (core/base/lists.h) of all caches that use one arena. Up to KVC_BLOCK extra slots
 * share an arena block. A block is allocated on demand and freed with its last slot. */
#ifndef KVC_CORE_ENGINE_EXTRA_SLOTS_H
#define KVC_CORE_ENGINE_EXTRA_SLOTS_H

#include "core/base/ops.h"

struct kvc_extra_block {
    uint32_t number; /* block number in the arena */
    uint32_t taken;  /* slots in use */
    uint64_t bits;   /* one bit per slot: 1 if in use */
};

struct kvc_extra_slots {
    struct kvc_device *device;
    struct kvc_arena *arena;       /* not owned */
    struct kvc_extra_block *block; /* [blocks] */
    uint32_t blocks;
    struct kvc_entry_types types; /* types of the arena's entries */
    struct kvc_extra_slots *next; /* next element of the runner's linked list */
};

/* Takes `count` extra slots. names [count] receives the slots' names in the form that block tables use
 * (KVC_EXTRA_SLOT). On failure none is taken. */
enum kvc_status kvc_extra_slots_take(struct kvc_extra_slots *extra_slots, uint32_t count, uint32_t *names,
                                     struct kvc_error *error);
void kvc_extra_slots_free(struct kvc_extra_slots *extra_slots, uint32_t count, const uint32_t *names);

#endif
