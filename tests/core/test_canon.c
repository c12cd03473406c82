/* test_canon.c - core/base/canon.h and weight_blocks.h against long double, against every half, and against blocks
 * packed here bit by bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/canon.h"
#include "core/base/types.h"
#include "core/base/weight_blocks.h"
#include "tests/check.h"

static uint64_t next(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The error in ULPs of a float of the true value's magnitude. */
static double ulps(float ours, long double truth) {
    int e;
    if (fabsl(truth) > 0x1.fffffep127L)
        return isinf(ours) || fabsf(ours) == 0x1.fffffep127f ? 0 : 1e9;
    if (isnan(ours) || isinf(ours))
        return 1e9;
    frexpl(truth, &e);
    return (double)(fabsl((long double)ours - truth) / ldexpl(1, (e < -125 ? -125 : e) - 24));
}

static bool both_nan(float a, float b) { return kvc_is_nan(a) && kvc_is_nan(b); }

static void exponential(void **state) {
    double worst = 0;
    (void)state;
    if (!kvc_test_has_long_double())
        SKIP_BECAUSE("elsewhere: ./dev check --plain runs this case; valgrind has no long double");
    for (uint32_t bits = 0; bits <= kvc_bits(88.7f); bits += 997)
        for (int sign = 0; sign < 2; sign++) {
            float x = kvc_from_bits(bits | (sign ? 0x80000000u : 0));
            double error = x < -87.0f ? 0 : ulps(kvc_exp(x), expl(x));
            worst = error > worst ? error : worst;
            if (x < -87.0f)
                assert_int_equal(kvc_bits(kvc_exp(x)), 0);
        }
    assert_true(worst < 1.0); /* docs/explanation/arithmetic.md allows 1.5 */
    assert_int_equal(kvc_bits(kvc_exp(0.0f)), kvc_bits(1.0f));
    assert_int_equal(kvc_bits(kvc_exp(-0.0f)), kvc_bits(1.0f));
    assert_true(ulps(kvc_exp(-87.0f), expl(-87.0L)) < 1.0);
    assert_true(ulps(kvc_exp(KVC_EXP_HIGH), expl(KVC_EXP_HIGH)) < 1.0);
    assert_int_equal(kvc_bits(kvc_exp(nextafterf(KVC_EXP_HIGH, 100.0f))), KVC_INFINITY_BITS);
    assert_true(expl(nextafterf(KVC_EXP_HIGH, 100.0f)) > 0x1.fffffep127L); /* the threshold is exact */
    assert_int_equal(kvc_bits(kvc_exp(nextafterf(-87.0f, -100.0f))), 0);
    assert_int_equal(kvc_bits(kvc_exp(-INFINITY)), 0);
    assert_int_equal(kvc_bits(kvc_exp(INFINITY)), KVC_INFINITY_BITS);
    assert_true(isnan(kvc_exp(NAN)));
    assert_true(isnan(kvc_exp(kvc_from_bits(0xff800001u))));
}

static void silu(void **state) {
    (void)state;
    if (!kvc_test_has_long_double())
        SKIP_BECAUSE("elsewhere: ./dev check --plain runs this case; valgrind has no long double");
    for (uint32_t bits = 0; bits < kvc_bits(80.0f); bits += 9973)
        for (int sign = 0; sign < 2; sign++) {
            float x = kvc_from_bits(bits | (sign ? 0x80000000u : 0));
            assert_true(ulps(kvc_silu(x), x / (1 + expl(-(long double)x))) < 3.0);
        }
    assert_int_equal(kvc_bits(kvc_silu(-100.0f)), 0x80000000u);
    assert_true(kvc_silu(100.0f) == 100.0f);
    assert_true(isnan(kvc_silu(-INFINITY)));
    assert_true(isinf(kvc_silu(INFINITY)));
}

