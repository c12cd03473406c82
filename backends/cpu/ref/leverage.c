/* leverage.c - compactor's scores: attention within chunks without a causal mask, the leverage of keys (cap: of
 * weighted values), and the weighted sum of both after each is standardized. */
#include <string.h>

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/cpu/ref/ref.h"

/* Returns the index after the last scored entry. The `last` newest entries are not scored. */
static uint32_t end_of(const struct kvc_lists *lists, uint32_t h, uint32_t last) {
    const uint32_t count = kvc_list_count(lists, h);
    return count > last ? count - last : 0;
}

static float *scores_of(struct kvc_span scores, uint32_t stride, uint32_t h) {
    return (float *)kvc_span_data(scores) + (size_t)h * stride;
}

static void load_side(const struct kvc_lists *lists, uint32_t h, uint32_t index, bool values, float *x) {
    const uint32_t slot = kvc_list_slot(lists, h, index);
    if (values)
        KVC_REF(load_value)(lists, h, slot, x);
    else
        KVC_REF(load_key)(lists, h, slot, x);
}

static int32_t position_of(const struct kvc_lists *lists, uint32_t h, uint32_t index) {
    return kvc_list_position(lists, h, kvc_list_slot(lists, h, index));
}

static uint32_t most_entries(const struct kvc_lists *lists) {
    uint32_t most = 0;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        most = kvc_max_u32(kvc_list_count(lists, h), most);
    return most;
}

/* ---- chunk_mass ---- */

struct chunk { /* one list, and scratch memory */
    const struct kvc_chunk_mass *call;
    uint32_t h, d, group;
    float *keys;           /* [n, d] */
    float *s, *sum, *mass; /* [n] */
};

static const float *query_of(const struct chunk *w, int32_t position) {
    const int32_t *positions = kvc_span_data(w->call->positions);
    uint32_t i = 0;
    while (i + 1 < w->call->queries && positions[i] < position)
        i++;
    return (const float *)kvc_span_data(w->call->q) + ((size_t)i * w->call->heads + (size_t)w->h * w->group) * w->d;
}

/* Adds one query's attention probabilities of the chunk's n entries to sum. */
static void add_query(const struct chunk *w, const float *q, uint32_t n) {
    float M = -kvc_infinity(), lane[KVC_LANES] = {0};
    for (uint32_t j = 0; j < n; j++) {
        w->s[j] = kvc_ref_dot(q, w->keys + (size_t)j * w->d, w->d);
        M = kvc_max(M, w->s[j]);
    }
    for (uint32_t j = 0; j < n; j++) {
        w->s[j] = kvc_exp(w->s[j] - M);
        lane[j % KVC_LANES] = lane[j % KVC_LANES] + w->s[j];
    }
    KVC_TREE32(lane);
    for (uint32_t j = 0; j < n; j++)
        w->sum[j] = w->sum[j] + kvc_div(w->s[j], lane[0]);
}

static void score_chunk(const struct chunk *w, uint32_t from, uint32_t n) {
    const struct kvc_lists *lists = w->call->lists;
    float *column = kvc_list_column(lists, w->h, w->call->column);
    memset(w->mass, 0, n * sizeof *w->mass);
    for (uint32_t j = 0; j < n; j++)
        load_side(lists, w->h, from + j, false, w->keys + (size_t)j * w->d);
    for (uint32_t i = 0; i < n; i++) {
        const float *q = query_of(w, position_of(lists, w->h, from + i));
        memset(w->sum, 0, n * sizeof *w->sum);
        for (uint32_t g = 0; g < w->group; g++)
            add_query(w, q + (size_t)g * w->d, n);
        for (uint32_t j = 0; j < n; j++)
            w->mass[j] = w->mass[j] + w->sum[j];
    }
    for (uint32_t j = 0; j < n; j++)
        column[kvc_list_slot(lists, w->h, from + j)] = kvc_div(w->mass[j], (float)w->group);
}

static void weigh_mass(const struct chunk *w, uint32_t end) {
    const struct kvc_lists *lists = w->call->lists;
    const float *column = kvc_list_column(lists, w->h, w->call->column);
    float *score = scores_of(w->call->scores, w->call->stride, w->h);
    for (uint32_t r = 0; r < kvc_list_count(lists, w->h); r++) {
        score[r] = 0.0f;
        if (r < w->call->first || r >= end)
            continue;
        load_side(lists, w->h, r, true, w->keys);
        score[r] = column[kvc_list_slot(lists, w->h, r)] * kvc_sqrt(kvc_ref_dot(w->keys, w->keys, w->d));
    }
}

