/* avx512vnni.c - linear layers with 8-bit activations for AVX-512 with VNNI. */
#define PATH avx512vnni
#define PAIRS 0
#define BITS 512
#define TILE_ROWS 6
#define TILE_VECTORS 2
#define TILE_EVERY(m) m(1) m(2) m(3) m(4) m(5) m(6)
#define SMALL_BATCH_LIMIT 4
#include "backends/cpu/simd/int8/template.h"
