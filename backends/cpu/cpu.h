/* cpu.h - what the CPU paths share: host memory as buffers, weights as they lie in the file, cache blocks, threads. */
#ifndef KVC_BACKENDS_CPU_CPU_H
#define KVC_BACKENDS_CPU_CPU_H

#include <pthread.h>

#include "core/base/cpu_paths.h"
#include "core/base/canon.h"
#include "core/base/ops.h"
#include "core/base/threads.h"
#include "core/base/types.h"

struct kvc_buffer {
    void *data;
    size_t bytes;
    enum kvc_memory_kind kind;
};

struct kvc_weight { /* [outputs N, inputs K], rows of row_bytes as the file has them */
    enum kvc_type type;
    uint64_t outputs, inputs;
    size_t row_bytes;
    const unsigned char *data;     /* the caller's memory; NULL where there are several: */
    const unsigned char *expert[]; /* each expert's, the caller's memory too */
};
_Static_assert(offsetof(struct kvc_weight, type) == 0, "kvc_weight_type reads it there");

enum kvc_cpu_path {
#define KVC_CPU_PATH(NAME, name, build) KVC_CPU_##NAME,
    KVC_CPU_PATHS(KVC_CPU_PATH)
#undef KVC_CPU_PATH
        KVC_CPU_PATH_COUNT
};

struct kvc_cpu {
    struct kvc_device device; /* first */
    enum kvc_cpu_path path;
    enum kvc_math math;
    struct kvc_threads *threads; /* NULL: this thread only (ref) */
    struct kvc_ops table;        /* this path's operations, ref where it has none */
    /* what --math=fast leaves to the path: few rows */
    void (*exact_linear)(struct kvc_device *, const struct kvc_linear *);
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void **scratch; /* per thread, grown by kvc_cpu_scratch */
    size_t *scratch_bytes;
    struct kvc_stealing *stealing; /* per thread */
    void *memo;                    /* a SIMD path's own, kept between calls; kvc_host_alloc, freed with the device */
    size_t memo_bytes;
    void *noise; /* as memo: keyformer's noise */
    size_t noise_bytes;
    struct kvc_area_chunk *chunks; /* areas.c */
    pthread_mutex_t lock;          /* of device.memory, failure and failure_text */
    enum kvc_status failure;       /* first failure since the last sync */
    char failure_text[200];
};

/* Blocks of one entry format, in chunks of 2^shift blocks that are mapped when first needed. Areas whose
 * blocks are all taken are huge pages. */
struct kvc_arena {
    struct kvc_entry_format format;
    size_t block_bytes;
    uint32_t shift, chunk_count, lowest; /* no free block below lowest */
    unsigned char **chunk;
    uint64_t *taken, *touched; /* one bit a block: handed out; handed out since its pages were last given back */
    uint64_t taken_count;
};

/* One thread's scratch of at least bytes (64-byte aligned, contents undefined), counted as KVC_MEMORY_SCRATCH; kept
 * and grown between calls. NULL: no memory, which the next sync reports. Each thread calls it once per operation. Safe
 * to call from tasks: only slot `thread` is touched; counting is done under a lock or atomically. */
void *kvc_cpu_scratch(struct kvc_cpu *cpu, unsigned thread, size_t bytes);

/* Zeroed memory, 64-byte aligned; large pieces are mapped, so that freeing them returns them to the system. */
void *kvc_host_alloc(size_t bytes);
void kvc_host_free(void *memory, size_t bytes); /* the same bytes; NULL is fine */

/* Areas: aligned pieces of memory that may become huge pages (areas.c). */
#define KVC_AREA_BYTES ((size_t)2 << 20)
unsigned char *kvc_areas_map(size_t bytes); /* address space, aligned; no huge pages yet. NULL: none left */
void kvc_areas_unmap(unsigned char *memory, size_t bytes);
void kvc_area_uses_huge_pages(unsigned char *area);      /* all of the area is in use: all of it becomes resident */
void kvc_area_plain(unsigned char *areas, size_t bytes); /* whole areas, no longer all in use */
/* Zeroed memory in shared areas, for pieces of up to two areas; not resident until touched or huge. */
void *kvc_areas_take(struct kvc_cpu *cpu, size_t bytes);
void kvc_areas_free(struct kvc_cpu *cpu, void *memory, size_t bytes);
void kvc_areas_close(struct kvc_cpu *cpu);

