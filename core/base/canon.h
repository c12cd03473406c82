/* canon.h - the arithmetic of the project, which every backend must reproduce bit for bit.
 *
 * C, OpenCL C 1.2 and CUDA C include this file, so it has only macros and functions of values, without pointers. Every
 * operation below is one IEEE 754 binary32 operation, rounded to nearest even, in the order written; kvc_fma rounds
 * once. A SIMD version is correct if it performs the same operations per lane, with any instructions. The payload of a
 * NaN is undefined: checks treat all NaNs as equal, and hashes use 0x7fc00000. */
#ifndef KVC_CORE_BASE_CANON_H
#define KVC_CORE_BASE_CANON_H

#if defined(__FAST_MATH__) || defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ + 0
#error "kvcull's results are exact: compile without -ffast-math (after -Ofast, add -fno-fast-math)"
#endif

#if defined(__OPENCL_VERSION__) /* ---- OpenCL C ---- */
#pragma OPENCL FP_CONTRACT OFF
typedef uchar kvc_u8;
typedef char kvc_i8;
typedef ushort kvc_u16;
typedef short kvc_i16;
typedef uint kvc_u32;
typedef int kvc_i32;
typedef ulong kvc_u64;
typedef long kvc_i64;
#define KVC_INLINE static inline
KVC_INLINE float kvc_from_bits(kvc_u32 bits) { return as_float(bits); }
KVC_INLINE kvc_u32 kvc_bits(float x) { return as_uint(x); }
KVC_INLINE float kvc_fma(float a, float b, float c) { return fma(a, b, c); }
/* The host defines these two if the device's own operations are not correctly rounded. */
#ifndef KVC_OPENCL_DIV
#define KVC_OPENCL_DIV(a, b) ((a) / (b))
#endif
#ifndef KVC_OPENCL_SQRT
#define KVC_OPENCL_SQRT(a) sqrt(a)
#endif
KVC_INLINE float kvc_div(float a, float b) { return KVC_OPENCL_DIV(a, b); }
KVC_INLINE float kvc_sqrt(float a) { return KVC_OPENCL_SQRT(a); }
#else
#include <float.h>
#include <stdint.h>
/* FLT_EVAL_METHOD 16: only _Float16 is evaluated in its own precision, as gcc does with AVX512-FP16; floats are
 * evaluated in float. */
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "kvcull's results are exact: float expressions must be evaluated in float (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif
typedef uint8_t kvc_u8;
typedef int8_t kvc_i8;
typedef uint16_t kvc_u16;
typedef int16_t kvc_i16;
typedef uint32_t kvc_u32;
typedef int32_t kvc_i32;
typedef uint64_t kvc_u64;
typedef int64_t kvc_i64;
#if defined(__CUDACC__) /* ---- CUDA C ---- */
#define KVC_INLINE static __host__ __device__ __forceinline__
#else /* ---- C ---- */
#define KVC_INLINE static inline
#endif
#if defined(__CUDA_ARCH__)
KVC_INLINE float kvc_from_bits(kvc_u32 bits) { return __uint_as_float(bits); }
KVC_INLINE kvc_u32 kvc_bits(float x) { return __float_as_uint(x); }
#if !defined(KVC_CUDA_FMA) /* tests/backends/test_cuda_ptx.sh sets another function */
#define KVC_CUDA_FMA __fmaf_rn
#endif
KVC_INLINE float kvc_fma(float a, float b, float c) { return KVC_CUDA_FMA(a, b, c); }
KVC_INLINE float kvc_div(float a, float b) { return __fdiv_rn(a, b); }
KVC_INLINE float kvc_sqrt(float a) { return __fsqrt_rn(a); }
#else
KVC_INLINE float kvc_from_bits(kvc_u32 bits) {
    union {
        kvc_u32 u;
        float f;
    } v;
    v.u = bits;
    return v.f;
}
KVC_INLINE kvc_u32 kvc_bits(float x) {
    union {
        kvc_u32 u;
        float f;
    } v;
    v.f = x;
    return v.u;
}
KVC_INLINE float kvc_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KVC_INLINE float kvc_div(float a, float b) { return a / b; }
KVC_INLINE float kvc_sqrt(float a) { return __builtin_sqrtf(a); }
#endif
#endif

#define KVC_LANES 32
#define KVC_NAN_BITS 0x7fc00000u
#define KVC_INFINITY_BITS 0x7f800000u

KVC_INLINE int kvc_is_nan(float x) { return (kvc_bits(x) & 0x7fffffffu) > KVC_INFINITY_BITS; }
KVC_INLINE float kvc_nan(void) { return kvc_from_bits(KVC_NAN_BITS); }
KVC_INLINE float kvc_infinity(void) { return kvc_from_bits(KVC_INFINITY_BITS); }
/* The bits of a value for hashes and comparisons. */
KVC_INLINE kvc_u32 kvc_hash_bits(float x) { return kvc_is_nan(x) ? KVC_NAN_BITS : kvc_bits(x); }

