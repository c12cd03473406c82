/* tiles.h - the functions with which test_tiles.c uses tiles. They are compiled twice: with AMX's instructions, and
 * with the plain C code that replaces them (KVC_TILES_PLAIN). */
#ifndef KVC_TESTS_BACKENDS_TILES_H
#define KVC_TESTS_BACKENDS_TILES_H

#include "backends/cpu/cpu.h"
#include "backends/cpu/simd/int8/tiles.h"

/* The operands of a product: `rows` rows of 4 * words bytes, `words` rows of `columns` elements of four bytes, and the
 * sums, `rows` rows of `columns` elements. Rows begin every 64 bytes. */
struct tiles_case {
    unsigned rows, words, columns;
    _Alignas(64) kvc_i8 a[16][64];
    _Alignas(64) kvc_i8 b[16][64];
    _Alignas(64) kvc_i32 sum[16][16];
};

/* Adds the product to the sums. Uses the first and the last tile for the sums; the first one is cleared, to test that
 * the last one is not affected. */
static inline void multiply_tiles(struct tiles_case *c) {
    struct kvc_tiles tiles;
    struct kvc_tile_shapes shapes = {.palette = 0};
    kvc_i32 zeros[16][16];
    kvc_tile_shape(&shapes, 0, c->rows, 4 * c->columns);
    kvc_tile_shape(&shapes, 1, c->rows, 4 * c->words);
    kvc_tile_shape(&shapes, 2, c->words, 4 * c->columns);
    kvc_tile_shape(&shapes, 7, c->rows, 4 * c->columns);
    TILES_CONFIGURE(&tiles, &shapes);
    TILE_LOAD(&tiles, 7, c->sum, 64);
    TILE_LOAD(&tiles, 0, c->sum, 64);
    TILE_LOAD(&tiles, 1, c->a, 64);
    TILE_LOAD(&tiles, 2, c->b, 64);
    TILE_MULTIPLY(&tiles, 7, 1, 2);
    TILE_ZERO(&tiles, 0);
    TILE_STORE(&tiles, 0, zeros, 64);
    TILE_STORE(&tiles, 7, c->sum, 64);
    TILES_RELEASE(&tiles);
    for (unsigned i = 0; i < c->rows; i++)
        for (unsigned j = 0; j < c->columns; j++)
            c->sum[i][j] += zeros[i][j];
}

void tiles_instructions(struct tiles_case *c);

/* The kernel of the instruction set "amx", with AVX-512 vectors and with plain C code instead of tile instructions.
 * Returns false if "amx" computes the type without tiles. */
bool tiles_linear_plain(struct kvc_device *device, const struct kvc_linear_int8 *args);
void tiles_linear_int16_plain(struct kvc_device *device, const struct kvc_linear_int16 *args);

#endif
