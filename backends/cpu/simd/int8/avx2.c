/* avx2.c - linear layers with 8-bit activations for AVX2. */
#define PATH avx2
#define PAIRS 1
#define BITS 256
#include "backends/cpu/simd/int8/template.h"
#include "backends/cpu/simd/int16/pack.h"
