/* attention.h - template: the attention operation: its division into tasks and the merge of tiles.
 *
 * A unit is a block of rows of one segment, for one KV head. A task computes a unit, or a range of its tiles if there
 * are fewer units than the threads need. Each tile gives m, l and o. The thread that completes a unit merges its tiles
 * in ascending order.
 */
#ifndef KVC_SIMD_ATTENTION_ATTENTION_H
#define KVC_SIMD_ATTENTION_ATTENTION_H

#include <stdatomic.h>

#include "core/base/integers.h"
#include "backends/cpu/simd/attention/integer_tile.h"
#include "backends/cpu/simd/attention/packed.h"
#include "backends/cpu/simd/bump.h"
#include "backends/cpu/simd/scores/score_memo.h"
#include "backends/cpu/stealing.h"

#define BLOCK_QUERIES 384u /* limit for the queries that share a packed tile */
/* limit for the tile results of a unit, met by smaller blocks of rows if possible */
#define PARTIAL_BYTES ((size_t)16 << 20)

struct segment_plan {
    size_t first_task, first_unit;
    uint32_t row_block, blocks, splits; /* rows per unit, units per head, tasks per unit */
    uint32_t tiles;                     /* of the longest head */
    bool many;
};

struct attention_work {
    const unsigned char **block, **keys; /* [blocks of the longest head], [2 tiles of KVC_TILE] */
    struct seen_range *seen, *in;        /* [rows of a block], [queries] */
    uint16_t *index;                     /* [packed_size(d)] */
    float *q, *wide, *s, *packed_keys, *packed_values, *sum, *most;
    struct integer_work integer;
    struct rewritten rewritten;
    struct tile_results own; /* NULL for units that are divided among tasks: shared memory holds their results */
};

struct attention_job {
    struct kvc_cpu *cpu;
    const struct kvc_attention *call;
    struct segment_plan *plan; /* [segment_count] */
    size_t tasks;
    unsigned char *shared; /* tile results of divided units, shared_bytes each */
    size_t shared_bytes, shared_total;
    _Atomic uint32_t *unfinished; /* [units], tasks left; only if units are divided among tasks */
    size_t cells_most;            /* tiles times queries of a unit */
    uint32_t group, d, blocks_most, rows_most, queries_most;
    bool any_gemm, any_integers, split;
    bool any_rewritten;           /* some entries are not read as they are stored */
    enum kvc_type rewritten_type; /* the largest type in which entries are rewritten */
    struct score_memo *memo;      /* NULL if there is no record to fill */
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
    work->rewritten = (struct rewritten){NULL, NULL, NULL};
    if (job->any_rewritten)
        rewritten_lay_out(&at, job->rewritten_type, d, true, &work->rewritten);
    const size_t score_rows = job->any_gemm ? QUERIES_AT_ONCE : SMALL_BATCH_QUERIES;
    work->s = bump_take(&at, score_rows * KVC_TILE * f);
    work->packed_keys = bump_take(&at, job->any_gemm ? packed_size(d) * KVC_TILE * f : 0);
    work->packed_values = bump_take(&at, job->any_gemm ? value_size(d) * KVC_TILE * f : 0);
    work->own = job->split ? (struct tile_results){NULL, NULL, NULL} : bump_results(&at, job);
    return at.used;
}

/* Returns the largest distance in bytes between two rows of a read list at which the memory between them is prefetched
 * too. Memory is read faster in order, so gaps of a few rows are filled if the list is dense and its rows are long.
 * Otherwise no gap is filled. Returns 0 if all entries are read. */
static size_t fill_bytes(const struct head_entries *head) {
    const bool dense = (uint64_t)head->places * 8 >= head->count && head->key_bytes >= 256;
    return head->index ? (dense ? 3 : 1) * head->key_bytes : 0;
}

