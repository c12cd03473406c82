/* avx2vnni.c - attention over Q8_0 entries in integer arithmetic, for AVX2 with AVX-VNNI. If the compiler does not
 * support AVX-VNNI, the code is the same as in avx2.c. */
#define KERNELS kvc_integer_avx2vnni
#if defined(__AVXVNNI__) || defined(__AVX512VNNI__)
#define PAIRS 0
#else
#define PAIRS 1
#endif
#include "backends/cpu/simd/integers/kernels_256.h"
