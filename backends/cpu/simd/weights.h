/* weights.h - template: the attention weights policies look at: window_mass, ring_write, ring_fuse. */
#ifndef KVC_CPU_WEIGHTS_H
#define KVC_CPU_WEIGHTS_H

#include "backends/cpu/simd/attention_many.h"
#include "backends/cpu/simd/carve.h"
#include "backends/cpu/simd/score_memo.h"

/* One call of window_mass or ring_write. A task is a run of tiles of one KV head. */
struct weights_job {
    struct kvc_cpu *cpu;
    const struct kvc_weight_rows *rows;
    uint32_t group, d, splits;     /* tasks per head */
    uint32_t blocks_most, at_once; /* queries times heads scored together */
    float scale;
    bool many;
    const float *known; /* NULL, or the query's scores, [H, known_stride] by rank */
    uint32_t known_stride;
    float *scores; /* window_mass: [H_kv, stride] */
    uint32_t stride;
    uint32_t column, ring; /* ring_write: the first column and how many; else 0 */
    enum kvc_row_kind kind;
};

struct weights_work {
    const unsigned char **block, **keys;
    struct seen_range *seen, *in; /* [queries], [at_once] */
    uint16_t *place;
    float *q, *wide, *s, *packed_keys, *value;
};

static size_t lay_out_weights(const struct weights_job *job, struct weights_work *work, unsigned char *base) {
    struct carving at = {base, 0};
    const size_t d = job->d, f = sizeof(float), queries = (size_t)job->rows->queries * job->group;
    work->block = carve(&at, job->blocks_most * sizeof *work->block);
    work->keys = carve(&at, KVC_TILE * sizeof *work->keys);
    work->seen = carve(&at, job->rows->queries * sizeof *work->seen);
    work->in = carve(&at, (job->at_once + SCORE_QUERIES) * sizeof *work->in);
    work->place = carve(&at, packed_size(d) * sizeof *work->place);
    work->q = carve(&at, (queries + SCORE_QUERIES) * packed_size(d) * f);
    work->wide = carve(&at, LANES * padded_size(d) * f);
    work->s = carve(&at, (size_t)(job->at_once + SCORE_QUERIES) * KVC_TILE * f);
    work->packed_keys = carve(&at, job->many ? packed_size(d) * KVC_TILE * f : 0);
    work->value = carve(&at, KVC_TILE * f);
    return at.used;
}

/* value[e] = sum over the group's heads, from 0 and ascending, of exp(s - M) / L, of s, or of 1 where the
 * weight is below `least`; rows of s lie s_stride apart and reach to the end of the tile. */
static void group_values(const float *s, size_t s_stride, uint32_t low, uint32_t high, uint32_t group,
                         const float *maximum, const float *sum, enum kvc_row_kind kind, float least, float *value) {
    for (uint32_t e = low; e < high; e += LANES) {
        vf total = vf_zero();
        const bool whole = e + LANES <= KVC_TILE;
        for (uint32_t g = 0; g < group; g++) {
            const float *from = s + g * s_stride + e;
            vf x = whole ? vf_load(from) : vf_part_load(from, KVC_TILE - e);
            if (kind != KVC_ROW_LOGITS)
                x = vf_div(exp_any(vf_sub(x, vf_set(maximum[g]))), vf_set(sum[g]));
            if (kind == KVC_ROW_LOW)
                x = vf_select(vf_less(x, vf_set(least)), vf_set(1.0f), vf_zero());
            total = vf_add(total, x);
        }
        if (e + LANES <= high)
            vf_store(value + e, total);
        else
            vf_part_store(value + e, total, high - e);
    }
}

