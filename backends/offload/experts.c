/* experts.c - mixtures of experts: route, expert_linear, expert_sum. */
#include "backends/offload/offload.h"

#include "core/base/assert.h"

void kvc_offload_route(struct kvc_device *device, const struct kvc_route *args) {
    KVC_ASSERT(kvc_offload_holds(args->logits, (uint64_t)args->rows * args->experts) &&
               kvc_offload_holds(args->first, args->experts + 1ull));
    struct kvc_launch choose = kvc_launch_of(KVC_KERNEL_route_choose), number = kvc_launch_of(KVC_KERNEL_route_number);
    KVC_PUSH(&choose, args->logits, args->experts, args->used, args->normalised, args->expert, args->share);
    kvc_launch_groups(kvc_offload_of(device), &choose, args->rows, 1, 1);
    KVC_PUSH(&number, args->expert, args->experts, args->rows * args->used, args->used, args->pair, args->row,
             args->first);
    kvc_launch_groups(kvc_offload_of(device), &number, args->rows ? args->experts : 0, 1, 1);
}

void kvc_offload_expert_linear(struct kvc_device *device, const struct kvc_expert_linear *args) {
    KVC_ASSERT(args->w->outputs % args->experts == 0 && kvc_offload_holds(args->first, args->experts + 1ull));
    KVC_ASSERT(kvc_offload_holds(args->y, args->pairs * (args->w->outputs / args->experts)));
    struct kvc_offload *offload = kvc_offload_of(device);
    const struct kvc_weight *w = args->w;
    const uint32_t outputs = offload->group / offload->workers * KVC_EACH_OF(offload->workers);
    const uint64_t N = w->outputs / args->experts, across = (N + outputs - 1) / outputs;
    for (uint32_t i = 0; i < w->pieces; i++) {
        struct kvc_launch launch =
            kvc_launch_of((enum kvc_kernel)((unsigned)KVC_KERNEL_experts_f32 + (unsigned)w->type));
        KVC_PUSH(&launch, args->y, args->x, w->piece[i], w->row_bytes, w->inputs, N, i * w->piece_rows,
                 kvc_offload_piece_rows(w, i), args->bias, args->first, args->experts, (uint32_t)across);
        kvc_launch_groups(offload, &launch, args->pairs * across, 1, 1);
    }
}

void kvc_offload_expert_sum(struct kvc_device *device, const struct kvc_expert_sum *args) {
    KVC_ASSERT(kvc_offload_holds(args->y, (uint64_t)args->rows * args->used * args->width));
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_expert_sum);
    KVC_PUSH(&launch, args->out, args->y, args->share, args->pair, args->shared, args->shared_logit, args->rows,
             args->used, args->width);
    kvc_launch_items(kvc_offload_of(device), &launch, (uint64_t)args->rows * args->width, 1, 1);
}
