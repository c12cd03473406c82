/* stage_queries.c - scores entries by the mean and covariance of a prompt's queries, and by the layer's output
 * projection. */
#include "core/stage/stage.h"

#include "core/base/assert.h"
#include "core/base/canon.h"
#include "core/base/integers.h"

#include <stdlib.h>
#include <string.h>

static size_t moments_bytes(const struct kvc_stage *stage) {
    const struct kvc_geometry *g = &stage->session->runner->geometry;
    return (size_t)g->heads * (g->head_size + 1) * g->head_size * sizeof(float);
}

static struct kvc_span moments_of(const struct kvc_stage *stage) {
    return kvc_growable_at(&stage->session->prompt.moments,
                           kvc_session_query_set(stage->session, stage->layer) * moments_bytes(stage));
}

/* Allocates the moments: one set or, if the prompt is cut into chunks, one set for each layer. */
static enum kvc_status stage_queries_reserve(const struct kvc_stage *stage, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_prompt *prompt = &session->prompt;
    const size_t sets = prompt->chunking.chunk ? session->cache.layers : 1;
    if (!prompt->moment_rows)
        prompt->moment_rows = calloc(session->cache.layers, sizeof *prompt->moment_rows);
    if (!prompt->moment_rows)
        return kvc_fail(error, KVC_RESOURCE, "no memory for %u layers", session->cache.layers);
    return kvc_growable_reserve(kvc_stage_device(stage), &prompt->moments, sets * moments_bytes(stage), error);
}

enum kvc_status kvc_stage_query_moments(struct kvc_stage *stage, uint64_t from, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    const struct kvc_runner *runner = session->runner;
    const struct kvc_network *network = runner->network;
    const struct kvc_geometry *g = &runner->geometry;
    const struct kvc_rope *rope = network ? &network->rope[network->layer[stage->layer].rope] : NULL;
    uint32_t skip = 0;
    while (skip < stage->queries && session->tokens + kvc_session_row(session, stage->row + skip) < from)
        skip++;
    enum kvc_status status = kvc_stage_check(stage, error);
    if (status == KVC_OK)
        status = stage_queries_reserve(stage, error);
    if (status != KVC_OK || skip == stage->queries)
        return status;
    uint64_t *rows = &session->prompt.moment_rows[stage->layer];
    const size_t at = (size_t)skip * g->heads * g->head_size * sizeof(float);
    KVC_ASSERT(skip < stage->queries);
    kvc_stage_device(stage)->ops->query_moments(
        kvc_stage_device(stage),
        &(struct kvc_query_moments){.q = kvc_growable_at(network ? &runner->q_raw : &runner->q, at),
                                    .sums = moments_of(stage),
                                    .rows = stage->queries - skip,
                                    .heads = g->heads,
                                    .head_size = g->head_size,
                                    .interleaved = rope && rope->interleaved ? rope->rotary : 0,
                                    .first = *rows == 0});
    *rows += stage->queries - skip;
    return KVC_OK;
}

/* Writes one head's moments [1 + d, d] from the mean and covariance of its queries, in the form in which query_moments
 * writes those of a single query. */
static void write_moments(const float *mean, const float *covariance, uint32_t d, float *sums) {
    memcpy(sums, mean, d * sizeof *sums);
    for (uint32_t b = 0; b < d; b++)
        for (uint32_t c = 0; c <= b; c++) {
            const double product = (double)mean[b] * (double)mean[c];
            const float sum = (float)(product + (covariance ? (double)covariance[b * (b + 1) / 2 + c] : 0));
            sums[(size_t)(1 + b) * d + c] = sums[(size_t)(1 + c) * d + b] = sum;
        }
}

