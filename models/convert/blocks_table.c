/* blocks_table.c - block types whose values are a scale times one of 16 codebook values: IQ4_NL, IQ4_XS, MXFP4. */
#include <string.h>

#include "models/convert/blocks.h"

/* ---- IQ4_NL and IQ4_XS ---- */

/* Writes the 16 bytes that encode 32 values x with this scale. */
static void put_part(const float *x, float scale, kvc_u8 *q) {
    const float inverse = kvc_inverse(scale);
    memset(q, 0, 16);
    for (int e = 0; e < 32; e++) {
        q[e % 16] |= (kvc_u8)(kvc_nearest_iq4(x[e] * inverse) << (e / 16 * 4));
    }
}

void kvc_quantize_iq4_nl(const float *x, struct kvc_block_iq4_nl *block) {
    kvc_store_f16(block->d, kvc_search_iq4(x));
    put_part(x, KVC_HALF(block->d), block->q);
}

/* The codebook values have a root mean square of 67.4. Evenly spread values have a root mean square of 1 / sqrt(3)
 * times the largest one. A random bit chooses the scale's sign, because the codebook's mean is a little below 0. */
enum { IQ4_SPREAD = 117 }; /* 67.4 * sqrt(3) */
static float either_sign(const kvc_u8 *bits, float d) { return bits[1] & 0x80 ? -d : d; }

void kvc_random_iq4_nl(struct kvc_block_iq4_nl *block, float reach) {
    kvc_store_f16(block->d, either_sign(block->d, reach / IQ4_SPREAD));
}

void kvc_quantize_iq4_xs(const float *x, struct kvc_block_iq4_xs *block) {
    float scales[8];
    int integers[8];
    for (int s = 0; s < 8; s++) {
        scales[s] = kvc_search_iq4(x + 32 * s);
    }
    memset(block, 0, sizeof *block);
    kvc_store_u16(block->d, kvc_share_scale(scales, 8, -32, integers));
    for (int s = 0; s < 8; s++) {
        const int stored = integers[s] + 32;
        block->low[s / 2] |= (kvc_u8)((stored & 15) << (s % 2 * 4));
        block->high[s / 4] |= (kvc_u8)((stored >> 4) << (s % 4 * 2));
        put_part(x + 32 * s, KVC_HALF(block->d) * (float)integers[s], block->q + 16 * s);
    }
}

void kvc_random_iq4_xs(struct kvc_block_iq4_xs *block, float reach) {
    kvc_store_f16(block->d, either_sign(block->d, reach / (18.5f * IQ4_SPREAD))); /* the random scales are -32..31 */
}

/* ---- MXFP4 ---- */

/* Returns the codebook value nearest to v. Between two equally near values it takes the smaller magnitude. */
static int nearest_e2m1(double v) {
    static const double middle[7] = {0.5, 1.5, 2.5, 3.5, 5, 7, 10};
    const double magnitude = v < 0 ? -v : v;
    int q = 0;
    for (int i = 0; i < 7; i++) {
        q += magnitude > middle[i];
    }
    return v < 0 && q > 0 ? q + 8 : q;
}

/* Returns the squared error with the scale 2^(power - 128), and the quants. Computes in double, because x may hold any
 * float. */
static double fit_power(const float *x, int power, kvc_u8 *q) {
    const double scale = (double)kvc_power_half((kvc_u8)power);
    double error = 0;
    memset(q, 0, 16);
    for (int e = 0; e < 32; e++) {
        const int quant = nearest_e2m1((double)x[e] / scale);
        const double off = (double)x[e] - scale * kvc_e2m1_twice(quant);
        q[e % 16] |= (kvc_u8)(quant << (e / 16 * 4));
        error += off * off;
    }
    return error;
}

/* Tries three powers: the smallest that covers the largest value, and its neighbors. Apart from rounding, that power is
 * two below the exponent of the largest value. */
void kvc_quantize_mxfp4(const float *x, struct kvc_block_mxfp4 *block) {
    const int exponent = (int)(kvc_bits(kvc_largest(x, 32)) >> 23 & 255);
    double best = 0;
    memset(block, 0, sizeof *block);
    for (int power = exponent > 3 ? exponent - 3 : 0; power <= exponent - 1; power++) {
        kvc_u8 q[16];
        const double error = fit_power(x, power, q);
        if (power == (exponent > 3 ? exponent - 3 : 0) || error < best) {
            best = error;
            block->power[0] = (kvc_u8)power;
            memcpy(block->q, q, sizeof q);
        }
    }
}

/* The codebook values have a root mean square of 5.85. The wanted scale is rarely a power of two. So each block takes
 * the next lower or higher power, chosen by its random byte. The proportion of blocks with the higher power is such
 * that the mean square is right. */
void kvc_random_mxfp4(struct kvc_block_mxfp4 *block, float reach) {
    const float scale = reach / 10.14f;                       /* 5.85 * sqrt(3) */
    const int power = (int)(kvc_bits(scale) >> 23 & 255) + 1; /* kvc_power_half(power) <= scale */
    const float low = kvc_power_half((kvc_u8)power), square = scale / low * (scale / low); /* 1 to 4 */
    const float twice = (square - 1.0f) / 3.0f; /* proportion of blocks with the higher power */
    block->power[0] = (kvc_u8)(power + ((float)block->power[0] < 256.0f * twice));
}
