/* scores.h - attention probabilities for policies: their sums over a window, their moments, their sums over all queries
 * so far, and ring buffers of recent queries. Also reads and writes state columns as scores. */

/* The arguments of kernels over rows of probabilities. M and L of row i are at index i * step of maximum and sum. */
#define KVC_PROBABILITIES                                                                                              \
    KVC_LISTS(l), KVC_ARENA, KVC_READS, KVC_SPAN(const float, q), KVC_SPAN(const float, maximum),                      \
        KVC_SPAN(const float, sum), kvc_u64 step, KVC_SPAN(const kvc_i32, positions),                                  \
        KVC_SPAN(const kvc_u32, causal_offset), kvc_u32 queries, kvc_u32 heads, kvc_u32 kv_heads, kvc_u32 window,      \
        float scale, float cap, kvc_u64 seed, kvc_u32 layer, kvc_u32 first_head, float tau, KVC_QUERIES

#define KVC_CAUSAL_OFFSET(query) (causal_offset_buffer ? causal_offset_buffer + causal_offset_offset + (query) : 0)

/* Returns true if a query sees the entry at `index`, whose position is `at`. If causal_offset is 0 (NULL), the query
 * sees the entries whose positions are at most its own. */
KVC_DEVICE kvc_u32 kvc_sees(const struct kvc_head_view *head, kvc_u32 index, kvc_i64 at, kvc_i32 position,
                            KVC_GLOBAL const kvc_u32 *causal_offset, kvc_u32 window) {
    kvc_u32 visible = causal_offset ? (head->count > *causal_offset ? head->count - *causal_offset : 0) : head->count;
    return index < visible && (causal_offset || at <= (kvc_i64)position) &&
           (!window || at > (kvc_i64)position - (kvc_i64)window);
}

