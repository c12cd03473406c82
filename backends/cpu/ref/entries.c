/* entries.c - scores of entries that need no query: the norm of a key, its direction, a random draw, the share of a key
 * or value in the squared lengths of its chunk, lagkv's comparison with later entries, and the redundancy of keys. */
#include <string.h>

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/cpu/ref/ref.h"

static float *scores_of(struct kvc_span scores, uint32_t stride, uint32_t h) {
    return (float *)kvc_span_data(scores) + (size_t)h * stride;
}

/* ---- entry_scores ---- */

static void load_key(const struct kvc_lists *lists, uint32_t h, uint32_t index, float *key) {
    KVC_REF(load_key)(lists, h, kvc_list_slot(lists, h, index), key);
}

/* Computes u [d], the sum of a head's keys, each divided by its length in r [count]. Keys of length 0 are left out.
 * tile [d] and key [d] are scratch. */
static void add_directions(const struct kvc_lists *lists, uint32_t h, const float *r, float *u, float *tile,
                           float *key) {
    const uint32_t count = kvc_list_count(lists, h), d = lists->format.head_size;
    memset(u, 0, d * sizeof *u);
    for (uint32_t first = 0; first < count; first += KVC_TILE) {
        memset(tile, 0, d * sizeof *tile);
        for (uint32_t index = first; index < count && index < first + KVC_TILE; index++) {
            if (r[index] == 0.0f)
                continue;
            load_key(lists, h, index, key);
            for (uint32_t c = 0; c < d; c++)
                tile[c] = tile[c] + kvc_div(key[c], r[index]);
        }
        for (uint32_t c = 0; c < d; c++)
            u[c] = u[c] + tile[c];
    }
}

void KVC_REF(entry_scores)(struct kvc_device *device, const struct kvc_entry_scores *args) {
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size;
    float *key = kvc_cpu_scratch((struct kvc_cpu *)device, 0, 3 * (size_t)d * sizeof *key);
    if (!key)
        return;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t count = kvc_list_count(lists, h);
        float *score = scores_of(args->scores, args->stride, h);
        for (uint32_t index = 0; index < count; index++) {
            if (args->kind == KVC_ENTRY_DRAW) {
                const int32_t position = kvc_list_position(lists, h, kvc_list_slot(lists, h, index));
                score[index] =
                    (float)(kvc_philox4x32(args->layer, args->first_list + h, (kvc_u32)position, 1u, args->seed)
                                .word[0] >>
                            8);
                continue;
            }
            load_key(lists, h, index, key);
            if (args->kind == KVC_ENTRY_FILTER) {
                score[index] = kvc_ref_dot(key, (const float *)kvc_span_data(args->filter) + (size_t)h * d, d);
                continue;
            }
            const float length = kvc_sqrt(kvc_ref_dot(key, key, d));
            score[index] = args->kind == KVC_ENTRY_NORM ? -length : length;
        }
        if (args->kind != KVC_ENTRY_APART)
            continue;
        add_directions(lists, h, score, key + d, key + 2 * (size_t)d, key);
        for (uint32_t index = 0; index < count; index++) {
            load_key(lists, h, index, key);
            score[index] = score[index] == 0.0f ? 0.0f : -kvc_div(kvc_ref_dot(key, key + d, d), score[index]);
        }
    }
}

/* ---- norm_shares ---- */

/* Divides the squared length of each entry's key or value by the sum of the squared lengths in its chunk. If `chunk` is
 * 0, writes the squared lengths. x [d] is scratch. */
static void make_shares(const struct kvc_lists *lists, uint32_t h, bool values, uint32_t chunk, float *x,
                        float *share) {
    const uint32_t count = kvc_list_count(lists, h);
    for (uint32_t index = 0; index < count; index++) {
        const uint32_t slot = kvc_list_slot(lists, h, index);
        if (values)
            KVC_REF(load_value)(lists, h, slot, x);
        else
            KVC_REF(load_key)(lists, h, slot, x);
        share[index] = kvc_ref_dot(x, x, lists->format.head_size);
    }
    for (uint32_t first = 0, end; first < count && chunk; first = end) {
        float sum = 0.0f;
        end = first + kvc_min_u32(count - first, chunk);
        for (uint32_t index = first; index < end; index++)
            sum = sum + share[index];
        for (uint32_t index = first; index < end; index++)
            share[index] = sum == 0.0f ? 0.0f : kvc_div(share[index], sum);
    }
}

void KVC_REF(norm_shares)(struct kvc_device *device, const struct kvc_norm_shares *args) {
    KVC_ASSERT(args->kind <= KVC_SHARE_PRODUCT);
    const struct kvc_lists *lists = args->lists;
    const size_t d = lists->format.head_size;
    float *x = kvc_cpu_scratch((struct kvc_cpu *)device, 0, (d + args->stride) * sizeof *x), *other = x + d;
    if (!x)
        return;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        float *score = scores_of(args->scores, args->stride, h);
        make_shares(lists, h, args->kind == KVC_SHARE_VALUES, args->chunk, x, score);
        if (args->kind < KVC_SHARE_MEAN)
            continue;
        make_shares(lists, h, true, args->chunk, x, other);
        for (uint32_t index = 0; index < kvc_list_count(lists, h); index++)
            score[index] =
                args->kind == KVC_SHARE_MEAN ? (score[index] + other[index]) * 0.5f : score[index] * other[index];
    }
}

