/* select_scores.h - template: scores of a head's entries or pages for a query. */
#ifndef KVC_SIMD_SELECT_SELECT_SCORES_H
#define KVC_SIMD_SELECT_SELECT_SCORES_H

#include "core/base/integers.h"
#include "backends/cpu/simd/select/select_job.h"

/* Chooses the `dims` channels of the head's queries [G, d], ascending. */
static void find_channels(const struct select_job *job, struct select_work *work, const float *q) {
    const uint32_t d = job->d, dims = job->call->dims;
    uint32_t found = 0, equal;
    int32_t bound;
    for (uint32_t c = 0; c < padded_size(d); c += LANES) {
        vf sum = vf_zero();
        for (uint32_t g = 0; g < job->group; g++)
            sum = vf_add(sum,
                         vf_from_bits(vi_and(vf_bits(vf_part_load(q + (size_t)g * d + c, d - c)), vi_set(INT32_MAX))));
        vi_store(work->channel_keys + c, score_keys(sum));
    }
    for (uint32_t c = d; c < padded_size(d) + LANES; c++)
        work->channel_keys[c] = INT32_MIN;
    bound = threshold(work->channel_keys, d, dims);
    equal = dims - count_above(work->channel_keys, d, bound);
    KVC_ASSERT(dims <= d && equal >= 1 && equal <= dims);
    for (uint32_t c = 0; found < dims; c++) {
        const bool reaches = work->channel_keys[c] == bound && equal > 0;
        work->channel[found] = c;
        found += work->channel_keys[c] > bound || reaches;
        equal -= reaches;
    }
}

static float magnitude(float x) { return kvc_from_bits(kvc_bits(x) & 0x7fffffffu); }

/* Returns the factor of a query head's dot products over some channels. */
static float channel_factor(const struct select_job *job, const struct select_work *work, const float *q) {
    float a = 0.0f, b = 0.0f;
    for (uint32_t i = 0; i < job->call->dims; i++)
        a = a + magnitude(q[work->channel[i]]);
    for (uint32_t c = 0; c < job->d; c++)
        b = b + magnitude(q[c]);
    if (a == 0.0f || b == 0.0f)
        return 0.0f;
    return kvc_div(1.0f, kvc_sqrt(kvc_score_span(job->call->scoring.scale, job->d) * kvc_div(a, b)));
}

/* Returns which sides of a channel (minima or maxima of pages) the bounds read: 1 for low, 2 for high, 3 for both. */
static unsigned sides_of(const struct select_job *job, const float *q, uint32_t c) {
    unsigned sides = 0;
    for (uint32_t g = 0; g < job->group; g++)
        sides |= q[(size_t)g * job->d + c] < 0.0f ? 1u : 2u;
    return sides;
}

/* Sets the addresses of the chosen channels, in pages or in `transposed`. Returns their number. */
static uint32_t point_channels(const struct select_job *job, struct select_work *work, uint32_t h, const float *q) {
    const struct kvc_select_scores *call = job->call;
    const bool bound = call->kind == KVC_SCORE_PAGE_BOUND;
    const uint32_t dims = bound ? job->d : call->dims;
    for (uint32_t i = 0; i < dims; i++) {
        const uint32_t c = bound ? i : work->channel[i];
        float sum = 0.0f;
        if (!call->pages) {
            work->dots[i].high = work->dots[i].low = (unsigned char *)(work->transposed + (size_t)c * LANES);
            continue;
        }
        const size_t from = ((size_t)h * job->d + c) * call->pages->stride * (call->pages->type == KVC_F16 ? 2 : 4);
        work->dots[i].high = (const unsigned char *)call->pages->high->data + from;
        work->dots[i].low = call->pages->low ? (const unsigned char *)call->pages->low->data + from : NULL;
        if (bound) { /* if no head needs a side, it is not read */
            const unsigned sides = sides_of(job, q, c);
            work->dots[i].high = sides & 2u ? work->dots[i].high : work->dots[i].low;
            work->dots[i].low = sides & 1u ? work->dots[i].low : work->dots[i].high;
            continue;
        }
        for (uint32_t g = 0; g < job->group; g++)
            sum = sum + q[(size_t)g * job->d + c];
        if (call->kind == KVC_SCORE_PAGE_CHANNELS && sum < 0.0f)
            work->dots[i].high = work->dots[i].low;
    }
    return dims;
}

/* Computes e of units `from` .. `to` - 1 for `some` heads, from head g on. Keys that are not stored in pages are
 * transposed first. */
static void dots_of_heads(const struct select_job *job, const struct select_work *work, const struct select_head *head,
                          uint32_t dims, uint32_t g, unsigned some, uint32_t from, uint32_t to, const bool *wanted,
                          float *most) {
    const struct kvc_select_scores *call = job->call;
    const size_t row = select_row(job), padded = padded_size(job->d);
    const enum kvc_type type = call->lists->format.key.type;
    float *out[DOT_HEADS];
    for (unsigned i = 0; i < some; i++)
        out[i] = head->values.e + (g + i) * row;
    if (call->pages) {
        channel_dots(call->pages->type, call->kind == KVC_SCORE_PAGE_BOUND, some, work->dots, dims, from, to,
                     work->factor + g, out, most);
        return;
    }
    for (uint32_t p = from; p < to; p += LANES) {
        const uint32_t n = kvc_min_u32(to - p, LANES);
        head_keys(&head->entries, p, n, work->keys);
        for (uint32_t i = 0; i < n; i++)
            dequantize_row(type, work->wide + i * padded, work->keys[i], job->d);
        transpose_rows(work->wide, padded, n, wanted, work->transposed, LANES);
        for (unsigned i = 0; i < some; i++)
            out[i] = head->values.e + (g + i) * row + p;
        channel_dots(KVC_F32, false, some, work->dots, dims, 0, n, work->factor + g, out, most);
    }
}

