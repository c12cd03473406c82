/* neondotprod.c - linear layers with 8-bit activations for NEON with the four-byte dot product SDOT, which does not
 * saturate. */
#include "backends/cpu/simd/lanes/neon.h"

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/integers.h"
#include "core/base/weight_blocks.h"

INLINE int32x4_t dot16(int32x4_t sum, int8x16_t w, int8x16_t q) { return vdotq_s32(sum, w, q); }

#include "backends/cpu/simd/int8/neon/four_outputs.h"

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

#define TILE_ROWS 4
#define TILE_OUTPUTS 8
#define TILE_EVERY(m) m(1) m(2) m(3) m(4)
#define SMALL_BATCH_LIMIT 4
#include "backends/cpu/simd/int8/neon/template.h"

void kvc_quantize_rows_neondotprod(struct kvc_device *device, const struct kvc_quantize_rows *args) {
    kvc_int8_quantize((struct kvc_cpu *)device, &kernels, args);
}
void kvc_linear_int8_neondotprod(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    kvc_int8_run((struct kvc_cpu *)device, &kernels, args);
}
void kvc_expert_linear_int8_neondotprod(struct kvc_device *device, const struct kvc_expert_linear_int8 *args) {
    kvc_int8_run_experts((struct kvc_cpu *)device, &kernels, args);
}
