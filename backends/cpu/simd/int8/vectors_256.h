/* vectors_256.h - template: 256-bit vectors for many rows: integers, floats, and products of codes. With PAIRS, two
 * products are added in 16 bits (prepare.h); otherwise four in 32 bits. */
#ifndef KVC_SIMD_INT8_VECTORS_256_H
#define KVC_SIMD_INT8_VECTORS_256_H

#include <immintrin.h>

#include "core/base/canon.h"
#include "backends/cpu/simd/int8/parameters.h"
#include "backends/cpu/simd/lanes/unroll.h"

#define WIDTH 8
typedef __m256i iv;
typedef __m256 fv;
INLINE iv iv_set(kvc_i32 x) { return _mm256_set1_epi32(x); }
INLINE iv iv_load(const kvc_u32 *from) { return _mm256_loadu_si256((const __m256i *)(const void *)from); }
INLINE iv iv_add(iv a, iv b) { return _mm256_add_epi32(a, b); }
INLINE iv iv_sub(iv a, iv b) { return _mm256_sub_epi32(a, b); }
INLINE iv iv_and(iv a, iv b) { return _mm256_and_si256(a, b); }
INLINE iv iv_up(iv x, int bits) { return _mm256_slli_epi32(x, bits); }
INLINE iv iv_down(iv x, int bits) { return _mm256_srai_epi32(x, bits); } /* shifts right by `bits`; rounds down */
INLINE fv fv_set(float x) { return _mm256_set1_ps(x); }
INLINE fv fv_zero(void) { return _mm256_setzero_ps(); }
INLINE fv fv_of(iv x) { return _mm256_cvtepi32_ps(x); }
INLINE fv fv_of_bits(iv x) { return _mm256_castsi256_ps(x); }
INLINE fv fv_load(const float *x) { return _mm256_loadu_ps(x); }
INLINE void fv_store(float *to, fv x) { _mm256_storeu_ps(to, x); }
INLINE fv fv_add(fv a, fv b) { return _mm256_add_ps(a, b); }
INLINE fv fv_mul(fv a, fv b) { return _mm256_mul_ps(a, b); }
INLINE fv fv_fma(fv a, fv b, fv c) { return _mm256_fmadd_ps(a, b, c); }

/* Keeps integer additions in the written order. Compilers would rearrange them into trees, for which there are not
 * enough registers. */
INLINE iv in_order(iv x) {
    __asm__("" : "+x"(x));
    return x;
}

/* iv_dot adds the products of four unsigned and four signed bytes to each element of sum. iv_whole returns the 32-bit
 * value of each element's sum. */
#if PAIRS
INLINE iv iv_dot(iv sum, iv w, iv q) { return in_order(_mm256_add_epi16(sum, _mm256_maddubs_epi16(w, q))); }
INLINE iv iv_whole(iv sum) { return _mm256_madd_epi16(sum, _mm256_set1_epi16(1)); }
#else
INLINE iv iv_dot(iv sum, iv w, iv q) { return _mm256_dpbusd_epi32(sum, w, q); }
INLINE iv iv_whole(iv sum) { return sum; }
#endif
/* iv_dot_wide adds the products of two pairs of 16-bit integers to each 32-bit element of sum. */
#if PAIRS
INLINE iv iv_dot_wide(iv sum, iv w, iv q) { return in_order(_mm256_add_epi32(sum, _mm256_madd_epi16(w, q))); }
#else
INLINE iv iv_dot_wide(iv sum, iv w, iv q) { return _mm256_dpwssd_epi32(sum, w, q); }
#endif

#endif
