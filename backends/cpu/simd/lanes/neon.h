/* neon.h - vectors of 4 floats for the SIMD templates; avx512.h explains the names. */
#ifndef KVC_SIMD_LANES_NEON_H
#define KVC_SIMD_LANES_NEON_H

#if !defined(__aarch64__)
#error "lanes/neon.h needs a compiler for AArch64"
#endif
#if defined(LANES)
#error "another file of lanes/ is already included"
#endif

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backends/cpu/simd/lanes/unroll.h"

#define LANES 4
#define LANES_PATH neon
#define LANES_REGISTERS 32

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint32x4_t vm; /* one truth value per lane: all ones or all zeros */

static inline vf vf_load(const float *p) { return vld1q_f32(p); }
static inline void vf_store(float *p, vf a) { vst1q_f32(p, a); }
/* NEON has no non-temporal stores. */
static inline void vf_store_nontemporal(float *p, vf a) { vst1q_f32(p, a); }
static inline void vf_stores_done(void) {}
static inline vf vf_set(float x) { return vdupq_n_f32(x); }
static inline vf vf_zero(void) { return vdupq_n_f32(0.0f); }
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
static inline vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
static inline vf vf_fma_by(vf a, const float *x, vf b) { return vf_fma(a, vf_set(*x), b); }
static inline vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf vf_sqrt(vf a) { return vsqrtq_f32(a); }
/* vmaxq treats NaNs and zeros differently */
static inline vf vf_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
/* nothing to do: NEON instructions have no memory operands */
static inline vf vf_held(vf a) { return a; }
static inline vf vf_mul_by(vf a, const float *x) { return vf_mul(a, vf_set(*x)); }
static inline vi vf_bits(vf a) { return vreinterpretq_s32_f32(a); }
static inline vf vf_from_bits(vi a) { return vreinterpretq_f32_s32(a); }
static inline vf vf_from_int(vi a) { return vcvtq_f32_s32(a); }
static inline float vf_first(vf a) { return vgetq_lane_f32(a, 0); }

static inline vi vi_set(int32_t x) { return vdupq_n_s32(x); }
static inline vi vi_ascending(void) {
    static const int32_t ascending[4] = {0, 1, 2, 3};
    return vld1q_s32(ascending);
}
static inline vm vm_first(size_t n) { return vcgtq_s32(vdupq_n_s32(n > 4 ? 4 : (int32_t)n), vi_ascending()); }
static inline vm vm_and(vm a, vm b) { return vandq_u32(a, b); }
static inline vm vm_or(vm a, vm b) { return vorrq_u32(a, b); }
static inline unsigned vm_bits(vm a) {
    static const uint32_t bit[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(a, vld1q_u32(bit)));
}
static inline vm vf_less(vf a, vf b) { return vcltq_f32(a, b); }
static inline vm vf_reaches(vf a, vf b) { return vcgeq_f32(a, b); }
static inline vm vf_equal(vf a, vf b) { return vceqq_f32(a, b); }
static inline vm vf_unordered(vf a, vf b) { return vmvnq_u32(vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b))); }
static inline vm vf_is_nan(vf a) { return vmvnq_u32(vceqq_f32(a, a)); }
static inline vf vf_select(vm m, vf yes, vf no) { return vbslq_f32(m, yes, no); }

static inline vf vf_part_load(const float *p, size_t n) {
    float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    memcpy(x, p, (n > 4 ? 4 : n) * sizeof *x);
    return vld1q_f32(x);
}
static inline void vf_part_store(float *p, vf a, size_t n) {
    float x[4];
    vst1q_f32(x, a);
    memcpy(p, x, (n > 4 ? 4 : n) * sizeof *x);
}