enum kvc_status kvc_stage_give_moments(struct kvc_stage *stage, const float *mean, const float *covariance,
                                       uint32_t rotary, struct kvc_error *error) {
    const size_t d = stage->info.head_size, triangle = d * (d + 1) / 2, bytes = moments_bytes(stage);
    enum kvc_status status = kvc_stage_check_rotary(stage, rotary, error);
    if (status == KVC_OK)
        status = stage_queries_reserve(stage, error);
    if (status != KVC_OK)
        return status;
    float *sums = malloc(bytes);
    if (!sums)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for the covariance of %u heads", stage->info.heads);
    for (size_t h = 0; h < stage->info.heads; h++)
        write_moments(mean + h * d, covariance ? covariance + h * triangle : NULL, (uint32_t)d, sums + h * (1 + d) * d);
    kvc_stage_device(stage)->ops->upload(kvc_stage_device(stage), moments_of(stage), sums, bytes);
    stage->session->prompt.moment_rows[stage->layer] = 1;
    free(sums);
    return KVC_OK;
}

/* Writes the mean cosines and sines of the next `future` positions to angles [2, rotary/2] on the device. */
static enum kvc_status mean_rotation(struct kvc_stage *stage, const struct kvc_rope *rope, uint32_t future,
                                     struct kvc_span *angles, struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    const uint32_t half = rope->rotary / 2;
    float *row = malloc((half + 1) * sizeof *row), *mean = malloc((2 * half + 1) * sizeof *mean);
    KVC_ASSERT(future > 0);
    double *sum = calloc(2 * half + 1, sizeof *sum);
    enum kvc_status status =
        row && mean && sum ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "no memory for %u angles", half);
    if (status == KVC_OK)
        status = kvc_growable_reserve(runner->device, &runner->stage.totals, (2 * half + 1) * sizeof *mean, error);
    for (uint32_t i = 0; i < future && status == KVC_OK; i++) {
        const int32_t position = (int32_t)kvc_min_u64(stage->info.now + i, INT32_MAX);
        for (uint32_t side = 0; side < 2; side++) {
            kvc_rope_rows(rope, &position, &stage->session->long_rope, 1, side == 1, row);
            for (uint32_t c = 0; c < half; c++)
                sum[side * half + c] += (double)row[c];
        }
    }
    for (uint32_t c = 0; c < 2 * half && status == KVC_OK; c++)
        mean[c] = (float)(sum[c] / future);
    if (status == KVC_OK) {
        *angles = kvc_growable_at(&runner->stage.totals, 0);
        runner->device->ops->upload(runner->device, *angles, mean, 2 * half * sizeof *mean);
    }
    free(row);
    free(mean);
    free(sum);
    return status;
}

/* The collected moments of a layer's queries, and the mean rotation of future positions. */
struct collected {
    struct kvc_span sums, cosine, sine;
    uint32_t queries, rotary;
};

/* Opens the moments for an operation that writes scores, after checks. `per_list`: the scores must be per list,
 * otherwise per query head. */
static enum kvc_status open_moments(struct kvc_stage *stage, uint32_t future, const struct kvc_scores *scores,
                                    bool per_list, struct collected *open, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_device *device = kvc_stage_device(stage);
    const struct kvc_network *network = session->runner->network;
    const struct kvc_rope *rope = network ? &network->rope[network->layer[stage->layer].rope] : NULL;
    enum kvc_status status = kvc_stage_check_scores(stage, scores, error);
    *open = (struct collected){.rotary = rope ? rope->rotary : 0};
    if (status == KVC_OK && scores->heads != (per_list ? stage->info.kv_heads : stage->info.heads))
        status = kvc_fail(error, KVC_USAGE, "policy: by expected queries, entries are %s",
                          per_list ? "scored per list" : "weighed per query head");
    if (status == KVC_OK && future == 0)
        status = kvc_fail(error, KVC_USAGE, "policy: expected queries need at least one future position");
    if (status == KVC_OK)
        status = stage_queries_reserve(stage, error);
    if (status == KVC_OK && open->rotary)
        status = mean_rotation(stage, rope, future, &open->cosine, error);
    if (status != KVC_OK)
        return status;
    if (open->cosine.buffer) {
        open->sine = open->cosine;
        open->sine.offset += open->rotary / 2 * sizeof(float);
    }
    open->sums = moments_of(stage);
    open->queries = (uint32_t)kvc_max_u64(session->prompt.moment_rows[stage->layer], 1);
    if (session->prompt.moment_rows[stage->layer] == 0) /* no query yet: the sums are 0 */
        device->ops->zero(device, open->sums, moments_bytes(stage));
    return KVC_OK;
}

