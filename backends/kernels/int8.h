/* int8.h - linear layers with 8-bit activations: quantize_rows, linear_int8, expert_linear_int8. For few rows, a GPU
 * computes each output with a team of eight work-items, each of which computes one lane; on a CPU, one work-item
 * computes the lanes of an output one after another. For many rows on GPUs, a group computes a tile of rows and outputs
 * through local memory. */

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

/* Quantized rows of x with `blocks` blocks each. */
struct kvc_int8_view {
    KVC_GLOBAL const kvc_u32 *quant;
    KVC_GLOBAL const float *scale;
    KVC_GLOBAL const kvc_i32 *sum;
    kvc_u64 blocks;
};
KVC_DEVICE struct kvc_int8_view kvc_int8_view_from(KVC_GLOBAL const kvc_u32 *quant, KVC_GLOBAL const float *scale,
                                                   KVC_GLOBAL const kvc_i32 *sum, kvc_u64 blocks, kvc_u64 row) {
    struct kvc_int8_view x;
    x.quant = quant + row * blocks * 8;
    x.scale = scale + row * blocks;
    x.sum = sum + row * blocks * 2;
    x.blocks = blocks;
    return x;
}

/* Returns `lane` plus the product of a block of a row and a block of weights. If `wide` is true, both halves of the
 * block of weights have the same scale and minimum. */
KVC_DEVICE float kvc_int8_add_block(float lane, const struct kvc_int8_view *x, kvc_u64 block,
                                    const struct kvc_half_weights *first, const struct kvc_half_weights *second,
                                    bool wide, bool has_minimum) {
    const struct kvc_half x0 = kvc_half_load(x->quant + block * 8), x1 = kvc_half_load(x->quant + block * 8 + 4);
    const float scale = x->scale[block];
    KVC_GLOBAL const kvc_i32 *sum = x->sum + block * 2;
    if (wide) {
        lane = kvc_int8_add(first->scale, scale, kvc_block_dot(first->half_block, x0, second->half_block, x1), lane);
        return has_minimum ? kvc_int8_take(first->minimum, scale, sum[0] + sum[1], lane) : lane;
    }
    lane = kvc_int8_add(first->scale, scale, kvc_half_dot(first->half_block, x0), lane);
    if (has_minimum)
        lane = kvc_int8_take(first->minimum, scale, sum[0], lane);
    lane = kvc_int8_add(second->scale, scale, kvc_half_dot(second->half_block, x1), lane);
    return has_minimum ? kvc_int8_take(second->minimum, scale, sum[1], lane) : lane;
}

/* Computes lane l of one output for rows 0 .. here - 1 of x, from blocks l, l + 8, ... of each row. The caller passes
 * the type as a constant. */
