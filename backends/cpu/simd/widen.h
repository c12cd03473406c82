/* widen.h - weights of every type widened to float32, 32 at a time, as core/canon.h defines their values. Templates
 * over the vectors of lanes_<path>.h; included by linear_template.h.
 *
 * A group is 256 weights (fewer at the end of a row for types with blocks below 256). prepare_<type> reads a group's
 * scales; widen_<type> gives part p (weights 32 p ... 32 p + 31) as LANE_VECTORS vectors. */
#ifndef KVC_CPU_WIDEN_H
#define KVC_CPU_WIDEN_H

#include "backends/cpu/simd/unroll.h"

#define LANE_VECTORS (KVC_LANES / LANES)
#define GROUP 256

struct scales {
    float scale[16]; /* per part, or per 16 weights; Q4_K, Q5_K: 8 scales, then 8 minima with their sign turned */
};

/* ---- integers ---- */

#if defined(__AVX512F__)
INLINE vi load_u8(const unsigned char *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)); }
INLINE vi shift_right(vi a, vi n) { return _mm512_srlv_epi32(a, n); }
INLINE vi shift_left(vi a, vi n) { return _mm512_sllv_epi32(a, n); }
#elif defined(__AVX2__)
INLINE vi load_u8(const unsigned char *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)); }
INLINE vi shift_right(vi a, vi n) { return _mm256_srlv_epi32(a, n); }
INLINE vi shift_left(vi a, vi n) { return _mm256_sllv_epi32(a, n); }
#else
INLINE vi load_u8(const unsigned char *p) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four)))));
}
INLINE vi shift_right(vi a, vi n) { return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), vnegq_s32(n))); }
INLINE vi shift_left(vi a, vi n) { return vshlq_s32(a, n); }
#endif

INLINE vi bits_of(vi a, int shift, int mask) { return vi_and(shift_right(a, vi_set(shift)), vi_set(mask)); }

INLINE uint32_t load_u32(const unsigned char *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* ---- plain types ---- */

#define prepare_f32(s, g, parts) ((void)(s))
#define prepare_f16(s, g, parts) ((void)(s))
#define prepare_bf16(s, g, parts) ((void)(s))
#define part_bytes_f32 128
#define part_bytes_f16 64
#define part_bytes_bf16 64

INLINE void widen_f32(vf *w, const unsigned char *g, int p, const struct scales *s) {
    (void)s;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_load((const float *)(const void *)(g + p * 128) + v * LANES);
}
INLINE void widen_f16(vf *w, const unsigned char *g, int p, const struct scales *s) {
    (void)s;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_load_f16(g + p * 64 + v * LANES * 2);
}
INLINE void widen_bf16(vf *w, const unsigned char *g, int p, const struct scales *s) {
    (void)s;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_load_bf16(g + p * 64 + v * LANES * 2);
}

/* ---- blocks of 32 with one scale ---- */

/* The scales of `parts` blocks, stride bytes apart. */
INLINE void prepare_halves(struct scales *s, const unsigned char *g, int parts, size_t stride) {
#if defined(__AVX2__)
    if (parts == 8) { /* put together in general registers: the vector units have enough to do */
        uint64_t half[8];
        UNROLL
        for (int p = 0; p < 8; p++) {
            uint16_t h;
            memcpy(&h, g + (size_t)p * stride, sizeof h);
            half[p] = h;
        }
        uint64_t low = half[0] | half[1] << 16 | half[2] << 32 | half[3] << 48;
        uint64_t high = half[4] | half[5] << 16 | half[6] << 32 | half[7] << 48;
        _mm256_storeu_ps(s->scale, _mm256_cvtph_ps(_mm_set_epi64x((long long)high, (long long)low)));
        return;
    }
#endif
    for (int p = 0; p < parts; p++)
        s->scale[p] = half_load(g + (size_t)p * stride);
}

#define part_bytes_q8_0 34
#define part_bytes_q4_0 18
#define part_bytes_q5_0 22
#define prepare_q8_0(s, g, parts) prepare_halves(s, g, parts, 34)
#define prepare_q4_0(s, g, parts) prepare_halves(s, g, parts, 18)
#define prepare_q5_0(s, g, parts) prepare_halves(s, g, parts, 22)

INLINE void widen_q8_0(vf *w, const unsigned char *g, int p, const struct scales *s) {
    vf d = vf_set(s->scale[p]);
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_mul(d, vf_load_i8(g + p * 34 + 2 + v * LANES));
}

INLINE void widen_q4_0(vf *w, const unsigned char *g, int p, const struct scales *s) {
#if defined(__AVX512F__)
    /* The 16 values a block can hold, looked up by the low four bits of each index. */
    vf value = vf_mul(vf_set(s->scale[p]),
                      _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7));
    vi q = load_u8(g + p * 18 + 2);
    w[0] = _mm512_permutexvar_ps(q, value);
    w[1] = _mm512_permutexvar_ps(shift_right(q, vi_set(4)), value);
#else
    vf d = vf_set(s->scale[p]);
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++) {
        vi q = bits_of(load_u8(g + p * 18 + 2 + v * LANES % 16), v * LANES / 16 * 4, 15);
        w[v] = vf_mul(d, vf_from_int(vi_sub(q, vi_set(8))));
    }
