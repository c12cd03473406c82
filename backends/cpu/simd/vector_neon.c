/* vector_neon.c - attention, norm, rope and the rest for NEON: the templates of this folder over lanes_neon.h. */
#include "backends/cpu/simd/lanes_neon.h"

#include "backends/cpu/simd/attention.h"
#include "backends/cpu/simd/simd.h"

void kvc_fill_vector_neon(struct kvc_ops *table) {
    table->attention = attention;
}