/* Returns true if a read list contains an index. */
KVC_DEVICE kvc_u32 kvc_listed(KVC_GLOBAL const kvc_u32 *indices, kvc_u32 count, kvc_u32 index) {
    kvc_u32 low = 0, high = count;
    while (low < high) {
        kvc_u32 middle = (low + high) / 2;
        if (indices[middle] < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && indices[low] == index;
}

/* Returns keyformer's noisy score, or s itself if tau is 0. */
KVC_DEVICE float kvc_noisy(float s, kvc_u64 seed, kvc_u32 layer, kvc_u32 head, kvc_i32 position, float tau) {
    return tau != 0.0f ? kvc_div(s + kvc_gumbel(seed, layer, head, position), tau) : s;
}

/* The rows of queries, and how scores and probabilities are computed from them. */
struct kvc_score_view {
    KVC_GLOBAL const float *q, *maximum, *sum;
    struct kvc_query queries;
    kvc_u64 step, seed;
    kvc_u32 key_type, head_size, layer, first_head;
    float scale, cap, tau;
};
#define KVC_OPEN_SCORES(view)                                                                                          \
    struct kvc_score_view view;                                                                                        \
    view.q = q_buffer + q_offset;                                                                                      \
    view.queries = KVC_QUERY_FROM(0, 0);                                                                               \
    view.maximum = maximum_buffer + maximum_offset;                                                                    \
    view.sum = sum_buffer + sum_offset;                                                                                \
    view.step = step;                                                                                                  \
    view.seed = seed;                                                                                                  \
    view.key_type = key_type;                                                                                          \
    view.head_size = head_size;                                                                                        \
    view.layer = layer;                                                                                                \
    view.first_head = first_head;                                                                                      \
    view.scale = scale;                                                                                                \
    view.cap = cap;                                                                                                    \
    view.tau = tau

/* Returns the score of a row of q for a key, to all work-items of the team that computes it. Nothing is read if the key
 * is 0 (NULL). */
KVC_DEVICE float kvc_entry_score(const struct kvc_score_view *view, kvc_u64 row, kvc_bytes key,
                                 KVC_LOCAL float *shared_sum) {
    const float x =
        kvc_key_dot(view->key_type, view->q, &view->queries, row, key, view->head_size, shared_sum) * view->scale;
    return view->cap != 0.0f ? kvc_capped(x, view->cap) : x;
}

/* Returns the score of query head g for an entry at position `at`, with noise if tau is not 0. */
KVC_DEVICE float kvc_noisy_score(const struct kvc_score_view *view, float score, kvc_u32 g, kvc_i32 at) {
    return kvc_noisy(score, view->seed, view->layer, view->first_head + g, at, view->tau);
}

/* Sums of the probabilities of one entry. */
struct kvc_totals {
    float mass;                       /* for KVC_MASS and KVC_MAXIMA */
    float older, newer;               /* for KVC_ACCUMULATE: sums over past tiles of positions, and over this tile */
    float mean, variance, dispersion; /* for KVC_MOMENTS: pass 1 computes the variance with the mean from pass 0 */
};

/* Adds a query's probability. In mode KVC_MOMENTS, which has a single head, an entry that the query does not see counts
 * as 0. */
KVC_DEVICE void kvc_totals_add(struct kvc_totals *sum, kvc_u32 mode, kvc_u32 pass, float value, kvc_u32 seen,
                               kvc_i32 position, float one) {
    if (mode == KVC_MOMENTS) {
        value = seen ? value : 0.0f;
        if (pass == 0) {
            sum->mean = kvc_plus(sum->mean, value, one);
            sum->dispersion = kvc_plus(sum->dispersion, -(value * kvc_log(value + 1e-10f)), one);
        } else {
            sum->variance = kvc_fma(value - sum->mean, value - sum->mean, sum->variance);
        }
    }
    if (mode == KVC_ACCUMULATE && position % (kvc_i32)KVC_TILE == 0) {
        sum->older = kvc_plus(sum->older, sum->newer, one);
        sum->newer = 0.0f;
    }
    if (mode == KVC_ACCUMULATE && seen)
        sum->newer = kvc_plus(sum->newer, value, one);
    if (mode == KVC_MASS && seen)
        sum->mass = kvc_plus(sum->mass, value, one);
    if (mode == KVC_MAXIMA && seen)
        sum->mass = kvc_max(sum->mass, value);
}

/* Writes a value to the ring buffer's column for this position. For KVC_RING_COUNTS, also writes how many probabilities
 * are low, and updates the column that holds minus the sum of these counts. */
KVC_DEVICE void kvc_ring_put(const struct kvc_head_view *head, kvc_u32 slot, kvc_u32 mode, kvc_u32 first_column,
                             kvc_u32 ring, kvc_i32 position, kvc_u32 seen, float value, float few, float one) {
    const kvc_u32 row = (kvc_u32)position % ring;
    const float expired = mode == KVC_RING_LOGITS ? -kvc_infinity() : 0.0f;
    kvc_head_column(head, first_column + row)[slot] = seen ? value : expired;
    if (mode == KVC_RING_COUNTS) {
        KVC_GLOBAL float *was = kvc_head_column(head, first_column + ring + row) + slot;
        KVC_GLOBAL float *minus = kvc_head_column(head, first_column + 2 * ring) + slot;
        few = seen ? few : 0.0f;
        *minus = kvc_plus(kvc_plus(*minus, *was, one), -few, one);
        *was = few;
    }
}

/* An entry whose probabilities are summed. */
struct kvc_scored_entry {
    kvc_u32 index, slot, here, listed; /* here: the head has this index; listed: the read list has it */
    kvc_i32 at;                        /* the entry's position */
    kvc_bytes key;                     /* 0 (NULL) if the entry is not read */
};
KVC_DEVICE struct kvc_scored_entry kvc_scored_entry_at(const struct kvc_arena_view *arena,
                                                       const struct kvc_head_view *head, kvc_u32 index,
                                                       KVC_GLOBAL const kvc_u32 *read_index, kvc_u32 reads) {
    struct kvc_scored_entry entry;
    entry.index = index;
    entry.here = index < head->count;
    entry.slot = entry.here ? kvc_head_slot(head, index) : 0;
    entry.listed = entry.here && (!read_index || kvc_listed(read_index, reads, index));
    entry.key = entry.listed ? (kvc_bytes)kvc_head_key(arena, head, entry.slot) : (kvc_bytes)0;
    entry.at = entry.here ? kvc_head_position(head, entry.slot) : 0;
    return entry;
}

/* The value of an entry for one query: the sum, or the maximum, over the heads of a group. */
struct kvc_group_value {
    float value, few; /* few: how many of the probabilities are low */
};
/* Computes the value for query heads first .. first + members - 1, whose rows of q begin with `row`. A probability
 * below *share is low. If the query does not see the entry, `key` is 0 (NULL). */
KVC_DEVICE struct kvc_group_value kvc_group_value_of(const struct kvc_score_view *view, kvc_u32 mode, kvc_u64 row,
                                                     kvc_u32 first, kvc_u32 members, kvc_bytes key, kvc_i32 at,
                                                     KVC_GLOBAL const float *share, float one,
                                                     KVC_LOCAL float *shared_sum) {
    struct kvc_group_value sum;
    sum.value = sum.few = 0.0f;
    for (kvc_u32 g = first; g < first + members; g++, row++) {
        float x = kvc_entry_score(view, row, key, shared_sum);
        if (mode != KVC_RING_LOGITS)
            x = kvc_div(kvc_exp(kvc_noisy_score(view, x, g, at) - view->maximum[row * view->step]),
                        view->sum[row * view->step]);
        if (mode == KVC_RING_LOW)
            x = x < *share ? 1.0f : 0.0f;
        if (mode == KVC_RING_COUNTS)
            sum.few = kvc_plus(sum.few, x < *share ? 1.0f : 0.0f, one);
        sum.value = mode == KVC_MAXIMA ? kvc_max(sum.value, x) : kvc_plus(sum.value, x, one);
    }
    return sum;
}

/* Writes the score of an entry and its totals, for KVC_MOMENTS. `low` receives the totals [2, stride] of the entry's
 * query head. */
KVC_DEVICE void kvc_moments_put(const struct kvc_totals *sum, kvc_u32 index, kvc_u32 queries, kvc_u32 counts,
                                float gamma, KVC_GLOBAL float *score, KVC_GLOBAL float *low, kvc_u32 stride) {
    const float variance = queries > 1 ? kvc_div(sum->variance, (float)(queries - 1)) : 0.0f;
    score[index] = counts ? kvc_fma(gamma, variance, sum->mean) : 0.0f;
    low[index] = sum->dispersion;
    low[(kvc_u64)stride + index] = variance;
}

/* Grid: (tiles of the longest head's indices, heads); if by_head is true, (tiles, query heads). */
KVC_GROUP_KERNEL(probabilities)
(KVC_PROBABILITIES, kvc_u32 mode, kvc_u32 by_head, KVC_SPAN(float, scores), kvc_u32 stride, kvc_u32 first_column,
 kvc_u32 ring, KVC_GLOBAL float *low, kvc_u64 tail, float gamma) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS];
    kvc_u32 group = heads / kv_heads, h = by_head ? KVC_GROUP_ID(1) / group : KVC_GROUP_ID(1);
    kvc_u32 first = KVC_GROUP_ID(0) * KVC_TILE, worker = KVC_LOCAL_ID() % KVC_WORKERS;
    kvc_u32 query_head = by_head ? KVC_GROUP_ID(1) : h * group, members = by_head ? 1 : group;
    const kvc_u32 to_scores = mode == KVC_MASS || mode == KVC_MAXIMA;
    const kvc_u32 to_ring = !to_scores && mode != KVC_ACCUMULATE && mode != KVC_MOMENTS;
    const float one = KVC_ONE(heads);
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    KVC_OPEN_SCORES(view);
    KVC_GLOBAL float *score = scores_buffer + scores_offset + (kvc_u64)KVC_GROUP_ID(1) * stride;
    KVC_GLOBAL const kvc_u32 *indices = read_count ? read_index + (kvc_u64)h * read_stride : 0;
    for (kvc_u32 from = 0; from < KVC_TILE && first + from < head.count; from += KVC_TEAMS) {
        const struct kvc_scored_entry entry = kvc_scored_entry_at(
            &arena, &head, first + from + KVC_LOCAL_ID() / KVC_WORKERS, indices, read_count ? read_count[h] : 0);
        struct kvc_totals sum = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        if (mode == KVC_ACCUMULATE && entry.here) {
            sum.older = kvc_head_column(&head, first_column)[entry.slot];
            sum.newer = kvc_head_column(&head, first_column + 1)[entry.slot];
        }
        for (kvc_u32 pass = 0; pass < (mode == KVC_MOMENTS ? 2u : 1u); pass++) {
            for (kvc_u32 query = 0; query < queries; query++) {
                kvc_i32 position = positions_buffer[positions_offset + query];
                kvc_u32 seen =
                    entry.listed && kvc_sees(&head, entry.index, entry.at, position, KVC_CAUSAL_OFFSET(query), window);
                const struct kvc_group_value v = kvc_group_value_of(
                    &view, mode, (kvc_u64)query * heads + query_head, query_head, members,
                    seen ? entry.key : (kvc_bytes)0, entry.at, low + (kvc_u64)query * kv_heads + h, one, shared_sum);
                kvc_totals_add(&sum, mode, pass, v.value, seen, position, one);
                if (to_ring && entry.here && worker == 0)
                    kvc_ring_put(&head, entry.slot, mode, first_column, ring, position, seen, v.value, v.few, one);
            }
            if (pass == 0)
                sum.mean = kvc_div(sum.mean, (float)queries);
        }
        if (!entry.here || worker != 0)
            continue;
        if (to_scores)
            score[entry.index] = sum.mass;
        if (mode == KVC_ACCUMULATE) {
            kvc_head_column(&head, first_column)[entry.slot] = sum.older;
            kvc_head_column(&head, first_column + 1)[entry.slot] = sum.newer;
        }
        if (mode == KVC_MOMENTS)
            kvc_moments_put(&sum, entry.index, queries, entry.index + tail < head.count, gamma, score,
                            low + (kvc_u64)query_head * 2 * stride, stride);
    }
}

