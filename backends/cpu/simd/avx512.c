/* avx512.c - the AVX-512 path: which operations it replaces. */
#include "backends/cpu/simd/simd.h"

void kvc_cpu_fill_avx512(struct kvc_ops *table) {
    kvc_fill_linear_avx512(table);
    kvc_fill_vector_avx512(table);
}
