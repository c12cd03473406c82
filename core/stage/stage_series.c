/* stage_series.c - TriAttention's scores: copies queries to the host, where the method collects their statistics.
 * Before a step, kvc_stage_prepare_series adapts the statistics to the coming positions and uploads them. */
#include "core/stage/stage.h"

#include "core/base/assert.h"
#include "core/base/canon.h"
#include "core/base/integers.h"

#include <stdlib.h>
#include <string.h>

/* Returns the layer's rope, or NULL in a replay, which does not rotate keys. */
static const struct kvc_rope *rope_of(const struct kvc_stage *stage) {
    const struct kvc_network *network = stage->session->runner->network;
    return network ? &network->rope[network->layer[stage->layer].rope] : NULL;
}

/* Reorders one query [d] from adjacent pairs to rope's output order. */
static void part_pairs(float *query, uint32_t rotary, float *scratch) {
    memcpy(scratch, query, rotary * sizeof *query);
    for (uint32_t i = 0; i < rotary / 2; i++) {
        query[i] = scratch[2 * i];
        query[i + rotary / 2] = scratch[2 * i + 1];
    }
}

enum kvc_status kvc_stage_read_queries(struct kvc_stage *stage, bool rotated, float *queries, size_t capacity,
                                       size_t *rows, uint32_t *rotary, struct kvc_error *error) {
    const struct kvc_runner *runner = stage->session->runner;
    const struct kvc_rope *rope = rope_of(stage);
    const uint32_t d = stage->info.head_size, heads = stage->info.heads;
    const size_t some = kvc_min_u64(stage->queries, capacity);
    KVC_ASSERT(!rope || rope->rotary <= d);
    const enum kvc_status status = kvc_stage_check(stage, error);
    if (status != KVC_OK)
        return status;
    float *scratch = malloc(d * sizeof *scratch);
    if (!scratch)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for a query of %u channels", d);
    *rows = stage->queries;
    *rotary = rope ? rope->rotary : 0;
    if (some)
        runner->device->ops->download(runner->device, queries,
                                      kvc_growable_at(runner->network && !rotated ? &runner->q_raw : &runner->q, 0),
                                      some * heads * d * sizeof *queries);
    for (size_t i = 0; rope && rope->interleaved && !rotated && i < some * heads; i++)
        part_pairs(queries + i * d, rope->rotary, scratch);
    free(scratch);
    return KVC_OK;
}

/* ---- before the step ---- */

/* Number of floats of one layer in session->series: means [H, d], then spreads [H, pairs]. */
static size_t floats_of(const struct kvc_stage *stage) {
    return (size_t)stage->info.heads * (stage->info.head_size + stage->info.head_size / 2);
}

static struct kvc_span means_of(const struct kvc_stage *stage) {
    return kvc_growable_at(&stage->session->series, stage->layer * floats_of(stage) * sizeof(float));
}

static struct kvc_span spreads_of(const struct kvc_stage *stage) {
    struct kvc_span span = means_of(stage);
    span.offset += (size_t)stage->info.heads * stage->info.head_size * sizeof(float);
    return span;
}

static uint32_t pairs_of(const struct kvc_stage *stage, uint32_t rotary) {
    const struct kvc_rope *rope = rope_of(stage);
    return (rope ? rope->rotary : rotary == KVC_ANY_ROTARY ? stage->info.head_size : rotary) / 2;
}

/* Computes the mean cosines and sines [2, pairs] over the coming positions, and the factors [pairs] by which a rotation
 * scales lengths. row [pairs] and sum [2 * pairs] are scratch. */
static void mean_rotation(const struct kvc_stage *stage, const struct kvc_rope *rope, uint32_t future, float *row,
                          double *sum, float *mean, float *factor) {
    const uint32_t half = rope->rotary / 2;
    const bool *long_rope = &stage->session->long_rope;
    KVC_ASSERT(future > 0);
    const int32_t none = 0;
    uint32_t count = 0;
    memset(sum, 0, 2 * half * sizeof *sum);
    for (uint64_t ahead = 1; ahead <= future; ahead *= 2, count++) {
        const int32_t position = (int32_t)kvc_min_u64(stage->info.now + ahead, INT32_MAX);
        for (uint32_t side = 0; side < 2; side++) {
            kvc_rope_rows(rope, &position, long_rope, 1, side == 1, row);
            for (uint32_t c = 0; c < half; c++)
                sum[side * half + c] += (double)row[c];
        }
    }
    for (uint32_t c = 0; c < 2 * half; c++)
        mean[c] = (float)(sum[c] / count);
    kvc_rope_rows(rope, &none, long_rope, 1, false, factor);
}

