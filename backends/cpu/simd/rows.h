/* rows.h - template: operations on rows of values: embed, norm, rope, gated_silu, add, blend, scale, gather, fma_loop.
 */
#ifndef KVC_SIMD_ROWS_H
#define KVC_SIMD_ROWS_H

#include "core/base/integers.h"
#include "backends/cpu/simd/attention/entries.h"
#include "backends/cpu/simd/linear/dequantize.h"

/* An operation on rows or on single values, which is divided into pieces. */
struct rows_job {
    float *y;
    const float *x, *w, *bias, *cosine, *sine;
    const uint32_t *index;
    const struct kvc_weight *table;
    size_t count, piece, width; /* count: number of rows, or of values if width is 1; piece: rows or values per task;
                                 * width: floats per row */
    uint32_t heads, head_size, rotary, group;
    float eps, share, cap;
    bool interleaved, centred;
    enum kvc_activation activation;
};

/* Runs `run` over all pieces. If the work is large enough, divides several pieces per thread among the threads. */
static void run_pieces(struct kvc_device *device, struct rows_job *job, kvc_task_fn *run, double work) {
    const struct kvc_cpu *cpu = (const struct kvc_cpu *)device;
    struct kvc_threads *threads = threads_for(cpu, work);
    const size_t least = job->width == 1 ? 4096 : 1, wanted = (size_t)4 * kvc_threads_count(threads);
    if (job->count == 0)
        return;
    job->piece = threads ? (job->count + wanted - 1) / wanted : job->count;
    job->piece = (job->piece + least - 1) / least * least;
    KVC_ASSERT(job->width > 0 && job->piece > 0);
    kvc_threads_run(threads, (job->count + job->piece - 1) / job->piece, run, job);
}

INLINE size_t piece_end(const struct rows_job *job, size_t task) {
    const size_t end = (task + 1) * job->piece;
    return kvc_min_u64(end, job->count);
}

/* ---- embed ---- */

/* Dequantizes a row of n weights. */
INLINE void embed_as(const enum kvc_type type, float *to, const unsigned char *from, size_t n) {
    const size_t whole = n / KVC_LANES * KVC_LANES;
    const unsigned char *group = from;
    for (size_t k = 0; k < whole; k += GROUP, group += group_bytes(type)) {
        const int parts = (int)((kvc_min_u64(whole - k, GROUP)) / KVC_LANES);
        struct scales scales;
        prepare(type, &scales, group, parts);
        for (int p = 0; p < parts; p++) {
            vf w[LANE_VECTORS];
            dequantize(type, w, group, p, &scales);
            for (unsigned v = 0; v < LANE_VECTORS; v++)
                vf_store(to + k + (size_t)p * KVC_LANES + v * LANES, w[v]);
        }
    }
    for (size_t k = whole; block_elements(type) % KVC_LANES && k < n; k++)
        to[k] = dequantize_one(type, from, k);
}
#define EMBED(a, NAME, name, ...)                                                                                      \
    static void embed_##name(float *to, const unsigned char *from, size_t n) { embed_as(KVC_##NAME, to, from, n); }
KVC_ALL_WEIGHT_TYPES(EMBED, )

static void embed_row(const struct kvc_weight *table, size_t row, float *to) {
    static void (*const by_type[KVC_ALL_TYPES])(float *, const unsigned char *, size_t) = {
#define EMBED_BY_TYPE(a, NAME, name, ...) [KVC_##NAME] = embed_##name,
        KVC_ALL_WEIGHT_TYPES(EMBED_BY_TYPE, )};
    by_type[table->type](to, table->data + row * table->row_bytes, table->inputs);
}

static void embed_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    (void)thread;
    for (size_t i = task * job->piece; i < piece_end(job, task); i++) {
        KVC_ASSERT(job->index[i] < job->table->outputs);
        embed_row(job->table, job->index[i], job->y + i * job->width);
    }
}

