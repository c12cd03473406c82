/* tiles_linear.c - the many-row kernels of the path amx, with plain C code instead of tile instructions. */
#define KVC_TILES_PLAIN
#include "backends/cpu/simd/int8/amx/template.h"
#include "backends/cpu/simd/int8/amx/int16.h"
#include "tests/backends/tiles.h"

bool tiles_linear_plain(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    if (!tiles_multiply(args->w->type))
        return false;
    kvc_int8_run((struct kvc_cpu *)device, &tile_kernels, args);
    return true;
}

void tiles_linear_int16_plain(struct kvc_device *device, const struct kvc_linear_int16 *args) {
    kvc_int16_run((struct kvc_cpu *)device, &wide_tile_kernels, args);
}
