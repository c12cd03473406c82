/* measure.h - shared by all measurements of operations: the list of tables, the clock, synthetic operands, and counts.
 * The table "operations" has the shapes of a model of one billion parameters. */
#ifndef KVC_BENCH_MEASURE_H
#define KVC_BENCH_MEASURE_H

#include <time.h>

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
    MEASURE_EXP = 20, /* number of flops that an exponential counts as */
    MEASURE_MOST_KV_HEADS = 32,
    MEASURE_COLD = 9 /* number of timed calls of a cold measurement, of which the median is taken */
};

struct kvc_measure_settings { /* settings that all measurements of a table share */
    bool once;                /* for tests: small shapes, and only one call */
    bool cold;                /* before each call, other memory is read and written, so that caches hold no operand */
    clockid_t clock;
    uint32_t entries; /* entries of a long context; 0: the table has no long context */
};

struct kvc_measure_side { /* a device, and what its measurements share */
    struct kvc_device *device;
    struct kvc_buffer *other; /* memory larger than the caches; NULL until a cold measurement needs it */
};

struct kvc_measure {
    struct kvc_measure_settings settings;
    struct kvc_measure_side *side;
    struct kvc_device *device;
    const struct kvc_ops *ops;
    struct kvc_measured row;
    char shape[64];
    bool beside; /* true: measure the call with which the table compares */
    /* state of the clock: */
    uint64_t calls, left; /* calls per lot (between two readings of the clock); calls left in this lot */
    unsigned lots;        /* number of lots timed at this size; in a cold measurement, number of calls timed */
    double start, best;   /* best: seconds of one call */
    double cold[MEASURE_COLD];
    bool warm;
    /* Properties of the lists to make, which an operation may set. Defaults: MEASURE_KV_HEADS, MEASURE_HEAD_SIZE, not
     * permuted */
    uint32_t kv_heads, head_size;
    bool permuted; /* slots in random order */
    /* memory that is freed after the operation: */
    struct kvc_buffer *buffers[64];
    size_t buffer_count;
    struct kvc_weight *weights[4];
    void *matrices[4];
    size_t weight_count;
    struct kvc_lists lists[2];
    uint32_t base[2][MEASURE_MOST_KV_HEADS + 1];
    size_t list_count;
    enum kvc_status status;
    struct kvc_error error;
};

/* Create buffers that exist until the operation has been measured: with zeros, with synthetic values, or with the given
 * contents. */
struct kvc_span kvc_measure_space(struct kvc_measure *m, size_t bytes);
struct kvc_span kvc_measure_values(struct kvc_measure *m, size_t n);
struct kvc_span kvc_measure_put(struct kvc_measure *m, const void *contents, size_t bytes);
/* values of type uint32: first, first + step, ... */
struct kvc_span kvc_measure_numbers(struct kvc_measure *m, size_t n, uint32_t first, uint32_t step);
/* Returns parameters for attention in which the segment's rows read the `entries` entries of its list. The rows' own
 * entries are the last of these. */
struct kvc_attention kvc_measure_make_attention(struct kvc_measure *m, const struct kvc_segment *segment,
                                                uint32_t heads, uint32_t entries);
/* Returns parameters for the attention probabilities of a's queries. The caller must have computed the attention `a`
 * over `lists` before. */
struct kvc_probabilities kvc_measure_probabilities(const struct kvc_lists *lists, uint32_t queries,
                                                   const struct kvc_attention *a);
/* Creates a weight. An operation may have at most four. */
const struct kvc_weight *kvc_measure_weight(struct kvc_measure *m, enum kvc_type type, uint64_t N, uint64_t K);
/* Creates the weight of at most 256 experts. */
const struct kvc_weight *kvc_measure_experts(struct kvc_measure *m, enum kvc_type type, uint32_t experts, uint64_t N,
                                             uint64_t K);
/* Creates lists of kv_heads heads with `slots` slots each, of which `entries` are filled. An operation may have at most
 * two. */
struct kvc_lists *kvc_measure_lists(struct kvc_measure *m, enum kvc_type type, uint32_t slots, uint32_t entries,
                                    uint32_t columns, bool ordered);
/* Returns a read list with `count` evenly spaced indices for each head. Its stride is entries + KVC_TILE. */
struct kvc_read_list kvc_measure_reads(struct kvc_measure *m, uint32_t count, uint32_t entries);
/* Frees all operands. */
void kvc_measure_release(struct kvc_measure *m);

