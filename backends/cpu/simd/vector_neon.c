/* vector_neon.c - attention, norm, rope and the rest for NEON. */
#include "backends/cpu/simd/lanes/neon.h"

#include "backends/cpu/simd/vector.h"

void kvc_fill_vector_neon(struct kvc_ops *table) { fill_vector(table); }
