/* parts.h - loads 32 neighbouring values as the lanes of a dot product: cache entries, and helpers for weights.h. */
#ifndef KVC_BACKENDS_KERNELS_PARTS_H
#define KVC_BACKENDS_KERNELS_PARTS_H

#if KVC_WORKERS == 1

KVC_DEVICE struct kvc_lanes kvc_lanes_of(float16 low, float16 high) {
    struct kvc_lanes p;
    p.low = low;
    p.high = high;
    return p;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_halves(KVC_GLOBAL const kvc_u8 *row, kvc_u64 k) {
    KVC_GLOBAL const half *h = (KVC_GLOBAL const half *)(row + 2 * k);
    return kvc_lanes_of(vload_half16(0, h), vload_half16(1, h)); /* exact */
}
KVC_DEVICE float16 kvc_bf16x16(ushort16 h) { return as_float16(convert_uint16(h) << 16); }
/* Convert 32 quants to lanes: `low` holds the first 16 and `high` the others. */
KVC_DEVICE struct kvc_lanes kvc_lanes_scaled(int16 low, int16 high, float a, float b) {
    return kvc_lanes_of(a * convert_float16(low), b * convert_float16(high));
}
KVC_DEVICE struct kvc_lanes kvc_lanes_offset(int16 low, int16 high, float a, float m) {
    return kvc_lanes_of(fma((float16)(a), convert_float16(low), (float16)(m)),
                        fma((float16)(a), convert_float16(high), (float16)(m)));
}
#define KVC_BITS16(bytes, shift, mask)                                                                                 \
    (convert_int16(((bytes) >> (uchar16)((uchar)(shift))) & (uchar16)((uchar)(mask))))

/* Loads channels c to c + 31 of a key or value. */
KVC_DEVICE struct kvc_lanes kvc_lanes_entry(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker) {
    KVC_GLOBAL const kvc_u8 *group;
    KVC_GLOBAL const char *q;
    float d;
    if (type == KVC_K_F32)
        return kvc_lanes_floats((KVC_GLOBAL const float *)row + c, 0);
    if (type == KVC_K_F16)
        return kvc_lanes_halves(row, c);
    group = row + c / KVC_Q8_GROUP * (2 + KVC_Q8_GROUP);
    q = (KVC_GLOBAL const char *)group + 2;
    d = KVC_HALF(group);
    return kvc_lanes_scaled(convert_int16(vload16(0, q)), convert_int16(vload16(1, q)), d, d);
}
KVC_DEVICE struct kvc_lanes kvc_lanes_entry_tail(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker,
                                                 kvc_u32 count) {
    union {
        struct kvc_lanes p;
        float lane[32];
    } u;
    u.p = kvc_lanes_zero();
    for (kvc_u32 i = 0; i < count; i++)
        u.lane[i] = kvc_entry_value(type, row, c + i);
    return u.p;
}

#else /* each work-item has 8 lanes, loaded from memory as vectors */

/* Converts F16 to float, exactly; all NaNs compare equal. */
KVC_DEVICE float kvc_half_of(kvc_u32 bits) {
#if defined(__CUDA_ARCH__)
    float x;
    unsigned short h = (unsigned short)bits;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
#elif defined(__CUDACC__)
    return kvc_f16_to_f32((kvc_u16)bits);
#else
    ushort h = (ushort)bits;
    return vload_half(0, (const half *)&h);
#endif
}
/* Load 8 values of 2 bytes, or 8 bytes, as words. The first value is the lowest. */
KVC_DEVICE uint4 kvc_load_pairs(KVC_GLOBAL const kvc_u16 *h) {
    uint4 v;
    if (KVC_ALIGNED(h, 16))
        return *(KVC_GLOBAL const uint4 *)h;
    v.x = (kvc_u32)h[0] | (kvc_u32)h[1] << 16;
    v.y = (kvc_u32)h[2] | (kvc_u32)h[3] << 16;
    v.z = (kvc_u32)h[4] | (kvc_u32)h[5] << 16;
    v.w = (kvc_u32)h[6] | (kvc_u32)h[7] << 16;
    return v;
}
/* blocks have even addresses; entries of odd sizes need not */
KVC_DEVICE uint2 kvc_load_bytes(KVC_GLOBAL const kvc_u8 *b) {
    KVC_GLOBAL const kvc_u16 *h = (KVC_GLOBAL const kvc_u16 *)b;
    uint2 v;
    if (KVC_ALIGNED(b, 8))
        return *(KVC_GLOBAL const uint2 *)b;
    if (KVC_ALIGNED(b, 2)) {
        v.x = (kvc_u32)h[0] | (kvc_u32)h[1] << 16;
        v.y = (kvc_u32)h[2] | (kvc_u32)h[3] << 16;
    } else {
        v.x = (kvc_u32)b[0] | (kvc_u32)b[1] << 8 | (kvc_u32)b[2] << 16 | (kvc_u32)b[3] << 24;
        v.y = (kvc_u32)b[4] | (kvc_u32)b[5] << 8 | (kvc_u32)b[6] << 16 | (kvc_u32)b[7] << 24;
    }
    return v;
}
#define KVC_BYTE(v, i) (((i) < 4 ? (v).x >> 8 * (i) : (v).y >> 8 * ((i)-4)) & 255u)

KVC_DEVICE struct kvc_lanes kvc_lanes_pairs(KVC_GLOBAL const kvc_u16 *h, bool halves) {
    uint4 v = kvc_load_pairs(h);
    kvc_u32 word[4];
    struct kvc_lanes p;
    word[0] = v.x;
    word[1] = v.y;
    word[2] = v.z;
    word[3] = v.w;
    for (int i = 0; i < 4; i++) {
        p.lane[2 * i] = halves ? kvc_half_of(word[i] & 0xffffu) : kvc_from_bits(word[i] << 16);
        p.lane[2 * i + 1] = halves ? kvc_half_of(word[i] >> 16) : kvc_from_bits(word[i] & 0xffff0000u);
    }
    return p;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_bytes(KVC_GLOBAL const kvc_u8 *q, float d) { /* d times the signed bytes */
    uint2 v = kvc_load_bytes(q);
    struct kvc_lanes p;
    for (int i = 0; i < 8; i++)
        p.lane[i] = d * (float)(kvc_i8)KVC_BYTE(v, i);
    return p;
}
/* Eight neighbouring quants: ((byte >> shift & mask) | (high byte >> high_shift & high_mask) << high_by) - offset. */
struct kvc_quants {
    int value[8];
};
KVC_DEVICE struct kvc_quants kvc_quants_of(uint2 low, kvc_u32 shift, kvc_u32 mask, uint2 high, kvc_u32 high_shift,
                                           kvc_u32 high_mask, kvc_u32 high_by, int offset) {
    struct kvc_quants q;
    for (int i = 0; i < 8; i++)
        q.value[i] =
            (int)((KVC_BYTE(low, i) >> shift & mask) | (KVC_BYTE(high, i) >> high_shift & high_mask) << high_by) -
            offset;
    return q;
}

/* c is a multiple of 32, the length of a Q8_0 group. */
KVC_DEVICE struct kvc_lanes kvc_lanes_entry(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker) {
    KVC_GLOBAL const kvc_u8 *group;
    if (type == KVC_K_F32)
        return kvc_lanes_floats((KVC_GLOBAL const float *)row + c, worker);
    if (type == KVC_K_F16)
        return kvc_lanes_pairs((KVC_GLOBAL const kvc_u16 *)row + c + worker * 8, true);
    group = row + c / KVC_Q8_GROUP * (2 + KVC_Q8_GROUP);
    return kvc_lanes_bytes(group + 2 + worker * 8, KVC_HALF(group));
}
/* Loads channels c to c + 3 of an entry. c is a multiple of 4. */
KVC_DEVICE float4 kvc_entry_four(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c) {
    KVC_GLOBAL const kvc_u16 *h = (KVC_GLOBAL const kvc_u16 *)row + c;
    KVC_GLOBAL const kvc_u8 *group;
    float4 v;
    float d;
    if (type == KVC_K_F32)
        return kvc_load_floats((KVC_GLOBAL const float *)row + c);
    if (type == KVC_K_F16) {
        uint2 bits = kvc_load_bytes((KVC_GLOBAL const kvc_u8 *)h);
        v.x = kvc_half_of(bits.x & 0xffffu);
        v.y = kvc_half_of(bits.x >> 16);
        v.z = kvc_half_of(bits.y & 0xffffu);
        v.w = kvc_half_of(bits.y >> 16);
        return v;
    }
    group = row + c / KVC_Q8_GROUP * (2 + KVC_Q8_GROUP);
    d = KVC_HALF(group);
    group += 2 + c % KVC_Q8_GROUP;
    v.x = d * (float)(kvc_i8)group[0];
    v.y = d * (float)(kvc_i8)group[1];
    v.z = d * (float)(kvc_i8)group[2];
    v.w = d * (float)(kvc_i8)group[3];
    return v;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_entry_tail(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker,
                                                 kvc_u32 count) {
    struct kvc_lanes p;
    for (int i = 0; i < KVC_LANES_EACH; i++)
        p.lane[i] =
            worker * KVC_LANES_EACH + i < count ? kvc_entry_value(type, row, c + worker * KVC_LANES_EACH + i) : 0.0f;
    return p;
}

#endif

/* Returns the lanes of dot32(q, key), computed by a team. If the team has no key (0), nothing is read. */
KVC_DEVICE struct kvc_lanes kvc_lanes_dot_entry(kvc_u32 type, KVC_GLOBAL const float *q, KVC_GLOBAL const kvc_u8 *key,
                                                kvc_u32 d) {
    kvc_u32 worker = KVC_LOCAL_ID() % KVC_WORKERS, k = 0;
    struct kvc_lanes sum = kvc_lanes_zero();
    if (!key)
        return sum;
    for (; k + 32 <= d; k += 32)
        sum = kvc_lanes_fma(kvc_lanes_floats(q + k, worker), kvc_lanes_entry(type, key, k, worker), sum);
    if (k < d)
        sum = kvc_lanes_fma_tail(kvc_lanes_floats_tail(q + k, worker, d - k),
                                 kvc_lanes_entry_tail(type, key, k, worker, d - k), sum, d - k);
    return sum;
}

#endif
