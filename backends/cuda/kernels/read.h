/* read.h - attention with CUDA's own kernels: a block reads one tile of one KV head once for several queries (rows
 * times the group's query heads). It computes 8 or 16 queries at a time. First the keys, then the values are copied to
 * shared memory in pieces; each piece is copied while the previous ones are used. Row sizes are multiples of 4. The
 * number of channels of a head is a multiple of 8 and at most 256. q is aligned to 16 bytes. The results of a tile are
 * those that backends/kernels/attention.h defines. */

#define KVC_READ_BYTES 8192u /* size of a piece in bytes */
#define KVC_READ_PIECES 3u   /* number of pieces in shared memory */

/* The work of a block: a tile of a KV head, and the rows of q that read it. */
struct kvc_read {
    kvc_u8 *shared; /* memory of the pieces */
    kvc_bytes *keys;
    float (*score)[KVC_TILE];       /* scores of a query, then its weights */
    kvc_u32 (*seen)[KVC_TILE / 32]; /* for each row, one bit per entry: 1 if the row sees the entry */
    kvc_u32 *reads;                 /* for each row, the number of entries that it sees */
    kvc_u32 bytes, stride, per,
        unit; /* size of an entry in bytes; stride of entries in shared memory; entries per piece; bytes per copy */
    kvc_u32 count, pieces, value_at; /* count: entries of the tile; pieces: pieces of its keys (its values have as
                                      * many); value_at: offset from a key to its value */
    kvc_u32 i0, here;                /* the block's first row; its number of rows */
    kvc_u32 heads, group, h, d, tile, tiles;
    bool full; /* true if every row sees every entry */
};

/* Some of the block's queries. Query n belongs to row n / group and head n % group. Queries past the last one are
 * copies of query 0. */
template <int Q> struct kvc_read_some { kvc_u32 q0, queries, row_of[Q], head_of[Q]; };

/* Copies piece i. The pieces of keys come first, then the pieces of values. Entries without a key are skipped. */
KVC_DEVICE void kvc_read_load(const struct kvc_read &t, kvc_u32 i) {
    if (i < 2 * t.pieces) {
        kvc_u32 first = i % t.pieces * t.per, units = t.bytes / t.unit;
        kvc_u32 here = t.count - first < t.per ? t.count - first : t.per;
        kvc_u8 *to = t.shared + i % KVC_READ_PIECES * KVC_READ_BYTES;
        for (kvc_u32 u = KVC_LOCAL_ID(); u < here * units; u += KVC_GROUP) {
            kvc_u32 j = u / units, at = u % units * t.unit;
            kvc_bytes key = t.keys[first + j];
            if (key)
                kvc_async(to + j * t.stride + at, key + (i < t.pieces ? 0 : t.value_at) + at, t.unit);
        }
    }
    kvc_async_commit();
}

/* Return channel c of an entry in shared memory, and channels c .. c + 7 (c is a multiple of 8). */
template <kvc_u32 type> KVC_DEVICE float kvc_read_value(const kvc_u8 *row, kvc_u32 c) {
    return type == KVC_K_F16 ? kvc_half_of(((const kvc_u16 *)row)[c]) : kvc_plain_value(type, row, c);
}
template <kvc_u32 type> KVC_DEVICE struct kvc_lanes kvc_read_part(const kvc_u8 *row, kvc_u32 c) {
    struct kvc_lanes p;
    if (type == KVC_K_F16) { /* rows begin at multiples of 16 bytes */
        uint4 v = *(const uint4 *)(row + 2 * c);
        kvc_u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            p.lane[2 * i] = kvc_half_of(w[i] & 0xffffu);
            p.lane[2 * i + 1] = kvc_half_of(w[i] >> 16);
        }
    } else {
#pragma unroll
        for (kvc_u32 i = 0; i < 8; i++)
            p.lane[i] = kvc_plain_value(type, row, c + i);
    }
    return p;
}

