/* ref.h - the reference operations. The files of this folder are compiled twice, under different names: plainly, and
 * with KVC_REF_FMA for CPUs that have fused multiply-add. Both give the same bits. */
#ifndef KVC_BACKENDS_CPU_REF_REF_H
#define KVC_BACKENDS_CPU_REF_REF_H

#include "backends/cpu/cpu.h"

#if defined(KVC_REF_FMA)
#define KVC_REF(name) kvc_ref_fma_##name
#else
#define KVC_REF(name) kvc_ref_##name
#endif

/* Every operation that ref defines, in the order of the table, one a line. */
/* clang-format off */
#define KVC_REF_OPERATIONS(apply) \
    apply(embed) \
    apply(norm) \
    apply(linear) \
    apply(rope) \
    apply(gated_silu) \
    apply(add) \
    apply(blend) \
    apply(repeat_heads) \
    apply(gather) \
    apply(append) \
    apply(drop) \
    apply(attention) \
    apply(identity) \
    apply(evict) \
    apply(keep_keys) \
    apply(turn_keys) \
    apply(relayout) \
    apply(entries) \
    apply(window_mass) \
    apply(window_moments) \
    apply(accumulate) \
    apply(ring_write) \
    apply(ring_fuse) \
    apply(column_scores) \
    apply(scores_column) \
    apply(pool) \
    apply(group_scores) \
    apply(keep) \
    apply(shares) \
    apply(view_append) \
    apply(view_evict) \
    apply(pages_update) \
    apply(select_scores) \
    apply(select_reads) \
    apply(value_sums) \
    apply(mix_mean) \
    apply(fma_loop)

/* Those that only move integers or whole rows: ref's version is also the fast one, on any CPU path. */
#define KVC_REF_IS_FAST(apply) \
    apply(repeat_heads) \
    apply(gather) \
    apply(drop) \
    apply(identity) \
    apply(evict) \
    apply(keep_keys) \
    apply(relayout) \
    apply(entries) \
    apply(view_append) \
    apply(view_evict)
/* clang-format on */

void kvc_ref_fill(struct kvc_ops *table);
void kvc_ref_fma_fill(struct kvc_ops *table);
/* NULL, or what is wrong with this build's or this machine's arithmetic. */
const char *kvc_ref_self_test(void);
const char *kvc_ref_fma_self_test(void);

/* table.c names these; each operation's definition and file are in core/base/ops.h's order. */
void KVC_REF(embed)(struct kvc_device *, struct kvc_span out, const struct kvc_weight *table, struct kvc_span tokens,
                    uint32_t rows);
void KVC_REF(norm)(struct kvc_device *, struct kvc_span y, struct kvc_span x, struct kvc_span w, uint32_t rows,
                   uint32_t K, float eps);
void KVC_REF(linear)(struct kvc_device *, struct kvc_span y, struct kvc_span x, const struct kvc_weight *w,
                     struct kvc_span bias, uint32_t rows);
void KVC_REF(rope)(struct kvc_device *, struct kvc_span y, struct kvc_span x, struct kvc_span cosine,
                   struct kvc_span sine, uint32_t rows, uint32_t heads, uint32_t head_size, uint32_t rotary,
                   bool interleaved);
void KVC_REF(gated_silu)(struct kvc_device *, struct kvc_span y, struct kvc_span gate, struct kvc_span up, size_t n);
void KVC_REF(add)(struct kvc_device *, struct kvc_span y, struct kvc_span x, size_t n);
void KVC_REF(blend)(struct kvc_device *, struct kvc_span y, struct kvc_span x, float share, size_t n);
void KVC_REF(repeat_heads)(struct kvc_device *, struct kvc_span out, struct kvc_span x, uint32_t rows, uint32_t heads,
                           uint32_t copies, uint32_t head_size);
void KVC_REF(gather)(struct kvc_device *, struct kvc_span out, struct kvc_span x, struct kvc_span index, uint32_t rows,
                     uint32_t width);
