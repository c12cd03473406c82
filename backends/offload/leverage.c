/* leverage.c - compactor's scores: attention within chunks without a causal mask, the leverage of keys (cap: of
 * weighted values), and the weighted sum of both after each is standardized. */
#include "core/base/integers.h"
#include "backends/offload/offload.h"

/* The workspace is used for one head at a time. It holds columns [1 + G, d, most] and totals [G, most, 2]. */
void kvc_offload_chunk_mass(struct kvc_device *device, const struct kvc_chunk_mass *args) {
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size, most = kvc_offload_most_slots(lists);
    const uint32_t group = args->heads / lists->kv_heads;
    const uint64_t columns = (uint64_t)(1 + group) * d * most;
    struct kvc_launch weigh = kvc_launch_of(KVC_KERNEL_chunk_weights);
    if (most == 0) /* there are no slots, and a buffer must not be empty */
        return;
    struct kvc_buffer *workspace =
        kvc_offload_workspace(kvc_offload_of(device), (columns + 2ull * group * most) * sizeof(float));
    if (!workspace)
        return;
    const struct kvc_span totals = {workspace, (size_t)columns * sizeof(float)};
    for (uint32_t h = 0; h < lists->kv_heads && args->queries; h++) {
        struct kvc_launch load = kvc_launch_of(KVC_KERNEL_chunk_columns);
        struct kvc_launch close = kvc_launch_of(KVC_KERNEL_chunk_totals);
        struct kvc_launch mass = kvc_launch_of(KVC_KERNEL_chunk_mass);
        KVC_PUSH(&load, lists, lists->arena, h, group, args->last, args->q, args->positions, args->queries, args->heads,
                 workspace, most);
        kvc_launch_items(kvc_offload_of(device), &load, most, 1 + group, d);
        KVC_PUSH(&close, lists, h, args->first, args->last, args->positions, args->queries, args->chunk, workspace, d,
                 totals, most);
        kvc_launch_items(kvc_offload_of(device), &close, most, group, 1);
        KVC_PUSH(&mass, lists, h, group, args->first, args->last, args->positions, args->queries, args->chunk,
                 args->column, workspace, d, most);
        kvc_launch_items(kvc_offload_of(device), &mass, most, 1, 1);
    }
    if (!args->scores.buffer)
        return;
    KVC_PUSH(&weigh, lists, lists->arena, args->first, args->last, args->column, args->scores, args->stride);
    kvc_launch_items(kvc_offload_of(device), &weigh, most, lists->kv_heads, 1);
}

/* There are R = H_kv rows or, with weights, R = H. The workspace holds keys [R, most, d], y [H_kv, d, most], the Gram
 * matrices [R, d, d], their diagonals and the means [R, d]. */
void kvc_offload_leverage_scores(struct kvc_device *device, const struct kvc_leverage_scores *args) {
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size, most = kvc_offload_most_slots(lists), centred = !args->weights.buffer;
    const uint32_t rows = centred ? lists->kv_heads : args->heads, group = rows / lists->kv_heads;
    const uint64_t list_bytes = (uint64_t)most * d * sizeof(float);
    const uint64_t keys_bytes = rows * list_bytes, y_bytes = lists->kv_heads * list_bytes;
    const uint64_t gram_bytes = (uint64_t)rows * d * d * sizeof(float);
    struct kvc_launch load = kvc_launch_of(KVC_KERNEL_leverage_keys);
    struct kvc_launch mean = kvc_launch_of(KVC_KERNEL_leverage_means);
    struct kvc_launch multiply = kvc_launch_of(KVC_KERNEL_leverage_gram);
    struct kvc_launch factor = kvc_launch_of(KVC_KERNEL_leverage_factor);
    struct kvc_launch solve = kvc_launch_of(KVC_KERNEL_leverage_scores);
    struct kvc_buffer *workspace =
        kvc_offload_workspace(kvc_offload_of(device), keys_bytes + y_bytes + gram_bytes + 8ull * rows * d);
    if (!workspace)
        return;
    const struct kvc_span keys = {workspace, 0}, y = {workspace, (size_t)keys_bytes},
                          gram = {workspace, (size_t)(keys_bytes + y_bytes)};
    const struct kvc_span diagonal = {workspace, gram.offset + (size_t)gram_bytes};
    const struct kvc_span means = {workspace, diagonal.offset + (size_t)rows * d * 4};
    KVC_PUSH(&load, lists, lists->arena, group, args->weights, args->stride, args->cosine, args->sine, args->rotary,
             keys, most);
    kvc_launch_items(kvc_offload_of(device), &load, (uint64_t)most * d, rows, 1);
    KVC_PUSH(&mean, lists->count, group, args->first, args->last, keys, most, d, centred, means);
    kvc_launch_items(kvc_offload_of(device), &mean, d, rows, 1);
    KVC_PUSH(&multiply, lists->count, group, args->first, args->last, keys, most, d, means, args->ridge, gram);
    kvc_launch_items(kvc_offload_of(device), &multiply, (uint64_t)d * d, rows, 1);
    KVC_PUSH(&factor, gram, diagonal, d, args->ridge);
    kvc_launch_groups(kvc_offload_of(device), &factor, rows, 1, 1);
    KVC_PUSH(&solve, lists->count, group, args->first, args->last, keys, means, gram, diagonal);
    KVC_PUSH(&solve, y, most, d, args->scores, args->stride);
    kvc_launch_items(kvc_offload_of(device), &solve, most, lists->kv_heads, 1);
}

/* The workspace holds totals [2, 2], then sums [2, H_kv, tiles]. */
void kvc_offload_standard_mix(struct kvc_device *device, const struct kvc_standard_mix *args) {
    const struct kvc_lists *lists = args->lists;
    const uint32_t heads = lists->kv_heads, most = kvc_offload_most_slots(lists),
                   tiles = (uint32_t)kvc_divide_up(most, KVC_TILE);
    struct kvc_launch mix = kvc_launch_of(KVC_KERNEL_standard_mix);
    struct kvc_buffer *totals =
        kvc_offload_workspace(kvc_offload_of(device), (4 + 2ull * heads * tiles) * sizeof(float));
    if (!totals)
        return;
    const struct kvc_span sums = {totals, 4 * sizeof(float)};
    for (uint32_t squares = 0; squares < 2; squares++) {
        struct kvc_launch part = kvc_launch_of(KVC_KERNEL_standard_tiles);
        struct kvc_launch close = kvc_launch_of(KVC_KERNEL_standard_totals);
        KVC_PUSH(&part, lists->count, heads, args->first, args->last, args->leverage, args->scores, args->stride,
                 squares, totals, sums, tiles);
        kvc_launch_items(kvc_offload_of(device), &part, tiles, heads, 2);
        KVC_PUSH(&close, lists->count, heads, args->first, args->last, squares, sums, tiles, totals);
        kvc_launch_items(kvc_offload_of(device), &close, 2, 1, 1);
    }
    KVC_PUSH(&mix, lists->count, args->first, args->last, args->share, totals, args->leverage, args->scores,
             args->stride);
    kvc_launch_items(kvc_offload_of(device), &mix, most, heads, 1);
}
