/* cache.h - operations that change lists (append, drop, identity, evict, keep_keys, rotate_keys, relayout) and read
 * them (entries). */

KVC_DEVICE void kvc_status_failure(KVC_GLOBAL kvc_u32 *status_words, kvc_u32 what, kvc_u32 a, kvc_u32 b) {
    status_words[KVC_STATUS_FAILURE] = what;
    status_words[KVC_STATUS_FAILURE + 1] = a;
    status_words[KVC_STATUS_FAILURE + 2] = b;
}

KVC_DEVICE void kvc_store_half(KVC_GLOBAL kvc_u8 *at, kvc_u16 half_bits) { *(KVC_GLOBAL kvc_u16 *)at = half_bits; }

/* Stores a group of at most 32 values. Returns 1 if its scale saturated. */
KVC_DEVICE kvc_u32 kvc_store_q8(KVC_GLOBAL kvc_u8 *group, KVC_GLOBAL const float *x, kvc_u32 count) {
    float amax = 0.0f, scale;
    int nan_seen = 0;
    for (kvc_u32 i = 0; i < count; i++) {
        amax = kvc_q8_amax(amax, x[i]);
        nan_seen |= kvc_is_nan(x[i]);
    }
    kvc_u16 half_bits = nan_seen ? (kvc_u16)KVC_Q8_NAN_SCALE : kvc_q8_scale(amax);
    group[0] = (kvc_u8)(half_bits & 0xff);
    group[1] = (kvc_u8)(half_bits >> 8);
    scale = kvc_f16_to_f32(half_bits);
    for (kvc_u32 i = 0; i < count; i++)
        group[2 + i] = nan_seen ? (kvc_u8)0 : (kvc_u8)kvc_q8_quant(x[i], scale);
    return nan_seen ? 0u : (kvc_u32)kvc_q8_saturates(amax);
}

/* Returns the code of x. */
KVC_DEVICE kvc_u32 kvc_packed_code(kvc_u32 type, float x, float scale, float minimum) {
    switch (type) {
    case KVC_K_Q4_1:
        return (kvc_u32)kvc_group_quant(x - minimum, scale, 0.0f, 15.0f);
    case KVC_K_IQ4_NL:
        return (kvc_u32)kvc_group_iq4(x, scale);
    case KVC_K_Q4H:
        return (kvc_u32)kvc_q4h_code(x, kvc_q4h_inverse(scale));
    case KVC_K_Q5H:
        return (kvc_u32)(kvc_group_quant(x, scale, -16.0f, 15.0f) + 16);
    case KVC_K_Q6H:
        return (kvc_u32)(kvc_group_quant(x, scale, -32.0f, 31.0f) + 32);
    }
    return (kvc_u32)(kvc_group_quant(x, scale, -8.0f, 7.0f) + 8);
}
/* Returns the high bits of the code of channel e, shifted to their place among the group's high bits. */
KVC_DEVICE kvc_u64 kvc_packed_high(kvc_u32 type, kvc_u32 code, kvc_u32 e) {
    return (kvc_u64)(code >> 4) << (type == KVC_K_Q5H ? e : e % 8 * 8 + e / 8 * 2);
}

/* Stores the codes of n values: first their low four bits, two codes to a byte, then their high bits. */
KVC_DEVICE void kvc_store_codes(kvc_u32 type, KVC_GLOBAL kvc_u8 *to, KVC_GLOBAL const float *x, kvc_u32 n, float scale,
                                float minimum) {
    const kvc_u32 bytes = n < 16 ? n : 16, high_bytes = type == KVC_K_Q5H ? 4 : type == KVC_K_Q6H ? 8 : 0;
    kvc_u64 high = 0;
    for (kvc_u32 e = 0; e < bytes; e++) {
        const kvc_u32 first = kvc_packed_code(type, x[e], scale, minimum);
        const kvc_u32 second = e + 16 < n ? kvc_packed_code(type, x[e + 16], scale, minimum) : 0;
        to[e] = (kvc_u8)((first & 15u) | (second & 15u) << 4);
        high |= kvc_packed_high(type, first, e) | kvc_packed_high(type, second, e + 16);
    }
    for (kvc_u32 i = 0; i < high_bytes; i++)
        to[bytes + i] = (kvc_u8)(high >> 8 * i & 255u);
}

