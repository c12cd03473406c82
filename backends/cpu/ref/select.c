/* select.c - select methods: scores entries or pages for a decode step's query, and turns scores into read lists. */
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/ref/ref.h"

#include "core/base/assert.h"

/* The data of one KV head. */
struct scored {
    const struct kvc_select_scores *call;
    struct kvc_view view;
    const float *q;              /* [G, d] */
    uint32_t group, d, h, units; /* units: number of entries, or of pages */
    uint32_t *channel;           /* [dims], ascending */
    bool *positive;              /* [dims] */
    float *key;                  /* [d] */
    float *quants;               /* memory for the quantized query */
    struct kvc_ref_query query;  /* the query head whose exact scores are computed */
    float *score;                /* [units]: scores of one query head, then its probabilities */
};

/* Sorts by score, descending. Units with equal scores are sorted by index, ascending. */
static int select_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static uint64_t sort_key(float score, uint32_t index) {
    return (uint64_t)kvc_score_key(score) << 32 | (UINT32_MAX - index);
}

static void select_channels(struct scored *s, uint64_t *order) {
    uint32_t found = 0;
    bool *chosen = (bool *)s->score; /* this memory is free: the scores are computed later */
    for (uint32_t c = 0; c < s->d; c++) {
        float sum = 0.0f;
        for (uint32_t g = 0; g < s->group; g++)
            sum = sum + kvc_from_bits(kvc_bits(s->q[g * s->d + c]) & 0x7fffffffu);
        order[c] = sort_key(sum, c);
        chosen[c] = false;
    }
    qsort(order, s->d, sizeof *order, select_compare);
    for (uint32_t i = 0; i < s->call->dims; i++)
        chosen[UINT32_MAX - (uint32_t)order[i]] = true;
    for (uint32_t c = 0; c < s->d; c++) {
        float sum = 0.0f;
        if (!chosen[c])
            continue;
        for (uint32_t g = 0; g < s->group; g++)
            sum = sum + s->q[g * s->d + c];
        s->positive[found] = !(sum < 0.0f);
        s->channel[found++] = c;
    }
}

/* Returns the factor for scores that are computed from the chosen channels only. */
static float channel_factor(const struct scored *s, const float *q) {
    float a = 0.0f, b = 0.0f;
    for (uint32_t i = 0; i < s->call->dims; i++)
        a = a + kvc_from_bits(kvc_bits(q[s->channel[i]]) & 0x7fffffffu);
    for (uint32_t c = 0; c < s->d; c++)
        b = b + kvc_from_bits(kvc_bits(q[c]) & 0x7fffffffu);
    if (a == 0.0f || b == 0.0f)
        return 0.0f;
    return kvc_div(1.0f, kvc_sqrt(kvc_score_span(s->call->scoring.scale, s->d) * kvc_div(a, b)));
}

/* Counts the entries of a unit (an entry or a page) that are not masked. */
static uint32_t seen(const struct scored *s, uint32_t unit) {
    uint32_t page = s->call->kind >= KVC_SCORE_PAGE_CHANNELS ? s->call->pages->page : 1, n = 0;
    for (uint64_t p = (uint64_t)unit * page; p < (uint64_t)(unit + 1) * page && p < s->view.places; p++)
        n += kvc_view_slot(&s->view, (uint32_t)p) != UINT32_MAX;
    return n;
}

static float one_score(const struct scored *s, const float *q, uint32_t unit, float factor) {
    const struct kvc_select_scores *call = s->call;
    const struct kvc_lists *lists = call->lists;
    float dot = 0.0f;
    if (call->kind == KVC_SCORE_PAGE_BOUND) {
        for (uint32_t c = 0; c < s->d; c++) {
            const struct kvc_buffer *side = q[c] < 0.0f ? call->pages->low : call->pages->high;
            dot = kvc_fma(q[c], KVC_REF(page_value)(call->pages, side, s->d, s->h, c, unit), dot);
        }
        return dot;
    }
    if (!call->pages)
        KVC_REF(load_key)(lists, s->h, kvc_view_slot(&s->view, unit), s->key);
    if (call->kind == KVC_SCORE_EXACT)
        return kvc_ref_score(KVC_REF(dot_key)(&s->query, lists, s->h, kvc_view_slot(&s->view, unit), s->key), factor,
                             call->scoring.cap);
    for (uint32_t i = 0; i < call->dims; i++) {
        bool low = call->kind == KVC_SCORE_PAGE_CHANNELS && !s->positive[i];
        uint32_t c = s->channel[i];
        float x = call->pages ? KVC_REF(page_value)(call->pages, low ? call->pages->low : call->pages->high, s->d, s->h,
                                                    c, unit)
                              : s->key[c];
        dot = kvc_fma(q[c], x, dot);
    }
    return kvc_ref_score(dot, factor, call->scoring.cap);
}

