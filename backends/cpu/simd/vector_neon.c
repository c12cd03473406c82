/* vector_neon.c - attention, norm, rope and the rest for NEON. */
#include "backends/cpu/simd/lanes/neon.h"

#include "backends/cpu/simd/simd.h"

static void linear(struct kvc_device *device, const struct kvc_linear *args) { kvc_linear_neon(device, args); }
static void expert_linear(struct kvc_device *device, const struct kvc_expert_linear *args) {
    kvc_expert_linear_neon(device, args);
}

#include "backends/cpu/simd/vector.h"

void kvc_cpu_fill_neon(struct kvc_ops *table) { fill_vector(table); }
