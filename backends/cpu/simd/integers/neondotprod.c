/* neondotprod.c - attention over Q8_0 entries as products of integers, for NEON with the dot product SDOT. NEON with
 * I8MM uses it too. */
#define PATH neondotprod
#define PRODUCTS PRODUCTS_SDOT
#include "backends/cpu/simd/integers/kernels_neon.h"
