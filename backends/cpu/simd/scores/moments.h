/* moments.h - template: mean and variance of each query head's attention probabilities over a window: window_moments.
 */
#ifndef KVC_SIMD_SCORES_MOMENTS_H
#define KVC_SIMD_SCORES_MOMENTS_H

#include "core/base/integers.h"
#include "backends/cpu/simd/lanes/logarithm.h"
#include "backends/cpu/simd/scores/probability_tiles.h"

struct moments_job {
    /* must be the first member; its `own` floats: probabilities [G, queries, KVC_TILE]; its `shared` floats: the two
     * arrays below */
    struct probabilities_job job;
    float *dispersion, *variance; /* [H, capacity] by index */
    float *scores;                /* [H, stride] */
    uint32_t stride, capacity;
    uint64_t tail;
    float gamma;
};

INLINE const struct moments_job *moments_of(const struct probabilities_tile *tile) {
    return (const struct moments_job *)(const void *)tile->job;
}

static void moments_start(const struct probabilities_tile *tile, uint32_t low, uint32_t high) {
    const struct moments_job *job = moments_of(tile);
    for (uint32_t g = 0; g < tile->job->group; g++)
        memset(job->scores + ((size_t)tile->h * tile->job->group + g) * job->stride + low, 0,
               (high - low) * sizeof(float));
}

static void moments_take(const struct probabilities_tile *tile, uint32_t query, struct seen_range seen,
                         struct seen_range in, const float *s, size_t s_stride) {
    const struct kvc_probabilities *rows = tile->job->rows;
    const size_t cell = (size_t)query * rows->heads + (size_t)tile->h * tile->job->group;
    (void)seen;
    for (uint32_t g = 0; g < tile->job->group; g++) {
        float *a = tile->own + ((size_t)g * rows->queries + query) * KVC_TILE;
        const vf maximum = vf_set(((const float *)kvc_span_data(rows->maximum))[cell + g]);
        const vf sum = vf_set(((const float *)kvc_span_data(rows->sum))[cell + g]);
        for (uint32_t e = in.low / LANES * LANES; e < in.high; e += LANES)
            vf_store(a + e, vf_div(exp_any(vf_sub(vf_load(s + g * s_stride + e), maximum)), sum));
        memset(a, 0, in.low * sizeof *a);
        memset(a + in.high, 0, (KVC_TILE - in.high) * sizeof *a);
    }
}

/* Returns the scores of LANES indices from their probabilities a [n, KVC_TILE], and writes their dispersions and
 * variances. */
INLINE vf moments_vector(const float *a, uint32_t n, float gamma, vf *dispersion, vf *variance) {
    vf mean = vf_zero(), d = vf_zero(), v = vf_zero();
    for (uint32_t i = 0; i < n; i++) {
        const vf x = vf_load(a + (size_t)i * KVC_TILE);
        mean = vf_add(mean, x);
        d = vf_add(d, negated(vf_mul(x, log_any(vf_add(x, vf_set(1e-10f))))));
    }
    mean = vf_div(mean, vf_set((float)n));
    for (uint32_t i = 0; i < n; i++) {
        const vf e = vf_sub(vf_load(a + (size_t)i * KVC_TILE), mean);
        v = vf_fma(e, e, v);
    }
    v = n > 1 ? vf_div(v, vf_set((float)(n - 1))) : vf_zero();
    *dispersion = d;
    *variance = v;
    return vf_fma(vf_set(gamma), v, mean);
}

static void moments_finish(const struct probabilities_tile *tile) {
    const struct moments_job *job = moments_of(tile);
    const struct head_entries *head = tile->head;
    const uint32_t limit = head->count > job->tail ? (uint32_t)(head->count - job->tail) : 0;
    for (uint32_t g = 0; g < tile->job->group; g++) {
        const uint32_t h = tile->h * tile->job->group + g, queries = tile->job->rows->queries;
        for (uint32_t e = 0; e < tile->n && head_index(head, tile->first + e) < limit; e += LANES) {
            float score[LANES], dispersion[LANES], variance[LANES];
            vf d, v;
            vf_store(score,
                     moments_vector(tile->own + (size_t)g * queries * KVC_TILE + e, queries, job->gamma, &d, &v));
            vf_store(dispersion, d);
            vf_store(variance, v);
            for (uint32_t i = 0; i < LANES && e + i < tile->n; i++) {
                const uint32_t index = head_index(head, tile->first + e + i);
                if (index >= limit)
                    break;
                job->scores[(size_t)h * job->stride + index] = score[i];
                job->dispersion[(size_t)h * job->capacity + index] = dispersion[i];
                job->variance[(size_t)h * job->capacity + index] = variance[i];
            }
        }
    }
}

/* Returns the 32-lane sum of x [n]. n is a multiple of 32. */
static float sum_by_lanes(const float *x, uint32_t n) {
    vf lane[LANE_VECTORS];
    UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_zero();
    for (uint32_t i = 0; i < n; i += KVC_LANES)
        UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_add(lane[f], vf_load(x + i + f * LANES));
    return sum_lanes(lane);
}

static void window_moments(struct kvc_device *device, const struct kvc_window_moments *args) {
    const struct kvc_probabilities *rows = args->probabilities;
    struct moments_job job = {
        .scores = kvc_span_data(args->scores), .stride = args->stride, .tail = args->tail, .gamma = args->gamma};
    float *total = kvc_span_data(args->totals);
    KVC_ASSERT(rows->queries > 0 && rows->heads % rows->kv_heads == 0);
    for (uint32_t h = 0; h < rows->kv_heads; h++) {
        const uint32_t count = ((const uint32_t *)rows->lists->count->data)[h];
        const uint32_t capacity = (count + KVC_LANES - 1) / KVC_LANES * KVC_LANES;
        job.capacity = kvc_max_u32(capacity, job.capacity);
    }
    job.job = (struct probabilities_job){.cpu = (struct kvc_cpu *)device,
                                         .rows = rows,
                                         .own = (size_t)(rows->heads / rows->kv_heads) * rows->queries * KVC_TILE,
                                         .shared = (size_t)2 * rows->heads * job.capacity,
                                         .start = moments_start,
                                         .take = moments_take,
                                         .finish = moments_finish,
                                         .cost = 90.0f};
    if (!probabilities_prepare(&job.job))
        return;
    job.dispersion = job.job.shared_capacity;
    job.variance = job.dispersion + (size_t)rows->heads * job.capacity;
    memset(job.dispersion, 0, (size_t)2 * rows->heads * job.capacity * sizeof(float));
    probabilities_run(&job.job);
    for (uint32_t h = 0; h < rows->heads; h++) {
        total[2 * h] = sum_by_lanes(job.dispersion + (size_t)h * job.capacity, job.capacity);
        total[2 * h + 1] = sum_by_lanes(job.variance + (size_t)h * job.capacity, job.capacity);
    }
}

#endif
