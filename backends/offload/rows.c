/* rows.c - operations on rows of values: embed, norm, rope, gated_silu, add, blend, scale, repeat_heads,
 * gather, gate_scores. */
#include "backends/offload/offload.h"

#include "core/base/assert.h"

void kvc_offload_embed(struct kvc_device *device, const struct kvc_embed *args) {
    KVC_ASSERT(kvc_offload_holds(args->out, args->rows * args->table->inputs) &&
               kvc_offload_holds(args->tokens, args->rows));
    for (uint32_t i = 0; i < args->table->pieces; i++) {
        struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_embed);
        KVC_PUSH(&launch, args->out, args->table->piece[i], i * args->table->piece_rows,
                 kvc_offload_piece_rows(args->table, i), args->table->row_bytes, args->table->type, args->table->inputs,
                 args->tokens, args->rows);
        kvc_launch_items(kvc_offload_of(device), &launch,
                         args->rows * kvc_offload_runs(kvc_offload_of(device), args->table->inputs), 1, 1);
    }
}

void kvc_offload_norm(struct kvc_device *device, const struct kvc_norm *args) {
    KVC_ASSERT(kvc_offload_holds(args->x, (uint64_t)args->rows * args->K) &&
               kvc_offload_holds(args->y, (uint64_t)args->rows * args->K));
    struct kvc_launch launch = kvc_launch_of(args->centred ? KVC_KERNEL_norm_centred : KVC_KERNEL_norm);
    KVC_PUSH(&launch, args->y, args->x, args->w);
    if (args->centred)
        kvc_launch_span(&launch, args->bias);
    KVC_PUSH(&launch, args->K, args->heads ? args->heads : 1, args->eps);
    kvc_launch_groups(kvc_offload_of(device), &launch, args->rows, 1, 1);
}

void kvc_offload_rope(struct kvc_device *device, const struct kvc_rope_heads *args) {
    KVC_ASSERT(kvc_offload_holds(args->y, (uint64_t)args->rows * args->heads * args->head_size) &&
               kvc_offload_holds(args->sine, (uint64_t)args->rows * (args->rotary / 2)));
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_rope);
    KVC_PUSH(&launch, args->y, args->x, args->cosine, args->sine, args->rows, args->heads, args->head_size,
             args->rotary, args->interleaved);
    kvc_launch_items(kvc_offload_of(device), &launch,
                     (uint64_t)args->rows * args->heads *
                         (kvc_offload_of(device)->workers == 1 ? 1 : (args->head_size + 1) / 2),
                     1, 1);
}

void kvc_offload_gated_silu(struct kvc_device *device, const struct kvc_gated_silu *args) {
    KVC_ASSERT(kvc_offload_holds(args->gate, args->n) && kvc_offload_holds(args->y, args->n));
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_gated_silu);
    KVC_PUSH(&launch, args->y, args->gate, args->up, (uint32_t)args->activation, args->n);
    kvc_launch_items(kvc_offload_of(device), &launch, args->n, 1, 1);
}

void kvc_offload_add(struct kvc_device *device, const struct kvc_add *args) {
    KVC_ASSERT(kvc_offload_holds(args->x, args->n) && kvc_offload_holds(args->y, args->n));
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_add);
    KVC_PUSH(&launch, args->y, args->x, args->n);
    kvc_launch_items(kvc_offload_of(device), &launch, args->n, 1, 1);
}

void kvc_offload_blend(struct kvc_device *device, const struct kvc_blend *args) {
    KVC_ASSERT(kvc_offload_holds(args->x, args->n) && kvc_offload_holds(args->y, args->n));
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_blend);
    KVC_PUSH(&launch, args->y, args->x, args->share, 1.0f - args->share, args->n);
    kvc_launch_items(kvc_offload_of(device), &launch, args->n, 1, 1);
}

void kvc_offload_scale(struct kvc_device *device, const struct kvc_scale *args) {
    KVC_ASSERT(kvc_offload_holds(args->x, args->n) && kvc_offload_holds(args->y, args->n));
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_scale);
    KVC_PUSH(&launch, args->y, args->x, args->factor, args->cap, args->n);
    kvc_launch_items(kvc_offload_of(device), &launch, args->n, 1, 1);
}

void kvc_offload_smooth_factors(struct kvc_device *device, const struct kvc_smooth_factors *args) {
    const uint32_t count = args->kv_heads * args->d, group = args->heads / args->kv_heads;
    const bool queries = args->q.buffer != NULL;
    KVC_ASSERT(kvc_offload_holds(args->k, (uint64_t)args->rows * count) &&
               kvc_offload_holds(args->factors, 2 * (uint64_t)count));
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_smooth_factors);
    KVC_PUSH(&launch, args->k, queries ? args->q : args->k, args->factors, args->rows, count, args->d, group,
             queries ? 1u : 0u);
    kvc_launch_items(kvc_offload_of(device), &launch, count, 1, 1);
}

