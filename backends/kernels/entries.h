/* entries.h - scores of entries that need no query: entry_scores, norm_shares, lag_scores, mix_redundancy,
 * output_norms, weigh_scores. */

/* Returns the lanes of dot32(x, x) of a team's entry. If the team has no entry (x is 0), nothing is read. */
KVC_DEVICE struct kvc_lanes kvc_lanes_square_entry(kvc_u32 type, KVC_GLOBAL const kvc_u8 *x, kvc_u32 d) {
    kvc_u32 worker = KVC_LOCAL_ID() % KVC_WORKERS, c = 0;
    struct kvc_lanes sum = kvc_lanes_zero();
    if (!x)
        return sum;
    for (; c + 32 <= d; c += 32) {
        struct kvc_lanes p = kvc_lanes_entry(type, x, c, worker);
        sum = kvc_lanes_fma(p, p, sum);
    }
    if (c < d) {
        struct kvc_lanes p = kvc_lanes_entry_tail(type, x, c, worker, d - c);
        sum = kvc_lanes_fma_tail(p, p, sum, d - c);
    }
    return sum;
}

/* Grid: (tiles of the longest head's indices, heads). `kind` is one of KVC_ENTRIES_*. u [H_kv, d] is needed only for
 * KVC_ENTRIES_APART and KVC_ENTRIES_FILTER. */
KVC_GROUP_KERNEL(entry_scores)
(KVC_LISTS(l), KVC_ARENA, kvc_u32 kind, kvc_u32 layer, kvc_u32 first_list, kvc_u64 seed, KVC_SPAN(const float, u),
 KVC_SPAN(float, scores), kvc_u32 stride) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS];
    kvc_u32 h = KVC_GROUP_ID(1), first = KVC_GROUP_ID(0) * KVC_TILE;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    for (kvc_u32 from = 0; from < KVC_TILE && first + from < head.count; from += KVC_TEAMS) {
        kvc_u32 index = first + from + KVC_LOCAL_ID() / KVC_WORKERS, here = index < head.count;
        kvc_u32 slot = here ? kvc_head_slot(&head, index) : 0;
        kvc_bytes key = here && kind != KVC_ENTRIES_DRAW ? (kvc_bytes)kvc_head_key(&arena, &head, slot) : (kvc_bytes)0;
        float score = kvc_sqrt(kvc_lanes_sum(kvc_lanes_square_entry(key_type, key, head_size), shared_sum));
        if (kind == KVC_ENTRIES_APART || kind == KVC_ENTRIES_FILTER) {
            KVC_GLOBAL const float *with = u_buffer + u_offset + (kvc_u64)h * head_size;
            float dot = kvc_lanes_sum(kvc_lanes_dot_entry(key_type, with, key, head_size), shared_sum);
            score = kind == KVC_ENTRIES_FILTER ? dot : score == 0.0f ? 0.0f : -kvc_div(dot, score);
        }
        if (kind == KVC_ENTRIES_NORM)
            score = -score;
        if (kind == KVC_ENTRIES_DRAW && here)
            score = (float)(kvc_philox4x32(layer, first_list + h, (kvc_u32)kvc_head_position(&head, slot), 1u, seed)
                                .word[0] >>
                            8);
        if (here && KVC_LOCAL_ID() % KVC_WORKERS == 0)
            scores_buffer[scores_offset + (kvc_u64)h * stride + index] = score;
    }
}

/* Grid: (tiles x channels, heads). For each tile, writes the sum of its keys, each divided by its length, to sums
 * [H_kv, tiles, d]. */
KVC_KERNEL(entry_directions)
(KVC_LISTS(l), KVC_ARENA, KVC_SPAN(const float, scores), kvc_u32 stride, KVC_SPAN(float, sums), kvc_u32 tiles) {
    kvc_u64 id = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), c = (kvc_u32)(id % head_size), first = (kvc_u32)(id / head_size) * KVC_TILE;
    KVC_GLOBAL const float *length = scores_buffer + scores_offset + (kvc_u64)h * stride;
    const float one = KVC_ONE(tiles);
    float sum = 0.0f;
    if (id >= (kvc_u64)tiles * head_size)
        return;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    for (kvc_u32 index = first; index < head.count && index < first + KVC_TILE; index++)
        if (length[index] != 0.0f)
            sum = kvc_plus(sum,
                           kvc_div(kvc_entry_value(key_type, kvc_head_key(&arena, &head, kvc_head_slot(&head, index)),
                                                   c, head_size),
                                   length[index]),
                           one);
    sums_buffer[sums_offset + (kvc_u64)h * tiles * head_size + id] = sum;
}

