/* select.h - select methods: scores of entries or pages for a decode step's query, and read lists from scores. */

#define KVC_SELECT                                                                                                     \
    KVC_LISTS(l), KVC_ARENA, KVC_READS, kvc_u32 page_size, kvc_u32 page_stride, kvc_u32 page_type,                     \
        KVC_GLOBAL const kvc_u8 *low, KVC_GLOBAL const kvc_u8 *high, kvc_u32 kind, kvc_u32 dims, kvc_u32 heads,        \
        kvc_u32 kv_heads, kvc_u32 window, kvc_u64 budget, KVC_SPAN(const float, q),                                    \
        KVC_SPAN(const kvc_i32, positions), KVC_QUERIES

KVC_DEVICE float kvc_absolute(float x) { return kvc_from_bits(kvc_bits(x) & 0x7fffffffu); }

/* Grid: (KV heads). Chooses a head's channels, in ascending order, and computes whether each is positive and the factor
 * of each query head. keys is scratch, d words for each KV head. */
KVC_GROUP_KERNEL(select_channels)
(KVC_SPAN(const float, q), kvc_u32 group, kvc_u32 d, float span, kvc_u32 dims, KVC_SPAN(kvc_u32, keys),
 KVC_SPAN(kvc_u32, channels), KVC_SPAN(kvc_u32, positives), KVC_SPAN(float, factors)) {
    kvc_u32 h = KVC_GROUP_ID(0);
    const float one = KVC_ONE(group);
    KVC_OPEN(kvc_u32, keys);
    KVC_OPEN(kvc_u32, channels);
    KVC_OPEN(kvc_u32, positives);
    KVC_OPEN(float, factors);
    KVC_GLOBAL const float *queries = q_buffer + q_offset + (kvc_u64)h * group * d;
    KVC_GLOBAL kvc_u32 *key = keys + (kvc_u64)h * d, *channel = channels + (kvc_u64)h * d;
    KVC_GLOBAL kvc_u32 *is_positive = positives + (kvc_u64)h * d;
    for (kvc_u32 c = KVC_LOCAL_ID(); c < d; c += KVC_GROUP) {
        float sum = 0.0f;
        for (kvc_u32 g = 0; g < group; g++)
            sum = kvc_plus(sum, kvc_absolute(queries[(kvc_u64)g * d + c]), one);
        key[c] = kvc_score_key(sum);
    }
    KVC_BARRIER();
    for (kvc_u32 c = KVC_LOCAL_ID(); c < d; c += KVC_GROUP) {
        kvc_u32 better = 0;
        for (kvc_u32 other = 0; other < d; other++)
            better += key[other] > key[c] || (key[other] == key[c] && other < c);
        is_positive[c] = better < dims; /* until the next loop, is_positive tells whether a channel is chosen */
    }
    KVC_BARRIER();
    if (KVC_LOCAL_ID() == 0) {
        kvc_u32 found = 0;
        for (kvc_u32 c = 0; c < d; c++)
            if (is_positive[c])
                channel[found++] = c;
        for (kvc_u32 i = 0; i < found; i++) {
            float sum = 0.0f;
            for (kvc_u32 g = 0; g < group; g++)
                sum = kvc_plus(sum, queries[(kvc_u64)g * d + channel[i]], one);
            is_positive[i] = !(sum < 0.0f);
        }
    }
    KVC_BARRIER();
    for (kvc_u32 g = KVC_LOCAL_ID(); g < group; g += KVC_GROUP) {
        KVC_GLOBAL const float *query = queries + (kvc_u64)g * d;
        float a = 0.0f, b = 0.0f;
        for (kvc_u32 i = 0; i < dims; i++)
            a = kvc_plus(a, kvc_absolute(query[channel[i]]), one);
        for (kvc_u32 c = 0; c < d; c++)
            b = kvc_plus(b, kvc_absolute(query[c]), one);
        factors[(kvc_u64)h * group + g] = a == 0.0f || b == 0.0f ? 0.0f : kvc_div(1.0f, kvc_sqrt(span * kvc_div(a, b)));
    }
}

