/* stage_merge.c - merges the values of entries that are about to be evicted into those of kept entries. */
#include "core/stage/stage.h"

/* Checks that the stage comes before an eviction, and that its keys are whole. */
static enum kvc_status check_merge(const struct kvc_stage *stage, bool by_keys, struct kvc_error *error) {
    if (!stage->kept)
        return kvc_fail(error, KVC_USAGE, "policy: values are merged only before an eviction, in the class's evicts");
    return by_keys ? kvc_stage_whole_keys(stage, error) : kvc_stage_check(stage, error);
}

static void merge_values(struct kvc_stage *stage, const struct kvc_scores *targets, const struct kvc_scores *weights,
                         uint32_t span, bool normalised) {
    kvc_stage_device(stage)->ops->merge_values(kvc_stage_device(stage),
                                               &(struct kvc_merge_values){.lists = &kvc_stage_lists(stage)->lists,
                                                                          .kept = stage->kept,
                                                                          .targets = targets->span,
                                                                          .weights = weights->span,
                                                                          .stride = weights->stride,
                                                                          .span = span,
                                                                          .normalised = normalised});
}

enum kvc_status kvc_stage_merge_similar(struct kvc_stage *stage, float threshold, struct kvc_error *error) {
    struct kvc_scores *targets, *weights;
    enum kvc_status status = check_merge(stage, true, error);
    if (status == KVC_OK && !(threshold >= 0.0f))
        status =
            kvc_fail(error, KVC_USAGE, "policy: merge above a cosine of %g: must be at least 0", (double)threshold);
    if (status == KVC_OK) /* targets are places (uint32_t); a buffer of scores (float) has the right size for them */
        status = kvc_stage_some_scores(stage, &targets, error);
    if (status == KVC_OK)
        status = kvc_stage_some_scores(stage, &weights, error);
    if (status != KVC_OK)
        return status;
    kvc_stage_device(stage)->ops->merge_similar(kvc_stage_device(stage),
                                                &(struct kvc_merge_similar){.lists = &kvc_stage_lists(stage)->lists,
                                                                            .kept = stage->kept,
                                                                            .threshold = threshold,
                                                                            .targets = targets->span,
                                                                            .weights = weights->span,
                                                                            .stride = weights->stride});
    merge_values(stage, targets, weights, 1, true);
    return KVC_OK;
}

enum kvc_status kvc_stage_merge_following(struct kvc_stage *stage, uint32_t span, uint64_t seed,
                                          struct kvc_scores *scores, struct kvc_error *error) {
    struct kvc_scores *targets;
    enum kvc_status status = check_merge(stage, false, error);
    if (status == KVC_OK)
        status = kvc_stage_check_scores(stage, scores, error);
    if (status == KVC_OK && (scores->heads != stage->info.kv_heads || span == 0))
        status =
            kvc_fail(error, KVC_USAGE, "policy: merge into %u entries: must be at least 1, by scores per list", span);
    if (status == KVC_OK)
        status = kvc_stage_some_scores(stage, &targets, error);
    if (status != KVC_OK)
        return status;
    kvc_stage_device(stage)->ops->merge_following(kvc_stage_device(stage),
                                                  &(struct kvc_merge_following){.lists = &kvc_stage_lists(stage)->lists,
                                                                                .kept = stage->kept,
                                                                                .layer = stage->layer,
                                                                                .first_list = stage->info.first_list,
                                                                                .span = span,
                                                                                .seed = seed,
                                                                                .targets = targets->span,
                                                                                .weights = scores->span,
                                                                                .stride = scores->stride});
    merge_values(stage, targets, scores, span, false);
    return KVC_OK;
}
