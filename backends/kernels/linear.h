/* linear.h - y[i, n] = dot32(x[i, :], w[n, :]) + bias[n]. For few rows (gemv), a team computes an output. For many rows
 * (gemm), rows and weights are packed by lane, each lane is an ordinary matrix product, and the 32 products are added
 * in the order of the tree (canon.h). */

/* Grid for few rows: (outputs / (KVC_TEAMS * KVC_EACH), rows / KVC_SMALL_BATCH). KVC_SMALL_BATCH rows are computed in
 * one pass over the weights. */
#define KVC_EACH KVC_EACH_OF(KVC_WORKERS)
#define KVC_LINEAR_ARGUMENTS                                                                                           \
    KVC_SPAN(float, y), KVC_SPAN(const float, x), KVC_GLOBAL const kvc_u8 *w, kvc_u64 row_bytes, kvc_u64 K, kvc_u64 N, \
        kvc_u64 first, kvc_u64 count, KVC_SPAN(const float, bias), kvc_u32 rows
/* sum[i] = the lanes of x[i, :] times one row of weights, for i < here. The other sums, up to `most`, use the first row
 * again. */
KVC_DEVICE void kvc_sum_rows(kvc_u32 type, struct kvc_lanes *sum, int most, KVC_GLOBAL const float *x, kvc_u32 here,
                             KVC_GLOBAL const kvc_u8 *weight, kvc_u64 K) {
    const kvc_u32 worker = KVC_LOCAL_ID() % KVC_WORKERS, left = (kvc_u32)(K % 32);
    kvc_u64 k = 0;
    for (int i = 0; i < most; i++)
        sum[i] = kvc_lanes_zero();
    if (here == 1) {
        struct kvc_lanes one = kvc_lanes_zero();
        for (; k + 32 <= K; k += 32)
            one = kvc_lanes_fma(kvc_lanes_floats(x + k, worker), kvc_lanes_weight(type, weight, k, worker), one);
        sum[0] = one;
    } else {
        for (; k + 32 <= K; k += 32) {
            struct kvc_lanes p = kvc_lanes_weight(type, weight, k, worker);
            for (int i = 0; i < most; i++)
                sum[i] = kvc_lanes_fma(kvc_lanes_floats(x + ((kvc_u32)i < here ? i : 0) * K + k, worker), p, sum[i]);
        }
    }
    if (left) {
        struct kvc_lanes p = kvc_lanes_weight_tail(type, weight, k, worker, left);
        for (int i = 0; i < most; i++)
            sum[i] = kvc_lanes_fma_tail(kvc_lanes_floats_tail(x + ((kvc_u32)i < here ? i : 0) * K + k, worker, left), p,
                                        sum[i], left);
    }
}
/* Computes a group's outputs for KVC_SMALL_BATCH rows from `row` on, or fewer at the end. w holds rows first .. first +
 * count - 1 of the matrix. */
KVC_DEVICE void kvc_linear_few(kvc_u32 type, KVC_LINEAR_ARGUMENTS, KVC_LOCAL float *shared_sum) {
    const kvc_u32 row = KVC_GROUP_ID(1) * KVC_SMALL_BATCH,
                  here = rows - row < KVC_SMALL_BATCH ? rows - row : KVC_SMALL_BATCH;
    KVC_GLOBAL const float *x = x_buffer + x_offset + row * K;
    for (kvc_u32 each = 0; each < KVC_EACH; each++) {
        const kvc_u64 n = ((kvc_u64)KVC_GROUP_ID(0) * KVC_EACH + each) * KVC_TEAMS + KVC_LOCAL_ID() / KVC_WORKERS;
        struct kvc_lanes sum[KVC_SMALL_BATCH];
        kvc_sum_rows(type, sum, KVC_SMALL_BATCH, x, here, w + (n < count ? n : 0) * row_bytes, K);
        for (int i = 0; i < KVC_SMALL_BATCH; i++) { /* loops over all rows, so that no barrier is conditional */
            const float value = kvc_lanes_sum(sum[i], shared_sum);
            if ((kvc_u32)i < here && KVC_LOCAL_ID() % KVC_WORKERS == 0 && n < count)
                y_buffer[y_offset + (kvc_u64)(row + i) * N + first + n] =
                    bias_buffer ? value + bias_buffer[bias_offset + first + n] : value;
        }
    }
}
#define KVC_LINEAR_OF_TYPE(a, NAME, name, gguf, elements, bytes, scale, scales, wide, holds)                           \
    KVC_GROUP_KERNEL(linear_##name)(KVC_LINEAR_ARGUMENTS) {                                                            \
        KVC_SHARED float shared_sum[KVC_SUM_FLOATS];                                                                   \
        kvc_linear_few(KVC_K_##NAME, y_buffer, y_offset, x_buffer, x_offset, w, row_bytes, K, N, first, count,         \
                       bias_buffer, bias_offset, rows, shared_sum);                                                    \
    }
