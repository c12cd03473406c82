/* arena.c - the allocator of cache blocks. It allocates the lowest free block first. Only allocated blocks count in the
 * device's memory statistics. A trim returns the pages of free blocks to the system. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"

#include "core/base/assert.h"
#include "core/base/integers.h"

#if defined(__SANITIZE_ADDRESS__) /* AddressSanitizer reports any access to a free block */
#include <sanitizer/asan_interface.h>
#define KVC_FORBID(memory, bytes) __asan_poison_memory_region(memory, bytes)
#define KVC_ALLOW(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define KVC_FORBID(memory, bytes) ((void)(memory), (void)(bytes))
#define KVC_ALLOW(memory, bytes) ((void)(memory), (void)(bytes))
#endif

/* An unused page between a chunk's keys and its values, so that a key and its value fall into different L2 cache
 * sets. */
#define KVC_CHUNK_GAP ((size_t)4096)
#define KVC_CHUNK_BYTES ((size_t)8 << 20) /* reserved address space; a page becomes resident on first use */

static bool bit(const uint64_t *bits, uint32_t i) { return bits[i / 64] >> (i % 64) & 1; }
static void set_bit(uint64_t *bits, uint32_t i) { bits[i / 64] |= (uint64_t)1 << (i % 64); }
static void clear_bit(uint64_t *bits, uint32_t i) { bits[i / 64] &= ~((uint64_t)1 << (i % 64)); }

static size_t chunk_bytes(const struct kvc_arena *arena) {
    return arena->values_at + (arena->value_bytes << arena->shift);
}

static uint64_t block_bytes(const struct kvc_arena *arena) { return arena->key_bytes + arena->value_bytes; }

/* A chunk has two halves, keys and values. Return the offset of a half in the chunk, and the bytes of one block in that
 * half. */
static size_t half_at(const struct kvc_arena *arena, size_t half) { return half ? arena->values_at : 0; }
static size_t half_bytes(const struct kvc_arena *arena, size_t half) {
    return half ? arena->value_bytes : arena->key_bytes;
}

enum kvc_status kvc_cpu_arena_create(struct kvc_device *device, const struct kvc_entry_format *format,
                                     struct kvc_arena **arena, struct kvc_error *error) {
    struct kvc_arena *made;
    (void)device;
    *arena = NULL;
    made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "no memory for a cache arena");
    made->format = *format;
    made->key_bytes = (size_t)KVC_BLOCK * format->key.bytes;
    made->value_bytes = (size_t)KVC_BLOCK * format->value.bytes;
    while (made->shift < 20 && block_bytes(made) << (made->shift + 1) <= KVC_CHUNK_BYTES)
        made->shift++;
    made->values_at = kvc_round_up(made->key_bytes << made->shift, 64) + KVC_CHUNK_GAP;
    *arena = made;
    return KVC_OK;
}

void kvc_cpu_arena_free(struct kvc_device *device, struct kvc_arena *arena) {
    if (!arena)
        return;
    kvc_cpu_count((struct kvc_cpu *)device, KVC_MEMORY_CACHE, -(int64_t)(arena->taken_count * block_bytes(arena)));
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
        KVC_FORBID(kvc_cpu_block(arena, block), arena->key_bytes);
        KVC_FORBID(kvc_cpu_values(arena, block), arena->value_bytes);
        if (block < arena->lowest)
            arena->lowest = block;
        given++;
    }
    KVC_ASSERT(given <= arena->taken_count);
    arena->taken_count -= given;
    kvc_cpu_count(cpu, KVC_MEMORY_CACHE, -(int64_t)(given * block_bytes(arena)));
}

/* Returns true if every block that overlaps the area at offset `area` of a chunk is taken. */
static bool area_is_taken(const struct kvc_arena *arena, uint32_t chunk, size_t area) {
    for (size_t half = 0; half < 2; half++) {
        const size_t start = half_at(arena, half), bytes = half_bytes(arena, half);
        const size_t low = area > start ? area - start : 0, end = area + KVC_AREA_BYTES;
        const size_t high = kvc_min_u64(end > start ? end - start : 0, bytes << arena->shift);
        for (size_t block = low / bytes; block * bytes < high; block++)
            if (!bit(arena->taken, (chunk << arena->shift) + (uint32_t)block))
                return false;
    }
    return true;
}

/* Turns areas into huge pages. An area qualifies if it contains one of the `count` given blocks and all of its blocks
 * are taken. The given blocks ascend within a chunk. */