static void embed(struct kvc_device *device, const struct kvc_embed *args) {
    struct rows_job job = {.y = kvc_span_data(args->out),
                           .table = args->table,
                           .index = kvc_span_data(args->tokens),
                           .count = args->rows,
                           .width = args->table->inputs};
    run_pieces(device, &job, embed_task, (double)args->rows * (double)args->table->inputs * 4 / LANES);
}

/* ---- norm ---- */

/* sums[i] = dot(x, x) of row i; rows are K floats apart. Padding adds +0 to the lanes, which changes nothing, because a
 * lane is never -0. */
INLINE void square_sums(const float *x, unsigned rows, size_t K, float *sums) {
    vf lane[4][LANE_VECTORS];
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[r][f] = vf_zero();
    size_t k = 0;
    for (; k + KVC_LANES <= K; k += KVC_LANES)
        UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++) {
        const vf a = vf_load(x + r * K + k + f * LANES);
        lane[r][f] = vf_fma(a, a, lane[r][f]);
    }
    for (unsigned f = 0; f < LANE_VECTORS && k + f * LANES < K; f++)
        UNROLL
    for (unsigned r = 0; r < rows; r++) {
        const vf a = vf_part_load(x + r * K + k + f * LANES, K - k - f * LANES);
        lane[r][f] = vf_fma(a, a, lane[r][f]);
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        sums[r] = sum_lanes(lane[r]);
}

static void norm_row(float *y, const float *x, const float *w, size_t K, float square_sum, float eps) {
    const float r = kvc_div(1.0f, kvc_sqrt(kvc_div(square_sum, (float)K) + eps));
    const vf factor = vf_set(r);
    size_t k = 0;
    for (; k + LANES <= K; k += LANES)
        vf_store(y + k, vf_mul(vf_mul(vf_load(x + k), factor), vf_load(w + k)));
    for (; k < K; k++)
        y[k] = (x[k] * r) * w[k];
}

/* Normalizes one row around its mean. `bias` may be NULL. */
static void centred_row(float *y, const float *x, const float *w, const float *bias, size_t K, float eps) {
    vf lane[LANE_VECTORS];
    float square_sum;
    size_t k = 0;
    UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_zero();
    for (; k + KVC_LANES <= K; k += KVC_LANES)
        UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_add(lane[f], vf_load(x + k + f * LANES));
    for (unsigned f = 0; f < LANE_VECTORS && k + f * LANES < K; f++) /* padding adds +0 to lanes that are never -0 */
        lane[f] = vf_add(lane[f], vf_part_load(x + k + f * LANES, K - k - f * LANES));
    const float mean = kvc_div(sum_lanes(lane), (float)K);
    for (k = 0; k + LANES <= K; k += LANES)
        vf_store(y + k, vf_sub(vf_load(x + k), vf_set(mean)));
    for (; k < K; k++)
        y[k] = x[k] - mean;
    square_sums(y, 1, K, &square_sum);
    if (!bias) {
        norm_row(y, y, w, K, square_sum, eps);
        return;
    }
    const float r = kvc_div(1.0f, kvc_sqrt(kvc_div(square_sum, (float)K) + eps));
    for (k = 0; k + LANES <= K; k += LANES)
        vf_store(y + k, vf_fma(vf_mul(vf_load(y + k), vf_set(r)), vf_load(w + k), vf_load(bias + k)));
    for (; k < K; k++)
        y[k] = kvc_fma(y[k] * r, w[k], bias[k]);
}

static void norm_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    const size_t K = job->width, end = piece_end(job, task);
    (void)thread;
    for (size_t i = task * job->piece; job->centred && i < end; i++) {
        const size_t own = i % job->heads * K;
        centred_row(job->y + i * K, job->x + i * K, job->w + own, job->bias ? job->bias + own : NULL, K, job->eps);
    }
    for (size_t i = task * job->piece; !job->centred && i < end;) {
        float sums[4];
        const unsigned rows = end - i >= 4 ? 4 : 1;
        if (rows == 4)
            square_sums(job->x + i * K, 4, K, sums);
        else
            square_sums(job->x + i * K, 1, K, sums);
        for (unsigned r = 0; r < rows; r++)
            norm_row(job->y + (i + r) * K, job->x + (i + r) * K, job->w + (i + r) % job->heads * K, K, sums[r],
                     job->eps);
        i += rows;
    }
}