static void hyperbolic_tangent(void **state) {
    double worst = 0;
    (void)state;
    if (!kvc_test_has_long_double())
        SKIP_BECAUSE("elsewhere: ./dev check --plain runs this case; valgrind has no long double");
    for (uint32_t bits = 0; bits < kvc_bits(20.0f); bits += bits < 0x3d000000u ? 99991 : 97)
        for (int sign = 0; sign < 2; sign++) {
            const float x = kvc_from_bits(bits | (sign ? 0x80000000u : 0));
            const double error = ulps(kvc_tanh(x), tanhl(x));
            worst = error > worst ? error : worst;
        }
    assert_true(worst < 2.5); /* canon.h allows 3 */
    assert_int_equal(kvc_bits(kvc_tanh(-0.0f)), 0);
    assert_true(kvc_tanh(INFINITY) == 1.0f && kvc_tanh(-INFINITY) == -1.0f && kvc_tanh(-3e38f) == -1.0f);
    assert_true(isnan(kvc_tanh(NAN)));
    assert_true(kvc_capped(INFINITY, 50.0f) == 50.0f && kvc_capped(-1e30f, 30.0f) == -30.0f);
    assert_true(ulps(kvc_capped(40.0f, 50.0f), 50 * tanhl(0.8L)) < 4);
    assert_true(ulps(kvc_capped(-0.01f, 30.0f), 30 * tanhl((long double)-0.01f / 30)) < 4);
}

static void gelu(void **state) {
    (void)state;
    if (!kvc_test_has_long_double())
        SKIP_BECAUSE("elsewhere: ./dev check --plain runs this case; valgrind has no long double");
    for (uint32_t bits = 0; bits < kvc_bits(9.0f); bits += 997)
        for (int sign = 0; sign < 2; sign++) {
            const float x = kvc_from_bits(bits | (sign ? 0x80000000u : 0));
            const long double u = 2 * sqrtl(2 / 3.14159265358979323846264338327950288L) * (x + 0.044715L * x * x * x);
            const double allowed = x > 0    ? 2.5
                                   : x > -3 ? 16
                                            : 200; /* the relative error of exp(-u) is the absolute error of u */
            assert_true(ulps(kvc_gelu(x), x / (1 + expl(-u))) < allowed);
        }
    assert_int_equal(kvc_bits(kvc_gelu(-100.0f)), 0x80000000u);
    assert_int_equal(kvc_bits(kvc_gelu(0.0f)), 0);
    assert_true(kvc_gelu(100.0f) == 100.0f && kvc_gelu(3e38f) == 3e38f && isinf(kvc_gelu(INFINITY)));
    assert_int_equal(kvc_bits(kvc_gelu(-3e38f)), 0x80000000u);
    assert_true(isnan(kvc_gelu(-INFINITY)) && isnan(kvc_gelu(NAN)));
}

static void gelu_exact(void **state) {
    (void)state;
    if (!kvc_test_has_long_double())
        SKIP_BECAUSE("elsewhere: ./dev check --plain runs this case; valgrind has no long double");
    for (uint32_t bits = 0; bits < kvc_bits(9.0f); bits += 997)
        for (int sign = 0; sign < 2; sign++) {
            const float x = kvc_from_bits(bits | (sign ? 0x80000000u : 0));
            const double allowed =
                x > -3 ? 8 : 64; /* the relative error of exp(-x^2 / 2) is that of x^2 / 2 times it */
            assert_true(ulps(kvc_gelu_exact(x), x * (erfcl(-x / sqrtl(2)) / 2)) < allowed);
        }
    assert_int_equal(kvc_bits(kvc_gelu_exact(0.0f)), 0);
    assert_int_equal(kvc_bits(kvc_gelu_exact(-0.0f)), 0);
    assert_true(kvc_gelu_exact(100.0f) == 100.0f && kvc_gelu_exact(3e38f) == 3e38f);
    assert_int_equal(kvc_bits(kvc_gelu_exact(-3e38f)), 0x80000000u);
    assert_true(isnan(kvc_gelu_exact(INFINITY)) && isnan(kvc_gelu_exact(-INFINITY)) && isnan(kvc_gelu_exact(NAN)));
}

