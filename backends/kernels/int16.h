/* int16.h - linear layers with activations and weights in 15 bits: quantize_rows_int16, linear_int16,
 * expert_linear_int16. On a GPU, a team of eight work-items computes each output and divides its blocks among them; on
 * a CPU, one work-item computes an output. Weights are quantized whenever they are read. For many rows on GPUs, a group
 * computes a tile of rows and outputs through local memory, as in int8.h. */

#if KVC_WORKERS == 1
#define KVC_INT16_TEAM 1u
#else
#define KVC_INT16_TEAM 8u
#endif
#define KVC_INT16_TEAMS (KVC_GROUP / KVC_INT16_TEAM)
#define KVC_INT16_PART (KVC_INT16_BLOCK / KVC_INT16_TEAM) /* number of a block's values that one work-item computes */
#define KVC_INT16_BLOCKS_OF(K) (((K) + KVC_INT16_BLOCK - 1) / KVC_INT16_BLOCK)

/* Returns the number of values in a part that begins at value k. It is a multiple of KVC_INT16_STEP, and 0 beyond the
 * end of the row. */
KVC_DEVICE kvc_u32 kvc_int16_count(kvc_u64 k, kvc_u64 K) {
    const kvc_u64 left = k < K ? K - k : 0;
    return left < KVC_INT16_PART ? (kvc_u32)left : KVC_INT16_PART;
}
/* Loops i over a part's values. On GPUs the number of iterations is a constant, so that private arrays can be
 * registers. */
