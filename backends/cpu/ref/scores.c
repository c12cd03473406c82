/* scores.c - attention probabilities for policies: their sums over a window, their moments, their sums over all queries
 * so far, and ring buffers of recent queries. Also reads and writes state columns as scores. */
#include "backends/cpu/ref/ref.h"

#include "core/base/assert.h"

/* Probabilities of one query for the query heads of one KV head. The arrays are scratch memory. */
struct row {
    struct kvc_view view;
    struct kvc_ref_query *query; /* [G] */
    float *a, *key;              /* [G, places], undefined where `slot` is UINT32_MAX; [d] */
    float *quants;               /* memory for quantized queries */
    uint32_t *slot;              /* [places] */
};

static uint32_t most_entries(const struct kvc_lists *lists) {
    uint32_t most = 0;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        most = kvc_list_count(lists, h) > most ? kvc_list_count(lists, h) : most;
    return most;
}

/* Allocates scratch memory for a row, followed by `more` floats (*rest). Returns false if memory runs out, which the
 * next sync reports. */
static bool make_row(struct kvc_device *device, const struct kvc_probabilities *w, size_t more, struct row *row,
                     float **rest) {
    const size_t most = most_entries(w->lists), group = w->heads / w->kv_heads;
    const size_t each = kvc_ref_query_floats(w->head_size);
    row->query = kvc_cpu_scratch((struct kvc_cpu *)device, 0,
                                 group * sizeof *row->query +
                                     ((group + 1) * most + w->head_size + group * each + more) * sizeof(float));
    if (!row->query)
        return false;
    row->a = (float *)(void *)(row->query + group);
    row->slot = (uint32_t *)(row->a + group * most);
    row->key = (float *)(row->slot + most);
    row->quants = row->key + w->head_size;
    *rest = row->quants + group * each;
    return true;
}

/* Prepares the queries of a KV head for dot products. `at` is the index of the first query. */
static void open_queries(const struct kvc_probabilities *w, size_t at, float *quants, struct kvc_ref_query *query) {
    const size_t d = w->head_size, each = kvc_ref_query_floats(d);
    for (uint32_t g = 0; g < w->heads / w->kv_heads; g++)
        query[g] = KVC_REF(open_query)(w->scoring, &w->lists->format, (const float *)kvc_span_data(w->q) + (at + g) * d,
                                       quants + g * each);
}

/* Computes M and L of x over the entries that are not masked, in tiles that are merged as in attention. */
static void softmax_of(const struct row *row, const float *x, float *maximum, float *sum) {
    const uint32_t places = row->view.places;
    float M = -kvc_infinity(), L = 0.0f;
    for (uint32_t j = 0; j < places; j++)
        if (row->slot[j] != UINT32_MAX)
            M = kvc_max(M, x[j]);
    for (uint32_t first = 0; first < places; first += KVC_TILE) {
        const uint32_t end = places - first < KVC_TILE ? places : first + KVC_TILE;
        float m = -kvc_infinity(), lane[KVC_LANES] = {0};
        bool any = false;
        for (uint32_t j = first; j < end; j++)
            if (row->slot[j] != UINT32_MAX) {
                m = kvc_max(m, x[j]);
                any = true;
            }
        if (!any)
            continue;
        for (uint32_t j = first; j < end; j++)
            if (row->slot[j] != UINT32_MAX)
                lane[j % KVC_LANES] = lane[j % KVC_LANES] + kvc_exp(x[j] - m);
        KVC_TREE32(lane);
        L = kvc_fma(kvc_exp(m - M), lane[0], L);
    }
    *maximum = M;
    *sum = L;
}