void KVC_REF(chunk_mass)(struct kvc_device *device, const struct kvc_chunk_mass *args) {
    KVC_ASSERT(args->chunk > 0 && args->column < args->lists->columns);
    const struct kvc_lists *lists = args->lists;
    const size_t d = lists->format.head_size, n = kvc_max_u32(kvc_min_u32(args->chunk, most_entries(lists)), 1);
    struct chunk w = {.call = args, .d = (uint32_t)d, .group = args->heads / lists->kv_heads};
    w.keys = kvc_cpu_scratch((struct kvc_cpu *)device, 0, n * (d + 3) * sizeof *w.keys);
    if (!w.keys)
        return;
    w.s = w.keys + n * d, w.sum = w.s + n, w.mass = w.sum + n;
    for (w.h = 0; w.h < lists->kv_heads; w.h++) {
        const uint32_t end = end_of(lists, w.h, args->last);
        uint32_t from = args->queries ? 0 : end;
        while (from < end && position_of(lists, w.h, from) < ((const int32_t *)kvc_span_data(args->positions))[0])
            from++;
        for (from = kvc_max_u32(from, args->first); from < end;) {
            const uint32_t some = kvc_min_u32(end - from, args->chunk);
            score_chunk(&w, from, some);
            from += some;
        }
        if (args->scores.buffer)
            weigh_mass(&w, end);
    }
}

/* ---- leverage_scores ---- */

struct leverage { /* one list, and scratch memory */
    const struct kvc_leverage_scores *call;
    uint32_t h, d, begin, end;
    float *x; /* [end - begin, d]: keys rotated back to position 0, less their mean; or weighted values */
    float *mean, *tile, *key, *y; /* [d] */
    float *gram, *gram_tile;      /* [d, d]: first the Gram matrix, then its Cholesky factor */
};

static void rotate_back(const struct leverage *w, uint32_t index, float *x) {
    const uint32_t half = w->call->cosine.buffer ? w->call->rotary / 2 : 0;
    const size_t row = half ? (size_t)position_of(w->call->lists, w->h, index) * half : 0;
    const float *cosine = half ? (const float *)kvc_span_data(w->call->cosine) + row : NULL;
    const float *sine = half ? (const float *)kvc_span_data(w->call->sine) + row : NULL;
    load_side(w->call->lists, w->h, index, false, w->key);
    memcpy(x, w->key, w->d * sizeof *x);
    for (uint32_t i = 0; i < half; i++) {
        x[i] = kvc_fma(w->key[i + half], sine[i], w->key[i] * cosine[i]);
        x[i + half] = kvc_fma(-w->key[i], sine[i], w->key[i + half] * cosine[i]);
    }
}

/* Adds tile [n] to sum [n], then sets tile to 0. */
static void close_tile(float *sum, float *tile, size_t n) {
    for (size_t c = 0; c < n; c++)
        sum[c] = sum[c] + tile[c];
    memset(tile, 0, n * sizeof *tile);
}

static bool tile_ends(const struct leverage *w, uint32_t index) {
    return index % KVC_TILE == KVC_TILE - 1 || index + 1 == w->end;
}

static void centre_keys(const struct leverage *w) {
    memset(w->mean, 0, w->d * sizeof *w->mean);
    memset(w->tile, 0, w->d * sizeof *w->tile);
    for (uint32_t r = w->begin; r < w->end; r++) {
        float *x = w->x + (size_t)(r - w->begin) * w->d;
        rotate_back(w, r, x);
        for (uint32_t c = 0; c < w->d; c++)
            w->tile[c] = w->tile[c] + x[c];
        if (tile_ends(w, r))
            close_tile(w->mean, w->tile, w->d);
    }
    for (uint32_t c = 0; c < w->d; c++)
        w->mean[c] = kvc_div(w->mean[c], (float)(w->end - w->begin));
    for (uint32_t r = w->begin; r < w->end; r++)
        for (uint32_t c = 0; c < w->d; c++)
            w->x[(size_t)(r - w->begin) * w->d + c] = w->x[(size_t)(r - w->begin) * w->d + c] - w->mean[c];
}

static void weigh_values(const struct leverage *w, const float *weight) {
    for (uint32_t r = w->begin; r < w->end; r++) {
        float *x = w->x + (size_t)(r - w->begin) * w->d;
        load_side(w->call->lists, w->h, r, true, x);
        for (uint32_t c = 0; c < w->d; c++)
            x[c] = x[c] * weight[r];
    }
}

static void make_gram(const struct leverage *w) {
    const size_t d = w->d;
    memset(w->gram, 0, d * d * sizeof *w->gram);
    memset(w->gram_tile, 0, d * d * sizeof *w->gram_tile);
    for (uint32_t r = w->begin; r < w->end; r++) {
        const float *e = w->x + (size_t)(r - w->begin) * d;
        for (size_t b = 0; b < d; b++)
            for (size_t c = 0; c <= b; c++)
                w->gram_tile[b * d + c] = kvc_fma(e[b], e[c], w->gram_tile[b * d + c]);
        if (tile_ends(w, r))
            close_tile(w->gram, w->gram_tile, d * d);
    }
    for (size_t b = 0; b < d; b++)
        w->gram[b * d + b] = w->gram[b * d + b] + w->call->ridge;
}

/* Returns s minus the products of the first n values of two rows. */
static float less_products(float s, const float *a, const float *b, size_t n) {
    for (size_t k = 0; k < n; k++)
        s = kvc_fma(-a[k], b[k], s);
    return s;
}

