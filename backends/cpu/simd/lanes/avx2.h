/* avx2.h - vectors of 8 floats for the SIMD templates; avx512.h explains the names. */
#ifndef KVC_SIMD_LANES_AVX2_H
#define KVC_SIMD_LANES_AVX2_H

#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "lanes/avx2.h needs the compiler options -mavx2 -mfma -mf16c"
#endif
#if defined(LANES)
#error "another file of lanes/ is already included"
#endif

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backends/cpu/simd/lanes/unroll.h"

#define LANES 8
#define LANES_PATH avx2
#define LANES_REGISTERS 16

typedef __m256 vf;
typedef __m256i vi;
typedef __m256i vm; /* one truth value per lane: all ones or all zeros */

static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
/* Non-temporal store to an aligned vector. It is ordered with other stores only after vf_stores_done. */
static inline void vf_store_nontemporal(float *p, vf a) { _mm256_stream_ps(p, a); }
static inline void vf_stores_done(void) { _mm_sfence(); }
static inline vf vf_set(float x) { return _mm256_set1_ps(x); }
static inline vf vf_zero(void) { return _mm256_setzero_ps(); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
static inline vf vf_fma_by(vf a, const float *x, vf b) { return vf_fma(a, vf_set(*x), b); }
static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_held(vf a) {
    __asm__("" : "+x"(a));
    return a;
}
static inline vf vf_mul_by(vf a, const float *x) { return vf_mul(a, vf_set(*x)); }
static inline vi vf_bits(vf a) { return _mm256_castps_si256(a); }
static inline vf vf_from_bits(vi a) { return _mm256_castsi256_ps(a); }
static inline vf vf_from_int(vi a) { return _mm256_cvtepi32_ps(a); }
static inline float vf_first(vf a) { return _mm256_cvtss_f32(a); }

static inline vi vi_set(int32_t x) { return _mm256_set1_epi32(x); }
static inline vi vi_ascending(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
static inline vm vm_first(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > 8 ? 8 : (int)n), vi_ascending());
}
static inline vm vm_and(vm a, vm b) { return _mm256_and_si256(a, b); }
static inline vm vm_or(vm a, vm b) { return _mm256_or_si256(a, b); }
static inline unsigned vm_bits(vm a) { return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(a)); }
static inline vm vf_less(vf a, vf b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
static inline vm vf_reaches(vf a, vf b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GE_OQ)); }
static inline vm vf_equal(vf a, vf b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)); }
static inline vm vf_unordered(vf a, vf b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)); }
static inline vm vf_is_nan(vf a) { return vf_unordered(a, a); }
static inline vf vf_select(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(m)); }

static inline vf vf_part_load(const float *p, size_t n) { return _mm256_maskload_ps(p, vm_first(n)); }
static inline void vf_part_store(float *p, vf a, size_t n) { _mm256_maskstore_ps(p, vm_first(n), a); }

static inline vi vi_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void vi_store(void *p, vi a) { _mm256_storeu_si256((__m256i *)p, a); }
static inline vi vi_part_load(const void *p, size_t n) { return _mm256_maskload_epi32((const int *)p, vm_first(n)); }
static inline void vi_part_store(void *p, vi a, size_t n) { _mm256_maskstore_epi32((int *)p, vm_first(n), a); }
static inline vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
static inline vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
static inline vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
static inline vi vi_shift_23(vi a) { return _mm256_slli_epi32(a, 23); }
static inline vi vi_sign(vi a) { return _mm256_srai_epi32(a, 31); }
static inline vi vi_shift_down(vi a, unsigned n) { return _mm256_srli_epi32(a, (int)n); }
static inline vi vi_multiply(vi a, uint32_t b, vi *high) {
    const __m256i k = _mm256_set1_epi32((int32_t)b), even = _mm256_mul_epu32(a, k);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), k);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
static inline vm vi_greater(vi a, vi b) { return _mm256_cmpgt_epi32(a, b); }
static inline vm vi_equal(vi a, vi b) { return _mm256_cmpeq_epi32(a, b); }
static inline vi vi_select(vm m, vi yes, vi no) { return _mm256_blendv_epi8(no, yes, m); }
static inline uint32_t vi_store_some(int32_t *p, vi a, unsigned bits) {
    int32_t lane[LANES];
    uint32_t n = 0;
    vi_store(lane, a);
    for (; bits; bits &= bits - 1)
        p[n++] = lane[__builtin_ctz(bits)];
    return n;
}
static inline uint32_t vi_append(int32_t *p, vi a, unsigned bits) { return bits ? vi_store_some(p, a, bits) : 0; }

