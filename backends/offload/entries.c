/* entries.c - scores of entries that need no query. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/offload/offload.h"

_Static_assert(KVC_ENTRIES_DRAW == KVC_ENTRY_DRAW && KVC_ENTRIES_NORM == KVC_ENTRY_NORM &&
                   KVC_ENTRIES_APART == KVC_ENTRY_APART && KVC_ENTRIES_FILTER == KVC_ENTRY_FILTER,
               "kernels and host must number the kinds of entry_scores alike");
_Static_assert(KVC_SHARES_MEAN == KVC_SHARE_MEAN && KVC_SHARES_PRODUCT == KVC_SHARE_PRODUCT,
               "kernels and host must number the kinds of norm_shares alike");

static void score_entries(struct kvc_offload *offload, const struct kvc_entry_scores *args, uint32_t kind,
                          struct kvc_span u) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_entry_scores);
    KVC_PUSH(&launch, args->lists, args->lists->arena, kind, args->layer, args->first_list, args->seed, u, args->scores,
             args->stride);
    kvc_launch_groups(offload, &launch, (uint32_t)kvc_divide_up(kvc_offload_most_slots(args->lists), KVC_TILE),
                      args->lists->kv_heads, 1);
}

/* The workspace holds u [H_kv, d], then the sums of tiles. The lengths of the keys are stored in `scores`. */
void kvc_offload_entry_scores(struct kvc_device *device, const struct kvc_entry_scores *args) {
    KVC_ASSERT(kvc_offload_holds(args->scores, (uint64_t)args->lists->kv_heads * args->stride));
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size,
                   tiles = (uint32_t)kvc_divide_up(kvc_offload_most_slots(lists), KVC_TILE);
    struct kvc_launch parts = kvc_launch_of(KVC_KERNEL_entry_directions);
    struct kvc_launch whole = kvc_launch_of(KVC_KERNEL_entry_direction);
    if (args->kind != KVC_ENTRY_APART) {
        score_entries(kvc_offload_of(device), args, (uint32_t)args->kind, args->filter);
        return;
    }
    struct kvc_buffer *u = kvc_offload_workspace(kvc_offload_of(device),
                                                 (uint64_t)lists->kv_heads * d * (1 + (uint64_t)tiles) * sizeof(float));
    if (!u)
        return;
    const struct kvc_span sums = {u, (size_t)lists->kv_heads * d * sizeof(float)};
    score_entries(kvc_offload_of(device), args, KVC_ENTRIES_LENGTH, args->filter);
    KVC_PUSH(&parts, lists, lists->arena, args->scores, args->stride, sums, tiles);
    kvc_launch_items(kvc_offload_of(device), &parts, (uint64_t)tiles * d, lists->kv_heads, 1);
    KVC_PUSH(&whole, lists->count, sums, tiles, u, d);
    kvc_launch_items(kvc_offload_of(device), &whole, d, lists->kv_heads, 1);
    score_entries(kvc_offload_of(device), args, KVC_ENTRIES_APART, (struct kvc_span){u, 0});
}

static void square_entries(struct kvc_offload *offload, const struct kvc_norm_shares *args, bool values,
                           struct kvc_span squares) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_norm_squares);
    KVC_PUSH(&launch, args->lists, args->lists->arena, values, squares, args->stride);
    kvc_launch_groups(offload, &launch, (uint32_t)kvc_divide_up(kvc_offload_most_slots(args->lists), KVC_TILE),
                      args->lists->kv_heads, 1);
}

/* The workspace holds the squared lengths of values [H_kv, stride]. */
void kvc_offload_norm_shares(struct kvc_device *device, const struct kvc_norm_shares *args) {
    KVC_ASSERT(kvc_offload_holds(args->scores, (uint64_t)args->lists->kv_heads * args->stride));
    struct kvc_offload *offload = kvc_offload_of(device);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_norm_shares);
    struct kvc_buffer *squares =
        kvc_offload_workspace(offload, (uint64_t)args->lists->kv_heads * args->stride * sizeof(float));
    if (!squares)
        return;
    square_entries(offload, args, args->kind == KVC_SHARE_VALUES, args->scores);
    if (args->kind >= KVC_SHARE_MEAN)
        square_entries(offload, args, true, (struct kvc_span){squares, 0});
    KVC_PUSH(&launch, args->lists->count, (uint32_t)args->kind, args->chunk, squares, args->scores, args->stride);
    kvc_launch_items(offload, &launch, kvc_divide_up(kvc_offload_most_slots(args->lists), kvc_max_u32(args->chunk, 1)),
                     args->lists->kv_heads, 1);
}

/* The workspace holds bounds [2, H_kv, parts, 2, d], then standard deviations [2, H_kv, stride]. */
void kvc_offload_lag_scores(struct kvc_device *device, const struct kvc_lag_scores *args) {
    KVC_ASSERT(args->lag >= 2 && kvc_offload_holds(args->scores, (uint64_t)args->lists->kv_heads * args->stride));
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size, heads = lists->kv_heads, most = kvc_offload_most_slots(lists);
    const uint32_t parts = most / args->lag;
    const uint64_t bounds = (uint64_t)4 * heads * parts * d;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_lag_bounds), spread = kvc_launch_of(KVC_KERNEL_lag_spread);
    struct kvc_launch raw = kvc_launch_of(KVC_KERNEL_lag_raw), order = kvc_launch_of(KVC_KERNEL_lag_scores);
    struct kvc_buffer *workspace =
        kvc_offload_workspace(kvc_offload_of(device), (bounds + (uint64_t)2 * heads * args->stride) * sizeof(float));
    if (!workspace)
        return;
    const struct kvc_span to = {workspace, (size_t)bounds * sizeof(float)};
    if (parts > 1) {
        KVC_PUSH(&launch, lists, lists->arena, args->first, args->lag, workspace, parts, heads);
        kvc_launch_items(kvc_offload_of(device), &launch, (uint64_t)parts * d, heads, 2);
        KVC_PUSH(&spread, lists, lists->arena, args->first, args->lag, workspace, parts, heads, to, args->stride);
        kvc_launch_items(kvc_offload_of(device), &spread, most, heads, 2);
        KVC_PUSH(&raw, lists->count, args->first, args->lag, heads, to, args->stride);
        kvc_launch_items(kvc_offload_of(device), &raw, parts, heads, 1);
    }
    KVC_PUSH(&order, lists->count, args->first, args->lag, args->across, to, args->scores, args->stride);
    kvc_launch_items(kvc_offload_of(device), &order, most, heads, 1);
}

