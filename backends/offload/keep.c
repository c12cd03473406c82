/* keep.c - from scores to entries: pooling, group sums, the rules of struct kvc_keep, slots shared among heads. */
#include "backends/offload/offload.h"

static struct kvc_offload *of(struct kvc_device *device) { return (struct kvc_offload *)device; }

void kvc_offload_pool(struct kvc_device *device, const struct kvc_pool *args) {
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_pool);
    kvc_launch_lists(&launch, lists);
    kvc_launch_word(&launch, args->rows);
    kvc_launch_span(&launch, args->out);
    kvc_launch_span(&launch, args->in);
    kvc_launch_word(&launch, args->stride);
    kvc_launch_wide(&launch, args->tail);
    kvc_launch_word(&launch, args->kernel);
    kvc_launch_word(&launch, args->pooling == KVC_POOL_MAX);
    kvc_launch_runs(of(device), &launch, kvc_offload_most_slots(lists), (uint64_t)lists->kv_heads * args->rows);
}

void kvc_offload_group_scores(struct kvc_device *device, const struct kvc_group_scores *args) {
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_group_scores);
    kvc_launch_lists(&launch, lists);
    kvc_launch_word(&launch, args->rows);
    kvc_launch_span(&launch, args->out);
    kvc_launch_span(&launch, args->in);
    kvc_launch_word(&launch, args->stride);
    kvc_launch_real(&launch, args->divisor);
    kvc_launch_runs(of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads);
}

/* `heads` of them by one rule, from `first` on. */
static void keep_heads(struct kvc_offload *offload, const struct kvc_lists *lists, const struct kvc_keep *rule,
                       struct kvc_span scores, struct kvc_span ties, uint32_t stride, struct kvc_read_list *kept,
                       uint32_t first, uint32_t heads) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_keep);
    kvc_launch_lists(&launch, lists);
    kvc_launch_word(&launch, first);
    kvc_launch_wide(&launch, rule->first);
    kvc_launch_wide(&launch, rule->tail);
    kvc_launch_wide(&launch, rule->top);
    kvc_launch_wide(&launch, rule->fill);
    kvc_launch_wide(&launch, rule->limit);
    kvc_launch_wide(&launch, (uint64_t)rule->recent);
    kvc_launch_span(&launch, scores);
    kvc_launch_span(&launch, ties);
    kvc_launch_word(&launch, stride);
    kvc_launch_reads(&launch, kept);
    kvc_launch_groups(offload, &launch, heads, 1, 1);
}

void kvc_offload_keep(struct kvc_device *device, const struct kvc_keep_rules *args) {
    const struct kvc_lists *lists = args->lists;
    if (args->rule_count == 1)
        keep_heads(of(device), lists, args->rules, args->scores, args->ties, args->stride, args->kept, 0,
                   lists->kv_heads);
    else
        for (uint32_t h = 0; h < lists->kv_heads; h++)
            keep_heads(of(device), lists, &args->rules[h], args->scores, args->ties, args->stride, args->kept, h, 1);
}

void kvc_offload_shares(struct kvc_device *device, const struct kvc_shares *args) {
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_shares);
    kvc_launch_lists(&launch, lists);
    kvc_launch_word(&launch, lists->kv_heads);
    kvc_launch_span(&launch, args->scores);
    kvc_launch_word(&launch, args->stride);
    kvc_launch_wide(&launch, args->tail);
    kvc_launch_wide(&launch, args->slots);
    kvc_launch_span(&launch, args->shares);
    kvc_launch_groups(of(device), &launch, 1, 1, 1);
}
