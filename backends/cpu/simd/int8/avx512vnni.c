/* avx512vnni.c - linear layers with 8-bit activations for AVX-512 with VNNI. */
#define PATH avx512vnni
#define PAIRS 0
#define BITS 512
#include "backends/cpu/simd/int8/template.h"
