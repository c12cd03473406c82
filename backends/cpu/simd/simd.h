/* simd.h - what each SIMD path consists of: linear layers and everything else, in two files per path. */
#ifndef KVC_SIMD_SIMD_H
#define KVC_SIMD_SIMD_H

#include "backends/cpu/cpu.h"

void kvc_fill_linear_avx2(struct kvc_ops *table);
void kvc_fill_vector_avx2(struct kvc_ops *table);
void kvc_fill_linear_avx512(struct kvc_ops *table);
void kvc_fill_vector_avx512(struct kvc_ops *table);
void kvc_fill_linear_neon(struct kvc_ops *table);
void kvc_fill_vector_neon(struct kvc_ops *table);

#endif