static void logarithms(void **state) {
    double worst = 0, worst2 = 0;
    (void)state;
    if (!kvc_test_has_long_double())
        SKIP_BECAUSE("elsewhere: ./dev check --plain runs this case; valgrind has no long double");
    for (uint32_t bits = 1; bits<KVC_INFINITY_BITS; bits += bits> 0x3f000000u && bits < 0x40000000u ? 83 : 4099) {
        float x = kvc_from_bits(bits);
        double error = ulps(kvc_log(x), logl(x)), error2 = ulps(kvc_log2(x), log2l(x));
        worst = error > worst ? error : worst;
        worst2 = error2 > worst2 ? error2 : worst2;
    }
    assert_true(worst < 0.6);
    assert_true(worst2 < 0.6);
    for (int e = -149; e < 128; e++)
        assert_true(kvc_log2(ldexpf(1.0f, e)) == (float)e);
    assert_int_equal(kvc_bits(kvc_log(1.0f)), 0);
    assert_true(isinf(kvc_log(0.0f)) && kvc_log(0.0f) < 0 && isinf(kvc_log(-0.0f)));
    assert_true(isinf(kvc_log(INFINITY)) && isinf(kvc_log2(INFINITY)));
    assert_true(isnan(kvc_log(-1.0f)) && isnan(kvc_log(NAN)) && isnan(kvc_log2(-1.0f)));
}

static void powers(void **state) {
    static const float special[] = {0.0f,     1.0f, 0.5f,  2.0f,      1e-40f, 3e38f,
                                    INFINITY, NAN,  -1.0f, -INFINITY, -0.5f,  -2.0f};
    uint64_t random = 5;
    double worst = 0;
    (void)state;
    if (!kvc_test_has_long_double())
        SKIP_BECAUSE("elsewhere: ./dev check --plain runs this case; valgrind has no long double");
    for (int i = 0; i < 600000; i++) {
        float x = kvc_from_bits((uint32_t)(next(&random) % KVC_INFINITY_BITS));
        float y = (float)((double)(int64_t)next(&random) * 0x1p-63 * ldexp(1, (int)(next(&random) % 12) - 2));
        long double truth;
        double error;
        if (i % 2)
            x = 0.5f + (float)(next(&random) >> 40) * 0x1p-24f;
        truth = powl(x, y);
        if (truth < expl(-87.0L) || truth > 0x1.fffffep127L)
            continue;
        error = ulps(kvc_pow(x, y), truth);
        worst = error > worst ? error : worst;
    }
    assert_true(worst < 1.5);
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        for (size_t j = 0; j < sizeof special / sizeof special[0]; j++) {
            float x = special[i], y = special[j], ours = kvc_pow(x, y), c = powf(x, y);
            if (x < 0 && y != 0)
                assert_true(isnan(ours));
            else if (c < 1.6e-38f || c > 3.3e38f || c == 1.0f || c == 0.0f || isnan(c))
                assert_true(both_nan(ours, c) || ours == c || (ours == 0 && c < 1.7e-38f) || c > 3.3e38f);
        }
    assert_true(kvc_pow(2.0f, 10.0f) == 1024.0f);
    assert_true(kvc_pow(0.0f, 0.0f) == 1.0f && kvc_pow(NAN, 0.0f) == 1.0f && kvc_pow(1.0f, NAN) == 1.0f);
}

static void rounding(void **state) {
    static const float x[] = {0.5f,   1.5f,       2.5f,        -0.5f, -1.5f,     -2.5f,
                              126.5f, 127.49999f, 0.49999997f, -0.3f, 4194303.5f};
    (void)state;
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        assert_true(kvc_rint(x[i]) == rintf(x[i]));
}

static long double half_value(uint32_t h) { /* finite, positive */
    int e = (int)(h >> 10), m = (int)(h & 1023);
    return e ? ldexpl(1024 + m, e - 25) : ldexpl(m, -24);
}

