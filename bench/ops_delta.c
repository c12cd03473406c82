/* ops_delta.c - measures gated delta nets: 32 heads with matrices of 128 x 128, with one row and with a chunk of a
 * prompt. */
#include "bench/measure.h"

enum { HEADS = 32, KEY_HEADS = 16, SIZE = 128, TAPS = 4, CHANNELS = HEADS * SIZE };

KVC_MEASURE(convolve, 2, variant) {
    const uint32_t rows = variant ? MEASURE_ROWS : 1;
    const size_t values = (size_t)rows * CHANNELS;
    const struct kvc_span x = kvc_measure_values(m, values), w = kvc_measure_values(m, CHANNELS * TAPS);
    const struct kvc_span y = kvc_measure_space(m, values * 4), state = kvc_measure_space(m, CHANNELS * (TAPS - 1) * 4);
    const struct kvc_recurrence segment = {state, 0, rows, true};
    kvc_measure_counts(m, 2 * values * 4 + (uint64_t)CHANNELS * (3 * TAPS - 2) * 4,
                       values * (2 * TAPS + MEASURE_EXP + 2), "%u row%s of %d, %d taps", (unsigned)rows,
                       rows == 1 ? "" : "s", CHANNELS, TAPS);
    while (kvc_measure_again(m))
        m->ops->convolve(
            m->device,
            &(struct kvc_convolve){
                .segments = &segment, .segment_count = 1, .y = y, .x = x, .w = w, .channels = CHANNELS, .taps = TAPS});
}

KVC_MEASURE(delta_rule, 2, variant) {
    const uint32_t rows = variant ? MEASURE_ROWS : 1;
    const size_t values = (size_t)rows * CHANNELS, matrix = (size_t)CHANNELS * SIZE;
    const struct kvc_span q = kvc_measure_values(m, values / 2), k = kvc_measure_values(m, values / 2);
    const struct kvc_span v = kvc_measure_values(m, values), out = kvc_measure_space(m, values * 4);
    const struct kvc_span a = kvc_measure_values(m, (size_t)rows * HEADS), beta = a,
                          bias = kvc_measure_values(m, HEADS);
    const struct kvc_span rate = kvc_measure_space(m, HEADS * 4), state = kvc_measure_space(m, matrix * 4);
    const struct kvc_recurrence segment = {state, 0, rows, true};
    kvc_measure_counts(m, 3 * values * 4 + 2 * matrix * 4, 7 * matrix * rows, "%u row%s, %d heads of %d x %d",
                       (unsigned)rows, rows == 1 ? "" : "s", HEADS, SIZE, SIZE);
    while (kvc_measure_again(m))
        m->ops->delta_rule(m->device, &(struct kvc_delta_rule){.segments = &segment,
                                                               .segment_count = 1,
                                                               .out = out,
                                                               .q = q,
                                                               .k = k,
                                                               .v = v,
                                                               .a = a,
                                                               .beta = beta,
                                                               .rate = rate,
                                                               .bias = bias,
                                                               .heads = HEADS,
                                                               .key_heads = KEY_HEADS,
                                                               .value_size = SIZE,
                                                               .key_size = SIZE});
}
