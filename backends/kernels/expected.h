/* expected.h - expected attention: query_moments, expected_scores, mean_weights. */

/* Returns where channel c is stored if the first 2 * pairs channels are stored as pairs (2i, 2i + 1). c is the
 * channel's number in rope's other layout, in which channels i and i + pairs are a pair. */
KVC_DEVICE kvc_u32 kvc_paired(kvc_u32 c, kvc_u32 pairs) {
    return c < pairs ? 2 * c : c < 2 * pairs ? 2 * (c - pairs) + 1 : c;
}

/* Grid: (values of sums [H, 1 + d, d]). */
KVC_KERNEL(query_moments)
(KVC_SPAN(const float, q), KVC_SPAN(float, sums), kvc_u32 rows, kvc_u32 heads, kvc_u32 d, kvc_u32 interleaved,
 kvc_u32 first) {
    kvc_u64 id = KVC_GLOBAL_ID(), width = (kvc_u64)heads * d, row = id / d, h = row / (d + 1), b = row % (d + 1);
    kvc_u32 c = kvc_paired((kvc_u32)(id % d), interleaved / 2);
    kvc_u32 a = b > 0 ? kvc_paired((kvc_u32)b - 1, interleaved / 2) : 0;
    KVC_GLOBAL const float *x = q_buffer + q_offset + h * d;
    float one = KVC_ONE(rows), sum;
    if (h >= heads)
        return;
    sum = first ? 0.0f : sums_buffer[sums_offset + id];
    for (kvc_u32 i = 0; i < rows; i++, x += width)
        sum = b == 0 ? kvc_plus(sum, x[c], one) : kvc_fma(x[a], x[c], sum);
    sums_buffer[sums_offset + id] = sum;
}

/* Grid: (values of moments [H, 1 + d, d]). Computes means, then covariances. */
KVC_KERNEL(expected_moments)
(KVC_SPAN(const float, sums), kvc_u32 heads, kvc_u32 d, kvc_u32 queries, KVC_SPAN(float, moments)) {
    kvc_u64 id = KVC_GLOBAL_ID(), row = id / d, h = row / (d + 1), b = row % (d + 1);
    kvc_u32 c = (kvc_u32)(id % d);
    KVC_GLOBAL const float *sum = sums_buffer + sums_offset + h * (d + 1) * d;
    float n = (float)queries, value;
    if (h >= heads)
        return;
    value = kvc_div(sum[b * d + c], n);
    if (b > 0)
        value = kvc_fma(-kvc_div(sum[b - 1], n), kvc_div(sum[c], n), value);
    moments_buffer[moments_offset + id] = value;
}

/* Grid: (indices / KVC_TEAMS, query heads). Writes s [H, stride] for the indices from `first` on. The keys come from
 * entry_keys. */
KVC_GROUP_KERNEL(expected_logits)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 group, kvc_u32 first, KVC_SPAN(const float, moments),
 KVC_SPAN(const float, keys), kvc_u32 indices, kvc_u32 d, float scale, kvc_u32 covariance, KVC_SPAN(float, logits),
 kvc_u32 stride) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS];
    kvc_u32 g = KVC_GROUP_ID(1), h = g / group, index = KVC_GROUP_ID(0) * KVC_TEAMS + KVC_LOCAL_ID() / KVC_WORKERS;
    kvc_u32 here = index >= first && index < count[h];
    KVC_GLOBAL const float *y = keys_buffer + keys_offset + ((kvc_u64)h * indices + (here ? index : 0)) * d;
    KVC_GLOBAL const float *mean = moments_buffer + moments_offset + (kvc_u64)g * (d + 1) * d;
    kvc_bytes key = here ? (kvc_bytes)y : (kvc_bytes)0;
    float a = kvc_lanes_sum(kvc_lanes_dot_entry(KVC_K_F32, mean, key, d), shared_sum), b = 0.0f;
    for (kvc_u32 i = 0; covariance && i < d; i++) {
        float t = kvc_lanes_sum(kvc_lanes_dot_entry(KVC_K_F32, mean + (kvc_u64)(i + 1) * d, key, d), shared_sum);
        b = here ? kvc_fma(t, y[i], b) : b;
    }
    if (here && KVC_LOCAL_ID() % KVC_WORKERS == 0)
        logits_buffer[logits_offset + (kvc_u64)g * stride + index] =
            scale * (covariance ? kvc_fma(0.5f * scale, b, a) : a);
}