/* Counts the page values that the bound reads: for each channel `low`, `high` or both. q is [G, d]. */
KVC_DEVICE kvc_u32 kvc_sides_of(KVC_GLOBAL const float *q, kvc_u32 group, kvc_u32 d) {
    kvc_u32 sides = 0;
    for (kvc_u32 c = 0; c < d; c++) {
        kvc_u32 low_side = 0;
        for (kvc_u32 g = 0; g < group; g++)
            low_side += q[(kvc_u64)g * d + c] < 0.0f;
        sides += (low_side > 0) + (low_side < group);
    }
    return sides;
}

/* The values of a page: `low` and `high` for each channel. `first` is the index of channel 0's value, and `stride` the
 * distance between channels. */
struct kvc_page_view {
    KVC_GLOBAL const kvc_u8 *low, *high;
    kvc_u64 first;
    kvc_u32 type, stride;
};

KVC_DEVICE float kvc_page_value(const struct kvc_page_view *page, kvc_u32 channel, kvc_u32 is_low) {
    return kvc_page_load(page->type, is_low ? page->low : page->high, page->first + (kvc_u64)channel * page->stride);
}

/* Returns an upper bound for the scores of a page's entries: the sum over all channels of the larger of query * low and
 * query * high. */
KVC_DEVICE float kvc_page_bound(const struct kvc_page_view *page, KVC_GLOBAL const float *query, kvc_u32 d) {
    float dot = 0.0f;
    for (kvc_u32 c = 0; c < d; c++)
        dot = kvc_fma(query[c], kvc_page_value(page, c, query[c] < 0.0f), dot);
    return dot;
}

/* Return the dot product, over the chosen channels, of the query and an entry of d channels, or of the query and a
 * page. `is_positive` is NULL if a page has only one value for each channel. */
KVC_DEVICE float kvc_entry_dot(kvc_u32 type, kvc_bytes key, kvc_u32 d, KVC_GLOBAL const float *query,
                               KVC_GLOBAL const kvc_u32 *channel, kvc_u32 dims) {
    float dot = 0.0f;
    for (kvc_u32 i = 0; i < dims; i++)
        dot = kvc_fma(query[channel[i]], kvc_entry_value(type, key, channel[i], d), dot);
    return dot;
}
KVC_DEVICE float kvc_page_dot(const struct kvc_page_view *page, KVC_GLOBAL const float *query,
                              KVC_GLOBAL const kvc_u32 *channel, KVC_GLOBAL const kvc_u32 *is_positive, kvc_u32 dims) {
    float dot = 0.0f;
    for (kvc_u32 i = 0; i < dims; i++)
        dot = kvc_fma(query[channel[i]], kvc_page_value(page, channel[i], is_positive && !is_positive[i]), dot);
    return dot;
}

/* Counts the entries of a page that the query sees. */
KVC_DEVICE kvc_u32 kvc_page_seen(const struct kvc_query_view *view, const struct kvc_head_view *head, kvc_u32 page,
                                 kvc_u32 page_size) {
    const kvc_u64 end = ((kvc_u64)page + 1) * page_size;
    kvc_u32 n = 0;
    for (kvc_u64 p = (kvc_u64)page * page_size; p < end && p < view->places; p++)
        n += kvc_query_slot(view, head, (kvc_u32)p) != KVC_MASKED;
    return n;
}

/* Grid: (tiles of units of the longest head, KV heads); a unit is an entry or a page. Writes the score of each query
 * head to score [H, stride], and the number of each unit's visible entries to `seen` [kv_heads, stride]. */
