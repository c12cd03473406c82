/* series.h - TriAttention's scores, from statistics of all queries: series_scores. */

/* Grid: (indices x pairs of channels, heads). Computes lengths [H_kv, indices, pairs]. */
KVC_KERNEL(series_lengths)(KVC_LISTS(l), KVC_ARENA, kvc_u32 pairs, KVC_SPAN(float, lengths), kvc_u32 indices) {
    kvc_u64 id = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), i = (kvc_u32)(id % pairs), index = (kvc_u32)(id / pairs);
    kvc_bytes key;
    float a, b;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    if (id / pairs >= head.count)
        return;
    key = kvc_head_key(&arena, &head, kvc_head_slot(&head, index));
    a = kvc_entry_value(key_type, key, i, head_size);
    b = kvc_entry_value(key_type, key, i + pairs, head_size);
    lengths_buffer[lengths_offset + (kvc_u64)h * indices * pairs + id] = kvc_sqrt(kvc_fma(b, b, a * a));
}

/* Grid: (indices / KVC_TEAMS, query heads). Writes s to logits [H, stride]. */
KVC_GROUP_KERNEL(series_logits)
(KVC_LISTS(l), KVC_ARENA, kvc_u32 group, KVC_SPAN(const float, mean), KVC_SPAN(const float, spread),
 KVC_SPAN(const float, lengths), kvc_u32 indices, kvc_u32 pairs, KVC_SPAN(float, logits), kvc_u32 stride) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS];
    kvc_u32 g = KVC_GROUP_ID(1), h = g / group, index = KVC_GROUP_ID(0) * KVC_TEAMS + KVC_LOCAL_ID() / KVC_WORKERS;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    kvc_u32 here = index < head.count, slot = here ? kvc_head_slot(&head, index) : 0;
    KVC_GLOBAL const float *length =
        lengths_buffer + lengths_offset + ((kvc_u64)h * indices + (here ? index : 0)) * pairs;
    kvc_bytes key = here ? (kvc_bytes)kvc_head_key(&arena, &head, slot) : (kvc_bytes)0;
    float a = kvc_lanes_sum(
        kvc_lanes_dot_entry(key_type, mean_buffer + mean_offset + (kvc_u64)g * head_size, key, head_size), shared_sum);
    float b = kvc_lanes_sum(kvc_lanes_dot_entry(KVC_K_F32, spread_buffer + spread_offset + (kvc_u64)g * pairs,
                                                here ? (kvc_bytes)length : (kvc_bytes)0, pairs),
                            shared_sum);
    if (here && KVC_LOCAL_ID() % KVC_WORKERS == 0)
        logits_buffer[logits_offset + (kvc_u64)g * stride + index] = a + b;
}

/* Returns the sum of n values or, if `squares` is true, the sum of (value - u)^2. */
KVC_DEVICE float kvc_series_sum(KVC_GLOBAL const float *value, kvc_u32 n, float u, kvc_u32 squares, float one) {
    float sum = 0.0f;
    for (kvc_u32 tile = 0; tile < n; tile += KVC_TILE) {
        float lane[32];
        for (int i = 0; i < 32; i++)
            lane[i] = 0.0f;
        for (kvc_u32 r = tile; r < n && r < tile + KVC_TILE; r++) {
            float e = value[r] - u;
            lane[r % 32] = squares ? kvc_fma(e, e, lane[r % 32]) : kvc_plus(lane[r % 32], value[r], one);
        }
        KVC_TREE32(lane);
        sum = kvc_plus(sum, lane[0], one);
    }
    return sum;
}

/* Grid: (query heads). Writes to totals [H, 2] the mean of s and its standard deviation, which is at least 1e-6. */
KVC_KERNEL(series_totals)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 heads, kvc_u32 group, KVC_SPAN(const float, logits), kvc_u32 stride,
 KVC_SPAN(float, totals)) {
    kvc_u64 g = KVC_GLOBAL_ID();
    KVC_GLOBAL const float *value = logits_buffer + logits_offset + g * stride;
    float one = KVC_ONE(heads), u;
    kvc_u32 n;
    if (g >= heads)
        return;
    n = count[g / group];
    u = kvc_div(kvc_series_sum(value, n, 0.0f, 0, one), (float)n);
    totals_buffer[totals_offset + 2 * g] = u;
    totals_buffer[totals_offset + 2 * g + 1] =
        kvc_max(kvc_sqrt(kvc_div(kvc_series_sum(value, n, u, 1, one), (float)n)), 1e-6f);
}

/* Grid: (indices, heads). */
KVC_KERNEL(series_scores)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 group, kvc_u32 average, KVC_SPAN(const float, logits),
 KVC_SPAN(const float, totals), KVC_SPAN(float, scores), kvc_u32 stride) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1);
    KVC_GLOBAL const float *total = totals_buffer + totals_offset + 2 * (kvc_u64)h * group;
    KVC_GLOBAL const float *logit = logits_buffer + logits_offset + (kvc_u64)h * group * stride + index;
    float one = KVC_ONE(group), score = average ? 0.0f : -kvc_infinity();
    if (index >= count[h])
        return;
    for (kvc_u32 g = 0; g < group; g++) {
        float z = kvc_div(logit[(kvc_u64)g * stride] - total[2 * g], total[2 * g + 1]);
        score = average ? kvc_plus(score, z, one) : kvc_max(score, z);
    }
    scores_buffer[scores_offset + (kvc_u64)h * stride + index] = average ? kvc_div(score, (float)group) : score;
}