static void halves(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        float value = (float)half_value(h), middle, up = h + 1 < 0x7c00 ? (float)half_value(h + 1) : 65536.0f;
        uint32_t even = h % 2 ? h + 1 : h;
        assert_true(kvc_f16_to_f32((kvc_u16)h) == value);
        assert_true(kvc_f16_to_f32((kvc_u16)(h | 0x8000)) == -value);
        assert_int_equal(kvc_f32_to_f16(value), h);
        assert_int_equal(kvc_f32_to_f16(-value), h | 0x8000);
        middle = (value + up) / 2; /* exact */
        assert_int_equal(kvc_f32_to_f16(middle), even);
        assert_int_equal(kvc_f32_to_f16(nextafterf(middle, 0.0f)), h);
        assert_int_equal(kvc_f32_to_f16(nextafterf(middle, 1e9f)), h + 1);
        assert_int_equal(kvc_f32_to_f16(-nextafterf(middle, 1e9f)), (h + 1) | 0x8000);
    }
    for (uint32_t h = 0x7c01; h < 0x8000; h++) {
        assert_true(isnan(kvc_f16_to_f32((kvc_u16)h)) && isnan(kvc_f16_to_f32((kvc_u16)(h | 0x8000))));
        assert_true((kvc_f32_to_f16(kvc_from_bits(h << 13 | 0x7f800000u)) & 0x7fff) > 0x7c00);
    }
    assert_true(isinf(kvc_f16_to_f32(0x7c00)) && kvc_f16_to_f32(0xfc00) < 0);
    assert_int_equal(kvc_f32_to_f16(1e-30f), 0);
    assert_int_equal(kvc_f32_to_f16(-1e-40f), 0x8000);
    assert_int_equal(kvc_f32_to_f16(3e38f), 0x7c00);
    /* Cache entries saturate. */
    assert_int_equal(kvc_f16_store(65519.996f), 0x7bff);
    assert_int_equal(kvc_f16_saturates(65519.996f), 0);
    assert_int_equal(kvc_f16_store(65520.0f), 0x7bff);
    assert_int_equal(kvc_f16_saturates(65520.0f), 1);
    assert_int_equal(kvc_f16_store(-INFINITY), 0xfbff);
    assert_int_equal(kvc_f16_saturates(-INFINITY), 1);
    assert_int_equal(kvc_f16_saturates(NAN), 0);
    assert_true((kvc_f16_store(NAN) & 0x7fff) > 0x7c00);
}

static void bfloats(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7f80; h++) {
        float value = kvc_from_bits(h << 16), middle = kvc_from_bits(h << 16 | 0x8000u);
        assert_int_equal(kvc_bits(kvc_bf16_to_f32((kvc_u16)h)), h << 16);
        assert_int_equal(kvc_f32_to_bf16(value), h);
        assert_int_equal(kvc_f32_to_bf16(-value), h | 0x8000);
        assert_int_equal(kvc_f32_to_bf16(middle), h % 2 ? h + 1 : h);
        assert_int_equal(kvc_f32_to_bf16(kvc_from_bits(h << 16 | 0x7fffu)), h);
        assert_int_equal(kvc_f32_to_bf16(kvc_from_bits(h << 16 | 0x8001u)), h + 1);
    }
    assert_true(isnan(kvc_bf16_to_f32(kvc_f32_to_bf16(kvc_from_bits(0x7f800001u)))));
}

static void q8_entries(void **state) {
    uint64_t random = 3;
    (void)state;
    for (int i = 0; i < 100000; i++) {
        float x = (float)((double)(int64_t)next(&random) * 0x1p-63), amax = 1.0f, scale;
        int quant;
        scale = kvc_f16_to_f32(kvc_q8_scale(amax));
        quant = (int)lrintf(x / scale);
        assert_int_equal(kvc_q8_quant(x, scale), quant);
        assert_true(fabsf(scale * (float)quant - x) <= 0.505f * scale);
    }
    assert_true(kvc_q8_amax(kvc_q8_amax(0.0f, -3.0f), 2.0f) == 3.0f);
    assert_true(kvc_q8_amax(kvc_q8_amax(5.0f, NAN), 2.0f) == 5.0f); /* NaNs do not count */
    assert_int_equal(kvc_q8_quant(1.0f, 0.0f), 0);
    assert_int_equal(kvc_q8_quant(INFINITY, 65504.0f), 127);
    assert_int_equal(kvc_q8_quant(-1e-5f, 0x1p-24f),
                     -127); /* the scale was rounded down considerably, so the quant is clamped */
    assert_int_equal(kvc_q8_scale(INFINITY), 0x7bff);
    assert_int_equal(kvc_q8_saturates(8.33e6f), 1);
    assert_int_equal(kvc_q8_saturates(8.31e6f), 0);
    assert_int_equal(kvc_q8_scale(1e-6f), 0);
    assert_true(isnan(kvc_f16_to_f32(KVC_Q8_NAN_SCALE)));
}

