/* channels.c - sets channels of keys to 0. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/offload/offload.h"

/* The workspace holds the scores [H_kv, d], and then the sums of tiles. */
void kvc_offload_prune_channels(struct kvc_device *device, const struct kvc_prune_channels *args) {
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size, group = args->heads / lists->kv_heads,
                   tiles = (uint32_t)kvc_divide_up(kvc_offload_most_slots(lists), KVC_TILE);
    KVC_ASSERT(kvc_offload_holds(args->q, (uint64_t)args->queries * args->heads * d));
    struct kvc_offload *offload = kvc_offload_of(device);
    struct kvc_launch squares = kvc_launch_of(KVC_KERNEL_channel_tiles);
    struct kvc_launch rank = kvc_launch_of(KVC_KERNEL_channel_scores);
    struct kvc_launch prune = kvc_launch_of(KVC_KERNEL_prune_channels);
    struct kvc_buffer *scores =
        kvc_offload_workspace(offload, (uint64_t)lists->kv_heads * d * (1 + (uint64_t)tiles) * sizeof(float));
    if (!scores)
        return;
    const struct kvc_span sums = {scores, (size_t)lists->kv_heads * d * sizeof(float)};
    KVC_PUSH(&squares, lists, lists->arena, (uint32_t)args->oldest, sums, tiles);
    kvc_launch_items(offload, &squares, (uint64_t)tiles * d, lists->kv_heads, 1);
    KVC_PUSH(&rank, lists->count, sums, tiles, args->q, args->queries, args->heads, group, scores, d);
    kvc_launch_items(offload, &rank, d, lists->kv_heads, 1);
    KVC_PUSH(&prune, lists, lists->arena, scores, args->channels, (uint32_t)args->oldest, (uint32_t)args->end, tiles);
    kvc_launch_items(offload, &prune, (uint64_t)tiles * kvc_divide_up(d, 32) * 16, lists->kv_heads, 1);
}
