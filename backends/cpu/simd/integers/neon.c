/* neon.c - attention over Q8_0 entries in integer arithmetic, for NEON. */
#define PATH neon
#define PRODUCTS PRODUCTS_IN_PAIRS
#include "backends/cpu/simd/integers/kernels_neon.h"
