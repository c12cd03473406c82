/* task.h - template: a task of the attention operation, and the merge of tiles.
 *
 * A unit is a block of rows of one segment, for one KV head. A task computes a whole unit or, if there are too few
 * units for the threads, a range of its tiles. A tile's results for a query are m, the maximum of the scores; l, the
 * sum of exp(score - m); and o, the sum of the values weighted by exp(score - m). The thread that completes a unit
 * merges its tiles in ascending order. */
#ifndef KVC_SIMD_ATTENTION_TASK_H
#define KVC_SIMD_ATTENTION_TASK_H

#include <stdatomic.h>

#include "core/base/integers.h"
#include "backends/cpu/simd/attention/integer_tile.h"
#include "backends/cpu/simd/attention/packed.h"
#include "backends/cpu/simd/bump.h"
#include "backends/cpu/simd/scores/score_memo.h"
#include "backends/cpu/stealing.h"

struct segment_plan {
    size_t first_task, first_unit;
    uint32_t row_block, blocks, splits; /* row_block: rows per unit; blocks: units per head; splits: tasks per unit */
    uint32_t tiles;                     /* tiles of the longest head */
    bool many;
};

struct attention_work {
    const unsigned char **block, **keys; /* [blocks of the longest head], [2 tiles of KVC_TILE] */
    struct seen_range *seen, *in;        /* [rows of a block], [queries] */
    uint16_t *index;                     /* [packed_size(d)] */
    float *q, *wide, *s, *packed_keys, *packed_values, *sum, *most;
    struct integer_work integer;
    struct rewritten rewritten;
    struct tile_results own; /* empty for units that are divided among tasks, because shared memory holds their
                              * results */
};

struct attention_job {
    struct kvc_cpu *cpu;
    const struct kvc_attention *call;
    struct segment_plan *plan; /* [segment_count] */
    size_t tasks;
    unsigned char *shared; /* tile results of divided units; each unit has shared_bytes bytes */
    size_t shared_bytes, shared_total;
    _Atomic uint32_t *unfinished; /* [units]: number of tasks left; only if units are divided among tasks */
    size_t cells_most;            /* maximum over all units of tiles * queries */
    uint32_t group, d, blocks_most, rows_most, queries_most;
    bool any_gemm, any_integers, split;
    bool any_rewritten;           /* true if some entries are rewritten in another type before use */
    enum kvc_type rewritten_type; /* the largest type to which entries are rewritten */
    struct score_memo *memo;      /* NULL if there is no score record to fill */
    float scale, cap;
};

static struct tile_results bump_results(struct bump *at, const struct attention_job *job) {
    const size_t cells = job->cells_most;
    struct tile_results results;
    results.m = bump_take(at, cells * sizeof(float));
    results.l = bump_take(at, cells * sizeof(float));
    results.o = bump_take(at, cells * value_size(job->d) * sizeof(float));
    return results;
}

/* Places a thread's arrays in memory from `base` on. Returns their total size in bytes. `base` may be NULL. */
static size_t lay_out(const struct attention_job *job, struct attention_work *work, unsigned char *base) {
    struct bump at = {base, 0};
    const size_t d = job->d, queries = job->queries_most, f = sizeof(float);
    work->block = bump_take(&at, job->blocks_most * sizeof *work->block);
    work->keys = bump_take(&at, 2 * KVC_TILE * sizeof *work->keys);
    work->seen = bump_take(&at, job->rows_most * sizeof *work->seen);
    work->in = bump_take(&at, queries * sizeof *work->in);
    work->index = bump_take(&at, packed_size(d) * sizeof *work->index);
    work->q = bump_take(&at, (queries + SCORE_QUERIES) * packed_size(d) * f);
    work->wide = bump_take(&at, LANES * padded_size(d) * f);
    work->sum = bump_take(&at, value_size(d) * f);
    work->most = bump_take(&at, queries * f);
    if (job->any_integers)
        integer_lay_out(&at, job->d, queries, true, &work->integer);
    work->rewritten = (struct rewritten){.rows = NULL};
    if (job->any_rewritten)
        rewritten_lay_out(&at, job->rewritten_type, d, true, &work->rewritten);
    const size_t score_rows = job->any_gemm ? QUERIES_AT_ONCE : SMALL_BATCH_QUERIES;
    work->s = bump_take(&at, score_rows * KVC_TILE * f);
    work->packed_keys = bump_take(&at, job->any_gemm ? packed_size(d) * KVC_TILE * f : 0);
    work->packed_values = bump_take(&at, job->any_gemm ? value_size(d) * KVC_TILE * f : 0);
    work->own = job->split ? (struct tile_results){NULL, NULL, NULL} : bump_results(&at, job);
    return at.used;
}