static inline vf vf_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
static inline vf vf_part_load_f16(const void *p, size_t n) {
    uint16_t h[8] = {0};
    memcpy(h, p, (n > 8 ? 8 : n) * sizeof *h);
    return vf_load_f16(h);
}
static inline vf vf_load_bf16(const void *p) {
    return vf_from_bits(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline vf vf_load_i8(const void *p) {
    return vf_from_int(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
/* Loads bytes that were stored just before. The assembly forces a load from memory. Otherwise compilers take the bytes
 * from registers with shuffles, which is slower and uses an encoding of vmovq that valgrind does not know. */
static inline vf vf_load_stored_i8(const void *p) {
    __m256i wide;
    __asm__("vpmovsxbd %1, %0" : "=x"(wide) : "m"(*(const int8_t(*)[8])p));
    return vf_from_int(wide);
}
static inline vf vf_part_load_i8(const void *p, size_t n) {
    int8_t q[8] = {0};
    memcpy(q, p, n > 8 ? 8 : n);
    return vf_load_i8(q);
}
static inline void vf_store_f16(void *p, vf a) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void vi_store_i8(void *p, vi a) { /* every lane must fit in an int8 */
    __m128i w = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(w, w));
}
static inline float half_load(const void *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

static inline void vf_load_pairs(const float *p, vf *even, vf *odd) {
    const __m256 a = _mm256_loadu_ps(p), b = _mm256_loadu_ps(p + 8);
    const __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    *even = _mm256_shuffle_ps(low, high, 0x88);
    *odd = _mm256_shuffle_ps(low, high, 0xdd);
}

INLINE void vf_transpose(vf r[LANES]) {
    __m256 t[8];
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(r[i], r[i + 1]));
        __m256d b = _mm256_castps_pd(_mm256_unpackhi_ps(r[i], r[i + 1]));
        __m256d c = _mm256_castps_pd(_mm256_unpacklo_ps(r[i + 2], r[i + 3]));
        __m256d d = _mm256_castps_pd(_mm256_unpackhi_ps(r[i + 2], r[i + 3]));
        t[i] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
        t[i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
        t[i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
        t[i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
    }
    UNROLL
    for (int c = 0; c < 4; c++) {
        r[c] = _mm256_permute2f128_ps(t[c], t[4 + c], 0x20);
        r[4 + c] = _mm256_permute2f128_ps(t[c], t[4 + c], 0x31);
    }
}

static inline float vf_tree(vf a) {
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

static inline float vf_most(vf a) {
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

/* The last three levels of the tree that sums the lanes of dot products. Each addition handles two vectors and needs
 * one shuffle and one blend; the blend swaps the operands of some lanes, which does not change the sums.
 *
 * vf_tree_4 takes the lanes of one dot product in `a` and those of another in `b`. It returns four partial sums of each
 * dot product in one half of the vector. vf_tree_2 takes two such results and returns two partial sums of each dot
 * product. vf_tree_1 takes two results of vf_tree_2 and returns eight complete sums: dot products 0 .. 3 come from the
 * first halves and 4 .. 7 from the second halves. */
INLINE vf vf_tree_4(vf a, vf b) {
    return _mm256_add_ps(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
}
INLINE vf vf_tree_2(vf a, vf b) {
    const __m256d across = _mm256_shuffle_pd(_mm256_castps_pd(a), _mm256_castps_pd(b), 0x5);
    return _mm256_add_ps(_mm256_blend_ps(a, b, 0xcc), _mm256_castpd_ps(across));
}
INLINE vf vf_tree_1(vf a, vf b) { return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd)); }

struct vf_rows {
    vf row[LANES];
};
INLINE void vf_rows_put(struct vf_rows *rows, unsigned i, vf a) { rows->row[i] = a; }
INLINE vf vf_rows_tree(struct vf_rows *rows) {
    vf *r = rows->row;
    UNROLL
    for (int i = 0; i < 4; i++)
        r[i] = vf_tree_4(r[i], r[i + 4]);
    return vf_tree_1(vf_tree_2(r[0], r[1]), vf_tree_2(r[2], r[3]));
}

#endif
