/* keep.h - template: chooses entries by their scores: pool, group_scores, keep and shares. */
#ifndef KVC_SIMD_KEEP_H
#define KVC_SIMD_KEEP_H

#include "core/base/integers.h"
#include "backends/cpu/simd/bump.h"
#include "backends/cpu/simd/attention/entries.h"

/* ---- pool ---- */

struct pool_job {
    const struct kvc_lists *lists;
    float *out;
    const float *in;
    uint32_t rows, stride, kernel; /* rows: number of rows of scores per head */
    uint64_t tail;
    enum kvc_pooling pooling;
};

/* Returns the pooled value at index r, for an r near an end of x [n]. */
static float pool_one(const float *x, uint32_t n, uint32_t r, uint32_t kernel, enum kvc_pooling pooling) {
    const uint32_t half = kernel / 2;
    KVC_ASSERT(r < n);
    const uint32_t first = r > half ? r - half : 0, last = n - 1 - r > half ? r + half : n - 1;
    float value = pooling == KVC_POOL_MAX ? x[first] : 0.0f;
    for (uint32_t i = first; i <= last; i++)
        value = pooling == KVC_POOL_MAX ? kvc_max(value, x[i]) : value + x[i];
    return pooling == KVC_POOL_MAX ? value : kvc_div(value, (float)kernel);
}

static void pool_chunks(float *y, const float *x, uint32_t n, uint32_t kernel) {
    for (uint32_t first = 0; first < n; first += kvc_min_u32(n - first, kernel)) {
        const uint32_t end = first + kvc_min_u32(n - first, kernel);
        float sum = 0.0f;
        for (uint32_t r = first; r < end; r++)
            sum = sum + x[r];
        const float mean = kvc_div(sum, (float)(end - first));
        for (uint32_t r = first; r < end; r++)
            y[r] = mean;
    }
}

static void pool_task(void *argument, size_t task, unsigned thread) {
    const struct pool_job *job = argument;
    const uint32_t count = ((const uint32_t *)job->lists->count->data)[task / job->rows], half = job->kernel / 2;
    const uint32_t n = job->tail < count ? count - (uint32_t)job->tail : 0;
    KVC_ASSERT(count <= job->stride);
    const float *x = job->in + task * job->stride;
    float *y = job->out + task * job->stride;
    uint32_t r = 0;
    (void)thread;
    if (job->pooling == KVC_POOL_CHUNKS) {
        pool_chunks(y, x, n, job->kernel);
        r = n;
    }
    for (; r < n && (r < half || r + half >= n); r++)
        y[r] = pool_one(x, n, r, job->kernel, job->pooling);
    for (; (uint64_t)r + LANES + half <= n; r += LANES) {
        const float *from = x + (r - half);
        vf value = job->pooling == KVC_POOL_MAX ? vf_load(from) : vf_zero();
        if (job->pooling == KVC_POOL_MAX) {
            for (uint32_t i = 1; i < job->kernel; i++)
                value = vf_max(value, vf_load(from + i));
        } else {
            for (uint32_t i = 0; i < job->kernel; i++)
                value = vf_add(value, vf_load(from + i));
            value = vf_div(value, vf_set((float)job->kernel));
        }
        vf_store(y + r, value);
    }
    for (; r < n; r++)
        y[r] = pool_one(x, n, r, job->kernel, job->pooling);
    memset(y + n, 0, (count - n) * sizeof *y);
}

static void pool(struct kvc_device *device, const struct kvc_pool *args) {
    const struct kvc_lists *lists = args->lists;
    struct pool_job job = {lists,
                           kvc_span_data(args->out),
                           kvc_span_data(args->in),
                           args->rows,
                           args->stride,
                           args->kernel,
                           args->tail,
                           args->pooling};
    KVC_ASSERT(args->kernel > 0 && (args->out.buffer != args->in.buffer || args->out.offset != args->in.offset));
    double work = 0.0;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        work += (double)((const uint32_t *)lists->count->data)[h] * args->rows * (args->kernel + 4.0) / LANES;
    kvc_threads_run(threads_for((struct kvc_cpu *)device, work), (size_t)lists->kv_heads * args->rows, pool_task, &job);
}

/* ---- group_scores ---- */

struct group_job {
    const struct kvc_lists *lists;
    float *out;
    const float *in;
    uint32_t rows, stride;
    float divisor;
};

