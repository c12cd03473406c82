/* entries.h - template: scores of entries that need no query: entry_scores, norm_shares, lag_scores, mix_redundancy,
 * output_norms, weigh_scores. A task computes one head unless stated otherwise. */
#ifndef KVC_SIMD_SCORES_ENTRIES_H
#define KVC_SIMD_SCORES_ENTRIES_H

#include "core/base/integers.h"
#include "backends/cpu/simd/bump.h"
#include "backends/cpu/simd/attention/small_batch.h"

/* Loads channels c .. c + LANES - 1 of a row; channels from d on are +0. */
INLINE vf some_channels(enum kvc_type type, const unsigned char *row, size_t c, size_t d) {
    return c + LANES > d      ? entry_part_load(type, row, c, d - c)
           : type == KVC_F32  ? entry_load(KVC_F32, row, c)
           : type == KVC_F16  ? entry_load(KVC_F16, row, c)
           : type == KVC_Q8_0 ? entry_load(KVC_Q8_0, row, c)
                              : entry_packed_load(type, row, c, d);
}

/* Returns dot32 of a row with y [padded], or with itself if y is NULL. Padding adds +0 to lanes that are never -0. */
INLINE float dot_row(enum kvc_type type, const unsigned char *row, const float *y, size_t d) {
    vf lane[LANE_VECTORS];
    UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_zero();
    for (size_t c = 0; c < d; c += KVC_LANES) {
        UNROLL
        for (unsigned f = 0; f < LANE_VECTORS; f++) {
            const size_t at = c + f * LANES;
            if (at >= d)
                break;
            const vf x = some_channels(type, row, at, d);
            lane[f] = vf_fma(x, y ? vf_part_load(y + at, d - at) : x, lane[f]);
        }
    }
    return sum_lanes(lane);
}

/* ---- entry_scores ---- */

struct entry_scores_job {
    struct kvc_cpu *cpu;
    const struct kvc_entry_scores *args;
    uint32_t blocks_most;
};

struct entry_work {
    const unsigned char **block;
    float *u, *tile; /* [padded] */
};

static size_t lay_out_entry(const struct entry_scores_job *job, struct entry_work *work, unsigned char *base) {
    struct bump at = {base, 0};
    const size_t bytes = padded_size(job->args->lists->format.head_size) * sizeof(float);
    work->block = bump_take(&at, job->blocks_most * sizeof *work->block);
    work->u = bump_take(&at, bytes);
    work->tile = bump_take(&at, bytes);
    return at.used;
}

/* Computes u, the sum of a head's keys, each divided by its length in r. */
static void add_directions(enum kvc_type type, const struct head_entries *head, const float *r, size_t d,
                           struct entry_work *work) {
    memset(work->u, 0, padded_size(d) * sizeof *work->u);
    for (uint32_t first = 0; first < head->count; first += KVC_TILE) {
        const uint32_t end = kvc_min_u32(head->count, first + KVC_TILE);
        memset(work->tile, 0, padded_size(d) * sizeof *work->tile);
        for (uint32_t index = first; index < end; index++) {
            const unsigned char *key = slot_key(head, head_slot(head, index));
            const vf length = vf_set(r[index]);
            for (size_t c = 0; c < d && r[index] != 0.0f; c += LANES)
                vf_store(work->tile + c,
                         vf_add(vf_load(work->tile + c), vf_div(some_channels(type, key, c, d), length)));
        }
        for (size_t c = 0; c < d; c += LANES)
            vf_store(work->u + c, vf_add(vf_load(work->u + c), vf_load(work->tile + c)));
    }
}

