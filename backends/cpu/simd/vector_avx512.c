/* vector_avx512.c - attention, norm, rope and the rest for AVX-512. */
#include "backends/cpu/simd/lanes/avx512.h"

#include "backends/cpu/simd/vector.h"

void kvc_fill_vector_avx512(struct kvc_ops *table) { fill_vector(table); }
