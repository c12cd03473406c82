/* verify_scores.c - test cases of attention probabilities for policies: window_mass, window_moments, accumulate,
 * ring_write. */
#include <string.h>

#include "core/check/inject.h"
#include "core/check/verify.h"

/* Queries of one session. */
struct rows_case {
    struct kvc_twin_lists lists;
    struct kvc_read_list reads[2];
    struct kvc_probabilities rows[2];
};

/* Creates queries of one session, with M and L from the reference's attention. If `blind` is true, some queries may see
 * nothing. */
static bool make_rows(struct kvc_verify *v, uint32_t columns, uint32_t most_queries, bool blind, struct rows_case *c) {
    struct kvc_lists_shape shape = kvc_verify_shape(v, columns, 4, kvc_verify_range(v, 0, 2) > 0);
    const uint32_t many = v->small && most_queries > 3 ? 3 : most_queries;
    uint32_t queries = kvc_verify_range(v, 0, 2) ? kvc_verify_range(v, 1, many) : 1;
    uint32_t heads = shape.kv_heads * kvc_verify_group(v);
    uint32_t window;
    bool reads = kvc_verify_range(v, 0, 3) == 0, after_attention = kvc_verify_range(v, 0, 1);
    size_t n = (size_t)queries * heads * shape.head_size;
    int32_t *position = kvc_verify_alloc(v, queries * sizeof *position);
    uint32_t *causal_offset = kvc_verify_alloc(v, queries * sizeof *causal_offset);
    float *M = kvc_verify_alloc(v, (size_t)queries * heads * sizeof *M);
    float *L = kvc_verify_alloc(v, (size_t)queries * heads * sizeof *L);
    struct kvc_twin q, out, maximum, sum, positions, causal_offsets;
    memset(c, 0, sizeof *c);
    if (!position || !causal_offset || !M || !L)
        return false;
    kvc_verify_lists(v, &shape, &c->lists);
    if (reads && v->status == KVC_OK) {
        kvc_verify_read_lists(v, &c->lists, c->reads);
        queries = 1;
    }
    for (uint32_t i = 0; i < queries; i++) {
        position[i] = c->lists.now - (int32_t)(queries - 1 - i) + (int32_t)most_queries; /* never negative */
        causal_offset[i] = queries - 1 - i;
    }
    if (blind && !kvc_verify_range(v, 0, 3)) /* some queries see nothing */
        for (uint32_t i = 0; i < queries; i++)
            causal_offset[i] = kvc_verify_range(v, 0, 1) ? UINT32_MAX : causal_offset[i];
    window = kvc_verify_range(v, 0, 2) ? 0 : kvc_verify_range(v, most_queries, (uint32_t)c->lists.now + 80);
    kvc_verify_describe(v, ", heads %u, queries %u", heads, queries);
    q = kvc_verify_twin_values(v, n, kvc_verify_flavour(v));
    out = kvc_verify_output(v, n * sizeof(float));
    maximum = kvc_verify_output(v, (size_t)queries * heads * sizeof *M);
    sum = kvc_verify_output(v, (size_t)queries * heads * sizeof *L);
    positions = kvc_verify_twin(v, queries * sizeof *position, position);
    causal_offsets = kvc_verify_twin(v, queries * sizeof *causal_offset, causal_offset);
    const struct kvc_scoring scoring = kvc_verify_scoring(v);
    if (v->status != KVC_OK)
        return false;
    for (int side = v->first; side < 2; side++)
        c->rows[side] = (struct kvc_probabilities){&c->lists.lists[side],
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
                                                   kvc_verify_span(causal_offsets, side),
                                                   scoring};
    /* Probabilities often follow attention over the same rows, and a backend may reuse what attention computed. */
    for (int side = v->first; side < (after_attention || v->first ? 2 : 1); side++) {
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
                                  .causal_offset = c->rows[side].causal_offset,
                                  .scoring = scoring};
        v->device[side]->ops->attention(v->device[side], &a);
    }
    v->device[v->first]->ops->download(v->device[v->first], M, c->rows[v->first].maximum, queries * heads * sizeof *M);
    v->device[v->first]->ops->download(v->device[v->first], L, c->rows[v->first].sum, queries * heads * sizeof *L);
    v->device[1]->ops->upload(v->device[1], c->rows[1].maximum, M, (size_t)queries * heads * sizeof *M);
    v->device[1]->ops->upload(v->device[1], c->rows[1].sum, L, (size_t)queries * heads * sizeof *L);
    return true;
}

/* In half of the cases, positions decide what a query sees. The queries' positions are then anywhere among the entries'
 * positions. */
static void by_position(struct kvc_verify *v, struct rows_case *c) {
    uint32_t queries = c->rows[1].queries;
    int32_t *position = kvc_verify_alloc(v, queries * sizeof *position);
    struct kvc_twin positions;
    if (!position || kvc_verify_range(v, 0, 1))
        return;
    position[0] = (int32_t)kvc_verify_range(v, 0, (uint32_t)c->lists.now);
    for (uint32_t i = 1; i < queries; i++)
        position[i] = position[i - 1] + 1;
    kvc_verify_describe(v, ", by position from %u", (unsigned)position[0], 0);
    positions = kvc_verify_twin(v, queries * sizeof *position, position);
    for (int side = v->first; side < 2; side++) {
        c->rows[side].positions = kvc_verify_span(positions, side);
        c->rows[side].causal_offset.buffer = NULL;
    }
}

