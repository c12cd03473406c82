/* neon.c - linear layers with 8-bit activations for NEON without dot product instructions. Products are added in pairs
 * in 16 bits. No pair overflows, because a product is at most 128 * 127 and two of them are at most 32512. */
#include "backends/cpu/simd/lanes/neon.h"

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/integers.h"
#include "core/base/weight_blocks.h"

INLINE int32x4_t dot16(int32x4_t sum, int8x16_t w, int8x16_t q) {
    const int16x8_t two = vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(q)), w, q);
    return vpadalq_s16(sum, two);
}

#include "backends/cpu/simd/int8/neon/four_outputs.h"

/* half[0] has two sums for each of the outputs 0 and 1, half[1] for each of the outputs 2 and 3. */
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

#define TILE_ROWS 3
#define TILE_OUTPUTS 8
#define TILE_EVERY(m) m(1) m(2) m(3)
#define SMALL_BATCH_LIMIT 4
#include "backends/cpu/simd/int8/neon/template.h"

void kvc_quantize_rows_neon(struct kvc_device *device, const struct kvc_quantize_rows *args) {
    kvc_int8_quantize((struct kvc_cpu *)device, &kernels, args);
}
void kvc_linear_int8_neon(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    kvc_int8_run((struct kvc_cpu *)device, &kernels, args);
}
void kvc_expert_linear_int8_neon(struct kvc_device *device, const struct kvc_expert_linear_int8 *args) {
    kvc_int8_run_experts((struct kvc_cpu *)device, &kernels, args);
}
