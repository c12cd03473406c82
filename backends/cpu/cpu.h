/* cpu.h - definitions that all CPU instruction sets share: host memory as buffers, weights in the file's layout, cache
 * blocks, threads. */
#ifndef KVC_BACKENDS_CPU_CPU_H
#define KVC_BACKENDS_CPU_CPU_H

#include <pthread.h>

#include "core/base/assert.h"
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

/* A copy of a weight in 15 bits, laid out like rows of int16 activations. An expert's matrix follows that of the
 * previous expert. */
struct kvc_int16_packed {
    kvc_i16 *quant; /* [outputs, inputs]; NULL if there is no copy; each use then quantizes the weight */
    float *scale;   /* [outputs, blocks of inputs (kvc_int16_blocks)] */
};

struct kvc_weight { /* a matrix [outputs N, inputs K] in rows of row_bytes, in the file's layout */
    enum kvc_type type;
    uint64_t outputs, inputs;
    size_t row_bytes;
    const unsigned char *data; /* owned by the caller; NULL if the weight is a set of experts */
    struct kvc_int16_packed packed;
    uint32_t experts;              /* number of experts; 0: the weight is one matrix */
    const unsigned char *expert[]; /* one matrix per expert, owned by the caller */
};
_Static_assert(offsetof(struct kvc_weight, type) == 0, "kvc_weight_type reads the first member");

enum kvc_cpu_path {
#define KVC_CPU_PATH(NAME, name, build) KVC_CPU_##NAME,
    KVC_CPU_PATHS(KVC_CPU_PATH)
#undef KVC_CPU_PATH
        KVC_CPU_PATH_COUNT
};

struct kvc_integer_kernels;
struct kvc_cpu {
    struct kvc_device device; /* must be the first member */
    enum kvc_cpu_path path;
    enum kvc_math math;
    struct kvc_threads *threads; /* NULL: the caller's thread only (ref) */
    struct kvc_ops table;        /* operations of this instruction set; those that it lacks are ref's */
    /* only with --math=fast: the exact operation `linear`, which still computes batches with few rows */
    void (*exact_linear)(struct kvc_device *, const struct kvc_linear *);
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    const struct kvc_integer_kernels *integers; /* this instruction set's kernels; NULL for ref */
    void **scratch;                             /* one per thread, grown by kvc_cpu_scratch */
    size_t *scratch_bytes;
    struct kvc_stealing *stealing; /* one per thread */
    void *memo; /* the score memo of the SIMD code, kept between calls; from kvc_host_alloc, freed with the device */
    size_t memo_bytes;
    void *noise; /* keyformer's noise table, allocated and freed like `memo` */
    size_t noise_bytes;
    struct kvc_area_chunk *chunks; /* see areas.c */
    pthread_mutex_t lock;          /* protects device.memory, failure and failure_text */
    enum kvc_status failure;       /* first failure since the last sync */
    char failure_text[200];
};

/* Blocks of one entry format, in chunks of 2^shift blocks. The first half of a chunk holds the keys of its blocks, and
 * the second half their values, so that consecutive blocks are read as two long streams. A chunk is mapped when it is
 * first needed. An area whose blocks are all taken uses a huge page. */
struct kvc_arena {
    struct kvc_entry_format format;
    size_t key_bytes, value_bytes;       /* size in bytes of a block's keys, and of its values */
    size_t values_at;                    /* offset of the values in a chunk */
    uint32_t shift, chunk_count, lowest; /* all blocks below `lowest` are taken */
    unsigned char **chunk;
    uint64_t *taken, *touched; /* one bit per block. taken: the block is in use now; touched: it was in use at some time
                                  since the last trim */
    uint64_t taken_count;
};

/* Returns one thread's scratch memory: at least `bytes` bytes, 64-byte aligned, contents undefined. It counts as
 * KVC_MEMORY_SCRATCH and is kept and grown between calls. Returns NULL if memory runs out, which the next sync reports.
 * A thread may call this once per operation. Tasks may call it at the same time, because a call changes only the
 * scratch of `thread` and the count is protected by a lock. */
void *kvc_cpu_scratch(struct kvc_cpu *cpu, unsigned thread, size_t bytes);

/* Returns zeroed memory, 64-byte aligned. Large allocations are mapped, so that freeing them returns them to the
 * system. */
void *kvc_host_alloc(size_t bytes);
/* Frees memory of kvc_host_alloc; `bytes` is the size passed there; NULL is allowed. */
void kvc_host_free(void *memory, size_t bytes);

/* Areas are aligned pieces of memory that may become huge pages (areas.c). */
#define KVC_AREA_BYTES ((size_t)2 << 20)
unsigned char *kvc_areas_map(size_t bytes); /* reserves aligned address space; NULL if there is none */
void kvc_areas_unmap(unsigned char *memory, size_t bytes);
void kvc_area_uses_huge_pages(unsigned char *area);      /* the whole area must be in use; it becomes resident */
void kvc_area_plain(unsigned char *areas, size_t bytes); /* makes whole areas use small pages again */
/* Returns zeroed memory in shared areas, for allocations of up to two areas. It is not resident until it is touched or
 * becomes a huge page. */
void *kvc_areas_take(struct kvc_cpu *cpu, size_t bytes);
void kvc_areas_free(struct kvc_cpu *cpu, void *memory, size_t bytes);
void kvc_areas_close(struct kvc_cpu *cpu);