/* Returns a distance in bytes. If two listed rows are at most this far apart, prefetch_listed also prefetches the bytes
 * between them. The distance is three rows if the read list is dense and its rows are long, because sequential reads
 * are faster. Otherwise it is one row or, if all entries are read, 0. */
static size_t fill_bytes(const struct head_entries *head) {
    const bool dense = (uint64_t)head->places * 8 >= head->count && head->key_bytes >= 256;
    return head->index ? (dense ? 3 : 1) * head->key_bytes : 0;
}

/* The work of one task. */
struct attention_unit {
    const struct kvc_segment *segment;
    const struct segment_plan *plan;
    uint32_t head, row, rows, split; /* row: the first row, relative to the segment */
    size_t number;
};

static struct attention_unit unit_of(const struct attention_job *job, size_t task) {
    size_t low = 0, high = job->call->segment_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (job->plan[middle].first_task <= task)
            low = middle;
        else
            high = middle;
    }
    struct attention_unit unit = {.segment = &job->call->segments[low], .plan = &job->plan[low]};
    const size_t local = task - unit.plan->first_task, local_unit = local / unit.plan->splits;
    const uint32_t heads = job->call->kv_heads;
    unit.split = (uint32_t)(local % unit.plan->splits);
    unit.head = (uint32_t)(local_unit % heads);
    /* the last rows see the most entries, so they are computed first */
    unit.row = (unit.plan->blocks - 1 - (uint32_t)(local_unit / heads)) * unit.plan->row_block;
    unit.rows = kvc_min_u32(unit.segment->rows - unit.row, unit.plan->row_block);
    unit.number = unit.plan->first_unit + local_unit;
    return unit;
}

INLINE const float *query_of(const struct attention_job *job, const struct attention_unit *unit, uint32_t query) {
    const size_t row = unit->segment->row + unit->row + query / job->group;
    const size_t head = (size_t)unit->head * job->group + query % job->group;
    return (const float *)kvc_span_data(job->call->q) + (row * job->call->heads + head) * job->d;
}

/* M is the maximum of a query's m over all tiles, and L is the sum of c * l, where c = exp(m - M). Replaces m [tiles,
 * queries] by c and the first row of l by L, and writes M to the array `most` [queries]. If a query does not see a
 * tile, the tile's m is -inf and its l is 0, which changes nothing. */
static void merge_sums(const struct tile_results *results, uint32_t tiles, uint32_t queries, float *most) {
    for (uint32_t i = 0; i < queries; i += LANES) {
        const uint32_t n = kvc_min_u32(queries - i, LANES);
        vf M = vf_set(-kvc_infinity()), L = vf_zero();
        for (uint32_t t = 0; t < tiles; t++)
            M = vf_max(M, vf_part_load(results->m + (size_t)t * queries + i, n));
        for (uint32_t t = 0; t < tiles; t++) {
            const size_t at = (size_t)t * queries + i;
            const vf c = exp_not_above_zero(vf_sub(vf_part_load(results->m + at, n), M));
            vf_part_store(results->m + at, c, n);
            L = vf_fma(c, vf_part_load(results->l + at, n), L);
        }
        vf_part_store(most + i, M, n);
        vf_part_store(results->l + i, L, n);
    }
}

/* Merges n vectors of a query's channels: sum = (sum of c * o over tiles) / L. From one tile to the next, c advances by
 * c_step floats and o by o_step floats. */
INLINE void merge_channels(unsigned n, const float *c, size_t c_step, const float *o, size_t o_step, size_t ahead,
                           uint32_t tiles, float L, float *sum) {
    vf x[4];
    UNROLL
    for (unsigned v = 0; v < n; v++)
        x[v] = vf_zero();
    for (uint32_t t = 0; t < tiles; t++, c += c_step, o += o_step) {
        const vf weight = vf_set(*c);
        UNROLL
        for (unsigned v = 0; v < n; v++) {
            /* the next tile's results are far away in memory, so the loop prefetches results of later queries */
            if (v * LANES * sizeof *o % 64 == 0)
                __builtin_prefetch(o + ahead + v * LANES);
            x[v] = vf_fma(weight, vf_load(o + v * LANES), x[v]);
        }
    }
    UNROLL
    for (unsigned v = 0; v < n; v++)
        vf_store(sum + v * LANES, L != 0.0f ? vf_div(x[v], vf_set(L)) : x[v]);
}

