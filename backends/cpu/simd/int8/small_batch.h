/* small_batch.h - template: computes a small batch in groups of 4, 2 and 1 rows. Each group size has its own compiled
 * loop. gemv.h or neon/gemv.h defines small_batch_of_<type>(call, row, first, last, R), which computes R rows from
 * `row` on. */
#ifndef KVC_SIMD_INT8_SMALL_BATCH_H
#define KVC_SIMD_INT8_SMALL_BATCH_H

#if defined(__aarch64__)
#include "backends/cpu/simd/int8/neon/gemv.h"
#else
#include "backends/cpu/simd/int8/gemv.h"
#endif

#define SMALL_BATCH_ROWS(a, NAME, name, ...)                                                                           \
    static void small_batch_1_##name(const struct kvc_int8_call *call, size_t row, size_t first, size_t last) {        \
        small_batch(KVC_##NAME, call, row, first, last, 1);                                                            \
    }                                                                                                                  \
    static void small_batch_2_##name(const struct kvc_int8_call *call, size_t row, size_t first, size_t last) {        \
        small_batch(KVC_##NAME, call, row, first, last, 2);                                                            \
    }                                                                                                                  \
    static void small_batch_4_##name(const struct kvc_int8_call *call, size_t row, size_t first, size_t last) {        \
        small_batch(KVC_##NAME, call, row, first, last, 4);                                                            \
    }
KVC_BLOCK_TYPES(SMALL_BATCH_ROWS, )

static const struct {
    void (*rows[3])(const struct kvc_int8_call *call, size_t row, size_t first, size_t last); /* for 1, 2 and 4 rows */
} small_batch_by_type[KVC_TYPES] = {
#define SMALL_BATCH_BY_TYPE(a, NAME, name, ...)                                                                        \
    [KVC_##NAME] = {{small_batch_1_##name, small_batch_2_##name, small_batch_4_##name}},
    KVC_BLOCK_TYPES(SMALL_BATCH_BY_TYPE, )};

static void few_rows(const struct kvc_int8_call *call, size_t first, size_t last) {
    for (size_t row = 0; row < call->rows;) {
        const size_t left = call->rows - row, power = left >= 4 ? 2 : left >= 2;
        small_batch_by_type[call->type].rows[power](call, row, first, last);
        row += (size_t)1 << power;
    }
}

#endif
