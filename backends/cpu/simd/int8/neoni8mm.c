/* neoni8mm.c - linear layers with 8-bit activations for NEON with the matrix product SMMLA (I8MM). With many rows,
 * SMMLA multiplies two rows by two outputs, eight quants at once. With few rows, SDOT is used. */
#include "backends/cpu/simd/lanes/neon.h"

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/integers.h"
#include "core/base/weight_blocks.h"

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

#define TILE_ROWS 4
#define TILE_OUTPUTS 8
#define TILE_EVERY(m) m(1) m(2)
#define SMALL_BATCH_LIMIT 4
INLINE void store_unit(float *y, float32x4_t x) {
    vst1_f32(y, vget_low_f32(x));
    vst1_f32(y + TILE_OUTPUTS, vget_high_f32(x));
}
#include "backends/cpu/simd/int8/neon/template.h"

void kvc_quantize_rows_neoni8mm(struct kvc_device *device, const struct kvc_quantize_rows *args) {
    kvc_int8_quantize((struct kvc_cpu *)device, &kernels, args);
}
void kvc_linear_int8_neoni8mm(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    kvc_int8_run((struct kvc_cpu *)device, &kernels, args);
}
void kvc_expert_linear_int8_neoni8mm(struct kvc_device *device, const struct kvc_expert_linear_int8 *args) {
    kvc_int8_run_experts((struct kvc_cpu *)device, &kernels, args);
}
