/* softmax_tile.h - template: the exponentials of one tile of scores, with their maximum and their sum.
 *
 * An exponential is a chain of a dozen steps, each of which waits for the step before. Eight vectors go through each
 * step of the polynomial together, so that the result of the first vector is ready when the next step begins. Values
 * that do not fit in 16 registers are read as memory operands. Another function computes special results, which are
 * rare. */
#ifndef KVC_SIMD_ATTENTION_SOFTMAX_TILE_H
#define KVC_SIMD_ATTENTION_SOFTMAX_TILE_H

#include "backends/cpu/simd/attention/entries.h"

#define EXPS_AT_ONCE 8
#define EXPS_REDUCED 4 /* number of vectors whose argument is reduced together, before the polynomial */

INLINE uint32_t whole_lanes(uint32_t n) { return (n + KVC_LANES - 1) / KVC_LANES * KVC_LANES; }

/* Returns the largest score of entries low .. high - 1 (low < high). The range is padded to whole groups of 32 scores:
 * the other scores of the first and last group are set to -inf. If the maximum is zero, its sign is not defined. If a
 * score is NaN, the result is not defined. */
static inline float tile_most(float *s, uint32_t low, uint32_t high) {
    const uint32_t from = low / KVC_LANES * KVC_LANES, to = whole_lanes(high);
    for (uint32_t i = from; i < low; i++)
        s[i] = -kvc_infinity();
    for (uint32_t i = high; i < to; i++)
        s[i] = -kvc_infinity();
    vf top[LANE_VECTORS];
    UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        top[f] = vf_load(s + from + f * LANES);
    for (uint32_t i = from + KVC_LANES; i < to; i += KVC_LANES)
        UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        top[f] = vf_max(top[f], vf_load(s + i + f * LANES));
    UNROLL
    for (unsigned w = LANE_VECTORS / 2; w > 0; w /= 2)
        UNROLL
    for (unsigned f = 0; f < w; f++)
        top[f] = vf_max(top[f], top[f + w]);
    return vf_most(top[0]);
}

/* For n vectors, computes the reduced argument r of the polynomial for x + off, and the exponent bits that are added to
 * the polynomial's result. Returns true if every x + off is at least KVC_EXP_LOW, so that no result is special. Returns
 * false if an x is NaN. */
INLINE bool exps_reduce(unsigned n, const float *x, vf off, vf *r, vi *exponent) {
    vm within = vm_first(LANES);
    UNROLL
    for (unsigned i = 0; i < n; i += EXPS_REDUCED) {
        const unsigned some = kvc_min_u32(n - i, EXPS_REDUCED);
        vf y[EXPS_REDUCED], t[EXPS_REDUCED];
#define EACH                                                                                                           \
    UNROLL                                                                                                             \
    for (unsigned v = 0; v < some; v++)
        EACH y[v] = vf_add(off, vf_load(x + (i + v) * LANES));
        EACH within = vm_and(within, vf_reaches(y[v], vf_set(KVC_EXP_LOW)));
        EACH t[v] = vf_fma(y[v], vf_set(KVC_LOG2E), vf_set(KVC_ROUND_MAGIC));
        EACH exponent[i + v] = vi_shift_23(vf_bits(t[v]));
        EACH t[v] = vf_sub(t[v], vf_set(KVC_ROUND_MAGIC));
        EACH y[v] = vf_fnma(t[v], vf_set(KVC_LN2_HIGH), y[v]);
        EACH r[i + v] = vf_fnma(t[v], vf_set(KVC_LN2_LOW), y[v]);
    }
    return vm_bits(within) == vm_bits(vm_first(LANES));
}

INLINE void exps_polynomial(unsigned n, const vf *r, const vi *exponent, float *x) {
    vf p[EXPS_AT_ONCE];
#undef EACH
#define EACH                                                                                                           \
    UNROLL                                                                                                             \
    for (unsigned v = 0; v < n; v++)
    EACH p[v] = vf_fma(vf_set(KVC_EXP_C6), r[v], vf_set(KVC_EXP_C5));
    EACH p[v] = vf_fma(p[v], r[v], vf_set(KVC_EXP_C4));
    EACH p[v] = vf_fma(p[v], r[v], vf_set(KVC_EXP_C3));
    EACH p[v] = vf_fma(p[v], r[v], vf_set(KVC_EXP_C2));
    EACH p[v] = vf_fma(p[v], r[v], vf_set(1.0f));
    EACH p[v] = vf_fma(p[v], r[v], vf_set(1.0f));
    EACH vf_store(x + v * LANES, vf_from_bits(vi_add(vf_bits(p[v]), exponent[v])));
#undef EACH
}

/* Replaces x [n] by exp(x - most). Unlike exps_polynomial, handles scores that are infinite or far below the maximum.
 * Returns false if a score is NaN. */
static NEVER_INLINE bool exps_special(float *x, uint32_t n, float most) {
    vm nan = vf_is_nan(vf_load(x));
    for (uint32_t i = LANES; i < n; i += LANES)
        nan = vm_or(nan, vf_is_nan(vf_load(x + i)));
    if (vm_bits(nan))
        return false;
    exps_below(x, n, most);
    return true;
}

/* Replaces n vectors x by exp(x - most). Returns false if a score is NaN. */
INLINE bool exps_of_scores(unsigned n, float *x, float most) {
    vf r[EXPS_AT_ONCE];
    vi exponent[EXPS_AT_ONCE];
    if (!exps_reduce(n, x, vf_set(-most), r, exponent))
        return exps_special(x, n * LANES, most);
    exps_polynomial(n, r, exponent, x);
    return true;
}

/* Turns the scores of entries low .. high - 1 (low < high) in s [KVC_TILE] into p = exp(s - *most). *most must be the
 * result of tile_most. The padding of the first and last group of 32 becomes 0. Returns the 32-lane sum of p. If a
 * score is NaN, all p, the sum and *most become NaN. */
static NEVER_INLINE float softmax_from(float *s, uint32_t low, uint32_t high, float *most) {
    const uint32_t from = low / KVC_LANES * KVC_LANES, to = whole_lanes(high);
    uint32_t i = from;
    bool numbers = true;
    for (; i + EXPS_AT_ONCE * LANES <= to && numbers; i += EXPS_AT_ONCE * LANES)
        numbers = exps_of_scores(EXPS_AT_ONCE, s + i, *most);
    for (; i < to && numbers; i += KVC_LANES)
        numbers = exps_of_scores(LANE_VECTORS, s + i, *most);
    if (!numbers) { /* one NaN makes the sum NaN, and with it every channel of the output */
        for (i = low; i < high; i++)
            s[i] = kvc_nan();
        return *most = kvc_nan();
    }
    vf lane[LANE_VECTORS];
    UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_zero();
    for (i = from; i < to; i += KVC_LANES)
        UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_add(lane[f], vf_load(s + i + f * LANES));
    return sum_lanes(lane);
}

/* Computes both tile_most and softmax_from. Returns the maximum. */
static inline float softmax_tile(float *s, uint32_t low, uint32_t high, float *sum) {
    float most = tile_most(s, low, high);
    *sum = softmax_from(s, low, high, &most);
    return most;
}

#endif
