/* read_int8.h - attention over Q8_0 entries in integer arithmetic (core/base/canon.h) with CUDA's own kernel. A block
 * reads a tile as in read.h, for eight queries at a time. The size of a row is a multiple of 4 bytes, so a row has an
 * even number of groups. The quants of odd groups are therefore aligned to 4 bytes, and those of even groups are
 * followed by another group. */

#define KVC_READ_QUERIES 8
#define KVC_READ_GROUPS 8u       /* maximum number of groups of an entry */
#define KVC_READ_WEIGHT_WORDS 80 /* maximum number of elements of `four` for a piece and a query */

/* The memory that a block shares in addition to struct kvc_read. An element of `four` holds the weights of four entries
 * for one group of channels and one query, as two digits of seven bits. */
struct kvc_read_int8 {
    kvc_u32 (*top)[KVC_READ_GROUPS]; /* for each row, the largest scale of each group of channels */
    float (*inverse)[KVC_READ_GROUPS];
    uint2 *four;
};

/* Loads the four quants at byte `at` of an entry in shared memory. */
KVC_DEVICE kvc_u32 kvc_read_word(const kvc_u8 *row, kvc_u32 at) {
    const kvc_u32 *word = (const kvc_u32 *)(row + at / 4 * 4);
    const kvc_u32 low = word[0];
    return at % 4 ? low >> 16 | word[1] << 16 : low;
}
KVC_DEVICE float kvc_read_scale(kvc_bytes row, kvc_u32 b) {
    return kvc_half_of(*(const kvc_u16 *)KVC_GROUP_AT(row, b));
}
KVC_DEVICE struct kvc_group kvc_read_group(const kvc_u8 *row, kvc_u32 b, kvc_u32 d) {
    const kvc_u32 at = b * (2 + KVC_Q8_GROUP) + 2, words = (d - b * KVC_Q8_GROUP) / 4;
    struct kvc_group group;
    group.scale = kvc_read_scale(row, b);
#pragma unroll
    for (kvc_u32 i = 0; i < 4; i++) {
        group.first.word[i] = i < words ? kvc_read_word(row, at + 4 * i) : 0u;
        group.second.word[i] = i + 4 < words ? kvc_read_word(row, at + 16 + 4 * i) : 0u;
    }
    return group;
}

/* Computes the scores of some queries. A warp computes two queries, and each of its work-items computes one entry at a
 * time. */
KVC_DEVICE void kvc_read_scores_int8(const struct kvc_read &t, const struct kvc_read_some<KVC_READ_QUERIES> &some,
                                     const struct kvc_query &queries, float scale) {
    const int each = KVC_READ_QUERIES / (KVC_GROUP / 32);
    const kvc_u32 lane = KVC_LOCAL_ID() % 32, n0 = KVC_LOCAL_ID() / 32 * each, groups = kvc_groups_of(t.d);
    struct kvc_query query[each];
    for (int n = 0; n < each; n++) {
        const kvc_u32 at = some.q0 + (n0 + n < some.queries ? n0 + n : 0);
        query[n] = kvc_query_from(queries.quant, queries.scale,
                                  (kvc_u64)(t.i0 + at / t.group) * t.heads + t.h * t.group + at % t.group, groups);
    }
    for (kvc_u32 i = 0; i < t.pieces; i++) {
        const kvc_u8 *piece = t.shared + i % KVC_READ_PIECES * KVC_READ_BYTES;
        kvc_async_wait<KVC_READ_PIECES - 2>();
        KVC_BARRIER();
        kvc_read_load(t, i + KVC_READ_PIECES - 1);
        for (kvc_u32 in = lane; n0 < some.queries && in < t.per && i * t.per + in < t.count; in += 32) {
            const kvc_u32 j = i * t.per + in;
            float dot[each];
            for (int n = 0; n < each; n++)
                dot[n] = 0.0f;
            for (kvc_u32 b = 0; t.keys[j] && b < groups; b++) {
                const struct kvc_group group = kvc_read_group(piece + in * t.stride, b, t.d);
#pragma unroll
                for (int n = 0; n < each; n++)
                    dot[n] = kvc_int8_add(group.scale, query[n].scale[b], kvc_group_dot(&group, &query[n], b), dot[n]);
            }
#pragma unroll
            for (int n = 0; n < each; n++)
                t.score[n0 + n][j] = dot[n] * scale;
        }
    }
}

