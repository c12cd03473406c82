/* vector_avx512.c - attention, norm, rope and the rest for AVX-512: the templates of this folder over lanes_avx512.h. */
#include "backends/cpu/simd/lanes_avx512.h"

#include "backends/cpu/simd/attention.h"
#include "backends/cpu/simd/simd.h"

void kvc_fill_vector_avx512(struct kvc_ops *table) {
    table->attention = attention;
}