/* Grid: (channels, heads). Adds up the sums of a head's tiles to u [H_kv, d]. */
KVC_KERNEL(entry_direction)
(KVC_GLOBAL const kvc_u32 *count, KVC_SPAN(const float, sums), kvc_u32 tiles, KVC_GLOBAL float *u, kvc_u32 d) {
    kvc_u64 c = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), mine = (count[h] + KVC_TILE - 1) / KVC_TILE;
    const float one = KVC_ONE(tiles);
    float sum = 0.0f;
    if (c >= d)
        return;
    for (kvc_u32 t = 0; t < mine; t++)
        sum = kvc_plus(sum, sums_buffer[sums_offset + ((kvc_u64)h * tiles + t) * d + c], one);
    u[(kvc_u64)h * d + c] = sum;
}

/* ---- norm_shares ---- */

/* Grid: (tiles of the longest head's indices, heads). Writes the squared lengths of keys or values to squares [H_kv,
 * stride]. */
KVC_GROUP_KERNEL(norm_squares)
(KVC_LISTS(l), KVC_ARENA, kvc_u32 values, KVC_SPAN(float, squares), kvc_u32 stride) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS];
    kvc_u32 h = KVC_GROUP_ID(1), first = KVC_GROUP_ID(0) * KVC_TILE;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    for (kvc_u32 from = 0; from < KVC_TILE && first + from < head.count; from += KVC_TEAMS) {
        kvc_u32 index = first + from + KVC_LOCAL_ID() / KVC_WORKERS, here = index < head.count;
        kvc_u32 slot = here ? kvc_head_slot(&head, index) : 0;
        kvc_bytes x = !here    ? (kvc_bytes)0
                      : values ? (kvc_bytes)kvc_head_value(&arena, &head, slot)
                               : (kvc_bytes)kvc_head_key(&arena, &head, slot);
        float square = kvc_lanes_sum(kvc_lanes_square_entry(values ? value_type : key_type, x, head_size), shared_sum);
        if (here && KVC_LOCAL_ID() % KVC_WORKERS == 0)
            squares_buffer[squares_offset + (kvc_u64)h * stride + index] = square;
    }
}

/* Returns the sum of a chunk's squares, or 1 if the list has no chunks. */
KVC_DEVICE float kvc_chunk_total(KVC_GLOBAL const float *x, kvc_u32 first, kvc_u32 end, kvc_u32 chunk, float one) {
    float sum = 0.0f;
    for (kvc_u32 r = first; r < end; r++)
        sum = kvc_plus(sum, x[r], one);
    return chunk ? sum : 1.0f;
}

/* Grid: (chunks, or indices if there are none; heads). At first, `scores` has the squared lengths of the keys or, for
 * KVC_SHARE_VALUES, of the values. The kernel replaces them by scores. For kinds that use both keys and values,
 * `squares` [H_kv, stride] has the squared lengths of the values. */
KVC_KERNEL(norm_shares)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 kind, kvc_u32 chunk, KVC_GLOBAL const float *squares, KVC_SPAN(float, scores),
 kvc_u32 stride) {
    kvc_u32 h = KVC_GROUP_ID(1), wide = chunk ? chunk : 1, n = count[h], first, end;
    kvc_u64 id = KVC_GLOBAL_ID();
    KVC_GLOBAL float *x = scores_buffer + scores_offset + (kvc_u64)h * stride;
    KVC_GLOBAL const float *y = squares + (kvc_u64)h * stride;
    float of_x, of_y = 1.0f, one = KVC_ONE(stride);
    if (id * wide >= n)
        return;
    first = (kvc_u32)id * wide;
    end = n - first > wide ? first + wide : n;
    of_x = kvc_chunk_total(x, first, end, chunk, one);
    if (kind == KVC_SHARES_MEAN || kind == KVC_SHARES_PRODUCT)
        of_y = kvc_chunk_total(y, first, end, chunk, one);
    for (kvc_u32 r = first; r < end; r++) {
        float a = of_x == 0.0f ? 0.0f : kvc_div(x[r], of_x);
        if (kind == KVC_SHARES_MEAN)
            a = (a + (of_y == 0.0f ? 0.0f : kvc_div(y[r], of_y))) * 0.5f;
        else if (kind == KVC_SHARES_PRODUCT)
            a = a * (of_y == 0.0f ? 0.0f : kvc_div(y[r], of_y));
        x[r] = a;
    }
}

