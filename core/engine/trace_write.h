/* trace_write.h - the state of a trace, and the functions that write its lines; shared by trace.c, trace_outputs.c and
 * trace_write.c. */
#ifndef KVC_CORE_ENGINE_TRACE_WRITE_H
#define KVC_CORE_ENGINE_TRACE_WRITE_H

#include <stdio.h>

#include "core/engine/trace.h"

/* A row of the batch: its token's session and position. */
struct kvc_trace_row {
    uint32_t session;
    int32_t position;
};

/* The numbers of outputs and inputs of a weight matrix. The arguments of an operation do not contain them. */
struct kvc_trace_weight {
    const struct kvc_weight *weight;
    uint64_t outputs, inputs;
};

/* Selects the lines that contain the values as well as their hash. A negative number or an empty name selects all. */
struct kvc_trace_values {
    bool any;
    int64_t position, layer;
    char operation[32];
};

/* The maximum number of buffers of one layer that hold one row per pair. A pair is a row of the batch and one of its
 * experts. */
enum { KVC_TRACE_PAIR_BUFFERS = 8 };
/* The maximum number of arrays that one operation has on the host at the same time. */
enum { KVC_TRACE_HELD = 16 };

struct kvc_trace {
    struct kvc_ops ops; /* device->ops points here */
    const struct kvc_ops *real;
    struct kvc_device *device;
    FILE *file;
    char *path;
    struct kvc_trace_values values;
    int failed; /* errno of the first failed write or allocation, or 0 */

    enum kvc_trace_part part;
    uint32_t number;
    uint32_t *sessions; /* [session_count]: numbers of the sessions of the batch's rows */
    uint32_t session_count;
    size_t session_capacity;
    struct kvc_trace_row *rows; /* [row_count]: the rows that the operations compute */
    uint32_t row_count;
    size_t row_capacity;
    struct kvc_trace_row list;        /* session and position of operations on lists */
    uint32_t first_kv_head, kv_heads; /* this rank's KV heads, if ranks share a layer's heads; otherwise 0, 0 */

    uint32_t *pair; /* [row_count, used]: the pairs of each row, from the last route */
    uint32_t used, pair_count;
    size_t pair_capacity;
    const struct kvc_buffer *pair_rows; /* the table of rows that the operation `route` wrote; `gather` reads it */
    const struct kvc_buffer *pair_buffer[KVC_TRACE_PAIR_BUFFERS];
    size_t pair_buffers;

    struct kvc_trace_weight *weights;
    size_t weight_count, weight_capacity;
    void *held[KVC_TRACE_HELD]; /* host copies of outputs, freed when the operation's lines are written */
    size_t held_count;
};

/* The kinds of values. Words are integers. Among floats, all NaNs count as equal. */
enum kvc_trace_kind { KVC_TRACE_FLOATS, KVC_TRACE_WORDS, KVC_TRACE_HALVES, KVC_TRACE_BYTES };
static inline size_t kvc_trace_size(enum kvc_trace_kind kind) {
    return kind == KVC_TRACE_BYTES ? 1 : kind == KVC_TRACE_HALVES ? 2 : 4;
}

/* The name of an output, and the kind of its values. */
struct kvc_trace_name {
    const char *operation, *output;
    enum kvc_trace_kind kind;
};

/* Writes a line with the hash of `values`: n values, in host memory, of one row and head. `head` UINT32_MAX: no head.
 */
void kvc_trace_line(struct kvc_trace *trace, struct kvc_trace_name name, struct kvc_trace_row row, uint32_t head,
                    const void *values, size_t n);
/* Returns `array` with room for n elements of `size` bytes. Returns NULL, and leaves the array as it is, if out of
 * memory. */
void *kvc_trace_grow(struct kvc_trace *trace, void *array, size_t *capacity, size_t n, size_t size);
/* Copies bytes of a buffer to the host. The memory is valid until the operation's lines are written. Returns NULL after
 * a failure, which the trace records. */
void *kvc_trace_fetch(struct kvc_trace *trace, struct kvc_span from, size_t bytes);
void *kvc_trace_alloc(struct kvc_trace *trace, size_t bytes);
/* Frees the copies that were made since held_count was `kept`. */
void kvc_trace_release(struct kvc_trace *trace, size_t kept);
/* Copies route's table of pairs. Returns false after a failure. */
bool kvc_trace_keep_pairs(struct kvc_trace *trace, const uint32_t *pair, size_t pairs);
/* Returns the width of a matrix: its outputs N or inputs K. */
uint64_t kvc_trace_outputs(const struct kvc_trace *trace, const struct kvc_weight *weight);
uint64_t kvc_trace_inputs(const struct kvc_trace *trace, const struct kvc_weight *weight);

/* Write the lines of an operation's output after it has run. */
#define KVC_OPERATION(name, parameters, ...) void kvc_trace_##name(struct kvc_trace *, const struct parameters *);
#include "core/base/ops.def"

#endif
