/* test_cache.c - append, drop, identity, evict, relayout and eviction by scores of every SIMD instruction set against
 * the reference. */
#include "tests/backends/pair.h"

static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
static const uint32_t entries[] = {0, 1, 2, 15, 17, 255, 256, 257, 511, 513, 1000, 1025};

static struct lists_shape draw(struct pair *pair, bool permuted) {
    static const uint32_t sizes[] = {8, 64, 80, 96, 128, 256};
    struct lists_shape shape = {.kv_heads = 1 + below(pair, 3), .permuted = permuted};
    shape.head_size = below(pair, 6) ? sizes[below(pair, COUNT(sizes))] / (1 + below(pair, 2)) : 1 + below(pair, 256);
    shape.columns = below(pair, 2) * (1 + below(pair, 5));
    shape.type = types[below(pair, 3)];
    shape.values = below(pair, 2) ? ORDINARY : below(pair, 2) ? NASTY : BROKEN;
    for (uint32_t h = 0; h < shape.kv_heads; h++) {
        shape.count[h] = entries[below(pair, COUNT(entries))];
        shape.extra_slot[h] = below(pair, 2) * below(pair, 600);
    }
    return shape;
}

static void check_append(struct pair *pair) {
    struct lists_shape shape = draw(pair, below(pair, 2));
    const uint32_t parts = 1 + below(pair, 3), stored = 1 + below(pair, 40), probes = below(pair, 3);
    const uint32_t batch = parts * (stored + probes), d = shape.head_size;
    struct both_lists *lists[3];
    shape.kv_heads = 2;
    for (uint32_t h = 0; h < 2; h++)
        shape.extra_slot[h] = stored;
    struct both k = both_floats(pair, (size_t)batch * 2 * d, shape.values);
    struct both v = both_floats(pair, (size_t)batch * 2 * d, below(pair, 2) ? WIDE : shape.values);
    struct both positions = both_floats(pair, batch, ORDINARY);
    if (below(pair, 2)) /* values near the limits of F16, or beyond them */
        for (size_t i = 0; i < (size_t)batch * 2 * d; i++) {
            static const float edge[] = {65504.0f, 65519.99f, 65520.0f, -70000.0f, 1e30f, 5.9e-8f, -2e-8f, 8.5e6f};
            float *x = k.on[REF]->data;
            if (below(pair, 9) == 0)
                x[i] = edge[below(pair, COUNT(edge))];
            ((float *)k.on[PATH]->data)[i] = x[i];
        }
    for (uint32_t i = 0; i < parts; i++)
        lists[i] = lists_make(pair, &shape);
    for (int s = 0; s < SIDES; s++) {
        struct kvc_segment segments[3];
        for (uint32_t i = 0; i < parts; i++)
            segments[i] =
                (struct kvc_segment){&lists[i]->on[s], NULL, i * (stored + probes), stored + probes, stored, NULL};
        pair->device[s]->ops->append(pair->device[s], &(struct kvc_append){.segments = segments,
                                                                           .segment_count = parts,
                                                                           .k = span_of(&k, s),
                                                                           .v = span_of(&v, s),
                                                                           .positions = span_of(&positions, s)});
    }
    for (uint32_t i = 0; i < parts; i++)
        same_lists(pair, lists[i], "append");
    if (pair->device[REF]->saturated != pair->device[PATH]->saturated)
        fail_msg("%s: append: %llu values saturated, ref has %llu", pair->name,
                 (unsigned long long)pair->device[PATH]->saturated, (unsigned long long)pair->device[REF]->saturated);
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->drop(pair->device[s], &(struct kvc_drop){.lists = &lists[0]->on[s], .rows = 3});
    same_lists(pair, lists[0], "drop");
    for (uint32_t i = 0; i < parts; i++)
        lists_free(pair, lists[i]);
    both_free(pair, &k);
    both_free(pair, &v);
    both_free(pair, &positions);
}

