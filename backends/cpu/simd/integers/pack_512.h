/* pack_512.h - template: packs a tile of Q8_0 entries with 512-bit vectors, for VNNI and for AMX. Every quant of a key
 * is combined with KEY_BITS by exclusive or. 0x80 adds 128 and makes the byte unsigned. 0 leaves the byte signed.
 *
 * Keys: [KVC_TILE / 16 strips][8 G words][16 entries][4 channels].
 * Values: [G][2 halves][KVC_TILE / 4 quads][16 channels][4 entries].
 *
 * The unpack instructions work within lanes of 128 bits, so they change the order of channels. The first half has
 * channels 0-3, 16-19, 4-7 and 20-23 of its group. The second half has channels 8-11, 24-27, 12-15 and 28-31.
 * natural_order restores the order. The quads of 64 entries are in the order of value_quad, for the same reason. Packed
 * weights (weights_512.h) have this order too. */
#ifndef KVC_SIMD_INTEGERS_PACK_512_H
#define KVC_SIMD_INTEGERS_PACK_512_H

#include <immintrin.h>
#include <string.h>

#include "backends/cpu/simd/integers/integers.h"
#include "backends/cpu/simd/lanes/unroll.h"

#ifndef KEY_BITS
#define KEY_BITS 0x80
#endif
#define STRIP 16u                          /* number of entries in a vector of keys */
#define BLOCK 64u                          /* number of entries in a vector of packed weights */
#define HALF_BYTES ((size_t)16 * KVC_TILE) /* size in bytes of the values of 16 channels */

INLINE uint32_t block_start(uint32_t e) { return e / BLOCK * BLOCK; }
INLINE uint32_t block_end(uint32_t e) { return (e + BLOCK - 1) / BLOCK * BLOCK; }

/* Returns the index at which quad number `quad` of the tile is packed. */
INLINE uint32_t value_quad(uint32_t quad) { return quad / 16 * 16 + quad % 4 * 4 + quad % 16 / 4; }

/* Finds the rows of entries first .. first + n - 1. For an entry outside the tile's range, finds the row of the nearest
 * entry in the range. */
INLINE void rows_of(const struct kvc_integer_entries *from, size_t offset, uint32_t first, unsigned n,
                    const unsigned char **row) {
    const uint32_t low = from->range.low, last = from->range.high - 1;
    if (first >= low && first + n <= last + 1) {
        for (unsigned i = 0; i < n; i++)
            row[i] = from->keys[first + i] + offset;
        return;
    }
    for (unsigned i = 0; i < n; i++)
        row[i] = from->keys[first + i < low ? low : first + i > last ? last : first + i] + offset;
}

/* Returns the address of the 32 quants of group g of a row. If the group has fewer than 32 channels, copies its quants
 * to `copy`, fills the rest with zeros, and returns `copy`. */
INLINE const unsigned char *group_of(const unsigned char *row, uint32_t g, uint32_t d, unsigned char *copy) {
    const unsigned char *group = row + (size_t)g * INTEGERS_BYTES + 2;
    if ((g + 1) * KVC_Q8_GROUP <= d)
        return group;
    memset(copy, 0, KVC_Q8_GROUP);
    memcpy(copy, group, d - g * KVC_Q8_GROUP);
    return copy;
}

INLINE __m256i load_32(const unsigned char *from) { return _mm256_loadu_si256((const __m256i *)(const void *)from); }
INLINE __m512i load_pair(const unsigned char *low, const unsigned char *high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(load_32(low)), load_32(high), 1);
}

