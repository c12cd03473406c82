/* verify_entries.c - cases of the operations that score entries by what they hold: entry_scores, lag_scores. */
#include <string.h>

#include "core/base/integers.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

/* Lists, and scores for them. */
struct entries_case {
    struct kvc_twin_lists lists;
    struct kvc_twin scores;
    uint32_t stride;
};

static void make_case(struct kvc_verify *v, uint32_t most_blocks, struct entries_case *c) {
    const struct kvc_lists_shape shape = kvc_verify_shape(v, 0, most_blocks, kvc_verify_range(v, 0, 2) > 0);
    kvc_verify_lists(v, &shape, &c->lists);
    c->stride = c->lists.most + kvc_verify_range(v, 1, 4);
    c->scores = kvc_verify_twin(v, (size_t)shape.kv_heads * c->stride * sizeof(float), NULL);
}

KVC_INJECT(entry_scores, kvc_entry_scores, kvc_flip_score(device, args->lists, args->scores, args->stride, 1))
KVC_CASE(entry_scores, 30) {
    const enum kvc_entry_kind kind = (enum kvc_entry_kind)kvc_verify_range(v, KVC_ENTRY_DRAW, KVC_ENTRY_APART);
    const uint32_t layer = kvc_verify_range(v, 0, 40);
    uint64_t seed = kvc_verify_draw(v);
    struct entries_case c;
    seed <<= kvc_verify_range(v, 0, 1) * 20;
    make_case(v, 4, &c);
    kvc_verify_describe(v, ", kind %u, layer %u", kind, layer);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->entry_scores(v->device[side],
                                           &(struct kvc_entry_scores){.lists = &c.lists.lists[side],
                                                                      .kind = kind,
                                                                      .layer = layer,
                                                                      .seed = seed,
                                                                      .scores = kvc_verify_span(c.scores, side),
                                                                      .stride = c.stride});
    if (v->status == KVC_OK)
        kvc_verify_compare_scores(v, &c.lists, c.scores, c.stride);
    kvc_verify_lists_free(v, &c.lists);
}

KVC_INJECT(lag_scores, kvc_lag_scores, kvc_flip_score(device, args->lists, args->scores, args->stride, 1))
KVC_CASE(lag_scores, 30) {
    static const uint32_t lags[] = {2, 3, 16, 31, 32, 33, 128}, few[] = {2, 3, 4};
    const uint32_t lag = v->small ? kvc_verify_pick(v, few) : kvc_verify_pick(v, lags);
    const uint32_t first = kvc_verify_range(v, 0, 1) ? 4 : kvc_verify_range(v, 0, 2 * lag);
    const bool across = kvc_verify_range(v, 0, 1);
    struct entries_case c;
    make_case(v, 3, &c);
    kvc_verify_describe(v, ", lag %u after %u", lag, first);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->lag_scores(v->device[side],
                                         &(struct kvc_lag_scores){.lists = &c.lists.lists[side],
                                                                  .first = first,
                                                                  .lag = lag,
                                                                  .across = across,
                                                                  .scores = kvc_verify_span(c.scores, side),
                                                                  .stride = c.stride});
    if (v->status == KVC_OK)
        kvc_verify_compare_scores(v, &c.lists, c.scores, c.stride);
    kvc_verify_lists_free(v, &c.lists);
}
