/* blocks_offset.c - block types with a scale and a minimum: Q4_1, Q5_1, Q2_K, Q4_K, Q5_K. */
#include <string.h>

#include "models/convert/blocks.h"

/* Q4_1 and Q5_1: stores the scale and minimum of 32 values and computes their quants. */
static void quantize_32(const float *x, int top, kvc_u8 *d, kvc_u8 *m, int *quants) {
    const struct kvc_affine fit = kvc_search_affine(x, 32, top, KVC_MINIMUM_ANY);
    kvc_store_f16(d, fit.scale);
    kvc_store_f16(m, kvc_clamp(-fit.minimum, -65504.0f, 65504.0f));
    const float inverse = kvc_inverse(KVC_HALF(d)), minimum = KVC_HALF(m);
    for (int e = 0; e < 32; e++) {
        quants[e] = kvc_to_quant(x[e] - minimum, inverse, 0, top);
    }
}

void kvc_quantize_q4_1(const float *x, struct kvc_block_q4_1 *block) {
    int q[32];
    memset(block, 0, sizeof *block);
    quantize_32(x, 15, block->d, block->m, q);
    for (int e = 0; e < 32; e++) {
        block->q[e % 16] |= (kvc_u8)(q[e] << (e / 16 * 4));
    }
}

void kvc_random_q4_1(struct kvc_block_q4_1 *block, float reach) {
    kvc_store_f16(block->d, reach / 7.5f);
    kvc_store_f16(block->m, -reach);
}

void kvc_quantize_q5_1(const float *x, struct kvc_block_q5_1 *block) {
    int q[32];
    memset(block, 0, sizeof *block);
    quantize_32(x, 31, block->d, block->m, q);
    for (int e = 0; e < 32; e++) {
        block->q[e % 16] |= (kvc_u8)((q[e] & 15) << (e / 16 * 4));
        block->high[e / 8] |= (kvc_u8)((q[e] >> 4) << (e % 8));
    }
}

void kvc_random_q5_1(struct kvc_block_q5_1 *block, float reach) {
    kvc_store_f16(block->d, reach / 15.5f);
    kvc_store_f16(block->m, -reach);
}

/* ---- Q2_K ---- */

enum { SUBS = 16, Q2_ROUNDS = 3, REACH = 2 };

struct q2_choice { /* a sub-block's scale and minimum as integers, and its quants */
    int scale, minimum, q[16];
};

static float quant_16(float x, float minimum, float inverse) {
    return kvc_rint(kvc_clamp((x + minimum) * inverse, 0.0f, 3.0f));
}

/* Returns the squared error of a sub-block with this scale and minimum. */
static float error_16(const float *x, float scale, float minimum) {
    const float inverse = kvc_inverse(scale);
    float error[8] = {0};
    for (int e = 0; e < 16; e += 8) {
        for (int k = 0; k < 8; k++) {
            const float off = x[e + k] - (scale * quant_16(x[e + k], minimum, inverse) - minimum);
            error[k] += off * off;
        }
    }
    return ((error[0] + error[4]) + (error[2] + error[6])) + ((error[1] + error[5]) + (error[3] + error[7]));
}

/* Chooses a sub-block's scale and minimum, which have only four bits each: tries all pairs near the wanted ones.
 * Returns the squared error. */
static float choose_16(const float *x, struct kvc_affine wanted, float d, float dmin, struct q2_choice *best) {
    const int a = kvc_to_quant(wanted.scale, kvc_inverse(d), 0, 15);
    const int b = kvc_to_quant(wanted.minimum, kvc_inverse(dmin), 0, 15);
    float least = -1.0f;
    for (int i = a > REACH ? a - REACH : 0; i <= a + REACH && i < 16; i++) {
        for (int k = b > REACH ? b - REACH : 0; k <= b + REACH && k < 16; k++) {
            const float error = error_16(x, d * (float)i, dmin * (float)k);
            if (least < 0.0f || error < least) {
                least = error;
                best->scale = i;
                best->minimum = k;
            }
        }
    }
    const float inverse = kvc_inverse(d * (float)best->scale);
    for (int e = 0; e < 16; e++) {
        best->q[e] = (int)quant_16(x[e], dmin * (float)best->minimum, inverse);
    }
    return least;
}

/* Finds the d and dmin with the least squared error for the chosen integers: x = d * (a q) - dmin * b. */
static bool refit(const float *x, const struct q2_choice *chosen, float *d, float *dmin) {
    double pp = 0, pm = 0, mm = 0, xp = 0, xm = 0;
    for (int s = 0; s < SUBS; s++) {
        for (int e = 0; e < 16; e++) {
            const double p = chosen[s].scale * chosen[s].q[e], m = -chosen[s].minimum, v = (double)x[16 * s + e];
            pp += p * p;
            pm += p * m;
            mm += m * m;
            xp += v * p;
            xm += v * m;
        }
    }
    const double determinant = pp * mm - pm * pm;
    if (!(determinant > 0)) {
        return false;
    }
    *d = (float)((xp * mm - xm * pm) / determinant);
    *dmin = (float)((xm * pp - xp * pm) / determinant);
    return *d > 0.0f && *dmin > 0.0f;
}

