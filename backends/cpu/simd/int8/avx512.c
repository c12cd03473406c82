/* avx512.c - linear layers with 8-bit activations for AVX-512 without VNNI. */
#define PATH avx512
#define PAIRS 1
#define BITS 512
#include "backends/cpu/simd/int8/template.h"
