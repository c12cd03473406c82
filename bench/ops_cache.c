/* ops_cache.c - measures the operations on cache entries: 8 KV heads of 4096 entries. If an operation changes its
 * input, a copy restores the counts or lists before each call, and the measured time includes this copy. */
#include "bench/measure.h"
#include "core/base/types.h"

enum { COUNTS = MEASURE_KV_HEADS * 4, ALL = MEASURE_KV_HEADS * MEASURE_ENTRIES };

static struct kvc_span measure_cache_whole(struct kvc_buffer *buffer) { return (struct kvc_span){buffer, 0}; }

KVC_MEASURE(append, 3, variant) {
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    const uint32_t rows = MEASURE_ROWS, n = rows * MEASURE_KV_HEADS * MEASURE_HEAD_SIZE;
    struct kvc_lists *lists = kvc_measure_lists(m, types[variant], MEASURE_ENTRIES, 0, 0, true);
    const struct kvc_span k = kvc_measure_values(m, n), positions = kvc_measure_numbers(m, rows, 0, 1);
    const struct kvc_span empty = kvc_measure_space(m, COUNTS);
    const struct kvc_segment segment = {.lists = lists, .rows = rows, .stored = rows};
    if (m->status == KVC_OK)
        m->ops->identity(m->device, &(struct kvc_identity){.lists = lists});
    kvc_measure_counts(m, 2ull * n * 4 + (uint64_t)rows * MEASURE_KV_HEADS * kvc_entry_bytes(&lists->format), 0,
                       "%s, %u rows", kvc_type_name(types[variant]), (unsigned)rows);
    m->row.calls = 2;
    while (kvc_measure_again(m)) {
        m->ops->copy(m->device, measure_cache_whole(lists->count), empty, COUNTS);
        m->ops->append(
            m->device,
            &(struct kvc_append){.segments = &segment, .segment_count = 1, .k = k, .v = k, .positions = positions});
    }
}

KVC_MEASURE(drop, 1, variant) {
    struct kvc_lists *lists = kvc_measure_lists(m, KVC_F16, MEASURE_ENTRIES, MEASURE_ENTRIES, 0, true);
    (void)variant;
    kvc_measure_counts(m, 2 * COUNTS, 0, "0 rows");
    while (kvc_measure_again(m))
        m->ops->drop(m->device, &(struct kvc_drop){.lists = lists, .rows = 0});
}

/* Attention of one row of a decode step (to all entries or to some of them), and of the rows of a chunk. */
KVC_MEASURE(attention, 5, variant) {
    static const struct {
        enum kvc_type type;
        uint32_t rows, read;
    } cases[] = {{KVC_F32, 1, 0}, {KVC_F16, 1, 0}, {KVC_Q8_0, 1, 0}, {KVC_F16, 1, 512}, {KVC_F16, 32, 0}};
    const enum kvc_type type = cases[variant].type;
    const uint32_t rows = cases[variant].rows, n = cases[variant].read ? cases[variant].read : MEASURE_ENTRIES;
    const size_t values = (size_t)rows * MEASURE_HEADS * MEASURE_HEAD_SIZE;
    struct kvc_lists *lists = kvc_measure_lists(m, type, MEASURE_ENTRIES, MEASURE_ENTRIES, 0, false);
    const struct kvc_read_list reads = kvc_measure_reads(m, n, MEASURE_ENTRIES);
    const struct kvc_segment segment = {
        .lists = lists, .reads = cases[variant].read ? &reads : NULL, .rows = rows, .stored = rows};
    struct kvc_attention a = kvc_measure_make_attention(m, &segment, MEASURE_HEADS, MEASURE_ENTRIES);
    a.maximum = a.sum = (struct kvc_span){NULL, 0};
    kvc_measure_counts(m, (uint64_t)n * MEASURE_KV_HEADS * kvc_entry_bytes(&lists->format) + 2 * values * 4,
                       (uint64_t)rows * MEASURE_HEADS * n * (4 * MEASURE_HEAD_SIZE + MEASURE_EXP),
                       "%s, %u row%s, %u entries", kvc_type_name(type), (unsigned)rows, rows == 1 ? "" : "s",
                       (unsigned)n);
    while (kvc_measure_again(m))
        m->ops->attention(m->device, &a);
}

KVC_MEASURE(identity, 1, variant) {
    struct kvc_lists *lists = kvc_measure_lists(m, KVC_F16, MEASURE_ENTRIES, MEASURE_ENTRIES, 0, true);
    (void)variant;
    kvc_measure_counts(m, 2ull * ALL * 4, 0, "%d entries", MEASURE_ENTRIES);
    while (kvc_measure_again(m))
        m->ops->identity(m->device, &(struct kvc_identity){.lists = lists});
}

