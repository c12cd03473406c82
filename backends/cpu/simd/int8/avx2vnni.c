/* avx2vnni.c - linear layers with 8-bit activations for AVX2 with AVX-VNNI. If the compiler does not know AVX-VNNI,
 * this is the same code as for AVX2. */
#define PATH avx2vnni
#if defined(__AVXVNNI__) || defined(__AVX512VNNI__)
#define PAIRS 0
#else
#define PAIRS 1
#endif
#define BITS 256
#include "backends/cpu/simd/int8/template.h"