/* Writes the layer's means, rotated to the coming positions, to [H, d] and its spreads to [H, pairs]. */
static enum kvc_status rotate_means(const struct kvc_stage *stage, const struct kvc_series *series, float *means,
                                    float *spreads, struct kvc_error *error) {
    const struct kvc_rope *rope = rope_of(stage);
    const uint32_t d = stage->info.head_size, half = pairs_of(stage, series->rotary);
    KVC_ASSERT(half <= d / 2);
    memcpy(means, series->mean, (size_t)stage->info.heads * d * sizeof *means);
    for (uint32_t h = 0; h < stage->info.heads; h++)
        memcpy(spreads + (size_t)h * half, series->spread + (size_t)h * (d / 2), half * sizeof *spreads);
    if (!rope || half == 0)
        return KVC_OK;
    double *sum = malloc(2 * half * sizeof *sum);
    float *mean = malloc(4 * (size_t)half * sizeof *mean), *factor = mean + 2 * half, *row = factor + half;
    if (sum && mean) {
        mean_rotation(stage, rope, series->future, row, sum, mean, factor);
        for (size_t h = 0; h < stage->info.heads; h++)
            for (uint32_t i = 0; i < half; i++) {
                const float a = series->mean[h * d + i], b = series->mean[h * d + i + half];
                means[h * d + i] = kvc_fma(-b, mean[half + i], a * mean[i]);
                means[h * d + i + half] = kvc_fma(a, mean[half + i], b * mean[i]);
                spreads[h * half + i] = spreads[h * half + i] * factor[i];
            }
    }
    const enum kvc_status status =
        sum && mean ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "policy: no memory for %u angles", half);
    free(sum);
    free(mean);
    return status;
}

enum kvc_status kvc_stage_check_rotary(const struct kvc_stage *stage, uint32_t rotary, struct kvc_error *error) {
    const struct kvc_rope *rope = rope_of(stage);
    const uint32_t d = stage->info.head_size;
    if (rotary == KVC_ANY_ROTARY)
        return KVC_OK;
    if (rotary > d || rotary % 2)
        return kvc_fail(error, KVC_USAGE, "policy: %u rotated channels: must be even, up to %u", rotary, d);
    if (rope && rotary != rope->rotary)
        return kvc_fail(error, KVC_INPUT, "layer %u: statistics of queries with %u rotated channels; the model has %u",
                        stage->layer, rotary, rope->rotary);
    return KVC_OK;
}

enum kvc_status kvc_stage_prepare_series(struct kvc_stage *stage, const struct kvc_series *series,
                                         struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_device *device = kvc_stage_device(stage);
    const size_t floats = floats_of(stage), bytes = floats * sizeof(float);
    const uint32_t heads = stage->info.heads, d = stage->info.head_size;
    if (series->future == 0)
        return kvc_fail(error, KVC_USAGE, "policy: expected queries need at least one future position");
    enum kvc_status status = kvc_stage_check_rotary(stage, series->rotary, error);
    if (status != KVC_OK)
        return status;
    float *values = calloc(floats, sizeof *values);
    if (!values)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for %zu values", floats);
    status = rotate_means(stage, series, values, values + (size_t)heads * d, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &session->series, session->cache.layers * bytes, error);
    if (status == KVC_OK) {
        const struct kvc_step_shape shape = {
            .lists = &kvc_stage_lists(stage)->lists, .heads = heads, .head_size = d, .series = true};
        device->ops->upload(device, means_of(stage), values, bytes);
        status = device->ops->prepare(device, &shape, error);
    }
    free(values);
    return status;
}

/* ---- in the step ---- */

enum kvc_status kvc_stage_series_scores(struct kvc_stage *stage, const struct kvc_series *series, bool average,
                                        struct kvc_scores *scores, struct kvc_error *error) {
    struct kvc_device *device = kvc_stage_device(stage);
    enum kvc_status status = kvc_stage_check_scores(stage, scores, error);
    if (status == KVC_OK)
        status = kvc_stage_check_rotary(stage, series->rotary, error);
    if (status != KVC_OK)
        return status;
    if (scores->heads != stage->info.kv_heads)
        return kvc_fail(error, KVC_USAGE, "policy: scores by query statistics are per list");
    if (!stage->session->series.buffer)
        return kvc_fail(error, KVC_USAGE, "policy: series are scored, but none was prepared before the step");
    KVC_ASSERT(spreads_of(stage).offset + (size_t)stage->info.heads * (stage->info.head_size / 2) * sizeof(float) <=
               stage->session->series.bytes);
    device->ops->series_scores(device, &(struct kvc_series_scores){.lists = &kvc_stage_lists(stage)->lists,
                                                                   .heads = stage->info.heads,
                                                                   .pairs = pairs_of(stage, series->rotary),
                                                                   .mean = means_of(stage),
                                                                   .spread = spreads_of(stage),
                                                                   .average = average,
                                                                   .scores = scores->span,
                                                                   .stride = scores->stride});
    return KVC_OK;
}
