/* expected.h - template: expected attention: query_moments, expected_scores and mean_weights. A task computes one head.
 */
#ifndef KVC_SIMD_SCORES_EXPECTED_H
#define KVC_SIMD_SCORES_EXPECTED_H

#include "core/base/integers.h"
#include "backends/cpu/simd/scores/entries.h"

/* ---- query_moments ---- */

struct query_moments_job {
    struct kvc_cpu *cpu;
    const struct kvc_query_moments *args;
};

static void moments_task(void *argument, size_t task, unsigned thread) {
    const struct query_moments_job *job = argument;
    const struct kvc_query_moments *args = job->args;
    const size_t d = args->head_size, width = args->heads * d, half = args->interleaved / 2;
    KVC_ASSERT(2 * half <= d);
    const float *from = (const float *)kvc_span_data(args->q) + task * d;
    float *sum = (float *)kvc_span_data(args->sums) + task * (d + 1) * d;
    float *q = kvc_cpu_scratch(job->cpu, thread, d * sizeof *q);
    if (!q)
        return;
    if (args->first)
        memset(sum, 0, (d + 1) * d * sizeof *sum);
    for (uint32_t i = 0; i < args->rows; i++, from += width) {
        for (size_t c = 0; c < d; c++) {
            q[c] = from[c < half ? 2 * c : c < 2 * half ? 2 * (c - half) + 1 : c];
            sum[c] = sum[c] + q[c];
        }
        for (size_t b = 0; b < d; b++) {
            float *row = sum + (b + 1) * d;
            const vf x = vf_set(q[b]);
            size_t c = 0;
            for (; c + LANES <= d; c += LANES)
                vf_store(row + c, vf_fma(x, vf_load(q + c), vf_load(row + c)));
            if (c < d)
                vf_part_store(row + c, vf_fma(x, vf_part_load(q + c, d - c), vf_part_load(row + c, d - c)), d - c);
        }
    }
}

static void query_moments(struct kvc_device *device, const struct kvc_query_moments *args) {
    const double work = (double)args->rows * args->heads * args->head_size * args->head_size / LANES;
    struct query_moments_job job = {(struct kvc_cpu *)device, args};
    kvc_threads_run(threads_for(job.cpu, work), args->heads, moments_task, &job);
}

/* ---- expected_scores ---- */

struct expected_job {
    struct kvc_cpu *cpu;
    const struct kvc_expected_scores *args;
    uint32_t blocks_most;
};

struct expected_work {
    const unsigned char **block;
    float *key, *y, *mean; /* [padded] */
    float *covariance;     /* [d, padded] */
    float *p;              /* [count] */
};

static size_t lay_out_expected(const struct expected_job *job, size_t count, struct expected_work *work,
                               unsigned char *base) {
    struct bump at = {base, 0};
    const size_t d = job->args->lists->format.head_size, bytes = padded_size(d) * sizeof(float);
    work->block = bump_take(&at, job->blocks_most * sizeof *work->block);
    work->key = bump_take(&at, bytes);
    work->y = bump_take(&at, bytes);
    work->mean = bump_take(&at, bytes);
    work->covariance = bump_take(&at, d * bytes);
    work->p = bump_take(&at, count * sizeof(float));
    return at.used;
}

static void close_moments(const struct kvc_expected_scores *args, size_t head, size_t d, struct expected_work *work) {
    const float *sum = (const float *)kvc_span_data(args->sums) + head * (d + 1) * d, n = (float)args->queries;
    for (size_t c = 0; c < d; c++)
        work->mean[c] = kvc_div(sum[c], n);
    for (size_t b = 0; b < d; b++)
        for (size_t c = 0; c < d; c++)
            work->covariance[b * padded_size(d) + c] =
                kvc_fma(-work->mean[b], work->mean[c], kvc_div(sum[(b + 1) * d + c], n));
}

/* Computes y, the key rotated back. */
static void rotate_back(const struct kvc_expected_scores *args, const unsigned char *key, size_t d,
                        struct expected_work *work) {
    const size_t half = args->cosine.buffer ? args->rotary / 2 : 0;
    const float *cosine = half ? kvc_span_data(args->cosine) : NULL, *sine = half ? kvc_span_data(args->sine) : NULL;
    for (size_t c = 0; c < d; c += LANES)
        vf_store(work->key + c, some_channels(args->lists->format.key.type, key, c, d));
    memcpy(work->y, work->key, d * sizeof *work->y);
    for (size_t i = 0; i < half; i++) {
        const float a = work->key[i], b = work->key[i + half];
        work->y[i] = kvc_fma(b, sine[i], a * cosine[i]);
        work->y[i + half] = kvc_fma(-a, sine[i], b * cosine[i]);
    }
}

static float expected_score(const struct kvc_expected_scores *args, size_t d, const struct expected_work *work) {
    const float a = dot_row(KVC_F32, (const unsigned char *)work->mean, work->y, d);
    float b = 0.0f;
    if (!args->covariance)
        return args->scale * a;
    for (size_t i = 0; i < d; i++)
        b = kvc_fma(dot_row(KVC_F32, (const unsigned char *)(work->covariance + i * padded_size(d)), work->y, d),
                    work->y[i], b);
    return args->scale * kvc_fma(0.5f * args->scale, b, a);
}

