/* leverage.h - compactor's scores: chunk_mass, leverage_scores, standard_mix. */

/* Return the index after the last scored one, and the first scored index. */
KVC_DEVICE kvc_u32 kvc_scored_end(kvc_u32 count, kvc_u32 last) { return count > last ? count - last : 0; }
KVC_DEVICE kvc_u32 kvc_scored_begin(kvc_u32 first, kvc_u32 end) { return first < end ? first : end; }

/* ---- chunk_mass: one head after another ---- */

/* The chunk that contains an index; `from` equals `end` if there is none. */
struct kvc_chunk_view {
    kvc_u32 from, end;
};
KVC_DEVICE struct kvc_chunk_view kvc_chunk_view_of(const struct kvc_head_view *head,
                                                   KVC_GLOBAL const kvc_i32 *positions, kvc_u32 queries, kvc_u32 first,
                                                   kvc_u32 last, kvc_u32 chunk, kvc_u64 index) {
    struct kvc_chunk_view view;
    kvc_u32 low = 0, high = head->count, end = kvc_scored_end(head->count, last);
    while (queries && low < high) {
        kvc_u32 middle = low + (high - low) / 2;
        if (kvc_head_position(head, kvc_head_slot(head, middle)) < positions[0])
            low = middle + 1;
        else
            high = middle;
    }
    low = low < first ? first : low;
    view.from = view.end = end;
    if (queries && index >= low && index < end) {
        view.from = (kvc_u32)index - ((kvc_u32)index - low) % chunk;
        view.end = end - view.from > chunk ? view.from + chunk : end;
    }
    return view;
}

/* Grid: (indices, 1 + G, channels). Copies an entry's key, then the group's queries at the entry's position, to columns
 * [1 + G, d, indices]. */