static void norm(struct kvc_device *device, const struct kvc_norm *args) {
    struct rows_job job = {.y = kvc_span_data(args->y),
                           .x = kvc_span_data(args->x),
                           .w = kvc_span_data(args->w),
                           .count = args->rows,
                           .width = args->K,
                           .heads = args->heads ? args->heads : 1,
                           .eps = args->eps,
                           .centred = args->centred,
                           .bias = args->bias.buffer ? kvc_span_data(args->bias) : NULL};
    run_pieces(device, &job, norm_task, (double)args->rows * args->K * 3 / LANES);
}

/* ---- rope ---- */

static void rope_head(float *y, const float *x, const float *cosine, const float *sine, size_t d, size_t rotary,
                      bool interleaved) {
    const size_t half = rotary / 2;
    size_t i = 0;
    for (; i + LANES <= half; i += LANES) {
        vf x0, x1;
        if (interleaved) {
            vf_load_pairs(x + 2 * i, &x0, &x1);
        } else {
            x0 = vf_load(x + i);
            x1 = vf_load(x + i + half);
        }
        const vf c = vf_load(cosine + i), s = vf_load(sine + i);
        vf_store(y + i, vf_fnma(x1, s, vf_mul(x0, c)));
        vf_store(y + i + half, vf_fma(x0, s, vf_mul(x1, c)));
    }
    for (; i < half; i++) {
        const float x0 = interleaved ? x[2 * i] : x[i], x1 = interleaved ? x[2 * i + 1] : x[i + half];
        y[i] = kvc_fma(-x1, sine[i], x0 * cosine[i]);
        y[i + half] = kvc_fma(x0, sine[i], x1 * cosine[i]);
    }
    if (y != x)
        memcpy(y + rotary, x + rotary, (d - rotary) * sizeof *y);
}

static void rope_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    const size_t half = job->rotary / 2;
    (void)thread;
    for (size_t i = task * job->piece; i < piece_end(job, task); i++)
        for (size_t h = 0; h < job->heads; h++) {
            const size_t at = i * job->width + h * job->head_size;
            rope_head(job->y + at, job->x + at, job->cosine + i * half, job->sine + i * half, job->head_size,
                      job->rotary, job->interleaved);
        }
}

static void rope(struct kvc_device *device, const struct kvc_rope_heads *args) {
    struct rows_job job = {.y = kvc_span_data(args->y),
                           .x = kvc_span_data(args->x),
                           .cosine = kvc_span_data(args->cosine),
                           .sine = kvc_span_data(args->sine),
                           .count = args->rows,
                           .width = (size_t)args->heads * args->head_size,
                           .heads = args->heads,
                           .head_size = args->head_size,
                           .rotary = args->rotary,
                           .interleaved = args->interleaved};
    run_pieces(device, &job, rope_task, (double)args->rows * args->heads * args->head_size * 4 / LANES);
}

/* ---- single values ---- */

static void gated_silu_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    const size_t end = piece_end(job, task);
    size_t i = task * job->piece;
    (void)thread;
    for (; i + LANES <= end; i += LANES) {
        const vf x = vf_load(job->x + i), e = exp_any(vf_sub(vf_set(-0.0f), x));
        vf_store(job->y + i, vf_mul(vf_div(x, vf_add(vf_set(1.0f), e)), vf_load(job->w + i)));
    }
    for (; i < end; i++)
        job->y[i] = kvc_silu(job->x[i]) * job->w[i];
}

