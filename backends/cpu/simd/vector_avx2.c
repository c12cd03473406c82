/* vector_avx2.c - attention, norm, rope and the rest for AVX2: the templates of this folder over lanes_avx2.h. */
#include "backends/cpu/simd/lanes_avx2.h"

#include "backends/cpu/simd/attention.h"
#include "backends/cpu/simd/simd.h"

void kvc_fill_vector_avx2(struct kvc_ops *table) {
    table->attention = attention;
}