static void group_task(void *argument, size_t h, unsigned thread) {
    const struct group_job *job = argument;
    const uint32_t count = ((const uint32_t *)job->lists->count->data)[h];
    KVC_ASSERT(count <= job->stride);
    const float *x = job->in + h * job->rows * job->stride;
    float *y = job->out + h * job->stride;
    (void)thread;
    for (uint32_t r = 0; r < count; r += LANES) {
        vf sum = vf_zero();
        for (uint32_t g = 0; g < job->rows; g++)
            sum = vf_add(sum, vf_part_load(x + (size_t)g * job->stride + r, count - r));
        vf_part_store(y + r, vf_div(sum, vf_set(job->divisor)), count - r);
    }
}

static void group_scores(struct kvc_device *device, const struct kvc_group_scores *args) {
    const struct kvc_lists *lists = args->lists;
    struct group_job job = {lists,        kvc_span_data(args->out), kvc_span_data(args->in), args->rows, args->stride,
                            args->divisor};
    double work = 0.0;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        work += (double)((const uint32_t *)lists->count->data)[h] * (2.0 * args->rows + 6.0) / LANES;
    kvc_threads_run(threads_for((struct kvc_cpu *)device, work), lists->kv_heads, group_task, &job);
}

/* ---- keep ---- */

struct keep_job {
    struct kvc_cpu *cpu;
    const struct kvc_lists *lists;
    const struct kvc_keep *rules;
    uint32_t rule_count;
    const float *scores, *ties; /* [H_kv, stride] or NULL */
    uint32_t stride, count_most;
    struct kvc_read_list *kept;
};

/* Computes kvc_score_key with the highest bit inverted, so that a signed comparison orders the keys. */
INLINE vi score_keys(vf score) {
    const vi bits = vf_bits(vf_add(score, vf_zero()));
    const vi key = vi_xor(bits, vi_and(vi_sign(bits), vi_set(INT32_MAX)));
    return vi_select(vf_is_nan(score), vi_set(INT32_MIN), key);
}

/* Counts the keys [n] above `bound`. Padding up to a whole vector must be INT32_MIN. */
static uint32_t count_above(const int32_t *keys, uint32_t n, int32_t bound) {
    vi total = vi_set(0);
    const vi limit = vi_set(bound), one = vi_set(1), none = vi_set(0);
    for (uint32_t i = 0; i < n; i += LANES)
        total = vi_add(total, vi_select(vi_greater(vi_load(keys + i), limit), one, none));
    int32_t lane[LANES];
    uint32_t sum = 0;
    vi_store(lane, total);
    UNROLL
    for (unsigned i = 0; i < LANES; i++)
        sum += (uint32_t)lane[i];
    return sum;
}

/* Counts the keys [n] whose unsigned form is at least `least`. */
static uint32_t count_from(const int32_t *keys, uint32_t n, uint32_t least) {
    return least == 0 ? n : count_above(keys, n, (int32_t)((least - 1) ^ 0x80000000u));
}

/* Returns the top-th highest of keys [n], 0 < top <= n. Sets the result bit by bit to the highest bound that at least
 * `top` keys reach. */
static int32_t threshold(const int32_t *keys, uint32_t n, uint32_t top) {
    uint32_t found = 0; /* the bound as an unsigned key */
    KVC_ASSERT(top > 0 && top <= n);
    for (int bit = 31; bit >= 0; bit--) {
        const uint32_t tried = found | 1u << bit;
        if (count_above(keys, n, (int32_t)((tried - 1) ^ 0x80000000u)) >= top)
            found = tried;
    }
    return (int32_t)(found ^ 0x80000000u);
}

/* Computes keys [n, padded to whole vectors] of scores [n]. */
static void make_keys(int32_t *keys, const float *scores, uint32_t n) {
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vi_store(keys + i, score_keys(vf_load(scores + i)));
    if (i < n) {
        vi_store(keys + i, score_keys(vf_part_load(scores + i, n - i)));
        for (uint32_t j = n; j < i + LANES; j++)
            keys[j] = INT32_MIN;
    }
}