KVC_DEVICE void kvc_int8_lane_of(kvc_u32 type, float *lane, kvc_u32 l, kvc_bytes w, const struct kvc_int8_view *x,
                                 kvc_u32 here) {
    const bool wide = !kvc_int8_narrow(type), has_minimum = kvc_int8_has_minimum(type);
    for (kvc_u32 r = 0; r < here; r++)
        lane[r] = 0.0f;
    for (kvc_u64 b = l; b < x->blocks; b += KVC_INT8_LANES) {
        const struct kvc_half_weights first = kvc_half_weights_of(type, w, b, 0),
                                      second = kvc_half_weights_of(type, w, b, 1);
        for (kvc_u32 r = 0; r < here; r++)
            lane[r] = kvc_int8_add_block(lane[r], x, r * x->blocks + b, &first, &second, wide, has_minimum);
    }
}
#define KVC_INT8_LANE_CASE(a, NAME, name, gguf, elements, bytes, at, scales, wide, holds)                              \
    case KVC_K_##NAME:                                                                                                 \
        kvc_int8_lane_of(KVC_K_##NAME, lane, l, w, x, here);                                                           \
        break;
KVC_DEVICE void kvc_int8_lane(float *lane, kvc_u32 type, kvc_u32 l, kvc_bytes w, const struct kvc_int8_view *x,
                              kvc_u32 here) {
    switch (type) { KVC_BLOCK_TYPES(KVC_INT8_LANE_CASE, ) }
}

/* w holds rows first_row .. first_row + count - 1 of the matrix. The matrices of several experts follow one another. */
#define KVC_INT8_ARGUMENTS                                                                                             \
    KVC_SPAN(float, y), KVC_SPAN(const kvc_u32, quant), KVC_SPAN(const float, scale), KVC_SPAN(const kvc_i32, sum),    \
        KVC_GLOBAL const kvc_u8 *w, kvc_u64 row_bytes, kvc_u32 type, kvc_u64 blocks, kvc_u64 N, kvc_u64 first_row,     \
        kvc_u64 count, KVC_SPAN(const float, bias)
#define KVC_INT8_VIEW_FROM(row)                                                                                        \
    kvc_int8_view_from(quant_buffer + quant_offset, scale_buffer + scale_offset, sum_buffer + sum_offset, blocks, row)

/* Multiplies rows 0 .. here - 1 of x by the weights w of one output, for here <= most. The result of row r is y[r * N].
 * `mine` is false if the output does not exist. `bias` is 0 (NULL) or points to the output's bias. On GPUs, work-item l
 * of a team of eight computes lane l of all rows, then adds up the lanes of row l. */
#if KVC_WORKERS == 1
#define KVC_INT8_TEAMS 1u
#define KVC_INT8_OPEN_LANES(most) float lanes[KVC_INT8_LANES * (most)]
/* Adds up the lanes of each row. */
KVC_DEVICE void kvc_int8_finish(KVC_GLOBAL float *y, kvc_u64 N, KVC_GLOBAL const float *bias, kvc_u32 here,
                                const float *lanes, kvc_u32 most) {
    for (kvc_u32 r = 0; r < here; r++) {
        float of[KVC_INT8_LANES];
        for (kvc_u32 l = 0; l < KVC_INT8_LANES; l++)
            of[l] = lanes[l * most + r];
        KVC_TREE8(of);
        y[r * N] = bias ? of[0] + *bias : of[0];
    }
}
KVC_DEVICE void kvc_int8_output(KVC_GLOBAL float *y, kvc_u64 N, kvc_u32 type, kvc_bytes w,
                                const struct kvc_int8_view *x, KVC_GLOBAL const float *bias, kvc_u32 here, bool mine,
                                float *lanes, kvc_u32 most) {
    for (kvc_u32 l = 0; l < KVC_INT8_LANES && mine; l++)
        kvc_int8_lane(lanes + l * most, type, l, w, x, here);
    if (mine)
        kvc_int8_finish(y, N, bias, here, lanes, most);
}
#else
#define KVC_INT8_TEAMS (KVC_GROUP / KVC_INT8_LANES)
#define KVC_INT8_OPEN_LANES(most) KVC_SHARED float lanes[KVC_GROUP * (most)]
/* Shares this work-item's lane of each row with its team and adds up the lanes of one row. */
KVC_DEVICE void kvc_int8_finish(KVC_GLOBAL float *y, kvc_u64 N, KVC_GLOBAL const float *bias, kvc_u32 here, bool mine,
                                const float *lane, KVC_LOCAL float *lanes, kvc_u32 most) {
    const kvc_u32 l = KVC_LOCAL_ID() % KVC_INT8_LANES;
    float of[KVC_INT8_LANES];
    for (kvc_u32 r = 0; r < here; r++)
        lanes[KVC_LOCAL_ID() * most + r] = lane[r];
    KVC_BARRIER();
    if (l < here && mine) {
        for (kvc_u32 i = 0; i < KVC_INT8_LANES; i++)
            of[i] = lanes[(KVC_LOCAL_ID() - l + i) * most + l];
        KVC_TREE8(of);
        y[l * N] = bias ? of[0] + *bias : of[0];
    }
}
KVC_DEVICE void kvc_int8_output(KVC_GLOBAL float *y, kvc_u64 N, kvc_u32 type, kvc_bytes w,
                                const struct kvc_int8_view *x, KVC_GLOBAL const float *bias, kvc_u32 here, bool mine,
                                KVC_LOCAL float *lanes, kvc_u32 most) {
    float lane[KVC_INT8_ROWS];
    kvc_int8_lane(lane, type, KVC_LOCAL_ID() % KVC_INT8_LANES, w, x, here);
    kvc_int8_finish(y, N, bias, here, mine, lane, lanes, most);
}
#endif

/* Grid: (blocks of outputs, blocks of rows). */
KVC_GROUP_KERNEL(linear_int8)(KVC_INT8_ARGUMENTS, kvc_u64 rows) {
    KVC_INT8_OPEN_LANES(KVC_INT8_ROWS);
    const kvc_u64 row = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_ROWS;
    const kvc_u64 n = (kvc_u64)KVC_GROUP_ID(0) * KVC_INT8_TEAMS + KVC_LOCAL_ID() / KVC_INT8_LANES;
    const kvc_u32 here = rows - row < KVC_INT8_ROWS ? (kvc_u32)(rows - row) : KVC_INT8_ROWS;
    const struct kvc_int8_view x = KVC_INT8_VIEW_FROM(row);
    const bool mine = n < count;
    kvc_int8_output(y_buffer + y_offset + row * N + first_row + n, N, type, w + (mine ? n : 0) * row_bytes, &x,
                    bias_buffer ? bias_buffer + bias_offset + first_row + n : 0, here, mine, lanes, KVC_INT8_ROWS);
}

/* Grid: (pairs * across). As in expert_linear, a group computes a block of outputs of one pair. Some outputs of the
 * pair may belong to another piece of the weight. */
KVC_GROUP_KERNEL(expert_linear_int8)
(KVC_INT8_ARGUMENTS, KVC_SPAN(const kvc_u32, first), kvc_u32 experts, kvc_u32 across) {
    KVC_INT8_OPEN_LANES(KVC_INT8_ROWS);
    const kvc_u32 pair = KVC_GROUP_ID(0) / across, block = KVC_GROUP_ID(0) % across;
    const kvc_u32 e = kvc_expert_of(first_buffer + first_offset, experts, pair);
    const kvc_u32 before = pair - first_buffer[first_offset + e];
    const kvc_u32 after = first_buffer[first_offset + e + 1] - pair,
                  here = after < KVC_INT8_ROWS ? after : KVC_INT8_ROWS;
    const kvc_u64 n = (kvc_u64)block * KVC_INT8_TEAMS + KVC_LOCAL_ID() / KVC_INT8_LANES;
    const kvc_u64 at = (kvc_u64)e * N + n - first_row;
    const bool mine = n < N && at < count;
    const struct kvc_int8_view x = KVC_INT8_VIEW_FROM((kvc_u64)pair);
    if (before % KVC_INT8_ROWS)
        return;
    kvc_int8_output(y_buffer + y_offset + pair * N + n, N, type, w + (mine ? at : 0) * row_bytes, &x,
                    bias_buffer ? bias_buffer + bias_offset + (kvc_u64)e * N + n : 0, here, mine, lanes, KVC_INT8_ROWS);
}

/* ---- many rows ---- */

#if KVC_WORKERS == 1
/* A work-item computes one output, as for few rows, but reads the weights once for more rows. */
KVC_GROUP_KERNEL(linear_int8_gemm)(KVC_INT8_ARGUMENTS, kvc_u64 rows) {
    KVC_INT8_OPEN_LANES(KVC_INT8_MANY);
    const kvc_u64 row = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_MANY, n = KVC_GROUP_ID(0);
    const kvc_u32 here = rows - row < KVC_INT8_MANY ? (kvc_u32)(rows - row) : KVC_INT8_MANY;
    const struct kvc_int8_view x = KVC_INT8_VIEW_FROM(row);
    kvc_int8_output(y_buffer + y_offset + row * N + first_row + n, N, type, w + n * row_bytes, &x,
                    bias_buffer ? bias_buffer + bias_offset + first_row + n : 0, here, n < count, lanes, KVC_INT8_MANY);
}
#else
/* Lanes are computed in bit-reversed order, as in the kernel `product`. The tree then always adds results that were
 * computed one after another. */
#define KVC_REVERSED8(i) ((((i)&1) << 2) | ((i)&2) | (((i)&4) >> 2))
#define KVC_INT8_TILE KVC_PACK_X_OF(KVC_GROUP) /* number of rows of a tile */

/* One block of 32 values of each row and output of a tile, as words of four values. A group shares it. */
struct kvc_int8_tile {
    kvc_u32 x_word[8][KVC_INT8_TILE], w_word[8][64];
    float x_scale[KVC_INT8_TILE], w_scale[2][64], w_minimum[2][64];
    kvc_i32 x_sum[2][KVC_INT8_TILE];
};

/* Fills the tile with block b of the rows from row0 on and of the outputs from n0 on. Rows and outputs past the last
 * one are copies of it. */
KVC_DEVICE void kvc_int8_tile_weights(KVC_LOCAL struct kvc_int8_tile *tile, kvc_u32 type, kvc_bytes w,
                                      kvc_u64 row_bytes, kvc_u64 n0, kvc_u64 count, kvc_u64 b) {
    for (kvc_u32 j = KVC_LOCAL_ID(); j < 128; j += KVC_GROUP) {
        const kvc_u32 n = j / 2, h = j % 2;
        const struct kvc_half_weights p =
            kvc_half_weights_of(type, w + (n0 + n < count ? n0 + n : count - 1) * row_bytes, b, h);
        for (kvc_u32 k = 0; k < 4; k++)
            tile->w_word[4 * h + k][n] = p.half_block.word[k];
        tile->w_scale[h][n] = p.scale;
        tile->w_minimum[h][n] = p.minimum;
    }
}
KVC_DEVICE void kvc_int8_tile_rows(KVC_LOCAL struct kvc_int8_tile *tile, const struct kvc_int8_view *x, kvc_u64 row0,
                                   kvc_u64 rows, kvc_u64 b) {
    for (kvc_u32 j = KVC_LOCAL_ID(); j < KVC_INT8_TILE * 2; j += KVC_GROUP) {
        const kvc_u32 r = j / 2, h = j % 2;
        const kvc_u64 at = (row0 + r < rows ? row0 + r : rows - 1) * x->blocks + b;
        const struct kvc_half half_block = kvc_half_load(x->quant + at * 8 + 4 * h);
        for (kvc_u32 k = 0; k < 4; k++)
            tile->x_word[4 * h + k][r] = half_block.word[k];
        tile->x_scale[r] = x->scale[at];
        tile->x_sum[h][r] = x->sum[at * 2 + h];
    }
}

/* Adds the products of half h of the block to total[r][c], for row ra + r and output nb + 16 c of the tile. */
KVC_DEVICE void kvc_int8_tile_dot(kvc_i32 (*total)[4], KVC_LOCAL const struct kvc_int8_tile *tile, kvc_u32 ra,
                                  kvc_u32 nb, kvc_u32 h) {
    for (kvc_u32 k = 4 * h; k < 4 * h + 4; k++)
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++)
                total[r][c] = kvc_dot4(tile->x_word[k][ra + r], tile->w_word[k][nb + 16 * c], total[r][c]);
}

