/* tiles_instructions.c - the product of test_tiles.c, computed with AMX's instructions. */
#include "tests/backends/tiles.h"

void tiles_instructions(struct tiles_case *c) { multiply_tiles(c); }
