/* series.c - TriAttention's scores, from statistics of all queries. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/offload/offload.h"

/* The workspace holds logits [H, stride], totals [H, 2] and lengths [H_kv, most, pairs]. */
void kvc_offload_series_scores(struct kvc_device *device, const struct kvc_series_scores *args) {
    KVC_ASSERT(kvc_offload_holds(args->mean, (uint64_t)args->heads * args->lists->format.head_size));
    const struct kvc_lists *lists = args->lists;
    const uint32_t heads = args->heads, group = heads / lists->kv_heads, most = kvc_offload_most_slots(lists);
    const uint32_t teams = kvc_offload_of(device)->group / kvc_offload_of(device)->workers;
    const uint64_t all = (uint64_t)heads * args->stride;
    struct kvc_launch pairs = kvc_launch_of(KVC_KERNEL_series_lengths), dots = kvc_launch_of(KVC_KERNEL_series_logits);
    struct kvc_launch sums = kvc_launch_of(KVC_KERNEL_series_totals), mix = kvc_launch_of(KVC_KERNEL_series_scores);
    struct kvc_buffer *workspace = kvc_offload_workspace(
        kvc_offload_of(device), (all + 2ull * heads + (uint64_t)lists->kv_heads * most * args->pairs) * sizeof(float));
    if (!workspace)
        return;
    const struct kvc_span logits = {workspace, 0}, totals = {workspace, (size_t)all * 4};
    const struct kvc_span lengths = {workspace, (size_t)(args->pairs ? all + 2ull * heads : 0) * 4};
    if (args->pairs) {
        KVC_PUSH(&pairs, lists, lists->arena, args->pairs, lengths, most);
        kvc_launch_items(kvc_offload_of(device), &pairs, (uint64_t)most * args->pairs, lists->kv_heads, 1);
    }
    KVC_PUSH(&dots, lists, lists->arena, group, args->mean, args->spread, lengths, most, args->pairs, logits,
             args->stride);
    kvc_launch_groups(kvc_offload_of(device), &dots, (most + teams - 1) / teams, heads, 1);
    KVC_PUSH(&sums, lists->count, heads, group, logits, args->stride, totals);
    kvc_launch_items(kvc_offload_of(device), &sums, heads, 1, 1);
    KVC_PUSH(&mix, lists->count, group, args->average, logits, totals, args->scores, args->stride);
    kvc_launch_items(kvc_offload_of(device), &mix, most, lists->kv_heads, 1);
}
