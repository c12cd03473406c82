/* keep.h - chooses entries by their scores: pooling, group sums, the selection that struct kvc_keep describes, and the
 * division of slots among heads. */

#if KVC_WORKERS == 1
KVC_DEVICE float16 kvc_div16(float16 a, float b) {
#ifdef KVC_CORRECTED
    union {
        float16 all;
        float lane[16];
    } u;
    u.all = a;
    for (int i = 0; i < 16; i++)
        u.lane[i] = kvc_div(u.lane[i], b);
    return u.all;
#else
    return a / b;
#endif
}
#endif

/* Grid: (runs of the longest head's entries, rows). Each head of the lists has `rows` rows. */
KVC_KERNEL(pool)
(KVC_LISTS(l), kvc_u32 rows, KVC_SPAN(float, out), KVC_SPAN(const float, in), kvc_u32 stride, kvc_u64 tail,
 kvc_u32 kernel_size, kvc_u32 pooling) {
    kvc_u32 count = l_count[KVC_GROUP_ID(1) / rows], n = tail < count ? count - (kvc_u32)tail : 0;
    const float one = KVC_ONE(kernel_size);
    const kvc_u32 by_max = pooling == KVC_POOLS_MAX;
    kvc_u64 side = kernel_size / 2, r = KVC_GLOBAL_ID() * KVC_RUN, end = r + KVC_RUN < count ? r + KVC_RUN : count;
    KVC_GLOBAL const float *x = in_buffer + in_offset + (kvc_u64)KVC_GROUP_ID(1) * stride;
    KVC_GLOBAL float *y = out_buffer + out_offset + (kvc_u64)KVC_GROUP_ID(1) * stride;
    for (; r < end && r < n && pooling == KVC_POOLS_CHUNKS; r++) {
        kvc_u64 first = r - r % kernel_size, last = first + kernel_size < n ? first + kernel_size : n;
        float sum = 0.0f;
        for (kvc_u64 i = first; i < last; i++)
            sum = kvc_plus(sum, x[i], one);
        y[r] = kvc_div(sum, (float)(last - first));
    }
#if KVC_WORKERS == 1
    for (; r >= side && r + 16 <= end && r + 16 + side <= n; r += 16) { /* complete windows, 16 at a time */
        float16 value = by_max ? vload16(0, x + r - side) : (float16)(0.0f);
        for (kvc_u64 i = r - side; i <= r + side; i++)
            value = by_max ? kvc_max16(value, vload16(0, x + i)) : kvc_plus16(value, vload16(0, x + i), one);
        vstore16(by_max ? value : kvc_div16(value, (float)kernel_size), 0, y + r);
    }
#endif
    for (; r < end; r++) {
        kvc_u64 first = r > side ? r - side : 0, last = r + side < n ? r + side : (kvc_u64)n - 1;
        float value = by_max && r < n ? x[first] : 0.0f;
        for (kvc_u64 i = first; r < n && i <= last; i++)
            value = by_max ? kvc_max(value, x[i]) : kvc_plus(value, x[i], one);
        y[r] = by_max || r >= n ? value : kvc_div(value, (float)kernel_size);
    }
}

/* Grid: (runs of the longest head's entries, heads). */
KVC_KERNEL(group_scores)
(KVC_LISTS(l), kvc_u32 rows, KVC_SPAN(float, out), KVC_SPAN(const float, in), kvc_u32 stride, float divisor) {
    kvc_u32 h = KVC_GROUP_ID(1), count = l_count[h];
    const float one = KVC_ONE(rows);
    kvc_u64 r = KVC_GLOBAL_ID() * KVC_RUN, end = r + KVC_RUN < count ? r + KVC_RUN : count;
    KVC_GLOBAL const float *x = in_buffer + in_offset + (kvc_u64)h * rows * stride;
    KVC_GLOBAL float *y = out_buffer + out_offset + (kvc_u64)h * stride;
#if KVC_WORKERS == 1
    for (; r + 16 <= end; r += 16) {
        float16 sum = (float16)(0.0f);
        for (kvc_u64 g = 0; g < rows; g++)
            sum = kvc_plus16(sum, vload16(0, x + g * stride + r), one);
        vstore16(kvc_div16(sum, divisor), 0, y + r);
    }
#endif
    for (; r < end; r++) {
        float sum = 0.0f;
        for (kvc_u64 g = 0; g < rows; g++)
            sum = kvc_plus(sum, x[g * stride + r], one);
        y[r] = kvc_div(sum, divisor);
    }
}