/* Computes the layout of entries in pieces. Entries begin at multiples of `align`. */
KVC_DEVICE void kvc_read_lay_out(struct kvc_read &t, kvc_u32 bytes, kvc_u32 align) {
    t.bytes = bytes;
    t.stride = (t.bytes + align - 1) / align * align;
    t.per = KVC_READ_BYTES / t.stride < KVC_TILE ? KVC_READ_BYTES / t.stride / 32 * 32 : KVC_TILE;
    t.per = t.per ? t.per : KVC_READ_BYTES / t.stride / 4 * 4; /* exp(s - m) is read in vectors of four */
    t.unit = t.bytes % 16 == 0 ? 16 : t.bytes % 8 == 0 ? 8 : 4;
    t.value_at = KVC_BLOCK * t.bytes;
    t.count = 0;
    t.full = true;
}

/* Computes the numbers of entries and pieces, and `full`. Entries after the last one that is seen are not read. */
KVC_DEVICE void kvc_read_measure(struct kvc_read &t) {
    for (kvc_u32 w = 0; w < KVC_TILE / 32; w++)
        for (kvc_u32 r = 0; r < t.here; r++)
            if (t.seen[r][w] && t.count < w * 32 + 32 - (kvc_u32)__clz((int)t.seen[r][w]))
                t.count = w * 32 + 32 - (kvc_u32)__clz((int)t.seen[r][w]);
    t.pieces = (t.count + t.per - 1) / t.per;
    for (kvc_u32 r = 0; r < t.here; r++)
        t.full = t.full && t.reads[r] == t.count;
}

/* Computes the scores of some queries. q is the array of all rows, and `row` is the launch's first row in it. */
template <kvc_u32 type, int Q>
KVC_DEVICE void kvc_read_scores(const struct kvc_read &t, const struct kvc_read_some<Q> &some, const float *q,
                                kvc_u32 row, float scale) {
    kvc_u32 id = KVC_LOCAL_ID(), worker = id % 4;
    for (kvc_u32 i = 0; i < t.pieces; i++) {
        const kvc_u8 *piece = t.shared + i % KVC_READ_PIECES * KVC_READ_BYTES;
        kvc_async_wait<KVC_READ_PIECES - 2>();
        KVC_BARRIER();
        kvc_read_load(t, i + KVC_READ_PIECES - 1);
        for (kvc_u32 from = 0; from < t.per && i * t.per + from < t.count; from += 32) {
            kvc_u32 j = i * t.per + from + id / 4, held = from + id / 4 < t.per && j < t.count && t.keys[j];
            struct kvc_lanes sum[Q];
            for (int n = 0; n < Q; n++)
                sum[n] = kvc_lanes_zero();
            for (kvc_u32 c = worker * 8; c < t.d && held; c += 32) {
                struct kvc_lanes key = kvc_read_part<type>(piece + (from + id / 4) * t.stride, c);
#pragma unroll
                for (int n = 0; n < Q; n++) {
                    const float *query = q + ((kvc_u64)row * t.heads + some.head_of[n]) * t.d + c;
                    float4 a = kvc_float4(query), b = kvc_float4(query + 4);
                    sum[n].lane[0] = kvc_fma(a.x, key.lane[0], sum[n].lane[0]);
                    sum[n].lane[1] = kvc_fma(a.y, key.lane[1], sum[n].lane[1]);
                    sum[n].lane[2] = kvc_fma(a.z, key.lane[2], sum[n].lane[2]);
                    sum[n].lane[3] = kvc_fma(a.w, key.lane[3], sum[n].lane[3]);
                    sum[n].lane[4] = kvc_fma(b.x, key.lane[4], sum[n].lane[4]);
                    sum[n].lane[5] = kvc_fma(b.y, key.lane[5], sum[n].lane[5]);
                    sum[n].lane[6] = kvc_fma(b.z, key.lane[6], sum[n].lane[6]);
                    sum[n].lane[7] = kvc_fma(b.w, key.lane[7], sum[n].lane[7]);
                }
            }
#pragma unroll
            for (int n = 0; n < Q; n++) {
                float s = kvc_team_sum(sum[n]) * scale;
                if (worker == 0 && held)
                    t.score[n][j] = s;
            }
        }
    }
}