/* A work-item computes one total of a query head, as a 32-lane sum over indices. */
KVC_KERNEL(moment_lanes)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 heads, kvc_u32 kv_heads, kvc_u64 tail, KVC_GLOBAL const float *values,
 kvc_u32 stride, KVC_SPAN(float, totals)) {
    kvc_u64 i = KVC_GLOBAL_ID();
    kvc_u32 indices;
    float lane[32], one = KVC_ONE(heads);
    if (i >= 2 * (kvc_u64)heads)
        return;
    indices = count[i / 2 / (heads / kv_heads)];
    indices = indices > tail ? indices - (kvc_u32)tail : 0;
    for (int j = 0; j < 32; j++)
        lane[j] = 0.0f;
    for (kvc_u32 r = 0; r < indices; r++)
        lane[r % 32] = kvc_plus(lane[r % 32], values[i * stride + r], one);
    KVC_TREE32(lane);
    totals_buffer[totals_offset + i] = lane[0];
}

/* Grid: (KV heads, queries). Sets low [queries, kv_heads] to 1 divided by the number of entries that the query sees. */
KVC_GROUP_KERNEL(seen_shares)
(KVC_LISTS(l), KVC_READS, KVC_SPAN(const kvc_i32, positions), KVC_SPAN(const kvc_u32, causal_offset), kvc_u32 window,
 KVC_GLOBAL float *low, kvc_u32 kv_heads) {
    KVC_SHARED kvc_u32 shared_sum[KVC_GROUP];
    kvc_u32 h = KVC_GROUP_ID(0), query = KVC_GROUP_ID(1), places, seen = 0, all;
    KVC_OPEN_HEAD(head, l, h);
    places = read_count ? read_count[h] : head.count;
    for (kvc_u32 from = 0; from < places; from += KVC_GROUP) {
        kvc_u32 place = from + KVC_LOCAL_ID(), index = 0, sees = 0;
        if (place < places) {
            index = read_count ? read_index[(kvc_u64)h * read_stride + place] : place;
            sees = index < head.count &&
                   kvc_sees(&head, index, kvc_head_position(&head, kvc_head_slot(&head, index)),
                            positions_buffer[positions_offset + query], KVC_CAUSAL_OFFSET(query), window);
        }
        kvc_group_before(sees, &all, shared_sum);
        seen += all;
    }
    if (KVC_LOCAL_ID() == 0)
        low[(kvc_u64)query * kv_heads + h] = kvc_div(1.0f, (float)seen);
}

