/* attention.c - exact attention over lists of different lengths, in tiles of 256 entries. */
#include "core/base/integers.h"
#include "backends/cpu/ref/ref.h"

/* Results of each tile for one row and the query heads of one KV head. The arrays are one thread's scratch memory. */
struct work {
    uint32_t group, head_size;
    float *key;                  /* [d]: a key, later a value */
    struct kvc_ref_query *query; /* [G] */
    float *score;                /* [G, KVC_TILE] */
    float *maximum;              /* [tiles, G] */
    float *sum;                  /* [tiles, G] */
    float *out;                  /* [tiles, G, d] */
    uint32_t *slot;              /* [KVC_TILE]: slots; UINT32_MAX if the entry is masked */
    bool *any;                   /* [tiles], true if the tile has an entry that is not masked */
};

/* Adds the values of a tile to its outputs, as floats. */
static void add_values(const struct work *w, const struct kvc_view *view, uint32_t tile, uint32_t count) {
    const uint32_t d = w->head_size;
    for (uint32_t j = 0; j < count; j++) {
        if (w->slot[j] == UINT32_MAX)
            continue;
        KVC_REF(load_value)(view->lists, view->head, w->slot[j], w->key);
        for (uint32_t g = 0; g < w->group; g++) {
            float *o = w->out + ((size_t)tile * w->group + g) * d, p = w->score[g * KVC_TILE + j];
            for (uint32_t c = 0; c < d; c++)
                o[c] = kvc_fma(p, w->key[c], o[c]);
        }
    }
}

/* Computes one group of channels of a query's output, from channel c on, with integer arithmetic. */
static void sum_values(const struct work *w, const struct kvc_view *view, uint32_t count, const float *p, uint32_t c,
                       float *o) {
    const enum kvc_type type = view->lists->format.value.type;
    const uint32_t d = w->head_size, channels = kvc_min_u32(d - c, KVC_Q8_GROUP);
    struct kvc_ref_group group;
    kvc_i32 sum[KVC_Q8_GROUP] = {0};
    kvc_u32 top = 0;
    for (uint32_t j = 0; j < count; j++)
        if (w->slot[j] != UINT32_MAX) {
            KVC_REF(load_integers)
            (type, kvc_list_value(view->lists, view->head, w->slot[j]), d, c / KVC_Q8_GROUP, &group);
            top = kvc_int8_top(top, group.scale);
        }
    for (uint32_t j = 0; j < count; j++) {
        if (w->slot[j] == UINT32_MAX)
            continue;
        KVC_REF(load_integers)(type, kvc_list_value(view->lists, view->head, w->slot[j]), d, c / KVC_Q8_GROUP, &group);
        const kvc_i32 weight = kvc_value_weight(p[j], group.scale * kvc_value_inverse(top));
        for (uint32_t i = 0; i < channels; i++)
            sum[i] += weight * group.quant[i];
    }
    for (uint32_t i = 0; i < channels; i++)
        o[c + i] = (float)sum[i] * kvc_value_unit(top);
}

/* Computes the scores, exp(s - m) and the output of one tile. Returns the number of entries read. */
static uint32_t one_tile(const struct work *w, const struct kvc_view *view, uint32_t tile, float scale, float cap) {
    uint32_t first = tile * KVC_TILE, d = w->head_size, read = 0;
    uint32_t count = kvc_min_u32(view->places - first, KVC_TILE);
    for (uint32_t j = 0; j < count; j++) {
        w->slot[j] = kvc_view_slot(view, first + j);
        if (w->slot[j] == UINT32_MAX)
            continue;
        KVC_REF(load_key)(view->lists, view->head, w->slot[j], w->key);
        for (uint32_t g = 0; g < w->group; g++)
            w->score[g * KVC_TILE + j] =
                kvc_ref_score(KVC_REF(dot_key)(&w->query[g], view->lists, view->head, w->slot[j], w->key), scale, cap);
        read++;
    }
    w->any[tile] = read > 0;
    for (uint32_t g = 0; g < w->group; g++) {
        float *s = w->score + g * KVC_TILE, m = -kvc_infinity(), lane[KVC_LANES] = {0};
        for (uint32_t j = 0; j < count; j++)
            if (w->slot[j] != UINT32_MAX)
                m = kvc_max(m, s[j]);
        for (uint32_t j = 0; j < count; j++)
            if (w->slot[j] != UINT32_MAX) {
                s[j] = kvc_exp(s[j] - m);
                lane[j % KVC_LANES] = lane[j % KVC_LANES] + s[j];
            }
        KVC_TREE32(lane);
        w->maximum[(size_t)tile * w->group + g] = m;
        w->sum[(size_t)tile * w->group + g] = lane[0];
        for (uint32_t c = 0; c < d; c++)
            w->out[((size_t)tile * w->group + g) * d + c] = 0.0f;
    }
    if (!w->query->quant)
        add_values(w, view, tile, count);
    for (uint32_t g = 0; w->query->quant && g < w->group; g++)
        for (uint32_t c = 0; c < d; c += KVC_Q8_GROUP)
            sum_values(w, view, count, w->score + g * KVC_TILE, c, w->out + ((size_t)tile * w->group + g) * d);
    return read;
}