KVC_GROUP_KERNEL(select_units)
(KVC_SELECT, float scale, float cap, KVC_SPAN(const kvc_u32, channels), KVC_SPAN(const kvc_u32, positives),
 KVC_SPAN(const float, factors), KVC_SPAN(float, score), KVC_SPAN(kvc_u32, seen), kvc_u32 stride,
 KVC_GLOBAL kvc_u32 *status_words, kvc_u32 read_word) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS];
    KVC_OPEN(const kvc_u32, channels);
    KVC_OPEN(const kvc_u32, positives);
    KVC_OPEN(const float, factors);
    KVC_OPEN(kvc_u32, seen);
    kvc_u32 h = KVC_GROUP_ID(1), group = heads / kv_heads, d = head_size, paged = kind >= KVC_UNITS_PAGE_CHANNELS;
    kvc_u32 first = KVC_GROUP_ID(0) * KVC_TILE, units, read = 0;
    KVC_GLOBAL const kvc_u32 *channel = channels + (kvc_u64)h * d, *is_positive = positives + (kvc_u64)h * d;
    const struct kvc_query queries = KVC_QUERY_FROM(0, 0);
    struct kvc_query_view view;
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, h);
    view =
        kvc_query_view_of(&head, read_count, read_index, read_stride, h, 0, positions_buffer[positions_offset], window);
    if (view.places <= budget) /* true for the whole group or for none of it */
        return;
    units = paged ? (kvc_u32)(((kvc_u64)view.places + page_size - 1) / page_size) : view.places;
    for (kvc_u32 from = 0; from < KVC_TILE && first + from < units; from += KVC_TEAMS) {
        kvc_u32 unit = first + from + KVC_LOCAL_ID() / KVC_WORKERS, leads = KVC_LOCAL_ID() % KVC_WORKERS == 0, n = 0;
        kvc_u32 here = unit < units;
        kvc_bytes key = 0;
        struct kvc_page_view page;
        page.low = low;
        page.high = high;
        page.first = (kvc_u64)h * d * page_stride + unit;
        page.type = page_type;
        page.stride = page_stride;
        if (here && paged) {
            n = kvc_page_seen(&view, &head, unit, page_size);
        } else if (here) {
            kvc_u32 slot = kvc_query_slot(&view, &head, unit);
            n = slot != KVC_MASKED;
            if (n)
                key = kvc_head_key(&arena, &head, slot);
        }
        if (here && leads) {
            seen[(kvc_u64)h * stride + unit] = n;
            read += n > 0;
        }
        for (kvc_u32 g = 0; g < group; g++) {
            KVC_GLOBAL const float *query = q_buffer + q_offset + ((kvc_u64)h * group + g) * d;
            float dot = 0.0f;
            if (kind == KVC_UNITS_EXACT) {
                dot = kvc_key_dot(key_type, q_buffer + q_offset, &queries, (kvc_u64)h * group + g, key, d, shared_sum) *
                      scale;
            } else if (n && leads && kind == KVC_UNITS_PAGE_BOUND) {
                dot = kvc_page_bound(&page, query, d);
            } else if (n && leads && high) {
                dot = kvc_page_dot(&page, query, channel, kind == KVC_UNITS_PAGE_CHANNELS ? is_positive : 0, dims) *
                      factors[(kvc_u64)h * group + g];
            } else if (n && leads) {
                dot = kvc_entry_dot(key_type, key, d, query, channel, dims) * factors[(kvc_u64)h * group + g];
            }
            if (cap != 0.0f && kind != KVC_UNITS_PAGE_BOUND)
                dot = kvc_capped(dot, cap);
            if (here && leads)
                score_buffer[score_offset + ((kvc_u64)h * group + g) * stride + unit] = dot;
        }
    }
    if (read && kind == KVC_UNITS_PAGE_BOUND)
        read *= kvc_sides_of(q_buffer + q_offset + (kvc_u64)h * group * d, group, d);
    if (read && read_word)
        KVC_ADD_GLOBAL(status_words + read_word + h, read);
}

/* Returns the number of units of a KV head, or 0 if the head is not scored. */
KVC_DEVICE kvc_u32 kvc_units_of(kvc_u32 places, kvc_u64 budget, kvc_u32 page_size) {
    return places <= budget ? 0 : (kvc_u32)(((kvc_u64)places + page_size - 1) / page_size);
}

/* Grid: (query heads). Replaces `score` by exp(score - M). Writes `share` [H] = 1 / L, and `rest` [H] unless it is
 * NULL. */
