/* ops_int8.c - measures linear layers with 8-bit and with 15-bit activations, with the same shapes as the float layers.
 * ops_experts.c measures the linear layers of experts. */
#include "bench/measure.h"
#include "core/base/types.h"

enum { TYPES = KVC_TYPES - KVC_Q8_0, PLAIN_TYPES = KVC_Q8_0 };

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

KVC_MEASURE(quantize_rows_int16, 1, variant) {
    const size_t values = (size_t)MEASURE_ROWS * MEASURE_HIDDEN;
    struct kvc_span x;
    const struct kvc_int16_rows y = kvc_measure_int16_rows(m, MEASURE_ROWS, MEASURE_HIDDEN, &x);
    (void)variant;
    kvc_measure_counts(m, values * 6 + MEASURE_ROWS * kvc_int16_blocks(MEASURE_HIDDEN) * 4, 3 * values, "%d x %d",
                       MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->quantize_rows_int16(
            m->device, &(struct kvc_quantize_rows_int16){.y = y, .x = x, .rows = MEASURE_ROWS, .K = MEASURE_HIDDEN});
}

/* Every plain type, with one row and with the rows of a short prompt. */
KVC_MEASURE(linear_int16, 2 * PLAIN_TYPES, variant) {
    kvc_measure_time_int16(m, (enum kvc_type)(variant % PLAIN_TYPES), variant < PLAIN_TYPES ? 1 : 64,
                           MEASURE_FEED_FORWARD, MEASURE_HIDDEN, false);
}
