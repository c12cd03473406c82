/* choose_scores.h - template: select_scores: how a decode step's query scores places or pages; and select, which reads
 * what it has scored.
 *
 * Three steps per KV head: scores, exponentials with the sums of tiles, weights and their group sum. Where there are
 * heads enough for the threads one task does all three for a head, and with select chooses as well, so that scores and
 * weights never leave the core's cache; meanwhile it asks for what the thread has chosen for another head, which
 * attention wants next. Otherwise the steps run one after another, each cut into runs of tiles. */
#ifndef KVC_CPU_CHOOSE_SCORES_H
#define KVC_CPU_CHOOSE_SCORES_H

#include "backends/cpu/simd/choose_reads.h"
#include "backends/cpu/turns.h"

struct choose_job {
    struct kvc_cpu *cpu;
    const struct kvc_select_scores *call;
    const struct kvc_select_reads *reads; /* NULL: only scores */
    uint32_t group, d, splits, step;      /* step: 0 all, or 1 to 3 */
    uint32_t units_most, tiles_most, blocks_most;
    bool paged; /* the scores are of pages */
    unsigned char *shared;
    size_t shared_bytes;
    struct choose_ahead *ahead; /* [threads], with reads */
};

/* Of one head where splits is 1, else of all. Query head h, unit i: e[h * row + i]. */
struct choose_values {
    float *e, *most, *sum; /* [heads, row], [heads, splits]: NaN where there is one, [heads, tiles] */
};

struct choose_work {
    const unsigned char **block, **keys; /* [blocks], [2 * KVC_TILE] */
    float *q, *wide, *s, *turned;        /* [G, padded], [LANES, padded], [G, KVC_TILE], [padded, LANES] */
    int32_t *channel_keys;               /* [d, and a vector] */
    uint32_t *channel;                   /* [dims] */
    struct dot_channel *dots;            /* [d] */
    float *factor, *most;                /* [G]; factor then is what exponentials are multiplied by */
    int32_t *read_keys;                  /* of read_head */
    struct choose_values own;
};

INLINE size_t choose_row(const struct choose_job *job) {
    return ((size_t)job->units_most + KVC_LANES - 1) / KVC_LANES * KVC_LANES + KVC_LANES;
}

static struct choose_values carve_values(struct carving *at, const struct choose_job *job, size_t heads) {
    struct choose_values values;
    values.e = carve(at, heads * choose_row(job) * sizeof(float));
    values.most = carve(at, heads * job->splits * sizeof(float));
    values.sum = carve(at, heads * job->tiles_most * sizeof(float));
    return values;
}

static size_t lay_out_choose(const struct choose_job *job, struct choose_work *work, unsigned char *base) {
    struct carving at = {base, 0};
    const size_t d = padded_size(job->d), f = sizeof(float);
    work->block = carve(&at, job->blocks_most * sizeof *work->block);
    work->keys = carve(&at, 2 * KVC_TILE * sizeof *work->keys);
    work->q = carve(&at, job->group * d * f);
    work->wide = carve(&at, LANES * d * f);
    work->s = carve(&at, (size_t)job->group * KVC_TILE * f);
    work->turned = carve(&at, LANES * d * f);
    work->channel_keys = carve(&at, (d + LANES) * sizeof(int32_t));
    work->channel = carve(&at, d * sizeof(uint32_t));
    work->dots = carve(&at, d * sizeof *work->dots);
    work->factor = carve(&at, job->group * f);
    work->most = carve(&at, job->group * f);
    work->read_keys = carve(&at, job->reads ? 3 * keys_room(job->units_most) * sizeof(int32_t) : 0);
    work->own = job->splits == 1 ? carve_values(&at, job, job->group) : (struct choose_values){NULL, NULL, NULL};
    return at.used;
}

/* A head of a call. */
struct choose_head {
    struct head_entries entries;
    uint32_t h, page, units;     /* page: places of a unit */
    uint32_t low, first;         /* the first place that is seen, the first unit with one */
    struct choose_values values; /* of its first query head */
    float *scores, *weights;     /* where they go; weights NULL: nowhere */
    size_t weight_stride;
};

/* ---- scores ---- */

