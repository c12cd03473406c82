/* select_probabilities.h - template: computes the exponentials of a head's scores, and from them the probabilities and
 * their group sum. */
#ifndef KVC_SIMD_SELECT_SELECT_PROBABILITIES_H
#define KVC_SIMD_SELECT_SELECT_PROBABILITIES_H

#include "core/base/integers.h"
#include "backends/cpu/simd/select/select_job.h"

/* Returns the number of a unit's entries that are seen. */
static float seen_places(const struct select_head *head, uint32_t unit) {
    const uint64_t from = (uint64_t)unit * head->page, to = from + head->page;
    const uint64_t low = kvc_max_u64(head->low, from);
    const uint64_t high = kvc_min_u64(to, head->entries.places);
    return high > low ? (float)(high - low) : 0.0f;
}

/* Replaces the scores of one tile's units low .. high - 1 by e = exp(s - M). Returns the tile's sum. */
static float tile_exponentials(const struct select_head *head, float *e, uint32_t low, uint32_t high, float M) {
    const uint32_t from = low / KVC_LANES * KVC_LANES, to = (high + KVC_LANES - 1) / KVC_LANES * KVC_LANES;
    const vf places = vf_set((float)head->page);
    vf lane[LANE_VECTORS];
    UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_zero();
    if (from > head->first && to < head->units) { /* all units are complete */
        exps_and_sums(e + from, to - from, M, head->page == 1 ? NULL : &places, lane);
        return sum_lanes(lane);
    }
    for (uint32_t i = from; i < low; i++)
        e[i] = -kvc_infinity();
    for (uint32_t i = high; i < to; i++) /* this memory is within the padding of the row */
        e[i] = -kvc_infinity();
    exps_below(e + from, to - from, M);
    for (uint32_t i = from; i < to; i += KVC_LANES) {
        const bool whole = i > head->first && i + KVC_LANES < head->units;
        float edge[KVC_LANES];
        for (uint32_t j = 0; !whole && j < KVC_LANES; j++)
            edge[j] = seen_places(head, i + j);
        UNROLL
        for (unsigned f = 0; f < LANE_VECTORS; f++) {
            const vf x = vf_load(e + i + f * LANES);
            lane[f] = vf_fma(whole ? places : vf_load(edge + f * LANES), x, lane[f]);
        }
    }
    return sum_lanes(lane);
}

/* Returns the largest score of a query head. Sets *nan if one of its scores is NaN. */
static float largest_score(const struct select_job *job, const struct select_head *head, uint32_t g, bool *nan) {
    float M = -kvc_infinity();
    *nan = false;
    for (uint32_t i = 0; i < job->splits; i++) {
        const float most = head->values.most[g * job->splits + i];
        *nan = *nan || kvc_is_nan(most);
        M = kvc_max(M, most);
    }
    return M;
}

static void exponentials(const struct select_job *job, const struct select_head *head, uint32_t from, uint32_t to,
                         struct select_prefetch *ahead) {
    for (uint32_t g = 0; g < job->group; g++) {
        bool nan;
        const float M = largest_score(job, head, g, &nan);
        float *e = head->values.e + g * select_row(job);
        for (uint32_t t = from / KVC_TILE; (uint64_t)t * KVC_TILE < to; t++) {
            const uint32_t low = kvc_max_u32(head->first, t * KVC_TILE);
            const uint32_t high = to < (t + 1) * KVC_TILE ? to : (t + 1) * KVC_TILE;
            float *sum = &head->values.sum[g * job->tiles_most + t];
            prefetch_next(ahead);
            if (low >= high)
                *sum = 0.0f;
            else if (nan || M - M != 0.0f) /* M is infinite, and inf - inf is NaN */
                *sum = kvc_nan();
            else
                *sum = tile_exponentials(head, e, low, high, M);
        }
    }
}

/* ---- probabilities ---- */

/* Returns L of a query head including its sink. E is L without the sink. `first` means that this call writes `rest`
 * too. */
static float join_sink(const struct select_job *job, const struct select_head *head, uint32_t g, float E, bool first) {
    const struct kvc_select_scores *call = job->call;
    const size_t own = (size_t)head->h * job->group + g;
    bool nan;
    const float M = largest_score(job, head, g, &nan);
    const float L = E != 0.0f ? kvc_join_sink(E, M, ((const float *)kvc_span_data(call->sinks))[own]) : E;
    if (call->rest.buffer && first)
        ((float *)kvc_span_data(call->rest))[own] = E == 0.0f ? 0.0f : kvc_fma(-E, kvc_div(1.0f, L), 1.0f);
    return L;
}

/* Computes the factor of each query head's exponentials. Also sets e of the units that are not seen, so that the sum
 * over the group is -inf. */
static void head_shares(const struct select_job *job, const struct select_head *head, float *share, uint32_t from,
                        uint32_t to) {
    const struct kvc_select_scores *call = job->call;
    const bool bound = call->kind == KVC_SCORE_PAGE_BOUND;
    const bool first = from == 0;
    const size_t row = select_row(job);
    for (; from < to && from < head->first; from++)
        for (uint32_t g = 0; g < job->group; g++)
            head->values.e[g * row + from] = g == 0 ? -kvc_infinity() : 0.0f;
    for (uint32_t g = 0; g < job->group; g++) {
        float L = 0.0f;
        for (uint32_t t = 0; !bound && (uint64_t)t * KVC_TILE < head->units; t++)
            L = L + head->values.sum[g * job->tiles_most + t];
        if (!bound && call->sinks.buffer)
            L = join_sink(job, head, g, L, first);
        share[g] = bound ? 1.0f : kvc_div(1.0f, L);
        for (uint32_t i = from; i < to && kvc_is_nan(share[g]); i++)
            head->values.e[g * row + i] = kvc_nan();
        share[g] = kvc_is_nan(share[g]) || L == 0.0f ? 1.0f : share[g]; /* units that are not seen keep probability 0 */
    }
}

/* Computes the scores of units `from` .. `to` - 1, and their probabilities if the head has memory for them. */
static void group_probabilities(const struct select_job *job, const struct select_head *head, const float *share,
                                uint32_t from, uint32_t to) {
    const size_t row = select_row(job), stride = head->probability_stride;
    float *scores = head->scores, *probabilities = head->probabilities;
    uint32_t i = from;
    for (; i < to && i < head->first; i++) { /* units that are not seen */
        scores[i] = -kvc_infinity();
        for (uint32_t g = 0; probabilities && g < job->group; g++)
            probabilities[g * stride + i] = 0.0f;
    }
    for (; i + LANES <= to; i += LANES) {
        vf total = vf_zero();
        for (uint32_t g = 0; g < job->group; g++) {
            const vf w = vf_mul(vf_load(head->values.e + g * row + i), vf_set(share[g]));
            total = vf_add(total, w);
            if (probabilities)
                vf_store(probabilities + g * stride + i, w);
        }
        vf_store(scores + i, total);
    }
    for (; i < to; i++) {
        float total = 0.0f;
        for (uint32_t g = 0; g < job->group; g++) {
            const float w = head->values.e[g * row + i] * share[g];
            total = total + w;
            if (probabilities)
                probabilities[g * stride + i] = w;
        }
        scores[i] = total;
    }
}

#endif
