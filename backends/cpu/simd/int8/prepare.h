/* prepare.h - template: how the packed weights of each type are multiplied, and the data that a call with many rows
 * prepares once from the rows.
 *
 * Codes are unsigned bytes. In types without a minimum, a code is the weight's quant plus an offset. The sum of
 * products therefore starts with minus the offset times the sum of the row's quants (START). With VNNI, sums have 32
 * bits and never overflow.
 *
 * Without VNNI (PAIRS), two products are added in 16 bits with saturation, and these pairs are summed modulo 2^16. So a
 * pair must not saturate, and a complete sum, with its start, must fit in 16 bits. An element of a vector sums half of
 * a piece's products or, for types with a minimum and five bits, a quarter of them (HALVES). The assertions below check
 * these bounds. Eight-bit quants would exceed them, so they are multiplied as 16-bit integers, and pairs are added in
 * 32 bits (WIDE). */
#ifndef KVC_SIMD_INT8_PREPARE_H
#define KVC_SIMD_INT8_PREPARE_H

#include "backends/cpu/simd/int8/panel.h"

#if PAIRS
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define IN_16_BITS(a, NAME, name, ...)                                                                                 \
    _Static_assert(SIGNED_##name || 2 * 127 * MOST_##name <= 32767, #name ": a pair saturates");                       \
    _Static_assert(SIGNED_##name || 127 * LARGER(OFFSET_##name, MOST_##name - OFFSET_##name) *                         \
                                            (KVC_INT8_WIDTH_##NAME / (2 + 2 * HALVES(NAME, name))) <=                  \
                                        32767,                                                                         \
                   #name ": a sum of pairs is beyond 16 bits");
KVC_BLOCK_TYPES(IN_16_BITS, )
#endif

static const kvc_u8 offset_of[KVC_TYPES] = {
#define OFFSET_BY_TYPE(a, NAME, name, ...) [KVC_##NAME] = SIGNED_##name ? 128 : OFFSET_##name,
    KVC_BLOCK_TYPES(OFFSET_BY_TYPE, )};

/* Tiles of rows are stored in the order of use, like panels (panel.h). A block of a tile consists of groups of
 * TILE_ROWS words: the codes; one group for each piece; the scale. A piece's group has its start (the initial value of
 * an accumulator) or, for types with a minimum, the scale times the sum of the piece's quants. */
#define TILE_WORDS(kind) (CODE_WORDS(kind) + ((kind) == KIND_WIDE ? 0 : KIND_PIECES(kind)) + 1)
static size_t prepared_words(const struct kvc_int8_call *call) {
    return groups_of(call) * 8 * (size_t)TILE_WORDS(kind_of[call->type]) * TILE_ROWS;
}

#if PAIRS
/* Computes -offset times the sums of the quants whose products share a 16-bit element: bytes 0, 1, 4, 5, .. and 2, 3,
 * 6, 7, .. of a piece. Only the low 16 bits of a sum matter. */
INLINE void start_block(kvc_u32 *to, const kvc_i8 *quant, int offset, int pieces) {
    const __m256i q = _mm256_loadu_si256((const __m256i *)(const void *)quant);
    __m256i sum = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
    sum = _mm256_add_epi16(sum, _mm256_shuffle_epi32(sum, 0x4e));
    sum = _mm256_add_epi16(sum, _mm256_shuffle_epi32(sum, 0xb1));
    sum = _mm256_mullo_epi16(sum, _mm256_set1_epi16((short)-offset));
    const __m128i first = _mm256_castsi256_si128(sum), second = _mm256_extracti128_si256(sum, 1);
    to[0] = (kvc_u32)_mm_cvtsi128_si32(pieces == 1 ? _mm_add_epi16(first, second) : first);
    if (pieces == 2)
        to[1] = (kvc_u32)_mm_cvtsi128_si32(second);
}
#else
INLINE void start_block(kvc_u32 *to, const kvc_i32 *sum, int offset, int pieces) {
    to[0] = (kvc_u32)(-offset * (pieces == 1 ? sum[0] + sum[1] : sum[0]));
    if (pieces == 2)
        to[1] = (kvc_u32)(-offset * sum[1]);
}
#endif

/* Prepares one row of a tile's block. The words of a row are TILE_ROWS words apart. */
INLINE void prepare_block(const struct kvc_int8_call *call, kvc_u32 *to, size_t b, int kind) {
    const int pieces = KIND_PIECES(kind), offset = offset_of[call->type];
    const kvc_i8 *quant = call->quant + 32 * b;
    const kvc_i32 *sum = call->sum + 2 * b;
    kvc_u32 word[16 + 2 + 1];
    if (kind == KIND_WIDE) {
        for (int i = 0; i < 2; i++)
            _mm256_storeu_si256((__m256i *)(void *)(word + 8 * i),
                                _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(quant + 16 * i))));
    } else {
        memcpy(word, quant, 32);
    }
    if (KIND_START(kind)) {
#if PAIRS
        start_block(word + 8, quant, offset, pieces);
#else
        start_block(word + 8, sum, offset, pieces);
#endif
    } else if (KIND_MINIMUM(kind)) {
        const float scaled[2] = {call->scale[b] * (float)(pieces == 1 ? sum[0] + sum[1] : sum[0]),
                                 call->scale[b] * (float)sum[1]};
        memcpy(word + 8, scaled, sizeof *word * (size_t)pieces);
    }
    memcpy(word + TILE_WORDS(kind) - 1, call->scale + b, sizeof *word);
    for (int i = 0; i < TILE_WORDS(kind); i++)
        to[i * TILE_ROWS] = word[i];
}

static void prepare(const struct kvc_int8_call *call, size_t first, size_t last) {
    const int kind = kind_of[call->type];
    const size_t words = (size_t)TILE_WORDS(kind) * TILE_ROWS, groups = groups_of(call), blocks = call->K / 32;
    for (size_t row = first * call->tile_rows; row < kvc_min_u64(last * call->tile_rows, call->rows); row++) {
        kvc_u32 *tile = call->prepared + row / call->tile_rows * prepared_words(call) + row % call->tile_rows;
        for (size_t b = 0; b < blocks; b++)
            prepare_block(call, tile + (b % 8 * groups + b / 8) * words, row * blocks + b, kind);
    }
}

#endif
