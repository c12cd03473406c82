/* keep.c - chooses entries by their scores: pooling, group sums, the rules of struct kvc_keep, and the division of
 * slots among heads. */
#include "backends/offload/offload.h"

#include "core/base/assert.h"

_Static_assert(KVC_POOLS_MAX == KVC_POOL_MAX && KVC_POOLS_CHUNKS == KVC_POOL_CHUNKS,
               "kernels and host must number the kinds of pooling alike");

void kvc_offload_pool(struct kvc_device *device, const struct kvc_pool *args) {
    KVC_ASSERT(kvc_offload_holds(args->out, (uint64_t)args->lists->kv_heads * args->rows * args->stride));
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_pool);
    KVC_PUSH(&launch, lists, args->rows, args->out, args->in, args->stride, args->tail, args->kernel,
             (uint32_t)args->pooling);
    kvc_launch_runs(kvc_offload_of(device), &launch, kvc_offload_most_slots(lists),
                    (uint64_t)lists->kv_heads * args->rows);
}

void kvc_offload_group_scores(struct kvc_device *device, const struct kvc_group_scores *args) {
    KVC_ASSERT(kvc_offload_holds(args->out, (uint64_t)args->lists->kv_heads * args->stride));
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_group_scores);
    KVC_PUSH(&launch, lists, args->rows, args->out, args->in, args->stride, args->divisor);
    kvc_launch_runs(kvc_offload_of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads);
}

/* Applies one rule to `heads` heads, from head `first` on. */
static void keep_heads(struct kvc_offload *offload, const struct kvc_lists *lists, const struct kvc_keep *rule,
                       struct kvc_span scores, struct kvc_span ties, uint32_t stride, struct kvc_read_list *kept,
                       uint32_t first, uint32_t heads) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_keep);
    KVC_PUSH(&launch, lists, first, rule->first, rule->tail, rule->top, rule->fill, rule->limit,
             (uint64_t)rule->recent);
    KVC_PUSH(&launch, kvc_keep_least(rule), scores, ties, stride, kept);
    kvc_launch_groups(offload, &launch, heads, 1, 1);
}

void kvc_offload_keep(struct kvc_device *device, const struct kvc_keep_rules *args) {
    KVC_ASSERT(args->rule_count == 1 || args->rule_count == args->lists->kv_heads);
    const struct kvc_lists *lists = args->lists;
    if (args->rule_count == 1)
        keep_heads(kvc_offload_of(device), lists, args->rules, args->scores, args->ties, args->stride, args->kept, 0,
                   lists->kv_heads);
    else
        for (uint32_t h = 0; h < lists->kv_heads; h++)
            keep_heads(kvc_offload_of(device), lists, &args->rules[h], args->scores, args->ties, args->stride,
                       args->kept, h, 1);
}

void kvc_offload_shares(struct kvc_device *device, const struct kvc_shares *args) {
    KVC_ASSERT(kvc_offload_holds(args->scores, (uint64_t)args->lists->kv_heads * args->stride));
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_shares);
    KVC_PUSH(&launch, lists, lists->kv_heads, args->scores, args->stride, args->tail, args->slots, args->shares);
    kvc_launch_groups(kvc_offload_of(device), &launch, 1, 1, 1);
}