/* Grid: (indices, heads). */
KVC_KERNEL(expected_sums)
(KVC_LISTS(l), KVC_ARENA, kvc_u32 group, kvc_u32 first, kvc_u32 values, float epsilon, KVC_SPAN(const float, logits),
 KVC_SPAN(const float, totals), KVC_SPAN(float, scores), kvc_u32 stride) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1);
    KVC_GLOBAL const float *total = totals_buffer + totals_offset + 2 * (kvc_u64)h * group;
    KVC_GLOBAL const float *logit = logits_buffer + logits_offset + (kvc_u64)h * group * stride + index;
    float lane[32], one = KVC_ONE(group), sum = 0.0f;
    kvc_bytes x;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    if (index >= head.count)
        return;
    for (kvc_u32 g = 0; index >= first && g < group; g++)
        sum = kvc_plus(sum, kvc_div(kvc_exp(logit[(kvc_u64)g * stride] - total[2 * g]), total[2 * g + 1]), one);
    sum = kvc_div(sum, (float)group);
    if (index >= first && values) {
        x = kvc_head_value(&arena, &head, kvc_head_slot(&head, (kvc_u32)index));
        for (int i = 0; i < 32; i++)
            lane[i] = 0.0f;
        for (kvc_u32 c = 0; c < head_size; c++) {
            float v = kvc_entry_value(value_type, x, c, head_size);
            lane[c % 32] = kvc_fma(v, v, lane[c % 32]);
        }
        KVC_TREE32(lane);
        sum = (sum + epsilon) * kvc_sqrt(lane[0]);
    }
    scores_buffer[scores_offset + (kvc_u64)h * stride + index] = sum;
}

/* ---- mean_weights ---- */

/* Grid: (channels, query heads). Writes u [H, d]: the mean of each head's queries, rotated. */
KVC_KERNEL(mean_directions)
(KVC_SPAN(const float, sums), KVC_SPAN(const float, cosine), KVC_SPAN(const float, sine), kvc_u32 rotary, kvc_u32 d,
 kvc_u32 queries, KVC_SPAN(float, u)) {
    kvc_u64 c = KVC_GLOBAL_ID();
    kvc_u32 g = KVC_GROUP_ID(1), pairs = rotary / 2;
    KVC_GLOBAL const float *sum = sums_buffer + sums_offset + (kvc_u64)g * (d + 1) * d;
    float n = (float)queries, x;
    KVC_OPEN(const float, cosine);
    KVC_OPEN(const float, sine);
    if (c >= d)
        return;
    x = kvc_div(sum[c], n);
    if (cosine_buffer && c < pairs)
        x = kvc_fma(-kvc_div(sum[c + pairs], n), sine[c], x * cosine[c]);
    else if (cosine_buffer && c < 2 * pairs)
        x = kvc_fma(kvc_div(sum[c - pairs], n), sine[c - pairs], x * cosine[c - pairs]);
    u_buffer[u_offset + (kvc_u64)g * d + c] = x;
}

/* Grid: (indices / KVC_TEAMS, query heads). Writes scale * c [H, stride] for the indices from `first` on. length [H_kv,
 * stride]: lengths of the keys. */
KVC_GROUP_KERNEL(mean_logits)
(KVC_LISTS(l), KVC_ARENA, kvc_u32 group, kvc_u32 first, KVC_SPAN(const float, u), KVC_SPAN(const float, length),
 float scale, KVC_SPAN(float, logits), kvc_u32 stride) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS];
    kvc_u32 g = KVC_GROUP_ID(1), h = g / group, index = KVC_GROUP_ID(0) * KVC_TEAMS + KVC_LOCAL_ID() / KVC_WORKERS;
    KVC_GLOBAL const float *mean = u_buffer + u_offset + (kvc_u64)g * head_size;
    kvc_u32 here;
    kvc_bytes key = (kvc_bytes)0;
    float square, dot, both;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    here = index >= first && index < head.count;
    if (here)
        key = (kvc_bytes)kvc_head_key(&arena, &head, kvc_head_slot(&head, index));
    square = kvc_lanes_sum(kvc_lanes_dot_entry(KVC_K_F32, mean, (kvc_bytes)mean, head_size), shared_sum);
    dot = kvc_lanes_sum(kvc_lanes_dot_entry(key_type, mean, key, head_size), shared_sum);
    if (here && KVC_LOCAL_ID() % KVC_WORKERS == 0) {
        both = kvc_sqrt(square) * length_buffer[length_offset + (kvc_u64)h * stride + index];
        logits_buffer[logits_offset + (kvc_u64)g * stride + index] = scale * (both == 0.0f ? 0.0f : kvc_div(dot, both));
    }
}

/* Grid: (indices, query heads). Replaces the logits, which mean_logits wrote to `weights`. */
KVC_KERNEL(mean_weights)
(KVC_GLOBAL const kvc_u32 *count, kvc_u32 group, kvc_u32 first, KVC_SPAN(const float, totals), KVC_SPAN(float, weights),
 kvc_u32 stride) {
    kvc_u64 index = KVC_GLOBAL_ID();
    kvc_u32 g = KVC_GROUP_ID(1);
    KVC_GLOBAL float *weight = weights_buffer + weights_offset + (kvc_u64)g * stride + index;
    if (index < count[g / group])
        *weight = index < first ? 0.0f : kvc_exp(*weight - totals_buffer[totals_offset + 2 * (kvc_u64)g]);
}
