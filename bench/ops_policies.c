/* ops_policies.c - measures the operations that methods use to score and choose entries: 8 KV heads of 4096
 * entries. */
#include "bench/entries.h"
#include "core/base/integers.h"
#include "core/base/canon.h"
#include "core/base/fused.h"

enum {
    SCORE = 2 * D + MEASURE_EXP, /* flops to compute one probability from its query and key */
    WINDOW = 32
};

static const struct kvc_span none = {NULL, 0};

/* Returns the probabilities of queries at the end of the lists, with the M and L of their attention. */
static struct kvc_probabilities make_rows(struct kvc_measure *m, const struct kvc_lists *lists, uint32_t queries) {
    const struct kvc_segment segment = {
        .lists = (struct kvc_lists *)(uintptr_t)lists, .rows = queries, .stored = queries};
    const struct kvc_attention a = kvc_measure_make_attention(m, &segment, H, N);
    if (m->status == KVC_OK)
        m->ops->attention(m->device, &a);
    return kvc_measure_probabilities(lists, queries, &a);
}

KVC_MEASURE(window_mass, 2, by_head) {
    const struct kvc_probabilities rows = make_rows(m, make_lists(m, 0), WINDOW);
    const struct kvc_span scores = kvc_measure_space(m, (size_t)H * STRIDE * 4);
    kvc_measure_counts(m, key_bytes() + 4ull * N * (unsigned)(by_head ? H : HK), (uint64_t)WINDOW * H * N * (SCORE + 2),
                       "%d queries%s", WINDOW, by_head ? ", by head" : "");
    while (kvc_measure_again(m))
        m->ops->window_mass(m->device,
                            &(struct kvc_window_mass){
                                .probabilities = &rows, .scores = scores, .stride = STRIDE, .by_head = by_head != 0});
}

KVC_MEASURE(window_moments, 1, variant) {
    const struct kvc_probabilities rows = make_rows(m, make_lists(m, 0), WINDOW);
    const struct kvc_span scores = kvc_measure_space(m, (size_t)H * STRIDE * 4), totals = kvc_measure_space(m, H * 8);
    (void)variant;
    kvc_measure_counts(m, key_bytes() + H * N * 4ull, (uint64_t)WINDOW * H * N * (SCORE + MEASURE_EXP + 6),
                       "%d queries", WINDOW);
    while (kvc_measure_again(m))
        m->ops->window_moments(m->device, &(struct kvc_window_moments){.probabilities = &rows,
                                                                       .tail = WINDOW,
                                                                       .gamma = 0.5f,
                                                                       .scores = scores,
                                                                       .stride = STRIDE,
                                                                       .totals = totals});
}

/* Variants: attention probabilities of one query; attention probabilities of a chunk of queries; keyformer's noisy
 * probabilities of one query. */
KVC_MEASURE(accumulate, 3, variant) {
    static const struct kvc_noise noise = {.seed = 1, .layer = 3, .tau = 1.5f};
    const uint32_t queries = variant == 1 ? 64 : 1;
    const struct kvc_probabilities rows = make_rows(m, make_lists(m, 2), queries);
    kvc_measure_counts(m, key_bytes() + 2ull * ALL * 4,
                       (uint64_t)queries * H * N * (unsigned)(SCORE + (variant == 2 ? 3 * MEASURE_EXP : 2)),
                       "%u quer%s%s", (unsigned)queries, queries == 1 ? "y" : "ies", variant == 2 ? ", noise" : "");
    while (kvc_measure_again(m))
        m->ops->accumulate(m->device, &(struct kvc_accumulate){
                                          .probabilities = &rows, .column = 0, .noise = variant == 2 ? &noise : NULL});
}

static const char *const kinds[] = {"weights", "logits", "low"};

KVC_MEASURE(ring_write, 3, kind) {
    const struct kvc_probabilities rows = make_rows(m, make_lists(m, WINDOW), 1);
    kvc_measure_counts(m, key_bytes() + ALL * 4ull, (uint64_t)H * N * SCORE, "1 query, %s", kinds[kind]);
    while (kvc_measure_again(m))
        m->ops->ring_write(m->device,
                           &(struct kvc_ring_write){
                               .probabilities = &rows, .first = 0, .ring = WINDOW, .kind = (enum kvc_row_kind)kind});
}

