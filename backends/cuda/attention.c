/* attention.c - attention with CUDA's own kernels (kernels/read.h): a block reads a tile of one KV head once for
 * several queries. A second launch merges the tiles in order. The kernels of backends/kernels compute all other shapes.
 */
#include "backends/cuda/cuda.h"

#define KVC_READ_ROWS 16u /* maximum number of rows of a block */
#define KVC_READ_QUERIES_INT8 8u

static enum kvc_cuda_kernel kernel_of(enum kvc_type type, bool wide) {
    return type == KVC_F32   ? wide ? KVC_CUDA_read_f32_16 : KVC_CUDA_read_f32_8
           : type == KVC_F16 ? wide ? KVC_CUDA_read_f16_16 : KVC_CUDA_read_f16_8
           : wide            ? KVC_CUDA_read_q8_0_16
                             : KVC_CUDA_read_q8_0_8;
}

static void run_tile(struct kvc_offload *offload, struct kvc_launch *tile, const struct kvc_attention *a,
                     const struct kvc_entry_format *format, uint32_t rows, uint32_t tiles) {
    uint32_t group = a->heads / a->kv_heads;
    const bool wide = rows * (uint64_t)group > 8, integers = kvc_scores_integers(a->scoring, format);
    const uint32_t most = integers ? KVC_READ_QUERIES_INT8 : KVC_READ_ROWS;
    uint32_t rows_each = wide && group < most ? most / group : 1;
    tile->kernel = kvc_cuda_own(integers ? KVC_CUDA_read_int8 : kernel_of(format->key.type, wide)).kernel;
    KVC_PUSH(tile, rows, rows_each);
    kvc_launch_run(offload, tile, KVC_GROUP_OF(4), tiles, a->kv_heads, (rows + rows_each - 1) / rows_each);
}

static void run_merge(struct kvc_offload *offload, struct kvc_launch *merge, uint32_t heads, uint32_t rows) {
    merge->kernel = kvc_cuda_own(KVC_CUDA_read_merge).kernel;
    kvc_launch_run(offload, merge, KVC_GROUP_OF(4), heads, rows, 1);
}

/* Returns true if CUDA's own kernels support entries of this format. */
static bool own_kernel(const struct kvc_entry_format *format) {
    const enum kvc_type type = format->key.type;
    return type == format->value.type && (type == KVC_F32 || type == KVC_F16 || type == KVC_Q8_0) &&
           format->key.bytes % 4 == 0;
}

void kvc_cuda_attention(struct kvc_device *device, const struct kvc_attention *a) {
    static const struct kvc_attention_shape shape = {(uint64_t)256 << 20, run_tile, run_merge};
    for (size_t i = 0; i < a->segment_count; i++) {
        struct kvc_attention one = *a;
        one.segments = &a->segments[i];
        one.segment_count = 1;
        if (a->head_size % 8 || a->head_size > 256 || !own_kernel(&one.segments->lists->format) ||
            (uintptr_t)kvc_cuda_data(a->q) % 16)
            kvc_offload_attention(device, &one);
        else
            kvc_offload_attend((struct kvc_offload *)device, a, one.segments, &shape);
    }
}