#define KVC_TILES_AT_ONCE (KVC_GROUP < 32 ? 1 : KVC_GROUP / 32)
KVC_GROUP_KERNEL(select_softmax)
(KVC_GLOBAL const kvc_u32 *places, kvc_u32 group, kvc_u64 budget, kvc_u32 page_size, KVC_SPAN(float, score),
 KVC_SPAN(const kvc_u32, seen), kvc_u32 stride, KVC_SPAN(float, share), KVC_SPAN(const float, sinks),
 KVC_SPAN(float, rest)) {
    KVC_SHARED float most[KVC_GROUP], lanes[KVC_TILES_AT_ONCE][32];
    kvc_u32 g = KVC_GROUP_ID(0), id = KVC_LOCAL_ID(), units = kvc_units_of(places[g / group], budget, page_size);
    KVC_GLOBAL float *s = score_buffer + score_offset + (kvc_u64)g * stride;
    KVC_GLOBAL const kvc_u32 *n = seen_buffer + seen_offset + (kvc_u64)(g / group) * stride;
    float M = -kvc_infinity(), L = 0.0f, one = KVC_ONE(group);
    if (units == 0)
        return;
    for (kvc_u32 i = id; i < units; i += KVC_GROUP)
        if (n[i])
            M = kvc_max(M, s[i]);
    most[id] = M;
    KVC_BARRIER();
    M = most[0];
    for (kvc_u32 i = 1; i < KVC_GROUP; i++)
        M = kvc_max(M, most[i]);
    for (kvc_u32 from = 0; from < units; from += KVC_TILES_AT_ONCE * KVC_TILE) {
        for (kvc_u32 j = id; j < KVC_TILES_AT_ONCE * 32; j += KVC_GROUP) {
            float lane = 0.0f;
            kvc_u32 first = from + j / 32 * KVC_TILE + j % 32, end = from + (j / 32 + 1) * KVC_TILE;
            for (kvc_u32 i = first; i < end && i < units; i += 32) {
                float e = n[i] ? kvc_exp(s[i] - M) : 0.0f;
                s[i] = e;
                if (n[i])
                    lane = kvc_fma((float)n[i], e, lane);
            }
            lanes[j / 32][j % 32] = lane;
        }
        KVC_BARRIER();
        if (id == 0)
            for (kvc_u32 t = 0; t < KVC_TILES_AT_ONCE && from + t * KVC_TILE < units; t++) {
                KVC_TREE32(lanes[t]);
                L = kvc_plus(L, lanes[t][0], one);
            }
        KVC_BARRIER();
    }
    if (id == 0)
        most[0] = L;
    KVC_BARRIER();
    if (id == 0) {
        float all = most[0];
        L = all; /* reload L, because PoCL 3.1 loses the loop's value if more than a division follows */
        if (sinks_buffer && L != 0.0f)
            all = kvc_join_sink(L, M, sinks_buffer[sinks_offset + g]);
        share_buffer[share_offset + g] = kvc_div(1.0f, all);
        if (rest_buffer)
            rest_buffer[rest_offset + g] = L == 0.0f ? 0.0f : kvc_fma(-L, kvc_div(1.0f, all), 1.0f);
    }
}

/* Grid: (units of the longest head, KV heads). For each unit, multiplies the scores of the KV head's query heads by
 * `share` and adds them up. `share` is NULL for bounds, which need no softmax. */
KVC_KERNEL(select_sums)
(KVC_GLOBAL const kvc_u32 *places, kvc_u32 group, kvc_u64 budget, kvc_u32 page_size, KVC_SPAN(float, score),
 KVC_SPAN(const kvc_u32, seen), kvc_u32 stride, KVC_SPAN(const float, share), KVC_SPAN(float, scores)) {
    kvc_u64 i = KVC_GLOBAL_ID();
    kvc_u32 h = KVC_GROUP_ID(1), n;
    float sum = 0.0f, one = KVC_ONE(group);
    if (i >= kvc_units_of(places[h], budget, page_size))
        return;
    n = seen_buffer[seen_offset + (kvc_u64)h * stride + i];
    for (kvc_u32 g = h * group; g < (h + 1) * group; g++) {
        KVC_GLOBAL float *at = score_buffer + score_offset + (kvc_u64)g * stride + i;
        if (share_buffer)
            *at = n ? *at * share_buffer[share_offset + g] : 0.0f;
        sum = kvc_plus(sum, *at, one);
    }
    scores_buffer[scores_offset + (kvc_u64)h * stride + i] = n ? sum : -kvc_infinity();
}

/* The units of a head that is scored. The last units are always read; the others are candidates. */
struct kvc_unit_range {
    kvc_u32 places, units, candidates, page_size, whole; /* whole: pages are read as a whole */
};