/* Computes the weights. Each warp computes the weights of one query. */
template <int Q>
KVC_DEVICE void kvc_read_weights(const struct kvc_read &t, const struct kvc_read_some<Q> &some, float cap,
                                 float *tile_m, float *tile_l) {
    kvc_u32 id = KVC_LOCAL_ID(), lane = id % 32;
    for (kvc_u32 n = id / 32; n < some.queries; n += KVC_GROUP / 32) {
        kvc_u32 r = (some.q0 + n) / t.group;
        const kvc_u32 *mask = t.seen[r];
        kvc_u64 at =
            ((kvc_u64)(t.i0 + r) * t.heads + (kvc_u64)t.h * t.group + (some.q0 + n) % t.group) * t.tiles + t.tile;
        float m = -kvc_infinity(), sum = 0.0f;
        for (kvc_u32 w = 0; cap != 0.0f && w < KVC_TILE / 32; w++)
            if (mask[w] >> lane & 1)
                t.score[n][w * 32 + lane] = kvc_capped(t.score[n][w * 32 + lane], cap);
        for (kvc_u32 w = 0; w < KVC_TILE / 32; w++)
            if (mask[w] >> lane & 1)
                m = kvc_max(m, t.score[n][w * 32 + lane]);
        for (int w = 16; w > 0; w /= 2)
            m = kvc_max(m, __shfl_xor_sync(0xffffffffu, m, w));
        m = __shfl_sync(0xffffffffu, m, 0); /* if a score is NaN, maxima may differ, so all use lane 0's */
        for (kvc_u32 w = 0; w < KVC_TILE / 32; w++)
            if (mask[w] >> lane & 1) {
                float p = kvc_exp(t.score[n][w * 32 + lane] - m);
                t.score[n][w * 32 + lane] = p;
                sum = sum + p;
            }
        for (int w = 16; w > 0; w /= 2)
            sum = sum + __shfl_down_sync(0xffffffffu, sum, w);
        if (lane == 0 && t.reads[r]) {
            tile_m[at] = m;
            tile_l[at] = sum;
        }
    }
}

/* Computes the sums of values. A work-item computes one or two channels for all queries. */
template <kvc_u32 type, int Q>
KVC_DEVICE void kvc_read_values(const struct kvc_read &t, const struct kvc_read_some<Q> &some, float (&o)[2][Q]) {
    kvc_u32 id = KVC_LOCAL_ID();
    for (int n = 0; n < Q; n++)
        o[0][n] = o[1][n] = 0.0f;
    for (kvc_u32 i = t.pieces; i < 2 * t.pieces; i++) {
        const kvc_u8 *piece = t.shared + i % KVC_READ_PIECES * KVC_READ_BYTES;
        kvc_u32 j0 = (i - t.pieces) * t.per, end = t.count - j0 < t.per ? t.count - j0 : t.per;
        kvc_async_wait<KVC_READ_PIECES - 2>();
        KVC_BARRIER(); /* this barrier also waits for the weights */
        kvc_read_load(t, i + KVC_READ_PIECES - 1);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            kvc_u32 c = id + half * KVC_GROUP, j = 0;
            if (c >= t.d)
                break;
            /* every query sees every entry, and a piece has 4 or more entries */
            for (; j + 4 <= end && t.full; j += 4) {
                const kvc_u8 *at = piece + j * t.stride;
                float v0 = kvc_read_value<type>(at, c), v1 = kvc_read_value<type>(at + t.stride, c);
                float v2 = kvc_read_value<type>(at + 2 * t.stride, c);
                float v3 = kvc_read_value<type>(at + 3 * t.stride, c);
#pragma unroll
                for (int n = 0; n < Q; n++) {
                    float4 p = kvc_float4(&t.score[n][j0 + j]);
                    o[half][n] = kvc_fma(p.x, v0, o[half][n]);
                    o[half][n] = kvc_fma(p.y, v1, o[half][n]);
                    o[half][n] = kvc_fma(p.z, v2, o[half][n]);
                    o[half][n] = kvc_fma(p.w, v3, o[half][n]);
                }
            }
            for (; j < end; j++) {
                float v = kvc_read_value<type>(piece + j * t.stride, c);
#pragma unroll
                for (int n = 0; n < Q; n++)
                    if (t.seen[some.row_of[n]][(j0 + j) / 32] >> (j0 + j) % 32 & 1)
                        o[half][n] = kvc_fma(t.score[n][j0 + j], v, o[half][n]);
            }
        }
    }
}

