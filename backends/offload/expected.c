/* expected.c - expected attention: the moments of queries, and the scores and weights that they give to entries. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/offload/offload.h"

static uint64_t moments_of(uint32_t heads, uint32_t d) { return (uint64_t)heads * (d + 1) * d; }

void kvc_offload_query_moments(struct kvc_device *device, const struct kvc_query_moments *args) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_query_moments);
    KVC_PUSH(&launch, args->q, args->sums, args->rows, args->heads, args->head_size, args->interleaved, args->first);
    kvc_launch_items(kvc_offload_of(device), &launch, moments_of(args->heads, args->head_size), 1, 1);
}

/* The workspace holds moments [H, 1 + d, d], logits [H, stride], totals [H, 2] and keys [H_kv, most, d]. */
void kvc_offload_expected_scores(struct kvc_device *device, const struct kvc_expected_scores *args) {
    KVC_ASSERT(args->queries > 0 && kvc_offload_holds(args->scores, (uint64_t)args->lists->kv_heads * args->stride));
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size, heads = args->heads, group = heads / lists->kv_heads;
    const uint32_t most = kvc_offload_most_slots(lists),
                   teams = kvc_offload_of(device)->group / kvc_offload_of(device)->workers;
    const uint64_t moments = moments_of(heads, d), all = (uint64_t)heads * args->stride;
    struct kvc_launch close = kvc_launch_of(KVC_KERNEL_expected_moments);
    struct kvc_launch scores = kvc_launch_of(KVC_KERNEL_expected_logits),
                      sums = kvc_launch_of(KVC_KERNEL_expected_sums);
    struct kvc_buffer *workspace = kvc_offload_workspace(
        kvc_offload_of(device), (moments + all + 2ull * heads + (uint64_t)lists->kv_heads * most * d) * sizeof(float));
    if (!workspace)
        return;
    const struct kvc_span closed = {workspace, 0}, logits = {workspace, (size_t)moments * 4};
    const struct kvc_span totals = {workspace, (size_t)(moments + all) * 4};
    const struct kvc_span keys = {workspace, (size_t)(moments + all + 2ull * heads) * 4};
    KVC_PUSH(&close, args->sums, heads, d, args->queries, closed);
    kvc_launch_items(kvc_offload_of(device), &close, moments, 1, 1);
    kvc_offload_entry_keys(kvc_offload_of(device), lists, args->cosine, args->sine, args->rotary, keys);
    KVC_PUSH(&scores, lists->count, group, args->first, closed, keys, most, d, args->scale, args->covariance, logits,
             args->stride);
    kvc_launch_groups(kvc_offload_of(device), &scores, (most + teams - 1) / teams, heads, 1);
    kvc_offload_index_totals(kvc_offload_of(device), lists, group, args->first, logits, args->stride, totals);
    KVC_PUSH(&sums, lists, lists->arena, group, args->first, args->values, args->epsilon, logits, totals, args->scores,
             args->stride);
    kvc_launch_items(kvc_offload_of(device), &sums, most, lists->kv_heads, 1);
}

/* The workspace holds u [H, d], totals [H, 2] and the lengths of the keys [H_kv, stride]. */
void kvc_offload_mean_weights(struct kvc_device *device, const struct kvc_mean_weights *args) {
    KVC_ASSERT(args->queries > 0 && kvc_offload_holds(args->weights, (uint64_t)args->heads * args->stride));
    struct kvc_offload *offload = kvc_offload_of(device);
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size, heads = args->heads, group = heads / lists->kv_heads;
    const uint32_t most = kvc_offload_most_slots(lists), teams = offload->group / offload->workers;
    struct kvc_launch direct = kvc_launch_of(KVC_KERNEL_mean_directions);
    struct kvc_launch compare = kvc_launch_of(KVC_KERNEL_mean_logits), weigh = kvc_launch_of(KVC_KERNEL_mean_weights);
    struct kvc_buffer *workspace = kvc_offload_workspace(
        offload, ((uint64_t)heads * (d + 2) + (uint64_t)lists->kv_heads * args->stride) * sizeof(float));
    if (!workspace)
        return;
    const struct kvc_span u = {workspace, 0}, totals = {workspace, (size_t)heads * d * sizeof(float)};
    const struct kvc_span lengths = {workspace, (size_t)heads * (d + 2) * sizeof(float)};
    KVC_PUSH(&direct, args->sums, args->cosine, args->sine, args->rotary, d, args->queries, u);
    kvc_launch_items(offload, &direct, d, heads, 1);
    kvc_offload_entry_lengths(offload, lists, lengths, args->stride);
    KVC_PUSH(&compare, lists, lists->arena, group, args->first, u, lengths, args->scale, args->weights, args->stride);
    kvc_launch_groups(offload, &compare, (most + teams - 1) / teams, heads, 1);
    kvc_offload_index_totals(offload, lists, group, args->first, args->weights, args->stride, totals);
    KVC_PUSH(&weigh, lists->count, group, args->first, totals, args->weights, args->stride);
    kvc_launch_items(offload, &weigh, most, heads, 1);
}
