/* fused.h - runs a fused operation: the device's own, or the two separate operations if it has none. */
#ifndef KVC_CORE_BASE_FUSED_H
#define KVC_CORE_BASE_FUSED_H

#include "core/base/ops.h"

static inline void kvc_run_keep_ring_apart(struct kvc_device *device, const struct kvc_keep_ring *args) {
    const struct kvc_ring *ring = args->ring;
    const struct kvc_ring_fuse fuse = {.lists = args->lists,
                                       .first = ring->first,
                                       .ring = ring->ring,
                                       .filled = ring->ring,
                                       .now = ring->now,
                                       .kind = KVC_ROW_PROBABILITIES,
                                       .fusion = KVC_FUSE_SUM,
                                       .recent = args->rule->recent,
                                       .scores = args->fused,
                                       .stride = args->stride};
    struct kvc_keep_rules rules = {.lists = args->lists,
                                   .rules = args->rule,
                                   .rule_count = 1,
                                   .scores = args->fused,
                                   .stride = args->stride,
                                   .kept = args->kept};
    if (args->scores.buffer) {
        rules.scores = args->scores;
        rules.ties = args->fused;
    }
    device->ops->ring_fuse(device, &fuse);
    device->ops->keep(device, &rules);
}

static inline void kvc_run_keep_ring(struct kvc_device *device, const struct kvc_keep_ring *args) {
    if (device->ops->keep_ring)
        device->ops->keep_ring(device, args);
    else
        kvc_run_keep_ring_apart(device, args);
}

static inline void kvc_run_select(struct kvc_device *device, const struct kvc_select_scores_reads *args) {
    if (device->ops->select_scores_reads) {
        device->ops->select_scores_reads(device, args);
    } else {
        device->ops->select_scores(device, args->scores);
        device->ops->select_reads(device, args->reads);
    }
}

#endif