/* Merges the tiles of one query head in ascending order, then adds its sink, and writes the output to out [d]. `sink`
 * may be NULL. Also writes M and L unless `maximum` is NULL. */
static void merge(const struct work *w, uint32_t tiles, uint32_t g, const float *sink, float *out, float *maximum,
                  float *sum) {
    uint32_t d = w->head_size;
    float M = -kvc_infinity(), L = 0.0f;
    for (uint32_t t = 0; t < tiles; t++)
        if (w->any[t])
            M = kvc_max(M, w->maximum[(size_t)t * w->group + g]);
    M = M + 0.0f;
    for (uint32_t c = 0; c < d; c++)
        out[c] = 0.0f;
    for (uint32_t t = 0; t < tiles; t++) {
        const float *o = w->out + ((size_t)t * w->group + g) * d;
        float scale;
        if (!w->any[t])
            continue;
        scale = kvc_exp(w->maximum[(size_t)t * w->group + g] - M);
        L = kvc_fma(scale, w->sum[(size_t)t * w->group + g], L);
        for (uint32_t c = 0; c < d; c++)
            out[c] = kvc_fma(scale, o[c], out[c]);
    }
    if (L != 0.0f && sink) /* L is 0 only if every entry was masked */
        L = kvc_join_sink(L, M, *sink);
    if (L != 0.0f)
        for (uint32_t c = 0; c < d; c++)
            out[c] = kvc_div(out[c], L);
    if (maximum) {
        *maximum = kvc_is_nan(L) ? L : M;
        *sum = L;
    }
}

/* Computes one row of one segment. Returns the number of entries read. */
static uint64_t attend_row(struct kvc_cpu *cpu, const struct kvc_attention *a, const struct kvc_segment *segment,
                           uint32_t row) {
    uint32_t group = a->heads / a->kv_heads, d = a->head_size;
    const int32_t *position = kvc_span_data(a->positions);
    const uint32_t *causal_offset = kvc_span_data(a->causal_offset);
    const float scale = kvc_score_scale(a->scoring.scale, d);
    uint64_t read = 0;
    for (uint32_t h = 0; h < a->kv_heads; h++) {
        struct kvc_view view =
            kvc_view_of(segment->lists, segment->reads, h, causal_offset[row], position[row], a->window);
        size_t tiles = ((size_t)view.places + KVC_TILE - 1) / KVC_TILE, at = (size_t)row * a->heads + h * group;
        const float *q = (const float *)kvc_span_data(a->q) + at * d;
        struct work w = {.group = group, .head_size = d};
        const size_t each = kvc_ref_query_floats(d);
        size_t floats = d + group * (each + KVC_TILE) + tiles * group * (2 + (size_t)d) + KVC_TILE;
        w.query = kvc_cpu_scratch(cpu, 0, group * sizeof *w.query + floats * sizeof(float) + tiles * sizeof *w.any);
        if (!w.query)
            return read;
        w.key = (float *)(void *)(w.query + group);
        w.score = w.key + d;
        w.maximum = w.score + (size_t)group * KVC_TILE;
        w.sum = w.maximum + tiles * group;
        w.out = w.sum + tiles * group;
        w.slot = (uint32_t *)(w.out + tiles * group * d);
        float *quants = (float *)(void *)(w.slot + KVC_TILE);
        w.any = (bool *)(quants + group * each);
        for (uint32_t g = 0; g < group; g++)
            w.query[g] = KVC_REF(open_query)(a->scoring, &segment->lists->format, q + (size_t)g * d, quants + g * each);
        for (uint32_t t = 0; t < tiles; t++)
            read += one_tile(&w, &view, t, scale, a->scoring.cap);
        for (uint32_t g = 0; g < group; g++)
            merge(&w, (uint32_t)tiles, g,
                  a->sinks.buffer ? (const float *)kvc_span_data(a->sinks) + h * group + g : NULL,
                  (float *)kvc_span_data(a->out) + (at + g) * d,
                  a->maximum.buffer ? (float *)kvc_span_data(a->maximum) + at + g : NULL,
                  a->maximum.buffer ? (float *)kvc_span_data(a->sum) + at + g : NULL);
    }
    return read;
}

void KVC_REF(attention)(struct kvc_device *device, const struct kvc_attention *a) {
    for (size_t i = 0; i < a->segment_count; i++) {
        const struct kvc_segment *segment = &a->segments[i];
        uint64_t read = 0;
        for (uint32_t row = segment->row; row < segment->row + segment->rows; row++)
            read += attend_row((struct kvc_cpu *)device, a, segment, row);
        if (segment->bytes_read)
            *segment->bytes_read += read * kvc_entry_bytes(&segment->lists->format);
    }
}