/* The work of one task. */
struct attention_unit {
    const struct kvc_segment *segment;
    const struct segment_plan *plan;
    uint32_t head, row, rows, split; /* row: the first one, relative to the segment */
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
    /* The last rows see the most entries, so they come first. */
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

/* Replaces m [tiles, queries] by c = exp(m - M) and the first row of l by L, and writes M to most [queries]. A tile
 * that a query does not see has m = -inf and l = 0, which change nothing. */
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
            /* results of different tiles are far apart in memory: prefetch the results of later queries */
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

/* Writes the range that each row of the unit sees to `rows`, and returns the smallest range that contains them. Counts
 * the entries that the rows read. */
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

static void attention_task(void *argument, size_t task, unsigned thread) {
    const struct attention_job *job = argument;
    const struct kvc_attention *call = job->call;
    const struct attention_unit unit = unit_of(job, task);
    const struct kvc_lists *lists = unit.segment->lists;
    const bool stored = reads_stored(&lists->format);
    const enum kvc_type type = read_type(&lists->format);
    const uint32_t d = job->d, group = job->group, queries = unit.rows * group;
    const bool many = unit.plan->many, split = unit.plan->splits > 1;
    const size_t stride = many ? value_size(d) : padded_size(d);
    const size_t row_bytes = stored ? lists->format.key.bytes : read_bytes(type, d);
    const size_t value_offset = stored ? lists->arena->values_at : KVC_TILE * row_bytes;
    struct attention_work work;
    const size_t own = lay_out(job, &work, NULL), shared = thread == 0 ? job->shared_total : 0;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, shared + own);
    if (!scratch)
        return;
    lay_out(job, &work, scratch + shared);
    work.integer.kernels =
        kvc_scores_integers(call->scoring, &lists->format) ? kvc_integers_for(job->cpu, queries) : NULL;
    struct tile_results results = work.own;
    if (job->split) {
        struct bump at = {job->shared + unit.number * job->shared_bytes, 0};
        results = bump_results(&at, job);
    }

    const struct head_entries head = head_open(lists, unit.segment->reads, unit.head, work.block);
    const size_t fill = stored ? fill_bytes(&head) : 0;
    const struct seen_range any = unit_seen(job, &unit, &head, work.seen);
    const uint32_t low = any.low, high = any.high;
    const uint32_t first = low / KVC_TILE, tiles = low < high ? (high - 1) / KVC_TILE + 1 - first : 0;
    const uint32_t from = first + (uint32_t)((uint64_t)tiles * unit.split / unit.plan->splits);
    const uint32_t to = first + (uint32_t)((uint64_t)tiles * (unit.split + 1) / unit.plan->splits);
    if (from < to)
        unit_queries(job, &unit, &work);
    const struct score_record *record = job->memo ? &job->memo->record[unit.segment - call->segments] : NULL;
    const size_t keep_stride = record ? record->stride : 0;
    float *keep =
        record && record->lists ? job->memo->values + record->scores + (size_t)unit.head * group * keep_stride : NULL;
    uint32_t next_filled = 0;
    for (uint32_t t = from; t < to; t++) {
        const struct seen_range all = seen_in_tile((struct seen_range){low, high}, t * KVC_TILE);
        const size_t at = (size_t)(t - first) * queries;
        const struct seen_range then = seen_in_tile((struct seen_range){low, high}, (t + 1) * KVC_TILE);
        const unsigned char **keys = work.keys + t % 2 * KVC_TILE, **next = work.keys + (t + 1) % 2 * KVC_TILE;
        const uint32_t next_rows = t + 1 == to ? 0 : then.high, next_count = stored ? next_rows : 0;
        if (t == from || next_filled == 0)
            head_keys(&head, t * KVC_TILE + all.low, all.high - all.low, keys + all.low);
        if (next_rows)
            head_keys(&head, (t + 1) * KVC_TILE, next_rows, next);
        next_filled = next_rows;
        if (!stored)
            keys = rewrite_entries(&work.rewritten, &lists->format, &head, t * KVC_TILE, keys, all.low, all.high, next,
                                   next_rows, t > from);
        if (many || work.integer.kernels)
            for (uint32_t i = 0; i < queries; i++)
                work.in[i] = seen_in_tile(work.seen[i / group], t * KVC_TILE);
        if (work.integer.kernels) {
            const struct kvc_integer_entries entries = {keys, value_offset, all, d, next, next_count};
            work.integer.kernels->pack_keys(&entries, &work.integer.tile);
            work.integer.kernels->pack_values(&entries, &work.integer.tile);
            integer_tile(&work.integer, queries, work.in, job->scale, job->cap,
                         (struct kept_scores){keep ? keep + (size_t)t * KVC_TILE : NULL, keep_stride}, work.s,
                         results.m + at, results.l + at, results.o + at * stride, stride);
        } else if (many) {
            pack_keys(type, keys, all.low, all.high, d, work.index, work.packed_keys);
            pack_values(type, keys, value_offset, all.low, all.high, d, work.packed_values);
            const struct gemm_ahead ahead = {next, next_count, value_offset, row_bytes};
            gemm_tile(work.packed_keys, work.packed_values, work.q, queries, work.in, d, job->scale, job->cap, &ahead,
                      work.s, results.m + at, results.l + at, results.o + at * stride);
        } else {
            const struct tile_entries tile = {type, keys,    value_offset, row_bytes,
                                              fill, all.low, all.high,     t > from && !head.order && !head.index};
            const struct tile_queries tile_queries = {work.q, queries, d, job->scale};
            small_batch_scores(&tile, all.high, &tile_queries, work.wide, work.s);
            for (uint32_t h = 0; job->cap != 0.0f && h < queries; h++)
                cap_scores(work.s + (size_t)h * KVC_TILE, KVC_TILE, job->cap);
            small_batch_tile(&tile, (struct next_keys){next, next_count}, &tile_queries, work.s,
                             (struct kept_scores){keep ? keep + (size_t)t * KVC_TILE : NULL, keep_stride},
                             (struct tile_results){results.m + at, results.l + at, results.o + at * stride});
        }
    }
    if (!split || atomic_fetch_sub(&job->unfinished[unit.number], 1) == 1)
        merge_unit(job, &unit, &work, &results, first, tiles);
}

