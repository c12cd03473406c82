/* rows.h - operations on rows of values: embed, norm, rope, gated_silu, add, blend, scale, repeat_heads, gather,
 * gate_scores, fma_loop. */

/* Dequantizes the run of a weight row that begins at element k. */
KVC_DEVICE void kvc_dequantize_run(KVC_GLOBAL float *to, kvc_u32 type, KVC_GLOBAL const kvc_u8 *row, kvc_u64 k,
                                   kvc_u64 K) {
#if KVC_WORKERS == 1
    if (K - k >= KVC_RUN) {
        struct kvc_lanes p = kvc_lanes_weight(type, row, k, 0);
        vstore16(p.low, 0, to);
        vstore16(p.high, 1, to);
        return;
    }
#endif
    for (kvc_u32 i = 0; i < KVC_RUN && k + i < K; i++)
        to[i] = kvc_dequantize_weight(type, row, k + i);
}
KVC_DEVICE void kvc_copy_floats(KVC_GLOBAL float *to, KVC_GLOBAL const float *from, kvc_u64 n) {
    kvc_u64 i = 0;
#if KVC_WORKERS == 1
    for (; i + 16 <= n; i += 16)
        vstore16(vload16(0, from + i), 0, to + i);
#endif
    for (; i < n; i++)
        to[i] = from[i];
}

/* `table` holds rows first .. first + count - 1 of the matrix, row_bytes each. If a token's row is in another piece of
 * the matrix, the kernel skips the token. A work-item writes one run of a row. */
KVC_KERNEL(embed)
(KVC_SPAN(float, out), KVC_GLOBAL const kvc_u8 *table, kvc_u64 first, kvc_u64 count, kvc_u64 row_bytes, kvc_u32 type,
 kvc_u64 K, KVC_SPAN(const kvc_i32, tokens), kvc_u32 rows) {
    KVC_OPEN(float, out);
    KVC_OPEN(const kvc_i32, tokens);
    kvc_u64 runs = (K + KVC_RUN - 1) / KVC_RUN, row = KVC_GLOBAL_ID() / runs, k = KVC_GLOBAL_ID() % runs * KVC_RUN;
    kvc_u64 token;
    if (row >= rows)
        return;
    token = (kvc_u64)tokens[row] - first;
    if (token < count)
        kvc_dequantize_run(out + row * K + k, type, table + token * row_bytes, k, K);
}

/* Writes the matrix rows first .. first + rows - 1, dequantized, to out [rows, K]. A work-item writes one run of a
 * row. */
KVC_KERNEL(dequantize)
(KVC_SPAN(float, out), KVC_GLOBAL const kvc_u8 *w, kvc_u64 row_bytes, kvc_u32 type, kvc_u64 K, kvc_u64 first,
 kvc_u64 rows) {
    kvc_u64 runs = (K + KVC_RUN - 1) / KVC_RUN, row = KVC_GLOBAL_ID() / runs, k = KVC_GLOBAL_ID() % runs * KVC_RUN;
    if (row < rows)
        kvc_dequantize_run(out_buffer + out_offset + row * K + k, type, w + (first + row) * row_bytes, k, K);
}

KVC_KERNEL(add_bias)(KVC_SPAN(float, y), KVC_SPAN(const float, bias), kvc_u64 N, kvc_u64 n) {
    kvc_u64 i = KVC_GLOBAL_ID();
    if (i < n)
        y_buffer[y_offset + i] = y_buffer[y_offset + i] + bias_buffer[bias_offset + i % N];
}

/* Grid: (rows). */
KVC_GROUP_KERNEL(norm)
(KVC_SPAN(float, y), KVC_SPAN(const float, x), KVC_SPAN(const float, w), kvc_u32 K, kvc_u32 heads, float eps) {
    KVC_SHARED float lane[KVC_DOT_FLOATS];
    KVC_GLOBAL const float *w = w_buffer + w_offset + (kvc_u64)(KVC_GROUP_ID(0) % heads) * K;
    KVC_GLOBAL const float *x = x_buffer + x_offset + (kvc_u64)KVC_GROUP_ID(0) * K;
    KVC_GLOBAL float *y = y_buffer + y_offset + (kvc_u64)KVC_GROUP_ID(0) * K;
    float r = kvc_div(1.0f, kvc_sqrt(kvc_div(kvc_dot_group(x, x, K, lane), (float)K) + eps));
    KVC_BARRIER(); /* y and x may be the same memory */
    for (kvc_u32 k = KVC_LOCAL_ID(); k < K; k += KVC_GROUP)
        y[k] = (x[k] * r) * w[k];
}

