/* attention.h - exact attention over lists of different lengths, in tiles of 256 entries. Each tile is computed from
 * zero, then the tiles are merged.
 *
 * A tile's results for a query are m, the maximum of the scores; l, the sum of exp(score - m), or -1 if no entry was
 * visible; and o, the sum of the values weighted by exp(score - m). For T tiles, m and l are [rows of the launch, H,
 * T], and o is [rows of the launch, H, T, d]. */

#define KVC_ATTENTION                                                                                                  \
    KVC_LISTS(l), KVC_ARENA, KVC_READS, KVC_SPAN(const float, q), KVC_SPAN(const kvc_i32, positions),                  \
        KVC_SPAN(const kvc_u32, causal_offset), kvc_u32 row, kvc_u32 heads, kvc_u32 kv_heads, kvc_u32 window,          \
        float scale, float cap, KVC_SPAN(float, tile_m), KVC_SPAN(float, tile_l), KVC_SPAN(float, tile_o),             \
        kvc_u32 tiles, KVC_GLOBAL kvc_u32 *status_words, kvc_u32 read_word
#define KVC_OPEN_TILES                                                                                                 \
    KVC_OPEN(float, tile_m);                                                                                           \
    KVC_OPEN(float, tile_l);                                                                                           \
    KVC_OPEN(float, tile_o)

/* Declares the group's tile: `first`, its first entry; `h`, its KV head; `i`, its row of the launch; `at`, the index of
 * the KV head's first query in the first two dimensions of m and l. */
#define KVC_OPEN_TILE(first, h, i, at)                                                                                 \
    kvc_u32 first = KVC_GROUP_ID(0) * KVC_TILE, h = KVC_GROUP_ID(1), i = KVC_GROUP_ID(2), count;                       \
    kvc_u64 at = (kvc_u64)i * heads + (kvc_u64)h * (heads / kv_heads);                                                 \
    struct kvc_query_view view;                                                                                        \
    KVC_OPEN_TILES;                                                                                                    \
    KVC_OPEN_ARENA(arena);                                                                                             \
    KVC_OPEN_HEAD(head, l, h);                                                                                         \
    view = kvc_query_view_of(&head, read_count, read_index, read_stride, h,                                            \
                             causal_offset_buffer[causal_offset_offset + row + i],                                     \
                             positions_buffer[positions_offset + row + i], window);                                    \
    count = view.places > first ? view.places - first : 0;                                                             \
    count = count < KVC_TILE ? count : KVC_TILE
#define KVC_TILE_QUERIES(h, i, g0)                                                                                     \
    (q_buffer + q_offset + (((kvc_u64)row + i) * heads + (kvc_u64)h * (heads / kv_heads) + g0) * d)

/* Grid: (tiles, KV heads, rows). The launch begins at row `row` of the batch. read_word is the status word that counts
 * the entries read; 0: none. */
#if KVC_WORKERS != 1

/* number of heads computed at a time; for each head, 32 work-items sum exp(s - m) */
#define KVC_HEADS ((int)(KVC_GROUP / 32))

/* Memory that a group shares. `keys` and `values` have the addresses of each entry's key and value (0: masked). The
 * other arrays have a row for each current head: `score` has the scores of the entries, later exp(s - m); `most` has
 * the 32 lanes of the maximum score; `lanes` has the 32 lanes of the sum of exp(s - m). */
struct kvc_tile {
    KVC_LOCAL kvc_bytes *keys, *values;        /* [KVC_TILE] */
    KVC_LOCAL float (*score)[KVC_TILE];        /* [KVC_HEADS] */
    KVC_LOCAL float (*most)[32], (*lanes)[32]; /* [KVC_HEADS] */
    kvc_u32 count;                             /* number of entries */
};

/* Fills keys and values. *read receives the number of entries to read. */
KVC_DEVICE void kvc_tile_keys(struct kvc_tile t, const struct kvc_arena_view *arena, const struct kvc_head_view *head,
                              const struct kvc_query_view *view, kvc_u32 first, KVC_LOCAL kvc_u32 *read) {
    if (KVC_LOCAL_ID() == 0)
        *read = 0;
    KVC_BARRIER();
    for (kvc_u32 j = KVC_LOCAL_ID(); j < KVC_TILE; j += KVC_GROUP) {
        kvc_u32 slot = j < t.count ? kvc_query_slot(view, head, first + j) : KVC_MASKED;
        t.keys[j] = slot != KVC_MASKED ? (kvc_bytes)kvc_head_key(arena, head, slot) : (kvc_bytes)0;
        t.values[j] = slot != KVC_MASKED ? (kvc_bytes)kvc_head_value(arena, head, slot) : (kvc_bytes)0;
        if (slot != KVC_MASKED)
            KVC_ADD_LOCAL(read, 1);
    }
    KVC_BARRIER();
}