KVC_MEASURE(evict, 1, variant) {
    struct kvc_lists *lists = kvc_measure_lists(m, KVC_F16, MEASURE_ENTRIES, MEASURE_ENTRIES, 0, true);
    const struct kvc_read_list kept = kvc_measure_reads(m, MEASURE_ENTRIES / 4, MEASURE_ENTRIES);
    const struct kvc_span count = kvc_measure_numbers(m, MEASURE_KV_HEADS, MEASURE_ENTRIES, 0);
    const struct kvc_span order = kvc_measure_space(m, ALL * 4);
    (void)variant;
    if (m->status == KVC_OK)
        m->ops->copy(m->device, order, measure_cache_whole(lists->order), ALL * 4);
    kvc_measure_counts(m, 4ull * ALL * 4 + ALL, 0, "%d of %d entries", MEASURE_ENTRIES / 4, MEASURE_ENTRIES);
    m->row.calls = 3;
    while (kvc_measure_again(m)) {
        m->ops->copy(m->device, measure_cache_whole(lists->count), count, COUNTS);
        m->ops->copy(m->device, measure_cache_whole(lists->order), order, ALL * 4);
        m->ops->evict(m->device, &(struct kvc_evict){.lists = lists, .kept = &kept});
    }
}

KVC_MEASURE(keep_keys, 1, variant) {
    const uint32_t rows = MEASURE_ROWS, n = rows * MEASURE_KV_HEADS * MEASURE_HEAD_SIZE;
    struct kvc_lists *lists = kvc_measure_lists(m, KVC_F16, MEASURE_ENTRIES, MEASURE_ENTRIES, MEASURE_HEAD_SIZE, true);
    const struct kvc_span k = kvc_measure_values(m, n);
    (void)variant;
    kvc_measure_counts(m, 2ull * n * 4, 0, "%u rows", (unsigned)rows);
    while (kvc_measure_again(m))
        m->ops->keep_keys(m->device, &(struct kvc_keep_keys){
                                         .lists = lists, .first = 0, .k = k, .rows = rows, .width = MEASURE_HEAD_SIZE});
}

KVC_MEASURE(rotate_keys, 1, variant) {
    const uint64_t n = (uint64_t)ALL * MEASURE_HEAD_SIZE;
    const size_t angles = (size_t)MEASURE_ENTRIES * MEASURE_HEAD_SIZE / 2;
    struct kvc_lists *lists = kvc_measure_lists(m, KVC_F16, MEASURE_ENTRIES, MEASURE_ENTRIES, MEASURE_HEAD_SIZE, true);
    const struct kvc_span cosine = kvc_measure_values(m, angles), sine = kvc_measure_values(m, angles);
    (void)variant;
    kvc_measure_counts(m, n * 6 + 2 * angles * 4, 3 * n, "f16, %d entries", MEASURE_ENTRIES);
    while (kvc_measure_again(m))
        m->ops->rotate_keys(m->device, &(struct kvc_rotate_keys){.lists = lists,
                                                                 .first = 0,
                                                                 .cosine = cosine,
                                                                 .sine = sine,
                                                                 .rotary = MEASURE_HEAD_SIZE,
                                                                 .interleaved = false});
}

/* Moves lists to a quarter of their slots after an eviction. Three quarters of the kept entries must be moved. */
KVC_MEASURE(relayout, 1, variant) {
    const uint32_t left = MEASURE_ENTRIES / 4;
    struct kvc_lists *from = kvc_measure_lists(m, KVC_F16, MEASURE_ENTRIES, MEASURE_ENTRIES, 2, true);
    const struct kvc_read_list kept = kvc_measure_reads(m, left, MEASURE_ENTRIES);
    struct kvc_lists *to = kvc_measure_lists(m, KVC_F16, left, 0, 2, true);
    struct kvc_lists into = *to;
    (void)variant;
    into.arena = from->arena;
    if (m->status == KVC_OK)
        m->ops->evict(m->device, &(struct kvc_evict){.lists = from, .kept = &kept});
    kvc_measure_counts(m, 2ull * left * MEASURE_KV_HEADS * (3 * from->format.key.bytes / 2 + 16), 0,
                       "%u entries into %u slots", (unsigned)left, (unsigned)left);
    while (kvc_measure_again(m))
        m->ops->relayout(m->device, &(struct kvc_relayout){.dst = &into, .src = from});
}

KVC_MEASURE(entries, 1, variant) {
    const size_t n = (size_t)MEASURE_ENTRIES * MEASURE_HEAD_SIZE;
    struct kvc_lists *lists = kvc_measure_lists(m, KVC_F16, MEASURE_ENTRIES, MEASURE_ENTRIES, 0, true);
    const struct kvc_span keys = kvc_measure_space(m, n * 4), values = kvc_measure_space(m, n * 4);
    (void)variant;
    kvc_measure_counts(m, 2 * n * 4 + 2 * n * 2, 0, "f16, %d entries of one head", MEASURE_ENTRIES);
    while (kvc_measure_again(m))
        m->ops->entries(m->device, &(struct kvc_entries){.lists = lists, .head = 1, .keys = keys, .values = values});
}
