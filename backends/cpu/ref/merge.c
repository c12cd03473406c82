/* merge.c - merges the values of entries that are about to be evicted into those of kept entries. */
#include <string.h>

#include "core/base/integers.h"
#include "backends/cpu/ref/ref.h"

#define NO_TARGET UINT32_MAX

/* One head, its kept indices, and the targets and weights of its indices. */
struct merge {
    const struct kvc_lists *lists;
    uint32_t h, d, count, kept_count;
    const uint32_t *kept;
    uint32_t *target;
    float *weight;
};

static struct merge merge_of(const struct kvc_lists *lists, uint32_t h, const struct kvc_read_list *kept,
                             struct kvc_span targets, struct kvc_span weights, uint32_t stride) {
    return (struct merge){.lists = lists,
                          .h = h,
                          .d = lists->format.head_size,
                          .count = kvc_list_count(lists, h),
                          .kept_count = ((const uint32_t *)kept->count->data)[h],
                          .kept = (const uint32_t *)kept->index->data + (size_t)h * kept->stride,
                          .target = (uint32_t *)kvc_span_data(targets) + (size_t)h * stride,
                          .weight = (float *)kvc_span_data(weights) + (size_t)h * stride};
}

static void load_key(const struct merge *m, uint32_t index, float *key) {
    KVC_REF(load_key)(m->lists, m->h, kvc_list_slot(m->lists, m->h, index), key);
}
static void load_value(const struct merge *m, uint32_t index, float *value) {
    KVC_REF(load_value)(m->lists, m->h, kvc_list_slot(m->lists, m->h, index), value);
}
static float length_of(const float *x, uint32_t d) { return kvc_sqrt(kvc_ref_dot(x, x, d)); }

/* Sets the target of an index to none. Returns true if the index is evicted. *place is the number of kept indices below
 * the index. The caller sets it to 0, then passes a head's indices in ascending order. */
static bool is_evicted(const struct merge *m, uint32_t index, uint32_t *place) {
    m->target[index] = NO_TARGET;
    if (*place == m->kept_count || m->kept[*place] != index)
        return true;
    ++*place;
    return false;
}

/* ---- merge_similar ---- */

/* The kept keys [kept_count, d] with their lengths, and a key or value [d]. */
struct similar {
    float *keys, *lengths, *x;
};

/* Returns the highest cosine of a key with the kept keys. *place receives the place of the kept key. */
static float most_similar(const struct merge *m, const struct similar *s, const float *key, uint32_t *place) {
    const float length = length_of(key, m->d);
    float most = 0.0f;
    for (uint32_t i = 0; i < m->kept_count; i++) {
        const float lengths = length * s->lengths[i];
        const float c = lengths == 0.0f ? 0.0f : kvc_div(kvc_ref_dot(key, s->keys + (size_t)i * m->d, m->d), lengths);
        if (i == 0 || kvc_score_key(c) > kvc_score_key(most)) {
            most = c;
            *place = i;
        }
    }
    return most;
}

static void merge_similar_head(const struct merge *m, const struct similar *s, float threshold) {
    for (uint32_t i = 0; i < m->kept_count; i++) {
        load_key(m, m->kept[i], s->keys + (size_t)i * m->d);
        s->lengths[i] = length_of(s->keys + (size_t)i * m->d, m->d);
    }
    for (uint32_t r = 0, kept = 0, place = 0; r < m->count; r++) {
        const bool evicted = is_evicted(m, r, &kept);
        m->weight[r] = 0.0f;
        if (!evicted || m->kept_count == 0)
            continue;
        load_key(m, r, s->x);
        const float c = most_similar(m, s, s->x, &place);
        load_value(m, r, s->x);
        const float mine = length_of(s->x, m->d);
        load_value(m, m->kept[place], s->x);
        const float weight = kvc_div(c * mine, (mine + length_of(s->x, m->d)) + 1e-6f);
        if (c >= threshold && weight > 0.0f) {
            m->target[r] = place;
            m->weight[r] = weight;
        }
    }
}