static void check_evict(struct pair *pair) {
    const struct lists_shape shape = draw(pair, true);
    struct both_lists *lists = lists_make(pair, &shape);
    const uint32_t how = below(pair, 4);
    struct both_reads kept = reads_make(pair, &shape, how == 0 ? 50 : how == 1 ? 3 : how == 2 ? 99 : 100);
    if (how == 3) /* all but one */
        for (uint32_t h = 0; h < shape.kv_heads; h++)
            if (shape.count[h]) {
                const uint32_t gone = below(pair, shape.count[h]);
                for (int s = 0; s < SIDES; s++) {
                    uint32_t *index = (uint32_t *)kept.index.on[s]->data + (size_t)h * kept.on[s].stride;
                    memmove(index + gone, index + gone + 1, (shape.count[h] - gone - 1) * sizeof *index);
                    ((uint32_t *)kept.count.on[s]->data)[h]--;
                }
            }
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->evict(pair->device[s], &(struct kvc_evict){.lists = &lists->on[s], .kept = &kept.on[s]});
    same_lists(pair, lists, "evict");
    reads_free(pair, &kept);
    lists_free(pair, lists);
}

static void check_identity(struct pair *pair) {
    const struct lists_shape shape = draw(pair, true);
    struct both_lists *lists = lists_make(pair, &shape);
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->identity(pair->device[s], &(struct kvc_identity){.lists = &lists->on[s]});
    same_lists(pair, lists, "identity");
    lists_free(pair, lists);
}

/* Copies entries into lists with more or fewer slots per head, in the same arena. */
static void check_relayout(struct pair *pair) {
    const struct lists_shape shape = draw(pair, below(pair, 2));
    struct lists_shape other = shape;
    struct both_lists *src = lists_make(pair, &shape), *dst;
    other.permuted = shape.permuted || below(pair, 2);
    if (below(pair, 4) == 0)
        other.columns = 0;
    for (uint32_t h = 0; h < shape.kv_heads; h++)
        other.extra_slot[h] = below(pair, 2) * below(pair, 900);
    dst = lists_make_beside(pair, &other, src);
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->relayout(pair->device[s], &(struct kvc_relayout){.dst = &dst->on[s], .src = &src->on[s]});
    SAME_WORDS(pair, &dst->blocks, "relayout: blocks");
    same_lists(pair, dst, "relayout");
    lists_free(pair, dst);
    lists_free(pair, src);
}

static void check_pool(struct pair *pair) {
    const struct lists_shape shape = draw(pair, below(pair, 2));
    struct both_lists *lists = lists_make(pair, &shape);
    const uint32_t stride = 1025 + below(pair, 40), kernel = 1 + 2 * below(pair, below(pair, 2) ? 4 : 40);
    const uint64_t tail = below(pair, 2) ? 0 : below(pair, 300);
    const enum kvc_pooling how = below(pair, 2) ? KVC_POOL_MAX : KVC_POOL_AVERAGE;
    const uint32_t rows = below(pair, 2) ? 1 : 1 + below(pair, 8);
    struct both in = both_floats(pair, (size_t)stride * shape.kv_heads * rows, shape.values);
    struct both out = both_floats(pair, (size_t)stride * shape.kv_heads * rows, ORDINARY);
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->pool(pair->device[s], &(struct kvc_pool){.lists = &lists->on[s],
                                                                       .rows = rows,
                                                                       .out = span_of(&out, s),
                                                                       .in = span_of(&in, s),
                                                                       .stride = stride,
                                                                       .tail = tail,
                                                                       .kernel = kernel,
                                                                       .pooling = how});
    SAME_FLOATS(pair, &out, "pool: rows %u, kernel %u, tail %llu, %s, entries %u", rows, kernel,
                (unsigned long long)tail, how == KVC_POOL_MAX ? "max" : "avg", shape.count[0]);
    both_free(pair, &in);
    both_free(pair, &out);
    lists_free(pair, lists);
}

