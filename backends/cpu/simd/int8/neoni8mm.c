/* neoni8mm.c - linear layers with 8-bit activations for NEON with the matrix product SMMLA (I8MM). */
#define PATH neoni8mm
#define PRODUCTS PRODUCTS_SMMLA
#include "backends/cpu/simd/int8/neon/template.h"
