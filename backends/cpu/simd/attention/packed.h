/* packed.h - template: entries of types that the attention kernels do not read themselves. A tile of such entries is
 * rewritten in a type that they read: as Q8_0 if its quants are integers of at most eight bits, otherwise as F32. The
 * rewritten entries have the same values, and Q8_0 the same products of integers. */
#ifndef KVC_SIMD_ATTENTION_PACKED_H
#define KVC_SIMD_ATTENTION_PACKED_H

#include "core/base/entry_types.h"
#include "backends/cpu/simd/attention/entries.h"
#include "backends/cpu/simd/attention/small_batch.h"
#include "backends/cpu/simd/bump.h"

/* Writes the quants of a group of n channels. Inlined once for each type. */
INLINE void group_quants(enum kvc_type type, kvc_i8 *to, const unsigned char *q, size_t n) {
    const unsigned char *high = q + kvc_min_u64(n, 16);
    if (n == KVC_ENTRY_GROUP) {
        for (unsigned e = 0; e < 16; e++) {
            to[e] = (kvc_i8)(q[e] & 15);
            to[16 + e] = (kvc_i8)(q[e] >> 4);
        }
    } else {
        for (size_t e = 0; e < n; e++)
            to[e] = (kvc_i8)KVC_CODE4(q, e);
    }
    if (type == KVC_Q5H)
        for (size_t e = 0; e < n; e++)
            to[e] = (kvc_i8)(to[e] | (high[e / 8] >> e % 8 & 1) << 4);
    if (type == KVC_Q6H)
        for (size_t e = 0; e < n; e++)
            to[e] = (kvc_i8)(to[e] | (high[e % 8] >> e / 8 * 2 & 3) << 4);
    const int half = type == KVC_Q5H ? 16 : type == KVC_Q6H ? 32 : type == KVC_Q4_1 ? 0 : 8;
    if (type == KVC_IQ4_NL)
        for (size_t e = 0; e < n; e++)
            to[e] = (kvc_i8)kvc_iq4_value(to[e]);
    else
        for (size_t e = 0; e < n; e++)
            to[e] = (kvc_i8)(to[e] - half);
}

INLINE void quants_of_type(enum kvc_type type, kvc_i8 *to, const unsigned char *group, size_t n) {
    if (type == KVC_Q8_0)
        memcpy(to, group + 2, n);
    else if (type == KVC_Q5H)
        group_quants(KVC_Q5H, to, group + 2, n);
    else if (type == KVC_Q6H)
        group_quants(KVC_Q6H, to, group + 2, n);
    else if (type == KVC_IQ4_NL)
        group_quants(KVC_IQ4_NL, to, group + 2, n);
    else if (type == KVC_Q4_1)
        group_quants(KVC_Q4_1, to, group + 4, n);
    else
        group_quants(KVC_Q4_0, to, group + 2, n);
}

static NEVER_INLINE void dequantize_packed(enum kvc_type type, float *to, const unsigned char *row, size_t d) {
    const size_t bytes = kvc_entry_group_bytes(type);
    for (size_t c = 0; type == KVC_BF16 && c < d; c++)
        to[c] = kvc_bf16_to_f32(KVC_LOAD_U16(row + 2 * c));
    for (size_t c = 0; bytes && c < d; c += KVC_ENTRY_GROUP, row += bytes) {
        const size_t n = kvc_min_u64(d - c, KVC_ENTRY_GROUP);
        const float scale = half_load(row), minimum = type == KVC_Q4_1 ? half_load(row + 2) : 0.0f;
        kvc_i8 quant[KVC_ENTRY_GROUP];
        quants_of_type(type, quant, row, n);
        for (size_t e = 0; e < n; e++)
            to[c + e] = type == KVC_Q4_1 ? kvc_fma(scale, (float)quant[e], minimum) : scale * (float)quant[e];
    }
}

/* Rewrites a row [d] as Q8_0 with scales that are not negative. */
INLINE void row_to_q8(enum kvc_type type, unsigned char *to, const unsigned char *row, size_t d) {
    const size_t bytes = kvc_entry_group_bytes(type);
    for (size_t c = 0; c < d; c += KVC_ENTRY_GROUP, row += bytes, to += Q8_BYTES) {
        const size_t n = kvc_min_u64(d - c, KVC_ENTRY_GROUP);
        kvc_i8 *quant = (kvc_i8 *)to + 2;
        quants_of_type(type, quant, row, n);
        to[0] = row[0];
        to[1] = row[1] & 0x7f;
        if (row[1] & 0x80)
            for (size_t e = 0; e < n; e++)
                quant[e] = (kvc_i8)-quant[e];
    }
}