/* Copies columns to scores and back, and scores of query heads to scores of lists. */
static void check_columns(struct pair *pair) {
    struct lists_shape shape = draw(pair, below(pair, 2));
    const uint32_t first = below(pair, 3), columns = 1 + below(pair, 4), rows = 1 + below(pair, 8);
    const uint32_t stride = 1025 + below(pair, 40), n = stride * shape.kv_heads;
    const float divisor = below(pair, 2) ? (float)rows : 1.0f;
    shape.columns = first + columns + below(pair, 2);
    struct both_lists *lists = lists_make(pair, &shape);
    struct both scores = both_floats(pair, n, ORDINARY);
    struct both in = both_floats(pair, (size_t)n * rows, shape.values), out = both_floats(pair, n, ORDINARY);
    for (int s = 0; s < SIDES; s++) {
        struct kvc_device *device = pair->device[s];
        device->ops->column_scores(device, &(struct kvc_column_scores){.lists = &lists->on[s],
                                                                       .first = first,
                                                                       .columns = columns,
                                                                       .scores = span_of(&scores, s),
                                                                       .stride = stride});
        device->ops->group_scores(device, &(struct kvc_group_scores){.lists = &lists->on[s],
                                                                     .rows = rows,
                                                                     .out = span_of(&out, s),
                                                                     .in = span_of(&in, s),
                                                                     .stride = stride,
                                                                     .divisor = divisor});
        device->ops->scores_column(
            device, &(struct kvc_scores_column){
                        .lists = &lists->on[s], .column = first, .scores = span_of(&out, s), .stride = stride});
        device->ops->group_scores(device, &(struct kvc_group_scores){.lists = &lists->on[s],
                                                                     .rows = 1,
                                                                     .out = span_of(&in, s),
                                                                     .in = span_of(&in, s),
                                                                     .stride = stride,
                                                                     .divisor = divisor});
    }
    SAME_FLOATS(pair, &scores, "column_scores: %u from %u, entries %u", columns, first, shape.count[0]);
    SAME_FLOATS(pair, &out, "group_scores: rows %u, entries %u", rows, shape.count[0]);
    SAME_FLOATS(pair, &in, "group_scores in place: entries %u", shape.count[0]);
    same_lists(pair, lists, "scores_column");
    both_free(pair, &scores);
    both_free(pair, &in);
    both_free(pair, &out);
    lists_free(pair, lists);
}

/* Random scores by index. At the lower levels many of them are equal, or all are; at level 3 most are NaN. */
static struct both draw_scores(struct pair *pair, const struct lists_shape *shape, uint32_t stride, uint32_t level) {
    struct both scores = both_floats(pair, (size_t)stride * shape->kv_heads, shape->values);
    for (size_t i = 0; i < (size_t)stride * shape->kv_heads && level < 4; i++)
        for (int s = 0; s < SIDES; s++) {
            float *x = scores.on[s]->data;
            x[i] = level == 1 ? -0.0f : level == 2 ? (float)((int)(x[i] * 3)) : level == 3 && i % 3 > 0 ? NAN : x[i];
        }
    return scores;
}

static struct kvc_keep draw_rule(struct pair *pair, const struct lists_shape *shape) {
    struct kvc_keep rule = {.recent = INT64_MAX};
    if (below(pair, 2))
        rule.first = below(pair, 20);
    if (below(pair, 2))
        rule.tail = below(pair, 300);
    if (below(pair, 2))
        rule.recent = (int64_t)below(pair, 2000) - 10;
    const uint32_t n = shape->count[below(pair, shape->kv_heads)], some = n ? below(pair, n) : 0;
    rule.top = below(pair, 3) ? some : below(pair, 2) ? UINT64_MAX : (n > 8 ? n - below(pair, 4) : 1);
    if (below(pair, 3) == 0)
        rule.fill = below(pair, 1100);
    if (below(pair, 3) == 0) { /* as in a decode step: all but one are kept */
        rule.first = rule.fill = 0;
        rule.tail = n < 32 ? n : 32;
        rule.top = n > 33 ? n - 33 : 0;
        rule.recent = INT64_MAX;
    }
    if (below(pair, 4) == 0)
        rule.limit = n - below(pair, 2) * (n > 0);
    return rule;
}

