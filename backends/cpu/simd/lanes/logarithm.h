/* logarithm.h - template: kvc_log and keyformer's noise on vectors, with the operations of core/base/canon.h in each
 * lane. */
#ifndef KVC_SIMD_LANES_LOGARITHM_H
#define KVC_SIMD_LANES_LOGARITHM_H

#include "backends/cpu/simd/attention/entries.h"

INLINE vf negated(vf x) { return vf_from_bits(vi_xor(vf_bits(x), vi_set(INT32_MIN))); }

/* Computes kvc_pair_add. Returns hi and writes lo. */
INLINE vf pair_add(vf a, vf b, vf *lo) {
    const vf hi = vf_add(a, b);
    *lo = vf_sub(b, vf_sub(hi, a));
    return hi;
}

/* Computes kvc_log_pair for finite x > 0. Returns hi and writes lo. */
INLINE vf log_pair(vf x, vf *lo) {
    const vm small = vf_less(x, vf_set(1.17549435e-38f));
    const vi bits = vf_bits(vf_select(small, vf_mul(x, vf_set(16777216.0f)), x));
    const vi k = vi_sub(vi_shift_down(vi_add(bits, vi_set(0x3f800000 - 0x3f3504f3)), 23), vi_set(127));
    const vf e = vf_add(vf_select(small, vf_set(-24.0f), vf_zero()), vf_from_int(k));
    const vf m = vf_from_bits(vi_sub(bits, vi_shift_23(k))), one = vf_set(1.0f);
    const vf f = vf_sub(m, one), g = vf_add(m, one), rest = vf_sub(g, m);
    const vf g_low = vf_add(vf_sub(m, vf_sub(g, rest)), vf_sub(one, rest));
    const vf s = vf_div(f, g), s_low = vf_div(vf_fnma(s, g_low, vf_fnma(s, g, f)), g);
    const vf z = vf_mul(s, s), z_low = vf_fma(vf_mul(vf_set(2.0f), s), s_low, vf_fma(s, s, negated(z)));
    vf u = vf_fma(vf_set(0.19475395f), z, vf_set(0.22184582f)), a, a_low, y, y_low, c, c_low, t;
    u = vf_fma(u, z, vf_set(0.28571883f));
    u = vf_fma(u, z, vf_set(0.39999998f));
    u = vf_fma(u, z, vf_set(-1.9868216e-08f));
    a = pair_add(vf_set(0.6666667f), u, &a_low);
    y = vf_mul(z, a);
    y_low = vf_add(vf_fma(z, a, negated(y)), vf_fma(z_low, a, vf_mul(z, a_low)));
    c = vf_mul(s, y);
    c_low = vf_add(vf_fma(s, y, negated(c)), vf_fma(s_low, y, vf_mul(s, y_low)));
    a = pair_add(vf_mul(vf_set(2.0f), s), c, &a_low);
    a_low = vf_add(a_low, vf_fma(vf_set(2.0f), s_low, c_low));
    a = pair_add(vf_mul(e, vf_set(0.693145751953125f)), a, &t);
    u = vf_fma(e, vf_set(1.619850954759360917e-11f), a_low);
    t = vf_add(vf_add(t, vf_mul(e, vf_set(1.4285906217982305756e-06f))), u);
    return pair_add(a, t, lo);
}

/* Computes kvc_log for every x. */
INLINE vf log_any(vf x) {
    vf lo, y = log_pair(x, &lo);
    y = vf_select(vf_less(vf_set(FLT_MAX), x), x, y);
    y = vf_select(vf_less(x, vf_zero()), vf_set(kvc_nan()), y);
    y = vf_select(vf_equal(x, vf_zero()), vf_set(-kvc_infinity()), y);
    return vf_select(vf_is_nan(x), x, y);
}

/* Returns the first word of kvc_philox4x32(layer, head, position, 0, seed). */
INLINE vi philox_word(uint32_t layer, uint32_t head, vi position, uint64_t seed) {
    vi c0 = vi_set((int32_t)layer), c1 = vi_set((int32_t)head), c2 = position, c3 = vi_set(0);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < 10; i++) {
        vi a_high, b_high;
        const vi a = vi_multiply(c0, 0xD2511F53u, &a_high), b = vi_multiply(c2, 0xCD9E8D57u, &b_high);
        c0 = vi_xor(vi_xor(b_high, c1), vi_set((int32_t)k0));
        c1 = b;
        c2 = vi_xor(vi_xor(a_high, c3), vi_set((int32_t)k1));
        c3 = a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c0;
}

/* Computes kvc_gumbel. */
INLINE vf gumbel(uint64_t seed, uint32_t layer, uint32_t head, vi position) {
    const vf k = vf_from_int(vi_shift_down(philox_word(layer, head, position, seed), 8));
    vf u_low, l_low, rest;
    const vf u = pair_add(vf_mul(k, vf_set(5.9604644775390625e-8f)), vf_set(2.98023223876953125e-8f), &u_low);
    const vf l = log_pair(u, &l_low);
    return negated(log_pair(negated(vf_add(l, vf_add(l_low, vf_div(u_low, u)))), &rest));
}

#endif
