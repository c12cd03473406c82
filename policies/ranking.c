/* ranking.c - sorts scores on the host, for methods that struct kvc_keep cannot describe. */
#include "policies/policies.h"

#include <stdlib.h>

#include "core/base/canon.h"

static int compare_ranked(const void *left, const void *right) {
    const struct kvc_ranked *a = left, *b = right;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int compare_indices(const void *left, const void *right) {
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

void kvc_sort_ranked(struct kvc_ranked *order, size_t n) { qsort(order, n, sizeof *order, compare_ranked); }

void kvc_rank_scores(const float *x, uint32_t n, struct kvc_ranked *order) {
    for (uint32_t i = 0; i < n; i++)
        order[i] = (struct kvc_ranked){kvc_score_key(x[i]), i};
    kvc_sort_ranked(order, n);
}

void kvc_sort_indices(uint32_t *indices, size_t n) { qsort(indices, n, sizeof *indices, compare_indices); }
