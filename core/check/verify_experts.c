/* verify_experts.c - test cases of the operations of experts: route, expert_linear, expert_sum. */
#include <stdio.h>

#include "core/base/integers.h"
#include "core/base/types.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

static uint32_t draw_rows(struct kvc_verify *v) {
    static const uint32_t rows[] = {1, 1, 1, 2, 3, 5, 8, 13, 33, 70};
    return v->small ? kvc_verify_range(v, 1, 6) : kvc_verify_pick(v, rows);
}

static struct kvc_twin words(struct kvc_verify *v, size_t n, const uint32_t *contents) {
    return kvc_verify_twin(v, n * sizeof *contents, contents);
}

KVC_INJECT(route, kvc_route, if (args->rows) kvc_flip(device, args->share, 0))
KVC_CASE(route, 40) {
    static const uint32_t counts[] = {1, 2, 3, 8, 31, 32, 33, 60, 64, 100, 128, 129, 256, 512, 1000, KVC_EXPERTS_MOST};
    const uint32_t most = v->small ? 9 : KVC_EXPERTS_MOST, drawn = kvc_verify_pick(v, counts);
    const uint32_t E = kvc_min_u32(drawn, most);
    const uint32_t used = kvc_verify_range(v, 1, kvc_min_u32(E, KVC_EXPERTS_USED_MOST));
    const uint32_t rows = draw_rows(v);
    const bool normalised = kvc_verify_range(v, 0, 1);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const size_t n = (size_t)rows * used;
    const struct kvc_twin logits = kvc_verify_twin_values(v, (size_t)rows * E, flavour), expert = words(v, n, NULL);
    const struct kvc_twin share = words(v, n, NULL), pair = words(v, n, NULL), row = words(v, n, NULL);
    const struct kvc_twin first = words(v, E + 1, NULL);
    snprintf(v->shape, sizeof v->shape, "%u of %u experts, rows %u, flavour %d%s", (unsigned)used, (unsigned)E,
             (unsigned)rows, (int)flavour, normalised ? ", normalised" : "");
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->route(v->device[side], &(struct kvc_route){.logits = kvc_verify_span(logits, side),
                                                                         .rows = rows,
                                                                         .experts = E,
                                                                         .used = used,
                                                                         .normalised = normalised,
                                                                         .expert = kvc_verify_span(expert, side),
                                                                         .share = kvc_verify_span(share, side),
                                                                         .pair = kvc_verify_span(pair, side),
                                                                         .row = kvc_verify_span(row, side),
                                                                         .first = kvc_verify_span(first, side)});
    kvc_verify_compare_words(v, expert, 0, n, "expert");
    kvc_verify_compare(v, share, 0, n, "share");
    kvc_verify_compare_words(v, pair, 0, n, "pair");
    kvc_verify_compare_words(v, row, 0, n, "row");
    kvc_verify_compare_words(v, first, 0, E + 1, "first");
}

bool kvc_verify_experts(struct kvc_verify *v, enum kvc_type type, uint32_t E, uint32_t N, uint32_t K,
                        struct kvc_weight *weight[2]) {
    const bool together = kvc_verify_range(v, 0, 1);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const unsigned char *all = kvc_verify_matrix(v, type, together ? E * N : N, K, flavour);
    const void **host = kvc_verify_alloc(v, E * sizeof *host);
    for (uint32_t e = 0; e < E && all && host; e++)
        host[e] = together ? all + (size_t)e * N * kvc_type_row_bytes(type, K)
                  : e      ? kvc_verify_matrix(v, type, N, K, flavour)
                           : all;
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->status =
            v->device[side]->ops->experts_create(v->device[side], type, E, N, K, host, &weight[side], &v->error);
    return v->status == KVC_OK;
}

uint32_t *kvc_verify_first_pairs(struct kvc_verify *v, uint32_t E, uint32_t pairs) {
    uint32_t *first = kvc_verify_alloc(v, (E + 1) * sizeof *first);
    const uint32_t favourite = kvc_verify_range(v, 0, E - 1);
    for (uint32_t i = 0; first && i < pairs; i++) {
        const uint32_t drawn = kvc_verify_range(v, 0, E - 1);
        first[(kvc_verify_range(v, 0, 2) ? drawn : favourite) + 1]++;
    }
    for (uint32_t e = 0; first && e < E; e++)
        first[e + 1] += first[e];
    return first;
}

