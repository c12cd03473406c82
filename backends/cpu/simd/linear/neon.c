/* neon.c - linear layers for NEON. */
#include "backends/cpu/simd/lanes/neon.h"

#include "backends/cpu/simd/linear/template.h"