enum kvc_status kvc_stage_expected_scores(struct kvc_stage *stage, const struct kvc_expectation *expected,
                                          struct kvc_scores *scores, struct kvc_error *error) {
    const struct kvc_runner *runner = stage->session->runner;
    const struct kvc_geometry *g = &runner->geometry;
    struct collected open;
    const enum kvc_status status = open_moments(stage, expected->future, scores, true, &open, error);
    if (status != KVC_OK)
        return status;
    runner->device->ops->expected_scores(
        runner->device,
        &(struct kvc_expected_scores){.lists = &kvc_stage_lists(stage)->lists,
                                      .heads = g->heads,
                                      .queries = open.queries,
                                      .first = (uint32_t)kvc_min_u64(expected->first, UINT32_MAX),
                                      .sums = open.sums,
                                      .cosine = open.cosine,
                                      .sine = open.sine,
                                      .rotary = open.rotary,
                                      .scale = kvc_score_scale(kvc_runner_scoring(runner).scale, g->head_size),
                                      .epsilon = expected->epsilon,
                                      .covariance = expected->covariance,
                                      .values = expected->values,
                                      .scores = scores->span,
                                      .stride = scores->stride});
    return KVC_OK;
}

enum kvc_status kvc_stage_mean_weights(struct kvc_stage *stage, uint64_t first, uint32_t future, float scale,
                                       struct kvc_scores *weights, struct kvc_error *error) {
    struct collected open;
    const enum kvc_status status = open_moments(stage, future, weights, false, &open, error);
    if (status != KVC_OK)
        return status;
    kvc_stage_device(stage)->ops->mean_weights(
        kvc_stage_device(stage), &(struct kvc_mean_weights){.lists = &kvc_stage_lists(stage)->lists,
                                                            .heads = stage->info.heads,
                                                            .queries = open.queries,
                                                            .first = (uint32_t)kvc_min_u64(first, UINT32_MAX),
                                                            .sums = open.sums,
                                                            .cosine = open.cosine,
                                                            .sine = open.sine,
                                                            .rotary = open.rotary,
                                                            .scale = scale,
                                                            .weights = weights->span,
                                                            .stride = weights->stride});
    return KVC_OK;
}

/* ---- norms of projected values ---- */

#define OUTPUTS_AT_ONCE 64u

/* Dequantizes rows first .. first+count-1 of this rank's part of the layer's projection to the runner's stage.rows. */
static void dequantize_rows(struct kvc_runner *runner, uint32_t layer, uint32_t first, uint32_t count) {
    struct kvc_device *device = runner->device;
    int32_t number[OUTPUTS_AT_ONCE];
    KVC_ASSERT(count <= OUTPUTS_AT_ONCE);
    for (uint32_t i = 0; i < count; i++)
        number[i] = (int32_t)(first + i);
    device->ops->upload(device, kvc_growable_at(&runner->stage.numbers, 0), number, count * sizeof *number);
    device->ops->embed(device, &(struct kvc_embed){.out = kvc_growable_at(&runner->stage.rows, 0),
                                                   .table = runner->network->layer[layer].output,
                                                   .tokens = kvc_growable_at(&runner->stage.numbers, 0),
                                                   .rows = count});
}

/* Dequantizes outputs first .. first+count-1 of the layer's projection to the runner's stage.rows [count, H*d]. If the
 * outputs are sharded, each rank dequantizes its own, gathers the others', and keeps the columns of its heads. */
