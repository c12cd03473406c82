/* small_batch_int8.h - linear layers with 8-bit activations for few rows: one pass over the weights for up to 8 rows. A
 * block computes KVC_SMALL_INT8_OUTPUTS outputs, each with a team of eight work-items. A work-item computes one lane.
 * Weights pass through shared memory as in small_batch.h. */

/* A row's block of 32 activations, which a work-item loads while it waits for the weights. */
struct kvc_small_int8_x {
    struct kvc_half half_block[2];
    float scale;
    kvc_i32 sum[2];
};
KVC_DEVICE struct kvc_small_int8_x kvc_small_int8_load(const kvc_u32 *quant, const float *scale, const kvc_i32 *sum,
                                                       kvc_u64 block) {
    const uint4 *q = (const uint4 *)quant + block * 2; /* blocks begin at multiples of 32 bytes */
    const uint4 v[2] = {q[0], q[1]};
    struct kvc_small_int8_x x;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        x.half_block[h].word[0] = v[h].x, x.half_block[h].word[1] = v[h].y;
        x.half_block[h].word[2] = v[h].z, x.half_block[h].word[3] = v[h].w;
        x.sum[h] = sum[block * 2 + h];
    }
    x.scale = scale[block];
    return x;
}

/* Adds the products of one block of weights to a lane, one half of the block after the other. */
template <kvc_u32 type>
KVC_DEVICE float kvc_small_int8_add(float lane, const struct kvc_half_weights (&w)[2],
                                    const struct kvc_small_int8_x &x) {
    if (!kvc_int8_narrow(type)) {
        lane = kvc_int8_add(w[0].scale, x.scale,
                            kvc_block_dot(w[0].half_block, x.half_block[0], w[1].half_block, x.half_block[1]), lane);
        return kvc_int8_has_minimum(type) ? kvc_int8_take(w[0].minimum, x.scale, x.sum[0] + x.sum[1], lane) : lane;
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        lane = kvc_int8_add(w[h].scale, x.scale, kvc_half_dot(w[h].half_block, x.half_block[h]), lane);
        if (kvc_int8_has_minimum(type))
            lane = kvc_int8_take(w[h].minimum, x.scale, x.sum[h], lane);
    }
    return lane;
}

/* Grid: (outputs / KVC_SMALL_INT8_OUTPUTS, rows / R). quant is aligned to 16 bytes. A stage holds, for each output, one
 * block of 32 weights per lane. */
template <kvc_u32 type, int R>
KVC_DEVICE void kvc_small_int8_rows(kvc_u8 *shared, float *y, const kvc_u32 *quant, const float *scale,
                                    const kvc_i32 *sum, const kvc_u8 *w, kvc_u64 row_bytes, kvc_u64 blocks, kvc_u64 N,
                                    kvc_u64 first, kvc_u64 count, const float *bias, kvc_u32 rows) {
    constexpr kvc_u32 outputs = KVC_SMALL_INT8_OUTPUTS, stage_bytes = outputs * kvc_small_batch<type>::stride;
    const kvc_u32 l = KVC_LOCAL_ID() % KVC_INT8_LANES, team = KVC_LOCAL_ID() / KVC_INT8_LANES;
    const kvc_u32 row0 = KVC_GROUP_ID(1) * R, here = rows - row0 < (kvc_u32)R ? rows - row0 : (kvc_u32)R;
    const kvc_u64 n0 = (kvc_u64)KVC_GROUP_ID(0) * outputs, n = n0 + team;
    const kvc_u64 stages = (blocks + KVC_INT8_LANES - 1) / KVC_INT8_LANES;
    const kvc_u64 start = (unsigned long long)w + (n < count ? n : count - 1) * row_bytes;
    float lane[R];
#pragma unroll
    for (int r = 0; r < R; r++)
        lane[r] = 0.0f;
    for (kvc_u32 i = 0; i < KVC_SMALL_BATCH_STAGES - 1; i++) {
        if (i < stages)
            kvc_small_batch_load<type, outputs>(shared + i * stage_bytes, w, row_bytes, n0, count, (kvc_u64)i * 256);
        else
            kvc_async_commit();
    }
    for (kvc_u64 i = 0; i < stages; i++) {
        const kvc_u8 *at = shared + i % KVC_SMALL_BATCH_STAGES * stage_bytes + team * kvc_small_batch<type>::stride +
                           ((start + i * kvc_small_batch<type>::bytes) & 15);
        const kvc_u64 ahead = i + KVC_SMALL_BATCH_STAGES - 1, block = i * KVC_INT8_LANES + l;
        const bool mine = block < blocks;
        struct kvc_small_int8_x x[R];
#pragma unroll
        for (int r = 0; r < R; r++)
            x[r] =
                kvc_small_int8_load(quant, scale, sum, (row0 + (r < (int)here ? r : 0)) * blocks + (mine ? block : 0));
        kvc_async_wait<KVC_SMALL_BATCH_STAGES - 2>();
        KVC_BARRIER();
        if (ahead < stages)
            kvc_small_batch_load<type, outputs>(shared + ahead % KVC_SMALL_BATCH_STAGES * stage_bytes, w, row_bytes, n0,
                                                count, ahead * 256);
        else
            kvc_async_commit();
        if (mine) {
            const struct kvc_half_weights part[2] = {kvc_half_weights_of(type, at, l, 0),
                                                     kvc_half_weights_of(type, at, l, 1)};
#pragma unroll
            for (int r = 0; r < R; r++)
                lane[r] = kvc_small_int8_add<type>(lane[r], part, x[r]);
        }
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        float value = lane[r];
        for (int distance = KVC_INT8_LANES / 2; distance > 0; distance /= 2) /* a + b and b + a are bit-identical */
            value = value + __shfl_xor_sync(0xffffffffu, value, distance, KVC_INT8_LANES);
        if (l == 0 && n < count && r < (int)here)
            y[(row0 + r) * N + first + n] = bias ? value + bias[first + n] : value;
    }
}

#define KVC_SMALL_INT8_KERNEL(name, type, R)                                                                           \
    KVC_GROUP_KERNEL(small_int8_##name##_##R)(KVC_INT8_ARGUMENTS, kvc_u64 rows) {                                      \
        KVC_SHARED __align__(16)                                                                                       \
            kvc_u8 shared[KVC_SMALL_BATCH_STAGES * KVC_SMALL_INT8_OUTPUTS * kvc_small_batch<type>::stride];            \
        kvc_small_int8_rows<type, R>(shared, y_buffer + y_offset, quant_buffer + quant_offset,                         \
                                     scale_buffer + scale_offset, sum_buffer + sum_offset, w, row_bytes, blocks, N,    \
                                     first_row, count, bias_buffer ? bias_buffer + bias_offset : 0, (kvc_u32)rows);    \
    }
#define KVC_SMALL_INT8_OF_TYPE(a, NAME, name, ...)                                                                     \
    KVC_SMALL_INT8_KERNEL(name, KVC_K_##NAME, 1)                                                                       \
    KVC_SMALL_INT8_KERNEL(name, KVC_K_##NAME, 4) KVC_SMALL_INT8_KERNEL(name, KVC_K_##NAME, 8)
KVC_BLOCK_TYPES(KVC_SMALL_INT8_OF_TYPE, )
