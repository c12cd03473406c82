/* entry_types.h - the types of cache entries: how d channels of a key or a value are stored. C, OpenCL C and CUDA C
 * include this file, so it has only macros and functions of values.
 *
 * KVC_ENTRY_TYPES(row, a) expands to row(a, NAME, name, scales, bits, high, rotated) for every type.
 *   NAME, name  used in identifiers: KVC_<NAME>; name is also the type's public name.
 *   scales      bytes of a group's scales; 0: the type has no groups
 *   bits        of a channel
 *   high        bytes of a group's high bits
 *   rotated     1: keys and values are rotated before they are stored (canon.h, kvc_hadamard_*).
 *
 * Types without groups store one number per channel. F16 and BF16 round to nearest even. A value above the largest
 * finite F16 number saturates to 65504 and is counted.
 *
 * Other types have groups of KVC_ENTRY_GROUP channels; the last group may have fewer. A group of n channels has its
 * scales, then its quants, then its high bits. Quants of 8 bits take n bytes. Otherwise byte e % 16 holds the low four
 * bits of channel e: in its low half if e < 16, in its high half if not. These quants take min(n, 16) bytes. High bits:
 * KVC_Q5H and KVC_Q6H store the fifth bit, or the fifth and sixth bit, as KVC_CODE5 and KVC_CODE6 read them.
 *
 * The scale is F16. A channel's value is scale * quant, which is exact. Q4_1 has an F16 minimum after its scale, and a
 * channel's value is kvc_fma(scale, quant, minimum).
 *
 *   Q8_0                 scale = f16(amax / 127), quant = rint(x / scale), from -127 to 127
 *   Q4_0, Q5H, Q6H       scale = f16(top / -half), quant = rint(x / scale), from -half to half - 1; half is 8, 16 or 32
 *   IQ4_NL               scale = f16(top / -127), quant = kvc_iq4_value(c), which is nearest to x / scale
 *   Q4H                  scale = f16(top / kvc_q4h_best(x)), quant = kvc_iq4_value(c), which is nearest to x / scale
 *   Q4_1                 scale = f16((largest - least) / 15), quant = rint((x - minimum) / scale), from 0 to 15
 *
 * `least` and `largest` are the group's smallest and largest value. amax is the larger of -least and largest. top is
 * `largest` if amax equals it, otherwise `least`. A scale or minimum saturates as F16 entries do. The group is then
 * counted as one saturated value. If the scale is 0, so are the quants (IQ4_NL, Q4H: kvc_iq4_value(8)). A group with a
 * NaN stores the scale KVC_Q8_NAN_SCALE and the quants of scale 0, so that it reads as NaN throughout. */
#ifndef KVC_CORE_BASE_ENTRY_TYPES_H
#define KVC_CORE_BASE_ENTRY_TYPES_H

#if !defined(__OPENCL_VERSION__) /* OpenCL sources are concatenated, not included */
#include "core/base/weight_blocks.h"
#endif

/* clang-format off */
#define KVC_ENTRY_TYPES(row, a) \
    row(a, F32,    f32,    0, 32, 0, 0) \
    row(a, F16,    f16,    0, 16, 0, 0) \
    row(a, BF16,   bf16,   0, 16, 0, 0) \
    row(a, Q8_0,   q8_0,   2,  8, 0, 0) \
    row(a, Q4_0,   q4_0,   2,  4, 0, 0) \
    row(a, Q4_1,   q4_1,   4,  4, 0, 0) \
    row(a, IQ4_NL, iq4_nl, 2,  4, 0, 0) \
    row(a, Q4H,    q4h,    2,  4, 0, 1) \
    row(a, Q5H,    q5h,    2,  5, 4, 1) \
    row(a, Q6H,    q6h,    2,  6, 8, 1)
/* clang-format on */

#define KVC_ENTRY_GROUP 32
/* KVC_GROUP_<NAME> is the number of bytes of a full group. */
#define KVC_GROUP_BYTES(a, NAME, name, scales, bits, high, rotated)                                                    \
    KVC_GROUP_##NAME = (scales) ? (scales) + (high) + KVC_ENTRY_GROUP * ((bits) == 8 ? 8 : 4) / 8 : 0,
