/* pages.h - the data that select methods store in addition to the entries: views, pages of keys, and sums of values. */

/* The number of entries of head h in the view (or in the list if there is no view), and the slot of one entry. */
#define KVC_PLACES(head, h) (read_count ? read_count[h] : (head).count)
#define KVC_PLACE_SLOT(head, h, place)                                                                                 \
    kvc_head_slot(&(head), read_count ? read_index[(kvc_u64)(h)*read_stride + (place)] : (place))

/* Grid: (KV heads). Appends the newest `rows` entries to the view. */
KVC_GROUP_KERNEL(view_append)
(KVC_LISTS(l), KVC_GLOBAL kvc_u32 *view_count, KVC_GLOBAL kvc_u32 *view_index, kvc_u32 view_stride, kvc_u32 rows) {
    kvc_u32 h = KVC_GROUP_ID(0), held = l_count[h], n = rows < held ? rows : held, had = view_count[h];
    for (kvc_u32 i = KVC_LOCAL_ID(); i < n; i += KVC_GROUP)
        view_index[(kvc_u64)h * view_stride + had + i] = held - n + i;
    KVC_BARRIER();
    if (KVC_LOCAL_ID() == 0)
        view_count[h] = had + n;
}

/* Grid: (KV heads). Removes from the view, in place, the indices that are not kept (KVC_READS). Each remaining index is
 * replaced by its index after the eviction. */
KVC_GROUP_KERNEL(view_evict)
(KVC_READS, KVC_GLOBAL kvc_u32 *view_count, KVC_GLOBAL kvc_u32 *view_index, kvc_u32 view_stride) {
    KVC_SHARED kvc_u32 shared_sum[KVC_GROUP];
    kvc_u32 h = KVC_GROUP_ID(0), kept = read_count[h], seen = view_count[h], low = 0, left = 0;
    KVC_GLOBAL const kvc_u32 *indices = read_index + (kvc_u64)h * read_stride;
    KVC_GLOBAL kvc_u32 *view = view_index + (kvc_u64)h * view_stride;
    for (kvc_u32 from = 0; from < seen; from += KVC_GROUP) {
        kvc_u32 i = from + KVC_LOCAL_ID(), is_kept = 0, all, before;
        if (i < seen) {
            low = kvc_indices_below(indices, kept, view[i], low);
            is_kept = low < kept && indices[low] == view[i];
        }
        before = kvc_group_before(is_kept, &all, shared_sum); /* waits until all work-items have read their index */
        if (is_kept)
            view[left + before] = low;
        left += all;
    }
    KVC_BARRIER();
    if (KVC_LOCAL_ID() == 0)
        view_count[h] = left;
}

KVC_DEVICE float kvc_page_load(kvc_u32 type, KVC_GLOBAL const kvc_u8 *side, kvc_u64 at) {
    return type == KVC_K_F16 ? kvc_f16_to_f32(((KVC_GLOBAL const kvc_u16 *)side)[at])
                             : ((KVC_GLOBAL const float *)side)[at];
}
KVC_DEVICE void kvc_page_store(kvc_u32 type, KVC_GLOBAL kvc_u8 *side, kvc_u64 at, float x) {
    if (type == KVC_K_F16)
        ((KVC_GLOBAL kvc_u16 *)side)[at] = kvc_f32_to_f16(x);
    else
        ((KVC_GLOBAL float *)side)[at] = x;
}

/* kvc_page_half loads an F16 value of a page. kvc_page_bits updates an F16 page with an F16 key: it copies the key's
 * bits. */
KVC_DEVICE float kvc_page_half(KVC_GLOBAL const kvc_u16 *h) {
#if KVC_WORKERS == 1
    return vload_half(0, (KVC_GLOBAL const half *)h);
#else
    return kvc_half_of(*h);
#endif
}
KVC_DEVICE void kvc_page_bits(KVC_GLOBAL kvc_u16 *side, KVC_GLOBAL const kvc_u16 *key, bool first, bool low) {
    float x = kvc_page_half(key), old = kvc_page_half(side);
    if (first || (low ? x < old : x > old))
        *side = *key;
}

/* Grid: (`across` heads x `changed` pages that may change x channels, heads / across). On CPUs a work-item updates all
 * channels of a page. `low` may be NULL. */
