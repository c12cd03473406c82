/* stage_leverage.c - compactor's scores, which do not depend on later questions: the attention that the prompt's
 * queries give to the entries of their chunk, and the statistical leverage of each key in its list; and cap's, the
 * leverage of weighted values. */
#include "core/stage/stage_ranks.h"

#include "core/base/assert.h"
#include "core/base/integers.h"

#include <stdlib.h>

static enum kvc_status per_list(const struct kvc_stage *stage, const struct kvc_scores *scores,
                                struct kvc_error *error) {
    const enum kvc_status status =
        scores ? kvc_stage_check_scores(stage, scores, error) : kvc_stage_check(stage, error);
    if (status != KVC_OK || !scores || scores->heads == stage->info.kv_heads)
        return status;
    return kvc_fail(error, KVC_USAGE, "policy: these scores are per list");
}

static uint32_t some(uint64_t entries) { return (uint32_t)kvc_min_u64(entries, UINT32_MAX); }

enum kvc_status kvc_stage_chunk_mass(struct kvc_stage *stage, uint64_t first, uint64_t last, uint32_t chunk,
                                     uint32_t column, struct kvc_scores *scores, struct kvc_error *error) {
    const struct kvc_geometry *g = &stage->session->runner->geometry;
    uint32_t at = 0;
    enum kvc_status status = per_list(stage, scores, error);
    if (status == KVC_OK)
        status = kvc_stage_columns(stage, column, 1, &at, error);
    if (status == KVC_OK && chunk == 0)
        status = kvc_fail(error, KVC_USAGE, "policy: chunks of 0 entries: must be at least 1");
    if (status != KVC_OK)
        return status;
    kvc_stage_device(stage)->ops->chunk_mass(
        kvc_stage_device(stage), &(struct kvc_chunk_mass){.lists = &kvc_stage_lists(stage)->lists,
                                                          .queries = stage->queries,
                                                          .heads = g->heads,
                                                          .first = some(first),
                                                          .last = some(last),
                                                          .chunk = chunk,
                                                          .column = at,
                                                          .q = stage->q,
                                                          .positions = stage->positions,
                                                          .scores = scores ? scores->span : (struct kvc_span){NULL, 0},
                                                          .stride = scores ? scores->stride : 0});
    return KVC_OK;
}

/* ---- leverage ---- */

#define RIDGE 0.01f
#define VALUE_RIDGE 1.0f
#define ROWS_AT_ONCE 1024u

/* Computes the cosines of positions 0 .. rows - 1, followed by their sines. */
static enum kvc_status make_angles(struct kvc_session *session, uint32_t number, uint64_t rows,
                                   struct kvc_error *error) {
    struct kvc_runner *runner = session->runner;
    struct kvc_prompt *prompt = &session->prompt;
    const struct kvc_rope *rope = &runner->network->rope[number];
    const size_t half = rope->rotary / 2, row = half * sizeof(float);
    KVC_ASSERT(rows > 0 && half > 0 && number < runner->network->ropes);
    int32_t *positions = malloc(ROWS_AT_ONCE * sizeof *positions);
    bool *long_factors = malloc(ROWS_AT_ONCE * sizeof *long_factors);
    float *host = malloc(ROWS_AT_ONCE * row);
    enum kvc_status status = kvc_growable_reserve(runner->device, &prompt->angles, 2 * rows * row, error);
    if (status == KVC_OK && (!positions || !long_factors || !host))
        status = kvc_fail(error, KVC_RESOURCE, "session: no memory to rotate %u keys back", ROWS_AT_ONCE);
    for (uint64_t from = 0; from < rows && status == KVC_OK; from += ROWS_AT_ONCE) {
        const uint32_t count = (uint32_t)kvc_min_u64(rows - from, ROWS_AT_ONCE);
        for (uint32_t i = 0; i < count; i++) {
            positions[i] = (int32_t)(from + i);
            long_factors[i] = session->long_rope;
        }
        for (uint32_t side = 0; side < 2; side++) {
            kvc_rope_rows(rope, positions, long_factors, count, side == 1, host);
            runner->device->ops->upload(runner->device, kvc_growable_at(&prompt->angles, (side * rows + from) * row),
                                        host, count * row);
        }
    }
    prompt->angle_rows = status == KVC_OK ? rows : 0;
    prompt->angle_rope = number;
    free(positions);
    free(long_factors);
    free(host);
    return status;
}

