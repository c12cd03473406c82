/* measure.c - times every operation of a backend, next to the limits of its device (roofline) and another backend. */
#include "core/base/integers.h"
#include "core/base/float.h"
#include "core/measure/measure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/engine/cache.h"
#include "core/engine/engine.h"
#include "core/base/types.h"

#define LOT_SECONDS 0.015 /* duration of a lot: the calls between two readings of the clock */
#define SLOW_SECONDS 0.1  /* a call that takes this long is timed only once */
#define LOTS 3u
#define MOST_CALLS 1000u
#define ROUNDS 5u /* alternating rounds of the two backends */
#define CLEAR 2.0 /* one round suffices if one device is this many times as fast as the other */

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool kvc_measure_again(struct kvc_measure *m) {
    double took;
    if (m->status == KVC_OK && m->left) {
        m->left--;
        return true;
    }
    if (m->status == KVC_OK)
        m->status = m->ops->sync(m->device, &m->error);
    if (m->status != KVC_OK)
        return false;
    took = seconds_now() - m->start;
    if (m->once && m->calls) {
        m->best = took;
        return false;
    }
    if (!m->calls || !m->warm) { /* the first call only warms up, because it may build something */
        m->warm = m->calls > 0;
        m->calls = 1;
    } else {
        if (m->best == 0 || took / (double)m->calls < m->best)
            m->best = took / (double)m->calls;
        if (took < LOT_SECONDS && m->calls < MOST_CALLS && m->lots == 0)
            m->calls = took * 8 < LOT_SECONDS ? m->calls * 8 : m->calls * 2;
        else if (++m->lots >= LOTS || took > SLOW_SECONDS)
            return false;
    }
    m->left = m->calls - 1;
    m->start = seconds_now();
    return true;
}

void kvc_measure_counts(struct kvc_measure *m, uint64_t bytes, uint64_t flops, const char *shape, ...) {
    va_list arguments;
    va_start(arguments, shape);
    vsnprintf(m->shape, sizeof m->shape, shape, arguments);
    va_end(arguments);
    m->row.bytes = bytes;
    m->row.flops = flops;
}

/* ---- operands ---- */

struct kvc_span kvc_measure_space(struct kvc_measure *m, size_t bytes) {
    struct kvc_span span = {NULL, 0};
    if (m->status == KVC_OK && m->buffer_count >= sizeof m->buffers / sizeof *m->buffers)
        m->status = kvc_fail(&m->error, KVC_RESOURCE, "measure: an operation has too many buffers");
    if (m->status == KVC_OK)
        m->status = m->ops->buffer_create(m->device, KVC_MEMORY_SCRATCH, bytes, &span.buffer, &m->error);
    if (m->status == KVC_OK)
        m->buffers[m->buffer_count++] = span.buffer;
    return span;
}

struct kvc_span kvc_measure_put(struct kvc_measure *m, const void *contents, size_t bytes) {
    struct kvc_span span = kvc_measure_space(m, bytes);
    if (m->status == KVC_OK)
        m->ops->upload(m->device, span, contents, bytes);
    return span;
}

static void *host_memory(struct kvc_measure *m, size_t bytes) {
    void *memory = m->status == KVC_OK ? malloc(bytes) : NULL;
    if (!memory && m->status == KVC_OK)
        m->status = kvc_fail(&m->error, KVC_RESOURCE, "measure: no memory for %zu bytes", bytes);
    return memory;
}

struct kvc_span kvc_measure_numbers(struct kvc_measure *m, size_t n, uint32_t first, uint32_t step) {
    struct kvc_span span = {NULL, 0};
    uint32_t *numbers = host_memory(m, n * sizeof *numbers);
    for (size_t i = 0; numbers && i < n; i++, first += step)
        numbers[i] = first;
    if (numbers)
        span = kvc_measure_put(m, numbers, n * sizeof *numbers);
    free(numbers);
    return span;
}

