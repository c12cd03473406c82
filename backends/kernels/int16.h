/* int16.h - linear layers with activations and weights of fourteen bits: quantize_rows_int16, linear_int16,
 * expert_linear_int16. The work is divided as in int8.h. A work-item that needs a block of weights quantizes it; with
 * many rows a group shares the block. */

/* Reads 32 weights as floats and quantizes them. Returns their scale. */
KVC_DEVICE float kvc_int16_weights(kvc_i16 *quant, kvc_u32 type, kvc_bytes w, kvc_u64 block) {
    float value[KVC_INT16_BLOCK], inverse;
    kvc_u32 top = 0;
    for (kvc_u32 i = 0; i < KVC_INT16_BLOCK; i++) {
        value[i] = kvc_dequantize_float(type, w, block * KVC_INT16_BLOCK + i);
        top = kvc_int8_top(top, value[i]);
    }
    inverse = kvc_int16_inverse(top);
    for (kvc_u32 i = 0; i < KVC_INT16_BLOCK; i++)
        quant[i] = kvc_int16_quant(value[i], inverse);
    return kvc_int16_scale(top);
}

/* A work-item quantizes a block of 32 values. */
KVC_KERNEL(quantize_rows_int16)
(KVC_SPAN(kvc_u32, quant), KVC_SPAN(float, scale), KVC_SPAN(const float, x), kvc_u64 blocks) {
    const kvc_u64 b = KVC_GLOBAL_ID();
    KVC_GLOBAL const float *x = x_buffer + x_offset + b * KVC_INT16_BLOCK;
    KVC_GLOBAL kvc_i16 *quant = (KVC_GLOBAL kvc_i16 *)(quant_buffer + quant_offset) + b * KVC_INT16_BLOCK;
    kvc_u32 top = 0;
    float inverse, value[KVC_INT16_BLOCK];
    if (b >= blocks)
        return;
    for (kvc_u32 i = 0; i < KVC_INT16_BLOCK; i++)
        value[i] = x[i];
    for (kvc_u32 i = 0; i < KVC_INT16_BLOCK; i++)
        top = kvc_int8_top(top, value[i]);
    inverse = kvc_int16_inverse(top);
    scale_buffer[scale_offset + b] = kvc_int16_scale(top);
    for (kvc_u32 i = 0; i < KVC_INT16_BLOCK; i++)
        quant[i] = kvc_int16_quant(value[i], inverse);
}

/* Quantized rows of x with `blocks` blocks each. */
struct kvc_int16_view {
    KVC_GLOBAL const kvc_i16 *quant;
    KVC_GLOBAL const float *scale;
    kvc_u64 blocks;
};

/* Computes lane l of one output for rows 0 .. here - 1 of x, from the blocks l, l + 8, .. of each row. */
KVC_DEVICE void kvc_int16_lane(float *lane, kvc_u32 type, kvc_u32 l, kvc_bytes w, const struct kvc_int16_view *x,
                               kvc_u32 here) {
    for (kvc_u32 r = 0; r < here; r++)
        lane[r] = 0.0f;
    for (kvc_u64 b = l; b < x->blocks; b += KVC_INT8_LANES) {
        kvc_i16 quant[KVC_INT16_BLOCK];
        const float scale = kvc_int16_weights(quant, type, w, b);
        for (kvc_u32 r = 0; r < here; r++) {
            KVC_GLOBAL const kvc_i16 *of_row = x->quant + (r * x->blocks + b) * KVC_INT16_BLOCK;
            kvc_i32 sum = 0;
            for (kvc_u32 i = 0; i < KVC_INT16_BLOCK; i++)
                sum += (kvc_i32)quant[i] * (kvc_i32)of_row[i];
            lane[r] = kvc_int8_add(scale, x->scale[r * x->blocks + b], sum, lane[r]);
        }
    }
}

/* w holds rows first_row .. first_row + count - 1 of the matrix, or of all experts' matrices, one below the other. */
#define KVC_INT16_ARGUMENTS                                                                                            \
    KVC_SPAN(float, y), KVC_SPAN(const kvc_u32, quant), KVC_SPAN(const float, scale), KVC_GLOBAL const kvc_u8 *w,      \
        kvc_u64 row_bytes, kvc_u32 type, kvc_u64 blocks, kvc_u64 N, kvc_u64 first_row, kvc_u64 count,                  \
        KVC_SPAN(const float, bias)