#endif
}

INLINE void widen_q5_0(vf *w, const unsigned char *g, int p, const struct scales *s) {
    vf d = vf_set(s->scale[p]);
    vi high = vi_set((int32_t)load_u32(g + p * 22 + 2));
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++) {
        vi q = bits_of(load_u8(g + p * 22 + 6 + v * LANES % 16), v * LANES / 16 * 4, 15);
        vi fifth = vi_and(shift_right(high, vi_add(vi_ascending(), vi_set(v * LANES))), vi_set(1));
        q = vi_or(q, shift_left(fifth, vi_set(4)));
        w[v] = vf_mul(d, vf_from_int(vi_sub(q, vi_set(16))));
    }
}

/* ---- blocks of 256 ---- */

#define group_bytes_q3_k 110
#define group_bytes_q4_k 144
#define group_bytes_q5_k 176
#define group_bytes_q6_k 210

INLINE void prepare_q3_k(struct scales *s, const unsigned char *g, int parts) {
    const unsigned char *b = g + offsetof(struct kvc_block_q3_k, scale);
    uint32_t a0 = load_u32(b), a1 = load_u32(b + 4), a2 = load_u32(b + 8), four = 0x0f0f0f0fu, two = 0x03030303u;
    uint32_t sixteen[4] = {(a0 & four) | (a2 & two) << 4, (a1 & four) | (a2 >> 2 & two) << 4,
                           (a0 >> 4 & four) | (a2 >> 4 & two) << 4, (a1 >> 4 & four) | (a2 >> 6 & two) << 4};
    vf d = vf_set(half_load(g + offsetof(struct kvc_block_q3_k, d)));
    (void)parts;
    UNROLL
    for (int i = 0; i < 16; i += LANES) {
        vi scale = vi_sub(load_u8((const unsigned char *)sixteen + i), vi_set(32));
        vf_store(s->scale + i, vf_mul(d, vf_from_int(scale)));
    }
}
INLINE void widen_q3_k(vf *w, const unsigned char *g, int p, const struct scales *s) {
    const unsigned char *low = g + offsetof(struct kvc_block_q3_k, q), *high = g + offsetof(struct kvc_block_q3_k, high);
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++) {
        vi q = bits_of(load_u8(low + p / 4 * 32 + v * LANES), p % 4 * 2, 3);
        vi third = bits_of(load_u8(high + v * LANES), p, 1);
        q = vi_sub(vi_or(q, shift_left(third, vi_set(2))), vi_set(4));
        w[v] = vf_mul(vf_set(s->scale[2 * p + v * LANES / 16]), vf_from_int(q));
    }
}