/* Adds to what the device holds, or subtracts from it. */
void kvc_cpu_count(struct kvc_cpu *cpu, enum kvc_memory_kind kind, int64_t bytes);
/* Keeps the first failure of a queued operation for the next sync; any thread. */
void kvc_cpu_failed(struct kvc_cpu *cpu, enum kvc_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
/* The memory part of the table; every path has the same. */
/* memory.c, arena.c; cpu.c has close and prepare. */
#define KVC_LIFETIME(result, name, arguments) result kvc_cpu_##name arguments;
#define KVC_BYTES(result, name, arguments) result kvc_cpu_##name arguments;
#include "core/base/ops.def"

/* SIMD paths replace entries of the reference's table: backends/cpu/simd/<path>.c */
/* The operations of each path; ref's: the build with fused multiply-adds where the CPU has them. */
#define KVC_CPU_FILL(NAME, name, build) void kvc_cpu_fill_##name(struct kvc_ops *table);
KVC_CPU_PATHS(KVC_CPU_FILL)
#undef KVC_CPU_FILL
bool kvc_cpu_path_runs(enum kvc_cpu_path path); /* built, and on this CPU */
const char *kvc_cpu_path_name(enum kvc_cpu_path path);
void kvc_cpu_path_fill(enum kvc_cpu_path path, struct kvc_ops *table);
/* The path that was named, or that KVCULL_CPU names, or else the best one. */
enum kvc_status kvc_cpu_path_find(const char *name, enum kvc_cpu_path *path, struct kvc_error *error);
enum kvc_status kvc_cpu_fill_fast(struct kvc_cpu *cpu, struct kvc_error *error); /* --math=fast */

static inline void *kvc_span_data(struct kvc_span span) { return (unsigned char *)span.buffer->data + span.offset; }

/* Where an arena's block, or a spare slot, lies. The two halves of a block: KVC_TILE keys, then KVC_TILE values. */
static inline unsigned char *kvc_cpu_block(const struct kvc_arena *arena, uint32_t block) {
    const size_t slot = block & KVC_EXTRA_SLOT ? block % KVC_TILE : 0;
    if (block & KVC_EXTRA_SLOT)
        block = (block & ~KVC_EXTRA_SLOT) / KVC_TILE;
    return arena->chunk[block >> arena->shift] + (block & ((1u << arena->shift) - 1)) * arena->block_bytes +
           slot * arena->format.row_bytes;
}

/* The slot of a index, and key and value rows of a slot, of head h. */
static inline uint32_t kvc_list_slot(const struct kvc_lists *lists, uint32_t h, uint32_t index) {
    return lists->order ? ((const uint32_t *)lists->order->data)[lists->host_base[h] + index] : index;
}
static inline int32_t kvc_list_position(const struct kvc_lists *lists, uint32_t h, uint32_t slot) {
    return lists->position ? ((const int32_t *)lists->position->data)[lists->host_base[h] + slot] : (int32_t)slot;
}
static inline unsigned char *kvc_list_key(const struct kvc_lists *lists, uint32_t h, uint32_t slot) {
    const uint32_t *blocks = lists->blocks->data;
    return kvc_cpu_block(lists->arena, blocks[kvc_first_block(lists->host_base[h], h) + slot / KVC_TILE]) +
           (size_t)(slot % KVC_TILE) * lists->format.row_bytes;
}
static inline unsigned char *kvc_list_value(const struct kvc_lists *lists, uint32_t h, uint32_t slot) {
    return kvc_list_key(lists, h, slot) + (size_t)KVC_TILE * lists->format.row_bytes;
}

#endif