/* Returns the index of the lowest of keys [n]. A tie goes to the last index. */
static uint32_t last_lowest(const int32_t *keys, uint32_t n) {
    vi low = vi_set(INT32_MAX);
    uint32_t i = 0;
    int32_t lane[LANES], least = INT32_MAX;
    KVC_ASSERT(n > 0);
    for (; i + LANES <= n; i += LANES) {
        const vi x = vi_load(keys + i);
        low = vi_select(vi_greater(low, x), x, low);
    }
    vi_store(lane, low);
    UNROLL
    for (unsigned j = 0; j < LANES; j++)
        least = lane[j] < least ? lane[j] : least;
    for (; i < n; i++)
        least = keys[i] < least ? keys[i] : least;
    for (i = n; i % LANES != 0; i--)
        if (keys[i - 1] == least)
            return i - 1;
    for (; i > 0; i -= LANES) {
        const unsigned bits = vm_bits(vi_equal(vi_load(keys + i - LANES), vi_set(least)));
        if (bits)
            return i - LANES + (31u - (unsigned)__builtin_clz(bits));
    }
    return 0;
}

/* Writes first, first + 1, ... to indices [n]. Returns the address after the last one. */
static uint32_t *count_up(uint32_t *indices, uint32_t first, uint32_t n) {
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vi_store(indices + i, vi_add(vi_ascending(), vi_set((int32_t)(first + i))));
    for (; i < n; i++)
        indices[i] = first + i;
    return indices + n;
}

/* Writes low + i for each index i of the `top` highest keys [n], 0 < top < n. If several keys equal the lowest of
 * these, those with the lowest indices are taken or, if `ties` [n] is given, those with the highest values in `ties`.
 * tie_keys [n] is scratch. */
static uint32_t *write_top(uint32_t *next, uint32_t low, const int32_t *keys, uint32_t n, uint32_t top,
                           const float *ties, int32_t *tie_keys) {
    const int32_t bound = threshold(keys, n, top);
    const uint32_t *full = next + top;
    uint32_t equal = top - count_above(keys, n, bound), tied = 0;
    int32_t tie_bound = INT32_MIN;
    KVC_ASSERT(top < n && equal >= 1 && equal <= top);
    for (uint32_t i = 0; ties && i < n; i++)
        if (keys[i] == bound)
            ((float *)(void *)tie_keys)[tied++] = ties[i];
    if (tied > equal) {
        make_keys(tie_keys, (const float *)(const void *)tie_keys, tied);
        tie_bound = threshold(tie_keys, tied, equal);
        equal -= count_above(tie_keys, tied, tie_bound);
        tied = 0;
    } else {
        ties = NULL;
    }
    for (uint32_t i = 0; next < full; i++) {
        bool reaches = keys[i] == bound;
        if (reaches && ties) {
            const int32_t tie = tie_keys[tied++];
            reaches = tie > tie_bound || (tie == tie_bound && equal > 0);
            equal -= reaches && tie == tie_bound;
        } else if (reaches) {
            reaches = equal > 0;
            equal -= reaches;
        }
        *next = low + i;
        next += keys[i] > bound || reaches;
    }
    return next;
}