/* The scores of a tile, in memory that a group shares. */
struct kvc_noise_tile {
    float score[KVC_TILE], lanes[32], most[32];
    kvc_u32 sees[KVC_TILE], any; /* any: true if the query sees an entry of the tile */
};

/* Sets most[0] to the maximum score of the entries that the query sees, of `count` entries. Also sets `any`. */
KVC_DEVICE void kvc_noise_maximum(KVC_LOCAL struct kvc_noise_tile *tile, kvc_u32 count) {
    for (kvc_u32 i = KVC_LOCAL_ID(); i < 32; i += KVC_GROUP) {
        float m = -kvc_infinity();
        tile->lanes[i] = -1.0f;
        for (kvc_u32 j = i; j < count; j += 32)
            if (tile->sees[j]) {
                m = kvc_max(m, tile->score[j]);
                tile->lanes[i] = 0.0f;
            }
        tile->most[i] = m;
    }
    KVC_BARRIER();
    if (KVC_LOCAL_ID() == 0) {
        kvc_u32 any = 0;
        for (kvc_u32 i = 0; i < 32; i++) {
            any |= tile->lanes[i] == 0.0f;
            tile->most[0] = kvc_max(tile->most[0], tile->most[i]);
        }
        tile->any = any;
    }
    KVC_BARRIER();
}

