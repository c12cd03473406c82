/* ops_int8.c - measures linear layers of eight-bit activations, with the same shapes as the float layers. */
#include "bench/measure.h"
#include "core/base/types.h"

enum { TYPES = KVC_TYPES - KVC_Q8_0, EXPERTS = 32, USED = 4, WIDTH = 512, CHUNK_PAIRS = MEASURE_ROWS * USED };

KVC_MEASURE(quantize_rows, 1, variant) {
    const size_t values = (size_t)MEASURE_ROWS * MEASURE_HIDDEN;
    struct kvc_span x;
    const struct kvc_int8_rows y = kvc_measure_int8_rows(m, MEASURE_ROWS, MEASURE_HIDDEN, &x);
    (void)variant;
    kvc_measure_counts(m, values * 5 + values / 32 * 4 + values / 16 * 4, 3 * values, "%d x %d", MEASURE_ROWS,
                       MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->quantize_rows(m->device,
                              &(struct kvc_quantize_rows){.y = y, .x = x, .rows = MEASURE_ROWS, .K = MEASURE_HIDDEN});
}

/* Every type, with one row and with the rows of a short prompt. */
KVC_MEASURE(linear_int8, 2 * TYPES, variant) {
    kvc_measure_time_int8(m, (enum kvc_type)(KVC_Q8_0 + variant % TYPES), variant < TYPES ? 1 : 64,
                          MEASURE_FEED_FORWARD, MEASURE_HIDDEN, false);
}

/* One row reads USED experts; a chunk reads all of them. */
KVC_MEASURE(expert_linear_int8, 2, variant) {
    const uint32_t pairs = variant ? CHUNK_PAIRS : USED, read = variant ? EXPERTS : USED;
    const uint32_t K = MEASURE_HIDDEN, N = WIDTH;
    const struct kvc_weight *w = kvc_measure_experts(m, KVC_Q4_K, EXPERTS, N, K);
    const struct kvc_int8_rows x = kvc_measure_int8_rows(m, pairs, K, NULL);
    const struct kvc_span y = kvc_measure_space(m, (size_t)pairs * N * 4), none = {NULL, 0};
    uint32_t first_pair[EXPERTS + 1];
    for (uint32_t e = 0; e <= EXPERTS; e++) /* the pairs of one row are spread over all experts */
        first_pair[e] = (uint32_t)((uint64_t)pairs * e / EXPERTS);
    const struct kvc_span first = kvc_measure_put(m, first_pair, sizeof first_pair);
    kvc_measure_counts(m, (uint64_t)read * N * kvc_type_row_bytes(KVC_Q4_K, K) + (uint64_t)pairs * (N * 4 + K),
                       2ull * N * K * pairs, "%s, %u pairs, %u experts", kvc_type_name(KVC_Q4_K), (unsigned)pairs,
                       (unsigned)read);
    while (kvc_measure_again(m))
        m->ops->expert_linear_int8(
            m->device, &(struct kvc_expert_linear_int8){
                           .y = y, .x = x, .w = w, .bias = none, .first = first, .experts = EXPERTS, .pairs = pairs});
}
