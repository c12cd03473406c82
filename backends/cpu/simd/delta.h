/* delta.h - template: gated delta nets: convolve, delta_rule. A task computes some channels (convolve) or some rows of
 * a head's matrix (delta_rule) for all rows of one segment. */
#ifndef KVC_SIMD_DELTA_H
#define KVC_SIMD_DELTA_H

#include "backends/cpu/simd/attention/entries.h"
#include "core/base/delta.h"

enum { DELTA_ROWS = 8 }; /* number of rows of a matrix per task */

struct delta_job {
    const struct kvc_convolve *convolve;
    const struct kvc_delta_rule *rule;
    size_t pieces; /* tasks per segment (convolve) or per head (delta_rule) */
};

/* ---- convolve ---- */

/* Returns channels c .. c + LANES - 1 of the row that is `back` rows before row i. Rows before the segment come from
 * `kept`. */
INLINE vf convolve_input(const float *x, const float *kept, const struct kvc_convolve *args, size_t i, size_t back,
                         size_t c) {
    const float *row =
        back <= i ? x + (i - back) * args->channels : kept + (args->taps - 1 + i - back) * args->channels;
    return vf_part_load(row + c, args->channels - c);
}

static void convolve_task(void *argument, size_t task, unsigned thread) {
    const struct delta_job *job = argument;
    const struct kvc_convolve *args = job->convolve;
    const struct kvc_recurrence *segment = &args->segments[task / job->pieces];
    const size_t taps = args->taps, channels = args->channels, c = task % job->pieces * LANES, left = channels - c;
    const float *x = (const float *)kvc_span_data(args->x) + segment->row * channels, *w = kvc_span_data(args->w);
    float *y = (float *)kvc_span_data(args->y) + segment->row * channels;
    float *kept = (float *)kvc_span_data(segment->state) + args->state_at / sizeof(float);
    float side_by_side[KVC_DELTA_TAPS_MOST * LANES];
    (void)thread;
    for (size_t t = 0; t < taps; t++)
        for (size_t l = 0; l < LANES; l++)
            side_by_side[t * LANES + l] = l < left ? w[(c + l) * taps + t] : 0.0f;
    for (size_t i = 0; i < segment->rows; i++) {
        vf sum = vf_zero();
        for (size_t t = 0; t < taps; t++)
            sum = vf_fma(convolve_input(x, kept, args, i, taps - 1 - t, c), vf_load(side_by_side + t * LANES), sum);
        const vf e = exp_any(vf_sub(vf_set(-0.0f), sum));
        vf_part_store(y + i * channels + c, vf_div(sum, vf_add(vf_set(1.0f), e)), left);
    }
    /* ascending, because row j is copied from a later row, which must not be overwritten yet */
    for (size_t j = 0; segment->kept && segment->rows && j + 1 < taps; j++)
        vf_part_store(kept + j * channels + c, convolve_input(x, kept, args, segment->rows - 1, taps - 2 - j, c), left);
}

static void convolve(struct kvc_device *device, const struct kvc_convolve *args) {
    const struct kvc_cpu *cpu = (const struct kvc_cpu *)device;
    struct delta_job job = {.convolve = args, .pieces = (args->channels + LANES - 1) / LANES};
    KVC_ASSERT(args->taps >= 1 && args->taps <= KVC_DELTA_TAPS_MOST && args->state_at % sizeof(float) == 0);
    double work = 0;
    for (size_t s = 0; s < args->segment_count; s++)
        work += (double)args->segments[s].rows * (double)job.pieces * (2 * args->taps + 40);
    kvc_threads_run(threads_for(cpu, work), args->segment_count * job.pieces, convolve_task, &job);
}

/* ---- delta_rule ---- */

/* Stores s to S and returns it. Lanes beyond the last channel are set to 0, because an infinite e or u would make them
 * NaN. */
INLINE vf keep_part(float *S, vf s, size_t left) {
    vf_part_store(S, s, left);
    return left < LANES ? vf_part_load(S, left) : s;
}

