/* stage_columns.c - state columns for stage functions: ring buffers of probabilities, sums over all queries, conversion
 * between columns and scores. All computation is on the backend. */
#include "core/stage/stage.h"

#include "core/base/assert.h"
#include "core/base/integers.h"

#include <stdlib.h>
#include <string.h>

enum kvc_status kvc_stage_columns(const struct kvc_stage *stage, uint32_t first, uint32_t count, uint32_t *at,
                                  struct kvc_error *error) {
    const struct kvc_session *session = stage->session;
    KVC_ASSERT(stage->use);
    const uint32_t own = kvc_method_columns(&session->policy->method[stage->use - session->use], stage->layer);
    const enum kvc_status status = kvc_stage_check(stage, error);
    if (status != KVC_OK)
        return status;
    if (count == 0)
        return kvc_fail(error, KVC_USAGE, "policy: a ring of 0 rows, or a sum of 0 columns");
    if (first >= own || count > own - first)
        return kvc_fail(error, KVC_USAGE, "policy: state columns %u to %u; its class asked for %u", first,
                        first + count - 1, own);
    *at = stage->use->column[stage->layer] + first;
    KVC_ASSERT(*at + count <= kvc_stage_lists(stage)->lists.columns);
    return KVC_OK;
}

/* Returns how many of the newest `count` queries are among the last `ring` tokens. Older queries have no row in a ring
 * buffer. */
static uint32_t in_ring(const struct kvc_stage *stage, uint32_t count, uint32_t ring) {
    count = kvc_min_u32(kvc_min_u32(count, ring), stage->queries);
    while (stage->host_positions && count > 0 &&
           (uint64_t)stage->host_positions[stage->queries - count] + ring < stage->info.now)
        count--;
    return count;
}

/* Clears the ring buffer's rows of tokens that token pruning dropped. These tokens have no query, so their rows still
 * hold data of earlier turns. To clear a row, the function writes a query that sees no entry. */
static enum kvc_status empty_rows(const struct kvc_stage *stage, uint32_t column, uint32_t ring, enum kvc_row_kind kind,
                                  struct kvc_error *error) {
    const struct kvc_session *session = stage->session;
    struct kvc_runner *runner = session->runner;
    struct kvc_device *device = runner->device;
    const uint64_t first = session->turn - kvc_min_u64(session->turn, ring);
    if (!session->in_prompt || !session->prompt.kept_rows || stage->queries == 0)
        return KVC_OK;
    int32_t *positions = malloc(ring * sizeof *positions);
    uint32_t *causal_offset = malloc(ring * sizeof *causal_offset), count = 0;
    enum kvc_status status =
        positions && causal_offset
            ? kvc_growable_reserve(device, &runner->stage.totals, 2 * ring * sizeof *causal_offset, error)
            : kvc_fail(error, KVC_RESOURCE, "no memory for %u positions", ring);
    uint32_t next = session->prompt.kept_row_count; /* finds the oldest kept row that is not before `first` */
    while (status == KVC_OK && next > 0 && session->prompt.kept_rows[next - 1] >= first)
        next--;
    for (uint64_t row = first; row < session->turn && status == KVC_OK; row++) {
        causal_offset[count] = UINT32_MAX;
        KVC_ASSERT(count < ring && next < session->prompt.kept_row_count);
        if (session->prompt.kept_rows[next] == row)
            next++; /* in range: the prompt's last row is always kept */
        else
            positions[count++] = (int32_t)(session->tokens + row);
    }
    const struct kvc_span at = kvc_growable_at(&runner->stage.totals, 0),
                          expired = kvc_growable_at(&runner->stage.totals, ring * sizeof *causal_offset);
    if (status == KVC_OK && count > 0) {
        device->ops->upload(device, at, positions, count * sizeof *positions);
        device->ops->upload(device, expired, causal_offset, count * sizeof *causal_offset);
    }
    for (uint32_t from = 0; status == KVC_OK && from < count; from += stage->queries) {
        const uint32_t some = kvc_min_u32(count - from, stage->queries);
        struct kvc_probabilities rows = kvc_stage_rows(stage, some);
        rows.positions = (struct kvc_span){at.buffer, at.offset + from * sizeof *positions};
        rows.causal_offset = (struct kvc_span){expired.buffer, expired.offset + from * sizeof *causal_offset};
        device->ops->ring_write(
            device, &(struct kvc_ring_write){.probabilities = &rows, .first = column, .ring = ring, .kind = kind});
    }
    free(positions);
    free(causal_offset);
    return status;
}

