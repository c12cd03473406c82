/* amx.c - the instruction set "amx". AMX tiles compute linear layers in 8 or 15 bits for many rows, where they are
 * faster than vectors. Everything else is the code of avx512vnni. */
#include "backends/cpu/simd/int8/amx/template.h"
#include "backends/cpu/simd/int8/amx/int16.h"
#include "backends/cpu/ref/pairs.h"
#include "backends/cpu/simd/simd.h"

/* With fewer rows, vectors are faster than tiles, because a tile product always computes 16 rows. */
#define TILE_LEAST_ROWS 32 /* for 8-bit activations */
#define WIDE_LEAST_ROWS 9  /* for 15-bit activations */

void kvc_linear_int8_amx(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    if (args->rows < TILE_LEAST_ROWS || !tiles_multiply(args->w->type))
        kvc_linear_int8_avx512vnni(device, args);
    else
        kvc_int8_run((struct kvc_cpu *)device, &tile_kernels, args);
}

void kvc_expert_linear_int8_amx(struct kvc_device *device, const struct kvc_expert_linear_int8 *args) {
    for (uint32_t e = 0; e < args->experts; e++) {
        struct kvc_weight w;
        const struct kvc_linear_int8 linear = kvc_int8_expert(args, e, &w);
        kvc_linear_int8_amx(device, &linear);
    }
}

void kvc_linear_int16_amx(struct kvc_device *device, const struct kvc_linear_int16 *args) {
    if (args->rows < WIDE_LEAST_ROWS)
        kvc_linear_int16_avx512vnni(device, args);
    else
        kvc_int16_run((struct kvc_cpu *)device, &wide_tile_kernels, args);
}

void kvc_expert_linear_int16_amx(struct kvc_device *device, const struct kvc_expert_linear_int16 *args) {
    for (uint32_t e = 0; e < args->experts; e++) {
        struct kvc_weight w;
        const struct kvc_linear_int16 linear = kvc_int16_expert(args, e, &w);
        kvc_linear_int16_amx(device, &linear);
    }
}

void kvc_cpu_fill_amx(struct kvc_ops *table) {
    kvc_cpu_fill_avx512vnni(table);
    table->linear_int8 = kvc_linear_int8_amx;
    table->expert_linear_int8 = kvc_expert_linear_int8_amx;
    table->linear_int16 = kvc_linear_int16_amx;
    table->expert_linear_int16 = kvc_expert_linear_int16_amx;
}