void kvc_offload_entry_lengths(struct kvc_offload *offload, const struct kvc_lists *lists, struct kvc_span lengths,
                               uint32_t stride) {
    const struct kvc_entry_scores args = {.lists = lists, .scores = lengths, .stride = stride};
    score_entries(offload, &args, KVC_ENTRIES_LENGTH, args.filter);
}

/* Computes M and L of the softmax of each row of values, and writes them to totals. A KV head has `group` rows. */
void kvc_offload_index_totals(struct kvc_offload *offload, const struct kvc_lists *lists, uint32_t group,
                              uint32_t first, struct kvc_span values, uint32_t stride, struct kvc_span totals) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_index_totals);
    const uint32_t rows = lists->kv_heads * group;
    KVC_PUSH(&launch, lists->count, rows, group, first, values, stride, totals);
    kvc_launch_items(offload, &launch, rows, 1, 1);
}

void kvc_offload_entry_keys(struct kvc_offload *offload, const struct kvc_lists *lists, struct kvc_span cosine,
                            struct kvc_span sine, uint32_t rotary, struct kvc_span keys) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_entry_keys);
    const uint32_t most = kvc_offload_most_slots(lists);
    KVC_PUSH(&launch, lists, lists->arena, cosine, sine, rotary, keys, most);
    kvc_launch_items(offload, &launch, (uint64_t)most * lists->format.head_size, lists->kv_heads, 1);
}

/* The workspace holds lengths, means and last indices [H_kv, stride], totals [H_kv, 2] and keys [H_kv, most, d]. */
void kvc_offload_mix_redundancy(struct kvc_device *device, const struct kvc_mix_redundancy *args) {
    KVC_ASSERT(kvc_offload_holds(args->scores, (uint64_t)args->lists->kv_heads * args->stride));
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size, heads = lists->kv_heads, most = kvc_offload_most_slots(lists);
    const uint32_t teams = kvc_offload_of(device)->group / kvc_offload_of(device)->workers;
    const uint64_t one = (uint64_t)heads * args->stride;
    struct kvc_launch last = kvc_launch_of(KVC_KERNEL_redundancy_last);
    struct kvc_launch means = kvc_launch_of(KVC_KERNEL_redundancy_means);
    struct kvc_launch mix = kvc_launch_of(KVC_KERNEL_mix_redundancy);
    struct kvc_buffer *workspace = kvc_offload_workspace(
        kvc_offload_of(device), (3 * one + 2ull * heads + (uint64_t)heads * most * d) * sizeof(float));
    if (!workspace)
        return;
    const struct kvc_span length = {workspace, 0}, mean = {workspace, (size_t)one * 4};
    const struct kvc_span found = {workspace, (size_t)one * 8}, totals = {workspace, (size_t)one * 12};
    const struct kvc_span keys = {workspace, (size_t)(one * 12 + 8ull * heads)}, none = {NULL, 0};
    kvc_offload_entry_lengths(kvc_offload_of(device), lists, length, args->stride);
    kvc_offload_entry_keys(kvc_offload_of(device), lists, none, none, 0, keys);
    KVC_PUSH(&last, lists->count, args->threshold, keys, most, d, length, found, args->stride);
    kvc_launch_groups(kvc_offload_of(device), &last, (most + teams - 1) / teams, heads, 1);
    KVC_PUSH(&means, lists->count, keys, most, d, length, found, mean, args->stride);
    kvc_launch_groups(kvc_offload_of(device), &means, (most + teams - 1) / teams, heads, 1);
    kvc_offload_index_totals(kvc_offload_of(device), lists, 1, 0, mean, args->stride, totals);
    KVC_PUSH(&mix, lists->count, args->share, args->divisor, mean, totals, args->scores, args->stride);
    kvc_launch_items(kvc_offload_of(device), &mix, most, heads, 1);
}

void kvc_offload_output_norms(struct kvc_device *device, const struct kvc_output_norms *args) {
    KVC_ASSERT(args->heads % args->lists->kv_heads == 0 &&
               kvc_offload_holds(args->norms, (uint64_t)args->heads * args->stride));
    const struct kvc_lists *lists = args->lists;
    const uint32_t teams = kvc_offload_of(device)->group / kvc_offload_of(device)->workers,
                   group = args->heads / lists->kv_heads;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_output_norms);
    KVC_PUSH(&launch, lists, lists->arena, args->w, args->heads, group, args->outputs, args->first, args->norms,
             args->stride);
    kvc_launch_groups(kvc_offload_of(device), &launch, (kvc_offload_most_slots(lists) + teams - 1) / teams, args->heads,
                      1);
}

void kvc_offload_weigh_scores(struct kvc_device *device, const struct kvc_weigh_scores *args) {
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_weigh_scores);
    KVC_PUSH(&launch, lists->count, args->kept, args->epsilon, args->factor, args->scores, args->stride);
    kvc_launch_items(kvc_offload_of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads, 1);
}
