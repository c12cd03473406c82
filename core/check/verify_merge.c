/* verify_merge.c - test cases of the operations that merge values: merge_similar, merge_following, merge_values. */
#include "core/base/integers.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

/* Lists, their kept indices, targets and weights. */
struct merge_case {
    struct kvc_twin_lists lists;
    struct kvc_read_list kept[2];
    struct kvc_twin targets, weights;
    uint32_t stride;
};

static void make_case(struct kvc_verify *v, struct merge_case *c) {
    const struct kvc_lists_shape shape = kvc_verify_shape(v, 0, v->small ? 1 : 2, kvc_verify_range(v, 0, 2) > 0);
    kvc_verify_lists(v, &shape, &c->lists);
    kvc_verify_read_lists(v, &c->lists, c->kept);
    c->stride = c->lists.most + kvc_verify_range(v, 1, 4);
    c->targets = kvc_verify_output(v, (size_t)shape.kv_heads * c->stride * sizeof(uint32_t));
    c->weights = kvc_verify_output(v, (size_t)shape.kv_heads * c->stride * sizeof(float));
}

static void compare_targets(struct kvc_verify *v, const struct merge_case *c) {
    for (uint32_t h = 0; v->status == KVC_OK && h < c->lists.lists[1].kv_heads; h++)
        kvc_verify_compare_words(v, c->targets, (size_t)h * c->stride, c->lists.count[h], "target");
    kvc_verify_compare_scores(v, &c->lists, c->weights, c->stride);
}

KVC_INJECT(merge_similar, kvc_merge_similar, kvc_flip_score(device, args->lists, args->weights, args->stride, 1))
KVC_CASE(merge_similar, 30) {
    static const float thresholds[] = {0.0f, 0.1f, 0.5f, 1.0f};
    const float threshold = kvc_verify_pick(v, thresholds);
    struct merge_case c;
    make_case(v, &c);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->merge_similar(v->device[side],
                                            &(struct kvc_merge_similar){.lists = &c.lists.lists[side],
                                                                        .kept = &c.kept[side],
                                                                        .threshold = threshold,
                                                                        .targets = kvc_verify_span(c.targets, side),
                                                                        .weights = kvc_verify_span(c.weights, side),
                                                                        .stride = c.stride});
    compare_targets(v, &c);
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(merge_similar, packed, 30)

KVC_INJECT(merge_following, kvc_merge_following, kvc_flip_score(device, args->lists, args->weights, args->stride, 1))
KVC_CASE(merge_following, 20) {
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const uint32_t span = kvc_verify_range(v, 1, 40), layer = kvc_verify_range(v, 0, 40);
    uint64_t seed = kvc_verify_draw(v);
    struct merge_case c;
    seed <<= kvc_verify_range(v, 0, 1) * 20;
    make_case(v, &c);
    c.weights = kvc_verify_twin_values(v, (size_t)c.lists.lists[1].kv_heads * c.stride, flavour);
    kvc_verify_describe(v, ", span %u, layer %u", span, layer);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->merge_following(v->device[side],
                                              &(struct kvc_merge_following){.lists = &c.lists.lists[side],
                                                                            .kept = &c.kept[side],
                                                                            .layer = layer,
                                                                            .first_list = layer % 3,
                                                                            .span = span,
                                                                            .seed = seed,
                                                                            .targets = kvc_verify_span(c.targets, side),
                                                                            .weights = kvc_verify_span(c.weights, side),
                                                                            .stride = c.stride});
    compare_targets(v, &c);
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(merge_following, packed, 10)

/* Draws targets that merge about half of the evicted entries. Kept indices have no target. */
static struct kvc_twin draw_targets(struct kvc_verify *v, const struct merge_case *c) {
    const uint32_t heads = c->lists.lists[1].kv_heads;
    uint32_t *target = kvc_verify_alloc(v, (size_t)heads * c->stride * sizeof *target);
    const struct kvc_twin counts = {{c->kept[0].count, c->kept[1].count}}, none = {{NULL, NULL}};
    const uint32_t *kept_count = v->status == KVC_OK ? kvc_verify_counts(v, counts, heads) : NULL;
    uint32_t *kept = kvc_verify_alloc(v, (size_t)heads * c->kept[1].stride * sizeof *kept);
    if (!target || !kept_count || !kept)
        return none;
    v->device[1]->ops->download(v->device[1], kept, kvc_all_of(c->kept[1].index),
                                (size_t)heads * c->kept[1].stride * sizeof *kept);
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t r = 0, place = 0; r < c->lists.count[h]; r++) {
            const bool is_kept = place < kept_count[h] && kept[(size_t)h * c->kept[1].stride + place] == r;
            const bool merges = kvc_verify_range(v, 0, 1) && kept_count[h] > 0 && !is_kept;
            target[(size_t)h * c->stride + r] = merges ? kvc_verify_range(v, 0, kept_count[h] - 1) : UINT32_MAX;
            place += is_kept;
        }
    return kvc_verify_twin(v, (size_t)heads * c->stride * sizeof *target, target);
}

void kvc_inject_merge_values(struct kvc_device *device, const struct kvc_merge_values *args) {
    const struct kvc_ops *inject = kvc_inject_open(device);
    struct kvc_merge_values other = *args;
    other.normalised = !args->normalised;
    device->ops->merge_values(device, &other);
    kvc_inject_close(device, inject);
}
KVC_CASE(merge_values, 20) {
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const uint32_t span = kvc_verify_range(v, 0, 1) ? 1 : kvc_verify_range(v, 1, 40);
    const bool normalised = kvc_verify_range(v, 0, 1);
    uint64_t saturated[2];
    struct merge_case c;
    make_case(v, &c);
    c.weights = kvc_verify_twin_values(v, (size_t)c.lists.lists[1].kv_heads * c.stride, flavour);
    c.targets = draw_targets(v, &c);
    kvc_verify_describe(v, ", span %u, normalised %u", span, normalised);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        v->status = v->device[side]->ops->sync(v->device[side], &v->error);
        saturated[side] = v->device[side]->saturated;
        v->device[side]->ops->merge_values(v->device[side],
                                           &(struct kvc_merge_values){.lists = &c.lists.lists[side],
                                                                      .kept = &c.kept[side],
                                                                      .targets = kvc_verify_span(c.targets, side),
                                                                      .weights = kvc_verify_span(c.weights, side),
                                                                      .stride = c.stride,
                                                                      .span = span,
                                                                      .normalised = normalised});
        v->status = v->device[side]->ops->sync(v->device[side], &v->error);
        saturated[side] = v->device[side]->saturated - saturated[side];
    }
    kvc_verify_compare_lists(v, &c.lists);
    if (v->status == KVC_OK)
        kvc_verify_compare_number(v, saturated, "saturated");
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(merge_values, packed, 30)
