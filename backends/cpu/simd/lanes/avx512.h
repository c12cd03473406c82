/* avx512.h - vectors of 16 floats for the SIMD templates. avx2.h (8 floats) and neon.h (4) define the same names. A
 * template is written once with these names and is compiled once for each instruction set.
 *
 * LANES_PATH is the name of the instruction set, and LANES_REGISTERS the number of vector registers. vf has LANES
 * floats, vi has LANES int32 and vm has one truth value per lane. Functions with `part` in their name access only the
 * memory of the first n lanes and load +0 into the other lanes; n may be 0 or more than LANES. Conversions are exact or
 * round to nearest even.
 */
#ifndef KVC_SIMD_LANES_AVX512_H
#define KVC_SIMD_LANES_AVX512_H

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || !defined(__AVX512VL__) ||             \
    !defined(__FMA__) || !defined(__F16C__)
#error "lanes/avx512.h needs the compiler options -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c"
#endif
#if defined(LANES)
#error "another file of lanes/ is already included"
#endif

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backends/cpu/simd/lanes/unroll.h"

#define LANES 16
#define LANES_PATH avx512
#define LANES_REGISTERS 32

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
/* Non-temporal store to an aligned vector. It is ordered with other stores only after vf_stores_done. */
static inline void vf_store_nontemporal(float *p, vf a) { _mm512_stream_ps(p, a); }
static inline void vf_stores_done(void) { _mm_sfence(); }
static inline vf vf_set(float x) { return _mm512_set1_ps(x); }
static inline vf vf_zero(void) { return _mm512_setzero_ps(); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } /* -(a * b) + c */
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); } /* a > b ? a : b */
/* Returns `a` and keeps it in a register. Without this function, compilers load `a` from memory for each use. */
static inline vf vf_held(vf a) {
    __asm__("" : "+v"(a));
    return a;
}
/* Return a * *x and a - *x. They are in assembly because compilers replace two memory operands by one separate
 * broadcast. A separate broadcast occupies a shuffle port; a broadcast within an operand is free. */
static inline vf vf_mul_by(vf a, const float *x) {
    __asm__("vmulps %2%{1to16%}, %1, %0" : "=v"(a) : "v"(a), "m"(*x));
    return a;
}
static inline vf vf_sub_by(vf a, const float *x) {
    __asm__("vsubps %2%{1to16%}, %1, %0" : "=v"(a) : "v"(a), "m"(*x));
    return a;
}
static inline vf vf_fma_by(vf a, const float *x, vf b) { /* a * *x + b */
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(b) : "v"(a), "m"(*x));
    return b;
}
static inline vi vf_bits(vf a) { return _mm512_castps_si512(a); }
static inline vf vf_from_bits(vi a) { return _mm512_castsi512_ps(a); }
static inline vf vf_from_int(vi a) { return _mm512_cvtepi32_ps(a); }
static inline float vf_first(vf a) { return _mm512_cvtss_f32(a); }

static inline vm vm_first(size_t n) { return (vm)(n >= 16 ? 0xffffu : (1u << n) - 1u); } /* true in the lanes below n */
static inline vm vm_and(vm a, vm b) { return (vm)(a & b); }
static inline vm vm_or(vm a, vm b) { return (vm)(a | b); }
static inline unsigned vm_bits(vm a) { return a; } /* bit i is the truth value of lane i */
static inline vm vf_less(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vm vf_reaches(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); } /* a >= b */
static inline vm vf_equal(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
/* true in lanes where an operand is a NaN */
static inline vm vf_unordered(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
static inline vm vf_is_nan(vf a) { return vf_unordered(a, a); }
static inline vf vf_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }

static inline vf vf_part_load(const float *p, size_t n) { return _mm512_maskz_loadu_ps(vm_first(n), p); }
static inline void vf_part_store(float *p, vf a, size_t n) { _mm512_mask_storeu_ps(p, vm_first(n), a); }

static inline vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
static inline void vi_store(void *p, vi a) { _mm512_storeu_si512(p, a); }
static inline vi vi_part_load(const void *p, size_t n) { return _mm512_maskz_loadu_epi32(vm_first(n), p); }
static inline void vi_part_store(void *p, vi a, size_t n) { _mm512_mask_storeu_epi32(p, vm_first(n), a); }
static inline vi vi_set(int32_t x) { return _mm512_set1_epi32(x); }
static inline vi vi_ascending(void) { /* 0, 1, 2, ... */
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
static inline vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
static inline vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
static inline vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
static inline vi vi_shift_23(vi a) { return _mm512_slli_epi32(a, 23); }
static inline vi vi_sign(vi a) { return _mm512_srai_epi32(a, 31); } /* all ones in negative lanes, zero in the others */
/* shifts in zeros from the left */
static inline vi vi_shift_down(vi a, unsigned n) { return _mm512_srli_epi32(a, n); }
static inline vi vi_multiply(vi a, uint32_t b, vi *high) { /* unsigned product; returns its low 32 bits */
    const __m512i k = _mm512_set1_epi32((int32_t)b), even = _mm512_mul_epu32(a, k);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), k);
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
    return _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}