enum kvc_status kvc_stage_leverage(struct kvc_stage *stage, uint64_t first, uint64_t last, struct kvc_scores *scores,
                                   struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    const struct kvc_network *network = session->runner->network;
    const struct kvc_prompt *prompt = &session->prompt;
    const uint32_t number = network ? network->layer[stage->layer].rope : 0;
    const uint32_t rotary = network ? network->rope[number].rotary : 0;
    struct kvc_span cosine = {NULL, 0}, sine = {NULL, 0};
    enum kvc_status status = per_list(stage, scores, error);
    if (status == KVC_OK && rotary && (prompt->angle_rows < stage->info.now || prompt->angle_rope != number))
        status = make_angles(session, number, stage->info.now, error);
    if (status != KVC_OK)
        return status;
    if (rotary) {
        cosine = kvc_growable_at(&prompt->angles, 0);
        sine = kvc_growable_at(&prompt->angles, prompt->angle_rows * (rotary / 2) * sizeof(float));
    }
    KVC_ASSERT(!rotary || prompt->angles.bytes >= 2 * prompt->angle_rows * (rotary / 2) * sizeof(float));
    kvc_stage_device(stage)->ops->leverage_scores(kvc_stage_device(stage),
                                                  &(struct kvc_leverage_scores){.lists = &kvc_stage_lists(stage)->lists,
                                                                                .first = some(first),
                                                                                .last = some(last),
                                                                                .cosine = cosine,
                                                                                .sine = sine,
                                                                                .rotary = rotary,
                                                                                .ridge = RIDGE,
                                                                                .scores = scores->span,
                                                                                .stride = scores->stride});
    return KVC_OK;
}

enum kvc_status kvc_stage_value_leverage(struct kvc_stage *stage, uint64_t first, const struct kvc_scores *weights,
                                         struct kvc_scores *scores, struct kvc_error *error) {
    enum kvc_status status = per_list(stage, scores, error);
    if (status == KVC_OK)
        status = kvc_stage_check_scores(stage, weights, error);
    if (status == KVC_OK && weights->heads != stage->info.heads)
        status = kvc_fail(error, KVC_USAGE, "policy: entries are weighed per query head");
    if (status != KVC_OK)
        return status;
    KVC_ASSERT(weights->stride == scores->stride); /* the checks above refuse scores from before an eviction */
    kvc_stage_device(stage)->ops->leverage_scores(kvc_stage_device(stage),
                                                  &(struct kvc_leverage_scores){.lists = &kvc_stage_lists(stage)->lists,
                                                                                .first = some(first),
                                                                                .heads = stage->info.heads,
                                                                                .weights = weights->span,
                                                                                .ridge = VALUE_RIDGE,
                                                                                .scores = scores->span,
                                                                                .stride = scores->stride});
    return KVC_OK;
}

enum kvc_status kvc_stage_standard_mix(struct kvc_stage *stage, uint64_t first, uint64_t last, float share,
                                       const struct kvc_scores *leverage, struct kvc_scores *scores,
                                       struct kvc_error *error) {
    const struct kvc_scores *const arrays[] = {leverage, scores};
    struct kvc_across across;
    enum kvc_status status = per_list(stage, leverage, error);
    if (status == KVC_OK)
        status = per_list(stage, scores, error);
    if (status == KVC_OK)
        status = kvc_across_open(stage, arrays, 2, &across, error);
    if (status != KVC_OK)
        return status;
    KVC_ASSERT(leverage->stride == scores->stride); /* the checks above refuse scores from before an eviction */
    kvc_stage_device(stage)->ops->standard_mix(kvc_stage_device(stage),
                                               &(struct kvc_standard_mix){.lists = &across.lists,
                                                                          .first = some(first),
                                                                          .last = some(last),
                                                                          .share = share,
                                                                          .leverage = across.scores[0],
                                                                          .scores = across.scores[1],
                                                                          .stride = across.stride});
    kvc_across_take(stage, &across, 1, scores);
    kvc_across_free(&across);
    return KVC_OK;
}
