/* ref_fixture.h - shared by the tests of the reference operations: a device, a test's buffers, lists. */
#ifndef KVC_TESTS_BACKENDS_REF_FIXTURE_H
#define KVC_TESTS_BACKENDS_REF_FIXTURE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "core/base/backends.h"

static struct kvc_device *device;
#define OPS (device->ops)

static inline int open_ref(void **state) {
    (void)state;
    return kvc_backend_ref.open(NULL, 0, 1, KVC_MATH_EXACT, &device, NULL) == KVC_OK ? 0 : -1;
}
static inline int close_ref(void **state) {
    (void)state;
    device->ops->close(device);
    return 0;
}

static uint64_t random_state = 1;
static inline uint32_t draw(uint32_t below) { /* splitmix64 */
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 33) % below;
}
static inline float value(void) { return (float)((int)draw(20001) - 10000) / 5000.0f; }

/* The buffers of one test, which are freed at its end. */
static struct kvc_buffer *made[512];
static size_t made_count;

static inline struct kvc_span buffer(size_t bytes) {
    struct kvc_span span = {NULL, 0};
    assert_true(made_count < 512);
    assert_int_equal(OPS->buffer_create(device, KVC_MEMORY_SCRATCH, bytes, &span.buffer, NULL), KVC_OK);
    made[made_count++] = span.buffer;
    return span;
}
static inline struct kvc_span holding(const void *contents, size_t bytes) {
    struct kvc_span span = buffer(bytes);
    memcpy(kvc_span_data(span), contents, bytes);
    return span;
}
static inline struct kvc_span values(size_t n) {
    struct kvc_span span = buffer(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        ((float *)span.buffer->data)[i] = value();
    return span;
}
static inline float *floats(struct kvc_span span) { return kvc_span_data(span); }
static inline int end_test(void **state) {
    (void)state;
    assert_int_equal(OPS->sync(device, NULL), KVC_OK);
    while (made_count > 0)
        OPS->buffer_free(device, made[--made_count]);
    return 0;
}

static inline void assert_near(double a, double b, double tolerance) {
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
        fail_msg("%.9g is not %.9g", a, b);
}

enum { HEADS = 2, D = 8, SLOTS = 512 }; /* KV heads, head size, slots per head */

/* Creates lists with SLOTS slots per head and, if requested, an order array. */
static inline struct kvc_lists make_lists(enum kvc_type type, uint32_t columns, bool ordered,
                                          struct kvc_arena **arena) {
    static uint32_t base[HEADS + 1] = {0, SLOTS, 2 * SLOTS};
    uint32_t blocks[HEADS * SLOTS / KVC_BLOCK + HEADS] = {0};
    const struct kvc_entry_format format = kvc_entry_format(kvc_entry_types(type), D);
    struct kvc_lists lists = {.kv_heads = HEADS, .columns = columns, .format = format, .host_base = base};
    assert_int_equal(OPS->arena_create(device, &format, arena, NULL), KVC_OK);
    for (uint32_t h = 0; h < HEADS; h++)
        assert_int_equal(OPS->arena_take(device, *arena, SLOTS / KVC_BLOCK, blocks + kvc_first_block(base[h], h), NULL),
                         KVC_OK);
    lists.arena = *arena;
    lists.base = holding(base, sizeof base).buffer;
    lists.count = buffer(HEADS * 4).buffer;
    lists.blocks = holding(blocks, sizeof blocks).buffer;
    if (columns)
        lists.state = buffer((size_t)columns * HEADS * SLOTS * 4).buffer;
    if (ordered) {
        lists.order = buffer(HEADS * SLOTS * 4).buffer;
        lists.position = buffer(HEADS * SLOTS * 4).buffer;
        OPS->identity(device, &(struct kvc_identity){.lists = &lists});
    }
    return lists;
}

/* Appends rows at the positions first, first + 1, ...; k and v are [rows, HEADS, D]. */
static inline void append(struct kvc_lists *lists, uint32_t rows, int32_t first, struct kvc_span k, struct kvc_span v) {
    struct kvc_segment segment = {.lists = lists, .rows = rows, .stored = rows};
    struct kvc_span positions = buffer(rows * 4 + 4);
    for (uint32_t i = 0; i < rows; i++)
        ((int32_t *)kvc_span_data(positions))[i] = first + (int32_t)i;
    OPS->append(device,
                &(struct kvc_append){.segments = &segment, .segment_count = 1, .k = k, .v = v, .positions = positions});
}

static inline struct kvc_read_list indices(const uint32_t *first, uint32_t first_count, const uint32_t *second,
                                           uint32_t second_count) {
    uint32_t count[HEADS] = {first_count, second_count};
    struct kvc_read_list list = {holding(count, sizeof count).buffer, buffer(HEADS * SLOTS * 4).buffer, SLOTS};
    if (first_count)
        memcpy(list.index->data, first, first_count * 4);
    if (second_count)
        memcpy((uint32_t *)list.index->data + SLOTS, second, second_count * 4);
    return list;
}

static inline uint32_t count_of(const struct kvc_lists *lists, uint32_t h) {
    return ((const uint32_t *)lists->count->data)[h];
}
static inline int32_t position_of(const struct kvc_lists *lists, uint32_t h, uint32_t index) {
    return kvc_list_position(lists, h, kvc_list_slot(lists, h, index));
}

#endif
