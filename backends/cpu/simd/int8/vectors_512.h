/* vectors_512.h - template: 512-bit vectors for many rows: integers, floats, and products of codes. With PAIRS, two
 * products are added in 16 bits (prepare.h); otherwise four in 32 bits. */
#ifndef KVC_SIMD_INT8_VECTORS_512_H
#define KVC_SIMD_INT8_VECTORS_512_H

#include <immintrin.h>

#include "core/base/canon.h"
#include "backends/cpu/simd/int8/parameters.h"
#include "backends/cpu/simd/lanes/unroll.h"

#if !defined(__AVX512BW__)
#error "int8/vectors_512.h needs the compiler options -mavx512f -mavx512bw -mavx512dq -mavx512vl"
#endif

#define WIDTH 16
typedef __m512i iv;
typedef __m512 fv;
INLINE iv iv_set(kvc_i32 x) { return _mm512_set1_epi32(x); }
INLINE iv iv_load(const kvc_u32 *from) { return _mm512_loadu_si512(from); }
INLINE iv iv_add(iv a, iv b) { return _mm512_add_epi32(a, b); }
INLINE iv iv_sub(iv a, iv b) { return _mm512_sub_epi32(a, b); }
INLINE iv iv_and(iv a, iv b) { return _mm512_and_si512(a, b); }
INLINE iv iv_up(iv x, int bits) { return _mm512_slli_epi32(x, (unsigned)bits); }
INLINE iv iv_down(iv x, int bits) {
    return _mm512_srai_epi32(x, (unsigned)bits);
} /* shifts right by `bits`; rounds
   * down */
INLINE fv fv_set(float x) { return _mm512_set1_ps(x); }
INLINE fv fv_zero(void) { return _mm512_setzero_ps(); }
INLINE fv fv_of(iv x) { return _mm512_cvtepi32_ps(x); }
INLINE fv fv_of_bits(iv x) { return _mm512_castsi512_ps(x); }
INLINE fv fv_load(const float *x) { return _mm512_loadu_ps(x); }
INLINE void fv_store(float *to, fv x) { _mm512_storeu_ps(to, x); }
INLINE fv fv_add(fv a, fv b) { return _mm512_add_ps(a, b); }
INLINE fv fv_mul(fv a, fv b) { return _mm512_mul_ps(a, b); }
INLINE fv fv_fma(fv a, fv b, fv c) { return _mm512_fmadd_ps(a, b, c); }

/* Keeps integer additions in the written order. Compilers would rearrange them into trees, for which there are not
 * enough registers. */
INLINE iv in_order(iv x) {
    __asm__("" : "+v"(x));
    return x;
}

/* iv_dot adds the products of four unsigned and four signed bytes to each element of sum. iv_whole returns the 32-bit
 * value of each element's sum. */
#if PAIRS
INLINE iv iv_dot(iv sum, iv w, iv q) { return in_order(_mm512_add_epi16(sum, _mm512_maddubs_epi16(w, q))); }
INLINE iv iv_whole(iv sum) { return _mm512_madd_epi16(sum, _mm512_set1_epi16(1)); }
#else
INLINE iv iv_dot(iv sum, iv w, iv q) { return _mm512_dpbusd_epi32(sum, w, q); }
INLINE iv iv_whole(iv sum) { return sum; }
#endif
/* iv_dot_wide adds the products of two pairs of 16-bit integers to each 32-bit element of sum. */
#if PAIRS
INLINE iv iv_dot_wide(iv sum, iv w, iv q) { return in_order(_mm512_add_epi32(sum, _mm512_madd_epi16(w, q))); }
#else
INLINE iv iv_dot_wide(iv sum, iv w, iv q) { return _mm512_dpwssd_epi32(sum, w, q); }
#endif

#endif