static void entry_scores_task(void *argument, size_t task, unsigned thread) {
    const struct entry_scores_job *job = argument;
    const struct kvc_entry_scores *args = job->args;
    const enum kvc_type type = args->lists->format.key.type;
    const size_t d = args->lists->format.head_size;
    const uint32_t h = (uint32_t)task;
    const float *filter = args->filter.buffer ? (const float *)kvc_span_data(args->filter) + task * d : NULL;
    float *score = (float *)kvc_span_data(args->scores) + task * args->stride;
    struct entry_work work;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, lay_out_entry(job, &work, NULL));
    if (!scratch)
        return;
    lay_out_entry(job, &work, scratch);
    const struct head_entries head = head_open(args->lists, NULL, h, work.block);
    for (uint32_t index = 0; index < head.count; index++) {
        const uint32_t slot = head_slot(&head, index);
        if (args->kind == KVC_ENTRY_DRAW) {
            const kvc_u32 position = (kvc_u32)slot_position(&head, slot);
            score[index] =
                (float)(kvc_philox4x32(args->layer, args->first_list + h, position, 1u, args->seed).word[0] >> 8);
            continue;
        }
        if (args->kind == KVC_ENTRY_FILTER) {
            score[index] = dot_row(type, slot_key(&head, slot), filter, d);
            continue;
        }
        const float length = kvc_sqrt(dot_row(type, slot_key(&head, slot), NULL, d));
        score[index] = args->kind == KVC_ENTRY_NORM ? -length : length;
    }
    if (args->kind != KVC_ENTRY_APART)
        return;
    add_directions(type, &head, score, d, &work);
    for (uint32_t index = 0; index < head.count; index++)
        score[index] = score[index] == 0.0f
                           ? 0.0f
                           : -kvc_div(dot_row(type, slot_key(&head, head_slot(&head, index)), work.u, d), score[index]);
}

/* Returns the number of vector operations for all entries of the lists, at `each` operations per entry. *blocks_most
 * receives the largest number of blocks of a head. */
static double entries_work(const struct kvc_lists *lists, double each, uint32_t *blocks_most) {
    double work = 0.0;
    *blocks_most = 0;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        *blocks_most = kvc_max_u32((uint32_t)head_block_count(lists, h), *blocks_most);
        work += ((const uint32_t *)lists->count->data)[h] * each;
    }
    return work;
}

static void entry_scores(struct kvc_device *device, const struct kvc_entry_scores *args) {
    struct entry_scores_job job = {(struct kvc_cpu *)device, args, 0};
    KVC_ASSERT(args->kind <= KVC_ENTRY_FILTER && (args->kind != KVC_ENTRY_FILTER || args->filter.buffer));
    const double each = args->lists->format.head_size * (args->kind == KVC_ENTRY_APART ? 8.0 : 2.0) / LANES + 16.0;
    const double work = entries_work(args->lists, each, &job.blocks_most);
    kvc_threads_run(threads_for(job.cpu, work), args->lists->kv_heads, entry_scores_task, &job);
}

/* ---- norm_shares ---- */

struct norm_shares_job {
    struct kvc_cpu *cpu;
    const struct kvc_norm_shares *args;
    uint32_t blocks_most;
};

struct shares_work {
    const unsigned char **block;
    float *other; /* [stride] */
};

static size_t lay_out_shares(const struct norm_shares_job *job, struct shares_work *work, unsigned char *base) {
    struct bump at = {base, 0};
    work->block = bump_take(&at, job->blocks_most * sizeof *work->block);
    work->other = bump_take(&at, job->args->stride * sizeof *work->other);
    return at.used;
}

/* Divides the squared length of each entry's key or value by the sum of the squared lengths in its chunk. If
 * args->chunk is 0, writes the squared lengths. */
static void make_shares(const struct kvc_norm_shares *args, const struct head_entries *head, bool values,
                        float *share) {
    const struct kvc_entry_format *format = &args->lists->format;
    const enum kvc_type type = values ? format->value.type : format->key.type;
    for (uint32_t index = 0; index < head->count; index++) {
        const uint32_t slot = head_slot(head, index);
        share[index] = dot_row(type, values ? slot_value(head, slot) : slot_key(head, slot), NULL, format->head_size);
    }
    for (uint32_t first = 0, end; first < head->count && args->chunk; first = end) {
        float sum = 0.0f;
        end = first + kvc_min_u32(head->count - first, args->chunk);
        for (uint32_t index = first; index < end; index++)
            sum = sum + share[index];
        for (uint32_t index = first; index < end; index++)
            share[index] = sum == 0.0f ? 0.0f : kvc_div(share[index], sum);
    }
}

