/* vector_avx2.c - attention, norm, rope and the other operations for AVX2. */
#include "backends/cpu/simd/lanes/avx2.h"

#include "backends/cpu/simd/vector.h"

void kvc_cpu_fill_avx2(struct kvc_ops *table) { fill_vector(table); }

void kvc_cpu_fill_avx2vnni(struct kvc_ops *table) {
    fill_vector(table);
    table->quantize_rows = kvc_quantize_rows_avx2vnni;
    table->linear_int8 = kvc_linear_int8_avx2vnni;
    table->expert_linear_int8 = kvc_expert_linear_int8_avx2vnni;
    table->quantize_rows_int16 = kvc_quantize_rows_int16_avx2vnni;
    table->linear_int16 = kvc_linear_int16_avx2vnni;
    table->expert_linear_int16 = kvc_expert_linear_int16_avx2vnni;
}
