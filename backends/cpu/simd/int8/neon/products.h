/* products.h - products of bytes, and vectors for gemm.h, for each kind of PRODUCTS.
 *
 *   dot16                      Adds four products of signed bytes to each of four 32-bit sums.
 *   UNIT_ROWS, UNIT_OUTPUTS    In gemm.h, a vector of four sums holds this many rows and outputs.
 *   struct codes, codes_load   16 quants of each of UNIT_OUTPUTS outputs, in the layout of pack_codes.
 *   struct quants, quants_load 16 quants of each of UNIT_ROWS rows.
 *   struct sums, sums_zero, sums_add, sums_of   Sums of the products of codes and quants.
 *   of_outputs, of_rows        Return vectors with one float per output or per row.
 *   store_unit                 Stores a vector of outputs. */
#ifndef KVC_SIMD_INT8_NEON_PRODUCTS_H
#define KVC_SIMD_INT8_NEON_PRODUCTS_H

#include "core/base/canon.h"
#include "backends/cpu/simd/int8/neon/four_outputs.h"
#include "backends/cpu/simd/int8/neon/parameters.h"

#if PRODUCTS == PRODUCTS_IN_PAIRS

INLINE int32x4_t dot16(int32x4_t sum, int8x16_t w, int8x16_t q) {
    const int16x8_t two = vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(q)), w, q);
    return vpadalq_s16(sum, two);
}

/* half[0] has two sums for each of outputs 0 and 1; half[1] has two for each of outputs 2 and 3. */
struct sums {
    int32x4_t half[2];
};
INLINE struct sums sums_zero(void) { return (struct sums){{vdupq_n_s32(0), vdupq_n_s32(0)}}; }
/* Multiplies two vectors of codes by two groups of four quants and adds the products to the sums. */
INLINE struct sums sums_of_two(struct sums sum, int8x16_t w0, int8x16_t w1, int32x4_t q0, int32x4_t q1) {
    const int8x16_t a = vreinterpretq_s8_s32(q0), b = vreinterpretq_s8_s32(q1);
    const int16x8_t low = vmull_s8(vget_low_s8(w0), vget_low_s8(a)), high = vmull_high_s8(w0, a);
    sum.half[0] = vpadalq_s16(sum.half[0], vmlal_s8(low, vget_low_s8(w1), vget_low_s8(b)));
    sum.half[1] = vpadalq_s16(sum.half[1], vmlal_high_s8(high, w1, b));
    return sum;
}
INLINE struct sums sums_add(struct sums sum, struct codes w, struct quants x) {
    const int32x4_t q = vreinterpretq_s32_s8(x.quant);
    sum = sums_of_two(sum, w.quant[0], w.quant[1], vdupq_laneq_s32(q, 0), vdupq_laneq_s32(q, 1));
    return sums_of_two(sum, w.quant[2], w.quant[3], vdupq_laneq_s32(q, 2), vdupq_laneq_s32(q, 3));
}
INLINE int32x4_t sums_of(struct sums sum) { return vpaddq_s32(sum.half[0], sum.half[1]); }

#elif PRODUCTS == PRODUCTS_SDOT

INLINE int32x4_t dot16(int32x4_t sum, int8x16_t w, int8x16_t q) { return vdotq_s32(sum, w, q); }

struct sums {
    int32x4_t all;
};
INLINE struct sums sums_zero(void) { return (struct sums){vdupq_n_s32(0)}; }
INLINE struct sums sums_add(struct sums sum, struct codes w, struct quants x) {
    sum.all = vdotq_laneq_s32(sum.all, w.quant[0], x.quant, 0);
    sum.all = vdotq_laneq_s32(sum.all, w.quant[1], x.quant, 1);
    sum.all = vdotq_laneq_s32(sum.all, w.quant[2], x.quant, 2);
    sum.all = vdotq_laneq_s32(sum.all, w.quant[3], x.quant, 3);
    return sum;
}
INLINE int32x4_t sums_of(struct sums sum) { return sum.all; }

#else

INLINE int32x4_t dot16(int32x4_t sum, int8x16_t w, int8x16_t q) { return vdotq_s32(sum, w, q); }

#define UNIT_ROWS 2
#define UNIT_OUTPUTS 2

/* Quants of two rows or outputs: quant[0] has the first eight quants of each, quant[1] the next eight of each. */
struct codes {
    int8x16_t quant[2];
};
struct quants {
    int8x16_t quant[2];
};
INLINE void interleave(int8x16_t *to, int8x16_t a, int8x16_t b) {
    to[0] = vcombine_s8(vget_low_s8(a), vget_low_s8(b));
    to[1] = vcombine_s8(vget_high_s8(a), vget_high_s8(b));
}
INLINE struct codes codes_load(const kvc_i8 *from) { return (struct codes){{vld1q_s8(from), vld1q_s8(from + 16)}}; }
INLINE void pack_codes(kvc_i8 *to, const int8x16_t *x) {
    int8x16_t both[2];
    interleave(both, x[0], x[1]);
    vst1q_s8(to, both[0]);
    vst1q_s8(to + 16, both[1]);
}
INLINE struct quants quants_load(const kvc_i8 *const *rows, size_t k) {
    struct quants x;
    interleave(x.quant, vld1q_s8(rows[0] + k), vld1q_s8(rows[1] + k));
    return x;
}
struct sums {
    int32x4_t all;
};
INLINE struct sums sums_zero(void) { return (struct sums){vdupq_n_s32(0)}; }
INLINE struct sums sums_add(struct sums sum, struct codes w, struct quants x) {
    sum.all = vmmlaq_s32(sum.all, x.quant[0], w.quant[0]);
    sum.all = vmmlaq_s32(sum.all, x.quant[1], w.quant[1]);
    return sum;
}
INLINE int32x4_t sums_of(struct sums sum) { return sum.all; }
INLINE float32x4_t of_outputs(const float *x) {
    const float32x2_t two = vld1_f32(x);
    return vcombine_f32(two, two);
}
INLINE float32x4_t of_rows(const float *x) { return vcombine_f32(vdup_n_f32(x[0]), vdup_n_f32(x[1])); }

INLINE void store_unit(float *y, float32x4_t x) {
    vst1_f32(y, vget_low_f32(x));
    vst1_f32(y + TILE_OUTPUTS, vget_high_f32(x));
}

#endif

#endif
