/* gemm.h - linear layers for many rows: rows and weights are packed by lane, and each lane is a matrix product through
 * shared memory. The sums of lanes are added in the order of the tree (canon.h): lanes are computed in bit-reversed
 * order, and unfinished sums are stored on a stack with five levels. */

/* Packed layout: blocks of B rows, [block][lane][step][row in block], steps = ceil(K / 32). A work-item packs 32
 * neighbouring values of one row. Neighbouring work-items have neighbouring rows, so that their stores are contiguous.
 */
template <kvc_u32 B>
KVC_DEVICE void kvc_gemm_pack(float *packed, const kvc_u8 *from, kvc_u32 type, kvc_u64 K, kvc_u64 row, kvc_u64 step) {
    kvc_u64 k = step * 32, steps = (K + 31) / 32;
    float *to = packed + (row / B * 32 * steps + step) * B + row % B;
    for (kvc_u32 lane = 0; lane < 32 && k + lane < K; lane++)
        to[lane * steps * B] = kvc_dequantize_weight(type, from, k + lane);
}

KVC_KERNEL(gemm_pack_x)(float *packed, const float *x, kvc_u64 K, kvc_u32 rows, kvc_u32 block) {
    kvc_u64 id = KVC_GLOBAL_ID(), row = id % rows, step = id / rows;
    const kvc_u8 *from = (const kvc_u8 *)(x + row * K);
    if (step * 32 >= K)
        return;
    if (block == 128)
        kvc_gemm_pack<128>(packed, from, KVC_K_F32, K, row, step);
    else
        kvc_gemm_pack<32>(packed, from, KVC_K_F32, K, row, step);
}

/* Packs rows first .. first + rows - 1 of w. */
KVC_KERNEL(gemm_pack_w)
(float *packed, const kvc_u8 *w, kvc_u64 row_bytes, kvc_u32 type, kvc_u64 K, kvc_u64 first, kvc_u64 rows) {
    kvc_u64 id = KVC_GLOBAL_ID(), row = id % rows, step = id / rows;
    if (step * 32 < K)
        kvc_gemm_pack<128>(packed, w + (first + row) * row_bytes, type, K, row, step);
}

#define KVC_GEMM_DEPTH 8 /* number of steps that are loaded at a time (a stage) */
#define KVC_GEMM_STAGES 3

/* Loads stage i: KVC_GEMM_DEPTH steps of the rows and of the weights, for lane i / tiles in bit-reversed order. */
template <kvc_u32 M>
KVC_DEVICE void kvc_gemm_load(float *stage, const float *a, const float *b, kvc_u64 steps, kvc_u32 tiles, kvc_u32 i) {
    kvc_u32 lane = KVC_REVERSED(i / tiles), id = threadIdx.x;
    kvc_u64 step = (kvc_u64)(i % tiles) * KVC_GEMM_DEPTH;
    kvc_u32 depth = steps - step < KVC_GEMM_DEPTH ? (kvc_u32)(steps - step) : KVC_GEMM_DEPTH;
    a += (lane * steps + step) * M;
    b += (lane * steps + step) * 128;
    if (id * 4 < depth * M)
        kvc_async(stage + id * 4, a + id * 4, 16);
    if (id * 4 < depth * 128)
        kvc_async(stage + KVC_GEMM_DEPTH * M + id * 4, b + id * 4, 16);
    kvc_async_commit();
}

/* A block of 256 work-items computes M rows x 128 outputs. Each work-item computes M / 16 rows x 8 outputs: 4c .. 4c +
 * 3 and 4c + 64 .. 4c + 67. Grid: (outputs / 128, rows / M). */
