/* int16.h - linear layers with activations and weights of fourteen bits, for many rows. Tensor cores multiply digits of
 * seven bits, as kvc_int8_product of int8.h does with quants of eight. A block has three sums: of the high digits, of
 * each high digit times the other number's low digit, and of the low digits. */

#define KVC_INT16_M 64u /* rows and outputs of a group's tile */
#define KVC_INT16_N 32u
#define KVC_INT16_BLOCKS 4 /* of each row and output that are loaded at a time */

/* One block of some rows or outputs: digits as words of four, in the order of kvc_int8_product. */
template <int rows> struct kvc_int16_digits {
    kvc_u32 high[rows][8], low[rows][8];
    float scale[rows];
};

/* Stores word k of row r: the digits of four quants. */
template <int rows>
KVC_DEVICE void kvc_int16_store(kvc_int16_digits<rows> *to, kvc_u32 r, kvc_u32 k, const kvc_i16 *quant) {
    kvc_u32 high = 0, low = 0;
#pragma unroll
    for (kvc_u32 i = 0; i < 4; i++) {
        high |= ((kvc_u32)kvc_int16_high(quant[i]) & 255u) << 8 * i;
        low |= (kvc_u32)kvc_int16_low(quant[i]) << 8 * i;
    }
    to->high[r][k ^ (r & 4u)] = high;
    to->low[r][k ^ (r & 4u)] = low;
}

/* Loads up to KVC_INT16_BLOCKS blocks of the tile's rows and outputs. Missing rows and outputs repeat the last one. */
KVC_DEVICE void kvc_int16_load(kvc_int16_digits<KVC_INT16_M> *x, kvc_int16_digits<KVC_INT16_N> *o, const kvc_i16 *quant,
                               const float *scale, const kvc_u8 *w, kvc_u64 row_bytes, kvc_u32 type, kvc_u64 blocks,
                               kvc_u64 row0, kvc_u64 rows, kvc_u64 n0, kvc_u64 count, kvc_u64 b0, kvc_u32 here) {
    for (kvc_u32 j = threadIdx.x; j < KVC_INT16_M * KVC_INT16_BLOCKS; j += 256) {
        const kvc_u32 r = j / KVC_INT16_BLOCKS, l = j % KVC_INT16_BLOCKS;
        const kvc_u64 at = (row0 + r < rows ? row0 + r : rows - 1) * blocks + b0 + l;
        if (l >= here)
            continue;
        for (kvc_u32 k = 0; k < 8; k++)
            kvc_int16_store(&x[l], r, k, quant + at * KVC_INT16_BLOCK + 4 * k);
        x[l].scale[r] = scale[at];
    }
    for (kvc_u32 j = threadIdx.x; j < KVC_INT16_N * KVC_INT16_BLOCKS; j += 256) {
        const kvc_u32 n = j / KVC_INT16_BLOCKS, l = j % KVC_INT16_BLOCKS;
        kvc_i16 q[KVC_INT16_BLOCK];
        if (l >= here)
            continue;
        o[l].scale[n] = kvc_int16_weights(q, type, w + (n0 + n < count ? n0 + n : count - 1) * row_bytes, b0 + l);
        for (kvc_u32 k = 0; k < 8; k++)
            kvc_int16_store(&o[l], n, k, q + 4 * k);
    }
}

/* Adds the products of a block to the lanes of 16 rows and eight outputs, of which this thread has four. */
KVC_DEVICE void kvc_int16_add(float *lane, kvc_int16_digits<KVC_INT16_M> *x, kvc_int16_digits<KVC_INT16_N> *o,
                              kvc_u32 row, kvc_u32 n) {
    const kvc_u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    kvc_i32 high[4] = {0, 0, 0, 0}, mixed[4] = {0, 0, 0, 0}, low[4] = {0, 0, 0, 0};
    kvc_int8_product(high, x->high + row, o->high + n, 0);
    kvc_int8_product(mixed, x->high + row, o->low + n, 0);
    kvc_int8_product(mixed, x->low + row, o->high + n, 0);
    kvc_int8_product(low, x->low + row, o->low + n, 0);
#pragma unroll
    for (int i = 0; i < 4; i++)
        lane[i] = kvc_int8_add(o->scale[n + 2 * t + i % 2], x->scale[row + g + i / 2 * 8],
                               16384 * high[i] + 128 * mixed[i] + low[i], lane[i]);
}

/* A group computes 64 rows x 32 outputs, a warp 16 x 16 of them with the eight lanes in its registers. Grid: (outputs /
 * 32, rows / 64). */
extern "C" __global__ void __launch_bounds__(256)
    kvc_k_gemm_int16(float *y, const kvc_i16 *quant, const float *scale, const kvc_u8 *w, kvc_u64 row_bytes,
                     kvc_u32 type, kvc_u64 blocks, kvc_u64 N, kvc_u64 first, kvc_u64 count, const float *bias,
                     kvc_u64 rows) {
    KVC_SHARED kvc_int16_digits<KVC_INT16_M> x[KVC_INT16_BLOCKS];
    KVC_SHARED kvc_int16_digits<KVC_INT16_N> o[KVC_INT16_BLOCKS];
    const kvc_u64 n0 = (kvc_u64)KVC_GROUP_ID(0) * KVC_INT16_N, row0 = (kvc_u64)KVC_GROUP_ID(1) * KVC_INT16_M;
    const kvc_u32 id = threadIdx.x, warp = id / 32, g = id % 32 / 4, t = id % 4;
    const kvc_u32 warp_row = warp % 4 * 16, warp_n = warp / 4 * 16;
    float lane[KVC_INT8_LANES][2][4];
#pragma unroll
    for (int l = 0; l < KVC_INT8_LANES; l++)
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                lane[l][m][i] = 0.0f;
    for (kvc_u64 b0 = 0; b0 < blocks; b0 += KVC_INT8_LANES)
#pragma unroll
        for (int part = 0; part < KVC_INT8_LANES; part += KVC_INT16_BLOCKS) {
            const kvc_u64 left = blocks - b0 > (kvc_u64)part ? blocks - b0 - (kvc_u64)part : 0;
            const kvc_u32 here = left < KVC_INT16_BLOCKS ? (kvc_u32)left : KVC_INT16_BLOCKS;
            __syncthreads();
            kvc_int16_load(x, o, quant, scale, w, row_bytes, type, blocks, row0, rows, n0, count, b0 + (kvc_u64)part,
                           here);
            __syncthreads();
#pragma unroll
            for (int l = 0; l < KVC_INT16_BLOCKS; l++)
#pragma unroll
                for (int m = 0; m < 2; m++)
                    if ((kvc_u32)l < here)
                        kvc_int16_add(lane[part + l][m], &x[l], &o[l], warp_row, warp_n + 8 * m);
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