/* Returns the type in which entries of this type are read. */
INLINE enum kvc_type side_read_type(enum kvc_type type) {
    return type == KVC_F32 || type == KVC_F16 ? type : kvc_type_is_integers(type) ? KVC_Q8_0 : KVC_F32;
}
/* Returns the type in which attention reads the entries. */
INLINE enum kvc_type read_type(const struct kvc_entry_format *format) {
    const enum kvc_type key = side_read_type(format->key.type), value = side_read_type(format->value.type);
    return key == value ? key : KVC_F32;
}
/* Returns true if attention reads the entries as they are stored. */
INLINE bool reads_stored(const struct kvc_entry_format *format) {
    return format->key.type == format->value.type && side_read_type(format->key.type) == format->key.type;
}

#define PACKED_AHEAD 8u /* rows prefetched ahead of use */

/* Rewrites rows low .. high - 1, of `bytes` bytes each, in the type `read`. Row i goes to to + i * to_bytes. */
static void rewrite_rows(enum kvc_type type, size_t bytes, enum kvc_type read, const unsigned char *const *rows,
                         uint32_t low, uint32_t high, size_t d, unsigned char *to, size_t to_bytes) {
    for (uint32_t i = low; i < high; i++) {
        unsigned char *row = to + i * to_bytes;
        for (size_t b = 0; i + PACKED_AHEAD < high && b < bytes; b += 64)
            __builtin_prefetch(rows[i + PACKED_AHEAD] + b);
        if (type == read)
            memcpy(row, rows[i], bytes);
        else if (read == KVC_F32)
            dequantize_row(type, (float *)(void *)row, rows[i], d);
        else if (type == KVC_Q4H || type == KVC_Q4_0)
            row_to_q8(KVC_Q4H, row, rows[i], d);
        else
            row_to_q8(type, row, rows[i], d);
    }
}

/* Memory for the rewritten keys of a tile, and for its values after them. */
struct rewritten {
    unsigned char *rows;        /* [2 KVC_TILE, row bytes]; NULL: entries are read as they are stored */
    const unsigned char **keys; /* [KVC_TILE] */
    const unsigned char **from; /* [KVC_TILE]: the values of the tile as they are stored */
};

INLINE size_t read_bytes(enum kvc_type read, size_t d) {
    return kvc_round_up(kvc_entry_row_bytes(read, (uint32_t)d), 4);
}

/* Takes the memory for tiles of these entries. `values` is true if values are rewritten too. */
static void rewritten_lay_out(struct bump *at, enum kvc_type read, size_t d, bool values, struct rewritten *to) {
    to->rows = bump_take(at, (values ? 2 : 1) * KVC_TILE * read_bytes(read, d) + LANES * sizeof(float));
    to->keys = bump_take(at, KVC_TILE * sizeof *to->keys);
    to->from = bump_take(at, values ? KVC_TILE * sizeof *to->from : 0);
}

/* Rewrites keys low .. high - 1 of a tile, to be read alone. Returns their addresses. */
static const unsigned char *const *rewrite_keys(const struct rewritten *to, const struct kvc_entry_format *format,
                                                const unsigned char *const *keys, uint32_t low, uint32_t high) {
    const enum kvc_type read = side_read_type(format->key.type);
    const size_t d = format->head_size, bytes = read_bytes(read, d);
    rewrite_rows(format->key.type, format->key.bytes, read, keys, low, high, d, to->rows, bytes);
    for (uint32_t i = low; i < high; i++)
        to->keys[i] = to->rows + i * bytes;
    return to->keys;
}

/* Rewrites entries low .. high - 1 of the tile that begins at entry `first`. Returns the addresses of their keys. The
 * values are KVC_TILE rows after the keys. */
static const unsigned char **rewrite_entries(const struct rewritten *to, const struct kvc_entry_format *format,
                                             const struct head_entries *head, uint32_t first,
                                             const unsigned char *const *keys, uint32_t low, uint32_t high) {
    const enum kvc_type read = read_type(format);
    const size_t d = format->head_size, bytes = read_bytes(read, d);
    for (uint32_t i = low; i < high; i++) {
        to->keys[i] = to->rows + i * bytes;
        to->from[i] = slot_value(head, head_slot(head, first + i));
    }
    rewrite_rows(format->key.type, format->key.bytes, read, keys, low, high, d, to->rows, bytes);
    rewrite_rows(format->value.type, format->value.bytes, read, to->from, low, high, d, to->rows + KVC_TILE * bytes,
                 bytes);
    return to->keys;
}

#endif