KVC_MEASURE(ring_fuse, 3, kind) {
    struct kvc_lists *lists = make_lists(m, WINDOW);
    const struct kvc_span scores = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    kvc_measure_counts(m, (uint64_t)ALL * (WINDOW + 1) * 4,
                       (uint64_t)ALL * WINDOW * (kind == KVC_ROW_LOGITS ? MEASURE_EXP + 4 : 1), "%d rows, %s", WINDOW,
                       kinds[kind]);
    while (kvc_measure_again(m))
        m->ops->ring_fuse(m->device, &(struct kvc_ring_fuse){.lists = lists,
                                                             .first = 0,
                                                             .ring = WINDOW,
                                                             .filled = WINDOW,
                                                             .now = N,
                                                             .kind = (enum kvc_row_kind)kind,
                                                             .fusion = KVC_FUSE_SUM,
                                                             .recent = INT64_MAX,
                                                             .scores = scores,
                                                             .stride = STRIDE});
}

/* Measures keep_ring as it runs in a method's decode step: as one fused operation if the backend has one. */
KVC_MEASURE(keep_ring, 1, variant) {
    const struct kvc_ring ring = {0, WINDOW, UINT32_MAX, N};
    const struct kvc_keep rule = {.fill = N - 1, .limit = N - 1, .recent = INT64_MAX};
    struct kvc_lists *lists = make_lists(m, WINDOW);
    const struct kvc_span fused = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    struct kvc_read_list kept = kvc_measure_reads(m, 1, N);
    (void)variant;
    kvc_measure_counts(m, (uint64_t)ALL * (WINDOW + 1) * 4, (uint64_t)ALL * WINDOW, "%d rows", WINDOW);
    while (kvc_measure_again(m))
        kvc_run_keep_ring(m->device, &(struct kvc_keep_ring){.lists = lists,
                                                             .rule = &rule,
                                                             .ring = &ring,
                                                             .scores = none,
                                                             .fused = fused,
                                                             .stride = STRIDE,
                                                             .kept = &kept});
}

KVC_MEASURE(column_scores, 1, variant) {
    struct kvc_lists *lists = make_lists(m, 2);
    const struct kvc_span scores = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    (void)variant;
    kvc_measure_counts(m, 4ull * ALL * 4, ALL, "2 columns");
    while (kvc_measure_again(m))
        m->ops->column_scores(
            m->device,
            &(struct kvc_column_scores){.lists = lists, .first = 0, .columns = 2, .scores = scores, .stride = STRIDE});
}

KVC_MEASURE(scores_column, 1, variant) {
    struct kvc_lists *lists = make_lists(m, 1);
    const struct kvc_span scores = kvc_measure_values(m, (size_t)HK * STRIDE);
    (void)variant;
    kvc_measure_counts(m, 3ull * ALL * 4, 0, "1 column");
    while (kvc_measure_again(m))
        m->ops->scores_column(
            m->device, &(struct kvc_scores_column){.lists = lists, .column = 0, .scores = scores, .stride = STRIDE});
}

KVC_MEASURE(pool, 2, pooling) {
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span in = kvc_measure_values(m, (size_t)HK * STRIDE);
    const struct kvc_span out = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    kvc_measure_counts(m, 2ull * ALL * 4, 7ull * ALL, "7 wide, %s", pooling == KVC_POOL_MAX ? "max" : "average");
    while (kvc_measure_again(m))
        m->ops->pool(m->device, &(struct kvc_pool){.lists = lists,
                                                   .rows = 1,
                                                   .out = out,
                                                   .in = in,
                                                   .stride = STRIDE,
                                                   .tail = WINDOW,
                                                   .kernel = 7,
                                                   .pooling = (enum kvc_pooling)pooling});
}

KVC_MEASURE(group_scores, 1, variant) {
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span in = kvc_measure_values(m, (size_t)H * STRIDE);
    const struct kvc_span out = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    (void)variant;
    kvc_measure_counts(m, (uint64_t)(H + HK) * N * 4, (uint64_t)(H + HK) * N, "groups of %d", MEASURE_GROUP);
    while (kvc_measure_again(m))
        m->ops->group_scores(
            m->device,
            &(struct kvc_group_scores){
                .lists = lists, .rows = MEASURE_GROUP, .out = out, .in = in, .stride = STRIDE, .divisor = 4.0f});
}

