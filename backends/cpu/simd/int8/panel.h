/* panel.h - template: packs the weights of TILE_OUTPUTS outputs into a panel, for many rows. Each element of a vector
 * has four weights of one output.
 *
 * A panel is stored in the order of use: all blocks of one lane, then all blocks of the next lane. Every lane has room
 * for as many blocks as the first lane. A block consists of groups of TILE_OUTPUTS words: the codes; the scale of each
 * piece; minus the minimum of each piece. A word of codes holds four bytes, or two 16-bit integers if the type is WIDE.
 *
 * AMX tiles multiply signed bytes, so with TILES, codes are the quants themselves. Otherwise codes are unsigned
 * (prepare.h). */
#ifndef KVC_SIMD_INT8_PANEL_H
#define KVC_SIMD_INT8_PANEL_H

#include "core/base/integers.h"
#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/int8/unpack.h"
#include "backends/cpu/simd/int8/vectors.h"

#define KIND_START_32 0
#define KIND_MINIMUM_32 1
#define KIND_START_16 2
#define KIND_MINIMUM_16 3
#define KIND_HALVES 4 /* pieces of 32 weights, with a minimum */
#define KIND_WIDE 5   /* pieces of 32 weights */
#define KIND_PIECES(kind) ((kind) == KIND_START_16 || (kind) == KIND_MINIMUM_16 ? 2 : 1)
#define KIND_START(kind) ((kind) == KIND_START_32 || (kind) == KIND_START_16)
#define KIND_MINIMUM(kind) ((kind) == KIND_MINIMUM_32 || (kind) == KIND_MINIMUM_16 || (kind) == KIND_HALVES)

#define WIDE(name) (PAIRS && SIGNED_##name)
INLINE bool is_wide(const enum kvc_type type) { return PAIRS && is_signed(type); }
#define HALVES(NAME, name) (PAIRS && KVC_INT8_HAS_MIN_##NAME && 127 * MOST_##name * (KVC_INT8_WIDTH_##NAME / 2) > 32767)

