/* vector_neon.c - attention, norm, rope and the rest for NEON. */
#include "backends/cpu/simd/lanes/neon.h"

#include "backends/cpu/ref/ref.h"
#include "backends/cpu/simd/simd.h"

static void linear(struct kvc_device *device, const struct kvc_linear *args) { kvc_linear_neon(device, args); }
static void expert_linear(struct kvc_device *device, const struct kvc_expert_linear *args) {
    kvc_expert_linear_neon(device, args);
}

/* Until NEON has its own. */
static void quantize_rows(struct kvc_device *device, const struct kvc_quantize_rows *args) {
    kvc_ref_quantize_rows(device, args);
}
static void linear_int8(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    kvc_ref_linear_int8(device, args);
}
static void expert_linear_int8(struct kvc_device *device, const struct kvc_expert_linear_int8 *args) {
    kvc_ref_expert_linear_int8(device, args);
}

#include "backends/cpu/simd/vector.h"

void kvc_cpu_fill_neon(struct kvc_ops *table) { fill_vector(table); }
