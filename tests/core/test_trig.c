/* test_trig.c - core/base/trig.c against the C library's long double functions, and hard cases by hand. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/trig.h"
#include "tests/check.h"

static uint64_t next(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state, double low, double high) {
    return low + (high - low) * ((double)(next(state) >> 11) * 0x1p-53);
}

/* The error in ULPs of a double of the true value's magnitude. */
static double ulps(double ours, long double truth) {
    if (truth == 0)
        return ours == 0 ? 0 : 1e9;
    int e;
    frexp((double)truth, &e);
    return (double)(fabsl((long double)ours - truth) / ldexpl(1, e - DBL_MANT_DIG));
}

static void expect(double ours, long double truth, double limit, const char *what, double x) {
    double distance = ulps(ours, truth);
    if (!(distance <= limit))
        fail_msg("%s(%.17g): %.17g is %g ulp from %.21Lg", what, x, ours, distance, truth);
    /* Rounded to float32 the result is the correctly rounded value, or its neighbor where the true value is close to a
     * tie. */
    float rounded = (float)ours, right = (float)truth;
    if (rounded != right && fabsl((long double)rounded - truth) > fabsl((long double)right - truth) * 1.000001L)
        fail_msg("%s(%.17g): rounds to the wrong float", what, x);
}

static void sine_and_cosine(void **state) {
    (void)state;
    if (!kvc_test_has_long_double())
        skip();
    uint64_t seed = 1;
    static const double spans[] = {1e-3, 0.8, 7, 1e3, 1e5, 1e7, 4294967296.0, 1e12};
    for (size_t s = 0; s < sizeof spans / sizeof *spans; s++)
        for (int i = 0; i < 20000; i++) {
            double x = uniform(&seed, -spans[s], spans[s]);
            if (i % 2)
                x = (float)x;
            expect(kvc_double_sin(x), sinl(x), 1.1, "sin", x);
            expect(kvc_double_cos(x), cosl(x), 1.1, "cos", x);
        }
    /* Next to multiples of pi/2, where the reduction cancels digits. */
    for (long k = 1; k < 4000000; k = k * 3 / 2 + 1) {
        double x = (double)(k * 1.57079632679489661923132169163975144L);
        for (int i = -2; i <= 2; i++) {
            double y = x + i * ldexp(1, ilogb(x) - 52);
            expect(kvc_double_sin(y), sinl(y), 1.1, "sin", y);
            expect(kvc_double_cos(y), cosl(y), 1.1, "cos", y);
        }
    }
    assert_true(kvc_double_sin(0) == 0 && !signbit(kvc_double_sin(0)) && signbit(kvc_double_sin(-0.0)));
    assert_true(kvc_double_cos(0) == 1);
    assert_true(isnan(kvc_double_sin(INFINITY)) && isnan(kvc_double_cos(NAN)) && isnan(kvc_double_cos(1e300)));
}

static void exponential(void **state) {
    (void)state;
    if (!kvc_test_has_long_double())
        skip();
    uint64_t seed = 2;
    for (int i = 0; i < 40000; i++) {
        double x = uniform(&seed, i % 2 ? -1 : -708, i % 2 ? 1 : 709);
        expect(kvc_double_exp(x), expl(x), 1.1, "exp", x);
    }
    assert_true(kvc_double_exp(0) == 1 && kvc_double_exp(-0.0) == 1);
    assert_true(kvc_double_exp(1000) == INFINITY && kvc_double_exp(-1000) == 0 && isnan(kvc_double_exp(NAN)));
    assert_true(kvc_double_exp(-745) == 0x1p-1074);
}

static void logarithm(void **state) {
    (void)state;
    if (!kvc_test_has_long_double())
        skip();
    uint64_t seed = 3;
    for (int i = 0; i < 40000; i++) {
        double x = i % 2 ? uniform(&seed, 0.5, 2) : ldexp(uniform(&seed, 0.5, 1), (int)(next(&seed) % 2000) - 1000);
        expect(kvc_double_log(x), logl(x), 1.1, "log", x);
    }
    assert_true(kvc_double_log(1) == 0 && kvc_double_log(0) == -INFINITY && isnan(kvc_double_log(-1)));
    assert_true(kvc_double_log(INFINITY) == INFINITY && isnan(kvc_double_log(NAN)));
}

static void power(void **state) {
    (void)state;
    if (!kvc_test_has_long_double())
        skip();
    uint64_t seed = 4;
    for (int i = 0; i < 40000; i++) {
        double x = uniform(&seed, 0, i % 2 ? 2 : 1e7), y = uniform(&seed, -4, 4);
        expect(kvc_double_pow(x, y), powl(x, y), 1.1, "pow", x);
    }
    static const double bases[] = {10000, 500000, 1e6, 32768, 8e6};
    for (size_t b = 0; b < sizeof bases / sizeof *bases; b++) /* rotary frequencies */
        for (int d = 2; d <= 256; d += 2)
            for (int i = 0; i < d; i += 2) {
                float y = (float)i / (float)d;
                expect(kvc_double_pow(bases[b], y), powl(bases[b], y), 1.1, "pow", y);
            }
    assert_true(kvc_double_pow(3, 4) == 81 && kvc_double_pow(2, -3) == 0.125 && kvc_double_pow(7, 0) == 1);
    assert_true(kvc_double_pow(0, 2) == 0 && kvc_double_pow(0, -1) == INFINITY && isnan(kvc_double_pow(-1, 2)));
    assert_true(kvc_double_pow(1e300, 2) == INFINITY && kvc_double_pow(1e300, -2) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sine_and_cosine),
        cmocka_unit_test(exponential),
        cmocka_unit_test(logarithm),
        cmocka_unit_test(power),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