#define KVC_INT16_VIEW(name, row)                                                                                      \
    struct kvc_int16_view name;                                                                                        \
    name.quant = (KVC_GLOBAL const kvc_i16 *)(quant_buffer + quant_offset) + (kvc_u64)(row)*blocks * KVC_INT16_BLOCK;  \
    name.scale = scale_buffer + scale_offset + (kvc_u64)(row)*blocks;                                                  \
    name.blocks = blocks

/* Computes one output of rows 0 .. here - 1 of x, as kvc_int8_output does. */
#if KVC_WORKERS == 1
KVC_DEVICE void kvc_int16_output(KVC_GLOBAL float *y, kvc_u64 N, kvc_u32 type, kvc_bytes w,
                                 const struct kvc_int16_view *x, KVC_GLOBAL const float *bias, kvc_u32 here, bool mine,
                                 float *lanes, kvc_u32 most) {
    for (kvc_u32 l = 0; l < KVC_INT8_LANES && mine; l++)
        kvc_int16_lane(lanes + l * most, type, l, w, x, here);
    if (mine)
        kvc_int8_finish(y, N, bias, here, lanes, most);
}
#else
KVC_DEVICE void kvc_int16_output(KVC_GLOBAL float *y, kvc_u64 N, kvc_u32 type, kvc_bytes w,
                                 const struct kvc_int16_view *x, KVC_GLOBAL const float *bias, kvc_u32 here, bool mine,
                                 KVC_LOCAL float *lanes, kvc_u32 most) {
    float lane[KVC_INT8_ROWS];
    kvc_int16_lane(lane, type, KVC_LOCAL_ID() % KVC_INT8_LANES, w, x, here);
    kvc_int8_finish(y, N, bias, here, mine, lane, lanes, most);
}
#endif

/* Grid: (blocks of outputs, blocks of rows). */
KVC_GROUP_KERNEL(linear_int16)(KVC_INT16_ARGUMENTS, kvc_u64 rows) {
    KVC_INT8_OPEN_LANES(KVC_INT8_ROWS);
    const kvc_u64 row = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_ROWS;
    const kvc_u64 n = (kvc_u64)KVC_GROUP_ID(0) * KVC_INT8_TEAMS + KVC_LOCAL_ID() / KVC_INT8_LANES;
    const kvc_u32 here = rows - row < KVC_INT8_ROWS ? (kvc_u32)(rows - row) : KVC_INT8_ROWS;
    const bool mine = n < count;
    KVC_INT16_VIEW(x, row);
    kvc_int16_output(y_buffer + y_offset + row * N + first_row + n, N, type, w + (mine ? n : 0) * row_bytes, &x,
                     bias_buffer ? bias_buffer + bias_offset + first_row + n : 0, here, mine, lanes, KVC_INT8_ROWS);
}

/* Grid: (pairs * across), as for expert_linear_int8. */
KVC_GROUP_KERNEL(expert_linear_int16)
(KVC_INT16_ARGUMENTS, KVC_SPAN(const kvc_u32, first), kvc_u32 experts, kvc_u32 across) {
    KVC_INT8_OPEN_LANES(KVC_INT8_ROWS);
    const kvc_u32 pair = KVC_GROUP_ID(0) / across, block = KVC_GROUP_ID(0) % across;
    const kvc_u32 e = kvc_expert_of(first_buffer + first_offset, experts, pair);
    const kvc_u32 before = pair - first_buffer[first_offset + e];
    const kvc_u32 after = first_buffer[first_offset + e + 1] - pair,
                  here = after < KVC_INT8_ROWS ? after : KVC_INT8_ROWS;
    const kvc_u64 n = (kvc_u64)block * KVC_INT8_TEAMS + KVC_LOCAL_ID() / KVC_INT8_LANES;
    const kvc_u64 at = (kvc_u64)e * N + n - first_row;
    const bool mine = n < N && at < count;
    KVC_INT16_VIEW(x, pair);
    if (before % KVC_INT8_ROWS)
        return;
    kvc_int16_output(y_buffer + y_offset + pair * N + n, N, type, w + (mine ? at : 0) * row_bytes, &x,
                     bias_buffer ? bias_buffer + bias_offset + (kvc_u64)e * N + n : 0, here, mine, lanes,
                     KVC_INT8_ROWS);
}

/* ---- many rows ---- */

