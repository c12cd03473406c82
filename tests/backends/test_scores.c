/* test_scores.c - window_mass, window_moments, accumulate, ring_write and ring_fuse of every SIMD instruction set are
 * bit-identical to the reference. */
#include "tests/backends/pair.h"

static const uint32_t head_sizes[] = {8, 64, 80, 96, 128, 256};
static const uint32_t groups[] = {1, 3, 4, 7, 8};
static const uint32_t entries[] = {0, 1, 31, 255, 256, 257, 511, 512, 513, 1000};
static const enum kvc_row_kind kinds[] = {KVC_ROW_PROBABILITIES, KVC_ROW_LOGITS, KVC_ROW_LOW, KVC_ROW_COUNTS};
static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};

static struct lists_shape draw(struct pair *pair, uint32_t columns) {
    struct lists_shape shape = {.kv_heads = 1 + below(pair, 3), .columns = columns, .permuted = below(pair, 2)};
    shape.head_size = below(pair, 8) ? head_sizes[below(pair, COUNT(head_sizes))] : 1 + below(pair, 256);
    shape.type = types[below(pair, 3)];
    shape.values = below(pair, 3) ? ORDINARY : below(pair, 2) ? WIDE : below(pair, 2) ? NASTY : BROKEN;
    for (uint32_t h = 0; h < shape.kv_heads; h++) {
        shape.count[h] = entries[below(pair, COUNT(entries))];
        shape.extra_slot[h] = below(pair, 2) * 300;
    }
    return shape;
}

/* The slots in use are the first ones, as after many steps that evict one entry and append one. */
static void make_dense(struct pair *pair, struct both_lists *lists, const struct lists_shape *shape) {
    for (uint32_t h = 0; h < shape->kv_heads; h++) {
        const uint32_t base = lists->on[REF].host_base[h], slots = lists->on[REF].host_base[h + 1] - base;
        uint32_t *order = (uint32_t *)lists->order.on[REF]->data + base;
        int32_t *position = (int32_t *)lists->position.on[REF]->data + base;
        for (uint32_t i = 0; i < slots; i++)
            order[i] = i;
        shuffle(pair, order, shape->count[h]);
        for (uint32_t i = 0; i < slots; i++)
            position[order[i]] = (int32_t)i + 5;
    }
    memcpy(lists->order.on[PATH]->data, lists->order.on[REF]->data, lists->order.bytes);
    memcpy(lists->position.on[PATH]->data, lists->position.on[REF]->data, lists->position.bytes);
}

struct rows_case {
    struct lists_shape shape;
    struct both_lists *lists;
    struct both_reads reads;
    struct both q, maximum, sum, positions, causal_offset;
    uint32_t group, queries, window, read_percent;
    bool by_position; /* without causal offsets */
};

/* Queries with M and L close to attention's results, or with arbitrary values. */
static struct rows_case make_case(struct pair *pair, uint32_t columns, uint32_t queries) {
    struct rows_case c = {
        .shape = draw(pair, columns), .group = groups[below(pair, COUNT(groups))], .queries = queries};
    const size_t cells = (size_t)queries * c.shape.kv_heads * c.group;
    c.lists = lists_make(pair, &c.shape);
    if (c.shape.permuted && below(pair, 2))
        make_dense(pair, c.lists, &c.shape);
    c.q = both_floats(pair, cells * c.shape.head_size, c.shape.values);
    c.maximum = both_floats(pair, cells, c.shape.values);
    c.sum = both_floats(pair, cells, ORDINARY);
    c.positions = both_make(pair, queries * 4);
    c.causal_offset = both_make(pair, queries * 4);
    c.window = below(pair, 4) ? 0 : 1 + below(pair, 600);
    c.read_percent = below(pair, 5) ? 0 : 50;
    if (c.read_percent)
        c.reads = reads_make(pair, &c.shape, c.read_percent);
    c.by_position = below(pair, 3) == 0;
    const uint32_t first = below(pair, 2) ? c.shape.count[0] : below(pair, 1400);
    for (uint32_t i = 0; i < queries; i++) {
        ((int32_t *)c.positions.on[REF]->data)[i] = (int32_t)(first + i);
        ((uint32_t *)c.causal_offset.on[REF]->data)[i] = queries == 1 && below(pair, 2) ? 0 : queries - 1 - i;
    }
    memcpy(c.positions.on[PATH]->data, c.positions.on[REF]->data, c.positions.bytes);
    memcpy(c.causal_offset.on[PATH]->data, c.causal_offset.on[REF]->data, c.causal_offset.bytes);
    return c;
}