/* Q4_K and Q5_K begin alike: d, dmin, 12 bytes of 6-bit scales and minima. */
INLINE void prepare_q4_k(struct scales *s, const unsigned char *g, int parts) {
    const unsigned char *b = g + offsetof(struct kvc_block_q4_k, scale);
    uint32_t a0 = load_u32(b), a1 = load_u32(b + 4), a2 = load_u32(b + 8), six = 0x3f3f3f3fu, four = 0x0f0f0f0fu;
    uint32_t two = 0x03030303u;
    uint32_t sixteen[4] = {a0 & six, (a2 & four) | (a0 >> 6 & two) << 4, a1 & six,
                           (a2 >> 4 & four) | (a1 >> 6 & two) << 4};
    vf d = vf_set(half_load(g)), dmin = vf_set(-half_load(g + offsetof(struct kvc_block_q4_k, dmin)));
    (void)parts;
#if LANES == 16
    d = vf_select(vm_first(8), d, dmin);
#endif
    UNROLL
    for (int i = 0; i < 16; i += LANES)
        vf_store(s->scale + i, vf_mul(i < 8 ? d : dmin, vf_from_int(load_u8((const unsigned char *)sixteen + i))));
}
#define prepare_q5_k prepare_q4_k

INLINE void widen_q4_k(vf *w, const unsigned char *g, int p, const struct scales *s) {
    const unsigned char *low = g + offsetof(struct kvc_block_q4_k, q) + p / 2 * 32;
    vf scale = vf_set(s->scale[p]), minimum = vf_set(s->scale[8 + p]);
#if defined(__AVX512F__)
    vf value = vf_fma(scale, vf_from_int(vi_ascending()), minimum);
    UNROLL
    for (int v = 0; v < 2; v++)
        w[v] = _mm512_permutexvar_ps(shift_right(load_u8(low + v * LANES), vi_set(p % 2 * 4)), value);
#else
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        w[v] = vf_fma(scale, vf_from_int(bits_of(load_u8(low + v * LANES), p % 2 * 4, 15)), minimum);
#endif
}
INLINE void widen_q5_k(vf *w, const unsigned char *g, int p, const struct scales *s) {
    const unsigned char *low = g + offsetof(struct kvc_block_q5_k, q) + p / 2 * 32;
    const unsigned char *high = g + offsetof(struct kvc_block_q5_k, high);
    vf scale = vf_set(s->scale[p]), minimum = vf_set(s->scale[8 + p]);
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++) {
        vi q = bits_of(load_u8(low + v * LANES), p % 2 * 4, 15), fifth = bits_of(load_u8(high + v * LANES), p, 1);
        w[v] = vf_fma(scale, vf_from_int(vi_or(q, shift_left(fifth, vi_set(4)))), minimum);
    }
}

INLINE void prepare_q6_k(struct scales *s, const unsigned char *g, int parts) {
    vf d = vf_set(half_load(g + offsetof(struct kvc_block_q6_k, d)));
    (void)parts;
    UNROLL
    for (int i = 0; i < 16; i += LANES)
        vf_store(s->scale + i, vf_mul(d, vf_load_i8(g + offsetof(struct kvc_block_q6_k, scale) + i)));
}
INLINE void widen_q6_k(vf *w, const unsigned char *g, int p, const struct scales *s) {
    const unsigned char *low = g + p / 4 * 64 + p % 2 * 32, *high = g + offsetof(struct kvc_block_q6_k, high) + p / 4 * 32;
    UNROLL
    for (int v = 0; v < LANE_VECTORS; v++) {
        vi q = bits_of(load_u8(low + v * LANES), p % 4 / 2 * 4, 15), top = bits_of(load_u8(high + v * LANES), p % 4 * 2, 3);
        q = vi_sub(vi_or(q, shift_left(top, vi_set(4))), vi_set(32));
        w[v] = vf_mul(vf_set(s->scale[2 * p + v * LANES / 16]), vf_from_int(q));
    }
}

#endif