/* Computes the probabilities of the query heads of KV head h for every entry that the query sees. */
static void take_row(const struct kvc_probabilities *w, uint32_t query, uint32_t h, const struct kvc_noise *noise,
                     struct row *row) {
    const uint32_t group = w->heads / w->kv_heads, d = w->head_size;
    const size_t at = (size_t)query * w->heads + (size_t)h * group;
    const float scale = kvc_score_scale(w->scoring.scale, d);
    row->view = kvc_view_of_query(w, query, h);
    const uint32_t places = row->view.places;
    open_queries(w, at, row->quants, row->query);
    for (uint32_t j = 0; j < places; j++) {
        row->slot[j] = kvc_view_slot(&row->view, j);
        if (row->slot[j] == UINT32_MAX)
            continue;
        KVC_REF(load_key)(w->lists, h, row->slot[j], row->key);
        for (uint32_t g = 0; g < group; g++) {
            float s = kvc_ref_score(KVC_REF(dot_key)(&row->query[g], w->lists, h, row->slot[j], row->key), scale,
                                    w->scoring.cap);
            if (noise)
                s = kvc_div(s + kvc_gumbel(noise->seed, noise->layer, noise->first_head + h * group + g,
                                           kvc_list_position(w->lists, h, row->slot[j])),
                            noise->tau);
            row->a[(size_t)g * places + j] = s;
        }
    }
    for (uint32_t g = 0; g < group; g++) {
        float *a = row->a + (size_t)g * places, M, L;
        if (noise) {
            softmax_of(row, a, &M, &L);
        } else {
            M = ((const float *)kvc_span_data(w->maximum))[at + g];
            L = ((const float *)kvc_span_data(w->sum))[at + g];
        }
        for (uint32_t j = 0; j < places; j++)
            if (row->slot[j] != UINT32_MAX)
                a[j] = kvc_div(kvc_exp(a[j] - M), L);
    }
}

/* Returns the sum of entry j's probabilities over the heads `from` .. `to` - 1 of the group. */
static float row_sum(const struct row *row, uint32_t from, uint32_t to, uint32_t j) {
    float sum = 0.0f;
    for (uint32_t g = from; g < to; g++)
        sum = sum + row->a[(size_t)g * row->view.places + j];
    return sum;
}

static float row_most(const struct row *row, uint32_t from, uint32_t to, uint32_t j) {
    float most = 0.0f;
    for (uint32_t g = from; g < to; g++)
        most = kvc_max(most, row->a[(size_t)g * row->view.places + j]);
    return most;
}

static uint32_t place_index(const struct row *row, uint32_t j) { return row->view.indices ? row->view.indices[j] : j; }

void KVC_REF(window_mass)(struct kvc_device *device, const struct kvc_window_mass *args) {
    const struct kvc_probabilities *w = args->probabilities;
    const uint32_t group = w->heads / w->kv_heads, rows = args->by_head ? group : 1, each = args->by_head ? 1 : group;
    struct row row;
    float *none;
    if (!make_row(device, w, 0, &row, &none))
        return;
    for (uint32_t h = 0; h < w->kv_heads; h++) {
        float *column = (float *)kvc_span_data(args->scores) + (size_t)h * rows * args->stride;
        for (uint32_t i = 0; i < rows; i++)
            for (uint32_t r = 0; r < kvc_list_count(w->lists, h); r++)
                column[(size_t)i * args->stride + r] = 0.0f;
        for (uint32_t query = 0; query < w->queries; query++) {
            take_row(w, query, h, NULL, &row);
            for (uint32_t j = 0; j < row.view.places; j++)
                for (uint32_t i = 0; i < rows && row.slot[j] != UINT32_MAX; i++) {
                    float *to = column + (size_t)i * args->stride + place_index(&row, j);
                    *to = args->maxima ? kvc_max(*to, row_most(&row, i * each, (i + 1) * each, j))
                                       : *to + row_sum(&row, i * each, (i + 1) * each, j);
                }
        }
    }
}