/* Turns the scores of query head g into probabilities. */
static void softmax(const struct scored *s, uint32_t g) {
    float M = -kvc_infinity(), L = 0.0f, share;
    for (uint32_t i = 0; i < s->units; i++)
        if (seen(s, i))
            M = kvc_max(M, s->score[i]);
    for (uint32_t first = 0; first < s->units; first += KVC_TILE) {
        uint32_t end = s->units - first < KVC_TILE ? s->units : first + KVC_TILE;
        float lane[KVC_LANES] = {0};
        for (uint32_t i = first; i < end; i++) {
            uint32_t n = seen(s, i);
            s->score[i] = n ? kvc_exp(s->score[i] - M) : 0.0f;
            if (n)
                lane[i % KVC_LANES] = kvc_fma((float)n, s->score[i], lane[i % KVC_LANES]);
        }
        KVC_TREE32(lane);
        L = L + lane[0];
    }
    const float E = L; /* L without the sink */
    if (s->call->sinks.buffer && E != 0.0f)
        L = kvc_join_sink(L, M, ((const float *)kvc_span_data(s->call->sinks))[g]);
    share = kvc_div(1.0f, L);
    if (s->call->rest.buffer)
        ((float *)kvc_span_data(s->call->rest))[g] = E == 0.0f ? 0.0f : kvc_fma(-E, share, 1.0f);
    for (uint32_t i = 0; i < s->units; i++)
        s->score[i] = seen(s, i) ? s->score[i] * share : 0.0f;
}

/* Returns how many minima and maxima the bound of a page reads: for each channel the minimum, the maximum or both. */
static uint32_t sides_of(const struct scored *s) {
    uint32_t sides = 0;
    for (uint32_t c = 0; c < s->d; c++) {
        bool low = false, high = false;
        for (uint32_t g = 0; g < s->group; g++) {
            bool negative = s->q[g * s->d + c] < 0.0f;
            low = low || negative;
            high = high || !negative;
        }
        sides += (uint32_t)low + (uint32_t)high;
    }
    return sides;
}

static uint64_t bytes_of(const struct scored *s) {
    const struct kvc_select_scores *call = s->call;
    uint64_t n = 0, row = call->lists->format.key.bytes, element = 0;
    if (call->pages)
        element = call->pages->type == KVC_F16 ? 2 : 4;
    for (uint32_t i = 0; i < s->units; i++)
        n += seen(s, i) > 0;
    switch (call->kind) {
    case KVC_SCORE_EXACT:
        return n * row;
    case KVC_SCORE_CHANNELS:
        return call->pages ? n * call->dims * element : n * call->dims * row / s->d;
    case KVC_SCORE_PAGE_CHANNELS:
        return n * call->dims * element;
    case KVC_SCORE_PAGE_BOUND:
        return n * sides_of(s) * element;
    }
    return 0;
}

