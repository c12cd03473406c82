/* ops_entries.c - measures the operations that score entries by their keys and values: 8 KV heads of 4096
 * entries. */
#include "bench/entries.h"
#include "core/base/canon.h"

KVC_MEASURE(entry_scores, 3, kind) {
    static const char *const said[] = {"draws", "norms", "directions"};
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span scores = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    const unsigned passes = kind == KVC_ENTRY_APART ? 3 : kind == KVC_ENTRY_NORM;
    kvc_measure_counts(m, passes * key_bytes() + ALL * 4ull, 2ull * passes * ALL * D, "%s", said[kind]);
    while (kvc_measure_again(m))
        m->ops->entry_scores(m->device, &(struct kvc_entry_scores){.lists = lists,
                                                                   .kind = (enum kvc_entry_kind)kind,
                                                                   .layer = 1,
                                                                   .seed = 1,
                                                                   .scores = scores,
                                                                   .stride = STRIDE});
}

KVC_MEASURE(norm_shares, 1, variant) {
    enum { CHUNK = 16 };
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span scores = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    (void)variant;
    kvc_measure_counts(m, 2 * key_bytes() + ALL * 4ull, 4ull * ALL * D, "chunks of %d", CHUNK);
    while (kvc_measure_again(m))
        m->ops->norm_shares(
            m->device,
            &(struct kvc_norm_shares){
                .lists = lists, .kind = KVC_SHARE_PRODUCT, .chunk = CHUNK, .scores = scores, .stride = STRIDE});
}

KVC_MEASURE(lag_scores, 1, variant) {
    enum { LAG = 128 };
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span scores = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    (void)variant;
    kvc_measure_counts(m, 4 * key_bytes() + ALL * 4ull, 20ull * ALL * D, "lag %d", LAG);
    while (kvc_measure_again(m))
        m->ops->lag_scores(m->device, &(struct kvc_lag_scores){
                                          .lists = lists, .first = 4, .lag = LAG, .scores = scores, .stride = STRIDE});
}

KVC_MEASURE(mix_redundancy, 1, variant) {
    enum { HELD = 1024 };
    struct kvc_lists *lists = kvc_measure_lists(m, KVC_F16, N, HELD, 0, true);
    const struct kvc_span scores = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    (void)variant;
    kvc_measure_counts(m, (uint64_t)HELD * HK * (D * 2 + 8), 2ull * HELD * HELD * HK * D, "%d entries", HELD);
    while (kvc_measure_again(m))
        m->ops->mix_redundancy(m->device, &(struct kvc_mix_redundancy){.lists = lists,
                                                                       .threshold = 0.5f,
                                                                       .share = 0.07f,
                                                                       .divisor = 1.0f,
                                                                       .scores = scores,
                                                                       .stride = STRIDE});
}

KVC_MEASURE(output_norms, 1, variant) {
    enum { OUTPUTS = 64 };
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span w = kvc_measure_values(m, (size_t)OUTPUTS * H * D);
    const struct kvc_span norms = kvc_measure_space(m, (size_t)H * STRIDE * 4);
    (void)variant;
    kvc_measure_counts(m, key_bytes() + 4ull * H * N, 2ull * OUTPUTS * H * N * D, "%d outputs", OUTPUTS);
    while (kvc_measure_again(m))
        m->ops->output_norms(m->device, &(struct kvc_output_norms){.lists = lists,
                                                                   .w = w,
                                                                   .heads = H,
                                                                   .outputs = OUTPUTS,
                                                                   .first = true,
                                                                   .norms = norms,
                                                                   .stride = STRIDE});
}

KVC_MEASURE(weigh_scores, 1, variant) {
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_read_list kept = kvc_measure_reads(m, N / 8, N);
    const struct kvc_span factor = kvc_measure_values(m, (size_t)HK * STRIDE);
    const struct kvc_span scores = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    (void)variant;
    kvc_measure_counts(m, ALL * 12ull, 2ull * ALL, "%d kept", N / 8);
    while (kvc_measure_again(m))
        m->ops->weigh_scores(
            m->device,
            &(struct kvc_weigh_scores){
                .lists = lists, .kept = &kept, .epsilon = 0.1f, .factor = factor, .scores = scores, .stride = STRIDE});
}

KVC_MEASURE(query_moments, 1, variant) {
    enum { ROWS = MEASURE_ROWS };
    const struct kvc_span q = kvc_measure_values(m, (size_t)ROWS * H * D);
    const struct kvc_span sums = kvc_measure_space(m, (size_t)H * (D + 1) * D * 4);
    (void)variant;
    kvc_measure_counts(m, (uint64_t)ROWS * H * D * 4, 2ull * ROWS * H * D * D, "%d rows", ROWS);
    while (kvc_measure_again(m))
        m->ops->query_moments(
            m->device,
            &(struct kvc_query_moments){.q = q, .sums = sums, .rows = ROWS, .heads = H, .head_size = D, .first = true});
}