struct kvc_probabilities kvc_measure_probabilities(const struct kvc_lists *lists, uint32_t queries,
                                                   const struct kvc_attention *a) {
    return (struct kvc_probabilities){.lists = lists,
                                      .queries = queries,
                                      .heads = a->heads,
                                      .kv_heads = a->kv_heads,
                                      .head_size = a->head_size,
                                      .q = a->q,
                                      .maximum = a->maximum,
                                      .sum = a->sum,
                                      .positions = a->positions,
                                      .causal_offset = a->causal_offset};
}

struct kvc_span kvc_measure_values(struct kvc_measure *m, size_t n) {
    struct kvc_span span = {NULL, 0};
    float *values = host_memory(m, n * sizeof *values);
    uint32_t random = 1;
    for (size_t i = 0; values && i < n; i++) { /* in -2 .. 2 */
        random = random * 1664525u + 1013904223u;
        values[i] = (float)((int32_t)random >> 8) * 0x1p-22f;
    }
    if (values)
        span = kvc_measure_put(m, values, n * sizeof *values);
    free(values);
    return span;
}

/* Creates a weight of `experts` matrices, or of one matrix if experts is 0. */
static const struct kvc_weight *make_weight(struct kvc_measure *m, enum kvc_type type, uint32_t experts, uint64_t N,
                                            uint64_t K) {
    const size_t one = (size_t)N * kvc_type_row_bytes(type, K), bytes = one * (experts ? experts : 1);
    const size_t i = m->weight_count;
    const void *host[256];
    if (m->status == KVC_OK && i >= sizeof m->weights / sizeof *m->weights)
        m->status = kvc_fail(&m->error, KVC_RESOURCE, "measure: an operation has too many matrices");
    void *matrix = host_memory(m, bytes);
    if (!matrix)
        return NULL;
    memset(matrix, 0x2c, bytes); /* a normal number in every type, as scale and as value */
    m->matrices[m->weight_count++] = matrix;
    for (uint32_t e = 0; e < experts; e++)
        host[e] = (const unsigned char *)matrix + e * one;
    m->status = experts ? m->ops->experts_create(m->device, type, experts, N, K, host, &m->weights[i], &m->error)
                        : m->ops->weight_create(m->device, type, N, K, matrix, &m->weights[i], &m->error);
    return m->weights[i];
}

const struct kvc_weight *kvc_measure_weight(struct kvc_measure *m, enum kvc_type type, uint64_t N, uint64_t K) {
    return make_weight(m, type, 0, N, K);
}

const struct kvc_weight *kvc_measure_experts(struct kvc_measure *m, enum kvc_type type, uint32_t experts, uint64_t N,
                                             uint64_t K) {
    return make_weight(m, type, experts, N, K);
}

/* Appends the entries in segments with the same values. */
static void fill_lists(struct kvc_measure *m, struct kvc_lists *lists, uint32_t entries) {
    const uint32_t most = kvc_min_u32(entries, MEASURE_ENTRIES);
    const size_t n = (size_t)most * MEASURE_KV_HEADS * lists->format.head_size;
    const struct kvc_span values = kvc_measure_values(m, n), positions = kvc_measure_numbers(m, entries, 0, 1);
    if (m->status == KVC_OK && lists->order)
        m->ops->identity(m->device, &(struct kvc_identity){.lists = lists});
    for (uint32_t from = 0; m->status == KVC_OK && from < entries; from += most) {
        const uint32_t rows = kvc_min_u32(entries - from, most);
        const struct kvc_segment segment = {.lists = lists, .rows = rows, .stored = rows};
        m->ops->append(m->device,
                       &(struct kvc_append){.segments = &segment,
                                            .segment_count = 1,
                                            .k = values,
                                            .v = values,
                                            .positions = (struct kvc_span){positions.buffer, from * sizeof(uint32_t)}});
    }
}

