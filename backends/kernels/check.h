/* check.h - what the host looks at when it opens a device: contraction, fma, division, square root, denormals. */

/* in [n, 3]; out [n, 5]: a * b + c in two roundings, fma(a, b, c), a / b, sqrt(a), a * b. */
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
    product = a * b;
    out[5 * i] = product + c;
    out[5 * i + 1] = kvc_fma(a, b, c);
    out[5 * i + 2] = kvc_div(a, b);
    out[5 * i + 3] = kvc_sqrt(a);
    out[5 * i + 4] = product;
}