/* Writes out, M and L of the unit's rows, from the results of tiles first .. first + tiles - 1. */
static void merge_unit(const struct attention_job *job, const struct attention_unit *unit,
                       const struct attention_work *work, const struct tile_results *results, uint32_t first,
                       uint32_t tiles) {
    const struct kvc_attention *call = job->call;
    const uint32_t queries = unit->rows * job->group, d = job->d;
    const size_t stride = unit->plan->many ? value_size(d) : padded_size(d), step = (size_t)queries * stride;
    if (tiles > 0)
        merge_sums(results, tiles, queries, work->most);
    for (uint32_t i = 0; i < queries; i++) {
        const struct seen_range range = work->seen[i / job->group];
        const size_t row = unit->segment->row + unit->row + i / job->group;
        const size_t cell = row * call->heads + (size_t)unit->head * job->group + i % job->group;
        float M = -kvc_infinity(), L = 0.0f, *sum = work->sum;
        if (range.low < range.high) {
            const uint32_t from = range.low / KVC_TILE - first, to = (range.high - 1) / KVC_TILE - first;
            const float *c = results->m + (size_t)from * queries + i, *o = results->o + from * step + i * stride;
            L = results->l[i];
            M = work->most[i];
            if (call->sinks.buffer)
                L = kvc_join_sink(L, M, ((const float *)kvc_span_data(call->sinks))[cell % call->heads]);
            M = kvc_is_nan(L) ? L : M + 0.0f;
            size_t v = 0;
            for (; v + 3 * LANES < d; v += 4 * LANES)
                merge_channels(4, c, queries, o + v, step, 2 * stride, to + 1 - from, L, sum + v);
            for (; v < d; v += LANES)
                merge_channels(1, c, queries, o + v, step, 2 * stride, to + 1 - from, L, sum + v);
        } else {
            memset(sum, 0, d * sizeof *sum);
        }
        memcpy((float *)kvc_span_data(call->out) + cell * d, sum, d * sizeof *sum);
        if (call->maximum.buffer) {
            ((float *)kvc_span_data(call->maximum))[cell] = M;
            ((float *)kvc_span_data(call->sum))[cell] = L;
        }
    }
}

/* Sets rows[r] to the range of entries that row r of the unit sees. Returns the smallest range that contains all these
 * ranges. Counts the entries that the rows read. */
INLINE struct seen_range unit_seen(const struct attention_job *job, const struct attention_unit *unit,
                                   const struct head_entries *head, struct seen_range *rows) {
    const struct kvc_attention *call = job->call;
    const size_t row = unit->segment->row + unit->row;
    const int32_t *positions = (const int32_t *)kvc_span_data(call->positions) + row;
    const uint32_t *causal_offset = (const uint32_t *)kvc_span_data(call->causal_offset) + row;
    struct seen_range any = {head->places, 0};
    uint64_t read = 0;
    for (uint32_t r = 0; r < unit->rows; r++) {
        const struct seen_range seen = head_seen(head, positions[r], causal_offset[r], call->window);
        rows[r] = seen;
        if (seen.low < seen.high) {
            any.low = kvc_min_u32(seen.low, any.low);
            any.high = kvc_max_u32(seen.high, any.high);
            read += seen.high - seen.low;
        }
    }
    if (unit->split == 0 && unit->segment->bytes_read)
        __atomic_fetch_add(unit->segment->bytes_read, read * kvc_entry_bytes(&unit->segment->lists->format),
                           __ATOMIC_RELAXED);
    return any;
}

/* Copies the unit's queries to the layout that its tiles need. */
INLINE void unit_queries(const struct attention_job *job, const struct attention_unit *unit,
                         struct attention_work *work) {
    const uint32_t d = job->d, queries = unit->rows * job->group;
    if (work->integer.kernels) {
        for (uint32_t i = 0; i < queries; i++)
            integer_query(&work->integer.queries, i, query_of(job, unit, i), d);
        integer_queries_end(&work->integer.queries, queries, d);
        return;
    }
    if (!unit->plan->many) {
        for (uint32_t i = 0; i < queries; i++)
            pad_query(work->q + i * padded_size(d), query_of(job, unit, i), d);
        return;
    }
    for (size_t c = 0; c < packed_size(d); c++)
        work->index[c] = (uint16_t)packed_index(c, d);
    for (uint32_t i = 0; i < queries; i += SCORE_QUERIES) {
        const float *some[SCORE_QUERIES];
        for (uint32_t j = 0; j < SCORE_QUERIES; j++)
            some[j] = i + j < queries ? query_of(job, unit, i + j) : NULL;
        pack_queries(some, d, work->index, work->q + i * packed_size(d));
    }
}

