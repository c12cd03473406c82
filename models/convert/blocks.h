/* blocks.h - blocks of weights, one by one: made of values, and of random bits. */
#ifndef KVC_MODELS_CONVERT_BLOCKS_H
#define KVC_MODELS_CONVERT_BLOCKS_H

#include "core/base/weight_blocks.h"
#include "core/base/types.h"

/* Of every block type. kvc_quantize_<type>: the block that stands for the values x as well as it can.
 * kvc_random_<type>: to a block of random bits, scales that make its values spread evenly over -reach to reach, or
 * nearly so, with a mean near 0. */
#define KVC_BLOCK_MAKERS(a, NAME, name, ...)                                                                           \
    void kvc_quantize_##name(const float *x, struct kvc_block_##name *block);                                          \
    void kvc_random_##name(struct kvc_block_##name *block, float reach);
KVC_BLOCK_TYPES(KVC_BLOCK_MAKERS, )

/* ---- what they are made with ---- */

void kvc_store_u16(kvc_u8 *to, kvc_u16 value);
static inline void kvc_store_f16(kvc_u8 *to, float value) { kvc_store_u16(to, kvc_f32_to_f16(value)); }

/* The value of the largest magnitude, with its sign. */
float kvc_largest(const float *x, unsigned n);
static inline float kvc_clamp(float v, float low, float high) {
    v = v < low ? low : v;
    return v > high ? high : v;
}
static inline float kvc_inverse(float scale) { return scale == 0.0f ? 0.0f : 1.0f / scale; }
static inline int kvc_to_quant(float x, float inverse_scale, int low, int high) {
    return (int)kvc_rint(kvc_clamp(x * inverse_scale, (float)low, (float)high));
}

/* x = scale * q, q in low..high, n a multiple of 8: the scale with the least squared error among those that put the
 * largest value a little below or above low (which has one level more), or, with the other sign, high. */
float kvc_search_scale(const float *x, unsigned n, int low, int high);

/* n scales, at most 16, as integers of one d, which comes back as F16: the largest magnitude is put on `lowest`, the
 * far end of the integers' range. */
kvc_u16 kvc_share_scale(const float *scales, unsigned n, int lowest, int *integers);

/* x = scale * kvc_iq4_value(q), 32 values: as kvc_search_scale. And the q whose number is nearest to v. */
float kvc_search_iq4(const float *x);
int kvc_nearest_iq4(float v);

/* x = scale * q - minimum, q in 0..top, scale >= 0, n a multiple of 8: the pair with the least squared error among
 * those that just cover the values, or nearly. KVC_MINIMUM_POSITIVE: the minimum is not negative, as K types want it.
 */
enum kvc_minimum { KVC_MINIMUM_POSITIVE, KVC_MINIMUM_ANY };
struct kvc_affine {
    float scale, minimum;
};
struct kvc_affine kvc_search_affine(const float *x, int n, int top, enum kvc_minimum kind);

#endif
