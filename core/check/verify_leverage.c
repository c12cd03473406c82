/* verify_leverage.c - test cases of compactor's scores: chunk_mass, leverage_scores, standard_mix. */
#include "core/base/integers.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

/* Lists, their scores, and the indices that are not scored. */
struct leverage_case {
    struct kvc_twin_lists lists;
    struct kvc_twin scores;
    uint32_t stride, first, last;
};

static void make_case(struct kvc_verify *v, uint32_t columns, uint32_t most_blocks, struct leverage_case *c) {
    const struct kvc_lists_shape shape = kvc_verify_shape(v, columns, most_blocks, kvc_verify_range(v, 0, 2) > 0);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    kvc_verify_lists(v, &shape, &c->lists);
    c->stride = c->lists.most + kvc_verify_range(v, 1, 4);
    c->first = kvc_verify_range(v, 0, 3) ? kvc_verify_range(v, 0, 9) : kvc_verify_range(v, 0, c->lists.most + 1);
    c->last = kvc_verify_range(v, 0, 3) ? kvc_verify_range(v, 0, 5) : kvc_verify_range(v, 0, c->lists.most + 1);
    c->scores = kvc_verify_twin_values(v, (size_t)shape.kv_heads * c->stride, flavour);
}

/* Draws queries at ascending positions that begin anywhere among the entries' positions. */
static struct kvc_twin make_positions(struct kvc_verify *v, const struct leverage_case *c, uint32_t queries) {
    const struct kvc_twin none = {{NULL, NULL}};
    int32_t *position = kvc_verify_alloc(v, (queries + 1) * sizeof *position);
    int32_t next = (int32_t)kvc_verify_range(v, 0, kvc_verify_range(v, 0, 1) ? 5 : (uint32_t)c->lists.now);
    if (!position)
        return none;
    for (uint32_t i = 0; i < queries; i++) {
        position[i] = next;
        next += 1 + (kvc_verify_range(v, 0, 7) == 0);
    }
    return kvc_verify_twin(v, (queries + 1) * sizeof *position, position);
}

KVC_INJECT(chunk_mass, kvc_chunk_mass,
           if (args->scores.buffer) kvc_flip_score(device, args->lists, args->scores, args->stride, 1);
           else kvc_flip_state(device, args->lists, args->column))
KVC_CASE(chunk_mass, 30) {
    static const uint32_t chunks[] = {1, 2, 7, 31, 32, 33, 64, 256, UINT32_MAX}, few[] = {1, 2, 7};
    const uint32_t chunk = v->small ? kvc_verify_pick(v, few) : kvc_verify_pick(v, chunks);
    const uint32_t columns = kvc_verify_range(v, 1, 3), group = kvc_verify_group(v);
    const uint32_t column = kvc_verify_range(v, 0, columns - 1), queries = kvc_verify_range(v, 0, v->small ? 9 : 300);
    const bool scored = kvc_verify_range(v, 0, 4) > 0;
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const struct kvc_span none = {NULL, 0};
    struct leverage_case c;
    make_case(v, columns, 1, &c);
    const uint32_t heads = c.lists.lists[1].kv_heads * group, d = c.lists.lists[1].format.head_size;
    const struct kvc_twin q = kvc_verify_twin_values(v, (size_t)(queries + 1) * heads * d, flavour);
    const struct kvc_twin positions = make_positions(v, &c, queries);
    kvc_verify_describe(v, ", %u queries, chunks of %u", queries, chunk);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->chunk_mass(
            v->device[side], &(struct kvc_chunk_mass){.lists = &c.lists.lists[side],
                                                      .queries = queries,
                                                      .heads = heads,
                                                      .first = c.first,
                                                      .last = c.last,
                                                      .chunk = chunk,
                                                      .column = column,
                                                      .q = kvc_verify_span(q, side),
                                                      .positions = kvc_verify_span(positions, side),
                                                      .scores = scored ? kvc_verify_span(c.scores, side) : none,
                                                      .stride = c.stride});
    kvc_verify_compare_scores(v, &c.lists, c.scores, c.stride);
    if (v->status == KVC_OK)
        kvc_verify_compare_lists(v, &c.lists);
    kvc_verify_lists_free(v, &c.lists);
}

KVC_INJECT(leverage_scores, kvc_leverage_scores, kvc_flip_score(device, args->lists, args->scores, args->stride, 1))
KVC_CASE(leverage_scores, 30) {
    static const float ridges[] = {0.01f, 1e-30f, 4.0f};
    const float ridge = kvc_verify_pick(v, ridges);
    const struct kvc_span none = {NULL, 0};
    const bool weighted = v->further == KVC_FURTHER_weights;
    const uint32_t group = weighted ? kvc_verify_group(v) : 1;
    struct leverage_case c;
    make_case(v, 0, v->small ? 1 : 3, &c);
    const uint32_t d = c.lists.lists[1].format.head_size, half = kvc_verify_range(v, 0, d / 2);
    const size_t angles = (size_t)(c.lists.now + 1) * (half + 1);
    const struct kvc_twin cosine = kvc_verify_twin_values(v, angles, KVC_PLAIN);
    const struct kvc_twin sine = kvc_verify_twin_values(v, angles, KVC_PLAIN);
    const uint32_t heads = c.lists.lists[1].kv_heads * group;
    const struct kvc_twin weights =
        weighted ? kvc_verify_twin_values(v, (size_t)heads * c.stride, KVC_PLAIN) : (struct kvc_twin){{NULL, NULL}};
    kvc_verify_describe(v, ", from %u, %u channels rotated", c.first, 2 * half);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->leverage_scores(
            v->device[side], &(struct kvc_leverage_scores){.lists = &c.lists.lists[side],
                                                           .first = c.first,
                                                           .last = c.last,
                                                           .heads = heads,
                                                           .weights = weighted ? kvc_verify_span(weights, side) : none,
                                                           .cosine = half ? kvc_verify_span(cosine, side) : none,
                                                           .sine = half ? kvc_verify_span(sine, side) : none,
                                                           .rotary = 2 * half,
                                                           .ridge = ridge,
                                                           .scores = kvc_verify_span(c.scores, side),
                                                           .stride = c.stride});
    kvc_verify_compare_scores(v, &c.lists, c.scores, c.stride);
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(leverage_scores, packed, 20)
KVC_FURTHER_CASES(leverage_scores, weights, 20)

KVC_INJECT(standard_mix, kvc_standard_mix, kvc_flip_score(device, args->lists, args->scores, args->stride, 1))
KVC_CASE(standard_mix, 30) {
    const uint32_t tenths = kvc_verify_range(v, 0, 20);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    struct leverage_case c;
    make_case(v, 0, v->small ? 1 : 4, &c);
    const struct kvc_twin leverage = kvc_verify_twin_values(v, (size_t)c.lists.lists[1].kv_heads * c.stride, flavour);
    kvc_verify_describe(v, ", from %u, share %u/10", c.first, tenths);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->standard_mix(v->device[side],
                                           &(struct kvc_standard_mix){.lists = &c.lists.lists[side],
                                                                      .first = c.first,
                                                                      .last = c.last,
                                                                      .share = (float)tenths / 10.0f,
                                                                      .leverage = kvc_verify_span(leverage, side),
                                                                      .scores = kvc_verify_span(c.scores, side),
                                                                      .stride = c.stride});
    kvc_verify_compare_scores(v, &c.lists, c.scores, c.stride);
    kvc_verify_lists_free(v, &c.lists);
}
