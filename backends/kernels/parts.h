/* parts.h - 32 neighbouring values of a weight row or of a cache entry as the lanes of a dot product. */
#ifndef KVC_KERNELS_PARTS_H
#define KVC_KERNELS_PARTS_H

#if KVC_WORKERS == 1

KVC_DEVICE struct kvc_part kvc_part_of(float16 low, float16 high) {
    struct kvc_part p;
    p.low = low;
    p.high = high;
    return p;
}
KVC_DEVICE struct kvc_part kvc_part_halves(KVC_GLOBAL const kvc_u8 *row, kvc_u64 k) {
    KVC_GLOBAL const half *h = (KVC_GLOBAL const half *)(row + 2 * k);
    return kvc_part_of(vload_half16(0, h), vload_half16(1, h)); /* exact */
}
KVC_DEVICE float16 kvc_bf16x16(ushort16 h) { return as_float16(convert_uint16(h) << 16); }
/* Nibbles: of 32 bytes the low or high halves; of 16 bytes the low halves, then the high ones. */
KVC_DEVICE struct kvc_part kvc_part_scaled(int16 low, int16 high, float a, float b) {
    return kvc_part_of(a * convert_float16(low), b * convert_float16(high));
}
#define KVC_BITS16(bytes, shift, mask)                                                                                 \
    (convert_int16(((bytes) >> (uchar16)((uchar)(shift))) & (uchar16)((uchar)(mask))))