/* Sets the lanes to partial sums of exp(score - most[0]). */
KVC_DEVICE void kvc_noise_lanes(KVC_LOCAL struct kvc_noise_tile *tile, kvc_u32 count, float one) {
    for (kvc_u32 i = KVC_LOCAL_ID(); i < 32; i += KVC_GROUP) {
        float lane = 0.0f;
        for (kvc_u32 j = i; j < count; j += 32)
            if (tile->sees[j])
                lane = kvc_plus(lane, kvc_exp(tile->score[j] - tile->most[0]), one);
        tile->lanes[i] = lane;
    }
    KVC_BARRIER();
}

/* Grid: (tiles, query heads, queries). Computes m and l of one tile of one query's noisy scores. They are stored as
 * pairs [queries, H, tiles]. l is -1 if the query sees no entry of the tile. */
KVC_GROUP_KERNEL(noise_tiles)(KVC_PROBABILITIES, KVC_GLOBAL float *tiles, kvc_u32 stride) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS];
    KVC_SHARED struct kvc_noise_tile tile;
    kvc_u32 g = KVC_GROUP_ID(1), h = g / (heads / kv_heads), query = KVC_GROUP_ID(2);
    kvc_u32 first = KVC_GROUP_ID(0) * KVC_TILE, count, places;
    kvc_u64 row = (kvc_u64)query * heads + g;
    kvc_i32 position = positions_buffer[positions_offset + query];
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    KVC_OPEN_SCORES(view);
    places = read_count ? read_count[h] : head.count;
    count = places > first ? (places - first < KVC_TILE ? places - first : KVC_TILE) : 0;
    for (kvc_u32 from = 0; from < count; from += KVC_TEAMS) {
        kvc_u32 j = from + KVC_LOCAL_ID() / KVC_WORKERS, place = first + j;
        kvc_u32 index = j < count ? (read_count ? read_index[(kvc_u64)h * read_stride + place] : place) : 0;
        kvc_u32 here = j < count && index < head.count, slot = here ? kvc_head_slot(&head, index) : 0;
        kvc_i32 at = here ? kvc_head_position(&head, slot) : 0;
        kvc_u32 seen = here && kvc_sees(&head, index, at, position, KVC_CAUSAL_OFFSET(query), window);
        float score =
            kvc_entry_score(&view, row, seen ? (kvc_bytes)kvc_head_key(&arena, &head, slot) : (kvc_bytes)0, shared_sum);
        if (j < count && KVC_LOCAL_ID() % KVC_WORKERS == 0) {
            tile.score[j] = kvc_noisy_score(&view, score, g, at);
            tile.sees[j] = seen;
        }
    }
    KVC_BARRIER();
    kvc_noise_maximum(&tile, count);
    kvc_noise_lanes(&tile, count, KVC_ONE(heads));
    if (KVC_LOCAL_ID() == 0) {
        KVC_GLOBAL float *to = tiles + (row * stride + KVC_GROUP_ID(0)) * 2;
        KVC_TREE32(tile.lanes);
        to[0] = tile.most[0];
        to[1] = tile.any ? tile.lanes[0] : -1.0f;
    }
}

