/* packed.h - template: entries of types that the attention kernels do not read directly. A tile of such entries is
 * rewritten in a type that the kernels read: as Q8_0 if its quants are integers of at most eight bits, otherwise as
 * F32. This changes neither the values nor, with Q8_0, the products of integers. Q4_1 entries are rewritten as F32 for
 * products of floats, because they have a minimum. For products of integers they become Q8_0, with rounded values
 * (entry_types.h, struct kvc_levels). */
#ifndef KVC_SIMD_ATTENTION_PACKED_H
#define KVC_SIMD_ATTENTION_PACKED_H

#include "backends/cpu/simd/attention/entries.h"
#include "backends/cpu/simd/attention/small_batch.h"
#include "backends/cpu/simd/bump.h"

/* Rewrites a group of n channels as Q8_0 with a scale that is not negative. */
INLINE void group_to_q8(enum kvc_type type, unsigned char *to, const unsigned char *group, size_t n) {
    const uint16_t scale = KVC_LOAD_U16(group), magnitude = scale & 0x7fff;
    group_quants(type, scale >> 15, (kvc_i8 *)to + 2, group + 2, n);
    memcpy(to, &magnitude, sizeof magnitude);
}

#define PACKED_AHEAD 8u /* prefetch distance in rows, for rows that no earlier call has prefetched */

/* Rows of a tile to rewrite, and the rows that are read after them. */
struct packed_rows {
    /* `then` [then_count]: the rows that are read afterwards; NULL if unknown */
    const unsigned char *const *rows, *const *then;
    uint32_t low, high, then_count;
    size_t bytes, then_bytes;
    bool near; /* true if the rows were prefetched before */
};

INLINE void prefetch_packed(const struct packed_rows *from, uint32_t i) {
    const uint32_t ahead = i + PACKED_AHEAD;
    if (!from->near && ahead < from->high)
        for (size_t b = 0; b < from->bytes; b += 64)
            __builtin_prefetch(from->rows[ahead] + b);
    if (i < from->then_count)
        for (size_t b = 0; b < from->then_bytes; b += 64)
            __builtin_prefetch(from->then[i] + b, 0, 2);
}

/* Rewrites rows as Q8_0. Writes row i at address to + i * to_bytes. Inlined for each type. */
INLINE void rows_to_q8(enum kvc_type type, size_t group, const struct packed_rows *from, size_t d, unsigned char *to,
                       size_t to_bytes) {
    const size_t whole = d / KVC_ENTRY_GROUP, left = d % KVC_ENTRY_GROUP;
    for (uint32_t i = from->low; i < from->high; i++) {
        const unsigned char *row = from->rows[i];
        prefetch_packed(from, i);
        for (size_t g = 0; g < whole; g++)
            group_to_q8(type, to + i * to_bytes + g * Q8_BYTES, row + g * group, KVC_ENTRY_GROUP);
        if (left)
            group_to_q8(type, to + i * to_bytes + whole * Q8_BYTES, row + whole * group, left);
    }
}

/* Groups of Q4_1 entries to rewrite as Q8_0. The divisions are computed for LANES groups at once. */
struct level_groups {
    const unsigned char *group[LANES];
    unsigned char *to[LANES];
    size_t n[LANES]; /* channels */
    int count;
};

/* Computes the scale, step and base of each group, as kvc_levels_of does. */
INLINE void levels_of_groups(const struct level_groups *groups, uint16_t *scale, float *step, float *base) {
    float d[LANES] = {0}, m[LANES] = {0}, top[LANES];
    for (int i = 0; i < groups->count; i++) {
        d[i] = half_load(groups->group[i]);
        m[i] = half_load(groups->group[i] + 2);
    }
    const vf low = vf_load(m), high = vf_fma(vf_load(d), vf_set(15.0f), low), zero = vf_zero();
    /* If low is a NaN, so is high, and vf_max returns its second argument. */
    const vf largest = vf_max(vf_max(low, vf_sub(zero, low)), vf_max(high, vf_sub(zero, high)));
    const vm finite = vf_less(largest, vf_set(kvc_infinity()));
    vf_store(top, largest);
    vf_store_f16(scale, vf_select(finite, vf_div(largest, vf_set(127.0f)), zero));
    const vf rounded = vf_load_f16(scale), inverse = vf_div(vf_set(1.0f), rounded);
    const vm used = vm_and(finite, vf_less(zero, rounded));
    vf_store(step, vf_select(used, vf_mul(vf_load(d), inverse), zero));
    vf_store(base, vf_select(used, vf_mul(low, inverse), zero));
    for (int i = 0; i < groups->count; i++)
        scale[i] = top[i] < kvc_infinity() ? scale[i] : (uint16_t)KVC_Q8_NAN_SCALE;
}

