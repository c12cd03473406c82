/* arena.c - the allocator of cache blocks. It allocates the lowest free block first. Only allocated blocks count in the
 * device's memory statistics. A trim returns the pages of free blocks to the system. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"

#include "core/base/assert.h"

#if defined(__SANITIZE_ADDRESS__) /* AddressSanitizer reports any access to a free block */
#include <sanitizer/asan_interface.h>
#define KVC_FORBID(memory, bytes) __asan_poison_memory_region(memory, bytes)
#define KVC_ALLOW(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define KVC_FORBID(memory, bytes) ((void)(memory), (void)(bytes))
#define KVC_ALLOW(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#define KVC_CHUNK_BYTES ((size_t)8 << 20) /* reserved address space; a page becomes resident on first use */

static bool bit(const uint64_t *bits, uint32_t i) { return bits[i / 64] >> (i % 64) & 1; }
static void set_bit(uint64_t *bits, uint32_t i) { bits[i / 64] |= (uint64_t)1 << (i % 64); }
static void clear_bit(uint64_t *bits, uint32_t i) { bits[i / 64] &= ~((uint64_t)1 << (i % 64)); }

static size_t chunk_bytes(const struct kvc_arena *arena) { return arena->block_bytes << arena->shift; }

enum kvc_status kvc_cpu_arena_create(struct kvc_device *device, const struct kvc_entry_format *format,
                                     struct kvc_arena **arena, struct kvc_error *error) {
    struct kvc_arena *made;
    (void)device;
    *arena = NULL;
    made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "no memory for a cache arena");
    made->format = *format;
    made->block_bytes = (size_t)2 * KVC_BLOCK * format->row_bytes;
    while (made->shift < 20 && made->block_bytes << (made->shift + 1) <= KVC_CHUNK_BYTES)
        made->shift++;
    *arena = made;
    return KVC_OK;
}

void kvc_cpu_arena_free(struct kvc_device *device, struct kvc_arena *arena) {
    if (!arena)
        return;
    kvc_cpu_count((struct kvc_cpu *)device, KVC_MEMORY_CACHE, -(int64_t)(arena->taken_count * arena->block_bytes));
    for (uint32_t i = 0; i < arena->chunk_count; i++) {
        KVC_ALLOW(arena->chunk[i], chunk_bytes(arena));
        kvc_areas_unmap(arena->chunk[i], chunk_bytes(arena));
    }
    free(arena->chunk);
    free(arena->taken);
    free(arena->touched);
    free(arena);
}

/* Grows a bitmap from `had` to `blocks` bits. The old bits are kept and the new bits are 0. Returns false if memory
 * runs out. */
static bool grow_bits(uint64_t **bits, uint32_t had, uint32_t blocks) {
    size_t old = ((size_t)had + 63) / 64, words = ((size_t)blocks + 63) / 64;
    KVC_ASSERT(blocks > had);
    uint64_t *grown = realloc(*bits, words * sizeof **bits);
    if (!grown)
        return false;
    memset(grown + old, 0, (words - old) * sizeof **bits);
    *bits = grown;
    return true;
}

static bool add_chunk(struct kvc_arena *arena) {
    uint32_t had = arena->chunk_count << arena->shift;
    unsigned char **chunk;
    unsigned char *memory;
    if (arena->chunk_count >= UINT32_MAX >> arena->shift)
        return false;
    chunk = realloc(arena->chunk, (arena->chunk_count + 1) * sizeof *chunk);
    if (!chunk)
        return false;
    arena->chunk = chunk;
    if (!grow_bits(&arena->taken, had, had + (1u << arena->shift)) ||
        !grow_bits(&arena->touched, had, had + (1u << arena->shift)))
        return false;
    memory = kvc_areas_map(chunk_bytes(arena));
    if (!memory)
        return false;
    KVC_FORBID(memory, chunk_bytes(arena));
    arena->chunk[arena->chunk_count++] = memory;
    return true;
}

static void arena_return(struct kvc_cpu *cpu, struct kvc_arena *arena, uint32_t count, const uint32_t *blocks) {
    uint32_t given = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = blocks[i];
        if (block >= arena->chunk_count << arena->shift || !bit(arena->taken, block)) {
            kvc_cpu_failed(cpu, KVC_RESOURCE, "cache block %u was freed twice or never taken", (unsigned)block);
            continue;
        }
        clear_bit(arena->taken, block);
        KVC_FORBID(kvc_cpu_block(arena, block), arena->block_bytes);
        if (block < arena->lowest)
            arena->lowest = block;
        given++;
    }
    KVC_ASSERT(given <= arena->taken_count);
    arena->taken_count -= given;
    kvc_cpu_count(cpu, KVC_MEMORY_CACHE, -(int64_t)(given * arena->block_bytes));
}

/* Turns areas into huge pages. An area qualifies if it contains one of the `count` given blocks and all of its blocks
 * are taken. The given blocks ascend within a chunk. */
