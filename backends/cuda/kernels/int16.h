/* int16.h - linear layers with activations and weights in 15 bits, for many rows. A quant is split into two digits of
 * one byte (canon.h, "int16"), and tensor cores multiply digits like the 8-bit quants in kvc_int8_product (int8.h). A
 * block has three sums of products of digits: one of high times high, one of high times low and low times high, and one
 * of low times low. These sums stay in registers for the whole block. */

#define KVC_INT16_M 64u /* numbers of rows and outputs of a group's tile */
#define KVC_INT16_N 32u
#define KVC_INT16_STEPS 8   /* number of steps in a block; a step has 32 quants */
#define KVC_INT16_X_STEPS 4 /* number of steps of a row per load; the weights of a whole block are loaded at once */

/* The digits of 32 quants of some rows or outputs, as words of four digits in the order of kvc_int8_product. */
template <int rows> struct kvc_int16_digits { kvc_u32 high[rows][8], low[rows][8]; };

/* One block of a tile. */
struct kvc_int16_shared {
    kvc_int16_digits<KVC_INT16_M> x[KVC_INT16_X_STEPS];
    kvc_int16_digits<KVC_INT16_N> w[KVC_INT16_STEPS];
    float x_scale[KVC_INT16_M], w_scale[KVC_INT16_N];
    kvc_u32 tops[KVC_INT16_STEPS][KVC_INT16_N];
};

/* Stores the digits of 32 quants of row r. */
template <int rows> KVC_DEVICE void kvc_int16_store(kvc_int16_digits<rows> *to, kvc_u32 r, const kvc_i16 *quant) {
    for (kvc_u32 k = 0; k < 8; k++) {
        kvc_u32 high = 0, low = 0;
#pragma unroll
        for (kvc_u32 i = 0; i < 4; i++) {
            high |= ((kvc_u32)kvc_int16_high(quant[4 * k + i]) & 255u) << 8 * i;
            low |= (kvc_u32)kvc_int16_low(quant[4 * k + i]) << 8 * i;
        }
        to->high[r][k ^ (r & 4u)] = high;
        to->low[r][k ^ (r & 4u)] = low;
    }
}

/* Loads the scales of block b and its weights. Each thread quantizes 32 weights. Outputs past the last one are copies
 * of it. */
KVC_DEVICE void kvc_int16_load_weights(kvc_int16_shared *tile, const float *scale, const kvc_u8 *w, kvc_u64 row_bytes,
                                       kvc_u32 type, kvc_u64 K, kvc_u64 row0, kvc_u64 rows, kvc_u64 n0, kvc_u64 count,
                                       kvc_u64 b) {
    const kvc_u32 n = threadIdx.x % KVC_INT16_N, step = threadIdx.x / KVC_INT16_N;
    const kvc_u64 k = b * KVC_INT16_BLOCK + step * KVC_INT16_STEP;
    const kvc_u8 *of_output = w + (n0 + n < count ? n0 + n : count - 1) * row_bytes;
    float value[KVC_INT16_STEP], inverse;
    kvc_i16 quant[KVC_INT16_STEP];
    kvc_u32 top = 0;
#pragma unroll
    for (kvc_u32 i = 0; i < KVC_INT16_STEP; i++) {
        value[i] = k < K ? kvc_dequantize_float(type, of_output, k + i) : 0.0f;
        top = kvc_int8_top(top, value[i]);
    }
    tile->tops[step][n] = top;
    __syncthreads();
#pragma unroll
    for (kvc_u32 i = 0; i < KVC_INT16_STEPS; i++)
        top = top > tile->tops[i][n] ? top : tile->tops[i][n];
    inverse = kvc_int16_inverse(top);
#pragma unroll
    for (kvc_u32 i = 0; i < KVC_INT16_STEP; i++)
        quant[i] = kvc_int16_quant(value[i], inverse);
    kvc_int16_store(&tile->w[step], n, quant);
    if (step == 0)
        tile->w_scale[n] = kvc_int16_scale(top);
    if (threadIdx.x < KVC_INT16_M)
        tile->x_scale[threadIdx.x] =
            scale[(row0 + threadIdx.x < rows ? row0 + threadIdx.x : rows - 1) * KVC_INT16_BLOCKS_OF(K) + b];
}

