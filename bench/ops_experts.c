/* ops_experts.c - measures the operations of experts: 32 experts, 4 per row, with one row and with a chunk of a
 * prompt. */
#include "bench/measure.h"
#include "core/base/types.h"

enum { EXPERTS = 32, USED = 4, WIDTH = 512, CHUNK_PAIRS = MEASURE_ROWS * USED };

KVC_MEASURE(route, 2, variant) {
    const uint32_t rows = variant ? MEASURE_ROWS : 1;
    const size_t n = (size_t)rows * USED * 4;
    const struct kvc_span logits = kvc_measure_values(m, (size_t)rows * EXPERTS), expert = kvc_measure_space(m, n);
    const struct kvc_span share = kvc_measure_space(m, n), pair = kvc_measure_space(m, n);
    const struct kvc_span row = kvc_measure_space(m, n), first = kvc_measure_space(m, (EXPERTS + 1) * 4);
    kvc_measure_counts(m, (uint64_t)rows * EXPERTS * 4 + 4 * n, (uint64_t)rows * EXPERTS * (MEASURE_EXP + 2),
                       "%u row%s, %d of %d", (unsigned)rows, rows == 1 ? "" : "s", USED, EXPERTS);
    while (kvc_measure_again(m))
        m->ops->route(m->device, &(struct kvc_route){.logits = logits,
                                                     .rows = rows,
                                                     .experts = EXPERTS,
                                                     .used = USED,
                                                     .normalised = true,
                                                     .expert = expert,
                                                     .share = share,
                                                     .pair = pair,
                                                     .row = row,
                                                     .first = first});
}

/* Returns the first pair of each expert. The pairs of one row are spread over all experts. */
static struct kvc_span put_first_pairs(struct kvc_measure *m, uint32_t pairs) {
    uint32_t first_pair[EXPERTS + 1];
    for (uint32_t e = 0; e <= EXPERTS; e++)
        first_pair[e] = (uint32_t)((uint64_t)pairs * e / EXPERTS);
    return kvc_measure_put(m, first_pair, sizeof first_pair);
}

/* One row reads USED experts; a chunk reads all of them. */
KVC_MEASURE(expert_linear, 4, variant) {
    const enum kvc_type type = variant % 2 ? KVC_Q4_K : KVC_F16;
    const uint32_t pairs = variant < 2 ? USED : CHUNK_PAIRS, read = variant < 2 ? USED : EXPERTS;
    const uint64_t K = MEASURE_HIDDEN, N = WIDTH;
    const struct kvc_weight *w = kvc_measure_experts(m, type, EXPERTS, N, K);
    const struct kvc_span x = kvc_measure_values(m, pairs * K), y = kvc_measure_space(m, pairs * N * 4);
    const struct kvc_span none = {NULL, 0};
    const struct kvc_span first = put_first_pairs(m, pairs);
    kvc_measure_counts(m, read * N * kvc_type_row_bytes(type, K) + pairs * (N + K) * 4, 2 * N * K * pairs,
                       "%s, %u pairs, %u experts", kvc_type_name(type), (unsigned)pairs, (unsigned)read);
    while (kvc_measure_again(m))
        m->ops->expert_linear(
            m->device, &(struct kvc_expert_linear){
                           .y = y, .x = x, .w = w, .bias = none, .first = first, .experts = EXPERTS, .pairs = pairs});
}

KVC_MEASURE(expert_linear_int8, 2, variant) {
    const uint32_t pairs = variant ? CHUNK_PAIRS : USED, read = variant ? EXPERTS : USED;
    const uint32_t K = MEASURE_HIDDEN, N = WIDTH;
    const struct kvc_weight *w = kvc_measure_experts(m, KVC_Q4_K, EXPERTS, N, K);
    const struct kvc_int8_rows x = kvc_measure_int8_rows(m, pairs, K, NULL);
    const struct kvc_span y = kvc_measure_space(m, (size_t)pairs * N * 4), none = {NULL, 0};
    const struct kvc_span first = put_first_pairs(m, pairs);
    kvc_measure_counts(m, (uint64_t)read * N * kvc_type_row_bytes(KVC_Q4_K, K) + (uint64_t)pairs * (N * 4 + K),
                       2ull * N * K * pairs, "%s, %u pairs, %u experts", kvc_type_name(KVC_Q4_K), (unsigned)pairs,
                       (unsigned)read);
    while (kvc_measure_again(m))
        m->ops->expert_linear_int8(
            m->device, &(struct kvc_expert_linear_int8){
                           .y = y, .x = x, .w = w, .bias = none, .first = first, .experts = EXPERTS, .pairs = pairs});
}

KVC_MEASURE(expert_linear_int16, 2, variant) {
    const uint32_t pairs = variant ? CHUNK_PAIRS : USED, read = variant ? EXPERTS : USED;
    const uint32_t K = MEASURE_HIDDEN, N = WIDTH;
    const struct kvc_weight *w = kvc_measure_experts(m, KVC_F16, EXPERTS, N, K);
    const struct kvc_int16_rows x = kvc_measure_int16_rows(m, pairs, K, NULL);
    const struct kvc_span y = kvc_measure_space(m, (size_t)pairs * N * 4), none = {NULL, 0};
    const struct kvc_span first = put_first_pairs(m, pairs);
    kvc_measure_counts(m, (uint64_t)read * N * kvc_type_row_bytes(KVC_F16, K) + (uint64_t)pairs * (N * 4 + 2 * K),
                       2ull * N * K * pairs, "%s, %u pairs, %u experts", kvc_type_name(KVC_F16), (unsigned)pairs,
                       (unsigned)read);
    while (kvc_measure_again(m))
        m->ops->expert_linear_int16(
            m->device, &(struct kvc_expert_linear_int16){
                           .y = y, .x = x, .w = w, .bias = none, .first = first, .experts = EXPERTS, .pairs = pairs});
}

KVC_MEASURE(expert_sum, 1, variant) {
    const uint64_t values = (uint64_t)CHUNK_PAIRS * MEASURE_HIDDEN;
    const struct kvc_span y = kvc_measure_values(m, values), share = kvc_measure_values(m, CHUNK_PAIRS);
    const struct kvc_span pair = kvc_measure_numbers(m, CHUNK_PAIRS, 0, 1);
    const struct kvc_span out = kvc_measure_space(m, values / USED * 4);
    (void)variant;
    kvc_measure_counts(m, (values + values / USED) * 4, 2 * values, "%d x %d, %d each", MEASURE_ROWS, MEASURE_HIDDEN,
                       USED);
    while (kvc_measure_again(m))
        m->ops->expert_sum(m->device, &(struct kvc_expert_sum){.out = out,
                                                               .y = y,
                                                               .share = share,
                                                               .pair = pair,
                                                               .rows = MEASURE_ROWS,
                                                               .used = USED,
                                                               .width = MEASURE_HIDDEN});
}