/* The order of the arguments matters: the result is b if either side is a NaN or both are zeros. */
KVC_INLINE float kvc_max(float a, float b) { return a > b ? a : b; }

/* Sums 32 lanes into lane[0]. `lane` is an array in any address space. */
#define KVC_TREE32(lane)                                                                                               \
    do {                                                                                                               \
        for (int kvc_w = KVC_LANES / 2; kvc_w > 0; kvc_w /= 2)                                                         \
            for (int kvc_i = 0; kvc_i < kvc_w; kvc_i++)                                                                \
                (lane)[kvc_i] = (lane)[kvc_i] + (lane)[kvc_i + kvc_w];                                                 \
    } while (0)

/* Rounds to the nearest integer, halves to even, for |x| <= 2^22. This works because near 1.5 * 2^23 neighbouring
 * floats differ by 1. (-0.5, -0] gives +0. */
#define KVC_ROUND_MAGIC 12582912.0f
KVC_INLINE float kvc_rint(float x) { return (x + KVC_ROUND_MAGIC) - KVC_ROUND_MAGIC; }

/* ---- exponential -------------------------------------------------------------------------------------------- */

/* exp(x) for -87 <= x <= KVC_EXP_HIGH, with a small correction `tail` added to x. n = rint(x / ln 2); r = x - n ln 2 in
 * two steps, of which the first is exact; then 1 + r + r^2 (C2 + C3 r + ... + C6 r^4), times 2^n by an addition to the
 * exponent field. The scaling is exact: at n = 128 the polynomial is below 1, at n = -126 above 1, so no result is
 * infinite or denormal. */
#define KVC_EXP_LOW (-87.0f)
#define KVC_EXP_HIGH 88.72283172607421875f /* the largest x with a finite exp(x), 0x42b17217 */
#define KVC_LOG2E 1.44269502162933349609375f
#define KVC_LN2_HIGH 0.693145751953125f /* 16 bits, so the product with n is exact */
#define KVC_LN2_LOW 1.428606820309417e-06f
#define KVC_EXP_C2 0.49999994f
#define KVC_EXP_C3 0.1666652f
#define KVC_EXP_C4 0.041668396f
#define KVC_EXP_C5 0.008368801f
#define KVC_EXP_C6 0.0013814379f

KVC_INLINE float kvc_exp_core(float x, float tail) {
    float t = kvc_fma(x, KVC_LOG2E, KVC_ROUND_MAGIC), n = t - KVC_ROUND_MAGIC, r, p;
    r = kvc_fma(-n, KVC_LN2_HIGH, x);
    r = kvc_fma(-n, KVC_LN2_LOW, r);
    r = r + tail;
    p = kvc_fma(KVC_EXP_C6, r, KVC_EXP_C5);
    p = kvc_fma(p, r, KVC_EXP_C4);
    p = kvc_fma(p, r, KVC_EXP_C3);
    p = kvc_fma(p, r, KVC_EXP_C2);
    p = kvc_fma(p, r, 1.0f);
    p = kvc_fma(p, r, 1.0f);
    return kvc_from_bits(kvc_bits(p) + (kvc_bits(t) << 23)); /* the low bits of t are n */
}

/* exp(x): +0 below -87, +inf above KVC_EXP_HIGH, NaN for NaN, exactly 1 at 0. The error is at most 1.5 ulp (tested).
 * For x <= 0 (softmax), the second test can be omitted. SIMD code needs no tail: r + 0 changes at most a zero's
 * sign. */
KVC_INLINE float kvc_exp(float x) {
    if (x < KVC_EXP_LOW)
        return 0.0f;
    if (x > KVC_EXP_HIGH)
        return kvc_infinity();
    if (kvc_is_nan(x))
        return x;
    return kvc_exp_core(x, 0.0f);
}

/* x / (1 + exp(-x)): -0 for x < -88.7 (x divided by +inf), NaN for NaN and -inf. */
KVC_INLINE float kvc_silu(float x) { return kvc_div(x, 1.0f + kvc_exp(-x)); }

/* tanh(x), +0 for -0. For |x| below KVC_TANH_LOW it is x + x^3 (C3 + z (C5 + C7 z + ...)), z = x^2; otherwise 1 - 2 /
 * (exp(2 |x|) + 1) with the sign of x. The error is at most 3 ulp (tested). */