/* Levels are multiples of a half, and as near to a group's values as rounding allows. */
static void q4_1_levels(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 65536; i += 131)
        for (uint32_t j = 0; j < 65536; j += 127) {
            const float d = kvc_f16_to_f32((kvc_u16)i), m = kvc_f16_to_f32((kvc_u16)j);
            const struct kvc_levels levels = kvc_levels_of(d, m);
            const double unit = fmax(fabs(m), fabs(15.0 * d + m)) / 127, scale = levels.scale;
            const bool finite = isfinite(d) && isfinite(m);
            assert_int_equal(levels.scale_f16 == KVC_Q8_NAN_SCALE, !finite);
            assert_int_equal(isnan(levels.scale), !finite);
            assert_true(!finite || fabs(scale - unit) <= fmax(unit * 0x1p-11, 0x1p-25));
            for (int c = 0; c < 16; c++) {
                const double exact = finite && scale != 0 ? (c * (double)d + m) / scale : 0;
                assert_true(fabs(kvc_level(levels, c) - fmin(fmax(exact, -127), 127)) <= 0.5 + 1e-4);
            }
        }
}

/* ---- weight blocks that the test packs from known quants ---- */

static void set_bits(unsigned char *byte, unsigned value, unsigned shift) {
    *byte = (unsigned char)(*byte | value << shift);
}

static void put_half(unsigned char *at, float value) {
    kvc_u16 h = kvc_f32_to_f16(value);
    at[0] = (unsigned char)(h & 255);
    at[1] = (unsigned char)(h >> 8);
}

static void small_blocks(void **state) {
    uint64_t random = 11;
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct kvc_block_q4_0 b4;
        struct kvc_block_q5_0 b5;
        struct kvc_block_q8_0 b8;
        unsigned q4[32], q5[32];
        float d = kvc_f16_to_f32(kvc_f32_to_f16((float)(next(&random) % 4001) / 1000.0f - 2.0f));
        memset(&b4, 0, sizeof b4);
        memset(&b5, 0, sizeof b5);
        for (unsigned e = 0; e < 32; e++) {
            q4[e] = (unsigned)(next(&random) % 16);
            q5[e] = (unsigned)(next(&random) % 32);
            b8.q[e] = (kvc_i8)((int)(next(&random) % 256) - 128);
            set_bits(&b4.q[e < 16 ? e : e - 16], q4[e], e < 16 ? 0 : 4);
            set_bits(&b5.q[e < 16 ? e : e - 16], q5[e] & 15, e < 16 ? 0 : 4);
            set_bits(&b5.high[e / 8], q5[e] >> 4, e % 8);
        }
        put_half(b4.d, d);
        put_half(b5.d, d);
        put_half(b8.d, d);
        assert_true(KVC_HALF(b8.d) == d);
        for (int e = 0; e < 32; e++) {
            assert_true(KVC_DEQUANTIZE_Q4_0(b4, e) == d * ((float)q4[e] - 8.0f));
            assert_true(KVC_DEQUANTIZE_Q5_0(b5, e) == d * ((float)q5[e] - 16.0f));
            assert_true(KVC_DEQUANTIZE_Q8_0(b8, e) == d * (float)b8.q[e]);
        }
    }
}

