/* vectors.h - the vectors for many rows: 256 or 512 bits (BITS). */
#ifndef KVC_SIMD_INT8_VECTORS_H
#define KVC_SIMD_INT8_VECTORS_H

#include "backends/cpu/simd/int8/parameters.h"

#if BITS == 256
#include "backends/cpu/simd/int8/vectors_256.h"
#else
#include "backends/cpu/simd/int8/vectors_512.h"
#endif

#define TILE_OUTPUTS (TILE_VECTORS * WIDTH) /* number of outputs of a panel */

#endif
