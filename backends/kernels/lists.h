/* lists.h - functions with which kernels access an arena's blocks, a layer's lists, and the entries of a head that one
 * query may see (core/base/ops.h). */
#ifndef KVC_BACKENDS_KERNELS_LISTS_H
#define KVC_BACKENDS_KERNELS_LISTS_H

/* Blocks are allocated in chunks, so that no allocation is too large. Chunk 0 has 2^shift blocks. Each following chunk
 * has as many blocks as all chunks before it together, until there are 2^top blocks in total. From then on each chunk
 * has 2^top blocks. */
#define KVC_ARENA                                                                                                      \
    KVC_GLOBAL kvc_u8 *chunk0, KVC_GLOBAL kvc_u8 *chunk1, KVC_GLOBAL kvc_u8 *chunk2, KVC_GLOBAL kvc_u8 *chunk3,        \
        KVC_GLOBAL kvc_u8 *chunk4, KVC_GLOBAL kvc_u8 *chunk5, KVC_GLOBAL kvc_u8 *chunk6, KVC_GLOBAL kvc_u8 *chunk7,    \
        KVC_GLOBAL kvc_u8 *chunk8, KVC_GLOBAL kvc_u8 *chunk9, KVC_GLOBAL kvc_u8 *chunk10, KVC_GLOBAL kvc_u8 *chunk11,  \
        KVC_GLOBAL kvc_u8 *chunk12, KVC_GLOBAL kvc_u8 *chunk13, KVC_GLOBAL kvc_u8 *chunk14,                            \
        KVC_GLOBAL kvc_u8 *chunk15, kvc_u32 shift, kvc_u32 top, kvc_u32 head_size, kvc_u32 key_type,                   \
        kvc_u32 key_bytes, kvc_u32 value_type, kvc_u32 value_bytes

struct kvc_arena_view {
    KVC_GLOBAL kvc_u8 *chunk[KVC_CHUNKS];
    kvc_u32 shift, top, head_size, key_type, key_bytes, value_type, value_bytes;
};
#define KVC_OPEN_ARENA(arena)                                                                                          \
    struct kvc_arena_view arena;                                                                                       \
    arena.chunk[0] = chunk0, arena.chunk[1] = chunk1, arena.chunk[2] = chunk2, arena.chunk[3] = chunk3;                \
    arena.chunk[4] = chunk4, arena.chunk[5] = chunk5, arena.chunk[6] = chunk6, arena.chunk[7] = chunk7;                \
    arena.chunk[8] = chunk8, arena.chunk[9] = chunk9, arena.chunk[10] = chunk10, arena.chunk[11] = chunk11;            \
    arena.chunk[12] = chunk12, arena.chunk[13] = chunk13, arena.chunk[14] = chunk14, arena.chunk[15] = chunk15;        \
    arena.shift = shift, arena.top = top, arena.head_size = head_size;                                                 \
    arena.key_type = key_type, arena.key_bytes = key_bytes, arena.value_type = value_type,                             \
    arena.value_bytes = value_bytes

/* Returns the address of the keys or the values of a block, or of the key or the value of an extra slot. */
KVC_DEVICE KVC_GLOBAL kvc_u8 *kvc_arena_rows(const struct kvc_arena_view *arena, kvc_u32 block, kvc_u32 values) {
    kvc_u64 bytes = (kvc_u64)(arena->key_bytes + arena->value_bytes) * KVC_BLOCK;
    kvc_u32 chunk, first, place = 0;
    if (block & KVC_EXTRA_SLOT) {
        place = block % KVC_BLOCK;
        block = (block & ~KVC_EXTRA_SLOT) / KVC_BLOCK;
    }
    if (block >> arena->top) { /* chunks of the largest size */
        chunk = arena->top - arena->shift + (block >> arena->top);
        first = block >> arena->top << arena->top;
    } else if (block >> arena->shift) {
        kvc_u32 log2 = 31 - KVC_CLZ(block);
        chunk = log2 - arena->shift + 1;
        first = 1u << log2;
    } else {
        chunk = first = 0;
    }
    return arena->chunk[chunk] + (block - first) * bytes +
           (values ? (kvc_u64)KVC_BLOCK * arena->key_bytes + (kvc_u64)place * arena->value_bytes
                   : (kvc_u64)place * arena->key_bytes);
}

/* One layer's lists. order and position may both be NULL; state may be NULL too. `prefix` begins the names of the
 * parameters, for kernels with several lists. */
#define KVC_LISTS(prefix)                                                                                              \
    KVC_GLOBAL kvc_u32 *prefix##_base, KVC_GLOBAL kvc_u32 *prefix##_count, KVC_GLOBAL kvc_u32 *prefix##_blocks,        \
        KVC_GLOBAL kvc_u32 *prefix##_order, KVC_GLOBAL kvc_i32 *prefix##_position, KVC_GLOBAL float *prefix##_state,   \
        kvc_u32 prefix##_columns

/* Returns the number of entries that fit in the slots of a head. */
KVC_DEVICE kvc_u32 kvc_slots_capacity(kvc_u32 slots) { return slots - slots % KVC_BLOCK + (slots % KVC_BLOCK > 0); }

