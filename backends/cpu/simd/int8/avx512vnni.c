/* avx512vnni.c - linear layers of activations in eight bits for AVX-512 with VNNI, whose integer dot products of four
 * bytes do not saturate. */
#include <immintrin.h>
#include <string.h>

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/lanes/unroll.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/integers.h"
#include "core/base/weight_blocks.h"

INLINE __m256i dot_unsigned(__m256i w, __m256i q) { return _mm256_dpbusd_epi32(_mm256_setzero_si256(), w, q); }
INLINE __m256i dot_signed(__m256i w, __m256i q) { return dot_unsigned(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w)); }

#define WIDTH 16
typedef __m512i iv;
typedef __m512 fv;
INLINE iv iv_set(kvc_i32 x) { return _mm512_set1_epi32(x); }
INLINE fv fv_set(float x) { return _mm512_set1_ps(x); }
INLINE fv fv_zero(void) { return _mm512_setzero_ps(); }
INLINE fv fv_of(iv x) { return _mm512_cvtepi32_ps(x); }
INLINE fv fv_load(const float *x) { return _mm512_loadu_ps(x); }
INLINE void fv_store(float *to, fv x) { _mm512_storeu_ps(to, x); }
INLINE fv fv_add(fv a, fv b) { return _mm512_add_ps(a, b); }
INLINE fv fv_mul(fv a, fv b) { return _mm512_mul_ps(a, b); }
INLINE fv fv_fma(fv a, fv b, fv c) { return _mm512_fmadd_ps(a, b, c); }

/* Codes are unsigned: signed ones 128 more than their quants. */
#define CODE_OFFSET(is_signed, offset) ((is_signed) ? 128 : (offset))
INLINE __m256i code_of(__m256i quant, int is_signed, int offset) {
    (void)offset;
    return is_signed ? _mm256_xor_si256(quant, _mm256_set1_epi8((char)-128)) : quant;
}
struct codes {
    __m512i quant;
};
INLINE struct codes codes_load(const kvc_u32 *from) { return (struct codes){_mm512_loadu_si512(from)}; }
INLINE iv iv_dot(iv sum, struct codes w, iv q) { return _mm512_dpbusd_epi32(sum, w.quant, q); }

#define TILE_ROWS 6
#define TILE_VECTORS 2
#define TILE_EVERY(m) m(1) m(2) m(3) m(4) m(5) m(6)
#define FEW_LIMIT 8
#include "backends/cpu/simd/int8/template.h"

void kvc_quantize_rows_avx512vnni(struct kvc_device *device, const struct kvc_quantize_rows *args) {
    kvc_int8_quantize((struct kvc_cpu *)device, &kernels, args);
}
void kvc_linear_int8_avx512vnni(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    kvc_int8_run((struct kvc_cpu *)device, &kernels, args);
}
void kvc_expert_linear_int8_avx512vnni(struct kvc_device *device, const struct kvc_expert_linear_int8 *args) {
    kvc_int8_run_experts((struct kvc_cpu *)device, &kernels, args);
}
