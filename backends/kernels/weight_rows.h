/* weight_rows.h - the attention weights policies look at: window mass, and rings of weight or logit rows. */

#define KVC_WEIGHT_ROWS                                                                                                \
    KVC_LISTS(l), KVC_ARENA, KVC_READS, KVC_SPAN(const float, q), KVC_SPAN(const float, maximum),                      \
        KVC_SPAN(const float, sum), KVC_SPAN(const kvc_i32, positions), KVC_SPAN(const kvc_u32, later),                \
        kvc_u32 queries, kvc_u32 heads, kvc_u32 kv_heads, kvc_u32 window, float scale

/* The group's value of one query at one entry, by a team (canon: from 0, ascending heads): weights exp(s - M) / L, or
 * with maximum 0 the scores s. q, maximum, sum: from the group's first head on. */
KVC_DEVICE float kvc_group_value(kvc_u32 type, KVC_GLOBAL const float *q, KVC_GLOBAL const float *maximum,
                                 KVC_GLOBAL const float *sum, kvc_u32 group, kvc_u32 d, KVC_GLOBAL const kvc_u8 *key,
                                 float scale, KVC_LOCAL float *room) {
    float value = 0.0f;
    for (kvc_u32 g = 0; g < group; g++) {
        float s = kvc_part_sum(kvc_part_dot_entry(type, q + (kvc_u64)g * d, key, d), room) * scale;
        value = value + (maximum ? kvc_div(kvc_exp(s - maximum[g]), sum[g]) : s);
    }
    return value;
}

/* Grid: tiles of the places of the fullest head, heads. ring 0: column sums into scores, which hold zeros where there
 * is a read list. Otherwise rows into the state column of the query's position. */
KVC_GROUP_KERNEL(weight_rows)(KVC_WEIGHT_ROWS, KVC_SPAN(float, scores), kvc_u32 stride, kvc_u32 ring) {
    KVC_SHARED float room[KVC_SUM_ROOM];
    kvc_u32 h = KVC_GROUP_ID(1), first = KVC_GROUP_ID(0) * KVC_TILE, group = heads / kv_heads, places;
    kvc_u32 worker = KVC_LOCAL_ID() % KVC_WORKERS;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    places = read_count ? read_count[h] : head.count;
    for (kvc_u32 from = 0; from < KVC_TILE && first + from < places; from += KVC_TEAMS) {
        kvc_u32 place = first + from + KVC_LOCAL_ID() / KVC_WORKERS;
        kvc_u32 rank = place < places ? (read_count ? read_rank[(kvc_u64)h * read_stride + place] : place) : 0;
        kvc_u32 here = place < places && rank < head.count, slot = here ? kvc_head_slot(&head, rank) : 0;
        KVC_GLOBAL const kvc_u8 *key = here ? (kvc_bytes)kvc_head_key(&arena, &head, slot) : (kvc_bytes)0;
        kvc_i64 at = here ? kvc_head_position(&head, slot) : 0;
        float column = 0.0f;
        for (kvc_u32 query = 0; query < queries; query++) {
            kvc_u32 behind = later_buffer[later_offset + query];
            kvc_i32 position = positions_buffer[positions_offset + query];
            kvc_u32 visible = head.count > behind ? head.count - behind : 0;
            kvc_u32 seen = here && rank < visible && (!window || at > (kvc_i64)position - (kvc_i64)window);
            kvc_u64 row = (kvc_u64)query * heads + (kvc_u64)h * group;
            float value = kvc_group_value(entry_type, q_buffer + q_offset + row * head_size,
                                          maximum_buffer ? maximum_buffer + maximum_offset + row : 0,
                                          sum_buffer ? sum_buffer + sum_offset + row : 0, group, head_size,
                                          seen ? key : (kvc_bytes)0, scale, room);
            if (seen && !ring)
                column = column + value;
            if (here && ring && worker == 0)
                kvc_head_column(&head, (kvc_u32)position % ring)[slot] = seen ? value : 0.0f;
        }
        if (here && !ring && worker == 0)
            scores_buffer[scores_offset + (kvc_u64)h * stride + rank] = column;
    }
}

/* Zeros for entries that the read list leaves out: scores, or the queries' columns. Grid: entries, heads. */
KVC_KERNEL(weight_zeros)(KVC_LISTS(l), KVC_SPAN(const kvc_i32, positions), kvc_u32 queries, KVC_SPAN(float, scores),
                         kvc_u32 stride, kvc_u32 ring) {
    kvc_u64 rank = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1);
    KVC_OPEN_HEAD(head, l, h);
    if (rank >= head.count)
        return;
    if (!ring) {
        scores_buffer[scores_offset + (kvc_u64)h * stride + rank] = 0.0f;
        return;
    }
    for (kvc_u32 query = 0; query < queries; query++)
        kvc_head_column(&head, (kvc_u32)positions_buffer[positions_offset + query] %
                                   ring)[kvc_head_slot(&head, (kvc_u32)rank)] = 0.0f;
}

