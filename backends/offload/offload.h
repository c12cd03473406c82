/* offload.h - the host side that OpenCL and CUDA share: buffers, weights, arenas and operations. It calls a driver,
 * which allocates and copies memory and launches the kernels of backends/kernels/. A backend consists of a driver and
 * an `open` function.
 *
 * All commands run in the order in which they are queued. In the device's status words, kernels report failures,
 * saturated stores and the numbers of entries read. sync reads these words. */
#ifndef KVC_BACKENDS_OFFLOAD_OFFLOAD_H
#define KVC_BACKENDS_OFFLOAD_OFFLOAD_H

#include "backends/kernels/shared.h"
#include "core/base/ops.h"
#include "core/base/weight_types.h"

enum kvc_kernel {
#define KVC_KERNEL_NAMED(name) KVC_KERNEL_##name,
#include "backends/offload/kernels.def"
    KVC_KERNELS
};

#define KVC_ARGUMENTS 80u

/* One launch. An argument is a device pointer (a handle) or a number of 4 or 8 bytes. */
struct kvc_launch {
    enum kvc_kernel kernel;
    unsigned count;
    struct {
        union {
            void *handle;
            uint32_t word;
            uint64_t wide;
            float real;
        } value;
        size_t bytes;
        bool is_handle;
    } argument[KVC_ARGUMENTS];
    uint32_t items;     /* work-items per group */
    uint32_t groups[3]; /* must all be greater than 0 */
};

struct kvc_buffer {
    void *handle; /* the driver's handle: a cl_mem or a device pointer */
    size_t bytes;
    enum kvc_memory_kind kind;
};

struct kvc_weight { /* A matrix with rows of row_bytes in the file's layout. Each piece holds piece_rows rows. */
    enum kvc_type type;
    uint64_t outputs, inputs, piece_rows;
    size_t row_bytes;
    uint64_t counted; /* device memory of the matrix in bytes */
    uint32_t pieces;
    void *piece[];
};

struct kvc_arena {
    struct kvc_entry_format format;
    size_t block_bytes;
    uint32_t shift, top, lowest; /* all blocks below `lowest` are taken */
    void *chunk[KVC_CHUNKS];     /* numbered as in backends/kernels/lists.h; NULL if the chunk is not allocated */
    uint64_t *taken;             /* one bit per block, for all blocks that the chunks can hold so far */
    uint32_t bits;
    uint64_t taken_count;
};

struct kvc_offload_read {
    uint64_t *to, bytes, divisor; /* when the count is known, *to grows by count * bytes / divisor */
};

struct kvc_offload {
    struct kvc_device device; /* must be the first member */
    struct kvc_ops table;
    const struct kvc_offload_driver *driver;
    uint32_t workers, group; /* the kernels' KVC_WORKERS (1 or 4) and KVC_GROUP */
    uint64_t most_bytes;     /* largest size of one allocation */
    uint64_t memory_bytes;   /* size of the device's memory */
    bool small_batch_checks; /* for tests: a shorter self-test */
    enum kvc_status failure; /* first failure since the last sync */
    char failure_text[300];
    bool lost; /* true if the device is lost; nothing more is queued */
    struct kvc_buffer status_words;
    uint32_t *host_status;          /* [KVC_STATUS_WORDS]: the host's copy */
    bool status_written;            /* true if a launch was queued that writes status words */
    struct kvc_offload_read *reads; /* [KVC_STATUS_WORDS - KVC_STATUS_READ]: for each status word from
                                     * KVC_STATUS_READ on, the counter to which its count is added */
    uint32_t read_count;
    struct kvc_buffer workspace; /* temporary memory for one operation at a time, grown on demand */
    uint64_t widest, largest;    /* the largest packed row of any weight, and the largest packed weight, in bytes */
};
/* Returns the offload device that contains `device`. */
static inline struct kvc_offload *kvc_offload_of(struct kvc_device *device) { return (struct kvc_offload *)device; }

/* The operations of a driver. All except `allocate` report failures with kvc_offload_failed. */
struct kvc_offload_driver {
    /* Allocates memory with undefined contents. If `host` is not NULL, the memory has those contents. If the device
     * uses `host` in place, sets *borrowed. */
    enum kvc_status (*allocate)(struct kvc_offload *, enum kvc_memory_kind, size_t bytes, const void *host,
                                void **handle, bool *borrowed, struct kvc_error *);
    void (*release)(struct kvc_offload *, void *handle); /* frees the memory after all queued work */
    /* waits until the copy is complete */
    void (*write)(struct kvc_offload *, void *to, size_t offset, const void *from, size_t bytes);
    /* waits until the copy is complete */
    void (*read)(struct kvc_offload *, void *to, void *from, size_t offset, size_t bytes);
    void (*copy)(struct kvc_offload *, void *to, size_t to_offset, void *from, size_t from_offset, size_t bytes);
    void (*zero)(struct kvc_offload *, void *handle, size_t offset, size_t bytes);
    void (*launch)(struct kvc_offload *, const struct kvc_launch *);
    void (*finish)(struct kvc_offload *); /* waits until all queued work is complete */
    void (*close)(struct kvc_offload *);  /* frees the backend's own data and the struct */
};