static void norm_shares_task(void *argument, size_t task, unsigned thread) {
    const struct norm_shares_job *job = argument;
    const struct kvc_norm_shares *args = job->args;
    float *score = (float *)kvc_span_data(args->scores) + task * args->stride;
    struct shares_work work;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, lay_out_shares(job, &work, NULL));
    if (!scratch)
        return;
    lay_out_shares(job, &work, scratch);
    const struct head_entries head = head_open(args->lists, NULL, (uint32_t)task, work.block);
    KVC_ASSERT(head.count <= args->stride);
    make_shares(args, &head, args->kind == KVC_SHARE_VALUES, score);
    if (args->kind < KVC_SHARE_MEAN)
        return;
    make_shares(args, &head, true, work.other);
    for (uint32_t r = 0; r < head.count; r++)
        score[r] = args->kind == KVC_SHARE_MEAN ? (score[r] + work.other[r]) * 0.5f : score[r] * work.other[r];
}

static void norm_shares(struct kvc_device *device, const struct kvc_norm_shares *args) {
    struct norm_shares_job job = {(struct kvc_cpu *)device, args, 0};
    const double each = args->lists->format.head_size * 4.0 / LANES + 16.0;
    const double work = entries_work(args->lists, each, &job.blocks_most);
    kvc_threads_run(threads_for(job.cpu, work), args->lists->kv_heads, norm_shares_task, &job);
}

/* ---- lag_scores ---- */

struct lag_scores_job {
    struct kvc_cpu *cpu;
    const struct kvc_lag_scores *args;
    uint32_t blocks_most, lag; /* lag: number of entries in the scratch arrays; 0 if no head has two partitions */
};

struct lag_work {
    const unsigned char **block;
    float *low, *high, *t; /* [padded] */
    float *s, *raw;        /* [lag] */
    uint32_t *key;         /* [lag] */
};

static size_t lay_out_lag(const struct lag_scores_job *job, struct lag_work *work, unsigned char *base) {
    struct bump at = {base, 0};
    const size_t bytes = padded_size(job->args->lists->format.head_size) * sizeof(float);
    work->block = bump_take(&at, job->blocks_most * sizeof *work->block);
    work->low = bump_take(&at, bytes);
    work->high = bump_take(&at, bytes);
    work->t = bump_take(&at, bytes);
    work->s = bump_take(&at, job->lag * sizeof *work->s);
    work->raw = bump_take(&at, job->lag * sizeof *work->raw);
    work->key = bump_take(&at, job->lag * sizeof *work->key);
    return at.used;
}

/* Returns the key row or the value row at an index. */
INLINE const unsigned char *side_row(const struct head_entries *head, uint32_t index, bool values) {
    const uint32_t slot = head_slot(head, index);
    return values ? slot_value(head, slot) : slot_key(head, slot);
}

/* Returns s, the standard deviation of one row after its channels are scaled from low .. high to 0 .. 1. */
static float lag_spread(enum kvc_type type, const unsigned char *row, size_t d, const struct lag_work *work) {
    vf lane[LANE_VECTORS];
    UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_zero();
    for (size_t c = 0; c < d; c += LANES) {
        const vf low = vf_load(work->low + c), high = vf_load(work->high + c);
        const vf scaled = vf_div(vf_sub(some_channels(type, row, c, d), low), vf_sub(high, low));
        const vf t = vf_select(vf_less(low, high), scaled, vf_zero());
        vf_store(work->t + c, t);
        lane[c / LANES % LANE_VECTORS] = vf_add(lane[c / LANES % LANE_VECTORS], t);
    }
    const vf mean = vf_set(kvc_div(sum_lanes(lane), (float)d));
    UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_zero();
    for (size_t c = 0; c < d; c += LANES) {
        vf e = vf_sub(vf_load(work->t + c), mean);
        if (c + LANES > d)
            e = vf_select(vm_first(d - c), e, vf_zero());
        lane[c / LANES % LANE_VECTORS] = vf_fma(e, e, lane[c / LANES % LANE_VECTORS]);
    }
    return d > 1 ? kvc_sqrt(kvc_div(sum_lanes(lane), (float)(d - 1))) : 0.0f;
}

/* Computes the softmax of s over the partition's entries. For keys, writes the result to the array `raw`; for values,
 * averages it with `raw`. */