/* Computes silu, gelu or sigmoid. Unless w is NULL, multiplies the result by w. */
static void activation_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    const bool gelu = job->activation == KVC_GELU, sigmoid = job->activation == KVC_SIGMOID;
    const size_t end = piece_end(job, task);
    size_t i = task * job->piece;
    (void)thread;
    for (; i + LANES <= end; i += LANES) {
        const vf x = vf_load(job->x + i);
        const vf cube = vf_fma(vf_set(KVC_GELU_C3), vf_mul(x, x), vf_set(KVC_GELU_C1));
        const vf e = exp_any(vf_sub(vf_set(-0.0f), gelu ? vf_mul(x, cube) : x));
        const vf a = vf_div(sigmoid ? vf_set(1.0f) : x, vf_add(vf_set(1.0f), e));
        vf_store(job->y + i, job->w ? vf_mul(a, vf_load(job->w + i)) : a);
    }
    for (; i < end; i++) {
        const float a = gelu ? kvc_gelu(job->x[i]) : sigmoid ? kvc_sigmoid(job->x[i]) : kvc_silu(job->x[i]);
        job->y[i] = job->w ? a * job->w[i] : a;
    }
}

static void gelu_exact_task(void *argument, size_t task, unsigned thread) {
    static const float c[] = {KVC_NORMAL_C8, KVC_NORMAL_C7, KVC_NORMAL_C6, KVC_NORMAL_C5, KVC_NORMAL_C4,
                              KVC_NORMAL_C3, KVC_NORMAL_C2, KVC_NORMAL_C1, KVC_NORMAL_C0};
    const struct rows_job *job = argument;
    const size_t end = piece_end(job, task);
    const vf one = vf_set(1.0f);
    size_t i = task * job->piece;
    (void)thread;
    for (; i + LANES <= end; i += LANES) {
        const vf x = vf_load(job->x + i), minus = vf_sub(vf_set(-0.0f), x);
        const vf t = vf_select(vf_less(x, vf_zero()), minus, x);
        const vf w = vf_div(one, vf_fma(vf_set(KVC_NORMAL_W), t, one));
        vf p = vf_set(KVC_NORMAL_C9);
        for (unsigned k = 0; k < sizeof c / sizeof *c; k++)
            p = vf_fma(p, w, vf_set(c[k]));
        p = vf_mul(vf_mul(p, w), exp_any(vf_mul(vf_mul(vf_set(-0.5f), t), t)));
        const vf a = vf_select(vf_less(x, vf_zero()), vf_mul(x, p), vf_fma(minus, p, x));
        vf_store(job->y + i, job->w ? vf_mul(a, vf_load(job->w + i)) : a);
    }
    for (; i < end; i++) {
        const float a = kvc_gelu_exact(job->x[i]);
        job->y[i] = job->w ? a * job->w[i] : a;
    }
}

static void clamped_silu_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    const size_t end = piece_end(job, task);
    const vf limit = vf_set(KVC_CLAMP_LIMIT), least = vf_set(-KVC_CLAMP_LIMIT), one = vf_set(1.0f);
    size_t i = task * job->piece;
    (void)thread;
    for (; i + LANES <= end; i += LANES) {
        const vf gate = vf_load(job->x + i), up = vf_load(job->w + i);
        const vf g = vf_select(vf_less(limit, gate), limit, gate), high = vf_select(vf_less(limit, up), limit, up);
        const vf u = vf_select(vf_less(high, least), least, high);
        const vf e = exp_any(vf_sub(vf_set(-0.0f), vf_mul(vf_set(KVC_CLAMP_SLOPE), g)));
        vf_store(job->y + i, vf_mul(vf_add(u, one), vf_div(g, vf_add(one, e))));
    }
    for (; i < end; i++)
        job->y[i] = kvc_clamped_silu(job->x[i], job->w[i]);
}