/* Returns true if struct kvc_keep keeps this index regardless of its score. */
KVC_DEVICE kvc_u32 kvc_is_forced(const struct kvc_head_view *head, kvc_u32 index, kvc_u64 first, kvc_u64 tail,
                                 kvc_u64 limit, kvc_i64 recent) {
    return head->count <= limit || index < first || (kvc_u64)(head->count - index) <= tail ||
           kvc_head_position(head, kvc_head_slot(head, index)) >= recent;
}

#define KVC_DIGITS 258 /* 256 counts, one for each digit, and two words that one work-item computes for the group */
/* Finds a digit: the eight bits of the threshold key at `shift`. `digits` counts the candidates with each digit. At
 * first, *need is the number of candidates to choose. All candidates with a higher digit are chosen, and some with this
 * digit. *need becomes the number to choose from those with this digit. All work-items of the group must call this
 * function together. */
KVC_DEVICE kvc_u32 kvc_find_digit(KVC_LOCAL kvc_u32 *digits, kvc_u32 *need) {
    if (KVC_LOCAL_ID() == 0) {
        kvc_u32 digit = 255, left = *need;
        while (digit > 0 && digits[digit] < left)
            left -= digits[digit--];
        digits[256] = digit;
        digits[257] = left;
    }
    KVC_BARRIER();
    *need = digits[257];
    return digits[256];
}

KVC_DEVICE kvc_u64 kvc_tied_key(KVC_GLOBAL const float *score, KVC_GLOBAL const float *tie, kvc_u64 index) {
    return (kvc_u64)(score ? kvc_score_key(score[index]) : 0u) << 32 | (tie ? kvc_score_key(tie[index]) : 0u);
}

/* Grid: (heads), from first_head on. `least` is the lowest key to be kept by score. Finds a threshold key, eight bits
 * at a time. The best `top` candidates are all candidates with a higher key, and some with exactly this key. Of the
 * latter, the lowest indices come first. */
KVC_GROUP_KERNEL(keep)
(KVC_LISTS(l), kvc_u32 first_head, kvc_u64 first, kvc_u64 tail, kvc_u64 top, kvc_u64 fill, kvc_u64 limit,
 kvc_i64 recent, kvc_u32 least, KVC_SPAN(const float, scores), KVC_SPAN(const float, ties), kvc_u32 stride,
 KVC_GLOBAL kvc_u32 *kept_count, KVC_GLOBAL kvc_u32 *kept_index, kvc_u32 kept_stride) {
    KVC_SHARED kvc_u32 digits[KVC_DIGITS];
    KVC_SHARED kvc_u32 shared_sum[KVC_GROUP];
    kvc_u32 h = first_head + KVC_GROUP_ID(0), forced = 0, low = 0, kept = 0, equal_taken = 0, need;
    kvc_u64 threshold = 0;
    KVC_GLOBAL const float *score = scores_buffer ? scores_buffer + scores_offset + (kvc_u64)h * stride : 0;
    KVC_GLOBAL const float *tie = ties_buffer ? ties_buffer + ties_offset + (kvc_u64)h * stride : 0;
    KVC_GLOBAL kvc_u32 *indices = kept_index + (kvc_u64)h * kept_stride;
    KVC_OPEN_HEAD(head, l, h);
    for (kvc_u32 from = 0; from < head.count; from += KVC_GROUP) {
        kvc_u32 index = from + KVC_LOCAL_ID(), all;
        kvc_u32 is_forced = index < head.count && kvc_is_forced(&head, index, first, tail, limit, recent);
        kvc_group_before(is_forced, &all, shared_sum);
        forced += all;
        if (least && score) { /* without scores, `top` and `fill` are 0 */
            kvc_group_before(index < head.count && !is_forced && kvc_score_key(score[index]) < least, &all, shared_sum);
            low += all;
        }
    }
    if (fill > forced && top < fill - forced)
        top = fill - forced;
    need = top > head.count - forced - low ? head.count - forced - low : (kvc_u32)top;
    for (kvc_i32 shift = 56; need && shift >= (tie ? 0 : 32); shift -= 8) {
        for (kvc_u32 i = KVC_LOCAL_ID(); i < 256; i += KVC_GROUP)
            digits[i] = 0;
        KVC_BARRIER();
        for (kvc_u32 index = KVC_LOCAL_ID(); index < head.count; index += KVC_GROUP) {
            kvc_u64 key = kvc_tied_key(score, tie, index);
            if ((shift == 56 || (key ^ threshold) >> (shift + 8) == 0) &&
                !kvc_is_forced(&head, index, first, tail, limit, recent))
                KVC_ADD_LOCAL(&digits[key >> shift & 255], 1);
        }
        KVC_BARRIER();
        threshold |= (kvc_u64)kvc_find_digit(digits, &need) << shift;
        KVC_BARRIER();
    }
    for (kvc_u32 from = 0; from < head.count; from += KVC_GROUP) {
        kvc_u32 index = from + KVC_LOCAL_ID(), here = index < head.count, all, before, is_equal, keeps;
        kvc_u64 key = here ? kvc_tied_key(score, tie, index) : 0;
        keeps = here && kvc_is_forced(&head, index, first, tail, limit, recent);
        is_equal = here && !keeps && key == threshold;
        before = kvc_group_before(is_equal, &all, shared_sum);
        if (here && !keeps && need)
            keeps = is_equal ? equal_taken + before < need : key > threshold;
        equal_taken += all;
        before = kvc_group_before(keeps, &all, shared_sum);
        if (keeps)
            indices[kept + before] = index;
        kept += all;
    }
    if (KVC_LOCAL_ID() == 0)
        kept_count[h] = kept;
}