KVC_DEVICE struct kvc_part kvc_part_weight(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u64 k, kvc_u32 worker) {
    kvc_u32 e = (kvc_u32)(k % 256);
    switch (type) {
    case KVC_K_F32:
        return kvc_part_floats((KVC_GLOBAL const float *)row + k, 0);
    case KVC_K_F16:
        return kvc_part_halves(row, k);
    case KVC_K_BF16: {
        KVC_GLOBAL const kvc_u16 *h = (KVC_GLOBAL const kvc_u16 *)row + k;
        return kvc_part_of(kvc_bf16x16(vload16(0, h)), kvc_bf16x16(vload16(1, h)));
    }
    case KVC_K_Q8_0: {
        KVC_GLOBAL const struct kvc_block_q8_0 *b = (KVC_GLOBAL const struct kvc_block_q8_0 *)row + k / 32;
        KVC_GLOBAL const char *q = (KVC_GLOBAL const char *)b->q;
        float d = KVC_HALF(b->d);
        return kvc_part_scaled(convert_int16(vload16(0, q)), convert_int16(vload16(1, q)), d, d);
    }
    case KVC_K_Q4_0: {
        KVC_GLOBAL const struct kvc_block_q4_0 *b = (KVC_GLOBAL const struct kvc_block_q4_0 *)row + k / 32;
        uchar16 q = vload16(0, b->q);
        float d = KVC_HALF(b->d);
        return kvc_part_scaled(KVC_BITS16(q, 0, 15) - 8, KVC_BITS16(q, 4, 15) - 8, d, d);
    }
    case KVC_K_Q5_0: {
        const uint16 place = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        KVC_GLOBAL const struct kvc_block_q5_0 *b = (KVC_GLOBAL const struct kvc_block_q5_0 *)row + k / 32;
        kvc_u32 high = (kvc_u32)KVC_LOAD_U16(b->high) | (kvc_u32)KVC_LOAD_U16(b->high + 2) << 16;
        int16 low_bit = as_int16((((uint16)(high) >> place) & 1u) << 4);
        int16 high_bit = as_int16((((uint16)(high >> 16) >> place) & 1u) << 4);
        uchar16 q = vload16(0, b->q);
        float d = KVC_HALF(b->d);
        return kvc_part_scaled((KVC_BITS16(q, 0, 15) | low_bit) - 16, (KVC_BITS16(q, 4, 15) | high_bit) - 16, d, d);
    }
    case KVC_K_Q3_K: {
        KVC_GLOBAL const struct kvc_block_q3_k *b = (KVC_GLOBAL const struct kvc_block_q3_k *)row + k / 256;
        KVC_GLOBAL const kvc_u8 *q = b->q + e / 128 * 32;
        kvc_u32 shift = e % 128 / 32 * 2;
        float d = KVC_HALF(b->d);
        int16 low = KVC_BITS16(vload16(0, q), shift, 3) | KVC_BITS16(vload16(0, b->high), e / 32, 1) << 2;
        int16 high = KVC_BITS16(vload16(1, q), shift, 3) | KVC_BITS16(vload16(1, b->high), e / 32, 1) << 2;
        return kvc_part_scaled(low - 4, high - 4, d * (float)KVC_Q3_K_SCALE(*b, e / 16),
                               d * (float)KVC_Q3_K_SCALE(*b, e / 16 + 1));
    }
    case KVC_K_Q4_K: {
        KVC_GLOBAL const struct kvc_block_q4_k *b = (KVC_GLOBAL const struct kvc_block_q4_k *)row + k / 256;
        KVC_GLOBAL const kvc_u8 *q = b->q + e / 64 * 32;
        float16 scale = (float16)(KVC_HALF(b->d) * (float)KVC_Q4_K_SCALE(*b, e / 32));
        float16 least = (float16)(-(KVC_HALF(b->dmin) * (float)KVC_Q4_K_MIN(*b, e / 32)));
        return kvc_part_of(fma(scale, convert_float16(KVC_BITS16(vload16(0, q), e / 32 % 2 * 4, 15)), least),
                           fma(scale, convert_float16(KVC_BITS16(vload16(1, q), e / 32 % 2 * 4, 15)), least));
    }
    case KVC_K_Q5_K: {
        KVC_GLOBAL const struct kvc_block_q5_k *b = (KVC_GLOBAL const struct kvc_block_q5_k *)row + k / 256;
        KVC_GLOBAL const kvc_u8 *q = b->q + e / 64 * 32;
        float16 scale = (float16)(KVC_HALF(b->d) * (float)KVC_Q4_K_SCALE(*b, e / 32));
        float16 least = (float16)(-(KVC_HALF(b->dmin) * (float)KVC_Q4_K_MIN(*b, e / 32)));
        int16 low = KVC_BITS16(vload16(0, q), e / 32 % 2 * 4, 15) | KVC_BITS16(vload16(0, b->high), e / 32, 1) << 4;
        int16 high = KVC_BITS16(vload16(1, q), e / 32 % 2 * 4, 15) | KVC_BITS16(vload16(1, b->high), e / 32, 1) << 4;
        return kvc_part_of(fma(scale, convert_float16(low), least), fma(scale, convert_float16(high), least));
    }
    default: {
        KVC_GLOBAL const struct kvc_block_q6_k *b = (KVC_GLOBAL const struct kvc_block_q6_k *)row + k / 256;
        KVC_GLOBAL const kvc_u8 *q = b->low + e / 128 * 64 + e % 64, *h = b->high + e / 128 * 32;
        kvc_u32 shift = e % 128 / 64 * 4, high_shift = e % 128 / 32 * 2;
        float d = KVC_HALF(b->d);
        int16 low = KVC_BITS16(vload16(0, q), shift, 15) | KVC_BITS16(vload16(0, h), high_shift, 3) << 4;
        int16 high = KVC_BITS16(vload16(1, q), shift, 15) | KVC_BITS16(vload16(1, h), high_shift, 3) << 4;
        return kvc_part_scaled(low - 32, high - 32, d * (float)b->scale[e / 16], d * (float)b->scale[e / 16 + 1]);
    }
    }
}
/* Of a row's last values, fewer than 32 (types without blocks). */
KVC_DEVICE struct kvc_part kvc_part_weight_tail(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u64 k, kvc_u32 worker,
                                                kvc_u32 count) {
    union {
        struct kvc_part p;
        float lane[32];
    } u;
    u.p = kvc_part_zero();
    for (kvc_u32 i = 0; i < count; i++)
        u.lane[i] = kvc_weight_value(type, row, k + i);
    return u.p;
}

