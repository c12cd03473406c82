/* ref.h - the reference operations. The files of this folder are compiled twice under different names: once in plain C,
 * and once with KVC_REF_FMA for CPUs with fused multiply-add. Both builds give bit-identical results. */
#ifndef KVC_BACKENDS_CPU_REF_REF_H
#define KVC_BACKENDS_CPU_REF_REF_H

#include "backends/cpu/cpu.h"

#if defined(KVC_REF_FMA)
#define KVC_REF(name) kvc_ref_fma_##name
#else
#define KVC_REF(name) kvc_ref_##name
#endif

void kvc_ref_fill(struct kvc_ops *table);
void kvc_ref_fma_fill(struct kvc_ops *table);
/* Tests the arithmetic of this build and machine. Returns NULL, or a message that describes the fault. */
const char *kvc_ref_self_test(void);
const char *kvc_ref_fma_self_test(void);

#define KVC_OPERATION(name, parameters, ...) void KVC_REF(name)(struct kvc_device *, const struct parameters *);
#define KVC_OPERATION_FUSED(name, parameters, ...)
#include "core/base/ops.def"

/* ---- shared within ref ---- */

/* Applies rope to one head: x [d] to y [d]. cosine and sine are [rotary/2]. */
void KVC_REF(rotate)(float *y, const float *x, const float *cosine, const float *sine, uint32_t d, uint32_t rotary,
                     bool interleaved);
/* Dequantizes the values first .. first + count - 1 of a weight row to out. */
void KVC_REF(dequantize)(enum kvc_type type, const unsigned char *row, uint64_t first, uint64_t count, float *out);
/* quantizes weights to int16; has the type kvc_pack_rows */
void kvc_ref_pack_int16(const struct kvc_weight *w, size_t first, size_t last);
/* Load the key or the value of a slot as float32 [d], and store them. The store functions return the number of values
 * that saturated. */
void KVC_REF(load_key)(const struct kvc_lists *lists, uint32_t h, uint32_t slot, float *out);
void KVC_REF(load_value)(const struct kvc_lists *lists, uint32_t h, uint32_t slot, float *out);
uint32_t KVC_REF(store_key)(const struct kvc_lists *lists, uint32_t h, uint32_t slot, const float *x);
uint32_t KVC_REF(store_value)(const struct kvc_lists *lists, uint32_t h, uint32_t slot, const float *x);

/* Transforms x [d] as the operation hadamard does. */
void KVC_REF(transform)(float *x, uint32_t d);

/* A group of values of a row, for types that store values in groups. */
struct kvc_ref_group {
    float scale, minimum;
    kvc_i32 quant[KVC_ENTRY_GROUP];
};
/* Loads a group of a row of d channels with the integers that --math int8 multiplies. The minimum is not used then.
 * Returns the group's number of channels. */
uint32_t KVC_REF(load_integers)(enum kvc_type type, const unsigned char *row, uint32_t d, uint32_t group,
                                struct kvc_ref_group *to);
/* Rounds x [n], one group at most, to what an entry of the rotated type holds. */
void KVC_REF(round_group)(enum kvc_type type, const float *x, uint32_t n, float *out);

/* Returns one channel of a page. `side` is pages->low or pages->high. */
float KVC_REF(page_value)(const struct kvc_pages *pages, const struct kvc_buffer *side, uint32_t d, uint32_t h,
                          uint32_t channel, uint32_t page);

/* Turns the scores p [count] into probabilities, from index `first` on, as defined at expected_scores. */
void KVC_REF(softmax_indices)(float *p, uint32_t first, uint32_t count);

/* Returns the 32-lane dot product of a [K] and b [K]. */
static inline float kvc_ref_dot(const float *a, const float *b, size_t K) {
    float lane[KVC_LANES] = {0};
    size_t k = 0;
    for (; k + KVC_LANES <= K; k += KVC_LANES)
        for (size_t i = 0; i < KVC_LANES; i++)
            lane[i] = kvc_fma(a[k + i], b[k + i], lane[i]);
    for (size_t i = 0; k + i < K; i++)
        lane[i] = kvc_fma(a[k + i], b[k + i], lane[i]);
    KVC_TREE32(lane);
    return lane[0];
}

