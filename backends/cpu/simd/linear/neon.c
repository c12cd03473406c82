/* neon.c - linear layers for NEON. */
#include "backends/cpu/simd/lanes/neon.h"

#define TILE_ROWS 8
#define TILE_VECTORS 3
#define TILE_EVERY(m) m(2) m(4) m(6) m(8)
#define GEMV_STREAMS 2
#define SMALL_BATCH_ROWS 4
#define SMALL_BATCH_OUTPUTS 6
#define SMALL_BATCH_EVERY(m) m(1) m(2) m(3) m(4)
#define SMALL_BATCH_LIMIT 16
#define NONTEMPORAL_FROM SIZE_MAX
#include "backends/cpu/simd/linear/template.h"

void kvc_linear_neon(struct kvc_device *device, const struct kvc_linear *args) { linear(device, args); }
void kvc_expert_linear_neon(struct kvc_device *device, const struct kvc_expert_linear *args) {
    expert_linear(device, args);
}