/* Computes the largest scales of the values. A warp computes one row and one group of channels. */
KVC_DEVICE void kvc_read_tops(const struct kvc_read &t, const struct kvc_read_int8 &w) {
    const kvc_u32 lane = KVC_LOCAL_ID() % 32, groups = kvc_groups_of(t.d);
    for (kvc_u32 i = KVC_LOCAL_ID() / 32; i < t.here * groups; i += KVC_GROUP / 32) {
        const kvc_u32 r = i / groups, b = i % groups;
        kvc_u32 top = 0;
#pragma unroll
        for (kvc_u32 k = 0; k < KVC_TILE / 32; k++)
            if (t.seen[r][k] >> lane & 1)
                top = kvc_int8_top(top, kvc_read_scale(t.keys[k * 32 + lane] + t.value_at, b));
        for (int k = 16; k > 0; k /= 2) {
            const kvc_u32 other = __shfl_xor_sync(0xffffffffu, top, k);
            top = top > other ? top : other;
        }
        if (lane == 0) {
            w.top[r][b] = top;
            w.inverse[r][b] = kvc_value_inverse(top);
        }
    }
}

/* Computes the integer weights of the entries of a piece of values. The piece's first entry is j0. */
KVC_DEVICE void kvc_read_weigh(const struct kvc_read &t, const struct kvc_read_int8 &w,
                               const struct kvc_read_some<KVC_READ_QUERIES> &some, const kvc_u8 *piece, kvc_u32 j0) {
    const kvc_u32 fours = t.per / 4, all = kvc_groups_of(t.d) * KVC_READ_QUERIES * fours;
    for (kvc_u32 x = KVC_LOCAL_ID(); x < all; x += KVC_GROUP) {
        const kvc_u32 in = x % fours * 4, n = x / fours % KVC_READ_QUERIES, b = x / fours / KVC_READ_QUERIES;
        const kvc_u32 r = n < some.queries ? (some.q0 + n) / t.group : 0, j = j0 + in;
        /* The bits of the four entries are neighbours within one word, because j is a multiple of four. */
        const kvc_u32 seen = n < some.queries && j < t.count ? t.seen[r][j / 32] >> j % 32 : 0u;
        uint2 four = {0u, 0u};
        for (kvc_u32 i = 0; i < 4; i++)
            if (seen >> i & 1) {
                const kvc_i32 weight = kvc_value_weight(
                    t.score[n][j + i], kvc_read_scale(piece + (in + i) * t.stride, b) * w.inverse[r][b]);
                four.x |= ((kvc_u32)weight & 127u) << 8 * i;
                four.y |= ((kvc_u32)(weight >> 7) & 255u) << 8 * i;
            }
        w.four[x] = four;
    }
}

/* Computes and writes the sums of values. A work-item sums four channels (word k of the entries) for at most four
 * queries (n0, n0 + step and so on). Entries that are not loaded have weight 0. */