/* Computes the scores for the queries [here, d] of the first `here` heads. Each entry is read once for all these
 * heads. */
KVC_DEVICE void kvc_tile_scores(kvc_u32 type, struct kvc_tile t, KVC_GLOBAL const float *queries, kvc_u32 here,
                                kvc_u32 d, float scale, KVC_LOCAL float *shared_sum) {
    for (kvc_u32 from = 0; from < t.count; from += KVC_TEAMS) {
        kvc_u32 j = from + KVC_LOCAL_ID() / KVC_WORKERS, k = 0, worker = KVC_LOCAL_ID() % KVC_WORKERS;
        struct kvc_lanes sum[KVC_HEADS];
        for (int g = 0; g < KVC_HEADS; g++)
            sum[g] = kvc_lanes_zero();
        for (; t.keys[j] && k + 32 <= d; k += 32) {
            struct kvc_lanes p = kvc_lanes_entry(type, t.keys[j], k, worker);
            for (int g = 0; g < KVC_HEADS; g++)
                sum[g] =
                    kvc_lanes_fma(kvc_lanes_floats(queries + ((kvc_u32)g < here ? g : 0) * d + k, worker), p, sum[g]);
        }
        if (t.keys[j] && k < d) {
            struct kvc_lanes p = kvc_lanes_entry_tail(type, t.keys[j], k, worker, d - k);
            for (int g = 0; g < KVC_HEADS; g++)
                sum[g] = kvc_lanes_fma_tail(
                    kvc_lanes_floats_tail(queries + ((kvc_u32)g < here ? g : 0) * d + k, worker, d - k), p, sum[g],
                    d - k);
        }
        for (int g = 0; g < KVC_HEADS; g++) { /* loops over all heads, so that no barrier is conditional */
            float s = kvc_lanes_sum(sum[g], shared_sum) * scale;
            if (worker == 0 && (kvc_u32)g < here)
                t.score[g][j] = s;
        }
    }
    KVC_BARRIER();
}

/* Replaces the scores by exp(s - m). Work-item 32 g receives m and l of head g. In the other work-items *m and *l are
 * not set. */
KVC_DEVICE void kvc_tile_exponents(struct kvc_tile t, kvc_u32 here, float cap, float one, float *m, float *l) {
    kvc_u32 lane = KVC_LOCAL_ID() % 32, g = KVC_LOCAL_ID() / 32;
    if (g < here) {
        float most = -kvc_infinity();
        for (kvc_u32 j = lane; cap != 0.0f && j < t.count; j += 32)
            if (t.keys[j])
                t.score[g][j] = kvc_capped(t.score[g][j], cap);
        for (kvc_u32 j = lane; j < t.count; j += 32)
            if (t.keys[j])
                most = kvc_max(most, t.score[g][j]);
        t.most[g][lane] = most;
    }
    KVC_BARRIER();
    if (g < here) {
        float sum = 0.0f;
        *m = t.most[g][0];
        for (kvc_u32 j = 1; j < 32; j++)
            *m = kvc_max(*m, t.most[g][j]);
        for (kvc_u32 j = lane; j < t.count; j += 32)
            if (t.keys[j]) {
                float p = kvc_exp(t.score[g][j] - *m);
                t.score[g][j] = p;
                sum = kvc_plus(sum, p, one);
            }
        t.lanes[g][lane] = sum;
    }
    KVC_BARRIER();
    if (g < here && lane == 0) {
        KVC_TREE32(t.lanes[g]);
        *l = t.lanes[g][0];
    }
}

