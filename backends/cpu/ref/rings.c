/* rings.c - the attention probabilities that policies look at: rings of rows, and state columns as scores. */
#include "backends/cpu/ref/ref.h"

/* The group's value of one query at one entry: the sum over its heads, from 0 and ascending, of the probabilities
 * exp(s - M) / L, of the scores s, or of 1 where the probability is below `low`. */
static float group_value(const struct kvc_probabilities *w, uint32_t query, uint32_t h, const float *key,
                         enum kvc_row_kind kind, float low) {
    uint32_t group = w->heads / w->kv_heads, d = w->head_size;
    size_t at = (size_t)query * w->heads + (size_t)h * group;
    const float *q = (const float *)kvc_span_data(w->q) + at * d;
    const float *maximum = kind != KVC_ROW_LOGITS ? (const float *)kvc_span_data(w->maximum) + at : NULL;
    const float *sum = kind != KVC_ROW_LOGITS ? (const float *)kvc_span_data(w->sum) + at : NULL;
    float scale = kvc_attention_scale(d), value = 0.0f;
    for (uint32_t g = 0; g < group; g++) {
        float x = kvc_ref_dot(q + (size_t)g * d, key, d) * scale;
        if (kind != KVC_ROW_LOGITS)
            x = kvc_div(kvc_exp(x - maximum[g]), sum[g]);
        if (kind == KVC_ROW_LOW)
            x = x < low ? 1.0f : 0.0f;
        value = value + x;
    }
    return value;
}

void KVC_REF(ring_write)(struct kvc_device *device, const struct kvc_probabilities *w, uint32_t first, uint32_t ring,
                         enum kvc_row_kind kind) {
    float *key = kvc_cpu_scratch((struct kvc_cpu *)device, 0, w->head_size * sizeof *key);
    if (!key)
        return;
    for (uint32_t query = 0; query < w->queries; query++)
        for (uint32_t h = 0; h < w->kv_heads; h++) {
            uint32_t position = (uint32_t)((const int32_t *)kvc_span_data(w->positions))[query];
            float *column = kvc_list_column(w->lists, h, first + position % ring);
            struct kvc_view view = kvc_view_of_query(w, query, h);
            float *low = kind == KVC_ROW_COUNTS ? kvc_list_column(w->lists, h, first + ring + position % ring) : NULL;
            float *minus = low ? kvc_list_column(w->lists, h, first + 2 * ring) : NULL;
            uint32_t seen = 0;
            for (uint32_t r = 0; r < kvc_list_count(w->lists, h); r++) {
                uint32_t slot = kvc_list_slot(w->lists, h, r);
                column[slot] = kind == KVC_ROW_LOGITS ? -kvc_infinity() : 0.0f;
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
                KVC_REF(load_entry)(&w->lists->format, kvc_list_key(w->lists, h, slot), key);
                column[slot] = group_value(w, query, h, key, kind, kvc_div(1.0f, (float)seen));
                if (low) {
                    low[slot] = group_value(w, query, h, key, KVC_ROW_LOW, kvc_div(1.0f, (float)seen));
                    minus[slot] = minus[slot] - low[slot];
                }
            }
        }
}

/* M and L of one ring row's logits over the entries of head h older than recent: tiles over ranks, merged ascending,
 * as in attention. Where none of these was seen: -inf and 0. */
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

void KVC_REF(ring_fuse)(struct kvc_device *device, const struct kvc_lists *lists, uint32_t first, uint32_t ring,
                        uint32_t filled, int64_t now, enum kvc_row_kind kind, enum kvc_fusion fusion, int64_t recent,
                        struct kvc_span scores, uint32_t stride) {
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        float *F = (float *)kvc_span_data(scores) + (size_t)h * stride;
        uint32_t count = kvc_list_count(lists, h);
        for (uint32_t r = 0; r < count; r++)
            F[r] = 0.0f;
        for (uint32_t i = 0; i < filled; i++) {
            const float *row = kvc_list_column(lists, h, first + (uint32_t)((now - filled + i) % ring));
            float M = 0.0f, L = 1.0f;
            if (kind == KVC_ROW_LOGITS)
                row_softmax(lists, h, row, recent, &M, &L);
            for (uint32_t r = 0; r < count; r++) {
                uint32_t slot = kvc_list_slot(lists, h, r);
                float value = row[slot];
                if (kvc_list_position(lists, h, slot) >= recent)
                    continue;
                if (kind == KVC_ROW_LOGITS)
                    value = L == 0.0f ? 0.0f : kvc_div(kvc_exp(value - M), L);
                F[r] = fusion == KVC_FUSE_SUM ? F[r] + value : i == 0 ? value : kvc_max(F[r], value);
            }
        }
    }
}

void KVC_REF(column_scores)(struct kvc_device *device, const struct kvc_lists *lists, uint32_t first, uint32_t columns,
                            struct kvc_span scores, uint32_t stride) {
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        for (uint32_t r = 0; r < kvc_list_count(lists, h); r++) {
            uint32_t slot = kvc_list_slot(lists, h, r);
            float sum = kvc_list_column(lists, h, first)[slot];
            for (uint32_t c = 1; c < columns; c++)
                sum = sum + kvc_list_column(lists, h, first + c)[slot];
            ((float *)kvc_span_data(scores))[(size_t)h * stride + r] = sum;
        }
}

void KVC_REF(scores_column)(struct kvc_device *device, const struct kvc_lists *lists, uint32_t column,
                            struct kvc_span scores, uint32_t stride) {
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        for (uint32_t r = 0; r < kvc_list_count(lists, h); r++)
            kvc_list_column(lists, h, column)[kvc_list_slot(lists, h, r)] =
                ((const float *)kvc_span_data(scores))[(size_t)h * stride + r];
}
