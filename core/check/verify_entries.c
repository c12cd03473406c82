/* verify_entries.c - test cases of the operations that score entries by their keys and values: entry_scores,
 * norm_shares, lag_scores, mix_redundancy, and operations that also use statistics of queries. */
#include <stdio.h>
#include <string.h>

#include "core/base/integers.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

/* Lists, and their scores. */
struct entries_case {
    struct kvc_twin_lists lists;
    struct kvc_twin scores;
    uint32_t stride;
};

static void make_case(struct kvc_verify *v, uint32_t most_blocks, struct entries_case *c) {
    const struct kvc_lists_shape shape = kvc_verify_shape(v, 0, most_blocks, kvc_verify_range(v, 0, 2) > 0);
    kvc_verify_lists(v, &shape, &c->lists);
    c->stride = c->lists.most + kvc_verify_range(v, 1, 4);
    c->scores = kvc_verify_output(v, (size_t)shape.kv_heads * c->stride * sizeof(float));
}

KVC_INJECT(entry_scores, kvc_entry_scores, kvc_flip_score(device, args->lists, args->scores, args->stride, 1))
KVC_CASE(entry_scores, 30) {
    const bool filters = v->further == KVC_FURTHER_filter;
    const enum kvc_entry_kind kind =
        filters ? KVC_ENTRY_FILTER : (enum kvc_entry_kind)kvc_verify_range(v, KVC_ENTRY_DRAW, KVC_ENTRY_APART);
    const uint32_t layer = kvc_verify_range(v, 0, 40);
    uint64_t seed = kvc_verify_draw(v);
    struct entries_case c;
    seed <<= kvc_verify_range(v, 0, 1) * 20;
    make_case(v, 4, &c);
    struct kvc_twin filter = {{NULL, NULL}};
    if (filters)
        filter = kvc_verify_twin_values(v, (size_t)c.lists.lists[1].kv_heads * c.lists.lists[1].format.head_size,
                                        kvc_verify_flavour(v));
    kvc_verify_describe(v, ", kind %u, layer %u", kind, layer);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->entry_scores(v->device[side],
                                           &(struct kvc_entry_scores){.lists = &c.lists.lists[side],
                                                                      .kind = kind,
                                                                      .layer = layer,
                                                                      .first_list = layer % 3,
                                                                      .seed = seed,
                                                                      .filter = kvc_verify_span(filter, side),
                                                                      .scores = kvc_verify_span(c.scores, side),
                                                                      .stride = c.stride});
    kvc_verify_compare_scores(v, &c.lists, c.scores, c.stride);
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(entry_scores, packed, 30)
KVC_FURTHER_CASES(entry_scores, filter, 20)

KVC_INJECT(norm_shares, kvc_norm_shares, kvc_flip_score(device, args->lists, args->scores, args->stride, 1))
KVC_CASE(norm_shares, 30) {
    static const uint32_t chunks[] = {0, 1, 2, 7, 16, 33, 300, UINT32_MAX};
    const enum kvc_share_kind kind = (enum kvc_share_kind)kvc_verify_range(v, KVC_SHARE_KEYS, KVC_SHARE_PRODUCT);
    const uint32_t chunk = kvc_verify_pick(v, chunks);
    struct entries_case c;
    make_case(v, v->small ? 1 : 4, &c);
    kvc_verify_describe(v, ", kind %u, chunks of %u", kind, chunk);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->norm_shares(v->device[side],
                                          &(struct kvc_norm_shares){.lists = &c.lists.lists[side],
                                                                    .kind = kind,
                                                                    .chunk = chunk,
                                                                    .scores = kvc_verify_span(c.scores, side),
                                                                    .stride = c.stride});
    kvc_verify_compare_scores(v, &c.lists, c.scores, c.stride);
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(norm_shares, packed, 30)

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
    kvc_verify_compare_scores(v, &c.lists, c.scores, c.stride);
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(lag_scores, packed, 30)

/* Plain random keys are rarely similar, so the thresholds are low. */
KVC_INJECT(mix_redundancy, kvc_mix_redundancy, kvc_flip_score(device, args->lists, args->scores, args->stride, 1))
KVC_CASE(mix_redundancy, 20) {
    static const float thresholds[] = {-1.0f, 0.0f, 0.2f, 0.5f, 1.0f}, divisors[] = {1.0f, 3.0f, 64.0f};
    const float threshold = kvc_verify_pick(v, thresholds), divisor = kvc_verify_pick(v, divisors);
    const uint32_t tenths = kvc_verify_range(v, 0, 10);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    struct entries_case c;
    make_case(v, v->small ? 1 : 2, &c);
    c.scores = kvc_verify_twin_values(v, (size_t)c.lists.lists[1].kv_heads * c.stride, flavour);
    kvc_verify_describe(v, ", share %u/10", tenths, 0);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->mix_redundancy(v->device[side],
                                             &(struct kvc_mix_redundancy){.lists = &c.lists.lists[side],
                                                                          .threshold = threshold,
                                                                          .share = (float)tenths / 10.0f,
                                                                          .divisor = divisor,
                                                                          .scores = kvc_verify_span(c.scores, side),
                                                                          .stride = c.stride});
    kvc_verify_compare_scores(v, &c.lists, c.scores, c.stride);
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(mix_redundancy, packed, 20)

KVC_INJECT(output_norms, kvc_output_norms,
           kvc_flip_score(device, args->lists, args->norms, args->stride, args->heads / args->lists->kv_heads))
KVC_CASE(output_norms, 20) {
    const uint32_t group = kvc_verify_group(v), outputs = kvc_verify_range(v, 1, v->small ? 3 : 40);
    const bool first = kvc_verify_range(v, 0, 1);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    struct entries_case c;
    make_case(v, v->small ? 1 : 2, &c);
    const uint32_t heads = c.lists.lists[1].kv_heads * group, d = c.lists.lists[1].format.head_size;
    const struct kvc_twin w = kvc_verify_twin_values(v, (size_t)outputs * heads * d, flavour);
    const struct kvc_twin norms = kvc_verify_twin_values(v, (size_t)heads * c.stride, KVC_PLAIN);
    const uint32_t *count = c.lists.count;
    kvc_verify_describe(v, ", group %u, %u outputs", group, outputs);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->output_norms(v->device[side],
                                           &(struct kvc_output_norms){.lists = &c.lists.lists[side],
                                                                      .w = kvc_verify_span(w, side),
                                                                      .heads = heads,
                                                                      .outputs = outputs,
                                                                      .first = first,
                                                                      .norms = kvc_verify_span(norms, side),
                                                                      .stride = c.stride});
    for (uint32_t g = 0; g < heads && v->status == KVC_OK; g++)
        kvc_verify_compare(v, norms, (size_t)g * c.stride, count[g / group], "norm");
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(output_norms, packed, 20)

KVC_INJECT(weigh_scores, kvc_weigh_scores, kvc_flip_score(device, args->lists, args->scores, args->stride, 1))
KVC_CASE(weigh_scores, 20) {
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    struct kvc_read_list kept[2];
    struct entries_case c;
    make_case(v, v->small ? 1 : 2, &c);
    const size_t values = (size_t)c.lists.lists[1].kv_heads * c.stride;
    const struct kvc_twin factor = kvc_verify_twin_values(v, values, flavour);
    c.scores = kvc_verify_twin_values(v, values, flavour);
    kvc_verify_read_lists(v, &c.lists, kept);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->weigh_scores(v->device[side],
                                           &(struct kvc_weigh_scores){.lists = &c.lists.lists[side],
                                                                      .kept = &kept[side],
                                                                      .epsilon = 0.0625f,
                                                                      .factor = kvc_verify_span(factor, side),
                                                                      .scores = kvc_verify_span(c.scores, side),
                                                                      .stride = c.stride});
    kvc_verify_compare_scores(v, &c.lists, c.scores, c.stride);
    kvc_verify_lists_free(v, &c.lists);
}

/* ---- expected attention ---- */

KVC_INJECT(query_moments, kvc_query_moments, kvc_flip(device, args->sums, 0))
KVC_CASE(query_moments, 30) {
    static const uint32_t sizes[] = {1, 7, 32, 33, 64, 96}, few[] = {1, 7, 32, 33};
    const uint32_t d = v->small ? kvc_verify_pick(v, few) : kvc_verify_pick(v, sizes);
    const uint32_t heads = kvc_verify_range(v, 1, v->small ? 2 : 8), rows = kvc_verify_range(v, 1, v->small ? 4 : 40);
    const bool first = kvc_verify_range(v, 0, 1);
    const uint32_t pairs = kvc_verify_range(v, 0, 1) ? kvc_verify_range(v, 0, d / 2) : 0;
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const size_t sums = (size_t)heads * (d + 1) * d;
    const struct kvc_twin q = kvc_verify_twin_values(v, (size_t)rows * heads * d, flavour);
    const struct kvc_twin to = kvc_verify_twin_values(v, sums, flavour);
    snprintf(v->shape, sizeof v->shape, "%u rows, %u heads of %u%s", rows, heads, d, first ? ", first" : "");
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->query_moments(v->device[side],
                                            &(struct kvc_query_moments){.q = kvc_verify_span(q, side),
                                                                        .sums = kvc_verify_span(to, side),
                                                                        .rows = rows,
                                                                        .heads = heads,
                                                                        .head_size = d,
                                                                        .interleaved = 2 * pairs,
                                                                        .first = first});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, to, 0, sums, "sum");
}

KVC_INJECT(expected_scores, kvc_expected_scores, kvc_flip_score(device, args->lists, args->scores, args->stride, 1))
KVC_CASE(expected_scores, 20) {
    const uint32_t group = kvc_verify_group(v), queries = kvc_verify_range(v, 1, 9);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const uint32_t options = kvc_verify_range(v, 0, 7);
    struct entries_case c;
    make_case(v, v->small ? 1 : 2, &c);
    const uint32_t d = c.lists.lists[1].format.head_size, heads = c.lists.lists[1].kv_heads * group;
    const uint32_t first = kvc_verify_range(v, 0, 5), half = kvc_verify_range(v, 0, d / 2);
    const struct kvc_twin sums = kvc_verify_twin_values(v, (size_t)heads * (d + 1) * d, flavour);
    const struct kvc_twin cosine = kvc_verify_twin_values(v, half + 1, KVC_PLAIN);
    const struct kvc_twin sine = kvc_verify_twin_values(v, half + 1, KVC_PLAIN);
    const struct kvc_span none = {NULL, 0};
    kvc_verify_describe(v, ", %u queries, options %u", queries, options);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->expected_scores(
            v->device[side], &(struct kvc_expected_scores){.lists = &c.lists.lists[side],
                                                           .heads = heads,
                                                           .queries = queries,
                                                           .first = first,
                                                           .sums = kvc_verify_span(sums, side),
                                                           .cosine = half ? kvc_verify_span(cosine, side) : none,
                                                           .sine = half ? kvc_verify_span(sine, side) : none,
                                                           .rotary = 2 * half,
                                                           .scale = 0.125f,
                                                           .epsilon = options & 4 ? 0.01f : 0.0f,
                                                           .covariance = options & 1,
                                                           .values = options & 2,
                                                           .scores = kvc_verify_span(c.scores, side),
                                                           .stride = c.stride});
    kvc_verify_compare_scores(v, &c.lists, c.scores, c.stride);
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(expected_scores, packed, 20)

KVC_INJECT(mean_weights, kvc_mean_weights,
           kvc_flip_score(device, args->lists, args->weights, args->stride, args->heads / args->lists->kv_heads))
KVC_CASE(mean_weights, 20) {
    const uint32_t group = kvc_verify_group(v), queries = kvc_verify_range(v, 1, 9);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    struct entries_case c;
    make_case(v, v->small ? 1 : 3, &c);
    const uint32_t d = c.lists.lists[1].format.head_size, heads = c.lists.lists[1].kv_heads * group;
    const uint32_t first = kvc_verify_range(v, 0, 5), half = kvc_verify_range(v, 0, d / 2);
    const struct kvc_twin sums = kvc_verify_twin_values(v, (size_t)heads * (d + 1) * d, flavour);
    const struct kvc_twin weights = kvc_verify_twin_values(v, (size_t)heads * c.stride, flavour);
    const struct kvc_twin cosine = kvc_verify_twin_values(v, half + 1, KVC_PLAIN);
    const struct kvc_twin sine = kvc_verify_twin_values(v, half + 1, KVC_PLAIN);
    const struct kvc_span none = {NULL, 0};
    kvc_verify_describe(v, ", %u queries, from %u", queries, first);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->mean_weights(
            v->device[side], &(struct kvc_mean_weights){.lists = &c.lists.lists[side],
                                                        .heads = heads,
                                                        .queries = queries,
                                                        .first = first,
                                                        .sums = kvc_verify_span(sums, side),
                                                        .cosine = half ? kvc_verify_span(cosine, side) : none,
                                                        .sine = half ? kvc_verify_span(sine, side) : none,
                                                        .rotary = 2 * half,
                                                        .scale = 2.5f,
                                                        .weights = kvc_verify_span(weights, side),
                                                        .stride = c.stride});
    for (uint32_t g = 0; g < heads && v->status == KVC_OK; g++)
        kvc_verify_compare(v, weights, (size_t)g * c.stride, c.lists.count[g / group], "weight");
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(mean_weights, packed, 20)

/* ---- TriAttention ---- */

KVC_INJECT(series_scores, kvc_series_scores, kvc_flip_score(device, args->lists, args->scores, args->stride, 1))
KVC_CASE(series_scores, 20) {
    const uint32_t group = kvc_verify_group(v);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const bool average = kvc_verify_range(v, 0, 1);
    struct entries_case c;
    make_case(v, v->small ? 1 : 3, &c);
    const uint32_t d = c.lists.lists[1].format.head_size, heads = c.lists.lists[1].kv_heads * group;
    const uint32_t pairs = kvc_verify_range(v, 0, 1) ? d / 2 : kvc_verify_range(v, 0, d / 2);
    const struct kvc_twin mean = kvc_verify_twin_values(v, (size_t)heads * d, flavour);
    const struct kvc_twin spread = kvc_verify_twin_values(v, (size_t)heads * pairs + 1, KVC_PLAIN);
    kvc_verify_describe(v, ", group %u, %u pairs", group, pairs);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->series_scores(v->device[side],
                                            &(struct kvc_series_scores){.lists = &c.lists.lists[side],
                                                                        .heads = heads,
                                                                        .pairs = pairs,
                                                                        .mean = kvc_verify_span(mean, side),
                                                                        .spread = kvc_verify_span(spread, side),
                                                                        .average = average,
                                                                        .scores = kvc_verify_span(c.scores, side),
                                                                        .stride = c.stride});
    kvc_verify_compare_scores(v, &c.lists, c.scores, c.stride);
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(series_scores, packed, 20)
