/* avx2.c - linear layers of activations in eight bits for AVX2, and for AVX-512 where it has no VNNI. Products of pairs
 * are added in 16 bits, with saturation: a magnitude of at most 128 times at most 127, twice, is 32512. */
#include <immintrin.h>
#include <string.h>

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/lanes/unroll.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/integers.h"
#include "core/base/weight_blocks.h"

INLINE __m256i dot_unsigned(__m256i w, __m256i q) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(w, q), _mm256_set1_epi16(1));
}
INLINE __m256i dot_signed(__m256i w, __m256i q) { return dot_unsigned(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w)); }

#define WIDTH 8
typedef __m256i iv;
typedef __m256 fv;
INLINE iv iv_set(kvc_i32 x) { return _mm256_set1_epi32(x); }
INLINE fv fv_set(float x) { return _mm256_set1_ps(x); }
INLINE fv fv_zero(void) { return _mm256_setzero_ps(); }
INLINE fv fv_of(iv x) { return _mm256_cvtepi32_ps(x); }
INLINE fv fv_load(const float *x) { return _mm256_loadu_ps(x); }
INLINE void fv_store(float *to, fv x) { _mm256_storeu_ps(to, x); }
INLINE fv fv_add(fv a, fv b) { return _mm256_add_ps(a, b); }
INLINE fv fv_mul(fv a, fv b) { return _mm256_mul_ps(a, b); }
INLINE fv fv_fma(fv a, fv b, fv c) { return _mm256_fmadd_ps(a, b, c); }

/* Codes are signed here. */
#define CODE_OFFSET(is_signed, offset) 0
INLINE __m256i code_of(__m256i quant, int is_signed, int offset) {
    return is_signed ? quant : _mm256_sub_epi8(quant, _mm256_set1_epi8((char)offset));
}
struct codes {
    __m256i quant, magnitude;
};
INLINE struct codes codes_load(const kvc_u32 *from) {
    const __m256i quant = _mm256_loadu_si256((const __m256i *)(const void *)from);
    return (struct codes){quant, _mm256_abs_epi8(quant)};
}
INLINE iv iv_dot(iv sum, struct codes w, iv q) {
    return _mm256_add_epi32(sum, dot_unsigned(w.magnitude, _mm256_sign_epi8(q, w.quant)));
}

#define TILE_ROWS 4
#define TILE_VECTORS 1
#define TILE_EVERY(m) m(1) m(2) m(3) m(4)
#define FEW_LIMIT 8
#include "backends/cpu/simd/int8/template.h"

void kvc_quantize_rows_avx2(struct kvc_device *device, const struct kvc_quantize_rows *args) {
    kvc_int8_quantize((struct kvc_cpu *)device, &kernels, args);
}
void kvc_linear_int8_avx2(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    kvc_int8_run((struct kvc_cpu *)device, &kernels, args);
}
void kvc_expert_linear_int8_avx2(struct kvc_device *device, const struct kvc_expert_linear_int8 *args) {
    kvc_int8_run_experts((struct kvc_cpu *)device, &kernels, args);
}
