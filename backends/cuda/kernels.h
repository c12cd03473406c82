/* kernels.h - the kernels of kernels.cu as the host sees them: by the addresses of their host stubs. */
#ifndef KVC_BACKENDS_CUDA_KERNELS_H
#define KVC_BACKENDS_CUDA_KERNELS_H

#include "backends/offload/offload.h"

/* CUDA's own kernels, numbered after those of backends/kernels. small_batch_* and small_int8_* follow the order of enum
 * kvc_type. */
#define KVC_CUDA_FEW(apply, NAME, name, ...)                                                                           \
    apply(small_batch_##name##_1) apply(small_batch_##name##_4) apply(small_batch_##name##_8)
#define KVC_CUDA_FEW_INT8(apply, NAME, name, ...)                                                                      \
    apply(small_int8_##name##_1) apply(small_int8_##name##_4) apply(small_int8_##name##_8)
/* clang-format off */
#define KVC_CUDA_OWN_KERNELS(apply) \
    KVC_ALL_WEIGHT_TYPES(KVC_CUDA_FEW, apply) \
    KVC_BLOCK_TYPES(KVC_CUDA_FEW_INT8, apply) \
    apply(gemm_pack_x) \
    apply(gemm_pack_w) \
    apply(gemm_product_32) \
    apply(gemm_product_128) \
    apply(gemm_int8) \
    apply(gemm_int16) \
    apply(read_f32_8) \
    apply(read_f16_8) \
    apply(read_q8_0_8) \
    apply(read_f32_16) \
    apply(read_f16_16) \
    apply(read_q8_0_16) \
    apply(read_int8) \
    apply(read_merge)
/* clang-format on */

enum kvc_cuda_kernel {
    KVC_CUDA_BEFORE_OWN = KVC_KERNELS - 1,
#define KVC_KERNEL_NUMBER(name) KVC_CUDA_##name,
    KVC_CUDA_OWN_KERNELS(KVC_KERNEL_NUMBER)
#undef KVC_KERNEL_NUMBER
        KVC_CUDA_KERNELS
};

#if !defined(__cplusplus)
#define KVC_KERNEL_NAMED(name) void kvc_k_##name(void);
#include "backends/offload/kernels.def"
#define KVC_KERNEL_STUB(name) void kvc_k_##name(void);
KVC_CUDA_OWN_KERNELS(KVC_KERNEL_STUB)
#undef KVC_KERNEL_STUB
#endif

#endif