KVC_ALL_WEIGHT_TYPES(KVC_LINEAR_OF_TYPE, )

/* ---- many rows ---- */

/* Packed layout: blocks of B rows, [block][lane][step][row in block], steps = ceil(K / 32). Values beyond K or after
 * the last row are never used. */
#define KVC_PACK_X KVC_PACK_X_OF(KVC_GROUP)
#define KVC_PACK_W KVC_PACK_W_OF(KVC_WORKERS)
#define KVC_PACKED(B, n, K, lane, step)                                                                                \
    ((((kvc_u64)(n) / (B)*32 + (lane)) * (((K) + 31) / 32) + (step)) * (B) + (n) % (B))

/* A work-item packs 32 neighbouring values of one row of x. */
KVC_KERNEL(pack_x)(KVC_SPAN(float, packed), KVC_SPAN(const float, x), kvc_u64 K, kvc_u64 rows) {
    kvc_u64 id = KVC_GLOBAL_ID(), row = id % rows, step = id / rows;
    kvc_u64 left = step * 32 < K ? K - step * 32 : 0;
    KVC_GLOBAL const float *from = x_buffer + x_offset + row * K + step * 32;
    for (kvc_u32 lane = 0; lane < 32 && lane < left; lane++)
        packed_buffer[packed_offset + KVC_PACKED(KVC_PACK_X, row, K, lane, step)] = from[lane];
}

/* Packs the weight rows first .. first + rows - 1, dequantized. */
#if KVC_WORKERS == 1
/* Transposes 16 vectors of 16 in four steps. In each step, vector i becomes the even elements of vectors 2i and 2i + 1,
 * and vector i + 8 their odd elements. */
#define KVC_EVENS(to, from, i)                                                                                         \
    to[i] = KVC_EVEN16(from[2 * (i)], from[2 * (i) + 1]);                                                              \
    to[(i) + 8] = KVC_ODD16(from[2 * (i)], from[2 * (i) + 1]);
#define KVC_TRANSPOSE_ONCE(to, from)                                                                                   \
    KVC_EVENS(to, from, 0)                                                                                             \
    KVC_EVENS(to, from, 1)                                                                                             \
    KVC_EVENS(to, from, 2)                                                                                             \
    KVC_EVENS(to, from, 3)                                                                                             \
    KVC_EVENS(to, from, 4)                                                                                             \
    KVC_EVENS(to, from, 5)                                                                                             \
    KVC_EVENS(to, from, 6)                                                                                             \
    KVC_EVENS(to, from, 7)
KVC_DEVICE void kvc_transpose(float16 *x) {
    float16 y[16];
    KVC_TRANSPOSE_ONCE(y, x)
    KVC_TRANSPOSE_ONCE(x, y)
    KVC_TRANSPOSE_ONCE(y, x)
    KVC_TRANSPOSE_ONCE(x, y)
}
/* A work-item packs 32 neighbouring values of all rows of a block, so that cache lines of packed memory are written
 * completely. */