/* Returns the divisor of the scale of n values, at most 32, in Q4H. */
KVC_DEVICE float kvc_stored_divisor(KVC_GLOBAL const float *x, kvc_u32 n, float top) {
    float copy[KVC_ENTRY_GROUP];
    for (kvc_u32 i = 0; i < n; i++)
        copy[i] = x[i];
    return kvc_q4h_best(copy, (int)n, top);
}

/* Stores a group of n values, at most 32, of a type with quants of less than 8 bits. Returns 1 if the scale or the
 * minimum saturated. */
KVC_DEVICE kvc_u32 kvc_store_packed(kvc_u32 type, KVC_GLOBAL kvc_u8 *group, KVC_GLOBAL const float *x, kvc_u32 n) {
    float least = x[0], largest = x[0], top, by, minimum = 0.0f;
    int nan_seen = 0, saturates;
    kvc_u16 half_bits;
    for (kvc_u32 i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        largest = x[i] > largest ? x[i] : largest;
        nan_seen |= kvc_is_nan(x[i]);
    }
    top = type == KVC_K_Q4_1 ? largest - least : kvc_group_top(least, largest);
    by = type == KVC_K_Q4_1     ? 15.0f
         : type == KVC_K_IQ4_NL ? -127.0f
         : type == KVC_K_Q5H    ? -16.0f
         : type == KVC_K_Q6H    ? -32.0f
                                : -8.0f;
    if (type == KVC_K_Q4H)
        by = kvc_stored_divisor(x, n, top);
    half_bits = nan_seen ? (kvc_u16)KVC_Q8_NAN_SCALE : kvc_group_scale(top, by);
    saturates = kvc_group_saturates(top, by);
    group[0] = (kvc_u8)(half_bits & 0xff);
    group[1] = (kvc_u8)(half_bits >> 8);
    group += 2;
    if (type == KVC_K_Q4_1) {
        const kvc_u16 minimum_bits = nan_seen ? (kvc_u16)KVC_Q8_NAN_SCALE : kvc_f16_store(least);
        saturates |= kvc_f16_saturates(least);
        minimum = kvc_f16_to_f32(minimum_bits);
        group[0] = (kvc_u8)(minimum_bits & 0xff);
        group[1] = (kvc_u8)(minimum_bits >> 8);
        group += 2;
    }
    kvc_store_codes(type, group, x, n, kvc_f16_to_f32(half_bits), minimum);
    return nan_seen ? 0u : (kvc_u32)saturates;
}

/* Returns the number of work-items that store a key or a value together: one per channel, or per group if the type has
 * groups. The result is a power of two. */
KVC_DEVICE kvc_u32 kvc_store_width(kvc_u32 type, kvc_u32 d) {
    kvc_u32 pieces = kvc_group_bytes(type) ? (d + KVC_ENTRY_GROUP - 1) / KVC_ENTRY_GROUP : d;
    kvc_u32 width = 1;
    while (width < pieces && width < KVC_GROUP)
        width *= 2;
    return width;
}

/* `width` work-items together store x [d] as a cache row. Returns the number of saturated values among those that this
 * work-item stored. */
KVC_DEVICE kvc_u32 kvc_store_entry(kvc_u32 type, kvc_u32 d, KVC_GLOBAL kvc_u8 *row, KVC_GLOBAL const float *x,
                                   kvc_u32 member, kvc_u32 width) {
    kvc_u32 saturated = 0;
    if (type == KVC_K_F32) {
        for (kvc_u32 c = member; c < d; c += width)
            ((KVC_GLOBAL float *)row)[c] = x[c];
    } else if (type == KVC_K_F16) {
        for (kvc_u32 c = member; c < d; c += width) {
            kvc_store_half(row + 2 * c, kvc_f16_store(x[c]));
            saturated += (kvc_u32)kvc_f16_saturates(x[c]);
        }
    } else if (type == KVC_K_Q8_0) {
        for (kvc_u32 c = member * KVC_Q8_GROUP; c < d; c += width * KVC_Q8_GROUP)
            saturated += kvc_store_q8(row + c / KVC_Q8_GROUP * (2 + KVC_Q8_GROUP), x + c,
                                      d - c < KVC_Q8_GROUP ? d - c : KVC_Q8_GROUP);
    } else if (type == KVC_K_BF16) {
        for (kvc_u32 c = member; c < d; c += width)
            kvc_store_half(row + 2 * c, kvc_f32_to_bf16(x[c]));
    } else {
        for (kvc_u32 c = member * KVC_ENTRY_GROUP; c < d; c += width * KVC_ENTRY_GROUP)
            saturated += kvc_store_packed(type, row + c / KVC_ENTRY_GROUP * kvc_group_bytes(type), x + c,
                                          d - c < KVC_ENTRY_GROUP ? d - c : KVC_ENTRY_GROUP);
    }
    return saturated;
}