struct kvc_head_view { /* one head of one layer */
    kvc_u32 base, slots, count, columns;
    KVC_GLOBAL kvc_u32 *blocks, *order; /* arrays, from the head's first element on */
    KVC_GLOBAL kvc_i32 *position;
    KVC_GLOBAL float *state;
};
#define KVC_OPEN_HEAD(view, prefix, h)                                                                                 \
    struct kvc_head_view view;                                                                                         \
    view.base = prefix##_base[h];                                                                                      \
    view.slots = prefix##_base[(h) + 1] - view.base;                                                                   \
    view.count = prefix##_count[h];                                                                                    \
    view.columns = prefix##_columns;                                                                                   \
    view.blocks = prefix##_blocks + view.base / KVC_BLOCK + (h);                                                       \
    view.order = prefix##_order ? prefix##_order + view.base : 0;                                                      \
    view.position = prefix##_position ? prefix##_position + view.base : 0;                                             \
    view.state = prefix##_state ? prefix##_state + (kvc_u64)view.columns * view.base : 0

KVC_DEVICE kvc_u32 kvc_head_slot(const struct kvc_head_view *head, kvc_u32 index) {
    return head->order ? head->order[index] : index;
}
KVC_DEVICE kvc_i32 kvc_head_position(const struct kvc_head_view *head, kvc_u32 slot) {
    return head->position ? head->position[slot] : (kvc_i32)slot;
}
KVC_DEVICE KVC_GLOBAL kvc_u8 *kvc_head_key(const struct kvc_arena_view *arena, const struct kvc_head_view *head,
                                           kvc_u32 slot) {
    return kvc_arena_rows(arena, head->blocks[slot / KVC_BLOCK], 0) + (kvc_u64)(slot % KVC_BLOCK) * arena->key_bytes;
}
KVC_DEVICE KVC_GLOBAL kvc_u8 *kvc_head_value(const struct kvc_arena_view *arena, const struct kvc_head_view *head,
                                             kvc_u32 slot) {
    return kvc_arena_rows(arena, head->blocks[slot / KVC_BLOCK], 1) + (kvc_u64)(slot % KVC_BLOCK) * arena->value_bytes;
}
KVC_DEVICE KVC_GLOBAL float *kvc_head_column(const struct kvc_head_view *head, kvc_u32 column) {
    return head->state + (kvc_u64)column * head->slots;
}