/* Values of one query over places `in` of the tile that starts at place `first` and has n places. */
static void take_values(const struct weights_job *job, const struct head_entries *head, uint32_t h, uint32_t query,
                        uint32_t first, uint32_t n, struct seen_range in, float *value) {
    if (!job->ring) {
        float *column = job->scores + (size_t)h * job->stride;
        uint32_t e = in.low;
        if (head->rank) {
            for (; e < in.high; e++)
                column[head->rank[first + e]] += value[e];
            return;
        }
        column += first;
        for (; e + LANES <= in.high; e += LANES)
            vf_store(column + e, vf_add(vf_load(column + e), vf_load(value + e)));
        for (; e < in.high; e++)
            column[e] += value[e];
        return;
    }
    const struct kvc_lists *lists = job->rows->lists;
    const uint32_t slots = lists->host_base[h + 1] - lists->host_base[h];
    const uint32_t position = (uint32_t)((const int32_t *)kvc_span_data(job->rows->positions))[query];
    const uint32_t row = job->column + position % job->ring;
    float *column = (float *)lists->state->data + (size_t)lists->columns * lists->host_base[h] + (size_t)row * slots;
    memset(value, 0, in.low * sizeof *value);
    memset(value + in.high, 0, (n - in.high) * sizeof *value);
    if (!head->order && !head->rank)
        memcpy(column + first, value, n * sizeof *value);
    else if (!head->rank)
        for (uint32_t e = 0; e < n; e++)
            column[head->order[first + e]] = value[e];
    else
        for (uint32_t e = 0; e < n; e++)
            if (head_rank(head, first + e) < head->count)
                column[head_slot(head, first + e)] = value[e];
}

static void weights_task(void *argument, size_t task, unsigned thread) {
    const struct weights_job *job = argument;
    const struct kvc_weight_rows *rows = job->rows;
    const uint32_t h = (uint32_t)(task / job->splits), split = (uint32_t)(task % job->splits);
    const uint32_t d = job->d, group = job->group, queries = rows->queries;
    const size_t size = job->many ? packed_size(d) : padded_size(d);
    const enum kvc_type type = rows->lists->format.type;
    const int32_t *positions = kvc_span_data(rows->positions);
    const uint32_t *later = kvc_span_data(rows->later);
    struct weights_work work;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, lay_out_weights(job, &work, NULL));
    if (!scratch)
        return;
    lay_out_weights(job, &work, scratch);
    struct head_entries head = head_open(rows->lists, rows->reads, h, work.block);
    bool all = true;
    for (uint32_t i = 0; i < queries; i++) {
        work.seen[i] = head_seen(&head, positions[i], later[i], rows->window);
        all = all && work.seen[i].low == 0 && work.seen[i].high == head.places;
    }
    if (job->ring && !job->known && head.order && !head.rank && all &&
        slots_in_use(head.order, head.count) == head.count)
        head.order = NULL; /* everything is seen and goes by slot: so can we */
    const uint32_t tiles = (head.places + KVC_TILE - 1) / KVC_TILE;
    const uint32_t from = (uint32_t)((uint64_t)tiles * split / job->splits);
    const uint32_t to = (uint32_t)((uint64_t)tiles * (split + 1) / job->splits);
    if (job->ring && head.rank && split == 0) { /* what is not read counts 0; splits is 1 */
        const struct head_entries whole = head_open(rows->lists, NULL, h, work.block);
        for (uint32_t i = 0; i < queries; i++)
            for (uint32_t first = 0; first < whole.count; first += KVC_TILE)
                take_values(job, &whole, h, i, first, whole.count - first < KVC_TILE ? whole.count - first : KVC_TILE,
                            (struct seen_range){0, 0}, work.value);
    }
    if (!job->ring) { /* columns start at 0; with a read list splits is 1 */
        const uint32_t low = head.rank ? 0 : from * KVC_TILE;
        const uint32_t high = head.rank || to == tiles ? head.count : to * KVC_TILE;
        if (low < high)
            memset(job->scores + (size_t)h * job->stride + low, 0, (high - low) * sizeof(float));
    }
    if (from == to)
        return;
    const float *q = (const float *)kvc_span_data(rows->q) + (size_t)h * group * d;
    for (size_t c = 0; job->many && c < packed_size(d); c++)
        work.place[c] = (uint16_t)packed_place(c, d);
    for (uint32_t n = 0; !job->known && n < queries * group; n += job->many ? SCORE_QUERIES : 1) {
        const float *some[SCORE_QUERIES] = {NULL};
        for (uint32_t j = n; j < n + SCORE_QUERIES && j < queries * group; j++)
            some[j - n] = q + ((size_t)(j / group) * rows->heads + j % group) * d;
        if (job->many)
            pack_queries(some, d, work.place, work.q + n * size);
        else
            pad_query(work.q + n * size, some[0], d);
    }
    for (uint32_t t = from; t < to; t++) {
        const uint32_t first = t * KVC_TILE, n = head.places - first < KVC_TILE ? head.places - first : KVC_TILE;
        if (!job->known)
            head_keys(&head, first, n, work.keys);
        if (job->many)
            pack_keys(type, work.keys, 0, n, d, work.place, work.packed_keys);
        const uint32_t step = job->at_once / group;
        for (uint32_t i = 0; i < queries; i += step) {
            const uint32_t some = queries - i < step ? queries - i : step;
            for (uint32_t j = 0; j < some * group; j++)
                work.in[j] = seen_in_tile(work.seen[i + j / group], first);
            if (job->many)
                many_scores(work.packed_keys, work.q + (size_t)i * group * size, some * group, work.in, d, job->scale,
                            work.s);
            else if (!job->known)
                few_scores(type, work.keys, 0, 0, n, work.q + (size_t)i * group * size, some * group, d, job->scale,
                           work.wide, work.s);
            for (uint32_t j = 0; j < some; j++) {
                const size_t cell = (size_t)(i + j) * rows->heads + (size_t)h * group;
                const struct seen_range in = work.in[j * group];
                const bool weights = job->kind != KVC_ROW_LOGITS;
                const uint32_t seen = work.seen[i + j].high - work.seen[i + j].low;
                const float *s = job->known ? job->known + (size_t)h * group * job->known_stride + first
                                            : work.s + (size_t)j * group * KVC_TILE;
                group_values(s, job->known ? job->known_stride : KVC_TILE, in.low, in.high, group,
                             weights ? (const float *)kvc_span_data(rows->maximum) + cell : NULL,
                             weights ? (const float *)kvc_span_data(rows->sum) + cell : NULL, job->kind,
                             kvc_div(1.0f, (float)seen), work.value);
                take_values(job, &head, h, i + j, first, n, in, work.value);
            }
        }
    }
}