enum { KVC_ENTRY_TYPES(KVC_GROUP_BYTES, ) };

/* The quant of channel e before its offset is subtracted. q are the bytes of the group's quants, h those of its high
 * bits. */
#define KVC_CODE4(q, e) ((int)((q)[(e) % 16] >> (e) / 16 * 4 & 15))
#define KVC_CODE5(q, h, e) (KVC_CODE4(q, e) | (int)((h)[(e) / 8] >> (e) % 8 & 1) << 4)
#define KVC_CODE6(q, h, e) (KVC_CODE4(q, e) | (int)((h)[(e) % 8] >> (e) / 8 * 2 & 3) << 4)

/* Returns the value whose quant is -half (IQ4_NL: -127). */
KVC_INLINE float kvc_group_top(float least, float largest) { return -least > largest ? least : largest; }
/* `by` is 127 for Q8_0, and -half or -127 for the other types. Q8_0 passes amax as `top`. */
KVC_INLINE kvc_u16 kvc_group_scale(float top, float by) {
    return top == 0.0f ? (kvc_u16)0 : kvc_f16_store(kvc_div(top, by)); /* +0 for zeros of both signs */
}
KVC_INLINE int kvc_group_saturates(float top, float by) { return kvc_f16_saturates(kvc_div(top, by)); }
/* Returns x / scale rounded to nearest even, from `low` to `high`. */
KVC_INLINE int kvc_group_quant(float x, float scale, float low, float high) {
    float v;
    if (scale == 0.0f || kvc_is_nan(scale))
        return 0;
    v = kvc_div(x, scale);
    v = v > high ? high : v;
    v = v < low ? low : v;
    return (int)kvc_rint(v);
}
/* Returns c: the number of the table's midpoints below x / scale. */
KVC_INLINE int kvc_group_iq4(float x, float scale) {
    float v;
    int c = 0;
    if (scale == 0.0f || kvc_is_nan(scale))
        return 8;
    v = kvc_div(x, scale);
    for (int i = 0; i < 15; i++)
        c += v > (float)(kvc_iq4_value(i) + kvc_iq4_value(i + 1)) * 0.5f;
    return c;
}

/* True if quants of the type are kvc_iq4_value(code). T is KVC_, or KVC_K_ in kernels. */
#define KVC_LOOKS_UP(T, type) ((type) == T##IQ4_NL || (type) == T##Q4H)

/* Q4H tries this many scales for a group and takes the first of those with the smallest squared error. The scales are
 * top / kvc_q4h_divisor(i), in F16. With -127, 113 and -104 the top is stored without loss. Values that a Q4H group
 * holds have one of these as their top, so they are stored without loss again. The other divisors are a choice that
 * makes the error of normal random numbers small: it is 0.75 of that of integers from -8 to 7. */
#define KVC_Q4H_SCALES 8
KVC_INLINE float kvc_q4h_divisor(int i) { /* -127, 113, -104, -134, -121, 118, -131, -140 */
    const float magnitude = (float)((i & 4 ? 0x8c837679u : 0x8668717fu) >> (i & 3) * 8 & 255u);
    return i % 4 == 1 ? magnitude : -magnitude;
}
/* Returns 1 / scale, or 0 if all quants of the group are kvc_iq4_value(8). */
KVC_INLINE float kvc_q4h_inverse(float scale) {
    return scale == 0.0f || kvc_is_nan(scale) ? 0.0f : kvc_div(1.0f, scale);
}
/* Returns c: the number of the table's midpoints below x * inverse. */
KVC_INLINE int kvc_q4h_code(float x, float inverse) {
    const float v = x * inverse;
    int c = 0;
    if (inverse == 0.0f)
        return 8;
    for (int i = 0; i < 15; i++)
        c += v > (float)(kvc_iq4_value(i) + kvc_iq4_value(i + 1)) * 0.5f;
    return c;
}
/* Returns the divisor of the scale for a group x [n]. Errors are summed in the order of the channels. */
KVC_INLINE float kvc_q4h_best(const float *x, int n, float top) {
    float least = 0.0f, best = kvc_q4h_divisor(0);
    for (int i = 0; i < KVC_Q4H_SCALES; i++) {
        const float scale = kvc_f16_to_f32(kvc_group_scale(top, kvc_q4h_divisor(i)));
        const float inverse = kvc_q4h_inverse(scale);
        float sum = 0.0f;
        for (int e = 0; e < n; e++) {
            const float off = x[e] - scale * (float)kvc_iq4_value(kvc_q4h_code(x[e], inverse));
            sum = kvc_fma(off, off, sum);
        }
        if (i == 0 || sum < least) {
            least = sum;
            best = kvc_q4h_divisor(i);
        }
    }
    return best;
}

