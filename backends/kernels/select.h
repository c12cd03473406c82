/* select.h - from scores to entries: pooling, and the rule of struct kvc_keep. */

/* Grid: entries of the fullest head, heads. */
KVC_KERNEL(pool)(KVC_LISTS(l), KVC_SPAN(float, out), KVC_SPAN(const float, in), kvc_u32 stride, kvc_u64 tail,
                 kvc_u32 kernel_size, kvc_u32 by_max) {
    kvc_u64 rank = KVC_GLOBAL_ID();
    kvc_u32 count = l_count[KVC_GROUP_ID(1)], n = tail < count ? count - (kvc_u32)tail : 0, side = kernel_size / 2;
    kvc_u32 r = (kvc_u32)rank, first, last;
    KVC_GLOBAL const float *x = in_buffer + in_offset + (kvc_u64)KVC_GROUP_ID(1) * stride;
    KVC_GLOBAL float *y = out_buffer + out_offset + (kvc_u64)KVC_GROUP_ID(1) * stride;
    float value;
    if (rank >= count)
        return;
    if (r >= n) {
        y[r] = 0.0f;
        return;
    }
    first = r > side ? r - side : 0;
    last = n - 1 - r > side ? r + side : n - 1;
    value = by_max ? x[first] : 0.0f;
    for (kvc_u32 i = first; i <= last; i++)
        value = by_max ? kvc_max(value, x[i]) : value + x[i];
    y[r] = by_max ? value : kvc_div(value, (float)kernel_size);
}

/* Of one head: whether the rule keeps a rank whatever its score. */
KVC_DEVICE kvc_u32 kvc_is_forced(const struct kvc_head_view *head, kvc_u32 rank, kvc_u64 first, kvc_u64 tail,
                                 kvc_i64 recent) {
    return rank < first || (kvc_u64)(head->count - rank) <= tail ||
           kvc_head_position(head, kvc_head_slot(head, rank)) >= recent;
}

/* A group a head. The best `top` candidates are those above a threshold key, found eight bits at a time, and of those
 * equal to it the lowest ranks. */
KVC_GROUP_KERNEL(keep)(KVC_LISTS(l), kvc_u64 first, kvc_u64 tail, kvc_u64 top, kvc_u64 fill, kvc_i64 recent,
                       KVC_SPAN(const float, scores), kvc_u32 stride, KVC_GLOBAL kvc_u32 *kept_count,
                       KVC_GLOBAL kvc_u32 *kept_rank, kvc_u32 kept_stride) {
    KVC_SHARED kvc_u32 digits[256];
    KVC_SHARED kvc_u32 room[KVC_GROUP];
    kvc_u32 h = KVC_GROUP_ID(0), forced = 0, kept = 0, threshold = 0, equal_taken = 0, need;
    KVC_GLOBAL const float *score = scores_buffer ? scores_buffer + scores_offset + (kvc_u64)h * stride : 0;
    KVC_GLOBAL kvc_u32 *ranks = kept_rank + (kvc_u64)h * kept_stride;
    KVC_OPEN_HEAD(head, l, h);
    for (kvc_u32 from = 0; from < head.count; from += KVC_GROUP) {
        kvc_u32 rank = from + KVC_LOCAL_ID(), all;
        kvc_group_before(rank < head.count && kvc_is_forced(&head, rank, first, tail, recent), &all, room);
        forced += all;
    }
    if (fill > forced && top < fill - forced)
        top = fill - forced;
    need = top > head.count - forced ? head.count - forced : (kvc_u32)top;
    for (kvc_u32 shift = 24; need && shift < 32; shift -= 8) { /* ends by wrapping below 0 */
        kvc_u32 digit = 255;
        for (kvc_u32 i = KVC_LOCAL_ID(); i < 256; i += KVC_GROUP)
            digits[i] = 0;
        KVC_BARRIER();
        for (kvc_u32 rank = KVC_LOCAL_ID(); rank < head.count; rank += KVC_GROUP) {
            kvc_u32 key = score ? kvc_score_key(score[rank]) : 0;
            if ((shift == 24 || (key ^ threshold) >> (shift + 8) == 0) &&
                !kvc_is_forced(&head, rank, first, tail, recent))
                KVC_ADD_LOCAL(&digits[key >> shift & 255], 1);
        }
        KVC_BARRIER();
        while (digit > 0 && digits[digit] < need)
            need -= digits[digit--];
        threshold |= digit << shift;
        KVC_BARRIER();
    }
    for (kvc_u32 from = 0; from < head.count; from += KVC_GROUP) {
        kvc_u32 rank = from + KVC_LOCAL_ID(), here = rank < head.count, all, before, key, is_equal, keeps;
        keeps = here && kvc_is_forced(&head, rank, first, tail, recent);
        key = here && score ? kvc_score_key(score[rank]) : 0;
        is_equal = here && !keeps && key == threshold;
        before = kvc_group_before(is_equal, &all, room);
        if (here && !keeps && need)
            keeps = is_equal ? equal_taken + before < need : key > threshold;
        equal_taken += all;
        before = kvc_group_before(keeps, &all, room);
        if (keeps)
            ranks[kept + before] = rank;
        kept += all;
    }
    if (KVC_LOCAL_ID() == 0)
        kept_count[h] = kept;
}