KVC_KERNEL(chunk_columns)
(KVC_LISTS(l), KVC_ARENA, kvc_u32 h, kvc_u32 group, kvc_u32 last, KVC_SPAN(const float, q),
 KVC_SPAN(const kvc_i32, positions), kvc_u32 queries, kvc_u32 heads, KVC_GLOBAL float *columns, kvc_u32 indices) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 g = KVC_GROUP_ID(1), c = KVC_GROUP_ID(2), low = 0, high = queries - 1, slot;
    KVC_GLOBAL float *to = columns + ((kvc_u64)g * head_size + c) * indices + index;
    kvc_i32 position;
    KVC_OPEN(const kvc_i32, positions);
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    if (queries == 0 || index >= kvc_scored_end(head.count, last))
        return;
    slot = kvc_head_slot(&head, (kvc_u32)index);
    if (g == 0) {
        *to = kvc_entry_value(key_type, kvc_head_key(&arena, &head, slot), c, head_size);
        return;
    }
    position = kvc_head_position(&head, slot);
    while (low < high) {
        kvc_u32 middle = low + (high - low) / 2;
        if (positions[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    *to = q_buffer[q_offset + ((kvc_u64)low * heads + h * group + g - 1) * head_size + c];
}

/* Returns dot32 of two columns. */
KVC_DEVICE float kvc_column_dot(KVC_GLOBAL const float *a, KVC_GLOBAL const float *b, kvc_u32 d, kvc_u64 indices) {
    float lane[32];
    for (int i = 0; i < 32; i++)
        lane[i] = 0.0f;
    for (kvc_u32 c = 0; c < d; c += 32)
        for (kvc_u32 i = 0; i < 32; i++)
            if (c + i < d)
                lane[i] = kvc_fma(a[(c + i) * indices], b[(c + i) * indices], lane[i]);
    KVC_TREE32(lane);
    return lane[0];
}

/* Grid: (indices, query heads of the group). Writes M and L of each entry's query to totals [G, indices, 2]. */
KVC_KERNEL(chunk_totals)
(KVC_LISTS(l), kvc_u32 h, kvc_u32 first, kvc_u32 last, KVC_SPAN(const kvc_i32, positions), kvc_u32 queries,
 kvc_u32 chunk, KVC_GLOBAL const float *columns, kvc_u32 d, KVC_SPAN(float, totals), kvc_u32 indices) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 g = KVC_GROUP_ID(1);
    KVC_GLOBAL const float *q = columns + ((kvc_u64)(g + 1) * d) * indices + index;
    KVC_GLOBAL float *total = totals_buffer + totals_offset + 2 * ((kvc_u64)g * indices + index);
    struct kvc_chunk_view view;
    float lane[32], M = -kvc_infinity(), one = KVC_ONE(indices);
    KVC_OPEN(const kvc_i32, positions);
    KVC_OPEN_HEAD(head, l, h);
    view = kvc_chunk_view_of(&head, positions, queries, first, last, chunk, index);
    if (view.from == view.end)
        return;
    for (kvc_u32 j = view.from; j < view.end; j++)
        M = kvc_max(M, kvc_column_dot(q, columns + j, d, indices));
    for (int i = 0; i < 32; i++)
        lane[i] = 0.0f;
    for (kvc_u32 j = view.from; j < view.end; j++) {
        kvc_u32 i = (j - view.from) % 32;
        lane[i] = kvc_plus(lane[i], kvc_exp(kvc_column_dot(q, columns + j, d, indices) - M), one);
    }
    KVC_TREE32(lane);
    total[0] = M;
    total[1] = lane[0];
}

/* Grid: (indices). */
KVC_KERNEL(chunk_mass)
(KVC_LISTS(l), kvc_u32 h, kvc_u32 group, kvc_u32 first, kvc_u32 last, KVC_SPAN(const kvc_i32, positions),
 kvc_u32 queries, kvc_u32 chunk, kvc_u32 column, KVC_GLOBAL const float *columns, kvc_u32 d, kvc_u32 indices) {
    kvc_u64 index = KVC_GLOBAL_ID();
    KVC_GLOBAL const float *totals = columns + (kvc_u64)(1 + group) * d * indices;
    struct kvc_chunk_view view;
    float mass = 0.0f, one = KVC_ONE(indices);
    KVC_OPEN(const kvc_i32, positions);
    KVC_OPEN_HEAD(head, l, h);
    view = kvc_chunk_view_of(&head, positions, queries, first, last, chunk, index);
    if (view.from == view.end)
        return;
    for (kvc_u32 i = view.from; i < view.end; i++) {
        float sum = 0.0f;
        for (kvc_u32 g = 0; g < group; g++) {
            KVC_GLOBAL const float *total = totals + 2 * ((kvc_u64)g * indices + i);
            float s = kvc_column_dot(columns + (kvc_u64)(g + 1) * d * indices + i, columns + index, d, indices);
            sum = kvc_plus(sum, kvc_div(kvc_exp(s - total[0]), total[1]), one);
        }
        mass = kvc_plus(mass, sum, one);
    }
    kvc_head_column(&head, column)[kvc_head_slot(&head, (kvc_u32)index)] = kvc_div(mass, (float)group);
}

/* Grid: (indices, heads). */
KVC_KERNEL(chunk_weights)
(KVC_LISTS(l), KVC_ARENA, kvc_u32 first, kvc_u32 last, kvc_u32 column, KVC_SPAN(float, scores), kvc_u32 stride) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), slot;
    KVC_GLOBAL float *score = scores_buffer + scores_offset + (kvc_u64)h * stride + index;
    float lane[32];
    kvc_bytes x;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    if (index >= head.count)
        return;
    if (index < first || index >= kvc_scored_end(head.count, last)) {
        *score = 0.0f;
        return;
    }
    slot = kvc_head_slot(&head, (kvc_u32)index);
    x = kvc_head_value(&arena, &head, slot);
    for (int i = 0; i < 32; i++)
        lane[i] = 0.0f;
    for (kvc_u32 c = 0; c < head_size; c++) {
        float v = kvc_entry_value(value_type, x, c, head_size);
        lane[c % 32] = kvc_fma(v, v, lane[c % 32]);
    }
    KVC_TREE32(lane);
    *score = kvc_head_column(&head, column)[slot] * kvc_sqrt(lane[0]);
}

/* ---- leverage_scores ---- */

/* The first four kernels work on R rows of keys. There is one row for each KV head, and the keys are rotated back from
 * their positions; or, with weights [R, stride], one for each query head, and the keys are values times weights. A KV
 * head has `group` rows. */

