/* parameters.h - the parameters of the int8 templates for CPUs with NEON. int8/<path>.c defines PATH and PRODUCTS. If a
 * tool such as an editor reads a template alone, these macros are undefined, and the tool gets the values of the first
 * path.
 *
 *   PATH                       Name of the instruction set.
 *   PRODUCTS                   How products of bytes are added: PRODUCTS_IN_PAIRS, PRODUCTS_SDOT or PRODUCTS_SMMLA.
 *   TILE_ROWS, TILE_OUTPUTS    Size of a tile.
 *   TILE_EVERY(m)              Calls m(n) for every n from 1 to the number of row units in a tile.
 *   SMALL_BATCH_LIMIT          The largest number of rows that gemv.h computes. */
#ifndef KVC_SIMD_INT8_NEON_PARAMETERS_H
#define KVC_SIMD_INT8_NEON_PARAMETERS_H

#include "backends/cpu/simd/lanes/neon.h"

/* Without dot product instructions, products are added in pairs in 16 bits. No pair overflows, because a product is at
 * most 128 * 127 and two of them are at most 32512. SDOT, the dot product of four bytes, does not saturate. With many
 * rows, SMMLA multiplies eight quants of two rows by those of two outputs in one instruction. CPUs with SMMLA use SDOT
 * for few rows. */
#define PRODUCTS_IN_PAIRS 0
#define PRODUCTS_SDOT 1
#define PRODUCTS_SMMLA 2

#if !defined(PATH) && !defined(PRODUCTS)
#define PATH neon
#define PRODUCTS PRODUCTS_IN_PAIRS
#elif !defined(PATH) || !defined(PRODUCTS)
#error "int8/<path>.c must define PATH and PRODUCTS"
#endif

#define TILE_OUTPUTS 8
#if PRODUCTS == PRODUCTS_IN_PAIRS
#define TILE_ROWS 3
#define TILE_EVERY(m) m(1) m(2) m(3)
#elif PRODUCTS == PRODUCTS_SDOT
#define TILE_ROWS 4
#define TILE_EVERY(m) m(1) m(2) m(3) m(4)
#elif PRODUCTS == PRODUCTS_SMMLA
#define TILE_ROWS 4
#define TILE_EVERY(m) m(1) m(2)
#else
#error "PRODUCTS must be PRODUCTS_IN_PAIRS, PRODUCTS_SDOT or PRODUCTS_SMMLA"
#endif
#define SMALL_BATCH_LIMIT 4

#endif