static void gated_silu(struct kvc_device *device, const struct kvc_gated_silu *args) {
    struct rows_job job = {.y = kvc_span_data(args->y),
                           .x = kvc_span_data(args->gate),
                           .w = args->up.buffer ? kvc_span_data(args->up) : NULL,
                           .count = args->n,
                           .width = 1,
                           .activation = args->activation};
    kvc_task_fn *task = args->activation == KVC_CLAMPED_SILU    ? clamped_silu_task
                        : args->activation == KVC_GELU_EXACT    ? gelu_exact_task
                        : args->activation == KVC_SILU && job.w ? gated_silu_task
                                                                : activation_task;
    run_pieces(device, &job, task, (double)args->n * 40 / LANES);
}

static void add_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    const size_t end = piece_end(job, task);
    size_t i = task * job->piece;
    (void)thread;
    for (; i + LANES <= end; i += LANES)
        vf_store(job->y + i, vf_add(vf_load(job->y + i), vf_load(job->x + i)));
    for (; i < end; i++)
        job->y[i] = job->y[i] + job->x[i];
}

static void add(struct kvc_device *device, const struct kvc_add *args) {
    struct rows_job job = {.y = kvc_span_data(args->y), .x = kvc_span_data(args->x), .count = args->n, .width = 1};
    run_pieces(device, &job, add_task, (double)args->n * 3 / LANES);
}

static void scale_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    const size_t from = task * job->piece, end = piece_end(job, task);
    size_t i = from;
    (void)thread;
    for (; i + LANES <= end; i += LANES)
        vf_store(job->y + i, vf_mul(vf_load(job->x + i), vf_set(job->share)));
    for (; i < end; i++)
        job->y[i] = job->x[i] * job->share;
    if (job->cap != 0.0f)
        cap_scores(job->y + from, end - from, job->cap);
}

static void scale(struct kvc_device *device, const struct kvc_scale *args) {
    struct rows_job job = {.y = kvc_span_data(args->y),
                           .x = kvc_span_data(args->x),
                           .count = args->n,
                           .width = 1,
                           .share = args->factor,
                           .cap = args->cap};
    run_pieces(device, &job, scale_task, (double)args->n * (args->cap != 0.0f ? 60 : 2) / LANES);
}

/* ---- smooth ---- */

/* Sums over rows, for channels i to i + n - 1 of one KV head, where n is at most LANES: the squares of keys less their
 * mean, and of the queries of its group. */
static void smooth_sums(const struct kvc_smooth_factors *args, size_t i, size_t n, float *keys, float *queries) {
    const size_t width = (size_t)args->kv_heads * args->d, group = args->heads / args->kv_heads;
    const float *k = (const float *)kvc_span_data(args->k) + i;
    const float *q = (const float *)kvc_span_data(args->q) + i / args->d * group * args->d + i % args->d;
    vf mean = vf_zero(), key_squares = vf_zero(), query_squares = vf_zero();
    for (size_t r = 0; r < args->rows; r++)
        mean = vf_add(mean, vf_part_load(k + r * width, n));
    mean = vf_div(mean, vf_set((float)args->rows));
    for (size_t r = 0; r < args->rows; r++) {
        const vf off = vf_sub(vf_part_load(k + r * width, n), mean);
        key_squares = vf_fma(off, off, key_squares);
        for (size_t j = 0; j < group; j++) {
            const vf x = vf_part_load(q + r * group * width + j * args->d, n);
            query_squares = vf_fma(x, x, query_squares);
        }
    }
    vf_store(keys, key_squares);
    vf_store(queries, query_squares);
}