/* Grid: (indices x channels, R). Writes keys [R, indices, d]. */
KVC_KERNEL(leverage_keys)
(KVC_LISTS(l), KVC_ARENA, kvc_u32 group, KVC_SPAN(const float, weights), kvc_u32 stride, KVC_SPAN(const float, cosine),
 KVC_SPAN(const float, sine), kvc_u32 rotary, KVC_SPAN(float, keys), kvc_u32 indices) {
    kvc_u64 id = KVC_GLOBAL_ID(), row;
    kvc_u32 g = KVC_GROUP_ID(1), c = (kvc_u32)(id % head_size), index = (kvc_u32)(id / head_size), pairs = rotary / 2;
    kvc_u32 slot;
    kvc_bytes key;
    float x;
    KVC_OPEN(const float, weights);
    KVC_OPEN(const float, cosine);
    KVC_OPEN(const float, sine);
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, g / group);
    if (id / head_size >= head.count)
        return;
    slot = kvc_head_slot(&head, index);
    key = kvc_head_key(&arena, &head, slot);
    row = (kvc_u64)kvc_head_position(&head, slot) * pairs;
    x = kvc_entry_value(key_type, key, c, head_size);
    if (weights_buffer)
        x = kvc_entry_value(value_type, kvc_head_value(&arena, &head, slot), c, head_size) *
            weights[(kvc_u64)g * stride + index];
    else if (cosine_buffer && c < pairs)
        x = kvc_fma(kvc_entry_value(key_type, key, c + pairs, head_size), sine[row + c], x * cosine[row + c]);
    else if (cosine_buffer && c < 2 * pairs)
        x = kvc_fma(-kvc_entry_value(key_type, key, c - pairs, head_size), sine[row + c - pairs],
                    x * cosine[row + c - pairs]);
    keys_buffer[keys_offset + (kvc_u64)g * indices * head_size + id] = x;
}

/* Grid: (channels, R). Computes means [R, d], or sets them to 0 unless `centred` is true. */
KVC_KERNEL(leverage_means)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 group, kvc_u32 first, kvc_u32 last, KVC_SPAN(const float, keys),
 kvc_u32 indices, kvc_u32 d, kvc_u32 centred, KVC_SPAN(float, means)) {
    kvc_u64 c = KVC_GLOBAL_ID();
    kvc_u32 g = KVC_GROUP_ID(1), end = kvc_scored_end(count[g / group], last), begin = kvc_scored_begin(first, end);
    kvc_u32 r = begin;
    KVC_GLOBAL const float *key = keys_buffer + keys_offset + (kvc_u64)g * indices * d + c;
    float sum = 0.0f, one = KVC_ONE(indices);
    if (c >= d)
        return;
    while (centred && r < end) {
        kvc_u32 next = r - r % KVC_TILE + KVC_TILE;
        float tile = 0.0f;
        for (; r < end && r < next; r++)
            tile = kvc_plus(tile, key[(kvc_u64)r * d], one);
        sum = kvc_plus(sum, tile, one);
    }
    means_buffer[means_offset + (kvc_u64)g * d + c] = centred ? kvc_div(sum, (float)(end - begin)) : 0.0f;
}

/* Grid: (d * d pairs of channels b and c, R). Computes gram [R, d, d] for c <= b. */
KVC_KERNEL(leverage_gram)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 group, kvc_u32 first, kvc_u32 last, KVC_SPAN(const float, keys),
 kvc_u32 indices, kvc_u32 d, KVC_SPAN(const float, means), float ridge, KVC_SPAN(float, gram)) {
    kvc_u64 id = KVC_GLOBAL_ID(), b = id / d, c = id % d;
    kvc_u32 g = KVC_GROUP_ID(1), end = kvc_scored_end(count[g / group], last), r = kvc_scored_begin(first, end);
    KVC_GLOBAL const float *key = keys_buffer + keys_offset + (kvc_u64)g * indices * d;
    KVC_GLOBAL const float *mean = means_buffer + means_offset + (kvc_u64)g * d;
    float sum = 0.0f, one = KVC_ONE(indices), of_b, of_c;
    if (b >= d || c > b)
        return;
    of_b = mean[b];
    of_c = mean[c];
    while (r < end) {
        kvc_u32 next = r - r % KVC_TILE + KVC_TILE;
        float tile = 0.0f;
        for (; r < end && r < next; r++)
            tile = kvc_fma(key[(kvc_u64)r * d + b] - of_b, key[(kvc_u64)r * d + c] - of_c, tile);
        sum = kvc_plus(sum, tile, one);
    }
    gram_buffer[gram_offset + (kvc_u64)g * d * d + id] = b == c ? sum + ridge : sum;
}

