/* scores.c - the attention probabilities of many queries: their sums over a window, their moments, their sums over all
 * queries so far. */
#include "backends/cpu/ref/ref.h"

/* The probabilities of one query's group: scratch arrays. */
struct row {
    struct kvc_view view;
    float *a, *key; /* [G, places], only where slot is not UINT32_MAX; [d] */
    uint32_t *slot; /* [places] */
};

static uint32_t most_entries(const struct kvc_lists *lists) {
    uint32_t most = 0;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        most = kvc_list_count(lists, h) > most ? kvc_list_count(lists, h) : most;
    return most;
}

/* Gets scratch for a row, and after it `more` floats (*rest); false: no memory, which the next sync reports. */
static bool make_row(struct kvc_device *device, const struct kvc_probabilities *w, size_t more, struct row *row,
                     float **rest) {
    const size_t most = most_entries(w->lists), group = w->heads / w->kv_heads;
    row->a = kvc_cpu_scratch((struct kvc_cpu *)device, 0, ((group + 1) * most + w->head_size + more) * sizeof(float));
    if (!row->a)
        return false;
    row->slot = (uint32_t *)(row->a + group * most);
    row->key = (float *)(row->slot + most);
    *rest = row->key + w->head_size;
    return true;
}

/* M and L of x over the places that are seen, with the tiles and merge of attention. */
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

/* The probabilities that head h's group gives every entry that the query sees. */
static void take_row(const struct kvc_probabilities *w, uint32_t query, uint32_t h, const struct kvc_noise *noise,
                     struct row *row) {
    const uint32_t group = w->heads / w->kv_heads, d = w->head_size;
    const size_t at = (size_t)query * w->heads + (size_t)h * group;
    const float scale = kvc_attention_scale(d);
    row->view = kvc_view_of_query(w, query, h);
    const uint32_t places = row->view.places;
    for (uint32_t j = 0; j < places; j++) {
        row->slot[j] = kvc_view_slot(&row->view, j);
        if (row->slot[j] == UINT32_MAX)
            continue;
        KVC_REF(load_entry)(&w->lists->format, kvc_list_key(w->lists, h, row->slot[j]), row->key);
        for (uint32_t g = 0; g < group; g++) {
            float s = kvc_ref_dot((const float *)kvc_span_data(w->q) + (at + g) * d, row->key, d) * scale;
            if (noise)
                s = kvc_div(s + kvc_gumbel(noise->seed, noise->layer, h * group + g,
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

/* Place j: the sum over heads from .. to - 1 of the row's group. */
static float row_sum(const struct row *row, uint32_t from, uint32_t to, uint32_t j) {
    float sum = 0.0f;
    for (uint32_t g = from; g < to; g++)
        sum = sum + row->a[(size_t)g * row->view.places + j];
    return sum;
}

static uint32_t place_rank(const struct row *row, uint32_t j) { return row->view.ranks ? row->view.ranks[j] : j; }

void KVC_REF(window_mass)(struct kvc_device *device, const struct kvc_probabilities *w, struct kvc_span scores,
                          uint32_t stride, bool by_head) {
    const uint32_t group = w->heads / w->kv_heads, rows = by_head ? group : 1, each = by_head ? 1 : group;
    struct row row;
    float *none;
    if (!make_row(device, w, 0, &row, &none))
        return;
    for (uint32_t h = 0; h < w->kv_heads; h++) {
        float *column = (float *)kvc_span_data(scores) + (size_t)h * rows * stride;
        for (uint32_t i = 0; i < rows; i++)
            for (uint32_t r = 0; r < kvc_list_count(w->lists, h); r++)
                column[(size_t)i * stride + r] = 0.0f;
        for (uint32_t query = 0; query < w->queries; query++) {
            take_row(w, query, h, NULL, &row);
            for (uint32_t j = 0; j < row.view.places; j++)
                for (uint32_t i = 0; i < rows && row.slot[j] != UINT32_MAX; i++) {
                    float *to = column + (size_t)i * stride + place_rank(&row, j);
                    *to = *to + row_sum(&row, i * each, (i + 1) * each, j);
                }
        }
    }
}

/* Score of a rank from its probabilities a [n], and its dispersion and variance. */
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

void KVC_REF(window_moments)(struct kvc_device *device, const struct kvc_probabilities *w, uint64_t tail, float gamma,
                             struct kvc_span scores, uint32_t stride, struct kvc_span totals) {
    const uint32_t group = w->heads / w->kv_heads, queries = w->queries;
    float *total = kvc_span_data(totals), *table; /* [G, entries, queries] */
    struct row row;
    if (!make_row(device, w, (size_t)group * most_entries(w->lists) * queries, &row, &table))
        return;
    total[0] = total[1] = 0.0f;
    for (uint32_t h = 0; h < w->kv_heads; h++) {
        const uint32_t count = kvc_list_count(w->lists, h);
        for (size_t i = 0; i < (size_t)group * count * queries; i++)
            table[i] = 0.0f;
        for (uint32_t query = 0; query < queries; query++) {
            take_row(w, query, h, NULL, &row);
            for (uint32_t j = 0; j < row.view.places; j++)
                for (uint32_t g = 0; g < group && row.slot[j] != UINT32_MAX; g++)
                    table[((size_t)g * count + place_rank(&row, j)) * queries + query] =
                        row.a[(size_t)g * row.view.places + j];
        }
        for (uint32_t g = 0; g < group; g++) {
            float *score = (float *)kvc_span_data(scores) + ((size_t)h * group + g) * stride;
            float dispersion[KVC_LANES] = {0}, variance[KVC_LANES] = {0};
            for (uint32_t r = 0; r < count; r++) {
                float one, other;
                score[r] = 0.0f;
                if (r + tail >= count)
                    continue;
                score[r] = moments_of(table + ((size_t)g * count + r) * queries, queries, gamma, &one, &other);
                dispersion[r % KVC_LANES] = dispersion[r % KVC_LANES] + one;
                variance[r % KVC_LANES] = variance[r % KVC_LANES] + other;
            }
            KVC_TREE32(dispersion);
            KVC_TREE32(variance);
            total[0] = total[0] + dispersion[0];
            total[1] = total[1] + variance[0];
        }
    }
}

void KVC_REF(accumulate)(struct kvc_device *device, const struct kvc_probabilities *w, uint32_t column,
                         const struct kvc_noise *noise) {
    struct row row;
    float *none;
    if (!make_row(device, w, 0, &row, &none))
        return;
    for (uint32_t h = 0; h < w->kv_heads; h++) {
        float *older = kvc_list_column(w->lists, h, column), *newer = kvc_list_column(w->lists, h, column + 1);
        for (uint32_t query = 0; query < w->queries; query++) {
            if (((const int32_t *)kvc_span_data(w->positions))[query] % (int32_t)KVC_TILE == 0)
                for (uint32_t r = 0; r < kvc_list_count(w->lists, h); r++) {
                    const uint32_t slot = kvc_list_slot(w->lists, h, r);
                    older[slot] = older[slot] + newer[slot];
                    newer[slot] = 0.0f;
                }
            take_row(w, query, h, noise, &row);
            for (uint32_t j = 0; j < row.view.places; j++)
                if (row.slot[j] != UINT32_MAX)
                    newer[row.slot[j]] = newer[row.slot[j]] + row_sum(&row, 0, w->heads / w->kv_heads, j);
        }
    }
}
