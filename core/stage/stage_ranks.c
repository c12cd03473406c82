/* stage_ranks.c - gathers the scores of all lists of a layer through the host if the lists are sharded among ranks. */
#include "core/stage/stage_ranks.h"

#include "core/base/assert.h"
#include "core/base/integers.h"

#include <stdlib.h>
#include <string.h>

struct kvc_ranks *kvc_stage_ranks_of(const struct kvc_stage *stage) {
    const struct kvc_network *network = stage->session->runner->network;
    return network && network->part.heads_sharded ? network->part.ranks : NULL;
}

enum kvc_status kvc_stage_gather(const struct kvc_stage *stage, uint32_t lists, uint32_t model_lists, size_t each,
                                 const float *own, float *all, struct kvc_error *error) {
    struct kvc_ranks *ranks = kvc_stage_ranks_of(stage);
    const struct kvc_network *network = stage->session->runner->network;
    (void)error;
    if (!ranks) {
        memcpy(all, own, lists * each * sizeof *all);
        return KVC_OK;
    }
    const size_t lists_each = model_lists / network->part.kv_heads * each; /* numbers per KV head */
    KVC_ASSERT(model_lists % network->part.kv_heads == 0);
    for (uint32_t r = 0; r < ranks->rows.split.ranks; r++)
        ranks->widths[r] = lists_each * kvc_split_owned_heads(network->part.kv_heads, &ranks->rows.split, r);
    kvc_ranks_gather_rows(ranks, own, 1, ranks->widths, all);
    return KVC_OK;
}

/* Gathers the counts of all lists as floats, because scores are gathered as floats. Counts are below 2^24; otherwise
 * the rows of scores would not fit in memory. */
static enum kvc_status gather_counts(const struct kvc_stage *stage, uint32_t *counts, struct kvc_error *error) {
    const struct kvc_cache_layer *layer = kvc_stage_lists(stage);
    const uint32_t own = stage->info.kv_heads, all = stage->info.model_lists;
    float *numbers = malloc(((size_t)own + all) * sizeof *numbers);
    if (!numbers)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for the counts of %u lists", all);
    for (uint32_t h = 0; h < own; h++)
        /* copies the bits; the floats are never used in arithmetic */
        memcpy(&numbers[h], &layer->count[h], sizeof *counts);
    const enum kvc_status status = kvc_stage_gather(stage, own, all, 1, numbers, numbers + own, error);
    memcpy(counts, numbers + own, all * sizeof *counts);
    free(numbers);
    return status;
}

/* Gathers array i of scores, `stride` numbers per list, from all ranks and uploads it to the device. */
static enum kvc_status gather_scores(struct kvc_stage *stage, const struct kvc_scores *scores,
                                     const struct kvc_across *across, unsigned i, struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    struct kvc_device *device = runner->device;
    const struct kvc_cache_layer *layer = kvc_stage_lists(stage);
    const uint32_t own = stage->info.kv_heads, all = stage->info.model_lists, stride = across->stride;
    float *values = calloc(((size_t)own + all) * stride, sizeof *values);
    if (!values)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for the scores of %u lists", all);
    for (uint32_t h = 0; h < own; h++) {
        struct kvc_span from = scores->span;
        from.offset += (size_t)h * scores->stride * sizeof *values;
        if (layer->count[h])
            device->ops->download(device, values + (size_t)h * stride, from, layer->count[h] * sizeof *values);
    }
    float *whole = values + (size_t)own * stride;
    KVC_ASSERT(scores->heads == own && stride >= kvc_cache_most(&stage->session->cache, stage->layer));
    enum kvc_status status = kvc_stage_gather(stage, own, all, stride, values, whole, error);
    if (status == KVC_OK)
        device->ops->upload(device, across->scores[i], whole, (size_t)all * stride * sizeof *whole);
    free(values);
    return status;
}

