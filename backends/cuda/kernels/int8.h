/* int8.h - linear layers with 8-bit activations, for many rows. Data passes through shared memory, and tensor cores
 * compute the sums of blocks. Below compute capability 8.0, these sums are computed as dot products of four bytes. Sums
 * of integers are exact in any order, so both results are the same. */

#define KVC_INT8_M 64u /* numbers of rows and outputs of a group's tile */
#define KVC_INT8_N 32u

/* Adds to c the products of 16 rows of x with 8 outputs of w, over all quants of a block (half_block 0), over its first
 * 16 (1) or over its last 16 (2). Rows and outputs are in shared memory, eight words each. Word k of row r is stored at
 * index k ^ (r & 4), so that work-items that read together use different banks. Work-item 4 g + t of the warp has the
 * results of rows g and g + 8 for outputs 2 t and 2 t + 1, in this order. */
KVC_DEVICE void kvc_int8_product(kvc_i32 *c, kvc_u32 (*x)[8], kvc_u32 (*w)[8], int half_block) {
    const kvc_u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, low = t ^ (g & 4u), high = (t + 4) ^ (g & 4u);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (half_block == 0)
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                     : "r"(x[g][low]), "r"(x[g + 8][low]), "r"(x[g][high]), "r"(x[g + 8][high]), "r"(w[g][low]),
                       "r"(w[g][high]));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(x[g][half_block == 1 ? low : high]), "r"(x[g + 8][half_block == 1 ? low : high]),
              "r"(w[g][half_block == 1 ? low : high]));
#else
    const kvc_u32 from = half_block == 2 ? 4 : 0, to = half_block == 1 ? 4 : 8;
#if defined(KVC_CUDA_EMULATED)
    const kvc_u32 a[4] = {x[g][low], x[g + 8][low], x[g][high], x[g + 8][high]}, b[2] = {w[g][low], w[g][high]};
    if (KVC_EMULATED_TENSOR()) { /* only some groups emulate tensor cores, so that tests cover both versions */
        kvc_emulated_mma(c, a + from / 2, b + from / 4, (to - from) / 4);
        return;
    }
#else
    (void)low, (void)high;
#endif
    for (kvc_u32 i = 0; i < 4; i++) {
        const kvc_u32 r = g + i / 2 * 8, n = 2 * t + i % 2;
        for (kvc_u32 k = from; k < to; k++)
            c[i] = kvc_dot4(x[r][k ^ (r & 4u)], w[n][k ^ (n & 4u)], c[i]);
    }
#endif
}

/* A group computes a tile of 64 rows x 32 outputs, and a warp computes 16 x 16 of these results, with their eight lanes
 * in registers. Eight blocks of each row and output are loaded at a time. Grid: (outputs / 32, rows / 64). */