static void run_weights(struct weights_job *job) {
    const struct kvc_weight_rows *rows = job->rows;
    uint32_t tiles = 0;
    double work = 0.0;
    if (rows->queries == 1 && !rows->reads)
        job->known =
            memo_find(job->cpu, rows->lists, kvc_span_data(rows->q), rows->heads, rows->head_size, &job->known_stride);
    job->group = rows->heads / rows->kv_heads;
    job->d = rows->head_size;
    job->scale = kvc_attention_scale(job->d);
    job->many = (uint64_t)rows->queries * job->group > FEW_QUERIES;
    /* a multiple of the group, and where queries are packed of SCORE_QUERIES heads, so that blocks begin together */
    const uint32_t whole = job->many ? job->group * (job->group % SCORE_QUERIES ? SCORE_QUERIES : 1) : job->group;
    job->at_once = !job->many                ? rows->queries * job->group
                   : whole < QUERIES_AT_ONCE ? QUERIES_AT_ONCE / whole * whole
                                             : whole;
    for (uint32_t h = 0; h < rows->kv_heads; h++) {
        const uint32_t n = ((const uint32_t *)rows->lists->count->data)[h];
        const uint32_t blocks = (uint32_t)head_block_count(rows->lists, h), mine = (n + KVC_TILE - 1) / KVC_TILE;
        tiles = mine > tiles ? mine : tiles;
        job->blocks_most = blocks > job->blocks_most ? blocks : job->blocks_most;
        work += 1.5 * n * job->group * rows->queries * ((job->known ? 0 : job->d) + 24.0) / LANES;
    }
    struct kvc_threads *threads = threads_for(job->cpu, work);
    const uint32_t wanted = 4 * kvc_threads_count(threads), each = (wanted + rows->kv_heads - 1) / rows->kv_heads;
    job->splits = !threads || rows->reads || tiles == 0 ? 1 : each < tiles ? each : tiles;
    kvc_threads_run(threads, (size_t)rows->kv_heads * job->splits, weights_task, job);
}

static void window_mass(struct kvc_device *device, const struct kvc_weight_rows *rows, struct kvc_span scores,
                        uint32_t stride, bool by_head) {
    (void)by_head;
    struct weights_job job = {.cpu = (struct kvc_cpu *)device,
                              .rows = rows,
                              .scores = kvc_span_data(scores),
                              .stride = stride,
                              .kind = KVC_ROW_WEIGHTS};
    run_weights(&job);
}

static void ring_write(struct kvc_device *device, const struct kvc_weight_rows *rows, uint32_t first, uint32_t ring,
                       enum kvc_row_kind kind) {
    struct weights_job job = {
        .cpu = (struct kvc_cpu *)device, .rows = rows, .column = first, .ring = ring, .kind = kind};
    run_weights(&job);
}

#endif