/* Grid: (1). Finds one threshold for all heads in the same way. Among entries with this key, those of lower heads come
 * first. */
KVC_GROUP_KERNEL(shares)
(KVC_LISTS(l), kvc_u32 kv_heads, KVC_SPAN(const float, scores), kvc_u32 stride, kvc_u64 tail, kvc_u64 slots,
 KVC_SPAN(kvc_u32, shares)) {
    KVC_SHARED kvc_u32 digits[KVC_DIGITS];
    KVC_SHARED kvc_u32 above[1], level[1];
    KVC_OPEN(kvc_u32, shares);
    kvc_u32 threshold = 0, need;
    kvc_u64 candidates = 0;
    for (kvc_u32 h = 0; h < kv_heads; h++)
        candidates += l_count[h] > tail ? l_count[h] - tail : 0;
    need = slots > candidates ? (kvc_u32)candidates : (kvc_u32)slots;
    for (kvc_i32 shift = 24; need && shift >= 0; shift -= 8) {
        for (kvc_u32 i = KVC_LOCAL_ID(); i < 256; i += KVC_GROUP)
            digits[i] = 0;
        KVC_BARRIER();
        for (kvc_u32 h = 0; h < kv_heads; h++)
            for (kvc_u32 index = KVC_LOCAL_ID(); index + tail < l_count[h]; index += KVC_GROUP) {
                kvc_u32 key = kvc_score_key(scores_buffer[scores_offset + (kvc_u64)h * stride + index]);
                if (shift == 24 || (key ^ threshold) >> (shift + 8) == 0)
                    KVC_ADD_LOCAL(&digits[key >> shift & 255], 1);
            }
        KVC_BARRIER();
        threshold |= kvc_find_digit(digits, &need) << shift;
        KVC_BARRIER();
    }
    for (kvc_u32 h = 0; h < kv_heads; h++) {
        kvc_u32 share = 0;
        if (KVC_LOCAL_ID() == 0)
            above[0] = level[0] = 0;
        KVC_BARRIER();
        for (kvc_u32 index = KVC_LOCAL_ID(); index + tail < l_count[h]; index += KVC_GROUP) {
            kvc_u32 key = kvc_score_key(scores_buffer[scores_offset + (kvc_u64)h * stride + index]);
            if (key > threshold)
                KVC_ADD_LOCAL(above, 1);
            else if (key == threshold)
                KVC_ADD_LOCAL(level, 1);
        }
        KVC_BARRIER();
        if (slots) {
            share = level[0] < need ? level[0] : need;
            need -= share;
            share += above[0];
        }
        if (KVC_LOCAL_ID() == 0)
            shares[h] = share;
        KVC_BARRIER();
    }
}