#if KVC_WORKERS == 1
/* Returns true if the 16 entries from `index` on have consecutive slots. *slot receives the first slot. */
KVC_DEVICE bool kvc_neighbours(const struct kvc_head_view *head, kvc_u64 index, kvc_u64 *slot) {
    const uint16 place = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    *slot = kvc_head_slot(head, (kvc_u32)index);
    return !head->order || all(vload16(0, head->order + index) == (uint16)((kvc_u32)*slot) + place);
}
#endif

/* Grid: (runs of the longest head's indices, heads). column_scores adds up `columns` columns from column `first` on;
 * scores_column below writes scores to a column. */
KVC_KERNEL(column_scores)(KVC_LISTS(l), kvc_u32 first, kvc_u32 columns, KVC_SPAN(float, scores), kvc_u32 stride) {
    KVC_OPEN_HEAD(head, l, KVC_GROUP_ID(1));
    KVC_GLOBAL float *score = scores_buffer + scores_offset + (kvc_u64)KVC_GROUP_ID(1) * stride;
    KVC_GLOBAL const float *column = kvc_head_column(&head, first);
    const float one = KVC_ONE(columns);
    kvc_u64 r = KVC_GLOBAL_ID() * KVC_RUN, end = r + KVC_RUN < head.count ? r + KVC_RUN : head.count, slot;
#if KVC_WORKERS == 1
    for (; r + 16 <= end && kvc_neighbours(&head, r, &slot); r += 16) {
        float16 sum = vload16(0, column + slot);
        for (kvc_u64 c = 1; c < columns; c++)
            sum = kvc_plus16(sum, vload16(0, column + c * head.slots + slot), one);
        vstore16(sum, 0, score + r);
    }
#endif
    for (; r < end; r++) {
        slot = kvc_head_slot(&head, (kvc_u32)r);
        float sum = column[slot];
        for (kvc_u64 c = 1; c < columns; c++)
            sum = kvc_plus(sum, column[c * head.slots + slot], one);
        score[r] = sum;
    }
}
KVC_KERNEL(scores_column)(KVC_LISTS(l), kvc_u32 column, KVC_SPAN(const float, scores), kvc_u32 stride) {
    KVC_OPEN_HEAD(head, l, KVC_GROUP_ID(1));
    KVC_GLOBAL const float *score = scores_buffer + scores_offset + (kvc_u64)KVC_GROUP_ID(1) * stride;
    KVC_GLOBAL float *to = kvc_head_column(&head, column);
    kvc_u64 r = KVC_GLOBAL_ID() * KVC_RUN, end = r + KVC_RUN < head.count ? r + KVC_RUN : head.count;
#if KVC_WORKERS == 1
    for (kvc_u64 slot; r + 16 <= end && kvc_neighbours(&head, r, &slot); r += 16)
        vstore16(vload16(0, score + r), 0, to + slot);
#endif
    for (; r < end; r++)
        to[kvc_head_slot(&head, (kvc_u32)r)] = score[r];
}

/* ---- ring buffers of recent queries ---- */

/* Returns the column of row i. Row 0 is the oldest of the newest `filled` rows before position `now`. */
KVC_DEVICE kvc_u32 kvc_ring_column(kvc_i64 now, kvc_u32 filled, kvc_u32 i, kvc_u32 ring) {
    return (kvc_u32)((now - (kvc_i64)filled + (kvc_i64)i) % (kvc_i64)ring);
}