/* The `dims` channels of the head's queries [G, d], ascending. */
static void find_channels(const struct choose_job *job, struct choose_work *work, const float *q) {
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
    for (uint32_t c = 0; found < dims; c++) {
        const bool reaches = work->channel_keys[c] == bound && equal > 0;
        work->channel[found] = c;
        found += work->channel_keys[c] > bound || reaches;
        equal -= reaches;
    }
}

static float magnitude(float x) { return kvc_from_bits(kvc_bits(x) & 0x7fffffffu); }

/* What a head's dots of some channels are multiplied by. */
static float channel_factor(const struct choose_job *job, const struct choose_work *work, const float *q) {
    float a = 0.0f, b = 0.0f;
    for (uint32_t i = 0; i < job->call->dims; i++)
        a = a + magnitude(q[work->channel[i]]);
    for (uint32_t c = 0; c < job->d; c++)
        b = b + magnitude(q[c]);
    if (a == 0.0f || b == 0.0f)
        return 0.0f;
    return kvc_div(1.0f, kvc_sqrt((float)job->d * kvc_div(a, b)));
}

/* Which sides of a channel bounds need: 1 low, 2 high. */
static unsigned sides_of(const struct choose_job *job, const float *q, uint32_t c) {
    unsigned sides = 0;
    for (uint32_t g = 0; g < job->group; g++)
        sides |= q[(size_t)g * job->d + c] < 0.0f ? 1u : 2u;
    return sides;
}

