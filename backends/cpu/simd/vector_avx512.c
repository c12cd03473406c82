/* vector_avx512.c - attention, norm, rope and the rest for AVX-512. */
#include "backends/cpu/simd/simd.h"

void kvc_fill_vector_avx512(struct kvc_ops *table) { (void)table; }
