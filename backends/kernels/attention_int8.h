/* attention_int8.h - attention over entries with integer quants, in integer arithmetic (core/base/canon.h, "int8:
 * attention over Q8_0 entries"). attention.h finds the keys, computes exp(s - m) and merges the tiles. */

/* Returns the scale that the integers of a value's group have. */
KVC_DEVICE float kvc_value_scale(kvc_u32 type, kvc_bytes group) {
    return type == KVC_K_Q4_1 ? kvc_levels_of(KVC_HALF(group), KVC_HALF(group + 2)).scale : KVC_HALF(group);
}

/* struct kvc_tile_weights holds the integer weights of a tile's entries, for one group of channels and up to KVC_HEADS
 * heads. */
#if KVC_WORKERS != 1

/* The work-items of a group share the weights. A word of `low` or `high` holds one digit of the weights of four
 * entries. A digit has seven bits. */
struct kvc_tile_weights {
    kvc_u32 top[KVC_GROUP];
    kvc_u32 low[KVC_HEADS][KVC_TILE / 4], high[KVC_HEADS][KVC_TILE / 4];
    kvc_i32 sum[KVC_HEADS][KVC_Q8_GROUP];
};

/* Computes the scores of the queries of the first `here` heads. A work-item reads an entry once for all these heads. */
KVC_DEVICE void kvc_tile_scores_int8(kvc_u32 type, struct kvc_tile t, struct kvc_query queries, kvc_u32 here, kvc_u32 d,
                                     float scale) {
    const kvc_u32 groups = kvc_groups_of(d);
    for (kvc_u32 j = KVC_LOCAL_ID(); j < t.count; j += KVC_GROUP) {
        float dot[KVC_HEADS];
        for (int g = 0; g < KVC_HEADS; g++)
            dot[g] = 0.0f;
        for (kvc_u32 b = 0; t.keys[j] && b < groups; b++) {
            const struct kvc_group group = kvc_group_of(type, t.keys[j], b, d);
            for (int g = 0; g < KVC_HEADS; g++) {
                const kvc_u32 at = ((kvc_u32)g < here ? g : 0) * groups + b;
                dot[g] = kvc_int8_add(group.scale, queries.scale[at], kvc_group_dot(&group, &queries, at), dot[g]);
            }
        }
        for (int g = 0; g < KVC_HEADS; g++)
            if ((kvc_u32)g < here)
                t.score[g][j] = dot[g] * scale;
    }
    KVC_BARRIER();
}

/* Returns the largest magnitude among the entries' value scales for one group of channels, as bits. `at` is the byte
 * offset of the group's scale in a value. */
KVC_DEVICE kvc_u32 kvc_tile_top(kvc_u32 type, struct kvc_tile t, kvc_u32 at, KVC_LOCAL kvc_u32 *shared_top) {
    const kvc_u32 id = KVC_LOCAL_ID();
    kvc_u32 top = 0;
    for (kvc_u32 j = id; j < t.count; j += KVC_GROUP)
        if (t.values[j])
            top = kvc_int8_top(top, kvc_value_scale(type, t.values[j] + at));
    shared_top[id] = top;
    KVC_BARRIER();
    if (id < 32) {
        for (kvc_u32 i = id + 32; i < KVC_GROUP; i += 32)
            top = top > shared_top[i] ? top : shared_top[i];
        shared_top[id] = top;
    }
    KVC_BARRIER();
    for (kvc_u32 i = 0; i < 32; i++)
        top = top > shared_top[i] ? top : shared_top[i];
    return top;
}

