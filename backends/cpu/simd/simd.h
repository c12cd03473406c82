/* simd.h - the linear layers of each SIMD instruction set. linear/<name>.c compiles them separately; vector_<name>.c
 * compiles everything else. */
#ifndef KVC_SIMD_SIMD_H
#define KVC_SIMD_SIMD_H

#include "backends/cpu/cpu.h"

void kvc_linear_avx2(struct kvc_device *device, const struct kvc_linear *args);
void kvc_expert_linear_avx2(struct kvc_device *device, const struct kvc_expert_linear *args);
void kvc_linear_avx512(struct kvc_device *device, const struct kvc_linear *args);
void kvc_expert_linear_avx512(struct kvc_device *device, const struct kvc_expert_linear *args);
void kvc_linear_neon(struct kvc_device *device, const struct kvc_linear *args);
void kvc_expert_linear_neon(struct kvc_device *device, const struct kvc_expert_linear *args);

/* Linear layers with 8-bit and with 15-bit activations, compiled by int8/<name>.c. */
#define KVC_SIMD_INT8(path)                                                                                            \
    void kvc_quantize_rows_##path(struct kvc_device *device, const struct kvc_quantize_rows *args);                    \
    void kvc_linear_int8_##path(struct kvc_device *device, const struct kvc_linear_int8 *args);                        \
    void kvc_expert_linear_int8_##path(struct kvc_device *device, const struct kvc_expert_linear_int8 *args);          \
    void kvc_quantize_rows_int16_##path(struct kvc_device *device, const struct kvc_quantize_rows_int16 *args);        \
    void kvc_linear_int16_##path(struct kvc_device *device, const struct kvc_linear_int16 *args);                      \
    void kvc_expert_linear_int16_##path(struct kvc_device *device, const struct kvc_expert_linear_int16 *args);
KVC_SIMD_INT8(avx2)
KVC_SIMD_INT8(avx2vnni)
KVC_SIMD_INT8(avx512)
KVC_SIMD_INT8(avx512vnni)
KVC_SIMD_INT8(neon)        /* NEON without dot product instructions */
KVC_SIMD_INT8(neondotprod) /* NEON with SDOT */
KVC_SIMD_INT8(neoni8mm)    /* NEON with SDOT and the matrix product SMMLA */

/* All x86 instruction sets pack weights with the first function, and all NEON instruction sets with the second. */
void kvc_pack_int16_avx2(const struct kvc_weight *w, size_t first, size_t last);
void kvc_pack_int16_neon(const struct kvc_weight *w, size_t first, size_t last);

/* from int8/amx.c; the instruction set "amx" takes its other operations from avx512vnni */
void kvc_linear_int8_amx(struct kvc_device *device, const struct kvc_linear_int8 *args);
void kvc_expert_linear_int8_amx(struct kvc_device *device, const struct kvc_expert_linear_int8 *args);
void kvc_linear_int16_amx(struct kvc_device *device, const struct kvc_linear_int16 *args);
void kvc_expert_linear_int16_amx(struct kvc_device *device, const struct kvc_expert_linear_int16 *args);

#endif