/* Returns s - a[0] b[0] - ... - a[n - 1] b[n - 1], for the first n elements of two rows. */
KVC_DEVICE float kvc_less_products(float s, KVC_GLOBAL const float *a, KVC_GLOBAL const float *b, kvc_u32 n) {
    for (kvc_u32 k = 0; k < n; k++)
        s = kvc_fma(-a[k], b[k], s);
    return s;
}

/* Grid: (R). Replaces gram by its Cholesky factor. Only the diagonal goes to separate memory, diagonal [R, d], because
 * all rows of a column read its old value. */
KVC_GROUP_KERNEL(leverage_factor)
(KVC_SPAN(float, gram), KVC_SPAN(float, diagonal), kvc_u32 d, float ridge) {
    kvc_u32 g = KVC_GROUP_ID(0);
    KVC_GLOBAL float *rows = gram_buffer + gram_offset + (kvc_u64)g * d * d;
    KVC_GLOBAL float *diagonal = diagonal_buffer + diagonal_offset + (kvc_u64)g * d;
    for (kvc_u32 c = 0; c < d; c++) {
        KVC_GLOBAL float *row = rows + (kvc_u64)c * d;
        float pivot = kvc_less_products(row[c], row, row, c);
        pivot = kvc_sqrt(pivot > ridge ? pivot : ridge);
        for (kvc_u32 b = c + KVC_LOCAL_ID(); b < d; b += KVC_GROUP) {
            KVC_GLOBAL float *at = rows + (kvc_u64)b * d;
            if (b == c)
                diagonal[c] = pivot;
            else
                at[c] = kvc_div(kvc_less_products(at[c], at, row, c), pivot);
        }
        KVC_BARRIER();
    }
}

/* Returns the leverage of a key. mine [d, indices] is scratch memory, of which one column is used. */
KVC_DEVICE float kvc_leverage_of(KVC_GLOBAL const float *key, KVC_GLOBAL const float *mean, KVC_GLOBAL const float *row,
                                 KVC_GLOBAL const float *diagonal, KVC_GLOBAL float *mine, kvc_u32 d, kvc_u32 indices) {
    for (kvc_u32 b = 0; b < d; b++, row += d) {
        float s = key[b] - mean[b];
        for (kvc_u32 k = 0; k < b; k++)
            s = kvc_fma(-row[k], mine[(kvc_u64)k * indices], s);
        mine[(kvc_u64)b * indices] = kvc_div(s, diagonal[b]);
    }
    return kvc_column_dot(mine, mine, d, indices);
}

/* Grid: (indices, heads). y [H_kv, d, indices] is scratch. */
KVC_KERNEL(leverage_scores)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 group, kvc_u32 first, kvc_u32 last, KVC_SPAN(const float, keys),
 KVC_SPAN(const float, means), KVC_SPAN(const float, gram), KVC_SPAN(const float, diagonal), KVC_SPAN(float, y),
 kvc_u32 indices, kvc_u32 d, KVC_SPAN(float, scores), kvc_u32 stride) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1);
    KVC_GLOBAL float *mine = y_buffer + y_offset + (kvc_u64)h * d * indices + index;
    float sum = 0.0f, one = KVC_ONE(indices);
    KVC_OPEN(const float, keys);
    KVC_OPEN(const float, means);
    KVC_OPEN(const float, gram);
    KVC_OPEN(const float, diagonal);
    if (index >= count[h])
        return;
    for (kvc_u32 g = h * group; g < (h + 1) * group; g++)
        if (index >= first && index < kvc_scored_end(count[h], last))
            sum = kvc_plus(sum,
                           kvc_leverage_of(keys + ((kvc_u64)g * indices + index) * d, means + (kvc_u64)g * d,
                                           gram + (kvc_u64)g * d * d, diagonal + (kvc_u64)g * d, mine, d, indices),
                           one);
    scores_buffer[scores_offset + (kvc_u64)h * stride + index] = kvc_div(sum, (float)group);
}