static void check_keep(struct pair *pair) {
    const struct lists_shape shape = draw(pair, below(pair, 2));
    struct both_lists *lists = lists_make(pair, &shape);
    const uint32_t stride = 1025 + below(pair, 40), rules = below(pair, 2) ? 1 : shape.kv_heads;
    struct both scores = draw_scores(pair, &shape, stride, below(pair, 5));
    struct both ties = draw_scores(pair, &shape, stride, below(pair, 5));
    struct both_reads kept = reads_make(pair, &shape, 0);
    struct kvc_keep rule[3] = {draw_rule(pair, &shape), draw_rule(pair, &shape), draw_rule(pair, &shape)};
    const bool blind = below(pair, 8) == 0, tied = !blind && below(pair, 2);
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->keep(pair->device[s],
                                   &(struct kvc_keep_rules){.lists = &lists->on[s],
                                                            .rules = rule,
                                                            .rule_count = rules,
                                                            .scores = (struct kvc_span){blind ? NULL : scores.on[s], 0},
                                                            .ties = (struct kvc_span){tied ? ties.on[s] : NULL, 0},
                                                            .stride = stride,
                                                            .kept = &kept.on[s]});
    SAME_WORDS(pair, &kept.count, "keep: counts");
    for (uint32_t h = 0; h < shape.kv_heads; h++) {
        const struct kvc_keep *own = &rule[rules > 1 ? h : 0];
        same_words(pair, (uint32_t *)kept.index.on[REF]->data + (size_t)h * kept.on[REF].stride,
                   (uint32_t *)kept.index.on[PATH]->data + (size_t)h * kept.on[PATH].stride,
                   ((uint32_t *)kept.count.on[REF]->data)[h], false,
                   "keep: head %u of %u entries, top %llu, first %llu, tail %llu, fill %llu, limit %llu, recent %lld%s",
                   h, shape.count[h], (unsigned long long)own->top, (unsigned long long)own->first,
                   (unsigned long long)own->tail, (unsigned long long)own->fill, (unsigned long long)own->limit,
                   (long long)own->recent, tied ? ", ties" : "");
    }
    both_free(pair, &scores);
    both_free(pair, &ties);
    reads_free(pair, &kept);
    lists_free(pair, lists);
}

static void check_shares(struct pair *pair) {
    const struct lists_shape shape = draw(pair, below(pair, 2));
    struct both_lists *lists = lists_make(pair, &shape);
    const uint32_t stride = 1025 + below(pair, 40), level = below(pair, 5);
    const uint64_t tail = below(pair, 2) ? 0 : below(pair, 600), slots = below(pair, 8) ? below(pair, 3200) : 0;
    struct both scores = draw_scores(pair, &shape, stride, level);
    struct both out = both_floats(pair, shape.kv_heads, ORDINARY);
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->shares(pair->device[s], &(struct kvc_shares){.lists = &lists->on[s],
                                                                           .scores = span_of(&scores, s),
                                                                           .stride = stride,
                                                                           .tail = tail,
                                                                           .slots = slots,
                                                                           .shares = span_of(&out, s)});
    SAME_WORDS(pair, &out, "shares: slots %llu, tail %llu, heads %u, entries %u", (unsigned long long)slots,
               (unsigned long long)tail, shape.kv_heads, shape.count[0]);
    both_free(pair, &scores);
    both_free(pair, &out);
    lists_free(pair, lists);
}

static void test_append(void **state) {
    (void)state;
    on_all(check_append, 25);
}
static void test_evict(void **state) {
    (void)state;
    on_all(check_evict, 25);
    on_all(check_identity, 2);
}
static void test_relayout(void **state) {
    (void)state;
    on_all(check_relayout, 25);
}
static void test_pool(void **state) {
    (void)state;
    on_all(check_pool, 30);
    on_all(check_columns, 20);
}
static void test_keep(void **state) {
    (void)state;
    on_all(check_keep, 90);
    on_all(check_shares, 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append), cmocka_unit_test(test_evict), cmocka_unit_test(test_relayout),
        cmocka_unit_test(test_pool),   cmocka_unit_test(test_keep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
