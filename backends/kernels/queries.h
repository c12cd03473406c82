/* queries.h - quantizes queries to eight bits and multiplies them by keys whose quants are integers (core/base/canon.h,
 * "int8: attention over Q8_0 entries"). */

/* Quantized queries. Each group of 32 channels of a query has 8 words of quants and a scale. A last group with fewer
 * channels is padded with zeros. query_quant is 0 (NULL) if attention multiplies floats. */
#define KVC_QUERIES KVC_SPAN(const kvc_u32, query_quant), KVC_SPAN(const float, query_scale)

/* Quantizes queries q [all / groups, d]. `groups` is the number of groups of a query, and each work-item quantizes one
 * group. */
KVC_KERNEL(quantize_queries)
(KVC_SPAN(const float, q), KVC_SPAN(kvc_u32, query_quant), KVC_SPAN(float, query_scale), kvc_u32 d, kvc_u32 groups,
 kvc_u64 all) {
    const kvc_u64 i = KVC_GLOBAL_ID();
    const kvc_u32 c = (kvc_u32)(i % groups) * KVC_Q8_GROUP, n = d - c < KVC_Q8_GROUP ? d - c : KVC_Q8_GROUP;
    KVC_GLOBAL const float *x = q_buffer + q_offset + i / groups * d + c;
    float inverse, value[KVC_Q8_GROUP];
    kvc_u32 top = 0;
    if (i >= all)
        return;
    for (kvc_u32 k = 0; k < KVC_Q8_GROUP; k++)
        value[k] = k < n ? x[k] : 0.0f;
    for (kvc_u32 k = 0; k < KVC_Q8_GROUP; k++)
        top = kvc_int8_top(top, value[k]);
    inverse = kvc_int8_inverse(top);
    query_scale_buffer[query_scale_offset + i] = kvc_int8_scale(top);
    for (kvc_u32 w = 0; w < 8; w++) {
        kvc_u32 word = 0;
        for (kvc_u32 k = 0; k < 4; k++)
            word |= ((kvc_u32)kvc_int8_quant(value[4 * w + k], inverse) & 255u) << 8 * k;
        query_quant_buffer[query_quant_offset + i * 8 + w] = word;
    }
}

/* One or more quantized queries. */
struct kvc_query {
    KVC_GLOBAL const kvc_u32 *quant; /* 0 (NULL) if attention multiplies floats */
    KVC_GLOBAL const float *scale;
};
KVC_DEVICE struct kvc_query kvc_query_from(KVC_GLOBAL const kvc_u32 *quant, KVC_GLOBAL const float *scale, kvc_u64 row,
                                           kvc_u32 groups) {
    struct kvc_query query;
    query.quant = quant ? quant + row * groups * 8 : 0;
    query.scale = scale + row * groups;
    return query;
}
#define KVC_QUERY_FROM(row, groups)                                                                                    \
    kvc_query_from(query_quant_buffer + query_quant_offset, query_scale_buffer + query_scale_offset, row, groups)
KVC_DEVICE kvc_u32 kvc_groups_of(kvc_u32 d) { return (d + KVC_Q8_GROUP - 1) / KVC_Q8_GROUP; }

/* A group of a key. If the key has fewer channels, the other quants are 0. */
struct kvc_group {
    struct kvc_half first, second;
    float scale;
};
/* A group of a Q8_0 row. */
#define KVC_GROUP_AT(row, b) ((row) + (b) * (2 + KVC_Q8_GROUP))

/* Loads a word of four quants. If only `left` of them exist, the others are 0. */
KVC_DEVICE kvc_u32 kvc_load_quants(kvc_bytes from, kvc_i32 left) {
    kvc_u32 word = 0;
    if (left >= 4)
        return kvc_load_word(from);
    for (kvc_i32 i = 0; i < left; i++)
        word |= (kvc_u32)from[i] << 8 * i;
    return word;
}
KVC_APART struct kvc_group kvc_group_apart(kvc_u32 type, kvc_bytes row, kvc_u32 b, kvc_u32 d) {
    const struct kvc_packed p = kvc_integers_at(type, row, b, d);
    struct kvc_group group;
    group.scale = p.scale;
    for (kvc_u32 i = 0; i < 4; i++) {
        group.first.word[i] = kvc_integer_word(type, &p, 4 * i);
        group.second.word[i] = kvc_integer_word(type, &p, 16 + 4 * i);
    }
    return group;
}
KVC_DEVICE struct kvc_group kvc_group_of(kvc_u32 type, kvc_bytes row, kvc_u32 b, kvc_u32 d) {
    kvc_bytes from = KVC_GROUP_AT(row, b);
    const kvc_i32 left = (kvc_i32)(d - b * KVC_Q8_GROUP);
    struct kvc_group group;
    if (type != KVC_K_Q8_0)
        return kvc_group_apart(type, row, b, d);
    group.scale = KVC_HALF(from);
    for (kvc_i32 i = 0; i < 4; i++) {
        group.first.word[i] = kvc_load_quants(from + 2 + 4 * i, left - 4 * i);
        group.second.word[i] = kvc_load_quants(from + 18 + 4 * i, left - 16 - 4 * i);
    }
    return group;
}