/* Updates S [n], one row of a head's matrix, with the q, k and v of one token. Returns the token's output for this row
 * of the matrix. */
INLINE float delta_row(float *S, const float *q, const float *k, size_t n, float e, float v, float beta) {
    vf lane[LANE_VECTORS], out[LANE_VECTORS];
    UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = out[f] = vf_zero();
    for (size_t j = 0; j < n; j += KVC_LANES)
        for (unsigned f = 0; f < LANE_VECTORS && j + f * LANES < n; f++) {
            const size_t at = j + f * LANES, left = n - at;
            const vf s = keep_part(S + at, vf_mul(vf_set(e), vf_part_load(S + at, left)), left);
            lane[f] = vf_fma(s, vf_part_load(k + at, left), lane[f]);
        }
    const float u = (v - sum_lanes(lane)) * beta;
    for (size_t j = 0; j < n; j += KVC_LANES)
        for (unsigned f = 0; f < LANE_VECTORS && j + f * LANES < n; f++) {
            const size_t at = j + f * LANES, left = n - at;
            const vf s =
                keep_part(S + at, vf_fma(vf_part_load(k + at, left), vf_set(u), vf_part_load(S + at, left)), left);
            out[f] = vf_fma(s, vf_part_load(q + at, left), out[f]);
        }
    return sum_lanes(out);
}

static void delta_task(void *argument, size_t task, unsigned thread) {
    const struct delta_job *job = argument;
    const struct kvc_delta_rule *args = job->rule;
    const size_t H = args->heads, d = args->value_size, n = args->key_size, key_heads = args->key_heads;
    const size_t h = task / job->pieces % H, first = task % job->pieces * DELTA_ROWS;
    const size_t rows = d - first < DELTA_ROWS ? d - first : DELTA_ROWS;
    const size_t key_head = args->tiled ? h % key_heads : h / (H / key_heads);
    const struct kvc_recurrence *segment = &args->segments[task / job->pieces / H];
    const float *a = kvc_span_data(args->a), *beta = kvc_span_data(args->beta), *v = kvc_span_data(args->v);
    const float *q = kvc_span_data(args->q), *k = kvc_span_data(args->k);
    const float rate = ((const float *)kvc_span_data(args->rate))[h];
    const float bias = ((const float *)kvc_span_data(args->bias))[h];
    float *S = (float *)kvc_span_data(segment->state) + args->state_at / sizeof(float) + (h * d + first) * n;
    float *out = kvc_span_data(args->out), trial[DELTA_ROWS * KVC_DELTA_KEY_MOST];
    (void)thread;
    if (!segment->kept) {
        memcpy(trial, S, rows * n * sizeof *trial);
        S = trial;
    }
    for (size_t i = segment->row; i < (size_t)segment->row + segment->rows; i++) {
        const size_t head = i * H + h, key = (i * key_heads + key_head) * n, value = head * d + first;
        const float e = kvc_delta_decay(rate, a[head], bias), share = kvc_sigmoid(beta[head]);
        for (size_t c = 0; c < rows; c++)
            out[value + c] = delta_row(S + c * n, q + key, k + key, n, e, v[value + c], share);
    }
}

static void delta_rule(struct kvc_device *device, const struct kvc_delta_rule *args) {
    const struct kvc_cpu *cpu = (const struct kvc_cpu *)device;
    struct delta_job job = {.rule = args, .pieces = (args->value_size + DELTA_ROWS - 1) / DELTA_ROWS};
    KVC_ASSERT(args->key_heads > 0 && args->heads % args->key_heads == 0 && args->key_size <= KVC_DELTA_KEY_MOST);
    double work = 0;
    for (size_t s = 0; s < args->segment_count; s++)
        work += (double)args->segments[s].rows * args->heads * args->value_size * (args->key_size + 20.0) * 6 / LANES;
    kvc_threads_run(threads_for(cpu, work), args->segment_count * args->heads * job.pieces, delta_task, &job);
}

#endif