KVC_DEVICE void kvc_read_values_int8(const struct kvc_read &t, const struct kvc_read_int8 &w,
                                     const struct kvc_read_some<KVC_READ_QUERIES> &some, float *tile_o) {
    const kvc_u32 words = t.d / 4, step = KVC_GROUP / words, k = KVC_LOCAL_ID() % words, n0 = KVC_LOCAL_ID() / words;
    const kvc_u32 b = k / 8, at = b * (2 + KVC_Q8_GROUP) + 2 + k % 8 * 4, fours = t.per / 4;
    kvc_i32 low[4][4], high[4][4];
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            low[m][i] = high[m][i] = 0;
    for (kvc_u32 p = t.pieces; p < 2 * t.pieces; p++) {
        const kvc_u8 *piece = t.shared + p % KVC_READ_PIECES * KVC_READ_BYTES;
        const kvc_u32 j0 = (p - t.pieces) * t.per, end = t.count - j0 < t.per ? t.count - j0 : t.per;
        kvc_async_wait<KVC_READ_PIECES - 2>();
        KVC_BARRIER(); /* this barrier also waits for exp(s - m), and for the last piece's sums */
        kvc_read_load(t, p + KVC_READ_PIECES - 1);
        kvc_read_weigh(t, w, some, piece, j0);
        KVC_BARRIER();
        for (kvc_u32 in = 0; n0 < step && in < end; in += 4) {
            kvc_u32 word[4];
#pragma unroll
            for (kvc_u32 i = 0; i < 4; i++)
                word[i] = kvc_read_word(piece + (in + i) * t.stride, at);
            kvc_transpose_bytes(word);
#pragma unroll
            for (int m = 0; m < 4; m++)
                if (n0 + m * step < KVC_READ_QUERIES) {
                    const uint2 four = w.four[(b * KVC_READ_QUERIES + n0 + m * step) * fours + in / 4];
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        low[m][i] = kvc_dot4(four.x, word[i], low[m][i]);
                        high[m][i] = kvc_dot4(four.y, word[i], high[m][i]);
                    }
                }
        }
    }
#pragma unroll
    for (int m = 0; m < 4; m++)
        if (n0 < step && n0 + m * step < some.queries) {
            const kvc_u32 q = some.q0 + n0 + m * step, r = q / t.group;
            const kvc_u64 head = (kvc_u64)(t.i0 + r) * t.heads + t.h * t.group + q % t.group;
            const float unit = kvc_value_unit(w.top[r][b]);
#pragma unroll
            for (int i = 0; i < 4; i++)
                tile_o[(head * t.tiles + t.tile) * t.d + 4 * k + i] = (float)(128 * high[m][i] + low[m][i]) * unit;
        }
}

KVC_GROUP_KERNEL(read_int8)(KVC_ATTENTION, KVC_QUERIES, kvc_u32 rows, kvc_u32 rows_each) {
    KVC_SHARED __align__(16) kvc_u8 shared[KVC_READ_PIECES * KVC_READ_BYTES];
    KVC_SHARED kvc_bytes keys[KVC_TILE];
    KVC_SHARED __align__(16) float score[KVC_READ_QUERIES][KVC_TILE];
    KVC_SHARED kvc_u32 seen[KVC_READ_ROWS][KVC_TILE / 32], reads[KVC_READ_ROWS], tops[KVC_READ_ROWS][KVC_READ_GROUPS];
    KVC_SHARED float inverse[KVC_READ_ROWS][KVC_READ_GROUPS];
    KVC_SHARED uint2 four[KVC_READ_WEIGHT_WORDS * KVC_READ_QUERIES];
    KVC_OPEN_ARENA(arena);
    KVC_OPEN_HEAD(head, l, KVC_GROUP_ID(1));
    struct kvc_read t = {shared, keys, score, seen, reads};
    const struct kvc_read_int8 w = {tops, inverse, four};
    const struct kvc_query queries = KVC_QUERY_FROM(0, 0);
    if (!KVC_READ_FIND(4))
        return;
    for (kvc_u32 q0 = 0; q0 < t.here * t.group; q0 += KVC_READ_QUERIES) {
        struct kvc_read_some<KVC_READ_QUERIES> some;
        some.q0 = q0;
        some.queries = t.here * t.group - q0 < KVC_READ_QUERIES ? t.here * t.group - q0 : KVC_READ_QUERIES;
        for (kvc_u32 i = 0; i < KVC_READ_PIECES - 1; i++)
            kvc_read_load(t, i);
        kvc_read_scores_int8(t, some, queries, scale);
        if (q0 == 0)
            kvc_read_tops(t, w);
        KVC_BARRIER();
        kvc_read_weights<KVC_READ_QUERIES>(t, some, cap, tile_m_buffer + tile_m_offset, tile_l_buffer + tile_l_offset);
        kvc_read_values_int8(t, w, some, tile_o_buffer + tile_o_offset);
        KVC_BARRIER(); /* waits, because the pieces and weights are overwritten next */
        kvc_async_wait<0>();
    }
}
