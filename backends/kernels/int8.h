/* int8.h - linear layers with 8-bit activations: quantize_rows, linear_int8, expert_linear_int8. For few rows, a GPU
 * computes each output with a team of eight work-items, one lane each; on a CPU one work-item computes the lanes of an
 * output one after another. For many rows on GPUs, a group computes a tile of rows and outputs through local memory. */

/* A work-item quantizes a block of 32 values. */
KVC_KERNEL(quantize_rows)
(KVC_SPAN(kvc_u32, quant), KVC_SPAN(float, scale), KVC_SPAN(kvc_i32, sum), KVC_SPAN(const float, x), kvc_u64 blocks) {
    const kvc_u64 b = KVC_GLOBAL_ID();
    KVC_GLOBAL const float *x = x_buffer + x_offset + b * 32;
    KVC_GLOBAL kvc_i8 *quant = (KVC_GLOBAL kvc_i8 *)(quant_buffer + quant_offset) + b * 32;
    kvc_u32 top = 0;
    float inverse, value[32];
    if (b >= blocks)
        return;
    for (kvc_u32 i = 0; i < 32; i++) /* all loads precede the first store, so that a GPU has them in flight together */
        value[i] = x[i];
    for (kvc_u32 i = 0; i < 32; i++)
        top = kvc_int8_top(top, value[i]);
    inverse = kvc_int8_inverse(top);
    scale_buffer[scale_offset + b] = kvc_int8_scale(top);
    for (kvc_u32 half_block = 0; half_block < 2; half_block++) {
        kvc_i32 total = 0;
        for (kvc_u32 i = half_block * 16; i < half_block * 16 + 16; i++) {
            const kvc_i8 q = kvc_int8_quant(value[i], inverse);
            quant[i] = q;
            total += q;
        }
        sum_buffer[sum_offset + b * 2 + half_block] = total;
    }
}

/* Computes lane l of one output for rows x .. x + here - 1, from the blocks l, l + 8, .. of each row. A row has
 * `blocks` blocks. */