/* Grid: (tiles, rows of the ring buffer, heads). Computes m and l of one tile of one row's logits, over the entries at
 * positions below `recent`. l is -1 if the row's query saw none of these. tiles is [heads][filled][stride] pairs. */
KVC_KERNEL(ring_tiles)
(KVC_LISTS(l), kvc_u32 first_column, kvc_u32 ring, kvc_u32 filled, kvc_i64 now, kvc_i64 recent, KVC_GLOBAL float *tiles,
 kvc_u32 stride) {
    kvc_u64 tile = KVC_GLOBAL_ID();
    kvc_u32 i = KVC_GROUP_ID(1), h = KVC_GROUP_ID(2), first = (kvc_u32)tile * KVC_TILE, end, any = 0;
    KVC_GLOBAL float *to = tiles + (((kvc_u64)h * filled + i) * stride + tile) * 2;
    KVC_GLOBAL const float *row;
    float m = -kvc_infinity(), lane[32], one = KVC_ONE(ring);
    KVC_OPEN_HEAD(head, l, h);
    if (tile >= stride)
        return;
    end = first >= head.count ? first : head.count - first < KVC_TILE ? head.count : first + KVC_TILE;
    row = kvc_head_column(&head, first_column + kvc_ring_column(now, filled, i, ring));
    for (kvc_u32 r = first; r < end; r++) {
        kvc_u32 slot = kvc_head_slot(&head, r);
        if (kvc_head_position(&head, slot) < recent) {
            m = kvc_max(m, row[slot]);
            any |= row[slot] != -kvc_infinity();
        }
    }
    for (int j = 0; j < 32; j++)
        lane[j] = 0.0f;
    for (kvc_u32 r = first; any && r < end; r++) {
        kvc_u32 slot = kvc_head_slot(&head, r);
        if (kvc_head_position(&head, slot) < recent)
            lane[r % 32] = kvc_plus(lane[r % 32], kvc_exp(row[slot] - m), one);
    }
    KVC_TREE32(lane);
    to[0] = m;
    to[1] = any ? lane[0] : -1.0f;
}

/* A work-item merges the tiles of one row of one head. M and L replace m and l of the row's first tile. */
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

/* Grid: (runs of the longest head's indices, heads). tiles is 0 (NULL) if the rows hold probabilities. */
KVC_KERNEL(ring_fuse)
(KVC_LISTS(l), kvc_u32 first_column, kvc_u32 ring, kvc_u32 filled, kvc_i64 now, kvc_i64 recent, kvc_u32 by_sum,
 KVC_GLOBAL const float *tiles, kvc_u32 tile_stride, KVC_SPAN(float, scores), kvc_u32 stride) {
    kvc_u32 h = KVC_GROUP_ID(1), column = kvc_ring_column(now, filled, 0, ring), n = 0;
    kvc_u32 slot[KVC_RUN], fused[KVC_RUN];
    float F[KVC_RUN], one = KVC_ONE(ring);
    KVC_OPEN_HEAD(head, l, h);
    KVC_EACH_OF_RUN(index, head.count) {
        slot[n] = kvc_head_slot(&head, (kvc_u32)index);
        fused[n] = kvc_head_position(&head, slot[n]) < recent;
        F[n++] = 0.0f;
    }
    for (kvc_u32 i = 0; i < filled && n; i++, column = column + 1 == ring ? 0 : column + 1) {
        KVC_GLOBAL const float *values = kvc_head_column(&head, first_column + column);
        for (kvc_u32 j = 0; j < n; j++) {
            float value = values[slot[j]];
            if (tiles) {
                KVC_GLOBAL const float *row = tiles + ((kvc_u64)h * filled + i) * tile_stride * 2;
                value = row[1] == 0.0f ? 0.0f : kvc_div(kvc_exp(value - row[0]), row[1]);
            }
            F[j] = by_sum ? kvc_plus(F[j], value, one) : i == 0 ? value : kvc_max(F[j], value);
        }
    }
    for (kvc_u32 j = 0; j < n; j++)
        scores_buffer[scores_offset + (kvc_u64)h * stride + KVC_GLOBAL_ID() * KVC_RUN + j] = fused[j] ? F[j] : 0.0f;
}
