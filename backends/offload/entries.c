/* entries.c - scores that entries have of what they hold, without a query. */
#include "core/base/integers.h"
#include "backends/offload/offload.h"

_Static_assert(KVC_ENTRIES_DRAW == KVC_ENTRY_DRAW && KVC_ENTRIES_NORM == KVC_ENTRY_NORM &&
                   KVC_ENTRIES_APART == KVC_ENTRY_APART,
               "kernels number the kinds of entry_scores as the host does");

static struct kvc_offload *of(struct kvc_device *device) { return (struct kvc_offload *)device; }

static void score_entries(struct kvc_offload *offload, const struct kvc_entry_scores *args, uint32_t kind,
                          const struct kvc_buffer *u) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_entry_scores);
    KVC_PUSH(&launch, args->lists, args->lists->arena, kind, args->layer, args->seed, u, args->scores, args->stride);
    kvc_launch_groups(offload, &launch, kvc_slots_blocks(kvc_offload_most_slots(args->lists)), args->lists->kv_heads,
                      1);
}

/* The workspace: u [H_kv, d], then the tiles' sums. Lengths lie where the scores will. */
void kvc_offload_entry_scores(struct kvc_device *device, const struct kvc_entry_scores *args) {
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size, tiles = kvc_slots_blocks(kvc_offload_most_slots(lists));
    struct kvc_launch parts = kvc_launch_of(KVC_KERNEL_entry_directions);
    struct kvc_launch whole = kvc_launch_of(KVC_KERNEL_entry_direction);
    if (args->kind != KVC_ENTRY_APART) {
        score_entries(of(device), args, (uint32_t)args->kind, NULL);
        return;
    }
    struct kvc_buffer *u =
        kvc_offload_workspace(of(device), (uint64_t)lists->kv_heads * d * (1 + (uint64_t)tiles) * sizeof(float));
    if (!u)
        return;
    const struct kvc_span sums = {u, (size_t)lists->kv_heads * d * sizeof(float)};
    score_entries(of(device), args, KVC_ENTRIES_LENGTH, NULL);
    KVC_PUSH(&parts, lists, lists->arena, args->scores, args->stride, sums, tiles);
    kvc_launch_items(of(device), &parts, (uint64_t)tiles * d, lists->kv_heads, 1);
    KVC_PUSH(&whole, lists->count, sums, tiles, u, d);
    kvc_launch_items(of(device), &whole, d, lists->kv_heads, 1);
    score_entries(of(device), args, KVC_ENTRIES_APART, u);
}

/* The workspace: bounds [2, H_kv, parts, 2, d], then spread [2, H_kv, stride]. */
void kvc_offload_lag_scores(struct kvc_device *device, const struct kvc_lag_scores *args) {
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size, heads = lists->kv_heads, most = kvc_offload_most_slots(lists);
    const uint32_t parts = most / args->lag;
    const uint64_t bounds = (uint64_t)4 * heads * parts * d;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_lag_bounds), spread = kvc_launch_of(KVC_KERNEL_lag_spread);
    struct kvc_launch raw = kvc_launch_of(KVC_KERNEL_lag_raw), order = kvc_launch_of(KVC_KERNEL_lag_scores);
    struct kvc_buffer *workspace =
        kvc_offload_workspace(of(device), (bounds + (uint64_t)2 * heads * args->stride) * sizeof(float));
    if (!workspace)
        return;
    const struct kvc_span to = {workspace, (size_t)bounds * sizeof(float)};
    if (parts > 1) {
        KVC_PUSH(&launch, lists, lists->arena, args->first, args->lag, workspace, parts, heads);
        kvc_launch_items(of(device), &launch, (uint64_t)parts * d, heads, 2);
        KVC_PUSH(&spread, lists, lists->arena, args->first, args->lag, workspace, parts, heads, to, args->stride);
        kvc_launch_items(of(device), &spread, most, heads, 2);
        KVC_PUSH(&raw, lists->count, args->first, args->lag, heads, to, args->stride);
        kvc_launch_items(of(device), &raw, parts, heads, 1);
    }
    KVC_PUSH(&order, lists->count, args->first, args->lag, args->across, to, args->scores, args->stride);
    kvc_launch_items(of(device), &order, most, heads, 1);
}
