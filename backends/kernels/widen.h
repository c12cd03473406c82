/* widen.h - weights of every type to float32. Rows are bytes and need not be aligned. */
#ifndef KVC_BACKENDS_KERNELS_WIDEN_H
#define KVC_BACKENDS_KERNELS_WIDEN_H

/* The numbers of enum kvc_type (include/kvcull.h); the host checks that they agree. */
#define KVC_K_F32 0u
#define KVC_K_F16 1u
#define KVC_K_BF16 2u
#define KVC_K_Q8_0 3u
#define KVC_K_Q4_0 4u
#define KVC_K_Q5_0 5u
#define KVC_K_Q3_K 6u
#define KVC_K_Q4_K 7u
#define KVC_K_Q5_K 8u
#define KVC_K_Q6_K 9u

#define KVC_HALF(bytes) kvc_f16_to_f32(KVC_LOAD_U16(bytes))

/* Element k of a row. */
KVC_DEVICE float kvc_weight_value(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u64 k) {
    switch (type) {
    case KVC_K_F32:
        return ((KVC_GLOBAL const float *)row)[k];
    case KVC_K_F16:
        return kvc_f16_to_f32(((KVC_GLOBAL const kvc_u16 *)row)[k]);
    case KVC_K_BF16:
        return kvc_bf16_to_f32(((KVC_GLOBAL const kvc_u16 *)row)[k]);
    case KVC_K_Q8_0: {
        KVC_GLOBAL const struct kvc_block_q8_0 *b = (KVC_GLOBAL const struct kvc_block_q8_0 *)row + k / 32;
        return KVC_Q8_0_VALUE(*b, k % 32, KVC_HALF(b->d));
    }
    case KVC_K_Q4_0: {
        KVC_GLOBAL const struct kvc_block_q4_0 *b = (KVC_GLOBAL const struct kvc_block_q4_0 *)row + k / 32;
        return KVC_Q4_0_VALUE(*b, k % 32, KVC_HALF(b->d));
    }
    case KVC_K_Q5_0: {
        KVC_GLOBAL const struct kvc_block_q5_0 *b = (KVC_GLOBAL const struct kvc_block_q5_0 *)row + k / 32;
        return KVC_Q5_0_VALUE(*b, k % 32, KVC_HALF(b->d));
    }
    case KVC_K_Q3_K: {
        KVC_GLOBAL const struct kvc_block_q3_k *b = (KVC_GLOBAL const struct kvc_block_q3_k *)row + k / 256;
        return KVC_Q3_K_VALUE(*b, k % 256, KVC_HALF(b->d));
    }
    case KVC_K_Q4_K: {
        KVC_GLOBAL const struct kvc_block_q4_k *b = (KVC_GLOBAL const struct kvc_block_q4_k *)row + k / 256;
        return KVC_Q4_K_VALUE(*b, k % 256, KVC_HALF(b->d), KVC_HALF(b->dmin));
    }
    case KVC_K_Q5_K: {
        KVC_GLOBAL const struct kvc_block_q5_k *b = (KVC_GLOBAL const struct kvc_block_q5_k *)row + k / 256;
        return KVC_Q5_K_VALUE(*b, k % 256, KVC_HALF(b->d), KVC_HALF(b->dmin));
    }
    default: {
        KVC_GLOBAL const struct kvc_block_q6_k *b = (KVC_GLOBAL const struct kvc_block_q6_k *)row + k / 256;
        return KVC_Q6_K_VALUE(*b, k % 256, KVC_HALF(b->d));
    }
    }
}

#endif
