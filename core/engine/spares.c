/* spares.c - spare slots: outside of the blocks of heads, for entries that only a decode step adds. */
#include "core/engine/spares.h"

#include <stdlib.h>

#define MOST_BLOCKS (KVC_SPARE / KVC_TILE) /* block numbers that fit into a name */

static enum kvc_status add_block(struct kvc_spares *spares, struct kvc_error *error) {
    const struct kvc_ops *ops = spares->device->ops;
    uint32_t number;
    struct kvc_spare_block *grown = realloc(spares->block, (spares->blocks + 1) * sizeof *grown);
    if (!grown)
        return kvc_fail(error, KVC_RESOURCE, "cache: no memory for spare slots");
    spares->block = grown;
    enum kvc_status status = ops->arena_take(spares->device, spares->arena, 1, &number, error);
    if (status == KVC_OK && number >= MOST_BLOCKS) {
        ops->arena_give(spares->device, spares->arena, 1, &number);
        status = kvc_fail(error, KVC_RESOURCE, "cache: no spare slots beyond %u blocks", MOST_BLOCKS);
    }
    if (status == KVC_OK)
        spares->block[spares->blocks++] = (struct kvc_spare_block){.number = number};
    return status;
}

static enum kvc_status take_one(struct kvc_spares *spares, uint32_t *name, struct kvc_error *error) {
    uint32_t i = 0, slot = 0;
    while (i < spares->blocks && spares->block[i].taken == KVC_TILE)
        i++;
    const enum kvc_status status = i < spares->blocks ? KVC_OK : add_block(spares, error);
    if (status != KVC_OK)
        return status;
    struct kvc_spare_block *block = &spares->block[i];
    while (block->bits[slot / 64] >> slot % 64 & 1)
        slot++;
    block->bits[slot / 64] |= (uint64_t)1 << slot % 64;
    block->taken++;
    *name = KVC_SPARE + block->number * KVC_TILE + slot;
    return KVC_OK;
}

enum kvc_status kvc_spares_take(struct kvc_spares *spares, uint32_t count, uint32_t *names, struct kvc_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        const enum kvc_status status = take_one(spares, &names[i], error);
        if (status != KVC_OK) {
            kvc_spares_give(spares, i, names);
            return status;
        }
    }
    return KVC_OK;
}

void kvc_spares_give(struct kvc_spares *spares, uint32_t count, const uint32_t *names) {
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t number = (names[n] - KVC_SPARE) / KVC_TILE, slot = names[n] % KVC_TILE;
        uint32_t i = 0;
        while (spares->block[i].number != number)
            i++;
        struct kvc_spare_block *block = &spares->block[i];
        block->bits[slot / 64] &= ~((uint64_t)1 << slot % 64);
        if (--block->taken > 0)
            continue;
        spares->device->ops->arena_give(spares->device, spares->arena, 1, &block->number);
        *block = spares->block[--spares->blocks];
    }
}