void KVC_REF(append)(struct kvc_device *, const struct kvc_segment *segments, size_t segment_count, struct kvc_span k,
                     struct kvc_span v, struct kvc_span positions);
void KVC_REF(drop)(struct kvc_device *, struct kvc_lists *, uint32_t rows);
void KVC_REF(attention)(struct kvc_device *, const struct kvc_attention *);
void KVC_REF(identity)(struct kvc_device *, struct kvc_lists *);
void KVC_REF(evict)(struct kvc_device *, struct kvc_lists *, const struct kvc_read_list *kept);
void KVC_REF(keep_keys)(struct kvc_device *, const struct kvc_lists *, uint32_t first, struct kvc_span k,
                        uint32_t rows);
void KVC_REF(turn_keys)(struct kvc_device *, const struct kvc_lists *, uint32_t first, struct kvc_span cosine,
                        struct kvc_span sine, uint32_t rotary, bool interleaved);
void KVC_REF(relayout)(struct kvc_device *, struct kvc_lists *dst, const struct kvc_lists *src);
void KVC_REF(entries)(struct kvc_device *, const struct kvc_lists *, uint32_t h, struct kvc_span keys,
                      struct kvc_span values);
void KVC_REF(window_mass)(struct kvc_device *, const struct kvc_probabilities *, struct kvc_span scores,
                          uint32_t stride, bool by_head);
void KVC_REF(window_moments)(struct kvc_device *, const struct kvc_probabilities *, uint64_t tail, float gamma,
                             struct kvc_span scores, uint32_t stride, struct kvc_span totals);
void KVC_REF(accumulate)(struct kvc_device *, const struct kvc_probabilities *, uint32_t column,
                         const struct kvc_noise *noise);
void KVC_REF(ring_write)(struct kvc_device *, const struct kvc_probabilities *, uint32_t first, uint32_t ring,
                         enum kvc_row_kind kind);
void KVC_REF(ring_fuse)(struct kvc_device *, const struct kvc_lists *, uint32_t first, uint32_t ring, uint32_t filled,
                        int64_t now, enum kvc_row_kind kind, enum kvc_fusion fusion, int64_t recent,
                        struct kvc_span scores, uint32_t stride);
void KVC_REF(column_scores)(struct kvc_device *, const struct kvc_lists *, uint32_t first, uint32_t columns,
                            struct kvc_span scores, uint32_t stride);
void KVC_REF(scores_column)(struct kvc_device *, const struct kvc_lists *, uint32_t column, struct kvc_span scores,
                            uint32_t stride);
void KVC_REF(pool)(struct kvc_device *, const struct kvc_lists *, uint32_t rows, struct kvc_span out,
                   struct kvc_span in, uint32_t stride, uint64_t tail, uint32_t kernel, enum kvc_pooling pooling);
void KVC_REF(group_scores)(struct kvc_device *, const struct kvc_lists *, uint32_t rows, struct kvc_span out,
                           struct kvc_span in, uint32_t stride, float divisor);
void KVC_REF(keep)(struct kvc_device *, const struct kvc_lists *, const struct kvc_keep *rules, uint32_t rule_count,
                   struct kvc_span scores, struct kvc_span ties, uint32_t stride, struct kvc_read_list *kept);
void KVC_REF(shares)(struct kvc_device *, const struct kvc_lists *, struct kvc_span scores, uint32_t stride,
                     uint64_t tail, uint64_t slots, struct kvc_span shares);
void KVC_REF(view_append)(struct kvc_device *, const struct kvc_lists *, struct kvc_read_list *view, uint32_t rows);
void KVC_REF(view_evict)(struct kvc_device *, const struct kvc_lists *, const struct kvc_read_list *kept,
                         struct kvc_read_list *view);
void KVC_REF(pages_update)(struct kvc_device *, const struct kvc_lists *, const struct kvc_read_list *view,
                           struct kvc_pages *, uint32_t rows);