void KVC_REF(select_scores)(struct kvc_device *device, const struct kvc_select_scores *call) {
    KVC_ASSERT(call->heads % call->lists->kv_heads == 0);
    KVC_ASSERT(call->pages || call->kind < KVC_SCORE_PAGE_CHANNELS);
    const struct kvc_lists *lists = call->lists;
    uint32_t group = call->heads / lists->kv_heads, d = call->head_size;
    bool paged = call->kind >= KVC_SCORE_PAGE_CHANNELS;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        struct scored s = {.call = call, .group = group, .d = d, .h = h};
        float *scores = (float *)kvc_span_data(call->scores) + (size_t)h * call->stride;
        uint64_t *order;
        s.view = kvc_view_of(lists, call->view, h, 0, *(const int32_t *)kvc_span_data(call->positions), call->window);
        if (s.view.places <= call->budget)
            continue;
        s.units = paged ? (s.view.places + call->pages->page - 1) / call->pages->page : s.view.places;
        s.q = (const float *)kvc_span_data(call->q) + (size_t)h * group * d;
        order = kvc_cpu_scratch((struct kvc_cpu *)device, 0,
                                d * (sizeof *order + sizeof(uint32_t) + sizeof(float) + sizeof(bool)) +
                                    ((size_t)s.units + d + kvc_ref_query_floats(d)) * sizeof(float));
        if (!order)
            return;
        s.channel = (uint32_t *)(order + d);
        s.key = (float *)(s.channel + d);
        s.quants = s.key + d;
        s.score = s.quants + kvc_ref_query_floats(d);
        s.positive = (bool *)(s.score + s.units + d);
        if (call->kind == KVC_SCORE_CHANNELS || call->kind == KVC_SCORE_PAGE_CHANNELS)
            select_channels(&s, order);
        for (uint32_t i = 0; i < s.units; i++)
            scores[i] = 0.0f;
        for (uint32_t g = 0; g < group; g++) {
            const float *q = s.q + (size_t)g * d;
            float factor = call->kind == KVC_SCORE_EXACT        ? kvc_score_scale(call->scoring.scale, d)
                           : call->kind == KVC_SCORE_PAGE_BOUND ? 1.0f
                                                                : channel_factor(&s, q);
            s.query = KVC_REF(open_query)(call->scoring, &lists->format, q, s.quants);
            for (uint32_t i = 0; i < s.units; i++)
                if (seen(&s, i))
                    s.score[i] = one_score(&s, q, i, factor);
            if (call->kind != KVC_SCORE_PAGE_BOUND)
                softmax(&s, h * group + g);
            for (uint32_t i = 0; i < s.units; i++)
                scores[i] = seen(&s, i) ? scores[i] + s.score[i] : -kvc_infinity();
            if (call->probabilities.buffer)
                memcpy((float *)kvc_span_data(call->probabilities) + ((size_t)h * group + g) * call->stride, s.score,
                       s.units * sizeof(float));
        }
        if (call->bytes_read)
            *call->bytes_read += bytes_of(&s);
    }
}

/* Marks the entries of head h that the step reads. With pages, these are the entries of the best pages. */
static void select_choose(const struct kvc_select_reads *call, uint32_t h, uint32_t places, uint64_t *order,
                          bool *read) {
    const float *score = (const float *)kvc_span_data(call->scores) + (size_t)h * call->stride;
    uint32_t page = call->pages ? call->pages->page : 1, units = (places + page - 1) / page;
    uint32_t local = call->local < places ? (uint32_t)call->local : places, candidates = units - local;
    uint64_t top = call->top > local ? call->top - local : 0;
    for (uint32_t i = 0; i < candidates; i++)
        order[i] = sort_key(score[i], i);
    qsort(order, candidates, sizeof *order, select_compare);
    for (uint32_t i = 0; i < candidates && top > 0; i++) {
        uint32_t first = (UINT32_MAX - (uint32_t)order[i]) * page;
        for (uint32_t p = first; p < places && p - first < page && top > 0; p++) {
            read[p] = true;
            top -= !call->whole;
        }
        top -= call->whole;
    }
    for (uint32_t p = places - local; p < places; p++)
        read[p] = true;
}

void KVC_REF(select_reads)(struct kvc_device *device, const struct kvc_select_reads *call) {
    KVC_ASSERT(!call->pages || call->pages->page > 0);
    const struct kvc_lists *lists = call->lists;
    uint32_t group = call->heads / lists->kv_heads;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        struct kvc_view view = kvc_view_of(lists, call->view, h, 0, 0, 0);
        uint32_t *index = (uint32_t *)call->reads->index->data + (size_t)h * call->reads->stride, count = 0;
        uint64_t *order =
            kvc_cpu_scratch((struct kvc_cpu *)device, 0, view.places * (sizeof *order + sizeof(bool)) + 1);
        bool *read = order ? (bool *)(order + view.places) : NULL, all = view.places <= call->budget;
        if (!order)
            return;
        memset(read, all, view.places * sizeof *read);
        if (!all)
            select_choose(call, h, view.places, order, read);
        for (uint32_t p = 0; p < view.places; p++)
            if (read[p])
                index[count++] = view.indices ? view.indices[p] : p;
        ((uint32_t *)call->reads->count->data)[h] = count;
        for (uint32_t g = h * group; call->alpha.buffer && g < (h + 1) * group; g++) {
            const float *probability =
                all ? NULL : (const float *)kvc_span_data(call->probabilities) + (size_t)g * call->stride;
            float lane[KVC_LANES] = {0};
            for (uint32_t p = 0, i = 0; probability && p < view.places; p++)
                if (read[p]) {
                    lane[i % KVC_LANES] = lane[i % KVC_LANES] + probability[p];
                    i++;
                }
            KVC_TREE32(lane);
            if (call->rest.buffer)
                lane[0] = lane[0] + ((const float *)kvc_span_data(call->rest))[g];
            ((float *)kvc_span_data(call->alpha))[g] = all ? 1.0f : lane[0];
        }
    }
}