/* ---- lag_scores ---- */

/* Returns the number of partitions of a head. */
KVC_DEVICE kvc_u32 kvc_lag_parts(kvc_u32 count, kvc_u32 first, kvc_u32 lag) {
    return count > first ? (count - first) / lag : 0;
}
/* Returns true if an index is in a partition that is followed by another one. */
KVC_DEVICE kvc_u32 kvc_lag_scored(kvc_u32 index, kvc_u32 count, kvc_u32 first, kvc_u32 lag) {
    return index >= first && (index - first) / lag + 1 < kvc_lag_parts(count, first, lag);
}

/* Grid: (partitions x channels, heads, 2: keys and values). Writes bounds [2, H_kv, parts, low and high, d] of each
 * partition except the first. */
KVC_KERNEL(lag_bounds)
(KVC_LISTS(l), KVC_ARENA, kvc_u32 first, kvc_u32 lag, KVC_GLOBAL float *bounds, kvc_u32 parts, kvc_u32 heads) {
    kvc_u64 id = KVC_GLOBAL_ID(), to;
    kvc_u32 h = KVC_GROUP_ID(1), side = KVC_GROUP_ID(2), c = (kvc_u32)(id % head_size), p = (kvc_u32)(id / head_size);
    float low = 0.0f, high = 0.0f;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    if (id >= (kvc_u64)parts * head_size || p == 0 || p >= kvc_lag_parts(head.count, first, lag))
        return;
    for (kvc_u32 i = 0; i < lag; i++) {
        kvc_u32 slot = kvc_head_slot(&head, first + p * lag + i);
        float x = kvc_entry_value(side ? value_type : key_type,
                                  side ? kvc_head_value(&arena, &head, slot) : kvc_head_key(&arena, &head, slot), c,
                                  head_size);
        low = i == 0 || x < low ? x : low;
        high = i == 0 || x > high ? x : high;
    }
    to = (((kvc_u64)side * heads + h) * parts + p) * 2 * head_size + c;
    bounds[to] = low;
    bounds[to + head_size] = high;
}

KVC_DEVICE float kvc_lag_scaled(float x, float low, float high) {
    return high > low ? kvc_div(x - low, high - low) : 0.0f;
}

/* Grid: (indices, heads, 2: keys and values). Writes s, a standard deviation, to `spread` [2, H_kv, stride]. */
KVC_KERNEL(lag_spread)
(KVC_LISTS(l), KVC_ARENA, kvc_u32 first, kvc_u32 lag, KVC_GLOBAL const float *bounds, kvc_u32 parts, kvc_u32 heads,
 KVC_SPAN(float, spread), kvc_u32 stride) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), side = KVC_GROUP_ID(2), slot, p;
    kvc_bytes x;
    KVC_GLOBAL const float *low;
    float lane[32], mean, one = KVC_ONE(parts);
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    if (index >= head.count || !kvc_lag_scored((kvc_u32)index, head.count, first, lag))
        return;
    p = ((kvc_u32)index - first) / lag + 1;
    slot = kvc_head_slot(&head, (kvc_u32)index);
    x = side ? kvc_head_value(&arena, &head, slot) : kvc_head_key(&arena, &head, slot);
    low = bounds + (((kvc_u64)side * heads + h) * parts + p) * 2 * head_size;
    for (int i = 0; i < 32; i++)
        lane[i] = 0.0f;
    for (kvc_u32 c = 0; c < head_size; c++)
        lane[c % 32] = kvc_plus(
            lane[c % 32],
            kvc_lag_scaled(kvc_entry_value(side ? value_type : key_type, x, c, head_size), low[c], low[head_size + c]),
            one);
    KVC_TREE32(lane);
    mean = kvc_div(lane[0], (float)head_size);
    for (int i = 0; i < 32; i++)
        lane[i] = 0.0f;
    for (kvc_u32 c = 0; c < head_size; c++) {
        float e =
            kvc_lag_scaled(kvc_entry_value(side ? value_type : key_type, x, c, head_size), low[c], low[head_size + c]) -
            mean;
        lane[c % 32] = kvc_fma(e, e, lane[c % 32]);
    }
    KVC_TREE32(lane);
    spread_buffer[spread_offset + ((kvc_u64)side * heads + h) * stride + index] =
        head_size > 1 ? kvc_sqrt(kvc_div(lane[0], (float)(head_size - 1))) : 0.0f;
}

