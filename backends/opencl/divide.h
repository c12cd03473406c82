/* divide.h - correctly rounded division and square root in integer arithmetic, for devices whose own operations are not
 * correctly rounded. Every float is allowed: zeros, denormals, infinities and NaNs too. Must precede
 * core/base/canon.h. */
#ifdef KVC_CORRECTED
#define KVC_OPENCL_DIV(a, b) kvc_corrected_div(a, b)
#define KVC_OPENCL_SQRT(a) kvc_corrected_sqrt(a)

/* Returns significand * 2^exponent, rounded to nearest even. The significand is below 2^31. Its lowest bit is set if
 * any lower bit of the exact value is set. */
static inline uint kvc_rounded(uint significand, int exponent) {
    int top = 31 - clz(significand), drop = top - 23; /* number of bits to drop */
    uint kept, half_bit, rest;
    if (exponent + drop < -149) /* the result is denormal, so its unit is 2^-149 */
        drop = -149 - exponent;
    if (drop > 31)
        return 0;
    if (drop > 0) {
        kept = significand >> drop;
        rest = significand & ((1u << drop) - 1);
        half_bit = 1u << (drop - 1);
        if (rest > half_bit || (rest == half_bit && (kept & 1)))
            kept++;
    } else {
        kept = significand << -drop;
    }
    exponent += drop;
    if (kept == 1u << 24) {
        kept >>= 1;
        exponent++;
    }
    if (kept < 1u << 23) /* the result is denormal */
        return kept;
    if (exponent > 104)
        return 0x7f800000u;
    return (kept & 0x7fffffu) | (uint)(exponent + 150) << 23;
}

/* Writes the significand of |x| with its bit 23 set, and returns the exponent: |x| = *significand * 2^exponent. x is
 * finite and not 0. */
static inline int kvc_exponent(uint bits, uint *significand) {
    uint fraction = bits & 0x7fffffu;
    int exponent = (int)(bits >> 23 & 255), shift;
    if (exponent) {
        *significand = fraction | 0x800000u;
        return exponent - 150;
    }
    shift = (int)clz(fraction) - 8;
    *significand = fraction << shift;
    return -149 - shift;
}

static inline float kvc_corrected_div(float a, float b) {
    uint x = as_uint(a), y = as_uint(b), sign = (x ^ y) & 0x80000000u, m, n;
    int e;
    ulong quotient;
    x &= 0x7fffffffu;
    y &= 0x7fffffffu;
    if (x > 0x7f800000u || y > 0x7f800000u || (x == 0x7f800000u && y == 0x7f800000u) || (x == 0 && y == 0))
        return as_float(0x7fc00000u);
    if (x == 0x7f800000u || y == 0)
        return as_float(sign | 0x7f800000u);
    if (x == 0 || y == 0x7f800000u)
        return as_float(sign);
    e = kvc_exponent(x, &m);
    e -= kvc_exponent(y, &n);
    quotient = ((ulong)m << 27) / n; /* 2^26 < quotient < 2^28 */
    quotient |= quotient * n != (ulong)m << 27;
    return as_float(sign | kvc_rounded((uint)quotient, e - 27));
}

static inline float kvc_corrected_sqrt(float a) {
    uint x = as_uint(a), m;
    int e;
    ulong square, root;
    if ((x & 0x7fffffffu) == 0)
        return a;
    if (x > 0x7f800000u)
        return as_float(0x7fc00000u);
    if (x == 0x7f800000u)
        return a;
    e = kvc_exponent(x, &m);
    square = (ulong)m << 28; /* 2^51 to 2^52, or 2^52 to 2^53 if the exponent is odd */
    e -= 28;
    if (e & 1) {
        square <<= 1;
        e--;
    }
    root = (ulong)sqrt((float)square); /* approximate; between 2^25.5 and 2^26.5 */
    while (root * root > square)
        root--;
    while ((root + 1) * (root + 1) <= square)
        root++;
    root = root << 1 | (root * root != square);
    return as_float(kvc_rounded((uint)root, e / 2 - 1));
}
#endif
