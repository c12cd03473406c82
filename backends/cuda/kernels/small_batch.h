/* small_batch.h - linear layers for few rows: one pass over the weights for up to 8 rows. A block computes 32 outputs,
 * each with a team of four work-items. Weights are copied to shared memory in the file's layout, in vectors of 16
 * bytes. A stage is the part of each weight row that is copied at a time. Shared memory has room for four stages. */

template <kvc_u32 type>
struct kvc_small_batch; /* values: number of values in a stage; bytes: size of a stage; stride: bytes from row to row in
                           shared memory */
#define KVC_SMALL_BATCH_TYPE(type, values_, bytes_, stride_)                                                           \
    template <> struct kvc_small_batch<type> {                                                                         \
        static constexpr kvc_u32 values = values_, bytes = bytes_, stride = stride_;                                   \
    };
/* strides are 64 more than a multiple of 128, so that no two teams use the same banks */
KVC_SMALL_BATCH_TYPE(KVC_K_F32, 64, 256, 320)
KVC_SMALL_BATCH_TYPE(KVC_K_F16, 128, 256, 320)
KVC_SMALL_BATCH_TYPE(KVC_K_BF16, 128, 256, 320)
/* Block types: a stage has 256 values. The stride is an odd number of vectors, so that no two teams use the same
 * banks. */
#define KVC_SMALL_BATCH_BLOCKS(a, NAME, name, gguf, elements, bytes, ...)                                              \
    KVC_SMALL_BATCH_TYPE(KVC_K_##NAME, 256, 256 / (elements) * (bytes),                                                \
                         ((256 / (elements) * (bytes) + 30) / 16 | 1) * 16)
KVC_ALL_BLOCK_TYPES(KVC_SMALL_BATCH_BLOCKS, )

#define KVC_SMALL_BATCH_STAGES 4

/* Returns this work-item's 8 values of step s of a stage. Rows of F32, F16 and BF16 are aligned to 16 bytes. */
template <kvc_u32 type> KVC_DEVICE struct kvc_lanes kvc_small_batch_part(const kvc_u8 *at, kvc_u32 s, kvc_u32 worker) {
    struct kvc_lanes p;
    if (type == KVC_K_F32) {
        const float4 *v = (const float4 *)(at + s * 128 + worker * 32);
        float4 a = v[0], b = v[1];
        p.lane[0] = a.x, p.lane[1] = a.y, p.lane[2] = a.z, p.lane[3] = a.w;
        p.lane[4] = b.x, p.lane[5] = b.y, p.lane[6] = b.z, p.lane[7] = b.w;
    } else if (type == KVC_K_F16 || type == KVC_K_BF16) {
        uint4 v = *(const uint4 *)(at + s * 64 + worker * 16);
        kvc_u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            p.lane[2 * i] = type == KVC_K_F16 ? kvc_half_of(w[i] & 0xffffu) : kvc_from_bits(w[i] << 16);
            p.lane[2 * i + 1] = type == KVC_K_F16 ? kvc_half_of(w[i] >> 16) : kvc_from_bits(w[i] & 0xffff0000u);
        }
    } else {
        p = kvc_lanes_weight(type, at, s * 32, worker);
    }
    return p;
}

/* Loads one stage of a block's weight rows: the whole vectors that contain the needed bytes. */
template <kvc_u32 type, kvc_u32 outputs>
KVC_DEVICE void kvc_small_batch_load(kvc_u8 *stage, const kvc_u8 *w, kvc_u64 row_bytes, kvc_u64 n0, kvc_u64 count,
                                     kvc_u64 k) {
    constexpr kvc_u32 vectors = (kvc_small_batch<type>::bytes + 15 + 15) / 16;
    kvc_u64 skip = k / kvc_small_batch<type>::values * kvc_small_batch<type>::bytes;
    for (kvc_u32 i = KVC_LOCAL_ID(); i < outputs * vectors; i += KVC_GROUP) {
        kvc_u32 row = i / vectors, v = i % vectors;
        const kvc_u8 *from = w + (n0 + row < count ? n0 + row : count - 1) * row_bytes + skip;
        kvc_async(stage + row * kvc_small_batch<type>::stride + v * 16,
                  (const kvc_u8 *)((unsigned long long)from & ~15ull) + v * 16, 16);
    }
    kvc_async_commit();
}

/* Adds the products of the first `steps` steps of a stage. x points to the first value of the stage that belongs to
 * this work-item's lanes. */
