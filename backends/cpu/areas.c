/* areas.c - memory in aligned areas of 2 MiB. An area becomes a huge page while all of it is in use, because memory in
 * huge pages is read about a third faster than memory in small pages. An area of which only a part is in use keeps
 * small pages, so that its unused parts are not resident. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/cpu/cpu.h"

#include "core/base/assert.h"

#if defined(__linux__) && !defined(MADV_COLLAPSE)
#define MADV_COLLAPSE 25 /* since Linux 6.1; older kernels refuse the call and the pages stay small */
#endif

#define AREA_UNITS 32u /* units per area; `used` has one bit for each unit */
#define UNIT_BYTES (KVC_AREA_BYTES / AREA_UNITS)
#define CHUNK_AREAS 4u
#define CHUNK_UNITS (CHUNK_AREAS * AREA_UNITS)

static size_t whole_areas(size_t bytes) { return (bytes + KVC_AREA_BYTES - 1) / KVC_AREA_BYTES * KVC_AREA_BYTES; }

unsigned char *kvc_areas_map(size_t bytes) {
    const size_t all = whole_areas(bytes) + KVC_AREA_BYTES;
    unsigned char *memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    const size_t before = (KVC_AREA_BYTES - (uintptr_t)memory % KVC_AREA_BYTES) % KVC_AREA_BYTES;
    KVC_ASSERT(((uintptr_t)memory + before) % KVC_AREA_BYTES == 0);
    if (before)
        munmap(memory, before);
    munmap(memory + before + whole_areas(bytes), KVC_AREA_BYTES - before);
    kvc_area_plain(memory + before, whole_areas(bytes));
    return memory + before;
}

void kvc_areas_unmap(unsigned char *memory, size_t bytes) { munmap(memory, whole_areas(bytes)); }

void kvc_area_uses_huge_pages(unsigned char *area) {
#if defined(MADV_HUGEPAGE)
    (void)madvise(area, KVC_AREA_BYTES, MADV_HUGEPAGE); /* the area has not been touched yet */
#endif
#if defined(MADV_COLLAPSE)
    (void)madvise(area, KVC_AREA_BYTES, MADV_COLLAPSE); /* the area has been touched */
#endif
    (void)area;
}

void kvc_area_plain(unsigned char *areas, size_t bytes) {
#if defined(MADV_NOHUGEPAGE)
    (void)madvise(areas, bytes, MADV_NOHUGEPAGE);
#endif
    (void)areas;
    (void)bytes;
}

/* ---- buffers ---- */

struct kvc_area_chunk {
    struct kvc_area_chunk *next;
    unsigned char *memory;
    uint32_t used[CHUNK_AREAS]; /* one bit per unit */
};

static bool unit_used(const struct kvc_area_chunk *chunk, unsigned unit) {
    return chunk->used[unit / AREA_UNITS] >> (unit % AREA_UNITS) & 1;
}

/* Returns the first unit of the lowest run of `units` free units, or CHUNK_UNITS if there is none. */
static unsigned find_free(const struct kvc_area_chunk *chunk, unsigned units) {
    unsigned run = 0;
    for (unsigned unit = 0; unit < CHUNK_UNITS; unit++) {
        run = unit_used(chunk, unit) ? 0 : run + 1;
        if (run == units)
            return unit + 1 - units;
    }
    return CHUNK_UNITS;
}

static struct kvc_area_chunk *add_chunk(struct kvc_cpu *cpu) {
    struct kvc_area_chunk *chunk = calloc(1, sizeof *chunk), **last = &cpu->chunks;
    if (!chunk)
        return NULL;
    chunk->memory = kvc_areas_map(CHUNK_AREAS * KVC_AREA_BYTES);
    if (!chunk->memory) {
        free(chunk);
        return NULL;
    }
    while (*last)
        last = &(*last)->next;
    return *last = chunk;
}

void *kvc_areas_take(struct kvc_cpu *cpu, size_t bytes) {
    const unsigned units = (unsigned)((bytes + UNIT_BYTES - 1) / UNIT_BYTES);
    struct kvc_area_chunk *chunk = cpu->chunks;
    while (chunk && find_free(chunk, units) == CHUNK_UNITS)
        chunk = chunk->next;
    if (!chunk)
        chunk = add_chunk(cpu);
    if (!chunk)
        return NULL;
    const unsigned first = find_free(chunk, units);
    KVC_ASSERT(first + units <= CHUNK_UNITS);
    for (unsigned unit = first; unit < first + units; unit++)
        chunk->used[unit / AREA_UNITS] |= 1u << unit % AREA_UNITS;
    for (unsigned area = first / AREA_UNITS; area <= (first + units - 1) / AREA_UNITS; area++)
        if (chunk->used[area] == UINT32_MAX)
            kvc_area_uses_huge_pages(chunk->memory + area * KVC_AREA_BYTES);
    return chunk->memory + first * UNIT_BYTES;
}

void kvc_areas_free(struct kvc_cpu *cpu, void *memory, size_t bytes) {
    const unsigned units = (unsigned)((bytes + UNIT_BYTES - 1) / UNIT_BYTES);
    unsigned char *start = memory;
    struct kvc_area_chunk *chunk = cpu->chunks;
    while (start < chunk->memory || start >= chunk->memory + CHUNK_AREAS * KVC_AREA_BYTES)
        chunk = chunk->next;
    const unsigned first = (unsigned)((size_t)(start - chunk->memory) / UNIT_BYTES);
    KVC_ASSERT((size_t)(start - chunk->memory) % UNIT_BYTES == 0 && unit_used(chunk, first));
    const unsigned from = first / AREA_UNITS, to = (first + units - 1) / AREA_UNITS + 1;
    for (unsigned unit = first; unit < first + units; unit++)
        chunk->used[unit / AREA_UNITS] &= ~(1u << unit % AREA_UNITS);
    kvc_area_plain(chunk->memory + from * KVC_AREA_BYTES, (to - from) * KVC_AREA_BYTES);
    if (madvise(start, units * UNIT_BYTES, MADV_DONTNEED) !=
        0) /* the memory is no longer resident and reads as zero when next used */
        memset(start, 0, units * UNIT_BYTES);
}

void kvc_areas_close(struct kvc_cpu *cpu) {
    while (cpu->chunks) {
        struct kvc_area_chunk *chunk = cpu->chunks;
        cpu->chunks = chunk->next;
        kvc_areas_unmap(chunk->memory, CHUNK_AREAS * KVC_AREA_BYTES);
        free(chunk);
    }
}
