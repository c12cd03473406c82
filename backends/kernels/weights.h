/* weights.h - dequantizes 32 neighbouring weights of a row to the lanes of a dot product.
 *
 * kvc_lanes_<type>(b, e, worker) takes a block and the index of the first weight in this block (0 if blocks have no
 * more than 32 weights). */
#ifndef KVC_BACKENDS_KERNELS_WEIGHTS_H
#define KVC_BACKENDS_KERNELS_WEIGHTS_H

#define KVC_PART_OF(name)                                                                                              \
    KVC_DEVICE struct kvc_lanes kvc_lanes_##name(KVC_GLOBAL const struct kvc_block_##name *b, kvc_u32 e, kvc_u32 worker)

#if KVC_WORKERS == 1

KVC_DEVICE struct kvc_lanes kvc_lanes_f16(KVC_GLOBAL const kvc_u8 *row, kvc_u64 k, kvc_u32 worker) {
    return kvc_lanes_halves(row, k);
}
KVC_DEVICE struct kvc_lanes kvc_lanes_bf16(KVC_GLOBAL const kvc_u8 *row, kvc_u64 k, kvc_u32 worker) {
    return kvc_lanes_pairs(row, k);
}

KVC_PART_OF(q8_0) {
    KVC_GLOBAL const char *q = (KVC_GLOBAL const char *)b->q;
    float d = KVC_HALF(b->d);
    return kvc_lanes_scaled(convert_int16(vload16(0, q)), convert_int16(vload16(1, q)), d, d);
}
KVC_PART_OF(q4_0) {
    uchar16 q = vload16(0, b->q);
    float d = KVC_HALF(b->d);
    return kvc_lanes_scaled(KVC_BITS16(q, 0, 15) - 8, KVC_BITS16(q, 4, 15) - 8, d, d);
}
KVC_PART_OF(q4_1) {
    uchar16 q = vload16(0, b->q);
    return kvc_lanes_offset(KVC_BITS16(q, 0, 15), KVC_BITS16(q, 4, 15), KVC_HALF(b->d), KVC_HALF(b->m));
}
KVC_PART_OF(q5_0) {
    uchar16 q = vload16(0, b->q);
    float d = KVC_HALF(b->d);
    return kvc_lanes_scaled((KVC_BITS16(q, 0, 15) | kvc_fifth_bits(b->high)) - 16,
                            (KVC_BITS16(q, 4, 15) | kvc_fifth_bits(b->high + 2)) - 16, d, d);
}
KVC_PART_OF(q5_1) {
    uchar16 q = vload16(0, b->q);
    return kvc_lanes_offset(KVC_BITS16(q, 0, 15) | kvc_fifth_bits(b->high),
                            KVC_BITS16(q, 4, 15) | kvc_fifth_bits(b->high + 2), KVC_HALF(b->d), KVC_HALF(b->m));
}
/* Looks up 16 numbers of four bits, like kvc_e2m1_twice. */
KVC_DEVICE int16 kvc_e2m1_twices(int16 q) {
    uint16 word = select((uint16)(KVC_E2M1_WORD_0), (uint16)(KVC_E2M1_WORD_1), (q & 4) != 0);
    int16 magnitude = as_int16(word >> as_uint16((q & 3) * 8) & 255u);
    return select(magnitude, -magnitude, (q & 8) != 0);
}
KVC_PART_OF(iq4_nl) {
    uchar16 q = vload16(0, b->q);
    float d = KVC_HALF(b->d);
    return kvc_lanes_scaled(kvc_iq4_values(KVC_BITS16(q, 0, 15)), kvc_iq4_values(KVC_BITS16(q, 4, 15)), d, d);
}
KVC_PART_OF(mxfp4) {
    uchar16 q = vload16(0, b->q);
    float d = kvc_power_half(b->power[0]);
    return kvc_lanes_scaled(kvc_e2m1_twices(KVC_BITS16(q, 0, 15)), kvc_e2m1_twices(KVC_BITS16(q, 4, 15)), d, d);
}
KVC_PART_OF(iq4_xs) {
    uchar16 q = vload16(0, b->q + e / 32 * 16);
    float d = KVC_HALF(b->d) * (float)KVC_IQ4_XS_SCALE(*b, e / 32);
    return kvc_lanes_scaled(kvc_iq4_values(KVC_BITS16(q, 0, 15)), kvc_iq4_values(KVC_BITS16(q, 4, 15)), d, d);
}
KVC_PART_OF(q2_k) {
    KVC_GLOBAL const kvc_u8 *q = b->q + e / 128 * 32;
    kvc_u32 shift = e % 128 / 32 * 2;
    float16 scale = (float16)(KVC_HALF(b->d)), least = (float16)(-KVC_HALF(b->dmin));
    return kvc_lanes_of(
        fma(scale * (float)KVC_Q2_K_SCALE(*b, e / 16), convert_float16(KVC_BITS16(vload16(0, q), shift, 3)),
            least * (float)KVC_Q2_K_MIN(*b, e / 16)),
        fma(scale * (float)KVC_Q2_K_SCALE(*b, e / 16 + 1), convert_float16(KVC_BITS16(vload16(1, q), shift, 3)),
            least * (float)KVC_Q2_K_MIN(*b, e / 16 + 1)));
}
KVC_PART_OF(q3_k) {
    KVC_GLOBAL const kvc_u8 *q = b->q + e / 128 * 32;
    kvc_u32 shift = e % 128 / 32 * 2;
    float d = KVC_HALF(b->d);
    int16 low = KVC_BITS16(vload16(0, q), shift, 3) | KVC_BITS16(vload16(0, b->high), e / 32, 1) << 2;
    int16 high = KVC_BITS16(vload16(1, q), shift, 3) | KVC_BITS16(vload16(1, b->high), e / 32, 1) << 2;
    return kvc_lanes_scaled(low - 4, high - 4, d * (float)KVC_Q3_K_SCALE(*b, e / 16),
                            d * (float)KVC_Q3_K_SCALE(*b, e / 16 + 1));
}
KVC_PART_OF(q4_k) {
    KVC_GLOBAL const kvc_u8 *q = b->q + e / 64 * 32;
    kvc_u32 shift = e / 32 % 2 * 4;
    return kvc_lanes_offset(KVC_BITS16(vload16(0, q), shift, 15), KVC_BITS16(vload16(1, q), shift, 15),
                            KVC_HALF(b->d) * (float)KVC_Q4_K_SCALE(*b, e / 32),
                            -(KVC_HALF(b->dmin) * (float)KVC_Q4_K_MIN(*b, e / 32)));
}
KVC_PART_OF(q5_k) {
    KVC_GLOBAL const kvc_u8 *q = b->q + e / 64 * 32;
    int16 low = KVC_BITS16(vload16(0, q), e / 32 % 2 * 4, 15) | KVC_BITS16(vload16(0, b->high), e / 32, 1) << 4;
    int16 high = KVC_BITS16(vload16(1, q), e / 32 % 2 * 4, 15) | KVC_BITS16(vload16(1, b->high), e / 32, 1) << 4;
    return kvc_lanes_offset(low, high, KVC_HALF(b->d) * (float)KVC_Q4_K_SCALE(*b, e / 32),
                            -(KVC_HALF(b->dmin) * (float)KVC_Q4_K_MIN(*b, e / 32)));
}
KVC_PART_OF(q6_k) {
    KVC_GLOBAL const kvc_u8 *q = b->low + e / 128 * 64 + e % 64, *h = b->high + e / 128 * 32;
    kvc_u32 shift = e % 128 / 64 * 4, high_shift = e % 128 / 32 * 2;
    float d = KVC_HALF(b->d);
    int16 low = KVC_BITS16(vload16(0, q), shift, 15) | KVC_BITS16(vload16(0, h), high_shift, 3) << 4;
    int16 high = KVC_BITS16(vload16(1, q), shift, 15) | KVC_BITS16(vload16(1, h), high_shift, 3) << 4;
    return kvc_lanes_scaled(low - 32, high - 32, d * (float)b->scale[e / 16], d * (float)b->scale[e / 16 + 1]);
}
/* Computes kvc_e4m3_to_f32 times the scale. */
KVC_DEVICE float16 kvc_e4m3_scaled(uchar16 q, float scale) {
    uint16 sign = (convert_uint16(q) & 128u) << 24u, a = convert_uint16(q) & 127u;
    uint16 small = as_uint16(convert_float16(a) * 0.001953125f);
    uint16 bits = select(small, (a << 20u) + 0x3c000000u, a >= 8u);
    return as_float16(select(sign | bits, (uint16)(0x7fc00000u), a == 127u)) * scale;
}
KVC_PART_OF(fp8) {
    float d = KVC_FP8_SCALE(*b);
    return kvc_lanes_of(kvc_e4m3_scaled(vload16(0, b->q + e), d), kvc_e4m3_scaled(vload16(1, b->q + e), d));
}