/* Computes the weights of the first `here` heads. The weight of a masked entry is 0. Also clears the sums. */
KVC_DEVICE void kvc_tile_weigh(kvc_u32 type, struct kvc_tile t, kvc_u32 here, kvc_u32 at, float inverse,
                               KVC_LOCAL struct kvc_tile_weights *weights) {
    for (kvc_u32 n = KVC_LOCAL_ID(); n < here * (KVC_TILE / 4); n += KVC_GROUP) {
        const kvc_u32 g = n / (KVC_TILE / 4), four = n % (KVC_TILE / 4);
        kvc_u32 low = 0, high = 0;
        for (kvc_u32 i = 0; i < 4; i++) {
            const kvc_u32 j = 4 * four + i;
            if (t.values[j]) {
                const kvc_i32 w = kvc_value_weight(t.score[g][j], kvc_value_scale(type, t.values[j] + at) * inverse);
                low |= ((kvc_u32)w & 127u) << 8 * i;
                high |= ((kvc_u32)(w >> 7) & 255u) << 8 * i;
            }
        }
        weights->low[g][four] = low;
        weights->high[g][four] = high;
    }
    for (kvc_u32 n = KVC_LOCAL_ID(); n < here * KVC_Q8_GROUP; n += KVC_GROUP)
        weights->sum[n / KVC_Q8_GROUP][n % KVC_Q8_GROUP] = 0;
    KVC_BARRIER();
}

/* Transposes a matrix of 4 x 4 bytes. */
KVC_DEVICE void kvc_transpose_bytes(kvc_u32 *word) {
    const kvc_u32 a = word[0], b = word[1], c = word[2], d = word[3];
#if defined(__CUDA_ARCH__)
    const kvc_u32 ab = __byte_perm(a, b, 0x5140), AB = __byte_perm(a, b, 0x7362);
    const kvc_u32 cd = __byte_perm(c, d, 0x5140), CD = __byte_perm(c, d, 0x7362);
    word[0] = __byte_perm(ab, cd, 0x5410);
    word[1] = __byte_perm(ab, cd, 0x7632);
    word[2] = __byte_perm(AB, CD, 0x5410);
    word[3] = __byte_perm(AB, CD, 0x7632);
#else
    for (kvc_u32 i = 0; i < 4; i++)
        word[i] =
            (a >> 8 * i & 255u) | (b >> 8 * i & 255u) << 8 | (c >> 8 * i & 255u) << 16 | (d >> 8 * i & 255u) << 24;
#endif
}

/* Returns quants c to c + 3 of group b of a value of d channels. */
KVC_DEVICE kvc_u32 kvc_value_word(kvc_u32 type, kvc_bytes value, kvc_u32 b, kvc_u32 d, kvc_u32 c) {
    if (type != KVC_K_Q8_0) {
        const struct kvc_packed p = kvc_integers_at(type, value, b, d);
        return kvc_integer_word(type, &p, c);
    }
    return kvc_load_quants(KVC_GROUP_AT(value, b) + 2 + c, (kvc_i32)(d - b * KVC_Q8_GROUP) - (kvc_i32)c);
}

/* Sums weights times quants over the entries of a tile, for group b of the d channels. A work-item sums four channels
 * over some of the entries, for all heads. */
KVC_DEVICE void kvc_tile_sum(kvc_u32 type, struct kvc_tile t, kvc_u32 here, kvc_u32 b, kvc_u32 d,
                             KVC_LOCAL struct kvc_tile_weights *weights) {
    const kvc_u32 c = KVC_LOCAL_ID() % 8 * 4;
    kvc_i32 low[KVC_HEADS][4], high[KVC_HEADS][4];
    for (int g = 0; g < KVC_HEADS; g++)
        for (int i = 0; i < 4; i++)
            low[g][i] = high[g][i] = 0;
    for (kvc_u32 four = KVC_LOCAL_ID() / 8; 4 * four < t.count; four += KVC_GROUP / 8) {
        kvc_u32 word[4];
        for (kvc_u32 i = 0; i < 4; i++)
            word[i] = t.values[4 * four + i] ? kvc_value_word(type, t.values[4 * four + i], b, d, c) : 0u;
        kvc_transpose_bytes(word);
        for (int g = 0; g < KVC_HEADS; g++)
            for (int i = 0; i < 4 && (kvc_u32)g < here; i++) {
                low[g][i] = kvc_dot4(weights->low[g][four], word[i], low[g][i]);
                high[g][i] = kvc_dot4(weights->high[g][four], word[i], high[g][i]);
            }
    }
    for (kvc_u32 g = 0; g < here; g++)
        for (kvc_u32 i = 0; i < 4; i++)
            KVC_ADD_LOCAL(&weights->sum[g][c + i], 128 * high[g][i] + low[g][i]);
    KVC_BARRIER();
}