/* Finds the entries that a block reads. If there are none, returns false to all work-items of the block. A block has
 * rows_each rows. Grid: (tiles, KV heads, rows / rows_each). */
KVC_DEVICE bool kvc_read_find(struct kvc_read &t, const struct kvc_arena_view &arena, const struct kvc_head_view &head,
                              kvc_u32 align, const kvc_u32 *read_count, const kvc_u32 *read_index, kvc_u32 read_stride,
                              const kvc_i32 *positions, const kvc_u32 *causal_offset, kvc_u32 row, kvc_u32 rows,
                              kvc_u32 rows_each, kvc_u32 heads, kvc_u32 kv_heads, kvc_u32 window, float *tile_l,
                              kvc_u32 tiles, kvc_u32 *status_words, kvc_u32 read_word) {
    kvc_u32 id = KVC_LOCAL_ID(), lane = id % 32, first = KVC_GROUP_ID(0) * KVC_TILE;
    t.tile = KVC_GROUP_ID(0);
    t.h = KVC_GROUP_ID(1);
    t.i0 = KVC_GROUP_ID(2) * rows_each;
    t.here = rows - t.i0 < rows_each ? rows - t.i0 : rows_each;
    t.heads = heads;
    t.group = heads / kv_heads;
    t.d = arena.head_size;
    t.tiles = tiles;
    kvc_read_lay_out(t, arena.key_bytes, align);
    if (id < t.here)
        t.reads[id] = 0;
    KVC_BARRIER();
    /* Find the entries that each row sees, and the address of each key that any row sees. */
    for (kvc_u32 j = id; j < KVC_TILE; j += KVC_GROUP) { /* all work-items of a warp take part */
        kvc_u32 slot = KVC_MASKED;
        for (kvc_u32 r = 0; r < t.here; r++) {
            struct kvc_query_view view =
                kvc_query_view_of(&head, read_count, read_index, read_stride, t.h, causal_offset[row + t.i0 + r],
                                  positions[row + t.i0 + r], window);
            kvc_u32 mine = first + j < view.places ? kvc_query_slot(&view, &head, first + j) : KVC_MASKED;
            kvc_u32 bits = __ballot_sync(0xffffffffu, mine != KVC_MASKED);
            slot = mine != KVC_MASKED ? mine : slot;
            if (lane == 0) {
                t.seen[r][j / 32] = bits;
                if (bits)
                    atomicAdd(&t.reads[r], (kvc_u32)__popc(bits));
            }
        }
        t.keys[j] = slot != KVC_MASKED ? (kvc_bytes)kvc_head_key(&arena, &head, slot) : (kvc_bytes)0;
    }
    KVC_BARRIER();
    {
        kvc_u32 any = 0;
        for (kvc_u32 r = 0; r < t.here; r++) {
            any += t.reads[r];
            for (kvc_u32 g = id; g < t.group && t.reads[r] == 0; g += KVC_GROUP)
                tile_l[((kvc_u64)(t.i0 + r) * t.heads + (kvc_u64)t.h * t.group + g) * t.tiles + t.tile] = -1.0f;
        }
        if (any == 0)
            return false;
        if (id == 0 && read_word)
            atomicAdd(status_words + read_word, any);
    }
    kvc_read_measure(t);
    return true;
}