/* A query [d] whose dot products with keys are computed. */
struct kvc_ref_query {
    const float *q;
    kvc_i32 *quant; /* [d], or NULL if the query is multiplied as floats */
    float *scale;   /* [groups of d]: the scales of quant */
};
/* Returns how many floats of memory KVC_REF(open_query) needs for a query. */
static inline size_t kvc_ref_query_floats(size_t d) { return d + (d + KVC_Q8_GROUP - 1) / KVC_Q8_GROUP; }
/* Prepares the query q [d] for dot_key. If the entries are multiplied as integers, quantizes q to `memory`. */
struct kvc_ref_query KVC_REF(open_query)(struct kvc_scoring scoring, const struct kvc_entry_format *format,
                                         const float *q, float *memory);
/* Returns the dot product of the query and the key of a slot. `key` [d] is the same key in float32. */
float KVC_REF(dot_key)(const struct kvc_ref_query *query, const struct kvc_lists *lists, uint32_t h, uint32_t slot,
                       const float *key);

/* Returns the attention score of a dot product. `scale` comes from kvc_score_scale; cap 0 means no cap. */
static inline float kvc_ref_score(float dot, float scale, float cap) {
    const float s = dot * scale;
    return cap != 0.0f ? kvc_capped(s, cap) : s;
}

/* Returns the number of slots that head h owns. */
static inline uint32_t kvc_list_slots(const struct kvc_lists *lists, uint32_t h) {
    return lists->host_base[h + 1] - lists->host_base[h];
}

static inline uint32_t kvc_list_count(const struct kvc_lists *lists, uint32_t h) {
    return ((const uint32_t *)lists->count->data)[h];
}

/* Returns state column c of head h, indexed by slot. */
static inline float *kvc_list_column(const struct kvc_lists *lists, uint32_t h, uint32_t c) {
    KVC_ASSERT(c < lists->columns && h < lists->kv_heads);
    return (float *)lists->state->data + (size_t)lists->columns * lists->host_base[h] +
           (size_t)c * kvc_list_slots(lists, h);
}

/* The entries of one head that a query may see. They are numbered 0 .. places - 1. Some of them may be masked. */
struct kvc_view {
    const struct kvc_lists *lists;
    const uint32_t
        *indices; /* a read list: the indices of these entries; NULL if the entries have the indices 0 .. places - 1 */
    uint32_t head, places, visible; /* indices from `visible` on are masked */
    int64_t oldest;                 /* entries at positions below this are masked */
};

static inline struct kvc_view kvc_view_of(const struct kvc_lists *lists, const struct kvc_read_list *reads, uint32_t h,
                                          uint32_t causal_offset, int32_t position, uint32_t window) {
    struct kvc_view view = {lists, NULL, h, 0, kvc_list_count(lists, h), INT64_MIN};
    view.visible = view.visible > causal_offset ? view.visible - causal_offset : 0;
    view.places = view.visible;
    if (reads) {
        view.indices = (const uint32_t *)reads->index->data + (size_t)h * reads->stride;
        view.places = ((const uint32_t *)reads->count->data)[h];
        KVC_ASSERT(view.places <= reads->stride);
    }
    if (window)
        view.oldest = (int64_t)position - window + 1;
    return view;
}

/* Returns the view of one query of w. If w has no causal offsets, the query sees the entries whose positions are at
 * most its own. */
static inline struct kvc_view kvc_view_of_query(const struct kvc_probabilities *w, uint32_t query, uint32_t h) {
    int32_t position = ((const int32_t *)kvc_span_data(w->positions))[query];
    uint32_t causal_offset = 0, count = kvc_list_count(w->lists, h);
    if (w->causal_offset.buffer)
        causal_offset = ((const uint32_t *)kvc_span_data(w->causal_offset))[query];
    else
        while (causal_offset < count &&
               kvc_list_position(w->lists, h, kvc_list_slot(w->lists, h, count - 1 - causal_offset)) > position)
            causal_offset++;
    return kvc_view_of(w->lists, w->reads, h, causal_offset, position, w->window);
}

/* Returns the slot of an entry of the view, or UINT32_MAX if the entry is masked. */
static inline uint32_t kvc_view_slot(const struct kvc_view *view, uint32_t place) {
    uint32_t index = view->indices ? view->indices[place] : place, slot;
    if (index >= view->visible)
        return UINT32_MAX;
    slot = kvc_list_slot(view->lists, view->head, index);
    return kvc_list_position(view->lists, view->head, slot) < view->oldest ? UINT32_MAX : slot;
}

#endif