void KVC_REF(merge_similar)(struct kvc_device *device, const struct kvc_merge_similar *args) {
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        const struct merge m = merge_of(args->lists, h, args->kept, args->targets, args->weights, args->stride);
        float *scratch =
            kvc_cpu_scratch((struct kvc_cpu *)device, 0, ((size_t)m.kept_count * (m.d + 1) + m.d) * sizeof *scratch);
        if (!scratch)
            return;
        float *const lengths = scratch + m.d, *const keys = lengths + m.kept_count;
        merge_similar_head(&m, &(struct similar){.keys = keys, .lengths = lengths, .x = scratch}, args->threshold);
    }
}

/* ---- merge_following ---- */

static void merge_following_head(const struct merge *m, const struct kvc_merge_following *args) {
    for (uint32_t r = 0, place = 0; r < m->count; r++) {
        if (!is_evicted(m, r, &place))
            continue;
        const uint32_t span = kvc_min_u32(args->span, m->kept_count - place);
        const int32_t position = kvc_list_position(m->lists, m->h, kvc_list_slot(m->lists, m->h, r));
        const kvc_u32 x =
            kvc_philox4x32(args->layer, args->first_list + m->h, (kvc_u32)position, 2u, args->seed).word[0];
        float sum = 0.0f;
        for (uint32_t i = place; i < place + span; i++)
            sum = sum + m->weight[m->kept[i]];
        const bool merges =
            span > 0 && (float)(x >> 8) * 5.9604644775390625e-8f < kvc_div(m->weight[r], kvc_div(sum, (float)span));
        m->target[r] = merges ? place : NO_TARGET;
        m->weight[r] = merges ? kvc_div(1.0f, (float)span) : 0.0f;
    }
}

void KVC_REF(merge_following)(struct kvc_device *device, const struct kvc_merge_following *args) {
    (void)device;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        const struct merge m = merge_of(args->lists, h, args->kept, args->targets, args->weights, args->stride);
        merge_following_head(&m, args);
    }
}

/* ---- merge_values ---- */

/* The sums of each place, and a value [d]. */
struct sums {
    float *a;       /* [kept_count, d] */
    float *W;       /* [kept_count] */
    uint32_t *many; /* [kept_count]: number of terms */
    float *x;
};

static void add_evicted(const struct merge *m, uint32_t span, const struct sums *sums) {
    for (uint32_t r = 0; r < m->count; r++) {
        if (m->target[r] == NO_TARGET)
            continue;
        load_value(m, r, sums->x);
        for (uint32_t place = m->target[r]; place < m->kept_count && place - m->target[r] < span; place++) {
            float *const a = sums->a + (size_t)place * m->d;
            for (uint32_t c = 0; c < m->d; c++)
                a[c] = kvc_fma(m->weight[r], sums->x[c], a[c]);
            sums->W[place] = sums->W[place] + m->weight[r];
            sums->many[place]++;
        }
    }
}

/* Returns the number of values that saturated. */
static uint32_t store_sums(const struct merge *m, bool normalised, const struct sums *sums) {
    uint32_t saturated = 0;
    for (uint32_t place = 0; place < m->kept_count; place++) {
        const float *const a = sums->a + (size_t)place * m->d;
        if (sums->many[place] == 0)
            continue;
        load_value(m, m->kept[place], sums->x);
        for (uint32_t c = 0; c < m->d; c++) {
            sums->x[c] = sums->x[c] + a[c];
            if (normalised)
                sums->x[c] = kvc_div(sums->x[c], 1.0f + sums->W[place]);
        }
        saturated += KVC_REF(store_value)(m->lists, m->h, kvc_list_slot(m->lists, m->h, m->kept[place]), sums->x);
    }
    return saturated;
}

void KVC_REF(merge_values)(struct kvc_device *device, const struct kvc_merge_values *args) {
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        const struct merge m = merge_of(args->lists, h, args->kept, args->targets, args->weights, args->stride);
        const size_t floats = (size_t)m.kept_count * (m.d + 2) + m.d;
        float *scratch = kvc_cpu_scratch((struct kvc_cpu *)device, 0, floats * sizeof *scratch);
        if (!scratch)
            return;
        memset(scratch, 0, floats * sizeof *scratch);
        const struct sums sums = {.x = scratch,
                                  .W = scratch + m.d,
                                  .many = (uint32_t *)(void *)(scratch + m.d + m.kept_count),
                                  .a = scratch + m.d + 2 * (size_t)m.kept_count};
        add_evicted(&m, args->span, &sums);
        device->saturated += store_sums(&m, args->normalised, &sums);
    }
}
