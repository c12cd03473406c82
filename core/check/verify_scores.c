/* verify_scores.c - cases of what policies do with attention probabilities: ring_fuse, columns and scores, pool,
 * groups, keep, shares. */
#include <stdio.h>
#include <string.h>

#include "core/check/verify.h"

/* Compares scores [H_kv, stride] up to each head's count. */
static void compare_scores(struct kvc_verify *v, const struct kvc_twin_lists *lists, struct kvc_twin scores,
                           uint32_t stride) {
    for (uint32_t h = 0; h < lists->lists[1].kv_heads; h++)
        kvc_verify_compare(v, scores, (size_t)h * stride, lists->count[h], "scores");
}

static const enum kvc_row_kind kinds[] = {KVC_ROW_WEIGHTS, KVC_ROW_LOGITS, KVC_ROW_LOW};

static void ring_fuse_case(struct kvc_verify *v) {
    uint32_t ring = kvc_verify_range(v, 1, 40), filled = kvc_verify_range(v, 0, ring), stride;
    uint32_t first = kvc_verify_range(v, 0, 1) ? 0 : kvc_verify_range(v, 1, 40), columns = first + ring;
    struct kvc_lists_shape shape = kvc_verify_shape(v, columns, 5, kvc_verify_range(v, 0, 2) > 0);
    enum kvc_row_kind kind = kvc_verify_pick(v, kinds);
    enum kvc_fusion fusion = kvc_verify_range(v, 0, 1) ? KVC_FUSE_SUM : KVC_FUSE_MAX;
    struct kvc_twin_lists lists;
    struct kvc_twin scores;
    int64_t recent, now;
    shape.head_size = 8;
    kvc_verify_lists(v, &shape, &lists);
    now = (int64_t)lists.now + filled;
    recent = kvc_verify_range(v, 0, 3) ? now - kvc_verify_range(v, 0, 2 * ring) : kvc_verify_range(v, 0, 2000);
    kvc_verify_describe(v, ", ring %u, filled %u", ring, filled);
    kvc_verify_describe(v, ", kind %u, fusion %u", kind, fusion);
    if (v->status == KVC_OK && kvc_verify_range(v, 0, 1)) { /* the state is plain at first */
        size_t n = (size_t)columns * lists.all_slots;
        float *values = kvc_verify_values(v, n, kvc_verify_flavour(v));
        if (values && kind == KVC_ROW_LOGITS && kvc_verify_range(v, 0, 1)) /* what was not seen, in runs */
            for (size_t i = kvc_verify_range(v, 0, 50); i < n; i += kvc_verify_range(v, 1, 1500))
                for (size_t end = i + kvc_verify_range(v, 1, 1000); i < end && i < n; i++)
                    values[i] = -kvc_infinity();
        for (int side = v->first; values && side < 2; side++)
            v->device[side]->ops->upload(v->device[side], (struct kvc_span){lists.lists[side].state, 0}, values,
                                         n * sizeof *values);
    }
    stride = lists.most + kvc_verify_range(v, 1, 4);
    scores = kvc_verify_twin(v, (size_t)shape.kv_heads * stride * sizeof(float), NULL);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->ring_fuse(v->device[side], &lists.lists[side], first, ring, filled, now, kind, fusion,
                                        recent, kvc_verify_span(scores, side), stride);
    if (v->status == KVC_OK)
        compare_scores(v, &lists, scores, stride);
    kvc_verify_lists_free(v, &lists);
}

static void columns_case(struct kvc_verify *v, bool back) {
    uint32_t columns = kvc_verify_range(v, 1, 5), first = kvc_verify_range(v, 0, 3), more = kvc_verify_range(v, 0, 2);
    struct kvc_lists_shape shape = kvc_verify_shape(v, first + columns + more, 5, kvc_verify_range(v, 0, 2) > 0);
    struct kvc_twin_lists lists;
    struct kvc_twin scores;
    uint32_t stride;
    shape.head_size = 8;
    kvc_verify_lists(v, &shape, &lists);
    stride = lists.most + kvc_verify_range(v, 1, 4);
    kvc_verify_describe(v, ", columns %u from %u", columns, first);
    scores = kvc_verify_twin_values(v, (size_t)shape.kv_heads * stride, kvc_verify_flavour(v));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        struct kvc_device *device = v->device[side];
        if (back)
            device->ops->scores_column(device, &lists.lists[side], first, kvc_verify_span(scores, side), stride);
        else
            device->ops->column_scores(device, &lists.lists[side], first, columns, kvc_verify_span(scores, side),
                                       stride);
    }
    if (v->status == KVC_OK && back)
        kvc_verify_compare_lists(v, &lists);
    else if (v->status == KVC_OK)
        compare_scores(v, &lists, scores, stride);
    kvc_verify_lists_free(v, &lists);
}