static enum kvc_status stage_ranks_reserve(struct kvc_stage *stage, unsigned count, struct kvc_across *across,
                                           struct kvc_error *error) {
    struct kvc_stage_scratch *scratch = &stage->session->runner->stage;
    struct kvc_device *device = stage->session->runner->device;
    const size_t bytes = (size_t)across->lists.kv_heads * across->stride * sizeof(float);
    enum kvc_status status =
        kvc_growable_reserve(device, &scratch->across_count, across->lists.kv_heads * sizeof(uint32_t), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &scratch->across, count * bytes, error);
    across->lists.count = scratch->across_count.buffer;
    for (unsigned i = 0; i < count; i++)
        across->scores[i] = kvc_growable_at(&scratch->across, i * bytes);
    return status;
}

static enum kvc_status stage_ranks_copy(struct kvc_stage *stage, const struct kvc_scores *const *scores, unsigned count,
                                        struct kvc_across *across, struct kvc_error *error) {
    struct kvc_device *device = stage->session->runner->device;
    const uint32_t all = stage->info.model_lists;
    uint32_t *counts = malloc(all * sizeof *counts), most = 1;
    across->lists.host_base = malloc((all + 1) * sizeof *across->lists.host_base);
    enum kvc_status status = counts && across->lists.host_base
                                 ? KVC_OK
                                 : kvc_fail(error, KVC_RESOURCE, "policy: no memory for %u lists", all);
    if (status == KVC_OK) {
        kvc_cache_catch_up(&stage->session->cache, stage->layer);
        status = gather_counts(stage, counts, error);
    }
    for (uint32_t h = 0; h < all && status == KVC_OK; h++)
        most = kvc_max_u32(most, counts[h]);
    across->stride = (uint32_t)kvc_round_up(most, KVC_TILE);
    for (uint32_t h = 0; h <= all && across->lists.host_base; h++)
        across->lists.host_base[h] = h * across->stride;
    across->lists.kv_heads = all;
    across->first = stage->info.first_list;
    across->own = stage->info.kv_heads;
    KVC_ASSERT(across->first + across->own <= all);
    if (status == KVC_OK)
        status = stage_ranks_reserve(stage, count, across, error);
    if (status == KVC_OK)
        device->ops->upload(device, (struct kvc_span){across->lists.count, 0}, counts, all * sizeof *counts);
    for (unsigned i = 0; i < count && status == KVC_OK; i++)
        status = gather_scores(stage, scores[i], across, i, error);
    free(counts);
    return status;
}

enum kvc_status kvc_across_open(struct kvc_stage *stage, const struct kvc_scores *const *scores, unsigned count,
                                struct kvc_across *across, struct kvc_error *error) {
    *across = (struct kvc_across){
        .lists = kvc_stage_lists(stage)->lists, .stride = scores[0]->stride, .own = stage->info.kv_heads};
    for (unsigned i = 0; i < count; i++)
        across->scores[i] = scores[i]->span;
    across->copied = kvc_stage_ranks_of(stage) != NULL;
    if (!across->copied)
        return KVC_OK;
    const enum kvc_status status = stage_ranks_copy(stage, scores, count, across, error);
    if (status != KVC_OK)
        kvc_across_free(across);
    return status;
}

void kvc_across_take(struct kvc_stage *stage, const struct kvc_across *across, unsigned i, struct kvc_scores *scores) {
    struct kvc_device *device = kvc_stage_device(stage);
    const struct kvc_cache_layer *layer = kvc_stage_lists(stage);
    for (uint32_t h = 0; h < across->own && across->copied; h++) {
        KVC_ASSERT(scores->heads == across->own);
        struct kvc_span from = across->scores[i], to = scores->span;
        from.offset += (size_t)(across->first + h) * across->stride * sizeof(float);
        to.offset += (size_t)h * scores->stride * sizeof(float);
        if (layer->count[h])
            device->ops->copy(device, to, from, layer->count[h] * sizeof(float));
    }
}

void kvc_across_free(struct kvc_across *across) {
    if (across->copied)
        free(across->lists.host_base);
}