static struct kvc_probabilities rows_of(const struct rows_case *c, int s) {
    return (struct kvc_probabilities){.lists = &c->lists->on[s],
                                      .reads = c->read_percent ? &c->reads.on[s] : NULL,
                                      .queries = c->queries,
                                      .heads = c->shape.kv_heads * c->group,
                                      .kv_heads = c->shape.kv_heads,
                                      .head_size = c->shape.head_size,
                                      .window = c->window,
                                      .q = span_of(&c->q, s),
                                      .maximum = span_of(&c->maximum, s),
                                      .sum = span_of(&c->sum, s),
                                      .positions = span_of(&c->positions, s),
                                      .causal_offset =
                                          c->by_position ? (struct kvc_span){NULL, 0} : span_of(&c->causal_offset, s)};
}

static void free_case(struct pair *pair, struct rows_case *c) {
    lists_free(pair, c->lists);
    if (c->read_percent)
        reads_free(pair, &c->reads);
    both_free(pair, &c->q);
    both_free(pair, &c->maximum);
    both_free(pair, &c->sum);
    both_free(pair, &c->positions);
    both_free(pair, &c->causal_offset);
}

static void check_window_mass(struct pair *pair) {
    struct rows_case c = make_case(pair, 0, below(pair, 3) ? 1 + below(pair, 33) : 1);
    const uint32_t stride = 1000 + below(pair, 50);
    const bool by_head = below(pair, 2);
    struct both scores = both_floats(pair, (size_t)stride * c.shape.kv_heads * c.group, ORDINARY);
    for (int s = 0; s < SIDES; s++) {
        const struct kvc_probabilities rows = rows_of(&c, s);
        pair->device[s]->ops->window_mass(pair->device[s], &(struct kvc_window_mass){.probabilities = &rows,
                                                                                     .scores = span_of(&scores, s),
                                                                                     .stride = stride,
                                                                                     .by_head = by_head});
    }
    SAME_FLOATS(pair, &scores, "window_mass: queries %u, G %u, d %u, entries %u, read %u%%, by head %d, by position %d",
                c.queries, c.group, c.shape.head_size, c.shape.count[0], c.read_percent, by_head, c.by_position);
    both_free(pair, &scores);
    free_case(pair, &c);
}

static void check_window_moments(struct pair *pair) {
    struct rows_case c = make_case(pair, 0, below(pair, 3) ? 1 + below(pair, 33) : 1);
    const uint32_t stride = 1000 + below(pair, 50);
    const uint64_t tail = below(pair, 4) ? below(pair, 40) : below(pair, 1100);
    const float gamma = below(pair, 3) ? 200.0f : 0.0f;
    struct both scores = both_floats(pair, (size_t)stride * c.shape.kv_heads * c.group, ORDINARY);
    struct both totals = both_floats(pair, 2 * (size_t)c.shape.kv_heads * c.group, ORDINARY);
    for (int s = 0; s < SIDES; s++) {
        const struct kvc_probabilities rows = rows_of(&c, s);
        pair->device[s]->ops->window_moments(pair->device[s],
                                             &(struct kvc_window_moments){.probabilities = &rows,
                                                                          .tail = tail,
                                                                          .gamma = gamma,
                                                                          .scores = span_of(&scores, s),
                                                                          .stride = stride,
                                                                          .totals = span_of(&totals, s)});
    }
    SAME_FLOATS(pair, &scores, "window_moments: queries %u, G %u, d %u, entries %u, read %u%%, tail %u", c.queries,
                c.group, c.shape.head_size, c.shape.count[0], c.read_percent, (unsigned)tail);
    SAME_FLOATS(pair, &totals, "totals of window_moments: queries %u, G %u, entries %u, read %u%%, tail %u", c.queries,
                c.group, c.shape.count[0], c.read_percent, (unsigned)tail);
    both_free(pair, &scores);
    both_free(pair, &totals);
    free_case(pair, &c);
}