/* Rewrites the groups and makes their list empty. Levels are clamped only if the scale is subnormal: a normal scale is
 * rounded by at most 2^-11 of its value, so no level exceeds 127.1. */
static void levels_to_q8(struct level_groups *groups) {
    float step[LANES], base[LANES];
    uint16_t scale[LANES];
    levels_of_groups(groups, scale, step, base);
    for (int i = 0; i < groups->count; i++) {
        kvc_i8 level[16], quant[KVC_ENTRY_GROUP];
        for (int c = 0; c < 16; c += LANES) {
            const vf codes = vf_from_int(vi_add(vi_ascending(), vi_set(c))), magic = vf_set(KVC_ROUND_MAGIC);
            const vf v = vf_fma(vf_set(step[i]), codes, vf_set(base[i]));
            vi_store_i8(level + c, vi_sub(vf_bits(vf_add(v, magic)), vf_bits(magic)));
        }
        for (int c = 0; c < 16 && scale[i] < 0x400; c++)
            level[c] = (kvc_i8)kvc_level((struct kvc_levels){.step = step[i], .base = base[i]}, c);
        if (groups->n[i] == KVC_ENTRY_GROUP) {
            group_quants(KVC_Q4_1, false, quant, groups->group[i] + 4, KVC_ENTRY_GROUP);
            look_up_quants(level, quant, KVC_ENTRY_GROUP);
            memcpy(groups->to[i] + 2, quant, KVC_ENTRY_GROUP);
        } else {
            group_quants(KVC_Q4_1, false, quant, groups->group[i] + 4, groups->n[i]);
            look_up_quants(level, quant, groups->n[i]);
            memcpy(groups->to[i] + 2, quant, groups->n[i]);
        }
        memcpy(groups->to[i], &scale[i], sizeof scale[i]);
    }
    groups->count = 0;
}

/* Does for Q4_1 rows what rows_to_q8 does. */
static void level_rows_to_q8(const struct packed_rows *from, size_t d, unsigned char *to, size_t to_bytes) {
    struct level_groups groups = {.count = 0};
    for (uint32_t i = from->low; i < from->high; i++) {
        prefetch_packed(from, i);
        for (size_t c = 0, g = 0; c < d; c += KVC_ENTRY_GROUP, g++) {
            groups.group[groups.count] = from->rows[i] + g * KVC_GROUP_Q4_1;
            groups.to[groups.count] = to + i * to_bytes + g * Q8_BYTES;
            groups.n[groups.count] = kvc_min_u64(d - c, KVC_ENTRY_GROUP);
            if (++groups.count == LANES)
                levels_to_q8(&groups);
        }
    }
    levels_to_q8(&groups);
}

/* Returns the type to which keys or values of this type are converted before the kernels read them. `integers` is true
 * if they are then multiplied as integers. */
INLINE enum kvc_type side_read_type(enum kvc_type type, bool integers) {
    if (type == KVC_F32 || type == KVC_F16)
        return type;
    return kvc_type_is_integers(type) && (integers || type != KVC_Q4_1) ? KVC_Q8_0 : KVC_F32;
}
/* Does the same for entries of this format. */
INLINE enum kvc_type read_type(const struct kvc_entry_format *format, bool integers) {
    const enum kvc_type key = side_read_type(format->key.type, integers);
    return key == side_read_type(format->value.type, integers) ? key : KVC_F32;
}
/* Returns true if the kernels read the stored entries directly, without conversion. */
INLINE bool reads_stored(const struct kvc_entry_format *format) {
    return format->key.type == format->value.type && side_read_type(format->key.type, false) == format->key.type;
}