KVC_INJECT(expert_linear, kvc_expert_linear, if (args->pairs) kvc_flip(device, args->y, 0))
KVC_CASE(expert_linear, 40) {
    static const uint32_t outputs[] = {1, 3, 4, 8, 13, 16, 31, 33, 47, 64, 100, 130};
    const enum kvc_type type = (enum kvc_type)(v->row.cases % KVC_ALL_TYPES);
    const uint32_t K = kvc_verify_width(v, type), E = kvc_verify_range(v, 1, v->small ? 4 : 12);
    uint32_t N = kvc_verify_pick(v, outputs), pairs = kvc_verify_range(v, 1, v->small ? 6 : 40);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    struct kvc_weight *weight[2] = {NULL, NULL};
    if (v->row.cases % 8 == 7)
        pairs = kvc_verify_range(v, 41, v->small ? 50 : 400); /* as many as in a chunk of a prompt */
    if (v->small && (uint64_t)K * N * pairs > 3000)
        N = 3000 / (K * pairs) + 1;
    const uint32_t *first_pair = kvc_verify_first_pairs(v, E, pairs);
    const struct kvc_twin first = words(v, E + 1, first_pair);
    const struct kvc_twin x = kvc_verify_twin_values(v, (size_t)pairs * K, flavour);
    const struct kvc_twin y = words(v, (size_t)pairs * N, NULL);
    struct kvc_twin bias = {{NULL, NULL}};
    if (kvc_verify_range(v, 0, 1))
        bias = kvc_verify_twin_values(v, (size_t)E * N, flavour);
    snprintf(v->shape, sizeof v->shape, "%s, %u experts, K %u, N %u, pairs %u, flavour %d", kvc_type_name(type),
             (unsigned)E, (unsigned)K, (unsigned)N, (unsigned)pairs, (int)flavour);
    if (v->status == KVC_OK && kvc_verify_experts(v, type, E, N, K, weight)) {
        for (int side = v->first; side < 2; side++)
            v->device[side]->ops->expert_linear(v->device[side],
                                                &(struct kvc_expert_linear){.y = kvc_verify_span(y, side),
                                                                            .x = kvc_verify_span(x, side),
                                                                            .w = weight[side],
                                                                            .bias = kvc_verify_span(bias, side),
                                                                            .first = kvc_verify_span(first, side),
                                                                            .experts = E,
                                                                            .pairs = pairs});
        kvc_verify_compare(v, y, 0, (size_t)pairs * N, "y");
    }
    for (int side = v->first; side < 2; side++)
        if (weight[side])
            v->device[side]->ops->weight_free(v->device[side], weight[side]);
}

KVC_INJECT(expert_sum, kvc_expert_sum, if (args->rows) kvc_flip(device, args->out, 0))
KVC_CASE(expert_sum, 20) {
    static const uint32_t widths[] = {1, 2, 7, 8, 15, 16, 17, 33, 64, 100, 257, 1000};
    const uint32_t rows = draw_rows(v), used = kvc_verify_range(v, 1, 9), width = kvc_verify_pick(v, widths);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const uint32_t n = rows * used;
    uint32_t *order = kvc_verify_alloc(v, n * sizeof *order);
    for (uint32_t i = 0; order && i < n; i++) { /* a permutation */
        const uint32_t at = kvc_verify_range(v, 0, i);
        order[i] = order[at];
        order[at] = i;
    }
    const struct kvc_twin pair = words(v, n, order), share = kvc_verify_twin_values(v, n, flavour);
    const struct kvc_twin y = kvc_verify_twin_values(v, (size_t)n * width, flavour);
    const struct kvc_twin out = words(v, (size_t)rows * width, NULL);
    struct kvc_twin shared = {{NULL, NULL}}, shared_logit = shared;
    if (kvc_verify_range(v, 0, 1)) {
        shared = kvc_verify_twin_values(v, (size_t)rows * width, flavour);
        shared_logit = kvc_verify_twin_values(v, rows, flavour);
    }
    snprintf(v->shape, sizeof v->shape, "rows %u, used %u, width %u, flavour %d%s", (unsigned)rows, (unsigned)used,
             (unsigned)width, (int)flavour, shared.buffer[1] ? ", shared" : "");
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->expert_sum(v->device[side],
                                         &(struct kvc_expert_sum){.out = kvc_verify_span(out, side),
                                                                  .y = kvc_verify_span(y, side),
                                                                  .share = kvc_verify_span(share, side),
                                                                  .pair = kvc_verify_span(pair, side),
                                                                  .shared = kvc_verify_span(shared, side),
                                                                  .shared_logit = kvc_verify_span(shared_logit, side),
                                                                  .rows = rows,
                                                                  .used = used,
                                                                  .width = width});
    kvc_verify_compare(v, out, 0, (size_t)rows * width, "out");
}