#else /* each work-item has 8 lanes, loaded from memory as vectors */

KVC_DEVICE struct kvc_lanes kvc_lanes_f16(KVC_GLOBAL const kvc_u8 *row, kvc_u64 k, kvc_u32 worker) {
    return kvc_lanes_pairs((KVC_GLOBAL const kvc_u16 *)row + k + worker * 8, true);
}
KVC_DEVICE struct kvc_lanes kvc_lanes_bf16(KVC_GLOBAL const kvc_u8 *row, kvc_u64 k, kvc_u32 worker) {
    return kvc_lanes_pairs((KVC_GLOBAL const kvc_u16 *)row + k + worker * 8, false);
}

/* Return the lanes of a work-item, from 8 quants. */
KVC_DEVICE struct kvc_lanes kvc_quants_scaled(struct kvc_quants q, float d, int scale) {
    struct kvc_lanes p;
    for (int i = 0; i < 8; i++)
        p.lane[i] = kvc_weight_scaled(d, scale, q.value[i]);
    return p;
}
KVC_DEVICE struct kvc_lanes kvc_quants_offset(struct kvc_quants q, float d, float dmin, int scale, int least) {
    struct kvc_lanes p;
    for (int i = 0; i < 8; i++)
        p.lane[i] = kvc_weight_offset(d, dmin, scale, least, q.value[i]);
    return p;
}
KVC_PART_OF(q8_0) { return kvc_lanes_bytes((KVC_GLOBAL const kvc_u8 *)b->q + worker * 8, KVC_HALF(b->d)); }
KVC_PART_OF(q4_0) { return kvc_times(kvc_nibbles(b->q, worker, 0, 8), KVC_HALF(b->d)); }
KVC_PART_OF(q5_0) { return kvc_times(kvc_nibbles(b->q, worker, b->high[worker], 16), KVC_HALF(b->d)); }
KVC_PART_OF(q4_1) { return kvc_times_plus(kvc_nibbles(b->q, worker, 0, 0), KVC_HALF(b->d), KVC_HALF(b->m)); }
KVC_PART_OF(q5_1) {
    return kvc_times_plus(kvc_nibbles(b->q, worker, b->high[worker], 0), KVC_HALF(b->d), KVC_HALF(b->m));
}
KVC_PART_OF(iq4_nl) { return kvc_times(kvc_iq4_quants(kvc_nibbles(b->q, worker, 0, 0)), KVC_HALF(b->d)); }
KVC_PART_OF(mxfp4) {
    struct kvc_quants q = kvc_nibbles(b->q, worker, 0, 0);
    for (int i = 0; i < 8; i++)
        q.value[i] = kvc_e2m1_twice(q.value[i]);
    return kvc_times(q, kvc_power_half(b->power[0]));
}
KVC_PART_OF(iq4_xs) {
    return kvc_times(kvc_iq4_quants(kvc_nibbles(b->q + e / 32 * 16, worker, 0, 0)),
                     KVC_HALF(b->d) * (float)KVC_IQ4_XS_SCALE(*b, e / 32));
}
KVC_PART_OF(q2_k) {
    kvc_u32 at = worker * 8, s = (e + at) / 16;
    return kvc_quants_offset(
        kvc_quants_of(kvc_load_bytes(b->q + e / 128 * 32 + at), e % 128 / 32 * 2, 3, kvc_no_bytes(), 0, 0, 0, 0),
        KVC_HALF(b->d), KVC_HALF(b->dmin), KVC_Q2_K_SCALE(*b, s), KVC_Q2_K_MIN(*b, s));
}
KVC_PART_OF(q3_k) {
    kvc_u32 at = worker * 8;
    return kvc_quants_scaled(kvc_quants_of(kvc_load_bytes(b->q + e / 128 * 32 + at), e % 128 / 32 * 2, 3,
                                           kvc_load_bytes(b->high + at), e / 32, 1, 2, 4),
                             KVC_HALF(b->d), KVC_Q3_K_SCALE(*b, (e + at) / 16));
}
KVC_PART_OF(q4_k) {
    return kvc_quants_offset(
        kvc_quants_of(kvc_load_bytes(b->q + e / 64 * 32 + worker * 8), e / 32 % 2 * 4, 15, kvc_no_bytes(), 0, 0, 0, 0),
        KVC_HALF(b->d), KVC_HALF(b->dmin), KVC_Q4_K_SCALE(*b, e / 32), KVC_Q4_K_MIN(*b, e / 32));
}
KVC_PART_OF(q5_k) {
    kvc_u32 at = worker * 8;
    return kvc_quants_offset(kvc_quants_of(kvc_load_bytes(b->q + e / 64 * 32 + at), e / 32 % 2 * 4, 15,
                                           kvc_load_bytes(b->high + at), e / 32, 1, 4, 0),
                             KVC_HALF(b->d), KVC_HALF(b->dmin), KVC_Q4_K_SCALE(*b, e / 32), KVC_Q4_K_MIN(*b, e / 32));
}
KVC_PART_OF(q6_k) {
    kvc_u32 at = worker * 8;
    return kvc_quants_scaled(kvc_quants_of(kvc_load_bytes(b->low + e / 128 * 64 + e % 64 + at), e % 128 / 64 * 4, 15,
                                           kvc_load_bytes(b->high + e / 128 * 32 + at), e % 128 / 32 * 2, 3, 4, 32),
                             KVC_HALF(b->d), b->scale[(e + at) / 16]);
}
KVC_PART_OF(fp8) {
    uint2 q = kvc_load_bytes(b->q + e + worker * 8);
    float d = KVC_FP8_SCALE(*b);
    struct kvc_lanes p;
    for (int i = 0; i < 8; i++)
        p.lane[i] = kvc_e4m3_to_f32((kvc_u8)KVC_BYTE(q, i)) * d;
    return p;
}