/* Rewrites rows in the type `read`. Writes row i at address to + i * to_bytes. */
static void rewrite_rows(enum kvc_type type, enum kvc_type read, const struct packed_rows *from, size_t d,
                         unsigned char *to, size_t to_bytes) {
    if (read == KVC_Q8_0 && type == KVC_Q5H)
        rows_to_q8(KVC_Q5H, KVC_GROUP_Q5H, from, d, to, to_bytes);
    else if (read == KVC_Q8_0 && type == KVC_Q6H)
        rows_to_q8(KVC_Q6H, KVC_GROUP_Q6H, from, d, to, to_bytes);
    else if (read == KVC_Q8_0 && KVC_LOOKS_UP(KVC_, type))
        rows_to_q8(KVC_IQ4_NL, KVC_GROUP_IQ4_NL, from, d, to, to_bytes);
    else if (read == KVC_Q8_0 && type == KVC_Q4_1)
        level_rows_to_q8(from, d, to, to_bytes);
    else if (read == KVC_Q8_0 && type != KVC_Q8_0)
        rows_to_q8(KVC_Q4_0, KVC_GROUP_Q4_0, from, d, to, to_bytes);
    for (uint32_t i = from->low; i < from->high && (read != KVC_Q8_0 || type == KVC_Q8_0); i++) {
        prefetch_packed(from, i);
        if (type == read)
            memcpy(to + i * to_bytes, from->rows[i], from->bytes);
        else
            dequantize_row(type, (float *)(void *)(to + i * to_bytes), from->rows[i], d);
    }
}

/* Memory for the rewritten keys of a tile, and for its values after them. */
struct rewritten {
    enum kvc_type read;         /* the type in which entries are rewritten */
    unsigned char *rows;        /* [2 KVC_TILE, row bytes]; NULL if entries are not rewritten */
    const unsigned char **keys; /* [KVC_TILE] */
    const unsigned char **from; /* [KVC_TILE]: the addresses of the tile's stored values */
};

INLINE size_t read_bytes(enum kvc_type read, size_t d) {
    return kvc_round_up(kvc_entry_row_bytes(read, (uint32_t)d), 4);
}

/* Allocates the memory for tiles that are rewritten in the type `read`. `values` is true if their values are rewritten,
 * too. */
static void rewritten_lay_out(struct bump *at, enum kvc_type read, size_t d, bool values, struct rewritten *to) {
    to->read = read;
    to->rows = bump_take(at, (values ? 2 : 1) * KVC_TILE * read_bytes(read, d) + LANES * sizeof(float));
    to->keys = bump_take(at, KVC_TILE * sizeof *to->keys);
    to->from = bump_take(at, values ? KVC_TILE * sizeof *to->from : 0);
}

/* Rewrites only the keys low .. high - 1 of a tile. Returns the addresses of the rewritten keys. */
static const unsigned char *const *rewrite_keys(const struct rewritten *to, const struct kvc_entry_format *format,
                                                const unsigned char *const *keys, uint32_t low, uint32_t high) {
    const size_t d = format->head_size, bytes = read_bytes(to->read, d);
    const struct packed_rows from = {.rows = keys, .low = low, .high = high, .bytes = format->key.bytes};
    rewrite_rows(format->key.type, to->read, &from, d, to->rows, bytes);
    for (uint32_t i = low; i < high; i++)
        to->keys[i] = to->rows + i * bytes;
    return to->keys;
}

/* Rewrites entries low .. high - 1 of the tile that begins at entry `first`. Returns the addresses of their keys. The
 * values are KVC_TILE rows after the keys. `near` is true if an earlier call has prefetched these keys. */
static const unsigned char **rewrite_entries(const struct rewritten *to, const struct kvc_entry_format *format,
                                             const struct head_entries *head, uint32_t first,
                                             const unsigned char *const *keys, uint32_t low, uint32_t high,
                                             const unsigned char *const *next, uint32_t next_count, bool near) {
    const enum kvc_type read = to->read;
    const size_t d = format->head_size, bytes = read_bytes(read, d);
    for (uint32_t i = low; i < high; i++) {
        to->keys[i] = to->rows + i * bytes;
        to->from[i] = slot_value(head, head_slot(head, first + i));
    }
    /* prefetches values while keys are rewritten, and the next keys while values are rewritten */
    const size_t key = format->key.bytes, value = format->value.bytes;
    const struct packed_rows of_keys = {keys, to->from, low, high, high, key, value, near};
    const struct packed_rows of_values = {to->from, next, low, high, next_count, value, key, true};
    rewrite_rows(format->key.type, read, &of_keys, d, to->rows, bytes);
    rewrite_rows(format->value.type, read, &of_values, d, to->rows + KVC_TILE * bytes, bytes);
    return to->keys;
}

#endif
