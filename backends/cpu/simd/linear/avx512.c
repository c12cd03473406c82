/* avx512.c - linear layers for AVX-512. */
#include "backends/cpu/simd/lanes/avx512.h"

#define TILE_ROWS 12
#define TILE_VECTORS 2
#define TILE_EVERY(m) m(2) m(4) m(6) m(8) m(10) m(12)
#define GEMV_STREAMS 4
#define SMALL_BATCH_ROWS 8
#define SMALL_BATCH_OUTPUTS 3
#define SMALL_BATCH_EVERY(m) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8)
#define SMALL_BATCH_LIMIT 16
#define ROUND_BYTES (384 * 1024) /* CPUs with AVX-512 have at least 512 KiB of L2 */
#include "backends/cpu/simd/linear/template.h"

void kvc_linear_avx512(struct kvc_device *device, const struct kvc_linear *args) { linear(device, args); }
void kvc_expert_linear_avx512(struct kvc_device *device, const struct kvc_expert_linear *args) {
    expert_linear(device, args);
}
