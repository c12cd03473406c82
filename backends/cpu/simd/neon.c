/* neon.c - the NEON path: which operations it replaces. */
#include "backends/cpu/simd/simd.h"

void kvc_cpu_fill_neon(struct kvc_ops *table) {
    kvc_fill_linear_neon(table);
    kvc_fill_vector_neon(table);
}