/* Returns how much a candidate counts: its number of entries, or 1 if pages are read as a whole. */
KVC_DEVICE kvc_u32 kvc_unit_size(const struct kvc_unit_range *range, kvc_u32 unit) {
    kvc_u32 left = range->places - unit * range->page_size;
    return range->whole ? 1u : left < range->page_size ? left : range->page_size;
}

/* Finds the smallest key among the candidates that are read, one digit of eight bits after another. `need` is the total
 * count to read; it becomes the count to read from the candidates with exactly this key. */
KVC_DEVICE kvc_u32 kvc_find_threshold(const struct kvc_unit_range *range, KVC_GLOBAL const float *score, kvc_u32 *need,
                                      KVC_LOCAL kvc_u32 *digits) {
    kvc_u32 threshold = 0;
    for (kvc_i32 shift = 24; *need && shift >= 0; shift -= 8) {
        for (kvc_u32 i = KVC_LOCAL_ID(); i < 256; i += KVC_GROUP)
            digits[i] = 0;
        KVC_BARRIER();
        for (kvc_u32 u = KVC_LOCAL_ID(); u < range->candidates; u += KVC_GROUP) {
            kvc_u32 key = kvc_score_key(score[u]);
            if (shift == 24 || (key ^ threshold) >> (shift + 8) == 0)
                KVC_ADD_LOCAL(&digits[key >> shift & 255], kvc_unit_size(range, u));
        }
        KVC_BARRIER();
        threshold |= kvc_find_digit(digits, need) << shift;
        KVC_BARRIER();
    }
    return threshold;
}

/* Writes how many entries of each unit are read. */
KVC_DEVICE void kvc_take_units(const struct kvc_unit_range *range, KVC_GLOBAL const float *score, kvc_u32 threshold,
                               kvc_u32 need, KVC_GLOBAL kvc_u32 *taken, KVC_LOCAL kvc_u32 *shared_sum) {
    kvc_u32 equal_taken = 0;
    for (kvc_u32 from = 0; from < range->units; from += KVC_GROUP) {
        kvc_u32 u = from + KVC_LOCAL_ID(), all, before, size = 0, key = 0, is_equal = 0, takes = 0;
        if (u < range->candidates && need) {
            size = kvc_unit_size(range, u);
            key = kvc_score_key(score[u]);
            is_equal = key == threshold;
        }
        before = equal_taken + kvc_group_before(is_equal ? size : 0, &all, shared_sum);
        if (is_equal)
            takes = before >= need ? 0 : need - before < size ? need - before : size;
        else if (u < range->candidates && need)
            takes = key > threshold ? size : 0;
        if (u >= range->candidates)
            takes = range->page_size;
        if (u < range->units)
            taken[u] = range->whole && takes ? range->page_size : takes;
        equal_taken += all;
    }
}

/* Grid: (KV heads). taken [kv_heads, stride] receives how many entries of each unit are read. `chosen` receives the
 * indices of these entries, in the layout of the list. lanes is [H, 32]. */