/* Grid: (partitions, heads). Replaces s of each key by the mean of two softmaxes: one over s of the partition's
 * keys, the other over s of the partition's values. */
KVC_KERNEL(lag_raw)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 first, kvc_u32 lag, kvc_u32 heads, KVC_SPAN(float, spread), kvc_u32 stride) {
    kvc_u64 p = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1);
    float lane[32], M[2], L[2], one = KVC_ONE(lag);
    KVC_OPEN(float, spread);
    if (p + 1 >= kvc_lag_parts(count[h], first, lag))
        return;
    for (kvc_u32 side = 0; side < 2; side++) {
        KVC_GLOBAL const float *s = spread + ((kvc_u64)side * heads + h) * stride + first + p * lag;
        M[side] = -kvc_infinity();
        for (int i = 0; i < 32; i++)
            lane[i] = 0.0f;
        for (kvc_u32 i = 0; i < lag; i++)
            M[side] = kvc_max(M[side], s[i]);
        for (kvc_u32 i = 0; i < lag; i++)
            lane[i % 32] = kvc_plus(lane[i % 32], kvc_exp(s[i] - M[side]), one);
        KVC_TREE32(lane);
        L[side] = lane[0];
    }
    for (kvc_u32 i = 0; i < lag; i++) {
        kvc_u64 key = (kvc_u64)h * stride + first + p * lag + i, value = key + (kvc_u64)heads * stride;
        float a = kvc_div(kvc_exp(spread[key] - M[0]), L[0]), b = kvc_div(kvc_exp(spread[value] - M[1]), L[1]);
        spread[key] = (a + b) * 0.5f;
    }
}

/* Grid: (indices, heads). */
KVC_KERNEL(lag_scores)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 first, kvc_u32 lag, kvc_u32 across, KVC_SPAN(const float, raw),
 KVC_SPAN(float, scores), kvc_u32 stride) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), below = 0, key, begin;
    KVC_GLOBAL float *score = scores_buffer + scores_offset + (kvc_u64)h * stride;
    KVC_GLOBAL const float *raw = raw_buffer + raw_offset + (kvc_u64)h * stride;
    if (index >= count[h])
        return;
    if (!kvc_lag_scored((kvc_u32)index, count[h], first, lag)) {
        score[index] = (float)lag;
        return;
    }
    key = kvc_score_key(raw[index]);
    begin = (kvc_u32)index - ((kvc_u32)index - first) % lag;
    for (kvc_u32 j = begin; !across && j < begin + lag; j++) {
        kvc_u32 other = kvc_score_key(raw[j]);
        below += other < key || (other == key && j > index);
    }
    score[index] = across ? raw[index] : (float)below;
}

/* ---- mix_redundancy; expected_scores uses the first two kernels too ---- */

/* Grid: (indices x channels, heads). Writes keys [H_kv, indices, d], rotated back if cosine is given. */
KVC_KERNEL(entry_keys)
(KVC_LISTS(l), KVC_ARENA, KVC_SPAN(const float, cosine), KVC_SPAN(const float, sine), kvc_u32 rotary,
 KVC_SPAN(float, keys), kvc_u32 indices) {
    kvc_u64 id = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), c = (kvc_u32)(id % head_size), index = (kvc_u32)(id / head_size), pairs = rotary / 2;
    kvc_bytes key;
    float x;
    KVC_OPEN(const float, cosine);
    KVC_OPEN(const float, sine);
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    if (id / head_size >= head.count)
        return;
    key = kvc_head_key(&arena, &head, kvc_head_slot(&head, index));
    x = kvc_entry_value(key_type, key, c, head_size);
    if (cosine_buffer && c < pairs)
        x = kvc_fma(kvc_entry_value(key_type, key, c + pairs, head_size), sine[c], x * cosine[c]);
    else if (cosine_buffer && c < 2 * pairs)
        x = kvc_fma(-kvc_entry_value(key_type, key, c - pairs, head_size), sine[c - pairs], x * cosine[c - pairs]);
    keys_buffer[keys_offset + (kvc_u64)h * indices * head_size + id] = x;
}

/* Grid: (rows). `values` is [rows, stride], and a KV head has `group` rows. Computes M and L over the indices from
 * `first` on and writes them to `totals` [rows, 2]. */
