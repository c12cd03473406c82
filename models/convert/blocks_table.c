/* blocks_table.c - block types whose values are a scale times one of 16 numbers: IQ4_NL, IQ4_XS, MXFP4. */
#include <string.h>

#include "models/convert/blocks.h"

/* ---- IQ4_NL and IQ4_XS ---- */

/* What the 16 bytes of a part hold for values x with this scale. */
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

/* The numbers' root mean square is 67.4; of values that are spread evenly it is 1 / sqrt(3) of the largest. The sign
 * comes with the random bits, because the numbers lie a little below 0. */
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
    kvc_store_f16(block->d, either_sign(block->d, reach / (18.5f * IQ4_SPREAD))); /* scales -32..31 as they fall */
}

/* ---- MXFP4 ---- */

/* The number nearest to v, in magnitude; of two as near the smaller. */
static int nearest_e2m1(double v) {
    static const double middle[7] = {0.5, 1.5, 2.5, 3.5, 5, 7, 10};
    const double magnitude = v < 0 ? -v : v;
    int q = 0;
    for (int i = 0; i < 7; i++) {
        q += magnitude > middle[i];
    }
    return v < 0 && q > 0 ? q + 8 : q;
}

/* The squared error with 2^(power - 128) as the scale, and the quants. In double, because any float may come. */
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

/* Three powers: the least that covers the largest value is two below its own, but for rounding; and its neighbours. */
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

/* The numbers' root mean square is 5.85. A power of two rarely fits: the two next to what is wanted take turns, by the
 * block's random byte, as often as makes the mean square right. */
void kvc_random_mxfp4(struct kvc_block_mxfp4 *block, float reach) {
    const float scale = reach / 10.14f;                       /* 5.85 * sqrt(3) */
    const int power = (int)(kvc_bits(scale) >> 23 & 255) + 1; /* kvc_power_half(power) <= scale */
    const float low = kvc_power_half((kvc_u8)power), square = scale / low * (scale / low); /* 1 to 4 */
    const float twice = (square - 1.0f) / 3.0f;                                            /* how often */
    block->power[0] = (kvc_u8)(power + ((float)block->power[0] < 256.0f * twice));
}