struct kvc_lists *kvc_measure_lists(struct kvc_measure *m, enum kvc_type type, uint32_t slots, uint32_t entries,
                                    uint32_t columns, bool ordered) {
    if (m->status == KVC_OK && m->list_count >= sizeof m->lists / sizeof *m->lists)
        m->status = kvc_fail(&m->error, KVC_RESOURCE, "measure: an operation has too many lists");
    const size_t i = m->list_count < sizeof m->lists / sizeof *m->lists ? m->list_count : 0;
    struct kvc_lists *lists = &m->lists[i];
    if (m->status != KVC_OK)
        return lists;
    uint32_t *base = m->base[i], all = MEASURE_KV_HEADS * slots;
    const uint32_t each = slots / KVC_TILE, named = kvc_first_block(all, MEASURE_KV_HEADS);
    uint32_t *blocks = host_memory(m, named * sizeof *blocks);
    for (uint32_t h = 0; h <= MEASURE_KV_HEADS; h++)
        base[h] = h * slots;
    memset(lists, 0, sizeof *lists);
    lists->kv_heads = MEASURE_KV_HEADS;
    lists->columns = columns;
    lists->format = (struct kvc_entry_format){type, m->head_size, kvc_entry_row_bytes(type, m->head_size)};
    lists->host_base = base;
    lists->base = kvc_measure_put(m, base, sizeof m->base[0]).buffer;
    lists->count = kvc_measure_space(m, MEASURE_KV_HEADS * sizeof *base).buffer;
    if (ordered) {
        lists->order = kvc_measure_space(m, all * sizeof *base).buffer;
        lists->position = kvc_measure_space(m, all * sizeof *base).buffer;
    }
    if (columns)
        lists->state = kvc_measure_space(m, (size_t)columns * all * sizeof(float)).buffer;
    if (m->status == KVC_OK)
        m->status = m->ops->arena_create(m->device, &lists->format, &lists->arena, &m->error);
    if (m->status == KVC_OK) {
        m->list_count++;
        for (uint32_t h = 0; h < MEASURE_KV_HEADS && m->status == KVC_OK; h++)
            m->status =
                m->ops->arena_take(m->device, lists->arena, each, blocks + kvc_first_block(base[h], h), &m->error);
    }
    lists->blocks = kvc_measure_put(m, blocks, named * sizeof *blocks).buffer;
    free(blocks);
    if (entries)
        fill_lists(m, lists, entries);
    return lists;
}

struct kvc_read_list kvc_measure_reads(struct kvc_measure *m, uint32_t count, uint32_t entries) {
    struct kvc_read_list reads = {NULL, NULL, MEASURE_STRIDE};
    uint32_t *index = host_memory(m, (size_t)MEASURE_KV_HEADS * MEASURE_STRIDE * sizeof *index);
    for (size_t i = 0; index && i < (size_t)MEASURE_KV_HEADS * MEASURE_STRIDE; i++)
        index[i] = (uint32_t)(i % MEASURE_STRIDE < count ? i % MEASURE_STRIDE * entries / count : 0);
    if (index) {
        reads.count = kvc_measure_numbers(m, MEASURE_KV_HEADS, count, 0).buffer;
        reads.index = kvc_measure_put(m, index, (size_t)MEASURE_KV_HEADS * MEASURE_STRIDE * sizeof *index).buffer;
    }
    free(index);
    return reads;
}

static void measure_release(struct kvc_measure *m) {
    (void)m->ops->sync(m->device, NULL);
    while (m->list_count)
        m->ops->arena_free(m->device, m->lists[--m->list_count].arena);
    while (m->buffer_count)
        m->ops->buffer_free(m->device, m->buffers[--m->buffer_count]);
    for (size_t i = 0; i < m->weight_count; i++) {
        m->ops->weight_free(m->device, m->weights[i]);
        free(m->matrices[i]);
    }
}

/* ---- limits of the device ---- */

static void large_copy(struct kvc_measure *m, uint32_t variant) {
    const size_t bytes = (size_t)128 << 20; /* larger than the processor's caches */
    const struct kvc_span from = kvc_measure_space(m, bytes), to = kvc_measure_space(m, bytes);
    (void)variant;
    kvc_measure_counts(m, 2 * bytes, 0, "128 MiB");
    while (kvc_measure_again(m))
        m->ops->copy(m->device, to, from, bytes);
}