/* Appends rows first .. first + stored - 1. `width` work-items store one row, so a group stores KVC_GROUP / width rows
 * at a time. Grid: (KV heads, blocks of `each` rows). If there are several blocks, the kernel append_count must run
 * next and add the rows to the count, because all groups of this kernel read the old count. */
KVC_GROUP_KERNEL(append)
(KVC_LISTS(l), KVC_ARENA, KVC_SPAN(const float, k), KVC_SPAN(const float, v), KVC_SPAN(const kvc_i32, positions),
 kvc_u32 first, kvc_u32 stored, kvc_u32 kv_heads, KVC_GLOBAL kvc_u32 *status_words, kvc_u32 each) {
    const kvc_u32 h = KVC_GROUP_ID(0), from = KVC_GROUP_ID(1) * each;
    const bool alone = stored <= each;
    kvc_u32 saturated = 0, capacity, width, value_width, member;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    width = kvc_store_width(key_type, head_size);
    value_width = kvc_store_width(value_type, head_size);
    width = width > value_width ? width : value_width;
    member = KVC_LOCAL_ID() % width;
    capacity = kvc_slots_capacity(head.slots) - head.count;
    if (stored > capacity) {
        kvc_status_failure(status_words, KVC_FAILED_APPEND, h, kvc_slots_capacity(head.slots));
        stored = capacity;
    }
    for (kvc_u32 i = from + KVC_LOCAL_ID() / width; i < stored && i < from + each; i += KVC_GROUP / width) {
        kvc_u32 slot = kvc_head_slot(&head, head.count + i);
        kvc_u64 at = ((kvc_u64)(first + i) * kv_heads + h) * head_size;
        saturated += kvc_store_entry(key_type, head_size, kvc_head_key(&arena, &head, slot), k_buffer + k_offset + at,
                                     member, width);
        saturated += kvc_store_entry(value_type, head_size, kvc_head_value(&arena, &head, slot),
                                     v_buffer + v_offset + at, member, width);
        if (head.state)
            for (kvc_u32 c = member; c < head.columns; c += width)
                kvc_head_column(&head, c)[slot] = 0.0f;
        if (head.position && member == 0)
            head.position[slot] = positions_buffer[positions_offset + first + i];
    }
    if (saturated)
        KVC_ADD_GLOBAL(status_words + KVC_STATUS_SATURATED, saturated);
    KVC_BARRIER(); /* waits until all work-items have read the count */
    if (alone && KVC_LOCAL_ID() == 0)
        l_count[h] = head.count + stored;
}

/* Adds the appended rows to the count of each head. */
KVC_KERNEL(append_count)(KVC_LISTS(l), kvc_u32 stored, kvc_u32 kv_heads) {
    const kvc_u32 h = (kvc_u32)KVC_GLOBAL_ID();
    if (h < kv_heads) {
        KVC_OPEN_HEAD(head, l, h);
        const kvc_u32 capacity = kvc_slots_capacity(head.slots) - head.count;
        l_count[h] = head.count + (stored < capacity ? stored : capacity);
    }
}

KVC_KERNEL(drop)(KVC_LISTS(l), kvc_u32 rows, kvc_u32 kv_heads) {
    kvc_u64 h = KVC_GLOBAL_ID();
    if (h < kv_heads)
        l_count[h] = l_count[h] - (rows < l_count[h] ? rows : l_count[h]);
}

/* Grid: (slots of the largest head, heads). */
KVC_KERNEL(identity)(KVC_LISTS(l)) {
    KVC_OPEN_HEAD(head, l, KVC_GROUP_ID(1));
    KVC_EACH_OF_RUN(slot, head.slots) {
        head.order[slot] = (kvc_u32)slot;
        head.position[slot] = (kvc_i32)slot;
    }
}