/* Returns the score of an entry from its probabilities a [n], and writes its dispersion and variance. */
static float moments_of(const float *a, uint32_t n, float gamma, float *dispersion, float *variance) {
    float mean = 0.0f;
    *dispersion = *variance = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        mean = mean + a[i];
        *dispersion = *dispersion + -(a[i] * kvc_log(a[i] + 1e-10f));
    }
    mean = kvc_div(mean, (float)n);
    for (uint32_t i = 0; i < n; i++) {
        const float e = a[i] - mean;
        *variance = kvc_fma(e, e, *variance);
    }
    *variance = n > 1 ? kvc_div(*variance, (float)(n - 1)) : 0.0f;
    return kvc_fma(gamma, *variance, mean);
}

void KVC_REF(window_moments)(struct kvc_device *device, const struct kvc_window_moments *args) {
    const struct kvc_probabilities *w = args->probabilities;
    const uint32_t group = w->heads / w->kv_heads, queries = w->queries;
    float *total = kvc_span_data(args->totals), *table; /* [G, entries, queries] */
    struct row row;
    if (!make_row(device, w, (size_t)group * most_entries(w->lists) * queries, &row, &table))
        return;
    for (uint32_t h = 0; h < w->kv_heads; h++) {
        const uint32_t count = kvc_list_count(w->lists, h);
        for (size_t i = 0; i < (size_t)group * count * queries; i++)
            table[i] = 0.0f;
        for (uint32_t query = 0; query < queries; query++) {
            take_row(w, query, h, NULL, &row);
            for (uint32_t j = 0; j < row.view.places; j++)
                for (uint32_t g = 0; g < group && row.slot[j] != UINT32_MAX; g++)
                    table[((size_t)g * count + place_index(&row, j)) * queries + query] =
                        row.a[(size_t)g * row.view.places + j];
        }
        for (uint32_t g = 0; g < group; g++) {
            float *score = (float *)kvc_span_data(args->scores) + ((size_t)h * group + g) * args->stride;
            float dispersion[KVC_LANES] = {0}, variance[KVC_LANES] = {0};
            for (uint32_t r = 0; r < count; r++) {
                float one, other;
                score[r] = 0.0f;
                if (r + args->tail >= count)
                    continue;
                score[r] = moments_of(table + ((size_t)g * count + r) * queries, queries, args->gamma, &one, &other);
                dispersion[r % KVC_LANES] = dispersion[r % KVC_LANES] + one;
                variance[r % KVC_LANES] = variance[r % KVC_LANES] + other;
            }
            KVC_TREE32(dispersion);
            KVC_TREE32(variance);
            *total++ = dispersion[0];
            *total++ = variance[0];
        }
    }
}

void KVC_REF(accumulate)(struct kvc_device *device, const struct kvc_accumulate *args) {
    KVC_ASSERT(args->column + 2 <= args->probabilities->lists->columns);
    const struct kvc_probabilities *w = args->probabilities;
    struct row row;
    float *none;
    if (!make_row(device, w, 0, &row, &none))
        return;
    for (uint32_t h = 0; h < w->kv_heads; h++) {
        float *older = kvc_list_column(w->lists, h, args->column),
              *newer = kvc_list_column(w->lists, h, args->column + 1);
        for (uint32_t query = 0; query < w->queries; query++) {
            if (((const int32_t *)kvc_span_data(w->positions))[query] % (int32_t)KVC_TILE == 0)
                for (uint32_t r = 0; r < kvc_list_count(w->lists, h); r++) {
                    const uint32_t slot = kvc_list_slot(w->lists, h, r);
                    older[slot] = older[slot] + newer[slot];
                    newer[slot] = 0.0f;
                }
            take_row(w, query, h, args->noise, &row);
            for (uint32_t j = 0; j < row.view.places; j++)
                if (row.slot[j] != UINT32_MAX)
                    newer[row.slot[j]] = newer[row.slot[j]] + row_sum(&row, 0, w->heads / w->kv_heads, j);
        }
    }
}

/* ---- ring buffers of recent queries, and state columns as scores ---- */

/* Adds one query's terms at one entry, over the group's heads in ascending order, and returns the sum. `kind`
 * defines the term of a head: the probability exp(s - M) / L; the score s; or 1 if the probability is below `low`,
 * otherwise 0. */
