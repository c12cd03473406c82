/* tiles_integers.c - the kernels of the path amx for attention over Q8_0 entries, with plain C code instead of tile
 * instructions. */
#define KVC_TILES_PLAIN
#define kvc_integer_amx tiles_integers_plain
#include "backends/cpu/simd/integers/amx.c"
