/* avx2.c - attention over Q8_0 entries in integer arithmetic, for AVX2, and for AVX-512 without VNNI. */
#define KERNELS kvc_integer_avx2
#define PAIRS 1
#include "backends/cpu/simd/integers/kernels_256.h"
