/* verify_scores.c - cases of what policies compute: weights, rings, columns, scores, what is kept. */
#include <stdio.h>
#include <string.h>

#include "core/verify.h"

/* ---- weight rows ---- */

struct rows_case {
    struct kvc_twin_lists lists;
    struct kvc_read_list reads[2];
    struct kvc_weight_rows rows[2];
};

/* Queries of one session, with the M and L that the reference's attention gives for them. */
static bool make_rows(struct kvc_verify *v, uint32_t columns, uint32_t most_queries, struct rows_case *c) {
    struct kvc_lists_shape shape = kvc_verify_shape(v, columns, 4, kvc_verify_range(v, 0, 2) > 0);
    uint32_t queries = kvc_verify_range(v, 0, 2) ? kvc_verify_range(v, 1, most_queries) : 1;
    uint32_t heads = shape.kv_heads * kvc_verify_group(v);
    uint32_t window;
    bool reads = kvc_verify_range(v, 0, 3) == 0, after_attention = kvc_verify_range(v, 0, 1);
    size_t n = (size_t)queries * heads * shape.head_size;
    int32_t *position = kvc_verify_alloc(v, queries * sizeof *position);
    uint32_t *later = kvc_verify_alloc(v, queries * sizeof *later);
    float *M = kvc_verify_alloc(v, (size_t)queries * heads * sizeof *M);
    float *L = kvc_verify_alloc(v, (size_t)queries * heads * sizeof *L);
    struct kvc_twin q, out, maximum, sum, positions, laters;
    memset(c, 0, sizeof *c);
    if (!position || !later || !M || !L)
        return false;
    kvc_verify_lists(v, &shape, &c->lists);
    if (reads && v->status == KVC_OK) {
        kvc_verify_read_lists(v, &c->lists, c->reads);
        queries = 1;
    }
    for (uint32_t i = 0; i < queries; i++) {
        position[i] = c->lists.now - (int32_t)(queries - 1 - i) + (int32_t)most_queries; /* never negative */
        later[i] = queries - 1 - i;
    }
    window = kvc_verify_range(v, 0, 2) ? 0 : kvc_verify_range(v, most_queries, (uint32_t)c->lists.now + 80);
    kvc_verify_describe(v, ", heads %u, queries %u", heads, queries);
    q = kvc_verify_twin_values(v, n, kvc_verify_flavour(v));
    out = kvc_verify_twin(v, n * sizeof(float), NULL);
    maximum = kvc_verify_twin(v, (size_t)queries * heads * sizeof *M, NULL);
    sum = kvc_verify_twin(v, (size_t)queries * heads * sizeof *L, NULL);
    positions = kvc_verify_twin(v, queries * sizeof *position, position);
    laters = kvc_verify_twin(v, queries * sizeof *later, later);
    if (v->status != KVC_OK)
        return false;
    for (int side = 0; side < 2; side++)
        c->rows[side] = (struct kvc_weight_rows){&c->lists.lists[side],
                                                 reads ? &c->reads[side] : NULL,
                                                 queries,
                                                 heads,
                                                 shape.kv_heads,
                                                 shape.head_size,
                                                 window,
                                                 kvc_verify_span(q, side),
                                                 kvc_verify_span(maximum, side),
                                                 kvc_verify_span(sum, side),
                                                 kvc_verify_span(positions, side),
                                                 kvc_verify_span(laters, side)};
    /* Weights often follow the attention of the same rows, and a backend may keep what that computed. */
    for (int side = 0; side < (after_attention ? 2 : 1); side++) {
        struct kvc_segment segment = {&c->lists.lists[side], c->rows[side].reads, 0, queries, queries, NULL};
        struct kvc_attention a = {.segments = &segment,
                                  .segment_count = 1,
                                  .heads = heads,
                                  .kv_heads = shape.kv_heads,
                                  .head_size = shape.head_size,
                                  .window = window,
                                  .q = c->rows[side].q,
                                  .out = kvc_verify_span(out, side),
                                  .maximum = c->rows[side].maximum,
                                  .sum = c->rows[side].sum,
                                  .positions = c->rows[side].positions,
                                  .later = c->rows[side].later};
        v->device[side]->ops->attention(v->device[side], &a);
    }
    v->device[0]->ops->download(v->device[0], M, c->rows[0].maximum, (size_t)queries * heads * sizeof *M);
    v->device[0]->ops->download(v->device[0], L, c->rows[0].sum, (size_t)queries * heads * sizeof *L);
    v->device[1]->ops->upload(v->device[1], c->rows[1].maximum, M, (size_t)queries * heads * sizeof *M);
    v->device[1]->ops->upload(v->device[1], c->rows[1].sum, L, (size_t)queries * heads * sizeof *L);
    return true;
}

/* Compares scores [H_kv, stride] up to each head's count. */
static void compare_scores(struct kvc_verify *v, const struct kvc_twin_lists *lists, struct kvc_twin scores,
                           uint32_t stride) {
    for (uint32_t h = 0; h < lists->lists[0].kv_heads; h++)
        kvc_verify_compare(v, scores, (size_t)h * stride, lists->count[h], "scores");
}

