/* vector_neon.c - attention, norm, rope and the other operations for NEON. */
#include "backends/cpu/simd/lanes/neon.h"

#include "backends/cpu/simd/vector.h"

void kvc_cpu_fill_neon(struct kvc_ops *table) { fill_vector(table); }

#if defined(KVC_NEON_DOTPROD)
void kvc_cpu_fill_neondotprod(struct kvc_ops *table) {
    fill_vector(table);
    table->quantize_rows = kvc_quantize_rows_neondotprod;
    table->linear_int8 = kvc_linear_int8_neondotprod;
    table->expert_linear_int8 = kvc_expert_linear_int8_neondotprod;
    table->quantize_rows_int16 = kvc_quantize_rows_int16_neondotprod;
    table->linear_int16 = kvc_linear_int16_neondotprod;
    table->expert_linear_int16 = kvc_expert_linear_int16_neondotprod;
}

void kvc_cpu_fill_neoni8mm(struct kvc_ops *table) {
    fill_vector(table);
    table->quantize_rows = kvc_quantize_rows_neoni8mm;
    table->linear_int8 = kvc_linear_int8_neoni8mm;
    table->expert_linear_int8 = kvc_expert_linear_int8_neoni8mm;
    table->quantize_rows_int16 = kvc_quantize_rows_int16_neoni8mm;
    table->linear_int16 = kvc_linear_int16_neoni8mm;
    table->expert_linear_int16 = kvc_expert_linear_int16_neoni8mm;
}
#endif
