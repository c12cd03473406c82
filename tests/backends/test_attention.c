/* test_attention.c - attention of every SIMD instruction set is bit-identical to the reference: odd sizes, ragged and
 * permuted lists, read lists, sliding windows, masked tails, several segments, adversarial values, one to three
 * threads. */
#include "tests/backends/pair.h"

struct attention_case {
    uint32_t group, rows;
    struct lists_shape shape;
    uint32_t window, hidden_most,
        read_percent; /* Each causal offset is a random number below hidden_most, plus the rows' causal part. */
    bool causal, wants_sums;
    uint32_t segments;
};

static void check_attention(struct pair *pair, const struct attention_case *c) {
    const uint32_t H = c->shape.kv_heads * c->group, d = c->shape.head_size, batch = c->rows * c->segments;
    struct both q = both_floats(pair, (size_t)batch * H * d, c->shape.values);
    struct both out = both_floats(pair, (size_t)batch * H * d, ORDINARY);
    struct both maximum = both_floats(pair, (size_t)batch * H, ORDINARY);
    struct both sum = both_floats(pair, (size_t)batch * H, ORDINARY);
    struct both positions = both_make(pair, batch * 4), causal_offset = both_make(pair, batch * 4);
    struct both_lists *lists[4];
    struct both_reads reads[4];
    uint64_t read[SIDES][4] = {{0}};
    char what[200];
    snprintf(what, sizeof what,
             "d %u, G %u, type %d, entries %u %u, rows %u, window %u, read %u%%, permuted %d, segments %u", d, c->group,
             (int)c->shape.type, c->shape.count[0], c->shape.count[1], c->rows, c->window, c->read_percent,
             c->shape.permuted, c->segments);
    for (uint32_t i = 0; i < c->segments; i++) {
        lists[i] = lists_make(pair, &c->shape);
        if (c->read_percent)
            reads[i] = reads_make(pair, &c->shape, c->read_percent);
        for (uint32_t r = 0; r < c->rows; r++) {
            const uint32_t row = i * c->rows + r;
            ((uint32_t *)causal_offset.on[REF]->data)[row] =
                (c->causal ? c->rows - 1 - r : 0) + (c->hidden_most ? below(pair, c->hidden_most) : 0);
            ((int32_t *)positions.on[REF]->data)[row] = (int32_t)(c->shape.count[0] + r);
        }
    }
    memcpy(causal_offset.on[PATH]->data, causal_offset.on[REF]->data, causal_offset.bytes);
    memcpy(positions.on[PATH]->data, positions.on[REF]->data, positions.bytes);
    for (int s = 0; s < SIDES; s++) {
        struct kvc_segment segments[4];
        for (uint32_t i = 0; i < c->segments; i++)
            segments[i] = (struct kvc_segment){
                &lists[i]->on[s], c->read_percent ? &reads[i].on[s] : NULL, i * c->rows, c->rows, c->rows, &read[s][i]};
        const struct kvc_attention call = {.segments = segments,
                                           .segment_count = c->segments,
                                           .heads = H,
                                           .kv_heads = c->shape.kv_heads,
                                           .head_size = d,
                                           .window = c->window,
                                           .q = span_of(&q, s),
                                           .out = span_of(&out, s),
                                           .maximum = {c->wants_sums ? maximum.on[s] : NULL, 0},
                                           .sum = {c->wants_sums ? sum.on[s] : NULL, 0},
                                           .positions = span_of(&positions, s),
                                           .causal_offset = span_of(&causal_offset, s)};
        pair->device[s]->ops->attention(pair->device[s], &call);
    }
    SAME_FLOATS(pair, &out, "%s: out", what);
    SAME_FLOATS(pair, &maximum, "%s: M", what);
    SAME_FLOATS(pair, &sum, "%s: L", what);
    for (uint32_t i = 0; i < c->segments; i++) {
        if (read[REF][i] != read[PATH][i])
            fail_msg("%s: %s: %llu bytes read, ref %llu", pair->name, what, (unsigned long long)read[PATH][i],
                     (unsigned long long)read[REF][i]);
        lists_free(pair, lists[i]);
        if (c->read_percent)
            reads_free(pair, &reads[i]);
    }
    both_free(pair, &q);
    both_free(pair, &out);
    both_free(pair, &maximum);
    both_free(pair, &sum);
    both_free(pair, &positions);
    both_free(pair, &causal_offset);
}

static const uint32_t head_sizes[] = {8, 64, 80, 96, 128, 256};
static const uint32_t groups[] = {1, 4, 7, 8};
static const uint32_t entries[] = {0, 1, 2, 31, 255, 256, 257, 511, 512, 513, 1000};
static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};

/* Draws a random case; every property comes from its own list. */
static struct attention_case draw(struct pair *pair) {
    struct attention_case c = {.group = groups[below(pair, COUNT(groups))], .rows = 1, .segments = 1};
    c.shape.kv_heads = 1 + below(pair, 3);
    c.shape.head_size = below(pair, 8) ? head_sizes[below(pair, COUNT(head_sizes))] : 1 + below(pair, 256);
    c.shape.type = types[below(pair, 3)];
    c.shape.permuted = below(pair, 2);
    c.shape.values = below(pair, 3) ? ORDINARY : below(pair, 2) ? WIDE : below(pair, 3) ? NASTY : BROKEN;
    for (uint32_t h = 0; h < c.shape.kv_heads; h++) {
        c.shape.count[h] = entries[below(pair, COUNT(entries))];
        c.shape.extra_slot[h] = below(pair, 2) * 300;
    }
    if (below(pair, 2))
        for (uint32_t h = 1; h < c.shape.kv_heads; h++)
            c.shape.count[h] = c.shape.count[0];
    c.wants_sums = below(pair, 2);
    c.window = below(pair, 3) ? 0 : 1 + below(pair, 700);
    c.hidden_most = below(pair, 3) ? 0 : 300;
    return c;
}

static void one_row(struct pair *pair) {
    struct attention_case c = draw(pair);
    c.read_percent = below(pair, 3) ? 0 : 1 + below(pair, 100);
    c.segments = 1 + below(pair, 3) / 2 * below(pair, 4);
    check_attention(pair, &c);
}

static void gemm_rows(struct pair *pair) {
    struct attention_case c = draw(pair);
    c.rows = 1 + below(pair, 70);
    c.causal = below(pair, 4);
    if (c.shape.head_size > 128 && c.rows > 20)
        c.rows = 20;
    check_attention(pair, &c);
}

static void test_one_row(void **state) {
    (void)state;
    on_all(one_row, 60);
}

static void test_many_rows(void **state) {
    (void)state;
    on_all(gemm_rows, 25);
}

/* Enough work that threads are used, and so few units of work that tiles are distributed among threads. */
static void large(struct pair *pair) {
    struct attention_case c = {.group = 4, .rows = 1, .segments = 1, .wants_sums = true};
    c.shape = (struct lists_shape){.kv_heads = 1, .head_size = 128, .type = KVC_F16, .count = {6000}};
    check_attention(pair, &c);
    c.rows = 24;
    c.causal = true;
    c.shape.count[0] = 3000;
    check_attention(pair, &c);
}

static void test_large(void **state) {
    (void)state;
    on_all(large, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_row),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