static float group_value(const struct kvc_probabilities *w, uint32_t query, uint32_t h, uint32_t slot,
                         const struct row *scratch, enum kvc_row_kind kind, float low) {
    uint32_t group = w->heads / w->kv_heads, d = w->head_size;
    size_t at = (size_t)query * w->heads + (size_t)h * group;
    const float *maximum = kind != KVC_ROW_LOGITS ? (const float *)kvc_span_data(w->maximum) + at : NULL;
    const float *sum = kind != KVC_ROW_LOGITS ? (const float *)kvc_span_data(w->sum) + at : NULL;
    float scale = kvc_score_scale(w->scoring.scale, d), value = 0.0f;
    for (uint32_t g = 0; g < group; g++) {
        float x =
            kvc_ref_score(KVC_REF(dot_key)(&scratch->query[g], w->lists, h, slot, scratch->key), scale, w->scoring.cap);
        if (kind != KVC_ROW_LOGITS)
            x = kvc_div(kvc_exp(x - maximum[g]), sum[g]);
        if (kind == KVC_ROW_LOW)
            x = x < low ? 1.0f : 0.0f;
        value = value + x;
    }
    return value;
}

void KVC_REF(ring_write)(struct kvc_device *device, const struct kvc_ring_write *args) {
    KVC_ASSERT(args->first + args->ring <= args->probabilities->lists->columns && args->ring > 0);
    const struct kvc_probabilities *w = args->probabilities;
    struct row scratch;
    float *none;
    if (!make_row(device, w, 0, &scratch, &none))
        return;
    for (uint32_t query = 0; query < w->queries; query++)
        for (uint32_t h = 0; h < w->kv_heads; h++) {
            open_queries(w, (size_t)query * w->heads + (size_t)h * (w->heads / w->kv_heads), scratch.quants,
                         scratch.query);
            uint32_t position = (uint32_t)((const int32_t *)kvc_span_data(w->positions))[query];
            float *column = kvc_list_column(w->lists, h, args->first + position % args->ring);
            struct kvc_view view = kvc_view_of_query(w, query, h);
            float *low = args->kind == KVC_ROW_COUNTS
                             ? kvc_list_column(w->lists, h, args->first + args->ring + position % args->ring)
                             : NULL;
            float *minus = low ? kvc_list_column(w->lists, h, args->first + 2 * args->ring) : NULL;
            uint32_t seen = 0;
            for (uint32_t r = 0; r < kvc_list_count(w->lists, h); r++) {
                uint32_t slot = kvc_list_slot(w->lists, h, r);
                column[slot] = args->kind == KVC_ROW_LOGITS ? -kvc_infinity() : 0.0f;
                if (low) {
                    minus[slot] = minus[slot] + low[slot];
                    low[slot] = 0.0f;
                }
            }
            for (uint32_t j = 0; j < view.places; j++)
                seen += kvc_view_slot(&view, j) != UINT32_MAX;
            for (uint32_t j = 0; j < view.places; j++) {
                uint32_t slot = kvc_view_slot(&view, j);
                if (slot == UINT32_MAX)
                    continue;
                KVC_REF(load_key)(w->lists, h, slot, scratch.key);
                column[slot] = group_value(w, query, h, slot, &scratch, args->kind, kvc_div(1.0f, (float)seen));
                if (low) {
                    low[slot] = group_value(w, query, h, slot, &scratch, KVC_ROW_LOW, kvc_div(1.0f, (float)seen));
                    minus[slot] = minus[slot] - low[slot];
                }
            }
        }
}

/* Computes M and L of one ring row's logits over the entries of head h at positions below `recent`. Tiles cover 256
 * indices and are merged in ascending order, as in attention. If there is no such entry, M is -inf and L is 0. */