static void k_blocks_scaled(void **state) { /* Q3_K, Q6_K */
    uint64_t random = 12;
    (void)state;
    for (int round = 0; round < 100; round++) {
        struct kvc_block_q3_k b3;
        struct kvc_block_q6_k b6;
        unsigned q3[256], q6[256], s3[16];
        float d = kvc_f16_to_f32(kvc_f32_to_f16((float)(next(&random) % 4001) / 1000.0f - 2.0f));
        memset(&b3, 0, sizeof b3);
        memset(&b6, 0, sizeof b6);
        for (unsigned s = 0; s < 16; s++) {
            s3[s] = (unsigned)(next(&random) % 64);
            set_bits(&b3.scale[s < 8 ? s : s - 8], s3[s] & 15, s < 8 ? 0 : 4);
            set_bits(&b3.scale[8 + s % 4], s3[s] >> 4, s / 4 * 2);
            b6.scale[s] = (kvc_i8)((int)(next(&random) % 256) - 128);
        }
        for (unsigned e = 0; e < 256; e++) {
            unsigned half = e / 128, l = e % 32, quarter = e / 32 % 4;
            q3[e] = (unsigned)(next(&random) % 8);
            q6[e] = (unsigned)(next(&random) % 64);
            set_bits(&b3.q[32 * half + l], q3[e] & 3, 2 * quarter);
            set_bits(&b3.high[l], q3[e] >> 2, 4 * half + quarter);
            set_bits(&b6.low[64 * half + 32 * (quarter % 2) + l], q6[e] & 15, quarter < 2 ? 0 : 4);
            set_bits(&b6.high[32 * half + l], q6[e] >> 4, 2 * quarter);
        }
        put_half(b3.d, d);
        put_half(b6.d, d);
        for (int e = 0; e < 256; e++) {
            double v3 = (double)d * ((int)s3[e / 16] - 32) * ((int)q3[e] - 4);
            double v6 = (double)d * b6.scale[e / 16] * ((int)q6[e] - 32);
            assert_true((double)KVC_DEQUANTIZE_Q3_K(b3, e) == v3); /* exact */
            assert_true((double)KVC_DEQUANTIZE_Q6_K(b6, e) == v6);
        }
    }
}

static void k_blocks_with_minima(void **state) { /* Q4_K, Q5_K */
    uint64_t random = 13;
    (void)state;
    for (int round = 0; round < 100; round++) {
        struct kvc_block_q4_k b4;
        struct kvc_block_q5_k b5;
        unsigned q[256], scale[8], min[8];
        float d = kvc_f16_to_f32(kvc_f32_to_f16((float)(next(&random) % 4001) / 1000.0f - 2.0f));
        float dmin = kvc_f16_to_f32(kvc_f32_to_f16((float)(next(&random) % 4001) / 1000.0f - 2.0f));
        memset(&b4, 0, sizeof b4);
        memset(&b5, 0, sizeof b5);
        for (unsigned s = 0; s < 8; s++) { /* six bits each: 4 to 7 use the high nibbles and the remaining top bits */
            scale[s] = (unsigned)(next(&random) % 64);
            min[s] = (unsigned)(next(&random) % 64);
            if (s < 4) {
                set_bits(&b4.scale[s], scale[s], 0);
                set_bits(&b4.scale[4 + s], min[s], 0);
            } else {
                set_bits(&b4.scale[4 + s], scale[s] & 15, 0);
                set_bits(&b4.scale[4 + s], min[s] & 15, 4);
                set_bits(&b4.scale[s - 4], scale[s] >> 4, 6);
                set_bits(&b4.scale[s], min[s] >> 4, 6);
            }
        }
        memcpy(b5.scale, b4.scale, sizeof b5.scale);
        put_half(b4.d, d);
        put_half(b5.d, d);
        put_half(b4.dmin, dmin);
        put_half(b5.dmin, dmin);
        for (unsigned e = 0; e < 256; e++) {
            q[e] = (unsigned)(next(&random) % 32);
            set_bits(&b4.q[e / 64 * 32 + e % 32], q[e] & 15, e % 64 < 32 ? 0 : 4);
            set_bits(&b5.q[e / 64 * 32 + e % 32], q[e] & 15, e % 64 < 32 ? 0 : 4);
            set_bits(&b5.high[e % 32], q[e] >> 4, e / 32);
        }
        for (int e = 0; e < 256; e++) {
            double less = (double)dmin * min[e / 32];
            float v4 = (float)((double)d * scale[e / 32] * (q[e] & 15) - less); /* exact in double, rounded once */
            float v5 = (float)((double)d * scale[e / 32] * q[e] - less);
            assert_true(KVC_DEQUANTIZE_Q4_K(b4, e) == v4);
            assert_true(KVC_DEQUANTIZE_Q5_K(b5, e) == v5);
        }
    }
}

