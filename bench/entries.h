/* entries.h - short names for the shape of the lists with which most operations on entries are measured: 8 KV heads of
 * 4096 entries in F16. */
#ifndef KVC_BENCH_ENTRIES_H
#define KVC_BENCH_ENTRIES_H

#include "bench/measure.h"

enum {
    N = MEASURE_ENTRIES,
    H = MEASURE_HEADS,
    HK = MEASURE_KV_HEADS,
    D = MEASURE_HEAD_SIZE,
    STRIDE = MEASURE_STRIDE,
    ALL = N * HK
};

static inline struct kvc_lists *make_lists(struct kvc_measure *m, uint32_t columns) {
    return kvc_measure_lists(m, KVC_F16, N, N, columns, true);
}

static inline uint64_t key_bytes(void) { return (uint64_t)ALL * D * 2; }

#endif
