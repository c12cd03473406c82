/* search.c - searches for the scales of block types. It tries scales around the one that just covers the largest value,
 * improves each by least squares, and keeps the one with the smallest squared error. */
#include "models/convert/blocks.h"

void kvc_store_u16(kvc_u8 *to, kvc_u16 value) {
    to[0] = (kvc_u8)value;
    to[1] = (kvc_u8)(value >> 8);
}

float kvc_largest(const float *x, unsigned n) { /* returns the value of largest magnitude, with its sign */
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

/* ---- x = scale * q, q in low..high ---- */

/* Computes how well x is approximated by multiples of rint(x * inverse). The result is (sum x q)^2 / sum q^2.
 * With the best scale, the squared error is sum x^2 minus this result. */
static float gain(const float *x, unsigned n, float inverse_scale, float low, float high, float *scale) {
    float xq[8] = {0}, qq[8] = {0}; /* n is a multiple of 8 */
    for (unsigned i = 0; i < n; i += 8) {
        for (unsigned k = 0; k < 8; k++) {
            float q = kvc_rint(kvc_clamp(x[i + k] * inverse_scale, low, high));
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

float kvc_search_scale(const float *x, unsigned n, int low, int high) {
    float extreme = kvc_largest(x, n), best = -1.0f, chosen = 0.0f, scale = 0.0f;
    if (extreme == 0.0f || (1.0f / extreme) * 0.0f != 0.0f) { /* zero, or too small to invert */
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

kvc_u16 kvc_share_scale(const float *scales, unsigned n, int lowest, int *integers) {
    kvc_u16 d = kvc_f32_to_f16(kvc_largest(scales, n) / (float)lowest);
    float inv = kvc_inverse(kvc_f16_to_f32(d));
    for (unsigned s = 0; s < n; s++) {
        integers[s] = kvc_to_quant(scales[s], inv, lowest, -1 - lowest);
    }
    return d;
}

/* ---- x = scale * one of 16 codebook values ---- */

/* First codebook index of each cell of width 8, starting at -128. A cell contains at most one midpoint between two
 * codebook values. */
static const signed char iq4_first[32] = {0, 0, 1, 1,  1,  2,  2,  3,  3,  4,  4,  5,  5,  6,  6,  7,
                                          8, 9, 9, 10, 11, 11, 12, 12, 13, 13, 14, 14, 14, 15, 15, 15};
static const float iq4_middle[16] = {-115.5f, -93.5f, -74.0f, -57.0f, -42.0f, -28.5f, -16.0f, -4.5f,
                                     7.0f,    19.0f,  31.5f,  45.5f,  61.0f,  79.0f,  101.0f, 1e30f};

int kvc_nearest_iq4(float v) {
    const float within = v > -128.0f ? v < 127.0f ? v : 127.0f : -128.0f; /* also handles NaN */
    const int first = iq4_first[(int)((within + 128.0f) * 0.125f)];
    return first + (v > iq4_middle[first]);
}

/* Like gain, with the codebook values nearest to x * inverse. */
static float gain_iq4(const float *x, float inverse_scale, float *scale) {
    float xq[8] = {0}, qq[8] = {0};
    for (int i = 0; i < 32; i++) {
        const float q = (float)kvc_iq4_value(kvc_nearest_iq4(x[i] * inverse_scale));
        xq[i % 8] += x[i] * q;
        qq[i % 8] += q * q;
    }
    for (int w = 4; w > 0; w /= 2) {
        for (int k = 0; k < w; k++) {
            xq[k] += xq[k + w];
            qq[k] += qq[k + w];
        }
    }
    *scale = xq[0] / qq[0]; /* cannot be 0, because no codebook value is 0 */
    return *scale * xq[0];
}

float kvc_search_iq4(const float *x) {
    float extreme = kvc_largest(x, 32), best = -1.0f, chosen = 0.0f, scale = 0.0f;
    if (extreme == 0.0f || (1.0f / extreme) * 0.0f != 0.0f) {
        return 0.0f;
    }
    for (int step = -8; step <= 8; step++) {
        for (int end = 0; end < 16;
             end += 15) { /* maps the largest value to either end of the codebook, or up to a tenth away from it */
            const float place = (float)kvc_iq4_value(end) * (1.0f + 0.0125f * (float)step);
            const float g = gain_iq4(x, place / extreme, &scale);
            if (g > best) {
                best = g;
                chosen = scale;
            }
        }
    }
    return chosen;
}

/* ---- x = scale * q - minimum, q in 0..top, scale >= 0 ---- */

/* Finds the best scale and minimum for q = rint((x + start) * inverse). Returns their squared error minus the sum of
 * x^2. */
static float fit_affine(const float *x, int n, float start, float inverse_scale, float top, enum kvc_minimum kind,
                        struct kvc_affine *fit) {
    const float count = (float)n;
    float q[8] = {0}, qq[8] = {0}, xs[8] = {0}, xq[8] = {0};
    for (int i = 0; i < n; i += 8) {
        for (int k = 0; k < 8; k++) {
            float quant = kvc_rint(kvc_clamp((x[i + k] + start) * inverse_scale, 0.0f, top));
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
    float determinant = count * qq[0] - q[0] * q[0];
    if (!(determinant > 0.0f)) {
        return 0.0f;
    }
    fit->scale = (count * xq[0] - xs[0] * q[0]) / determinant;
    fit->minimum = (fit->scale * q[0] - xs[0]) / count;
    if (fit->minimum < 0.0f && kind == KVC_MINIMUM_POSITIVE) {
        fit->minimum = 0.0f;
        fit->scale = xq[0] / qq[0];
    }
    return fit->scale > 0.0f ? fit->minimum * xs[0] - fit->scale * xq[0] : 0.0f;
}

struct kvc_affine kvc_search_affine(const float *x, int n, int top, enum kvc_minimum kind) {
    const float zero = kind == KVC_MINIMUM_POSITIVE
                           ? 0.0f
                           : x[0]; /* 0 always lies in the range, so that the minimum is not negative */
    float low = zero, high = zero, best = 0.0f;
    struct kvc_affine chosen = {0.0f, -zero}, fit = {0.0f, 0.0f};
    for (int i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    float range = high - low;
    if (range == 0.0f || (1.0f / range) * 0.0f != 0.0f) {
        return chosen;
    }
    chosen = (struct kvc_affine){range / (float)top, -low};
    for (int step = -10; step <= 10; step++) {
        float inv = ((float)top + 0.1f * (float)step) / range;
        float error = fit_affine(x, n, -low, inv, (float)top, kind, &fit);
        if (error < best) {
            best = error;
            chosen = fit;
        }
    }
    return chosen;
}
