/* series.h - template: TriAttention's scores: series_scores. A task computes one head. */
#ifndef KVC_SIMD_SCORES_SERIES_H
#define KVC_SIMD_SCORES_SERIES_H

#include "core/base/integers.h"
#include "backends/cpu/simd/scores/entries.h"

struct series_job {
    struct kvc_cpu *cpu;
    const struct kvc_series_scores *args;
    uint32_t blocks_most;
};

struct series_work {
    const unsigned char **block;
    float *key, *length; /* [padded] */
    float *s;            /* [G, count] */
};

static size_t lay_out_series(const struct series_job *job, size_t count, struct series_work *work,
                             unsigned char *base) {
    struct bump at = {base, 0};
    const size_t bytes = padded_size(job->args->lists->format.head_size) * sizeof(float);
    work->block = bump_take(&at, job->blocks_most * sizeof *work->block);
    work->key = bump_take(&at, bytes);
    work->length = bump_take(&at, bytes);
    work->s = bump_take(&at, job->args->heads / job->args->lists->kv_heads * count * sizeof(float));
    return at.used;
}

/* Returns the sum of x [count], or of its squares. */
static float sum_indices(const float *x, uint32_t count, bool squares) {
    float sum = 0.0f;
    for (uint32_t tile = 0; tile < count; tile += KVC_TILE) {
        float lane[KVC_LANES] = {0};
        for (uint32_t r = tile; r < count && r < tile + KVC_TILE; r++)
            lane[r % KVC_LANES] = squares ? kvc_fma(x[r], x[r], lane[r % KVC_LANES]) : lane[r % KVC_LANES] + x[r];
        KVC_TREE32(lane);
        sum = sum + lane[0];
    }
    return sum;
}

static void normalise(float *s, uint32_t count) {
    const float n = (float)count, mean = kvc_div(sum_indices(s, count, false), n);
    for (uint32_t r = 0; r < count; r++)
        s[r] = s[r] - mean;
    const float deviation = kvc_max(kvc_sqrt(kvc_div(sum_indices(s, count, true), n)), 1e-6f);
    for (uint32_t r = 0; r < count; r++)
        s[r] = kvc_div(s[r], deviation);
}

/* Loads the key and computes the lengths of its pairs of channels. */
static void load_pairs(enum kvc_type type, const unsigned char *row, size_t d, size_t pairs,
                       const struct series_work *work) {
    size_t i = 0;
    for (size_t c = 0; c < d; c += LANES)
        vf_store(work->key + c, some_channels(type, row, c, d));
    for (; i + LANES <= pairs; i += LANES) {
        const vf a = vf_load(work->key + i), b = vf_load(work->key + i + pairs);
        vf_store(work->length + i, vf_sqrt(vf_fma(b, b, vf_mul(a, a))));
    }
    for (; i < pairs; i++)
        work->length[i] = kvc_sqrt(kvc_fma(work->key[i + pairs], work->key[i + pairs], work->key[i] * work->key[i]));
}

static void series_scores_task(void *argument, size_t task, unsigned thread) {
    const struct series_job *job = argument;
    const struct kvc_series_scores *args = job->args;
    const size_t d = args->lists->format.head_size, group = args->heads / args->lists->kv_heads, pairs = args->pairs;
    const uint32_t count = ((const uint32_t *)args->lists->count->data)[task];
    const float *mean = (const float *)kvc_span_data(args->mean) + task * group * d;
    const float *spread = (const float *)kvc_span_data(args->spread) + task * group * pairs;
    float *score = (float *)kvc_span_data(args->scores) + task * args->stride;
    struct series_work work;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, lay_out_series(job, count, &work, NULL));
    if (!scratch)
        return;
    lay_out_series(job, count, &work, scratch);
    const struct head_entries head = head_open(args->lists, NULL, (uint32_t)task, work.block);
    for (uint32_t r = 0; r < count; r++) {
        load_pairs(args->lists->format.key.type, slot_key(&head, head_slot(&head, r)), d, pairs, &work);
        for (size_t g = 0; g < group; g++)
            work.s[g * count + r] = dot_row(KVC_F32, (const unsigned char *)(mean + g * d), work.key, d) +
                                    dot_row(KVC_F32, (const unsigned char *)(spread + g * pairs), work.length, pairs);
        score[r] = args->average ? 0.0f : -kvc_infinity();
    }
    for (size_t g = 0; g < group; g++) {
        float *s = work.s + g * count;
        normalise(s, count);
        for (uint32_t r = 0; r < count; r++)
            score[r] = args->average ? score[r] + s[r] : kvc_max(score[r], s[r]);
    }
    for (uint32_t r = 0; r < count && args->average; r++)
        score[r] = kvc_div(score[r], (float)group);
}

static void series_scores(struct kvc_device *device, const struct kvc_series_scores *args) {
    struct series_job job = {(struct kvc_cpu *)device, args, 0};
    const double d = args->lists->format.head_size, group = (double)args->heads / args->lists->kv_heads;
    const double work = entries_work(args->lists, (group + 1.0) * 2.0 * d / LANES + group * 8.0, &job.blocks_most);
    kvc_threads_run(threads_for(job.cpu, work), args->lists->kv_heads, series_scores_task, &job);
}

#endif