static void keep_task(void *argument, size_t task, unsigned thread) {
    const struct keep_job *job = argument;
    const uint32_t h = (uint32_t)task;
    const struct kvc_keep *rule = &job->rules[job->rule_count > 1 ? h : 0];
    const uint32_t count = ((const uint32_t *)job->lists->count->data)[h];
    uint32_t *indices = (uint32_t *)job->kept->index->data + (size_t)h * job->kept->stride, *next = indices;
    uint32_t low = rule->first < count ? (uint32_t)rule->first : count;
    uint32_t high = rule->tail < count ? count - (uint32_t)rule->tail : 0, recent = 0, end = count;
    while (recent < end) {
        const uint32_t middle = recent + (end - recent) / 2;
        if (kvc_list_position(job->lists, h, kvc_list_slot(job->lists, h, middle)) >= rule->recent)
            end = middle;
        else
            recent = middle + 1;
    }
    high = kvc_min_u32(recent, high);
    if (high < low || count <= rule->limit)
        high = low;
    KVC_ASSERT(low <= high && high <= count);
    const uint32_t candidates = high - low, forced = count - candidates;
    uint64_t top = rule->top;
    if (rule->fill > forced && top < rule->fill - forced)
        top = rule->fill - forced;
    next = count_up(next, 0, low);
    if (top >= candidates && !rule->bounded) {
        next = count_up(next, low, candidates);
    } else if (!job->scores) {
        next = count_up(next, low, (uint32_t)top);
    } else if (top > 0) {
        const float *score = job->scores + (size_t)h * job->stride + low;
        const float *ties = job->ties ? job->ties + (size_t)h * job->stride + low : NULL;
        const size_t capacity = (size_t)job->count_most + LANES;
        int32_t *keys = kvc_cpu_scratch(job->cpu, thread, (ties ? 2 : 1) * capacity * sizeof *keys);
        if (!keys)
            return;
        make_keys(keys, score, candidates);
        if (rule->bounded)
            top = kvc_min_u64(top, count_from(keys, candidates, kvc_keep_least(rule)));
        if (top >= candidates) {
            next = count_up(next, low, candidates);
        } else if (top == candidates - 1 && !ties) { /* exactly one entry is evicted */
            const uint32_t gone = last_lowest(keys, candidates);
            next = count_up(next, low, gone);
            next = count_up(next, low + gone + 1, candidates - gone - 1);
        } else if (top > 0) {
            next = write_top(next, low, keys, candidates, (uint32_t)top, ties, keys + capacity);
        }
    }
    next = count_up(next, high, count - high);
    KVC_ASSERT((size_t)(next - indices) <= kvc_min_u32(count, job->kept->stride));
    ((uint32_t *)job->kept->count->data)[h] = (uint32_t)(next - indices);
}

static void keep(struct kvc_device *device, const struct kvc_keep_rules *args) {
    const struct kvc_lists *lists = args->lists;
    struct keep_job job = {.cpu = (struct kvc_cpu *)device,
                           .lists = lists,
                           .rules = args->rules,
                           .rule_count = args->rule_count,
                           .scores = args->scores.buffer ? (const float *)kvc_span_data(args->scores) : NULL,
                           .ties = args->ties.buffer ? (const float *)kvc_span_data(args->ties) : NULL,
                           .stride = args->stride,
                           .kept = args->kept};
    KVC_ASSERT(args->rule_count == 1 || args->rule_count == lists->kv_heads);
    double work = 0.0;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t count = ((const uint32_t *)lists->count->data)[h];
        const struct kvc_keep *rule = &args->rules[args->rule_count > 1 ? h : 0];
        const uint64_t kept = rule->top + rule->first + rule->tail;
        job.count_most = kvc_max_u32(count, job.count_most);
        work += count * (job.scores && kept + 64 < count ? 64.0 : 4.0) / LANES;
    }
    kvc_threads_run(threads_for(job.cpu, work), lists->kv_heads, keep_task, &job);
}

/* ---- shares ---- */

static void shares(struct kvc_device *device, const struct kvc_shares *args) {
    const struct kvc_lists *lists = args->lists;
    uint32_t *share = kvc_span_data(args->shares), all = 0;
    size_t padded = 0;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t count = ((const uint32_t *)lists->count->data)[h];
        /* at first, a head's share is all entries that may be chosen */
        share[h] = args->tail < count ? count - (uint32_t)args->tail : 0;
        all += share[h];
        padded += (share[h] + LANES - 1) / LANES * LANES;
    }
    if (args->slots >= all)
        return;
    if (args->slots == 0) {
        memset(share, 0, lists->kv_heads * sizeof *share);
        return;
    }
    int32_t *keys = kvc_cpu_scratch((struct kvc_cpu *)device, 0, padded * sizeof *keys), *mine = keys;
    if (!keys)
        return;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        make_keys(mine, (const float *)kvc_span_data(args->scores) + (size_t)h * args->stride, share[h]);
        mine += (share[h] + LANES - 1) / LANES * LANES;
    }
    const int32_t bound = threshold(keys, (uint32_t)padded, (uint32_t)args->slots);
    uint32_t equal = (uint32_t)args->slots - count_above(keys, (uint32_t)padded, bound);
    mine = keys;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t n = share[h], above = count_above(mine, n, bound);
        const uint32_t reach = (bound == INT32_MIN ? n : count_above(mine, n, bound - 1)) - above;
        share[h] = above + kvc_min_u32(reach, equal);
        equal -= kvc_min_u32(reach, equal);
        mine += (n + LANES - 1) / LANES * LANES;
    }
    KVC_ASSERT(equal == 0); /* the shares add up to the slots */
}

#endif