/* Returns true if `values` values of 4 bytes, from the span's start on, lie within its buffer. For assertions. */
static inline bool kvc_offload_holds(struct kvc_span span, uint64_t values) {
    return span.buffer && span.offset % 4 == 0 && span.offset <= span.buffer->bytes &&
           values <= (span.buffer->bytes - span.offset) / 4;
}

/* Fills the operation table and creates the status words. The caller must have set driver, workers, group, most_bytes,
 * memory_bytes and device.name. */
enum kvc_status kvc_offload_open(struct kvc_offload *offload, struct kvc_error *error);
void kvc_offload_close(struct kvc_device *device); /* implements kvc_ops.close; calls the driver's `close` */
/* Compares the device's arithmetic with the host's on numbers of every kind. The caller must have set the default float
 * environment. If all wrong results are quotients or square roots, sets *only_division, which may be NULL. */
enum kvc_status kvc_offload_check(struct kvc_offload *offload, bool *only_division, struct kvc_error *error);

/* Calls the driver's `allocate`. If that fails, stores in the device how many bytes were refused. */
enum kvc_status kvc_offload_allocate(struct kvc_offload *offload, enum kvc_memory_kind kind, size_t bytes,
                                     const void *host, void **handle, bool *borrowed, struct kvc_error *error);