/* Computes a tile, Q queries at a time. */
template <kvc_u32 type, int Q>
KVC_DEVICE void kvc_read_tile(const struct kvc_read &t, const float *q, kvc_u32 row, float scale, float cap,
                              float *tile_m, float *tile_l, float *tile_o) {
    kvc_u32 id = KVC_LOCAL_ID();
    for (kvc_u32 q0 = 0; q0 < t.here * t.group; q0 += Q) {
        struct kvc_read_some<Q> some;
        float o[2][Q];
        some.q0 = q0;
        some.queries = t.here * t.group - q0 < (kvc_u32)Q ? t.here * t.group - q0 : Q;
        for (kvc_u32 n = 0; n < Q; n++) {
            kvc_u32 at = n < some.queries ? q0 + n : q0;
            some.row_of[n] = at / t.group;
            some.head_of[n] = (t.i0 + some.row_of[n]) * t.heads + t.h * t.group + at % t.group;
        }
        for (kvc_u32 i = 0; i < KVC_READ_PIECES - 1; i++)
            kvc_read_load(t, i);
        kvc_read_scores<type, Q>(t, some, q, row, scale);
        KVC_BARRIER();
        kvc_read_weights<Q>(t, some, cap, tile_m, tile_l);
        kvc_read_values<type, Q>(t, some, o);
        KVC_BARRIER(); /* waits, because the pieces and weights are overwritten next */
        kvc_async_wait<0>();
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int n = 0; n < Q; n++) {
                kvc_u32 c = id + half * KVC_GROUP;
                if (n < (int)some.queries && c < t.d)
                    tile_o[((kvc_u64)some.head_of[n] * t.tiles + t.tile) * t.d + c] = o[half][n];
            }
    }
}

#define KVC_READ_ROWS 16 /* maximum number of rows of a block */
#define KVC_READ_FIND(align)                                                                                           \
    kvc_read_find(t, arena, head, align, read_count, read_index, read_stride, positions_buffer + positions_offset,     \
                  causal_offset_buffer + causal_offset_offset, row, rows, rows_each, heads, kv_heads, window,          \
                  tile_l_buffer + tile_l_offset, tiles, status_words, read_word)
#define KVC_READ_KERNEL(name, type, Q)                                                                                 \
    KVC_GROUP_KERNEL(read_##name##_##Q)(KVC_ATTENTION, kvc_u32 rows, kvc_u32 rows_each) {                              \
        KVC_SHARED __align__(16) kvc_u8 shared[KVC_READ_PIECES * KVC_READ_BYTES];                                      \
        KVC_SHARED kvc_bytes keys[KVC_TILE];                                                                           \
        KVC_SHARED __align__(16) float score[Q][KVC_TILE];                                                             \
        KVC_SHARED kvc_u32 seen[KVC_READ_ROWS][KVC_TILE / 32], reads[KVC_READ_ROWS];                                   \
        KVC_OPEN_ARENA(arena);                                                                                         \
        KVC_OPEN_HEAD(head, l, KVC_GROUP_ID(1));                                                                       \
        struct kvc_read t = {shared, keys, score, seen, reads};                                                        \
        if (KVC_READ_FIND(16))                                                                                         \
            kvc_read_tile<type, Q>(t, q_buffer + q_offset, row, scale, cap, tile_m_buffer + tile_m_offset,             \
                                   tile_l_buffer + tile_l_offset, tile_o_buffer + tile_o_offset);                      \
    }