KVC_KERNEL(index_totals)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 rows, kvc_u32 group, kvc_u32 first, KVC_SPAN(const float, values),
 kvc_u32 stride, KVC_SPAN(float, totals)) {
    kvc_u64 row = KVC_GLOBAL_ID();
    KVC_GLOBAL const float *value = values_buffer + values_offset + row * stride;
    float M = -kvc_infinity(), L = 0.0f, one = KVC_ONE(rows);
    kvc_u32 n;
    if (row >= rows)
        return;
    n = count[row / group];
    for (kvc_u32 r = first; r < n; r++)
        M = kvc_max(M, value[r]);
    for (kvc_u32 tile = 0; tile < n; tile += KVC_TILE) {
        float lane[32];
        for (int i = 0; i < 32; i++)
            lane[i] = 0.0f;
        for (kvc_u32 r = tile < first ? first : tile; r < n && r < tile + KVC_TILE; r++)
            lane[r % 32] = kvc_plus(lane[r % 32], kvc_exp(value[r] - M), one);
        KVC_TREE32(lane);
        L = kvc_plus(L, lane[0], one);
    }
    totals_buffer[totals_offset + 2 * row] = M;
    totals_buffer[totals_offset + 2 * row + 1] = L;
}

/* Returns the cosine of a team's two keys, or 0 if a length is 0. All teams of the group must call this function
 * together. */
KVC_DEVICE float kvc_likeness(kvc_bytes a, kvc_bytes b, float lengths, kvc_u32 d, KVC_LOCAL float *shared_sum) {
    float dot = kvc_lanes_sum(kvc_lanes_dot_entry(KVC_K_F32, (KVC_GLOBAL const float *)a, b, d), shared_sum);
    return lengths == 0.0f ? 0.0f : kvc_div(dot, lengths);
}

/* Grid: (indices / KVC_TEAMS, heads). Sets last [H_kv, stride] of each key to the highest index of another key whose
 * cosine with it is above the threshold. */
KVC_GROUP_KERNEL(redundancy_last)
(KVC_GLOBAL const kvc_u32 *count, float threshold, KVC_SPAN(const float, keys), kvc_u32 indices, kvc_u32 d,
 KVC_SPAN(const float, length), KVC_SPAN(kvc_u32, last), kvc_u32 stride) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS];
    kvc_u32 h = KVC_GROUP_ID(1), n = count[h], found = 0;
    kvc_u32 i = KVC_GROUP_ID(0) * KVC_TEAMS + KVC_LOCAL_ID() / KVC_WORKERS, here = i < n;
    KVC_GLOBAL const float *key = keys_buffer + keys_offset + (kvc_u64)h * indices * d;
    KVC_GLOBAL const float *long_by = length_buffer + length_offset + (kvc_u64)h * stride;
    for (kvc_u32 j = 0; j < n; j++) {
        float c = kvc_likeness((kvc_bytes)(key + (kvc_u64)(here ? i : 0) * d),
                               here ? (kvc_bytes)(key + (kvc_u64)j * d) : (kvc_bytes)0,
                               here ? long_by[i] * long_by[j] : 0.0f, d, shared_sum);
        found = (j == i ? 0.0f : c) > threshold ? j : found;
    }
    if (here && KVC_LOCAL_ID() % KVC_WORKERS == 0)
        last_buffer[last_offset + (kvc_u64)h * stride + i] = found;
}

/* Grid: (indices / KVC_TEAMS, heads). Sets mean [H_kv, stride] to the mean of each key's cosines with the other keys.
 * The mean of key j leaves out each key i whose last[i] is j. */