/* Packs one group of 32 channels of 16 keys into eight vectors. */
INLINE void pack_strip(const unsigned char *const *group, kvc_i8 *to) {
    const __m512i flip = _mm512_set1_epi8((char)KEY_BITS);
    __m512i t[8];
    UNROLL
    for (int half = 0; half < 2; half++) { /* eight rows at a time */
        __m512i r[4], u[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            r[i] = load_pair(group[8 * half + i], group[8 * half + 4 + i]);
        UNROLL
        for (int i = 0; i < 2; i++) {
            u[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
            u[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
        }
        /* the quarters of t[w]: words w and w + 4 of rows 0-3, then words w and w + 4 of rows 4-7 */
        UNROLL
        for (int i = 0; i < 2; i++) {
            t[4 * half + 2 * i] = _mm512_unpacklo_epi64(u[i], u[i + 2]);
            t[4 * half + 2 * i + 1] = _mm512_unpackhi_epi64(u[i], u[i + 2]);
        }
    }
    UNROLL
    for (int w = 0; w < 4; w++) {
        const __m512i low = _mm512_shuffle_i32x4(t[w], t[4 + w], 0x88),
                      high = _mm512_shuffle_i32x4(t[w], t[4 + w], 0xdd);
        _mm512_storeu_si512(to + 64 * w, _mm512_xor_si512(low, flip));
        _mm512_storeu_si512(to + 64 * (4 + w), _mm512_xor_si512(high, flip));
    }
}

/* Converts the float16 scales half [G, KVC_TILE] to float, for whole blocks of 64 entries. Scales outside the range
 * become 0. Returns true if a scale is negative. */
static bool convert_scales(const kvc_u16 *half, uint32_t groups, struct seen_range range, float *scale) {
    const uint32_t from = block_start(range.low), to = block_end(range.high);
    __m256i any = _mm256_setzero_si256();
    for (uint32_t g = 0; g < groups; g++, half += KVC_TILE, scale += KVC_TILE)
        for (uint32_t e = from; e < to; e += 16) {
            const uint32_t skip = range.low > e ? kvc_min_u32(range.low - e, 16) : 0;
            const uint32_t n = range.high > e ? kvc_min_u32(range.high - e, 16) : 0;
            const __mmask16 in = (__mmask16)((0xffffu >> (16 - n)) & (0xffffu << skip));
            const __m256i x = _mm256_maskz_loadu_epi16(n ? in : 0, half + e);
            any = _mm256_or_si256(any, x);
            _mm512_storeu_ps(scale + e, _mm512_cvtph_ps(x));
        }
    return _mm256_movepi16_mask(any) != 0;
}

INLINE void prefetch_bytes(const unsigned char *row, size_t bytes) {
    for (size_t b = 0; b < bytes; b += 64)
        __builtin_prefetch(row + b);
}
INLINE size_t bytes_of_row(uint32_t d) { return (size_t)2 * integer_groups(d) + d; }

static void pack_keys(const struct kvc_integer_entries *from, struct kvc_integer_tile *tile) {
    const uint32_t groups = integer_groups(from->d), low = from->range.low, high = from->range.high;
    const size_t bytes = bytes_of_row(from->d);
    kvc_u16 *half = (kvc_u16 *)(void *)tile->sums; /* [G, KVC_TILE] */
    unsigned char copy[STRIP][KVC_Q8_GROUP];
    tile->d = from->d;
    tile->range = from->range;
    for (uint32_t e = low / STRIP * STRIP; e < high; e += STRIP) {
        const unsigned char *row[STRIP], *group[STRIP];
        rows_of(from, 0, e, STRIP, row);
        for (uint32_t i = 0; i < STRIP; i++) /* prefetches the values or, if there are none, the next keys */
            if (from->value_offset)
                prefetch_bytes(row[i] + from->value_offset, bytes);
            else if (e + i < from->next_count)
                prefetch_bytes(from->next[e + i], bytes);
        for (uint32_t g = 0; g < groups; g++) {
            for (uint32_t i = 0; i < STRIP; i++) {
                group[i] = group_of(row[i], g, from->d, copy[i]);
                memcpy(half + g * KVC_TILE + e + i, row[i] + (size_t)g * INTEGERS_BYTES, sizeof *half);
            }
            pack_strip(group, tile->keys + ((size_t)e / STRIP * groups + g) * STRIP * KVC_Q8_GROUP);
        }
    }
    convert_scales(half, groups, from->range, tile->key_scale);
}

/* Packs 32 channels of four values. Writes 64 bytes to each half. */
INLINE void pack_quad(const unsigned char *const *group, kvc_i8 *to) {
    const __m256i a = load_32(group[0]), b = load_32(group[1]), c = load_32(group[2]), d = load_32(group[3]);
    const __m256i low_ab = _mm256_unpacklo_epi8(a, b), high_ab = _mm256_unpackhi_epi8(a, b);
    const __m256i low_cd = _mm256_unpacklo_epi8(c, d), high_cd = _mm256_unpackhi_epi8(c, d);
    __m256i *first = (__m256i *)(void *)to, *second = (__m256i *)(void *)(to + HALF_BYTES);
    _mm256_storeu_si256(first, _mm256_unpacklo_epi16(low_ab, low_cd));
    _mm256_storeu_si256(first + 1, _mm256_unpackhi_epi16(low_ab, low_cd));
    _mm256_storeu_si256(second, _mm256_unpacklo_epi16(high_ab, high_cd));
    _mm256_storeu_si256(second + 1, _mm256_unpackhi_epi16(high_ab, high_cd));
}

static void pack_values(const struct kvc_integer_entries *from, struct kvc_integer_tile *tile) {
    const uint32_t groups = integer_groups(from->d), high = from->range.high;
    const size_t bytes = bytes_of_row(from->d);
    kvc_u16 *half = (kvc_u16 *)(void *)tile->sums; /* [G, KVC_TILE] */
    unsigned char copy[4][KVC_Q8_GROUP];
    for (uint32_t e = from->range.low / 4 * 4; e < high; e += 4) {
        const unsigned char *row[4], *group[4];
        rows_of(from, from->value_offset, e, 4, row);
        for (uint32_t i = 0; i < 4 && e + i < from->next_count; i++)
            prefetch_bytes(from->next[e + i], bytes);
        for (uint32_t g = 0; g < groups; g++) {
            for (uint32_t i = 0; i < 4; i++) {
                group[i] = group_of(row[i], g, from->d, copy[i]);
                memcpy(half + g * KVC_TILE + e + i, row[i] + (size_t)g * INTEGERS_BYTES, sizeof *half);
            }
            pack_quad(group, tile->values + 2 * g * HALF_BYTES + (size_t)64 * value_quad(e / 4));
        }
    }
    tile->negative = convert_scales(half, groups, from->range, tile->value_scale);
    if (tile->negative)
        kvc_integer_plain.pack_values(from, tile);
}

/* Restores the order of the channels of a group. */
INLINE void natural_order(__m512 first, __m512 second, __m512 *low, __m512 *high) {
    *low = _mm512_shuffle_f32x4(first, second, 0x88);
    *high = _mm512_shuffle_f32x4(first, second, 0xdd);
}

#endif
