/* tiles_instructions.c - test_tiles.c's product by AMX's instructions. */
#include "tests/backends/tiles.h"

void tiles_instructions(struct tiles_case *c) { multiply_tiles(c); }