template <kvc_u32 M>
KVC_DEVICE void kvc_gemm_product(float *shared, float *y, const float *a, const float *b, kvc_u64 K, kvc_u64 N,
                                 kvc_u64 first, kvc_u64 count, const float *bias, kvc_u32 rows) {
    constexpr int R = M / 16;
    constexpr kvc_u32 stage_floats = KVC_GEMM_DEPTH * (M + 128);
    kvc_u64 steps = (K + 31) / 32, n0 = (kvc_u64)KVC_GROUP_ID(0) * 128, row0 = (kvc_u64)KVC_GROUP_ID(1) * M;
    kvc_u32 tiles = (kvc_u32)((steps + KVC_GEMM_DEPTH - 1) / KVC_GEMM_DEPTH), all = 32 * tiles;
    kvc_u32 ra = threadIdx.x / 16 * R, nb = threadIdx.x % 16 * 4;
    float stack[5][R][8], sum[R][8];
    a += KVC_GROUP_ID(1) * 32 * steps * M;
    b += KVC_GROUP_ID(0) * 32 * steps * 128;
    for (kvc_u32 i = 0; i < KVC_GEMM_STAGES - 1; i++) {
        if (i < all)
            kvc_gemm_load<M>(shared + i * stage_floats, a, b, steps, tiles, i);
        else
            kvc_async_commit();
    }
    for (kvc_u32 l = 0, i = 0; l < 32; l++) {
        kvc_u32 lane = KVC_REVERSED(l);
        kvc_u64 mine = K > lane ? (K - lane + 31) / 32 : 0; /* number of steps of this lane */
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int c = 0; c < 8; c++)
                sum[r][c] = 0.0f;
        for (kvc_u32 t = 0; t < tiles; t++, i++) {
            const float *stage = shared + i % KVC_GEMM_STAGES * stage_floats;
            kvc_u64 step = (kvc_u64)t * KVC_GEMM_DEPTH;
            kvc_u32 depth = mine > step ? mine - step < KVC_GEMM_DEPTH ? (kvc_u32)(mine - step) : KVC_GEMM_DEPTH : 0;
            kvc_async_wait<KVC_GEMM_STAGES - 2>();
            KVC_BARRIER();
            if (i + KVC_GEMM_STAGES - 1 < all)
                kvc_gemm_load<M>(shared + (i + KVC_GEMM_STAGES - 1) % KVC_GEMM_STAGES * stage_floats, a, b, steps,
                                 tiles, i + KVC_GEMM_STAGES - 1);
            else
                kvc_async_commit();
#pragma unroll
            for (kvc_u32 s = 0; s < KVC_GEMM_DEPTH; s++) {
                const float *x = stage + s * M + ra, *w = stage + KVC_GEMM_DEPTH * M + s * 128 + nb;
                float4 w0, w1;
                if (s >= depth)
                    break;
                w0 = kvc_float4(w);
                w1 = kvc_float4(w + 64);
#pragma unroll
                for (int r = 0; r < R; r++) {
                    sum[r][0] = kvc_fma(x[r], w0.x, sum[r][0]);
                    sum[r][1] = kvc_fma(x[r], w0.y, sum[r][1]);
                    sum[r][2] = kvc_fma(x[r], w0.z, sum[r][2]);
                    sum[r][3] = kvc_fma(x[r], w0.w, sum[r][3]);
                    sum[r][4] = kvc_fma(x[r], w1.x, sum[r][4]);
                    sum[r][5] = kvc_fma(x[r], w1.y, sum[r][5]);
                    sum[r][6] = kvc_fma(x[r], w1.z, sum[r][6]);
                    sum[r][7] = kvc_fma(x[r], w1.w, sum[r][7]);
                }
            }
        }
        kvc_u32 depth = 0;
        for (; l >> depth & 1; depth++)
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int c = 0; c < 8; c++)
                    sum[r][c] = stack[depth][r][c] + sum[r][c];
        if (depth < 5)
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int c = 0; c < 8; c++)
                    stack[depth][r][c] = sum[r][c];
    }
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int c = 0; c < 8; c++) {
            kvc_u64 row = row0 + ra + r, n = n0 + nb + c % 4 + c / 4 * 64;
            if (row < rows && n < count)
                y[row * N + first + n] = bias ? sum[r][c] + bias[first + n] : sum[r][c];
        }
}

#define KVC_GEMM_KERNEL(M)                                                                                             \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        kvc_k_gemm_product_##M(float *y, const float *a, const float *b, kvc_u64 K, kvc_u64 N, kvc_u64 first,          \
                               kvc_u64 count, const float *bias, kvc_u32 rows) {                                       \
        KVC_SHARED __align__(16) float shared[KVC_GEMM_STAGES * KVC_GEMM_DEPTH * (M + 128)];                           \
        kvc_gemm_product<M>(shared, y, a, b, K, N, first, count, bias, rows);                                          \
    }
KVC_GEMM_KERNEL(32)
KVC_GEMM_KERNEL(128)
