/* vector_avx2.c - attention, norm, rope and the rest for AVX2. */
#include "backends/cpu/simd/lanes/avx2.h"

#include "backends/cpu/simd/vector.h"

void kvc_fill_vector_avx2(struct kvc_ops *table) { fill_vector(table); }