static void check_accumulate(struct pair *pair) {
    const uint32_t queries = below(pair, 4) ? below(pair, 5) ? 1 + below(pair, 40) : 1 + below(pair, 600) : 1;
    const uint32_t column = below(pair, 3);
    struct rows_case c = make_case(pair, column + 2 + below(pair, 2), queries);
    const bool noisy = below(pair, 2);
    const struct kvc_noise noise = {below(pair, 2) ? 0 : 0x0123456789abcdefu * chance(pair), below(pair, 80),
                                    below(pair, 8), below(pair, 3) ? 1.0f + (float)below(pair, 100) / 64.0f : 0.03125f};
    for (int s = 0; s < SIDES; s++) {
        struct kvc_probabilities rows = rows_of(&c, s);
        if (noisy)
            rows.maximum.buffer = rows.sum.buffer = NULL;
        pair->device[s]->ops->accumulate(
            pair->device[s],
            &(struct kvc_accumulate){.probabilities = &rows, .column = column, .noise = noisy ? &noise : NULL});
    }
    char what[120];
    snprintf(what, sizeof what, "accumulate: queries %u, G %u, d %u, entries %u, read %u%%, window %u, noise %d",
             queries, c.group, c.shape.head_size, c.shape.count[0], c.read_percent, c.window, noisy);
    same_lists(pair, c.lists, what);
    free_case(pair, &c);
}

static void check_ring(struct pair *pair) {
    const uint32_t ring = 1 + below(pair, 33), queries = below(pair, 2) ? 1 : 1 + below(pair, ring);
    const uint32_t first = below(pair, 2) ? 0 : below(pair, 9);
    struct rows_case c = make_case(pair, first + 2 * ring + 1 + below(pair, 2), queries);
    const enum kvc_row_kind kind = kinds[below(pair, COUNT(kinds))];
    const enum kvc_fusion fusion = below(pair, 2) ? KVC_FUSE_SUM : KVC_FUSE_MAX;
    const uint32_t stride = 1000 + below(pair, 50), filled = below(pair, 8) ? ring : below(pair, ring + 1);
    const int64_t now = (int64_t)ring + below(pair, 1000), recent = (int64_t)below(pair, 1400) - 100;
    struct both scores = both_floats(pair, (size_t)stride * c.shape.kv_heads, ORDINARY);
    for (int s = 0; s < SIDES; s++) {
        const struct kvc_probabilities rows = rows_of(&c, s);
        pair->device[s]->ops->ring_write(
            pair->device[s],
            &(struct kvc_ring_write){.probabilities = &rows, .first = first, .ring = ring, .kind = kind});
    }
    same_lists(pair, c.lists, "ring_write");
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->ring_fuse(pair->device[s], &(struct kvc_ring_fuse){.lists = &c.lists->on[s],
                                                                                 .first = first,
                                                                                 .ring = ring,
                                                                                 .filled = filled,
                                                                                 .now = now,
                                                                                 .kind = kind,
                                                                                 .fusion = fusion,
                                                                                 .recent = recent,
                                                                                 .scores = span_of(&scores, s),
                                                                                 .stride = stride});
    SAME_FLOATS(pair, &scores, "ring_fuse: ring %u, filled %u, now %lld, recent %lld, entries %u, kind %d, fusion %d",
                ring, filled, (long long)now, (long long)recent, c.shape.count[0], (int)kind, (int)fusion);
    both_free(pair, &scores);
    free_case(pair, &c);
}