/* Channels c to c + 31 of a key or value. */
KVC_DEVICE struct kvc_part kvc_part_entry(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker) {
    KVC_GLOBAL const kvc_u8 *group;
    KVC_GLOBAL const char *q;
    float d;
    if (type == KVC_K_F32)
        return kvc_part_floats((KVC_GLOBAL const float *)row + c, 0);
    if (type == KVC_K_F16)
        return kvc_part_halves(row, c);
    group = row + c / KVC_Q8_GROUP * (2 + KVC_Q8_GROUP);
    q = (KVC_GLOBAL const char *)group + 2;
    d = KVC_HALF(group);
    return kvc_part_scaled(convert_int16(vload16(0, q)), convert_int16(vload16(1, q)), d, d);
}
KVC_DEVICE struct kvc_part kvc_part_entry_tail(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker,
                                               kvc_u32 count) {
    union {
        struct kvc_part p;
        float lane[32];
    } u;
    u.p = kvc_part_zero();
    for (kvc_u32 i = 0; i < count; i++)
        u.lane[i] = kvc_entry_value(type, row, c + i);
    return u.p;
}

#else /* 8 lanes each */

KVC_DEVICE struct kvc_part kvc_part_weight(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u64 k, kvc_u32 worker) {
    struct kvc_part p;
    for (int i = 0; i < KVC_LANES_EACH; i++)
        p.lane[i] = kvc_weight_value(type, row, k + worker * KVC_LANES_EACH + i);
    return p;
}
KVC_DEVICE struct kvc_part kvc_part_weight_tail(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u64 k, kvc_u32 worker,
                                                kvc_u32 count) {
    struct kvc_part p;
    for (int i = 0; i < KVC_LANES_EACH; i++)
        p.lane[i] = worker * KVC_LANES_EACH + i < count
                        ? kvc_weight_value(type, row, k + worker * KVC_LANES_EACH + i)
                        : 0.0f;
    return p;
}
KVC_DEVICE struct kvc_part kvc_part_entry(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker) {
    struct kvc_part p;
    for (int i = 0; i < KVC_LANES_EACH; i++)
        p.lane[i] = kvc_entry_value(type, row, c + worker * KVC_LANES_EACH + i);
    return p;
}
KVC_DEVICE struct kvc_part kvc_part_entry_tail(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker,
                                               kvc_u32 count) {
    struct kvc_part p;
    for (int i = 0; i < KVC_LANES_EACH; i++)
        p.lane[i] = worker * KVC_LANES_EACH + i < count
                        ? kvc_entry_value(type, row, c + worker * KVC_LANES_EACH + i)
                        : 0.0f;
    return p;
}

#endif

/* The lanes of dot32(q, key), by a team; where the team has no key (0), nothing is read. */
KVC_DEVICE struct kvc_part kvc_part_dot_entry(kvc_u32 type, KVC_GLOBAL const float *q, KVC_GLOBAL const kvc_u8 *key,
                                              kvc_u32 d) {
    kvc_u32 worker = KVC_LOCAL_ID() % KVC_WORKERS, k = 0;
    struct kvc_part sum = kvc_part_zero();
    if (!key)
        return sum;
    for (; k + 32 <= d; k += 32)
        sum = kvc_part_fma(kvc_part_floats(q + k, worker), kvc_part_entry(type, key, k, worker), sum);
    if (k < d)
        sum = kvc_part_fma_tail(kvc_part_floats_tail(q + k, worker, d - k),
                                kvc_part_entry_tail(type, key, k, worker, d - k), sum, d - k);
    return sum;
}

#endif