/* Returns how many of the ascending indices [count] are below `index`. `low` is the result for a lower index, or 0. */
KVC_DEVICE kvc_u32 kvc_indices_below(KVC_GLOBAL const kvc_u32 *indices, kvc_u32 count, kvc_u32 index, kvc_u32 low) {
#if KVC_WORKERS == 1
    while (low < count && indices[low] < index)
        low++;
    return low;
#else
    return kvc_places_below(indices + low, count - low, index) + low;
#endif
}

/* Grid: (KV heads). The workspace needs one word for each slot. */
KVC_GROUP_KERNEL(evict)(KVC_LISTS(l), KVC_READS, KVC_GLOBAL kvc_u32 *workspace, KVC_GLOBAL kvc_u32 *status_words) {
    kvc_u32 h = KVC_GROUP_ID(0), kept = read_count[h], low = 0;
    KVC_GLOBAL const kvc_u32 *indices = read_index + (kvc_u64)h * read_stride;
    KVC_OPEN_HEAD(head, l, h);
    KVC_GLOBAL kvc_u32 *was = workspace + head.base;
    if (kept == head.count)
        return;
    if (!head.order) {
        kvc_status_failure(status_words, KVC_FAILED_EVICT, h, 0);
        return;
    }
#if KVC_WORKERS == 1
    kvc_u32 from = 0, gone = 0;
    for (low = 0; low <= kept; low++) { /* stores the slots of evicted entries in the workspace */
        for (kvc_u32 end = low < kept ? indices[low] : head.count; from < end;)
            was[gone++] = head.order[from++];
        if (low < kept)
            head.order[low] = head.order[from++];
    }
    kvc_copy_floats((KVC_GLOBAL float *)head.order + kept, (KVC_GLOBAL const float *)was, gone);
#else
    for (kvc_u32 r = KVC_LOCAL_ID(); r < head.count; r += KVC_GROUP)
        was[r] = head.order[r];
    KVC_BARRIER();
    for (kvc_u32 r = KVC_LOCAL_ID(); r < head.count; r += KVC_GROUP) { /* low: number of kept indices below r */
        low = kvc_indices_below(indices, kept, r, low);
        head.order[low < kept && indices[low] == r ? low : kept + (r - low)] = was[r];
    }
#endif
    if (KVC_LOCAL_ID() == 0)
        l_count[h] = kept;
}

/* Stores k [rows, kv_heads, d] in state columns of the newest `rows` entries. Grid: (runs of channels x runs of
 * entries, heads). On CPUs a work-item fills whole cache lines of a few columns. */
KVC_KERNEL(keep_keys)
(KVC_LISTS(l), kvc_u32 first, KVC_SPAN(const float, k), kvc_u32 rows, kvc_u32 kv_heads, kvc_u32 d) {
    kvc_u32 across = KVC_COLUMNS_OF(KVC_WORKERS), runs = (d + across - 1) / across, h = KVC_GROUP_ID(1);
    kvc_u32 c0 = (kvc_u32)(KVC_GLOBAL_ID() % runs) * across, end = d - c0 < across ? d : c0 + across;
    KVC_OPEN_HEAD(head, l, h);
    kvc_u64 i = KVC_GLOBAL_ID() / runs * KVC_RUN, last = i + KVC_RUN < rows ? i + KVC_RUN : rows;
    for (; i < last; i++) {
        kvc_u32 slot = kvc_head_slot(&head, head.count - rows + (kvc_u32)i);
        for (kvc_u32 c = c0; c < end; c++)
            kvc_head_column(&head, first + c)[slot] = k_buffer[k_offset + (i * kv_heads + h) * d + c];
    }
}

/* Grid: (entries of the longest head x pairs of channels, heads). A work-item rotates a pair of rotary channels, or
 * copies two of the channels beyond them. `rotated` receives the rotated keys, d values per index. */
