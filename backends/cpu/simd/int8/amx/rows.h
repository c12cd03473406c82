/* rows.h - template: prepares rows for tile products, once per call.
 *
 * A tile of TILE_ROWS rows consists of subtiles of 16 rows. It is stored like a panel (panel.h): all blocks of one
 * lane, then all blocks of the next lane. A block consists of the quants (32 bytes of each row); the scale of each row;
 * for types with a minimum, each row's scale times the sum of its quants. After the last row, the last subtile is
 * filled up with zeros. */
#ifndef KVC_SIMD_INT8_AMX_ROWS_H
#define KVC_SIMD_INT8_AMX_ROWS_H

#include <string.h>

#include "backends/cpu/simd/int8/amx/parameters.h"
#include "backends/cpu/simd/int8/panel.h"
#include "backends/cpu/simd/int8/tiles.h"

#define BLOCK_WORDS(kind) ((size_t)(TILE_ROWS * (8 + 1 + KIND_MINIMUM(kind))))

static size_t prepared_words(const struct kvc_int8_call *call) {
    return groups_of(call) * 8 * BLOCK_WORDS(kind_of[call->type]);
}

/* Writes block b of the call (numbered across all rows) to row r of a tile's block `to`. */
INLINE void prepare_block(const struct kvc_int8_call *call, kvc_u32 *to, size_t r, size_t b, int kind) {
    const kvc_i32 *sum = call->sum + 2 * b;
    kvc_u32 *more = to + 8 * TILE_ROWS + r;
    memcpy(to + 8 * r, call->quant + 32 * b, 32);
    memcpy(more, call->scale + b, sizeof *more);
    if (KIND_MINIMUM(kind)) {
        const float scaled = call->scale[b] * (float)(sum[0] + sum[1]);
        memcpy(more + TILE_ROWS, &scaled, sizeof scaled);
    }
}

/* Sets row r of a block to zero. */
INLINE void clear_block(kvc_u32 *to, size_t r, int kind) {
    memset(to + 8 * r, 0, 32);
    for (size_t i = 8 * TILE_ROWS + r; i < BLOCK_WORDS(kind); i += TILE_ROWS)
        to[i] = 0;
}

static void prepare(const struct kvc_int8_call *call, size_t first, size_t last) {
    const int kind = kind_of[call->type];
    const size_t groups = groups_of(call), blocks = call->K / 32;
    for (size_t t = first; t < last && t * call->tile_rows < call->rows; t++) {
        const size_t row = t * call->tile_rows, rows = kvc_min_u64(call->tile_rows, call->rows - row);
        const size_t whole = (rows + KVC_TILE_ROWS - 1) / KVC_TILE_ROWS * KVC_TILE_ROWS;
        kvc_u32 *tile = call->prepared + t * prepared_words(call);
        for (size_t r = 0; r < whole; r++)
            for (size_t b = 0; b < blocks; b++) {
                kvc_u32 *to = tile + (b % 8 * groups + b / 8) * BLOCK_WORDS(kind);
                if (r < rows)
                    prepare_block(call, to, r, (row + r) * blocks + b, kind);
                else
                    clear_block(to, r, kind);
            }
    }
}

#endif
