/* offload.h - the host side that OpenCL and CUDA share: buffers, weights, arenas and operations in terms of a driver
 * that allocates, copies and launches the kernels of backends/kernels/. A backend is a driver and an `open`.
 *
 * Everything is queued in order. What kernels report (failures, saturated stores, entries read) comes back in the
 * device's status words, which sync reads. */
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

/* One launch. An argument is a device pointer (a handle), or a number of 4 or 8 bytes. */
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
    uint32_t items;     /* work-items in a group */
    uint32_t groups[3]; /* none of them 0 */
};

struct kvc_buffer {
    void *handle; /* the driver's: a cl_mem, a device pointer */
    size_t bytes;
    enum kvc_memory_kind kind;
};

struct kvc_weight { /* rows of row_bytes as the file has them, piece_rows of them in each piece */
    enum kvc_type type;
    uint64_t outputs, inputs, piece_rows;
    size_t row_bytes;
    uint64_t counted; /* bytes of device memory */
    uint32_t pieces;
    void *piece[];
};

struct kvc_arena { /* chunks as backends/kernels/lists.h numbers them; NULL where not allocated */
    struct kvc_entry_format format;
    size_t block_bytes;
    uint32_t shift, top, lowest; /* no free block below lowest */
    void *chunk[KVC_CHUNKS];
    uint64_t *taken; /* one bit a block, of all that chunks can hold so far */
    uint32_t bits;
    uint64_t taken_count;
};

struct kvc_offload_read {
    uint64_t *to, bytes, divisor; /* *to += count * bytes / divisor */
};

struct kvc_offload {
    struct kvc_device device; /* first */
    struct kvc_ops table;
    const struct kvc_offload_driver *driver;
    uint32_t workers, group; /* KVC_WORKERS of the kernels: 1 or 4; KVC_GROUP */
    uint64_t most_bytes;     /* of one allocation */
    uint64_t memory_bytes;   /* of the device */
    bool small_batch_checks; /* for tests: the self-test takes few cases */
    enum kvc_status failure; /* first since the last sync */
    char failure_text[300];
    bool lost; /* the device; nothing more is queued */
    struct kvc_buffer status_words;
    uint32_t *host_status;          /* [KVC_STATUS_WORDS] */
    bool status_written;            /* something was launched that writes status words */
    struct kvc_offload_read *reads; /* [KVC_STATUS_WORDS - KVC_STATUS_READ]: where each count of entries goes */
    uint32_t read_count;
    struct kvc_buffer workspace; /* of one operation, grown when it must */
    uint64_t widest, largest;    /* of the weights: bytes of a row and of all rows of an allocation, as float32 */
};
/* The offload device that contains `device`. */
static inline struct kvc_offload *kvc_offload_of(struct kvc_device *device) { return (struct kvc_offload *)device; }

/* All but allocate report failures with kvc_offload_failed. */
struct kvc_offload_driver {
    /* Contents undefined. host: NULL, or what the memory shall hold; *borrowed is set where it is used in place. */
    enum kvc_status (*allocate)(struct kvc_offload *, enum kvc_memory_kind, size_t bytes, const void *host,
                                void **handle, bool *borrowed, struct kvc_error *);
    void (*release)(struct kvc_offload *, void *handle); /* after what is queued */
    void (*write)(struct kvc_offload *, void *to, size_t offset, const void *from, size_t bytes); /* waits */
    void (*read)(struct kvc_offload *, void *to, void *from, size_t offset, size_t bytes);        /* waits */
    void (*copy)(struct kvc_offload *, void *to, size_t to_offset, void *from, size_t from_offset, size_t bytes);
    void (*zero)(struct kvc_offload *, void *handle, size_t offset, size_t bytes);
    void (*launch)(struct kvc_offload *, const struct kvc_launch *);
    void (*finish)(struct kvc_offload *); /* waits for everything */
    void (*close)(struct kvc_offload *);  /* frees the backend's own, and the struct */
};

/* Fills the table, makes the status words. The caller has set driver, workers, group, most_bytes, memory_bytes and
 * device.name.
 */
enum kvc_status kvc_offload_open(struct kvc_offload *offload, struct kvc_error *error);
void kvc_offload_close(struct kvc_device *device); /* kvc_ops.close; calls the driver's */
/* Compares the device's arithmetic with the host's on numbers of every kind; the caller's float environment is plain.
 * *only_division (may be NULL): all that is wrong are quotients or square roots. */
enum kvc_status kvc_offload_check(struct kvc_offload *offload, bool *only_division, struct kvc_error *error);

/* The driver's allocate; bytes that are refused are recorded in the device. */
enum kvc_status kvc_offload_allocate(struct kvc_offload *offload, enum kvc_memory_kind kind, size_t bytes,
                                     const void *host, void **handle, bool *borrowed, struct kvc_error *error);
