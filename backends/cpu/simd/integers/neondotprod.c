/* neondotprod.c - attention over Q8_0 entries in integer arithmetic, for NEON with the dot product SDOT, with or
 * without I8MM. */
#define PATH neondotprod
#define PRODUCTS PRODUCTS_SDOT
#include "backends/cpu/simd/integers/kernels_neon.h"