void kvc_quantize_q2_k(const float *x, struct kvc_block_q2_k *block) {
    struct kvc_affine fits[SUBS];
    struct q2_choice chosen[SUBS];
    float scale = 0.0f, minimum = 0.0f, least = -1.0f;
    for (int s = 0; s < SUBS; s++) {
        fits[s] = kvc_search_affine(x + 16 * s, 16, 3, KVC_MINIMUM_POSITIVE);
        scale = fits[s].scale > scale ? fits[s].scale : scale;
        minimum = fits[s].minimum > minimum ? fits[s].minimum : minimum;
    }
    float d = scale / 15.0f, dmin = minimum / 15.0f;
    memset(block, 0, sizeof *block);
    for (int round = 0; round < Q2_ROUNDS; round++) {
        kvc_u8 halves[4];
        float error = 0.0f;
        kvc_store_f16(halves, d);
        kvc_store_f16(halves + 2, dmin);
        for (int s = 0; s < SUBS; s++) {
            error += choose_16(x + 16 * s, fits[s], KVC_HALF(halves), KVC_HALF(halves + 2), &chosen[s]);
        }
        if (least < 0.0f || error < least) {
            least = error;
            memset(block, 0, sizeof *block);
            memcpy(block->d, halves, 2);
            memcpy(block->dmin, halves + 2, 2);
            for (int e = 0; e < 256; e++) {
                block->scale[e / 16] = (kvc_u8)(chosen[e / 16].scale | chosen[e / 16].minimum << 4);
                block->q[e / 128 * 32 + e % 32] |= (kvc_u8)(chosen[e / 16].q[e % 16] << (e % 128 / 32 * 2));
            }
        }
        if (!refit(x, chosen, &d, &dmin)) {
            break;
        }
    }
}

/* Makes each minimum equal to its scale, so that the values are centered on 0. */
void kvc_random_q2_k(struct kvc_block_q2_k *block, float reach) {
    const float middle = 1.5f, d = reach / (11.4f * middle);
    for (int s = 0; s < 16; s++) {
        block->scale[s] = (kvc_u8)((block->scale[s] & 15) * 17);
    }
    kvc_store_f16(block->d, d);
    kvc_store_f16(block->dmin, d * middle);
}

/* The part that Q4_K and Q5_K share: scales and minimums as 6-bit integers. */
struct affine_block {
    kvc_u8 d[2], dmin[2], scale[12];
    float scales[8], minimums[8]; /* as dequantization computes them */
};

static void share_affine(const float *x, int top, struct affine_block *block) {
    struct kvc_affine fits[8];
    float scale = 0.0f, minimum = 0.0f;
    for (int s = 0; s < 8; s++) {
        fits[s] = kvc_search_affine(x + 32 * s, 32, top, KVC_MINIMUM_POSITIVE);
        scale = fits[s].scale > scale ? fits[s].scale : scale;
        minimum = fits[s].minimum > minimum ? fits[s].minimum : minimum;
    }
    kvc_u16 d = kvc_f32_to_f16(scale / 63.0f), dmin = kvc_f32_to_f16(minimum / 63.0f);
    float d_inverse = kvc_inverse(kvc_f16_to_f32(d)), dmin_inverse = kvc_inverse(kvc_f16_to_f32(dmin));
    memset(block, 0, sizeof *block);
    kvc_store_u16(block->d, d);
    kvc_store_u16(block->dmin, dmin);
    for (int s = 0; s < 8; s++) {
        int a = kvc_to_quant(fits[s].scale, d_inverse, 0, 63), b = kvc_to_quant(fits[s].minimum, dmin_inverse, 0, 63);
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
    return kvc_to_quant(x + block->minimums[s], kvc_inverse(block->scales[s]), 0, top);
}

/* For random bits: makes each minimum equal to its scale, so that the values are centered on 0. */
static void equal_minimums(kvc_u8 scale[12]) {
    for (int s = 0; s < 4; s++) {
        scale[s + 4] = scale[s];
        scale[s + 8] = (kvc_u8)((scale[s + 8] & 15) * 17);
    }
}

void kvc_quantize_q4_k(const float *x, struct kvc_block_q4_k *block) {
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

void kvc_random_q4_k(struct kvc_block_q4_k *block, float reach) {
    const float middle = 7.5f, d = reach / (36.5f * middle);
    equal_minimums(block->scale);
    kvc_store_f16(block->d, d);
    kvc_store_f16(block->dmin, d * middle);
}

void kvc_quantize_q5_k(const float *x, struct kvc_block_q5_k *block) {
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

void kvc_random_q5_k(struct kvc_block_q5_k *block, float reach) {
    const float middle = 15.5f, d = reach / (36.5f * middle);
    equal_minimums(block->scale);
    kvc_store_f16(block->d, d);
    kvc_store_f16(block->dmin, d * middle);
}