static const kvc_u8 kind_of[KVC_TYPES] = {
#define KIND_BY_TYPE(a, NAME, name, ...)                                                                               \
    [KVC_##NAME] = WIDE(name)           ? KIND_WIDE                                                                    \
                   : HALVES(NAME, name) ? KIND_HALVES                                                                  \
                                        : KVC_INT8_HAS_MIN_##NAME + 2 * (KVC_INT8_WIDTH_##NAME == 16),
    KVC_BLOCK_TYPES(KIND_BY_TYPE, )};

/* Converts unpacked bytes to codes. */
INLINE __m256i code_of(const enum kvc_type type, __m256i quant) {
#if TILES
    return code_offset(type) ? _mm256_sub_epi8(quant, _mm256_set1_epi8((char)code_offset(type))) : quant;
#else
    return is_signed(type) && !PAIRS ? _mm256_xor_si256(quant, _mm256_set1_epi8((char)-128)) : quant;
#endif
}

#define CODE_WORDS(kind) ((kind) == KIND_WIDE ? 16 : 8)
#define PANEL_WORDS(kind) (CODE_WORDS(kind) + (KIND_MINIMUM(kind) ? 2 : 1) * KIND_PIECES(kind))

static size_t groups_of(const struct kvc_int8_call *call) { return (call->K + 255) / 256; }
static size_t packed_bytes(const struct kvc_int8_call *call) {
    return groups_of(call) * 8 * (size_t)PANEL_WORDS(kind_of[call->type]) * TILE_OUTPUTS * 4;
}

/* Transposes eight vectors of eight 32-bit elements. */
INLINE void transpose8(__m256i *x) {
    __m256i y[8], z[8];
    UNROLL
    for (int i = 0; i < 4; i++) {
        y[2 * i] = _mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        z[4 * i] = _mm256_unpacklo_epi64(y[4 * i], y[4 * i + 2]);
        z[4 * i + 1] = _mm256_unpackhi_epi64(y[4 * i], y[4 * i + 2]);
        z[4 * i + 2] = _mm256_unpacklo_epi64(y[4 * i + 1], y[4 * i + 3]);
        z[4 * i + 3] = _mm256_unpackhi_epi64(y[4 * i + 1], y[4 * i + 3]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        x[i] = _mm256_permute2x128_si256(z[i], z[i + 4], 0x20);
        x[i + 4] = _mm256_permute2x128_si256(z[i], z[i + 4], 0x31);
    }
}

/* Transposes the vectors of eight outputs and stores row i at to + i * stride words. */
INLINE void store_transposed(void *to, __m256i *x, size_t stride, int rows) {
    transpose8(x);
    UNROLL
    for (int i = 0; i < 8; i++)
        if (i < rows)
            _mm256_storeu_si256((__m256i *)(void *)((kvc_u32 *)to + (size_t)i * stride), x[i]);
}

/* Sign-extends one half of the 32 bytes to 16-bit integers. */
INLINE __m256i sign_extended_half(__m256i x, int half) {
    return _mm256_cvtepi8_epi16(half ? _mm256_extracti128_si256(x, 1) : _mm256_castsi256_si128(x));
}

INLINE void prefetch_lines(const unsigned char *bytes, size_t count) {
    UNROLL
    for (size_t line = 0; line < count; line += 64)
        _mm_prefetch((const char *)bytes + line, _MM_HINT_T0);
}

/* Packs 256 weights, or fewer at the end of a row, of each of eight outputs. The first of these outputs is output
 * `place` of the panel. Also prefetches the weights that are stored `ahead` bytes after these. */
INLINE void pack(const enum kvc_type type, kvc_u32 *to, const unsigned char *const *row, size_t ahead, size_t groups,
                 size_t group, int parts, size_t place) {
    const int pieces = 32 / piece_width(type), words = CODE_WORDS(is_wide(type) ? KIND_WIDE : KIND_START_32);
    const size_t block = (size_t)(words + pieces * (1 + has_minimum(type))) * TILE_OUTPUTS;
    const size_t bytes = (size_t)group_bytes(type);
    struct unpacked u[8];
    __m256i x[8];
    to += group * block + place;
    for (int i = 0; i < 8; i++) {
        prefetch_lines(row[i] + ahead + group * bytes, bytes);
        if (parts == 8)
            unpack(type, &u[i], row[i] + group * bytes, 8);
        else
            unpack(type, &u[i], row[i] + group * bytes, parts);
    }
    for (int b = 0; b < parts; b++) {
        kvc_u32 *code = to + (size_t)b * groups * block;
        UNROLL
        for (int i = 0; i < 8; i++)
            x[i] = is_wide(type) ? sign_extended_half(u[i].quant[b], 0) : code_of(type, u[i].quant[b]);
        store_transposed(code, x, TILE_OUTPUTS, 8);
        if (!is_wide(type))
            continue;
        UNROLL
        for (int i = 0; i < 8; i++)
            x[i] = sign_extended_half(u[i].quant[b], 1);
        store_transposed(code + (size_t)8 * TILE_OUTPUTS, x, TILE_OUTPUTS, 8);
    }
    for (int s = 0; s < pieces; s++) {
        kvc_u32 *scale = to + (size_t)(words + s) * TILE_OUTPUTS;
        for (int i = 0; i < 8; i++)
            x[i] = _mm256_castps_si256(u[i].scale[s]);
        store_transposed(scale, x, groups * block, parts);
        for (int i = 0; has_minimum(type) && i < 8; i++)
            x[i] = _mm256_castps_si256(negative(u[i].minimum[s]));
        if (has_minimum(type))
            store_transposed(scale + pieces * TILE_OUTPUTS, x, groups * block, parts);
    }
}
#define PACK(a, NAME, name, ...)                                                                                       \
    static void pack_##name(kvc_u32 *to, const unsigned char *const *row, size_t ahead, size_t groups, size_t group,   \
                            int parts, size_t place) {                                                                 \
        pack(KVC_##NAME, to, row, ahead, groups, group, parts, place);                                                 \
    }
KVC_BLOCK_TYPES(PACK, )

static void (*const pack_of[KVC_TYPES])(kvc_u32 *, const unsigned char *const *, size_t, size_t, size_t, int,
                                        size_t) = {
#define PACK_BY_TYPE(a, NAME, name, ...) [KVC_##NAME] = pack_##name,
    KVC_BLOCK_TYPES(PACK_BY_TYPE, )};

/* Packs panel `number`. Outputs past the call's last one are copies of it. */
static void pack_panel(const struct kvc_int8_call *call, size_t number, kvc_u32 *to) {
    const size_t groups = groups_of(call);
    for (size_t place = 0; place < TILE_OUTPUTS; place += 8) {
        const unsigned char *row[8];
        for (size_t i = 0; i < 8; i++)
            row[i] = call->w + kvc_min_u64(number * TILE_OUTPUTS + place + i, call->N - 1) * call->row_bytes;
        for (size_t g = 0; g < groups; g++)
            pack_of[call->type](to, row, 8 * call->row_bytes, groups, g,
                                (int)(kvc_min_u64(call->K - g * 256, 256) / 32), place);
    }
}

/* Adds the biases of outputs n0 .. n0 + TILE_OUTPUTS - 1 of a row, and stores those that exist. */
INLINE void store_row(const struct kvc_int8_call *call, const fv *sum, size_t row, size_t n0) {
    const size_t outputs = kvc_min_u64(TILE_OUTPUTS, call->N - n0);
    float part[TILE_OUTPUTS], *to = call->y + row * call->N + n0, *y = to;
    const float *bias = call->bias ? call->bias + n0 : NULL;
    if (outputs < TILE_OUTPUTS) {
        y = part;
        for (size_t i = 0; bias && i < TILE_OUTPUTS; i++)
            part[i] = i < outputs ? bias[i] : 0.0f;
        bias = bias ? part : NULL;
    }
    UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        fv_store(y + v * WIDTH, bias ? fv_add(sum[v], fv_load(bias + v * WIDTH)) : sum[v]);
    for (size_t i = 0; y == part && i < outputs; i++)
        to[i] = part[i];
}

#endif