#define KVC_TANH_LOW 0.5493f
#define KVC_TANH_C3 (-0.3333332f)
#define KVC_TANH_C5 0.13332608f
#define KVC_TANH_C7 (-0.053854637f)
#define KVC_TANH_C9 0.021081218f
#define KVC_TANH_C11 (-0.006287712f)
KVC_INLINE float kvc_tanh(float x) {
    kvc_u32 sign = kvc_bits(x) & 0x80000000u;
    float a = kvc_from_bits(kvc_bits(x) ^ sign), z = x * x, p;
    if (a < KVC_TANH_LOW) {
        p = kvc_fma(KVC_TANH_C11, z, KVC_TANH_C9);
        p = kvc_fma(p, z, KVC_TANH_C7);
        p = kvc_fma(p, z, KVC_TANH_C5);
        p = kvc_fma(p, z, KVC_TANH_C3);
        return kvc_fma(p * z, x, x);
    }
    p = 1.0f - kvc_div(2.0f, kvc_exp(a + a) + 1.0f);
    return kvc_from_bits(kvc_bits(p) | sign);
}

/* Soft cap: the result is between -cap and cap, and close to x if x is small. */
KVC_INLINE float kvc_capped(float x, float cap) { return cap * kvc_tanh(kvc_div(x, cap)); }

/* The tanh approximation of gelu, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), computed as x / (1 + exp(-u)) with
 * u = x (2 sqrt(2 / pi) + 2 sqrt(2 / pi) 0.044715 x^2). This form is accurate also where tanh is near -1. NaN for
 * -inf. */
#define KVC_GELU_C1 1.5957691f
#define KVC_GELU_C3 0.071354814f
KVC_INLINE float kvc_gelu(float x) {
    float u = x * kvc_fma(KVC_GELU_C3, x * x, KVC_GELU_C1);
    return kvc_div(x, 1.0f + kvc_exp(-u));
}

/* gelu itself, x F(x), where F is the distribution function of the standard normal distribution. With t = |x| and w = 1
 * / (1 + W t), F(-t) = exp(-t^2 / 2) w (C0 + w (C1 + ... + w C9)). NaN for both infinities. */
#define KVC_NORMAL_W 0.33f
#define KVC_NORMAL_C0 0.131650835f
#define KVC_NORMAL_C1 0.131657094f
#define KVC_NORMAL_C2 0.117206842f
#define KVC_NORMAL_C3 0.0894436091f
#define KVC_NORMAL_C4 0.047896035f
#define KVC_NORMAL_C5 0.0104008969f
#define KVC_NORMAL_C6 0.0132620698f
#define KVC_NORMAL_C7 (-0.103593916f)
#define KVC_NORMAL_C8 0.0821835548f
#define KVC_NORMAL_C9 (-0.0201070681f)
KVC_INLINE float kvc_gelu_exact(float x) {
    float t = x < 0.0f ? -x : x, w = kvc_div(1.0f, kvc_fma(KVC_NORMAL_W, t, 1.0f)), p;
    p = kvc_fma(KVC_NORMAL_C9, w, KVC_NORMAL_C8);
    p = kvc_fma(p, w, KVC_NORMAL_C7);
    p = kvc_fma(p, w, KVC_NORMAL_C6);
    p = kvc_fma(p, w, KVC_NORMAL_C5);
    p = kvc_fma(p, w, KVC_NORMAL_C4);
    p = kvc_fma(p, w, KVC_NORMAL_C3);
    p = kvc_fma(p, w, KVC_NORMAL_C2);
    p = kvc_fma(p, w, KVC_NORMAL_C1);
    p = kvc_fma(p, w, KVC_NORMAL_C0);
    p = p * w * kvc_exp(-0.5f * t * t);
    return x < 0.0f ? x * p : kvc_fma(-x, p, x);
}

/* The gate of gpt-oss, with clamped inputs: g = min(gate, 7), u = up clamped to -7 .. 7, then (u + 1) * (g / (1 +
 * exp(-1.702 g))). The result is a NaN if an input is a NaN, or if gate is -inf. */
#define KVC_CLAMP_LIMIT 7.0f
#define KVC_CLAMP_SLOPE 1.702f
KVC_INLINE float kvc_clamped_silu(float gate, float up) {
    float g = gate > KVC_CLAMP_LIMIT ? KVC_CLAMP_LIMIT : gate, u = up > KVC_CLAMP_LIMIT ? KVC_CLAMP_LIMIT : up;
    u = u < -KVC_CLAMP_LIMIT ? -KVC_CLAMP_LIMIT : u;
    return (u + 1.0f) * kvc_div(g, 1.0f + kvc_exp(-(KVC_CLAMP_SLOPE * g)));
}

/* ---- attention sinks ---------------------------------------------------------------------------------------- */

/* A sink is a learned score of a query head. It has no key and no value, and every row of the head sees it. A sink
 * takes its part of the softmax and adds nothing to the output. It is added once, after the last tile of the row is
 * merged: L = L + kvc_exp(sink - M). M is the largest score of the entries, without the sink. The output is O / L with
 * the new L. So the returned L, and every probability exp(s - M) / L, include the sink: the probabilities of a row sum
 * to less than 1, as in the attention weights that transformers returns. A sink more than KVC_EXP_HIGH above M makes L
 * infinite and the output 0. A row that sees no entry gives zeros and L = 0, as without a sink. */
