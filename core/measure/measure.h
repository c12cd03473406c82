/* measure.h - shared by the measurements of all operations: synthetic operands, the clock, and counts. The shapes are
 * taken from a model of one billion parameters. */
#ifndef KVC_CORE_MEASURE_MEASURE_H
#define KVC_CORE_MEASURE_MEASURE_H

#include "core/base/ops.h"
#include "kvcull/check.h"

enum {
    MEASURE_HIDDEN = 2048,
    MEASURE_FEED_FORWARD = 8192,
    MEASURE_HEADS = 32,
    MEASURE_KV_HEADS = 8,
    MEASURE_GROUP = MEASURE_HEADS / MEASURE_KV_HEADS,
    MEASURE_HEAD_SIZE = 64,
    MEASURE_ROWS = 512,     /* rows of a prompt's chunk */
    MEASURE_ENTRIES = 4096, /* entries of every head */
    MEASURE_STRIDE = MEASURE_ENTRIES + KVC_TILE,
    MEASURE_EXP = 20 /* flops counted for an exponential */
};

struct kvc_measure {
    struct kvc_device *device;
    const struct kvc_ops *ops;
    struct kvc_measured row;
    char shape[64];
    /* the clock: */
    uint64_t calls, left; /* calls per lot; calls left in the current lot */
    unsigned lots;        /* lots timed at this size */
    double start, best;   /* best: seconds of one call */
    bool warm, once;
    uint32_t entries;   /* length of the long context to measure */
    uint32_t head_size; /* head size of lists: MEASURE_HEAD_SIZE unless the operation sets another */
    /* freed after the operation: */
    struct kvc_buffer *buffers[64];
    size_t buffer_count;
    struct kvc_weight *weights[4];
    void *matrices[4];
    size_t weight_count;
    struct kvc_lists lists[2];
    uint32_t base[2][MEASURE_KV_HEADS + 1];
    size_t list_count;
    enum kvc_status status;
    struct kvc_error error;
};

/* Create buffers that exist until the operation is done: with zeros, with synthetic values, with the given contents. */
struct kvc_span kvc_measure_space(struct kvc_measure *m, size_t bytes);
struct kvc_span kvc_measure_values(struct kvc_measure *m, size_t n);
struct kvc_span kvc_measure_put(struct kvc_measure *m, const void *contents, size_t bytes);
/* uint32: first, first + step, ... */
struct kvc_span kvc_measure_numbers(struct kvc_measure *m, size_t n, uint32_t first, uint32_t step);
/* Returns the attention probabilities of the queries of `a`, which have attended over `lists`. */
struct kvc_probabilities kvc_measure_probabilities(const struct kvc_lists *lists, uint32_t queries,
                                                   const struct kvc_attention *a);
/* Creates a weight. An operation may have at most four. */
const struct kvc_weight *kvc_measure_weight(struct kvc_measure *m, enum kvc_type type, uint64_t N, uint64_t K);
/* Creates the weight of at most 256 experts. */
const struct kvc_weight *kvc_measure_experts(struct kvc_measure *m, enum kvc_type type, uint32_t experts, uint64_t N,
                                             uint64_t K);
/* Creates lists of MEASURE_KV_HEADS heads with `slots` slots each, of which `entries` are filled. An operation may have
 * at most two. */
struct kvc_lists *kvc_measure_lists(struct kvc_measure *m, enum kvc_type type, uint32_t slots, uint32_t entries,
                                    uint32_t columns, bool ordered);
/* Returns a read list of `count` evenly spaced indices of each head. */
struct kvc_read_list kvc_measure_reads(struct kvc_measure *m, uint32_t count, uint32_t entries);

/* Sets the bytes and flops of one call, and the text of its shape. */
void kvc_measure_counts(struct kvc_measure *m, uint64_t bytes, uint64_t flops, const char *shape, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;
/* Usage: while (kvc_measure_again(m)) CALL. Repeats the call until the time is reliable. */
bool kvc_measure_again(struct kvc_measure *m);

typedef void kvc_measure_operation_fn(struct kvc_measure *m, uint32_t variant);
struct kvc_measure_operation {
    const char *name;
    kvc_measure_operation_fn *run;
    uint32_t variants; /* variants 0 .. variants - 1 */
};
/* Declares the measurement of each operation in the list, and of the operation zero. KVC_MEASURE(name, variants,
 * variant) { ... m ... } defines a measurement; the last argument names the parameter that receives the variant's
 * number. copy and fma_loop have no variants, because they measure the limits of the device. */
#define KVC_OPERATION(name, parameters, ...) extern const struct kvc_measure_operation kvc_measure_##name;
#include "core/base/ops.def"
extern const struct kvc_measure_operation kvc_measure_zero;
#define KVC_MEASURE(operation, number, variant)                                                                        \
    static void operation##_calls(struct kvc_measure *m, uint32_t variant);                                            \
    const struct kvc_measure_operation kvc_measure_##operation = {#operation, operation##_calls, number};              \
    static void operation##_calls(struct kvc_measure *m, uint32_t variant)
extern const struct kvc_measure_operation *const kvc_measure_long[]; /* measure_long.c; ends with NULL */

/* Measures the operations like kvc_measure_operations. If `once` is true, calls every operation only once, for tests;
 * such times mean little. */
enum kvc_status kvc_measure_some(const struct kvc_engine_options *options, const struct kvc_measure_options *what,
                                 bool once, kvc_measure_fn *row, void *user, struct kvc_error *error);

#endif
