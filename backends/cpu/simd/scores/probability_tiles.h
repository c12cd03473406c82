/* probability_tiles.h - template: computes the scores of queries with the entries of their session, tile by tile, for
 * the probabilities that policies use. The job of a consumer (rings.h, mass.h, moments.h) begins with a struct
 * probabilities_job, whose callbacks process the scores.
 *
 * A task computes a range of tiles of one KV head, or all of its tiles if there is a read list. */
#ifndef KVC_SIMD_SCORES_PROBABILITY_TILES_H
#define KVC_SIMD_SCORES_PROBABILITY_TILES_H

#include "core/base/integers.h"
#include "backends/cpu/simd/attention/integer_tile.h"
#include "backends/cpu/simd/attention/packed.h"
#include "backends/cpu/simd/bump.h"
#include "backends/cpu/simd/scores/score_memo.h"

struct probabilities_job;

/* The argument of callbacks: a tile of n entries of head h, from entry `first` on. At the start and at the end of a
 * task, there is no tile. */
struct probabilities_tile {
    const struct probabilities_job *job;
    const struct head_entries *head;
    uint32_t h, first, n;
    float *own;                    /* the task's `own` floats */
    const struct seen_range *seen; /* [queries] */
};

struct probabilities_job {
    struct kvc_cpu *cpu;
    const struct kvc_probabilities *rows;
    size_t own;             /* number of floats that the consumer needs for each task */
    size_t shared;          /* number of floats for all tasks together, kept until the next operation */
    float *shared_capacity; /* the memory of the shared floats */
    /* Called at the start of each task; may be NULL. The task has indices low .. high - 1. */
    void (*start)(const struct probabilities_tile *, uint32_t low, uint32_t high);
    void (*begin)(const struct probabilities_tile *); /* called at the start of each tile; may be NULL */
    /* Called for each tile and query, in ascending order of queries. The query sees the entries `seen` of the list and
     * the entries `in` of the tile. s has the scores of the query's heads, in rows s_stride apart. A row is readable to
     * the end of the tile; scores outside of `in` are undefined. */
    void (*take)(const struct probabilities_tile *, uint32_t query, struct seen_range seen, struct seen_range in,
                 const float *s, size_t s_stride);
    void (*finish)(const struct probabilities_tile *); /* called at the end of each tile; may be NULL */
    /* called at the end of each task; may be NULL; if it is set, a task is a whole head */
    void (*end)(const struct probabilities_tile *);
    const float *known; /* the scores of the only query, [H, known_stride], or NULL */
    uint32_t known_stride;
    bool by_slot; /* true if the order of entries does not matter when all entries are seen */
    float cost;   /* number of vector operations for a vector of scores, without the dot products */
    /* probabilities_prepare and probabilities_run set these members: */
    uint32_t group, d, splits;     /* splits: tasks per head */
    uint32_t blocks_most, at_once; /* at_once: number of scores per entry that are computed together: queries * heads */
    float scale, cap;
    bool many, integers;
};

struct probabilities_work {
    const unsigned char **block, **keys;
    struct seen_range *seen, *in; /* [queries], [at_once] */
    uint16_t *index;
    float *q, *wide, *s, *packed_keys, *own;
    struct integer_work integer;
    struct rewritten rewritten;
};

static size_t lay_out_probabilities(const struct probabilities_job *job, struct probabilities_work *work,
                                    unsigned char *base) {
    struct bump at = {base, 0};
    const size_t d = job->d, f = sizeof(float), queries = (size_t)job->rows->queries * job->group;
    work->block = bump_take(&at, job->blocks_most * sizeof *work->block);
    work->keys = bump_take(&at, KVC_TILE * sizeof *work->keys);
    work->seen = bump_take(&at, job->rows->queries * sizeof *work->seen);
    work->in = bump_take(&at, (job->at_once + SCORE_QUERIES) * sizeof *work->in);
    work->index = bump_take(&at, packed_size(d) * sizeof *work->index);
    work->q = bump_take(&at, (queries + SCORE_QUERIES) * packed_size(d) * f);
    work->wide = bump_take(&at, LANES * padded_size(d) * f);
    work->s = bump_take(&at, (size_t)(job->at_once + SCORE_QUERIES) * KVC_TILE * f);
    work->packed_keys = bump_take(&at, job->many ? packed_size(d) * KVC_TILE * f : 0);
    work->own = bump_take(&at, job->own * f);
    work->integer.kernels = job->integers ? kvc_integers_for(job->cpu, queries) : NULL;
    if (job->integers)
        integer_lay_out(&at, job->d, queries, false, &work->integer);
    const enum kvc_type type = job->rows->lists->format.key.type, read = side_read_type(type, job->integers);
    work->rewritten = (struct rewritten){.rows = NULL};
    if (!job->known && read != type)
        rewritten_lay_out(&at, read, d, false, &work->rewritten);
    return at.used;
}