KVC_INLINE float kvc_join_sink(float L, float M, float sink) { return L + kvc_exp(sink - M); }

/* ---- logarithms and powers ---------------------------------------------------------------------------------- */

struct kvc_pair { /* hi + lo, where |lo| is at most half a unit in the last place of hi */
    float hi, lo;
};

/* a + b as a pair, for |a| >= |b| or a = 0. */
KVC_INLINE struct kvc_pair kvc_pair_add(float a, float b) {
    struct kvc_pair s;
    s.hi = a + b;
    s.lo = b - (s.hi - a);
    return s;
}

/* ln(x) for finite x > 0, with a relative error below 2^-32. x = 2^e m with sqrt(1/2) <= m < sqrt(2), s = (m-1)/(m+1)
 * as a pair, ln m = 2s + s^3 (2/3 + z (D1 + D2 z + D3 z^2 + D4 z^3)), z = s^2. ln 2 has three parts; e times each of
 * the first two is exact. */
KVC_INLINE struct kvc_pair kvc_log_pair(float x) {
    kvc_u32 bits = kvc_bits(x);
    float e = 0.0f, m, f, g, g_low, s, s_low, z, z_low, u, y, y_low, c, c_low, t, t_low, low;
    kvc_i32 k;
    struct kvc_pair a, sum;
    if (bits < 0x00800000u) { /* denormal */
        bits = kvc_bits(x * 16777216.0f);
        e = -24.0f;
    }
    k = (kvc_i32)((bits + (0x3f800000u - 0x3f3504f3u)) >> 23) - 127;
    e = e + (float)k;
    m = kvc_from_bits(bits - ((kvc_u32)k << 23));
    f = m - 1.0f;
    g = m + 1.0f;
    t = g - m;
    g_low = (m - (g - t)) + (1.0f - t);
    s = kvc_div(f, g);
    s_low = kvc_div(kvc_fma(-s, g_low, kvc_fma(-s, g, f)), g);
    z = s * s;
    z_low = kvc_fma(2.0f * s, s_low, kvc_fma(s, s, -z));
    u = kvc_fma(0.19475395f, z, 0.22184582f);
    u = kvc_fma(u, z, 0.28571883f);
    u = kvc_fma(u, z, 0.39999998f);
    u = kvc_fma(u, z, -1.9868216e-08f); /* 2/3 - (float)(2/3) */
    a = kvc_pair_add(0.6666667f, u);
    y = z * a.hi;
    y_low = kvc_fma(z, a.hi, -y) + kvc_fma(z_low, a.hi, z * a.lo);
    c = s * y;
    c_low = kvc_fma(s, y, -c) + kvc_fma(s_low, y, s * y_low);
    a = kvc_pair_add(2.0f * s, c);
    low = a.lo + kvc_fma(2.0f, s_low, c_low);
    sum = kvc_pair_add(e * 0.693145751953125f, a.hi);
    t_low = kvc_fma(e, 1.619850954759360917e-11f, low);
    t = e * 1.4285906217992305756e-06f;
    low = sum.lo + t + t_low;
    return kvc_pair_add(sum.hi, low);
}

/* ln(0) = -inf, ln(+inf) = +inf, NaN below 0; at most 1 ulp off. */
KVC_INLINE float kvc_log(float x) {
    if (!(x > 0.0f))
        return x == 0.0f ? -kvc_infinity() : kvc_nan();
    if (x > FLT_MAX)
        return x;
    return kvc_log_pair(x).hi;
}

/* Same as kvc_log to base 2; exact for powers of two. */
KVC_INLINE float kvc_log2(float x) {
    struct kvc_pair a;
    float h;
    if (!(x > 0.0f))
        return x == 0.0f ? -kvc_infinity() : kvc_nan();
    if (x > FLT_MAX)
        return x;
    a = kvc_log_pair(x);
    h = a.hi * KVC_LOG2E;
    return h + kvc_fma(a.lo, KVC_LOG2E, kvc_fma(a.hi, 1.925963e-08f, kvc_fma(a.hi, KVC_LOG2E, -h)));
}

/* x^y for x >= 0, at most 1.5 ulp off; a result below exp(-87) becomes 0. x^0 = 1^y = 1, NaN for x < 0, otherwise as
 * C's powf. */
KVC_INLINE float kvc_pow(float x, float y) {
    struct kvc_pair a;
    float h, low;
    if (y == 0.0f || x == 1.0f)
        return 1.0f;
    if (kvc_is_nan(x) || kvc_is_nan(y) || x < 0.0f)
        return kvc_nan();
    if (x == 0.0f)
        return y > 0.0f ? 0.0f : kvc_infinity();
    if (x > FLT_MAX)
        return y > 0.0f ? x : 0.0f;
    a = kvc_log_pair(x);
    h = y * a.hi;
    if (h < KVC_EXP_LOW)
        return 0.0f;
    if (h > KVC_EXP_HIGH)
        return kvc_infinity();
    low = kvc_fma(y, a.lo, kvc_fma(y, a.hi, -h));
    return kvc_exp_core(h, low);
}