/* Return the number of rows of all matrices of a weight, and the address of one of these rows. */
static inline uint64_t kvc_weight_rows(const struct kvc_weight *w) {
    return w->experts ? w->experts * w->outputs : w->outputs;
}
static inline const unsigned char *kvc_weight_row(const struct kvc_weight *w, uint64_t row) {
    return w->experts ? w->expert[row / w->outputs] + row % w->outputs * w->row_bytes : w->data + row * w->row_bytes;
}
/* Quantizes rows `first` .. `last` - 1 of a weight to w->packed. */
typedef void kvc_pack_rows(const struct kvc_weight *w, size_t first, size_t last);

/* Adds `bytes`, which may be negative, to the device's memory count of that kind. */
void kvc_cpu_count(struct kvc_cpu *cpu, enum kvc_memory_kind kind, int64_t bytes);
/* Records the first failure of a queued operation for the next sync. Any thread may call it. */
void kvc_cpu_failed(struct kvc_cpu *cpu, enum kvc_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
/* Memory and lifetime functions of the table, the same for every instruction set (memory.c, arena.c; `close` and
 * `prepare` are in cpu.c). */
#define KVC_LIFETIME(result, name, arguments) result kvc_cpu_##name arguments;
#define KVC_BYTES(result, name, arguments) result kvc_cpu_##name arguments;
#include "core/base/ops.def"

/* Fill the table with the operations of an instruction set. SIMD code replaces entries of the reference's table. If the
 * CPU has fused multiply-adds, that table comes from the build of ref that uses them. */
#define KVC_CPU_FILL(NAME, name, build) void kvc_cpu_fill_##name(struct kvc_ops *table);
KVC_CPU_PATHS(KVC_CPU_FILL)
#undef KVC_CPU_FILL
/* Returns true if the instruction set is part of this build and this CPU supports it. */
bool kvc_cpu_path_runs(enum kvc_cpu_path path);
const char *kvc_cpu_path_name(enum kvc_cpu_path path);
/* Returns the kernels for integer attention (simd/integers). */
const struct kvc_integer_kernels *kvc_cpu_path_integers(enum kvc_cpu_path path);
void kvc_cpu_path_fill(enum kvc_cpu_path path, struct kvc_ops *table);
kvc_pack_rows *kvc_cpu_path_pack(enum kvc_cpu_path path);
/* Finds the instruction set called `name`. If `name` is NULL, the variable KVCULL_CPU gives the name; if that is unset,
 * the best instruction set is chosen. */
enum kvc_status kvc_cpu_path_find(const char *name, enum kvc_cpu_path *path, struct kvc_error *error);
/* Replaces operations for --math=fast. */
enum kvc_status kvc_cpu_fill_fast(struct kvc_cpu *cpu, struct kvc_error *error);

static inline void *kvc_span_data(struct kvc_span span) {
    KVC_ASSERT(span.buffer && span.offset <= span.buffer->bytes);
    return (unsigned char *)span.buffer->data + span.offset;
}
/* Returns true if `values` values of 4 bytes, from the span's start on, lie within its buffer. For assertions. */
static inline bool kvc_span_holds(struct kvc_span span, uint64_t values) {
    return span.buffer && span.offset <= span.buffer->bytes && values <= (span.buffer->bytes - span.offset) / 4;
}

/* Returns the address of the keys of an arena's block, or of the key of an extra slot. */
static inline unsigned char *kvc_cpu_block(const struct kvc_arena *arena, uint32_t block) {
    const size_t slot = block & KVC_EXTRA_SLOT ? block % KVC_BLOCK : 0;
    if (block & KVC_EXTRA_SLOT)
        block = (block & ~KVC_EXTRA_SLOT) / KVC_BLOCK;
    KVC_ASSERT(block >> arena->shift < arena->chunk_count);
    return arena->chunk[block >> arena->shift] + (block & ((1u << arena->shift) - 1)) * arena->key_bytes +
           slot * arena->format.key.bytes;
}
/* Returns the address of the values of a block, or of the value of an extra slot. */
static inline unsigned char *kvc_cpu_values(const struct kvc_arena *arena, uint32_t block) {
    const size_t slot = block & KVC_EXTRA_SLOT ? block % KVC_BLOCK : 0;
    if (block & KVC_EXTRA_SLOT)
        block = (block & ~KVC_EXTRA_SLOT) / KVC_BLOCK;
    KVC_ASSERT(block >> arena->shift < arena->chunk_count);
    return arena->chunk[block >> arena->shift] + arena->values_at +
           (block & ((1u << arena->shift) - 1)) * arena->value_bytes + slot * arena->format.value.bytes;
}

/* Map an index of head h to its slot, and a slot of head h to its position, key row and value row. */
static inline uint32_t kvc_list_slot(const struct kvc_lists *lists, uint32_t h, uint32_t index) {
    return lists->order ? ((const uint32_t *)lists->order->data)[lists->host_base[h] + index] : index;
}
static inline int32_t kvc_list_position(const struct kvc_lists *lists, uint32_t h, uint32_t slot) {
    return lists->position ? ((const int32_t *)lists->position->data)[lists->host_base[h] + slot] : (int32_t)slot;
}
static inline unsigned char *kvc_list_key(const struct kvc_lists *lists, uint32_t h, uint32_t slot) {
    const uint32_t *blocks = lists->blocks->data;
    return kvc_cpu_block(lists->arena, blocks[kvc_first_block(lists->host_base[h], h) + slot / KVC_BLOCK]) +
           (size_t)(slot % KVC_BLOCK) * lists->format.key.bytes;
}
static inline unsigned char *kvc_list_value(const struct kvc_lists *lists, uint32_t h, uint32_t slot) {
    const uint32_t *blocks = lists->blocks->data;
    return kvc_cpu_values(lists->arena, blocks[kvc_first_block(lists->host_base[h], h) + slot / KVC_BLOCK]) +
           (size_t)(slot % KVC_BLOCK) * lists->format.value.bytes;
}

#endif