KVC_MEASURE(keep, 2, variant) {
    const struct kvc_keep rule = {.top = variant ? N - 1 : N / 4, .tail = variant ? 0 : WINDOW, .recent = INT64_MAX};
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span scores = kvc_measure_values(m, (size_t)HK * STRIDE);
    struct kvc_read_list kept = kvc_measure_reads(m, 1, N);
    kvc_measure_counts(m, 2ull * ALL * 4, 0, "the top %u of %d", (unsigned)rule.top, N);
    while (kvc_measure_again(m))
        m->ops->keep(m->device, &(struct kvc_keep_rules){.lists = lists,
                                                         .rules = &rule,
                                                         .rule_count = 1,
                                                         .scores = scores,
                                                         .ties = none,
                                                         .stride = STRIDE,
                                                         .kept = &kept});
}

KVC_MEASURE(shares, 1, variant) {
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span scores = kvc_measure_values(m, (size_t)HK * STRIDE), out = kvc_measure_space(m, HK * 4);
    (void)variant;
    kvc_measure_counts(m, ALL * 4ull, 0, "%d of %d", ALL / 4, ALL);
    while (kvc_measure_again(m))
        m->ops->shares(
            m->device,
            &(struct kvc_shares){
                .lists = lists, .scores = scores, .stride = STRIDE, .tail = WINDOW, .slots = ALL / 4, .shares = out});
}

/* ---- select methods ---- */

KVC_MEASURE(view_append, 1, variant) {
    struct kvc_lists *lists = make_lists(m, 0);
    struct kvc_read_list view = kvc_measure_reads(m, N / 4, N);
    const struct kvc_span count = kvc_measure_numbers(m, HK, N / 4, 0);
    (void)variant;
    kvc_measure_counts(m, HK * 16ull, 0, "1 row");
    m->row.calls = 2;
    while (kvc_measure_again(m)) {
        m->ops->copy(m->device, (struct kvc_span){view.count, 0}, count, HK * 4);
        m->ops->view_append(m->device, &(struct kvc_view_append){.lists = lists, .view = &view, .rows = 1});
    }
}

KVC_MEASURE(view_evict, 1, variant) {
    struct kvc_lists *lists = make_lists(m, 0);
    struct kvc_read_list view = kvc_measure_reads(m, N / 4, N);
    const struct kvc_read_list full = kvc_measure_reads(m, N / 4, N), kept = kvc_measure_reads(m, N / 2, N);
    const size_t indices = (size_t)HK * STRIDE * 4;
    (void)variant;
    kvc_measure_counts(m, ALL / 4 * 4ull + ALL / 2 * 4ull + ALL / 4 * 4ull + 2 * indices, 0, "%d of %d, %d kept", N / 4,
                       N, N / 2);
    m->row.calls = 3;
    while (kvc_measure_again(m)) {
        m->ops->copy(m->device, (struct kvc_span){view.count, 0}, (struct kvc_span){full.count, 0}, HK * 4);
        m->ops->copy(m->device, (struct kvc_span){view.index, 0}, (struct kvc_span){full.index, 0}, indices);
        m->ops->view_evict(m->device, &(struct kvc_view_evict){.lists = lists, .kept = &kept, .view = &view});
    }
}

KVC_MEASURE(value_sums, 2, variant) {
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span sums = kvc_measure_space(m, HK * D * 4);
    kvc_measure_counts(m, variant ? HK * D * 10ull : key_bytes(), variant ? HK * D : (uint64_t)ALL * D, "%s",
                       variant ? "1 new" : "all");
    while (kvc_measure_again(m))
        m->ops->value_sums(
            m->device,
            &(struct kvc_value_sums){.lists = lists, .view = NULL, .sums = sums, .rows = variant ? 1 : UINT32_MAX});
}

KVC_MEASURE(mix_mean, 1, variant) {
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_read_list reads = kvc_measure_reads(m, N / 4, N);
    const struct kvc_span out = kvc_measure_values(m, H * D), alpha = kvc_measure_values(m, H);
    const struct kvc_span sums = kvc_measure_values(m, HK * D);
    (void)variant;
    kvc_measure_counts(m, (2 * H + HK) * D * 4ull, 4 * H * D, "%d heads", H);
    while (kvc_measure_again(m))
        m->ops->mix_mean(m->device, &(struct kvc_mix_mean){.lists = lists,
                                                           .view = NULL,
                                                           .reads = &reads,
                                                           .heads = H,
                                                           .head_size = D,
                                                           .out = out,
                                                           .alpha = alpha,
                                                           .sums = sums});
}