/* Writes the sums of values of the first `here` heads, d floats each. Heads are `step` floats apart. */
KVC_DEVICE void kvc_tile_values(kvc_u32 type, struct kvc_tile t, kvc_u32 here, kvc_u32 d, KVC_GLOBAL float *to,
                                kvc_u64 step) {
    for (kvc_u32 n = KVC_LOCAL_ID(); n < here * (d / 4); n += KVC_GROUP) {
        kvc_u32 g = n / (d / 4), c = n % (d / 4) * 4;
        KVC_GLOBAL float *four = to + g * step + c;
        float o0 = 0.0f, o1 = 0.0f, o2 = 0.0f, o3 = 0.0f;
        for (kvc_u32 j = 0; j < t.count; j++)
            if (t.keys[j]) {
                float4 v = kvc_entry_four(type, t.values[j], c, d);
                o0 = kvc_fma(t.score[g][j], v.x, o0);
                o1 = kvc_fma(t.score[g][j], v.y, o1);
                o2 = kvc_fma(t.score[g][j], v.z, o2);
                o3 = kvc_fma(t.score[g][j], v.w, o3);
            }
        four[0] = o0;
        four[1] = o1;
        four[2] = o2;
        four[3] = o3;
    }
    for (kvc_u32 n = KVC_LOCAL_ID(); n < here * (d % 4); n += KVC_GROUP) { /* the last d % 4 channels */
        kvc_u32 g = n / (d % 4), c = d / 4 * 4 + n % (d % 4);
        float o = 0.0f;
        for (kvc_u32 j = 0; j < t.count; j++)
            if (t.keys[j])
                o = kvc_fma(t.score[g][j], kvc_entry_value(type, t.values[j], c, d), o);
        to[g * step + c] = o;
    }
    KVC_BARRIER();
}

/* Defines the kernel of a tile. `memory` declares the memory that take_scores and sum_values need in addition to the
 * tile. take_scores computes the scores of `here` heads, from head g0 of the group on. sum_values computes the weighted
 * sums of the values for these heads. Both are macro arguments because their calls differ between floats and integers,
 * OpenCL C has no pointers to functions, and only a kernel may declare local memory. */
#define KVC_ATTENTION_TILE(name, arguments, memory, take_scores, sum_values)                                           \
    KVC_GROUP_KERNEL(attention_tile_##name) arguments {                                                                \
        memory;                                                                                                        \
        KVC_SHARED kvc_bytes keys[KVC_TILE], values[KVC_TILE];                                                         \
        KVC_SHARED float score[KVC_HEADS][KVC_TILE], most[KVC_HEADS][32], lanes[KVC_HEADS][32];                        \
        KVC_SHARED kvc_u32 read[1];                                                                                    \
        kvc_u32 group = heads / kv_heads, d = head_size;                                                               \
        KVC_OPEN_TILE(first, h, i, at);                                                                                \
        struct kvc_tile tile = {keys, values, score, most, lanes, count};                                              \
        kvc_tile_keys(tile, &arena, &head, &view, first, read);                                                        \
        if (read[0] == 0) { /* true for the whole group or for none of it */                                           \
            for (kvc_u32 g = KVC_LOCAL_ID(); g < group; g += KVC_GROUP)                                                \
                tile_l[(at + g) * tiles + KVC_GROUP_ID(0)] = -1.0f;                                                    \
            return;                                                                                                    \
        }                                                                                                              \
        if (KVC_LOCAL_ID() == 0 && read_word)                                                                          \
            KVC_ADD_GLOBAL(status_words + read_word, read[0]);                                                         \
        for (kvc_u32 g0 = 0; g0 < group; g0 += KVC_HEADS) {                                                            \
            kvc_u32 here = group - g0 < KVC_HEADS ? group - g0 : KVC_HEADS, g = KVC_LOCAL_ID() / 32;                   \
            float m, l;                                                                                                \
            take_scores;                                                                                               \
            kvc_tile_exponents(tile, here, cap, KVC_ONE(heads), &m, &l);                                               \
            if (g < here && KVC_LOCAL_ID() % 32 == 0) {                                                                \
                tile_m[(at + g0 + g) * tiles + KVC_GROUP_ID(0)] = m;                                                   \
                tile_l[(at + g0 + g) * tiles + KVC_GROUP_ID(0)] = l;                                                   \
            }                                                                                                          \
            sum_values;                                                                                                \
        }                                                                                                              \
    }
#define KVC_ATTENTION_FLOATS(name, key, value)                                                                         \
    KVC_ATTENTION_TILE(                                                                                                \
        name, (KVC_ATTENTION), KVC_SHARED float shared_sum[KVC_SUM_FLOATS],                                            \
        kvc_tile_scores(key, tile, KVC_TILE_QUERIES(h, i, g0), here, d, scale, shared_sum),                            \
        kvc_tile_values(value, tile, here, d, tile_o + ((at + g0) * tiles + KVC_GROUP_ID(0)) * d, (kvc_u64)tiles * d))