KVC_MEASURE(fma_loop, 0, variant) {
    const size_t n = (size_t)1 << 20;
    const uint32_t rounds = 500;
    const struct kvc_span x = kvc_measure_values(m, n);
    (void)variant;
    kvc_measure_counts(m, 0, 2 * n * rounds, "1048576 values");
    while (kvc_measure_again(m))
        m->ops->fma_loop(m->device, &(struct kvc_fma_loop){.x = x, .n = n, .rounds = rounds});
}

static void product(struct kvc_measure *m, uint32_t variant) {
    const uint32_t N = MEASURE_HIDDEN, K = MEASURE_HIDDEN, rows = MEASURE_ROWS;
    const struct kvc_span x = kvc_measure_values(m, (size_t)rows * K);
    const struct kvc_span y = kvc_measure_space(m, (size_t)rows * N * sizeof(float)), none = {NULL, 0};
    const struct kvc_weight *w = kvc_measure_weight(m, KVC_F32, N, K);
    (void)variant;
    kvc_measure_counts(m, 0, 2ull * N * K * rows, "f32");
    while (kvc_measure_again(m))
        m->ops->linear(m->device, &(struct kvc_linear){.y = y, .x = x, .w = w, .bias = none, .rows = rows});
}

/* Measures the cost of a call that moves no data. */
static void nothing(struct kvc_measure *m, uint32_t variant) {
    const size_t n = (size_t)1 << 19; /* enough to occupy every thread */
    const struct kvc_span x = kvc_measure_space(m, n * sizeof(float));
    (void)variant;
    while (kvc_measure_again(m))
        m->ops->fma_loop(m->device, &(struct kvc_fma_loop){.x = x, .n = n, .rounds = 0});
}

static enum kvc_status measure_run(struct kvc_device *device, kvc_measure_operation_fn *operation, uint32_t variant,
                                   struct kvc_measure *m, struct kvc_error *error) {
    const bool once = m->once;
    const uint32_t entries = m->entries;
    memset(m, 0, sizeof *m);
    m->once = once;
    m->entries = entries;
    m->head_size = MEASURE_HEAD_SIZE;
    m->row.calls = 1;
    m->device = device;
    m->ops = device->ops;
    operation(m, variant);
    measure_release(m);
    if (m->status != KVC_OK && error)
        *error = m->error;
    return m->status;
}

static enum kvc_status measure_rooflines(const struct kvc_engine_options *options, struct kvc_device *device,
                                         struct kvc_measure *m, struct kvc_rooflines *rooflines,
                                         struct kvc_error *error) {
    const struct kvc_engine_options fast = {
        .backend = options->backend, .threads = options->threads, .math = KVC_MATH_FAST};
    struct kvc_engine *engine;
    enum kvc_status status = measure_run(device, large_copy, 0, m, error);
    rooflines->copy = (double)m->row.bytes / m->best;
    if (status == KVC_OK)
        status = measure_run(device, kvc_measure_fma_loop.run, 0, m, error);
    rooflines->fma = (double)m->row.flops / m->best;
    if (status == KVC_OK)
        status = measure_run(device, nothing, 0, m, error);
    rooflines->launch = m->best;
    rooflines->product = 0;
    if (status == KVC_OK && kvc_engine_open(&fast, &engine, NULL) == KVC_OK) {
        status = measure_run(engine->device, product, 0, m, error);
        rooflines->product = (double)m->row.flops / m->best;
        kvc_engine_close(engine);
    }
    return status;
}

/* ---- all operations ---- */

/* Measures one variant of an operation on both devices and stores the result in m->row. Both devices get new operands,
 * so that memory treats them alike. */
static enum kvc_status one_round(struct kvc_device *device, struct kvc_device *beside,
                                 const struct kvc_measure_operation *o, uint32_t variant, struct kvc_measure *m,
                                 struct kvc_error *error) {
    double other = 0, launch = 0;
    enum kvc_status status = KVC_OK;
    if (beside) {
        status = measure_run(beside, o->run, variant, m, error);
        other = m->best;
    }
    if (beside && status == KVC_OK) {
        status = measure_run(device, nothing, 0, m, error);
        launch = m->best;
    }
    if (status == KVC_OK)
        status = measure_run(device, o->run, variant, m, error);
    m->row.name = o->name;
    m->row.shape = m->shape;
    m->row.seconds = m->best;
    m->row.beside = other;
    m->row.launch = launch;
    return status;
}

