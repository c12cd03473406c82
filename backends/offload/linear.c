/* linear.c - linear layers. Few rows are computed in one pass over the weights, many rows as a product of packed rows
 * and packed weights. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/offload/offload.h"

uint64_t kvc_offload_piece_rows(const struct kvc_weight *w, uint32_t piece) {
    uint64_t first = piece * w->piece_rows;
    KVC_ASSERT(piece < w->pieces && first < w->outputs);
    return kvc_min_u64(w->outputs - first, w->piece_rows);
}

#define KVC_GEMM_ROWS 32u                     /* packing is used from this number of rows on */
#define KVC_PACKED_BYTES ((uint64_t)64 << 20) /* limit for the weights that are packed at a time */

struct kvc_launch kvc_offload_small_batch(const struct kvc_linear *args, uint32_t piece) {
    const struct kvc_weight *w = args->w;
    struct kvc_launch launch = kvc_launch_of((enum kvc_kernel)((unsigned)KVC_KERNEL_linear_f32 + (unsigned)w->type));
    KVC_PUSH(&launch, args->y, args->x, w->piece[piece], w->row_bytes, w->inputs, w->outputs, piece * w->piece_rows,
             kvc_offload_piece_rows(w, piece), args->bias, args->rows);
    return launch;
}

static void few_rows(struct kvc_offload *offload, const struct kvc_linear *args, uint32_t piece) {
    struct kvc_launch launch = kvc_offload_small_batch(args, piece);
    uint32_t outputs = offload->group / offload->workers * KVC_EACH_OF(offload->workers);
    uint64_t count = kvc_offload_piece_rows(args->w, piece);
    kvc_launch_groups(offload, &launch, (count + outputs - 1) / outputs,
                      (args->rows + KVC_SMALL_BATCH - 1) / KVC_SMALL_BATCH, 1);
}

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* The workspace holds packed x, then the packed weights of some outputs. */
static void gemm_rows(struct kvc_offload *offload, const struct kvc_linear *args, uint32_t piece) {
    const struct kvc_weight *w = args->w;
    const uint32_t rows = args->rows;
    uint32_t block_x = KVC_PACK_X_OF(offload->group), block_w = KVC_PACK_W_OF(offload->workers);
    uint64_t each = offload->workers == 1 ? block_w : 1; /* rows per work-item of pack_w */
    uint64_t K = w->inputs, padded = round_up(K, 32), count = kvc_offload_piece_rows(w, piece);
    uint64_t at_once = KVC_PACKED_BYTES / (padded * 4) / block_w * block_w;
    at_once = at_once < block_w ? block_w : at_once > round_up(count, block_w) ? round_up(count, block_w) : at_once;
    uint64_t x_bytes = round_up(rows, block_x) * padded * 4;
    struct kvc_buffer *workspace = kvc_offload_workspace(offload, x_bytes + at_once * padded * 4);
    struct kvc_launch pack = kvc_launch_of(KVC_KERNEL_pack_x);
    if (!workspace)
        return;
    KVC_PUSH(&pack, ((struct kvc_span){workspace, 0}), args->x, K, (uint64_t)rows);
    kvc_launch_items(offload, &pack, rows * (padded / 32), 1, 1);
    for (uint64_t from = 0; from < count; from += at_once) {
        uint64_t here = kvc_min_u64(count - from, at_once);
        struct kvc_launch product = kvc_launch_of(KVC_KERNEL_product);
        pack = kvc_launch_of(KVC_KERNEL_pack_w);
        KVC_PUSH(&pack, ((struct kvc_span){workspace, (size_t)x_bytes}), w->piece[piece], w->row_bytes, w->type, K,
                 from, here);
        kvc_launch_items(offload, &pack, round_up(here, each) / each * (padded / 32), 1, 1);
        KVC_PUSH(&product, args->y, ((struct kvc_span){workspace, 0}), ((struct kvc_span){workspace, (size_t)x_bytes}),
                 K, w->outputs, piece * w->piece_rows + from, here, args->bias, (uint64_t)rows);
        kvc_launch_groups(offload, &product, (rows + block_x - 1) / block_x, (here + block_w - 1) / block_w, 1);
    }
}

void kvc_offload_linear(struct kvc_device *device, const struct kvc_linear *args) {
    KVC_ASSERT(kvc_offload_holds(args->x, args->rows * args->w->inputs) &&
               kvc_offload_holds(args->y, args->rows * args->w->outputs));
    for (uint32_t i = 0; i < args->w->pieces; i++) {
        if (args->rows < KVC_GEMM_ROWS)
            few_rows(kvc_offload_of(device), args, i);
        else
            gemm_rows(kvc_offload_of(device), args, i);
    }
}
