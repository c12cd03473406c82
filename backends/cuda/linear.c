/* linear.c - linear layers with CUDA's own kernels: kernels/small_batch.h computes few rows in one pass over the
 * weights, and kernels/gemm.h multiplies many packed rows by packed weights. For int8 there are kernels for few rows
 * (kernels/small_batch_int8.h) and for many rows (kernels/int8.h); for int16, only for many rows (kernels/int16.h). The
 * kernels of backends/kernels compute all other shapes. */
#include "core/base/integers.h"
#include "backends/cuda/cuda.h"
#include "core/base/canon.h"
#include "core/base/types.h"
#include "core/base/assert.h"

#define KVC_GEMM_ROWS 24u                      /* from this number of rows on, packing is faster */
#define KVC_PACKED_BYTES ((uint64_t)256 << 20) /* limit for the weights that are packed at a time */

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* Runs the kernel of a weight type for one row, for up to four rows, or for more. `first` is the first type's kernel
 * for one row. A block computes `outputs` outputs. */
static void launch_small_batch(struct kvc_offload *offload, struct kvc_launch *launch, enum kvc_cuda_kernel first,
                               unsigned type, uint64_t count, uint64_t outputs, uint64_t rows) {
    const unsigned shape = rows == 1 ? 0 : rows <= 4 ? 1 : 2, at_once = rows == 1 ? 1 : rows <= 4 ? 4 : 8;
    KVC_ASSERT(rows > 0 && count > 0);
    launch->kernel = kvc_cuda_own((enum kvc_cuda_kernel)((unsigned)first + 3 * type + shape)).kernel;
    kvc_launch_run(offload, launch, 128, round_up(count, outputs) / outputs, round_up(rows, at_once) / at_once, 1);
}

static void few_rows(struct kvc_offload *offload, const struct kvc_linear *args, uint32_t piece) {
    struct kvc_launch launch = kvc_offload_small_batch(args, piece);
    launch_small_batch(offload, &launch, KVC_CUDA_small_batch_f32_1, (unsigned)args->w->type,
                       kvc_offload_piece_rows(args->w, piece), 32, args->rows);
}

static void few_rows_int8(struct kvc_offload *offload, const struct kvc_linear_int8 *args, uint32_t piece) {
    const struct kvc_weight *w = args->w;
    struct kvc_launch launch =
        kvc_offload_int8_launch(KVC_KERNEL_linear_int8, args->y, &args->x, w, piece, w->outputs, args->bias);
    KVC_PUSH(&launch, (uint64_t)args->rows);
    launch_small_batch(offload, &launch, KVC_CUDA_small_int8_q8_0_1, (unsigned)w->type - (unsigned)KVC_Q8_0,
                       kvc_offload_piece_rows(w, piece), KVC_SMALL_INT8_OUTPUTS, args->rows);
}

/* The workspace holds packed x, then the packed weights of some outputs. */
static void gemm_rows(struct kvc_offload *offload, const struct kvc_linear *args, uint32_t piece) {
    const struct kvc_weight *w = args->w;
    const uint32_t rows = args->rows;
    uint32_t block = rows > 64 ? 128 : 32;
    uint64_t K = w->inputs, steps = round_up(K, 32) / 32, count = kvc_offload_piece_rows(w, piece), line = steps * 128;
    uint64_t at_once = KVC_PACKED_BYTES / line / 128 * 128, x_bytes = round_up(rows, block) * line;
    struct kvc_buffer *workspace;
    struct kvc_launch pack = kvc_cuda_own(KVC_CUDA_gemm_pack_x);
    at_once = at_once < 128 ? 128 : at_once > round_up(count, 128) ? round_up(count, 128) : at_once;
    workspace = kvc_offload_workspace(offload, x_bytes + at_once * line);
    if (!workspace)
        return;
    KVC_PUSH(&pack, workspace->handle, kvc_cuda_data(args->x), K, rows, block);
    kvc_launch_items(offload, &pack, rows * steps, 1, 1);
    for (uint64_t from = 0; from < count; from += at_once) {
        uint64_t here = kvc_min_u64(count - from, at_once);
        KVC_ASSERT(round_up(here, 128) <= at_once);
        struct kvc_launch product = kvc_cuda_own(block == 128 ? KVC_CUDA_gemm_product_128 : KVC_CUDA_gemm_product_32);
        unsigned char *packed = (unsigned char *)workspace->handle + x_bytes;
        pack = kvc_cuda_own(KVC_CUDA_gemm_pack_w);
        KVC_PUSH(&pack, packed, w->piece[piece], w->row_bytes, w->type, K, from, here);
        kvc_launch_items(offload, &pack, here * steps, 1, 1);
        KVC_PUSH(&product, kvc_cuda_data(args->y), workspace->handle, packed, K, w->outputs,
                 piece * w->piece_rows + from, here, kvc_cuda_data(args->bias), rows);
        kvc_launch_run(offload, &product, 256, round_up(here, 128) / 128, round_up(rows, block) / block, 1);
    }
}

