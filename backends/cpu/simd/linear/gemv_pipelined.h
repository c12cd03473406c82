/* gemv_pipelined.h - gemv on AVX-512 for the types whose speed is limited by arithmetic, not by memory. Part of gemv.h.
 * For other instruction sets, this file defines nothing.
 *
 * Dequantizing a vector of weights is divided into steps. While one vector is multiplied, the following vectors are at
 * earlier steps. If each vector were finished before the next one began, instructions that wait for each other would
 * fill the CPU's out-of-order scheduler, and too few could run at once.
 *
 * A group of a row has 16 vectors: v = 2 * part + half. Three steps produce vector v of each output: pipeline_fetch,
 * pipeline_unpack and pipeline_weigh. The fourth step multiplies it by x. */
#ifndef KVC_SIMD_LINEAR_GEMV_PIPELINED_H
#define KVC_SIMD_LINEAR_GEMV_PIPELINED_H

#include "backends/cpu/simd/linear/dequantize.h"
#include "backends/cpu/simd/linear/sizes.h"

#if LANES == 16

struct in_flight { /* the intermediate values of one output */
    vi quant[2], index;
    vf made, table, weight;
};

/* Forces the compiler to compute `a` here: the compiler can then neither move this step nor merge it with the next
 * one. */
#define HERE(a) __asm__ volatile("" : "+v"(a))

/* Returns a vector with *x in every lane. It is loaded as an integer, which needs no shuffle; a broadcast load of a
 * float needs one. */
INLINE vf vf_repeated(const float *x) {
    vf a;
    __asm__("vpbroadcastd %1, %0" : "=v"(a) : "m"(*x));
    return a;
}
INLINE vf vf_fms_by(vf a, vf b, const float *x) { /* returns a * b - *x in a's register */
    __asm__("vfmsub213ps %2%{1to16%}, %1, %0" : "+v"(a) : "v"(b), "m"(*x));
    return a;
}

/* Q8_0: bytes are converted to integers, then to floats, and then multiplied by the scale. */
INLINE void fetch_q8_0(struct in_flight *f, const unsigned char *g, int v) {
    f->index = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(g + v / 2 * 34 + 2 + v % 2 * 16)));
    HERE(f->index);
}
INLINE void unpack_q8_0(struct in_flight *f) {
    f->made = vf_from_int(f->index);
    HERE(f->made);
}
INLINE void weigh_q8_0(struct in_flight *f, const struct scales *s, int v) {
    f->weight = vf_mul_by(f->made, &s->scale[v / 2]);
    HERE(f->weight);
}

/* Four-bit types: looks up a weight's value among the 16 values of a part by the low four bits of its index. */
INLINE void look_up(struct in_flight *f) {
    f->weight = _mm512_permutexvar_ps(f->index, f->table);
    HERE(f->weight);
}

/* In the types of NIBBLE_TYPES, eight bytes hold 16 weights. The same eight bytes are loaded into every pair of lanes,
 * which needs no shuffle. (Widening bytes needs one on some CPUs.) Lanes 2 n and 2 n + 1 are then shifted right by n
 * half bytes. The result has permuted lanes, so x is permuted in the same way. Each lane still takes its weights in
 * ascending order. */
INLINE vi load_repeated(const unsigned char *q) {
    vi eight; /* in assembly, because some compilers load the bytes first and then shuffle */
    __asm__("vpbroadcastq %1, %0" : "=v"(eight) : "m"(*(const unsigned char(*)[8])q));
    return eight;
}
INLINE vi shifted_index(vi quant) {
    return shift_right(quant, _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28));
}
INLINE void order_shifted(vf *to, const float *x) { /* puts 32 values of x into the order of the weights */
    const vi low = _mm512_setr_epi32(0, 4, 16, 20, 1, 5, 17, 21, 2, 6, 18, 22, 3, 7, 19, 23);
    to[0] = _mm512_permutex2var_ps(vf_load(x), low, vf_load(x + LANES));
    to[1] = _mm512_permutex2var_ps(vf_load(x), vi_add(low, vi_set(8)), vf_load(x + LANES));
}
INLINE float total_shifted(const vf *acc) { /* restores the order of the lanes and adds them */
    const vi low = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 16, 20, 24, 28, 17, 21, 25, 29);
    const vf lanes[LANE_VECTORS] = {_mm512_permutex2var_ps(acc[0], low, acc[1]),
                                    _mm512_permutex2var_ps(acc[0], vi_add(low, vi_set(2)), acc[1])};
    return sum_lanes(lanes);
}
#define CASE_NIBBLES_AT(NAME, name, stride, at)                                                                        \
    case KVC_##NAME:                                                                                                   \
        return g + p * (stride) + (at);
#define CASE_TABLE(NAME, name, stride, at)                                                                             \
    case KVC_##NAME:                                                                                                   \
        return table_##name(s, p);