#else

/* Computes kvc_exp for x <= 0 and NaN. */
KVC_DEVICE float16 kvc_exp16(float16 x) {
    float16 t = fma(x, (float16)(KVC_LOG2E), (float16)(KVC_ROUND_MAGIC)), n = t - KVC_ROUND_MAGIC, r, p;
    r = fma(-n, (float16)(KVC_LN2_HIGH), x);
    r = fma(-n, (float16)(KVC_LN2_LOW), r);
    p = fma((float16)(KVC_EXP_C6), r, (float16)(KVC_EXP_C5));
    p = fma(p, r, (float16)(KVC_EXP_C4));
    p = fma(p, r, (float16)(KVC_EXP_C3));
    p = fma(p, r, (float16)(KVC_EXP_C2));
    p = fma(p, r, (float16)(1.0f));
    p = fma(p, r, (float16)(1.0f));
    p = as_float16(as_uint16(p) + (as_uint16(t) << 23));
    p = select(p, (float16)(0.0f), x < (float16)(KVC_EXP_LOW));
    return select(p, x, x != x);
}
/* Computes kvc_max(a, b), with the same result for zeros and NaNs. */
KVC_DEVICE float16 kvc_max16(float16 a, float16 b) { return select(b, a, a > b); }

#define KVC_HEADS 4 /* heads computed at a time */

/* The tile of one work-item. A masked entry has the score -inf, which does not change the maximum, and p = 0, which
 * does not change the sum because no lane is -0. Its value is not read. */
struct kvc_tile {
    kvc_bytes keys[KVC_TILE], values[KVC_TILE];
    float16 score[KVC_HEADS][KVC_TILE / 16];
    int16 masked[KVC_TILE / 16];
    kvc_u32 count; /* number of entries */
};

/* Fills keys, values and masked. Returns the number of entries to read. */
KVC_DEVICE kvc_u32 kvc_tile_keys(struct kvc_tile *t, const struct kvc_arena_view *arena,
                                 const struct kvc_head_view *head, const struct kvc_query_view *view, kvc_u32 first) {
    kvc_u32 read = 0;
    for (kvc_u32 j = 0; j < (t->count + 15) / 16 * 16; j++) {
        kvc_u32 slot = j < t->count ? kvc_query_slot(view, head, first + j) : KVC_MASKED;
        t->keys[j] = slot != KVC_MASKED ? (kvc_bytes)kvc_head_key(arena, head, slot) : (kvc_bytes)0;
        t->values[j] = slot != KVC_MASKED ? (kvc_bytes)kvc_head_value(arena, head, slot) : (kvc_bytes)0;
        ((int *)t->masked)[j] = slot == KVC_MASKED ? -1 : 0;
        for (int g = 0; slot == KVC_MASKED && g < KVC_HEADS; g++)
            ((float *)t->score[g])[j] = 0.0f; /* this value is read below, but not used */
        read += slot != KVC_MASKED;
    }
    return read;
}

/* Computes the scores for the queries [here, d] of the first `here` heads. Each entry is read once for all these
 * heads. */
KVC_DEVICE void kvc_tile_scores(kvc_u32 type, struct kvc_tile *t, KVC_GLOBAL const float *queries, kvc_u32 here,
                                kvc_u32 d, float scale) {
    for (kvc_u32 j = 0; j < t->count; j++) {
        struct kvc_lanes sum[KVC_HEADS];
        kvc_u32 k = 0;
        if (!t->keys[j])
            continue;
        for (int g = 0; g < KVC_HEADS; g++)
            sum[g] = kvc_lanes_zero();
        for (; k + 32 <= d; k += 32) {
            struct kvc_lanes p = kvc_lanes_entry(type, t->keys[j], k, 0);
            for (int g = 0; g < KVC_HEADS; g++)
                sum[g] = kvc_lanes_fma(kvc_lanes_floats(queries + ((kvc_u32)g < here ? g : 0) * d + k, 0), p, sum[g]);
        }
        if (k < d) {
            struct kvc_lanes p = kvc_lanes_entry_tail(type, t->keys[j], k, 0, d - k);
            for (int g = 0; g < KVC_HEADS; g++)
                sum[g] = kvc_lanes_fma_tail(
                    kvc_lanes_floats_tail(queries + ((kvc_u32)g < here ? g : 0) * d + k, 0, d - k), p, sum[g], d - k);
        }
        for (int g = 0; g < KVC_HEADS; g++)
            ((float *)t->score[g])[j] = kvc_lanes_tree(sum[g]) * scale;
    }
}

