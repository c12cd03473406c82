/* avx2.c - linear layers for AVX2. */
#include "backends/cpu/simd/lanes/avx2.h"

#define TILE_ROWS 6
#define TILE_VECTORS 2
#define TILE_EVERY(m) m(2) m(4) m(6)
#define GEMV_STREAMS 2
#define SMALL_BATCH_ROWS 4
#define SMALL_BATCH_OUTPUTS 3
#define SMALL_BATCH_EVERY(m) m(1) m(2) m(3) m(4)
#define SMALL_BATCH_LIMIT 16
#include "backends/cpu/simd/linear/template.h"

void kvc_linear_avx2(struct kvc_device *device, const struct kvc_linear *args) { linear(device, args); }
void kvc_expert_linear_avx2(struct kvc_device *device, const struct kvc_expert_linear *args) {
    expert_linear(device, args);
}
