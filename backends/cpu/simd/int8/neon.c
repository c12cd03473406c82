/* neon.c - linear layers with 8-bit activations for NEON without dot product instructions. */
#define PATH neon
#define PRODUCTS PRODUCTS_IN_PAIRS
#include "backends/cpu/simd/int8/neon/template.h"
#include "backends/cpu/simd/int16/pack_neon.h"
