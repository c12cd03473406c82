/* tiles_integers.c - the kernels of the path amx for attention over Q8_0 entries, with the double of the tiles in plain
 * C. */
#define KVC_TILES_PLAIN
#define kvc_integer_amx tiles_integers_plain
#include "backends/cpu/simd/integers/amx.c"
