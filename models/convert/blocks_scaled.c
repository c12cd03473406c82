/* blocks_scaled.c - block types with a scale only: Q8_0, Q4_0, Q5_0, Q3_K, Q6_K. */
#include <string.h>

#include "models/convert/blocks.h"

void kvc_quantize_q8_0(const float *x, struct kvc_block_q8_0 *block) {
    float extreme = kvc_largest(x, 32);
    kvc_u16 d = kvc_f32_to_f16((extreme < 0.0f ? -extreme : extreme) / 127.0f);
    float scale = kvc_f16_to_f32(d);
    kvc_store_u16(block->d, d);
    for (int e = 0; e < 32; e++) {
        block->q[e] = scale == 0.0f ? 0 : (kvc_i8)kvc_rint(kvc_clamp(x[e] / scale, -127.0f, 127.0f));
    }
}

void kvc_random_q8_0(struct kvc_block_q8_0 *block, float reach) { kvc_store_f16(block->d, reach / 127.5f); }

void kvc_quantize_q4_0(const float *x, struct kvc_block_q4_0 *block) {
    kvc_u16 d = kvc_f32_to_f16(kvc_search_scale(x, 32, -8, 7));
    float inv = kvc_inverse(kvc_f16_to_f32(d));
    memset(block, 0, sizeof *block);
    kvc_store_u16(block->d, d);
    for (int e = 0; e < 32; e++) {
        block->q[e % 16] |= (kvc_u8)((kvc_to_quant(x[e], inv, -8, 7) + 8) << (e / 16 * 4));
    }
}

void kvc_random_q4_0(struct kvc_block_q4_0 *block, float reach) { kvc_store_f16(block->d, reach / 7.5f); }

void kvc_quantize_q5_0(const float *x, struct kvc_block_q5_0 *block) {
    kvc_u16 d = kvc_f32_to_f16(kvc_search_scale(x, 32, -16, 15));
    float inv = kvc_inverse(kvc_f16_to_f32(d));
    memset(block, 0, sizeof *block);
    kvc_store_u16(block->d, d);
    for (int e = 0; e < 32; e++) {
        int q = kvc_to_quant(x[e], inv, -16, 15) + 16;
        block->q[e % 16] |= (kvc_u8)((q & 15) << (e / 16 * 4));
        block->high[e / 8] |= (kvc_u8)((q >> 4) << (e % 8));
    }
}

void kvc_random_q5_0(struct kvc_block_q5_0 *block, float reach) { kvc_store_f16(block->d, reach / 15.5f); }

void kvc_quantize_q3_k(const float *x, struct kvc_block_q3_k *block) {
    float scales[16];
    int integers[16];
    for (int s = 0; s < 16; s++) {
        scales[s] = kvc_search_scale(x + 16 * s, 16, -4, 3);
    }
    kvc_u16 d = kvc_share_scale(scales, 16, -32, integers);
    memset(block, 0, sizeof *block);
    kvc_store_u16(block->d, d);
    for (int s = 0; s < 16; s++) {
        int stored = integers[s] + 32;
        block->scale[s % 8] |= (kvc_u8)((stored & 15) << (s / 8 * 4));
        block->scale[8 + s % 4] |= (kvc_u8)((stored >> 4) << (s / 4 * 2));
    }
    for (int e = 0; e < 256; e++) {
        float inv = kvc_inverse(kvc_f16_to_f32(d) * (float)integers[e / 16]);
        int q = kvc_to_quant(x[e], inv, -4, 3) + 4;
        block->q[e / 128 * 32 + e % 32] |= (kvc_u8)((q & 3) << (e % 128 / 32 * 2));
        block->high[e % 32] |= (kvc_u8)((q >> 2) << (e / 32));
    }
}

void kvc_random_q3_k(struct kvc_block_q3_k *block, float reach) {
    kvc_store_f16(block->d, reach / (18.5f * 3.5f)); /* the random scales are -32..31 */
}

void kvc_quantize_q6_k(const float *x, struct kvc_block_q6_k *block) {
    float scales[16];
    int integers[16];
    for (int s = 0; s < 16; s++) {
        scales[s] = kvc_search_scale(x + 16 * s, 16, -32, 31);
    }
    kvc_u16 d = kvc_share_scale(scales, 16, -128, integers);
    memset(block, 0, sizeof *block);
    kvc_store_u16(block->d, d);
    for (int s = 0; s < 16; s++) {
        block->scale[s] = (kvc_i8)integers[s];
    }
    for (int e = 0; e < 256; e++) {
        float inv = kvc_inverse(kvc_f16_to_f32(d) * (float)integers[e / 16]);
        int q = kvc_to_quant(x[e], inv, -32, 31) + 32;
        block->low[e / 128 * 64 + e % 64] |= (kvc_u8)((q & 15) << (e % 128 / 64 * 4));
        block->high[e / 128 * 32 + e % 32] |= (kvc_u8)((q >> 4) << (e % 128 / 32 * 2));
    }
}

void kvc_random_q6_k(struct kvc_block_q6_k *block, float reach) {
    kvc_store_f16(block->d, reach / (73.9f * 31.5f)); /* the random scales are -128..127 */
}