/* Adds the products of the block to `sum`. If `narrow` is true, each half has its own scale. */
KVC_DEVICE void kvc_int8_tile_add(float (*sum)[4], KVC_LOCAL const struct kvc_int8_tile *tile, kvc_u32 ra, kvc_u32 nb,
                                  bool narrow, bool has_minimum) {
    kvc_i32 total[4][4];
    for (kvc_u32 h = 0; h < 2; h++) {
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4 && (h == 0 || narrow); c++)
                total[r][c] = 0;
        kvc_int8_tile_dot(total, tile, ra, nb, h);
        if (h == 0 && !narrow)
            continue;
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++) {
                const float x = tile->x_scale[ra + r];
                sum[r][c] = kvc_int8_add(tile->w_scale[h][nb + 16 * c], x, total[r][c], sum[r][c]);
                if (has_minimum)
                    sum[r][c] = kvc_int8_take(
                        tile->w_minimum[h][nb + 16 * c], x,
                        narrow ? tile->x_sum[h][ra + r] : tile->x_sum[0][ra + r] + tile->x_sum[1][ra + r], sum[r][c]);
            }
    }
}

/* A group computes a tile of KVC_INT8_TILE rows x 64 outputs. A work-item computes 4 x 4 of these results: rows 4a ..
 * 4a + 3, outputs b, b + 16, b + 32, b + 48. */