static void column_scores_case(struct kvc_verify *v) { columns_case(v, false); }
static void scores_column_case(struct kvc_verify *v) { columns_case(v, true); }

static void group_scores_case(struct kvc_verify *v) {
    struct kvc_lists_shape shape = kvc_verify_shape(v, 0, 6, kvc_verify_range(v, 0, 2) > 0);
    uint32_t rows = kvc_verify_group(v), stride;
    float divisor = kvc_verify_range(v, 0, 1) ? (float)rows : 1.0f;
    struct kvc_twin_lists lists;
    struct kvc_twin in, out;
    shape.head_size = 8;
    kvc_verify_lists(v, &shape, &lists);
    stride = lists.most + kvc_verify_range(v, 1, 4);
    kvc_verify_describe(v, ", rows %u, divisor %u", rows, (unsigned)divisor);
    in = kvc_verify_twin_values(v, (size_t)shape.kv_heads * rows * stride, kvc_verify_flavour(v));
    out = rows == 1 ? in : kvc_verify_twin(v, (size_t)shape.kv_heads * stride * sizeof(float), NULL);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->group_scores(v->device[side], &lists.lists[side], rows, kvc_verify_span(out, side),
                                           kvc_verify_span(in, side), stride, divisor);
    if (v->status == KVC_OK)
        compare_scores(v, &lists, out, stride);
    kvc_verify_lists_free(v, &lists);
}

static void pool_case(struct kvc_verify *v) {
    static const uint32_t kernels[] = {1, 3, 5, 7, 7, 7, 9, 15, 31, 63, 63, 129, 1001};
    struct kvc_lists_shape shape = kvc_verify_shape(v, 0, 6, kvc_verify_range(v, 0, 2) > 0);
    uint32_t kernel = kvc_verify_pick(v, kernels), rows = kvc_verify_range(v, 0, 2) ? 1 : kvc_verify_group(v), stride;
    enum kvc_pooling pooling = kvc_verify_range(v, 0, 1) ? KVC_POOL_MAX : KVC_POOL_AVERAGE;
    uint64_t tail = kvc_verify_range(v, 0, 3) ? kvc_verify_range(v, 0, 40) : kvc_verify_range(v, 0, 1500);
    struct kvc_twin_lists lists;
    struct kvc_twin in, out;
    shape.head_size = 8;
    kvc_verify_lists(v, &shape, &lists);
    stride = lists.most + kvc_verify_range(v, 1, 4);
    kvc_verify_describe(v, ", kernel %u, pooling %u", kernel, pooling);
    kvc_verify_describe(v, ", tail %u, rows %u", (unsigned)tail, rows);
    in = kvc_verify_twin_values(v, (size_t)shape.kv_heads * rows * stride, kvc_verify_flavour(v));
    out = kvc_verify_twin(v, (size_t)shape.kv_heads * rows * stride * sizeof(float), NULL);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->pool(v->device[side], &lists.lists[side], rows, kvc_verify_span(out, side),
                                   kvc_verify_span(in, side), stride, tail, kernel, pooling);
    if (v->status == KVC_OK)
        for (uint32_t i = 0; i < shape.kv_heads * rows; i++)
            kvc_verify_compare(v, out, (size_t)i * stride, lists.count[i / rows], "scores");
    kvc_verify_lists_free(v, &lists);
}

/* A rule with some of its parts, so that heads keep none, some or all. */
static struct kvc_keep draw_rule(struct kvc_verify *v, const struct kvc_twin_lists *lists) {
    struct kvc_keep rule = {.recent = INT64_MAX};
    uint32_t most = lists->most + 2;
    if (kvc_verify_range(v, 0, 1))
        rule.first = kvc_verify_range(v, 0, 9);
    if (kvc_verify_range(v, 0, 1))
        rule.tail = kvc_verify_range(v, 0, 3) ? kvc_verify_range(v, 0, 40) : kvc_verify_range(v, 0, most);
    if (kvc_verify_range(v, 0, 1))
        rule.recent = lists->now - (int64_t)kvc_verify_range(v, 0, 40);
    if (kvc_verify_range(v, 0, 3))
        rule.top = kvc_verify_range(v, 0, 1) ? kvc_verify_range(v, 0, most) : kvc_verify_range(v, 0, 5);
    if (kvc_verify_range(v, 0, 1))
        rule.fill = kvc_verify_range(v, 0, most);
    if (kvc_verify_range(v, 0, 3) == 0)
        rule.limit = kvc_verify_range(v, 0, most);
    return rule;
}

