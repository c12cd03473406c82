/* head_shares.c - divides a layer's entries among its heads by their scores, for the methods `adakv` and `kvzip`. */
#include "policies/policies.h"

#include "core/base/assert.h"

#include <math.h>
#include <stdlib.h>

enum kvc_status kvc_keep_shares(struct kvc_stage *stage, const struct kvc_scores *scores, uint64_t each, uint64_t tail,
                                double least, struct kvc_error *error) {
    const uint32_t heads = kvc_stage_info(stage)->kv_heads;
    struct kvc_keep *keep = calloc(heads, sizeof *keep);
    uint32_t *shares = calloc(heads, sizeof *shares);
    enum kvc_status status = KVC_OK;
    if (!keep || !shares)
        status = kvc_fail(error, KVC_RESOURCE, "no memory for the budgets of %u heads", heads);
    if (status == KVC_OK)
        status = kvc_stage_shares(stage, scores, tail, kvc_stage_info(stage)->model_lists * each, shares, error);
    for (uint32_t h = 0; h < heads && status == KVC_OK; h++) {
        const uint64_t top = (uint64_t)floor(least * (double)each + (1.0 - least) * shares[h] + 0.5);
        KVC_ASSERT(least >= 0 && least <= 1 && shares[h] <= kvc_stage_info(stage)->model_lists * each);
        keep[h] = (struct kvc_keep){
            .tail = tail, .top = tail ? top : kvc_max_u64(top, 1), .recent = INT64_MAX, .scores = scores};
    }
    if (status == KVC_OK)
        status = kvc_stage_keep_heads(stage, keep, error);
    free(keep);
    free(shares);
    return status;
}