static void lag_side(enum kvc_type type, const struct head_entries *head, uint32_t first, uint32_t lag, bool values,
                     size_t d, const struct lag_work *work) {
    float M = -kvc_infinity(), lane[KVC_LANES] = {0};
    for (uint32_t i = 0; i < lag; i++) {
        const unsigned char *row = side_row(head, first + lag + i, values);
        for (size_t c = 0; c < d; c += LANES) {
            const vf x = some_channels(type, row, c, d);
            const vf low = i ? vf_load(work->low + c) : x, high = i ? vf_load(work->high + c) : x;
            vf_store(work->low + c, vf_select(vf_less(x, low), x, low));
            vf_store(work->high + c, vf_select(vf_less(high, x), x, high));
        }
    }
    for (uint32_t i = 0; i < lag; i++) {
        work->s[i] = lag_spread(type, side_row(head, first + i, values), d, work);
        M = kvc_max(M, work->s[i]);
    }
    for (uint32_t i = 0; i < lag; i++) {
        work->s[i] = kvc_exp(work->s[i] - M);
        lane[i % KVC_LANES] = lane[i % KVC_LANES] + work->s[i];
    }
    KVC_TREE32(lane);
    for (uint32_t i = 0; i < lag; i++) {
        const float a = kvc_div(work->s[i], lane[0]);
        work->raw[i] = values ? (work->raw[i] + a) * 0.5f : a;
    }
}

static void lag_scores_task(void *argument, size_t task, unsigned thread) {
    const struct lag_scores_job *job = argument;
    const struct kvc_lag_scores *args = job->args;
    const uint32_t lag = args->lag;
    float *score = (float *)kvc_span_data(args->scores) + task * args->stride;
    struct lag_work work;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, lay_out_lag(job, &work, NULL));
    if (!scratch)
        return;
    lay_out_lag(job, &work, scratch);
    const struct head_entries head = head_open(args->lists, NULL, (uint32_t)task, work.block);
    KVC_ASSERT(lag >= 2 && head.count <= args->stride);
    const uint32_t parts = head.count > args->first ? (head.count - args->first) / lag : 0;
    for (uint32_t index = 0; index < head.count; index++)
        score[index] = (float)lag;
    for (uint32_t p = 0; p + 1 < parts; p++) {
        const uint32_t first = args->first + p * lag;
        for (int values = 0; values < 2; values++)
            lag_side(values ? args->lists->format.value.type : args->lists->format.key.type, &head, first, lag, values,
                     args->lists->format.head_size, &work);
        for (uint32_t i = 0; i < lag; i++)
            work.key[i] = kvc_score_key(work.raw[i]);
        for (uint32_t i = 0; i < lag; i++) {
            uint32_t below = 0;
            for (uint32_t j = 0; j < lag && !args->across; j++)
                below += work.key[j] < work.key[i] || (work.key[j] == work.key[i] && j > i);
            score[first + i] = args->across ? work.raw[i] : (float)below;
        }
    }
}

static void lag_scores(struct kvc_device *device, const struct kvc_lag_scores *args) {
    struct lag_scores_job job = {(struct kvc_cpu *)device, args, 0, 0};
    const double each = args->lists->format.head_size * 24.0 / LANES + 40.0 + (args->across ? 0 : args->lag);
    const double work = entries_work(args->lists, each, &job.blocks_most);
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        const uint32_t count = ((const uint32_t *)args->lists->count->data)[h];
        if (count / 2 >= args->lag)
            job.lag = args->lag;
    }
    kvc_threads_run(threads_for(job.cpu, work), args->lists->kv_heads, lag_scores_task, &job);
}

/* ---- mix_redundancy ---- */

/* Turns the scores p [count] into probabilities, from index `first` on, like softmax_indices of ref. */
static void softmax_indices(float *p, uint32_t first, uint32_t count) {
    float M = -kvc_infinity(), L = 0.0f;
    for (uint32_t r = first; r < count; r++)
        M = kvc_max(M, p[r]);
    for (uint32_t tile = 0; tile < count; tile += KVC_TILE) {
        float lane[KVC_LANES] = {0};
        for (uint32_t r = kvc_max_u32(tile, first); r < count && r < tile + KVC_TILE; r++) {
            p[r] = kvc_exp(p[r] - M);
            lane[r % KVC_LANES] = lane[r % KVC_LANES] + p[r];
        }
        KVC_TREE32(lane);
        L = L + lane[0];
    }
    for (uint32_t r = first; r < count; r++)
        p[r] = kvc_div(p[r], L);
}