static void keep_case(struct kvc_verify *v) {
    struct kvc_lists_shape shape = kvc_verify_shape(v, 0, 6, kvc_verify_range(v, 0, 2) > 0);
    struct kvc_twin_lists lists;
    struct kvc_keep rule[8];
    struct kvc_twin scores, ties = {{NULL, NULL}}, counts, ranks;
    uint32_t stride, rules = kvc_verify_range(v, 0, 2) ? 1 : shape.kv_heads;
    bool scored = false;
    shape.head_size = 8;
    kvc_verify_lists(v, &shape, &lists);
    if (v->status != KVC_OK) {
        kvc_verify_lists_free(v, &lists);
        return;
    }
    for (uint32_t i = 0; i < rules; i++) {
        rule[i] = draw_rule(v, &lists);
        scored = scored || rule[i].top || rule[i].fill;
    }
    stride = lists.most + kvc_verify_range(v, 1, 4);
    kvc_verify_describe(v, ", first %u, tail %u", (unsigned)rule[0].first, (unsigned)rule[0].tail);
    kvc_verify_describe(v, ", top %u, fill %u", (unsigned)rule[0].top, (unsigned)rule[0].fill);
    scores = kvc_verify_twin_values(v, (size_t)shape.kv_heads * stride, kvc_verify_flavour(v));
    if (scored && kvc_verify_range(v, 0, 2) == 0) { /* ties decide only where scores are equal */
        scores = kvc_verify_twin_values(v, (size_t)shape.kv_heads * stride, KVC_TIES);
        ties = kvc_verify_twin_values(v, (size_t)shape.kv_heads * stride, kvc_verify_flavour(v));
    }
    counts = kvc_verify_twin(v, shape.kv_heads * sizeof(uint32_t), NULL);
    ranks = kvc_verify_twin(v, (size_t)shape.kv_heads * stride * sizeof(uint32_t), NULL);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        struct kvc_read_list list = {counts.buffer[side], ranks.buffer[side], stride};
        struct kvc_span none = {NULL, 0};
        v->device[side]->ops->keep(v->device[side], &lists.lists[side], rule, rules,
                                   scored ? kvc_verify_span(scores, side) : none, kvc_verify_span(ties, side), stride,
                                   &list);
    }
    kvc_verify_compare_reads(v, counts, ranks, shape.kv_heads, stride);
    kvc_verify_lists_free(v, &lists);
}