KVC_GROUP_KERNEL(redundancy_means)
(KVC_GLOBAL const kvc_u32 *count, KVC_SPAN(const float, keys), kvc_u32 indices, kvc_u32 d,
 KVC_SPAN(const float, length), KVC_SPAN(const kvc_u32, last), KVC_SPAN(float, mean), kvc_u32 stride) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS];
    KVC_SHARED float lanes[KVC_TEAMS][32];
    kvc_u32 h = KVC_GROUP_ID(1), n = count[h], team = KVC_LOCAL_ID() / KVC_WORKERS;
    kvc_u32 j = KVC_GROUP_ID(0) * KVC_TEAMS + team, here = j < n, writes = here && KVC_LOCAL_ID() % KVC_WORKERS == 0;
    KVC_GLOBAL const float *key = keys_buffer + keys_offset + (kvc_u64)h * indices * d;
    KVC_GLOBAL const float *long_by = length_buffer + length_offset + (kvc_u64)h * stride;
    KVC_GLOBAL const kvc_u32 *left_out = last_buffer + last_offset + (kvc_u64)h * stride;
    float one = KVC_ONE(indices);
    for (int i = 0; writes && i < 32; i++)
        lanes[team][i] = 0.0f;
    for (kvc_u32 i = 0; i < n; i++) {
        float c = kvc_likeness((kvc_bytes)(key + (kvc_u64)(here ? j : 0) * d),
                               here ? (kvc_bytes)(key + (kvc_u64)i * d) : (kvc_bytes)0,
                               here ? long_by[i] * long_by[j] : 0.0f, d, shared_sum);
        if (writes && i != j && left_out[i] != j)
            lanes[team][i % 32] = kvc_plus(lanes[team][i % 32], c, one);
    }
    if (writes) {
        KVC_TREE32(lanes[team]);
        mean_buffer[mean_offset + (kvc_u64)h * stride + j] = kvc_div(lanes[team][0], (float)n);
    }
}

/* Grid: (indices, heads). */
KVC_KERNEL(mix_redundancy)
(KVC_GLOBAL const kvc_u32 *count, float share, float divisor, KVC_SPAN(const float, mean),
 KVC_SPAN(const float, totals), KVC_SPAN(float, scores), kvc_u32 stride) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1);
    KVC_GLOBAL const float *total = totals_buffer + totals_offset + 2 * (kvc_u64)h;
    KVC_GLOBAL float *score = scores_buffer + scores_offset + (kvc_u64)h * stride + index;
    float p;
    if (index >= count[h])
        return;
    p = kvc_div(kvc_exp(mean_buffer[mean_offset + (kvc_u64)h * stride + index] - total[0]), total[1]);
    *score = kvc_fma(share, kvc_div(*score, divisor), (share - 1.0f) * p);
}

/* ---- output_norms, weigh_scores ---- */

/* Grid: (indices / KVC_TEAMS, query heads). */
KVC_GROUP_KERNEL(output_norms)
(KVC_LISTS(l), KVC_ARENA, KVC_SPAN(const float, w), kvc_u32 heads, kvc_u32 group, kvc_u32 outputs, kvc_u32 fresh,
 KVC_SPAN(float, norms), kvc_u32 stride) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS];
    kvc_u32 g = KVC_GROUP_ID(1), index = KVC_GROUP_ID(0) * KVC_TEAMS + KVC_LOCAL_ID() / KVC_WORKERS, here;
    KVC_GLOBAL const float *row = w_buffer + w_offset + (kvc_u64)g * head_size;
    KVC_GLOBAL float *norm = norms_buffer + norms_offset + (kvc_u64)g * stride;
    kvc_bytes value = 0;
    float one = KVC_ONE(outputs), sum;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, g / group);
    here = index < head.count;
    if (here)
        value = kvc_head_value(&arena, &head, kvc_head_slot(&head, index));
    sum = here && !fresh ? norm[index] : 0.0f;
    KVC_BARRIER(); /* waits until all work-items have read the value that the team's first work-item overwrites */
    for (kvc_u32 n = 0; n < outputs; n++, row += (kvc_u64)heads * head_size) {
        float dot = kvc_lanes_sum(kvc_lanes_dot_entry(value_type, row, value, head_size), shared_sum);
        sum = kvc_plus(sum, kvc_from_bits(kvc_bits(dot) & 0x7fffffffu), one);
    }
    if (here && KVC_LOCAL_ID() % KVC_WORKERS == 0)
        norm[index] = sum;
}

/* Grid: (indices, heads). */
KVC_KERNEL(weigh_scores)
(KVC_GLOBAL const kvc_u32 *count, KVC_READS, float epsilon, KVC_SPAN(const float, factor), KVC_SPAN(float, scores),
 kvc_u32 stride) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), place;
    KVC_GLOBAL const kvc_u32 *kept = read_index + (kvc_u64)h * read_stride;
    KVC_GLOBAL float *score = scores_buffer + scores_offset + (kvc_u64)h * stride + index;
    if (index >= count[h])
        return;
    place = kvc_places_below(kept, read_count[h], (kvc_u32)index);
    if (place < read_count[h] && kept[place] == index)
        *score = kvc_infinity();
    else
        *score = (*score + epsilon) * factor_buffer[factor_offset + (kvc_u64)h * stride + index];
}
