/* blocks.h - makes single blocks of quantized weights, from values or from random bits. */
#ifndef KVC_MODELS_CONVERT_BLOCKS_H
#define KVC_MODELS_CONVERT_BLOCKS_H

#include "core/base/weight_blocks.h"
#include "core/base/types.h"

/* For every block type. kvc_quantize_<type> makes the block that best approximates the values x. kvc_random_<type> sets
 * the scales of a block of random bits so that its values are spread evenly, or almost so, over -reach to reach with a
 * mean near 0. */
#define KVC_BLOCK_MAKERS(a, NAME, name, ...)                                                                           \
    void kvc_quantize_##name(const float *x, struct kvc_block_##name *block);                                          \
    void kvc_random_##name(struct kvc_block_##name *block, float reach);
KVC_BLOCK_TYPES(KVC_BLOCK_MAKERS, )

/* ---- helpers ---- */

void kvc_store_u16(kvc_u8 *to, kvc_u16 value);
static inline void kvc_store_f16(kvc_u8 *to, float value) { kvc_store_u16(to, kvc_f32_to_f16(value)); }

/* Returns the value of largest magnitude, with its sign. */
float kvc_largest(const float *x, unsigned n);
static inline float kvc_clamp(float v, float low, float high) {
    v = v < low ? low : v;
    return v > high ? high : v;
}
static inline float kvc_inverse(float scale) { return scale == 0.0f ? 0.0f : 1.0f / scale; }
static inline int kvc_to_quant(float x, float inverse_scale, int low, int high) {
    return (int)kvc_rint(kvc_clamp(x * inverse_scale, (float)low, (float)high));
}

/* Finds the scale for x = scale * q, q in low..high, n a multiple of 8. Tries scales that map the largest value close
 * to low (the end with one more level) or, with the opposite sign, close to high. Returns the scale with the least
 * squared error. */
float kvc_search_scale(const float *x, unsigned n, int low, int high);

/* Expresses n scales, at most 16, as integers times a common d. Maps the largest magnitude to `lowest`, the far end of
 * the integers' range. Returns d as F16. */
kvc_u16 kvc_share_scale(const float *scales, unsigned n, int lowest, int *integers);

/* kvc_search_iq4 finds the scale for x = scale * kvc_iq4_value(q), 32 values, as kvc_search_scale does. kvc_nearest_iq4
 * returns the q whose value is nearest to v. */
float kvc_search_iq4(const float *x);
int kvc_nearest_iq4(float v);

/* Finds the scale and minimum for x = scale * q - minimum, q in 0..top, scale >= 0, n a multiple of 8. Tries pairs that
 * just cover the values, or nearly so, and returns the pair with the least squared error. KVC_MINIMUM_POSITIVE: the
 * minimum is not negative, as K types require. */
enum kvc_minimum { KVC_MINIMUM_POSITIVE, KVC_MINIMUM_ANY };
struct kvc_affine {
    float scale, minimum;
};
struct kvc_affine kvc_search_affine(const float *x, int n, int top, enum kvc_minimum kind);

#endif