template <kvc_u32 type, int R>
KVC_DEVICE void kvc_small_batch_steps(struct kvc_lanes *sum, const kvc_u8 *at, const float *x, kvc_u64 K, kvc_u32 here,
                                      kvc_u32 steps, kvc_u32 worker) {
#pragma unroll(R == 1 ? 4 : 1)
    for (kvc_u32 s = 0; s < steps; s++) {
        struct kvc_lanes p;
        p = kvc_small_batch_part<type>(at, s, worker);
#pragma unroll
        for (int r = 0; r < R; r++) {
            const float *row = x + (r < (int)here ? r : 0) * K + s * 32;
            float4 a = kvc_float4(row), b = kvc_float4(row + 4);
            sum[r].lane[0] = kvc_fma(a.x, p.lane[0], sum[r].lane[0]);
            sum[r].lane[1] = kvc_fma(a.y, p.lane[1], sum[r].lane[1]);
            sum[r].lane[2] = kvc_fma(a.z, p.lane[2], sum[r].lane[2]);
            sum[r].lane[3] = kvc_fma(a.w, p.lane[3], sum[r].lane[3]);
            sum[r].lane[4] = kvc_fma(b.x, p.lane[4], sum[r].lane[4]);
            sum[r].lane[5] = kvc_fma(b.y, p.lane[5], sum[r].lane[5]);
            sum[r].lane[6] = kvc_fma(b.z, p.lane[6], sum[r].lane[6]);
            sum[r].lane[7] = kvc_fma(b.w, p.lane[7], sum[r].lane[7]);
        }
    }
}

/* K is a multiple of 8, so each work-item has 8 or none of the last values of a row. x and rows of F32, F16 and BF16
 * are aligned to 16 bytes. Grid: (outputs / 32, rows / R). */
template <kvc_u32 type, int R>
KVC_DEVICE void kvc_small_batch_rows(kvc_u8 *shared, float *y, const float *x, const kvc_u8 *w, kvc_u64 row_bytes,
                                     kvc_u64 K, kvc_u64 N, kvc_u64 first, kvc_u64 count, const float *bias,
                                     kvc_u32 rows) {
    constexpr kvc_u32 values = kvc_small_batch<type>::values, stage_bytes = 32 * kvc_small_batch<type>::stride;
    kvc_u32 worker = KVC_LOCAL_ID() % 4, team = KVC_LOCAL_ID() / 4, row0 = KVC_GROUP_ID(1) * R;
    kvc_u32 here = rows - row0 < (kvc_u32)R ? rows - row0 : (kvc_u32)R;
    kvc_u64 n0 = (kvc_u64)KVC_GROUP_ID(0) * 32, n = n0 + team, stages = (K + values - 1) / values;
    kvc_u64 start = (unsigned long long)w + (n < count ? n : count - 1) * row_bytes;
    struct kvc_lanes sum[R];
    for (int r = 0; r < R; r++)
        sum[r] = kvc_lanes_zero();
    x += row0 * K + worker * 8;
    for (kvc_u32 i = 0; i < KVC_SMALL_BATCH_STAGES - 1; i++) {
        if (i < stages)
            kvc_small_batch_load<type, 32>(shared + i * stage_bytes, w, row_bytes, n0, count, (kvc_u64)i * values);
        else
            kvc_async_commit();
    }
    for (kvc_u64 i = 0; i < stages; i++) {
        const kvc_u8 *at = shared + i % KVC_SMALL_BATCH_STAGES * stage_bytes + team * kvc_small_batch<type>::stride +
                           ((start + i * kvc_small_batch<type>::bytes) & 15);
        kvc_u64 ahead = i + KVC_SMALL_BATCH_STAGES - 1, k = i * values;
        kvc_async_wait<KVC_SMALL_BATCH_STAGES - 2>();
        KVC_BARRIER();
        if (ahead < stages)
            kvc_small_batch_load<type, 32>(shared + ahead % KVC_SMALL_BATCH_STAGES * stage_bytes, w, row_bytes, n0,
                                           count, ahead * values);
        else
            kvc_async_commit();
        if (k + values <= K)
            kvc_small_batch_steps<type, R>(sum, at, x + k, K, here, values / 32, worker);
        else /* for the last 32 values, work-items whose lanes lie beyond K do nothing */
            kvc_small_batch_steps<type, R>(sum, at, x + k, K, here,
                                           (kvc_u32)((K - k) / 32) + (worker * 8 < (K - k) % 32 ? 1 : 0), worker);
    }
    for (int r = 0; r < R; r++) {
        float value = kvc_team_sum(sum[r]);
        if (worker != 0 || n >= count || r >= (int)here)
            continue;
        y[(row0 + r) * N + first + n] = bias ? value + bias[first + n] : value;
    }
}

#define KVC_SMALL_BATCH_KERNEL(name, type, R)                                                                          \
    KVC_GROUP_KERNEL(small_batch_##name##_##R)(KVC_LINEAR_ARGUMENTS) {                                                 \
        KVC_SHARED __align__(16) kvc_u8 shared[KVC_SMALL_BATCH_STAGES * 32 * kvc_small_batch<type>::stride];           \
        kvc_small_batch_rows<type, R>(shared, y_buffer + y_offset, x_buffer + x_offset, w, row_bytes, K, N, first,     \
                                      count, bias_buffer ? bias_buffer + bias_offset : 0, rows);                       \
    }
#define KVC_SMALL_BATCH_KERNELS(name, type)                                                                            \
    KVC_SMALL_BATCH_KERNEL(name, type, 1) KVC_SMALL_BATCH_KERNEL(name, type, 4) KVC_SMALL_BATCH_KERNEL(name, type, 8)
#define KVC_SMALL_BATCH_OF_TYPE(a, NAME, name, ...) KVC_SMALL_BATCH_KERNELS(name, KVC_K_##NAME)
KVC_ALL_WEIGHT_TYPES(KVC_SMALL_BATCH_OF_TYPE, )
