/* experts.h - mixtures of experts: route, expert_linear, expert_sum. The host does not know the experts of a row, only
 * the device does. Kernels are therefore launched for all pairs, and each group of work-items looks up the expert of
 * its pair. */

/* ---- route ---- */

/* Grid: (rows). Chooses the experts of a row and computes their routing weights. */
KVC_GROUP_KERNEL(route_choose)
(KVC_SPAN(const float, logits), kvc_u32 experts, kvc_u32 used, kvc_u32 normalised, KVC_SPAN(kvc_u32, expert),
 KVC_SPAN(float, share)) {
    KVC_SHARED float p[KVC_EXPERTS_MOST], lane[32], most[KVC_GROUP], chosen[KVC_EXPERTS_USED_MOST];
    KVC_SHARED kvc_u32 key[KVC_EXPERTS_MOST], before[KVC_GROUP];
    const kvc_u32 id = KVC_LOCAL_ID();
    const float one = KVC_ONE(experts);
    KVC_GLOBAL const float *x = logits_buffer + logits_offset + (kvc_u64)KVC_GROUP_ID(0) * experts;
    KVC_GLOBAL kvc_u32 *to = expert_buffer + expert_offset + (kvc_u64)KVC_GROUP_ID(0) * used;
    KVC_GLOBAL float *shares = share_buffer + share_offset + (kvc_u64)KVC_GROUP_ID(0) * used;
    float top = x[0];
    for (kvc_u32 e = id; e < experts; e += KVC_GROUP) {
        key[e] = kvc_score_key(x[e]);
        top = kvc_max(x[e], top);
    }
    most[id] = top;
    KVC_BARRIER();
    for (kvc_u32 i = 0; i < KVC_GROUP && i < experts; i++) /* past the last expert, most[i] is only x[0] */
        top = kvc_max(most[i], top);
    for (kvc_u32 e = id; e < experts; e += KVC_GROUP)
        p[e] = kvc_exp(x[e] - top);
    KVC_BARRIER();
    for (kvc_u32 l = id; l < 32; l += KVC_GROUP) {
        float sum = 0.0f;
        for (kvc_u32 e = l; e < experts; e += 32)
            sum = kvc_plus(sum, p[e], one);
        lane[l] = sum;
    }
    KVC_BARRIER();
    if (id == 0)
        KVC_TREE32(lane);
    /* an expert is chosen if fewer than `used` experts rank above it */
    for (kvc_u32 e0 = 0, found = 0; e0 < experts; e0 += KVC_GROUP) {
        const kvc_u32 e = e0 + id;
        kvc_u32 above = 0, all, at;
        for (kvc_u32 f = 0; f < experts && e < experts; f++)
            above += key[f] > key[e] || (key[f] == key[e] && f < e);
        at = found + kvc_group_before(e < experts && above < used, &all, before);
        if (e < experts && above < used) {
            to[at] = e;
            chosen[at] = p[e];
        }
        found += all;
    }
    KVC_BARRIER();
    for (kvc_u32 i = id; i < used; i += KVC_GROUP) {
        float sum = 0.0f;
        for (kvc_u32 j = 0; j < used; j++)
            sum = kvc_plus(sum, chosen[j], one);
        shares[i] = kvc_is_nan(lane[0]) ? lane[0] : kvc_div(chosen[i], normalised ? sum : lane[0]);
    }
}

/* Grid: (experts). Numbers the pairs of an expert by row. */
KVC_GROUP_KERNEL(route_number)
(KVC_SPAN(const kvc_u32, expert), kvc_u32 experts, kvc_u32 pairs, kvc_u32 used, KVC_SPAN(kvc_u32, pair),
 KVC_SPAN(kvc_u32, row), KVC_SPAN(kvc_u32, first)) {
    KVC_SHARED kvc_u32 before[KVC_GROUP];
    const kvc_u32 e = KVC_GROUP_ID(0), id = KVC_LOCAL_ID();
    KVC_OPEN(const kvc_u32, expert);
    kvc_u32 below = 0, at = 0;
    for (kvc_u32 i = id; i < pairs; i += KVC_GROUP)
        below += expert[i] < e;
    before[id] = below;
    KVC_BARRIER();
    for (kvc_u32 i = 0; i < KVC_GROUP && i < pairs; i++) /* work-items past the last pair have counted nothing */
        at += before[i];
    KVC_BARRIER();
    if (id == 0)
        first_buffer[first_offset + e] = at;
    if (id == 0 && e + 1 == experts)
        first_buffer[first_offset + experts] = pairs;
    for (kvc_u32 i0 = 0; i0 < pairs; i0 += KVC_GROUP) {
        const kvc_u32 i = i0 + id, mine = i < pairs && expert[i] == e;
        kvc_u32 all, here = at + kvc_group_before(mine, &all, before);
        if (mine) {
            pair_buffer[pair_offset + i] = here;
            row_buffer[row_offset + here] = i / used;
        }
        at += all;
    }
}

/* ---- expert_linear ---- */