/* Normalizes rows around their mean. Grid: (rows). */
KVC_GROUP_KERNEL(norm_centred)
(KVC_SPAN(float, y), KVC_SPAN(const float, x), KVC_SPAN(const float, w), KVC_SPAN(const float, bias), kvc_u32 K,
 kvc_u32 heads, float eps) {
    KVC_SHARED float shared_sum[KVC_SUM_FLOATS], lane[KVC_DOT_FLOATS];
    kvc_u64 own = (kvc_u64)(KVC_GROUP_ID(0) % heads) * K; /* offset of this row's w and bias */
    KVC_GLOBAL const float *w = w_buffer + w_offset + own;
    KVC_GLOBAL const float *x = x_buffer + x_offset + (kvc_u64)KVC_GROUP_ID(0) * K;
    KVC_GLOBAL float *y = y_buffer + y_offset + (kvc_u64)KVC_GROUP_ID(0) * K;
    float mean = kvc_div(kvc_sum_floats(x, KVC_ONE(K), K, shared_sum), (float)K), r;
    KVC_BARRIER(); /* y and x may be the same memory */
    for (kvc_u32 k = KVC_LOCAL_ID(); k < K; k += KVC_GROUP)
        y[k] = x[k] - mean;
    KVC_BARRIER();
    r = kvc_div(1.0f, kvc_sqrt(kvc_div(kvc_dot_group(y, y, K, lane), (float)K) + eps));
    KVC_BARRIER();
    for (kvc_u32 k = KVC_LOCAL_ID(); k < K; k += KVC_GROUP)
        y[k] = bias_buffer ? kvc_fma(y[k] * r, w[k], bias_buffer[bias_offset + own + k]) : (y[k] * r) * w[k];
}

/* A work-item rotates a pair of channels, or copies two channels after the rotary ones. On CPUs it computes all
 * channels of a head. */
KVC_KERNEL(rope)
(KVC_SPAN(float, y), KVC_SPAN(const float, x), KVC_SPAN(const float, cosine), KVC_SPAN(const float, sine), kvc_u32 rows,
 kvc_u32 heads, kvc_u32 d, kvc_u32 rotary, kvc_u32 interleaved) {
    kvc_u32 pairs = (d + 1) / 2, half_size = rotary / 2, run = KVC_WORKERS == 1 ? pairs : 1;
    kvc_u64 id = KVC_GLOBAL_ID() * run, at = id / pairs * d, row = id / pairs / heads;
    kvc_u32 i = (kvc_u32)(id % pairs), end = i + run;
    KVC_GLOBAL const float *x = x_buffer + x_offset + at;
    KVC_GLOBAL float *y = y_buffer + y_offset + at;
    KVC_GLOBAL const float *cosines = cosine_buffer + cosine_offset + row * half_size;
    KVC_GLOBAL const float *sines = sine_buffer + sine_offset + row * half_size;
    if (row >= rows)
        return;
#if KVC_WORKERS == 1
    for (; i + 16 <= half_size; i += 16) {
        float16 c = vload16(0, cosines + i), s = vload16(0, sines + i);
        float16 a = vload16(0, interleaved ? x + 2 * i : x + i);
        float16 b = vload16(0, interleaved ? x + 2 * i + 16 : x + i + half_size);
        float16 x0 = interleaved ? KVC_EVEN16(a, b) : a, x1 = interleaved ? KVC_ODD16(a, b) : b;
        vstore16(fma(-x1, s, x0 * c), 0, y + i);
        vstore16(fma(x0, s, x1 * c), 0, y + i + half_size);
    }
#endif
    for (; i < end; i++) {
        if (i < half_size) {
            float c = cosines[i], s = sines[i];
            float x0 = interleaved ? x[2 * i] : x[i], x1 = interleaved ? x[2 * i + 1] : x[i + half_size];
            y[i] = kvc_fma(-x1, s, x0 * c);
            y[i + half_size] = kvc_fma(x0, s, x1 * c);
        } else {
            y[2 * i] = x[2 * i];
            if (2 * i + 1 < d)
                y[2 * i + 1] = x[2 * i + 1];
        }
    }
}

