/* trig.c - sine, cosine, exponential, logarithm and power in double, computed from correctly rounded operations only.
 *
 * Each function reduces its argument exactly or to two doubles (high + low), then sums a short Taylor series.
 * Coefficients are quotients of small integers, which the compiler rounds. */
#include "core/base/trig.h"

#include <math.h>

/* pi/2 and ln 2 as sums of doubles, from their binary expansions. LN2_HIGH ends in 21 zero bits, so k * LN2_HIGH is
 * exact for every exponent k. */
static const double PI_HALF[3] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
static const double TWO_OVER_PI = 0x1.45f306dc9c883p-1;
static const double LN2_HIGH = 0x1.62e42feep-1, LN2_LOW = 0x1.a39ef35793c76p-33;
static const double ONE_OVER_LN2 = 0x1.71547652b82fep+0;
static const double SQRT_HALF = 0x1.6a09e667f3bcdp-1;

struct two { /* the unevaluated sum high + low, where |low| is at most half a unit in the last place of high */
    double high, low;
};

static struct two two_sum(double a, double b) {
    double s = a + b, t = s - a;
    return (struct two){s, (a - (s - t)) + (b - t)};
}

static struct two two_product(double a, double b) {
    double p = a * b;
    return (struct two){p, fma(a, b, -p)};
}

/* Returns x - k*pi/2 for the integer k nearest to x / (pi/2). The products are exact, and their sum is kept in two
 * doubles. */
static struct two reduce(double x, unsigned *quadrant) {
    double k = rint(x * TWO_OVER_PI);
    struct two first = two_product(-k, PI_HALF[0]), second = two_product(-k, PI_HALF[1]);
    struct two r = two_sum(x, first.high);
    struct two middle = two_sum(first.low, second.high);
    struct two sum = two_sum(r.high, middle.high);
    double rest = ((r.low + sum.low) + middle.low) + (second.low - k * PI_HALF[2]);
    *quadrant = (unsigned)((long long)k & 3);
    return two_sum(sum.high, rest);
}

/* Taylor series on |r| <= pi/4: the first omitted term is below 2^-63 of the result. */
static double sine_of(struct two r) {
    double x = r.high, z = x * x;
    double p = 1.0 / 355687428096000.0;
    p = fma(p, z, -1.0 / 1307674368000.0);
    p = fma(p, z, 1.0 / 6227020800.0);
    p = fma(p, z, -1.0 / 39916800.0);
    p = fma(p, z, 1.0 / 362880.0);
    p = fma(p, z, -1.0 / 5040.0);
    p = fma(p, z, 1.0 / 120.0);
    p = fma(p, z, -1.0 / 6.0);
    return x + fma(p, z * x, r.low * fma(-0.5, z, 1.0));
}

static double cosine_of(struct two r) {
    double x = r.high, z = x * x;
    double p = -1.0 / 6402373705728000.0;
    p = fma(p, z, 1.0 / 20922789888000.0);
    p = fma(p, z, -1.0 / 87178291200.0);
    p = fma(p, z, 1.0 / 479001600.0);
    p = fma(p, z, -1.0 / 3628800.0);
    p = fma(p, z, 1.0 / 40320.0);
    p = fma(p, z, -1.0 / 720.0);
    p = fma(p, z, 1.0 / 24.0);
    double half = 0.5 * z, one = 1.0 - half;
    return one + (((1.0 - one) - half) + fma(z * z, p, -x * r.low));
}

/* Returns sin(x + quarters * pi/2). */
static double sine_after(double x, unsigned quarters) {
    if (!(fabs(x) <= 0x1p50))
        return NAN;
    if (x == 0 && quarters == 0)
        return x; /* keeps the sign of zero */
    unsigned quadrant;
    struct two r = reduce(x, &quadrant);
    quadrant += quarters;
    double value = quadrant & 1 ? cosine_of(r) : sine_of(r);
    return quadrant & 2 ? -value : value;
}

double kvc_double_sin(double x) { return sine_after(x, 0); }

double kvc_double_cos(double x) { return sine_after(x, 1); }

/* Returns exp(x + low) for |low| far below a unit in the last place of x. */
static double exp_two(double x, double low) {
    if (x > 710)
        return INFINITY;
    if (x < -746)
        return 0;
    double k = rint(x * ONE_OVER_LN2);
    struct two r = two_sum(fma(-k, LN2_HIGH, x), fma(-k, LN2_LOW, low));
    double z = r.high, p = 1.0 / 6227020800.0;
    p = fma(p, z, 1.0 / 479001600.0);
    p = fma(p, z, 1.0 / 39916800.0);
    p = fma(p, z, 1.0 / 3628800.0);
    p = fma(p, z, 1.0 / 362880.0);
    p = fma(p, z, 1.0 / 40320.0);
    p = fma(p, z, 1.0 / 5040.0);
    p = fma(p, z, 1.0 / 720.0);
    p = fma(p, z, 1.0 / 120.0);
    p = fma(p, z, 1.0 / 24.0);
    p = fma(p, z, 1.0 / 6.0);
    p = fma(p, z, 0.5);
    double value = 1.0 + (z + fma(p, z * z, fma(r.low, z, r.low)));
    return ldexp(value, (int)k);
}

double kvc_double_exp(double x) { return x != x ? x : exp_two(x, 0); }

/* Returns the log of a positive finite x: x = m * 2^e, m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s =
 * (m-1)/(m+1). */
static struct two log_two(double x) {
    int e;
    double m = frexp(x, &e);
    if (m < SQRT_HALF) {
        m += m;
        e--;
    }
    double top = m - 1; /* exact */
    struct two bottom = two_sum(m, 1);
    double s = top / bottom.high;
    double s_low = (fma(-s, bottom.high, top) - s * bottom.low) / bottom.high;
    double z = s * s, p = 1.0 / 25.0;
    for (int n = 23; n >= 3; n -= 2)
        p = fma(p, z, 1.0 / n);
    double tail = 2 * fma(s * z, p, s_low);
    struct two a = two_sum(e * LN2_HIGH, 2 * s); /* the product is exact */
    struct two b = two_sum(tail, e * LN2_LOW);
    struct two sum = two_sum(a.high, b.high);
    return two_sum(sum.high, sum.low + (a.low + b.low));
}

double kvc_double_log(double x) {
    if (!(x > 0))
        return x == 0 ? -INFINITY : NAN;
    if (x == INFINITY)
        return x;
    return log_two(x).high;
}

double kvc_double_pow(double x, double y) {
    if (y == 0 || x == 1)
        return 1;
    if (!(x >= 0) || y != y)
        return NAN;
    if (x == 0 || x == INFINITY)
        return (x == 0) == (y < 0) ? INFINITY : 0;
    struct two l = log_two(x);
    struct two product = two_product(y, l.high);
    if (!(fabs(product.high) < 1000))
        return product.high > 0 ? INFINITY : 0;
    return exp_two(product.high, fma(y, l.low, product.low));
}
