/* attention.h - template: the attention operation, and its division into tasks (task.h). */
#ifndef KVC_SIMD_ATTENTION_ATTENTION_H
#define KVC_SIMD_ATTENTION_ATTENTION_H

#include "backends/cpu/simd/attention/task.h"

#define BLOCK_QUERIES 384u /* largest number of queries that share a packed tile */
/* limit for the size of a unit's tile results; blocks of rows are made smaller to stay below it if possible */
#define PARTIAL_BYTES ((size_t)16 << 20)

/* Divides the call into tasks. Returns the number of vector operations. */
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
        const bool integers = kvc_scores_integers(call->scoring, &segment->lists->format);
        job->any_integers = job->any_integers || integers;
        if (!reads_stored(&segment->lists->format)) {
            const enum kvc_type read = read_type(&segment->lists->format, integers);
            job->rewritten_type = !job->any_rewritten || read == KVC_F32 ? read : job->rewritten_type;
            job->any_rewritten = true;
        }
    }
    job->queries_most = job->rows_most * job->group;
    return work;
}

/* Makes a score record (score_memo.h) for every segment that has a single row which sees all entries of its lists.
 * Returns NULL if there is no such segment. */
static struct score_memo *plan_memo(const struct attention_job *job) {
    const struct kvc_attention *call = job->call;
    const uint32_t *causal_offset = kvc_span_data(call->causal_offset);
    const size_t q_size = (size_t)call->heads * call->head_size;
    struct score_memo *memo = NULL;
    for (int made = 0; made < 2; made++) { /* the first pass counts the records, the second fills them */
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
    /* The arrays are placed again, because the scratch memory may have moved when it grew. */
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
    /* if a select operation has prefetched a head's entries, the head goes to the thread that did this */
    stealing_run(cpu, threads_for(cpu, vectors), job.tasks, attention_task, &job);
}

#endif