void kvc_offload_smooth(struct kvc_device *device, const struct kvc_smooth *args) {
    const uint64_t n = (uint64_t)args->rows * args->heads * args->d;
    KVC_ASSERT(kvc_offload_holds(args->x, n) && kvc_offload_holds(args->factor, (uint64_t)args->kv_heads * args->d));
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_smooth);
    KVC_PUSH(&launch, args->x, args->factor, n, args->heads * args->d, args->d, args->heads / args->kv_heads);
    kvc_launch_items(kvc_offload_of(device), &launch, n, 1, 1);
}

void kvc_offload_centre(struct kvc_device *device, const struct kvc_centre *args) {
    const uint64_t n = (uint64_t)args->rows * args->width;
    KVC_ASSERT(args->first <= args->rows && kvc_offload_holds(args->x, n) &&
               kvc_offload_holds(args->centre, args->width));
    struct kvc_launch mean = kvc_launch_of(KVC_KERNEL_mean_row), keep = kvc_launch_of(KVC_KERNEL_keep_first),
                      launch = kvc_launch_of(KVC_KERNEL_centre);
    if (args->first) {
        KVC_PUSH(&mean, args->centre, args->x, args->first, args->width);
        kvc_launch_items(kvc_offload_of(device), &mean, args->width, 1, 1);
    }
    if (args->first && kvc_type_is_rotated(args->type)) {
        const uint32_t groups = (args->d + KVC_ENTRY_GROUP - 1) / KVC_ENTRY_GROUP,
                       count = args->width / args->d * groups;
        KVC_PUSH(&keep, args->centre, args->x, args->d, groups, count, kvc_rotated_half(args->type));
        kvc_launch_items(kvc_offload_of(device), &keep, count, 1, 1);
    }
    KVC_PUSH(&launch, args->x, args->centre, n, args->width);
    kvc_launch_items(kvc_offload_of(device), &launch, n, 1, 1);
}

void kvc_offload_hadamard(struct kvc_device *device, const struct kvc_hadamard *args) {
    KVC_ASSERT(kvc_offload_holds(args->x, (uint64_t)args->heads * args->d));
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_hadamard);
    const uint32_t width = kvc_hadamard_width(args->d);
    KVC_PUSH(&launch, args->x, width, kvc_hadamard_factor(width));
    kvc_launch_groups(kvc_offload_of(device), &launch, (uint64_t)args->heads * args->d / width, 1, 1);
}

void kvc_offload_repeat_heads(struct kvc_device *device, const struct kvc_repeat_heads *args) {
    KVC_ASSERT(kvc_offload_holds(args->out, (uint64_t)args->rows * args->heads * args->copies * args->head_size));
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_repeat_heads);
    uint64_t n = (uint64_t)args->rows * args->heads * args->copies * args->head_size;
    KVC_PUSH(&launch, args->out, args->x, n, args->copies, args->head_size);
    kvc_launch_items(kvc_offload_of(device), &launch,
                     kvc_offload_of(device)->workers == 1 ? (uint64_t)args->rows * args->heads : n, 1, 1);
}

void kvc_offload_gather(struct kvc_device *device, const struct kvc_gather *args) {
    KVC_ASSERT(kvc_offload_holds(args->out, (uint64_t)args->rows * args->width) &&
               kvc_offload_holds(args->index, args->rows));
    const uint64_t run = KVC_COPIED_OF(kvc_offload_of(device)->workers);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_gather);
    KVC_PUSH(&launch, args->out, args->x, args->index, args->rows, args->width);
    kvc_launch_items(kvc_offload_of(device), &launch, args->rows * (((uint64_t)args->width + run - 1) / run), 1, 1);
}

void kvc_offload_gate_scores(struct kvc_device *device, const struct kvc_gate_scores *args) {
    const uint64_t n = (uint64_t)args->rows * args->kv_heads;
    KVC_ASSERT(kvc_offload_holds(args->scores, n) && kvc_offload_holds(args->k, n * args->channels) &&
               kvc_offload_holds(args->q, n * args->group * args->channels));
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_gate_scores);
    KVC_PUSH(&launch, args->scores, args->q, args->k, args->base, args->bias, n, args->kv_heads, args->group,
             args->sinks, args->channels, args->scale);
    kvc_launch_items(kvc_offload_of(device), &launch, n, 1, 1);
}

void kvc_offload_fma_loop(struct kvc_device *device, const struct kvc_fma_loop *args) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_fma_loop);
    KVC_PUSH(&launch, args->x, args->n, args->rounds);
    kvc_launch_items(kvc_offload_of(device), &launch, args->n / KVC_LOOP_OF(kvc_offload_of(device)->workers), 1, 1);
}