KVC_GROUP_KERNEL(linear_int8_gemm)(KVC_INT8_ARGUMENTS, kvc_u64 rows) {
    KVC_SHARED struct kvc_int8_tile tile;
    const kvc_u64 n0 = (kvc_u64)KVC_GROUP_ID(0) * 64, row0 = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_TILE;
    const kvc_u32 ra = KVC_LOCAL_ID() / 16 * 4, nb = KVC_LOCAL_ID() % 16;
    const bool narrow = kvc_int8_narrow(type), has_minimum = kvc_int8_has_minimum(type);
    const struct kvc_int8_view x = KVC_INT8_VIEW_FROM(0);
    const float one = KVC_ONE(blocks);
    float stack[3][4][4], sum[4][4];
    for (kvc_u32 i = 0; i < KVC_INT8_LANES; i++) {
        kvc_u32 depth = 0;
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++)
                sum[r][c] = 0.0f;
        for (kvc_u64 b = KVC_REVERSED8(i); b < blocks; b += KVC_INT8_LANES) {
            KVC_BARRIER();
            kvc_int8_tile_weights(&tile, type, w, row_bytes, n0, count, b);
            kvc_int8_tile_rows(&tile, &x, row0, rows, b);
            KVC_BARRIER();
            kvc_int8_tile_add(sum, &tile, ra, nb, narrow, has_minimum);
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