/* Divides the call into tasks. Returns the work in vector operations. */
static double plan_attention(struct attention_job *job, unsigned threads) {
    const struct kvc_attention *call = job->call;
    size_t units = 0;
    double work = 0.0;
    for (size_t i = 0; i < call->segment_count; i++) {
        const struct kvc_segment *segment = &call->segments[i];
        struct segment_plan *plan = &job->plan[i];
        uint32_t places = 0;
        for (uint32_t h = 0; h < call->kv_heads; h++) {
            const struct kvc_buffer *counts = segment->reads ? segment->reads->count : segment->lists->count;
            const uint32_t n = ((const uint32_t *)counts->data)[h];
            const uint32_t blocks = (uint32_t)head_block_count(segment->lists, h);
            places = kvc_max_u32(n, places);
            job->blocks_most = kvc_max_u32(blocks, job->blocks_most);
            work += 2.5 * n * job->group * segment->rows * (job->d + 16.0) / LANES;
        }
        plan->tiles = (places + KVC_TILE - 1) / KVC_TILE;
        plan->many = (uint64_t)segment->rows * job->group > SMALL_BATCH_QUERIES;
        plan->row_block = 1;
        if (plan->many) {
            const size_t bytes = (size_t)plan->tiles * (value_size(job->d) + 2) * sizeof(float);
            uint32_t block = BLOCK_QUERIES;
            while (block > 12 && bytes * block > PARTIAL_BYTES)
                block /= 2;
            plan->row_block = block / job->group > 0 ? block / job->group : 1;
            if (plan->row_block > segment->rows)
                plan->row_block = segment->rows;
        }
        plan->blocks = plan->row_block ? (segment->rows + plan->row_block - 1) / plan->row_block : 0;
        units += (size_t)plan->blocks * call->kv_heads;
    }
    const bool alone = work < POOL_WORK;
    size_t unit = 0;
    for (size_t i = 0; i < call->segment_count; i++) {
        const struct kvc_segment *segment = &call->segments[i];
        struct segment_plan *plan = &job->plan[i];
        plan->splits = 1;
        if (!alone && threads > 1 && units < (size_t)2 * threads && plan->tiles > 1) {
            const size_t wanted = ((size_t)4 * threads + units - 1) / units;
            plan->splits = wanted < plan->tiles ? (uint32_t)wanted : plan->tiles;
            job->split = true;
        }
        plan->first_task = job->tasks;
        plan->first_unit = unit;
        unit += (size_t)plan->blocks * call->kv_heads;
        job->tasks += (size_t)plan->blocks * call->kv_heads * plan->splits;
        job->rows_most = kvc_max_u32(plan->row_block, job->rows_most);
        const size_t cells = (size_t)plan->tiles * plan->row_block * job->group;
        job->cells_most = kvc_max_u64(cells, job->cells_most);
        job->any_gemm = job->any_gemm || plan->many;
        job->any_integers = job->any_integers || kvc_scores_integers(call->scoring, &segment->lists->format);
        if (!reads_stored(&segment->lists->format)) {
            const enum kvc_type read = read_type(&segment->lists->format);
            job->rewritten_type = !job->any_rewritten || read == KVC_F32 ? read : job->rewritten_type;
            job->any_rewritten = true;
        }
    }
    job->queries_most = job->rows_most * job->group;
    return work;
}

