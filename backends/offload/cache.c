/* cache.c - operations that change lists (append, drop, identity, evict, keep_keys, rotate_keys, relayout) and read
 * them (entries). */
#include "backends/offload/offload.h"

#include "core/base/assert.h"
#include "core/base/canon.h"

#define KVC_APPEND_ROWS 16u /* rows that a group of work-items appends to one head */

void kvc_offload_append(struct kvc_device *device, const struct kvc_append *args) {
    KVC_ASSERT(args->segment_count > 0);
    struct kvc_offload *offload = kvc_offload_of(device);
    for (size_t i = 0; i < args->segment_count; i++) {
        struct kvc_lists *lists = args->segments[i].lists;
        const uint32_t stored = args->segments[i].stored;
        struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_append);
        if (stored == 0)
            continue;
        KVC_PUSH(&launch, lists, lists->arena, args->k, args->v, args->positions, args->segments[i].row, stored,
                 lists->kv_heads, &offload->status_words, KVC_APPEND_ROWS);
        offload->status_written = true;
        kvc_launch_groups(offload, &launch, lists->kv_heads, (stored + KVC_APPEND_ROWS - 1) / KVC_APPEND_ROWS, 1);
        if (stored <= KVC_APPEND_ROWS)
            continue;
        launch = kvc_launch_of(KVC_KERNEL_append_count);
        KVC_PUSH(&launch, lists, stored, lists->kv_heads);
        kvc_launch_items(offload, &launch, lists->kv_heads, 1, 1);
    }
}

void kvc_offload_drop(struct kvc_device *device, const struct kvc_drop *args) {
    struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_drop);
    KVC_PUSH(&launch, lists, args->rows, lists->kv_heads);
    kvc_launch_items(kvc_offload_of(device), &launch, lists->kv_heads, 1, 1);
}

void kvc_offload_identity(struct kvc_device *device, const struct kvc_identity *args) {
    struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_identity);
    kvc_launch_lists(&launch, lists);
    kvc_launch_runs(kvc_offload_of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads);
}

void kvc_offload_evict(struct kvc_device *device, const struct kvc_evict *args) {
    struct kvc_lists *lists = args->lists;
    struct kvc_buffer *workspace =
        kvc_offload_workspace(kvc_offload_of(device), (uint64_t)lists->host_base[lists->kv_heads] * 4);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_evict);
    if (!workspace)
        return;
    KVC_PUSH(&launch, lists, args->kept, workspace, &kvc_offload_of(device)->status_words);
    kvc_offload_of(device)->status_written = true;
    kvc_launch_groups(kvc_offload_of(device), &launch, lists->kv_heads, 1, 1);
}

void kvc_offload_keep_keys(struct kvc_device *device, const struct kvc_keep_keys *args) {
    KVC_ASSERT(kvc_offload_holds(args->k, (uint64_t)args->rows * args->lists->kv_heads * args->width));
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = args->width, columns = KVC_COLUMNS_OF(kvc_offload_of(device)->workers);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_keep_keys);
    if (args->rows == 0)
        return;
    KVC_PUSH(&launch, lists, args->first, args->k, args->rows, lists->kv_heads, d);
    kvc_launch_items(kvc_offload_of(device), &launch,
                     kvc_offload_runs(kvc_offload_of(device), args->rows) * ((d + columns - 1) / columns),
                     lists->kv_heads, 1);
}

void kvc_offload_rotate_keys(struct kvc_device *device, const struct kvc_rotate_keys *args) {
    KVC_ASSERT(args->first + args->lists->format.head_size <= args->lists->columns);
    const struct kvc_lists *lists = args->lists;
    const uint64_t d = lists->format.head_size, most = kvc_offload_most_slots(lists);
    const uint32_t width = kvc_hadamard_width(lists->format.head_size);
    const uint32_t part = kvc_type_is_rotated(lists->format.key.type) ? width : 0;
    struct kvc_buffer *workspace =
        kvc_offload_workspace(kvc_offload_of(device), lists->host_base[lists->kv_heads] * d * sizeof(float));
    struct kvc_launch rotate = kvc_launch_of(KVC_KERNEL_rotate_rows), store = kvc_launch_of(KVC_KERNEL_store_keys);
    if (!workspace || most == 0)
        return;
    KVC_PUSH(&rotate, lists, args->first, args->cosine, args->sine, workspace, lists->format.head_size, args->rotary,
             args->interleaved);
    kvc_launch_items(kvc_offload_of(device), &rotate, most * ((d + 1) / 2), lists->kv_heads, 1);
    KVC_PUSH(&store, lists, lists->arena, workspace, part, kvc_hadamard_factor(width),
             &kvc_offload_of(device)->status_words);
    kvc_offload_of(device)->status_written = true;
    kvc_launch_groups(kvc_offload_of(device), &store, (uint32_t)(most / 16), lists->kv_heads, 1);
}

void kvc_offload_relayout(struct kvc_device *device, const struct kvc_relayout *args) {
    KVC_ASSERT(args->dst->kv_heads == args->src->kv_heads && (args->dst->order || !args->src->order));
    struct kvc_lists *dst = args->dst;
    const struct kvc_lists *src = args->src;
    struct kvc_buffer *workspace =
        kvc_offload_workspace(kvc_offload_of(device), (uint64_t)dst->host_base[dst->kv_heads] * 3 * 4);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_relayout);
    if (!workspace)
        return;
    KVC_PUSH(&launch, dst, src, src->arena, workspace, &kvc_offload_of(device)->status_words);
    kvc_offload_of(device)->status_written = true;
    kvc_launch_groups(kvc_offload_of(device), &launch, dst->kv_heads, 1, 1);
}

void kvc_offload_entries(struct kvc_device *device, const struct kvc_entries *args) {
    KVC_ASSERT(args->head < args->lists->kv_heads);
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_entries);
    KVC_PUSH(&launch, lists, lists->arena, args->head, args->keys, args->values);
    kvc_launch_items(kvc_offload_of(device), &launch,
                     (uint64_t)(lists->host_base[args->head + 1] - lists->host_base[args->head]) *
                         (kvc_offload_of(device)->workers == 1 ? 1 : lists->format.head_size),
                     1, 1);
}