static void attend(struct pair *pair, const struct rows_case *c, struct both *out) {
    for (int s = 0; s < SIDES; s++) {
        const struct kvc_segment segment = {&c->lists->on[s], NULL, 0, 1, 1, NULL};
        const struct kvc_attention call = {.segments = &segment,
                                           .segment_count = 1,
                                           .heads = c->shape.kv_heads * c->group,
                                           .kv_heads = c->shape.kv_heads,
                                           .head_size = c->shape.head_size,
                                           .window = c->window,
                                           .q = span_of(&c->q, s),
                                           .out = span_of(out, s),
                                           .maximum = span_of(&c->maximum, s),
                                           .sum = span_of(&c->sum, s),
                                           .positions = span_of(&c->positions, s),
                                           .causal_offset = span_of(&c->causal_offset, s)};
        pair->device[s]->ops->attention(pair->device[s], &call);
    }
}

static void write_ring(struct pair *pair, const struct rows_case *c, const char *when) {
    const enum kvc_row_kind kind = kinds[below(pair, COUNT(kinds))];
    for (int s = 0; s < SIDES; s++) {
        const struct kvc_probabilities rows = rows_of(c, s);
        pair->device[s]->ops->ring_write(
            pair->device[s], &(struct kvc_ring_write){.probabilities = &rows, .first = 0, .ring = 4, .kind = kind});
    }
    same_lists(pair, c->lists, when);
}

/* In a decode step, results of attention may be used again, but only while they are still correct. */
static void check_after_attention(struct pair *pair) {
    struct rows_case c = make_case(pair, 9, 1);
    struct both out = both_floats(pair, c.q.bytes / 4, ORDINARY);
    const uint32_t d = c.shape.head_size;
    for (int s = 0; s < SIDES; s++) /* above every other position, like the newest token's */
        *(int32_t *)c.positions.on[s]->data = 4000;
    attend(pair, &c, &out);
    write_ring(pair, &c, "ring_write after attention");
    const uint32_t change = below(pair, c.shape.permuted ? 5 : 3);
    struct both_reads kept = reads_make(pair, &c.shape, 90);
    struct both k = both_floats(pair, (size_t)c.shape.kv_heads * d, c.shape.values);
    bool capacity = true;
    for (uint32_t h = 0; h < c.shape.kv_heads; h++)
        capacity = capacity && c.shape.count[h] % KVC_TILE != 0;
    for (int s = 0; s < SIDES; s++) {
        struct kvc_device *device = pair->device[s];
        const struct kvc_segment segment = {&c.lists->on[s], NULL, 0, 1, 1, NULL};
        if (change == 0) { /* another query at the same position */
            float *q = c.q.on[s]->data;
            q[c.q.bytes / 4 - 1] = 0.25f;
        } else if (change == 1) { /* one entry is evicted and another gets its slot */
            device->ops->drop(device, &(struct kvc_drop){.lists = &c.lists->on[s], .rows = 1});
            if (capacity)
                device->ops->append(device, &(struct kvc_append){.segments = &segment,
                                                                 .segment_count = 1,
                                                                 .k = span_of(&k, s),
                                                                 .v = span_of(&k, s),
                                                                 .positions = span_of(&c.positions, s)});
        } else if (change == 3) {
            device->ops->evict(device, &(struct kvc_evict){.lists = &c.lists->on[s], .kept = &kept.on[s]});
        } else if (change == 4) {
            device->ops->identity(device, &(struct kvc_identity){.lists = &c.lists->on[s]});
        }
    }
    char what[120];
    snprintf(what, sizeof what, "ring_write after change %u, d %u, G %u, entries %u, read %u%%, window %u", change, d,
             c.group, c.shape.count[0], c.read_percent, c.window);
    write_ring(pair, &c, what);
    reads_free(pair, &kept);
    both_free(pair, &k);
    both_free(pair, &out);
    free_case(pair, &c);
}

static void test_after_attention(void **state) {
    (void)state;
    on_all(check_after_attention, 40);
}
static void test_window_mass(void **state) {
    (void)state;
    on_all(check_window_mass, 20);
}
static void test_window_moments(void **state) {
    (void)state;
    on_all(check_window_moments, 20);
}
static void test_accumulate(void **state) {
    (void)state;
    on_all(check_accumulate, 25);
}
static void test_ring(void **state) {
    (void)state;
    on_all(check_ring, 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window_mass), cmocka_unit_test(test_window_moments),  cmocka_unit_test(test_accumulate),
        cmocka_unit_test(test_ring),        cmocka_unit_test(test_after_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