/* Returns the nibbles of part p of a group. `type` is a constant here and below. */
INLINE const unsigned char *nibbles_at(const enum kvc_type type, const unsigned char *g, int p) {
    switch ((int)type) { NIBBLE_TYPES(CASE_NIBBLES_AT) }
    return g;
}
/* Returns the 16 values that the weights of part p may have. */
INLINE vf table_of(const enum kvc_type type, const struct scales *s, int p) {
    switch ((int)type) { NIBBLE_TYPES(CASE_TABLE) }
    return vf_zero();
}
INLINE void dequantize_shifted(const enum kvc_type type, vf *w, const unsigned char *g, int p, const struct scales *s) {
    for (int v = 0; v < 2; v++)
        w[v] =
            _mm512_permutexvar_ps(shifted_index(load_repeated(nibbles_at(type, g, p) + v * 8)), table_of(type, s, p));
}
INLINE void fetch_shifted(const enum kvc_type type, struct in_flight *f, const unsigned char *g, int v) {
    f->quant[0] = load_repeated(nibbles_at(type, g, v / 2) + v % 2 * 8);
    HERE(f->quant[0]);
}
INLINE void unpack_shifted(const enum kvc_type type, struct in_flight *f, const struct scales *s, int v) {
    if (v % 2 == 0) {
        f->table = table_of(type, s, v / 2);
        HERE(f->table);
    }
    f->index = shifted_index(f->quant[0]);
    HERE(f->index);
}

/* Q4_K: the low halves of 32 bytes are one part, the high halves the next. */
INLINE void fetch_q4_k(struct in_flight *f, const unsigned char *g, const struct scales *s, int v) {
    if (v % 4 < 2) {
        f->quant[v % 2] = load_u8(g + offsetof(struct kvc_block_q4_k, q) + v / 4 * 32 + v % 2 * 16);
        HERE(f->quant[v % 2]);
    }
    if (v % 2 == 0) {
        f->made = vf_repeated(&s->scale[OFFSET_SCALE(v / 2)]);
        HERE(f->made);
    }
}
INLINE void unpack_q4_k(struct in_flight *f, const struct scales *s, int v) {
    if (v % 2 == 0) { /* rounds once, like offset_value, which has an exact product */
        const vf quants = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        f->table = vf_fms_by(f->made, quants, &s->scale[OFFSET_MIN(v / 2)]);
        HERE(f->table);
    }
    f->index = f->quant[v % 2];
    if (v % 4 >= 2) {
        f->index = _mm512_srli_epi32(f->index, 4);
        HERE(f->index);
    }
}
/* The three steps of a type. */
INLINE void pipeline_fetch(const enum kvc_type type, struct in_flight *f, const unsigned char *g,
                           const struct scales *s, int v) {
    if (type == KVC_Q8_0)
        fetch_q8_0(f, g, v);
    else if (type == KVC_Q4_K)
        fetch_q4_k(f, g, s, v);
    else
        fetch_shifted(type, f, g, v);
}
INLINE void pipeline_unpack(const enum kvc_type type, struct in_flight *f, const struct scales *s, int v) {
    if (type == KVC_Q8_0)
        unpack_q8_0(f);
    else if (type == KVC_Q4_K)
        unpack_q4_k(f, s, v);
    else
        unpack_shifted(type, f, s, v);
}
INLINE void pipeline_weigh(const enum kvc_type type, struct in_flight *f, const struct scales *s, int v) {
    if (type == KVC_Q8_0)
        weigh_q8_0(f, s, v);
    else
        look_up(f);
}

/* Returns true if the scales of the next group are prepared while a group is multiplied. Q8_0 keeps all ports busy, so
 * preparing the scales afterwards is faster. */
INLINE bool prepared_early(const enum kvc_type type) { return type != KVC_Q8_0; }

/* Adds the products of a group of each output to acc. At the same time, prepares the scales of the next group, which is
 * `next_group` bytes after this one. It prepares them for one output at a time, because preparing all at once would
 * keep the vector units waiting. */
INLINE void gemv_pipelined(const enum kvc_type type, vf (*acc)[LANE_VECTORS], const float *x,
                           const unsigned char *const *row, size_t next_group, const struct scales *scales,
                           struct scales *next_scales) {
    struct in_flight f[GEMV_STREAMS];
    UNROLL
    for (int v = 0; v < 16 + 3; v++) {
        vf xv = vf_load(x + (v < 3 ? 0 : v - 3) * LANES);
        UNROLL
        for (int j = 0; j < GEMV_STREAMS; j++) {
            if (v >= 3) {
                acc[j][(v - 3) % 2] = vf_fma(xv, f[j].weight, acc[j][(v - 3) % 2]);
                HERE(acc[j][(v - 3) % 2]);
            }
            if (v >= 2 && v < 16 + 2)
                pipeline_weigh(type, &f[j], &scales[j], v - 2);
            if (v >= 1 && v < 16 + 1)
                pipeline_unpack(type, &f[j], &scales[j], v - 1);
            if (prepared_early(type) && v == 3 * j + 3)
                prepare(type, &next_scales[j], row[j] + next_group, 8);
            if (v < 16)
                pipeline_fetch(type, &f[j], row[j], &scales[j], v);
        }
    }
}

#endif

#endif