/* Replaces the scores of head g by exp(s - m). Writes m and returns the sum. */
KVC_DEVICE float kvc_tile_exponents(struct kvc_tile *t, kvc_u32 g, float cap, float one, float *m) {
    const kvc_u32 vectors = (t->count + 15) / 16;
    float16 most = (float16)(-kvc_infinity());
    struct kvc_lanes lanes = kvc_lanes_zero();
    *m = -kvc_infinity();
    for (kvc_u32 j = 0; cap != 0.0f && j < t->count; j++)
        ((float *)t->score[g])[j] = kvc_capped(((float *)t->score[g])[j], cap);
    for (kvc_u32 v = 0; v < vectors; v++)
        most = kvc_max16(most, select(t->score[g][v], (float16)(-kvc_infinity()), t->masked[v]));
    for (int j = 0; j < 16; j++)
        *m = kvc_max(*m, ((float *)&most)[j]);
    for (kvc_u32 v = 0; v < vectors; v++) {
        float16 p = select(kvc_exp16(t->score[g][v] - *m), (float16)(0.0f), t->masked[v]);
        t->score[g][v] = p;
        if (v % 2)
            lanes.high = kvc_plus16(lanes.high, p, one);
        else
            lanes.low = kvc_plus16(lanes.low, p, one);
    }
    return kvc_lanes_tree(lanes);
}

/* Writes the sums of values of the first `here` heads, d floats each. Heads are `step` floats apart. */
KVC_DEVICE void kvc_tile_values(kvc_u32 type, const struct kvc_tile *t, kvc_u32 here, kvc_u32 d, KVC_GLOBAL float *to,
                                kvc_u64 step) {
    kvc_u32 c = 0;
    for (; c + 32 <= d; c += 32) {
        struct kvc_lanes o[KVC_HEADS];
        for (int g = 0; g < KVC_HEADS; g++)
            o[g] = kvc_lanes_zero();
        for (kvc_u32 j = 0; j < t->count; j++) {
            struct kvc_lanes value;
            if (!t->keys[j])
                continue;
            value = kvc_lanes_entry(type, t->values[j], c, 0);
            for (int g = 0; g < KVC_HEADS; g++) {
                float16 p = (float16)(((const float *)t->score[g])[j]);
                o[g].low = fma(p, value.low, o[g].low);
                o[g].high = fma(p, value.high, o[g].high);
            }
        }
        for (kvc_u32 g = 0; g < here; g++) {
            vstore16(o[g].low, 0, to + g * step + c);
            vstore16(o[g].high, 1, to + g * step + c);
        }
    }
    for (; c < d; c++)
        for (kvc_u32 g = 0; g < here; g++) {
            float o = 0.0f;
            for (kvc_u32 j = 0; j < t->count; j++)
                if (t->keys[j])
                    o = kvc_fma(((const float *)t->score[g])[j], kvc_entry_value(type, t->values[j], c, d), o);
            to[g * step + c] = o;
        }
}

/* Defines the kernel of a tile for CPUs. Here `memory` also declares the tile. */
#define KVC_ATTENTION_TILE(name, arguments, memory, take_scores, sum_values)                                           \
    KVC_GROUP_KERNEL(attention_tile_##name) arguments {                                                                \
        memory;                                                                                                        \
        kvc_u32 group = heads / kv_heads, d = head_size, read;                                                         \
        KVC_OPEN_TILE(first, h, i, at);                                                                                \
        tile.count = count;                                                                                            \
        read = kvc_tile_keys(&tile, &arena, &head, &view, first);                                                      \
        if (read == 0) {                                                                                               \
            for (kvc_u32 g = 0; g < group; g++)                                                                        \
                tile_l[(at + g) * tiles + KVC_GROUP_ID(0)] = -1.0f;                                                    \
            return;                                                                                                    \
        }                                                                                                              \
        if (read_word)                                                                                                 \
            KVC_ADD_GLOBAL(status_words + read_word, read);                                                            \
        for (kvc_u32 g0 = 0; g0 < group; g0 += KVC_HEADS) {                                                            \
            kvc_u32 here = group - g0 < KVC_HEADS ? group - g0 : KVC_HEADS;                                            \
            take_scores;                                                                                               \
            for (kvc_u32 g = 0; g < here; g++) {                                                                       \
                kvc_u64 to = (at + g0 + g) * tiles + KVC_GROUP_ID(0);                                                  \
                float m;                                                                                               \
                tile_l[to] = kvc_tile_exponents(&tile, g, cap, KVC_ONE(heads), &m);                                    \
                tile_m[to] = m;                                                                                        \
            }                                                                                                          \
            sum_values;                                                                                                \
        }                                                                                                              \
    }