/* Returns the largest of x [from .. to - 1], -inf if there are none, or a NaN if one of them is a NaN. */
static float largest(const float *x, uint32_t from, uint32_t to) {
    vf top = vf_set(-kvc_infinity());
    vm nan = vf_is_nan(top);
    float lane[LANES], most = -kvc_infinity();
    uint32_t i = from;
    for (; i + LANES <= to; i += LANES) {
        const vf y = vf_load(x + i);
        nan = vm_or(nan, vf_is_nan(y));
        top = vf_max(top, y);
    }
    vf_store(lane, top);
    UNROLL
    for (unsigned j = 0; j < LANES; j++)
        most = kvc_max(lane[j], most);
    for (; i < to; i++) {
        if (kvc_is_nan(x[i]))
            return x[i];
        most = kvc_max(x[i], most);
    }
    return vm_bits(nan) ? kvc_nan() : most;
}

/* Computes the exact scores of the first n of work->keys for all heads of the group. The first `known` keys are set. */
static void score_tile(const struct select_job *job, struct select_work *work, uint32_t n, uint32_t known) {
    const struct kvc_select_scores *call = job->call;
    const float scale = kvc_score_scale(call->scoring.scale, job->d);
    const unsigned char *const *keys = work->keys;
    if (work->rewritten.rows) {
        keys = rewrite_keys(&work->rewritten, &call->lists->format, keys, 0, n);
        known = n;
    }
    if (work->integer.kernels) {
        const struct kvc_integer_entries entries = {
            .keys = keys, .range = {0, n}, .d = job->d, .next = keys + n, .next_count = known - n};
        work->integer.kernels->pack_keys(&entries, &work->integer.tile);
        work->integer.kernels->scores(&work->integer.tile, &work->integer.queries, 0, job->group, entries.range, scale,
                                      work->s);
        return;
    }
    const struct tile_entries tile = {
        .type = side_read_type(call->lists->format.key.type, false), .keys = keys, .high = n};
    const struct tile_queries queries = {work->q, job->group, job->d, scale};
    small_batch_scores(&tile, known, &queries, work->wide, work->s);
}

/* Computes the scores of units `from` .. `to` - 1. Every query head sees all of these units. Except for bounds, also
 * writes each query head's largest score to `most` [G]. */
static void score_units(const struct select_job *job, struct select_work *work, const struct select_head *head,
                        uint32_t from, uint32_t to, float *most) {
    const struct kvc_select_scores *call = job->call;
    const uint32_t group = job->group, d = job->d;
    const float cap = call->kind == KVC_SCORE_PAGE_BOUND ? 0.0f : call->scoring.cap;
    const float *q = (const float *)kvc_span_data(call->q) + (size_t)head->h * group * d;
    if (call->kind == KVC_SCORE_EXACT) {
        for (uint32_t g = 0; g < group; g++)
            if (work->integer.kernels)
                integer_query(&work->integer.queries, g, q + (size_t)g * d, d);
            else
                pad_query(work->q + g * padded_size(d), q + (size_t)g * d, d);
        if (work->integer.kernels)
            integer_queries_end(&work->integer.queries, group, d);
        /* known: number of keys that are set, for this tile and the next */
        for (uint32_t p = from, n, known = 0; p < to; p += n) {
            const uint32_t more = kvc_min_u32(to - p, 2 * KVC_TILE);
            n = KVC_TILE - p % KVC_TILE < to - p ? KVC_TILE - p % KVC_TILE : to - p;
            head_keys(&head->entries, p + known, more - known, work->keys + known);
            known = more;
            score_tile(job, work, n, known);
            for (uint32_t g = 0; cap != 0.0f && g < group; g++)
                cap_scores(work->s + (size_t)g * KVC_TILE, n, cap);
            known -= n;
            memmove(work->keys, work->keys + n, known * sizeof *work->keys);
            for (uint32_t g = 0; g < group; g++)
                memcpy(head->values.e + g * select_row(job) + p, work->s + (size_t)g * KVC_TILE, n * sizeof(float));
        }
        for (uint32_t g = 0; g < group; g++)
            most[g] = largest(head->values.e + g * select_row(job), from, to);
        return;
    }
    bool wanted[256] = {
        false}; /* only d / LANES elements are used; heads with more than 256 channels transpose all channels */
    if (call->kind != KVC_SCORE_PAGE_BOUND)
        find_channels(job, work, q);
    for (uint32_t g = 0; g < group && call->kind != KVC_SCORE_PAGE_BOUND; g++)
        work->factor[g] = channel_factor(job, work, q + (size_t)g * d);
    const uint32_t dims = point_channels(job, work, head->h, q);
    for (uint32_t i = 0; i < dims && d <= 256; i++)
        wanted[(call->kind == KVC_SCORE_PAGE_BOUND ? i : work->channel[i]) / LANES] = true;
    for (uint32_t g = 0; g < group;) {
        const unsigned some = kvc_min_u32(group - g, DOT_HEADS);
        for (uint32_t i = 0; i < dims; i++)
            for (unsigned j = 0; j < some; j++)
                work->dots[i].q[j] =
                    q[(size_t)(g + j) * d + (call->kind == KVC_SCORE_PAGE_BOUND ? i : work->channel[i])];
        dots_of_heads(job, work, head, dims, g, some, from, to, d <= 256 ? wanted : NULL, most + g);
        g += some;
    }
    for (uint32_t g = 0; cap != 0.0f && g < group; g++) {
        float *e = head->values.e + g * select_row(job);
        cap_scores(e + from, to - from, cap);
        most[g] = largest(e, from, to);
    }
}

#endif