KVC_KERNEL(pages_update)
(KVC_LISTS(l), KVC_ARENA, KVC_READS, kvc_u32 page_size, kvc_u32 page_stride, kvc_u32 page_type, KVC_GLOBAL kvc_u8 *low,
 KVC_GLOBAL kvc_u8 *high, kvc_u32 rows, kvc_u32 changed, kvc_u32 across) {
    kvc_u32 run = KVC_WORKERS == 1 ? head_size : 1;
    kvc_u32 c0 = KVC_WORKERS == 1 ? 0 : (kvc_u32)(KVC_GLOBAL_ID() % head_size);
    kvc_u64 id = KVC_WORKERS == 1 ? KVC_GLOBAL_ID() : KVC_GLOBAL_ID() / head_size, nth, at, end;
    if (id >= (kvc_u64)changed * across) /* true for most work-items of a group if there is only one new entry */
        return;
    nth = id % changed;
    kvc_u32 h = KVC_GROUP_ID(1) * across + (kvc_u32)(id / changed), places = read_count ? read_count[h] : l_count[h];
    kvc_u32 first = rows < places ? places - rows : 0, page = first / page_size + (kvc_u32)nth;
    end = ((kvc_u64)page + 1) * page_size;
    end = end < places ? end : places;
    if (nth + first / page_size >= page_stride || (kvc_u64)page * page_size >= end)
        return;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    for (kvc_u64 place = (kvc_u64)page * page_size > first ? (kvc_u64)page * page_size : first; place < end; place++) {
        kvc_bytes key = kvc_head_key(&arena, &head, KVC_PLACE_SLOT(head, h, (kvc_u32)place));
        for (kvc_u32 c = c0; c < c0 + run && key_type == KVC_K_F16 && page_type == KVC_K_F16; c++) {
            at = ((kvc_u64)h * head_size + c) * page_stride + page;
            if (low)
                kvc_page_bits((KVC_GLOBAL kvc_u16 *)low + at, (KVC_GLOBAL const kvc_u16 *)key + c,
                              place % page_size == 0, true);
            if (high)
                kvc_page_bits((KVC_GLOBAL kvc_u16 *)high + at, (KVC_GLOBAL const kvc_u16 *)key + c,
                              place % page_size == 0, false);
        }
        for (kvc_u32 c = c0; c < c0 + run && !(key_type == KVC_K_F16 && page_type == KVC_K_F16); c++) {
            float x = kvc_entry_value(key_type, key, c, head_size);
            at = ((kvc_u64)h * head_size + c) * page_stride + page;
            if (low) {
                float old = kvc_page_load(page_type, low, at);
                kvc_page_store(page_type, low, at, place % page_size == 0 ? x : x < old ? x : old);
            }
            if (high) {
                float old = kvc_page_load(page_type, high, at);
                kvc_page_store(page_type, high, at, place % page_size == 0 ? x : x > old ? x : old);
            }
        }
    }
}

/* Grid: (runs of channels of `across` heads, heads / across). */
KVC_KERNEL(value_sums)(KVC_LISTS(l), KVC_ARENA, KVC_READS, KVC_SPAN(float, sums), kvc_u32 rows, kvc_u32 across) {
    kvc_u32 runs = (head_size + KVC_RUN - 1) / KVC_RUN, id = (kvc_u32)KVC_GLOBAL_ID(), places, place;
    kvc_u32 c = id % runs * KVC_RUN, h = KVC_GROUP_ID(1) * across + id / runs;
    const float one = KVC_ONE(across);
    KVC_GLOBAL float *sum = sums_buffer + sums_offset + (kvc_u64)h * head_size + c;
    if (id >= runs * across)
        return;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    places = KVC_PLACES(head, h);
    place = rows < places ? places - rows : 0;
#if KVC_WORKERS == 1
    if (head_size - c >= KVC_RUN) {
        struct kvc_lanes total = rows == 0xffffffffu ? kvc_lanes_zero() : kvc_lanes_floats(sum, 0);
        for (; place < places; place++) {
            struct kvc_lanes p =
                kvc_lanes_entry(value_type, kvc_head_value(&arena, &head, KVC_PLACE_SLOT(head, h, place)), c, 0);
            total = kvc_lanes_of(kvc_plus16(total.low, p.low, one), kvc_plus16(total.high, p.high, one));
        }
        vstore16(total.low, 0, sum);
        vstore16(total.high, 1, sum);
        return;
    }
#endif
    for (kvc_u32 i = 0; rows == 0xffffffffu && i < KVC_RUN && c + i < head_size; i++)
        sum[i] = 0.0f;
    for (; place < places; place++) {
        kvc_bytes value = kvc_head_value(&arena, &head, KVC_PLACE_SLOT(head, h, place));
        for (kvc_u32 i = 0; i < KVC_RUN && c + i < head_size; i++)
            sum[i] = kvc_plus(sum[i], kvc_entry_value(value_type, value, c + i, head_size), one);
    }
}

/* Grid: (values of out [heads, d]); on CPUs (heads). kept_count holds the numbers of entries read; KVC_READS is the
 * view. */
KVC_KERNEL(mix_mean)
(KVC_LISTS(l), KVC_READS, KVC_GLOBAL const kvc_u32 *kept_count, kvc_u32 heads, kvc_u32 kv_heads, kvc_u32 d,
 KVC_SPAN(float, out), KVC_SPAN(const float, alpha), KVC_SPAN(const float, sums)) {
    kvc_u32 run = KVC_WORKERS == 1 ? d : 1, h, list, c, places;
    kvc_u64 i = KVC_GLOBAL_ID() * run;
    float share;
    if (i >= (kvc_u64)heads * d)
        return;
    h = (kvc_u32)(i / d);
    c = (kvc_u32)(i % d);
    list = h / (heads / kv_heads);
    places = read_count ? read_count[list] : l_count[list];
    share = alpha_buffer[alpha_offset + h];
    for (kvc_u32 end = c + run; c < end && kept_count[list] != places; c++, i++)
        out_buffer[out_offset + i] =
            kvc_fma(share, out_buffer[out_offset + i],
                    (1.0f - share) * kvc_div(sums_buffer[sums_offset + (kvc_u64)list * d + c], (float)places));
}
