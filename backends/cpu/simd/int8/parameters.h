/* parameters.h - the parameters of the int8 templates for x86 CPUs. int8/<path>.c defines PATH, PAIRS and BITS. If a
 * tool such as an editor reads a template alone, these macros are undefined, and the tool gets the values of the first
 * path.
 *
 *   PATH                       Name of the instruction set.
 *   PAIRS                      1 without VNNI: products of bytes are added in pairs (prepare.h).
 *   BITS                       Vector width for many rows.
 *   TILES                      1 if AMX tiles multiply many rows (tiles.h); if undefined, 0.
 *   TILE_ROWS, TILE_VECTORS    Size of a tile: rows, and vectors of outputs.
 *   TILE_EVERY(m)              Calls m(rows) for each height of a tile.
 *   SMALL_BATCH_LIMIT          The largest number of rows that gemv.h computes. */
#ifndef KVC_SIMD_INT8_PARAMETERS_H
#define KVC_SIMD_INT8_PARAMETERS_H

#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "the int8 templates for x86 need the compiler options -mavx2 -mfma -mf16c"
#endif
#if !defined(PATH) && !defined(PAIRS) && !defined(BITS)
#define PATH avx2
#define PAIRS 1
#define BITS 256
#elif !defined(PATH) || !defined(PAIRS) || !defined(BITS)
#error "int8/<path>.c must define PATH, PAIRS and BITS"
#endif

#if !defined(TILES)
#define TILES 0
#endif

#define TILE_VECTORS 2
#if BITS == 256
#define TILE_ROWS 4
#define TILE_EVERY(m) m(1) m(2) m(3) m(4)
#elif BITS == 512 && TILES
#define TILE_ROWS 32
#elif BITS == 512
#define TILE_ROWS 6
#define TILE_EVERY(m) m(1) m(2) m(3) m(4) m(5) m(6)
#else
#error "BITS must be 256 or 512"
#endif
#define SMALL_BATCH_LIMIT 4

#endif