enum kvc_status kvc_stage_ring_write(struct kvc_stage *stage, uint32_t first, uint32_t ring, uint32_t count,
                                     enum kvc_row_kind kind, struct kvc_error *error) {
    uint32_t column = 0;
    if ((unsigned)kind > KVC_ROW_COUNTS)
        return kvc_fail(error, KVC_USAGE, "policy: rows of kind %u: must be a value of enum kvc_row_kind",
                        (unsigned)kind);
    const uint32_t columns = kind == KVC_ROW_COUNTS ? 2 * ring + 1 : ring;
    const enum kvc_status status = kvc_stage_columns(stage, first, columns, &column, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_probabilities rows = kvc_stage_rows(stage, in_ring(stage, count, ring));
    kvc_stage_device(stage)->ops->ring_write(
        kvc_stage_device(stage),
        &(struct kvc_ring_write){.probabilities = &rows, .first = column, .ring = ring, .kind = kind});
    return empty_rows(stage, column, ring, kind, error);
}

enum kvc_status kvc_stage_ring_fuse(struct kvc_stage *stage, uint32_t first, uint32_t ring, uint32_t filled,
                                    enum kvc_row_kind kind, enum kvc_fusion fusion, int64_t recent,
                                    struct kvc_scores *scores, struct kvc_error *error) {
    uint32_t column = 0;
    if ((unsigned)kind > KVC_ROW_COUNTS || (unsigned)fusion > KVC_FUSE_MAX)
        return kvc_fail(error, KVC_USAGE, "policy: rows of kind %u, fusion %u: there is no such %s", (unsigned)kind,
                        (unsigned)fusion, (unsigned)kind > KVC_ROW_COUNTS ? "kind" : "fusion");
    enum kvc_status status = kvc_stage_columns(stage, first, ring, &column, error);
    if (status == KVC_OK)
        status = kvc_stage_check_scores(stage, scores, error);
    if (status != KVC_OK)
        return status;
    if (filled > ring || filled > stage->info.now)
        return kvc_fail(error, KVC_USAGE, "policy: %u rows of a ring of %u after %llu tokens", filled, ring,
                        (unsigned long long)stage->info.now);
    kvc_stage_device(stage)->ops->ring_fuse(kvc_stage_device(stage),
                                            &(struct kvc_ring_fuse){.lists = &kvc_stage_lists(stage)->lists,
                                                                    .first = column,
                                                                    .ring = ring,
                                                                    .filled = filled,
                                                                    .now = (int64_t)stage->info.now,
                                                                    .kind = kind,
                                                                    .fusion = fusion,
                                                                    .recent = recent,
                                                                    .scores = scores->span,
                                                                    .stride = scores->stride});
    return KVC_OK;
}

enum kvc_status kvc_stage_ring_sums(struct kvc_stage *stage, uint32_t first, uint32_t rows, uint32_t sums,
                                    uint32_t count, struct kvc_error *error) {
    const uint64_t written = stage->session->in_prompt ? stage->info.turn_tokens : count;
    const uint64_t newest = stage->info.now - 1, oldest = newest - (kvc_min_u64(written, rows) - 1);
    KVC_ASSERT(rows > 0 && written > 0 && oldest <= newest);
    struct kvc_scores *scores = NULL;
    enum kvc_status status = KVC_OK;
    for (uint32_t b = 0; b < kvc_ring_blocks(rows) && status == KVC_OK; b++) {
        const uint32_t from = b * KVC_RING_BLOCK, n = kvc_min_u32(rows - from, KVC_RING_BLOCK);
        /* tokens since the block's last row was written */
        const uint64_t back = (newest + rows - (from + n - 1)) % rows;
        if (back > newest - oldest)
            continue;
        if (!scores)
            status = kvc_stage_some_scores(stage, &scores, error);
        if (status == KVC_OK)
            status = kvc_stage_column_scores(stage, first + from, n, scores, error);
        if (status == KVC_OK)
            status = kvc_stage_scores_column(stage, scores, sums + b, error);
    }
    if (scores)
        stage->score_count--; /* the buffer of these scores is free again */
    return status;
}

enum kvc_status kvc_stage_accumulate(struct kvc_stage *stage, uint32_t first, float tau, uint64_t seed,
                                     struct kvc_error *error) {
    uint32_t column = 0;
    const enum kvc_status status = kvc_stage_columns(stage, first, 2, &column, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_noise noise = {seed, stage->layer, stage->info.first_head, tau};
    const struct kvc_probabilities rows = kvc_stage_rows(stage, stage->queries);
    kvc_stage_device(stage)->ops->accumulate(
        kvc_stage_device(stage),
        &(struct kvc_accumulate){.probabilities = &rows, .column = column, .noise = tau > 0.0f ? &noise : NULL});
    return KVC_OK;
}

enum kvc_status kvc_stage_column_scores(struct kvc_stage *stage, uint32_t first, uint32_t count,
                                        struct kvc_scores *scores, struct kvc_error *error) {
    uint32_t column = 0;
    enum kvc_status status = kvc_stage_columns(stage, first, count, &column, error);
    if (status == KVC_OK)
        status = kvc_stage_check_scores(stage, scores, error);
    if (status == KVC_OK)
        kvc_stage_device(stage)->ops->column_scores(kvc_stage_device(stage),
                                                    &(struct kvc_column_scores){.lists = &kvc_stage_lists(stage)->lists,
                                                                                .first = column,
                                                                                .columns = count,
                                                                                .scores = scores->span,
                                                                                .stride = scores->stride});
    return status;
}

enum kvc_status kvc_stage_scores_column(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t first,
                                        struct kvc_error *error) {
    uint32_t column = 0;
    enum kvc_status status = kvc_stage_columns(stage, first, 1, &column, error);
    if (status == KVC_OK)
        status = kvc_stage_check_scores(stage, scores, error);
    if (status == KVC_OK)
        kvc_stage_device(stage)->ops->scores_column(kvc_stage_device(stage),
                                                    &(struct kvc_scores_column){.lists = &kvc_stage_lists(stage)->lists,
                                                                                .column = column,
                                                                                .scores = scores->span,
                                                                                .stride = scores->stride});
    return status;
}
