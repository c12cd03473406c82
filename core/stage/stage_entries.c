/* stage_entries.c - scores entries by their keys and values, without a query. */
#include "core/stage/stage.h"

#include "core/base/assert.h"

static const struct kvc_span none = {NULL, 0};

static enum kvc_status per_list(const struct kvc_stage *stage, const struct kvc_scores *scores,
                                struct kvc_error *error) {
    const enum kvc_status status = kvc_stage_check_scores(stage, scores, error);
    if (status != KVC_OK || scores->heads == stage->info.kv_heads)
        return status;
    return kvc_fail(error, KVC_USAGE, "policy: scores by keys and values are per list");
}

enum kvc_status kvc_stage_whole_keys(const struct kvc_stage *stage, struct kvc_error *error) {
    if (!stage->session->centres)
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE,
                    "policy: a mean is subtracted from the keys: the method's class must have whole_keys = true");
}

/* Returns the layer's filters [H_kv, d] on the device. */
static struct kvc_span filters_of(const struct kvc_stage *stage) {
    return kvc_growable_at(&stage->session->filters,
                           (size_t)stage->layer * stage->info.kv_heads * stage->info.head_size * sizeof(float));
}

enum kvc_status kvc_stage_prepare_filter(struct kvc_stage *stage, const float *filters, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_device *device = kvc_stage_device(stage);
    const uint32_t d = stage->info.head_size;
    const size_t bytes = (size_t)stage->info.kv_heads * d * sizeof *filters;
    const enum kvc_status status =
        kvc_growable_reserve(device, &session->filters, session->cache.layers * bytes, error);
    if (status != KVC_OK)
        return status;
    device->ops->upload(device, filters_of(stage), filters, bytes);
    if (kvc_type_is_rotated(kvc_stage_lists(stage)->lists.format.key.type))
        device->ops->hadamard(device,
                              &(struct kvc_hadamard){.x = filters_of(stage), .heads = stage->info.kv_heads, .d = d});
    return KVC_OK;
}

enum kvc_status kvc_stage_entry_scores(struct kvc_stage *stage, enum kvc_entry_kind kind, uint64_t seed,
                                       struct kvc_scores *scores, struct kvc_error *error) {
    const enum kvc_status status = per_list(stage, scores, error);
    if (status != KVC_OK)
        return status;
    if ((unsigned)kind > KVC_ENTRY_FILTER)
        return kvc_fail(error, KVC_USAGE, "policy: scores of kind %u: must be a value of enum kvc_entry_kind",
                        (unsigned)kind);
    if (kind != KVC_ENTRY_DRAW && kvc_stage_whole_keys(stage, error) != KVC_OK)
        return KVC_USAGE;
    const bool filters = kind == KVC_ENTRY_FILTER;
    if (filters && !stage->session->filters.buffer)
        return kvc_fail(error, KVC_USAGE, "policy: keys are scored by filters, but none was prepared before");
    kvc_stage_device(stage)->ops->entry_scores(kvc_stage_device(stage),
                                               &(struct kvc_entry_scores){.lists = &kvc_stage_lists(stage)->lists,
                                                                          .kind = kind,
                                                                          .layer = stage->layer,
                                                                          .first_list = stage->info.first_list,
                                                                          .seed = seed,
                                                                          .filter = filters ? filters_of(stage) : none,
                                                                          .scores = scores->span,
                                                                          .stride = scores->stride});
    return KVC_OK;
}

enum kvc_status kvc_stage_norm_shares(struct kvc_stage *stage, enum kvc_share_kind kind, uint32_t chunk,
                                      struct kvc_scores *scores, struct kvc_error *error) {
    const enum kvc_status status = per_list(stage, scores, error);
    if (status != KVC_OK)
        return status;
    if ((unsigned)kind > KVC_SHARE_PRODUCT)
        return kvc_fail(error, KVC_USAGE, "policy: shares of kind %u: must be a value of enum kvc_share_kind",
                        (unsigned)kind);
    if (kind != KVC_SHARE_VALUES && kvc_stage_whole_keys(stage, error) != KVC_OK)
        return KVC_USAGE;
    kvc_stage_device(stage)->ops->norm_shares(kvc_stage_device(stage),
                                              &(struct kvc_norm_shares){.lists = &kvc_stage_lists(stage)->lists,
                                                                        .kind = kind,
                                                                        .chunk = chunk,
                                                                        .scores = scores->span,
                                                                        .stride = scores->stride});
    return KVC_OK;
}

enum kvc_status kvc_stage_lag_scores(struct kvc_stage *stage, uint32_t first, uint32_t lag, bool across,
                                     struct kvc_scores *scores, struct kvc_error *error) {
    const enum kvc_status status = per_list(stage, scores, error);
    if (status != KVC_OK)
        return status;
    if (lag < 2)
        return kvc_fail(error, KVC_USAGE, "policy: partitions of %u entries: must be at least 2", lag);
    KVC_ASSERT(scores->stride >= kvc_cache_most(&stage->session->cache, stage->layer));
    kvc_stage_device(stage)->ops->lag_scores(kvc_stage_device(stage),
                                             &(struct kvc_lag_scores){.lists = &kvc_stage_lists(stage)->lists,
                                                                      .first = first,
                                                                      .lag = lag,
                                                                      .across = across,
                                                                      .scores = scores->span,
                                                                      .stride = scores->stride});
    return KVC_OK;
}

enum kvc_status kvc_stage_mix_redundancy(struct kvc_stage *stage, float threshold, float share, float divisor,
                                         struct kvc_scores *scores, struct kvc_error *error) {
    enum kvc_status status = per_list(stage, scores, error);
    if (status == KVC_OK)
        status = kvc_stage_whole_keys(stage, error);
    if (status != KVC_OK)
        return status;
    kvc_stage_device(stage)->ops->mix_redundancy(kvc_stage_device(stage),
                                                 &(struct kvc_mix_redundancy){.lists = &kvc_stage_lists(stage)->lists,
                                                                              .threshold = threshold,
                                                                              .share = share,
                                                                              .divisor = divisor,
                                                                              .scores = scores->span,
                                                                              .stride = scores->stride});
    return KVC_OK;
}
