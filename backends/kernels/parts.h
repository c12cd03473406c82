/* parts.h - loads 32 neighbouring values of cache entries as the lanes of a dot product. Also has helpers for
 * weights.h. */
#ifndef KVC_BACKENDS_KERNELS_PARTS_H
#define KVC_BACKENDS_KERNELS_PARTS_H

/* Loads four bytes as a word; the first byte becomes the lowest. Any alignment is allowed. */
KVC_DEVICE kvc_u32 kvc_load_word(kvc_bytes b) {
#if KVC_WORKERS == 1
    return as_uint(vload4(0, b));
#else
    KVC_GLOBAL const kvc_u16 *h = (KVC_GLOBAL const kvc_u16 *)b;
    if (KVC_ALIGNED(b, 4))
        return *(KVC_GLOBAL const kvc_u32 *)b;
    if (KVC_ALIGNED(b, 2))
        return (kvc_u32)h[0] | (kvc_u32)h[1] << 16;
    return (kvc_u32)b[0] | (kvc_u32)b[1] << 8 | (kvc_u32)b[2] << 16 | (kvc_u32)b[3] << 24;
#endif
}

/* Subtracts `by` from each of four bytes, which must be below 128. */
KVC_DEVICE kvc_u32 kvc_word_less(kvc_u32 word, kvc_u32 by) {
    return ((word | 0x80808080u) - by * 0x01010101u) ^ 0x80808080u;
}
/* Returns a word whose byte i is bit i, for four bits. */
KVC_DEVICE kvc_u32 kvc_word_of_bits(kvc_u32 bits) { return bits * 0x00204081u & 0x01010101u; }
/* Looks up four bytes, each below 16, in the table of kvc_iq4_value. */
KVC_DEVICE kvc_u32 kvc_word_iq4(kvc_u32 index) {
    kvc_u32 word = 0;
    for (kvc_u32 i = 0; i < 32; i += 8)
        word |= ((kvc_u32)kvc_iq4_value((int)(index >> i & 15u)) & 255u) << i;
    return word;
}

/* Returns quants e .. e + 3 of a group of a key or value as a word. e is a multiple of 4. If the group has fewer
 * channels, the other quants are 0. */
KVC_DEVICE kvc_u32 kvc_packed_word(kvc_u32 type, const struct kvc_packed *p, kvc_u32 e) {
    kvc_u32 word = 0;
    if (e + 4 > p->channels) {
        for (kvc_u32 i = 0; e + i < p->channels; i++)
            word |= ((kvc_u32)kvc_packed_quant(type, p, e + i) & 255u) << 8 * i;
        return word;
    }
    if (type == KVC_K_Q8_0)
        return kvc_load_word(p->quants + e);
    word = kvc_load_word(p->quants + e % 16) >> e / 16 * 4 & 0x0f0f0f0fu;
    if (type == KVC_K_Q4_1)
        return word;
    if (KVC_LOOKS_UP(KVC_K_, type))
        return kvc_word_iq4(word);
    if (type == KVC_K_Q5H)
        return kvc_word_less(word | kvc_word_of_bits((kvc_u32)p->high[e / 8] >> e % 8 & 15u) << 4, 16);
    if (type == KVC_K_Q6H)
        return kvc_word_less(word | (kvc_load_word(p->high + e % 8) >> e / 8 * 2 & 0x03030303u) << 4, 32);
    return kvc_word_less(word, 8);
}
/* Does the same for a group that kvc_integers_at returned. */
KVC_DEVICE kvc_u32 kvc_integer_word(kvc_u32 type, const struct kvc_packed *p, kvc_u32 e) {
    const kvc_u32 codes = kvc_packed_word(type, p, e);
    kvc_u32 word = 0;
    if (type != KVC_K_Q4_1)
        return codes;
    for (kvc_u32 i = 0; i < 4 && e + i < p->channels; i++)
        word |= ((kvc_u32)kvc_level(p->levels, (int)(codes >> 8 * i & 255u)) & 255u) << 8 * i;
    return word;
}