#define KVC_INT16_EACH(i, count)                                                                                       \
    for (kvc_u32 i##_step = 0; i##_step < KVC_INT16_PART && i##_step < (count); i##_step += KVC_INT16_STEP)            \
        for (kvc_u32 i = i##_step; i < i##_step + KVC_INT16_STEP; i++)

/* Quantizes this work-item's part of a block, `count` values of a row from k on. Returns the block's scale. All
 * work-items of a group must call this function: those of a team combine the largest magnitudes of their parts. */
KVC_DEVICE float kvc_int16_quantize(kvc_i16 *quant, kvc_u32 type, kvc_bytes row, kvc_u64 k, kvc_u32 count,
                                    KVC_LOCAL kvc_u32 *tops) {
    float value[KVC_INT16_PART], inverse;
    kvc_u32 top = 0;
    KVC_INT16_EACH(i, count) {
        value[i] = kvc_dequantize_float(type, row, k + i);
        top = kvc_int8_top(top, value[i]);
    }
#if KVC_WORKERS > 1
    tops[KVC_LOCAL_ID()] = top;
    KVC_BARRIER();
    for (kvc_u32 i = 0; i < KVC_INT16_TEAM; i++) {
        const kvc_u32 other = tops[KVC_LOCAL_ID() / KVC_INT16_TEAM * KVC_INT16_TEAM + i];
        top = top > other ? top : other;
    }
#endif
    inverse = kvc_int16_inverse(top);
    KVC_INT16_EACH(i, count) quant[i] = kvc_int16_quant(value[i], inverse);
    return kvc_int16_scale(top);
}

/* A team quantizes a block. Grid: (blocks of all rows). */
KVC_GROUP_KERNEL(quantize_rows_int16)
(KVC_SPAN(kvc_u32, quant), KVC_SPAN(float, scale), KVC_SPAN(const float, x), kvc_u64 K, kvc_u64 rows) {
    KVC_SHARED kvc_u32 tops[KVC_GROUP];
    const kvc_u64 b = (kvc_u64)KVC_GROUP_ID(0) * KVC_INT16_TEAMS + KVC_LOCAL_ID() / KVC_INT16_TEAM;
    const kvc_u64 blocks = KVC_INT16_BLOCKS_OF(K), row = b / blocks;
    const kvc_u32 l = KVC_LOCAL_ID() % KVC_INT16_TEAM;
    const kvc_u64 k = b % blocks * KVC_INT16_BLOCK + l * KVC_INT16_PART;
    const kvc_u32 count = row < rows ? kvc_int16_count(k, K) : 0;
    KVC_GLOBAL kvc_i16 *to = (KVC_GLOBAL kvc_i16 *)(quant_buffer + quant_offset) + row * K + k;
    kvc_i16 quant[KVC_INT16_PART];
    const float scale =
        kvc_int16_quantize(quant, KVC_K_F32, (kvc_bytes)(x_buffer + x_offset + row * K), k, count, tops);
    KVC_INT16_EACH(i, count) to[i] = quant[i];
    if (count && l == 0)
        scale_buffer[scale_offset + b] = scale;
}

/* Quantized rows of x. */
struct kvc_int16_view {
    KVC_GLOBAL const kvc_i16 *quant;
    KVC_GLOBAL const float *scale;
    kvc_u64 K, blocks;
};

/* Returns the sum of the products of a part. The sum of eight products fits in 32 bits. */
KVC_DEVICE kvc_i64 kvc_int16_dot(const kvc_i16 *w, KVC_GLOBAL const kvc_i16 *x, kvc_u32 count) {
    kvc_i64 total = 0;
    for (kvc_u32 step = 0; step < KVC_INT16_PART && step < count; step += KVC_INT16_STEP)
        for (kvc_u32 j = step; j < step + KVC_INT16_STEP; j += 8) {
            kvc_i32 sum = 0;
            for (kvc_u32 i = j; i < j + 8; i++)
                sum += (kvc_i32)w[i] * (kvc_i32)x[i];
            total += sum;
        }
    return total;
}

/* w holds rows first_row .. first_row + count - 1 of the matrix. The matrices of several experts follow one another. */
#define KVC_INT16_ARGUMENTS                                                                                            \
    KVC_SPAN(float, y), KVC_SPAN(const kvc_u32, quant), KVC_SPAN(const float, scale), KVC_GLOBAL const kvc_u8 *w,      \
        kvc_u64 row_bytes, kvc_u32 type, kvc_u64 K, kvc_u64 N, kvc_u64 first_row, kvc_u64 count,                       \
        KVC_SPAN(const float, bias)
#define KVC_INT16_VIEW(name, row)                                                                                      \
    struct kvc_int16_view name;                                                                                        \
    name.K = K;                                                                                                        \
    name.blocks = KVC_INT16_BLOCKS_OF(K);                                                                              \
    name.quant = (KVC_GLOBAL const kvc_i16 *)(quant_buffer + quant_offset) + (kvc_u64)(row)*K;                         \
    name.scale = scale_buffer + scale_offset + (kvc_u64)(row)*name.blocks

/* Local memory of a group: the largest magnitudes and the sums of the work-items' parts. */
struct kvc_int16_team {
    kvc_u32 tops[KVC_GROUP];
    kvc_i64 sums[KVC_GROUP][KVC_INT8_ROWS];
};

/* Multiplies rows 0 .. here - 1 of x by the weights w of one output. The result of row r is y[r * N]. `mine` is false
 * if the output does not exist. `bias` is 0 (NULL) or points to the output's bias. On GPUs, work-item l of the team
 * adds up row l. */
#if KVC_WORKERS == 1
KVC_DEVICE void kvc_int16_output(KVC_GLOBAL float *y, kvc_u64 N, kvc_u32 type, kvc_bytes w,
                                 const struct kvc_int16_view *x, KVC_GLOBAL const float *bias, kvc_u32 here, bool mine,
                                 KVC_LOCAL struct kvc_int16_team *team) {
    float total[KVC_INT8_MANY];
    for (kvc_u32 r = 0; r < here; r++)
        total[r] = 0.0f;
    for (kvc_u64 b = 0; b < x->blocks && mine; b++) {
        const kvc_u64 k = b * KVC_INT16_BLOCK;
        const kvc_u32 count = kvc_int16_count(k, x->K);
        kvc_i16 quant[KVC_INT16_PART];
        const float scale = kvc_int16_quantize(quant, type, w, k, count, team->tops);
        for (kvc_u32 r = 0; r < here; r++)
            total[r] = kvc_int16_add(scale, x->scale[r * x->blocks + b],
                                     kvc_int16_dot(quant, x->quant + r * x->K + k, count), total[r]);
    }
    for (kvc_u32 r = 0; r < here && mine; r++)
        y[r * N] = bias ? total[r] + *bias : total[r];
}
#else
KVC_DEVICE void kvc_int16_output(KVC_GLOBAL float *y, kvc_u64 N, kvc_u32 type, kvc_bytes w,
                                 const struct kvc_int16_view *x, KVC_GLOBAL const float *bias, kvc_u32 here, bool mine,
                                 KVC_LOCAL struct kvc_int16_team *team) {
    const kvc_u32 id = KVC_LOCAL_ID(), l = id % KVC_INT16_TEAM;
    float total = 0.0f;
    for (kvc_u64 b = 0; b < x->blocks; b++) {
        const kvc_u64 k = b * KVC_INT16_BLOCK + l * KVC_INT16_PART;
        const kvc_u32 count = kvc_int16_count(k, x->K);
        kvc_i16 quant[KVC_INT16_PART];
        const float scale = kvc_int16_quantize(quant, type, w, k, count, team->tops);
        for (kvc_u32 r = 0; r < here; r++)
            team->sums[id][r] = kvc_int16_dot(quant, x->quant + r * x->K + k, count);
        KVC_BARRIER(); /* the next barrier, in kvc_int16_quantize, separates the reads below from the next sums */
        if (l < here) {
            kvc_i64 sum = 0;
            for (kvc_u32 i = 0; i < KVC_INT16_TEAM; i++)
                sum += team->sums[id - l + i][l];
            total = kvc_int16_add(scale, x->scale[l * x->blocks + b], sum, total);
        }
    }
    if (l < here && mine)
        y[l * N] = bias ? total + *bias : total;
}
#endif

/* Grid: (blocks of outputs, blocks of rows). */
KVC_GROUP_KERNEL(linear_int16)(KVC_INT16_ARGUMENTS, kvc_u64 rows) {
    KVC_SHARED struct kvc_int16_team team;
    const kvc_u64 row = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_ROWS;
    const kvc_u64 n = (kvc_u64)KVC_GROUP_ID(0) * KVC_INT16_TEAMS + KVC_LOCAL_ID() / KVC_INT16_TEAM;
    const kvc_u32 here = rows - row < KVC_INT8_ROWS ? (kvc_u32)(rows - row) : KVC_INT8_ROWS;
    const bool mine = n < count;
    KVC_INT16_VIEW(x, row);
    kvc_int16_output(y_buffer + y_offset + row * N + first_row + n, N, type, w + (mine ? n : 0) * row_bytes, &x,
                     bias_buffer ? bias_buffer + bias_offset + first_row + n : 0, here, mine, &team);
}

/* Grid: (pairs * across), as for expert_linear_int8. */
KVC_GROUP_KERNEL(expert_linear_int16)
(KVC_INT16_ARGUMENTS, KVC_SPAN(const kvc_u32, first), kvc_u32 experts, kvc_u32 across) {
    KVC_SHARED struct kvc_int16_team team;
    const kvc_u32 pair = KVC_GROUP_ID(0) / across, block = KVC_GROUP_ID(0) % across;
    const kvc_u32 e = kvc_expert_of(first_buffer + first_offset, experts, pair);
    const kvc_u32 before = pair - first_buffer[first_offset + e];
    const kvc_u32 after = first_buffer[first_offset + e + 1] - pair,
                  here = after < KVC_INT8_ROWS ? after : KVC_INT8_ROWS;
    const kvc_u64 n = (kvc_u64)block * KVC_INT16_TEAMS + KVC_LOCAL_ID() / KVC_INT16_TEAM;
    const kvc_u64 at = (kvc_u64)e * N + n - first_row;
    const bool mine = n < N && at < count;
    KVC_INT16_VIEW(x, pair);
    if (before % KVC_INT8_ROWS)
        return;
    kvc_int16_output(y_buffer + y_offset + pair * N + n, N, type, w + (mine ? at : 0) * row_bytes, &x,
                     bias_buffer ? bias_buffer + bias_offset + (kvc_u64)e * N + n : 0, here, mine, &team);
}

/* ---- many rows ---- */

#if KVC_WORKERS == 1
/* A work-item computes one output, as for few rows, but reads the weights once for more rows. */
KVC_GROUP_KERNEL(linear_int16_gemm)(KVC_INT16_ARGUMENTS, kvc_u64 rows) {
    KVC_SHARED struct kvc_int16_team team;
    const kvc_u64 row = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_MANY, n = KVC_GROUP_ID(0);
    const kvc_u32 here = rows - row < KVC_INT8_MANY ? (kvc_u32)(rows - row) : KVC_INT8_MANY;
    KVC_INT16_VIEW(x, row);
    kvc_int16_output(y_buffer + y_offset + row * N + first_row + n, N, type, w + n * row_bytes, &x,
                     bias_buffer ? bias_buffer + bias_offset + first_row + n : 0, here, n < count, &team);
}
#else
/* Local memory of a group: the scales of a block for each row and output of a tile, and 32 quants of that block at a
 * time. */
struct kvc_int16_tile {
    kvc_i16 x[KVC_INT16_STEP][KVC_INT8_TILE], w[KVC_INT16_STEP][64];
    float x_scale[KVC_INT8_TILE], w_scale[64], w_inverse[64];
    kvc_u32 tops[KVC_INT16_BLOCK / KVC_INT16_STEP][64]; /* the largest magnitude of every 32 weights */
};
/* The rows of x from row0 on, and the outputs from n0 on. Rows and outputs past the last one are copies of it. */
struct kvc_int16_place {
    kvc_u64 row0, rows, n0, count, row_bytes;
    kvc_u32 type;
    kvc_bytes w;
};
KVC_DEVICE kvc_u64 kvc_int16_row(const struct kvc_int16_place *at, kvc_u32 r) {
    return at->row0 + r < at->rows ? at->row0 + r : at->rows - 1;
}
KVC_DEVICE kvc_bytes kvc_int16_output_row(const struct kvc_int16_place *at, kvc_u32 n) {
    return at->w + (at->n0 + n < at->count ? at->n0 + n : at->count - 1) * at->row_bytes;
}

/* Computes the scales of block b. */
KVC_DEVICE void kvc_int16_tile_scales(KVC_LOCAL struct kvc_int16_tile *tile, const struct kvc_int16_view *x,
                                      const struct kvc_int16_place *at, kvc_u64 b) {
    for (kvc_u32 j = KVC_LOCAL_ID(); j < 64 * KVC_INT16_BLOCK / KVC_INT16_STEP; j += KVC_GROUP) {
        const kvc_u32 n = j % 64, step = j / 64;
        const kvc_u64 k = b * KVC_INT16_BLOCK + step * KVC_INT16_STEP;
        kvc_u32 top = 0;
        for (kvc_u32 i = 0; i < KVC_INT16_STEP && k < x->K; i++)
            top = kvc_int8_top(top, kvc_dequantize_float(at->type, kvc_int16_output_row(at, n), k + i));
        tile->tops[step][n] = top;
    }
    KVC_BARRIER();
    for (kvc_u32 n = KVC_LOCAL_ID(); n < 64; n += KVC_GROUP) {
        kvc_u32 top = 0;
        for (kvc_u32 step = 0; step < KVC_INT16_BLOCK / KVC_INT16_STEP; step++)
            top = top > tile->tops[step][n] ? top : tile->tops[step][n];
        tile->w_scale[n] = kvc_int16_scale(top);
        tile->w_inverse[n] = kvc_int16_inverse(top);
    }
    for (kvc_u32 r = KVC_LOCAL_ID(); r < KVC_INT8_TILE; r += KVC_GROUP)
        tile->x_scale[r] = x->scale[kvc_int16_row(at, r) * x->blocks + b];
}

/* Fills the tile with 32 quants from k on. */
KVC_DEVICE void kvc_int16_tile_fill(KVC_LOCAL struct kvc_int16_tile *tile, const struct kvc_int16_view *x,
                                    const struct kvc_int16_place *at, kvc_u64 k) {
    const kvc_u32 part = KVC_INT16_STEP / 2;
    for (kvc_u32 j = KVC_LOCAL_ID(); j < 64 * 2; j += KVC_GROUP) {
        const kvc_u32 n = j % 64;
        for (kvc_u32 i = j / 64 * part; i < (j / 64 + 1) * part; i++)
            tile->w[i][n] =
                kvc_int16_quant(kvc_dequantize_float(at->type, kvc_int16_output_row(at, n), k + i), tile->w_inverse[n]);
    }
    for (kvc_u32 j = KVC_LOCAL_ID(); j < KVC_INT8_TILE * 2; j += KVC_GROUP) {
        const kvc_u32 r = j / 2;
        for (kvc_u32 i = j % 2 * part; i < (j % 2 + 1) * part; i++)
            tile->x[i][r] = x->quant[kvc_int16_row(at, r) * x->K + k + i];
    }
}

/* Adds the products of the tile to `total`, for rows ra + r and outputs nb + 16 c. The sum of eight products fits in 32
 * bits. */
KVC_DEVICE void kvc_int16_tile_add(kvc_i64 (*total)[4], KVC_LOCAL const struct kvc_int16_tile *tile, kvc_u32 ra,
                                   kvc_u32 nb) {
    for (kvc_u32 k = 0; k < KVC_INT16_STEP; k += 8)
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++) {
                kvc_i32 sum = 0;
                for (kvc_u32 i = k; i < k + 8; i++)
                    sum += (kvc_i32)tile->x[i][ra + r] * (kvc_i32)tile->w[i][nb + 16 * c];
                total[r][c] += sum;
            }
}

/* A group computes a tile of KVC_INT8_TILE rows x 64 outputs, and a work-item computes 4 x 4 of these results, as in
 * linear_int8_gemm. */
KVC_GROUP_KERNEL(linear_int16_gemm)(KVC_INT16_ARGUMENTS, kvc_u64 rows) {
    KVC_SHARED struct kvc_int16_tile tile;
    const kvc_u64 n0 = (kvc_u64)KVC_GROUP_ID(0) * 64, row0 = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_TILE;
    const kvc_u32 ra = KVC_LOCAL_ID() / 16 * 4, nb = KVC_LOCAL_ID() % 16;
    const struct kvc_int16_place at = {row0, rows, n0, count, row_bytes, type, w};
    float sum[4][4];
    KVC_INT16_VIEW(x, 0);
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++)
            sum[r][c] = 0.0f;
    for (kvc_u64 b = 0; b < x.blocks; b++) {
        kvc_i64 total[4][4];
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++)
                total[r][c] = 0;
        kvc_int16_tile_scales(&tile, &x, &at, b);
        for (kvc_u64 k = b * KVC_INT16_BLOCK; k < K && k < (b + 1) * KVC_INT16_BLOCK; k += KVC_INT16_STEP) {
            KVC_BARRIER();
            kvc_int16_tile_fill(&tile, &x, &at, k);
            KVC_BARRIER();
            kvc_int16_tile_add(total, &tile, ra, nb);
        }
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++)
                sum[r][c] = kvc_int16_add(tile.w_scale[nb + 16 * c], tile.x_scale[ra + r], total[r][c], sum[r][c]);
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
