/* int16.c - linear layers with activations and weights in 15 bits: quantize_rows_int16, linear_int16,
 * expert_linear_int16. */
#include "backends/offload/offload.h"
#include "core/base/assert.h"
#include "core/base/canon.h"

/* Returns the number of teams in a group (KVC_INT16_TEAMS of kernels/int16.h). A team computes one block of a row, or
 * one output. */
static uint64_t teams_of_group(const struct kvc_offload *offload) {
    return offload->workers == 1 ? 1 : offload->group / 8;
}

void kvc_offload_quantize_rows_int16(struct kvc_device *device, const struct kvc_quantize_rows_int16 *args) {
    KVC_ASSERT(kvc_offload_holds(args->x, (uint64_t)args->rows * args->K) && args->K % KVC_INT16_STEP == 0);
    struct kvc_offload *offload = kvc_offload_of(device);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_quantize_rows_int16);
    const uint64_t rows = args->rows, K = args->K, teams = teams_of_group(offload);
    KVC_PUSH(&launch, args->y.quant, args->y.scale, args->x, K, rows);
    kvc_launch_groups(offload, &launch, (rows * kvc_int16_blocks(K) + teams - 1) / teams, 1, 1);
}

/* Begins a launch with the arguments that all int16 kernels share, which come first. */
static struct kvc_launch int16_launch(enum kvc_kernel kernel, struct kvc_span y, const struct kvc_int16_rows *x,
                                      const struct kvc_weight *w, uint32_t piece, uint64_t N, struct kvc_span bias) {
    struct kvc_launch launch = kvc_launch_of(kernel);
    KVC_PUSH(&launch, y, x->quant, x->scale, w->piece[piece], w->row_bytes, w->type, w->inputs, N,
             piece * w->piece_rows, kvc_offload_piece_rows(w, piece), bias);
    return launch;
}

void kvc_offload_linear_int16(struct kvc_device *device, const struct kvc_linear_int16 *args) {
    KVC_ASSERT(kvc_offload_holds(args->y, args->rows * args->w->outputs));
    struct kvc_offload *offload = kvc_offload_of(device);
    const uint64_t rows = args->rows, outputs = teams_of_group(offload), few = KVC_INT8_ROWS;
    const uint64_t tile = offload->workers == 1 ? KVC_INT8_MANY : KVC_PACK_X_OF(offload->group);
    const uint64_t tile_outputs = offload->workers == 1 ? 1 : 64;
    const bool many = rows > KVC_INT8_FEW;
    for (uint32_t i = 0; i < args->w->pieces; i++) {
        const uint64_t count = kvc_offload_piece_rows(args->w, i);
        struct kvc_launch launch = int16_launch(many ? KVC_KERNEL_linear_int16_gemm : KVC_KERNEL_linear_int16, args->y,
                                                &args->x, args->w, i, args->w->outputs, args->bias);
        KVC_PUSH(&launch, rows);
        if (many)
            kvc_launch_groups(offload, &launch, (count + tile_outputs - 1) / tile_outputs, (rows + tile - 1) / tile, 1);
        else
            kvc_launch_groups(offload, &launch, (count + outputs - 1) / outputs, (rows + few - 1) / few, 1);
    }
}

void kvc_offload_expert_linear_int16(struct kvc_device *device, const struct kvc_expert_linear_int16 *args) {
    KVC_ASSERT(kvc_offload_holds(args->first, args->experts + 1ull));
    struct kvc_offload *offload = kvc_offload_of(device);
    const uint64_t N = args->w->outputs / args->experts, outputs = teams_of_group(offload);
    const uint64_t across = (N + outputs - 1) / outputs;
    for (uint32_t i = 0; i < args->w->pieces; i++) {
        struct kvc_launch launch =
            int16_launch(KVC_KERNEL_expert_linear_int16, args->y, &args->x, args->w, i, N, args->bias);
        KVC_PUSH(&launch, args->first, args->experts, (uint32_t)across);
        kvc_launch_groups(offload, &launch, args->pairs * across, 1, 1);
    }
}