void KVC_REF(select_scores)(struct kvc_device *, const struct kvc_select_scores *);
void KVC_REF(select_reads)(struct kvc_device *, const struct kvc_select_reads *);
void KVC_REF(value_sums)(struct kvc_device *, const struct kvc_lists *, const struct kvc_read_list *view,
                         struct kvc_span sums, uint32_t rows);
void KVC_REF(mix_mean)(struct kvc_device *, const struct kvc_lists *, const struct kvc_read_list *view,
                       const struct kvc_read_list *reads, uint32_t heads, uint32_t head_size, struct kvc_span out,
                       struct kvc_span alpha, struct kvc_span sums);
void KVC_REF(fma_loop)(struct kvc_device *, struct kvc_span x, size_t n, uint32_t rounds);

/* ---- shared inside ref ---- */

/* One head of rope: x [d] to y [d] by rows of cosine and sine [rotary/2]. */
void KVC_REF(turn)(float *y, const float *x, const float *cosine, const float *sine, uint32_t d, uint32_t rotary,
                   bool interleaved);
/* Values first..first+count-1 of a weight row, widened to out. */
void KVC_REF(widen)(enum kvc_type type, const unsigned char *row, uint64_t first, uint64_t count, float *out);
/* A cache row of d channels, widened; and rounded and stored, returning how many values saturated. */
void KVC_REF(load_entry)(const struct kvc_entry_format *format, const unsigned char *row, float *out);
uint32_t KVC_REF(store_entry)(const struct kvc_entry_format *format, unsigned char *row, const float *x);

/* One channel of a page: side is pages->low or pages->high. */
float KVC_REF(page_value)(const struct kvc_pages *pages, const struct kvc_buffer *side, uint32_t d, uint32_t h,
                          uint32_t channel, uint32_t page);

/* The 32-lane dot product. */
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

/* Slots that head h owns. */
static inline uint32_t kvc_list_slots(const struct kvc_lists *lists, uint32_t h) {
    return lists->host_base[h + 1] - lists->host_base[h];
}

static inline uint32_t kvc_list_count(const struct kvc_lists *lists, uint32_t h) {
    return ((const uint32_t *)lists->count->data)[h];
}

/* State column c of head h, indexed by slot. */
static inline float *kvc_list_column(const struct kvc_lists *lists, uint32_t h, uint32_t c) {
    return (float *)lists->state->data + (size_t)lists->columns * lists->host_base[h] +
           (size_t)c * kvc_list_slots(lists, h);
}

/* What one query may see of one head: places 0..places-1, each with its rank, or a rank that is skipped. */
struct kvc_view {
    const struct kvc_lists *lists;
    const uint32_t *ranks;          /* the read list, NULL: all ranks */
    uint32_t head, places, visible; /* ranks below visible */
    int64_t oldest;                 /* entries at positions below this are skipped */
};

static inline struct kvc_view kvc_view_of(const struct kvc_lists *lists, const struct kvc_read_list *reads, uint32_t h,
                                          uint32_t causal_offset, int32_t position, uint32_t window) {
    struct kvc_view view = {lists, NULL, h, 0, kvc_list_count(lists, h), INT64_MIN};
    view.visible = view.visible > causal_offset ? view.visible - causal_offset : 0;
    view.places = view.visible;
    if (reads) {
        view.ranks = (const uint32_t *)reads->rank->data + (size_t)h * reads->stride;
        view.places = ((const uint32_t *)reads->count->data)[h];
    }
    if (window)
        view.oldest = (int64_t)position - window + 1;
    return view;
}

/* The same for one query of w; where w has no causal offsets it sees the entries at positions up to its own. */
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

/* The slot at a place, or UINT32_MAX where the entry is masked. */
static inline uint32_t kvc_view_slot(const struct kvc_view *view, uint32_t place) {
    uint32_t rank = view->ranks ? view->ranks[place] : place, slot;
    if (rank >= view->visible)
        return UINT32_MAX;
    slot = kvc_list_slot(view->lists, view->head, rank);
    return kvc_list_position(view->lists, view->head, slot) < view->oldest ? UINT32_MAX : slot;
}

#endif