struct redundancy_job {
    struct kvc_cpu *cpu;
    const struct kvc_mix_redundancy *args;
    uint32_t blocks_most;
};

struct redundancy_work {
    const unsigned char **block;
    float *keys;            /* [count, padded] */
    float *length, *cosine; /* [count] */
    float *lane;            /* [KVC_LANES, count] */
};

static size_t lay_out_redundancy(const struct redundancy_job *job, size_t count, struct redundancy_work *work,
                                 unsigned char *base) {
    struct bump at = {base, 0};
    work->block = bump_take(&at, job->blocks_most * sizeof *work->block);
    work->keys = bump_take(&at, count * padded_size(job->args->lists->format.head_size) * sizeof(float));
    work->length = bump_take(&at, count * sizeof(float));
    work->cosine = bump_take(&at, count * sizeof(float));
    work->lane = bump_take(&at, KVC_LANES * count * sizeof(float));
    return at.used;
}

/* For every key j, adds the cosine of keys i and j to lane i % 32 of key j. Skips j = i and the last key whose cosine
 * is above the threshold (key 0 if there is none). */
static void add_likeness(const struct redundancy_work *work, uint32_t i, uint32_t count, size_t d, float threshold) {
    const size_t padded = padded_size(d);
    const float *key = work->keys + i * padded;
    float *cosine = work->cosine, *lane = work->lane + (size_t)(i % KVC_LANES) * count;
    uint32_t last = count - 1;
    for (uint32_t j = 0; j < count; j++)
        cosine[j] = dot_row(KVC_F32, (const unsigned char *)(work->keys + j * padded), key, d);
    for (uint32_t j = 0; j < count; j++) {
        const float lengths = work->length[i] * work->length[j];
        cosine[j] = lengths == 0.0f ? 0.0f : kvc_div(cosine[j], lengths);
    }
    cosine[i] = 0.0f;
    while (last > 0 && !(cosine[last] > threshold))
        last--;
    cosine[last] = 0.0f; /* adding 0 is the same as skipping the key, because no lane is -0 */
    for (uint32_t j = 0; j < count; j++)
        lane[j] = lane[j] + cosine[j];
}

static void mix_redundancy_task(void *argument, size_t task, unsigned thread) {
    const struct redundancy_job *job = argument;
    const struct kvc_mix_redundancy *args = job->args;
    const size_t d = args->lists->format.head_size, padded = padded_size(d);
    const uint32_t count = ((const uint32_t *)args->lists->count->data)[task];
    float *score = (float *)kvc_span_data(args->scores) + task * args->stride;
    struct redundancy_work work;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, lay_out_redundancy(job, count, &work, NULL));
    if (!scratch)
        return;
    lay_out_redundancy(job, count, &work, scratch);
    const struct head_entries head = head_open(args->lists, NULL, (uint32_t)task, work.block);
    memset(work.lane, 0, (size_t)KVC_LANES * count * sizeof *work.lane);
    for (uint32_t r = 0; r < count; r++) {
        const unsigned char *key = slot_key(&head, head_slot(&head, r));
        for (size_t c = 0; c < d; c += LANES)
            vf_store(work.keys + r * padded + c, some_channels(args->lists->format.key.type, key, c, d));
        work.length[r] = kvc_sqrt(dot_row(args->lists->format.key.type, key, NULL, d));
    }
    for (uint32_t i = 0; i < count; i++)
        add_likeness(&work, i, count, d, args->threshold);
    for (size_t half = KVC_LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half * count; i++)
            work.lane[i] = work.lane[i] + work.lane[i + half * count];
    for (uint32_t r = 0; r < count; r++)
        work.lane[r] = kvc_div(work.lane[r], (float)count);
    softmax_indices(work.lane, 0, count);
    for (uint32_t r = 0; r < count; r++)
        score[r] = kvc_fma(args->share, kvc_div(score[r], args->divisor), (args->share - 1.0f) * work.lane[r]);
}