static void smooth_factors(struct kvc_device *device, const struct kvc_smooth_factors *args) {
    const size_t d = args->d, width = (size_t)args->kv_heads * d;
    const float group = (float)(args->heads / args->kv_heads);
    float *factors = kvc_span_data(args->factors), keys[LANES], queries[LANES];
    KVC_ASSERT(args->rows > 0 && args->heads % args->kv_heads == 0);
    (void)device;
    for (size_t i = 0, n; i < width; i += n) {
        n = kvc_min_u64(d - i % d, LANES);
        if (args->q.buffer)
            smooth_sums(args, i, n, keys, queries);
        for (size_t c = 0; c < n; c++) {
            const float factor = args->q.buffer ? kvc_smooth_factor(keys[c] * group, queries[c]) : 1.0f;
            factors[i + c] = kvc_div(1.0f, factor);
            factors[width + i + c] = factor;
        }
    }
}

static void smooth_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    const size_t end = piece_end(job, task);
    (void)thread;
    for (size_t r = task * job->piece; r < end; r++)
        for (uint32_t h = 0; h < job->heads; h++) {
            float *x = job->y + r * job->width + (size_t)h * job->head_size;
            const float *factor = job->x + (size_t)(h / job->group) * job->head_size;
            for (uint32_t c = 0; c < job->head_size; c++)
                x[c] *= factor[c];
        }
}

static void smooth(struct kvc_device *device, const struct kvc_smooth *args) {
    struct rows_job job = {.y = kvc_span_data(args->x),
                           .x = kvc_span_data(args->factor),
                           .count = args->rows,
                           .width = (size_t)args->heads * args->d,
                           .heads = args->heads,
                           .head_size = args->d,
                           .group = args->heads / args->kv_heads};
    KVC_ASSERT(args->heads % args->kv_heads == 0);
    run_pieces(device, &job, smooth_task, (double)args->rows * args->heads * args->d / LANES);
}

/* ---- centre ---- */

static void centre_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    (void)thread;
    for (size_t r = task * job->piece; r < piece_end(job, task); r++)
        for (size_t i = 0; i < job->width; i++)
            job->y[r * job->width + i] -= job->x[i];
}

/* Replaces the mean of n channels of keys, one group at most, by the centre. x [n] is from the first key. */
static void keep_first(const float *x, float *centre, size_t n, float half) {
    float key[KVC_ENTRY_GROUP];
    for (size_t i = 0; i < n; i++)
        key[i] = x[i] - centre[i];
    kvc_round_group(key, (int)n, half);
    for (size_t i = 0; i < n; i++)
        centre[i] = x[i] - key[i];
}

static void centre(struct kvc_device *device, const struct kvc_centre *args) {
    const size_t width = args->width, d = args->d;
    float *x = kvc_span_data(args->x), *mean = kvc_span_data(args->centre);
    struct rows_job job = {.y = x, .x = mean, .count = args->rows, .width = width};
    KVC_ASSERT(args->first <= args->rows);
    if (args->first)
        memset(mean, 0, width * sizeof *mean);
    for (uint32_t r = 0; r < args->first; r++)
        for (size_t i = 0; i < width; i++)
            mean[i] += x[r * width + i];
    for (size_t i = 0; i < width && args->first; i++)
        mean[i] = kvc_div(mean[i], (float)args->first);
    for (size_t i = 0, n; i < width && args->first && kvc_type_is_rotated(args->type); i += n) {
        n = kvc_min_u64(d - i % d, KVC_ENTRY_GROUP);
        keep_first(x + i, mean + i, n, kvc_rotated_half(args->type));
    }
    run_pieces(device, &job, centre_task, (double)args->rows * (double)width / LANES);
}

/* ---- hadamard ---- */

/* One step of the transform for all channels of a part. Inlined for each small step. */
INLINE void hadamard_step(float *x, size_t width, size_t step) {
    for (size_t i = 0; i < width; i += 2 * step)
        for (size_t j = i; j < i + step; j++) {
            const float a = x[j], b = x[j + step];
            x[j] = a + b;
            x[j + step] = a - b;
        }
}

static void hadamard_part(float *x, size_t width) {
    if (width >= 2)
        hadamard_step(x, width, 1);
    if (width >= 4)
        hadamard_step(x, width, 2);
    if (width >= 8)
        hadamard_step(x, width, 4);
    for (size_t step = 8; step < width; step *= 2)
        hadamard_step(x, width, step);
    const float factor = kvc_hadamard_factor((kvc_u32)width);
    for (size_t i = 0; i < width; i++)
        x[i] = x[i] * factor;
}