/* Loads quants k .. k + 127 of the rows, as far as they exist. Rows past the last one are copies of it. */
KVC_DEVICE void kvc_int16_load_rows(kvc_int16_shared *tile, const kvc_i16 *quant, kvc_u64 K, kvc_u64 row0, kvc_u64 rows,
                                    kvc_u64 k) {
    const kvc_u32 r = threadIdx.x / KVC_INT16_X_STEPS, l = threadIdx.x % KVC_INT16_X_STEPS;
    if (k + l * KVC_INT16_STEP < K)
        kvc_int16_store(&tile->x[l], r, quant + (row0 + r < rows ? row0 + r : rows - 1) * K + k + l * KVC_INT16_STEP);
}

/* The sums of a block for 16 rows and eight outputs. A thread has four of each. */
struct kvc_int16_sums {
    kvc_i32 high[4], mixed[4], low[4];
};

/* Adds 32 products to each sum. */
KVC_DEVICE void kvc_int16_products(kvc_int16_sums *sums, kvc_int16_digits<KVC_INT16_M> *x,
                                   kvc_int16_digits<KVC_INT16_N> *w, kvc_u32 row, kvc_u32 n) {
    kvc_int8_product(sums->high, x->high + row, w->high + n, 0);
    kvc_int8_product(sums->mixed, x->high + row, w->low + n, 0);
    kvc_int8_product(sums->mixed, x->low + row, w->high + n, 0);
    kvc_int8_product(sums->low, x->low + row, w->low + n, 0);
}

/* A group computes a tile of 64 rows x 32 outputs, and a warp computes 16 x 16 of these results. Grid: (outputs / 32,
 * rows / 64). */
extern "C" __global__ void __launch_bounds__(256)
    kvc_k_gemm_int16(float *y, const kvc_i16 *quant, const float *scale, const kvc_u8 *w, kvc_u64 row_bytes,
                     kvc_u32 type, kvc_u64 K, kvc_u64 N, kvc_u64 first, kvc_u64 count, const float *bias,
                     kvc_u64 rows) {
    KVC_SHARED kvc_int16_shared tile;
    const kvc_u64 n0 = (kvc_u64)KVC_GROUP_ID(0) * KVC_INT16_N, row0 = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT16_M;
    const kvc_u32 id = threadIdx.x, warp = id / 32, g = id % 32 / 4, t = id % 4;
    const kvc_u32 warp_row = warp % 4 * 16, warp_n = warp / 4 * 16;
    float total[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
    for (kvc_u64 k0 = 0; k0 < K; k0 += KVC_INT16_BLOCK) {
        kvc_int16_sums sums[2] = {};
        __syncthreads();
        kvc_int16_load_weights(&tile, scale, w, row_bytes, type, K, row0, rows, n0, count, k0 / KVC_INT16_BLOCK);
#pragma unroll
        for (int from = 0; from < KVC_INT16_STEPS; from += KVC_INT16_X_STEPS) {
            const kvc_u64 k = k0 + (kvc_u64)from * KVC_INT16_STEP;
            if (from)
                __syncthreads();
            kvc_int16_load_rows(&tile, quant, K, row0, rows, k);
            __syncthreads();
#pragma unroll
            for (int l = 0; l < KVC_INT16_X_STEPS; l++)
#pragma unroll
                for (int m = 0; m < 2; m++)
                    if (k + (kvc_u64)l * KVC_INT16_STEP < K)
                        kvc_int16_products(&sums[m], &tile.x[l], &tile.w[from + l], warp_row, warp_n + 8 * m);
        }
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) /* 128 * mixed + low is below 2^31 */
                total[m][i] = kvc_int16_add(
                    tile.w_scale[warp_n + 8 * m + 2 * t + i % 2], tile.x_scale[warp_row + g + i / 2 * 8],
                    (kvc_i64)sums[m].high[i] * 16384 + (128 * sums[m].mixed[i] + sums[m].low[i]), total[m][i]);
    }
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const kvc_u64 row = row0 + warp_row + g + i / 2 * 8, n = n0 + warp_n + 8 * m + 2 * t + i % 2;
            if (row < rows && n < count)
                y[row * N + first + n] = bias ? total[m][i] + bias[first + n] : total[m][i];
        }
}