/* ---- cut_reads ---- */

struct cut {            /* one head */
    const float *score; /* [units] */
    uint32_t page, places, units;
    float M, factor;
};

static uint32_t unit_weight(const struct cut *c, uint32_t unit) {
    const float w = c->factor != 0.0f ? kvc_exp((c->score[unit] - c->M) * c->factor) : c->score[unit];
    return w > 0.0f ? (uint32_t)((w < 255.0f ? w : 255.0f) * 16777216.0f) : 0;
}

/* Returns the offset of an index in the view's list of indices. Successive calls must have ascending indices. */
static uint32_t next_place(const uint32_t *indices, uint32_t place, uint32_t index) {
    while (indices && indices[place] != index)
        place++;
    return indices ? place : index;
}

/* Returns the sum of the weights of the read entries whose sort keys are at least `least`. *equal receives the number
 * of entries whose sort key is `least`. */
static uint64_t weight_from(const struct cut *c, const uint32_t *indices, const uint32_t *read, uint32_t count,
                            uint32_t least, uint32_t *equal) {
    uint64_t sum = 0;
    uint32_t place = 0;
    *equal = 0;
    for (uint32_t i = 0; i < count; i++) {
        place = next_place(indices, place, read[i]);
        const uint32_t key = kvc_score_key(c->score[place / c->page]);
        *equal += key == least;
        sum += key >= least ? unit_weight(c, place / c->page) : 0;
    }
    return sum;
}

void KVC_REF(cut_reads)(struct kvc_device *device, const struct kvc_cut_reads *args) {
    KVC_ASSERT(args->page > 0 && args->share <= 65536);
    (void)device;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        const struct kvc_view view = kvc_view_of(args->lists, args->view, h, 0, 0, 0);
        struct cut c = {.score = (const float *)kvc_span_data(args->scores) + (size_t)h * args->stride,
                        .page = args->page,
                        .places = view.places,
                        .units = (uint32_t)(((uint64_t)view.places + args->page - 1) / args->page),
                        .M = -kvc_infinity(),
                        .factor = args->factor};
        uint32_t *read = (uint32_t *)args->reads->index->data + (size_t)h * args->reads->stride;
        uint32_t *count = (uint32_t *)args->reads->count->data + h, least = 0, equal, kept = 0, place = 0;
        uint64_t total = 0, above, need;
        if (view.places <= args->budget)
            continue;
        for (uint32_t u = 0; u < c.units; u++)
            c.M = kvc_max(c.M, c.score[u]);
        for (uint32_t u = 0; u < c.units; u++) {
            const uint32_t left = c.places - u * c.page;
            total += (uint64_t)unit_weight(&c, u) * (left < c.page ? left : c.page);
        }
        need = (total * args->share + 65535) / 65536;
        if (need == 0 || weight_from(&c, view.indices, read, *count, 0, &equal) < need)
            continue;
        /* finds the highest threshold at which the weights add up to at least `need`, one bit at a time from the
         * highest bit down */
        for (uint32_t bit = 0x80000000u; bit; bit >>= 1)
            if (weight_from(&c, view.indices, read, *count, least | bit, &equal) >= need)
                least |= bit;
        const uint64_t from = weight_from(&c, view.indices, read, *count, least, &equal);
        for (uint32_t i = 0, same = 0; i < *count; i++) {
            place = next_place(view.indices, place, read[i]);
            const uint32_t unit = place / c.page, key = kvc_score_key(c.score[unit]), q = unit_weight(&c, unit);
            above = from - (uint64_t)equal * q; /* the sum over the entries with larger keys */
            uint64_t few = key == least ? (need - above + q - 1) / q : 0;
            if (args->whole)
                few = (few + c.page - 1) / c.page * c.page;
            if (key > least || (key == least && same++ < few))
                read[kept++] = read[i];
        }
        *count = kept;
    }
}