KVC_INJECT(window_mass, kvc_window_mass,
           kvc_flip_score(device, args->probabilities->lists, args->scores, args->stride,
                          args->by_head ? args->probabilities->heads / args->probabilities->lists->kv_heads : 1))
KVC_CASE(window_mass, 20) {
    struct rows_case c;
    if (make_rows(v, 0, 32, false, &c)) {
        uint32_t stride = c.lists.most + kvc_verify_range(v, 1, 4), heads = c.rows[1].heads;
        bool by_head = kvc_verify_range(v, 0, 1);
        uint32_t rows = by_head ? heads : c.lists.lists[1].kv_heads;
        struct kvc_twin scores = kvc_verify_output(v, (size_t)heads * stride * sizeof(float));
        by_position(v, &c);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
            v->device[side]->ops->window_mass(v->device[side],
                                              &(struct kvc_window_mass){.probabilities = &c.rows[side],
                                                                        .scores = kvc_verify_span(scores, side),
                                                                        .stride = stride,
                                                                        .by_head = by_head,
                                                                        .maxima = v->further == KVC_FURTHER_maxima});
        for (uint32_t h = 0; h < rows && v->status == KVC_OK; h++)
            kvc_verify_compare(v, scores, (size_t)h * stride, c.lists.count[h * c.lists.lists[1].kv_heads / rows],
                               "scores");
    }
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(window_mass, packed, 40)

KVC_FURTHER_CASES(window_mass, scoring, 10)
KVC_FURTHER_CASES(window_mass, integers, 15)
KVC_FURTHER_CASES(window_mass, maxima, 20)

KVC_INJECT(window_moments, kvc_window_moments,
           kvc_flip_score(device, args->probabilities->lists, args->scores, args->stride,
                          args->probabilities->heads / args->probabilities->lists->kv_heads))
KVC_CASE(window_moments, 15) {
    struct rows_case c;
    if (make_rows(v, 0, 32, false, &c)) {
        uint32_t stride = c.lists.most + kvc_verify_range(v, 1, 4), heads = c.rows[1].heads;
        uint64_t tail = kvc_verify_range(v, 0, 3) ? kvc_verify_range(v, 0, 40) : kvc_verify_range(v, 0, 1000);
        float gamma = kvc_verify_range(v, 0, 2) ? 200.0f : (float)kvc_verify_range(v, 0, 3);
        struct kvc_twin scores = kvc_verify_output(v, (size_t)heads * stride * sizeof(float));
        struct kvc_twin totals = kvc_verify_output(v, 2 * heads * sizeof(float));
        by_position(v, &c);
        kvc_verify_describe(v, ", tail %u", (unsigned)tail, 0);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
            v->device[side]->ops->window_moments(v->device[side],
                                                 &(struct kvc_window_moments){.probabilities = &c.rows[side],
                                                                              .tail = tail,
                                                                              .gamma = gamma,
                                                                              .scores = kvc_verify_span(scores, side),
                                                                              .stride = stride,
                                                                              .totals = kvc_verify_span(totals, side)});
        for (uint32_t h = 0; h < heads && v->status == KVC_OK; h++)
            kvc_verify_compare(v, scores, (size_t)h * stride, c.lists.count[h * c.lists.lists[1].kv_heads / heads],
                               "scores");
        if (v->status == KVC_OK)
            kvc_verify_compare(v, totals, 0, 2 * heads, "totals");
    }
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(window_moments, packed, 20)

KVC_FURTHER_CASES(window_moments, scoring, 10)
KVC_FURTHER_CASES(window_moments, integers, 15)

KVC_INJECT(accumulate, kvc_accumulate, kvc_flip_state(device, args->probabilities->lists, args->column + 1))
KVC_CASE(accumulate, 20) {
    struct rows_case c;
    uint32_t column = kvc_verify_range(v, 0, 2), more = kvc_verify_range(v, 0, 1);
    uint32_t most = kvc_verify_range(v, 0, 3) ? 40 : 400;
    if (make_rows(v, column + 2 + more, most, false, &c)) {
        struct kvc_noise noise = {.seed = kvc_verify_draw(v), .layer = kvc_verify_range(v, 0, 40), .tau = 1.0f};
        bool noisy = kvc_verify_range(v, 0, 1);
        if (kvc_verify_range(v, 0, 1))
            noise.seed <<= 20;
        noise.first_head = noise.layer % 3;
        if (kvc_verify_range(v, 0, 2))
            noise.tau += (float)kvc_verify_range(v, 0, 64) / 64.0f;
        by_position(v, &c);
        if (noisy)
            kvc_verify_describe(v, ", noise of %u in layer %u", (unsigned)noise.seed, noise.layer);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
            v->device[side]->ops->accumulate(v->device[side], &(struct kvc_accumulate){.probabilities = &c.rows[side],
                                                                                       .column = column,
                                                                                       .noise = noisy ? &noise : NULL});
        if (v->status == KVC_OK)
            kvc_verify_compare_lists(v, &c.lists);
    }
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(accumulate, packed, 20)

KVC_FURTHER_CASES(accumulate, scoring, 10)
KVC_FURTHER_CASES(accumulate, integers, 15)

static const enum kvc_row_kind kinds[] = {KVC_ROW_PROBABILITIES, KVC_ROW_LOGITS, KVC_ROW_LOW, KVC_ROW_COUNTS};

KVC_INJECT(ring_write, kvc_ring_write, kvc_flip_state(device, args->probabilities->lists, args->first))
KVC_CASE(ring_write, 15) {
    struct rows_case c;
    uint32_t ring = kvc_verify_range(v, 1, 9), first = kvc_verify_range(v, 0, 2);
    enum kvc_row_kind kind = kvc_verify_pick(v, kinds);
    if (make_rows(v, first + (kind == KVC_ROW_COUNTS ? 2 * ring + 1 : ring), ring, true, &c)) {
        by_position(v, &c);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
            v->device[side]->ops->ring_write(
                v->device[side],
                &(struct kvc_ring_write){.probabilities = &c.rows[side], .first = first, .ring = ring, .kind = kind});
        kvc_verify_compare_lists(v, &c.lists);
    }
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(ring_write, packed, 20)

KVC_FURTHER_CASES(ring_write, scoring, 10)
KVC_FURTHER_CASES(ring_write, integers, 15)

KVC_INJECT(ring_fuse, kvc_ring_fuse, kvc_flip_score(device, args->lists, args->scores, args->stride, 1))
KVC_CASE(ring_fuse, 40) {
    uint32_t ring = kvc_verify_range(v, 1, 40), filled = kvc_verify_range(v, 0, ring), stride;
    uint32_t first = kvc_verify_range(v, 0, 1) ? 0 : kvc_verify_range(v, 1, 40), columns = first + ring;
    struct kvc_lists_shape shape = kvc_verify_shape(v, columns, 5, kvc_verify_range(v, 0, 2) > 0);
    enum kvc_row_kind kind = kinds[kvc_verify_range(v, 0, 2)];
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
    if (v->status == KVC_OK && kvc_verify_range(v, 0, 1)) { /* in the other cases the state is zero at first */
        size_t n = (size_t)columns * lists.all_slots;
        float *values = kvc_verify_values(v, n, kvc_verify_flavour(v));
        if (values && kind == KVC_ROW_LOGITS && kvc_verify_range(v, 0, 1)) /* runs of entries that no query saw */
            for (size_t i = kvc_verify_range(v, 0, 50); i < n; i += kvc_verify_range(v, 1, 1500))
                for (size_t end = i + kvc_verify_range(v, 1, 1000); i < end && i < n; i++)
                    values[i] = -kvc_infinity();
        for (int side = v->first; values && side < 2; side++)
            v->device[side]->ops->upload(v->device[side], (struct kvc_span){lists.lists[side].state, 0}, values,
                                         n * sizeof *values);
    }
    stride = lists.most + kvc_verify_range(v, 1, 4);
    scores = kvc_verify_output(v, (size_t)shape.kv_heads * stride * sizeof(float));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->ring_fuse(v->device[side],
                                        &(struct kvc_ring_fuse){.lists = &lists.lists[side],
                                                                .first = first,
                                                                .ring = ring,
                                                                .filled = filled,
                                                                .now = now,
                                                                .kind = kind,
                                                                .fusion = fusion,
                                                                .recent = recent,
                                                                .scores = kvc_verify_span(scores, side),
                                                                .stride = stride});
    kvc_verify_compare_scores(v, &lists, scores, stride);
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
            device->ops->scores_column(device, &(struct kvc_scores_column){.lists = &lists.lists[side],
                                                                           .column = first,
                                                                           .scores = kvc_verify_span(scores, side),
                                                                           .stride = stride});
        else
            device->ops->column_scores(device, &(struct kvc_column_scores){.lists = &lists.lists[side],
                                                                           .first = first,
                                                                           .columns = columns,
                                                                           .scores = kvc_verify_span(scores, side),
                                                                           .stride = stride});
    }
    if (v->status == KVC_OK && back)
        kvc_verify_compare_lists(v, &lists);
    else if (v->status == KVC_OK)
        kvc_verify_compare_scores(v, &lists, scores, stride);
    kvc_verify_lists_free(v, &lists);
}

KVC_INJECT(column_scores, kvc_column_scores, kvc_flip_score(device, args->lists, args->scores, args->stride, 1))
KVC_CASE(column_scores, 30) { columns_case(v, false); }

KVC_INJECT(scores_column, kvc_scores_column, kvc_flip_state(device, args->lists, args->column))
KVC_CASE(scores_column, 20) { columns_case(v, true); }
