/* avx512.c - linear layers for AVX-512. */
#include "backends/cpu/simd/lanes/avx512.h"

#include "backends/cpu/simd/linear/template.h"