static void row_softmax(const struct kvc_lists *lists, uint32_t h, const float *row, int64_t recent, float *maximum,
                        float *sum) {
    uint32_t count = kvc_list_count(lists, h);
    float M = -kvc_infinity(), L = 0.0f;
    for (uint32_t r = 0; r < count; r++) {
        uint32_t slot = kvc_list_slot(lists, h, r);
        if (kvc_list_position(lists, h, slot) < recent)
            M = kvc_max(M, row[slot]);
    }
    for (uint32_t first = 0; first < count; first += KVC_TILE) {
        uint32_t end = count - first < KVC_TILE ? count : first + KVC_TILE;
        float m = -kvc_infinity(), lane[KVC_LANES] = {0};
        bool any = false;
        for (uint32_t r = first; r < end; r++) {
            uint32_t slot = kvc_list_slot(lists, h, r);
            if (kvc_list_position(lists, h, slot) < recent) {
                m = kvc_max(m, row[slot]);
                any = any || row[slot] != -kvc_infinity();
            }
        }
        if (!any)
            continue;
        for (uint32_t r = first; r < end; r++) {
            uint32_t slot = kvc_list_slot(lists, h, r), i = (r - first) % KVC_LANES;
            if (kvc_list_position(lists, h, slot) < recent)
                lane[i] = lane[i] + kvc_exp(row[slot] - m);
        }
        KVC_TREE32(lane);
        L = kvc_fma(kvc_exp(m - M), lane[0], L);
    }
    *maximum = M;
    *sum = L;
}

void KVC_REF(ring_fuse)(struct kvc_device *device, const struct kvc_ring_fuse *args) {
    KVC_ASSERT(args->first + args->ring <= args->lists->columns && args->filled <= args->ring);
    const struct kvc_lists *lists = args->lists;
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        float *F = (float *)kvc_span_data(args->scores) + (size_t)h * args->stride;
        uint32_t count = kvc_list_count(lists, h);
        for (uint32_t r = 0; r < count; r++)
            F[r] = 0.0f;
        for (uint32_t i = 0; i < args->filled; i++) {
            const float *row =
                kvc_list_column(lists, h, args->first + (uint32_t)((args->now - args->filled + i) % args->ring));
            float M = 0.0f, L = 1.0f;
            if (args->kind == KVC_ROW_LOGITS)
                row_softmax(lists, h, row, args->recent, &M, &L);
            for (uint32_t r = 0; r < count; r++) {
                uint32_t slot = kvc_list_slot(lists, h, r);
                float value = row[slot];
                if (kvc_list_position(lists, h, slot) >= args->recent)
                    continue;
                if (args->kind == KVC_ROW_LOGITS)
                    value = L == 0.0f ? 0.0f : kvc_div(kvc_exp(value - M), L);
                F[r] = args->fusion == KVC_FUSE_SUM ? F[r] + value : i == 0 ? value : kvc_max(F[r], value);
            }
        }
    }
}

void KVC_REF(column_scores)(struct kvc_device *device, const struct kvc_column_scores *args) {
    KVC_ASSERT(args->first + args->columns <= args->lists->columns);
    const struct kvc_lists *lists = args->lists;
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        for (uint32_t r = 0; r < kvc_list_count(lists, h); r++) {
            uint32_t slot = kvc_list_slot(lists, h, r);
            float sum = kvc_list_column(lists, h, args->first)[slot];
            for (uint32_t c = 1; c < args->columns; c++)
                sum = sum + kvc_list_column(lists, h, args->first + c)[slot];
            ((float *)kvc_span_data(args->scores))[(size_t)h * args->stride + r] = sum;
        }
}

void KVC_REF(scores_column)(struct kvc_device *device, const struct kvc_scores_column *args) {
    KVC_ASSERT(args->column < args->lists->columns);
    const struct kvc_lists *lists = args->lists;
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        for (uint32_t r = 0; r < kvc_list_count(lists, h); r++)
            kvc_list_column(lists, h, args->column)[kvc_list_slot(lists, h, r)] =
                ((const float *)kvc_span_data(args->scores))[(size_t)h * args->stride + r];
}