#if KVC_WORKERS == 1
/* A work-item computes one output, as for few rows, but for more rows in one pass over the weights. */
KVC_GROUP_KERNEL(linear_int16_gemm)(KVC_INT16_ARGUMENTS, kvc_u64 rows) {
    KVC_INT8_OPEN_LANES(KVC_INT8_MANY);
    const kvc_u64 row = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_MANY, n = KVC_GROUP_ID(0);
    const kvc_u32 here = rows - row < KVC_INT8_MANY ? (kvc_u32)(rows - row) : KVC_INT8_MANY;
    KVC_INT16_VIEW(x, row);
    kvc_int16_output(y_buffer + y_offset + row * N + first_row + n, N, type, w + n * row_bytes, &x,
                     bias_buffer ? bias_buffer + bias_offset + first_row + n : 0, here, n < count, lanes,
                     KVC_INT8_MANY);
}
#else
/* One block of 32 quants of each row and output of a tile. A group shares it. */
struct kvc_int16_tile {
    kvc_i16 x[KVC_INT16_BLOCK][KVC_INT8_TILE], w[KVC_INT16_BLOCK][64];
    float x_scale[KVC_INT8_TILE], w_scale[64];
};

/* Fills the tile with block b of rows from row0 on and of outputs from n0 on. Missing ones repeat the last one. */
KVC_DEVICE void kvc_int16_tile_fill(KVC_LOCAL struct kvc_int16_tile *tile, const struct kvc_int16_view *x, kvc_u64 row0,
                                    kvc_u64 rows, kvc_u32 type, kvc_bytes w, kvc_u64 row_bytes, kvc_u64 n0,
                                    kvc_u64 count, kvc_u64 b) {
    for (kvc_u32 n = KVC_LOCAL_ID(); n < 64; n += KVC_GROUP) {
        kvc_i16 quant[KVC_INT16_BLOCK];
        tile->w_scale[n] = kvc_int16_weights(quant, type, w + (n0 + n < count ? n0 + n : count - 1) * row_bytes, b);
        for (kvc_u32 k = 0; k < KVC_INT16_BLOCK; k++)
            tile->w[k][n] = quant[k];
    }
    for (kvc_u32 r = KVC_LOCAL_ID(); r < KVC_INT8_TILE; r += KVC_GROUP) {
        const kvc_u64 at = (row0 + r < rows ? row0 + r : rows - 1) * x->blocks + b;
        for (kvc_u32 k = 0; k < KVC_INT16_BLOCK; k++)
            tile->x[k][r] = x->quant[at * KVC_INT16_BLOCK + k];
        tile->x_scale[r] = x->scale[at];
    }
}

/* Adds the products of the block to sum, for rows ra + r and outputs nb + 16 c of the tile. */
KVC_DEVICE void kvc_int16_tile_add(float (*sum)[4], KVC_LOCAL const struct kvc_int16_tile *tile, kvc_u32 ra,
                                   kvc_u32 nb) {
    kvc_i32 total[4][4];
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++)
            total[r][c] = 0;
    for (kvc_u32 k = 0; k < KVC_INT16_BLOCK; k++)
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++)
                total[r][c] += (kvc_i32)tile->x[k][ra + r] * (kvc_i32)tile->w[k][nb + 16 * c];
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++)
            sum[r][c] = kvc_int8_add(tile->w_scale[nb + 16 * c], tile->x_scale[ra + r], total[r][c], sum[r][c]);
}

/* A group computes KVC_INT8_TILE rows x 64 outputs, and a work-item 4 x 4 of them, as for linear_int8_gemm. */
KVC_GROUP_KERNEL(linear_int16_gemm)(KVC_INT16_ARGUMENTS, kvc_u64 rows) {
    KVC_SHARED struct kvc_int16_tile tile;
    const kvc_u64 n0 = (kvc_u64)KVC_GROUP_ID(0) * 64, row0 = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_TILE;
    const kvc_u32 ra = KVC_LOCAL_ID() / 16 * 4, nb = KVC_LOCAL_ID() % 16;
    const float one = KVC_ONE(blocks);
    float stack[3][4][4], sum[4][4];
    KVC_INT16_VIEW(x, 0);
    for (kvc_u32 i = 0; i < KVC_INT8_LANES; i++) {
        kvc_u32 depth = 0;
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++)
                sum[r][c] = 0.0f;
        for (kvc_u64 b = KVC_REVERSED8(i); b < blocks; b += KVC_INT8_LANES) {
            KVC_BARRIER();
            kvc_int16_tile_fill(&tile, &x, row0, rows, type, w, row_bytes, n0, count, b);
            KVC_BARRIER();
            kvc_int16_tile_add(sum, &tile, ra, nb);
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
