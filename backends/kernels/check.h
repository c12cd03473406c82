/* check.h - kernels for the self-test of a device: single operations, and sums in loops like those of other kernels.
 *
 * For tests, KVC_LACKS_* makes these kernels compute what a device without a certain feature would compute
 * (KVCULL_OPENCL_LACKS). */

#if defined(KVC_LACKS_fma)
#define KVC_CHECKED_FMA(a, b, c) ((a) * (b) + (c))
#elif defined(KVC_LACKS_denormals)
#define KVC_CHECKED_FMA(a, b, c) kvc_flushed(kvc_fma(a, b, c))
#else
#define KVC_CHECKED_FMA(a, b, c) kvc_fma(a, b, c)
#endif
#if defined(KVC_LACKS_denormals)
KVC_DEVICE float kvc_flushed(float x) { return kvc_bits(x) & 0x7f800000u ? x : 0.0f * x; }
#define KVC_CHECKED_PRODUCT(a, b) kvc_flushed((a) * (b))
#else
#define KVC_CHECKED_PRODUCT(a, b) ((a) * (b))
#endif
#if defined(KVC_LACKS_division) && !defined(KVC_CORRECTED)
#define KVC_CHECKED_DIV(a, b) ((a)*kvc_div(1.0f, b))
#else
#define KVC_CHECKED_DIV(a, b) kvc_div(a, b)
#endif

/* Computes from in [n, 3] the values out [n, 6]: a * b + c in two roundings, fma(a, b, c), a * b, exp(a), a / b,
 * sqrt(a). */
KVC_KERNEL(check)(KVC_SPAN(const float, in), KVC_SPAN(float, out), kvc_u32 n) {
    KVC_OPEN(const float, in);
    KVC_OPEN(float, out);
    kvc_u64 i = KVC_GLOBAL_ID();
    float a, b, c, product;
    if (i >= n)
        return;
    a = in[3 * i];
    b = in[3 * i + 1];
    c = in[3 * i + 2];
    product = KVC_CHECKED_PRODUCT(a, b);
    out[6 * i] = product + c;
    out[6 * i + 1] = KVC_CHECKED_FMA(a, b, c);
    out[6 * i + 2] = product;
    out[6 * i + 3] = kvc_exp(a);
    out[6 * i + 4] = KVC_CHECKED_DIV(a, b);
    out[6 * i + 5] = kvc_sqrt(a);
}

/* Returns the sum of x[i * step] for i < n, ascending. */
KVC_DEVICE float kvc_sum_of(KVC_GLOBAL const float *x, kvc_u64 n, kvc_u64 step) {
    float sum = 0.0f, one = KVC_ONE(n);
#if defined(KVC_LACKS_order)
    float other = 0.0f;
    for (kvc_u64 i = 1; i < n; i += 2)
        other = kvc_plus(other, x[i * step], one);
    for (kvc_u64 i = 0; i < n; i += 2)
        sum = kvc_plus(sum, x[i * step], one);
    return sum + other;
#else
    for (kvc_u64 i = 0; i < n; i++)
        sum = kvc_plus(sum, x[i * step], one);
    return sum;
#endif
}

/* x is [n + length]. Writes to out [n] the sums of windows of x, as pool computes them. */
KVC_KERNEL(check_windows)(KVC_SPAN(const float, x), KVC_SPAN(float, out), kvc_u32 n, kvc_u32 length) {
    KVC_EACH_OF_RUN(i, n)
    out_buffer[out_offset + i] = kvc_sum_of(x_buffer + x_offset + i, length, 1);
}

/* Grid: (n). out is [n, 4]. Group i starts at x[i] and computes the sum of `length` values, the sum of every fourth of
 * them, the sum of products of neighbours, and dot32 of `length` / 2 values with the values that follow them. */
KVC_GROUP_KERNEL(check_sums)(KVC_SPAN(const float, x), KVC_SPAN(float, out), kvc_u32 length) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS];
    kvc_u32 i = KVC_GROUP_ID(0);
    KVC_GLOBAL const float *x = x_buffer + x_offset + i;
    KVC_GLOBAL float *to = out_buffer + out_offset + 4 * (kvc_u64)i;
    float dot = kvc_dot_floats(x, x + length / 2, length / 2, shared_sum);
    if (KVC_LOCAL_ID() == 0) {
        float sum = 0.0f;
        for (kvc_u32 k = 0; k < length; k++)
            sum = kvc_fma(x[k], x[k + 1], sum);
        to[0] = kvc_sum_of(x, length, 1);
        to[1] = kvc_sum_of(x, length / 4, 4);
        to[2] = sum;
        to[3] = dot;
    }
}