/* ---- lag_scores ---- */

struct lag { /* one head, and scratch memory */
    const struct kvc_lists *lists;
    uint32_t h, lag, d;
    float *low, *high, *x, *t, *ones; /* [d] each */
    float *s, *raw;                   /* [lag] each */
};

static void load_side(const struct lag *w, uint32_t index, bool values, float *x) {
    const uint32_t slot = kvc_list_slot(w->lists, w->h, index);
    if (values)
        KVC_REF(load_value)(w->lists, w->h, slot, x);
    else
        KVC_REF(load_key)(w->lists, w->h, slot, x);
}

/* Returns s, the standard deviation of w->x after its channels are scaled from low .. high to 0 .. 1. */
static float spread(const struct lag *w) {
    for (uint32_t c = 0; c < w->d; c++)
        w->t[c] = w->high[c] > w->low[c] ? kvc_div(w->x[c] - w->low[c], w->high[c] - w->low[c]) : 0.0f;
    const float mean = kvc_div(kvc_ref_dot(w->t, w->ones, w->d), (float)w->d);
    for (uint32_t c = 0; c < w->d; c++)
        w->t[c] = w->t[c] - mean;
    return w->d > 1 ? kvc_sqrt(kvc_div(kvc_ref_dot(w->t, w->t, w->d), (float)(w->d - 1))) : 0.0f;
}

/* Computes the softmax of s over the partition's entries. For keys, writes the result to the array `raw`; for values,
 * averages it with `raw`. */
static void add_side(const struct lag *w, uint32_t first, bool values) {
    float M = -kvc_infinity(), lane[KVC_LANES] = {0};
    for (uint32_t i = 0; i < w->lag; i++) {
        load_side(w, first + w->lag + i, values, w->x);
        for (uint32_t c = 0; c < w->d; c++) {
            w->low[c] = i == 0 || w->x[c] < w->low[c] ? w->x[c] : w->low[c];
            w->high[c] = i == 0 || w->x[c] > w->high[c] ? w->x[c] : w->high[c];
        }
    }
    for (uint32_t i = 0; i < w->lag; i++) {
        load_side(w, first + i, values, w->x);
        w->s[i] = spread(w);
        M = kvc_max(M, w->s[i]);
    }
    for (uint32_t i = 0; i < w->lag; i++)
        lane[i % KVC_LANES] = lane[i % KVC_LANES] + kvc_exp(w->s[i] - M);
    KVC_TREE32(lane);
    for (uint32_t i = 0; i < w->lag; i++) {
        const float a = kvc_div(kvc_exp(w->s[i] - M), lane[0]);
        w->raw[i] = values ? (w->raw[i] + a) * 0.5f : a;
    }
}

/* Counts the entries of the partition that rank below entry i. */
static uint32_t below(const struct lag *w, uint32_t i) {
    const uint32_t key = kvc_score_key(w->raw[i]);
    uint32_t n = 0;
    for (uint32_t j = 0; j < w->lag; j++) {
        const uint32_t other = kvc_score_key(w->raw[j]);
        n += other < key || (other == key && j > i);
    }
    return n;
}

void KVC_REF(lag_scores)(struct kvc_device *device, const struct kvc_lag_scores *args) {
    KVC_ASSERT(args->lag >= 2);
    const struct kvc_lists *lists = args->lists;
    struct lag w = {.lists = lists, .lag = args->lag, .d = lists->format.head_size};
    uint32_t most = 0;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        most = kvc_max_u32(kvc_list_count(lists, h), most);
    if (args->lag > most) /* no list has two partitions, so a shorter scratch array is enough */
        w.lag = kvc_max_u32(most, 2);
    float *scratch =
        kvc_cpu_scratch((struct kvc_cpu *)device, 0, (5 * (size_t)w.d + 2 * (size_t)w.lag) * sizeof *scratch);
    if (!scratch)
        return;
    w.low = scratch, w.high = w.low + w.d, w.x = w.high + w.d, w.t = w.x + w.d, w.ones = w.t + w.d;
    w.s = w.ones + w.d, w.raw = w.s + w.lag;
    for (uint32_t c = 0; c < w.d; c++)
        w.ones[c] = 1.0f;
    for (w.h = 0; w.h < lists->kv_heads; w.h++) {
        const uint32_t count = kvc_list_count(lists, w.h);
        const uint32_t parts = count > args->first ? (count - args->first) / args->lag : 0;
        float *score = scores_of(args->scores, args->stride, w.h);
        for (uint32_t index = 0; index < count; index++)
            score[index] = (float)args->lag;
        for (uint32_t p = 0; p + 1 < parts; p++) {
            const uint32_t first = args->first + p * args->lag;
            add_side(&w, first, false);
            add_side(&w, first, true);
            for (uint32_t i = 0; i < w.lag; i++)
                score[first + i] = args->across ? w.raw[i] : (float)below(&w, i);
        }
    }
}

