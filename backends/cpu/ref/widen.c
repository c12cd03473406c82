/* widen.c - stored values to float32: weight rows of every type. */
#include <string.h>

#include "backends/cpu/ref/ref.h"

static float half_at(const kvc_u8 *bytes) { return kvc_f16_to_f32(KVC_LOAD_U16(bytes)); }

/* Element k of a row. Blocks are byte arrays, so any alignment will do. */
static float value(enum kvc_type type, const unsigned char *row, uint64_t k) {
    float x;
    switch (type) {
    case KVC_F32:
        memcpy(&x, row + 4 * k, 4);
        return x;
    case KVC_F16:
        return half_at(row + 2 * k);
    case KVC_BF16:
        return kvc_bf16_to_f32(KVC_LOAD_U16(row + 2 * k));
    case KVC_Q8_0: {
        const struct kvc_block_q8_0 *b = (const struct kvc_block_q8_0 *)row + k / 32;
        return KVC_Q8_0_VALUE(*b, k % 32, half_at(b->d));
    }
    case KVC_Q4_0: {
        const struct kvc_block_q4_0 *b = (const struct kvc_block_q4_0 *)row + k / 32;
        return KVC_Q4_0_VALUE(*b, k % 32, half_at(b->d));
    }
    case KVC_Q5_0: {
        const struct kvc_block_q5_0 *b = (const struct kvc_block_q5_0 *)row + k / 32;
        return KVC_Q5_0_VALUE(*b, k % 32, half_at(b->d));
    }
    case KVC_Q3_K: {
        const struct kvc_block_q3_k *b = (const struct kvc_block_q3_k *)row + k / 256;
        return KVC_Q3_K_VALUE(*b, k % 256, half_at(b->d));
    }
    case KVC_Q4_K: {
        const struct kvc_block_q4_k *b = (const struct kvc_block_q4_k *)row + k / 256;
        return KVC_Q4_K_VALUE(*b, k % 256, half_at(b->d), half_at(b->dmin));
    }
    case KVC_Q5_K: {
        const struct kvc_block_q5_k *b = (const struct kvc_block_q5_k *)row + k / 256;
        return KVC_Q5_K_VALUE(*b, k % 256, half_at(b->d), half_at(b->dmin));
    }
    case KVC_Q6_K: {
        const struct kvc_block_q6_k *b = (const struct kvc_block_q6_k *)row + k / 256;
        return KVC_Q6_K_VALUE(*b, k % 256, half_at(b->d));
    }
    case KVC_TYPES:
        break;
    }
    return kvc_nan();
}

void KVC_REF(widen)(enum kvc_type type, const unsigned char *row, uint64_t first, uint64_t count, float *out) {
    if (type == KVC_F32) {
        memcpy(out, row + 4 * first, 4 * count);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        out[i] = value(type, row, first + i);
}