static void settle(struct kvc_arena *arena, uint32_t count, const uint32_t *blocks) {
    const unsigned char *settled = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t first = blocks[i] & ~((1u << arena->shift) - 1);
        unsigned char *chunk = arena->chunk[blocks[i] >> arena->shift];
        const size_t start = (blocks[i] - first) * arena->block_bytes, end = start + arena->block_bytes;
        for (size_t area = start / KVC_AREA_BYTES * KVC_AREA_BYTES; area < end; area += KVC_AREA_BYTES) {
            const size_t area_end = area + KVC_AREA_BYTES;
            uint32_t block = first + (uint32_t)(area / arena->block_bytes);
            if (area_end > chunk_bytes(arena) || settled == chunk + area)
                continue;
            while ((block - first) * arena->block_bytes < area_end && bit(arena->taken, block))
                block++;
            if ((block - first) * arena->block_bytes < area_end)
                continue;
            settled = chunk + area;
            kvc_area_uses_huge_pages(chunk + area);
        }
    }
}

enum kvc_status kvc_cpu_arena_take(struct kvc_device *device, struct kvc_arena *arena, uint32_t count, uint32_t *blocks,
                                   struct kvc_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t all = arena->chunk_count << arena->shift, block = arena->lowest;
        while (block < all && bit(arena->taken, block))
            block += block % 64 == 0 && arena->taken[block / 64] == UINT64_MAX ? 64 : 1;
        if (block >= all) {
            block = all;
            if (!add_chunk(arena)) {
                kvc_cpu_count((struct kvc_cpu *)device, KVC_MEMORY_CACHE, (int64_t)(i * arena->block_bytes));
                arena->taken_count += i;
                arena_return((struct kvc_cpu *)device, arena, i, blocks);
                return kvc_fail(error, KVC_RESOURCE, "no memory for %u cache blocks of %zu bytes", (unsigned)count,
                                arena->block_bytes);
            }
        }
        KVC_ASSERT(!bit(arena->taken, block) && block < arena->chunk_count << arena->shift);
        set_bit(arena->taken, block);
        set_bit(arena->touched, block);
        KVC_ALLOW(kvc_cpu_block(arena, block), arena->block_bytes);
        arena->lowest = block + 1;
        blocks[i] = block;
    }
    settle(arena, count, blocks);
    arena->taken_count += count;
    kvc_cpu_count((struct kvc_cpu *)device, KVC_MEMORY_CACHE, (int64_t)(count * arena->block_bytes));
    return KVC_OK;
}

void kvc_cpu_arena_copy(struct kvc_device *device, struct kvc_arena *arena, uint32_t count, const uint32_t *to,
                        const uint32_t *from) {
    (void)device;
    for (uint32_t i = 0; i < count; i++) {
        KVC_ASSERT(bit(arena->taken, to[i]) && bit(arena->taken, from[i]) && to[i] != from[i]);
        memcpy(kvc_cpu_block(arena, to[i]), kvc_cpu_block(arena, from[i]), arena->block_bytes);
    }
}

void kvc_cpu_arena_read(struct kvc_device *device, struct kvc_arena *arena, uint32_t name, size_t offset, void *to,
                        size_t bytes) {
    (void)device;
    KVC_ASSERT(offset + bytes <= arena->block_bytes);
    memcpy(to, kvc_cpu_block(arena, name) + offset, bytes);
}

void kvc_cpu_arena_write(struct kvc_device *device, struct kvc_arena *arena, uint32_t name, size_t offset,
                         const void *from, size_t bytes) {
    (void)device;
    KVC_ASSERT(offset + bytes <= arena->block_bytes);
    memcpy(kvc_cpu_block(arena, name) + offset, from, bytes);
}

void kvc_cpu_arena_return(struct kvc_device *device, struct kvc_arena *arena, uint32_t count, const uint32_t *blocks) {
    arena_return((struct kvc_cpu *)device, arena, count, blocks);
}

/* Gives the whole pages inside the free blocks `from` .. `to` - 1 of one chunk back to the system. */
static void return_pages(struct kvc_arena *arena, uint32_t from, uint32_t to, size_t page) {
    uint32_t first = from & ~((1u << arena->shift) - 1);
    unsigned char *chunk = arena->chunk[from >> arena->shift];
    size_t start = ((from - first) * arena->block_bytes + page - 1) / page * page;
    size_t end = (to - first) * arena->block_bytes / page * page;
    size_t area = start / KVC_AREA_BYTES * KVC_AREA_BYTES;
    KVC_ASSERT(from < to && (to - 1) >> arena->shift == from >> arena->shift);
    if (end <= start)
        return;
    kvc_area_plain(chunk + area, (end - area + KVC_AREA_BYTES - 1) / KVC_AREA_BYTES * KVC_AREA_BYTES);
    (void)madvise(chunk + start, end - start, MADV_DONTNEED);
}

void kvc_cpu_arena_trim(struct kvc_device *device, struct kvc_arena *arena) {
    uint32_t all = arena->chunk_count << arena->shift, in_chunk = 1u << arena->shift;
    long page = sysconf(_SC_PAGESIZE);
    (void)device;
    for (uint32_t from = 0; from < all;) {
        uint32_t to = from;
        bool touched = false;
        while (to < all && to / in_chunk == from / in_chunk && !bit(arena->taken, to))
            touched = bit(arena->touched, to++) || touched;
        if (touched) {
            return_pages(arena, from, to, (size_t)page);
            for (uint32_t i = from; i < to; i++)
                clear_bit(arena->touched, i);
        }
        from = to > from ? to : from + 1;
    }
}