/* One entry goes, or several, by a ring's sums: one call where a backend can do that, beside one call after another. */
static void keep_ring_case(struct kvc_verify *v) {
    const uint32_t rows = kvc_verify_range(v, 1, 70), first = kvc_verify_range(v, 0, 3);
    const uint32_t blocks = kvc_ring_blocks(rows), columns = first + rows + blocks;
    const bool by_count = kvc_verify_range(v, 0, 1), equal = kvc_verify_range(v, 0, 3) == 0;
    struct kvc_lists_shape shape = kvc_verify_shape(v, columns, 5, kvc_verify_range(v, 0, 2) > 0);
    struct kvc_ring ring = {first, rows, kvc_verify_range(v, 0, 2) ? first + rows : UINT32_MAX, 0};
    struct kvc_keep rule = {.top = 0};
    struct kvc_twin_lists lists;
    struct kvc_twin scores = {{NULL, NULL}}, fused, counts, ranks;
    uint32_t stride;
    shape.head_size = 8;
    kvc_verify_lists(v, &shape, &lists);
    const size_t n = (size_t)columns * lists.all_slots;
    float *values = v->status == KVC_OK ? kvc_verify_values(v, n, KVC_PLAIN) : NULL;
    if (!values) {
        kvc_verify_lists_free(v, &lists);
        return;
    }
    for (size_t i = 0; i < n; i++) /* probabilities, now and then many of the same */
        values[i] = equal ? (values[i] > 0 ? 0.25f : 0.0f) : values[i] < 0 ? -values[i] : values[i];
    stride = lists.most + kvc_verify_range(v, 1, 4);
    ring.now = lists.now + 1 + (int64_t)kvc_verify_range(v, rows, rows + 100);
    rule.recent = lists.now - (int64_t)kvc_verify_range(v, 0, 40);
    rule.fill = lists.most - kvc_verify_range(v, 0, lists.most > 3 && kvc_verify_range(v, 0, 3) == 0 ? 3 : 1);
    rule.limit = rule.fill;
    kvc_verify_describe(v, ", ring %u, now %u", rows, (unsigned)ring.now);
    kvc_verify_describe(v, ", fill %u, sums %u", (unsigned)rule.fill, ring.sums != UINT32_MAX);
    if (by_count)
        scores = kvc_verify_twin_values(v, (size_t)shape.kv_heads * stride, KVC_TIES);
    fused = kvc_verify_twin(v, (size_t)shape.kv_heads * stride * sizeof(float), NULL);
    counts = kvc_verify_twin(v, shape.kv_heads * sizeof(uint32_t), NULL);
    ranks = kvc_verify_twin(v, (size_t)shape.kv_heads * stride * sizeof(uint32_t), NULL);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        struct kvc_device *device = v->device[side];
        struct kvc_lists *on = &lists.lists[side];
        struct kvc_read_list list = {counts.buffer[side], ranks.buffer[side], stride};
        const struct kvc_span sums = kvc_verify_span(fused, side), none = {NULL, 0};
        device->ops->upload(device, (struct kvc_span){on->state, 0}, values, n * sizeof *values);
        for (uint32_t b = 0; b < blocks; b++) {
            const uint32_t from = b * KVC_RING_BLOCK;
            const uint32_t some = rows - from < KVC_RING_BLOCK ? rows - from : KVC_RING_BLOCK;
            device->ops->column_scores(device, on, first + from, some, sums, stride);
            device->ops->scores_column(device, on, first + rows + b, sums, stride);
        }
        if (device->ops->keep_ring) {
            device->ops->keep_ring(device, on, &rule, &ring, by_count ? kvc_verify_span(scores, side) : none, sums,
                                   stride, &list);
            continue;
        }
        device->ops->ring_fuse(device, on, first, rows, rows, ring.now, KVC_ROW_WEIGHTS, KVC_FUSE_SUM, rule.recent,
                               sums, stride);
        device->ops->keep(device, on, &rule, 1, by_count ? kvc_verify_span(scores, side) : sums, by_count ? sums : none,
                          stride, &list);
    }
    kvc_verify_compare_reads(v, counts, ranks, shape.kv_heads, stride);
    kvc_verify_lists_free(v, &lists);
}

static void shares_case(struct kvc_verify *v) {
    struct kvc_lists_shape shape = kvc_verify_shape(v, 0, 6, kvc_verify_range(v, 0, 2) > 0);
    struct kvc_twin_lists lists;
    struct kvc_twin scores, out;
    uint32_t stride, all = 0;
    uint64_t tail = kvc_verify_range(v, 0, 3) ? kvc_verify_range(v, 0, 40) : kvc_verify_range(v, 0, 1500), slots;
    shape.head_size = 8;
    kvc_verify_lists(v, &shape, &lists);
    for (uint32_t h = 0; v->status == KVC_OK && h < shape.kv_heads; h++)
        all += lists.count[h];
    slots = kvc_verify_range(v, 0, 1) ? kvc_verify_range(v, 0, all + 5) : kvc_verify_range(v, 0, 50);
    stride = lists.most + kvc_verify_range(v, 1, 4);
    kvc_verify_describe(v, ", slots %u, tail %u", (unsigned)slots, (unsigned)tail);
    scores = kvc_verify_twin_values(v, (size_t)shape.kv_heads * stride, kvc_verify_flavour(v));
    out = kvc_verify_twin(v, shape.kv_heads * sizeof(uint32_t), NULL);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->shares(v->device[side], &lists.lists[side], kvc_verify_span(scores, side), stride, tail,
                                     slots, kvc_verify_span(out, side));
    if (v->status == KVC_OK)
        kvc_verify_compare_words(v, out, 0, shape.kv_heads, "shares");
    kvc_verify_lists_free(v, &lists);
}

const struct kvc_verify_operation kvc_verify_scores[] = {{"ring_fuse", ring_fuse_case, 40},
                                                         {"column_scores", column_scores_case, 30},
                                                         {"scores_column", scores_column_case, 20},
                                                         {"pool", pool_case, 60},
                                                         {"group_scores", group_scores_case, 20},
                                                         {"keep", keep_case, 100},
                                                         {"keep_ring", keep_ring_case, 80},
                                                         {"shares", shares_case, 40},
                                                         {NULL, NULL, 0}};
