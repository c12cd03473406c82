/* simd.h - the linear layers of each SIMD path, which are compiled by themselves: linear/<path>.c. Everything else is
 * in vector_<path>.c. */
#ifndef KVC_SIMD_SIMD_H
#define KVC_SIMD_SIMD_H

#include "backends/cpu/cpu.h"

void kvc_linear_avx2(struct kvc_device *device, const struct kvc_linear *args);
void kvc_expert_linear_avx2(struct kvc_device *device, const struct kvc_expert_linear *args);
void kvc_linear_avx512(struct kvc_device *device, const struct kvc_linear *args);
void kvc_expert_linear_avx512(struct kvc_device *device, const struct kvc_expert_linear *args);
void kvc_linear_neon(struct kvc_device *device, const struct kvc_linear *args);
void kvc_expert_linear_neon(struct kvc_device *device, const struct kvc_expert_linear *args);

/* Those of activations in eight bits: int8/<path>.c; AVX-512 without VNNI has AVX2's. Those of NEON: without dot
 * products, with them (SDOT), and with products of matrices besides (SMMLA). */
void kvc_quantize_rows_avx2(struct kvc_device *device, const struct kvc_quantize_rows *args);
void kvc_linear_int8_avx2(struct kvc_device *device, const struct kvc_linear_int8 *args);
void kvc_expert_linear_int8_avx2(struct kvc_device *device, const struct kvc_expert_linear_int8 *args);
void kvc_quantize_rows_avx512vnni(struct kvc_device *device, const struct kvc_quantize_rows *args);
void kvc_linear_int8_avx512vnni(struct kvc_device *device, const struct kvc_linear_int8 *args);
void kvc_expert_linear_int8_avx512vnni(struct kvc_device *device, const struct kvc_expert_linear_int8 *args);
void kvc_quantize_rows_neon(struct kvc_device *device, const struct kvc_quantize_rows *args);
void kvc_linear_int8_neon(struct kvc_device *device, const struct kvc_linear_int8 *args);
void kvc_expert_linear_int8_neon(struct kvc_device *device, const struct kvc_expert_linear_int8 *args);
void kvc_quantize_rows_neondotprod(struct kvc_device *device, const struct kvc_quantize_rows *args);
void kvc_linear_int8_neondotprod(struct kvc_device *device, const struct kvc_linear_int8 *args);
void kvc_expert_linear_int8_neondotprod(struct kvc_device *device, const struct kvc_expert_linear_int8 *args);
void kvc_quantize_rows_neoni8mm(struct kvc_device *device, const struct kvc_quantize_rows *args);
void kvc_linear_int8_neoni8mm(struct kvc_device *device, const struct kvc_linear_int8 *args);
void kvc_expert_linear_int8_neoni8mm(struct kvc_device *device, const struct kvc_expert_linear_int8 *args);

#endif