#define KVC_ATTENTION_FLOATS(name, key, value)                                                                         \
    KVC_ATTENTION_TILE(name, (KVC_ATTENTION), struct kvc_tile tile,                                                    \
                       kvc_tile_scores(key, &tile, KVC_TILE_QUERIES(h, i, g0), here, d, scale),                        \
                       kvc_tile_values(value, &tile, here, d, tile_o + ((at + g0) * tiles + KVC_GROUP_ID(0)) * d,      \
                                       (kvc_u64)tiles * d))

#endif

/* The kernel `mixed` is for all other types. Its keys and values may have different types. */
KVC_ATTENTION_FLOATS(f32, KVC_K_F32, KVC_K_F32)
KVC_ATTENTION_FLOATS(f16, KVC_K_F16, KVC_K_F16)
KVC_ATTENTION_FLOATS(q8_0, KVC_K_Q8_0, KVC_K_Q8_0)
KVC_ATTENTION_FLOATS(mixed, key_type, value_type)

/* Grid: (query heads, rows). Merges tiles in ascending order. Replaces each m in tile_m by exp(m - M), the factor of
 * its tile. */
KVC_GROUP_KERNEL(attention_merge)
(KVC_SPAN(float, tile_m), KVC_SPAN(float, tile_l), KVC_SPAN(float, tile_o), kvc_u32 tiles, kvc_u32 heads, kvc_u32 d,
 kvc_u32 row, KVC_SPAN(float, out), KVC_SPAN(float, maximum), KVC_SPAN(float, sum), KVC_SPAN(const float, sinks)) {
    KVC_OPEN_TILES;
    kvc_u32 g = KVC_GROUP_ID(0), i = KVC_GROUP_ID(1), c = KVC_LOCAL_ID();
    kvc_u64 at = ((kvc_u64)i * heads + g) * tiles, to = ((kvc_u64)row + i) * heads + g;
    KVC_GLOBAL float *y = out_buffer + out_offset + to * d;
    float M = -kvc_infinity(), L = 0.0f;
    for (kvc_u32 t = 0; t < tiles; t++)
        if (tile_l[at + t] != -1.0f)
            M = kvc_max(M, tile_m[at + t]);
    M = M + 0.0f;
    KVC_BARRIER();
    for (kvc_u32 t = KVC_LOCAL_ID(); t < tiles; t += KVC_GROUP)
        if (tile_l[at + t] != -1.0f)
            tile_m[at + t] = kvc_exp(tile_m[at + t] - M);
    KVC_BARRIER();
    for (kvc_u32 t = 0; t < tiles; t++)
        if (tile_l[at + t] != -1.0f)
            L = kvc_fma(tile_m[at + t], tile_l[at + t], L);
    if (sinks_buffer && L != 0.0f)
        L = kvc_join_sink(L, M, sinks_buffer[sinks_offset + g]);
#if KVC_WORKERS == 1
    for (; c + 16 <= d; c += 16) {
        float16 o = (float16)(0.0f);
        for (kvc_u32 t = 0; t < tiles; t++)
            if (tile_l[at + t] != -1.0f)
                o = fma((float16)(tile_m[at + t]), vload16(0, tile_o + (at + t) * d + c), o);
        for (int j = 0; j < 16; j++)
            y[c + j] = L != 0.0f ? kvc_div(((float *)&o)[j], L) : ((float *)&o)[j];
    }
#endif
    for (; c < d; c += KVC_GROUP) {
        float o = 0.0f;
        for (kvc_u32 t = 0; t < tiles; t++)
            if (tile_l[at + t] != -1.0f)
                o = kvc_fma(tile_m[at + t], tile_o[(at + t) * d + c], o);
        y[c] = L != 0.0f ? kvc_div(o, L) : o;
    }
    if (KVC_LOCAL_ID() == 0 && maximum_buffer) {
        maximum_buffer[maximum_offset + to] = kvc_is_nan(L) ? L : M;
        sum_buffer[sum_offset + to] = L;
    }
}
