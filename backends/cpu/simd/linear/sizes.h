/* sizes.h - the sizes of the kernels of linear layers. They depend on the width and number of vector registers.
 *
 *   TILE_ROWS, TILE_VECTORS    Size of a packed tile: rows, and vectors of outputs.
 *   TILE_EVERY(m)              Calls m(rows) for each height of a tile.
 *   GEMV_STREAMS               Outputs that are summed together for one row.
 *   SMALL_BATCH_OUTPUTS        Outputs that are summed together for few rows.
 *   SMALL_BATCH_ROWS           Rows that are summed together, at most.
 *   SMALL_BATCH_EVERY(m)       Calls m(rows) for 1 ... SMALL_BATCH_ROWS.
 *   SMALL_BATCH_LIMIT          The largest number of rows for which small_batch.h is as fast as packing.
 *   ROUND_BYTES                Limit for the packed weights that all rows use together, so that they stay in L2.
 *   NONTEMPORAL_FROM           Packed rows of at least this many bytes are stored without going through the caches. */
#ifndef KVC_SIMD_LINEAR_SIZES_H
#define KVC_SIMD_LINEAR_SIZES_H

#include "backends/cpu/simd/lanes/lanes.h"

#define SMALL_BATCH_LIMIT 16
#if LANES == 16
#define TILE_ROWS 12
#define TILE_VECTORS 2
#define TILE_EVERY(m) m(2) m(4) m(6) m(8) m(10) m(12)
#define GEMV_STREAMS 4
#define SMALL_BATCH_ROWS 8
#define SMALL_BATCH_OUTPUTS 3
#define SMALL_BATCH_EVERY(m) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8)
#define ROUND_BYTES (384 * 1024) /* CPUs with AVX-512 have at least 512 KiB of L2 */
#define NONTEMPORAL_FROM ((size_t)1 << 20)
#elif LANES == 8
#define TILE_ROWS 6
#define TILE_VECTORS 2
#define TILE_EVERY(m) m(2) m(4) m(6)
#define GEMV_STREAMS 2
#define SMALL_BATCH_ROWS 4
#define SMALL_BATCH_OUTPUTS 3
#define SMALL_BATCH_EVERY(m) m(1) m(2) m(3) m(4)
#define ROUND_BYTES (192 * 1024)
#define NONTEMPORAL_FROM ((size_t)1 << 20)
#elif LANES == 4
#define TILE_ROWS 8
#define TILE_VECTORS 3
#define TILE_EVERY(m) m(2) m(4) m(6) m(8)
#define GEMV_STREAMS 2
#define SMALL_BATCH_ROWS 4
#define SMALL_BATCH_OUTPUTS 6
#define SMALL_BATCH_EVERY(m) m(1) m(2) m(3) m(4)
#define ROUND_BYTES (192 * 1024)
#define NONTEMPORAL_FROM SIZE_MAX /* NEON has no such stores */
#else
#error "linear/sizes.h has no sizes for vectors of LANES floats"
#endif

#define TILE_OUTPUTS (TILE_VECTORS * LANES)
#define TILE_FLOATS (TILE_ROWS * TILE_OUTPUTS)

/* Padding up to a group of 32 lanes adds the product +0 * -0 = -0, which changes no sum. */
#define FILL_X 0.0f
#define FILL_W (-0.0f)

#endif
