/* merge.h - merges the values of entries that are about to be evicted into those of kept entries: merge_similar,
 * merge_following, merge_values. */

#define KVC_NO_TARGET 0xffffffffu

/* Returns dot32 of two keys or two values. */
KVC_DEVICE float kvc_entries_dot(kvc_u32 type, kvc_bytes a, kvc_bytes b, kvc_u32 d) {
    float lane[32];
    for (int i = 0; i < 32; i++)
        lane[i] = 0.0f;
    for (kvc_u32 c = 0; c < d; c++)
        lane[c % 32] = kvc_fma(kvc_entry_value(type, a, c, d), kvc_entry_value(type, b, c, d), lane[c % 32]);
    KVC_TREE32(lane);
    return lane[0];
}

/* Grid: (indices, heads). length [H_kv, stride] holds the lengths of the keys. */
KVC_KERNEL(merge_similar)
(KVC_LISTS(l), KVC_ARENA, KVC_READS, float threshold, KVC_SPAN(const float, length), KVC_SPAN(kvc_u32, targets),
 KVC_SPAN(float, weights), kvc_u32 stride) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), kept, place, best = 0, found = KVC_NO_TARGET;
    KVC_GLOBAL const kvc_u32 *indices = read_index + (kvc_u64)h * read_stride;
    KVC_GLOBAL const float *long_by = length_buffer + length_offset + (kvc_u64)h * stride;
    kvc_u64 at = (kvc_u64)h * stride + index;
    float most = 0.0f, weight = 0.0f;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    if (index >= head.count)
        return;
    kept = read_count[h];
    place = kvc_places_below(indices, kept, (kvc_u32)index);
    if (kept && (place == kept || indices[place] != index)) {
        kvc_bytes key = kvc_head_key(&arena, &head, kvc_head_slot(&head, (kvc_u32)index));
        kvc_bytes value = kvc_head_value(&arena, &head, kvc_head_slot(&head, (kvc_u32)index)), other;
        float mine, theirs;
        for (kvc_u32 i = 0; i < kept; i++) {
            float lengths = long_by[index] * long_by[indices[i]], c = 0.0f;
            if (lengths != 0.0f)
                c = kvc_div(kvc_entries_dot(key_type, key,
                                            kvc_head_key(&arena, &head, kvc_head_slot(&head, indices[i])), head_size),
                            lengths);
            if (i == 0 || kvc_score_key(c) > kvc_score_key(most)) {
                most = c;
                best = i;
            }
        }
        other = kvc_head_value(&arena, &head, kvc_head_slot(&head, indices[best]));
        mine = kvc_sqrt(kvc_entries_dot(value_type, value, value, head_size));
        theirs = kvc_sqrt(kvc_entries_dot(value_type, other, other, head_size));
        weight = kvc_div(most * mine, (mine + theirs) + 1e-6f);
        if (most >= threshold && weight > 0.0f)
            found = best;
    }
    targets_buffer[targets_offset + at] = found;
    weights_buffer[weights_offset + at] = found == KVC_NO_TARGET ? 0.0f : weight;
}

/* Grid: (indices, heads). */
KVC_KERNEL(merge_following)
(KVC_LISTS(l), KVC_READS, kvc_u32 layer, kvc_u32 first_list, kvc_u32 span, kvc_u64 seed, KVC_SPAN(kvc_u32, targets),
 KVC_SPAN(float, weights), kvc_u32 stride) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), kept, place, many, x;
    KVC_GLOBAL const kvc_u32 *indices = read_index + (kvc_u64)h * read_stride;
    KVC_GLOBAL kvc_u32 *target = targets_buffer + targets_offset + (kvc_u64)h * stride;
    KVC_GLOBAL float *weight = weights_buffer + weights_offset + (kvc_u64)h * stride;
    float sum = 0.0f, one = KVC_ONE(stride);
    KVC_OPEN_HEAD(head, l, h);
    if (index >= head.count)
        return;
    kept = read_count[h];
    place = kvc_places_below(indices, kept, (kvc_u32)index);
    target[index] = KVC_NO_TARGET;
    if (place < kept && indices[place] == index)
        return;
    many = kept - place < span ? kept - place : span;
    for (kvc_u32 i = place; i < place + many; i++)
        sum = kvc_plus(sum, weight[indices[i]], one);
    x = kvc_philox4x32(layer, first_list + h, (kvc_u32)kvc_head_position(&head, kvc_head_slot(&head, (kvc_u32)index)),
                       2u, seed)
            .word[0];
    if (many && (float)(x >> 8) * 5.9604644775390625e-8f < kvc_div(weight[index], kvc_div(sum, (float)many))) {
        target[index] = place;
        weight[index] = kvc_div(1.0f, (float)many);
    } else {
        weight[index] = 0.0f;
    }
}

