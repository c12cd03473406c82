/* columns.h - template: reads state columns as scores, and writes scores to a state column. */
#ifndef KVC_SIMD_SCORES_COLUMNS_H
#define KVC_SIMD_SCORES_COLUMNS_H

#include "backends/cpu/simd/attention/entries.h"

struct columns_job {
    const struct kvc_lists *lists;
    struct kvc_cpu *cpu;
    float *scores;
    uint32_t first, columns, stride;
};

static void column_scores_task(void *argument, size_t h, unsigned thread) {
    const struct columns_job *job = argument;
    const struct kvc_lists *lists = job->lists;
    const uint32_t base = lists->host_base[h], slots = lists->host_base[h + 1] - base;
    const uint32_t count = ((const uint32_t *)lists->count->data)[h];
    const uint32_t *order = lists->order ? (const uint32_t *)lists->order->data + base : NULL;
    const float *column =
        (const float *)lists->state->data + (size_t)lists->columns * base + (size_t)job->first * slots;
    float *scores = job->scores + h * job->stride;
    KVC_ASSERT(count <= job->stride);
    /* adds up the columns by slot, then puts the sums into the order of indices */
    if (order && job->columns > 1 && slots <= 2 * count + KVC_TILE) {
        float *sums = kvc_cpu_scratch(job->cpu, thread, slots * sizeof *sums);
        if (!sums)
            return;
        for (uint32_t s = 0; s < slots; s += LANES) { /* slots is a multiple of KVC_EXTRA_SLOTS */
            vf sum = vf_load(column + s);
            for (uint32_t c = 1; c < job->columns; c++)
                sum = vf_add(sum, vf_load(column + (size_t)c * slots + s));
            vf_store(sums + s, sum);
        }
        for (uint32_t r = 0; r < count; r++)
            scores[r] = sums[order[r]];
        return;
    }
    for (uint32_t r = 0; order && r < count; r++)
        scores[r] = column[order[r]];
    if (!order)
        memcpy(scores, column, count * sizeof *scores);
    for (uint32_t c = 1; c < job->columns; c++) {
        column += slots;
        uint32_t r = 0;
        for (; order && r < count; r++)
            scores[r] = scores[r] + column[order[r]];
        for (; r < count; r += LANES)
            vf_part_store(scores + r, vf_add(vf_part_load(scores + r, count - r), vf_part_load(column + r, count - r)),
                          count - r);
    }
}

static void scores_column_task(void *argument, size_t h, unsigned thread) {
    const struct columns_job *job = argument;
    const struct kvc_lists *lists = job->lists;
    const uint32_t base = lists->host_base[h], slots = lists->host_base[h + 1] - base;
    const uint32_t count = ((const uint32_t *)lists->count->data)[h];
    const uint32_t *order = lists->order ? (const uint32_t *)lists->order->data + base : NULL;
    float *column = (float *)lists->state->data + (size_t)lists->columns * base + (size_t)job->first * slots;
    const float *scores = job->scores + h * job->stride;
    (void)thread;
    for (uint32_t r = 0; order && r < count; r++)
        column[order[r]] = scores[r];
    if (!order)
        memcpy(column, scores, count * sizeof *scores);
}

static void run_columns(struct kvc_device *device, struct columns_job *job, kvc_task_fn *run) {
    KVC_ASSERT(job->columns > 0 && job->first + job->columns <= job->lists->columns);
    double work = 0.0;
    for (uint32_t h = 0; h < job->lists->kv_heads; h++)
        work += (double)((const uint32_t *)job->lists->count->data)[h] * job->columns * (job->lists->order ? 3.0 : 1.0);
    kvc_threads_run(threads_for((struct kvc_cpu *)device, work), job->lists->kv_heads, run, job);
}

static void column_scores(struct kvc_device *device, const struct kvc_column_scores *args) {
    struct columns_job job = {
        args->lists, (struct kvc_cpu *)device, kvc_span_data(args->scores), args->first, args->columns, args->stride};
    run_columns(device, &job, column_scores_task);
}

static void scores_column(struct kvc_device *device, const struct kvc_scores_column *args) {
    struct columns_job job = {args->lists, (struct kvc_cpu *)device, kvc_span_data(args->scores), args->column, 1,
                              args->stride};
    run_columns(device, &job, scores_column_task);
}

#endif