KVC_KERNEL(pack_w)
(KVC_SPAN(float, packed), KVC_GLOBAL const kvc_u8 *w, kvc_u64 row_bytes, kvc_u32 type, kvc_u64 K, kvc_u64 first,
 kvc_u64 rows) {
    kvc_u64 steps = (K + 31) / 32, row = KVC_GLOBAL_ID() / steps * KVC_PACK_W, step = KVC_GLOBAL_ID() % steps;
    kvc_u64 left = K - step * 32;
    if (row >= rows)
        return;
    for (kvc_u32 half_block = 0; half_block < KVC_PACK_W; half_block += 16) {
        float16 low[16], high[16];
        for (kvc_u32 i = 0; i < 16; i++) {
            kvc_u64 here = row + half_block + i < rows ? row + half_block + i : row;
            KVC_GLOBAL const kvc_u8 *from = w + (first + here) * row_bytes;
            struct kvc_lanes p = left >= 32 ? kvc_lanes_weight(type, from, step * 32, 0)
                                            : kvc_lanes_weight_tail(type, from, step * 32, 0, (kvc_u32)left);
            low[i] = p.low;
            high[i] = p.high;
        }
        kvc_transpose(low);
        kvc_transpose(high);
        for (kvc_u32 lane = 0; lane < 16; lane++) {
            KVC_GLOBAL float *to = packed_buffer + packed_offset + half_block;
            vstore16(low[lane], 0, to + KVC_PACKED(KVC_PACK_W, row, K, lane, step));
            vstore16(high[lane], 0, to + KVC_PACKED(KVC_PACK_W, row, K, lane + 16, step));
        }
    }
}
#else
KVC_KERNEL(pack_w)
(KVC_SPAN(float, packed), KVC_GLOBAL const kvc_u8 *w, kvc_u64 row_bytes, kvc_u32 type, kvc_u64 K, kvc_u64 first,
 kvc_u64 rows) {
    kvc_u64 id = KVC_GLOBAL_ID(), row = id % rows, step = id / rows;
    kvc_u64 left = step * 32 < K ? K - step * 32 : 0;
    KVC_GLOBAL const kvc_u8 *from = w + (first + row) * row_bytes;
    for (kvc_u32 worker = 0; worker < 4 && left > 0; worker++) {
        struct kvc_lanes p = left >= 32 ? kvc_lanes_weight(type, from, step * 32, worker)
                                        : kvc_lanes_weight_tail(type, from, step * 32, worker, (kvc_u32)left);
        for (kvc_u32 i = 0; i < 8 && worker * 8 + i < left; i++)
            packed_buffer[packed_offset + KVC_PACKED(KVC_PACK_W, row, K, worker * 8 + i, step)] = p.lane[i];
    }
}
#endif

/* Lanes are computed in bit-reversed order. The tree then always adds results that were computed one after another.
 * After lane i, one stored sum of earlier lanes is added for each trailing 1 bit of i. */
#define KVC_REVERSED(i) ((((i)&1) << 4) | (((i)&2) << 2) | ((i)&4) | (((i)&8) >> 2) | (((i)&16) >> 4))

