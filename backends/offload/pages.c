/* pages.c - views, pages, and sums of values. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/offload/offload.h"

uint64_t kvc_offload_most_places(const struct kvc_lists *lists, const struct kvc_read_list *view) {
    return view ? view->stride : kvc_offload_most_slots(lists);
}

void kvc_offload_view_append(struct kvc_device *device, const struct kvc_view_append *args) {
    KVC_ASSERT(args->view->index && args->view->count);
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_view_append);
    KVC_PUSH(&launch, lists, args->view, args->rows);
    kvc_launch_groups(kvc_offload_of(device), &launch, lists->kv_heads, 1, 1);
}

void kvc_offload_view_evict(struct kvc_device *device, const struct kvc_view_evict *args) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_view_evict);
    KVC_PUSH(&launch, args->kept, args->view);
    kvc_launch_groups(kvc_offload_of(device), &launch, args->lists->kv_heads, 1, 1);
}

/* Returns how many heads share the first dimension of the grid: all of them if each has little work, so that few groups
 * are launched. */
static uint32_t heads_across(const struct kvc_lists *lists, uint32_t rows) { return rows <= 16 ? lists->kv_heads : 1; }

void kvc_offload_pages_update(struct kvc_device *device, const struct kvc_pages_update *args) {
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_pages_update);
    const uint32_t across = heads_across(lists, args->rows);
    uint64_t places = kvc_offload_most_places(lists, args->view),
             changed = kvc_min_u64(args->rows, places) / args->pages->page + 2;
    changed = kvc_min_u64(changed, args->pages->stride);
    KVC_PUSH(&launch, lists, lists->arena, args->view, args->pages->page, args->pages->stride, args->pages->type,
             args->pages->low, args->pages->high, args->rows, (uint32_t)changed, across);
    kvc_launch_items(kvc_offload_of(device), &launch,
                     changed * across * (kvc_offload_of(device)->workers == 1 ? 1 : lists->format.head_size),
                     lists->kv_heads / across, 1);
}

void kvc_offload_value_sums(struct kvc_device *device, const struct kvc_value_sums *args) {
    const struct kvc_lists *lists = args->lists;
    const uint32_t across = heads_across(lists, args->rows);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_value_sums);
    KVC_PUSH(&launch, lists, lists->arena, args->view, args->sums, args->rows, across);
    kvc_launch_items(kvc_offload_of(device), &launch,
                     across * kvc_offload_runs(kvc_offload_of(device), lists->format.head_size),
                     lists->kv_heads / across, 1);
}

void kvc_offload_mix_mean(struct kvc_device *device, const struct kvc_mix_mean *args) {
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_mix_mean);
    KVC_PUSH(&launch, lists, args->view, args->reads->count, args->heads, lists->kv_heads, args->head_size, args->out,
             args->alpha, args->sums);
    kvc_launch_items(kvc_offload_of(device), &launch,
                     (uint64_t)args->heads * (kvc_offload_of(device)->workers == 1 ? 1 : args->head_size), 1, 1);
}