static void expected_scores_task(void *argument, size_t task, unsigned thread) {
    const struct expected_job *job = argument;
    const struct kvc_expected_scores *args = job->args;
    const size_t d = args->lists->format.head_size, group = args->heads / args->lists->kv_heads;
    const uint32_t count = ((const uint32_t *)args->lists->count->data)[task];
    float *score = (float *)kvc_span_data(args->scores) + task * args->stride;
    struct expected_work work;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, lay_out_expected(job, count, &work, NULL));
    if (!scratch)
        return;
    lay_out_expected(job, count, &work, scratch);
    const struct head_entries head = head_open(args->lists, NULL, (uint32_t)task, work.block);
    for (uint32_t r = 0; r < count; r++)
        score[r] = 0.0f;
    for (size_t g = task * group; g < (task + 1) * group; g++) {
        close_moments(args, g, d, &work);
        for (uint32_t r = args->first; r < count; r++) {
            rotate_back(args, slot_key(&head, head_slot(&head, r)), d, &work);
            work.p[r] = expected_score(args, d, &work);
        }
        softmax_indices(work.p, args->first, count);
        for (uint32_t r = args->first; r < count; r++)
            score[r] = score[r] + work.p[r];
    }
    for (uint32_t r = args->first; r < count; r++) {
        score[r] = kvc_div(score[r], (float)group);
        if (args->values)
            score[r] = (score[r] + args->epsilon) *
                       kvc_sqrt(dot_row(args->lists->format.value.type, side_row(&head, r, true), NULL, d));
    }
}

static void expected_scores(struct kvc_device *device, const struct kvc_expected_scores *args) {
    struct expected_job job = {(struct kvc_cpu *)device, args, 0};
    const double d = args->lists->format.head_size, group = (double)args->heads / args->lists->kv_heads;
    const double each = group * d * (args->covariance ? d + 4.0 : 8.0) / LANES + group * 30.0;
    const double work = entries_work(args->lists, each, &job.blocks_most);
    kvc_threads_run(threads_for(job.cpu, work), args->lists->kv_heads, expected_scores_task, &job);
}

/* ---- mean_weights ---- */

struct mean_weights_job {
    struct kvc_cpu *cpu;
    const struct kvc_mean_weights *args;
    uint32_t blocks_most;
};

struct mean_work {
    const unsigned char **block;
    float *mean, *u; /* [padded] */
};

static size_t lay_out_mean(const struct mean_weights_job *job, struct mean_work *work, unsigned char *base) {
    struct bump at = {base, 0};
    const size_t bytes = padded_size(job->args->lists->format.head_size) * sizeof(float);
    work->block = bump_take(&at, job->blocks_most * sizeof *work->block);
    work->mean = bump_take(&at, bytes);
    work->u = bump_take(&at, bytes);
    return at.used;
}

/* Computes u, the mean of a head's queries, rotated. */
static void mean_direction(const struct kvc_mean_weights *args, size_t head, size_t d, struct mean_work *work) {
    const size_t half = args->cosine.buffer ? args->rotary / 2 : 0;
    const float *sum = (const float *)kvc_span_data(args->sums) + head * (d + 1) * d, *mean = work->mean;
    const float *cosine = half ? kvc_span_data(args->cosine) : NULL, *sine = half ? kvc_span_data(args->sine) : NULL;
    for (size_t c = 0; c < d; c++)
        work->u[c] = work->mean[c] = kvc_div(sum[c], (float)args->queries);
    for (size_t i = 0; i < half; i++) {
        work->u[i] = kvc_fma(-mean[i + half], sine[i], mean[i] * cosine[i]);
        work->u[i + half] = kvc_fma(mean[i], sine[i], mean[i + half] * cosine[i]);
    }
}

static void mean_weights_task(void *argument, size_t task, unsigned thread) {
    const struct mean_weights_job *job = argument;
    const struct kvc_mean_weights *args = job->args;
    const enum kvc_type type = args->lists->format.key.type;
    const size_t d = args->lists->format.head_size, group = args->heads / args->lists->kv_heads;
    float *weight = (float *)kvc_span_data(args->weights) + task * args->stride, M = -kvc_infinity();
    struct mean_work work;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, lay_out_mean(job, &work, NULL));
    if (!scratch)
        return;
    lay_out_mean(job, &work, scratch);
    const struct head_entries head = head_open(args->lists, NULL, (uint32_t)(task / group), work.block);
    const uint32_t first = kvc_min_u32(args->first, head.count);
    mean_direction(args, task, d, &work);
    const float length = kvc_sqrt(dot_row(KVC_F32, (const unsigned char *)work.u, work.u, d));
    memset(weight, 0, first * sizeof *weight);
    for (uint32_t r = first; r < head.count; r++) {
        const unsigned char *key = slot_key(&head, head_slot(&head, r));
        const float both = length * kvc_sqrt(dot_row(type, key, NULL, d));
        weight[r] = args->scale * (both == 0.0f ? 0.0f : kvc_div(dot_row(type, key, work.u, d), both));
        M = kvc_max(M, weight[r]);
    }
    for (uint32_t r = first; r < head.count; r += LANES) {
        const size_t n = kvc_min_u32(LANES, head.count - r);
        vf_part_store(weight + r, exp_any(vf_sub(vf_part_load(weight + r, n), vf_set(M))), n);
    }
}

static void mean_weights(struct kvc_device *device, const struct kvc_mean_weights *args) {
    struct mean_weights_job job = {(struct kvc_cpu *)device, args, 0};
    const double d = args->lists->format.head_size, group = (double)args->heads / args->lists->kv_heads;
    const double work = entries_work(args->lists, group * (d * 4.0 / LANES + 40.0), &job.blocks_most);
    KVC_ASSERT(args->queries > 0);
    kvc_threads_run(threads_for(job.cpu, work), args->heads, mean_weights_task, &job);
}

#endif
