/* stage_probe.c - the probe of a prompt that is read in chunks: its average over the chunks, and the attention that it
 * gives to the entries held. */
#include "core/stage/stage.h"

#include "core/base/assert.h"

#include <stdlib.h>

/* Returns this chunk's probe queries in the stage's layer. In the last chunk they are the prompt's own last queries. */
static struct kvc_span probe_queries(const struct kvc_stage *stage, size_t bytes) {
    const struct kvc_session *session = stage->session;
    if (!session->prompt.last_chunk)
        return kvc_growable_at(&session->prompt.probe_now, stage->layer * bytes * session->prompt.probes);
    KVC_ASSERT(session->prompt.window.rows >= session->prompt.probes);
    return kvc_growable_at(&session->prompt.window.q,
                           ((size_t)(stage->layer + 1) * session->prompt.window.rows - session->prompt.probes) * bytes);
}

/* Rotates the accumulated probe A [probes, H, d] from its positions for the previous chunk to those for this chunk. All
 * tokens of the probe move by the same distance. Rotations add up, so this equals a rotation after the average. */
static enum kvc_status move_probe(struct kvc_stage *stage, struct kvc_span A, struct kvc_error *error) {
    const struct kvc_session *session = stage->session;
    const struct kvc_prompt *prompt = &session->prompt;
    struct kvc_runner *runner = session->runner;
    const struct kvc_network *network = runner->network;
    const uint64_t now = prompt->last_chunk ? session->turn - prompt->probes : prompt->chunk_from + prompt->chunk_rows;
    const int32_t distance = (int32_t)((int64_t)now - (int64_t)prompt->chunk_from);
    if (!network || prompt->chunking.at_end || network->rope[network->layer[stage->layer].rope].rotary == 0)
        return KVC_OK;
    struct kvc_rope rope = network->rope[network->layer[stage->layer].rope];
    const size_t half = rope.rotary / 2;
    rope.attention_factor = rope.long_attention_factor = 1.0f; /* A already contains the factor */
    float *angles = malloc(2 * half * sizeof *angles);
    enum kvc_status status = angles ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "no memory for %zu angles", half);
    if (status == KVC_OK)
        status = kvc_growable_reserve(runner->device, &runner->stage.totals, 2 * half * sizeof *angles, error);
    if (status == KVC_OK) {
        const struct kvc_span cosine = kvc_growable_at(&runner->stage.totals, 0);
        kvc_rope_rows(&rope, &distance, &session->long_rope, 1, false, angles);
        kvc_rope_rows(&rope, &distance, &session->long_rope, 1, true, angles + half);
        runner->device->ops->upload(runner->device, cosine, angles, 2 * half * sizeof *angles);
        runner->device->ops->rope(
            runner->device,
            &(struct kvc_rope_heads){.y = A,
                                     .x = A,
                                     .cosine = cosine,
                                     .sine = kvc_growable_at(&runner->stage.totals, half * sizeof *angles),
                                     .rows = 1,
                                     .heads = prompt->probes * runner->geometry.heads,
                                     .head_size = runner->geometry.head_size,
                                     .rotary = rope.rotary});
    }
    free(angles);
    return status;
}

/* Adds this chunk's queries Q [n] to the average in the accumulated probe A. */
static enum kvc_status average_probe(struct kvc_stage *stage, const struct kvc_probe_average *average,
                                     struct kvc_span A, struct kvc_span Q, size_t n, struct kvc_error *error) {
    struct kvc_device *device = kvc_stage_device(stage);
    const bool first = stage->session->prompt.first_chunk;
    enum kvc_status status = KVC_OK;
    if (first && average->from_zero)
        device->ops->zero(device, A, n * sizeof(float));
    else if (first)
        device->ops->copy(device, A, Q, n * sizeof(float));
    else if (average->before_rotation)
        status = move_probe(stage, A, error);
    if (status == KVC_OK && (!first || average->from_zero))
        device->ops->blend(device, &(struct kvc_blend){.y = A, .x = Q, .share = average->alpha, .n = n});
    return status;
}

enum kvc_status kvc_stage_probe_mass(struct kvc_stage *stage, const struct kvc_probe_average *average,
                                     struct kvc_scores *scores, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_device *device = kvc_stage_device(stage);
    const struct kvc_queries *probing = &session->prompt.probing;
    const struct kvc_geometry *g = &session->runner->geometry;
    const size_t width = (size_t)g->heads * g->head_size, bytes = width * sizeof(float);
    const uint32_t probes = session->prompt.probes;
    enum kvc_status status = scores ? kvc_stage_check_scores(stage, scores, error) : kvc_stage_check(stage, error);
    if (status != KVC_OK)
        return status;
    if (probes == 0)
        return kvc_fail(error, KVC_USAGE, "policy: a probe's mass was requested, but there is no probe");
    const struct kvc_span A = kvc_growable_at(&session->prompt.probe, stage->layer * bytes * probes);
    KVC_ASSERT((stage->layer + 1) * bytes * probes <= session->prompt.probe.bytes);
    const struct kvc_span Q = probe_queries(stage, bytes);
    status = average_probe(stage, average, A, Q, width * probes, error);
    if (status != KVC_OK || !scores)
        return status;
    const struct kvc_segment segment = {.lists = &kvc_stage_lists(stage)->lists, .row = 0, .rows = probes, .stored = 0};
    const struct kvc_attention attention = {.segments = &segment,
                                            .segment_count = 1,
                                            .heads = g->heads,
                                            .kv_heads = stage->info.kv_heads,
                                            .head_size = g->head_size,
                                            .q = A,
                                            .out = kvc_growable_at(&probing->q, 0),
                                            .maximum = kvc_growable_at(&probing->maximum, 0),
                                            .sum = kvc_growable_at(&probing->sum, 0),
                                            .positions = kvc_growable_at(&probing->positions, 0),
                                            .causal_offset = kvc_growable_at(&probing->causal_offset, 0),
                                            .scoring = kvc_runner_scoring(session->runner),
                                            .sinks = kvc_runner_sinks(session->runner, stage->layer)};
    device->ops->attention(device, &attention);
    const struct kvc_probabilities rows = {.lists = &kvc_stage_lists(stage)->lists,
                                           .queries = probes,
                                           .heads = g->heads,
                                           .kv_heads = stage->info.kv_heads,
                                           .head_size = g->head_size,
                                           .q = A,
                                           .maximum = attention.maximum,
                                           .sum = attention.sum,
                                           .positions = attention.positions,
                                           .causal_offset = attention.causal_offset,
                                           .scoring = attention.scoring};
    device->ops->window_mass(
        device, &(struct kvc_window_mass){
                    .probabilities = &rows, .scores = scores->span, .stride = scores->stride, .by_head = false});
    device->ops->group_scores(device, &(struct kvc_group_scores){.lists = &kvc_stage_lists(stage)->lists,
                                                                 .rows = 1,
                                                                 .out = scores->span,
                                                                 .in = scores->span,
                                                                 .stride = scores->stride,
                                                                 .divisor = (float)probes});
    return KVC_OK;
}