static enum kvc_status dequantize_outputs(struct kvc_stage *stage, uint32_t first, uint32_t count,
                                          struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    struct kvc_device *device = runner->device;
    const struct kvc_network *network = runner->network;
    struct kvc_ranks *ranks = network->part.ranks;
    if (!ranks || !kvc_split_shares(network->hidden, &ranks->rows.split)) {
        dequantize_rows(runner, stage->layer, first, count);
        return KVC_OK;
    }
    const size_t wide = (size_t)network->part.heads * network->head_size;
    const size_t own = (size_t)network->heads * network->head_size, skip = stage->info.first_head * network->head_size;
    KVC_ASSERT(skip + own <= wide);
    float *rows = malloc(2 * count * wide * sizeof *rows), *all = rows + count * wide;
    if (!rows)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for %u outputs", count);
    for (uint32_t r = 0; r < ranks->rows.split.ranks; r++) {
        const struct kvc_range part = kvc_split_outputs(network->hidden, &ranks->rows.split, r);
        const uint64_t from = kvc_max_u64(part.first, first), to = kvc_min_u64(part.first + part.count, first + count);
        ranks->widths[r] = to > from ? (size_t)(to - from) * wide : 0;
        if (r == ranks->rows.link->rank && to > from) {
            dequantize_rows(runner, stage->layer, (uint32_t)(from - part.first), (uint32_t)(to - from));
            device->ops->download(device, rows, kvc_growable_at(&runner->stage.rows, 0),
                                  ranks->widths[r] * sizeof *rows);
        }
    }
    kvc_ranks_gather_rows(ranks, rows, 1, ranks->widths, all);
    for (uint32_t i = 0; i < count; i++)
        memmove(rows + i * own, all + i * wide + skip, own * sizeof *rows);
    device->ops->upload(device, kvc_growable_at(&runner->stage.rows, 0), rows, count * own * sizeof *rows);
    free(rows);
    return KVC_OK;
}

/* Creates the output projection of a replay. Output c is the sum of channel c of all heads. */
static enum kvc_status make_outputs(struct kvc_runner *runner, struct kvc_error *error) {
    const struct kvc_geometry *g = &runner->geometry;
    const size_t d = g->head_size, width = g->heads * d;
    float *rows = calloc(d * width, sizeof *rows);
    if (!rows)
        return kvc_fail(error, KVC_RESOURCE, "replay: no memory for %zu outputs", d);
    for (size_t c = 0; c < d; c++)
        for (size_t h = 0; h < g->heads; h++)
            rows[c * width + h * d + c] = 1.0f;
    runner->device->ops->upload(runner->device, kvc_growable_at(&runner->stage.rows, 0), rows,
                                d * width * sizeof *rows);
    free(rows);
    return KVC_OK;
}

enum kvc_status kvc_stage_output_norms(struct kvc_stage *stage, struct kvc_scores *norms, struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    struct kvc_device *device = runner->device;
    const struct kvc_geometry *g = &runner->geometry;
    const uint32_t outputs = runner->network ? runner->network->hidden : g->head_size;
    const uint32_t at_once = runner->network ? kvc_min_u32(outputs, OUTPUTS_AT_ONCE) : outputs;
    enum kvc_status status = kvc_stage_check_scores(stage, norms, error);
    if (status == KVC_OK && norms->heads != g->heads)
        status = kvc_fail(error, KVC_USAGE, "policy: norms of projected values need scores per query head");
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &runner->stage.rows,
                                      (size_t)at_once * stage->info.model_heads * g->head_size * sizeof(float), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &runner->stage.numbers, at_once * sizeof(int32_t), error);
    if (status == KVC_OK && !runner->network)
        status = make_outputs(runner, error);
    for (uint32_t first = 0, count; first < outputs && status == KVC_OK; first += count) {
        count = kvc_min_u32(outputs - first, at_once);
        if (runner->network)
            status = dequantize_outputs(stage, first, count, error);
        if (status == KVC_OK && kvc_type_is_rotated(kvc_stage_lists(stage)->lists.format.value.type))
            device->ops->hadamard(device, &(struct kvc_hadamard){.x = kvc_growable_at(&runner->stage.rows, 0),
                                                                 .heads = count * g->heads,
                                                                 .d = g->head_size});
        if (status == KVC_OK)
            device->ops->output_norms(device, &(struct kvc_output_norms){.lists = &kvc_stage_lists(stage)->lists,
                                                                         .w = kvc_growable_at(&runner->stage.rows, 0),
                                                                         .heads = g->heads,
                                                                         .outputs = count,
                                                                         .first = first == 0,
                                                                         .norms = norms->span,
                                                                         .stride = norms->stride});
    }
    return status;
}