/* Sets the bytes and flops of one call, and the text of its shape. */
void kvc_measure_counts(struct kvc_measure *m, uint64_t bytes, uint64_t flops, const char *shape, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;
/* Usage: while (kvc_measure_again(m)) CALL. Repeats the call until the time is reliable. */
bool kvc_measure_again(struct kvc_measure *m);
/* Returns the seconds of a clock. */
double kvc_measure_seconds(clockid_t clock);
/* Like kvc_measure_bandwidth, but with a given clock. With one thread, this may be the clock of the process. */
double kvc_measure_bandwidth_by(unsigned threads, clockid_t clock);

/* Measures a linear layer of `rows` rows. */
void kvc_measure_time_linear(struct kvc_measure *m, enum kvc_type type, uint32_t rows, uint64_t N, uint64_t K);
/* Measures a linear layer of `rows` rows of 8-bit activations, with or without quantizing them. */
void kvc_measure_time_int8(struct kvc_measure *m, enum kvc_type type, uint32_t rows, uint64_t N, uint32_t K,
                           bool quantizing);
/* Returns `rows` quantized rows. If x is not NULL, *x receives the float rows. */
struct kvc_int8_rows kvc_measure_int8_rows(struct kvc_measure *m, uint32_t rows, uint32_t K, struct kvc_span *x);
/* Like kvc_measure_time_int8 and kvc_measure_int8_rows, but with 15-bit activations. */
void kvc_measure_time_int16(struct kvc_measure *m, enum kvc_type type, uint32_t rows, uint64_t N, uint32_t K,
                            bool quantizing);
struct kvc_int16_rows kvc_measure_int16_rows(struct kvc_measure *m, uint32_t rows, uint32_t K, struct kvc_span *x);

typedef void kvc_measure_operation_fn(struct kvc_measure *m, uint32_t variant);
struct kvc_measure_operation {
    const char *name;
    kvc_measure_operation_fn *run;
    uint32_t variants; /* the variants are 0 .. variants - 1 */
};
/* Declares the measurement of each operation in the list, and of the operation `zero`. KVC_MEASURE(name, variants,
 * variant) { ... m ... } defines a measurement; the last argument names the parameter that receives the variant's
 * number. The operations `copy` and `fma_loop` have no variants, because they measure the limits of the device. */
#define KVC_OPERATION(name, parameters, ...) extern const struct kvc_measure_operation kvc_measure_##name;
#include "core/base/ops.def"
extern const struct kvc_measure_operation kvc_measure_zero;
#define KVC_MEASURE(operation, number, variant)                                                                        \
    static void operation##_calls(struct kvc_measure *m, uint32_t variant);                                            \
    const struct kvc_measure_operation kvc_measure_##operation = {#operation, operation##_calls, number};              \
    static void operation##_calls(struct kvc_measure *m, uint32_t variant)
/* The operations of the other tables. Each list ends with an entry whose name is NULL. */
extern const struct kvc_measure_operation kvc_measure_layer[], kvc_measure_decode_attention[],
    kvc_measure_prefill_attention[], kvc_measure_int8_attention[], kvc_measure_gemm[], kvc_measure_types[],
    kvc_measure_small_batch[], kvc_measure_decode_linear[], kvc_measure_cached_linear[], kvc_measure_int8[],
    kvc_measure_int16[], kvc_measure_select[];

enum kvc_measure_other { /* what a table compares each call with, if no other backend is given */
                         KVC_MEASURE_OTHER_NONE,   /* nothing */
                         KVC_MEASURE_OTHER_CALL,   /* another call, measured if m->beside is set */
                         KVC_MEASURE_OTHER_LIBRARY /* the same call under KVC_MATH_FAST */
};
/* A table of measurements (tables.c). */
struct kvc_measure_group {
    struct kvc_measure_table table;
    /* NULL: the table has all operations of ops.def, or the operations of a prompt */
    const struct kvc_measure_operation *operations;
    enum kvc_measure_other other;
    bool cold, reads;        /* reads: the limit is the speed of reading memory, not of copying it */
    uint32_t entries, least; /* entries: default number of entries, 0 if the table has none; least: smallest number */
};
/* Returns the table of that name, or NULL with an error that lists the names. */
const struct kvc_measure_group *kvc_measure_group(const char *name, struct kvc_error *error);

#endif