KVC_MEASURE(expected_scores, 2, mean_only) {
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span sums = kvc_measure_values(m, (size_t)H * (D + 1) * D);
    const struct kvc_span scores = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    kvc_measure_counts(m, 2 * key_bytes() + ALL * 4ull, 2ull * N * H * D * (mean_only ? 1 : D), "%s",
                       mean_only ? "means" : "covariances");
    while (kvc_measure_again(m))
        m->ops->expected_scores(m->device, &(struct kvc_expected_scores){.lists = lists,
                                                                         .heads = H,
                                                                         .queries = 100,
                                                                         .first = 4,
                                                                         .sums = sums,
                                                                         .scale = 0.125f,
                                                                         .covariance = !mean_only,
                                                                         .values = true,
                                                                         .scores = scores,
                                                                         .stride = STRIDE});
}

KVC_MEASURE(mean_weights, 1, variant) {
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span sums = kvc_measure_values(m, (size_t)H * (D + 1) * D);
    const struct kvc_span weights = kvc_measure_space(m, (size_t)H * STRIDE * 4);
    (void)variant;
    kvc_measure_counts(m, key_bytes() + 4ull * N * H, (uint64_t)N * H * (4 * D + MEASURE_EXP), "%d channels", D);
    while (kvc_measure_again(m))
        m->ops->mean_weights(m->device, &(struct kvc_mean_weights){.lists = lists,
                                                                   .heads = H,
                                                                   .queries = 100,
                                                                   .first = 4,
                                                                   .sums = sums,
                                                                   .scale = 2.5f,
                                                                   .weights = weights,
                                                                   .stride = STRIDE});
}

KVC_MEASURE(series_scores, 1, variant) {
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span mean = kvc_measure_values(m, (size_t)H * D);
    const struct kvc_span spread = kvc_measure_values(m, (size_t)H * D / 2);
    const struct kvc_span scores = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    (void)variant;
    kvc_measure_counts(m, key_bytes() + ALL * 4ull, 3ull * N * H * D, "%d pairs", D / 2);
    while (kvc_measure_again(m))
        m->ops->series_scores(m->device, &(struct kvc_series_scores){.lists = lists,
                                                                     .heads = H,
                                                                     .pairs = D / 2,
                                                                     .mean = mean,
                                                                     .spread = spread,
                                                                     .scores = scores,
                                                                     .stride = STRIDE});
}

KVC_MEASURE(chunk_mass, 1, variant) {
    enum { CHUNK = 256 };
    struct kvc_lists *lists = kvc_measure_lists(m, KVC_F16, N, N, 1, true);
    const struct kvc_span q = kvc_measure_values(m, (size_t)N * H * D);
    const struct kvc_span positions = kvc_measure_numbers(m, N, 0, 1);
    const struct kvc_span scores = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    (void)variant;
    kvc_measure_counts(m, 2 * key_bytes() + 4ull * N * H * D, (uint64_t)N * CHUNK * H * (2 * D + MEASURE_EXP + 2),
                       "chunks of %d", CHUNK);
    while (kvc_measure_again(m))
        m->ops->chunk_mass(m->device, &(struct kvc_chunk_mass){.lists = lists,
                                                               .queries = N,
                                                               .heads = H,
                                                               .first = 8,
                                                               .last = 4,
                                                               .chunk = CHUNK,
                                                               .q = q,
                                                               .positions = positions,
                                                               .scores = scores,
                                                               .stride = STRIDE});
}

KVC_MEASURE(leverage_scores, 2, weighted) {
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span cosine = kvc_measure_values(m, (size_t)N * D / 2);
    const struct kvc_span sine = kvc_measure_values(m, (size_t)N * D / 2);
    const struct kvc_span weights = kvc_measure_values(m, (size_t)H * STRIDE), none = {NULL, 0};
    const struct kvc_span scores = kvc_measure_space(m, (size_t)HK * STRIDE * 4);
    kvc_measure_counts(m, key_bytes() + ALL * 4ull, 2ull * (weighted ? N * H : ALL) * D * D, "%s",
                       weighted ? "weighted values" : "keys");
    while (kvc_measure_again(m))
        m->ops->leverage_scores(m->device, &(struct kvc_leverage_scores){.lists = lists,
                                                                         .first = 8,
                                                                         .last = 4,
                                                                         .heads = H,
                                                                         .weights = weighted ? weights : none,
                                                                         .cosine = cosine,
                                                                         .sine = sine,
                                                                         .rotary = D,
                                                                         .ridge = 0.01f,
                                                                         .scores = scores,
                                                                         .stride = STRIDE});
}

KVC_MEASURE(standard_mix, 1, variant) {
    struct kvc_lists *lists = make_lists(m, 0);
    const struct kvc_span leverage = kvc_measure_values(m, (size_t)HK * STRIDE);
    const struct kvc_span scores = kvc_measure_values(m, (size_t)HK * STRIDE);
    (void)variant;
    kvc_measure_counts(m, ALL * 12ull, 10ull * ALL, "%d entries", N);
    while (kvc_measure_again(m))
        m->ops->standard_mix(m->device, &(struct kvc_standard_mix){.lists = lists,
                                                                   .first = 8,
                                                                   .last = 4,
                                                                   .share = 0.9f,
                                                                   .leverage = leverage,
                                                                   .scores = scores,
                                                                   .stride = STRIDE});
}