KVC_KERNEL(rotate_rows)
(KVC_LISTS(l), kvc_u32 first, KVC_SPAN(const float, cosine), KVC_SPAN(const float, sine), KVC_GLOBAL float *rotated,
 kvc_u32 d, kvc_u32 rotary, kvc_u32 interleaved) {
    kvc_u32 pairs = (d + 1) / 2, half_size = rotary / 2, slot;
    kvc_u64 id = KVC_GLOBAL_ID(), index = id / pairs;
    kvc_u32 i = (kvc_u32)(id % pairs), from0, from1;
    KVC_GLOBAL float *y;
    KVC_OPEN_HEAD(head, l, KVC_GROUP_ID(1));
    if (index >= head.count)
        return;
    slot = kvc_head_slot(&head, (kvc_u32)index);
    y = rotated + (head.base + index) * d;
    from0 = i < half_size && !interleaved ? i : 2 * i;
    from1 = i < half_size && !interleaved ? i + half_size : 2 * i + 1;
    float x0 = kvc_head_column(&head, first + from0)[slot];
    float x1 = from1 < d ? kvc_head_column(&head, first + from1)[slot] : 0.0f;
    if (i < half_size) {
        float c = cosine_buffer[cosine_offset + index * half_size + i];
        float s = sine_buffer[sine_offset + index * half_size + i];
        y[i] = kvc_fma(-x1, s, x0 * c);
        y[i + half_size] = kvc_fma(x0, s, x1 * c);
        return;
    }
    y[from0] = x0;
    if (from1 < d)
        y[from1] = x1;
}

/* Grid: (groups of 16 indices, heads). If `part` is not 0, parts of this many channels are transformed before they are
 * stored (core/base/canon.h, kvc_hadamard_width). */
KVC_GROUP_KERNEL(store_keys)
(KVC_LISTS(l), KVC_ARENA, KVC_GLOBAL float *rotated, kvc_u32 part, float factor, KVC_GLOBAL kvc_u32 *status_words) {
    kvc_u32 saturated = 0, width, first = KVC_GROUP_ID(0) * 16;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, KVC_GROUP_ID(1));
    for (kvc_u32 index = first; part && index < first + 16 && index < head.count; index++)
        for (kvc_u32 c = 0; c < head_size; c += part)
            kvc_transform(rotated + (kvc_u64)(head.base + index) * head_size + c, part, factor);
    KVC_BARRIER();
    width = kvc_store_width(key_type, head_size);
    for (kvc_u32 i = KVC_LOCAL_ID() / width; i < 16; i += KVC_GROUP / width) {
        kvc_u32 index = first + i;
        if (index < head.count)
            saturated +=
                kvc_store_entry(key_type, head_size, kvc_head_key(&arena, &head, kvc_head_slot(&head, index)),
                                rotated + (kvc_u64)(head.base + index) * head_size, KVC_LOCAL_ID() % width, width);
    }
    if (saturated)
        KVC_ADD_GLOBAL(status_words + KVC_STATUS_SATURATED, saturated);
}

KVC_DEVICE void kvc_copy_row(KVC_GLOBAL kvc_u8 *to, KVC_GLOBAL const kvc_u8 *from, kvc_u32 bytes) {
    for (kvc_u32 i = 0; i < bytes; i++)
        to[i] = from[i];
}