static void mix_redundancy(struct kvc_device *device, const struct kvc_mix_redundancy *args) {
    struct redundancy_job job = {(struct kvc_cpu *)device, args, 0};
    uint32_t most = 0;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++)
        most = kvc_max_u32(((const uint32_t *)args->lists->count->data)[h], most);
    const double each = (args->lists->format.head_size * 2.0 / LANES + 8.0) * most;
    const double work = entries_work(args->lists, each, &job.blocks_most);
    kvc_threads_run(threads_for(job.cpu, work), args->lists->kv_heads, mix_redundancy_task, &job);
}

/* ---- output_norms, weigh_scores ---- */

struct norms_job {
    struct kvc_cpu *cpu;
    const struct kvc_output_norms *args;
    uint32_t blocks_most;
};

/* A task computes one query head and KVC_TILE indices. */
static void output_norms_task(void *argument, size_t task, unsigned thread) {
    const struct norms_job *job = argument;
    const struct kvc_output_norms *args = job->args;
    const size_t d = args->lists->format.head_size, width = args->heads * d, g = task % args->heads;
    const uint32_t h = (uint32_t)g / (args->heads / args->lists->kv_heads),
                   first = (uint32_t)(task / args->heads) * KVC_TILE;
    const uint32_t count = ((const uint32_t *)args->lists->count->data)[h];
    const float *w = (const float *)kvc_span_data(args->w) + g * d;
    float *norm = (float *)kvc_span_data(args->norms) + g * args->stride, *value;
    const unsigned char **block;
    struct bump at = {kvc_cpu_scratch(job->cpu, thread,
                                      job->blocks_most * sizeof *block + (padded_size(d) + 16) * sizeof *value + 128),
                      0};
    if (!at.base)
        return;
    block = bump_take(&at, job->blocks_most * sizeof *block);
    value = bump_take(&at, padded_size(d) * sizeof *value);
    const struct head_entries head = head_open(args->lists, NULL, h, block);
    for (uint32_t r = first; r < count && r < first + KVC_TILE; r++) {
        float sum = args->first ? 0.0f : norm[r];
        for (size_t c = 0; c < d; c += LANES)
            vf_store(value + c, some_channels(args->lists->format.value.type, side_row(&head, r, true), c, d));
        for (uint32_t n = 0; n < args->outputs; n++) {
            const float dot = dot_row(KVC_F32, (const unsigned char *)(w + n * width), value, d);
            sum = sum + kvc_from_bits(kvc_bits(dot) & 0x7fffffffu);
        }
        norm[r] = sum;
    }
}

static void output_norms(struct kvc_device *device, const struct kvc_output_norms *args) {
    struct norms_job job = {(struct kvc_cpu *)device, args, 0};
    KVC_ASSERT(args->heads % args->lists->kv_heads == 0);
    const double group = (double)args->heads / args->lists->kv_heads;
    const double each = group * args->outputs * (args->lists->format.head_size * 2.0 / LANES + 6.0);
    const double work = entries_work(args->lists, each, &job.blocks_most);
    kvc_threads_run(threads_for(job.cpu, work), (size_t)job.blocks_most * args->heads, output_norms_task, &job);
}

static void weigh_scores_task(void *argument, size_t task, unsigned thread) {
    const struct kvc_weigh_scores *args = argument;
    const uint32_t *index = (const uint32_t *)args->kept->index->data + task * args->kept->stride;
    const uint32_t kept = ((const uint32_t *)args->kept->count->data)[task];
    const uint32_t count = ((const uint32_t *)args->lists->count->data)[task];
    const float *factor = (const float *)kvc_span_data(args->factor) + task * args->stride;
    KVC_ASSERT(kept <= count && count <= args->stride && (kept == 0 || index[kept - 1] < count));
    float *score = (float *)kvc_span_data(args->scores) + task * args->stride;
    (void)thread;
    for (uint32_t r = 0; r < count; r++)
        score[r] = (score[r] + args->epsilon) * factor[r];
    for (uint32_t i = 0; i < kept; i++)
        score[index[i]] = kvc_infinity();
}

static void weigh_scores(struct kvc_device *device, const struct kvc_weigh_scores *args) {
    struct kvc_weigh_scores copy = *args;
    (void)device;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++)
        weigh_scores_task(&copy, h, 0);
}

#endif