/* Transforms a key or value [d] if entries of this type are rotated. */
INLINE void hadamard_head(enum kvc_type type, float *x, size_t d) {
    const size_t width = kvc_hadamard_width((kvc_u32)d);
    for (float *part = x; kvc_type_is_rotated(type) && part < x + d; part += width)
        hadamard_part(part, width);
}

static void hadamard_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    const size_t d = job->width, width = kvc_hadamard_width((kvc_u32)d), end = piece_end(job, task);
    (void)thread;
    for (float *part = job->y + task * job->piece * d; part < job->y + end * d; part += width)
        hadamard_part(part, width);
}

static void hadamard(struct kvc_device *device, const struct kvc_hadamard *args) {
    struct rows_job job = {.y = kvc_span_data(args->x), .count = args->heads, .width = args->d};
    run_pieces(device, &job, hadamard_task, (double)args->heads * args->d * 14 / LANES);
}

/* ---- fma_loop ---- */

static void fma_loop_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    const size_t end = piece_end(job, task);
    const uint32_t rounds = job->heads;
    const vf a = vf_set(0.999f), b = vf_set(0.001f);
    size_t i = task * job->piece;
    (void)thread;
    for (; i + 8 * LANES <= end; i += 8 * LANES) { /* enough independent chains to hide the latency of an fma */
        vf x[8];
        UNROLL
        for (unsigned v = 0; v < 8; v++)
            x[v] = vf_load(job->y + i + v * LANES);
        for (uint32_t r = 0; r < rounds; r++) {
            UNROLL
            for (unsigned v = 0; v < 8; v++)
                x[v] = vf_fma(x[v], a, b);
        }
        UNROLL
        for (unsigned v = 0; v < 8; v++)
            vf_store(job->y + i + v * LANES, x[v]);
    }
}

static void fma_loop(struct kvc_device *device, const struct kvc_fma_loop *args) {
    struct rows_job job = {.y = kvc_span_data(args->x), .count = args->n, .width = 1, .heads = args->rounds};
    if (args->rounds)
        run_pieces(device, &job, fma_loop_task, (double)args->n * args->rounds / LANES);
}

static void blend_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    const size_t end = piece_end(job, task);
    const float rest = 1.0f - job->share;
    size_t i = task * job->piece;
    (void)thread;
    for (; i + LANES <= end; i += LANES)
        vf_store(job->y + i,
                 vf_fma(vf_set(job->share), vf_load(job->y + i), vf_mul(vf_set(rest), vf_load(job->x + i))));
    for (; i < end; i++)
        job->y[i] = kvc_fma(job->share, job->y[i], rest * job->x[i]);
}

static void blend(struct kvc_device *device, const struct kvc_blend *args) {
    struct rows_job job = {
        .y = kvc_span_data(args->y), .x = kvc_span_data(args->x), .count = args->n, .width = 1, .share = args->share};
    run_pieces(device, &job, blend_task, (double)args->n * 4 / LANES);
}

static void gather_task(void *argument, size_t task, unsigned thread) {
    const struct rows_job *job = argument;
    (void)thread;
    for (size_t i = task * job->piece; i < piece_end(job, task); i++)
        memcpy(job->y + i * job->width, job->x + (size_t)job->index[i] * job->width, job->width * sizeof(float));
}

static void gather(struct kvc_device *device, const struct kvc_gather *args) {
    struct rows_job job = {.y = kvc_span_data(args->out),
                           .x = kvc_span_data(args->x),
                           .index = kvc_span_data(args->index),
                           .count = args->rows,
                           .width = args->width};
    run_pieces(device, &job, gather_task, (double)args->rows * args->width * 2 / LANES);
}

#endif