extern "C" __global__ void __launch_bounds__(256)
    kvc_k_gemm_int8(float *y, const kvc_u32 *quant, const float *scale, const kvc_i32 *sum, const kvc_u8 *w,
                    kvc_u64 row_bytes, kvc_u32 type, kvc_u64 blocks, kvc_u64 N, kvc_u64 first, kvc_u64 count,
                    const float *bias, kvc_u64 rows) {
    KVC_SHARED kvc_u32 x_word[KVC_INT8_LANES][KVC_INT8_M][8], w_word[KVC_INT8_LANES][KVC_INT8_N][8];
    KVC_SHARED float x_scale[KVC_INT8_LANES][KVC_INT8_M];
    KVC_SHARED kvc_i32 x_sum[KVC_INT8_LANES][2][KVC_INT8_M];
    KVC_SHARED float w_scale[KVC_INT8_LANES][2][KVC_INT8_N], w_minimum[KVC_INT8_LANES][2][KVC_INT8_N];
    const kvc_u64 n0 = (kvc_u64)KVC_GROUP_ID(0) * KVC_INT8_N, row0 = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT8_M;
    const kvc_u32 id = threadIdx.x, warp = id / 32, g = id % 32 / 4, t = id % 4;
    const kvc_u32 warp_row = warp % 4 * 16, warp_n = warp / 4 * 16;
    const bool narrow = kvc_int8_narrow(type), has_minimum = kvc_int8_has_minimum(type);
    float lane[KVC_INT8_LANES][2][4];
#pragma unroll
    for (int l = 0; l < KVC_INT8_LANES; l++)
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                lane[l][m][i] = 0.0f;
    for (kvc_u64 b0 = 0; b0 < blocks; b0 += KVC_INT8_LANES) {
        const kvc_u32 here = blocks - b0 < KVC_INT8_LANES ? (kvc_u32)(blocks - b0) : KVC_INT8_LANES;
        __syncthreads();
        /* rows and outputs past the last one are copies of it */
        for (kvc_u32 j = id; j < KVC_INT8_M * 16; j += 256) {
            const kvc_u32 r = j / 16, l = j % 16 / 2, h = j % 2;
            const kvc_u64 at = (row0 + r < rows ? row0 + r : rows - 1) * blocks + b0 + l;
            if (l < here) {
                const struct kvc_half x = kvc_half_load(quant + at * 8 + 4 * h);
                for (kvc_u32 k = 0; k < 4; k++)
                    x_word[l][r][(4 * h + k) ^ (r & 4u)] = x.word[k];
                x_sum[l][h][r] = sum[at * 2 + h];
                if (h == 0)
                    x_scale[l][r] = scale[at];
            }
        }
        for (kvc_u32 j = id; j < KVC_INT8_N * 16; j += 256) {
            const kvc_u32 n = j / 16, l = j % 16 / 2, h = j % 2;
            if (l < here) {
                const struct kvc_half_weights p =
                    kvc_half_weights_of(type, w + (n0 + n < count ? n0 + n : count - 1) * row_bytes, b0 + l, h);
                for (kvc_u32 k = 0; k < 4; k++)
                    w_word[l][n][(4 * h + k) ^ (n & 4u)] = p.half_block.word[k];
                w_scale[l][h][n] = p.scale;
                w_minimum[l][h][n] = p.minimum;
            }
        }
        __syncthreads();
#pragma unroll
        for (int l = 0; l < KVC_INT8_LANES; l++)
#pragma unroll
            for (int m = 0; m < 2; m++)
                for (int h = narrow ? 1 : 0; (kvc_u32)l < here && h <= (narrow ? 2 : 0); h++) {
                    const int s = h == 2;
                    kvc_i32 c[4] = {0, 0, 0, 0};
                    kvc_int8_product(c, x_word[l] + warp_row, w_word[l] + warp_n + 8 * m, h);
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const kvc_u32 r = warp_row + g + i / 2 * 8, n = warp_n + 8 * m + 2 * t + i % 2;
                        lane[l][m][i] = kvc_int8_add(w_scale[l][s][n], x_scale[l][r], c[i], lane[l][m][i]);
                        if (has_minimum)
                            lane[l][m][i] =
                                kvc_int8_take(w_minimum[l][s][n], x_scale[l][r],
                                              narrow ? x_sum[l][s][r] : x_sum[l][0][r] + x_sum[l][1][r], lane[l][m][i]);
                    }
                }
    }
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const kvc_u64 row = row0 + warp_row + g + i / 2 * 8, n = n0 + warp_n + 8 * m + 2 * t + i % 2;
            const float even = (lane[0][m][i] + lane[4][m][i]) + (lane[2][m][i] + lane[6][m][i]);
            const float odd = (lane[1][m][i] + lane[5][m][i]) + (lane[3][m][i] + lane[7][m][i]);
            const float value = even + odd;
            if (row < rows && n < count)
                y[row * N + first + n] = bias ? value + bias[first + n] : value;
        }
}