const char *kvc_offload_kind(enum kvc_memory_kind kind); /* its name, for messages */
void kvc_offload_failed(struct kvc_offload *offload, enum kvc_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
/* Adds what attention has read so far to where it is counted, and takes the kernels' other status words. */
void kvc_offload_take_status(struct kvc_offload *offload);
void kvc_offload_count(struct kvc_offload *offload, enum kvc_memory_kind kind, int64_t bytes);
/* At least so many bytes for the operation being queued; NULL: no memory, which the next sync reports. */
struct kvc_buffer *kvc_offload_workspace(struct kvc_offload *offload, uint64_t bytes);
/* The first of `count` neighbouring status words where a launch may add up what it reads; each is added to *to as
 * described above. 0: nowhere (to is NULL). */
uint32_t kvc_offload_read_status(struct kvc_offload *offload, uint32_t count, uint64_t *to, uint64_t bytes,
                                 uint64_t divisor);

/* Building a launch: arguments in the kernel's order. */
struct kvc_launch kvc_launch_of(enum kvc_kernel kernel);
void kvc_launch_handle(struct kvc_launch *launch, void *handle);
void kvc_launch_buffer(struct kvc_launch *launch, const struct kvc_buffer *buffer); /* NULL is fine */
void kvc_launch_span(struct kvc_launch *launch, struct kvc_span span);              /* of 4-byte values */
void kvc_launch_word(struct kvc_launch *launch, uint32_t word);
void kvc_launch_wide(struct kvc_launch *launch, uint64_t wide);
void kvc_launch_real(struct kvc_launch *launch, float real);
void kvc_launch_lists(struct kvc_launch *launch, const struct kvc_lists *lists);
void kvc_launch_arena(struct kvc_launch *launch, const struct kvc_arena *arena);
void kvc_launch_reads(struct kvc_launch *launch, const struct kvc_read_list *reads); /* NULL: none */
#include "backends/offload/push.h"
/* Groups of a group kernel, or work-items of another kind along the first dimension; nothing where one is 0. */
void kvc_launch_groups(struct kvc_offload *offload, struct kvc_launch *launch, uint64_t x, uint64_t y, uint64_t z);
void kvc_launch_items(struct kvc_offload *offload, struct kvc_launch *launch, uint64_t x, uint64_t y, uint64_t z);
/* Groups of so many work-items. */
void kvc_launch_run(struct kvc_offload *offload, struct kvc_launch *launch, uint32_t items, uint64_t x, uint64_t y,
                    uint64_t z);
/* Work-items for runs of x neighbouring values, and how many runs they are. */
uint64_t kvc_offload_runs(const struct kvc_offload *offload, uint64_t n);
void kvc_launch_runs(struct kvc_offload *offload, struct kvc_launch *launch, uint64_t x, uint64_t y);

/* Slots of the largest head: what the host knows of how many entries a head can have. */
uint32_t kvc_offload_most_slots(const struct kvc_lists *lists);
/* At most so many places of a head. */
uint64_t kvc_offload_most_places(const struct kvc_lists *lists, const struct kvc_read_list *view);

/* Of rows of values by index, `group` a head: M and L of each, to totals [rows, 2]. Keys as floats [H_kv, most slots,
 * d], rotated back by cosine and sine where there are any. */
void kvc_offload_index_totals(struct kvc_offload *offload, const struct kvc_lists *lists, uint32_t group,
                              uint32_t first, struct kvc_span values, uint32_t stride, struct kvc_span totals);
void kvc_offload_entry_keys(struct kvc_offload *offload, const struct kvc_lists *lists, struct kvc_span cosine,
                            struct kvc_span sine, uint32_t rotary, struct kvc_span keys);

/* The operations. */
#define KVC_LIFETIME(result, name, arguments) result kvc_offload_##name arguments;
#define KVC_BYTES(result, name, arguments) result kvc_offload_##name arguments;
#define KVC_OPERATION(name, parameters, ...) void kvc_offload_##name(struct kvc_device *, const struct parameters *);
#define KVC_OPERATION_FUSED(name, parameters, ...)
#include "core/base/ops.def"

/* Attention of one segment by a backend's own kernels: both get the arguments of the shared ones; tile and merge set
 * the kernel, add what it takes besides, and run it. */
struct kvc_attention_shape {
    uint64_t bytes; /* of what tiles write; more only where one row has more */
    void (*tile)(struct kvc_offload *, struct kvc_launch *, const struct kvc_attention *, enum kvc_type type,
                 uint32_t rows, uint32_t tiles);
    void (*merge)(struct kvc_offload *, struct kvc_launch *, uint32_t heads, uint32_t rows);
};
void kvc_offload_attend(struct kvc_offload *offload, const struct kvc_attention *a, const struct kvc_segment *segment,
                        const struct kvc_attention_shape *shape);
uint64_t kvc_offload_piece_rows(const struct kvc_weight *w, uint32_t piece);
/* A launch of few rows by the shared kernel, or another that takes the same. */
struct kvc_launch kvc_offload_small_batch(const struct kvc_linear *args, uint32_t piece);

#endif