/* Grid: (blocks of rows, blocks of outputs), so that neighbouring groups share their weights. */
#if KVC_WORKERS == 1
/* A work-item computes a tile of 8 rows x 32 outputs. */
KVC_GROUP_KERNEL(product)
(KVC_SPAN(float, y), KVC_SPAN(const float, x), KVC_SPAN(const float, w), kvc_u64 K, kvc_u64 N, kvc_u64 first,
 kvc_u64 count, KVC_SPAN(const float, bias), kvc_u64 rows) {
    kvc_u64 n0 = (kvc_u64)KVC_GROUP_ID(1) * KVC_PACK_W, row0 = (kvc_u64)KVC_GROUP_ID(0) * KVC_PACK_X;
    const float one = KVC_ONE(K);
    float16 stack[5][KVC_PACK_X][2], sum[KVC_PACK_X][2];
    for (kvc_u32 i = 0; i < 32; i++) {
        kvc_u32 lane = KVC_REVERSED(i), depth = 0;
        kvc_u64 steps = K > lane ? (K - lane + 31) / 32 : 0;
        KVC_GLOBAL const float *a = x_buffer + x_offset + KVC_PACKED(KVC_PACK_X, row0, K, lane, 0);
        KVC_GLOBAL const float *b = w_buffer + w_offset + KVC_PACKED(KVC_PACK_W, n0, K, lane, 0);
        float16 acc[KVC_PACK_X][2];
        for (int r = 0; r < KVC_PACK_X; r++)
            acc[r][0] = acc[r][1] = (float16)(0.0f);
        for (kvc_u64 step = 0; step < steps; step++, a += KVC_PACK_X, b += KVC_PACK_W) {
            float16 w0 = vload16(0, b), w1 = vload16(1, b);
#define KVC_ROW(r)                                                                                                     \
    acc[r][0] = fma((float16)(a[r]), w0, acc[r][0]);                                                                   \
    acc[r][1] = fma((float16)(a[r]), w1, acc[r][1]);
            KVC_ROW(0)
            KVC_ROW(1)
            KVC_ROW(2)
            KVC_ROW(3)
            KVC_ROW(4)
            KVC_ROW(5)
            KVC_ROW(6)
            KVC_ROW(7)
#undef KVC_ROW
        }
        for (int r = 0; r < KVC_PACK_X; r++)
            sum[r][0] = acc[r][0], sum[r][1] = acc[r][1];
        for (; i >> depth & 1; depth++)
            for (int r = 0; r < KVC_PACK_X; r++) {
                sum[r][0] = kvc_plus16(sum[r][0], stack[depth][r][0], one);
                sum[r][1] = kvc_plus16(sum[r][1], stack[depth][r][1], one);
            }
        for (int r = 0; r < KVC_PACK_X && depth < 5; r++)
            stack[depth][r][0] = sum[r][0], stack[depth][r][1] = sum[r][1];
    }
    for (kvc_u32 r = 0; r < KVC_PACK_X && row0 + r < rows; r++)
        for (kvc_u32 j = 0; j < KVC_PACK_W && n0 + j < count; j++) {
            float value = ((float *)sum[r])[j];
            if (bias_buffer)
                value = value + bias_buffer[bias_offset + first + n0 + j];
            y_buffer[y_offset + (row0 + r) * N + first + n0 + j] = value;
        }
}
#else
/* A group computes a tile of KVC_PACK_X rows x 64 outputs. A work-item computes 4 x 4 of these results: rows 4a .. 4a +
 * 3, outputs b, b + 16, b + 32, b + 48. */
KVC_GROUP_KERNEL(product)
(KVC_SPAN(float, y), KVC_SPAN(const float, x), KVC_SPAN(const float, w), kvc_u64 K, kvc_u64 N, kvc_u64 first,
 kvc_u64 count, KVC_SPAN(const float, bias), kvc_u64 rows) {
    kvc_u64 n0 = (kvc_u64)KVC_GROUP_ID(1) * KVC_PACK_W, row0 = (kvc_u64)KVC_GROUP_ID(0) * KVC_PACK_X;
    kvc_u32 ra = KVC_LOCAL_ID() / 16 * 4, nb = KVC_LOCAL_ID() % 16;
    const float one = KVC_ONE(K);
    float stack[5][4][4], sum[4][4];
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (kvc_u32 i = 0; i < 32; i++) {
        kvc_u32 lane = KVC_REVERSED(i), depth = 0;
        kvc_u64 steps = K > lane ? (K - lane + 31) / 32 : 0;
        KVC_GLOBAL const float *a = x_buffer + x_offset + KVC_PACKED(KVC_PACK_X, row0, K, lane, 0) + ra;
        KVC_GLOBAL const float *b = w_buffer + w_offset + KVC_PACKED(KVC_PACK_W, n0, K, lane, 0) + nb;
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++)
                sum[r][c] = 0.0f;
        for (kvc_u64 step = 0; step < steps; step++, a += KVC_PACK_X, b += KVC_PACK_W)
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++)
                    sum[r][c] = kvc_fma(a[r], b[c * 16], sum[r][c]);
        for (; i >> depth & 1; depth++)
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++)
                    sum[r][c] = kvc_plus(sum[r][c], stack[depth][r][c], one);
        for (int r = 0; r < 4 && depth < 5; r++)
            for (int c = 0; c < 4; c++)
                stack[depth][r][c] = sum[r][c];
    }
    for (kvc_u32 r = 0; r < 4; r++)
        for (kvc_u32 c = 0; c < 4; c++) {
            kvc_u64 row = row0 + ra + r, n = n0 + nb + c * 16;
            if (row < rows && n < count)
                y_buffer[y_offset + row * N + first + n] =
                    bias_buffer ? sum[r][c] + bias_buffer[bias_offset + first + n] : sum[r][c];
        }
}
#endif
