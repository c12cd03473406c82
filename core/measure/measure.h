/* measure.h - what the measurements of all operations share: made-up operands, the clock, counts. The shapes are those
 * of a model of one billion parameters. */
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
    MEASURE_ROWS = 512,     /* of a prompt's chunk */
    MEASURE_ENTRIES = 4096, /* of every head */
    MEASURE_STRIDE = MEASURE_ENTRIES + KVC_TILE,
    MEASURE_EXP = 20 /* flops of an exponential */
};

struct kvc_measure {
    struct kvc_device *device;
    const struct kvc_ops *ops;
    struct kvc_measured row;
    char shape[64];
    /* the clock */
    uint64_t calls, left; /* of one lot; of the current one */
    unsigned lots;        /* timed at this size */
    double start, best;   /* best: seconds of one call */
    bool warm, once;
    uint32_t entries;   /* of the long context to measure */
    uint32_t head_size; /* of lists: MEASURE_HEAD_SIZE, unless the operation says otherwise */
    /* freed when the operation is done */
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

/* Buffers that live until the operation is done: of zeros, of made-up values, of given contents. */
struct kvc_span kvc_measure_space(struct kvc_measure *m, size_t bytes);
struct kvc_span kvc_measure_values(struct kvc_measure *m, size_t n);
struct kvc_span kvc_measure_put(struct kvc_measure *m, const void *contents, size_t bytes);
/* uint32: first, first + step, ... */
struct kvc_span kvc_measure_numbers(struct kvc_measure *m, size_t n, uint32_t first, uint32_t step);
/* The attention probabilities of the queries that `a` has attended with over `lists`. */
struct kvc_probabilities kvc_measure_probabilities(const struct kvc_lists *lists, uint32_t queries,
                                                   const struct kvc_attention *a);
/* Four at most. */
const struct kvc_weight *kvc_measure_weight(struct kvc_measure *m, enum kvc_type type, uint64_t N, uint64_t K);
/* At most 256 experts. */
const struct kvc_weight *kvc_measure_experts(struct kvc_measure *m, enum kvc_type type, uint32_t experts, uint64_t N,
                                             uint64_t K);
/* Lists of MEASURE_KV_HEADS heads with `slots` slots each, `entries` of them filled; two at most. */
struct kvc_lists *kvc_measure_lists(struct kvc_measure *m, enum kvc_type type, uint32_t slots, uint32_t entries,
                                    uint32_t columns, bool ordered);
/* `count` of each head's indices, evenly spread. */
struct kvc_read_list kvc_measure_reads(struct kvc_measure *m, uint32_t count, uint32_t entries);

/* What one call reads and writes, and computes; and its shape in words. */
void kvc_measure_counts(struct kvc_measure *m, uint64_t bytes, uint64_t flops, const char *shape, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;
/* while (kvc_measure_again(m)) CALL: calls it as often as a clear figure needs. */
bool kvc_measure_again(struct kvc_measure *m);

typedef void kvc_measure_operation_fn(struct kvc_measure *m, uint32_t variant);
struct kvc_measure_operation {
    const char *name;
    kvc_measure_operation_fn *run;
    uint32_t variants; /* 0 .. variants - 1 */
};
/* One for each operation of the list, and zero; KVC_MEASURE(name, variants, variant) { ... m ... } defines it, with the
 * name that it gives the number of a variant. Of copy and fma_loop there are no variants: they are ceilings. */
#define KVC_OPERATION(name, parameters, ...) extern const struct kvc_measure_operation kvc_measure_##name;
#include "core/base/ops.def"
extern const struct kvc_measure_operation kvc_measure_zero;
#define KVC_MEASURE(operation, number, variant)                                                                        \
    static void operation##_calls(struct kvc_measure *m, uint32_t variant);                                            \
    const struct kvc_measure_operation kvc_measure_##operation = {#operation, operation##_calls, number};              \
    static void operation##_calls(struct kvc_measure *m, uint32_t variant)
extern const struct kvc_measure_operation *const kvc_measure_long[]; /* measure_long.c; ends with NULL */

/* kvc_measure_operations; once: every operation once, its figures mean little. For tests. */
enum kvc_status kvc_measure_some(const struct kvc_engine_options *options, const struct kvc_measure_options *what,
                                 bool once, kvc_measure_fn *row, void *user, struct kvc_error *error);

#endif