#if KVC_WORKERS == 1

KVC_DEVICE struct kvc_lanes kvc_lanes_of(float16 low, float16 high) {
    struct kvc_lanes p;
    p.low = low;
    p.high = high;
    return p;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_halves(KVC_GLOBAL const kvc_u8 *row, kvc_u64 k) {
    KVC_GLOBAL const half *h = (KVC_GLOBAL const half *)(row + 2 * k);
    return kvc_lanes_of(vload_half16(0, h), vload_half16(1, h)); /* the conversion is exact */
}
KVC_DEVICE float16 kvc_bf16x16(ushort16 h) { return as_float16(convert_uint16(h) << 16); }
KVC_DEVICE struct kvc_lanes kvc_lanes_pairs(KVC_GLOBAL const kvc_u8 *row, kvc_u64 k) {
    KVC_GLOBAL const kvc_u16 *h = (KVC_GLOBAL const kvc_u16 *)row + k;
    return kvc_lanes_of(kvc_bf16x16(vload16(0, h)), kvc_bf16x16(vload16(1, h)));
}
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
/* Sets element i to 16 if bit i of the 16 bits is set, otherwise to 0. */
KVC_DEVICE int16 kvc_fifth_bits(KVC_GLOBAL const kvc_u8 *two) {
    const uint16 place = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return as_int16((((uint16)((kvc_u32)KVC_LOAD_U16(two)) >> place) & 1u) << 4);
}
/* Looks up 16 numbers of four bits, like kvc_iq4_value. */
KVC_DEVICE int16 kvc_iq4_values(int16 q) {
    uint16 low = select((uint16)(KVC_IQ4_WORD_0), (uint16)(KVC_IQ4_WORD_1), (q & 4) != 0);
    uint16 high = select((uint16)(KVC_IQ4_WORD_2), (uint16)(KVC_IQ4_WORD_3), (q & 4) != 0);
    uint16 word = select(low, high, (q & 8) != 0);
    return as_int16(word << (24u - as_uint16((q & 3) * 8))) >> 24;
}

/* The quants of 32 channels, of which `low` holds the first 16. */
struct kvc_quants {
    int16 low, high;
};
/* Returns the quants of a whole group of a key or value. */
KVC_DEVICE struct kvc_quants kvc_packed_quants(kvc_u32 type, const struct kvc_packed *p) {
    struct kvc_quants q;
    if (type == KVC_K_Q8_0) {
        q.low = convert_int16(vload16(0, (KVC_GLOBAL const char *)p->quants));
        q.high = convert_int16(vload16(1, (KVC_GLOBAL const char *)p->quants));
        return q;
    }
    q.low = KVC_BITS16(vload16(0, p->quants), 0, 15);
    q.high = KVC_BITS16(vload16(0, p->quants), 4, 15);
    if (KVC_LOOKS_UP(KVC_K_, type)) {
        q.low = kvc_iq4_values(q.low);
        q.high = kvc_iq4_values(q.high);
    } else if (type == KVC_K_Q5H) {
        q.low = (q.low | kvc_fifth_bits(p->high)) - 16;
        q.high = (q.high | kvc_fifth_bits(p->high + 2)) - 16;
    } else if (type == KVC_K_Q6H) {
        const kvc_u32 a = kvc_load_word(p->high), b = kvc_load_word(p->high + 4);
        const uint16 word = (uint16)(a, a, a, a, b, b, b, b, a, a, a, a, b, b, b, b);
        const uint16 place = (uint16)(0, 8, 16, 24, 0, 8, 16, 24, 2, 10, 18, 26, 2, 10, 18, 26);
        q.low = (q.low | as_int16((word >> place & 3u) << 4)) - 32;
        q.high = (q.high | as_int16((word >> (place + 4u) & 3u) << 4)) - 32;
    } else if (type != KVC_K_Q4_1) {
        q.low = q.low - 8;
        q.high = q.high - 8;
    }
    return q;
}
/* Computes kvc_level for 16 codes. */
KVC_DEVICE int16 kvc_level16(struct kvc_levels levels, int16 code) {
    const float16 v = fma((float16)(levels.step), convert_float16(code), (float16)(levels.base));
    return convert_int16((clamp(v, -127.0f, 127.0f) + KVC_ROUND_MAGIC) - KVC_ROUND_MAGIC);
}
/* Does the same as kvc_packed_quants for a group that kvc_integers_at returned. */
KVC_DEVICE struct kvc_quants kvc_integer_quants(kvc_u32 type, const struct kvc_packed *p) {
    struct kvc_quants q = kvc_packed_quants(type, p);
    if (type == KVC_K_Q4_1) {
        q.low = kvc_level16(p->levels, q.low);
        q.high = kvc_level16(p->levels, q.high);
    }
    return q;
}

/* Loads channels c to c + 31 of a key or value of a plain type. c is a multiple of 32. */
KVC_DEVICE struct kvc_lanes kvc_lanes_plain(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker) {
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
/* Does the same for all types. */
KVC_DEVICE struct kvc_lanes kvc_lanes_entry(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker) {
    struct kvc_quants quants;
    struct kvc_packed p;
    if (kvc_is_plain(type))
        return kvc_lanes_plain(type, row, c, worker);
    if (type == KVC_K_BF16)
        return kvc_lanes_pairs(row, c);
    p = kvc_packed_at(type, row, c / KVC_ENTRY_GROUP, c + 32);
    quants = kvc_packed_quants(type, &p);
    return type == KVC_K_Q4_1 ? kvc_lanes_offset(quants.low, quants.high, p.scale, p.minimum)
                              : kvc_lanes_scaled(quants.low, quants.high, p.scale, p.scale);
}
/* Load the last `count` channels, fewer than 32, from channel c on: of a plain type, and of any type. */
KVC_DEVICE struct kvc_lanes kvc_lanes_plain_tail(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker,
                                                 kvc_u32 count) {
    union {
        struct kvc_lanes p;
        float lane[32];
    } u;
    u.p = kvc_lanes_zero();
    for (kvc_u32 i = 0; i < count; i++)
        u.lane[i] = kvc_plain_value(type, row, c + i);
    return u.p;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_entry_tail(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker,
                                                 kvc_u32 count) {
    union {
        struct kvc_lanes p;
        float lane[32];
    } u;
    u.p = kvc_lanes_zero();
    for (kvc_u32 i = 0; i < count; i++)
        u.lane[i] = kvc_entry_value(type, row, c + i, c + count);
    return u.p;
}

#else /* each work-item has 8 lanes, loaded from memory as vectors */

/* Converts F16 to float, exactly, except that a NaN may become another NaN. */
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
/* Load 8 values of 2 bytes, or 8 bytes, as words. The first value becomes the lowest. */
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
/* blocks of weights have even addresses; entries of odd sizes may have odd ones */
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
KVC_DEVICE uint2 kvc_no_bytes(void) {
    uint2 none;
    none.x = none.y = 0;
    return none;
}
/* Unpacks 16 bytes of nibbles, first the low halves and then the high halves, and adds one high bit to each value. */
KVC_DEVICE struct kvc_quants kvc_nibbles(KVC_GLOBAL const kvc_u8 *bytes, kvc_u32 worker, kvc_u32 bits, int offset) {
    kvc_u32 at = worker * 8;
    struct kvc_quants q =
        kvc_quants_of(kvc_load_bytes(bytes + at % 16), at / 16 * 4, 15, kvc_no_bytes(), 0, 0, 0, offset);
    for (int i = 0; i < 8; i++)
        q.value[i] = q.value[i] + (int)((bits >> i & 1) << 4);
    return q;
}
KVC_DEVICE struct kvc_lanes kvc_times(struct kvc_quants q, float d) {
    struct kvc_lanes p;
    for (int i = 0; i < 8; i++)
        p.lane[i] = d * (float)q.value[i];
    return p;
}
KVC_DEVICE struct kvc_lanes kvc_times_plus(struct kvc_quants q, float d, float m) {
    struct kvc_lanes p;
    for (int i = 0; i < 8; i++)
        p.lane[i] = kvc_fma(d, (float)q.value[i], m);
    return p;
}
KVC_DEVICE struct kvc_quants kvc_iq4_quants(struct kvc_quants q) {
    for (int i = 0; i < 8; i++)
        q.value[i] = kvc_iq4_value(q.value[i]);
    return q;
}
/* Returns this work-item's share of the quants in a complete group of a key or value. The quants of the type have less
 * than 8 bits. */
KVC_DEVICE struct kvc_quants kvc_packed_quants(kvc_u32 type, const struct kvc_packed *p, kvc_u32 worker) {
    if (type == KVC_K_Q5H)
        return kvc_nibbles(p->quants, worker, p->high[worker], 16);
    if (type == KVC_K_Q6H)
        return kvc_quants_of(kvc_load_bytes(p->quants + worker * 8 % 16), worker / 2 * 4, 15, kvc_load_bytes(p->high),
                             worker * 2, 3, 4, 32);
    if (KVC_LOOKS_UP(KVC_K_, type))
        return kvc_iq4_quants(kvc_nibbles(p->quants, worker, 0, 0));
    return kvc_nibbles(p->quants, worker, 0, type == KVC_K_Q4_1 ? 0 : 8);
}

/* Loads channels c to c + 31 of a key or value of a plain type. c is a multiple of 32. */
KVC_DEVICE struct kvc_lanes kvc_lanes_plain(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker) {
    KVC_GLOBAL const kvc_u8 *group;
    if (type == KVC_K_F32)
        return kvc_lanes_floats((KVC_GLOBAL const float *)row + c, worker);
    if (type == KVC_K_F16)
        return kvc_lanes_pairs((KVC_GLOBAL const kvc_u16 *)row + c + worker * 8, true);
    group = row + c / KVC_Q8_GROUP * (2 + KVC_Q8_GROUP);
    return kvc_lanes_bytes(group + 2 + worker * 8, KVC_HALF(group));
}
/* Does the same for all types. */
KVC_DEVICE struct kvc_lanes kvc_lanes_entry(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker) {
    struct kvc_quants quants;
    struct kvc_packed p;
    if (kvc_is_plain(type))
        return kvc_lanes_plain(type, row, c, worker);
    if (type == KVC_K_BF16)
        return kvc_lanes_pairs((KVC_GLOBAL const kvc_u16 *)row + c + worker * 8, false);
    p = kvc_packed_at(type, row, c / KVC_ENTRY_GROUP, c + 32);
    quants = kvc_packed_quants(type, &p, worker);
    return type == KVC_K_Q4_1 ? kvc_times_plus(quants, p.scale, p.minimum) : kvc_times(quants, p.scale);
}
/* Loads channels c to c + 3 of a key or value of d channels. c is a multiple of 4, and d is more than c + 3. */
KVC_DEVICE float4 kvc_entry_four(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 d) {
    KVC_GLOBAL const kvc_u16 *h = (KVC_GLOBAL const kvc_u16 *)row + c;
    KVC_GLOBAL const kvc_u8 *group;
    struct kvc_packed p;
    float4 v;
    float scale;
    kvc_u32 word;
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
    if (type == KVC_K_Q8_0) {
        group = row + c / KVC_Q8_GROUP * (2 + KVC_Q8_GROUP);
        scale = KVC_HALF(group);
        group += 2 + c % KVC_Q8_GROUP;
        v.x = scale * (float)(kvc_i8)group[0];
        v.y = scale * (float)(kvc_i8)group[1];
        v.z = scale * (float)(kvc_i8)group[2];
        v.w = scale * (float)(kvc_i8)group[3];
        return v;
    }
    if (type == KVC_K_BF16) {
        v.x = kvc_bf16_to_f32(h[0]);
        v.y = kvc_bf16_to_f32(h[1]);
        v.z = kvc_bf16_to_f32(h[2]);
        v.w = kvc_bf16_to_f32(h[3]);
        return v;
    }
    p = kvc_packed_at(type, row, c / KVC_ENTRY_GROUP, d);
    word = kvc_packed_word(type, &p, c % KVC_ENTRY_GROUP);
    v.x = kvc_packed_value(type, &p, (kvc_i8)(word & 255u));
    v.y = kvc_packed_value(type, &p, (kvc_i8)(word >> 8 & 255u));
    v.z = kvc_packed_value(type, &p, (kvc_i8)(word >> 16 & 255u));
    v.w = kvc_packed_value(type, &p, (kvc_i8)(word >> 24));
    return v;
}
/* Load the last `count` channels, fewer than 32, from channel c on: of a plain type, and of any type. */
KVC_DEVICE struct kvc_lanes kvc_lanes_plain_tail(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker,
                                                 kvc_u32 count) {
    struct kvc_lanes p;
    for (int i = 0; i < KVC_LANES_EACH; i++)
        p.lane[i] =
            worker * KVC_LANES_EACH + i < count ? kvc_plain_value(type, row, c + worker * KVC_LANES_EACH + i) : 0.0f;
    return p;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_entry_tail(kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u32 c, kvc_u32 worker,
                                                 kvc_u32 count) {
    struct kvc_lanes p;
    for (int i = 0; i < KVC_LANES_EACH; i++)
        p.lane[i] = worker * KVC_LANES_EACH + i < count
                        ? kvc_entry_value(type, row, c + worker * KVC_LANES_EACH + i, c + count)
                        : 0.0f;
    return p;
}

#endif

/* Returns the lanes of dot32(q, key) for a key of a plain type. A team computes them together. */
KVC_DEVICE struct kvc_lanes kvc_lanes_dot_plain(kvc_u32 type, KVC_GLOBAL const float *q, KVC_GLOBAL const kvc_u8 *key,
                                                kvc_u32 d) {
    kvc_u32 worker = KVC_LOCAL_ID() % KVC_WORKERS, k = 0;
    struct kvc_lanes sum = kvc_lanes_zero();
    for (; k + 32 <= d; k += 32)
        sum = kvc_lanes_fma(kvc_lanes_floats(q + k, worker), kvc_lanes_plain(type, key, k, worker), sum);
    if (k < d)
        sum = kvc_lanes_fma_tail(kvc_lanes_floats_tail(q + k, worker, d - k),
                                 kvc_lanes_plain_tail(type, key, k, worker, d - k), sum, d - k);
    return sum;
}
/* Does the same for all types. */
KVC_APART struct kvc_lanes kvc_lanes_dot_apart(kvc_u32 type, KVC_GLOBAL const float *q, KVC_GLOBAL const kvc_u8 *key,
                                               kvc_u32 d) {
    kvc_u32 worker = KVC_LOCAL_ID() % KVC_WORKERS, k = 0;
    struct kvc_lanes sum = kvc_lanes_zero();
    for (; k + 32 <= d; k += 32)
        sum = kvc_lanes_fma(kvc_lanes_floats(q + k, worker), kvc_lanes_entry(type, key, k, worker), sum);
    if (k < d)
        sum = kvc_lanes_fma_tail(kvc_lanes_floats_tail(q + k, worker, d - k),
                                 kvc_lanes_entry_tail(type, key, k, worker, d - k), sum, d - k);
    return sum;
}
/* Calls the suitable one of these two functions. If the team has no key (0), reads nothing and returns zeros. */
KVC_DEVICE struct kvc_lanes kvc_lanes_dot_entry(kvc_u32 type, KVC_GLOBAL const float *q, KVC_GLOBAL const kvc_u8 *key,
                                                kvc_u32 d) {
    if (!key)
        return kvc_lanes_zero();
    return kvc_is_plain(type) ? kvc_lanes_dot_plain(type, q, key, d) : kvc_lanes_dot_apart(type, q, key, d);
}

#endif