KVC_READ_KERNEL(f32, KVC_K_F32, 8)
KVC_READ_KERNEL(f16, KVC_K_F16, 8)
KVC_READ_KERNEL(q8_0, KVC_K_Q8_0, 8)
KVC_READ_KERNEL(f32, KVC_K_F32, 16)
KVC_READ_KERNEL(f16, KVC_K_F16, 16)
KVC_READ_KERNEL(q8_0, KVC_K_Q8_0, 16)

/* Merges tiles in ascending order. The factors of KVC_MERGED tiles are loaded at a time. Grid: (query heads, rows). */
#define KVC_MERGED 1024 /* number of tiles at a time */
KVC_GROUP_KERNEL(read_merge)
(KVC_SPAN(float, tile_m), KVC_SPAN(float, tile_l), KVC_SPAN(float, tile_o), kvc_u32 tiles, kvc_u32 heads, kvc_u32 d,
 kvc_u32 row, KVC_SPAN(float, out), KVC_SPAN(float, maximum), KVC_SPAN(float, sum), KVC_SPAN(const float, sinks)) {
    KVC_SHARED float factor[KVC_MERGED], length[KVC_MERGED], most[KVC_GROUP / 32];
    KVC_OPEN_TILES;
    kvc_u32 g = KVC_GROUP_ID(0), i = KVC_GROUP_ID(1), id = KVC_LOCAL_ID();
    kvc_u64 at = ((kvc_u64)i * heads + g) * tiles, to = ((kvc_u64)row + i) * heads + g;
    float M = -kvc_infinity(), L = 0.0f, o[2] = {0.0f, 0.0f};
    for (kvc_u32 t = id; t < tiles; t += KVC_GROUP)
        if (tile_l[at + t] != -1.0f)
            M = kvc_max(M, tile_m[at + t]);
    for (int w = 16; w > 0; w /= 2)
        M = kvc_max(M, __shfl_xor_sync(0xffffffffu, M, w));
    if (id % 32 == 0)
        most[id / 32] = M;
    KVC_BARRIER();
    M = most[0];
    for (kvc_u32 w = 1; w < KVC_GROUP / 32; w++)
        M = kvc_max(M, most[w]);
    M = M + 0.0f;
    for (kvc_u32 first = 0; first < tiles; first += KVC_MERGED) {
        kvc_u32 here = tiles - first < KVC_MERGED ? tiles - first : KVC_MERGED;
        KVC_BARRIER();
        for (kvc_u32 t = id; t < here; t += KVC_GROUP) {
            length[t] = tile_l[at + first + t];
            factor[t] = length[t] != -1.0f ? kvc_exp(tile_m[at + first + t] - M) : 0.0f;
        }
        KVC_BARRIER();
#pragma unroll 8
        for (kvc_u32 t = 0; t < here; t++) {
            const float *from = tile_o + (at + first + t) * d;
            bool is_there = length[t] != -1.0f;
            float v0 = is_there && id < d ? from[id] : 0.0f;
            float v1 = is_there && id + KVC_GROUP < d ? from[id + KVC_GROUP] : 0.0f;
            if (is_there) {
                L = kvc_fma(factor[t], length[t], L);
                o[0] = kvc_fma(factor[t], v0, o[0]);
                o[1] = kvc_fma(factor[t], v1, o[1]);
            }
        }
    }
    if (sinks_buffer && L != 0.0f)
        L = kvc_join_sink(L, M, sinks_buffer[sinks_offset + g]);
    for (int half = 0; half < 2; half++)
        if (id + half * KVC_GROUP < d)
            out_buffer[out_offset + to * d + id + half * KVC_GROUP] = L != 0.0f ? kvc_div(o[half], L) : o[half];
    if (id == 0 && maximum_buffer) {
        maximum_buffer[maximum_offset + to] = kvc_is_nan(L) ? L : M;
        sum_buffer[sum_offset + to] = L;
    }
}