/* Returns the dot product of a group of a key and group b of a query. */
KVC_DEVICE kvc_i32 kvc_group_dot(const struct kvc_group *group, const struct kvc_query *query, kvc_u32 b) {
    return kvc_block_dot(group->first, kvc_half_load(query->quant + b * 8), group->second,
                         kvc_half_load(query->quant + b * 8 + 4));
}

/* Returns the dot product of a query and a key to each work-item of a team. All work-items of the group must call this
 * function. Nothing is read if the key is 0 (NULL). */
#if KVC_WORKERS == 1
KVC_DEVICE float kvc_query_dot(kvc_u32 type, const struct kvc_query *query, kvc_bytes key, kvc_u32 d,
                               KVC_LOCAL float *shared_sum) {
    float dot = 0.0f;
    for (kvc_u32 b = 0; key && b < kvc_groups_of(d); b++) {
        const struct kvc_group group = kvc_group_of(type, key, b, d);
        dot = kvc_int8_add(group.scale, query->scale[b], kvc_group_dot(&group, query, b), dot);
    }
    return dot;
}
#else
/* Work-item w of a team multiplies groups w, w + KVC_WORKERS and so on. */
KVC_DEVICE float kvc_query_dot(kvc_u32 type, const struct kvc_query *query, kvc_bytes key, kvc_u32 d,
                               KVC_LOCAL float *shared_sum) {
    const kvc_u32 worker = KVC_LOCAL_ID() % KVC_WORKERS, groups = kvc_groups_of(d);
    float dot = 0.0f;
    for (kvc_u32 from = 0; from < groups; from += KVC_WORKERS) {
        const kvc_u32 b = from + worker;
        float scale = 0.0f;
        kvc_i32 sum = 0;
        if (key && b < groups) {
            const struct kvc_group group = kvc_group_of(type, key, b, d);
            scale = group.scale;
            sum = kvc_group_dot(&group, query, b);
        }
#if defined(__CUDACC__)
        (void)shared_sum;
        for (kvc_u32 w = 0; w < KVC_WORKERS; w++) {
            const float scale_of = __shfl_sync(0xffffffffu, scale, (int)w, KVC_WORKERS);
            const kvc_i32 sum_of = __shfl_sync(0xffffffffu, sum, (int)w, KVC_WORKERS);
            if (from + w < groups)
                dot = kvc_int8_add(scale_of, query->scale[from + w], sum_of, dot);
        }
#else
        KVC_LOCAL float *team = shared_sum + KVC_LOCAL_ID() / KVC_WORKERS * 2 * KVC_WORKERS;
        team[worker] = scale;
        team[KVC_WORKERS + worker] = (float)sum; /* exact, because |sum| is below 2^24 */
        KVC_BARRIER();
        for (kvc_u32 w = 0; w < KVC_WORKERS && from + w < groups; w++)
            dot = kvc_int8_add(team[w], query->scale[from + w], (kvc_i32)team[KVC_WORKERS + w], dot);
        KVC_BARRIER();
#endif
    }
    return dot;
}
#endif

/* Returns the dot product of a key and row `row` of the queries to each work-item of a team. The queries are `queries`
 * or, if its `quant` is NULL, q [rows, d]. All work-items of the group must call this function. Nothing is read if the
 * key is 0 (NULL). */
KVC_DEVICE float kvc_key_dot(kvc_u32 type, KVC_GLOBAL const float *q, const struct kvc_query *queries, kvc_u64 row,
                             kvc_bytes key, kvc_u32 d, KVC_LOCAL float *shared_sum) {
    struct kvc_query query;
    if (!queries->quant)
        return kvc_lanes_sum(kvc_lanes_dot_entry(type, q + row * d, key, d), shared_sum);
    query = kvc_query_from(queries->quant, queries->scale, row, kvc_groups_of(d));
    return kvc_query_dot(type, &query, key, d, shared_sum);
}