KVC_GROUP_KERNEL(select_reads)
(KVC_LISTS(l), KVC_READS, kvc_u32 page_size, kvc_u32 whole, kvc_u32 group, kvc_u64 budget, kvc_u64 top, kvc_u64 newest,
 KVC_SPAN(const float, scores), KVC_SPAN(const float, probabilities), KVC_SPAN(const float, rest),
 KVC_SPAN(float, alpha), kvc_u32 stride, KVC_GLOBAL kvc_u32 *kept_count, KVC_GLOBAL kvc_u32 *kept_index,
 kvc_u32 kept_stride, KVC_SPAN(kvc_u32, taken), KVC_SPAN(kvc_u32, chosen), KVC_SPAN(float, lanes)) {
    KVC_SHARED kvc_u32 digits[KVC_DIGITS];
    KVC_SHARED kvc_u32 shared_sum[KVC_GROUP];
    KVC_OPEN(kvc_u32, taken);
    KVC_OPEN(kvc_u32, chosen);
    KVC_OPEN(float, lanes);
    kvc_u32 h = KVC_GROUP_ID(0), places = read_count ? read_count[h] : l_count[h], all_read = places <= budget;
    kvc_u32 units = all_read ? 0 : (kvc_u32)(((kvc_u64)places + page_size - 1) / page_size);
    kvc_u32 last = newest < places ? (kvc_u32)newest : places, candidates = all_read ? 0 : units - last, kept = 0;
    kvc_u32 threshold, need;
    struct kvc_unit_range range;
    kvc_u64 best = top > last ? top - last : 0;
    kvc_u64 most = whole || candidates < units ? candidates : (kvc_u64)places; /* limit for `need` */
    KVC_GLOBAL const float *score = scores_buffer + scores_offset + (kvc_u64)h * stride;
    KVC_GLOBAL kvc_u32 *indices = kept_index + (kvc_u64)h * kept_stride,
                       *places_read = chosen + (kvc_u64)h * kept_stride;
    KVC_GLOBAL kvc_u32 *taken_of = taken + (kvc_u64)h * stride;
    need = all_read ? 0 : best < most ? (kvc_u32)best : (kvc_u32)most;
    range.places = places;
    range.units = units;
    range.candidates = candidates;
    range.page_size = page_size;
    range.whole = whole;
    threshold = kvc_find_threshold(&range, score, &need, digits);
    kvc_take_units(&range, score, threshold, need, taken_of, shared_sum);
    KVC_BARRIER();
    for (kvc_u32 from = 0; from < places; from += KVC_GROUP) {
        kvc_u32 place = from + KVC_LOCAL_ID(), all, before;
        kvc_u32 reads = place < places && (all_read || place % page_size < taken_of[place / page_size]);
        before = kvc_group_before(reads, &all, shared_sum);
        if (reads) {
            indices[kept + before] = read_count ? read_index[(kvc_u64)h * read_stride + place] : place;
            places_read[kept + before] = place;
        }
        kept += all;
    }
    if (KVC_LOCAL_ID() == 0)
        kept_count[h] = kept;
    if (!alpha_buffer)
        return;
    KVC_BARRIER();
    for (kvc_u32 i = KVC_LOCAL_ID(); i < group * 32; i += KVC_GROUP) {
        KVC_GLOBAL const float *probability =
            probabilities_buffer + probabilities_offset + ((kvc_u64)h * group + i / 32) * stride;
        float lane = 0.0f, one = KVC_ONE(group);
        for (kvc_u32 j = i % 32; !all_read && j < kept; j += 32)
            lane = kvc_plus(lane, probability[places_read[j]], one);
        lanes[((kvc_u64)h * group) * 32 + i] = lane;
    }
    KVC_BARRIER();
    for (kvc_u32 g = KVC_LOCAL_ID(); g < group; g += KVC_GROUP) {
        KVC_GLOBAL float *lane = lanes + ((kvc_u64)h * group + g) * 32;
        kvc_u64 own = (kvc_u64)h * group + g;
        KVC_TREE32(lane);
        if (rest_buffer)
            lane[0] = kvc_plus(lane[0], rest_buffer[rest_offset + own], KVC_ONE(group));
        alpha_buffer[alpha_offset + own] = all_read ? 1.0f : lane[0];
    }
}

/* ---- cut_reads ---- */

KVC_DEVICE kvc_u32 kvc_unit_weight(float score, float M, float factor) {
    float w = factor != 0.0f ? kvc_exp((score - M) * factor) : score;
    return w > 0.0f ? (kvc_u32)((w < 255.0f ? w : 255.0f) * 16777216.0f) : 0u;
}

/* Returns the sum of x over the group, to each of its work-items. */
KVC_DEVICE kvc_u64 kvc_group_total(kvc_u64 x, KVC_LOCAL kvc_u64 *shared_total) {
    kvc_u64 sum = 0;
    shared_total[KVC_LOCAL_ID()] = x;
    KVC_BARRIER();
    for (kvc_u32 i = 0; i < KVC_GROUP; i++)
        sum += shared_total[i];
    KVC_BARRIER();
    return sum;
}

/* Returns the offset of an index in the view's list of indices. Without a view, returns the index itself. */
KVC_DEVICE kvc_u32 kvc_place_of(KVC_GLOBAL const kvc_u32 *indices, kvc_u32 places, kvc_u32 index) {
    return indices ? kvc_places_below(indices, places, index) : index;
}