static void window_mass_case(struct kvc_verify *v) {
    struct rows_case c;
    if (make_rows(v, 0, 32, &c)) {
        uint32_t stride = c.lists.most + kvc_verify_range(v, 1, 4);
        struct kvc_twin scores = kvc_verify_twin(v, (size_t)c.lists.lists[0].kv_heads * stride * sizeof(float), NULL);
        for (int side = 0; side < 2 && v->status == KVC_OK; side++)
            v->device[side]->ops->window_mass(v->device[side], &c.rows[side], kvc_verify_span(scores, side), stride,
                                              false);
        if (v->status == KVC_OK)
            compare_scores(v, &c.lists, scores, stride);
    }
    kvc_verify_lists_free(v, &c.lists);
}

static const enum kvc_row_kind kinds[] = {KVC_ROW_WEIGHTS, KVC_ROW_LOGITS, KVC_ROW_LOW};

static void ring_write_case(struct kvc_verify *v) {
    struct rows_case c;
    uint32_t ring = kvc_verify_range(v, 1, 9), first = kvc_verify_range(v, 0, 2);
    enum kvc_row_kind kind = kvc_verify_pick(v, kinds);
    if (make_rows(v, first + ring, ring, &c)) {
        for (int side = 0; side < 2; side++)
            v->device[side]->ops->ring_write(v->device[side], &c.rows[side], first, ring, kind);
        kvc_verify_compare_lists(v, &c.lists);
    }
    kvc_verify_lists_free(v, &c.lists);
}

/* ---- scores ---- */

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
        const float *values = kvc_verify_values(v, n, kvc_verify_flavour(v));
        for (int side = 0; values && side < 2; side++)
            v->device[side]->ops->upload(v->device[side], (struct kvc_span){lists.lists[side].state, 0}, values,
                                         n * sizeof *values);
    }
    stride = lists.most + kvc_verify_range(v, 1, 4);
    scores = kvc_verify_twin(v, (size_t)shape.kv_heads * stride * sizeof(float), NULL);
    for (int side = 0; side < 2 && v->status == KVC_OK; side++)
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
    for (int side = 0; side < 2 && v->status == KVC_OK; side++) {
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
    for (int side = 0; side < 2 && v->status == KVC_OK; side++)
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
    for (int side = 0; side < 2 && v->status == KVC_OK; side++)
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
    uint32_t stride, rules = kvc_verify_range(v, 0, 2) ? 1 : shape.kv_heads, *kept;
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
    if (scored && kvc_verify_range(v, 0, 2) == 0) { /* which can decide only where scores are equal */
        scores = kvc_verify_twin_values(v, (size_t)shape.kv_heads * stride, KVC_TIES);
        ties = kvc_verify_twin_values(v, (size_t)shape.kv_heads * stride, kvc_verify_flavour(v));
    }
    counts = kvc_verify_twin(v, shape.kv_heads * sizeof(uint32_t), NULL);
    ranks = kvc_verify_twin(v, (size_t)shape.kv_heads * stride * sizeof(uint32_t), NULL);
    kept = kvc_verify_alloc(v, shape.kv_heads * sizeof *kept);
    for (int side = 0; side < 2 && v->status == KVC_OK; side++) {
        struct kvc_read_list list = {counts.buffer[side], ranks.buffer[side], stride};
        struct kvc_span none = {NULL, 0};
        v->device[side]->ops->keep(v->device[side], &lists.lists[side], rule, rules,
                                   scored ? kvc_verify_span(scores, side) : none, kvc_verify_span(ties, side), stride,
                                   &list);
    }
    if (v->status == KVC_OK) {
        v->device[0]->ops->download(v->device[0], kept, kvc_verify_span(counts, 0), shape.kv_heads * sizeof *kept);
        kvc_verify_compare_words(v, counts, 0, shape.kv_heads, "kept");
        for (uint32_t h = 0; h < shape.kv_heads; h++)
            kvc_verify_compare_words(v, ranks, (size_t)h * stride, kept[h], "rank");
    }
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
    for (int side = 0; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->shares(v->device[side], &lists.lists[side], kvc_verify_span(scores, side), stride, tail,
                                     slots, kvc_verify_span(out, side));
    if (v->status == KVC_OK)
        kvc_verify_compare_words(v, out, 0, shape.kv_heads, "shares");
    kvc_verify_lists_free(v, &lists);
}

const struct kvc_verify_operation kvc_verify_scores[] = {{"window_mass", window_mass_case, 15},
                                                         {"ring_write", ring_write_case, 15},
                                                         {"ring_fuse", ring_fuse_case, 40},
                                                         {"column_scores", column_scores_case, 30},
                                                         {"scores_column", scores_column_case, 20},
                                                         {"pool", pool_case, 60},
                                                         {"group_scores", group_scores_case, 20},
                                                         {"keep", keep_case, 100},
                                                         {"shares", shares_case, 40},
                                                         {NULL, NULL, 0}};
