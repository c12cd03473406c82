/* verify_keep.c - test cases of the operations that turn scores into kept entries: pool, group_scores, keep, keep_ring,
 * shares. */
#include "core/base/integers.h"
#include "core/base/fused.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

KVC_INJECT(group_scores, kvc_group_scores, kvc_flip_score(device, args->lists, args->out, args->stride, 1))
KVC_CASE(group_scores, 20) {
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
    out = rows == 1 ? in : kvc_verify_output(v, (size_t)shape.kv_heads * stride * sizeof(float));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->group_scores(v->device[side],
                                           &(struct kvc_group_scores){.lists = &lists.lists[side],
                                                                      .rows = rows,
                                                                      .out = kvc_verify_span(out, side),
                                                                      .in = kvc_verify_span(in, side),
                                                                      .stride = stride,
                                                                      .divisor = divisor});
    kvc_verify_compare_scores(v, &lists, out, stride);
    kvc_verify_lists_free(v, &lists);
}

KVC_INJECT(pool, kvc_pool, kvc_flip_score(device, args->lists, args->out, args->stride, args->rows))
KVC_CASE(pool, 60) {
    static const uint32_t kernels[] = {1, 3, 5, 7, 7, 7, 9, 15, 31, 63, 63, 129, 1001};
    struct kvc_lists_shape shape = kvc_verify_shape(v, 0, 6, kvc_verify_range(v, 0, 2) > 0);
    uint32_t kernel = kvc_verify_pick(v, kernels), rows = kvc_verify_range(v, 0, 2) ? 1 : kvc_verify_group(v), stride;
    enum kvc_pooling pooling = kvc_verify_range(v, 0, 1) ? KVC_POOL_MAX : KVC_POOL_AVERAGE;
    if (v->further) {
        pooling = KVC_POOL_CHUNKS;
        kernel += kvc_verify_range(v, 0, 1);
    }
    uint64_t tail = kvc_verify_range(v, 0, 3) ? kvc_verify_range(v, 0, 40) : kvc_verify_range(v, 0, 1500);
    struct kvc_twin_lists lists;
    struct kvc_twin in, out;
    shape.head_size = 8;
    kvc_verify_lists(v, &shape, &lists);
    stride = lists.most + kvc_verify_range(v, 1, 4);
    kvc_verify_describe(v, ", kernel %u, pooling %u", kernel, pooling);
    kvc_verify_describe(v, ", tail %u, rows %u", (unsigned)tail, rows);
    in = kvc_verify_twin_values(v, (size_t)shape.kv_heads * rows * stride, kvc_verify_flavour(v));
    out = kvc_verify_output(v, (size_t)shape.kv_heads * rows * stride * sizeof(float));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->pool(v->device[side], &(struct kvc_pool){.lists = &lists.lists[side],
                                                                       .rows = rows,
                                                                       .out = kvc_verify_span(out, side),
                                                                       .in = kvc_verify_span(in, side),
                                                                       .stride = stride,
                                                                       .tail = tail,
                                                                       .kernel = kernel,
                                                                       .pooling = pooling});
    if (v->status == KVC_OK)
        for (uint32_t i = 0; i < shape.kv_heads * rows; i++)
            kvc_verify_compare(v, out, (size_t)i * stride, lists.count[i / rows], "scores");
    kvc_verify_lists_free(v, &lists);
}

KVC_FURTHER_CASES(pool, chunks, 30)

/* Draws a rule with some of its parts, so that heads keep no, some or all entries. */
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

/* Gives a rule a least score, often with room for all entries. */
static void bound_rule(struct kvc_verify *v, const struct kvc_twin_lists *lists, struct kvc_keep *rule) {
    rule->bounded = true;
    rule->least = ((float)kvc_verify_range(v, 0, 8) - 4.0f) / 4.0f;
    if (kvc_verify_range(v, 0, 1))
        rule->top = lists->most;
}

KVC_INJECT(keep, kvc_keep_rules, kvc_change_index(device, args->lists, args->kept))
KVC_CASE(keep, 100) {
    struct kvc_lists_shape shape = kvc_verify_shape(v, 0, 6, kvc_verify_range(v, 0, 2) > 0);
    struct kvc_twin_lists lists;
    struct kvc_keep rule[8];
    struct kvc_twin scores, ties = {{NULL, NULL}}, counts, indices;
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
        if (v->further == KVC_FURTHER_bounded)
            bound_rule(v, &lists, &rule[i]);
        scored = scored || rule[i].top || rule[i].fill;
    }
    stride = lists.most + kvc_verify_range(v, 1, 4);
    kvc_verify_describe(v, ", first %u, tail %u", (unsigned)rule[0].first, (unsigned)rule[0].tail);
    kvc_verify_describe(v, ", top %u, fill %u", (unsigned)rule[0].top, (unsigned)rule[0].fill);
    scores = kvc_verify_twin_values(v, (size_t)shape.kv_heads * stride, kvc_verify_flavour(v));
    if (scored && kvc_verify_range(v, 0, 2) == 0) { /* many equal scores, because `ties` only decides between these */
        scores = kvc_verify_twin_values(v, (size_t)shape.kv_heads * stride, KVC_TIES);
        ties = kvc_verify_twin_values(v, (size_t)shape.kv_heads * stride, kvc_verify_flavour(v));
    }
    counts = kvc_verify_output(v, shape.kv_heads * sizeof(uint32_t));
    indices = kvc_verify_output(v, (size_t)shape.kv_heads * stride * sizeof(uint32_t));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        struct kvc_read_list list = {counts.buffer[side], indices.buffer[side], stride};
        struct kvc_span none = {NULL, 0};
        v->device[side]->ops->keep(v->device[side],
                                   &(struct kvc_keep_rules){.lists = &lists.lists[side],
                                                            .rules = rule,
                                                            .rule_count = rules,
                                                            .scores = scored ? kvc_verify_span(scores, side) : none,
                                                            .ties = kvc_verify_span(ties, side),
                                                            .stride = stride,
                                                            .kept = &list});
    }
    kvc_verify_compare_reads(v, counts, indices, shape.kv_heads, stride);
    kvc_verify_lists_free(v, &lists);
}