/* Default factor of attention scores. The host computes it and passes it to kernels. */
#if !defined(__OPENCL_VERSION__)
KVC_INLINE float kvc_attention_scale(kvc_u32 head_size) { return (float)(1.0 / __builtin_sqrt((double)head_size)); }
/* The factor of attention scores: the model's `scale`, or the default if it is 0. kvc_score_span is 1 / factor^2. */
KVC_INLINE float kvc_score_scale(float scale, kvc_u32 head_size) {
    return scale != 0.0f ? scale : kvc_attention_scale(head_size);
}
KVC_INLINE float kvc_score_span(float scale, kvc_u32 head_size) {
    return scale != 0.0f ? (float)(1.0 / ((double)scale * (double)scale)) : (float)head_size;
}
#endif

/* ---- half precision ----------------------------------------------------------------------------------------- */

KVC_INLINE float kvc_f16_to_f32(kvc_u16 h) {
    kvc_u32 sign = ((kvc_u32)h & 0x8000u) << 16, a = (kvc_u32)h & 0x7fffu;
    if (a >= 0x7c00u)
        return kvc_from_bits(sign | 0x7f800000u | (a & 0x3ffu) << 13);
    if (a >= 0x0400u)
        return kvc_from_bits(sign | ((a << 13) + 0x38000000u));
    return kvc_from_bits(sign | kvc_bits((float)a * 5.9604644775390625e-8f)); /* a * 2^-24, exact */
}

/* Rounds to nearest even. Values from 65520 on become infinity, and a NaN remains a NaN. */
KVC_INLINE kvc_u16 kvc_f32_to_f16(float x) {
    kvc_u32 bits = kvc_bits(x), sign = (bits >> 16) & 0x8000u, a = bits & 0x7fffffffu, h;
    if (a > KVC_INFINITY_BITS)
        h = 0x7e00u | ((a >> 13) & 0x3ffu);
    else if (a >= 0x477ff000u)
        h = 0x7c00u;
    else if (a >= 0x38800000u)
        h = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
    else /* below 2^-14 the unit is 2^-24, as in [0.5, 1) of binary32 */
        h = kvc_bits(kvc_from_bits(a) + 0.5f) - 0x3f000000u;
    return (kvc_u16)(sign | h);
}

/* Cache entries: values that would become infinite, and infinities, are stored as +-65504 and counted. A NaN is
 * kept. */
KVC_INLINE int kvc_f16_saturates(float x) {
    kvc_u32 a = kvc_bits(x) & 0x7fffffffu;
    return a >= 0x477ff000u && a <= KVC_INFINITY_BITS;
}
KVC_INLINE kvc_u16 kvc_f16_store(float x) {
    return kvc_f16_saturates(x) ? (kvc_u16)(((kvc_bits(x) >> 16) & 0x8000u) | 0x7bffu) : kvc_f32_to_f16(x);
}