/* A task's part of a unit: the tiles `from` .. `to` - 1. */
struct attention_run {
    const struct attention_job *job;
    struct attention_unit unit;
    struct attention_work work;
    struct tile_results results; /* results of the unit's tiles, beginning with tile `first` */
    struct head_entries head;
    struct seen_range any; /* the entries that rows of the unit see */
    uint32_t queries, first, tiles, from, to;
    bool stored;        /* true if the kernels read the stored entries; otherwise each tile is rewritten first */
    enum kvc_type type; /* type of the entries that the kernels read */
    size_t row_bytes, value_offset, stride; /* stride: number of floats of a query's output */
    /* where the scores are kept, from the unit's first query and the head's first entry on */
    struct kept_scores keep;
};

/* A tile: its number, its entries, and the next tile's entries, which are prefetched. */
struct attention_tile {
    uint32_t number;
    struct seen_range all; /* the entries that rows of the unit see */
    const unsigned char **keys, **next;
    uint32_t next_rows, next_count; /* number of keys in `next`, and how many of them the kernels prefetch */
};

/* Prepares a task: its memory, its head, and its range of tiles. Returns false if memory runs out. */
static bool open_run(struct attention_run *run, const struct attention_job *job, size_t task, unsigned thread) {
    const struct attention_unit unit = run->unit = unit_of(job, task);
    const struct kvc_lists *lists = unit.segment->lists;
    struct attention_work *work = &run->work;
    const size_t own = lay_out(job, work, NULL), shared = thread == 0 ? job->shared_total : 0;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, shared + own);
    if (!scratch)
        return false;
    lay_out(job, work, scratch + shared);
    run->job = job;
    run->queries = unit.rows * job->group;
    work->integer.kernels =
        kvc_scores_integers(job->call->scoring, &lists->format) ? kvc_integers_for(job->cpu, run->queries) : NULL;
    run->results = work->own;
    if (job->split) {
        struct bump at = {job->shared + unit.number * job->shared_bytes, 0};
        run->results = bump_results(&at, job);
    }
    run->stored = reads_stored(&lists->format);
    run->type = work->rewritten.read = read_type(&lists->format, work->integer.kernels != NULL);
    run->row_bytes = run->stored ? lists->format.key.bytes : read_bytes(run->type, job->d);
    run->value_offset = run->stored ? lists->arena->values_at : KVC_TILE * run->row_bytes;
    run->stride = unit.plan->many ? value_size(job->d) : padded_size(job->d);
    run->head = head_open(lists, unit.segment->reads, unit.head, work->block);
    run->any = unit_seen(job, &unit, &run->head, work->seen);
    run->first = run->any.low / KVC_TILE;
    run->tiles = run->any.low < run->any.high ? (run->any.high - 1) / KVC_TILE + 1 - run->first : 0;
    run->from = run->first + (uint32_t)((uint64_t)run->tiles * unit.split / unit.plan->splits);
    run->to = run->first + (uint32_t)((uint64_t)run->tiles * (unit.split + 1) / unit.plan->splits);
    const struct score_record *record = job->memo ? &job->memo->record[unit.segment - job->call->segments] : NULL;
    run->keep = (struct kept_scores){NULL, record ? record->stride : 0};
    if (record && record->lists)
        run->keep.to = job->memo->values + record->scores + (size_t)unit.head * job->group * record->stride;
    return true;
}

/* Finds the entries of the tile after `last`, which is all zeros before the first tile. If the kernels cannot read the
 * stored entries, rewrites them. */
static struct attention_tile next_tile(struct attention_run *run, uint32_t t, const struct attention_tile *last) {
    const struct seen_range after = seen_in_tile(run->any, (t + 1) * KVC_TILE);
    struct attention_tile tile = {.number = t,
                                  .all = seen_in_tile(run->any, t * KVC_TILE),
                                  .keys = run->work.keys + t % 2 * KVC_TILE,
                                  .next = run->work.keys + (t + 1) % 2 * KVC_TILE,
                                  .next_rows = t + 1 == run->to ? 0 : after.high};
    const struct seen_range all = tile.all;
    tile.next_count = run->stored ? tile.next_rows : 0;
    if (last->next_rows == 0)
        head_keys(&run->head, t * KVC_TILE + all.low, all.high - all.low, tile.keys + all.low);
    if (tile.next_rows)
        head_keys(&run->head, (t + 1) * KVC_TILE, tile.next_rows, tile.next);
    if (!run->stored)
        tile.keys = rewrite_entries(&run->work.rewritten, &run->unit.segment->lists->format, &run->head, t * KVC_TILE,
                                    tile.keys, all.low, all.high, tile.next, tile.next_rows, t > run->from);
    return tile;
}