KVC_FURTHER_CASES(keep, bounded, 40)

void kvc_inject_keep_ring(struct kvc_device *device, const struct kvc_keep_ring *args) {
    const struct kvc_ops *inject = kvc_inject_open(device);
    kvc_run_keep_ring(device, args);
    kvc_change_index(device, args->lists, args->kept);
    kvc_inject_close(device, inject);
}

/* Evicts one or several entries by the sums of a ring buffer. Compares the fused operation, if a backend has it, with
 * the separate operations. */
KVC_CASE(keep_ring, 80) {
    const uint32_t rows = kvc_verify_range(v, 1, 70), first = kvc_verify_range(v, 0, 3);
    const uint32_t blocks = kvc_ring_blocks(rows), columns = first + rows + blocks;
    const bool by_count = kvc_verify_range(v, 0, 1), equal = kvc_verify_range(v, 0, 3) == 0;
    struct kvc_lists_shape shape = kvc_verify_shape(v, columns, 5, kvc_verify_range(v, 0, 2) > 0);
    struct kvc_ring ring = {first, rows, kvc_verify_range(v, 0, 2) ? first + rows : UINT32_MAX, 0};
    struct kvc_keep rule = {.top = 0};
    struct kvc_twin_lists lists;
    struct kvc_twin scores = {{NULL, NULL}}, fused, counts, indices;
    uint32_t stride;
    shape.head_size = 8;
    kvc_verify_lists(v, &shape, &lists);
    const size_t n = (size_t)columns * lists.all_slots;
    float *values = v->status == KVC_OK ? kvc_verify_values(v, n, KVC_PLAIN) : NULL;
    if (!values) {
        kvc_verify_lists_free(v, &lists);
        return;
    }
    for (size_t i = 0; i < n; i++) /* probabilities, sometimes with many equal values */
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
    fused = kvc_verify_output(v, (size_t)shape.kv_heads * stride * sizeof(float));
    counts = kvc_verify_output(v, shape.kv_heads * sizeof(uint32_t));
    indices = kvc_verify_output(v, (size_t)shape.kv_heads * stride * sizeof(uint32_t));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        struct kvc_device *device = v->device[side];
        struct kvc_lists *on = &lists.lists[side];
        struct kvc_read_list list = {counts.buffer[side], indices.buffer[side], stride};
        const struct kvc_span sums = kvc_verify_span(fused, side), none = {NULL, 0};
        device->ops->upload(device, (struct kvc_span){on->state, 0}, values, n * sizeof *values);
        for (uint32_t b = 0; b < blocks; b++) {
            const uint32_t from = b * KVC_RING_BLOCK;
            const uint32_t some = kvc_min_u32(rows - from, KVC_RING_BLOCK);
            device->ops->column_scores(
                device, &(struct kvc_column_scores){
                            .lists = on, .first = first + from, .columns = some, .scores = sums, .stride = stride});
            device->ops->scores_column(
                device,
                &(struct kvc_scores_column){.lists = on, .column = first + rows + b, .scores = sums, .stride = stride});
        }
        kvc_run_keep_ring(device, &(struct kvc_keep_ring){.lists = on,
                                                          .rule = &rule,
                                                          .ring = &ring,
                                                          .scores = by_count ? kvc_verify_span(scores, side) : none,
                                                          .fused = sums,
                                                          .stride = stride,
                                                          .kept = &list});
    }
    kvc_verify_compare_reads(v, counts, indices, shape.kv_heads, stride);
    kvc_verify_lists_free(v, &lists);
}

KVC_INJECT(shares, kvc_shares, kvc_put_word(device, args->shares, 0, kvc_word_at(device, args->shares, 0) ^ 1u))
KVC_CASE(shares, 40) {
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
    out = kvc_verify_output(v, shape.kv_heads * sizeof(uint32_t));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->shares(v->device[side], &(struct kvc_shares){.lists = &lists.lists[side],
                                                                           .scores = kvc_verify_span(scores, side),
                                                                           .stride = stride,
                                                                           .tail = tail,
                                                                           .slots = slots,
                                                                           .shares = kvc_verify_span(out, side)});
    if (v->status == KVC_OK)
        kvc_verify_compare_words(v, out, 0, shape.kv_heads, "shares");
    kvc_verify_lists_free(v, &lists);
}
