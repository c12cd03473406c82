/* int8.c - linear layers of activations in eight bits: quantize_rows, linear_int8, expert_linear_int8. */
#include "backends/offload/offload.h"

static struct kvc_offload *of(struct kvc_device *device) { return (struct kvc_offload *)device; }

void kvc_offload_quantize_rows(struct kvc_device *device, const struct kvc_quantize_rows *args) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_quantize_rows);
    const uint64_t blocks = (uint64_t)args->rows * (args->K / 32);
    KVC_PUSH(&launch, args->y.quant, args->y.scale, args->y.sum, args->x, blocks);
    kvc_launch_items(of(device), &launch, blocks, 1, 1);
}

/* What both kernels take first. */
static struct kvc_launch launch_of(enum kvc_kernel kernel, struct kvc_span y, const struct kvc_int8_rows *x,
                                   const struct kvc_weight *w, uint32_t piece, uint64_t N, struct kvc_span bias) {
    struct kvc_launch launch = kvc_launch_of(kernel);
    KVC_PUSH(&launch, y, x->quant, x->scale, x->sum, w->piece[piece], w->row_bytes, w->type, w->inputs / 32, N,
             piece * w->piece_rows, kvc_offload_piece_rows(w, piece), bias);
    return launch;
}

void kvc_offload_linear_int8(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    for (uint32_t i = 0; i < args->w->pieces; i++) {
        struct kvc_launch launch =
            launch_of(KVC_KERNEL_linear_int8, args->y, &args->x, args->w, i, args->w->outputs, args->bias);
        KVC_PUSH(&launch, (uint64_t)args->rows);
        kvc_launch_items(of(device), &launch, args->rows * kvc_offload_piece_rows(args->w, i), 1, 1);
    }
}

void kvc_offload_expert_linear_int8(struct kvc_device *device, const struct kvc_expert_linear_int8 *args) {
    const uint64_t N = args->w->outputs / args->experts;
    for (uint32_t i = 0; i < args->w->pieces; i++) {
        struct kvc_launch launch =
            launch_of(KVC_KERNEL_expert_linear_int8, args->y, &args->x, args->w, i, N, args->bias);
        KVC_PUSH(&launch, args->first, args->experts, (uint64_t)args->pairs);
        kvc_launch_items(of(device), &launch, args->pairs * N, 1, 1);
    }
}