static void score_keys(void **state) {
    static const float ascending[] = {-INFINITY, -3e38f, -1.0f, -1e-45f, 0.0f, 1e-45f, 1.0f, 3e38f, INFINITY};
    (void)state;
    for (size_t i = 1; i < sizeof ascending / sizeof ascending[0]; i++)
        assert_true(kvc_score_key(ascending[i - 1]) < kvc_score_key(ascending[i]));
    assert_int_equal(kvc_score_key(-0.0f), kvc_score_key(0.0f));
    assert_true(kvc_score_key(NAN) < kvc_score_key(-INFINITY));
    assert_int_equal(kvc_score_key(NAN), kvc_score_key(-NAN));
}

/* The three known answers that Random123 publishes for philox4x32-10. */
static void philox(void **state) {
    static const struct {
        kvc_u32 counter[4];
        kvc_u64 key;
        kvc_u32 word[4];
    } known[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         0xffffffffffffffffu,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         0x299f31d0a4093822u,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const kvc_u32 *c = known[i].counter;
        struct kvc_philox p = kvc_philox4x32(c[0], c[1], c[2], c[3], known[i].key);
        assert_memory_equal(p.word, known[i].word, sizeof p.word);
    }
}

/* -log(-log(u)) for the 2^24 values of u: every value near both ends, a selection between. */
static void gumbel(void **state) {
    (void)state;
    for (kvc_u32 k = 0; k < 1u << 24; k += k < 3000 || k > (1u << 24) - 3000 ? 1 : 1009) {
        long double u = (long double)k / 16777216.0L + 1.0L / 33554432.0L, want = -logl(-logl(u));
        float got = kvc_gumbel_of(k << 8 | (k & 255));
        if (!(fabsl(got - want) <= 1.2e-7L * (1.0L + fabsl(want))))
            fail_msg("gumbel of %u is %.9g, not %.9Lg", k, (double)got, want);
    }
    assert_int_equal(kvc_bits(kvc_gumbel(0x0000000500000003u, 7, 11, 13)),
                     kvc_bits(kvc_gumbel_of(kvc_philox4x32(7, 11, 13, 0, 0x0000000500000003u).word[0])));
}

static void small_things(void **state) {
    float lane[32];
    (void)state;
    for (int i = 0; i < 32; i++)
        lane[i] = i == 0 ? 1e8f : i == 16 ? -1e8f : 0.25f; /* lanes 0 and 16 are added first */
    KVC_TREE32(lane);
    assert_true(lane[0] == 7.5f);
    assert_true(isnan(kvc_max(1.0f, NAN)) && kvc_max(NAN, 1.0f) == 1.0f);
    assert_int_equal(kvc_bits(kvc_max(0.0f, -0.0f)), 0x80000000u);
    assert_int_equal(kvc_hash_bits(kvc_from_bits(0xffc12345u)), KVC_NAN_BITS);
    assert_true(kvc_attention_scale(64) == 0.125f);
    assert_int_equal(kvc_bits(kvc_attention_scale(80)), kvc_bits((float)(1 / sqrt(80.0))));
    assert_true(kvc_score_scale(0, 64) == 0.125f && kvc_score_scale(0.3f, 64) == 0.3f);
    assert_true(kvc_score_span(0, 80) == 80.0f && kvc_score_span(0.125f, 80) == 64.0f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential),
        cmocka_unit_test(silu),
        cmocka_unit_test(hyperbolic_tangent),
        cmocka_unit_test(gelu),
        cmocka_unit_test(gelu_exact),
        cmocka_unit_test(logarithms),
        cmocka_unit_test(powers),
        cmocka_unit_test(rounding),
        cmocka_unit_test(halves),
        cmocka_unit_test(bfloats),
        cmocka_unit_test(q8_entries),
        cmocka_unit_test(q4_1_levels),
        cmocka_unit_test(small_blocks),
        cmocka_unit_test(k_blocks_scaled),
        cmocka_unit_test(k_blocks_with_minima),
        cmocka_unit_test(score_keys),
        cmocka_unit_test(philox),
        cmocka_unit_test(gumbel),
        cmocka_unit_test(small_things),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
