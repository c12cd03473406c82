/* extra_slots.c - allocates extra slots, which hold entries that exist only within a decode step, outside the heads'
 * blocks. */
#include "core/engine/extra_slots.h"

#include "core/base/assert.h"

#include <stdlib.h>

#define MOST_BLOCKS (KVC_EXTRA_SLOT / KVC_BLOCK) /* larger block numbers do not fit into an extra slot's name */

static enum kvc_status add_block(struct kvc_extra_slots *extra_slots, struct kvc_error *error) {
    const struct kvc_ops *ops = extra_slots->device->ops;
    uint32_t number;
    struct kvc_extra_block *grown = realloc(extra_slots->block, (extra_slots->blocks + 1) * sizeof *grown);
    if (!grown)
        return kvc_fail(error, KVC_RESOURCE, "cache: no memory for extra slots");
    extra_slots->block = grown;
    enum kvc_status status = ops->arena_take(extra_slots->device, extra_slots->arena, 1, &number, error);
    if (status == KVC_OK && number >= MOST_BLOCKS) {
        ops->arena_return(extra_slots->device, extra_slots->arena, 1, &number);
        status = kvc_fail(error, KVC_RESOURCE, "cache: at most %u blocks of extra slots", MOST_BLOCKS);
    }
    if (status == KVC_OK)
        extra_slots->block[extra_slots->blocks++] = (struct kvc_extra_block){.number = number};
    return status;
}

static enum kvc_status take_one(struct kvc_extra_slots *extra_slots, uint32_t *name, struct kvc_error *error) {
    uint32_t i = 0, slot = 0;
    while (i < extra_slots->blocks && extra_slots->block[i].taken == KVC_BLOCK)
        i++;
    const enum kvc_status status = i < extra_slots->blocks ? KVC_OK : add_block(extra_slots, error);
    if (status != KVC_OK)
        return status;
    struct kvc_extra_block *block = &extra_slots->block[i];
    KVC_ASSERT(block->taken < KVC_BLOCK);
    while (block->bits >> slot & 1)
        slot++;
    KVC_ASSERT(slot < KVC_BLOCK && block->number < MOST_BLOCKS);
    block->bits |= (uint64_t)1 << slot;
    block->taken++;
    *name = KVC_EXTRA_SLOT + block->number * KVC_BLOCK + slot;
    return KVC_OK;
}

enum kvc_status kvc_extra_slots_take(struct kvc_extra_slots *extra_slots, uint32_t count, uint32_t *names,
                                     struct kvc_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        const enum kvc_status status = take_one(extra_slots, &names[i], error);
        if (status != KVC_OK) {
            kvc_extra_slots_free(extra_slots, i, names);
            return status;
        }
    }
    return KVC_OK;
}

void kvc_extra_slots_free(struct kvc_extra_slots *extra_slots, uint32_t count, const uint32_t *names) {
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t number = (names[n] - KVC_EXTRA_SLOT) / KVC_BLOCK, slot = names[n] % KVC_BLOCK;
        uint32_t i = 0;
        KVC_ASSERT(names[n] >= KVC_EXTRA_SLOT);
        while (extra_slots->block[i].number != number) {
            i++;
            KVC_ASSERT(i < extra_slots->blocks);
        }
        struct kvc_extra_block *block = &extra_slots->block[i];
        KVC_ASSERT(block->bits >> slot & 1); /* the slot is in use, so it is not freed twice */
        block->bits &= ~((uint64_t)1 << slot);
        if (--block->taken > 0)
            continue;
        extra_slots->device->ops->arena_return(extra_slots->device, extra_slots->arena, 1, &block->number);
        *block = extra_slots->block[--extra_slots->blocks];
    }
}