static inline vm vi_greater(vi a, vi b) { return _mm512_cmpgt_epi32_mask(a, b); }
static inline vm vi_equal(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
static inline vi vi_select(vm m, vi yes, vi no) { return _mm512_mask_blend_epi32(m, no, yes); }

/* Stores the lanes whose bit is set, one after another, and returns their number. Writes no memory after these lanes.
 */
static inline uint32_t vi_store_some(int32_t *p, vi a, unsigned bits) {
    const uint32_t n = (uint32_t)__builtin_popcount(bits);
    _mm512_mask_storeu_epi32(p, vm_first(n), _mm512_maskz_compress_epi32((vm)bits, a));
    return n;
}
/* Stores the lanes like vi_store_some, but may overwrite memory up to p + LANES. */
static inline uint32_t vi_append(int32_t *p, vi a, unsigned bits) {
    vi_store(p, _mm512_maskz_compress_epi32((vm)bits, a));
    return (uint32_t)__builtin_popcount(bits);
}

/* Load LANES elements of another type as floats; the `part` versions load only the first n. */
static inline vf vf_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
static inline vf vf_part_load_f16(const void *p, size_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vm_first(n), p));
}
static inline vf vf_load_bf16(const void *p) {
    /* Moves word i to word 2 i + 1 and zeroes the words between them, in one instruction. */
    const __m512i place = _mm512_slli_epi32(vi_ascending(), 16);
    const __m512i bits = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p));
    return vf_from_bits(_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, place, bits));
}
static inline vf vf_load_i8(const void *p) {
    return vf_from_int(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
static inline vf vf_load_stored_i8(const void *p) { return vf_load_i8(p); }
static inline vf vf_part_load_i8(const void *p, size_t n) {
    return vf_from_int(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(vm_first(n), p)));
}
static inline void vf_store_f16(void *p, vf a) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void vi_store_i8(void *p, vi a) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(a)); }
static inline float half_load(const void *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

/* Loads 2 * LANES consecutive elements: `even` receives those with an even index, `odd` the others. */
static inline void vf_load_pairs(const float *p, vf *even, vf *odd) {
    const __m512i index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512 a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + 16);
    *even = _mm512_permutex2var_ps(a, index, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(index, _mm512_set1_epi32(1)), b);
}

/* Transposes: lane j of r[i] becomes lane i of r[j]. */
INLINE void vf_transpose(vf r[LANES]) {
    __m512 t[16];
    UNROLL
    for (int i = 0; i < 16; i += 4) {
        __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r[i], r[i + 1]));
        __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(r[i], r[i + 1]));
        __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(r[i + 2], r[i + 3]));
        __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(r[i + 2], r[i + 3]));
        t[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        t[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        t[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        t[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    UNROLL
    for (int c = 0; c < 4; c++) { /* quarter p of t[i + c] holds column 4p + c of rows i .. i + 3 */
        __m512 a = _mm512_shuffle_f32x4(t[c], t[4 + c], 0x44), b = _mm512_shuffle_f32x4(t[c], t[4 + c], 0xee);
        __m512 e = _mm512_shuffle_f32x4(t[8 + c], t[12 + c], 0x44), f = _mm512_shuffle_f32x4(t[8 + c], t[12 + c], 0xee);
        r[c] = _mm512_shuffle_f32x4(a, e, 0x88);
        r[4 + c] = _mm512_shuffle_f32x4(a, e, 0xdd);
        r[8 + c] = _mm512_shuffle_f32x4(b, f, 0x88);
        r[12 + c] = _mm512_shuffle_f32x4(b, f, 0xdd);
    }
}

/* Returns the sum of all lanes, added by halves: lane[j] + lane[j + w] for w = 8, 4, 2, 1. */
static inline float vf_tree(vf a) {
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

/* Returns the largest element. The sign of a zero and the result for NaNs are not defined. */
static inline float vf_most(vf a) { return _mm512_reduce_max_ps(a); }

/* LANES vectors whose lanes are to be added. Rows i and i + 8 share one vector of their low halves and one of their
 * high halves, because storing half a vector needs no shuffle. */
struct vf_rows {
    _Alignas(64) float low[8][16], high[8][16];
};
INLINE void vf_rows_put(struct vf_rows *rows, unsigned i, vf a) {
    _mm256_store_ps(&rows->low[i % 8][i / 8 * 8], _mm512_castps512_ps256(a));
    _mm256_store_ps(&rows->high[i % 8][i / 8 * 8], _mm512_extractf32x8_ps(a, 1));
}

/* Completes LANES dot products at once. Lane i of the result is the sum of row i by halves: lane[j] + lane[j + w] for w
 * = 8, 4, 2, 1. */
INLINE vf vf_rows_tree(struct vf_rows *rows) {
    vf r[8];
    UNROLL
    for (int i = 0; i < 8; i++) /* r[i] holds half of row i and half of row i + 8 */
        r[i] = _mm512_add_ps(_mm512_load_ps(rows->low[i]), _mm512_load_ps(rows->high[i]));
    UNROLL
    for (int i = 0; i < 4; i++) /* r[i] holds a quarter of each of the rows i, i + 8, i + 4, i + 12 */
        r[i] = _mm512_add_ps(_mm512_shuffle_f32x4(r[i], r[i + 4], 0x88), _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd));
    UNROLL
    for (int i = 0; i < 2; i++) { /* each quarter holds two lanes of row n and two lanes of row n + 2 */
        __m512d a = _mm512_castps_pd(r[i]), b = _mm512_castps_pd(r[i + 2]);
        r[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    /* each quarter holds rows in the order 0 2 1 3 */
    r[0] = _mm512_add_ps(_mm512_shuffle_ps(r[0], r[1], 0x88), _mm512_shuffle_ps(r[0], r[1], 0xdd));
    r[0] = _mm512_shuffle_ps(r[0], r[0], 0xd8);
    return _mm512_shuffle_f32x4(r[0], r[0], 0xd8);
}

#endif