/* Writes the range of a tile's entries that each query sees. */
static void query_ranges(struct attention_run *run, uint32_t t) {
    for (uint32_t i = 0; i < run->queries; i++)
        run->work.in[i] = seen_in_tile(run->work.seen[i / run->job->group], t * KVC_TILE);
}

/* Three ways to compute a tile and write its results to `to`: with integer arithmetic, for many queries, and for few
 * queries. */
static void tile_of_integers(struct attention_run *run, const struct attention_tile *tile, struct kept_scores keep,
                             struct tile_results to) {
    struct integer_work *integer = &run->work.integer;
    const struct kvc_integer_entries entries = {tile->keys,  run->value_offset, tile->all,
                                                run->job->d, tile->next,        tile->next_count};
    query_ranges(run, tile->number);
    integer->kernels->pack_keys(&entries, &integer->tile);
    integer->kernels->pack_values(&entries, &integer->tile);
    integer_tile(integer, run->queries, run->work.in, run->job->scale, run->job->cap, keep, run->work.s, to.m, to.l,
                 to.o, run->stride);
}

static void tile_of_many(struct attention_run *run, const struct attention_tile *tile, struct tile_results to) {
    const struct attention_work *work = &run->work;
    const struct seen_range all = tile->all;
    const uint32_t d = run->job->d;
    const struct gemm_ahead ahead = {tile->next, tile->next_count, run->value_offset, run->row_bytes};
    query_ranges(run, tile->number);
    pack_keys(run->type, tile->keys, all.low, all.high, d, work->index, work->packed_keys);
    pack_values(run->type, tile->keys, run->value_offset, all.low, all.high, d, work->packed_values);
    gemm_tile(work->packed_keys, work->packed_values, work->q, run->queries, work->in, d, run->job->scale,
              run->job->cap, &ahead, work->s, to.m, to.l, to.o);
}

static void tile_of_few(struct attention_run *run, const struct attention_tile *tile, struct kept_scores keep,
                        struct tile_results to) {
    const struct attention_work *work = &run->work;
    const struct head_entries *head = &run->head;
    const struct tile_entries entries = {run->type,
                                         tile->keys,
                                         run->value_offset,
                                         run->row_bytes,
                                         run->stored ? fill_bytes(head) : 0,
                                         tile->all.low,
                                         tile->all.high,
                                         tile->number > run->from && !head->order && !head->index};
    const struct tile_queries queries = {work->q, run->queries, run->job->d, run->job->scale};
    small_batch_scores(&entries, tile->all.high, &queries, work->wide, work->s);
    for (uint32_t h = 0; run->job->cap != 0.0f && h < run->queries; h++)
        cap_scores(work->s + (size_t)h * KVC_TILE, KVC_TILE, run->job->cap);
    small_batch_tile(&entries, (struct next_keys){tile->next, tile->next_count}, &queries, work->s, keep, to);
}

static void attention_task(void *argument, size_t task, unsigned thread) {
    const struct attention_job *job = argument;
    struct attention_run run;
    struct attention_tile tile = {.next_rows = 0};
    if (!open_run(&run, job, task, thread))
        return;
    if (run.from < run.to)
        unit_queries(job, &run.unit, &run.work);
    for (uint32_t t = run.from; t < run.to; t++) {
        const size_t at = (size_t)(t - run.first) * run.queries;
        const struct tile_results to = {run.results.m + at, run.results.l + at, run.results.o + at * run.stride};
        const struct kept_scores keep = {run.keep.to ? run.keep.to + (size_t)t * KVC_TILE : NULL, run.keep.stride};
        tile = next_tile(&run, t, &tile);
        if (run.work.integer.kernels)
            tile_of_integers(&run, &tile, keep, to);
        else if (run.unit.plan->many)
            tile_of_many(&run, &tile, to);
        else
            tile_of_few(&run, &tile, keep, to);
    }
    if (run.unit.plan->splits == 1 || atomic_fetch_sub(&job->unfinished[run.unit.number], 1) == 1)
        merge_unit(job, &run.unit, &run.work, &run.results, run.first, run.tiles);
}

#endif
