/* neondotprod.c - linear layers with 8-bit activations for NEON with the four-byte dot product SDOT. */
#define PATH neondotprod
#define PRODUCTS PRODUCTS_SDOT
#include "backends/cpu/simd/int8/neon/template.h"