static inline vi vi_load(const void *p) { return vld1q_s32((const int32_t *)p); }
static inline void vi_store(void *p, vi a) { vst1q_s32((int32_t *)p, a); }
static inline vi vi_part_load(const void *p, size_t n) {
    int32_t x[4] = {0, 0, 0, 0};
    memcpy(x, p, (n > 4 ? 4 : n) * sizeof *x);
    return vld1q_s32(x);
}
static inline void vi_part_store(void *p, vi a, size_t n) {
    int32_t x[4];
    vst1q_s32(x, a);
    memcpy(p, x, (n > 4 ? 4 : n) * sizeof *x);
}
static inline vi vi_add(vi a, vi b) { return vaddq_s32(a, b); }
static inline vi vi_sub(vi a, vi b) { return vsubq_s32(a, b); }
static inline vi vi_and(vi a, vi b) { return vandq_s32(a, b); }
static inline vi vi_or(vi a, vi b) { return vorrq_s32(a, b); }
static inline vi vi_xor(vi a, vi b) { return veorq_s32(a, b); }
static inline vi vi_shift_23(vi a) { return vshlq_n_s32(a, 23); }
static inline vi vi_sign(vi a) { return vshrq_n_s32(a, 31); }
static inline vi vi_shift_down(vi a, unsigned n) {
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), vdupq_n_s32(-(int32_t)n)));
}
static inline vi vi_multiply(vi a, uint32_t b, vi *high) {
    const uint32x4_t u = vreinterpretq_u32_s32(a);
    const uint32x4_t first = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(u), b));
    const uint32x4_t last = vreinterpretq_u32_u64(vmull_n_u32(vget_high_u32(u), b));
    *high = vreinterpretq_s32_u32(vuzp2q_u32(first, last));
    return vreinterpretq_s32_u32(vuzp1q_u32(first, last));
}
static inline vm vi_greater(vi a, vi b) { return vcgtq_s32(a, b); }
static inline vm vi_equal(vi a, vi b) { return vceqq_s32(a, b); }
static inline vi vi_select(vm m, vi yes, vi no) { return vbslq_s32(m, yes, no); }
static inline uint32_t vi_store_some(int32_t *p, vi a, unsigned bits) {
    int32_t lane[LANES];
    uint32_t n = 0;
    vi_store(lane, a);
    for (; bits; bits &= bits - 1)
        p[n++] = lane[__builtin_ctz(bits)];
    return n;
}
static inline uint32_t vi_append(int32_t *p, vi a, unsigned bits) { return bits ? vi_store_some(p, a, bits) : 0; }

static inline vf vf_load_f16(const void *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)p)));
}
static inline vf vf_part_load_f16(const void *p, size_t n) {
    uint16_t h[4] = {0, 0, 0, 0};
    memcpy(h, p, (n > 4 ? 4 : n) * sizeof *h);
    return vf_load_f16(h);
}
static inline vf vf_load_bf16(const void *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)p), 16));
}
static inline vf vf_load_i8(const void *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8((uint64_t)(uint32_t)four)))));
}
static inline vf vf_load_stored_i8(const void *p) { return vf_load_i8(p); }
static inline vf vf_part_load_i8(const void *p, size_t n) {
    int8_t q[4] = {0, 0, 0, 0};
    memcpy(q, p, n > 4 ? 4 : n);
    return vf_load_i8(q);
}
static inline void vf_store_f16(void *p, vf a) { vst1_u16((uint16_t *)p, vreinterpret_u16_f16(vcvt_f16_f32(a))); }
static inline void vi_store_i8(void *p, vi a) {
    int8x8_t q = vqmovn_s16(vcombine_s16(vqmovn_s32(a), vdup_n_s16(0)));
    uint32_t four = vget_lane_u32(vreinterpret_u32_s8(q), 0);
    memcpy(p, &four, sizeof four);
}
static inline float half_load(const void *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}

static inline void vf_load_pairs(const float *p, vf *even, vf *odd) {
    const float32x4x2_t both = vld2q_f32(p);
    *even = both.val[0];
    *odd = both.val[1];
}

INLINE void vf_transpose(vf r[LANES]) {
    float32x4_t a = vtrn1q_f32(r[0], r[1]), b = vtrn2q_f32(r[0], r[1]);
    float32x4_t c = vtrn1q_f32(r[2], r[3]), d = vtrn2q_f32(r[2], r[3]);
    r[0] = vcombine_f32(vget_low_f32(a), vget_low_f32(c));
    r[1] = vcombine_f32(vget_low_f32(b), vget_low_f32(d));
    r[2] = vcombine_f32(vget_high_f32(a), vget_high_f32(c));
    r[3] = vcombine_f32(vget_high_f32(b), vget_high_f32(d));
}

static inline float vf_tree(vf a) {
    float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

static inline float vf_most(vf a) { return vmaxvq_f32(a); }

struct vf_rows {
    vf row[LANES];
};
INLINE void vf_rows_put(struct vf_rows *rows, unsigned i, vf a) { rows->row[i] = a; }
INLINE vf vf_rows_tree(struct vf_rows *rows) {
    vf *r = rows->row;
    UNROLL
    for (int i = 0; i < 2; i++) /* r[i] holds two lanes of row i and two lanes of row i + 2 */
        r[i] = vaddq_f32(vcombine_f32(vget_low_f32(r[i]), vget_low_f32(r[i + 2])),
                         vcombine_f32(vget_high_f32(r[i]), vget_high_f32(r[i + 2])));
    /* Now r[0] is a0 a1 c0 c1 and r[1] is b0 b1 d0 d1. */
    return vaddq_f32(vtrn1q_f32(r[0], r[1]), vtrn2q_f32(r[0], r[1]));
}

#endif