void kvc_cuda_linear(struct kvc_device *device, const struct kvc_linear *args) {
    struct kvc_offload *offload = (struct kvc_offload *)device;
    const struct kvc_weight *w = args->w;
    bool blocks = kvc_type_block(w->type).elements > 1;
    bool aligned =
        (uintptr_t)kvc_cuda_data(args->x) % 16 == 0 && w->inputs % 8 == 0 && (blocks || w->row_bytes % 16 == 0);
    if (args->rows < KVC_GEMM_ROWS && !aligned) {
        kvc_offload_linear(device, args);
        return;
    }
    for (uint32_t i = 0; i < w->pieces; i++) {
        if (args->rows < KVC_GEMM_ROWS)
            few_rows(offload, args, i);
        else
            gemm_rows(offload, args, i);
    }
}

static void gemm_rows_int8(struct kvc_offload *offload, const struct kvc_linear_int8 *args, uint32_t piece) {
    const struct kvc_weight *w = args->w;
    const uint64_t rows = args->rows, count = kvc_offload_piece_rows(w, piece);
    struct kvc_launch many = kvc_cuda_own(KVC_CUDA_gemm_int8);
    KVC_PUSH(&many, kvc_cuda_data(args->y), kvc_cuda_data(args->x.quant), kvc_cuda_data(args->x.scale),
             kvc_cuda_data(args->x.sum), w->piece[piece], w->row_bytes, w->type, w->inputs / 32, w->outputs,
             piece * w->piece_rows, count, kvc_cuda_data(args->bias));
    KVC_PUSH(&many, rows);
    kvc_launch_run(offload, &many, 256, round_up(count, 32) / 32, round_up(rows, 64) / 64, 1);
}

void kvc_cuda_linear_int8(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    struct kvc_offload *offload = (struct kvc_offload *)device;
    const bool few = args->rows <= KVC_INT8_FEW;
    if (few && (uintptr_t)kvc_cuda_data(args->x.quant) % 16 != 0) {
        kvc_offload_linear_int8(device, args);
        return;
    }
    for (uint32_t i = 0; i < args->w->pieces; i++) {
        if (few)
            few_rows_int8(offload, args, i);
        else
            gemm_rows_int8(offload, args, i);
    }
}

void kvc_cuda_linear_int16(struct kvc_device *device, const struct kvc_linear_int16 *args) {
    struct kvc_offload *offload = (struct kvc_offload *)device;
    const struct kvc_weight *w = args->w;
    const uint64_t rows = args->rows;
    if (rows <= KVC_INT8_FEW) {
        kvc_offload_linear_int16(device, args);
        return;
    }
    for (uint32_t i = 0; i < w->pieces; i++) {
        const uint64_t count = kvc_offload_piece_rows(w, i);
        struct kvc_launch many = kvc_cuda_own(KVC_CUDA_gemm_int16);
        KVC_PUSH(&many, kvc_cuda_data(args->y), kvc_cuda_data(args->x.quant), kvc_cuda_data(args->x.scale), w->piece[i],
                 w->row_bytes, w->type, w->inputs, w->outputs, i * w->piece_rows, count, kvc_cuda_data(args->bias));
        KVC_PUSH(&many, rows);
        kvc_launch_run(offload, &many, 256, round_up(count, 32) / 32, round_up(rows, 64) / 64, 1);
    }
}