/* Writes the tile's outputs of the first `here` heads, d floats each. The outputs of heads are `step` floats apart. */
KVC_DEVICE void kvc_tile_values_int8(kvc_u32 type, struct kvc_tile t, kvc_u32 here, kvc_u32 d, KVC_GLOBAL float *to,
                                     kvc_u64 step, KVC_LOCAL struct kvc_tile_weights *weights) {
    for (kvc_u32 first = 0; first < d; first += KVC_Q8_GROUP) {
        const kvc_u32 at = first / KVC_Q8_GROUP * kvc_group_bytes(type);
        const kvc_u32 top = kvc_tile_top(type, t, at, weights->top);
        const float unit = kvc_value_unit(top);
        kvc_tile_weigh(type, t, here, at, kvc_value_inverse(top), weights);
        kvc_tile_sum(type, t, here, first / KVC_Q8_GROUP, d, weights);
        for (kvc_u32 n = KVC_LOCAL_ID(); n < here * KVC_Q8_GROUP; n += KVC_GROUP) {
            const kvc_u32 g = n / KVC_Q8_GROUP, c = n % KVC_Q8_GROUP;
            if (first + c < d)
                to[g * step + first + c] = (float)weights->sum[g][c] * unit;
        }
    }
}

#define KVC_TILE_INT8 tile
#define KVC_TILE_WEIGHTS KVC_SHARED struct kvc_tile_weights weights

#else

struct kvc_tile_weights {
    int16 of[KVC_HEADS][KVC_TILE / 16];
    float16 factor[KVC_TILE / 16]; /* a factor for each entry; 0 if the entry is masked */
};

/* Computes the scores of the queries of the first `here` heads. Reads each entry once for all these heads. */
KVC_DEVICE void kvc_tile_scores_int8(kvc_u32 type, struct kvc_tile *t, struct kvc_query queries, kvc_u32 here,
                                     kvc_u32 d, float scale) {
    const kvc_u32 groups = kvc_groups_of(d);
    for (kvc_u32 j = 0; j < t->count; j++) {
        float dot[KVC_HEADS];
        if (!t->keys[j])
            continue;
        for (int g = 0; g < KVC_HEADS; g++)
            dot[g] = 0.0f;
        for (kvc_u32 b = 0; b < groups; b++) {
            const struct kvc_group group = kvc_group_of(type, t->keys[j], b, d);
            for (kvc_u32 g = 0; g < here; g++)
                dot[g] = kvc_int8_add(group.scale, queries.scale[g * groups + b],
                                      kvc_group_dot(&group, &queries, g * groups + b), dot[g]);
        }
        for (kvc_u32 g = 0; g < here; g++)
            ((float *)t->score[g])[j] = dot[g] * scale;
    }
}

/* Computes kvc_value_weight for 16 entries. */
KVC_DEVICE int16 kvc_value_weight16(float16 p, float16 factor) {
    const float16 w = (p * factor + KVC_ROUND_MAGIC) - KVC_ROUND_MAGIC;
    return convert_int16(select((float16)(0.0f), w, (w >= -16383.0f) & (w <= 16383.0f)));
}

