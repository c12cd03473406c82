/* softmax_tile.h - template: the exponentials of one tile of scores, their maximum and their sum. */
#ifndef KVC_SIMD_ATTENTION_SOFTMAX_TILE_H
#define KVC_SIMD_ATTENTION_SOFTMAX_TILE_H

#include "backends/cpu/simd/attention/entries.h"

/* s [KVC_TILE] holds the scores of places low .. high - 1 (low < high); they become p = exp(s - m), the rest of their
 * groups of 32 becomes 0. Returns m; the sign of a zero m is not defined, nor m where there are NaNs: nothing depends
 * on them. *sum is the 32-lane sum of p. */
static inline float softmax_tile(float *s, uint32_t low, uint32_t high, float *sum) {
    const uint32_t from = low / KVC_LANES * KVC_LANES, to = (high + KVC_LANES - 1) / KVC_LANES * KVC_LANES;
    for (uint32_t i = from; i < low; i++)
        s[i] = -kvc_infinity();
    for (uint32_t i = high; i < to; i++)
        s[i] = -kvc_infinity();
    vf top[FOLD], lane[FOLD];
    UNROLL
    for (unsigned f = 0; f < FOLD; f++) {
        top[f] = vf_load(s + from + f * LANES);
        lane[f] = vf_zero();
    }
    vm nan = vf_unordered(top[0], top[1]);
    for (uint32_t i = from; i < to; i += KVC_LANES)
        UNROLL
    for (unsigned f = 0; f < FOLD; f += 2) {
        const vf x = vf_load(s + i + f * LANES), y = vf_load(s + i + f * LANES + LANES);
        nan = vm_or(nan, vf_unordered(x, y));
        top[f] = vf_max(top[f], x);
        top[f + 1] = vf_max(top[f + 1], y);
    }
    if (vm_bits(nan)) { /* one NaN makes the sum and every channel NaN */
        for (uint32_t i = low; i < high; i++)
            s[i] = kvc_nan();
        return *sum = kvc_nan();
    }
    UNROLL
    for (unsigned w = FOLD / 2; w > 0; w /= 2)
        UNROLL
    for (unsigned f = 0; f < w; f++)
        top[f] = vf_max(top[f], top[f + w]);
    float last[LANES];
    vf_store(last, top[0]);
    UNROLL
    for (int w = LANES / 2; w > 0; w /= 2)
        UNROLL
    for (int i = 0; i < w; i++)
        last[i] = kvc_max(last[i], last[i + w]);
    exps_and_sums(s + from, to - from, last[0], NULL, lane);
    *sum = sum_lanes(lane);
    return last[0];
}

#endif