/* ---- mix_redundancy ---- */

struct redundancy { /* one head, and scratch memory */
    uint32_t d, count;
    float *keys;   /* [count, d] */
    float *length; /* [count] */
    float *cosine; /* [count]: cosines of one key with all keys */
    float *lane;   /* [KVC_LANES, count] */
};

/* For every key j, adds the cosine of keys i and j to lane i % 32 of key j. Skips j = i and the last key whose cosine
 * is above the threshold (key 0 if there is none). */
static void add_likeness(const struct redundancy *w, uint32_t i, float threshold) {
    float *lane = w->lane + (size_t)(i % KVC_LANES) * w->count;
    uint32_t last = 0;
    for (uint32_t j = 0; j < w->count; j++) {
        const float lengths = w->length[i] * w->length[j];
        const float dot = kvc_ref_dot(w->keys + (size_t)i * w->d, w->keys + (size_t)j * w->d, w->d);
        w->cosine[j] = j == i || lengths == 0.0f ? 0.0f : kvc_div(dot, lengths);
        last = w->cosine[j] > threshold ? j : last;
    }
    for (uint32_t j = 0; j < w->count; j++)
        if (j != last)
            lane[j] = lane[j] + w->cosine[j];
}

/* Adds up the 32 lanes of each key and divides by the count. The result is in the first lane. */
static void close_lanes(const struct redundancy *w) {
    for (uint32_t j = 0; j < w->count; j++) {
        float lane[KVC_LANES];
        for (uint32_t i = 0; i < KVC_LANES; i++)
            lane[i] = w->lane[(size_t)i * w->count + j];
        KVC_TREE32(lane);
        w->lane[j] = kvc_div(lane[0], (float)w->count);
    }
}

void KVC_REF(mix_redundancy)(struct kvc_device *device, const struct kvc_mix_redundancy *args) {
    const struct kvc_lists *lists = args->lists;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        struct redundancy w = {.d = lists->format.head_size, .count = kvc_list_count(lists, h)};
        float *score = scores_of(args->scores, args->stride, h);
        const size_t floats = w.count * ((size_t)w.d + 2 + KVC_LANES);
        w.keys = kvc_cpu_scratch((struct kvc_cpu *)device, 0, floats * sizeof *w.keys + 1);
        if (!w.keys)
            return;
        w.length = w.keys + (size_t)w.count * w.d, w.cosine = w.length + w.count, w.lane = w.cosine + w.count;
        memset(w.lane, 0, (size_t)KVC_LANES * w.count * sizeof *w.lane);
        for (uint32_t r = 0; r < w.count; r++) {
            float *key = w.keys + (size_t)r * w.d;
            load_key(lists, h, r, key);
            w.length[r] = kvc_sqrt(kvc_ref_dot(key, key, w.d));
        }
        for (uint32_t i = 0; i < w.count; i++)
            add_likeness(&w, i, args->threshold);
        close_lanes(&w);
        KVC_REF(softmax_indices)(w.lane, 0, w.count);
        for (uint32_t r = 0; r < w.count; r++)
            score[r] = kvc_fma(args->share, kvc_div(score[r], args->divisor), (args->share - 1.0f) * w.lane[r]);
    }
}

/* ---- output_norms, weigh_scores ---- */

void KVC_REF(output_norms)(struct kvc_device *device, const struct kvc_output_norms *args) {
    KVC_ASSERT(args->heads % args->lists->kv_heads == 0);
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size, group = args->heads / lists->kv_heads;
    const size_t width = (size_t)args->heads * d;
    float *value = kvc_cpu_scratch((struct kvc_cpu *)device, 0, d * sizeof *value);
    if (!value)
        return;
    for (uint32_t g = 0; g < args->heads; g++) {
        const uint32_t h = g / group, count = kvc_list_count(lists, h);
        const float *w = (const float *)kvc_span_data(args->w) + (size_t)g * d;
        float *norm = scores_of(args->norms, args->stride, g);
        for (uint32_t index = 0; index < count; index++) {
            float sum = args->first ? 0.0f : norm[index];
            KVC_REF(load_value)(lists, h, kvc_list_slot(lists, h, index), value);
            for (uint32_t n = 0; n < args->outputs; n++)
                sum = sum + kvc_from_bits(kvc_bits(kvc_ref_dot(value, w + n * width, d)) & 0x7fffffffu);
            norm[index] = sum;
        }
    }
}

void KVC_REF(weigh_scores)(struct kvc_device *device, const struct kvc_weigh_scores *args) {
    (void)device;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        const uint32_t *index = (const uint32_t *)args->kept->index->data + (size_t)h * args->kept->stride;
        const uint32_t kept = ((const uint32_t *)args->kept->count->data)[h];
        const float *factor = scores_of(args->factor, args->stride, h);
        float *score = scores_of(args->scores, args->stride, h);
        for (uint32_t r = 0; r < kvc_list_count(args->lists, h); r++)
            score[r] = (score[r] + args->epsilon) * factor[r];
        for (uint32_t i = 0; i < kept; i++)
            score[index[i]] = kvc_infinity();
    }
}
