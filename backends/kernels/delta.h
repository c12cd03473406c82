/* delta.h - gated delta nets: convolve, delta_rule. A work-item computes one channel, or one row of a head's matrix,
 * for the rows of one session. These kernels are correct on every device but optimized for none. */

/* x points to the segment's first row. `kept` is [taps - 1, channels]. */
KVC_KERNEL(convolve)
(KVC_SPAN(float, kept), KVC_SPAN(float, y), KVC_SPAN(const float, x), KVC_SPAN(const float, w), kvc_u32 channels,
 kvc_u32 taps, kvc_u32 rows) {
    const kvc_u64 c = KVC_GLOBAL_ID();
    float seen[KVC_DELTA_TAPS_MOST]; /* the last taps - 1 inputs, the oldest first */
    KVC_GLOBAL float *state = kept_buffer + kept_offset + c;
    KVC_GLOBAL const float *weights = w_buffer + w_offset + c * taps;
    if (c >= channels)
        return;
    for (kvc_u32 t = 0; t + 1 < taps; t++)
        seen[t] = state[(kvc_u64)t * channels];
    for (kvc_u32 i = 0; i < rows; i++) {
        float sum = 0.0f;
        seen[taps - 1] = x_buffer[x_offset + (kvc_u64)i * channels + c];
        for (kvc_u32 t = 0; t < taps; t++)
            sum = kvc_fma(seen[t], weights[t], sum);
        for (kvc_u32 t = 0; t + 1 < taps; t++)
            seen[t] = seen[t + 1];
        y_buffer[y_offset + (kvc_u64)i * channels + c] = kvc_silu(sum);
    }
    for (kvc_u32 t = 0; t + 1 < taps; t++)
        state[(kvc_u64)t * channels] = seen[t];
}

/* Returns dot32 of a [n] and b [n]. Computes one lane after another. */
KVC_DEVICE float kvc_delta_dot(KVC_GLOBAL const float *a, KVC_GLOBAL const float *b, kvc_u32 n) {
    float lane[32];
    for (kvc_u32 i = 0; i < 32; i++) {
        lane[i] = 0.0f;
        for (kvc_u32 j = i; j < n; j += 32)
            lane[i] = kvc_fma(a[j], b[j], lane[i]);
    }
    KVC_TREE32(lane);
    return lane[0];
}

/* q, k, v, a, beta and out point to the segment's first row. */
KVC_KERNEL(delta_rule)
(KVC_SPAN(float, state), KVC_SPAN(float, out), KVC_SPAN(const float, q), KVC_SPAN(const float, k),
 KVC_SPAN(const float, v), KVC_SPAN(const float, a), KVC_SPAN(const float, beta), KVC_SPAN(const float, rate),
 KVC_SPAN(const float, bias), kvc_u32 rows, kvc_u32 heads, kvc_u32 key_heads, kvc_u32 value_size, kvc_u32 n,
 kvc_u32 tiled) {
    const kvc_u64 channel = KVC_GLOBAL_ID(), values = (kvc_u64)heads * value_size;
    const kvc_u32 h = (kvc_u32)(channel / value_size);
    const kvc_u32 key_head = tiled ? h % key_heads : h / (heads / key_heads);
    KVC_GLOBAL float *S = state_buffer + state_offset + channel * n;
    if (channel >= values)
        return;
    for (kvc_u32 i = 0; i < rows; i++) {
        const kvc_u64 head = (kvc_u64)i * heads + h, key = ((kvc_u64)i * key_heads + key_head) * n;
        KVC_GLOBAL const float *key_row = k_buffer + k_offset + key;
        const float e =
            kvc_delta_decay(rate_buffer[rate_offset + h], a_buffer[a_offset + head], bias_buffer[bias_offset + h]);
        float u;
        for (kvc_u32 j = 0; j < n; j++)
            S[j] = e * S[j];
        u = (v_buffer[v_offset + i * values + channel] - kvc_delta_dot(S, key_row, n)) *
            kvc_sigmoid(beta_buffer[beta_offset + head]);
        for (kvc_u32 j = 0; j < n; j++)
            S[j] = kvc_fma(key_row[j], u, S[j]);
        out_buffer[out_offset + i * values + channel] = kvc_delta_dot(S, q_buffer + q_offset + key, n);
    }
}
