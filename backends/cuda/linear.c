/* linear.c - linear layers in CUDA's own shapes: few rows (gemv) in one pass over the weights (kernels/few.h), many
 * rows (gemm) as a product of packed sides (kernels/many.h). What these shapes do not take goes to the shared kernels.
 */
#include "backends/cuda/cuda.h"

#define KVC_MANY_ROWS 24u                      /* from here on packing pays */
#define KVC_PACKED_BYTES ((uint64_t)256 << 20) /* of weights at once */

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

static void few_rows(struct kvc_offload *offload, struct kvc_span y, struct kvc_span x, const struct kvc_weight *w,
                     uint32_t piece, struct kvc_span bias, uint32_t rows) {
    unsigned shape = rows == 1 ? 0 : rows <= 4 ? 1 : 2, at_once = rows == 1 ? 1 : rows <= 4 ? 4 : 8;
    unsigned number = (unsigned)KVC_CUDA_few_f32_1 + 3 * (unsigned)w->type + shape;
    struct kvc_launch few = kvc_offload_few(y, x, w, piece, bias, rows);
    few.kernel = kvc_cuda_own((enum kvc_cuda_kernel)number).kernel;
    kvc_launch_run(offload, &few, 128, round_up(kvc_offload_piece_rows(w, piece), 32) / 32,
                   round_up(rows, at_once) / at_once, 1);
}

/* workspace: packed x, then packed weights of some outputs. */
static void many_rows(struct kvc_offload *offload, struct kvc_span y, struct kvc_span x, const struct kvc_weight *w,
                      uint32_t piece, struct kvc_span bias, uint32_t rows) {
    uint32_t block = rows > 64 ? 128 : 32;
    uint64_t K = w->inputs, steps = round_up(K, 32) / 32, count = kvc_offload_piece_rows(w, piece), line = steps * 128;
    uint64_t at_once = KVC_PACKED_BYTES / line / 128 * 128, x_bytes = round_up(rows, block) * line;
    struct kvc_buffer *workspace;
    struct kvc_launch pack = kvc_cuda_own(KVC_CUDA_many_pack_x);
    at_once = at_once < 128 ? 128 : at_once > round_up(count, 128) ? round_up(count, 128) : at_once;
    workspace = kvc_offload_workspace(offload, x_bytes + at_once * line);
    if (!workspace)
        return;
    kvc_launch_handle(&pack, workspace->handle);
    kvc_launch_handle(&pack, kvc_cuda_data(x));
    kvc_launch_wide(&pack, K);
    kvc_launch_word(&pack, rows);
    kvc_launch_word(&pack, block);
    kvc_launch_items(offload, &pack, rows * steps, 1, 1);
    for (uint64_t from = 0; from < count; from += at_once) {
        uint64_t here = count - from < at_once ? count - from : at_once;
        struct kvc_launch product = kvc_cuda_own(block == 128 ? KVC_CUDA_many_product_128 : KVC_CUDA_many_product_32);
        unsigned char *packed = (unsigned char *)workspace->handle + x_bytes;
        pack = kvc_cuda_own(KVC_CUDA_many_pack_w);
        kvc_launch_handle(&pack, packed);
        kvc_launch_handle(&pack, w->piece[piece]);
        kvc_launch_wide(&pack, w->row_bytes);
        kvc_launch_word(&pack, w->type);
        kvc_launch_wide(&pack, K);
        kvc_launch_wide(&pack, from);
        kvc_launch_wide(&pack, here);
        kvc_launch_items(offload, &pack, here * steps, 1, 1);
        kvc_launch_handle(&product, kvc_cuda_data(y));
        kvc_launch_handle(&product, workspace->handle);
        kvc_launch_handle(&product, packed);
        kvc_launch_wide(&product, K);
        kvc_launch_wide(&product, w->outputs);
        kvc_launch_wide(&product, piece * w->piece_rows + from);
        kvc_launch_wide(&product, here);
        kvc_launch_handle(&product, kvc_cuda_data(bias));
        kvc_launch_word(&product, rows);
        kvc_launch_run(offload, &product, 256, round_up(here, 128) / 128, round_up(rows, block) / block, 1);
    }
}

void kvc_cuda_linear(struct kvc_device *device, struct kvc_span y, struct kvc_span x, const struct kvc_weight *w,
                     struct kvc_span bias, uint32_t rows) {
    struct kvc_offload *offload = (struct kvc_offload *)device;
    bool blocks = w->type != KVC_F32 && w->type != KVC_F16 && w->type != KVC_BF16;
    bool aligned = (uintptr_t)kvc_cuda_data(x) % 16 == 0 && w->inputs % 8 == 0 && (blocks || w->row_bytes % 16 == 0);
    if (rows < KVC_MANY_ROWS && !aligned) {
        kvc_offload_linear(device, y, x, w, bias, rows);
        return;
    }
    for (uint32_t i = 0; i < w->pieces; i++) {
        if (rows < KVC_MANY_ROWS)
            few_rows(offload, y, x, w, i, bias, rows);
        else
            many_rows(offload, y, x, w, i, bias, rows);
    }
}
