/* cache.c - changing lists: append, drop, identity, evict, keep_keys, turn_keys, relayout; and reading them: entries.
 */
#include "backends/offload/offload.h"

static struct kvc_offload *of(struct kvc_device *device) { return (struct kvc_offload *)device; }

static void append(struct kvc_device *device, const struct kvc_segment *segments, size_t segment_count,
                   struct kvc_span k, struct kvc_span v, struct kvc_span positions) {
    for (size_t i = 0; i < segment_count; i++) {
        struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_append);
        if (segments[i].stored == 0)
            continue;
        kvc_launch_lists(&launch, segments[i].lists);
        kvc_launch_arena(&launch, segments[i].lists->arena);
        kvc_launch_span(&launch, k);
        kvc_launch_span(&launch, v);
        kvc_launch_span(&launch, positions);
        kvc_launch_word(&launch, segments[i].row);
        kvc_launch_word(&launch, segments[i].stored);
        kvc_launch_word(&launch, segments[i].lists->kv_heads);
        kvc_launch_buffer(&launch, &of(device)->status_words);
        of(device)->status_written = true;
        kvc_launch_groups(of(device), &launch, segments[i].lists->kv_heads, 1, 1);
    }
}

static void drop(struct kvc_device *device, struct kvc_lists *lists, uint32_t rows) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_drop);
    kvc_launch_lists(&launch, lists);
    kvc_launch_word(&launch, rows);
    kvc_launch_word(&launch, lists->kv_heads);
    kvc_launch_items(of(device), &launch, lists->kv_heads, 1, 1);
}

static void identity(struct kvc_device *device, struct kvc_lists *lists) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_identity);
    kvc_launch_lists(&launch, lists);
    kvc_launch_runs(of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads);
}

static void evict(struct kvc_device *device, struct kvc_lists *lists, const struct kvc_read_list *kept) {
    struct kvc_buffer *workspace = kvc_offload_workspace(of(device), (uint64_t)lists->host_base[lists->kv_heads] * 4);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_evict);
    if (!workspace)
        return;
    kvc_launch_lists(&launch, lists);
    kvc_launch_reads(&launch, kept);
    kvc_launch_buffer(&launch, workspace);
    kvc_launch_buffer(&launch, &of(device)->status_words);
    of(device)->status_written = true;
    kvc_launch_groups(of(device), &launch, lists->kv_heads, 1, 1);
}

static void keep_keys(struct kvc_device *device, const struct kvc_lists *lists, uint32_t first, struct kvc_span k,
                      uint32_t rows) {
    const uint32_t d = lists->format.head_size, columns = KVC_COLUMNS_OF(of(device)->workers);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_keep_keys);
    if (rows == 0)
        return;
    kvc_launch_lists(&launch, lists);
    kvc_launch_word(&launch, first);
    kvc_launch_span(&launch, k);
    kvc_launch_word(&launch, rows);
    kvc_launch_word(&launch, lists->kv_heads);
    kvc_launch_word(&launch, d);
    kvc_launch_items(of(device), &launch, kvc_offload_runs(of(device), rows) * ((d + columns - 1) / columns),
                     lists->kv_heads, 1);
}

static void turn_keys(struct kvc_device *device, const struct kvc_lists *lists, uint32_t first, struct kvc_span cosine,
                      struct kvc_span sine, uint32_t rotary, bool interleaved) {
    const uint64_t d = lists->format.head_size, most = kvc_offload_most_slots(lists);
    struct kvc_buffer *workspace =
        kvc_offload_workspace(of(device), lists->host_base[lists->kv_heads] * d * sizeof(float));
    struct kvc_launch rotate = kvc_launch_of(KVC_KERNEL_rotate_rows), store = kvc_launch_of(KVC_KERNEL_store_keys);
    if (!workspace || most == 0)
        return;
    kvc_launch_lists(&rotate, lists);
    kvc_launch_word(&rotate, first);
    kvc_launch_span(&rotate, cosine);
    kvc_launch_span(&rotate, sine);
    kvc_launch_buffer(&rotate, workspace);
    kvc_launch_word(&rotate, lists->format.head_size);
    kvc_launch_word(&rotate, rotary);
    kvc_launch_word(&rotate, interleaved);
    kvc_launch_items(of(device), &rotate, most * ((d + 1) / 2), lists->kv_heads, 1);
    kvc_launch_lists(&store, lists);
    kvc_launch_arena(&store, lists->arena);
    kvc_launch_buffer(&store, workspace);
    kvc_launch_buffer(&store, &of(device)->status_words);
    of(device)->status_written = true;
    kvc_launch_groups(of(device), &store, (uint32_t)(most / 16), lists->kv_heads, 1);
}

static void relayout(struct kvc_device *device, struct kvc_lists *dst, const struct kvc_lists *src) {
    struct kvc_buffer *workspace = kvc_offload_workspace(of(device), (uint64_t)dst->host_base[dst->kv_heads] * 3 * 4);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_relayout);
    if (!workspace)
        return;
    kvc_launch_lists(&launch, dst);
    kvc_launch_lists(&launch, src);
    kvc_launch_arena(&launch, src->arena);
    kvc_launch_buffer(&launch, workspace);
    kvc_launch_buffer(&launch, &of(device)->status_words);
    of(device)->status_written = true;
    kvc_launch_groups(of(device), &launch, dst->kv_heads, 1, 1);
}

static void entries(struct kvc_device *device, const struct kvc_lists *lists, uint32_t h, struct kvc_span keys,
                    struct kvc_span values) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_entries);
    kvc_launch_lists(&launch, lists);
    kvc_launch_arena(&launch, lists->arena);
    kvc_launch_word(&launch, h);
    kvc_launch_span(&launch, keys);
    kvc_launch_span(&launch, values);
    kvc_launch_items(of(device), &launch,
                     (uint64_t)(lists->host_base[h + 1] - lists->host_base[h]) *
                         (of(device)->workers == 1 ? 1 : lists->format.head_size),
                     1, 1);
}

void kvc_offload_fill_cache(struct kvc_ops *table) {
    table->append = append;
    table->drop = drop;
    table->identity = identity;
    table->evict = evict;
    table->keep_keys = keep_keys;
    table->turn_keys = turn_keys;
    table->relayout = relayout;
    table->entries = entries;
}
