/* spares.h - spare places (core/base/ops.h) of all caches of one arena: blocks are taken for them as they are needed,
 * shared, and given back with their last place. */
#ifndef KVC_CORE_ENGINE_SPARES_H
#define KVC_CORE_ENGINE_SPARES_H

#include "core/base/ops.h"

struct kvc_spare_block {
    uint32_t number;              /* of the arena */
    uint32_t taken;               /* places */
    uint64_t bits[KVC_TILE / 64]; /* one for each place that is taken */
};

struct kvc_spares {
    struct kvc_device *device;
    struct kvc_arena *arena;       /* not owned */
    struct kvc_spare_block *block; /* [blocks] */
    uint32_t blocks;
};

/* names [count]: as they stand where blocks are named. On failure none is taken. */
enum kvc_status kvc_spares_take(struct kvc_spares *spares, uint32_t count, uint32_t *names, struct kvc_error *error);
void kvc_spares_give(struct kvc_spares *spares, uint32_t count, const uint32_t *names);

#endif