static int by_ratio(const void *a, const void *b) {
    const struct kvc_measured *x = a, *y = b;
    const double one = x->seconds * y->beside, other = y->seconds * x->beside;
    return (one > other) - (one < other);
}

static enum kvc_status measure_row(struct kvc_device *device, struct kvc_device *beside,
                                   const struct kvc_measure_operation *o, uint32_t variant, struct kvc_measure *m,
                                   struct kvc_error *error) {
    struct kvc_measured round[ROUNDS];
    unsigned n = 0;
    enum kvc_status status;
    do {
        status = one_round(device, beside, o, variant, m, error);
        if (status != KVC_OK)
            return status;
        round[n++] = m->row;
    } while (beside && !m->once && n < ROUNDS && round[0].seconds * CLEAR > round[0].beside);
    qsort(round, n, sizeof *round, by_ratio);
    m->row = round[n / 2];
    return KVC_OK;
}

static enum kvc_status run_tables(struct kvc_device *device, struct kvc_device *beside, const char *only,
                                  const struct kvc_rooflines *rooflines, struct kvc_measure *m, kvc_measure_fn *row,
                                  void *user, struct kvc_error *error) {
    static const struct kvc_measure_operation *const all[] = {&kvc_measure_zero,
#define KVC_OPERATION(name, parameters, ...) &kvc_measure_##name,
#define KVC_OPERATION_REF(name, parameters, ...)
#include "core/base/ops.def"
                                                              NULL};
    bool found = false;
    for (const struct kvc_measure_operation *const *o = m->entries ? kvc_measure_long : all; *o; o++) {
        if (only && strcmp(only, (*o)->name) != 0)
            continue;
        found = true;
        for (uint32_t variant = 0; variant < (*o)->variants; variant++) {
            const enum kvc_status status = measure_row(device, beside, *o, variant, m, error);
            if (status != KVC_OK)
                return status;
            if (row(user, rooflines, &m->row))
                return KVC_OK;
        }
    }
    return found ? KVC_OK : kvc_fail(error, KVC_USAGE, "there is no operation '%s' to measure", only);
}

enum kvc_status kvc_measure_operations(const struct kvc_engine_options *options, const struct kvc_measure_options *what,
                                       kvc_measure_fn *row, void *user, struct kvc_error *error) {
    return kvc_measure_some(options, what, false, row, user, error);
}

enum kvc_status kvc_measure_some(const struct kvc_engine_options *options, const struct kvc_measure_options *what,
                                 bool once, kvc_measure_fn *row, void *user, struct kvc_error *error) {
    const struct kvc_engine_options other = {
        .backend = what->beside, .threads = options->threads, .math = KVC_MATH_EXACT};
    struct kvc_engine *engine = NULL, *second = NULL;
    struct kvc_rooflines rooflines;
    if (what->entries && (what->entries < KVC_MEASURE_LEAST || what->entries > KVC_MEASURE_MOST))
        return kvc_fail(error, KVC_USAGE, "measure: %u entries; must be from %d to %d", what->entries,
                        KVC_MEASURE_LEAST, KVC_MEASURE_MOST);
    struct kvc_measure *m = calloc(1, sizeof *m);
    const uint64_t environment = kvc_float_open();
    enum kvc_status status =
        m ? kvc_engine_open(options, &engine, error) : kvc_fail(error, KVC_RESOURCE, "measure: no memory");
    if (m) {
        m->once = once;
        m->entries = what->entries;
    }
    if (status == KVC_OK && what->beside)
        status = kvc_engine_open(&other, &second, error);
    if (status == KVC_OK)
        status = measure_rooflines(options, engine->device, m, &rooflines, error);
    if (status == KVC_OK)
        status =
            run_tables(engine->device, second ? second->device : NULL, what->only, &rooflines, m, row, user, error);
    kvc_engine_close(second);
    kvc_engine_close(engine);
    free(m);
    kvc_float_close(environment);
    return status;
}
