/* quantize.c - float32 rows to the stored element types. Scales of the block types are searched for: candidates around
 * the one that just covers the largest value, each improved by least squares, the smallest squared error wins. */
#include "models/convert/quantize.h"

#include <string.h>

#include "core/base/canon.h"

static void store_u16(kvc_u8 *to, kvc_u16 value) {
    to[0] = (kvc_u8)value;
    to[1] = (kvc_u8)(value >> 8);
}

static float clamp(float v, float low, float high) {
    v = v < low ? low : v;
    return v > high ? high : v;
}

static float largest(const float *x, unsigned n) { /* the value of the largest magnitude, with its sign */
    float value = 0.0f, magnitude = 0.0f;
    for (unsigned i = 0; i < n; i++) {
        float a = x[i] < 0.0f ? -x[i] : x[i];
        if (a > magnitude) {
            magnitude = a;
            value = x[i];
        }
    }
    return value;
}

static float inverse(float scale) { return scale == 0.0f ? 0.0f : 1.0f / scale; }

/* ---- x = scale * q, q in low..high ---- */

/* How well x is met by rint(x * inverse): gain = (sum x q)^2 / sum q^2 is what the best scale takes off sum x^2. */
static float gain(const float *x, unsigned n, float inverse_scale, float low, float high, float *scale) {
    float xq[8] = {0}, qq[8] = {0}; /* n is a multiple of 8 */
    for (unsigned i = 0; i < n; i += 8) {
        for (unsigned k = 0; k < 8; k++) {
            float q = kvc_rint(clamp(x[i + k] * inverse_scale, low, high));
            xq[k] += x[i + k] * q;
            qq[k] += q * q;
        }
    }
    for (unsigned w = 4; w > 0; w /= 2) {
        for (unsigned k = 0; k < w; k++) {
            xq[k] += xq[k + w];
            qq[k] += qq[k + w];
        }
    }
    if (!(qq[0] > 0.0f)) {
        return -1.0f;
    }
    *scale = xq[0] / qq[0];
    return *scale * xq[0];
}

/* The scale with the least squared error among those that put the largest value a little below or above low (which
 * has one level more), or, with the other sign, high. */
static float search_scale(const float *x, unsigned n, int low, int high) {
    float extreme = largest(x, n), best = -1.0f, chosen = 0.0f, scale = 0.0f;
    if (extreme == 0.0f || (1.0f / extreme) * 0.0f != 0.0f) { /* zero, or too small to be inverted */
        return 0.0f;
    }
    for (int step = -8; step <= 8; step++) {
        const float place[2] = {(float)low + 0.1f * (float)step, (float)high + 0.1f * (float)step};
        for (int k = 0; k < 2; k++) {
            float g = gain(x, n, place[k] / extreme, (float)low, (float)high, &scale);
            if (g > best) {
                best = g;
                chosen = scale;
            }
        }
    }
    return chosen;
}

static int to_quant(float x, float inverse_scale, int low, int high) {
    return (int)kvc_rint(clamp(x * inverse_scale, (float)low, (float)high));
}

static void quantize_q8_0(const float *x, struct kvc_block_q8_0 *block) {
    float extreme = largest(x, 32);
    kvc_u16 d = kvc_f32_to_f16((extreme < 0.0f ? -extreme : extreme) / 127.0f);
    float scale = kvc_f16_to_f32(d);
    store_u16(block->d, d);
    for (int e = 0; e < 32; e++) {
        block->q[e] = scale == 0.0f ? 0 : (kvc_i8)kvc_rint(clamp(x[e] / scale, -127.0f, 127.0f));
    }
}

static void quantize_q4_0(const float *x, struct kvc_block_q4_0 *block) {
    kvc_u16 d = kvc_f32_to_f16(search_scale(x, 32, -8, 7));
    float inv = inverse(kvc_f16_to_f32(d));
    memset(block, 0, sizeof *block);
    store_u16(block->d, d);
    for (int e = 0; e < 32; e++) {
        block->q[e % 16] |= (kvc_u8)((to_quant(x[e], inv, -8, 7) + 8) << (e / 16 * 4));
    }
}