#endif

/* Returns the 32 weights from k on. k is a multiple of 32. */
#define KVC_PART_CASE(a, NAME, name, gguf, elements, bytes, scale, scales, wide, holds)                                \
    case KVC_K_##NAME:                                                                                                 \
        return kvc_lanes_##name((KVC_GLOBAL const struct kvc_block_##name *)row + k / (elements),                      \
                                (kvc_u32)(k % (elements)), worker);
KVC_DEVICE struct kvc_lanes kvc_lanes_weight(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u64 k, kvc_u32 worker) {
    switch (type) {
    case KVC_K_F32:
        return kvc_lanes_floats((KVC_GLOBAL const float *)row + k, worker);
    case KVC_K_F16:
        return kvc_lanes_f16(row, k, worker);
    case KVC_K_BF16:
        return kvc_lanes_bf16(row, k, worker);
        KVC_ALL_BLOCK_TYPES(KVC_PART_CASE, )
    }
    return kvc_lanes_zero();
}
/* Returns the last weights of a row, fewer than 32, for types whose blocks are smaller than 32 weights. */
KVC_DEVICE struct kvc_lanes kvc_lanes_weight_tail(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u64 k, kvc_u32 worker,
                                                  kvc_u32 count) {
#if KVC_WORKERS == 1
    union {
        struct kvc_lanes p;
        float lane[32];
    } u;
    u.p = kvc_lanes_zero();
    for (kvc_u32 i = 0; i < count; i++)
        u.lane[i] = kvc_dequantize_weight(type, row, k + i);
    return u.p;
#else
    struct kvc_lanes p;
    for (int i = 0; i < KVC_LANES_EACH; i++)
        p.lane[i] = worker * KVC_LANES_EACH + i < count
                        ? kvc_dequantize_weight(type, row, k + worker * KVC_LANES_EACH + i)
                        : 0.0f;
    return p;
#endif
}

#endif
