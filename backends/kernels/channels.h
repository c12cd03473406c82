/* channels.h - sets channels of keys to 0: prune_channels. */

/* Grid: (tiles x channels, heads). Writes the sums of the squares of a tile's keys, at positions from `oldest` on, to
 * sums [H_kv, tiles, d]. */
KVC_KERNEL(channel_tiles)
(KVC_LISTS(l), KVC_ARENA, kvc_i32 oldest, KVC_SPAN(float, sums), kvc_u32 tiles) {
    kvc_u64 id = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), c = (kvc_u32)(id % head_size), first = (kvc_u32)(id / head_size) * KVC_TILE;
    float sum = 0.0f;
    if (id >= (kvc_u64)tiles * head_size)
        return;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    for (kvc_u32 index = first; index < head.count && index < first + KVC_TILE; index++) {
        kvc_u32 slot = kvc_head_slot(&head, index);
        float x;
        if (kvc_head_position(&head, slot) < oldest)
            continue;
        x = kvc_entry_value(key_type, kvc_head_key(&arena, &head, slot), c, head_size);
        sum = kvc_fma(x, x, sum);
    }
    sums_buffer[sums_offset + (kvc_u64)h * tiles * head_size + id] = sum;
}

/* Grid: (channels, heads). Adds up the sums of a head's tiles, multiplies them by the sums of the squares of the
 * group's queries q [queries, H, d], and writes the products to scores [H_kv, d]. */
KVC_KERNEL(channel_scores)
(KVC_GLOBAL const kvc_u32 *count, KVC_SPAN(const float, sums), kvc_u32 tiles, KVC_SPAN(const float, q), kvc_u32 queries,
 kvc_u32 heads, kvc_u32 group, KVC_GLOBAL float *scores, kvc_u32 d) {
    kvc_u64 c = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), mine = (count[h] + KVC_TILE - 1) / KVC_TILE;
    const float one = KVC_ONE(tiles);
    float a = 0.0f, b = 0.0f;
    if (c >= d)
        return;
    for (kvc_u32 t = 0; t < mine; t++)
        b = kvc_plus(b, sums_buffer[sums_offset + ((kvc_u64)h * tiles + t) * d + c], one);
    for (kvc_u32 row = 0; row < queries; row++)
        for (kvc_u32 g = 0; g < group; g++) {
            float x = q_buffer[q_offset + ((kvc_u64)row * heads + h * group + g) * d + c];
            a = kvc_fma(x, x, a);
        }
    scores[(kvc_u64)h * d + c] = a * b;
}

/* Returns the number of channels whose scores [d] rank above that of channel c. */
KVC_DEVICE kvc_u32 kvc_channel_rank(KVC_GLOBAL const float *scores, kvc_u32 c, kvc_u32 d) {
    kvc_u32 key = kvc_score_key(scores[c]), above = 0;
    for (kvc_u32 other = 0; other < d; other++) {
        kvc_u32 theirs = kvc_score_key(scores[other]);
        above += theirs > key || (theirs == key && other < c);
    }
    return above;
}

/* Sets channel c of a key to 0. */
KVC_DEVICE void kvc_zero_channel(kvc_u32 type, KVC_GLOBAL kvc_u8 *row, kvc_u32 c) {
    kvc_u32 e = c % KVC_ENTRY_GROUP, shift = e / 16 * 4;
    KVC_GLOBAL kvc_u8 *quants = row + c / KVC_ENTRY_GROUP * kvc_group_bytes(type) + 2;
    if (type == KVC_K_Q8_0)
        quants[e] = 0;
    else if (type == KVC_K_Q4_0)
        quants[e % 16] = (kvc_u8)((quants[e % 16] & ~(15u << shift)) | 8u << shift);
    else if (type == KVC_K_F32)
        ((KVC_GLOBAL float *)row)[c] = 0.0f;
    else
        ((KVC_GLOBAL kvc_u16 *)row)[c] = 0;
}

/* Grid: (tiles x units, heads). A unit is two channels that may share a byte: c and c + 16 of a group of 32. Sets those
 * that are not among the first d - `channels` by their scores [H_kv, d] to 0, in keys at positions oldest .. end - 1.
 */
KVC_KERNEL(prune_channels)
(KVC_LISTS(l), KVC_ARENA, KVC_GLOBAL const float *scores, kvc_u32 channels, kvc_i32 oldest, kvc_i32 end,
 kvc_u32 tiles) {
    kvc_u64 id = KVC_GLOBAL_ID();
    kvc_u32 units = (head_size + 31) / 32 * 16, h = KVC_GROUP_ID(1), unit = (kvc_u32)(id % units);
    kvc_u32 first = (kvc_u32)(id / units) * KVC_TILE, c = unit / 16 * 32 + unit % 16, prunes[2];
    if (id >= (kvc_u64)tiles * units)
        return;
    for (kvc_u32 i = 0; i < 2; i++)
        prunes[i] = c + 16 * i < head_size &&
                    kvc_channel_rank(scores + (kvc_u64)h * head_size, c + 16 * i, head_size) >= head_size - channels;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    for (kvc_u32 index = first; index < head.count && index < first + KVC_TILE; index++) {
        kvc_u32 slot = kvc_head_slot(&head, index);
        kvc_i32 position = kvc_head_position(&head, slot);
        for (kvc_u32 i = 0; i < 2 && position >= oldest && position < end; i++)
            if (prunes[i])
                kvc_zero_channel(key_type, kvc_head_key(&arena, &head, slot), c + 16 * i);
    }
}