static void quantize_q5_0(const float *x, struct kvc_block_q5_0 *block) {
    kvc_u16 d = kvc_f32_to_f16(search_scale(x, 32, -16, 15));
    float inv = inverse(kvc_f16_to_f32(d));
    memset(block, 0, sizeof *block);
    store_u16(block->d, d);
    for (int e = 0; e < 32; e++) {
        int q = to_quant(x[e], inv, -16, 15) + 16;
        block->q[e % 16] |= (kvc_u8)((q & 15) << (e / 16 * 4));
        block->high[e / 8] |= (kvc_u8)((q >> 4) << (e % 8));
    }
}

/* 16 sub-blocks of 16 with integer scales of one d: returns d as F16; the sub-scale of the largest magnitude is put on
 * lowest_scale, the far end of the integers' range. */
static kvc_u16 share_scale(const float *scales, int lowest_scale, int *integers) {
    kvc_u16 d = kvc_f32_to_f16(largest(scales, 16) / (float)lowest_scale);
    float inv = inverse(kvc_f16_to_f32(d));
    for (int s = 0; s < 16; s++) {
        integers[s] = to_quant(scales[s], inv, lowest_scale, -1 - lowest_scale);
    }
    return d;
}

static void quantize_q3_k(const float *x, struct kvc_block_q3_k *block) {
    float scales[16];
    int integers[16];
    for (int s = 0; s < 16; s++) {
        scales[s] = search_scale(x + 16 * s, 16, -4, 3);
    }
    kvc_u16 d = share_scale(scales, -32, integers);
    memset(block, 0, sizeof *block);
    store_u16(block->d, d);
    for (int s = 0; s < 16; s++) {
        int stored = integers[s] + 32;
        block->scale[s % 8] |= (kvc_u8)((stored & 15) << (s / 8 * 4));
        block->scale[8 + s % 4] |= (kvc_u8)((stored >> 4) << (s / 4 * 2));
    }
    for (int e = 0; e < 256; e++) {
        float inv = inverse(kvc_f16_to_f32(d) * (float)integers[e / 16]);
        int q = to_quant(x[e], inv, -4, 3) + 4;
        block->q[e / 128 * 32 + e % 32] |= (kvc_u8)((q & 3) << (e % 128 / 32 * 2));
        block->high[e % 32] |= (kvc_u8)((q >> 2) << (e / 32));
    }
}

static void quantize_q6_k(const float *x, struct kvc_block_q6_k *block) {
    float scales[16];
    int integers[16];
    for (int s = 0; s < 16; s++) {
        scales[s] = search_scale(x + 16 * s, 16, -32, 31);
    }
    kvc_u16 d = share_scale(scales, -128, integers);
    memset(block, 0, sizeof *block);
    store_u16(block->d, d);
    for (int s = 0; s < 16; s++) {
        block->scale[s] = (kvc_i8)integers[s];
    }
    for (int e = 0; e < 256; e++) {
        float inv = inverse(kvc_f16_to_f32(d) * (float)integers[e / 16]);
        int q = to_quant(x[e], inv, -32, 31) + 32;
        block->low[e / 128 * 64 + e % 64] |= (kvc_u8)((q & 15) << (e % 128 / 64 * 4));
        block->high[e / 128 * 32 + e % 32] |= (kvc_u8)((q >> 4) << (e % 128 / 32 * 2));
    }
}

/* ---- x = scale * q - minimum, q in 0..top, both scale and minimum >= 0: sub-blocks of 32 ---- */

struct affine {
    float scale, minimum;
};