#define KVC_INT8_LANE(a, NAME, name, gguf, elements, bytes, at, scales, wide, holds)                                   \
    KVC_DEVICE void kvc_int8_lane_##name(float *lane, kvc_u32 l, kvc_bytes w, KVC_GLOBAL const kvc_u32 *quant,         \
                                         KVC_GLOBAL const float *scale, KVC_GLOBAL const kvc_i32 *sum, kvc_u64 blocks, \
                                         kvc_u32 here) {                                                               \
        for (kvc_u32 r = 0; r < here; r++)                                                                             \
            lane[r] = 0.0f;                                                                                            \
        for (kvc_u64 b = l; b < blocks; b += KVC_INT8_LANES) {                                                         \
            const struct kvc_half_weights first = kvc_half_weights_##name(w, b, 0),                                    \
                                          second = kvc_half_weights_##name(w, b, 1);                                   \
            for (kvc_u32 r = 0; r < here; r++) {                                                                       \
                const kvc_u64 at_block = r * blocks + b;                                                               \
                const struct kvc_half x0 = kvc_half_load(quant + at_block * 8),                                        \
                                      x1 = kvc_half_load(quant + at_block * 8 + 4);                                    \
                const float x = scale[at_block];                                                                       \
                if (KVC_INT8_WIDTH_##NAME == 32) {                                                                     \
                    lane[r] = kvc_int8_add(first.scale, x, kvc_block_dot(first.half_block, x0, second.half_block, x1), \
                                           lane[r]);                                                                   \
                    if (KVC_INT8_HAS_MIN_##NAME)                                                                       \
                        lane[r] = kvc_int8_take(first.minimum, x, sum[at_block * 2] + sum[at_block * 2 + 1], lane[r]); \
                } else {                                                                                               \
                    lane[r] = kvc_int8_add(first.scale, x, kvc_half_dot(first.half_block, x0), lane[r]);               \
                    if (KVC_INT8_HAS_MIN_##NAME)                                                                       \
                        lane[r] = kvc_int8_take(first.minimum, x, sum[at_block * 2], lane[r]);                         \
                    lane[r] = kvc_int8_add(second.scale, x, kvc_half_dot(second.half_block, x1), lane[r]);             \
                    if (KVC_INT8_HAS_MIN_##NAME)                                                                       \
                        lane[r] = kvc_int8_take(second.minimum, x, sum[at_block * 2 + 1], lane[r]);                    \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
KVC_BLOCK_TYPES(KVC_INT8_LANE, )

#define KVC_INT8_LANE_CASE(a, NAME, name, gguf, elements, bytes, at, scales, wide, holds)                              \
    case KVC_K_##NAME:                                                                                                 \
        kvc_int8_lane_##name(lane, l, w, quant, scale, sum, blocks, here);                                             \
        break;
KVC_DEVICE void kvc_int8_lane(float *lane, kvc_u32 type, kvc_u32 l, kvc_bytes w, KVC_GLOBAL const kvc_u32 *quant,
                              KVC_GLOBAL const float *scale, KVC_GLOBAL const kvc_i32 *sum, kvc_u64 blocks,
                              kvc_u32 here) {
    switch (type) { KVC_BLOCK_TYPES(KVC_INT8_LANE_CASE, ) }
}

/* w holds rows first_row .. first_row + count - 1 of the matrix, or of all experts' matrices, one below the other. */
#define KVC_INT8_ARGUMENTS                                                                                             \
    KVC_SPAN(float, y), KVC_SPAN(const kvc_u32, quant), KVC_SPAN(const float, scale), KVC_SPAN(const kvc_i32, sum),    \
        KVC_GLOBAL const kvc_u8 *w, kvc_u64 row_bytes, kvc_u32 type, kvc_u64 blocks, kvc_u64 N, kvc_u64 first_row,     \
        kvc_u64 count, KVC_SPAN(const float, bias)
/* Computes output n of rows row .. row + here - 1 (here <= most) with the weights at row `from` of w. `mine` is false
 * if the output does not exist. On GPUs, work-item l of a team of eight computes lane l of all rows, and then adds up
 * the lanes of row l. */
#if KVC_WORKERS == 1
#define KVC_INT8_TEAMS 1u
#define KVC_INT8_OUTPUT(most, row, here, n, from, bias_at, mine)                                                       \
    do {                                                                                                               \
        float lane[KVC_INT8_LANES][most];                                                                              \
        for (kvc_u32 l = 0; l < KVC_INT8_LANES && (mine); l++)                                                         \
            kvc_int8_lane(lane[l], type, l, w + (from)*row_bytes, quant_buffer + quant_offset + (row)*blocks * 8,      \
                          scale_buffer + scale_offset + (row)*blocks, sum_buffer + sum_offset + (row)*blocks * 2,      \
                          blocks, here);                                                                               \
        for (kvc_u32 r = 0; r < (here) && (mine); r++) {                                                               \
            float of[KVC_INT8_LANES];                                                                                  \
            for (kvc_u32 l = 0; l < KVC_INT8_LANES; l++)                                                               \
                of[l] = lane[l][r];                                                                                    \
            KVC_TREE8(of);                                                                                             \
            y_buffer[y_offset + ((row) + r) * N + (n)] =                                                               \
                bias_buffer ? of[0] + bias_buffer[bias_offset + (bias_at)] : of[0];                                    \
        }                                                                                                              \
    } while (0)
#else
#define KVC_INT8_TEAMS (KVC_GROUP / KVC_INT8_LANES)
#define KVC_INT8_OUTPUT(most, row, here, n, from, bias_at, mine)                                                       \
    do {                                                                                                               \
        const kvc_u32 l = KVC_LOCAL_ID() % KVC_INT8_LANES;                                                             \
        float lane[most], of[KVC_INT8_LANES];                                                                          \
        kvc_int8_lane(lane, type, l, w + ((mine) ? (from) : 0) * row_bytes,                                            \
                      quant_buffer + quant_offset + (row)*blocks * 8, scale_buffer + scale_offset + (row)*blocks,      \
                      sum_buffer + sum_offset + (row)*blocks * 2, blocks, here);                                       \
        for (kvc_u32 r = 0; r < (here); r++)                                                                           \
            lanes[KVC_LOCAL_ID()][r] = lane[r];                                                                        \
        KVC_BARRIER();                                                                                                 \
        if (l < (here) && (mine)) {                                                                                    \
            for (kvc_u32 i = 0; i < KVC_INT8_LANES; i++)                                                               \
                of[i] = lanes[KVC_LOCAL_ID() - l + i][l];                                                              \
            KVC_TREE8(of);                                                                                             \
            y_buffer[y_offset + ((row) + l) * N + (n)] =                                                               \
                bias_buffer ? of[0] + bias_buffer[bias_offset + (bias_at)] : of[0];                                    \
        }                                                                                                              \
    } while (0)
#endif

/* Grid: (blocks of outputs, blocks of rows). */
KVC_GROUP_KERNEL(linear_int8)(KVC_INT8_ARGUMENTS, kvc_u64 rows) {
    const kvc_u64 row = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_ROWS;
    const kvc_u64 n = (kvc_u64)KVC_GROUP_ID(0) * KVC_INT8_TEAMS + KVC_LOCAL_ID() / KVC_INT8_LANES;
    const kvc_u32 here = rows - row < KVC_INT8_ROWS ? (kvc_u32)(rows - row) : KVC_INT8_ROWS;
#if KVC_WORKERS != 1
    KVC_SHARED float lanes[KVC_GROUP][KVC_INT8_ROWS];
#endif
    KVC_INT8_OUTPUT(KVC_INT8_ROWS, row, here, first_row + n, n, first_row + n, n < count);
}

/* Grid: (pairs * across). A group computes a block of outputs of one pair, like expert_linear. Some outputs of the pair
 * may belong to another piece of the weight. */
KVC_GROUP_KERNEL(expert_linear_int8)
(KVC_INT8_ARGUMENTS, KVC_SPAN(const kvc_u32, first), kvc_u32 experts, kvc_u32 across) {
    const kvc_u32 pair = KVC_GROUP_ID(0) / across, block = KVC_GROUP_ID(0) % across;
    const kvc_u32 e = kvc_expert_of(first_buffer + first_offset, experts, pair);
    const kvc_u32 before = pair - first_buffer[first_offset + e];
    const kvc_u32 after = first_buffer[first_offset + e + 1] - pair,
                  here = after < KVC_INT8_ROWS ? after : KVC_INT8_ROWS;
    const kvc_u64 n = (kvc_u64)block * KVC_INT8_TEAMS + KVC_LOCAL_ID() / KVC_INT8_LANES;
    const kvc_u64 at = (kvc_u64)e * N + n - first_row;
#if KVC_WORKERS != 1
    KVC_SHARED float lanes[KVC_GROUP][KVC_INT8_ROWS];
#endif
    if (before % KVC_INT8_ROWS)
        return;
    KVC_INT8_OUTPUT(KVC_INT8_ROWS, (kvc_u64)pair, here, n, at, (kvc_u64)e * N + n, n < N && at < count);
}

/* ---- many rows ---- */

#if KVC_WORKERS == 1
/* A work-item computes one output, as for few rows, but for more rows in one pass over the weights. */
KVC_GROUP_KERNEL(linear_int8_gemm)(KVC_INT8_ARGUMENTS, kvc_u64 rows) {
    const kvc_u64 row = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_MANY, n = KVC_GROUP_ID(0);
    const kvc_u32 here = rows - row < KVC_INT8_MANY ? (kvc_u32)(rows - row) : KVC_INT8_MANY;
    KVC_INT8_OUTPUT(KVC_INT8_MANY, row, here, first_row + n, n, first_row + n, n < count);
}
#else
/* Lanes are computed in bit-reversed order, so that the tree adds neighbours, as in the kernel `product`. */
#define KVC_REVERSED8(i) ((((i)&1) << 2) | ((i)&2) | (((i)&4) >> 2))
#define KVC_INT8_TILE KVC_PACK_X_OF(KVC_GROUP) /* rows of a tile */

/* A group computes KVC_INT8_TILE rows x 64 outputs. A work-item computes 4 x 4 of them: rows 4a .. 4a + 3, outputs b, b
 * + 16, b + 32, b + 48. Local memory holds one block of 32 values of each row and output at a time, as words of four
 * values. */
KVC_GROUP_KERNEL(linear_int8_gemm)(KVC_INT8_ARGUMENTS, kvc_u64 rows) {
    KVC_SHARED kvc_u32 x_word[8][KVC_INT8_TILE], w_word[8][64];
    KVC_SHARED float x_scale[KVC_INT8_TILE], w_scale[2][64], w_minimum[2][64];
    KVC_SHARED kvc_i32 x_sum[2][KVC_INT8_TILE];
    const kvc_u64 n0 = (kvc_u64)KVC_GROUP_ID(0) * 64, row0 = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_TILE;
    const kvc_u32 id = KVC_LOCAL_ID(), ra = id / 16 * 4, nb = id % 16;
    const bool narrow = kvc_int8_narrow(type), has_minimum = kvc_int8_has_minimum(type);
    const float one = KVC_ONE(blocks);
    float stack[3][4][4], sum[4][4];
    for (kvc_u32 i = 0; i < KVC_INT8_LANES; i++) {
        kvc_u32 depth = 0;
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++)
                sum[r][c] = 0.0f;
        for (kvc_u64 b = KVC_REVERSED8(i); b < blocks; b += KVC_INT8_LANES) {
            kvc_i32 total[4][4];
            KVC_BARRIER();
            for (kvc_u32 j = id; j < 128; j += KVC_GROUP) { /* missing outputs repeat the last one */
                const kvc_u32 n = j / 2, h = j % 2;
                const struct kvc_half_weights p =
                    kvc_half_weights_of(type, w + (n0 + n < count ? n0 + n : count - 1) * row_bytes, b, h);
                for (kvc_u32 k = 0; k < 4; k++)
                    w_word[4 * h + k][n] = p.half_block.word[k];
                w_scale[h][n] = p.scale;
                w_minimum[h][n] = p.minimum;
            }
            for (kvc_u32 j = id; j < KVC_INT8_TILE * 2; j += KVC_GROUP) {
                const kvc_u32 r = j / 2, h = j % 2;
                const kvc_u64 at = (row0 + r < rows ? row0 + r : rows - 1) * blocks + b;
                const struct kvc_half x = kvc_half_load(quant_buffer + quant_offset + at * 8 + 4 * h);
                for (kvc_u32 k = 0; k < 4; k++)
                    x_word[4 * h + k][r] = x.word[k];
                x_scale[r] = scale_buffer[scale_offset + at];
                x_sum[h][r] = sum_buffer[sum_offset + at * 2 + h];
            }
            KVC_BARRIER();
            for (kvc_u32 h = 0; h < 2; h++) {
                for (int r = 0; r < 4; r++)
                    for (int c = 0; c < 4 && (h == 0 || narrow); c++)
                        total[r][c] = 0;
                for (kvc_u32 k = 4 * h; k < 4 * h + 4; k++)
                    for (int r = 0; r < 4; r++)
                        for (int c = 0; c < 4; c++)
                            total[r][c] = kvc_dot4(x_word[k][ra + r], w_word[k][nb + 16 * c], total[r][c]);
                if (h == 0 && !narrow)
                    continue;
                for (int r = 0; r < 4; r++)
                    for (int c = 0; c < 4; c++) {
                        const float x = x_scale[ra + r];
                        sum[r][c] = kvc_int8_add(w_scale[h][nb + 16 * c], x, total[r][c], sum[r][c]);
                        if (has_minimum)
                            sum[r][c] = kvc_int8_take(w_minimum[h][nb + 16 * c], x,
                                                      narrow ? x_sum[h][ra + r] : x_sum[0][ra + r] + x_sum[1][ra + r],
                                                      sum[r][c]);
                    }
            }
        }
        for (; i >> depth & 1; depth++)
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++)
                    sum[r][c] = kvc_plus(sum[r][c], stack[depth][r][c], one);
        for (int r = 0; r < 4 && depth < 3; r++)
            for (int c = 0; c < 4; c++)
                stack[depth][r][c] = sum[r][c];
    }
    for (kvc_u32 r = 0; r < 4 && row0 + ra + r < rows; r++)
        for (kvc_u32 c = 0; c < 4; c++) {
            const kvc_u64 n = n0 + nb + 16 * c;
            if (n < count)
                y_buffer[y_offset + (row0 + ra + r) * N + first_row + n] =
                    bias_buffer ? sum[r][c] + bias_buffer[bias_offset + first_row + n] : sum[r][c];
        }
}
#endif
