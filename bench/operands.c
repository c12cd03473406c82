/* operands.c - makes the synthetic operands of measurements: buffers, weights, lists of entries, attention. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/measure.h"
#include "core/base/integers.h"
#include "core/base/types.h"
#include "core/engine/cache.h"

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

/* Allocates memory in huge pages if the machine has them, as for mapped weights (models/files/map.c). */
static void *host_memory(struct kvc_measure *m, size_t bytes) {
    const size_t page = bytes < (size_t)2 << 20 ? 64 : (size_t)2 << 20, whole = kvc_round_up(bytes, page);
    void *memory = m->status == KVC_OK ? aligned_alloc(page, whole) : NULL;
    if (!memory && m->status == KVC_OK)
        m->status = kvc_fail(&m->error, KVC_RESOURCE, "measure: no memory for %zu bytes", bytes);
#if defined(MADV_HUGEPAGE)
    if (memory && page > 64)
        (void)madvise(memory, whole, MADV_HUGEPAGE);
#endif
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

struct kvc_attention kvc_measure_make_attention(struct kvc_measure *m, const struct kvc_segment *segment,
                                                uint32_t heads, uint32_t entries) {
    const uint32_t rows = segment->rows;
    const size_t values = (size_t)rows * heads * m->head_size;
    return (struct kvc_attention){.segments = segment,
                                  .segment_count = 1,
                                  .heads = heads,
                                  .kv_heads = m->kv_heads,
                                  .head_size = m->head_size,
                                  .q = kvc_measure_values(m, values),
                                  .out = kvc_measure_space(m, values * 4),
                                  .maximum = kvc_measure_space(m, (size_t)rows * heads * 4),
                                  .sum = kvc_measure_space(m, (size_t)rows * heads * 4),
                                  .positions = kvc_measure_numbers(m, rows, entries - rows, 1),
                                  .causal_offset = kvc_measure_numbers(m, rows, rows - 1, UINT32_MAX)};
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
    for (size_t i = 0; values && i < n; i++) { /* values from -2 to 2 */
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
    memset(matrix, 0x2c, bytes); /* a normal number in every type, whether the bytes are a scale or a value */
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

/* Puts the slots of the first `entries` entries of the lists into random order. */
static void permute(struct kvc_measure *m, const struct kvc_lists *lists, uint32_t entries) {
    const uint32_t all = lists->host_base[m->kv_heads];
    uint32_t *order = host_memory(m, all * sizeof *order), random = 1;
    for (uint32_t h = 0; order && h < m->kv_heads; h++) {
        uint32_t *one = order + lists->host_base[h];
        for (uint32_t i = 0; i < lists->host_base[h + 1] - lists->host_base[h]; i++)
            one[i] = i;
        for (uint32_t i = entries; i > 1; i--) {
            random = random * 1664525u + 1013904223u;
            const uint32_t j = (random >> 8) % i, held = one[i - 1];
            one[i - 1] = one[j];
            one[j] = held;
        }
    }
    if (order)
        m->ops->upload(m->device, (struct kvc_span){lists->order, 0}, order, all * sizeof *order);
    free(order);
}

/* Appends the entries in segments of up to MEASURE_ENTRIES, with the same keys and values for every segment. */
static void fill_lists(struct kvc_measure *m, struct kvc_lists *lists, uint32_t entries) {
    const uint32_t most = kvc_min_u32(entries, MEASURE_ENTRIES);
    const size_t n = (size_t)most * m->kv_heads * lists->format.head_size;
    const struct kvc_span values = kvc_measure_values(m, n), positions = kvc_measure_numbers(m, entries, 0, 1);
    if (m->status == KVC_OK && lists->order)
        m->ops->identity(m->device, &(struct kvc_identity){.lists = lists});
    if (m->status == KVC_OK && m->permuted)
        permute(m, lists, entries);
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
    uint32_t *base = m->base[i], all = m->kv_heads * slots;
    const uint32_t each = slots / KVC_BLOCK, named = kvc_first_block(all, m->kv_heads);
    uint32_t *blocks = host_memory(m, named * sizeof *blocks);
    for (uint32_t h = 0; h <= m->kv_heads; h++)
        base[h] = h * slots;
    memset(lists, 0, sizeof *lists);
    lists->kv_heads = m->kv_heads;
    lists->columns = columns;
    lists->format = kvc_entry_format(kvc_entry_types(type), m->head_size);
    lists->host_base = base;
    lists->base = kvc_measure_put(m, base, (m->kv_heads + 1) * sizeof *base).buffer;
    lists->count = kvc_measure_space(m, m->kv_heads * sizeof *base).buffer;
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
        for (uint32_t h = 0; h < m->kv_heads && m->status == KVC_OK; h++)
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
    const uint32_t stride = entries + KVC_TILE;
    const size_t all = (size_t)m->kv_heads * stride;
    struct kvc_read_list reads = {NULL, NULL, stride};
    uint32_t *index = host_memory(m, all * sizeof *index);
    for (size_t i = 0; index && i < all; i++)
        index[i] = (uint32_t)(i % stride < count ? i % stride * entries / count : 0);
    if (index) {
        reads.count = kvc_measure_numbers(m, m->kv_heads, count, 0).buffer;
        reads.index = kvc_measure_put(m, index, all * sizeof *index).buffer;
    }
    free(index);
    return reads;
}

void kvc_measure_release(struct kvc_measure *m) {
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