/* The squared error, less the sum of x^2, of the best scale and minimum for q = rint((x + start) * inverse). */
static float fit_affine(const float *x, float start, float inverse_scale, float top, struct affine *fit) {
    float q[8] = {0}, qq[8] = {0}, xs[8] = {0}, xq[8] = {0};
    for (int i = 0; i < 32; i += 8) {
        for (int k = 0; k < 8; k++) {
            float quant = kvc_rint(clamp((x[i + k] + start) * inverse_scale, 0.0f, top));
            q[k] += quant;
            qq[k] += quant * quant;
            xs[k] += x[i + k];
            xq[k] += x[i + k] * quant;
        }
    }
    for (int w = 4; w > 0; w /= 2) {
        for (int k = 0; k < w; k++) {
            q[k] += q[k + w];
            qq[k] += qq[k + w];
            xs[k] += xs[k + w];
            xq[k] += xq[k + w];
        }
    }
    float determinant = 32.0f * qq[0] - q[0] * q[0];
    if (!(determinant > 0.0f)) {
        return 0.0f;
    }
    fit->scale = (32.0f * xq[0] - xs[0] * q[0]) / determinant;
    fit->minimum = (fit->scale * q[0] - xs[0]) / 32.0f;
    if (fit->minimum < 0.0f) {
        fit->minimum = 0.0f;
        fit->scale = xq[0] / qq[0];
    }
    return fit->scale > 0.0f ? fit->minimum * xs[0] - fit->scale * xq[0] : 0.0f;
}

