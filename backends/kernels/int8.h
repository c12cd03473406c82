/* int8.h - linear layers of activations in eight bits: quantize_rows, linear_int8, expert_linear_int8. A work-item an
 * output, with integers one after another: right everywhere, fast nowhere yet. */

/* A work-item a block of 32. */
KVC_KERNEL(quantize_rows)
(KVC_SPAN(kvc_u32, quant), KVC_SPAN(float, scale), KVC_SPAN(kvc_i32, sum), KVC_SPAN(const float, x), kvc_u64 blocks) {
    const kvc_u64 b = KVC_GLOBAL_ID();
    KVC_GLOBAL const float *x = x_buffer + x_offset + b * 32;
    KVC_GLOBAL kvc_i8 *quant = (KVC_GLOBAL kvc_i8 *)(quant_buffer + quant_offset) + b * 32;
    kvc_u32 top = 0;
    float inverse;
    if (b >= blocks)
        return;
    for (kvc_u32 i = 0; i < 32; i++)
        top = kvc_int8_top(top, x[i]);
    inverse = kvc_int8_inverse(top);
    scale_buffer[scale_offset + b] = kvc_int8_scale(top);
    for (kvc_u32 half_block = 0; half_block < 2; half_block++) {
        kvc_i32 total = 0;
        for (kvc_u32 i = half_block * 16; i < half_block * 16 + 16; i++) {
            quant[i] = kvc_int8_quant(x[i], inverse);
            total += quant[i];
        }
        sum_buffer[sum_offset + b * 2 + half_block] = total;
    }
}

/* One row of weights times one of activations. `pieces` of a block of 32: 1, or 2 where 16 quants have a scale. */
#define KVC_INT8_DOT(a, NAME, name, gguf, elements, bytes, at, scales, wide, holds)                                    \
    KVC_DEVICE float kvc_int8_dot_##name(KVC_GLOBAL const kvc_u8 *w, KVC_GLOBAL const kvc_i8 *quant,                   \
                                         KVC_GLOBAL const float *scale, KVC_GLOBAL const kvc_i32 *sum,                 \
                                         kvc_u64 blocks) {                                                             \
        KVC_GLOBAL const struct kvc_block_##name *rows = (KVC_GLOBAL const struct kvc_block_##name *)w;                \
        const kvc_u32 pieces = 32 / KVC_INT8_WIDTH_##NAME;                                                             \
        float lane[KVC_INT8_LANES];                                                                                    \
        for (kvc_u32 l = 0; l < KVC_INT8_LANES; l++)                                                                   \
            lane[l] = 0.0f;                                                                                            \
        for (kvc_u64 b0 = 0; b0 < blocks; b0 += KVC_INT8_LANES)                                                        \
            for (kvc_u32 l = 0; l < KVC_INT8_LANES; l++) {                                                             \
                const kvc_u64 b = b0 + l;                                                                              \
                for (kvc_u32 piece = 0; piece < pieces && b < blocks; piece++) {                                       \
                    const kvc_u32 first = (kvc_u32)(b * 32 % (elements)) + piece * KVC_INT8_WIDTH_##NAME;              \
                    const kvc_u32 s = first / KVC_INT8_WIDTH_##NAME;                                                   \
                    KVC_GLOBAL const struct kvc_block_##name *from = rows + b * 32 / (elements);                       \
                    kvc_i32 total = 0;                                                                                 \
                    for (kvc_u32 i = 0; i < KVC_INT8_WIDTH_##NAME; i++)                                                \
                        total +=                                                                                       \
                            KVC_##NAME##_QUANT(*from, first + i) * quant[b * 32 + piece * KVC_INT8_WIDTH_##NAME + i];  \
                    lane[l] = kvc_int8_add(KVC_INT8_SCALE_##NAME(*from, s), scale[b], total, lane[l]);                 \
                    if (KVC_INT8_HAS_MIN_##NAME)                                                                       \
                        lane[l] =                                                                                      \
                            kvc_int8_take(KVC_INT8_MIN_##NAME(*from, s), scale[b],                                     \
                                          pieces == 2 ? sum[b * 2 + piece] : sum[b * 2] + sum[b * 2 + 1], lane[l]);    \
                    (void)s;                                                                                           \
                }                                                                                                      \
            }                                                                                                          \
        KVC_TREE8(lane);                                                                                               \
        return lane[0];                                                                                                \
    }
KVC_BLOCK_TYPES(KVC_INT8_DOT, )

#define KVC_INT8_CASE(a, NAME, name, ...)                                                                              \
    case KVC_K_##NAME:                                                                                                 \
        return kvc_int8_dot_##name(w, quant, scale, sum, blocks);
KVC_DEVICE float kvc_int8_dot(kvc_u32 type, KVC_GLOBAL const kvc_u8 *w, KVC_GLOBAL const kvc_i8 *quant,
                              KVC_GLOBAL const float *scale, KVC_GLOBAL const kvc_i32 *sum, kvc_u64 blocks) {
    switch (type) { KVC_BLOCK_TYPES(KVC_INT8_CASE, ) }
    return kvc_nan();
}

/* w: rows first_row .. first_row + count - 1 of the matrix; of all experts' matrices, one below the other. */
#define KVC_INT8_ARGUMENTS                                                                                             \
    KVC_SPAN(float, y), KVC_SPAN(const kvc_u32, quant), KVC_SPAN(const float, scale), KVC_SPAN(const kvc_i32, sum),    \
        KVC_GLOBAL const kvc_u8 *w, kvc_u64 row_bytes, kvc_u32 type, kvc_u64 blocks, kvc_u64 N, kvc_u64 first_row,     \
        kvc_u64 count, KVC_SPAN(const float, bias)
#define KVC_INT8_OUTPUT(row, n, at, bias_at)                                                                           \
    do {                                                                                                               \
        const float value = kvc_int8_dot(type, w + ((at)-first_row) * row_bytes,                                       \
                                         (KVC_GLOBAL const kvc_i8 *)(quant_buffer + quant_offset) + (row)*blocks * 32, \
                                         scale_buffer + scale_offset + (row)*blocks,                                   \
                                         sum_buffer + sum_offset + (row)*blocks * 2, blocks);                          \
        y_buffer[y_offset + (row)*N + (n)] = bias_buffer ? value + bias_buffer[bias_offset + (bias_at)] : value;       \
    } while (0)

/* A work-item an output; neighbours have the same row of activations. */
KVC_KERNEL(linear_int8)(KVC_INT8_ARGUMENTS, kvc_u64 rows) {
    const kvc_u64 row = KVC_GLOBAL_ID() / count, n = first_row + KVC_GLOBAL_ID() % count;
    if (row < rows)
        KVC_INT8_OUTPUT(row, n, n, n);
}

/* A work-item an output of a pair; some of the pair's outputs may lie in another piece of the weight. */
KVC_KERNEL(expert_linear_int8)(KVC_INT8_ARGUMENTS, KVC_SPAN(const kvc_u32, first), kvc_u32 experts, kvc_u64 pairs) {
    const kvc_u64 pair = KVC_GLOBAL_ID() / N, n = KVC_GLOBAL_ID() % N;
    if (pair < pairs) {
        const kvc_u64 at = kvc_expert_of(first_buffer + first_offset, experts, (kvc_u32)pair) * N + n;
        if (at >= first_row && at < first_row + count)
            KVC_INT8_OUTPUT(pair, n, at, at);
    }
}
