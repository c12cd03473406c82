/* merge.c - merges the values of entries that are about to be evicted into those of kept entries. */
#include "core/base/integers.h"
#include "backends/offload/offload.h"

/* The workspace holds the lengths of the keys [H_kv, stride]. */
void kvc_offload_merge_similar(struct kvc_device *device, const struct kvc_merge_similar *args) {
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_merge_similar);
    struct kvc_buffer *workspace =
        kvc_offload_workspace(kvc_offload_of(device), (uint64_t)lists->kv_heads * args->stride * sizeof(float));
    if (!workspace)
        return;
    const struct kvc_span lengths = {workspace, 0};
    kvc_offload_entry_lengths(kvc_offload_of(device), lists, lengths, args->stride);
    KVC_PUSH(&launch, lists, lists->arena, args->kept, args->threshold, lengths, args->targets, args->weights,
             args->stride);
    kvc_launch_items(kvc_offload_of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads, 1);
}

void kvc_offload_merge_following(struct kvc_device *device, const struct kvc_merge_following *args) {
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_merge_following);
    KVC_PUSH(&launch, lists, args->kept, args->layer, args->first_list, args->span, args->seed, args->targets,
             args->weights, args->stride);
    kvc_launch_items(kvc_offload_of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads, 1);
}

/* The workspace holds, for KVC_MERGE_PLACES places at a time, rows [H_kv, places, d] and numbers of terms [H_kv,
 * places]. */
void kvc_offload_merge_values(struct kvc_device *device, const struct kvc_merge_values *args) {
    struct kvc_offload *offload = kvc_offload_of(device);
    const struct kvc_lists *lists = args->lists;
    const uint32_t most = kvc_offload_most_slots(lists), places = kvc_min_u32(most, KVC_MERGE_PLACES);
    const uint64_t floats = (uint64_t)lists->kv_heads * places * lists->format.head_size;
    if (most == 0) /* a buffer must not be empty */
        return;
    struct kvc_buffer *rows =
        kvc_offload_workspace(offload, (floats + (uint64_t)lists->kv_heads * places) * sizeof(float));
    if (!rows)
        return;
    const struct kvc_span many = {rows, (size_t)floats * sizeof(float)};
    for (uint32_t first = 0; first < most; first += places) {
        struct kvc_launch add = kvc_launch_of(KVC_KERNEL_merge_rows), store = kvc_launch_of(KVC_KERNEL_merge_values);
        KVC_PUSH(&add, lists, lists->arena, args->kept, args->targets, args->weights, args->stride, args->span,
                 args->normalised, first, places, rows, many);
        kvc_launch_items(offload, &add, (uint64_t)places * lists->format.head_size, lists->kv_heads, 1);
        KVC_PUSH(&store, lists, lists->arena, args->kept, first, places, rows, many, &offload->status_words);
        offload->status_written = true;
        kvc_launch_groups(offload, &store, (places + 15) / 16, lists->kv_heads, 1);
    }
}