static void settle(struct kvc_arena *arena, uint32_t count, const uint32_t *blocks) {
    const unsigned char *settled[2] = {NULL, NULL};
    for (uint32_t i = 0; i < 2 * count; i++) {
        const uint32_t half = i % 2, chunk = blocks[i / 2] >> arena->shift;
        unsigned char *memory = arena->chunk[chunk];
        const unsigned char *rows = half ? kvc_cpu_values(arena, blocks[i / 2]) : kvc_cpu_block(arena, blocks[i / 2]);
        const size_t start = (size_t)(rows - memory);
        for (size_t area = start / KVC_AREA_BYTES * KVC_AREA_BYTES; area < start + half_bytes(arena, half);
             area += KVC_AREA_BYTES) {
            if (area + KVC_AREA_BYTES > chunk_bytes(arena) || settled[half] == memory + area ||
                !area_is_taken(arena, chunk, area))
                continue;
            settled[half] = memory + area;
            kvc_area_uses_huge_pages(memory + area);
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
                kvc_cpu_count((struct kvc_cpu *)device, KVC_MEMORY_CACHE, (int64_t)(i * block_bytes(arena)));
                arena->taken_count += i;
                arena_return((struct kvc_cpu *)device, arena, i, blocks);
                return kvc_fail(error, KVC_RESOURCE, "no memory for %u cache blocks of %zu bytes", (unsigned)count,
                                (size_t)block_bytes(arena));
            }
        }
        KVC_ASSERT(!bit(arena->taken, block) && block < arena->chunk_count << arena->shift);
        set_bit(arena->taken, block);
        set_bit(arena->touched, block);
        KVC_ALLOW(kvc_cpu_block(arena, block), arena->key_bytes);
        KVC_ALLOW(kvc_cpu_values(arena, block), arena->value_bytes);
        arena->lowest = block + 1;
        blocks[i] = block;
    }
    settle(arena, count, blocks);
    arena->taken_count += count;
    kvc_cpu_count((struct kvc_cpu *)device, KVC_MEMORY_CACHE, (int64_t)(count * block_bytes(arena)));
    return KVC_OK;
}

void kvc_cpu_arena_copy(struct kvc_device *device, struct kvc_arena *arena, uint32_t count, const uint32_t *to,
                        const uint32_t *from) {
    (void)device;
    for (uint32_t i = 0; i < count; i++) {
        KVC_ASSERT(bit(arena->taken, to[i]) && bit(arena->taken, from[i]) && to[i] != from[i]);
        memcpy(kvc_cpu_block(arena, to[i]), kvc_cpu_block(arena, from[i]), arena->key_bytes);
        memcpy(kvc_cpu_values(arena, to[i]), kvc_cpu_values(arena, from[i]), arena->value_bytes);
    }
}

/* Returns the address of a byte of a block. The `bytes` bytes that begin there must be in one half of the block. */
static unsigned char *place_in(const struct kvc_arena *arena, uint32_t name, size_t offset, size_t bytes) {
    const bool values = offset >= arena->key_bytes;
    KVC_ASSERT(offset + bytes <= (values ? block_bytes(arena) : arena->key_bytes));
    return values ? kvc_cpu_values(arena, name) + offset - arena->key_bytes : kvc_cpu_block(arena, name) + offset;
}

void kvc_cpu_arena_read(struct kvc_device *device, struct kvc_arena *arena, uint32_t name, size_t offset, void *to,
                        size_t bytes) {
    (void)device;
    memcpy(to, place_in(arena, name, offset, bytes), bytes);
}

void kvc_cpu_arena_write(struct kvc_device *device, struct kvc_arena *arena, uint32_t name, size_t offset,
                         const void *from, size_t bytes) {
    (void)device;
    memcpy(place_in(arena, name, offset, bytes), from, bytes);
}

void kvc_cpu_arena_return(struct kvc_device *device, struct kvc_arena *arena, uint32_t count, const uint32_t *blocks) {
    arena_return((struct kvc_cpu *)device, arena, count, blocks);
}

/* Returns to the system the pages that lie wholly within the keys (half 0) or the values (half 1) of a chunk's free
 * blocks `from` .. `to` - 1. */
static void return_pages(struct kvc_arena *arena, uint32_t from, uint32_t to, size_t half, size_t page) {
    const size_t offset = half_at(arena, half), bytes = half_bytes(arena, half);
    const uint32_t first = from & ~((1u << arena->shift) - 1);
    unsigned char *chunk = arena->chunk[from >> arena->shift];
    const size_t start = kvc_round_up(offset + (from - first) * bytes, page);
    const size_t end = (offset + (to - first) * bytes) / page * page;
    const size_t area = start / KVC_AREA_BYTES * KVC_AREA_BYTES;
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
            return_pages(arena, from, to, 0, (size_t)page);
            return_pages(arena, from, to, 1, (size_t)page);
            for (uint32_t i = from; i < to; i++)
                clear_bit(arena->touched, i);
        }
        from = to > from ? to : from + 1;
    }
}
