/* rows.h - operations on rows of values: embed, norm, rope, gated_silu, add, gather, zero. */

/* table: rows first..first+count-1 of the matrix, row_bytes each; tokens outside are another piece's. */
KVC_KERNEL(embed)(KVC_SPAN(float, out), KVC_GLOBAL const kvc_u8 *table, kvc_u64 first, kvc_u64 count, kvc_u64 row_bytes,
                  kvc_u32 type, kvc_u64 K, KVC_SPAN(const kvc_i32, tokens), kvc_u32 rows) {
    KVC_OPEN(float, out);
    KVC_OPEN(const kvc_i32, tokens);
    kvc_u64 i = KVC_GLOBAL_ID(), row = i / K, token;
    if (row >= rows)
        return;
    token = (kvc_u64)tokens[row] - first;
    if (token < count)
        out[i] = kvc_weight_value(type, table + token * row_bytes, i % K);
}

/* out [rows, K] = matrix rows first..first+rows-1, widened. */
KVC_KERNEL(widen)(KVC_SPAN(float, out), KVC_GLOBAL const kvc_u8 *w, kvc_u64 row_bytes, kvc_u32 type, kvc_u64 K,
                  kvc_u64 first, kvc_u64 rows) {
    kvc_u64 i = KVC_GLOBAL_ID();
    if (i < rows * K)
        out_buffer[out_offset + i] = kvc_weight_value(type, w + (first + i / K) * row_bytes, i % K);
}

KVC_KERNEL(add_bias)(KVC_SPAN(float, y), KVC_SPAN(const float, bias), kvc_u64 N, kvc_u64 n) {
    kvc_u64 i = KVC_GLOBAL_ID();
    if (i < n)
        y_buffer[y_offset + i] = y_buffer[y_offset + i] + bias_buffer[bias_offset + i % N];
}

/* A group a row. */
KVC_GROUP_KERNEL(norm)(KVC_SPAN(float, y), KVC_SPAN(const float, x), KVC_SPAN(const float, w), kvc_u32 K, float eps) {
    KVC_SHARED float room[KVC_SUM_ROOM];
    KVC_OPEN(const float, w);
    KVC_GLOBAL const float *x = x_buffer + x_offset + (kvc_u64)KVC_GROUP_ID(0) * K;
    KVC_GLOBAL float *y = y_buffer + y_offset + (kvc_u64)KVC_GROUP_ID(0) * K;
    float sum = kvc_dot_floats(x, x, K, room); /* every team computes it; so that none waits for another */
    float r = kvc_div(1.0f, kvc_sqrt(kvc_div(sum, (float)K) + eps));
    KVC_BARRIER(); /* y may be x */
    for (kvc_u32 k = KVC_LOCAL_ID(); k < K; k += KVC_GROUP)
        y[k] = (x[k] * r) * w[k];
}

/* A work-item a pair of channels, or two channels behind the rotary ones. */
KVC_KERNEL(rope)(KVC_SPAN(float, y), KVC_SPAN(const float, x), KVC_SPAN(const float, cosine),
                 KVC_SPAN(const float, sine), kvc_u32 rows, kvc_u32 heads, kvc_u32 d, kvc_u32 rotary,
                 kvc_u32 interleaved) {
    kvc_u32 pairs = (d + 1) / 2, half_size = rotary / 2;
    kvc_u64 id = KVC_GLOBAL_ID(), at = id / pairs * d, row = id / pairs / heads;
    kvc_u32 i = (kvc_u32)(id % pairs);
    KVC_GLOBAL const float *x = x_buffer + x_offset + at;
    KVC_GLOBAL float *y = y_buffer + y_offset + at;
    if (row >= rows)
        return;
    if (i < half_size) {
        float c = cosine_buffer[cosine_offset + row * half_size + i];
        float s = sine_buffer[sine_offset + row * half_size + i];
        float x0 = interleaved ? x[2 * i] : x[i], x1 = interleaved ? x[2 * i + 1] : x[i + half_size];
        y[i] = kvc_fma(-x1, s, x0 * c);
        y[i + half_size] = kvc_fma(x0, s, x1 * c);
        return;
    }
    y[2 * i] = x[2 * i];
    if (2 * i + 1 < d)
        y[2 * i + 1] = x[2 * i + 1];
}

KVC_KERNEL(gated_silu)(KVC_SPAN(float, y), KVC_SPAN(const float, gate), KVC_SPAN(const float, up), kvc_u64 n) {
    kvc_u64 i = KVC_GLOBAL_ID();
    if (i < n)
        y_buffer[y_offset + i] = kvc_silu(gate_buffer[gate_offset + i]) * up_buffer[up_offset + i];
}

KVC_KERNEL(add)(KVC_SPAN(float, y), KVC_SPAN(const float, x), kvc_u64 n) {
    kvc_u64 i = KVC_GLOBAL_ID();
    if (i < n)
        y_buffer[y_offset + i] = y_buffer[y_offset + i] + x_buffer[x_offset + i];
}

KVC_KERNEL(blend)(KVC_SPAN(float, y), KVC_SPAN(const float, x), float share, float rest, kvc_u64 n) {
    kvc_u64 i = KVC_GLOBAL_ID();
    if (i < n)
        y_buffer[y_offset + i] = kvc_fma(share, y_buffer[y_offset + i], rest * x_buffer[x_offset + i]);
}

/* A work-item a value of out [rows, heads, copies, d]. */
KVC_KERNEL(repeat_heads)(KVC_SPAN(float, out), KVC_SPAN(const float, x), kvc_u64 n, kvc_u32 copies, kvc_u32 d) {
    kvc_u64 i = KVC_GLOBAL_ID();
    if (i < n)
        out_buffer[out_offset + i] = x_buffer[x_offset + i / d / copies * d + i % d];
}

KVC_KERNEL(gather)(KVC_SPAN(float, out), KVC_SPAN(const float, x), KVC_SPAN(const kvc_u32, index), kvc_u32 rows,
                   kvc_u32 width) {
    kvc_u64 i = KVC_GLOBAL_ID(), row = i / width;
    if (row < rows)
        out_buffer[out_offset + i] = x_buffer[x_offset + (kvc_u64)index_buffer[index_offset + row] * width + i % width];
}