/* Grid: (KV heads). KVC_READS is the view. `kept` is the read list; the kernel shortens it. */
KVC_GROUP_KERNEL(cut_reads)
(KVC_LISTS(l), KVC_READS, kvc_u32 page_size, kvc_u32 whole, kvc_u64 budget, float factor, kvc_u32 share,
 KVC_SPAN(const float, scores), kvc_u32 stride, KVC_GLOBAL kvc_u32 *kept_count, KVC_GLOBAL kvc_u32 *kept_index,
 kvc_u32 kept_stride) {
    KVC_SHARED kvc_u64 shared_total[KVC_GROUP];
    KVC_SHARED kvc_u32 shared_sum[KVC_GROUP];
    kvc_u32 h = KVC_GROUP_ID(0), places = read_count ? read_count[h] : l_count[h], count = kept_count[h];
    kvc_u32 units = (kvc_u32)(((kvc_u64)places + page_size - 1) / page_size), least = 0, equal = 0, kept = 0, q = 0;
    KVC_GLOBAL const float *score = scores_buffer + scores_offset + (kvc_u64)h * stride;
    KVC_GLOBAL const kvc_u32 *indices = read_count ? read_index + (kvc_u64)h * read_stride : 0;
    KVC_GLOBAL kvc_u32 *read = kept_index + (kvc_u64)h * kept_stride;
    kvc_u64 total = 0, need, from = 0, few = 0;
    float M = -kvc_infinity();
    if (places <= budget)
        return;
    for (kvc_u32 u = 0; factor != 0.0f && u < units; u++)
        M = kvc_max(M, score[u]);
    for (kvc_u32 u = KVC_LOCAL_ID(); u < units; u += KVC_GROUP)
        total += (kvc_u64)kvc_unit_weight(score[u], M, factor) *
                 (places - u * page_size < page_size ? places - u * page_size : page_size);
    total = kvc_group_total(total, shared_total);
    need = (total * share + 65535) / 65536;
    if (need == 0)
        return;
    /* The first iteration (bit 32) tests the sum over all keys. The others find `least`, the highest key with this
     * property: the sum over the keys from `least` upwards is at least `need`. */
    for (kvc_i32 bit = 32; bit >= 0; bit--) {
        kvc_u32 tried = bit == 32 ? 0u : least | 1u << bit;
        kvc_u64 sum = 0;
        for (kvc_u32 i = KVC_LOCAL_ID(); i < count; i += KVC_GROUP) {
            float s = score[kvc_place_of(indices, places, read[i]) / page_size];
            sum += kvc_score_key(s) >= tried ? kvc_unit_weight(s, M, factor) : 0u;
        }
        sum = kvc_group_total(sum, shared_total);
        if (sum < need && bit == 32)
            return;
        if (sum >= need) {
            least = tried;
            from = sum;
        }
    }
    for (kvc_u32 i = KVC_LOCAL_ID(); i < count; i += KVC_GROUP)
        equal += kvc_score_key(score[kvc_place_of(indices, places, read[i]) / page_size]) == least;
    equal = (kvc_u32)kvc_group_total(equal, shared_total);
    for (kvc_u32 first = 0, same = 0; first < count; first += KVC_GROUP) {
        kvc_u32 i = first + KVC_LOCAL_ID(), here = i < count, all, before, is_kept = 0, index = here ? read[i] : 0;
        float s = here ? score[kvc_place_of(indices, places, index) / page_size] : 0.0f;
        kvc_u32 key = here ? kvc_score_key(s) : 0u, ties = here && key == least;
        before = same + kvc_group_before(ties, &all, shared_sum);
        same += all;
        if (ties) {
            q = kvc_unit_weight(s, M, factor);
            few = (need - (from - (kvc_u64)equal * q) + q - 1) / q;
            few = whole ? (few + page_size - 1) / page_size * page_size : few;
        }
        is_kept = here && (key > least || (ties && before < few));
        before = kvc_group_before(is_kept, &all, shared_sum);
        KVC_BARRIER(); /* indices are written to places that other work-items have read */
        if (is_kept)
            read[kept + before] = index;
        kept += all;
        KVC_BARRIER();
    }
    if (KVC_LOCAL_ID() == 0)
        kept_count[h] = kept;
}
