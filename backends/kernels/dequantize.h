/* dequantize.h - dequantizes weights of every type to float32. Rows are bytes and need no alignment. */
#ifndef KVC_BACKENDS_KERNELS_DEQUANTIZE_H
#define KVC_BACKENDS_KERNELS_DEQUANTIZE_H

/* KVC_K_<TYPE> has the value of KVC_<TYPE> in enum kvc_type (include/kvcull.h). */
enum kvc_kernel_type {
#define KVC_TYPE_NUMBER(a, NAME, name, gguf, elements, bytes, scale, scales, wide, holds) KVC_K_##NAME,
    KVC_ALL_WEIGHT_TYPES(KVC_TYPE_NUMBER, ) KVC_K_Q4H,
    KVC_K_Q5H,
    KVC_K_Q6H
};

/* Returns element k of a row of type F32, F16, BF16 or FP8. */
KVC_DEVICE float kvc_dequantize_float(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u64 k) {
    switch (type) {
    case KVC_K_F32:
        return ((KVC_GLOBAL const float *)row)[k];
    case KVC_K_F16:
        return kvc_f16_to_f32(((KVC_GLOBAL const kvc_u16 *)row)[k]);
    case KVC_K_BF16:
        return kvc_bf16_to_f32(((KVC_GLOBAL const kvc_u16 *)row)[k]);
    case KVC_K_FP8: {
        KVC_GLOBAL const struct kvc_block_fp8 *b = (KVC_GLOBAL const struct kvc_block_fp8 *)row + k / 128;
        return KVC_DEQUANTIZE_FP8(*b, k % 128);
    }
    }
    return kvc_nan();
}

/* Returns element k of a row. */
#define KVC_DEQUANTIZE_CASE(a, NAME, name, gguf, elements, bytes, scale, scales, wide, holds)                          \
    case KVC_K_##NAME: {                                                                                               \
        KVC_GLOBAL const struct kvc_block_##name *b =                                                                  \
            (KVC_GLOBAL const struct kvc_block_##name *)row + k / (elements);                                          \
        return KVC_DEQUANTIZE_##NAME(*b, k % (elements));                                                              \
    }
KVC_DEVICE float kvc_dequantize_weight(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u64 k) {
    switch (type) {
    case KVC_K_F32:
        return ((KVC_GLOBAL const float *)row)[k];
    case KVC_K_F16:
        return kvc_f16_to_f32(((KVC_GLOBAL const kvc_u16 *)row)[k]);
    case KVC_K_BF16:
        return kvc_bf16_to_f32(((KVC_GLOBAL const kvc_u16 *)row)[k]);
        KVC_ALL_BLOCK_TYPES(KVC_DEQUANTIZE_CASE, )
    }
    return kvc_nan();
}

#endif