/* Returns how many of the ascending indices [count] are below `index`. */
KVC_DEVICE kvc_u32 kvc_places_below(KVC_GLOBAL const kvc_u32 *indices, kvc_u32 count, kvc_u32 index) {
    kvc_u32 low = 0, high = count;
    while (low < high) {
        kvc_u32 middle = low + (high - low) / 2;
        if (indices[middle] < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The entries of one head that a query may see, numbered 0 .. places - 1: the head's own indices, or the indices of a
 * read list. Some of them may be masked. */
struct kvc_query_view {
    KVC_GLOBAL const kvc_u32 *indices; /* 0 (NULL): all indices */
    kvc_u32 places, visible;           /* indices from `visible` on are masked */
    kvc_i64 oldest;                    /* entries at positions below this are masked; KVC_NO_WINDOW: none */
};
#define KVC_READS KVC_GLOBAL const kvc_u32 *read_count, KVC_GLOBAL const kvc_u32 *read_index, kvc_u32 read_stride
#define KVC_NO_WINDOW (-(kvc_i64)0x7fffffffffffffff - 1)

KVC_DEVICE struct kvc_query_view kvc_query_view_of(const struct kvc_head_view *head,
                                                   KVC_GLOBAL const kvc_u32 *read_count,
                                                   KVC_GLOBAL const kvc_u32 *read_index, kvc_u32 read_stride, kvc_u32 h,
                                                   kvc_u32 causal_offset, kvc_i32 position, kvc_u32 window) {
    struct kvc_query_view view;
    view.visible = head->count > causal_offset ? head->count - causal_offset : 0;
    view.indices = read_count ? read_index + (kvc_u64)h * read_stride : 0;
    view.places = read_count ? read_count[h] : view.visible;
    view.oldest = window ? (kvc_i64)position - (kvc_i64)window + 1 : KVC_NO_WINDOW;
    return view;
}

#define KVC_MASKED 0xffffffffu
/* Returns the slot of an entry of the view, or KVC_MASKED. */
KVC_DEVICE kvc_u32 kvc_query_slot(const struct kvc_query_view *view, const struct kvc_head_view *head, kvc_u32 place) {
    kvc_u32 index = view->indices ? view->indices[place] : place, slot;
    if (index >= view->visible)
        return KVC_MASKED;
    slot = kvc_head_slot(head, index);
    if (view->oldest != KVC_NO_WINDOW && kvc_head_position(head, slot) < view->oldest)
        return KVC_MASKED;
    return slot;
}

/* ---- entries ---- */

#define KVC_GROUP_BYTES_CASE(a, NAME, name, scales, bits, high, rotated)                                               \
    case KVC_K_##NAME:                                                                                                 \
        return (scales) ? (scales) + KVC_ENTRY_GROUP * ((bits) == 8 ? 8 : 4) / 8 + (high) : 0;
/* Returns the bytes of a group of KVC_ENTRY_GROUP channels, or 0 if the type has no groups. */
KVC_DEVICE kvc_u32 kvc_group_bytes(kvc_u32 type) {
    switch (type) { KVC_ENTRY_TYPES(KVC_GROUP_BYTES_CASE, ) }
    return 0;
}

/* A group of channels of a key or value, of any type with groups (core/base/entry_types.h). */
struct kvc_packed {
    KVC_GLOBAL const kvc_u8 *quants, *high;
    float scale, minimum; /* only Q4_1 has a minimum */
    kvc_u32 channels;
    struct kvc_levels levels; /* only of Q4_1, and only if kvc_integers_at returned the group */
};
/* Returns group b of a row of d channels. */
KVC_DEVICE struct kvc_packed kvc_packed_at(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 b, kvc_u32 d) {
    KVC_GLOBAL const kvc_u8 *group = row + b * kvc_group_bytes(type);
    const kvc_u32 left = d - b * KVC_ENTRY_GROUP;
    struct kvc_packed p;
    p.channels = left < KVC_ENTRY_GROUP ? left : KVC_ENTRY_GROUP;
    p.quants = group + (type == KVC_K_Q4_1 ? 4 : 2);
    p.high = p.quants + (p.channels < 16 ? p.channels : 16);
    p.scale = KVC_HALF(group);
    p.minimum = type == KVC_K_Q4_1 ? KVC_HALF(group + 2) : 0.0f;
    return p;
}
/* Does the same for products of integers, whose quants kvc_integer_quant and the like return. */
KVC_DEVICE struct kvc_packed kvc_integers_at(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 b, kvc_u32 d) {
    struct kvc_packed p = kvc_packed_at(type, row, b, d);
    if (type == KVC_K_Q4_1) {
        p.levels = kvc_levels_of(p.scale, p.minimum);
        p.scale = p.levels.scale;
    }
    return p;
}
/* Returns the quant of channel e of a group. */
KVC_DEVICE int kvc_packed_quant(kvc_u32 type, const struct kvc_packed *p, kvc_u32 e) {
    switch (type) {
    case KVC_K_Q8_0:
        return (kvc_i8)p->quants[e];
    case KVC_K_Q4_1:
        return KVC_CODE4(p->quants, e);
    case KVC_K_IQ4_NL:
    case KVC_K_Q4H:
        return kvc_iq4_value(KVC_CODE4(p->quants, e));
    case KVC_K_Q5H:
        return KVC_CODE5(p->quants, p->high, e) - 16;
    case KVC_K_Q6H:
        return KVC_CODE6(p->quants, p->high, e) - 32;
    }
    return KVC_CODE4(p->quants, e) - 8;
}
/* Does the same for a group that kvc_integers_at returned. */
KVC_DEVICE int kvc_integer_quant(kvc_u32 type, const struct kvc_packed *p, kvc_u32 e) {
    const int quant = kvc_packed_quant(type, p, e);
    return type == KVC_K_Q4_1 ? kvc_level(p->levels, quant) : quant;
}
KVC_DEVICE float kvc_packed_value(kvc_u32 type, const struct kvc_packed *p, int quant) {
    return type == KVC_K_Q4_1 ? kvc_fma(p->scale, (float)quant, p->minimum) : p->scale * (float)quant;
}

/* The plain types are the most frequent ones, so kernels have separate code for them. */
KVC_DEVICE bool kvc_is_plain(kvc_u32 type) { return type == KVC_K_F32 || type == KVC_K_F16 || type == KVC_K_Q8_0; }
/* Returns channel c of a key or value of a plain type. */
KVC_DEVICE float kvc_plain_value(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c) {
    KVC_GLOBAL const kvc_u8 *group;
    if (type == KVC_K_F32)
        return ((KVC_GLOBAL const float *)row)[c];
    if (type == KVC_K_F16)
        return kvc_f16_to_f32(((KVC_GLOBAL const kvc_u16 *)row)[c]);
    group = row + c / KVC_Q8_GROUP * (2 + KVC_Q8_GROUP);
    return KVC_HALF(group) * (float)(kvc_i8)group[2 + c % KVC_Q8_GROUP];
}
/* Returns channel c of a key or value of d channels. */
KVC_DEVICE float kvc_entry_value(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 d) {
    struct kvc_packed p;
    if (kvc_is_plain(type))
        return kvc_plain_value(type, row, c);
    if (type == KVC_K_BF16)
        return kvc_bf16_to_f32(((KVC_GLOBAL const kvc_u16 *)row)[c]);
    p = kvc_packed_at(type, row, c / KVC_ENTRY_GROUP, d);
    return kvc_packed_value(type, &p, kvc_packed_quant(type, &p, c % KVC_ENTRY_GROUP));
}

#endif
