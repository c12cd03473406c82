/* avx2.c - the AVX2 path: which operations it replaces. */
#include "backends/cpu/simd/simd.h"

void kvc_cpu_fill_avx2(struct kvc_ops *table) {
    kvc_fill_linear_avx2(table);
    kvc_fill_vector_avx2(table);
}
