/* parameters.h - the parameters of the int8 templates (int8/parameters.h) for AMX tiles. */
#ifndef KVC_SIMD_INT8_AMX_PARAMETERS_H
#define KVC_SIMD_INT8_AMX_PARAMETERS_H

#define PATH amx
#define PAIRS 0
#define BITS 512
#define TILES 1

#include "backends/cpu/simd/int8/parameters.h"

#endif