static void factor_gram(const struct leverage *w) {
    const size_t d = w->d;
    for (size_t c = 0; c < d; c++) {
        float *row = w->gram + c * d;
        const float pivot = less_products(row[c], row, row, c);
        row[c] = kvc_sqrt(pivot > w->call->ridge ? pivot : w->call->ridge);
        for (size_t b = c + 1; b < d; b++)
            w->gram[b * d + c] = kvc_div(less_products(w->gram[b * d + c], w->gram + b * d, row, c), row[c]);
    }
}

static float leverage_of(const struct leverage *w, const float *e) {
    for (size_t b = 0; b < w->d; b++) {
        const float *row = w->gram + b * w->d;
        w->y[b] = kvc_div(less_products(e[b], row, w->y, b), row[b]);
    }
    return kvc_ref_dot(w->y, w->y, w->d);
}

void KVC_REF(leverage_scores)(struct kvc_device *device, const struct kvc_leverage_scores *args) {
    KVC_ASSERT(!args->cosine.buffer == !args->sine.buffer);
    const struct kvc_lists *lists = args->lists;
    const size_t d = lists->format.head_size;
    const uint32_t group = args->weights.buffer ? args->heads / lists->kv_heads : 1;
    struct leverage w = {.call = args, .d = (uint32_t)d};
    w.x = kvc_cpu_scratch((struct kvc_cpu *)device, 0, (most_entries(lists) + 4 + 2 * d) * d * sizeof *w.x);
    if (!w.x)
        return;
    w.mean = w.x + most_entries(lists) * d, w.tile = w.mean + d, w.key = w.tile + d, w.y = w.key + d;
    w.gram = w.y + d, w.gram_tile = w.gram + d * d;
    for (w.h = 0; w.h < lists->kv_heads; w.h++) {
        float *score = scores_of(args->scores, args->stride, w.h);
        w.end = end_of(lists, w.h, args->last);
        w.begin = kvc_min_u32(args->first, w.end);
        for (uint32_t r = 0; r < kvc_list_count(lists, w.h); r++)
            score[r] = 0.0f;
        if (w.begin == w.end)
            continue;
        for (uint32_t g = 0; g < group; g++) {
            if (args->weights.buffer)
                weigh_values(&w, scores_of(args->weights, args->stride, w.h * group + g));
            else
                centre_keys(&w);
            make_gram(&w);
            factor_gram(&w);
            for (uint32_t r = w.begin; r < w.end; r++)
                score[r] = score[r] + leverage_of(&w, w.x + (size_t)(r - w.begin) * d);
        }
        for (uint32_t r = w.begin; r < w.end; r++)
            score[r] = kvc_div(score[r], (float)group);
    }
}

/* ---- standard_mix ---- */

/* Returns the sum of x over all lists or, if `squares` is true, the sum of (x - mean)^2. *n receives the number of
 * values. */
static float sum_lists(const struct kvc_standard_mix *args, struct kvc_span x, bool squares, float mean, uint32_t *n) {
    float all = 0.0f;
    *n = 0;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        const uint32_t end = end_of(args->lists, h, args->last);
        const float *from = scores_of(x, args->stride, h);
        float sum = 0.0f;
        for (uint32_t tile = 0; tile < end; tile += KVC_TILE) {
            float lane[KVC_LANES] = {0};
            for (uint32_t r = kvc_max_u32(tile, args->first); r < end && r < tile + KVC_TILE; r++) {
                const float e = from[r] - mean;
                float *to = &lane[r % KVC_LANES];
                *to = squares ? kvc_fma(e, e, *to) : *to + from[r];
                (*n)++;
            }
            KVC_TREE32(lane);
            sum = sum + lane[0];
        }
        all = all + sum;
    }
    return all;
}

struct standard { /* a mean and a standard deviation */
    float mean, spread;
};

static struct standard standard_of(const struct kvc_standard_mix *args, struct kvc_span x) {
    struct standard z = {0.0f, 0.0f};
    uint32_t n;
    const float sum = sum_lists(args, x, false, 0.0f, &n);
    z.mean = kvc_div(sum, (float)n);
    const float square = sum_lists(args, x, true, z.mean, &n);
    const float spread = kvc_sqrt(kvc_div(square, (float)(n > 1 ? n - 1 : n)));
    z.spread = spread > 1e-6f ? spread : 1e-6f;
    return z;
}

void KVC_REF(standard_mix)(struct kvc_device *device, const struct kvc_standard_mix *args) {
    const struct standard lever = standard_of(args, args->leverage), mass = standard_of(args, args->scores);
    (void)device;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        const uint32_t end = end_of(args->lists, h, args->last);
        const float *leverage = scores_of(args->leverage, args->stride, h);
        float *score = scores_of(args->scores, args->stride, h);
        for (uint32_t r = 0; r < kvc_list_count(args->lists, h); r++) {
            const float a = score[r] == 0.0f ? 0.0f : kvc_div(score[r] - mass.mean, mass.spread);
            score[r] = r < args->first || r >= end
                           ? 0.0f
                           : kvc_fma(args->share, kvc_div(leverage[r] - lever.mean, lever.spread), a);
        }
    }
}
