/* avx2.c - linear layers with 8-bit activations for AVX2. */
#define PATH avx2
#define PAIRS 1
#define BITS 256
#define TILE_ROWS 4
#define TILE_VECTORS 2
#define TILE_EVERY(m) m(1) m(2) m(3) m(4)
#define SMALL_BATCH_LIMIT 4
#include "backends/cpu/simd/int8/template.h"
