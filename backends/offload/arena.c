/* arena.c - the allocator of cache blocks on a device. Chunks double in size up to the limit for one allocation
 * (backends/kernels/lists.h). The lowest free block is handed out first. Only blocks that are taken count as memory in
 * use. A trim frees the chunks that have no taken block. */
#include <stdlib.h>
#include <string.h>

#include "backends/offload/offload.h"

#include "core/base/assert.h"

#define KVC_FIRST_CHUNK_BYTES ((size_t)8 << 20)

static bool taken(const struct kvc_arena *arena, uint32_t block) { return arena->taken[block / 64] >> block % 64 & 1; }

/* Returns the chunk of a block, and writes the chunk's first block and its number of blocks. */
static uint32_t chunk_of(const struct kvc_arena *arena, uint32_t block, uint32_t *first, uint32_t *blocks) {
    uint32_t log2 = 31;
    if (block >> arena->top) {
        *first = block >> arena->top << arena->top;
        *blocks = 1u << arena->top;
        return arena->top - arena->shift + (block >> arena->top);
    }
    if (block >> arena->shift == 0) {
        *first = 0;
        *blocks = 1u << arena->shift;
        return 0;
    }
    while (!(block >> log2))
        log2--;
    *first = *blocks = 1u << log2;
    return log2 - arena->shift + 1;
}

enum kvc_status kvc_offload_arena_create(struct kvc_device *device, const struct kvc_entry_format *format,
                                         struct kvc_arena **arena, struct kvc_error *error) {
    struct kvc_arena *made = calloc(1, sizeof *made);
    *arena = NULL;
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "no memory for a cache arena");
    made->format = *format;
    made->block_bytes = (size_t)KVC_BLOCK * kvc_entry_bytes(format);
    if (made->block_bytes > kvc_offload_of(device)->most_bytes) {
        free(made);
        return kvc_fail(error, KVC_RESOURCE, "%s: a cache block of %zu bytes is more than one allocation may have",
                        device->name, (size_t)KVC_BLOCK * kvc_entry_bytes(format));
    }
    /* A chunk is at most a fraction of the device's memory, so that the unused end of the last chunk stays small. */
    while (made->top < 27 && made->block_bytes << (made->top + 1) <= kvc_offload_of(device)->most_bytes &&
           made->block_bytes << (made->top + 1) <= kvc_offload_of(device)->memory_bytes / 4)
        made->top++;
    while (made->shift < made->top && made->block_bytes << (made->shift + 1) <= KVC_FIRST_CHUNK_BYTES &&
           made->block_bytes << (made->shift + 1) <= kvc_offload_of(device)->memory_bytes / 64)
        made->shift++;
    *arena = made;
    return KVC_OK;
}

void kvc_offload_arena_free(struct kvc_device *device, struct kvc_arena *arena) {
    if (!arena)
        return;
    kvc_offload_count(kvc_offload_of(device), KVC_MEMORY_CACHE, -(int64_t)(arena->taken_count * arena->block_bytes));
    for (uint32_t i = 0; i < KVC_CHUNKS; i++)
        if (arena->chunk[i])
            kvc_offload_of(device)->driver->release(kvc_offload_of(device), arena->chunk[i]);
    free(arena->taken);
    free(arena);
}

/* Allocates the chunk of a block if needed, and extends the bitmap to include it. */
static enum kvc_status provide(struct kvc_offload *offload, struct kvc_arena *arena, uint32_t block,
                               struct kvc_error *error) {
    uint32_t first, blocks, chunk = chunk_of(arena, block, &first, &blocks);
    bool borrowed;
    KVC_ASSERT(first <= block && block - first < blocks);
    if (chunk >= KVC_CHUNKS)
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for more than %u cache blocks of %zu bytes",
                        offload->device.name, block, arena->block_bytes);
    if (first + blocks > arena->bits) {
        size_t had = ((size_t)arena->bits + 63) / 64, words = ((size_t)first + blocks + 63) / 64;
        uint64_t *grown = realloc(arena->taken, words * sizeof *grown);
        if (!grown)
            return kvc_fail(error, KVC_RESOURCE, "no memory for a cache arena");
        memset(grown + had, 0, (words - had) * sizeof *grown);
        arena->taken = grown;
        arena->bits = first + blocks;
    }
    if (arena->chunk[chunk])
        return KVC_OK;
    return kvc_offload_allocate(offload, KVC_MEMORY_CACHE, blocks * arena->block_bytes, NULL, &arena->chunk[chunk],
                                &borrowed, error);
}

static void arena_return(struct kvc_offload *offload, struct kvc_arena *arena, uint32_t count, const uint32_t *blocks) {
    uint32_t given = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = blocks[i];
        if (block >= arena->bits || !taken(arena, block)) {
            kvc_offload_failed(offload, KVC_RESOURCE, "cache block %u was freed twice or never taken", (unsigned)block);
            continue;
        }
        arena->taken[block / 64] &= ~((uint64_t)1 << block % 64);
        if (block < arena->lowest)
            arena->lowest = block;
        given++;
    }
    KVC_ASSERT(given <= arena->taken_count);
    arena->taken_count -= given;
    kvc_offload_count(offload, KVC_MEMORY_CACHE, -(int64_t)(given * arena->block_bytes));
}