/* Returns the expert of a pair. */
KVC_DEVICE kvc_u32 kvc_expert_of(KVC_GLOBAL const kvc_u32 *first, kvc_u32 experts, kvc_u32 pair) {
    kvc_u32 low = 0;
    for (kvc_u32 high = experts; high - low > 1;) {
        const kvc_u32 middle = low + (high - low) / 2;
        if (first[middle] <= pair)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Grid: (pairs * across), where `across` is the number of blocks of outputs. A group computes one block of outputs. If
 * the group's pair is the first of KVC_EXPERT_ROWS pairs of an expert, the group computes all of these pairs in one
 * pass over the weights; otherwise it does nothing. The matrices of the experts follow one another; w holds rows
 * first_row .. first_row + count - 1 of them. */
#define KVC_EXPERT_ROWS KVC_EXPERT_ROWS_OF(KVC_WORKERS)
#define KVC_EXPERT_ARGUMENTS                                                                                           \
    KVC_SPAN(float, y), KVC_SPAN(const float, x), KVC_GLOBAL const kvc_u8 *w, kvc_u64 row_bytes, kvc_u64 K, kvc_u64 N, \
        kvc_u64 first_row, kvc_u64 count, KVC_SPAN(const float, bias), KVC_SPAN(const kvc_u32, first),                 \
        kvc_u32 experts, kvc_u32 across
KVC_DEVICE void kvc_expert_linear(kvc_u32 type, KVC_EXPERT_ARGUMENTS, KVC_LOCAL float *shared_sum) {
    const kvc_u32 pair = KVC_GROUP_ID(0) / across, block = KVC_GROUP_ID(0) % across;
    const kvc_u32 e = kvc_expert_of(first_buffer + first_offset, experts, pair);
    const kvc_u32 before = pair - first_buffer[first_offset + e];
    const kvc_u32 after = first_buffer[first_offset + e + 1] - pair,
                  here = after < KVC_EXPERT_ROWS ? after : KVC_EXPERT_ROWS;
    KVC_GLOBAL const float *x = x_buffer + x_offset + (kvc_u64)pair * K;
    if (before % KVC_EXPERT_ROWS) /* true for the whole group or for none of it */
        return;
    for (kvc_u32 each = 0; each < KVC_EACH; each++) {
        const kvc_u64 n = ((kvc_u64)block * KVC_EACH + each) * KVC_TEAMS + KVC_LOCAL_ID() / KVC_WORKERS;
        const kvc_u64 at = (kvc_u64)e * N + n - first_row;
        const bool mine = n < N && at < count;
        struct kvc_lanes sum[KVC_EXPERT_ROWS];
        kvc_sum_rows(type, sum, KVC_EXPERT_ROWS, x, here, w + (mine ? at : 0) * row_bytes, K);
        for (int i = 0; i < KVC_EXPERT_ROWS; i++) { /* loops over all rows, so that no barrier is conditional */
            const float value = kvc_lanes_sum(sum[i], shared_sum);
            if ((kvc_u32)i < here && KVC_LOCAL_ID() % KVC_WORKERS == 0 && mine)
                y_buffer[y_offset + (kvc_u64)(pair + i) * N + n] =
                    bias_buffer ? value + bias_buffer[bias_offset + (kvc_u64)e * N + n] : value;
        }
    }
}
#define KVC_EXPERT_LINEAR(a, NAME, name, gguf, elements, bytes, scale, scales, wide, holds)                            \
    KVC_GROUP_KERNEL(experts_##name)(KVC_EXPERT_ARGUMENTS) {                                                           \
        KVC_SHARED float shared_sum[KVC_SUM_FLOATS];                                                                   \
        kvc_expert_linear(KVC_K_##NAME, y_buffer, y_offset, x_buffer, x_offset, w, row_bytes, K, N, first_row, count,  \
                          bias_buffer, bias_offset, first_buffer, first_offset, experts, across, shared_sum);          \
    }
KVC_ALL_WEIGHT_TYPES(KVC_EXPERT_LINEAR, )

/* ---- expert_sum ---- */

/* A work-item computes one value of out. */
KVC_KERNEL(expert_sum)
(KVC_SPAN(float, out), KVC_SPAN(const float, y), KVC_SPAN(const float, share), KVC_SPAN(const kvc_u32, pair),
 KVC_SPAN(const float, shared), KVC_SPAN(const float, shared_logit), kvc_u32 rows, kvc_u32 used, kvc_u32 width) {
    const kvc_u64 i = KVC_GLOBAL_ID(), row = i / width, n = i % width;
    float sum = 0.0f;
    if (row >= rows)
        return;
    for (kvc_u64 j = row * used; j < (row + 1) * used; j++)
        sum = kvc_fma(share_buffer[share_offset + j],
                      y_buffer[y_offset + (kvc_u64)pair_buffer[pair_offset + j] * width + n], sum);
    if (shared_buffer)
        sum =
            kvc_fma(kvc_sigmoid(shared_logit_buffer[shared_logit_offset + row]), shared_buffer[shared_offset + i], sum);
    out_buffer[out_offset + i] = sum;
}