/* Grid: (KV heads). The workspace needs three words for each of dst's slots. */
KVC_GROUP_KERNEL(relayout)
(KVC_LISTS(dst), KVC_LISTS(src), KVC_ARENA, KVC_GLOBAL kvc_u32 *workspace, KVC_GLOBAL kvc_u32 *status_words) {
    KVC_SHARED kvc_u32 capacity[KVC_GROUP];
    kvc_u32 h = KVC_GROUP_ID(0), kept_slots, free_slots = 0, moved = 0;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(from, src, h);
    KVC_OPEN_HEAD(to, dst, h);
    KVC_GLOBAL kvc_u32 *used = workspace + 3 * (kvc_u64)to.base, *unused = used + to.slots, *place = unused + to.slots;
    if (from.count > kvc_slots_capacity(to.slots)) {
        kvc_status_failure(status_words, KVC_FAILED_RELAYOUT, from.count, to.slots);
        return;
    }
    kept_slots =
        to.slots == from.slots ? to.slots : (to.slots < from.slots ? to.slots : from.slots) / KVC_BLOCK * KVC_BLOCK;
    for (kvc_u32 i = KVC_LOCAL_ID(); i * KVC_BLOCK < kept_slots; i += KVC_GROUP)
        to.blocks[i] = from.blocks[i];
    if (!to.order && from.count <= kept_slots) { /* no entry moves, and no table contains slot numbers */
        for (kvc_u32 c = 0; to.state && from.state && c < to.columns; c++)
            for (kvc_u32 slot = KVC_LOCAL_ID(); slot < from.count; slot += KVC_GROUP)
                kvc_head_column(&to, c)[slot] = kvc_head_column(&from, c)[slot];
        if (KVC_LOCAL_ID() == 0)
            dst_count[h] = from.count;
        return;
    }
    for (kvc_u32 slot = KVC_LOCAL_ID(); slot < to.slots; slot += KVC_GROUP)
        used[slot] = 0;
    KVC_BARRIER();
    for (kvc_u32 r = KVC_LOCAL_ID(); r < from.count; r += KVC_GROUP) {
        kvc_u32 slot = kvc_head_slot(&from, r);
        if (slot < kept_slots)
            used[slot] = 1;
    }
    KVC_BARRIER();
    for (kvc_u32 first = 0; first < to.slots; first += KVC_GROUP) { /* find the unused slots, ascending */
        kvc_u32 slot = first + KVC_LOCAL_ID(), all;
        kvc_u32 is_free = slot < to.slots && !used[slot];
        kvc_u32 before = kvc_group_before(is_free, &all, capacity);
        if (is_free)
            unused[free_slots + before] = slot;
        free_slots += all;
    }
    KVC_BARRIER();
    for (kvc_u32 first = 0; first < from.count; first += KVC_GROUP) { /* find the new slot of each entry */
        kvc_u32 index = first + KVC_LOCAL_ID(), all;
        kvc_u32 slot = index < from.count ? kvc_head_slot(&from, index) : 0;
        kvc_u32 moves = slot >= kept_slots;
        kvc_u32 before = kvc_group_before(moves, &all, capacity);
        if (index < from.count)
            place[index] = moves ? unused[moved + before] : slot;
        moved += all;
    }
    KVC_BARRIER();
    for (kvc_u32 index = KVC_LOCAL_ID(); index < from.count; index += KVC_GROUP) {
        kvc_u32 slot = kvc_head_slot(&from, index), then = place[index];
        if (then != slot) {
            kvc_copy_row(kvc_head_key(&arena, &to, then), kvc_head_key(&arena, &from, slot), key_bytes);
            kvc_copy_row(kvc_head_value(&arena, &to, then), kvc_head_value(&arena, &from, slot), value_bytes);
        }
        if (to.state && from.state)
            for (kvc_u32 c = 0; c < to.columns; c++)
                kvc_head_column(&to, c)[then] = kvc_head_column(&from, c)[slot];
        if (to.order)
            to.order[index] = then;
        if (to.position)
            to.position[then] = kvc_head_position(&from, slot);
    }
    if (to.order)
        for (kvc_u32 i = moved + KVC_LOCAL_ID(); i < free_slots; i += KVC_GROUP)
            to.order[from.count + i - moved] = unused[i];
    if (KVC_LOCAL_ID() == 0)
        dst_count[h] = from.count;
}

/* Grid: (entries of the longest head x channels); on CPUs (entries). */
KVC_KERNEL(entries)(KVC_LISTS(l), KVC_ARENA, kvc_u32 h, KVC_SPAN(float, keys), KVC_SPAN(float, values)) {
    kvc_u32 run = KVC_WORKERS == 1 ? head_size : 1, c = (kvc_u32)(KVC_GLOBAL_ID() * run % head_size);
    kvc_u64 i = KVC_GLOBAL_ID() * run, index = i / head_size;
    KVC_GLOBAL const kvc_u8 *key, *value;
    if (index >= l_count[h])
        return;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    key = kvc_head_key(&arena, &head, kvc_head_slot(&head, (kvc_u32)index));
    value = kvc_head_value(&arena, &head, kvc_head_slot(&head, (kvc_u32)index));
    for (kvc_u32 end = c + run; c < end; c++, i++) {
        if (keys_buffer)
            keys_buffer[keys_offset + i] = kvc_entry_value(key_type, key, c, head_size);
        if (values_buffer)
            values_buffer[values_offset + i] = kvc_entry_value(value_type, value, c, head_size);
    }
}