/* Makes a score record for every segment that has one row and sees all of its lists. Returns NULL if there is none. */
static struct score_memo *plan_memo(const struct attention_job *job) {
    const struct kvc_attention *call = job->call;
    const uint32_t *causal_offset = kvc_span_data(call->causal_offset);
    const size_t q_size = (size_t)call->heads * call->head_size;
    struct score_memo *memo = NULL;
    for (int made = 0; made < 2; made++) { /* the first round counts, the second fills in */
        size_t values = 0, wanted = 0;
        for (size_t i = 0; i < call->segment_count; i++) {
            const struct kvc_segment *segment = &call->segments[i];
            if (segment->rows != 1 || segment->reads || call->window || job->plan[i].many ||
                causal_offset[segment->row])
                continue;
            const uint32_t stride = memo_stride(job->plan[i].tiles * KVC_TILE);
            const struct score_record record = {
                segment->lists, call->heads, call->head_size,         stride,
                call->scoring,  values,      values + call->kv_heads, values + call->kv_heads + q_size};
            wanted++;
            values += call->kv_heads + q_size + (size_t)call->heads * stride;
            if (!made)
                continue;
            memo->record[i] = record;
            memcpy(memo->values + record.count, segment->lists->count->data, call->kv_heads * sizeof(uint32_t));
            memcpy(memo->values + record.q, (const float *)kvc_span_data(call->q) + segment->row * q_size,
                   q_size * sizeof(float));
        }
        if (!made)
            memo = memo_open(job->cpu, wanted ? call->segment_count : 0, values);
        if (!memo)
            return NULL;
    }
    return memo;
}

static void attention(struct kvc_device *device, const struct kvc_attention *call) {
    struct kvc_cpu *cpu = (struct kvc_cpu *)device;
    struct attention_job job = {.cpu = cpu,
                                .call = call,
                                .group = call->heads / call->kv_heads,
                                .d = call->head_size,
                                .scale = kvc_score_scale(call->scoring.scale, call->head_size),
                                .cap = call->scoring.cap};
    struct attention_work work;
    const size_t plan_bytes = (call->segment_count * sizeof *job.plan + 63) / 64 * 64;
    job.plan = kvc_cpu_scratch(cpu, 0, plan_bytes);
    if (!job.plan)
        return;
    const double vectors = plan_attention(&job, kvc_threads_count(cpu->threads));
    size_t units = 0, counters = 0;
    if (job.split) {
        const struct segment_plan *last = &job.plan[call->segment_count - 1];
        struct bump at = {NULL, 0};
        units = last->first_unit + (size_t)last->blocks * call->kv_heads;
        bump_results(&at, &job);
        job.shared_bytes = at.used;
        counters = (units * sizeof *job.unfinished + 63) / 64 * 64;
    }
    job.shared_total = plan_bytes + counters + units * job.shared_bytes;
    /* The scratch memory may have moved when it grew, so the arrays are placed again. */
    unsigned char *scratch = kvc_cpu_scratch(cpu, 0, job.shared_total + lay_out(&job, &work, NULL));
    if (!scratch)
        return;
    job.plan = (struct segment_plan *)(void *)scratch;
    job.unfinished = (_Atomic uint32_t *)(void *)(scratch + plan_bytes);
    job.shared = scratch + plan_bytes + counters;
    job.tasks = 0;
    plan_attention(&job, kvc_threads_count(cpu->threads));
    for (size_t i = 0, unit = 0; job.split && i < call->segment_count; i++)
        for (size_t n = (size_t)job.plan[i].blocks * call->kv_heads; n > 0; n--)
            atomic_init(&job.unfinished[unit++], job.plan[i].splits);
    job.memo = plan_memo(&job);
    /* the thread that prefetched a head's entries in a select operation reads that head */
    stealing_run(cpu, threads_for(cpu, vectors), job.tasks, attention_task, &job);
}

#endif
