#include "backends/cpu/simd/integers/integers.h"