/* Computes the weights and returns kvc_value_unit. `at` is the offset in bytes of the group's scale in a value. */
KVC_DEVICE float kvc_tile_weigh(kvc_u32 type, const struct kvc_tile *t, kvc_u32 here, kvc_u32 at,
                                struct kvc_tile_weights *weights) {
    const kvc_u32 vectors = (t->count + 15) / 16;
    kvc_u32 top = 0;
    for (kvc_u32 j = 0; j < 16 * vectors; j++) {
        const float scale = t->values[j] ? kvc_value_scale(type, t->values[j] + at) : 0.0f;
        top = kvc_int8_top(top, scale);
        ((float *)weights->factor)[j] = scale;
    }
    for (kvc_u32 v = 0; v < vectors; v++) {
        const float16 factor = weights->factor[v] * kvc_value_inverse(top);
        for (kvc_u32 g = 0; g < KVC_HEADS; g++)
            weights->of[g][v] = g < here ? kvc_value_weight16(t->score[g][v], factor) : (int16)(0);
    }
    return kvc_value_unit(top);
}

/* Writes the tile's outputs of the first `here` heads, d floats each. The outputs of heads are `step` floats apart. */
KVC_DEVICE void kvc_tile_values_int8(kvc_u32 type, const struct kvc_tile *t, kvc_u32 here, kvc_u32 d,
                                     KVC_GLOBAL float *to, kvc_u64 step, struct kvc_tile_weights *weights) {
    for (kvc_u32 first = 0; first < d; first += KVC_Q8_GROUP) {
        const kvc_u32 b = first / KVC_Q8_GROUP;
        const float unit = kvc_tile_weigh(type, t, here, b * kvc_group_bytes(type), weights);
        if (d - first >= KVC_Q8_GROUP) {
            int16 low[KVC_HEADS], high[KVC_HEADS];
            for (int g = 0; g < KVC_HEADS; g++)
                low[g] = high[g] = (int16)(0);
            for (kvc_u32 j = 0; j < t->count; j++) {
                struct kvc_quants q;
                struct kvc_packed p;
                if (!t->values[j])
                    continue;
                p = kvc_integers_at(type, t->values[j], b, d);
                q = kvc_integer_quants(type, &p);
                for (int g = 0; g < KVC_HEADS; g++) {
                    const int16 w = (int16)(((const int *)weights->of[g])[j]);
                    low[g] += w * q.low;
                    high[g] += w * q.high;
                }
            }
            for (kvc_u32 g = 0; g < here; g++) {
                vstore16(convert_float16(low[g]) * unit, 0, to + g * step + first);
                vstore16(convert_float16(high[g]) * unit, 1, to + g * step + first);
            }
            continue;
        }
        for (kvc_u32 c = 0; c < d - first; c++) /* the last group, which has fewer than 32 channels */
            for (kvc_u32 g = 0; g < here; g++) {
                kvc_i32 sum = 0;
                for (kvc_u32 j = 0; j < t->count; j++)
                    if (t->values[j]) {
                        const struct kvc_packed p = kvc_integers_at(type, t->values[j], b, d);
                        sum += ((const int *)weights->of[g])[j] * kvc_integer_quant(type, &p, c);
                    }
                to[g * step + first + c] = (float)sum * unit;
            }
    }
}

#define KVC_TILE_INT8 &tile
#define KVC_TILE_WEIGHTS                                                                                               \
    struct kvc_tile tile;                                                                                              \
    struct kvc_tile_weights weights

#endif

/* Defines a kernel. Its queries are those of the launch's rows. */
#define KVC_ATTENTION_INT8(name, key, value)                                                                           \
    KVC_ATTENTION_TILE(                                                                                                \
        name, (KVC_ATTENTION, KVC_QUERIES), KVC_TILE_WEIGHTS,                                                          \
        kvc_tile_scores_int8(key, KVC_TILE_INT8, KVC_QUERY_FROM(at + g0, kvc_groups_of(d)), here, d, scale),           \
        kvc_tile_values_int8(value, KVC_TILE_INT8, here, d, tile_o + ((at + g0) * tiles + KVC_GROUP_ID(0)) * d,        \
                             (kvc_u64)tiles * d, &weights))
KVC_ATTENTION_INT8(int8, KVC_K_Q8_0, KVC_K_Q8_0)
KVC_ATTENTION_INT8(int8_mixed, key_type, value_type)