enum kvc_status kvc_offload_arena_take(struct kvc_device *device, struct kvc_arena *arena, uint32_t count,
                                       uint32_t *blocks, struct kvc_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = arena->lowest;
        enum kvc_status status;
        while (block < arena->bits && taken(arena, block))
            block++;
        status = provide(kvc_offload_of(device), arena, block, error);
        if (status != KVC_OK) {
            kvc_offload_count(kvc_offload_of(device), KVC_MEMORY_CACHE, (int64_t)(i * arena->block_bytes));
            arena->taken_count += i;
            arena_return(kvc_offload_of(device), arena, i, blocks);
            return status;
        }
        KVC_ASSERT(block < arena->bits && !taken(arena, block));
        arena->taken[block / 64] |= (uint64_t)1 << block % 64;
        arena->lowest = block + 1;
        blocks[i] = block;
    }
    arena->taken_count += count;
    kvc_offload_count(kvc_offload_of(device), KVC_MEMORY_CACHE, (int64_t)(count * arena->block_bytes));
    return KVC_OK;
}

void kvc_offload_arena_return(struct kvc_device *device, struct kvc_arena *arena, uint32_t count,
                              const uint32_t *blocks) {
    arena_return(kvc_offload_of(device), arena, count, blocks);
}

/* Returns the chunk that holds a block or an extra slot. *offset receives the place in the chunk where the keys begin,
 * or the values if `values` is true. */
static void *half_at(const struct kvc_arena *arena, uint32_t name, bool values, size_t *offset) {
    const bool extra_slot = name & KVC_EXTRA_SLOT;
    const uint32_t block = extra_slot ? (name & ~KVC_EXTRA_SLOT) / KVC_BLOCK : name;
    uint32_t first, blocks;
    void *chunk = arena->chunk[chunk_of(arena, block, &first, &blocks)];
    KVC_ASSERT(chunk && taken(arena, block));
    const size_t row = values ? arena->format.value.bytes : arena->format.key.bytes;
    *offset = (block - first) * arena->block_bytes + (values ? (size_t)KVC_BLOCK * arena->format.key.bytes : 0) +
              (extra_slot ? name % KVC_BLOCK * row : 0);
    return chunk;
}

/* Returns the chunk that holds byte `offset` of a block or an extra slot. Writes the byte's offset in that chunk. */
static void *place_in(const struct kvc_arena *arena, uint32_t name, size_t offset, size_t *at) {
    const size_t keys = (size_t)KVC_BLOCK * arena->format.key.bytes;
    const bool values = offset >= keys;
    void *chunk = half_at(arena, name, values, at);
    *at += values ? offset - keys : offset;
    return chunk;
}

void kvc_offload_arena_copy(struct kvc_device *device, struct kvc_arena *arena, uint32_t count, const uint32_t *to,
                            const uint32_t *from) {
    struct kvc_offload *offload = kvc_offload_of(device);
    for (uint32_t i = 0; i < count && !offload->lost; i++) {
        size_t to_offset, from_offset;
        void *target = half_at(arena, to[i], false, &to_offset), *source = half_at(arena, from[i], false, &from_offset);
        offload->driver->copy(offload, target, to_offset, source, from_offset, arena->block_bytes);
    }
}

void kvc_offload_arena_read(struct kvc_device *device, struct kvc_arena *arena, uint32_t name, size_t offset, void *to,
                            size_t bytes) {
    size_t at;
    void *chunk = place_in(arena, name, offset, &at);
    if (!kvc_offload_of(device)->lost)
        kvc_offload_of(device)->driver->read(kvc_offload_of(device), to, chunk, at, bytes);
    else
        memset(to, 0, bytes);
}

void kvc_offload_arena_write(struct kvc_device *device, struct kvc_arena *arena, uint32_t name, size_t offset,
                             const void *from, size_t bytes) {
    size_t at;
    void *chunk = place_in(arena, name, offset, &at);
    if (!kvc_offload_of(device)->lost)
        kvc_offload_of(device)->driver->write(kvc_offload_of(device), chunk, at, from, bytes);
}

void kvc_offload_arena_trim(struct kvc_device *device, struct kvc_arena *arena) {
    uint32_t first, blocks;
    for (uint32_t block = 0; block < arena->bits; block = first + blocks) {
        uint32_t chunk = chunk_of(arena, block, &first, &blocks);
        bool held = !arena->chunk[chunk];
        for (uint32_t i = first; i < first + blocks && !held; i++)
            held = taken(arena, i);
        if (!held) {
            kvc_offload_of(device)->driver->release(kvc_offload_of(device), arena->chunk[chunk]);
            arena->chunk[chunk] = NULL;
        }
    }
}