/* Returns the number of the head's entries at positions above `position`. */
static uint32_t entries_after(const struct head_entries *head, int32_t position) {
    uint32_t low = 0, high = head->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (slot_position(head, head->order ? head->order[middle] : middle) <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return head->count - low;
}

/* Finds the range that each query sees. Returns true if all queries see all entries. */
static bool all_seen(const struct probabilities_job *job, const struct head_entries *head, struct seen_range *seen) {
    const struct kvc_probabilities *rows = job->rows;
    const int32_t *positions = kvc_span_data(rows->positions);
    const uint32_t *causal_offset = rows->causal_offset.buffer ? kvc_span_data(rows->causal_offset) : NULL;
    bool all = true;
    for (uint32_t i = 0; i < rows->queries; i++) {
        seen[i] = head_seen(head, positions[i], causal_offset ? causal_offset[i] : entries_after(head, positions[i]),
                            rows->window);
        all = all && seen[i].low == 0 && seen[i].high == head->places;
    }
    return all;
}

static void pack_probability_queries(const struct probabilities_job *job, uint32_t h,
                                     const struct probabilities_work *work) {
    const uint32_t d = job->d, group = job->group, queries = job->rows->queries;
    const size_t size = job->many ? packed_size(d) : padded_size(d);
    const float *q = (const float *)kvc_span_data(job->rows->q) + (size_t)h * group * d;
    if (work->integer.kernels) {
        for (uint32_t n = 0; n < queries * group; n++)
            integer_query(&work->integer.queries, n, q + ((size_t)(n / group) * job->rows->heads + n % group) * d, d);
        integer_queries_end(&work->integer.queries, (size_t)queries * group, d);
        return;
    }
    for (size_t c = 0; job->many && c < packed_size(d); c++)
        work->index[c] = (uint16_t)packed_index(c, d);
    for (uint32_t n = 0; n < queries * group; n += job->many ? SCORE_QUERIES : 1) {
        const float *some[SCORE_QUERIES] = {NULL};
        for (uint32_t j = n; j < n + SCORE_QUERIES && j < queries * group; j++)
            some[j - n] = q + ((size_t)(j / group) * job->rows->heads + j % group) * d;
        if (job->many)
            pack_queries(some, d, work->index, work->q + n * size);
        else
            pad_query(work->q + n * size, some[0], d);
    }
}

/* Computes one tile for all queries. */
static void probabilities_of_tile(const struct probabilities_tile *tile, struct probabilities_work *work) {
    const struct probabilities_job *job = tile->job;
    const uint32_t group = job->group, queries = job->rows->queries, d = job->d, step = job->at_once / group;
    const size_t size = job->many ? packed_size(d) : padded_size(d);
    const struct kvc_entry_format *format = &job->rows->lists->format;
    const enum kvc_type type = side_read_type(format->key.type, job->integers);
    const unsigned char *const *keys = work->keys;
    KVC_ASSERT(!job->known || (!job->many && !job->integers)); /* if scores are known, no keys are needed */
    if (!job->known)
        head_keys(tile->head, tile->first, tile->n, work->keys);
    if (!job->known && work->rewritten.rows)
        keys = rewrite_keys(&work->rewritten, format, keys, 0, tile->n);
    if (work->integer.kernels)
        work->integer.kernels->pack_keys(&(struct kvc_integer_entries){.keys = keys, .range = {0, tile->n}, .d = d},
                                         &work->integer.tile);
    else if (job->many)
        pack_keys(type, keys, 0, tile->n, d, work->index, work->packed_keys);
    for (uint32_t i = 0; i < queries; i += step) {
        const uint32_t some = kvc_min_u32(queries - i, step);
        for (uint32_t j = 0; j < some * group; j++)
            work->in[j] = seen_in_tile(work->seen[i + j / group], tile->first);
        if (work->integer.kernels) {
            work->integer.kernels->scores(&work->integer.tile, &work->integer.queries, i * group, some * group,
                                          seen_by_all(work->in, some * group), job->scale, work->s);
        } else if (job->many) {
            gemm_scores(work->packed_keys, work->q + (size_t)i * group * size, some * group, work->in, d, true,
                        job->scale, work->s);
        } else if (!job->known) {
            const struct tile_entries entries = {.type = type, .keys = keys, .high = tile->n};
            const struct tile_queries tile_queries = {work->q + (size_t)i * group * size, some * group, d, job->scale};
            small_batch_scores(&entries, tile->n, &tile_queries, work->wide, work->s);
        }
        for (uint32_t j = 0; job->cap != 0.0f && !job->known && j < some * group; j++)
            cap_scores(work->s + (size_t)j * KVC_TILE, KVC_TILE, job->cap);
        for (uint32_t j = 0; j < some; j++) {
            const float *s = job->known ? job->known + (size_t)tile->h * group * job->known_stride + tile->first
                                        : work->s + (size_t)j * group * KVC_TILE;
            job->take(tile, i + j, work->seen[i + j], work->in[j * group], s,
                      job->known ? job->known_stride : KVC_TILE);
        }
    }
}

static void probabilities_task(void *argument, size_t task, unsigned thread) {
    const struct probabilities_job *job = argument;
    const struct kvc_probabilities *rows = job->rows;
    const uint32_t h = (uint32_t)(task / job->splits), split = (uint32_t)(task % job->splits);
    const size_t front = thread == 0 ? job->shared * sizeof(float) : 0;
    struct probabilities_work work;
    const size_t bytes = lay_out_probabilities(job, &work, NULL);
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, front + bytes);
    if (!scratch)
        return;
    lay_out_probabilities(job, &work, scratch + front);
    struct head_entries head = head_open(rows->lists, rows->reads, h, work.block);
    const bool all = all_seen(job, &head, work.seen);
    if (job->by_slot && !job->known && head.order && !head.index && all &&
        slots_in_use(head.order, head.count) == head.count)
        head.order = NULL; /* every entry is seen, so their order does not matter */
    const uint32_t tiles = (head.places + KVC_TILE - 1) / KVC_TILE;
    const uint32_t from = (uint32_t)((uint64_t)tiles * split / job->splits);
    const uint32_t to = (uint32_t)((uint64_t)tiles * (split + 1) / job->splits);
    struct probabilities_tile tile = {job, &head, h, 0, 0, work.own, work.seen};
    const uint32_t low = head.index ? 0 : from * KVC_TILE;
    const uint32_t high = head.index || to == tiles ? head.count : to * KVC_TILE;
    if (low < high && job->start)
        job->start(&tile, low, high);
    if (from == to)
        return;
    if (!job->known)
        pack_probability_queries(job, h, &work);
    for (uint32_t t = from; t < to; t++) {
        tile.first = t * KVC_TILE;
        tile.n = kvc_min_u32(head.places - tile.first, KVC_TILE);
        if (job->begin)
            job->begin(&tile);
        probabilities_of_tile(&tile, &work);
        if (job->finish)
            job->finish(&tile);
    }
    if (job->end)
        job->end(&tile);
}