/* `activation` is a value of enum kvc_activation. */
KVC_KERNEL(gated_silu)
(KVC_SPAN(float, y), KVC_SPAN(const float, gate), KVC_SPAN(const float, up), kvc_u32 activation, kvc_u64 n) {
    kvc_u64 i = KVC_GLOBAL_ID();
    if (i < n && activation == 2) {
        y_buffer[y_offset + i] = kvc_clamped_silu(gate_buffer[gate_offset + i], up_buffer[up_offset + i]);
    } else if (i < n) {
        float x = gate_buffer[gate_offset + i], a = activation == 1   ? kvc_gelu(x)
                                                    : activation == 3 ? kvc_sigmoid(x)
                                                    : activation == 4 ? kvc_gelu_exact(x)
                                                                      : kvc_silu(x);
        y_buffer[y_offset + i] = up_buffer ? a * up_buffer[up_offset + i] : a;
    }
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

KVC_KERNEL(scale)(KVC_SPAN(float, y), KVC_SPAN(const float, x), float factor, float cap, kvc_u64 n) {
    kvc_u64 i = KVC_GLOBAL_ID();
    if (i < n) {
        float value = x_buffer[x_offset + i] * factor;
        y_buffer[y_offset + i] = cap != 0.0f ? kvc_capped(value, cap) : value;
    }
}

/* Work-items: one per channel of the KV heads, `count` in all. with_queries: 0 if all factors are 1. */
KVC_KERNEL(smooth_factors)
(KVC_SPAN(const float, k), KVC_SPAN(const float, q), KVC_SPAN(float, factors), kvc_u32 rows, kvc_u32 count, kvc_u32 d,
 kvc_u32 group, kvc_u32 with_queries) {
    const kvc_u64 i = KVC_GLOBAL_ID();
    const kvc_u64 from = i / d * group * d + i % d;
    float mean = 0.0f, keys = 0.0f, queries = 0.0f, factor = 1.0f;
    if (i >= count)
        return;
    for (kvc_u32 r = 0; r < rows && with_queries; r++)
        mean += k_buffer[k_offset + (kvc_u64)r * count + i];
    mean = kvc_div(mean, (float)rows);
    for (kvc_u32 r = 0; r < rows && with_queries; r++) {
        const float off = k_buffer[k_offset + (kvc_u64)r * count + i] - mean;
        keys = kvc_fma(off, off, keys);
        for (kvc_u32 j = 0; j < group; j++) {
            const float x = q_buffer[q_offset + (kvc_u64)r * group * count + from + (kvc_u64)j * d];
            queries = kvc_fma(x, x, queries);
        }
    }
    if (with_queries)
        factor = kvc_smooth_factor(keys * (float)group, queries);
    factors_buffer[factors_offset + i] = kvc_div(1.0f, factor);
    factors_buffer[factors_offset + count + i] = factor;
}

/* x has n values, in rows of `width` channels: H heads of d. group is H / H_kv. */
KVC_KERNEL(smooth)
(KVC_SPAN(float, x), KVC_SPAN(const float, factor), kvc_u64 n, kvc_u32 width, kvc_u32 d, kvc_u32 group) {
    const kvc_u64 i = KVC_GLOBAL_ID();
    if (i < n) {
        const kvc_u32 c = (kvc_u32)(i % width);
        x_buffer[x_offset + i] = x_buffer[x_offset + i] * factor_buffer[factor_offset + c / d / group * d + c % d];
    }
}

/* Writes the mean of x's first `rows` rows to centre [width]. */
KVC_KERNEL(mean_row)(KVC_SPAN(float, centre), KVC_SPAN(const float, x), kvc_u32 rows, kvc_u32 width) {
    const kvc_u64 i = KVC_GLOBAL_ID();
    float sum = 0.0f;
    if (i >= width)
        return;
    for (kvc_u32 r = 0; r < rows; r++)
        sum += x_buffer[x_offset + (kvc_u64)r * width + i];
    centre_buffer[centre_offset + i] = kvc_div(sum, (float)rows);
}

/* Replaces the mean in centre by the centre (core/base/ops.def). x is the first key of each head. Work-items:
 * (groups of a head, heads). */
KVC_KERNEL(keep_first)
(KVC_SPAN(float, centre), KVC_SPAN(const float, x), kvc_u32 d, kvc_u32 groups, kvc_u32 count, float half_range) {
    const kvc_u64 item = KVC_GLOBAL_ID();
    const kvc_u32 channel = (kvc_u32)(item % groups) * KVC_ENTRY_GROUP;
    const kvc_u32 n = d - channel < KVC_ENTRY_GROUP ? d - channel : KVC_ENTRY_GROUP;
    float key[KVC_ENTRY_GROUP];
    if (item >= count)
        return;
    x_offset += item / groups * d + channel;
    centre_offset += item / groups * d + channel;
    for (kvc_u32 i = 0; i < n; i++)
        key[i] = x_buffer[x_offset + i] - centre_buffer[centre_offset + i];
    kvc_round_group(key, (int)n, half_range);
    for (kvc_u32 i = 0; i < n; i++)
        centre_buffer[centre_offset + i] = x_buffer[x_offset + i] - key[i];
}

/* Subtracts centre [width] from the rows of x. x has n values. */
KVC_KERNEL(centre)(KVC_SPAN(float, x), KVC_SPAN(const float, centre), kvc_u64 n, kvc_u32 width) {
    const kvc_u64 i = KVC_GLOBAL_ID();
    if (i < n)
        x_buffer[x_offset + i] -= centre_buffer[centre_offset + i % width];
}

/* Transforms `width` channels (core/base/canon.h, kvc_hadamard_width). All work-items of the group must call this
 * function. */
KVC_DEVICE void kvc_transform(KVC_GLOBAL float *part, kvc_u32 width, float factor) {
    for (kvc_u32 step = 1; step < width; step *= 2) {
        for (kvc_u32 pair = KVC_LOCAL_ID(); pair < width / 2; pair += KVC_GROUP) {
            const kvc_u32 i = pair / step * 2 * step + pair % step;
            const float a = part[i], b = part[i + step];
            part[i] = a + b;
            part[i + step] = a - b;
        }
        KVC_BARRIER();
    }
    for (kvc_u32 i = KVC_LOCAL_ID(); i < width; i += KVC_GROUP)
        part[i] = part[i] * factor;
}

/* Grid: (parts of vectors). */
KVC_GROUP_KERNEL(hadamard)(KVC_SPAN(float, x), kvc_u32 width, float factor) {
    kvc_transform(x_buffer + x_offset + (kvc_u64)KVC_GROUP_ID(0) * width, width, factor);
}

/* A work-item copies one value of out [rows, heads, copies, d]; on CPUs, it writes all copies of a head. */
KVC_KERNEL(repeat_heads)(KVC_SPAN(float, out), KVC_SPAN(const float, x), kvc_u64 n, kvc_u32 copies, kvc_u32 d) {
    KVC_OPEN(float, out);
    KVC_OPEN(const float, x);
#if KVC_WORKERS == 1
    kvc_u64 head = KVC_GLOBAL_ID();
    for (kvc_u32 i = 0; i < copies && (head + 1) * copies * d <= n; i++)
        kvc_copy_floats(out + (head * copies + i) * d, x + head * d, d);
#else
    kvc_u64 i = KVC_GLOBAL_ID();
    if (i < n)
        out[i] = x[i / d / copies * d + i % d];
#endif
}

/* A work-item copies KVC_COPIED_OF values of a row. */
KVC_KERNEL(gather)
(KVC_SPAN(float, out), KVC_SPAN(const float, x), KVC_SPAN(const kvc_u32, index), kvc_u32 rows, kvc_u32 width) {
    const kvc_u32 run = KVC_COPIED_OF(KVC_WORKERS), runs = (width + run - 1) / run;
    const kvc_u32 k = (kvc_u32)(KVC_GLOBAL_ID() % runs) * run;
    kvc_u64 row = KVC_GLOBAL_ID() / runs;
    if (row < rows)
        kvc_copy_floats(out_buffer + out_offset + row * width + k,
                        x_buffer + x_offset + (kvc_u64)index_buffer[index_offset + row] * width + k,
                        width - k < run ? width - k : run);
}

KVC_DEVICE float kvc_gate_dot(KVC_GLOBAL const float *x, KVC_GLOBAL const float *y, kvc_u32 n) {
    float sum = 0.0f;
    for (kvc_u32 c = 0; c < n; c++)
        sum = kvc_fma(x[c], y[c], sum);
    return sum;
}

/* A work-item computes the score of a row and a head; n is their number. */
KVC_KERNEL(gate_scores)
(KVC_SPAN(float, scores), KVC_SPAN(const float, q), KVC_SPAN(const float, k), KVC_SPAN(const float, base),
 KVC_SPAN(const float, bias), kvc_u64 n, kvc_u32 kv_heads, kvc_u32 group, kvc_u32 sinks, kvc_u32 channels,
 float scale) {
    kvc_u64 i = KVC_GLOBAL_ID(), h = i % kv_heads;
    float all = 0.0f;
    if (i >= n)
        return;
    for (kvc_u32 g = 0; g < group; g++) {
        KVC_GLOBAL const float *query = q_buffer + q_offset + (i * group + g) * channels;
        float z = kvc_fma(kvc_gate_dot(query, k_buffer + k_offset + i * channels, channels), scale,
                          bias_buffer[bias_offset + h * group + g]);
        float sum = 0.0f;
        for (kvc_u32 s = 0; s < sinks; s++)
            sum = sum +
                  kvc_exp(kvc_fma(kvc_gate_dot(query, base_buffer + base_offset + (h * sinks + s) * channels, channels),
                                  scale, -z));
        all = all + kvc_div(1.0f, 1.0f + sum);
    }
    scores_buffer[scores_offset + i] = kvc_div(all, (float)group);
}

/* Sets x [n] to 0, with non-temporal stores if the compiler has them. x is aligned like a vector. A work-item clears a
 * run of vectors. */
#if KVC_WORKERS == 1 && defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define KVC_CLEAR16(x) __builtin_nontemporal_store((float16)(0.0f), (KVC_GLOBAL float16 *)(x))
#endif
#endif
#ifndef KVC_CLEAR16
#define KVC_CLEAR16(x) vstore16((float16)(0.0f), 0, x)
#endif
KVC_KERNEL(clear)(KVC_SPAN(float, x), kvc_u64 n) {
    KVC_OPEN(float, x);
    kvc_u64 i = KVC_GLOBAL_ID() * KVC_CLEARED_OF(KVC_WORKERS), end = i + KVC_CLEARED_OF(KVC_WORKERS);
    end = end < n ? end : n;
#if KVC_WORKERS == 1
    for (; i + 16 <= end; i += 16)
        KVC_CLEAR16(x + i);
#endif
    for (; i < end; i++)
        x[i] = 0.0f;
}

/* A work-item computes eight independent chains (on CPUs, of vectors), so that no instruction waits for the previous
 * one. */
#if KVC_WORKERS == 1
#define KVC_CHAIN_FMA fma
#define KVC_CHAIN_LOAD(x, i) vload16(i, x)
#define KVC_CHAIN_STORE(v, x, i) vstore16(v, i, x)
typedef float16 kvc_chain;
#else
#define KVC_CHAIN_FMA kvc_fma
#define KVC_CHAIN_LOAD(x, i) (x)[i]
#define KVC_CHAIN_STORE(v, x, i) (x)[i] = (v)
typedef float kvc_chain;
#endif
KVC_KERNEL(fma_loop)(KVC_SPAN(float, x), kvc_u64 n, kvc_u32 rounds) {
    const kvc_chain a = (kvc_chain)(0.999f), b = (kvc_chain)(0.001f);
    kvc_u64 first = KVC_GLOBAL_ID() * KVC_LOOP_OF(KVC_WORKERS);
    KVC_GLOBAL float *x = x_buffer + x_offset + first;
    kvc_chain value[8];
    if (first >= n || rounds == 0)
        return;
    for (int j = 0; j < 8; j++)
        value[j] = KVC_CHAIN_LOAD(x, j);
    for (kvc_u32 r = 0; r < rounds; r++) { /* unrolled by hand, because not every compiler unrolls a loop */
        value[0] = KVC_CHAIN_FMA(value[0], a, b);
        value[1] = KVC_CHAIN_FMA(value[1], a, b);
        value[2] = KVC_CHAIN_FMA(value[2], a, b);
        value[3] = KVC_CHAIN_FMA(value[3], a, b);
        value[4] = KVC_CHAIN_FMA(value[4], a, b);
        value[5] = KVC_CHAIN_FMA(value[5], a, b);
        value[6] = KVC_CHAIN_FMA(value[6], a, b);
        value[7] = KVC_CHAIN_FMA(value[7], a, b);
    }
    for (int j = 0; j < 8; j++)
        KVC_CHAIN_STORE(value[j], x, j);
}