/* ---- rings ---- */

/* Which column is row i of the ring's newest `filled` rows before now. */
KVC_DEVICE kvc_u32 kvc_ring_column(kvc_i64 now, kvc_u32 filled, kvc_u32 i, kvc_u32 ring) {
    return (kvc_u32)((now - (kvc_i64)filled + (kvc_i64)i) % (kvc_i64)ring);
}

/* Grid: tiles, rows of the ring, heads. m and l of one tile of one row's logits over the entries older than recent;
 * l = -1: none is. tiles: [heads][filled][stride] pairs. */
KVC_KERNEL(ring_tiles)(KVC_LISTS(l), kvc_u32 ring, kvc_u32 filled, kvc_i64 now, kvc_i64 recent, KVC_GLOBAL float *tiles,
                       kvc_u32 stride) {
    kvc_u64 tile = KVC_GLOBAL_ID();
    kvc_u32 i = KVC_GROUP_ID(1), h = KVC_GROUP_ID(2), first = (kvc_u32)tile * KVC_TILE, end, any = 0;
    KVC_GLOBAL float *to = tiles + (((kvc_u64)h * filled + i) * stride + tile) * 2;
    KVC_GLOBAL const float *row;
    float m = -kvc_infinity(), lane[32];
    KVC_OPEN_HEAD(head, l, h);
    if (tile >= stride)
        return;
    end = first >= head.count ? first : head.count - first < KVC_TILE ? head.count : first + KVC_TILE;
    row = kvc_head_column(&head, kvc_ring_column(now, filled, i, ring));
    for (kvc_u32 r = first; r < end; r++) {
        kvc_u32 slot = kvc_head_slot(&head, r);
        if (kvc_head_position(&head, slot) < recent) {
            m = kvc_max(m, row[slot]);
            any = 1;
        }
    }
    for (int j = 0; j < 32; j++)
        lane[j] = 0.0f;
    for (kvc_u32 r = first; any && r < end; r++) {
        kvc_u32 slot = kvc_head_slot(&head, r);
        if (kvc_head_position(&head, slot) < recent)
            lane[r % 32] = lane[r % 32] + kvc_exp(row[slot] - m);
    }
    KVC_TREE32(lane);
    to[0] = m;
    to[1] = any ? lane[0] : -1.0f;
}

/* A work-item a row of one head: M and L into the row's first tile. */
KVC_KERNEL(ring_merge)(KVC_GLOBAL float *tiles, kvc_u32 stride, kvc_u32 rows) {
    kvc_u64 row = KVC_GLOBAL_ID();
    KVC_GLOBAL float *tile = tiles + row * stride * 2;
    float M = -kvc_infinity(), L = 0.0f;
    if (row >= rows)
        return;
    for (kvc_u32 t = 0; t < stride; t++)
        if (tile[2 * t + 1] != -1.0f)
            M = kvc_max(M, tile[2 * t]);
    for (kvc_u32 t = 0; t < stride; t++)
        if (tile[2 * t + 1] != -1.0f)
            L = kvc_fma(kvc_exp(tile[2 * t] - M), tile[2 * t + 1], L);
    tile[0] = M;
    tile[1] = L;
}

/* Grid: entries of the fullest head, heads. tiles 0: kind weights. */
KVC_KERNEL(ring_fuse)(KVC_LISTS(l), kvc_u32 ring, kvc_u32 filled, kvc_i64 now, kvc_i64 recent, kvc_u32 by_sum,
                      KVC_GLOBAL const float *tiles, kvc_u32 tile_stride, KVC_SPAN(float, scores), kvc_u32 stride) {
    kvc_u64 rank = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), slot;
    float F = 0.0f;
    KVC_OPEN_HEAD(head, l, h);
    if (rank >= head.count)
        return;
    slot = kvc_head_slot(&head, (kvc_u32)rank);
    if (kvc_head_position(&head, slot) < recent)
        for (kvc_u32 i = 0; i < filled; i++) {
            float value = kvc_head_column(&head, kvc_ring_column(now, filled, i, ring))[slot];
            if (tiles) {
                KVC_GLOBAL const float *row = tiles + ((kvc_u64)h * filled + i) * tile_stride * 2;
                value = kvc_div(kvc_exp(value - row[0]), row[1]);
            }
            F = by_sum ? F + value : i == 0 ? value : kvc_max(F, value);
        }
    scores_buffer[scores_offset + (kvc_u64)h * stride + rank] = F;
}