/* Sets up the job and allocates its shared scratch memory. Returns false if memory runs out, which the next sync
 * reports. */
static bool probabilities_prepare(struct probabilities_job *job) {
    const struct kvc_probabilities *rows = job->rows;
    struct probabilities_work work;
    if (!job->known && rows->queries == 1 && !rows->reads)
        job->known = memo_find(job->cpu, rows, &job->known_stride);
    job->group = rows->heads / rows->kv_heads;
    job->d = rows->head_size;
    job->scale = kvc_score_scale(rows->scoring.scale, job->d);
    job->cap = rows->scoring.cap;
    job->many = (uint64_t)rows->queries * job->group > SMALL_BATCH_QUERIES && !job->known;
    /* `whole` is a multiple of the group. If queries are packed, it is also a multiple of SCORE_QUERIES, so that blocks
     * are aligned. */
    const uint32_t whole = job->many ? job->group * (job->group % SCORE_QUERIES ? SCORE_QUERIES : 1) : job->group;
    job->integers = !job->known && kvc_scores_integers(rows->scoring, &rows->lists->format);
    job->at_once = !job->many                ? rows->queries * job->group
                   : whole < QUERIES_AT_ONCE ? QUERIES_AT_ONCE / whole * whole
                                             : whole;
    for (uint32_t h = 0; h < rows->kv_heads; h++) {
        const uint32_t blocks = (uint32_t)head_block_count(rows->lists, h);
        job->blocks_most = kvc_max_u32(blocks, job->blocks_most);
    }
    job->shared = (job->shared + 15) / 16 * 16;
    const size_t bytes = job->shared * sizeof(float);
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, 0, bytes + lay_out_probabilities(job, &work, NULL));
    job->shared_capacity = (float *)(void *)scratch;
    return scratch != NULL;
}

static void probabilities_run(struct probabilities_job *job) {
    const struct kvc_probabilities *rows = job->rows;
    uint32_t tiles = 0;
    double work = 0.0;
    for (uint32_t h = 0; h < rows->kv_heads; h++) {
        const uint32_t n = ((const uint32_t *)rows->lists->count->data)[h], mine = (n + KVC_TILE - 1) / KVC_TILE;
        tiles = kvc_max_u32(mine, tiles);
        work += 1.5 * n * job->group * rows->queries * ((job->known ? 0 : job->d) + (double)job->cost) / LANES;
    }
    struct kvc_threads *threads = threads_for(job->cpu, work);
    const uint32_t wanted = 4 * kvc_threads_count(threads), each = (wanted + rows->kv_heads - 1) / rows->kv_heads;
    job->splits = !threads || rows->reads || tiles == 0 ? 1 : kvc_min_u32(each, tiles);
    /* If results are stored by slot and the list has an order, entries of different tiles share cache lines. Heads are
     * then divided only if there are fewer heads than threads. */
    if (job->end || (job->by_slot && rows->lists->order && rows->kv_heads >= kvc_threads_count(threads)))
        job->splits = 1;
    kvc_threads_run(threads, (size_t)rows->kv_heads * job->splits, probabilities_task, job);
}

#endif
