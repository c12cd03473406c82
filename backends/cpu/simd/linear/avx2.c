/* avx2.c - linear layers for AVX2. */
#include "backends/cpu/simd/lanes/avx2.h"

#include "backends/cpu/simd/linear/template.h"