static struct affine search_affine(const float *x, int top) {
    float low = 0.0f, high = 0.0f, best = 0.0f; /* zero is always in the range: the minimum cannot be negative */
    struct affine chosen = {0.0f, 0.0f}, fit;
    for (int i = 0; i < 32; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    float range = high - low;
    if (range == 0.0f || (1.0f / range) * 0.0f != 0.0f) {
        return chosen;
    }
    chosen = (struct affine){range / (float)top, -low};
    for (int step = -10; step <= 10; step++) {
        float inv = ((float)top + 0.1f * (float)step) / range;
        float error = fit_affine(x, -low, inv, (float)top, &fit);
        if (error < best) {
            best = error;
            chosen = fit;
        }
    }
    return chosen;
}

/* The part Q4_K and Q5_K share: scales and minimums as 6-bit integers. */
struct affine_block {
    kvc_u8 d[2], dmin[2], scale[12];
    float scales[8], minimums[8]; /* as they will be read */
};

static void share_affine(const float *x, int top, struct affine_block *block) {
    struct affine fits[8];
    float scale = 0.0f, minimum = 0.0f;
    for (int s = 0; s < 8; s++) {
        fits[s] = search_affine(x + 32 * s, top);
        scale = fits[s].scale > scale ? fits[s].scale : scale;
        minimum = fits[s].minimum > minimum ? fits[s].minimum : minimum;
    }
    kvc_u16 d = kvc_f32_to_f16(scale / 63.0f), dmin = kvc_f32_to_f16(minimum / 63.0f);
    float d_inverse = inverse(kvc_f16_to_f32(d)), dmin_inverse = inverse(kvc_f16_to_f32(dmin));
    memset(block, 0, sizeof *block);
    store_u16(block->d, d);
    store_u16(block->dmin, dmin);
    for (int s = 0; s < 8; s++) {
        int a = to_quant(fits[s].scale, d_inverse, 0, 63), b = to_quant(fits[s].minimum, dmin_inverse, 0, 63);
        block->scales[s] = kvc_f16_to_f32(d) * (float)a;
        block->minimums[s] = kvc_f16_to_f32(dmin) * (float)b;
        if (s < 4) {
            block->scale[s] |= (kvc_u8)a;
            block->scale[s + 4] |= (kvc_u8)b;
        } else {
            block->scale[s + 4] = (kvc_u8)((a & 15) | (b & 15) << 4);
            block->scale[s - 4] |= (kvc_u8)((a >> 4) << 6);
            block->scale[s] |= (kvc_u8)((b >> 4) << 6);
        }
    }
}

static int affine_quant(const struct affine_block *block, float x, int s, int top) {
    return to_quant(x + block->minimums[s], inverse(block->scales[s]), 0, top);
}

static void quantize_q4_k(const float *x, struct kvc_block_q4_k *block) {
    struct affine_block shared;
    share_affine(x, 15, &shared);
    memset(block, 0, sizeof *block);
    memcpy(block->d, shared.d, 2);
    memcpy(block->dmin, shared.dmin, 2);
    memcpy(block->scale, shared.scale, sizeof block->scale);
    for (int e = 0; e < 256; e++) {
        int q = affine_quant(&shared, x[e], e / 32, 15);
        block->q[e / 64 * 32 + e % 32] |= (kvc_u8)(q << (e / 32 % 2 * 4));
    }
}

static void quantize_q5_k(const float *x, struct kvc_block_q5_k *block) {
    struct affine_block shared;
    share_affine(x, 31, &shared);
    memset(block, 0, sizeof *block);
    memcpy(block->d, shared.d, 2);
    memcpy(block->dmin, shared.dmin, 2);
    memcpy(block->scale, shared.scale, sizeof block->scale);
    for (int e = 0; e < 256; e++) {
        int q = affine_quant(&shared, x[e], e / 32, 31);
        block->q[e / 64 * 32 + e % 32] |= (kvc_u8)((q & 15) << (e / 32 % 2 * 4));
        block->high[e % 32] |= (kvc_u8)((q >> 4) << (e / 32));
    }
}

/* ---- rows ---- */

/* The largest value each type holds safely: F16 scales times the smaller end of the quants, searched scales may be a
 * tenth larger than needed. */
static float holds(enum kvc_type type) {
    switch (type) {
    case KVC_F32:
        return FLT_MAX;
    case KVC_BF16:
        return 3.3895e38f;
    case KVC_F16:
        return 65504.0f;
    case KVC_Q8_0:
        return 65504.0f * 127.0f;
    case KVC_Q4_0:
        return 65504.0f * 4.0f;
    case KVC_Q5_0:
        return 65504.0f * 8.0f;
    default:
        return 65504.0f * 32.0f;
    }
}

static bool fits(enum kvc_type type, const float *values, uint64_t K) {
    float limit = holds(type);
    for (uint64_t i = 0; i < K; i++) {
        if (!(values[i] >= -limit && values[i] <= limit)) {
            return false;
        }
    }
    return true;
}

static void quantize_block(enum kvc_type type, const float *x, unsigned char *to) {
    union { /* blocks are byte arrays: they may lie anywhere, but keep the types apart */
        struct kvc_block_q8_0 q8_0;
        struct kvc_block_q4_0 q4_0;
        struct kvc_block_q5_0 q5_0;
        struct kvc_block_q3_k q3_k;
        struct kvc_block_q4_k q4_k;
        struct kvc_block_q5_k q5_k;
        struct kvc_block_q6_k q6_k;
    } block;
    switch (type) {
    case KVC_Q8_0:
        quantize_q8_0(x, &block.q8_0);
        break;
    case KVC_Q4_0:
        quantize_q4_0(x, &block.q4_0);
        break;
    case KVC_Q5_0:
        quantize_q5_0(x, &block.q5_0);
        break;
    case KVC_Q3_K:
        quantize_q3_k(x, &block.q3_k);
        break;
    case KVC_Q4_K:
        quantize_q4_k(x, &block.q4_k);
        break;
    case KVC_Q5_K:
        quantize_q5_k(x, &block.q5_k);
        break;
    default:
        quantize_q6_k(x, &block.q6_k);
        break;
    }
    memcpy(to, &block, kvc_type_block(type).bytes);
}

bool kvc_quantize_row(enum kvc_type type, const float *values, uint64_t K, void *row) {
    unsigned char *to = row;
    if (!fits(type, values, K)) {
        return false;
    }
    switch (type) {
    case KVC_F32:
        memcpy(to, values, (size_t)K * sizeof *values);
        return true;
    case KVC_F16:
        for (uint64_t i = 0; i < K; i++) {
            store_u16(to + 2 * i, kvc_f32_to_f16(values[i]));
        }
        return true;
    case KVC_BF16:
        for (uint64_t i = 0; i < K; i++) {
            store_u16(to + 2 * i, kvc_f32_to_bf16(values[i]));
        }
        return true;
    default:
        break;
    }
    struct kvc_type_block size = kvc_type_block(type);
    for (uint64_t i = 0; i < K / size.elements; i++) {
        quantize_block(type, values + i * size.elements, to + i * size.bytes);
    }
    return true;
}