/* Replaces x [n], a group at most, by the values that Q4H, Q5H or Q6H hold for it. limit is 8 (Q4H), 16 or 32. */
KVC_INLINE void kvc_round_group(float *x, int n, float limit) {
    float least = x[0], largest = x[0], top, scale, inverse;
    int nan = 0;
    for (int i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        largest = x[i] > largest ? x[i] : largest;
        nan |= kvc_is_nan(x[i]);
    }
    top = kvc_group_top(least, largest);
    scale = kvc_f16_to_f32(nan ? (kvc_u16)KVC_Q8_NAN_SCALE
                               : kvc_group_scale(top, limit == 8.0f ? kvc_q4h_best(x, n, top) : -limit));
    inverse = kvc_q4h_inverse(scale);
    for (int i = 0; i < n; i++)
        x[i] = scale * (limit == 8.0f ? (float)kvc_iq4_value(kvc_q4h_code(x[i], inverse))
                                      : (float)kvc_group_quant(x[i], scale, -limit, limit - 1.0f));
}

/* Returns (keys / queries)^(1/8), or 1 if the quotient is not from 2^-40 to 2^40. If the arguments are sums of squares,
 * the result is the fourth root of the quotient of keys and queries. */
KVC_INLINE float kvc_smooth_factor(float keys, float queries) {
    const float quotient = kvc_div(keys, queries);
    if (!(quotient >= 9.094947017729282e-13f && quotient <= 1099511627776.0f)) /* C++ has no hexadecimal floats */
        return 1.0f;
    return kvc_sqrt(kvc_sqrt(kvc_sqrt(quotient)));
}

/* The values of a Q4_1 group are kvc_fma(d, c, m) for codes c of 0 .. 15. For integer products they are rounded to
 * levels, which are multiples of one scale as in a Q8_0 group. top is the larger magnitude of m and kvc_fma(d, 15, m).
 * The scale is kvc_q8_scale(top), in F16. With i = kvc_div(1, scale), the level of code c is kvc_fma(d * i, c, m * i),
 * clamped to -127 .. 127 and rounded. If top is an infinity or a NaN, the scale is KVC_Q8_NAN_SCALE. If the scale is 0
 * or a NaN, the levels are 0. */
struct kvc_levels {
    kvc_u16 scale_f16;
    float scale, step, base;
};
KVC_INLINE struct kvc_levels kvc_levels_of(float d, float m) {
    const kvc_u32 top = kvc_int8_top(kvc_int8_top(0, m), kvc_fma(d, 15.0f, m));
    struct kvc_levels levels;
    levels.scale_f16 = top >= KVC_INFINITY_BITS ? (kvc_u16)KVC_Q8_NAN_SCALE : kvc_q8_scale(kvc_from_bits(top));
    levels.scale = kvc_f16_to_f32(levels.scale_f16);
    levels.step = levels.base = 0.0f;
    if (top < KVC_INFINITY_BITS && levels.scale_f16) {
        const float inverse = kvc_div(1.0f, levels.scale);
        levels.step = d * inverse;
        levels.base = m * inverse;
    }
    return levels;
}
KVC_INLINE int kvc_level(struct kvc_levels levels, int code) {
    float v = kvc_fma(levels.step, (float)code, levels.base);
    v = v > 127.0f ? 127.0f : v;
    v = v < -127.0f ? -127.0f : v;
    return (int)kvc_rint(v);
}

#endif