/* Where the chosen channels lie in pages, or in `turned`. */
static uint32_t point_channels(const struct choose_job *job, struct choose_work *work, uint32_t h, const float *q) {
    const struct kvc_select_scores *call = job->call;
    const bool bound = call->kind == KVC_SCORE_PAGE_BOUND;
    const uint32_t dims = bound ? job->d : call->dims;
    for (uint32_t i = 0; i < dims; i++) {
        const uint32_t c = bound ? i : work->channel[i];
        float sum = 0.0f;
        if (!call->pages) {
            work->dots[i].high = work->dots[i].low = (unsigned char *)(work->turned + (size_t)c * LANES);
            continue;
        }
        const size_t from = ((size_t)h * job->d + c) * call->pages->stride * (call->pages->type == KVC_F16 ? 2 : 4);
        work->dots[i].high = (const unsigned char *)call->pages->high->data + from;
        work->dots[i].low = call->pages->low ? (const unsigned char *)call->pages->low->data + from : NULL;
        if (bound) { /* the side that no head needs is not read */
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

/* e of units from .. to-1 for the heads g .. g + some - 1; keys that no pages hold are turned on the way. */
static void dots_of_heads(const struct choose_job *job, const struct choose_work *work, const struct choose_head *head,
                          uint32_t dims, uint32_t g, unsigned some, uint32_t from, uint32_t to, const bool *wanted,
                          float *most) {
    const struct kvc_select_scores *call = job->call;
    const size_t row = choose_row(job), padded = padded_size(job->d);
    const enum kvc_type type = call->lists->format.type;
    float *out[DOT_HEADS];
    for (unsigned i = 0; i < some; i++)
        out[i] = head->values.e + (g + i) * row;
    if (call->pages) {
        channel_dots(call->pages->type, call->kind == KVC_SCORE_PAGE_BOUND, some, work->dots, dims, from, to,
                     work->factor + g, out, most);
        return;
    }
    for (uint32_t p = from; p < to; p += LANES) {
        const uint32_t n = to - p < LANES ? to - p : LANES;
        head_keys(&head->entries, p, n, work->keys);
        for (uint32_t i = 0; i < n; i++)
            widen_row(type, work->wide + i * padded, work->keys[i], job->d);
        turn_rows(work->wide, padded, n, wanted, work->turned, LANES);
        for (unsigned i = 0; i < some; i++)
            out[i] = head->values.e + (g + i) * row + p;
        channel_dots(KVC_F32, false, some, work->dots, dims, 0, n, work->factor + g, out, most);
    }
}

/* The largest of x [from .. to-1], -inf of none, NaN where there is one. */
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

/* Scores of the units from .. to-1, which are seen, and the largest [G] of them (not of bounds). */
static void score_units(const struct choose_job *job, struct choose_work *work, const struct choose_head *head,
                        uint32_t from, uint32_t to, float *most) {
    const struct kvc_select_scores *call = job->call;
    const uint32_t group = job->group, d = job->d;
    const float *q = (const float *)kvc_span_data(call->q) + (size_t)head->h * group * d;
    if (call->kind == KVC_SCORE_EXACT) {
        for (uint32_t g = 0; g < group; g++)
            pad_query(work->q + g * padded_size(d), q + (size_t)g * d, d);
        for (uint32_t p = from, n, known = 0; p < to; p += n) { /* known: keys set, of this tile and of the next */
            const uint32_t more = to - p < 2 * KVC_TILE ? to - p : 2 * KVC_TILE;
            n = KVC_TILE - p % KVC_TILE < to - p ? KVC_TILE - p % KVC_TILE : to - p;
            head_keys(&head->entries, p + known, more - known, work->keys + known);
            known = more;
            few_scores(call->lists->format.type, work->keys, 0, 0, 0, n, known, work->q, group, d,
                       kvc_attention_scale(d), work->wide, work->s);
            known -= n;
            memmove(work->keys, work->keys + n, known * sizeof *work->keys);
            for (uint32_t g = 0; g < group; g++)
                memcpy(head->values.e + g * choose_row(job) + p, work->s + (size_t)g * KVC_TILE, n * sizeof(float));
        }
        for (uint32_t g = 0; g < group; g++)
            most[g] = largest(head->values.e + g * choose_row(job), from, to);
        return;
    }
    bool wanted[256] = {false}; /* d / LANES of them; larger heads have all */
    if (call->kind != KVC_SCORE_PAGE_BOUND)
        find_channels(job, work, q);
    for (uint32_t g = 0; g < group && call->kind != KVC_SCORE_PAGE_BOUND; g++)
        work->factor[g] = channel_factor(job, work, q + (size_t)g * d);
    const uint32_t dims = point_channels(job, work, head->h, q);
    for (uint32_t i = 0; i < dims && d <= 256; i++)
        wanted[(call->kind == KVC_SCORE_PAGE_BOUND ? i : work->channel[i]) / LANES] = true;
    for (uint32_t g = 0; g < group;) {
        const unsigned some = group - g < DOT_HEADS ? group - g : DOT_HEADS;
        for (uint32_t i = 0; i < dims; i++)
            for (unsigned j = 0; j < some; j++)
                work->dots[i].q[j] =
                    q[(size_t)(g + j) * d + (call->kind == KVC_SCORE_PAGE_BOUND ? i : work->channel[i])];
        dots_of_heads(job, work, head, dims, g, some, from, to, d <= 256 ? wanted : NULL, most + g);
        g += some;
    }
}

/* ---- exponentials ---- */

/* Places of a unit that are seen. */
static float seen_places(const struct choose_head *head, uint32_t unit) {
    const uint64_t from = (uint64_t)unit * head->page, to = from + head->page;
    const uint64_t low = head->low > from ? head->low : from;
    const uint64_t high = to < head->entries.places ? to : head->entries.places;
    return high > low ? (float)(high - low) : 0.0f;
}

/* e of one tile's units low .. high - 1 from scores: exp(s - M); returns the tile's sum. */
static float tile_exponentials(const struct choose_head *head, float *e, uint32_t low, uint32_t high, float M) {
    const uint32_t from = low / KVC_LANES * KVC_LANES, to = (high + KVC_LANES - 1) / KVC_LANES * KVC_LANES;
    const vf places = vf_set((float)head->page);
    vf lane[FOLD];
    UNROLL
    for (unsigned f = 0; f < FOLD; f++)
        lane[f] = vf_zero();
    if (from > head->first && to < head->units) { /* all are whole */
        exps_and_sums(e + from, to - from, M, head->page == 1 ? NULL : &places, lane);
        return sum_lanes(lane);
    }
    for (uint32_t i = from; i < low; i++)
        e[i] = -kvc_infinity();
    for (uint32_t i = high; i < to; i++) /* the row has room */
        e[i] = -kvc_infinity();
    exps_below(e + from, to - from, M);
    for (uint32_t i = from; i < to; i += KVC_LANES) {
        const bool whole = i > head->first && i + KVC_LANES < head->units;
        float edge[KVC_LANES];
        for (uint32_t j = 0; !whole && j < KVC_LANES; j++)
            edge[j] = seen_places(head, i + j);
        UNROLL
        for (unsigned f = 0; f < FOLD; f++) {
            const vf x = vf_load(e + i + f * LANES);
            lane[f] = vf_fma(whole ? places : vf_load(edge + f * LANES), x, lane[f]);
        }
    }
    return sum_lanes(lane);
}

static void exponentials(const struct choose_job *job, const struct choose_head *head, uint32_t from, uint32_t to,
                         struct choose_ahead *ahead) {
    for (uint32_t g = 0; g < job->group; g++) {
        float M = -kvc_infinity(), *e = head->values.e + g * choose_row(job);
        bool nan = false;
        for (uint32_t i = 0; i < job->splits; i++) {
            const float most = head->values.most[g * job->splits + i];
            nan = nan || kvc_is_nan(most);
            M = kvc_max(M, most);
        }
        for (uint32_t t = from / KVC_TILE; (uint64_t)t * KVC_TILE < to; t++) {
            const uint32_t low = head->first > t * KVC_TILE ? head->first : t * KVC_TILE;
            const uint32_t high = to < (t + 1) * KVC_TILE ? to : (t + 1) * KVC_TILE;
            float *sum = &head->values.sum[g * job->tiles_most + t];
            ask_ahead(ahead);
            if (low >= high)
                *sum = 0.0f;
            else if (nan || M - M != 0.0f) /* infinite: inf - inf comes up */
                *sum = kvc_nan();
            else
                *sum = tile_exponentials(head, e, low, high, M);
        }
    }
}

/* ---- weights ---- */

/* What each query head's exponentials are multiplied by; e of what is not seen. */
static void head_shares(const struct choose_job *job, const struct choose_head *head, float *share, uint32_t from,
                        uint32_t to) {
    const struct kvc_select_scores *call = job->call;
    const bool bound = call->kind == KVC_SCORE_PAGE_BOUND;
    const size_t row = choose_row(job);
    for (; from < to && from < head->first; from++)
        for (uint32_t g = 0; g < job->group; g++)
            head->values.e[g * row + from] = bound ? -kvc_infinity() : 0.0f;
    for (uint32_t g = 0; g < job->group; g++) {
        float L = 0.0f;
        for (uint32_t t = 0; !bound && (uint64_t)t * KVC_TILE < head->units; t++)
            L = L + head->values.sum[g * job->tiles_most + t];
        share[g] = bound ? 1.0f : kvc_div(1.0f, L);
        for (uint32_t i = from; i < to && kvc_is_nan(share[g]); i++)
            head->values.e[g * row + i] = kvc_nan();
        share[g] = kvc_is_nan(share[g]) || L == 0.0f ? 1.0f : share[g]; /* what is not seen has weight 0 even so */
    }
}

/* Scores, and where they are wanted weights, of the units from .. to-1. */
static void group_weights(const struct choose_job *job, const struct choose_head *head, const float *share,
                          uint32_t from, uint32_t to) {
    const size_t row = choose_row(job), stride = head->weight_stride;
    float *scores = head->scores, *weights = head->weights;
    uint32_t i = from;
    for (; i + LANES <= to; i += LANES) {
        vf total = vf_zero();
        for (uint32_t g = 0; g < job->group; g++) {
            const vf w = vf_mul(vf_load(head->values.e + g * row + i), vf_set(share[g]));
            total = vf_add(total, w);
            if (weights)
                vf_store(weights + g * stride + i, w);
        }
        vf_store(scores + i, total);
    }
    for (; i < to; i++) {
        float total = 0.0f;
        for (uint32_t g = 0; g < job->group; g++) {
            const float w = head->values.e[g * row + i] * share[g];
            total = total + w;
            if (weights)
                weights[g * stride + i] = w;
        }
        scores[i] = total;
    }
}

/* ---- tasks ---- */

static struct choose_head open_choose(const struct choose_job *job, const struct choose_work *work, uint32_t h) {
    const struct kvc_select_scores *call = job->call;
    struct choose_head head = {.entries = head_open(call->lists, call->view, h, work->block), .h = h, .page = 1};
    const struct seen_range seen =
        head_seen(&head.entries, *(const int32_t *)kvc_span_data(call->positions), 0, call->window);
    head.page = job->paged ? call->pages->page : 1;
    head.units = (head.entries.places + head.page - 1) / head.page;
    head.low = seen.low < seen.high ? seen.low : head.entries.places;
    head.first = seen.low < seen.high ? seen.low / head.page : head.units;
    head.values = work->own;
    head.weight_stride = call->stride;
    if (!job->reads) { /* else they are made as they are wanted */
        head.scores = (float *)kvc_span_data(call->scores) + (size_t)h * call->stride;
        if (call->weights.buffer)
            head.weights = (float *)kvc_span_data(call->weights) + (size_t)h * job->group * call->stride;
    }
    if (job->splits > 1) {
        struct carving at = {job->shared, 0};
        head.values = carve_values(&at, job, call->heads);
        head.values.e += (size_t)h * job->group * choose_row(job);
        head.values.most += (size_t)h * job->group * job->splits;
        head.values.sum += (size_t)h * job->group * job->tiles_most;
    }
    return head;
}

static void count_bytes(const struct choose_job *job, const struct choose_head *head) {
    const struct kvc_select_scores *call = job->call;
    const float *q = (const float *)kvc_span_data(call->q) + (size_t)head->h * job->group * job->d;
    const uint64_t n = head->units - head->first, row = call->lists->format.row_bytes;
    const uint64_t element = call->pages && call->pages->type == KVC_F16 ? 2 : 4;
    uint64_t sides = 0;
    for (uint32_t c = 0; c < job->d && call->kind == KVC_SCORE_PAGE_BOUND; c++)
        sides += sides_of(job, q, c) == 3 ? 2 : 1;
    const uint64_t bytes = call->kind == KVC_SCORE_EXACT        ? n * row
                           : call->kind == KVC_SCORE_PAGE_BOUND ? n * sides * element
                           : call->pages                        ? n * call->dims * element
                                                                : n * call->dims * row / job->d;
    __atomic_fetch_add(call->bytes_read, bytes, __ATOMIC_RELAXED);
}

/* Channels of the head that the thread comes to next, to be asked for; work's own are done with. */
static void find_ahead(const struct choose_job *job, struct choose_work *work, const struct choose_head *now,
                       unsigned thread, struct choose_ahead *ahead) {
    const struct kvc_select_scores *call = job->call;
    const size_t h = turns_next(job->cpu, thread);
    ahead->left = 0;
    if (h >= call->lists->kv_heads || !call->pages || call->kind == KVC_SCORE_PAGE_BOUND)
        return;
    const float *q = (const float *)kvc_span_data(call->q) + h * job->group * job->d;
    const uint32_t places = places_of(call->lists, call->view, (uint32_t)h);
    if (places <= call->budget)
        return;
    find_channels(job, work, q);
    ahead->channels = work->dots;
    ahead->type = call->pages->type;
    ahead->dims = point_channels(job, work, (uint32_t)h, q);
    ahead->units = (places + now->page - 1) / now->page;
    ahead->stretch = (struct dot_ahead){.to = now->first};
    ahead->left = CHANNEL_BYTES_AHEAD;
}

static void choose_task(void *argument, size_t ticket, unsigned thread) {
    const struct choose_job *job = argument;
    const struct kvc_select_scores *call = job->call;
    const size_t tasks = (size_t)call->lists->kv_heads * job->splits;
    const size_t task = turns_take(job->cpu, tasks, thread);
    struct choose_ahead *ahead = job->ahead ? &job->ahead[thread] : NULL;
    (void)ticket;
    const uint32_t h = (uint32_t)(task / job->splits), split = (uint32_t)(task % job->splits);
    struct choose_work work;
    const size_t shared = thread == 0 ? job->shared_bytes : 0, own = lay_out_choose(job, &work, NULL);
    if (places_of(call->lists, call->view, h) <= call->budget) {
        if (job->reads)
            read_head(job->reads, h, NULL, NULL, 0, NULL, NULL);
        return;
    }
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, shared + own);
    if (!scratch)
        return;
    lay_out_choose(job, &work, scratch + shared);
    const struct choose_head head = open_choose(job, &work, h);
    const uint32_t tiles = (head.units + KVC_TILE - 1) / KVC_TILE;
    const uint32_t from = (uint32_t)((uint64_t)tiles * split / job->splits) * KVC_TILE;
    uint32_t to = (uint32_t)((uint64_t)tiles * (split + 1) / job->splits) * KVC_TILE;
    to = to < head.units ? to : head.units;
    if (job->step <= 1) {
        const uint32_t low = head.first > from ? head.first : from;
        for (uint32_t g = 0; g < job->group; g++)
            work.most[g] = -kvc_infinity();
        if (low < to)
            score_units(job, &work, &head, low, to, work.most);
        for (uint32_t g = 0; g < job->group; g++)
            head.values.most[g * job->splits + split] = work.most[g];
        if (ahead)
            find_ahead(job, &work, &head, thread, ahead);
    }
    if ((job->step == 0 || job->step == 2) && call->kind != KVC_SCORE_PAGE_BOUND)
        exponentials(job, &head, from, to, ahead);
    if (job->step == 0 || job->step == 3)
        head_shares(job, &head, work.factor, from, to);
    if (job->reads) {
        const struct unit_scores scores = {head.values.e, work.factor, choose_row(job), job->group, ahead};
        read_head(job->reads, h, &scores, scores.e, scores.stride, work.factor, work.read_keys);
    } else if (job->step == 0 || job->step == 3) {
        group_weights(job, &head, work.factor, from, to);
    }
    if (job->step <= 1 && split == 0 && call->bytes_read)
        count_bytes(job, &head);
}

static void run_choose(struct kvc_device *device, const struct kvc_select_scores *call,
                       const struct kvc_select_reads *reads) {
    struct choose_job job = {.cpu = (struct kvc_cpu *)device,
                             .call = call,
                             .reads = reads,
                             .group = call->heads / call->lists->kv_heads,
                             .d = call->head_size,
                             .splits = 1,
                             .paged = call->kind >= KVC_SCORE_PAGE_CHANNELS};
    const uint32_t heads = call->lists->kv_heads, page = job.paged ? call->pages->page : 1;
    struct choose_work work;
    double vectors = 0.0;
    for (uint32_t h = 0; h < heads; h++) {
        const uint32_t blocks = (uint32_t)head_block_count(call->lists, h);
        const uint32_t units = (places_of(call->lists, call->view, h) + page - 1) / page;
        job.blocks_most = blocks > job.blocks_most ? blocks : job.blocks_most;
        job.units_most = units > job.units_most ? units : job.units_most;
        vectors += (double)units * job.group * ((call->kind == KVC_SCORE_CHANNELS ? call->dims : job.d) + 40.0) / LANES;
    }
    job.tiles_most = (job.units_most + KVC_TILE - 1) / KVC_TILE;
    struct kvc_threads *threads = threads_for(job.cpu, vectors);
    const uint32_t count = threads ? kvc_threads_count(threads) : 1;
    if (heads % count != 0 && heads < 4 * count) {
        job.splits = (2 * count + heads - 1) / heads;
        job.splits = job.splits < job.tiles_most ? job.splits : job.tiles_most;
    }
    if (job.splits <= 1) {
        job.splits = 1;
        if (reads) {
            job.shared_bytes = (count * sizeof *job.ahead + 63) / 64 * 64;
            job.shared = kvc_cpu_scratch(job.cpu, 0, job.shared_bytes + lay_out_choose(&job, &work, NULL));
            job.ahead = (struct choose_ahead *)(void *)job.shared;
            if (!job.ahead)
                return;
            memset(job.ahead, 0, job.shared_bytes);
        }
        turns_begin(job.cpu);
        kvc_threads_run(threads, heads, choose_task, &job);
        return;
    }
    struct carving at = {NULL, 0};
    job.reads = NULL;
    carve_values(&at, &job, call->heads);
    job.shared_bytes = at.used;
    /* all of it at once: it must stay where it is through the three steps */
    job.shared = kvc_cpu_scratch(job.cpu, 0, job.shared_bytes + lay_out_choose(&job, &work, NULL));
    for (job.step = 1; job.shared && job.step <= 3; job.step++) {
        turns_begin(job.cpu);
        kvc_threads_run(threads, (size_t)heads * job.splits, choose_task, &job);
    }
    if (reads)
        select_reads(device, reads);
}

static void select_scores(struct kvc_device *device, const struct kvc_select_scores *call) {
    run_choose(device, call, NULL);
}

static void select_scores_reads(struct kvc_device *device, const struct kvc_select_scores *scores,
                                const struct kvc_select_reads *reads) {
    run_choose(device, scores, reads);
}

#endif
