/* verify_channels.c - test cases of the operation that sets channels of keys to 0. */
#include "core/base/integers.h"
#include "core/base/types.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

/* Leaves one channel more. */
void kvc_inject_prune_channels(struct kvc_device *device, const struct kvc_prune_channels *args) {
    const struct kvc_ops *inject = kvc_inject_open(device);
    struct kvc_prune_channels other = *args;
    other.channels -= other.channels > 0;
    device->ops->prune_channels(device, &other);
    kvc_inject_close(device, inject);
}

static enum kvc_type draw_type(struct kvc_verify *v) {
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_BF16, KVC_Q8_0, KVC_Q4_0};
    return kvc_verify_pick(v, types);
}

KVC_CASE(prune_channels, 40) {
    struct kvc_lists_shape shape = kvc_verify_shape(v, 0, 3, kvc_verify_range(v, 0, 2) > 0);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const uint32_t d = shape.head_size, heads = shape.kv_heads * kvc_verify_group(v);
    const uint32_t queries = kvc_verify_range(v, 1, 40), channels = kvc_verify_range(v, 0, d);
    struct kvc_twin_lists lists;
    shape.types.key = draw_type(v);
    kvc_verify_lists(v, &shape, &lists);
    const struct kvc_twin q = kvc_verify_twin_values(v, (size_t)queries * heads * d, flavour);
    const uint32_t oldest = kvc_verify_range(v, 0, 1) ? 0 : kvc_verify_range(v, 0, lists.most);
    const uint32_t end = oldest + kvc_verify_range(v, 0, lists.most);
    kvc_verify_describe(v, ", key %u, heads %u", shape.types.key, heads);
    kvc_verify_describe(v, ", queries %u, channels %u", queries, channels);
    kvc_verify_describe(v, ", positions %u to %u", oldest, end);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->prune_channels(v->device[side],
                                             &(struct kvc_prune_channels){.lists = &lists.lists[side],
                                                                          .q = kvc_verify_span(q, side),
                                                                          .queries = queries,
                                                                          .heads = heads,
                                                                          .channels = channels,
                                                                          .oldest = (int32_t)oldest,
                                                                          .end = (int32_t)end});
    if (v->status == KVC_OK)
        kvc_verify_compare_lists(v, &lists);
    kvc_verify_lists_free(v, &lists);
}