/* ---- standard_mix ---- */

/* Grid: (tiles, heads, 2: leverage and scores). Computes sums [2, H_kv, tiles] of x or, if `squares` is true, of (x -
 * mean)^2. totals [2, 2] holds the mean and the standard deviation of leverage and of scores. */
KVC_KERNEL(standard_tiles)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 heads, kvc_u32 first, kvc_u32 last, KVC_SPAN(const float, leverage),
 KVC_SPAN(const float, scores), kvc_u32 stride, kvc_u32 squares, KVC_GLOBAL const float *totals, KVC_SPAN(float, sums),
 kvc_u32 tiles) {
    kvc_u64 tile = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), side = KVC_GROUP_ID(2), end = kvc_scored_end(count[h], last), r;
    KVC_GLOBAL const float *x = (side ? scores_buffer + scores_offset : leverage_buffer + leverage_offset);
    float lane[32], mean, one = KVC_ONE(tiles);
    if (tile >= tiles)
        return;
    x += (kvc_u64)h * stride;
    mean = squares ? totals[2 * side] : 0.0f;
    for (int i = 0; i < 32; i++)
        lane[i] = 0.0f;
    for (r = (kvc_u32)tile * KVC_TILE; r < end && r < ((kvc_u32)tile + 1) * KVC_TILE; r++) {
        float e = x[r] - mean;
        if (r >= first)
            lane[r % 32] = squares ? kvc_fma(e, e, lane[r % 32]) : kvc_plus(lane[r % 32], x[r], one);
    }
    KVC_TREE32(lane);
    sums_buffer[sums_offset + ((kvc_u64)side * heads + h) * tiles + tile] = lane[0];
}

/* Grid: (2: leverage and scores). */
KVC_KERNEL(standard_totals)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 heads, kvc_u32 first, kvc_u32 last, kvc_u32 squares,
 KVC_SPAN(const float, sums), kvc_u32 tiles, KVC_GLOBAL float *totals) {
    kvc_u64 side = KVC_GLOBAL_ID();
    kvc_u32 n = 0;
    float all = 0.0f, one = KVC_ONE(tiles);
    if (side >= 2)
        return;
    for (kvc_u32 h = 0; h < heads; h++) {
        KVC_GLOBAL const float *of_tile = sums_buffer + sums_offset + (side * heads + h) * tiles;
        kvc_u32 end = kvc_scored_end(count[h], last);
        float sum = 0.0f;
        for (kvc_u32 t = 0; t * KVC_TILE < end; t++)
            sum = kvc_plus(sum, of_tile[t], one);
        all = kvc_plus(all, sum, one);
        n += end - kvc_scored_begin(first, end);
    }
    if (squares) {
        all = kvc_sqrt(kvc_div(all, (float)(n > 1 ? n - 1 : n)));
        totals[2 * side + 1] = all > 1e-6f ? all : 1e-6f;
    } else {
        totals[2 * side] = kvc_div(all, (float)n);
    }
}

/* Grid: (indices, heads). */
KVC_KERNEL(standard_mix)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 first, kvc_u32 last, float share, KVC_GLOBAL const float *totals,
 KVC_SPAN(const float, leverage), KVC_SPAN(float, scores), kvc_u32 stride) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1);
    KVC_GLOBAL const float *lever = leverage_buffer + leverage_offset + (kvc_u64)h * stride + index;
    KVC_GLOBAL float *score = scores_buffer + scores_offset + (kvc_u64)h * stride + index;
    float mass = 0.0f;
    if (index >= count[h])
        return;
    if (index < first || index >= kvc_scored_end(count[h], last)) {
        *score = 0.0f;
        return;
    }
    if (*score != 0.0f)
        mass = kvc_div(*score - totals[2], totals[3]);
    *score = kvc_fma(share, kvc_div(*lever - totals[0], totals[1]), mass);
}