/* Grid: (places from `first` on x channels, heads). Writes the new values of kept entries to rows [H_kv, places, d].
 * `many` [H_kv, places] receives how many entries are merged into each kept entry. */
KVC_KERNEL(merge_rows)
(KVC_LISTS(l), KVC_ARENA, KVC_READS, KVC_SPAN(const kvc_u32, targets), KVC_SPAN(const float, weights), kvc_u32 stride,
 kvc_u32 span, kvc_u32 normalised, kvc_u32 first, kvc_u32 places, KVC_GLOBAL float *rows, KVC_SPAN(kvc_u32, many)) {
    kvc_u64 id = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), c = (kvc_u32)(id % head_size), terms = 0;
    kvc_u64 place = first + id / head_size;
    KVC_GLOBAL const kvc_u32 *indices = read_index + (kvc_u64)h * read_stride;
    KVC_GLOBAL const kvc_u32 *target = targets_buffer + targets_offset + (kvc_u64)h * stride;
    KVC_GLOBAL const float *weight = weights_buffer + weights_offset + (kvc_u64)h * stride;
    float a = 0.0f, all = 0.0f, x, one = KVC_ONE(stride);
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    if (id / head_size >= places || place >= read_count[h])
        return;
    for (kvc_u32 r = 0; r < head.count; r++) {
        if (target[r] > place || place - target[r] >= span)
            continue;
        x = kvc_entry_value(value_type, kvc_head_value(&arena, &head, kvc_head_slot(&head, r)), c, head_size);
        a = kvc_fma(weight[r], x, a);
        all = kvc_plus(all, weight[r], one);
        terms++;
    }
    x = kvc_entry_value(value_type, kvc_head_value(&arena, &head, kvc_head_slot(&head, indices[place])), c, head_size) +
        a;
    rows[((kvc_u64)h * places) * head_size + id] = normalised ? kvc_div(x, 1.0f + all) : x;
    if (c == 0)
        many_buffer[many_offset + (kvc_u64)h * places + id / head_size] = terms;
}

/* Grid: (groups of 16 places, heads). Stores the rows of merge_rows. */
KVC_GROUP_KERNEL(merge_values)
(KVC_LISTS(l), KVC_ARENA, KVC_READS, kvc_u32 first, kvc_u32 places, KVC_GLOBAL const float *rows,
 KVC_SPAN(const kvc_u32, many), KVC_GLOBAL kvc_u32 *status_words) {
    kvc_u32 h = KVC_GROUP_ID(1), from = KVC_GROUP_ID(0) * 16, saturated = 0;
    kvc_u32 width = kvc_store_width(value_type, head_size);
    KVC_GLOBAL const kvc_u32 *indices = read_index + (kvc_u64)h * read_stride;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    for (kvc_u32 i = from + KVC_LOCAL_ID() / width; i < from + 16 && i < places; i += KVC_GROUP / width) {
        kvc_u64 row = (kvc_u64)h * places + i;
        if (first + i < read_count[h] && many_buffer[many_offset + row])
            saturated += kvc_store_entry(value_type, head_size,
                                         kvc_head_value(&arena, &head, kvc_head_slot(&head, indices[first + i])),
                                         rows + row * head_size, KVC_LOCAL_ID() % width, width);
    }
    if (saturated)
        KVC_ADD_GLOBAL(status_words + KVC_STATUS_SATURATED, saturated);
}
