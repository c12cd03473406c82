/* accumulated.c - evicts by accumulated attention, for h2o and keyformer. */
#include "policies/policies.h"

#include "core/base/assert.h"

#include <stdint.h>

uint32_t kvc_accumulated_columns(const struct kvc_values *values) {
    (void)values;
    return 2; /* two columns: the sum over the current tile of queries, and the sum over all earlier tiles */
}

enum kvc_status kvc_accumulated_evict(struct kvc_stage *stage, const struct kvc_values *values, uint64_t first,
                                      struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = kvc_recent_budget(values, info->held);
    if (info->entries <= first + budget)
        return KVC_OK;
    struct kvc_scores *scores;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_column_scores(stage, 0, 2, scores, error);
    if (status != KVC_OK)
        return status;
    KVC_ASSERT(kvc_recent(values, budget) <= budget);
    const struct kvc_keep keep = {.first = first,
                                  .fill = first + budget,
                                  .limit = first + budget,
                                  .recent = (int64_t)info->now - (int64_t)kvc_recent(values, budget),
                                  .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}
