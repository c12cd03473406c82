/* gemm.h - template: products of fourteen bits for many rows. Panels and tiles of rows are stored like those of int8's
 * KIND_WIDE (int8/panel.h), whose kernels multiply them. */
#ifndef KVC_SIMD_INT16_GEMM_H
#define KVC_SIMD_INT16_GEMM_H

#include <string.h>

#include "backends/cpu/simd/int16/weights.h"
#include "backends/cpu/simd/int8/gemm.h"

#define WIDE_BLOCK ((size_t)PANEL_WORDS(KIND_WIDE) * TILE_OUTPUTS) /* words of a block of a panel */

static size_t wide_panel_bytes(const struct kvc_int8_call *call) { return groups_of(call) * 8 * WIDE_BLOCK * 4; }

/* Packs 256 weights of each of eight outputs, fewer at the end of a row, as int8's `pack` does. */
INLINE void wide_pack(const enum kvc_type type, kvc_u32 *to, const struct wide_place *row, size_t ahead, size_t groups,
                      size_t group, int parts, size_t place) {
    const size_t bytes = (size_t)wide_bytes(type);
    struct wide_weights u[8];
    __m256i x[8];
    to += group * WIDE_BLOCK + place;
    for (int i = 0; i < 8; i++) {
        const struct wide_place at = {row[i].data + group * bytes, row[i].scale ? row[i].scale + 8 * group : NULL};
        prefetch_lines(at.data + ahead, bytes);
        if (parts == 8)
            wide_unpack(type, &u[i], at, 8);
        else
            wide_unpack(type, &u[i], at, parts);
    }
    for (int b = 0; b < parts; b++)
        for (int h = 0; h < 2; h++) {
            UNROLL
            for (int i = 0; i < 8; i++)
                x[i] = u[i].quant[b][h];
            store_transposed(to + (size_t)b * groups * WIDE_BLOCK + (size_t)h * 8 * TILE_OUTPUTS, x, TILE_OUTPUTS, 8);
        }
    for (int i = 0; i < 8; i++)
        x[i] = _mm256_castps_si256(u[i].scale);
    store_transposed(to + (size_t)16 * TILE_OUTPUTS, x, groups * WIDE_BLOCK, parts);
}
#define WIDE_PACK(NAME, name)                                                                                          \
    static void wide_pack_##name(kvc_u32 *to, const struct wide_place *row, size_t ahead, size_t groups, size_t group, \
                                 int parts, size_t place) {                                                            \
        wide_pack(NAME, to, row, ahead, groups, group, parts, place);                                                  \
    }
WIDE_TYPES(WIDE_PACK)

static void (*const wide_pack_of[WIDE_TABLE])(kvc_u32 *, const struct wide_place *, size_t, size_t, size_t, int,
                                              size_t) = {
#define WIDE_PACK_BY_TYPE(NAME, name) [NAME] = wide_pack_##name,
    WIDE_TYPES(WIDE_PACK_BY_TYPE)};

/* Packs panel `number`. Beyond N, the last output is repeated. */
static void wide_pack_panel(const struct kvc_int8_call *call, size_t number, kvc_u32 *to) {
    const size_t groups = groups_of(call);
    for (size_t place = 0; place < TILE_OUTPUTS; place += 8) {
        struct wide_place row[8];
        for (size_t i = 0; i < 8; i++)
            row[i] = wide_row(call, kvc_min_u64(number * TILE_OUTPUTS + place + i, call->N - 1));
        for (size_t g = 0; g < groups; g++)
            wide_pack_of[call->type](to, row, 8 * call->row_bytes, groups, g,
                                     (int)(kvc_min_u64(call->K - g * 256, 256) / 32), place);
    }
}

static size_t wide_prepared_words(const struct kvc_int8_call *call) {
    return groups_of(call) * 8 * (size_t)TILE_WORDS(KIND_WIDE) * TILE_ROWS;
}

/* Sixteen quants in the order of the weights'. */
INLINE __m256i wide_order(const struct kvc_int8_call *call, __m256i quant) {
    return call->type == KVC_PACKED ? quant : _mm256_permute4x64_epi64(quant, _MM_SHUFFLE(3, 1, 2, 0));
}

/* Prepares the rows of tiles first .. last - 1, with their quants in the order of the weights' (weights.h). */
static void wide_prepare(const struct kvc_int8_call *call, size_t first, size_t last) {
    const size_t words = (size_t)TILE_WORDS(KIND_WIDE) * TILE_ROWS, groups = groups_of(call), blocks = call->K / 32;
    for (size_t row = first * call->tile_rows; row < kvc_min_u64(last * call->tile_rows, call->rows); row++) {
        kvc_u32 *tile = call->prepared + row / call->tile_rows * wide_prepared_words(call) + row % call->tile_rows;
        for (size_t b = 0; b < blocks; b++) {
            const __m256i *quant = (const __m256i *)(const void *)(call->wide_quant + 32 * (row * blocks + b));
            kvc_u32 word[17], *to = tile + (b % 8 * groups + b / 8) * words;
            for (int h = 0; h < 2; h++)
                _mm256_storeu_si256((__m256i *)(void *)(word + 8 * h), wide_order(call, _mm256_loadu_si256(quant + h)));
            memcpy(word + 16, call->scale + row * blocks + b, sizeof *word);
            for (int i = 0; i < 17; i++)
                to[i * TILE_ROWS] = word[i];
        }
    }
}

#define WIDE_TILE(n)                                                                                                   \
    static void wide_tile_##n(const struct kvc_int8_call *call, const kvc_u32 *p, size_t row, size_t n0) {             \
        tile(call, p, row, n0, n, KIND_WIDE);                                                                          \
    }
TILE_EVERY(WIDE_TILE)
#define WIDE_TILE_NAME(n) [n] = wide_tile_##n,
static void (*const wide_tile_of[TILE_ROWS + 1])(const struct kvc_int8_call *, const kvc_u32 *, size_t,
                                                 size_t) = {TILE_EVERY(WIDE_TILE_NAME)};

static void wide_panel(const struct kvc_int8_call *call, size_t number, size_t first, size_t last, void *scratch) {
    wide_pack_panel(call, number, scratch);
    for (size_t i = first; i < last; i += call->tile_rows)
        wide_tile_of[kvc_min_u64(call->tile_rows, last - i)](call, scratch, i, number * TILE_OUTPUTS);
}

#endif