const char *kvc_offload_kind(enum kvc_memory_kind kind); /* returns the name of a kind of memory, for messages */
void kvc_offload_failed(struct kvc_offload *offload, enum kvc_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
/* Updates the counters of entries that attention read, and evaluates the other status words. */
void kvc_offload_take_status(struct kvc_offload *offload);
void kvc_offload_count(struct kvc_offload *offload, enum kvc_memory_kind kind, int64_t bytes);
/* Returns a workspace of at least `bytes` bytes for the operation being queued. Returns NULL if memory runs out, which
 * the next sync reports. */
struct kvc_buffer *kvc_offload_workspace(struct kvc_offload *offload, uint64_t bytes);
/* Returns the first of `count` consecutive status words in which a launch may count the entries that it reads. Each
 * word is later added to *to as defined at struct kvc_offload_read. If `to` is NULL, returns 0, and the launch must not
 * count. */
uint32_t kvc_offload_read_status(struct kvc_offload *offload, uint32_t count, uint64_t *to, uint64_t bytes,
                                 uint64_t divisor);

/* Functions that build a launch. Arguments are added in the kernel's order. */
struct kvc_launch kvc_launch_of(enum kvc_kernel kernel);
void kvc_launch_handle(struct kvc_launch *launch, void *handle);
/* Adds a pointer to the buffer, or NULL if the buffer is NULL. */
void kvc_launch_buffer(struct kvc_launch *launch, const struct kvc_buffer *buffer);
void kvc_launch_span(struct kvc_launch *launch, struct kvc_span span); /* adds a span of 4-byte values */
void kvc_launch_word(struct kvc_launch *launch, uint32_t word);
void kvc_launch_wide(struct kvc_launch *launch, uint64_t wide);
void kvc_launch_real(struct kvc_launch *launch, float real);
void kvc_launch_lists(struct kvc_launch *launch, const struct kvc_lists *lists);
void kvc_launch_arena(struct kvc_launch *launch, const struct kvc_arena *arena);
/* Adds a read list; NULL if there is none. */
void kvc_launch_reads(struct kvc_launch *launch, const struct kvc_read_list *reads);
#include "backends/offload/push.h"
/* Run a launch. kvc_launch_groups is for group kernels and runs x * y * z groups. kvc_launch_items is for other kernels
 * and runs x work-items along the first dimension. Both do nothing if a size is 0. */
void kvc_launch_groups(struct kvc_offload *offload, struct kvc_launch *launch, uint64_t x, uint64_t y, uint64_t z);
void kvc_launch_items(struct kvc_offload *offload, struct kvc_launch *launch, uint64_t x, uint64_t y, uint64_t z);
/* Runs x * y * z groups of `items` work-items. */
void kvc_launch_run(struct kvc_offload *offload, struct kvc_launch *launch, uint32_t items, uint64_t x, uint64_t y,
                    uint64_t z);
/* In some kernels, a work-item computes several neighbouring values, called a run. kvc_offload_runs returns how many
 * runs n values make. kvc_launch_runs launches a work-item for each run of x values. */
uint64_t kvc_offload_runs(const struct kvc_offload *offload, uint64_t n);
void kvc_launch_runs(struct kvc_offload *offload, struct kvc_launch *launch, uint64_t x, uint64_t y);

/* Returns the number of slots of the largest head. The host uses it as an upper bound for the entries of a head. */
uint32_t kvc_offload_most_slots(const struct kvc_lists *lists);
/* Returns an upper bound for the entries of a head in the view, or in the list if view is NULL. */
uint64_t kvc_offload_most_places(const struct kvc_lists *lists, const struct kvc_read_list *view);

/* Number of kept entries whose values merge_values computes at a time. */
#define KVC_MERGE_PLACES 4096u

/* entry_lengths writes the lengths of the keys [H_kv, stride]. index_totals computes the maximum and the sum of
 * exponentials of each row of `values` and writes both to totals [rows, 2]. A row has one value per index, and a KV
 * head has `group` rows. entry_keys writes the keys as floats [H_kv, most slots, d], rotated back by cosine and sine if
 * these are given. */
void kvc_offload_entry_lengths(struct kvc_offload *offload, const struct kvc_lists *lists, struct kvc_span lengths,
                               uint32_t stride);
void kvc_offload_index_totals(struct kvc_offload *offload, const struct kvc_lists *lists, uint32_t group,
                              uint32_t first, struct kvc_span values, uint32_t stride, struct kvc_span totals);
void kvc_offload_entry_keys(struct kvc_offload *offload, const struct kvc_lists *lists, struct kvc_span cosine,
                            struct kvc_span sine, uint32_t rotary, struct kvc_span keys);

/* The operations of ops.def. */
#define KVC_LIFETIME(result, name, arguments) result kvc_offload_##name arguments;
#define KVC_BYTES(result, name, arguments) result kvc_offload_##name arguments;
#define KVC_OPERATION(name, parameters, ...) void kvc_offload_##name(struct kvc_device *, const struct parameters *);
#define KVC_OPERATION_FUSED(name, parameters, ...)
#include "core/base/ops.def"

/* The quantized queries of an operation, in its workspace, for kernels that take KVC_QUERIES
 * (backends/kernels/queries.h). If attention multiplies floats, both spans are empty. */
struct kvc_offload_queries {
    struct kvc_span quant, scale;
};
/* Returns the bytes of workspace that `queries` queries need: 0 if the entries are multiplied as floats. */
uint64_t kvc_offload_query_bytes(struct kvc_scoring scoring, const struct kvc_entry_format *format, uint64_t queries);
/* If the entries are multiplied as integers, quantizes the queries q [queries, d] to `workspace`, from byte `at` on. */
struct kvc_offload_queries kvc_offload_quantize_queries(struct kvc_offload *offload, struct kvc_scoring scoring,
                                                        const struct kvc_entry_format *format, struct kvc_span q,
                                                        uint64_t queries, struct kvc_buffer *workspace, uint64_t at);

/* The kernels that compute attention for one segment. A backend may replace them by its own. `tile` and `merge` receive
 * a launch with the arguments of the shared kernels; they set the kernel, add the arguments that only this kernel has,
 * and run the launch. */
struct kvc_attention_shape {
    uint64_t bytes; /* limit for the size of the tiles' results; exceeded only if one row alone needs more */
    void (*tile)(struct kvc_offload *, struct kvc_launch *, const struct kvc_attention *,
                 const struct kvc_entry_format *, uint32_t rows, uint32_t tiles);
    void (*merge)(struct kvc_offload *, struct kvc_launch *, uint32_t heads, uint32_t rows);
};
void kvc_offload_attend(struct kvc_offload *offload, const struct kvc_attention *a, const struct kvc_segment *segment,
                        const struct kvc_attention_shape *shape);
uint64_t kvc_offload_piece_rows(const struct kvc_weight *w, uint32_t piece);
/* Begins a launch of the shared kernel for few rows. The caller may replace the kernel by another with the same
 * arguments. */
struct kvc_launch kvc_offload_small_batch(const struct kvc_linear *args, uint32_t piece);
/* Begins a launch with the arguments that all int8 kernels share, which come first. */
struct kvc_launch kvc_offload_int8_launch(enum kvc_kernel kernel, struct kvc_span y, const struct kvc_int8_rows *x,
                                          const struct kvc_weight *w, uint32_t piece, uint64_t N, struct kvc_span bias);

#endif
