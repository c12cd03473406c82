/* experts.h - template: the choice of experts and the sum of their outputs: route, expert_sum. */
#ifndef KVC_SIMD_EXPERTS_H
#define KVC_SIMD_EXPERTS_H

#include "backends/cpu/ref/pairs.h"
#include "backends/cpu/simd/attention/entries.h"

struct experts_job {
    const struct kvc_route *route;
    const struct kvc_expert_sum *sum;
    size_t piece, pieces; /* rows per task of route; tasks per row of expert_sum */
};

/* Writes exp(x - maximum) to p [E] and returns the sum of p. */
INLINE float exps_of_row(const float *x, size_t experts, float *p) {
    float most = x[0];
    vf lane[LANE_VECTORS];
    for (size_t e = 1; e < experts; e++)
        most = kvc_max(x[e], most);
    UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_zero();
    for (size_t e = 0; e < experts; e += KVC_LANES)
        for (unsigned f = 0; f < LANE_VECTORS && e + f * LANES < experts; f++) {
            const size_t at = e + f * LANES, left = experts - at;
            const vf y = exp_any(vf_sub(vf_part_load(x + at, left), vf_set(most)));
            vf_part_store(p + at, y, left);
            lane[f] = vf_add(lane[f], vf_select(vm_first(left), y, vf_zero()));
        }
    return sum_lanes(lane);
}

static void route_task(void *argument, size_t task, unsigned thread) {
    const struct experts_job *job = argument;
    const struct kvc_route *args = job->route;
    const size_t last = (task + 1) * job->piece, used = args->used;
    float p[KVC_EXPERTS_MOST];
    (void)thread;
    for (size_t i = task * job->piece; i < last && i < args->rows; i++) {
        const float *x = (const float *)kvc_span_data(args->logits) + i * args->experts;
        uint32_t *chosen = (uint32_t *)kvc_span_data(args->expert) + i * used;
        float *share = (float *)kvc_span_data(args->share) + i * used, sum = 0.0f;
        const float all = exps_of_row(x, args->experts, p);
        kvc_choose_experts(x, args->experts, args->used, chosen);
        for (size_t j = 0; j < used; j++)
            sum = sum + p[chosen[j]];
        for (size_t j = 0; j < used; j++)
            share[j] = kvc_is_nan(all) ? all : kvc_div(p[chosen[j]], args->normalised ? sum : all);
    }
}

static void route(struct kvc_device *device, const struct kvc_route *args) {
    const struct kvc_cpu *cpu = (const struct kvc_cpu *)device;
    struct experts_job job = {.route = args, .piece = 8};
    KVC_ASSERT(args->used >= 1 && args->used <= args->experts && args->experts <= KVC_EXPERTS_MOST);
    const double work = (double)args->rows * args->experts * (40.0 / LANES + args->used);
    kvc_threads_run(threads_for(cpu, work), (args->rows + job.piece - 1) / job.piece, route_task, &job);
    kvc_number_pairs(args);
}

static void sum_task(void *argument, size_t task, unsigned thread) {
    const struct experts_job *job = argument;
    const struct kvc_expert_sum *args = job->sum;
    const size_t i = task / job->pieces, width = args->width, used = args->used;
    const size_t vectors = (width + LANES - 1) / LANES, part = task % job->pieces;
    KVC_ASSERT(i < args->rows);
    const size_t last = vectors * (part + 1) / job->pieces * LANES;
    const uint32_t *pair = (const uint32_t *)kvc_span_data(args->pair) + i * used;
    const float *share = (const float *)kvc_span_data(args->share) + i * used, *y = kvc_span_data(args->y);
    const float *shared = args->shared.buffer ? (const float *)kvc_span_data(args->shared) + i * width : NULL;
    const float of_shared = shared ? kvc_sigmoid(((const float *)kvc_span_data(args->shared_logit))[i]) : 0.0f;
    float *out = (float *)kvc_span_data(args->out) + i * width;
    (void)thread;
    for (size_t n = vectors * part / job->pieces * LANES; n < last; n += LANES) {
        vf sum = vf_zero();
        for (size_t j = 0; j < used; j++)
            sum = vf_fma(vf_set(share[j]), vf_part_load(y + pair[j] * width + n, width - n), sum);
        if (shared)
            sum = vf_fma(vf_set(of_shared), vf_part_load(shared + n, width - n), sum);
        vf_part_store(out + n, sum, width - n);
    }
}

static void expert_sum(struct kvc_device *device, const struct kvc_expert_sum *args) {
    const struct kvc_cpu *cpu = (const struct kvc_cpu *)device;
    const double work = (double)args->rows * args->used * args->width * 2 / LANES;
    struct kvc_threads *threads = threads_for(cpu, work);
    struct experts_job job = {.sum = args, .pieces = args->rows < kvc_threads_count(threads) ? 8 : 1};
    kvc_threads_run(threads, args->rows * job.pieces, sum_task, &job);
}

#endif