KVC_INLINE float kvc_bf16_to_f32(kvc_u16 h) { return kvc_from_bits((kvc_u32)h << 16); }
KVC_INLINE kvc_u16 kvc_f32_to_bf16(float x) {
    kvc_u32 bits = kvc_bits(x);
    if (kvc_is_nan(x))
        return (kvc_u16)((bits >> 16) | 0x40u);
    return (kvc_u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* FP8 with four exponent and three fraction bits, to float32, exactly. FP8 has no infinities; the code of largest
 * magnitude, with either sign, is a NaN. */
KVC_INLINE float kvc_e4m3_to_f32(kvc_u8 b) {
    kvc_u32 sign = ((kvc_u32)b & 0x80u) << 24, a = (kvc_u32)b & 0x7fu;
    if (a == 0x7fu)
        return kvc_nan();
    if (a >= 8u)
        return kvc_from_bits(sign | ((a << 20) + 0x3c000000u));
    return kvc_from_bits(sign | kvc_bits((float)a * 0.001953125f)); /* a * 2^-9 */
}

/* Elements and scales as stored in files: two bytes, little-endian. */
#define KVC_LOAD_U16(bytes) ((kvc_u16)((bytes)[0] | (bytes)[1] << 8))
#define KVC_HALF(bytes) kvc_f16_to_f32(KVC_LOAD_U16(bytes))

/* ---- the Walsh-Hadamard transform of rotated cache entries ------------------------------------------------------ */

/* Returns the number of channels that are transformed together: the largest power of two that divides d. */
KVC_INLINE kvc_u32 kvc_hadamard_width(kvc_u32 d) { return d & (~d + 1u); }
/* Returns the factor of each channel after the last step. */
KVC_INLINE float kvc_hadamard_factor(kvc_u32 width) { return kvc_div(1.0f, kvc_sqrt((float)width)); }

/* ---- Q8_0 cache entries ------------------------------------------------------------------------------------- */

/* A group has at most 32 channels. scale = f16(amax / 127), where amax = max |x| over the values that are not NaN (from
 * 0, in any order). The scale saturates as an F16 entry does; a saturated scale is counted once. quant = rint(x /
 * scale), where x / scale is first clamped to -127..127. The clamp matters only if the scale saturated or, below 2^-14,
 * was rounded down considerably. A scale of 0 gives zero quants. A group with a NaN stores KVC_Q8_NAN_SCALE and zero
 * quants, so it reads as NaN throughout. The value read is scale * quant, exact. */
#define KVC_Q8_GROUP 32
#define KVC_Q8_NAN_SCALE 0x7e00u
KVC_INLINE float kvc_q8_amax(float amax, float x) { return kvc_max(kvc_from_bits(kvc_bits(x) & 0x7fffffffu), amax); }
KVC_INLINE kvc_u16 kvc_q8_scale(float amax) { return kvc_f16_store(kvc_div(amax, 127.0f)); }
KVC_INLINE int kvc_q8_saturates(float amax) { return kvc_f16_saturates(kvc_div(amax, 127.0f)); }
KVC_INLINE kvc_i8 kvc_q8_quant(float x, float scale) {
    float v;
    if (scale == 0.0f || kvc_is_nan(scale))
        return 0;
    v = kvc_div(x, scale);
    v = v > 127.0f ? 127.0f : v;
    v = v < -127.0f ? -127.0f : v;
    return (kvc_i8)kvc_rint(v);
}

/* ---- int8: activations of eight bits ------------------------------------------------------------------------- */

/* The arithmetic of --math int8, for weights whose blocks hold small integers (weight_blocks.h, "int8"). A row of
 * activations is divided into blocks of KVC_INT8_BLOCK. top is the largest magnitude of a block, compared as bits in
 * any order; a NaN counts as larger than infinity. Scale = kvc_div(top, 127), quant = kvc_rint(x * kvc_div(127, top)),
 * halves to even. Since |x| <= top, no quant exceeds +-127 and no clamping is needed. If top is below KVC_INT8_LEAST =
 * 2^-119, the scale and the quants are 0; otherwise both quotients are normal numbers. If top is an infinity or a NaN,
 * the scale is a NaN, so that it shows in the output, and the quants are 0.
 *
 * An output has KVC_INT8_LANES lanes, which start at 0. Block b of the row goes to lane b % 8, ascending. A piece of a
 * block of weights has one scale w, and possibly one minimum m. Depending on the type, the piece is the whole block of
 * 32 quants or one half of it; the halves are processed in order. For each piece, I is the sum of weight quants times
 * activation quants and S the sum of the activation quants. Both are integers, exact in any order. With the
 * activations' scale x, lane = kvc_int8_add(w, x, I, lane) and, if there is a minimum, lane = kvc_int8_take(m, x, S,
 * lane). The lanes are added pairwise: first lanes at a distance of 4, then 2, then 1. */
#define KVC_INT8_BLOCK 32
#define KVC_INT8_LANES 8
#define KVC_INT8_LEAST 0x04000000u /* 2^-119 */
KVC_INLINE kvc_u32 kvc_int8_top(kvc_u32 top, float x) {
    kvc_u32 bits = kvc_bits(x) & 0x7fffffffu;
    return bits > top ? bits : top;
}
KVC_INLINE float kvc_int8_scale(kvc_u32 top) {
    return top >= KVC_INFINITY_BITS ? kvc_nan() : top < KVC_INT8_LEAST ? 0.0f : kvc_div(kvc_from_bits(top), 127.0f);
}
/* The factor of x; 0: the quants are 0 for any x. */
KVC_INLINE float kvc_int8_inverse(kvc_u32 top) {
    return top >= KVC_INFINITY_BITS || top < KVC_INT8_LEAST ? 0.0f : kvc_div(127.0f, kvc_from_bits(top));
}
KVC_INLINE kvc_i8 kvc_int8_quant(float x, float inverse) {
    return inverse == 0.0f ? (kvc_i8)0 : (kvc_i8)kvc_rint(x * inverse);
}
KVC_INLINE float kvc_int8_add(float w, float x, kvc_i32 sum, float lane) { return kvc_fma(w * x, (float)sum, lane); }
KVC_INLINE float kvc_int8_take(float m, float x, kvc_i32 sum, float lane) { return kvc_fma(-m, x * (float)sum, lane); }
/* Sums the lanes into lane[0]. */
#define KVC_TREE8(lane)                                                                                                \
    do {                                                                                                               \
        for (int kvc_w = KVC_INT8_LANES / 2; kvc_w > 0; kvc_w /= 2)                                                    \
            for (int kvc_i = 0; kvc_i < kvc_w; kvc_i++)                                                                \
                (lane)[kvc_i] = (lane)[kvc_i] + (lane)[kvc_i + kvc_w];                                                 \
    } while (0)

/* ---- int16: activations and weights of fifteen bits ------------------------------------------------------------- */

/* The arithmetic of --math int16, for weights that are floats (F32, F16, BF16, FP8) with a multiple of KVC_INT16_STEP
 * inputs. Rows of activations and rows of weights (dequantized to float32) are divided into blocks of KVC_INT16_BLOCK;
 * the last block of a row may be shorter. Both are quantized by the rules of int8, with KVC_INT16_MOST in place of 127:
 * top is the largest magnitude of a block as bits (kvc_int8_top), scale = kvc_div(top, 16383), quant = kvc_rint(x *
 * kvc_div(16383, top)). Since |x| <= top, no quant exceeds +-16383. If top is below KVC_INT16_LEAST = 2^-112, the scale
 * and the quants are 0; otherwise both quotients are normal numbers. If top is an infinity or a NaN, the scale is a NaN
 * and the quants are 0.
 *
 * An output starts at 0. For each block, in ascending order, I is the sum of weight quants times activation quants, a
 * whole number below 2^36. With the scales w and x of the block, sum = kvc_int16_add(w, x, I, sum). (float)I rounds to
 * nearest even.
 *
 * I is exact, in whatever order and parts it is summed. Three ways to compute it:
 * - Products of 16 bits. The sum of eight products is below 2^31 and fits in 32 bits. Such sums are added in 64 bits.
 * - Products of bytes. A quant has two digits: q = 128 * high + low, where high is q / 128 rounded down, -128 .. 127,
 *   and low is 0 .. 127. For a whole block, each sum of products of two digits fits in 32 bits: hh (high times high),
 *   hl, lh and ll. I = 16384 * hh + 128 * (hl + lh) + ll.
 * - I modulo 2^32 and hh determine I, because the magnitude of I - 16384 * hh = 128 * (hl + lh) + ll is below 2^31.
 */
#define KVC_INT16_BLOCK 256
#define KVC_INT16_STEP 32
#define KVC_INT16_MOST 16383.0f
#define KVC_INT16_LEAST 0x07800000u /* 2^-112 */
KVC_INLINE float kvc_int16_scale(kvc_u32 top) {
    return top >= KVC_INFINITY_BITS ? kvc_nan()
           : top < KVC_INT16_LEAST  ? 0.0f
                                    : kvc_div(kvc_from_bits(top), KVC_INT16_MOST);
}
/* The factor of x; 0: the quants are 0 for any x. */
KVC_INLINE float kvc_int16_inverse(kvc_u32 top) {
    return top >= KVC_INFINITY_BITS || top < KVC_INT16_LEAST ? 0.0f : kvc_div(KVC_INT16_MOST, kvc_from_bits(top));
}
KVC_INLINE kvc_i16 kvc_int16_quant(float x, float inverse) {
    return inverse == 0.0f ? (kvc_i16)0 : (kvc_i16)kvc_rint(x * inverse);
}
/* The digits of a quant, with an exact division: C leaves shifts of negative numbers to the compiler. */
KVC_INLINE kvc_i32 kvc_int16_low(kvc_i32 q) { return q & 127; }
KVC_INLINE kvc_i32 kvc_int16_high(kvc_i32 q) { return (q - (q & 127)) / 128; }
/* Rounds a block's sum to float32, with one rounding: both parts are exact, and so is the product of the high part and
 * 2^14. */
KVC_INLINE float kvc_int16_float(kvc_i64 sum) {
    const kvc_i32 low = (kvc_i32)(sum & 16383);
    return kvc_fma((float)(kvc_i32)((sum - low) / 16384), 16384.0f, (float)low);
}
KVC_INLINE float kvc_int16_add(float w, float x, kvc_i64 sum, float to) {
    return kvc_fma(w * x, kvc_int16_float(sum), to);
}

/* ---- int8: attention over Q8_0 entries ----------------------------------------------------------------------- */

/* With --math int8, attention over Q8_0 entries multiplies integers. Attention over float entries multiplies floats.
 *
 * Scores. A Q8_0 entry has groups of KVC_Q8_GROUP channels. A query is divided into the same groups. Each group is
 * quantized like an int8 block of activations, with kvc_int8_top, kvc_int8_scale and kvc_int8_quant. For each group, I
 * is the sum of the query's quants times the key's quants. This sum is exact in any order. Let w be the scale of the
 * key's group and x the scale of the query's group. The dot product starts at 0, and each group, in ascending order,
 * computes dot = kvc_int8_add(w, x, I, dot). The remaining steps are those for float entries: the dot product becomes a
 * score, and the scores of a tile become p = exp(s - m) and their sum l.
 *
 * Values. The following holds for one query, one tile and one group of channels. v is the value scale of an entry. top
 * is the largest magnitude of v over the entries that the query sees in the tile, as bits (kvc_int8_top, in any order).
 * The weight of an entry is w = kvc_value_weight(p, v * kvc_value_inverse(top)). It is an integer with a magnitude
 * below 2^14, because p is at most 1. For each channel, I is the sum of w times the value's quant over the entries that
 * the query sees. This sum is exact in any order, because |I| is at most 256 * 16383 * 128, which is below 2^31.
 * Instructions that multiply bytes use w as two digits of seven bits: w = 128 * high + low, where high is w / 128
 * rounded down. The tile's output is o = I * kvc_value_unit(top). It is a NaN if the value scale of an entry that the
 * query sees is not finite. If p is a NaN, the value of w does not matter, because l and the output are NaNs. */
KVC_INLINE float kvc_value_inverse(kvc_u32 top) {
    return top >= KVC_INFINITY_BITS || top == 0 ? 0.0f : kvc_div(16383.0f, kvc_from_bits(top));
}
KVC_INLINE float kvc_value_unit(kvc_u32 top) {
    return top >= KVC_INFINITY_BITS ? kvc_nan() : kvc_div(kvc_from_bits(top), 16383.0f);
}
/* `factor` is the entry's value scale times kvc_value_inverse. Halves are rounded to even. */
KVC_INLINE kvc_i32 kvc_value_weight(float p, float factor) {
    const float w = kvc_rint(p * factor);
    return w >= -16383.0f && w <= 16383.0f ? (kvc_i32)w : 0;
}

/* ---- order and random numbers ---------------------------------------------------------------------------------- */

/* A higher score has a higher key; -0 equals +0, and NaN is below everything. For equal keys the lower index wins. */
KVC_INLINE kvc_u32 kvc_score_key(float score) {
    kvc_u32 bits = kvc_bits(score + 0.0f);
    if (kvc_is_nan(score))
        return 0u;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011): four words from a counter and a key. */
struct kvc_philox {
    kvc_u32 word[4];
};
KVC_INLINE struct kvc_philox kvc_philox4x32(kvc_u32 c0, kvc_u32 c1, kvc_u32 c2, kvc_u32 c3, kvc_u64 seed) {
    kvc_u32 k0 = (kvc_u32)seed, k1 = (kvc_u32)(seed >> 32);
    struct kvc_philox out;
    for (int i = 0; i < 10; i++) {
        kvc_u64 a = (kvc_u64)c0 * 0xD2511F53u, b = (kvc_u64)c2 * 0xCD9E8D57u;
        c0 = (kvc_u32)(b >> 32) ^ c1 ^ k0;
        c1 = (kvc_u32)b;
        c2 = (kvc_u32)(a >> 32) ^ c3 ^ k1;
        c3 = (kvc_u32)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out.word[0] = c0;
    out.word[1] = c1;
    out.word[2] = c2;
    out.word[3] = c3;
    return out;
}

/* Keyformer's noise, one draw per key: g = -log(-log(u)), u = (x >> 8) / 2^24 + 2^-25, where x is the first word of
 * Philox with counter (layer, query head, position, 0). u needs 25 bits, so u is a pair. */
KVC_INLINE float kvc_gumbel_of(kvc_u32 x) {
    struct kvc_pair u = kvc_pair_add((float)(x >> 8) * 5.9604644775390625e-8f, 2.98023223876953125e-8f), l;
    l = kvc_log_pair(u.hi);
    return -kvc_log_pair(-(l.hi + (l.lo + kvc_div(u.lo, u.hi)))).hi;
}
KVC_INLINE float kvc_gumbel(kvc_u64 seed, kvc_u32 layer, kvc_u32 head, kvc_i32 position) {
    return kvc_gumbel_of(kvc_philox4x32(layer, head, (kvc_u32)position, 0u, seed).word[0]);
}

/* ---- experts ------------------------------------------------------------------------------------------------ */

/* A row has router logits x_e, e = 0 .. E - 1. m is the largest logit and p_e = kvc_exp(x_e - m). L is the sum of p
 * over 32 lanes (expert e in lane e % 32, ascending, from 0), which KVC_TREE32 then adds. The `used` experts with the
 * highest kvc_score_key(x_e) are chosen; ties go to the lower index. The routing weight of a chosen expert is
 * kvc_div(p_e, D). D is L or, if routing weights are normalized, the sum of the chosen p in ascending order of their
 * experts, from 0. Normalized weights equal a softmax over the chosen experts only. If L is NaN (a logit is NaN or
 * +inf, or all are -inf), all routing weights of the row are NaN, so that the fault shows in the model's logits. The
 * outputs of a row's experts are added in ascending order of the experts, from 0, each by one fused multiply-add: sum =
 * fma(share, y, sum). A shared expert, which every row passes, is added last; its weight is kvc_sigmoid of a logit of
 * its own. */
KVC_INLINE float kvc_sigmoid(float x) { return kvc_div(1.0f, 1.0f + kvc_exp(-x)); } /* +0 below -88.7 */
#define KVC_EXPERTS_MOST 1024
#define KVC_EXPERTS_USED_MOST 64

#endif
